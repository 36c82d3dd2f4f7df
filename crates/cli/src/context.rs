//! The context of every command.

use std::path::PathBuf;

use model::Timestamp;
use protocol::ErrorBody;

use crate::environment::ClientEnv;
use crate::output::Output;

/// The context of every command. Built once by `main`.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// The client's environment.
    pub(crate) env: ClientEnv,
    /// The absolute path of the state root.
    pub(crate) home: PathBuf,
    /// The output for the user.
    pub(crate) out: Output,
}

impl Context {
    /// Returns the directory of the daemon's socket.
    pub(crate) fn run_dir(&self) -> PathBuf {
        self.home.join("run")
    }

    /// Returns the path of the running program.
    ///
    /// # Errors
    ///
    /// If the system does not provide it.
    pub(crate) fn exe(&self) -> Result<PathBuf, ErrorBody> {
        std::env::current_exe().map_err(|error| {
            let message = format!("cannot find the ccmux program file: {error}");
            ErrorBody::new(protocol::ErrorCode::Failed, message)
        })
    }
}

/// Returns the current time of the wall clock.
pub(crate) fn now() -> Timestamp {
    let since_epoch =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}
