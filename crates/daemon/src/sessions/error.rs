//! Errors of session operations.

use std::path::PathBuf;

use host::file::FileError;
use host::store::StoreError;
use host::template::TemplateError;
use model::name::InvalidName;
use model::{Name, SessionMode};

use crate::fault::{Advice, Description, Fault, FaultKind};
use crate::registry::TargetError;

/// The reason why a session was not created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("a legacy session uses the units and workflows of its project, not of a template")]
    LegacyTemplate,
    #[error(transparent)]
    Template(TemplateError),
    #[error("session not created: {0}")]
    NotCreated(TemplateError),
}

impl Fault for CreateError {
    fn describe(&self) -> Description {
        match self {
            Self::Store(error) => error.describe(),
            Self::LegacyTemplate => FaultKind::Invalid.advise(Advice::OmitTemplateOrMode),
            Self::Template(error) | Self::NotCreated(error) => error.describe(),
        }
    }
}

impl Fault for TemplateError {
    fn describe(&self) -> Description {
        match self {
            Self::NotFound(_) => FaultKind::NotFound.advise(Advice::ListTemplates),
            Self::Invalid { .. } => FaultKind::Invalid.advise(Advice::text(
                "a template has template.toml and at least one of unit, workflows and files; its \
                 links must not point outside of it",
            )),
            Self::Shipped(_) => FaultKind::Conflict
                .advise(Advice::text("add a template of the same name to override it")),
            Self::File(error) => error.describe(),
        }
    }
}

/// The reason why a new pane cannot join the session that the request names.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("session {session} is still being created")]
    Pending { session: String },
    #[error("session {session} is {is}, not {asked}")]
    OtherMode { session: String, is: SessionMode, asked: SessionMode },
    #[error("session {session} exists and was created without that template")]
    OtherTemplate { session: String },
    #[error("no session {session:?}, and it cannot be created: {why}")]
    InvalidName { session: String, why: InvalidName },
}

impl Fault for JoinError {
    fn describe(&self) -> Description {
        match self {
            Self::Store(error) => error.describe(),
            Self::Target(error) => error.describe(),
            Self::Pending { .. } => FaultKind::Conflict.advise(Advice::try_later()),
            Self::OtherMode { .. } => FaultKind::Conflict.advise(Advice::OmitMode),
            Self::OtherTemplate { .. } => FaultKind::Conflict.advise(Advice::OmitTemplate),
            Self::InvalidName { .. } => FaultKind::Invalid.plain(),
        }
    }
}

/// The reason why a session cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RepairError {
    #[error("the directory `{}` of session {session} is missing", dir.display())]
    Missing { session: Name, dir: PathBuf },
    #[error("session {session}: {source}")]
    File { session: Name, source: FileError },
}

impl Fault for RepairError {
    fn describe(&self) -> Description {
        match self {
            Self::Missing { session, .. } => {
                FaultKind::Conflict.advise(Advice::PurgeSession { session: session.to_string() })
            }
            Self::File { source, .. } => source.describe(),
        }
    }
}
