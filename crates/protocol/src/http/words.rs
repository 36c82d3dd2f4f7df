//! Words that callers read and write, for the description of the API alone: `model` knows nothing of
//! descriptions.

use utoipa::ToSchema;

/// Words for trees to work in.
#[derive(ToSchema)]
#[schema(as = Workspace, rename_all = "snake_case")]
pub enum WorkspaceWord {
    /// A work tree in a git repository, a copy elsewhere.
    Auto,
    /// A git work tree on a branch of its own.
    Worktree,
    /// A clone.
    Clone,
    /// A copy.
    Copy,
    /// The directory itself.
    Shared,
    /// An empty directory.
    Empty,
}

/// Words for how agents are kept apart.
#[derive(ToSchema)]
#[schema(as = Isolation, rename_all = "snake_case")]
pub enum IsolationWord {
    /// A configuration directory of its own.
    ConfigDir,
    /// A home of its own.
    Home,
    /// Not at all.
    None,
}

/// Words for whose directories a session works in.
#[derive(ToSchema)]
#[schema(as = SessionMode, rename_all = "snake_case")]
pub enum ModeWord {
    /// Directories of its own.
    Isolated,
    /// The directories that its panes were started in.
    Legacy,
}

/// Words for how a session is.
#[derive(ToSchema)]
#[schema(as = SessionStatus, rename_all = "snake_case")]
pub enum StatusWord {
    /// It is being made, or its first processes are.
    Starting,
    /// A process of it lives.
    Running,
    /// None does; everything of it is kept.
    Stopped,
    /// Its directory is not there.
    Missing,
    /// Its directory is there, and what it says about itself cannot be believed.
    Damaged,
}

/// Words for how much a lock claims.
#[derive(ToSchema)]
#[schema(as = LockMode, rename_all = "snake_case")]
pub enum LockModeWord {
    /// Others may read.
    Read,
    /// Nobody else may write.
    Write,
    /// Nobody else may touch it.
    Exclusive,
}

/// Words for what makes two paths the same to a lock.
#[derive(ToSchema)]
#[schema(as = LockScope, rename_all = "snake_case")]
pub enum LockScopeWord {
    /// The path within the repository.
    Repository,
    /// The path on the disk.
    Worktree,
}

/// Words for where a pane is in its life.
#[derive(ToSchema)]
#[schema(as = PaneState, rename_all = "snake_case")]
pub enum StateWord {
    /// No process runs yet.
    Starting,
    /// The process is alive.
    Running,
    /// It is alive and stands still, because the pane took more than it may.
    Frozen,
    /// It is being ended.
    Stopping,
    /// It has ended.
    Exited,
    /// Its keeper was killed.
    Lost,
}

/// Words for how far a message has come.
#[derive(ToSchema)]
#[schema(as = MessageState, rename_all = "snake_case")]
pub enum MessageStateWord {
    /// It waits until the receiver can take it.
    Queued,
    /// It is about to be typed.
    Typing,
    /// The terminal took it; the agent has not confirmed it yet.
    Sent,
    /// Whether it was typed is not known.
    Unsure,
    /// The receiver has it.
    Delivered,
    /// The receiver has ended the turn that it began.
    Answered,
    /// It could not be delivered.
    Failed,
}
