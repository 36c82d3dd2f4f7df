//! Identifiers of sessions, panes, locks and messages.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Why a text is not an identifier.
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
            /// An id made from random bytes, which the caller draws: this crate has no source of
            /// chance of its own.
            #[must_use]
            pub fn from_random(bytes: [u8; 16]) -> Self {
                Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
            }

            /// The first eight digits, as people see them in names and listings.
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
                // The parser also takes braces, URNs and capitals; a path must have one spelling.
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
    /// Names one session for as long as its directory exists.
    SessionId
}

id! {
    /// Names one pane for as long as its record exists, through every restore.
    PaneId
}

id! {
    /// Names one lock for as long as it is held.
    LockId
}

id! {
    /// Names one message to one pane for as long as its session exists.
    MessageId
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_could_escape_a_directory_are_refused() {
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
