//! Locking of files that agents edit (`[locks]`).

use std::time::Duration;

use crate::lock::LockScope;

/// Locking of files that agents edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocksConfig {
    /// Whether agents that support hooks lock the files they edit.
    pub hooks: bool,
    /// Whether the hooks identify a file by repository or by work tree.
    pub worktrees: LockScope,
    /// Whether an agent may edit while the lock service is unavailable.
    pub when_away: WhenAway,
    /// How long a hook waits for a file that another pane has locked.
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

/// The decision about an edit while the lock service is unavailable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenAway {
    /// Allow the edit: progress is more important.
    #[default]
    Allow,
    /// Deny the edit: the file is more important.
    Deny,
}

impl WhenAway {
    /// All values, in the order in which they are documented.
    pub const ALL: [Self; 2] = [Self::Allow, Self::Deny];

    /// Returns the name used in files and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

words!(WhenAway);
