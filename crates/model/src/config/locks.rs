//! How agents keep out of each other's files (`[locks]`).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::config::UnknownWord;
use crate::lock::LockScope;

/// How agents keep out of each other's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocksConfig {
    /// Agents that can be hooked lock what they edit.
    pub hooks: bool,
    /// What makes two files the same to these hooks.
    pub worktrees: LockScope,
    /// Whether an agent may edit while nobody can be asked.
    pub when_away: WhenAway,
    /// How long a hook waits for a file that another pane has.
    pub wait: Duration,
}

impl Default for LocksConfig {
    fn default() -> Self {
        Self {
            hooks: true,
            worktrees: LockScope::Worktree,
            when_away: WhenAway::Allow,
            wait: Duration::ZERO,
        }
    }
}

/// What is done where the lock service cannot be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenAway {
    /// Go on: the work matters more.
    #[default]
    Allow,
    /// Stop: the file matters more.
    Deny,
}

impl WhenAway {
    /// All of them, in the order in which they are explained.
    pub const ALL: [Self; 2] = [Self::Allow, Self::Deny];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

impl fmt::Display for WhenAway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for WhenAway {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|word| word.as_str() == text);
        named.ok_or_else(|| UnknownWord::new(text, Self::ALL.map(Self::as_str)))
    }
}
