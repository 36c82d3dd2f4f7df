//! Enums that are written as words in files and on the command line.

/// A word that is not one of the allowed values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown value {found:?}; expected one of {known}")]
pub struct UnknownWord {
    /// The word as written.
    pub found: String,
    /// The allowed words, separated by commas.
    pub known: String,
}

impl UnknownWord {
    pub(crate) fn new(found: &str, known: impl IntoIterator<Item = &'static str>) -> Self {
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        Self { found: found.to_owned(), known }
    }
}

/// Implements `Display` and `FromStr` for an enum that has `ALL` and `as_str`.
macro_rules! words {
    ($name:ident) => {
        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::words::UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let named = Self::ALL.into_iter().find(|word| word.as_str() == text);
                named.ok_or_else(|| Self::Err::new(text, Self::ALL.map(Self::as_str)))
            }
        }
    };
}
