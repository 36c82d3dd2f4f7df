//! Words of files and of the command line that stand for the variants of an enum.

/// Reads and writes an enum by its words: it has `ALL` and `as_str`.
macro_rules! words {
    ($name:ident) => {
        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::config::UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let named = Self::ALL.into_iter().find(|word| word.as_str() == text);
                named.ok_or_else(|| Self::Err::new(text, Self::ALL.map(Self::as_str)))
            }
        }
    };
}
