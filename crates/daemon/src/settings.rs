//! The user's configuration, as it is now.

use std::sync::Arc;

use model::agent::BUILT_IN;
use model::config::Config;
use protocol::{ErrorBody, ErrorCode};

use crate::supervisor::{Supervisor, run_blocking};

impl Supervisor {
    /// The user's configuration. It is read each time: a change counts from the next pane on, and
    /// nobody has to be told of it.
    ///
    /// # Errors
    ///
    /// What is wrong with the file, with line and column.
    pub(crate) async fn config(&self) -> Result<Arc<Config>, ErrorBody> {
        let root = self.root.clone();
        let loaded = run_blocking(move || host::config::load(&root, &BUILT_IN)).await;
        loaded.map(|loaded| Arc::new(loaded.config)).map_err(|error| {
            ErrorBody::new(ErrorCode::Usage, error.to_string())
                .hint("correct the file; `ccmux config --check` looks at it again")
        })
    }
}
