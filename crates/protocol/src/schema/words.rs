//! Enumerations of words.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The kind of a workspace.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Workspace)]
pub enum WorkspaceKind {
    /// Chosen from the program and the directory.
    Auto,
    /// A git worktree on its own branch.
    Worktree,
    /// A git clone.
    Clone,
    /// A copy of the directory.
    Copy,
    /// The directory itself.
    Shared,
    /// An empty directory.
    Empty,
}

/// How an agent is isolated from the user's configuration.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Isolation)]
pub enum IsolationMethod {
    /// Its own configuration directory.
    ConfigDir,
    /// Its own home directory.
    Home,
    /// No isolation.
    None,
}

/// Whether the panes of a session have their own directories.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SessionMode)]
pub enum SessionMode {
    /// Each pane has its own directories.
    Isolated,
    /// The panes work in the directories they were started in.
    Legacy,
}

/// The status of a session.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SessionStatus)]
pub enum SessionStatus {
    /// The session or its first process is being created.
    Starting,
    /// At least one process is running.
    Running,
    /// No process is running; all data is kept.
    Stopped,
    /// The session's directory does not exist.
    Missing,
    /// The session's metadata is unreadable or inconsistent.
    Damaged,
}

/// The access claimed by a lock.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = LockMode)]
pub enum LockMode {
    /// Other owners may read.
    Read,
    /// No other owner may write.
    Write,
    /// No other owner may read or write.
    Exclusive,
}

/// Which paths a lock treats as the same file.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = LockScope)]
pub enum LockScope {
    /// The same path in every worktree of a repository.
    Repository,
    /// The path on disk only.
    Worktree,
}

/// The state of a pane.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = PaneState)]
pub enum PaneState {
    /// No process is running yet.
    Starting,
    /// The process is running.
    Running,
    /// The processes are suspended because a limit was exceeded.
    Frozen,
    /// The process is being stopped.
    Stopping,
    /// The process has ended.
    Exited,
    /// The keeper was killed.
    Lost,
}

/// The delivery state of a message.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = MessageState)]
pub enum MessageState {
    /// Waiting until the recipient can accept it.
    Queued,
    /// About to be typed.
    Typing,
    /// Accepted by the terminal, not yet confirmed by the agent.
    Sent,
    /// It is unknown whether it was typed.
    Unsure,
    /// Received by the recipient.
    Delivered,
    /// The recipient has finished the turn it started.
    Answered,
    /// Could not be delivered.
    Failed,
}

/// Why a pane's process ended.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = EndingReason)]
pub enum EndingReason {
    /// The process exited.
    Exited,
    /// The process was stopped on request.
    Stopped,
    /// The process could not be started; `detail` gives the reason.
    NotStarted,
    /// The keeper was killed, and the exit status is unknown.
    Lost,
}

/// A resource that can be limited.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Resource)]
pub enum Resource {
    /// Bytes on disk.
    Disk,
    /// Bytes of memory.
    Memory,
    /// Concurrent processes.
    Processes,
    /// CPU weight.
    Cpu,
    /// Open files per process.
    Files,
}

/// The action taken when a limit is exceeded.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = LimitPolicy)]
pub enum LimitPolicy {
    /// Suspend the processes.
    Freeze,
    /// Stop the processes.
    Stop,
    /// Report it only.
    Warn,
}

/// The mechanism that enforces a limit.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = LimitMechanism)]
pub enum LimitMechanism {
    /// A control group, version 1.
    GroupV1,
    /// A control group, version 2.
    GroupV2,
    /// A limit per process.
    Process,
    /// A limit per process, and measurement of the whole pane.
    ProcessAndMeasured,
    /// Measurement of the whole pane.
    Measured,
    /// The scheduling priority of each process.
    Priority,
    /// Not limited.
    None,
}

/// The result of a file conflict between panes.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ConflictOutcome)]
pub enum ConflictOutcome {
    /// The access was refused; the file is unchanged.
    Refused,
    /// The file was changed without its lock.
    Changed,
    /// The unlocked file was changed shortly after another pane had changed it.
    ChangedToo,
}

/// How the pane that wanted or changed a file was identified.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ConflictEvidence)]
pub enum ConflictEvidence {
    /// The agent's hook requested the access.
    Asked,
    /// The kernel reported the process.
    Kernel,
    /// A process of the pane had the file open for writing.
    OpenFile,
    /// The pane was not identified.
    Nothing,
}

/// The severity of a finding.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Severity)]
pub enum Severity {
    /// Isolation or data is lost or at risk.
    Error,
    /// Action is recommended.
    Warning,
    /// Informational.
    Info,
}

/// The permissions of a token of the HTTP API.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = TokenScope)]
pub enum TokenScope {
    /// Reading only.
    Read,
    /// Reading and changing.
    Control,
}
