//! `locks/active-locks.json`: what is locked, as a JSON file, for scripts.
//!
//! Derived, and never read back. It is written soon after every change, once for all the changes
//! that come together, and nobody waits for it.

use std::sync::Arc;
use std::time::Duration;

use host::clock;
use host::file::{self, Survive};
use serde_json::json;
use tracing::warn;

use crate::supervisor::{Supervisor, run_blocking};

const NAME: &str = "active-locks.json";

/// Changes that come within this time share one writing.
const TOGETHER: Duration = Duration::from_millis(200);

impl Supervisor {
    /// Keeps the file up to date.
    pub(crate) async fn keep_lock_snapshot(self: Arc<Self>) {
        loop {
            self.write_lock_snapshot().await;
            tokio::select! {
                () = self.locks.changed() => {}
                () = self.ending.cancelled() => return,
            }
            tokio::select! {
                () = tokio::time::sleep(TOGETHER) => {}
                () = self.ending.cancelled() => {}
            }
        }
    }

    async fn write_lock_snapshot(&self) {
        let locks = match self.all_locks().await {
            Ok(locks) => locks,
            Err(error) => return warn!(%error, "the file of locks is out of date"),
        };
        self.watch_held(&locks).await;
        let file = json!({ "format": 1, "written": clock::now(), "locks": locks });
        let path = self.root.locks().join(NAME);
        run_blocking(move || {
            if let Err(error) =
                file::write_atomic(&path, format!("{file:#}\n").as_bytes(), Survive::Kill)
            {
                warn!(%error, "the file of locks is out of date");
            }
        })
        .await;
    }
}
