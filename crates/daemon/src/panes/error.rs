//! Errors of pane operations.

use std::path::PathBuf;

use host::config::ConfigError;
use host::file::FileError;
use host::git::GitError;
use host::store::StoreError;
use host::workspace::WorkspaceError;
use model::launch::LaunchError;
use model::workspace::WorkspaceRefused;
use model::{ConversationId, Ending, EndingReason, Name, PaneId};
use protocol::ErrorBody;

use crate::fault::{Advice, Description, Details, Fault, FaultKind, TaskFailed};
use crate::sessions::error::CreateError;
use crate::wire::keeper::KeeperError;

/// A conversation that another live pane has open.
#[derive(Debug, thiserror::Error)]
#[error("conversation {conversation} is open in pane {name} ({})", pane.short())]
pub(crate) struct ConversationOpen {
    pub(crate) conversation: ConversationId,
    pub(crate) pane: PaneId,
    pub(crate) name: String,
}

impl Fault for ConversationOpen {
    fn describe(&self) -> Description {
        FaultKind::Conflict.advise(Advice::AttachOrStop { pane: self.name.clone() })
    }
}

/// The reason why a launch request cannot be planned.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("cannot start in the directory `{cwd}`: {why}")]
    Directory { cwd: String, why: String },
    #[error(transparent)]
    Workspace(#[from] WorkspaceRefused),
    #[error("cannot carry the uncommitted changes of `{dir}`: {why}")]
    Carry { dir: String, why: String },
    #[error("the path `{}` is not valid UTF-8", .0.display())]
    PathNotUtf8(PathBuf),
    #[error("the workspace cannot be planned: {0}")]
    Git(#[from] GitError),
}

impl Fault for PlanError {
    fn describe(&self) -> Description {
        match self {
            Self::Launch(error) => error.describe(),
            Self::Directory { .. } => FaultKind::Invalid.advise(Advice::ChooseDirectory),
            Self::Workspace(_) => FaultKind::Conflict.advise(Advice::ChooseWorkspace),
            Self::Carry { .. } => FaultKind::Conflict.advise(Advice::text(
                "finish or abort it first, or start without carrying changes",
            )),
            Self::PathNotUtf8(_) => FaultKind::Invalid.plain(),
            Self::Git(_) => FaultKind::Failed.plain(),
        }
    }
}

impl Fault for LaunchError {
    fn describe(&self) -> Description {
        match self {
            Self::NoPorts(_) => FaultKind::Conflict.advise(Advice::text(
                "widen the range in [ports] of ccmux.toml, set count = 0 there, or close panes",
            )),
            Self::Role(_) => FaultKind::Invalid.advise(Advice::text(
                "define the role in [roles.NAME] of ccmux.toml, or choose another role",
            )),
            Self::Variable(_)
            | Self::EmptyCommand
            | Self::NulInCommand
            | Self::RelativeCwd(_)
            | Self::Agent(_) => FaultKind::Invalid.plain(),
        }
    }
}

/// The reason why a planned pane was not started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Conversation(#[from] ConversationOpen),
    #[error("pane not started: {0}")]
    Session(Box<CreateError>),
    #[error("pane not started: {0}")]
    File(#[from] FileError),
    #[error("pane not started: its workspace cannot be created: {0}")]
    Workspace(#[from] WorkspaceError),
    #[error("pane not started: the setup of `{}` failed: {why}", file.display())]
    Setup { file: PathBuf, why: String },
    #[error("pane not started: {0}")]
    NotStarted(String),
}

impl Fault for StartError {
    fn describe(&self) -> Description {
        match self {
            Self::Store(error) => error.describe(),
            Self::Conversation(error) => error.describe(),
            Self::Session(error) => error.describe(),
            Self::File(error) => error.describe(),
            Self::Workspace(error) => {
                FaultKind::Failed.advise(error.is_full().then(Advice::free_disk_space))
            }
            Self::Setup { .. } => FaultKind::Failed.plain(),
            Self::NotStarted(why) => FaultKind::NotStarted
                .advise(Advice::text(
                    "check that the program exists and is on the PATH of the pane",
                ))
                .with_details(Details::NotStarted { why: why.clone() }),
        }
    }
}

/// The reason why an ended pane was not restored. The pane is unchanged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RestoreError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("no such pane or session")]
    Gone,
    #[error("pane {0} is running")]
    Running(Name),
    #[error("pane {0} cannot be restored: its launch record is lost")]
    RecordLost(Name),
    #[error(transparent)]
    Plan(#[from] LaunchError),
    #[error("the conversation of pane {pane} cannot be resumed: {why}")]
    ConversationLost { pane: Name, why: String },
    #[error(transparent)]
    Isolation(FileError),
    #[error("pane {pane} cannot be restored: `{dir}` is missing")]
    DirectoryMissing { pane: Name, dir: String },
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Task(#[from] TaskFailed),
}

impl Fault for RestoreError {
    fn describe(&self) -> Description {
        match self {
            Self::Config(error) => error.describe(),
            Self::Gone => FaultKind::NotFound.advise(Advice::ListSessions),
            Self::Running(pane) => {
                FaultKind::Conflict.advise(Advice::Attach { pane: pane.to_string() })
            }
            Self::RecordLost(_) => FaultKind::Failed
                .advise(Advice::text("start a new pane; the output of this one is kept")),
            Self::Plan(error) => error.describe(),
            Self::ConversationLost { .. } => FaultKind::Conflict.advise(Advice::text(
                "the pane keeps the conversation id; look for the transcript in the trash, or set \
                 resume_fallback = \"fresh\" or \"shell\" in ccmux.toml to start without it",
            )),
            Self::Isolation(_) => FaultKind::Conflict.advise(Advice::RunDoctor),
            Self::DirectoryMissing { .. } => FaultKind::Conflict.advise(Advice::text(
                "restore the directory (removed directories are in the trash), or close the pane \
                 and start a new one",
            )),
            Self::Start(error) => error.describe(),
            Self::Task(error) => error.describe(),
        }
    }
}

/// The reason why a pane was not stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StopError {
    #[error("pane {0} is still starting")]
    Starting(String),
    #[error("pane {0} could not be stopped")]
    NotEnded(String),
    #[error(transparent)]
    Task(#[from] TaskFailed),
}

impl Fault for StopError {
    fn describe(&self) -> Description {
        match self {
            Self::Starting(_) => FaultKind::Conflict.advise(Advice::try_later()),
            Self::NotEnded(_) => FaultKind::Failed.plain(),
            Self::Task(error) => error.describe(),
        }
    }
}

/// A pane that is not live, for an operation that requires a live one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotLive {
    #[error("pane {0} no longer exists")]
    Gone(Name),
    #[error("{}", ended_text(name, ending.as_ref()))]
    Ended { pane: PaneId, name: Name, ending: Option<Ending> },
}

impl Fault for NotLive {
    fn describe(&self) -> Description {
        match self {
            Self::Gone(_) => FaultKind::NotFound.advise(Advice::ListSessions),
            Self::Ended { pane, .. } => {
                FaultKind::Conflict.advise(Advice::ReadOutput { pane: pane.short() })
            }
        }
    }
}

/// Describes how a pane ended.
pub(crate) fn ended_text(name: &Name, ending: Option<&Ending>) -> String {
    match ending {
        None => format!("pane {name} is lost"),
        Some(ending) => match ending.reason {
            EndingReason::Lost => format!("pane {name} is lost"),
            EndingReason::NotStarted => format!("pane {name} was {ending}"),
            EndingReason::Exited | EndingReason::Stopped => format!("pane {name} has {ending}"),
        },
    }
}

/// A failed request to the keeper of a live pane.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeeperFault {
    #[error("pane {name} cannot be used: {why}")]
    Unusable { name: Name, why: String },
    #[error(transparent)]
    Remote(ErrorBody),
    #[error(transparent)]
    NotLive(#[from] NotLive),
    #[error(transparent)]
    NoAnswer(KeeperError),
}

impl Fault for KeeperFault {
    fn describe(&self) -> Description {
        match self {
            Self::Unusable { .. } => FaultKind::Failed.advise(Advice::StopPane),
            Self::Remote(body) => body.describe(),
            Self::NotLive(error) => error.describe(),
            Self::NoAnswer(_) => FaultKind::Failed.plain(),
        }
    }
}
