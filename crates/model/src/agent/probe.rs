//! Whether a release of an agent takes its login from the store that a variable points to (B1).
//!
//! The variable is in no manual. So each release is asked once: with a made-up login in a store of
//! its own, and nothing else that could log it in, does it say that it is logged in? What came of it
//! is remembered under what the program is ([`Identity`]), so another release is asked again.

use serde::{Deserialize, Serialize};

/// How to ask.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// The arguments with which the agent says whether it is logged in.
    pub arguments: &'static [&'static str],
    /// A login that is none, as the agent would keep it in the store.
    pub credentials: &'static str,
    /// Further variables: nothing is to leave this machine.
    pub environment: &'static [(&'static str, &'static str)],
    /// What its exit code and its output say.
    pub verdict: fn(Option<i32>, &[u8]) -> Verdict,
    /// What the user can do where the variable means nothing.
    pub otherwise: &'static str,
}

/// What came of asking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// It takes its login from the store.
    Honoured,
    /// It does not know the variable.
    Ignored,
    /// It did not say.
    Unclear {
        /// What it did instead.
        why: String,
    },
}

impl Verdict {
    /// It did not say.
    #[must_use]
    pub fn unclear(why: impl Into<String>) -> Self {
        Self::Unclear { why: why.into() }
    }
}

/// Which program, of which release, by what can be seen without running it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The agent.
    pub agent: String,
    /// The program, with all links followed.
    pub path: String,
    /// Its length.
    pub size: u64,
    /// When it was last written, in seconds and nanoseconds.
    pub modified: (i64, i64),
    /// Its number on its disk.
    pub inode: u64,
}

/// A program of an agent, and what is known of it from running it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Which.
    pub identity: Identity,
    /// What it calls its release.
    pub version: Option<String>,
    /// Whether it takes its login from the store; none where it has no such store.
    pub verdict: Option<Verdict>,
}

impl Program {
    /// What people call it: the agent, with its release where that is known.
    #[must_use]
    pub fn title(&self) -> String {
        match &self.version {
            Some(version) => format!("{} {version}", self.identity.agent),
            None => self.identity.agent.clone(),
        }
    }
}

/// The number in what a program says about its release: the first word with a digit in front.
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
    fn a_release_is_read_from_whatever_a_program_says_about_it() {
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
