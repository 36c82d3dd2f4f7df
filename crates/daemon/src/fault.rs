//! Errors of operations, independent of the layer that reports them.
//!
//! Every error of an operation implements [`Fault`]: its kind, advice for the caller, and
//! machine-readable details. The control socket and HTTP translate these into exit codes, status
//! codes and hints.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use host::config::ConfigError;
use host::file::FileError;
use host::store::{Created, StoreError};
use model::IdempotencyKey;
use model::resolve::Candidate;
use model::team::Step;
use protocol::locks::LockRefusal;
use protocol::workspace::UnsavedWork;
use protocol::{ErrorBody, ErrorCode};

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The request is invalid, whatever the current state.
    Invalid,
    /// The request refers to something that does not exist.
    NotFound,
    /// The request conflicts with the current state.
    Conflict,
    /// The caller is not authorised.
    Denied,
    /// The idempotency key was used for another request.
    KeyReused,
    /// The program of a pane did not start.
    NotStarted,
    /// The operation timed out.
    TimedOut,
    /// The daemon is shutting down.
    Unavailable,
    /// The operation was attempted and failed.
    Failed,
}

/// A next step for the caller. Each layer has its own wording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Advice that reads the same in every layer.
    Text(Cow<'static, str>),
    ListSessions,
    ListTemplates,
    ListMessages,
    ListQueuedMessages,
    ListShared,
    /// Repeat the request with the id of one of these candidates.
    NameOneOf(Vec<Candidate>),
    StartPane {
        session: String,
    },
    StartAnyPane,
    Attach {
        pane: String,
    },
    AttachOrStop {
        pane: String,
    },
    StopPane,
    StopSessionThenMigrate {
        session: String,
    },
    ClosePane {
        pane: String,
    },
    ThawPane {
        pane: String,
    },
    MigrateSession {
        session: String,
    },
    PurgeSession {
        session: String,
    },
    ReadOutput {
        pane: String,
    },
    ReadScreen,
    /// Answer the question of the agent, or repeat the request with `force`.
    AnswerOrForce {
        pane: String,
    },
    ChooseDirectory,
    ChooseWorkspace,
    ChooseWorkspaceForMigration,
    OmitMode,
    OmitTemplate,
    OmitTemplateOrMode,
    NameSession,
    NameTeam,
    WaitForLock,
    ReplacePanes,
    RunDoctor,
    CheckConfig,
    /// Discard the unsaved work of a pane that `token` identifies; if it is running and its work
    /// keeps changing, stop it before.
    DiscardPane {
        pane: String,
        cwd: String,
        token: String,
        running: bool,
    },
    /// The same for the panes of a session.
    DiscardSession {
        session: String,
        tokens: Vec<String>,
        running: bool,
    },
}

impl Advice {
    pub(crate) fn text(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn free_disk_space() -> Self {
        Self::text("free space on the disk")
    }

    pub(crate) fn try_later() -> Self {
        Self::text("try again later")
    }
}

/// Machine-readable details of a failure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Details {
    Lock(LockRefusal),
    UnsavedWork(UnsavedWork),
    NotStarted {
        why: String,
    },
    KeyReused {
        key: IdempotencyKey,
        created: Created,
    },
    TeamPlan(Vec<Step>),
    /// Details that another process reported.
    Remote(serde_json::Value),
}

/// Everything a layer needs to report a failure, except the message.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    pub(crate) kind: FaultKind,
    pub(crate) advice: Option<Advice>,
    pub(crate) details: Option<Details>,
}

impl Description {
    pub(crate) fn with_details(self, details: Details) -> Self {
        Self { details: Some(details), ..self }
    }
}

impl FaultKind {
    /// Describes a failure without advice.
    pub(crate) fn plain(self) -> Description {
        Description { kind: self, advice: None, details: None }
    }

    /// Describes a failure with advice.
    pub(crate) fn advise(self, advice: impl Into<Option<Advice>>) -> Description {
        Description { advice: advice.into(), ..self.plain() }
    }
}

/// An error of an operation. Its `Display` is the message.
pub(crate) trait Fault: Error + Send + Sync + 'static {
    fn describe(&self) -> Description;
}

/// A boxed [`Fault`], for layers that handle the errors of all operations alike.
pub(crate) struct Failure(Box<dyn Fault>);

impl Failure {
    pub(crate) fn fault(&self) -> &dyn Fault {
        &*self.0
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl<E: Fault> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl<E: Fault> Fault for Box<E> {
    fn describe(&self) -> Description {
        E::describe(self)
    }
}

/// An error that another process reported.
impl Fault for ErrorBody {
    fn describe(&self) -> Description {
        let kind = match self.code {
            ErrorCode::Failed | ErrorCode::Unknown => FaultKind::Failed,
            ErrorCode::Usage => FaultKind::Invalid,
            ErrorCode::NotFound => FaultKind::NotFound,
            ErrorCode::Conflict => FaultKind::Conflict,
            ErrorCode::TimedOut => FaultKind::TimedOut,
            ErrorCode::Unreachable => FaultKind::Unavailable,
        };
        let details = self.details.clone().map(Details::Remote);
        Description { details, ..kind.advise(self.hint.clone().map(Advice::text)) }
    }
}

impl Fault for ConfigError {
    fn describe(&self) -> Description {
        FaultKind::Invalid.advise(Advice::CheckConfig)
    }
}

impl Fault for FileError {
    fn describe(&self) -> Description {
        FaultKind::Failed.advise(self.is_full().then(Advice::free_disk_space))
    }
}

impl Fault for StoreError {
    fn describe(&self) -> Description {
        match self {
            Self::SessionNameTaken { free, .. } | Self::PaneNameTaken { free, .. } => {
                let text = format!("choose another name, such as {free}");
                FaultKind::Conflict.advise(Advice::text(text))
            }
            Self::Gone => FaultKind::NotFound.advise(Advice::ListSessions),
            Self::Sqlite(_)
            | Self::File(_)
            | Self::TooNew { .. }
            | Self::Damaged { .. }
            | Self::Invalid(_)
            | Self::Closed => {
                FaultKind::Failed.advise(self.is_full().then(Advice::free_disk_space))
            }
        }
    }
}

/// The error of a request that was waiting when the daemon began to shut down.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the daemon is shutting down")]
pub(crate) struct ShuttingDown;

impl Fault for ShuttingDown {
    fn describe(&self) -> Description {
        FaultKind::Unavailable.advise(Advice::text("repeat the request; a new daemon answers it"))
    }
}

/// A daemon task panicked or was aborted.
#[derive(Debug, thiserror::Error)]
#[error("{what} failed: {why}")]
pub(crate) struct TaskFailed {
    pub(crate) what: &'static str,
    pub(crate) why: String,
}

impl Fault for TaskFailed {
    fn describe(&self) -> Description {
        FaultKind::Failed.plain()
    }
}

/// Declares an error enum whose variants each wrap another [`Fault`].
macro_rules! any_of {
    ($(#[$doc:meta])* $vis:vis enum $name:ident { $($variant:ident($inner:ty)),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, thiserror::Error)]
        $vis enum $name {
            $(#[error(transparent)] $variant(#[from] $inner)),*
        }

        impl $crate::fault::Fault for $name {
            fn describe(&self) -> $crate::fault::Description {
                match self {
                    $(Self::$variant(error) => $crate::fault::Fault::describe(error)),*
                }
            }
        }
    };
}

pub(crate) use any_of;
