//! `locks/active-locks.json`: the current locks as a JSON file, for scripts.
//!
//! The file is derived from the lock table and never read by ccmux. It is written shortly after
//! each change; requests do not wait for it.

use std::sync::Arc;
use std::time::Duration;

use host::clock;
use host::file::{self, Durability};
use serde_json::json;
use tracing::warn;

use crate::coordination::Coordination;
use crate::runtime::run_blocking;

const FILE_NAME: &str = "active-locks.json";

/// Changes within this time are written together.
const WRITE_INTERVAL: Duration = Duration::from_millis(200);

impl Coordination {
    /// Keeps the file, and the set of watched paths, up to date until the daemon ends.
    pub(crate) async fn keep_lock_snapshot(self: Arc<Self>) {
        loop {
            self.write_lock_snapshot().await;
            tokio::select! {
                () = self.locks.changed() => {}
                () = self.runtime.ending.cancelled() => return,
            }
            tokio::select! {
                () = tokio::time::sleep(WRITE_INTERVAL) => {}
                () = self.runtime.ending.cancelled() => {}
            }
        }
    }

    async fn write_lock_snapshot(&self) {
        let locks = match self.all_locks().await {
            Ok(locks) => locks,
            Err(error) => return warn!(%error, "lock snapshot not written"),
        };
        self.watch_locked_paths(&locks).await;
        let snapshot = json!({ "format": 1, "written": clock::now(), "locks": locks });
        let path = self.runtime.root.locks().join(FILE_NAME);
        run_blocking(move || {
            let text = format!("{snapshot:#}\n");
            if let Err(error) = file::write_atomic(&path, text.as_bytes(), Durability::ProcessCrash)
            {
                warn!(%error, "lock snapshot not written");
            }
        })
        .await;
    }
}
