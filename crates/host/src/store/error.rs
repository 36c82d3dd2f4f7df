//! Errors of the registry.

use std::path::PathBuf;
use std::sync::Arc;

use model::Name;

use crate::file::FileError;

/// Failure to read or change the registry. Nothing was changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Error of SQLite.
    #[error("registry: {0}")]
    Sqlite(Arc<rusqlite::Error>),
    /// Error of the operating system.
    #[error(transparent)]
    File(Arc<FileError>),
    /// The database was written by a newer release; rewriting it would lose data.
    #[error("`{}` has format {found}, this release reads up to {supported}", path.display())]
    TooNew {
        /// The database.
        path: PathBuf,
        /// Format number of the database.
        found: u32,
        /// The newest format that this release reads.
        supported: u32,
    },
    /// The database is damaged; it can be rebuilt from the directories.
    #[error("`{}` is damaged: {why}", path.display())]
    Damaged {
        /// The database.
        path: PathBuf,
        /// Description of the damage.
        why: String,
    },
    /// The database contains an invalid value.
    #[error("invalid value in the registry: {0}")]
    Invalid(String),
    /// Another session has this name.
    #[error("there is already a session named {name}")]
    SessionNameTaken {
        /// The name.
        name: Name,
        /// A similar name that no session has.
        free: Name,
    },
    /// Another pane has this name.
    #[error("there is already a pane named {name}")]
    PaneNameTaken {
        /// The name.
        name: Name,
        /// A similar name that is not taken.
        free: Name,
    },
    /// The writer of the registry has stopped.
    #[error("the registry is closed")]
    Closed,
    /// The session or pane no longer exists.
    #[error("no longer in the registry")]
    Gone,
}

impl StoreError {
    /// Returns whether the disk is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let full_database = self.sqlite_code() == Some(rusqlite::ErrorCode::DiskFull);
        full_database || matches!(self, Self::File(error) if error.is_full())
    }

    /// Returns whether another program keeps the database locked.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
        matches!(self.sqlite_code(), Some(DatabaseBusy | DatabaseLocked))
    }

    /// Returns whether the database file is damaged and has to be replaced.
    pub(crate) fn is_damage(&self) -> bool {
        use rusqlite::ErrorCode::{CannotOpen, DatabaseCorrupt, NotADatabase};
        let code = self.sqlite_code();
        matches!(self, Self::Damaged { .. } | Self::Invalid(_))
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
