//! Probes whether a release of an agent reads its login from the store that a variable points to
//! (B1).
//!
//! The variable is undocumented, so each release is probed once: with a fake login in a temporary
//! store and no other credentials, does it report to be logged in? The result is cached by
//! [`Identity`], so that another release is probed again.

use serde::{Deserialize, Serialize};

/// The description of a probe.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// The arguments with which the agent reports whether it is logged in.
    pub arguments: &'static [&'static str],
    /// The contents of the store with a fake login.
    pub credentials: &'static str,
    /// Additional variables, which prevent network access.
    pub environment: &'static [(&'static str, &'static str)],
    /// Evaluates the exit code and the output.
    pub verdict: fn(Option<i32>, &[u8]) -> Verdict,
    /// The hint for the user if the variable is not supported.
    pub otherwise: &'static str,
}

/// The result of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// The agent reads its login from the store.
    Honoured,
    /// The agent ignores the variable.
    Ignored,
    /// The result is inconclusive.
    Unclear {
        /// The reason.
        why: String,
    },
}

impl Verdict {
    /// Makes an inconclusive result.
    #[must_use]
    pub fn unclear(why: impl Into<String>) -> Self {
        Self::Unclear { why: why.into() }
    }
}

/// The identity of a program file, as visible without running it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The agent.
    pub agent: String,
    /// The path of the program, with links resolved.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its modification time, in seconds and nanoseconds.
    pub modified: (i64, i64),
    /// Its inode number.
    pub inode: u64,
}

/// The program of an agent and the results of running it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its identity.
    pub identity: Identity,
    /// The version that it reports.
    pub version: Option<String>,
    /// Whether it reads its login from the store; none if it has no such store.
    pub verdict: Option<Verdict>,
}

impl Program {
    /// Returns the name of the agent with its version, if known.
    #[must_use]
    pub fn title(&self) -> String {
        match &self.version {
            Some(version) => format!("{} {version}", self.identity.agent),
            None => self.identity.agent.clone(),
        }
    }
}

/// Extracts the version from the output of a program: the first word that starts with a digit.
#[must_use]
pub fn version_in(said: &str) -> Option<String> {
    let words = said.lines().next()?.split_whitespace();
    let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    let word = words.map(|word| word.trim_start_matches('v')).find(is_number)?;
    let legal = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
    Some(word.chars().take_while(|c| legal(*c)).take(40).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_in_finds_the_first_number() {
        let cases = [
            ("2.1.325 (Claude Code)\n", Some("2.1.325")),
            ("codex-cli 0.166.0\n", Some("0.166.0")),
            ("v1.18.33", Some("1.18.33")),
            ("0.61.0\x1b[2J\n", Some("0.61.0")),
            ("unknown option", None),
            ("", None),
        ];
        for (said, version) in cases {
            assert_eq!(version_in(said).as_deref(), version, "{said:?}");
        }
    }
}
