//! What every verb is given: where, for whom, and how to speak.

use std::path::PathBuf;

use model::Timestamp;
use protocol::ErrorBody;

use crate::environment::ClientEnv;
use crate::output::Output;

/// What every verb is given. Built once by `main`.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// The client's environment.
    pub(crate) env: ClientEnv,
    /// The state root, absolute.
    pub(crate) home: PathBuf,
    /// How to speak to the user.
    pub(crate) out: Output,
}

impl Context {
    /// Where the daemon's socket lies.
    pub(crate) fn run_dir(&self) -> PathBuf {
        self.home.join("run")
    }

    /// This very program, to be started again.
    ///
    /// # Errors
    ///
    /// If the system will not say.
    pub(crate) fn exe(&self) -> Result<PathBuf, ErrorBody> {
        std::env::current_exe().map_err(|error| {
            let message = format!("cannot find the program file of ccmux itself: {error}");
            ErrorBody::new(protocol::ErrorCode::Failed, message)
        })
    }
}

/// Now, by the wall clock.
pub(crate) fn now() -> Timestamp {
    let since_epoch =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}
