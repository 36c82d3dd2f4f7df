//! How agents keep out of each other's files (`[locks]`).

use std::time::Duration;

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

words!(WhenAway);
