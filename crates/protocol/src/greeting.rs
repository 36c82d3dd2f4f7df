//! The first words on every connection.
//!
//! These messages never change their form: new fields may be added, and readers ignore those they
//! do not know. So an old client that meets a new daemon, or a new daemon that meets an old
//! keeper, either finds a version both speak or can say why not.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The protocol versions that this release speaks.
pub const SPOKEN: Versions = Versions { min: 1, max: 1 };

/// A range of protocol versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The oldest.
    pub min: u32,
    /// The newest.
    pub max: u32,
}

/// What a client says first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// What it speaks.
    pub protocol: Versions,
    /// Its release.
    pub version: String,
}

/// What a server answers when both can talk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The version to be used from now on.
    pub protocol: u32,
    /// The server's release.
    pub version: String,
    /// The server's process.
    pub pid: u32,
}

/// What a server answers when they cannot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What the server speaks.
    pub protocol: Versions,
    /// The server's release.
    pub version: String,
    /// Why, for people.
    pub message: String,
}

impl Versions {
    /// The newest version in both ranges.
    #[must_use]
    pub fn common(self, other: Self) -> Option<u32> {
        let newest = self.max.min(other.max);
        (newest >= self.min.max(other.min)).then_some(newest)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            write!(f, "{}", self.max)
        } else {
            write!(f, "{} to {}", self.min, self.max)
        }
    }
}

impl Hello {
    /// The greeting of this release.
    #[must_use]
    pub fn ours() -> Self {
        Self { protocol: SPOKEN, version: env!("CARGO_PKG_VERSION").to_owned() }
    }

    /// The server's answer to it; `pid` is the server's own, `server` is what it calls itself.
    ///
    /// # Errors
    ///
    /// The refusal to send, when there is no version that both speak.
    pub fn answer(&self, pid: u32, server: &str) -> Result<Welcome, Refusal> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        match SPOKEN.common(self.protocol) {
            Some(protocol) => Ok(Welcome { protocol, version, pid }),
            None => Err(Refusal {
                protocol: SPOKEN,
                message: format!(
                    "this {server} is ccmux {version} and speaks protocol {SPOKEN}; ccmux {} \
                     speaks {}",
                    self.version, self.protocol
                ),
                version,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_that_both_speak_is_used() {
        let versions = |min, max| Versions { min, max };
        let table = [
            (versions(1, 3), versions(2, 5), Some(3)),
            (versions(2, 5), versions(1, 3), Some(3)),
            (versions(1, 1), versions(1, 1), Some(1)),
            (versions(1, 1), versions(2, 9), None),
            (versions(7, 9), versions(1, 6), None),
        ];
        for (ours, theirs, expected) in table {
            assert_eq!(ours.common(theirs), expected, "{ours} and {theirs}");
        }
    }

    #[test]
    fn a_client_from_the_future_is_told_what_is_spoken_here() {
        let hello = Hello { protocol: Versions { min: 90, max: 99 }, version: "9.0.0".to_owned() };

        let refusal = hello.answer(1, "daemon").unwrap_err();

        assert_eq!(refusal.protocol, SPOKEN);
        assert!(refusal.message.contains("9.0.0 speaks 90 to 99"), "{}", refusal.message);
    }
}
