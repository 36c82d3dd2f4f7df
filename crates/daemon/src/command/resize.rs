//! Giving a pane another size.

use std::time::Duration;

use model::Size;
use protocol::control::Response;

use super::Failure;
use super::send::unusable;
use crate::keeper::{self, Silent};
use crate::supervisor::Supervisor;

/// How long a keeper may take.
const PATIENCE: Duration = Duration::from_secs(5);

impl Supervisor {
    pub(super) async fn resize(&self, target: &str, size: Size) -> Result<Response, Failure> {
        let row = self.rows().await?.find_pane(target)?;
        let (pane, _) = self.live_pane(&row)?;
        match keeper::resize(&pane.dir, size, PATIENCE).await {
            Ok(size) => Ok(Response::Resized(size)),
            Err(Silent::Answer(body)) => Err(body.into()),
            // It may have ended since it was looked at.
            Err(silent) => match self.live_pane(&row) {
                Ok(_) => Err(unusable(&row.name, &silent.to_string()).into()),
                Err(ended) => Err(ended.into()),
            },
        }
    }
}
