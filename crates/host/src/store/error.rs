//! What can go wrong with the registry.

use std::path::PathBuf;
use std::sync::Arc;

use model::Name;

use crate::file::FileError;

/// Why the registry cannot be read or changed. Nothing was changed then.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The database refused something.
    #[error("the registry refused: {0}")]
    Sqlite(Arc<rusqlite::Error>),
    /// The operating system refused something.
    #[error(transparent)]
    File(Arc<FileError>),
    /// A newer release wrote the database; rewriting it would lose what it added.
    #[error("`{}` has format {found}, this release reads up to {supported}", path.display())]
    TooNew {
        /// The database.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The newest format that this release knows.
        supported: u32,
    },
    /// The database is not what was written; it can be rebuilt from the directories.
    #[error("`{}` is damaged: {why}", path.display())]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A value in the database has no meaning.
    #[error("the registry has {0}")]
    Meaningless(String),
    /// Another session has this name.
    #[error("there is already a session named {0}")]
    SessionNameTaken(Name),
    /// Another pane of the session has this name.
    #[error("there is already a pane named {0} in this session")]
    PaneNameTaken(Name),
    /// Whoever writes the registry has stopped.
    #[error("the registry is closed")]
    Closed,
    /// What was to be changed is no longer there.
    #[error("it is no longer in the registry")]
    Gone,
}

impl StoreError {
    /// Whether there is no room left to write to.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let full_database = self.sqlite_code() == Some(rusqlite::ErrorCode::DiskFull);
        full_database || matches!(self, Self::File(error) if error.is_full())
    }

    /// Whether the file itself is at fault, so that only another one can help.
    pub(crate) fn is_damage(&self) -> bool {
        use rusqlite::ErrorCode::{CannotOpen, DatabaseCorrupt, NotADatabase};
        let code = self.sqlite_code();
        matches!(self, Self::Damaged { .. } | Self::Meaningless(_))
            || matches!(code, Some(CannotOpen | DatabaseCorrupt | NotADatabase))
    }

    fn sqlite_code(&self) -> Option<rusqlite::ErrorCode> {
        let Self::Sqlite(error) = self else { return None };
        error.sqlite_error_code()
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(Arc::new(error))
    }
}

impl From<FileError> for StoreError {
    fn from(error: FileError) -> Self {
        Self::File(Arc::new(error))
    }
}
