//! Version negotiation: the first frames of every connection.
//!
//! The client sends [`Hello`] with the range of protocol versions it supports. The server picks the
//! newest version in both ranges and replies with [`Welcome`], or replies with [`Refusal`] and
//! closes the connection.
//!
//! # Compatibility
//!
//! Client and server may come from different releases: an agent's hook may be older than the
//! daemon, and a keeper is older than the daemon after every upgrade. These rules let each of them
//! understand the other's reply:
//!
//! - The three messages keep their frame kinds and field names in every release. Fields may be
//!   added; readers ignore unknown fields and treat missing new fields as absent.
//! - Within one protocol version, requests and replies only gain fields and variants. A server
//!   replies to an unknown request with an error of code `usage` and keeps the connection open.
//!   A client sends a new kind of frame only if the negotiated version includes it.
//! - A change that an older peer would misread increments [`SUPPORTED`]`.max`. `min` increases only
//!   when support for the older version is removed.
//! - A refusal carries the reason as text, so that a client of any release can show it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The protocol versions supported by this release.
pub const SUPPORTED: Versions = Versions { min: 1, max: 1 };

/// An inclusive range of protocol versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The oldest version.
    pub min: u32,
    /// The newest version.
    pub max: u32,
}

/// The first message of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The versions the client supports.
    pub protocol: Versions,
    /// The client's release.
    pub version: String,
}

/// The server's reply if a common version exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The version used on this connection.
    pub protocol: u32,
    /// The server's release.
    pub version: String,
    /// The server's process id.
    pub pid: u32,
}

/// The server's reply if no common version exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The versions the server supports.
    pub protocol: Versions,
    /// The server's release.
    pub version: String,
    /// The reason, as text for the user.
    pub message: String,
}

impl Versions {
    /// Returns the newest version in both ranges.
    #[must_use]
    pub fn common(self, other: Self) -> Option<u32> {
        let newest = self.max.min(other.max);
        (newest >= self.min.max(other.min)).then_some(newest)
    }

    /// Returns whether the range includes `version`.
    #[must_use]
    pub fn contains(self, version: u32) -> bool {
        (self.min..=self.max).contains(&version)
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
    /// Creates the hello of this release.
    #[must_use]
    pub fn current() -> Self {
        Self { protocol: SUPPORTED, version: env!("CARGO_PKG_VERSION").to_owned() }
    }

    /// Returns the server's reply. `pid` is the server's process id, `server` its role for
    /// messages ("daemon" or "keeper").
    ///
    /// # Errors
    ///
    /// The refusal to send, if no common version exists.
    pub fn answer(&self, pid: u32, server: &str) -> Result<Welcome, Refusal> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        match SUPPORTED.common(self.protocol) {
            Some(protocol) => Ok(Welcome { protocol, version, pid }),
            None => Err(Refusal {
                protocol: SUPPORTED,
                message: format!(
                    "this {server} is ccmux {version} and supports protocol {SUPPORTED}; the \
                     client is ccmux {} and supports {}",
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
    fn negotiation_picks_newest_common_version() {
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
    fn newer_client_is_refused_with_supported_versions() {
        let hello = Hello { protocol: Versions { min: 90, max: 99 }, version: "9.0.0".to_owned() };

        let refusal = hello.answer(1, "daemon").unwrap_err();

        assert_eq!(refusal.protocol, SUPPORTED);
        assert!(
            refusal.message.contains("ccmux 9.0.0 and supports 90 to 99"),
            "{}",
            refusal.message
        );
    }

    /// Byte-for-byte the messages of the first release, which every later release must accept.
    #[test]
    fn messages_of_first_release_are_accepted() {
        let hello: Hello =
            serde_json::from_str(r#"{"protocol":{"min":1,"max":1},"version":"0.1.0"}"#).unwrap();
        let welcome: Welcome =
            serde_json::from_str(r#"{"protocol":1,"version":"0.1.0","pid":7}"#).unwrap();
        let refusal: Refusal = serde_json::from_str(
            r#"{"protocol":{"min":1,"max":1},"version":"0.1.0","message":"why"}"#,
        )
        .unwrap();

        assert_eq!(hello.answer(7, "daemon").unwrap().protocol, 1);
        assert_eq!((welcome.protocol, welcome.pid), (1, 7));
        assert_eq!(refusal.message, "why");
    }

    #[test]
    fn unknown_fields_of_newer_release_are_ignored() {
        let hello: Hello = serde_json::from_str(
            r#"{"protocol":{"min":1,"max":4},"version":"2.0.0","features":["x"]}"#,
        )
        .unwrap();

        assert_eq!(hello.answer(1, "keeper").unwrap().protocol, SUPPORTED.max);
    }
}
