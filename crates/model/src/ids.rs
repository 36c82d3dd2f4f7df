//! Identifiers of sessions, panes, locks and messages.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A text that is not a valid id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a UUID in its lower-case, hyphenated form")]
pub struct InvalidId(pub String);

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// # Invariant
        ///
        /// The text is a UUID, lower case and hyphenated: always a single path component, never
        /// an option, and the same text for the same id. Code that builds paths or argument lists
        /// from it need not check again. [`FromStr`] is the only way in.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Uuid);

        impl $name {
            /// Makes an id from random bytes. The caller supplies them, because this crate does no
            /// I/O.
            #[must_use]
            pub fn from_random(bytes: [u8; 16]) -> Self {
                Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
            }

            /// Returns the first eight digits, which names and listings show.
            #[must_use]
            pub fn short(&self) -> String {
                let mut text = self.to_string();
                text.truncate(8);
                text
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let invalid = || InvalidId(text.to_owned());
                let id = Self(Uuid::try_parse(text).map_err(|_| invalid())?);
                // The parser also accepts braces, URNs and upper case; paths need one spelling.
                if id.to_string() == text { Ok(id) } else { Err(invalid()) }
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }
    };
}

id! {
    /// The id of a session, valid as long as its directory exists.
    SessionId
}

id! {
    /// The id of a pane, valid as long as its record exists; it does not change on restore.
    PaneId
}

id! {
    /// The id of a lock, valid as long as the lock is held.
    LockId
}

id! {
    /// The id of a message to one pane, valid as long as its session exists.
    MessageId
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_rejects_other_spellings_and_paths() {
        let good = "550e8400-e29b-41d4-a716-446655440000";
        let bad = [
            "",
            "..",
            "-rf",
            "550e8400e29b41d4a716446655440000",
            "550E8400-E29B-41D4-A716-446655440000",
            "{550e8400-e29b-41d4-a716-446655440000}",
            "550e8400-e29b-41d4-a716-446655440000/",
            "550e8400-e29b-41d4-a716-44665544000\n",
        ];

        assert_eq!(good.parse::<PaneId>().unwrap().to_string(), good);
        for text in bad {
            assert_eq!(text.parse::<PaneId>(), Err(InvalidId(text.to_owned())), "input: {text:?}");
        }
    }
}
