//! Who may call the HTTP API: pure decisions about scopes, addresses, origins and rates.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// Where the API listens unless somebody says otherwise.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:8765";

/// What a token allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Looking only.
    Read,
    /// Everything.
    #[default]
    Control,
}

impl Scope {
    /// All of them, the smallest first.
    pub const ALL: [Self; 2] = [Self::Read, Self::Control];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Control => "control",
        }
    }

    /// Whether whoever has this may do what needs `needed`.
    #[must_use]
    pub fn allows(self, needed: Self) -> bool {
        self >= needed
    }
}

words!(Scope);

/// Under which names we are called, and from which pages.
///
/// A page of a stranger in the user's own browser can reach us under a name that the stranger
/// controls (DNS rebinding), or from its own origin. Neither name is one of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doors {
    /// Where we listen.
    pub address: SocketAddr,
    /// Callers speak TLS.
    pub tls: bool,
    /// Further names, each with or without a port.
    pub hosts: Vec<String>,
    /// Further origins, such as `https://board.example`.
    pub origins: Vec<String>,
}

impl Doors {
    /// Whether a `Host` header names us.
    #[must_use]
    pub fn is_ours(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let listed = |allowed: &String| {
            let allowed = allowed.to_ascii_lowercase();
            allowed == host || split_port(&host).is_some_and(|(name, _)| name == allowed)
        };
        if self.hosts.iter().any(listed) {
            return true;
        }
        let Some((name, port)) = split_port(&host) else { return false };
        let usual = if self.tls { 443 } else { 80 };
        if port.unwrap_or(usual) != self.address.port() {
            return false;
        }
        if name == "localhost" {
            return true;
        }
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip == self.address.ip())
    }

    /// Whether a page of this origin may call us.
    #[must_use]
    pub fn admits(&self, origin: &str) -> bool {
        if self.is_listed(origin) {
            return true;
        }
        let scheme = if self.tls { "https://" } else { "http://" };
        origin.strip_prefix(scheme).is_some_and(|host| self.is_ours(host))
    }

    /// Whether the user named this origin.
    #[must_use]
    pub fn is_listed(&self, origin: &str) -> bool {
        self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin))
    }
}

/// Name and port of an authority; none if it is none.
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

/// How often somebody may call: so many times a second, and two seconds' worth at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// When the calls so far would have been through at the allowed pace, in microseconds.
    until: u64,
}

/// How far ahead of the allowed pace one may be, in microseconds.
const BURST: u64 = 2_000_000;

impl Bucket {
    /// Takes note of a call at `now` (microseconds of any clock), at most `rate` a second; 0 is
    /// without bound.
    ///
    /// # Errors
    ///
    /// After how many microseconds to try again.
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

    fn doors() -> Doors {
        Doors {
            address: "127.0.0.1:8765".parse().unwrap(),
            tls: false,
            hosts: vec!["Box.example".to_owned(), "proxy.example:443".to_owned()],
            origins: vec!["https://board.example".to_owned()],
        }
    }

    #[test]
    fn only_our_own_names_are_answered() {
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
        for (host, ours) in cases {
            assert_eq!(doors().is_ours(host), ours, "{host:?}");
        }
    }

    #[test]
    fn a_page_may_call_only_from_our_own_origin_or_a_listed_one() {
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
        for (origin, admitted) in cases {
            assert_eq!(doors().admits(origin), admitted, "{origin:?}");
        }
    }

    #[test]
    fn who_calls_too_often_is_told_when_to_come_back() {
        let mut bucket = Bucket::default();
        let granted = (0..100).filter(|_| bucket.take(0, 10).is_ok()).count();

        assert_eq!(granted, 20, "two seconds' worth at once");
        assert_eq!(bucket.take(0, 10), Err(100_000));
        assert_eq!(bucket.take(100_000, 10), Ok(()));
        assert!((0..10_000).all(|_| bucket.take(0, 0).is_ok()), "0 is without bound");
    }

    #[test]
    fn who_may_control_may_read_and_not_the_other_way_round() {
        assert!(Scope::Control.allows(Scope::Read));
        assert!(!Scope::Read.allows(Scope::Control));
        for scope in Scope::ALL {
            assert_eq!(scope.to_string().parse(), Ok(scope));
        }
    }
}
