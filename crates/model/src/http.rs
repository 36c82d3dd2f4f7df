//! Access rules of the HTTP API: scopes, host names, origins and rates.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The default listen address.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:8765";

/// An address of the API: `ADDRESS:PORT`, or `unix:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A TCP port.
    Tcp(SocketAddr),
    /// The absolute path of a Unix socket.
    Unix(String),
}

/// A text that is not a listen address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is neither an address with a port, such as \"[::1]:8765\", nor \"unix:\" and an absolute path"
)]
pub struct InvalidListen(String);

impl FromStr for Listen {
    type Err = InvalidListen;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidListen(text.to_owned());
        match text.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') && !path.ends_with('/') => {
                Ok(Self::Unix(path.to_owned()))
            }
            Some(_) => Err(invalid()),
            None => text.parse().map(Self::Tcp).map_err(|_| invalid()),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{path}"),
        }
    }
}

/// The scope of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Read access.
    Read,
    /// Full access.
    #[default]
    Control,
}

impl Scope {
    /// All scopes, from the least to the most powerful.
    pub const ALL: [Self; 2] = [Self::Read, Self::Control];

    /// Returns the name used in files and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Control => "control",
        }
    }

    /// Returns true if this scope includes `needed`.
    #[must_use]
    pub fn allows(self, needed: Self) -> bool {
        self >= needed
    }
}

words!(Scope);

/// The host names and origins under which the API may be called.
///
/// A foreign page in the user's browser can reach the API through a host name that its author
/// controls (DNS rebinding), or from its own origin. Both are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPolicy {
    /// The address on which the server listens.
    pub address: Listen,
    /// Whether the server speaks TLS.
    pub tls: bool,
    /// Additional host names, each with or without a port.
    pub hosts: Vec<String>,
    /// Additional origins, such as `https://board.example`.
    pub origins: Vec<String>,
}

impl HostPolicy {
    /// Returns true if the value of a `Host` header is accepted.
    #[must_use]
    pub fn allows_host(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let listed = |allowed: &String| {
            let allowed = allowed.to_ascii_lowercase();
            allowed == host || split_port(&host).is_some_and(|(name, _)| name == allowed)
        };
        if self.hosts.iter().any(listed) {
            return true;
        }
        let Some((name, port)) = split_port(&host) else { return false };
        let Listen::Tcp(address) = &self.address else {
            // No DNS name leads to a Unix socket, and browsers do not connect to one.
            return name == "localhost";
        };
        let usual = if self.tls { 443 } else { 80 };
        if port.unwrap_or(usual) != address.port() {
            return false;
        }
        if name == "localhost" {
            return true;
        }
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip == address.ip())
    }

    /// Returns true if pages of this origin may call the API. A Unix socket has no origin.
    #[must_use]
    pub fn allows_origin(&self, origin: &str) -> bool {
        if self.is_listed_origin(origin) {
            return true;
        }
        if matches!(self.address, Listen::Unix(_)) {
            return false;
        }
        let scheme = if self.tls { "https://" } else { "http://" };
        origin.strip_prefix(scheme).is_some_and(|host| self.allows_host(host))
    }

    /// Returns true if the user listed this origin.
    #[must_use]
    pub fn is_listed_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin))
    }
}

/// Splits an authority into host name and port; none if it is malformed.
fn split_port(host: &str) -> Option<(&str, Option<u16>)> {
    let after_name = match host.strip_prefix('[') {
        Some(rest) => rest.find(']')? + 2,
        None => host.find(':').unwrap_or(host.len()),
    };
    let (name, rest) = host.split_at(after_name);
    match rest.strip_prefix(':') {
        None if rest.is_empty() && !name.is_empty() => Some((name, None)),
        Some(port) if !name.is_empty() => Some((name, Some(port.parse().ok()?))),
        None | Some(_) => None,
    }
}

/// A rate limiter that allows bursts of two seconds' worth of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// The time at which all calls so far would be done at the allowed rate, in microseconds.
    until: u64,
}

/// How far calls may be ahead of the allowed rate, in microseconds.
const BURST: u64 = 2_000_000;

impl Bucket {
    /// Counts a call at `now` (microseconds of any clock), with at most `rate` calls per second; 0
    /// means unlimited.
    ///
    /// # Errors
    ///
    /// The number of microseconds to wait before the next attempt.
    pub fn take(&mut self, now: u64, rate: u32) -> Result<(), u64> {
        let Some(step) = 1_000_000_u64.checked_div(rate.into()) else { return Ok(()) };
        let next = self.until.max(now) + step.max(1);
        if next > now + BURST {
            return Err(next - now - BURST);
        }
        self.until = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> HostPolicy {
        HostPolicy {
            address: "127.0.0.1:8765".parse().unwrap(),
            tls: false,
            hosts: vec!["Box.example".to_owned(), "proxy.example:443".to_owned()],
            origins: vec!["https://board.example".to_owned()],
        }
    }

    #[test]
    fn allows_host_accepts_only_local_and_listed_names() {
        let cases = [
            ("127.0.0.1:8765", true),
            ("localhost:8765", true),
            ("LOCALHOST:8765", true),
            ("127.0.0.2:8765", true),
            ("[::1]:8765", true),
            ("box.example", true),
            ("box.example:1234", true),
            ("proxy.example:443", true),
            ("proxy.example", false),
            ("localhost", false),
            ("localhost:80", false),
            ("localhost:", false),
            ("evil.example:8765", false),
            ("127.0.0.1.evil.example:8765", false),
            ("192.168.0.1:8765", false),
            ("[::1:8765", false),
            (":8765", false),
            ("", false),
        ];
        for (host, allowed) in cases {
            assert_eq!(policy().allows_host(host), allowed, "{host:?}");
        }
    }

    #[test]
    fn allows_origin_accepts_only_own_and_listed_origins() {
        let cases = [
            ("http://localhost:8765", true),
            ("http://127.0.0.1:8765", true),
            ("https://board.example", true),
            ("https://localhost:8765", false),
            ("http://localhost:3000", false),
            ("http://evil.example", false),
            ("null", false),
            ("", false),
        ];
        for (origin, allowed) in cases {
            assert_eq!(policy().allows_origin(origin), allowed, "{origin:?}");
        }
    }

    #[test]
    fn unix_socket_accepts_localhost_and_no_origin() {
        let policy = HostPolicy { address: Listen::Unix("/run/http.sock".to_owned()), ..policy() };

        assert!(policy.allows_host("localhost") && policy.allows_host("box.example"));
        assert!(!policy.allows_host("127.0.0.1:8765") && !policy.allows_host("evil.example"));
        assert!(policy.allows_origin("https://board.example"));
        assert!(!policy.allows_origin("http://localhost"));
    }

    #[test]
    fn listen_address_round_trips() {
        for text in ["127.0.0.1:8765", "[::1]:0", "unix:/run/user/1000/http.sock"] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
        for text in ["", "unix:", "unix:http.sock", "unix:/run/", "localhost:80", "8765"] {
            assert!(text.parse::<Listen>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn bucket_over_the_rate_returns_the_time_to_wait() {
        let mut bucket = Bucket::default();
        let granted = (0..100).filter(|_| bucket.take(0, 10).is_ok()).count();

        assert_eq!(granted, 20, "a burst of two seconds");
        assert_eq!(bucket.take(0, 10), Err(100_000));
        assert_eq!(bucket.take(100_000, 10), Ok(()));
        assert!((0..10_000).all(|_| bucket.take(0, 0).is_ok()), "0 means unlimited");
    }

    #[test]
    fn control_scope_includes_read() {
        assert!(Scope::Control.allows(Scope::Read));
        assert!(!Scope::Read.allows(Scope::Control));
        for scope in Scope::ALL {
            assert_eq!(scope.to_string().parse(), Ok(scope));
        }
    }
}
