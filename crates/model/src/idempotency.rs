//! Idempotency keys, with which a request that creates something can be retried (B7).
//!
//! A client that got no answer cannot know whether its request was carried out. If it repeats the
//! request with the same key, it gets the answer to the first one.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The key that a client gives to a request and all its retries.
///
/// # Invariant
///
/// 1 to 128 printable ASCII characters, so that it fits into an HTTP header and into a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IdempotencyKey(String);

/// A text that is not a valid idempotency key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// Empty or too long.
    #[error("an idempotency key has 1 to 128 characters, this one has {0}")]
    Length(usize),
    /// A character that cannot be in an HTTP header or a line.
    #[error("an idempotency key has printable ASCII characters only, not {found:?}")]
    Character {
        /// The first invalid character.
        found: char,
    },
}

impl IdempotencyKey {
    /// The maximum number of characters.
    pub const MAX: usize = 128;

    /// Returns the key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for IdempotencyKey {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let length = text.chars().count();
        if !(1..=Self::MAX).contains(&length) {
            return Err(InvalidKey::Length(length));
        }
        match text.chars().find(|c| !matches!(c, ' '..='~')) {
            Some(found) => Err(InvalidKey::Character { found }),
            None => Ok(Self(text.to_owned())),
        }
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl TryFrom<String> for IdempotencyKey {
    type Error = InvalidKey;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<IdempotencyKey> for String {
    fn from(key: IdempotencyKey) -> Self {
        key.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idempotency_key_is_short_printable_ascii() {
        let longest = "x".repeat(IdempotencyKey::MAX);
        let cases = [
            ("a", None),
            ("run 7/2026 {\"x\"}", None),
            (longest.as_str(), None),
            ("", Some(InvalidKey::Length(0))),
            ("a\nb", Some(InvalidKey::Character { found: '\n' })),
            ("é", Some(InvalidKey::Character { found: 'é' })),
            ("\u{7f}", Some(InvalidKey::Character { found: '\u{7f}' })),
        ];
        for (text, refused) in cases {
            assert_eq!(text.parse::<IdempotencyKey>().err(), refused, "{text:?}");
        }
        let longer = format!("{longest}x");
        assert_eq!(longer.parse::<IdempotencyKey>(), Err(InvalidKey::Length(129)));
    }
}
