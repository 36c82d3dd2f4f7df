//! Typing into a pane.

use std::time::Duration;

use model::Name;
use protocol::control::Response;
use protocol::look::Typing;
use protocol::pane::Request as KeeperRequest;
use protocol::{ErrorBody, ErrorCode};

use super::Failure;
use crate::keeper::{self, Silent};
use crate::supervisor::Supervisor;

impl Supervisor {
    pub(super) async fn send(
        &self,
        target: &str,
        typing: Typing,
        timeout_ms: u64,
    ) -> Result<Response, Failure> {
        let row = self.rows().await?.find_pane(target)?;
        let (pane, sight) = self.live_pane(&row)?;
        if let Some(why) = sight.keeper.as_ref().and_then(|keeper| keeper.incompatible()) {
            return Err(unusable(&row.name, &why).into());
        }
        let patience = Duration::from_millis(timeout_ms);
        match keeper::ask(&pane.dir, &KeeperRequest::Type(typing), patience).await {
            Ok(_) => {
                self.note_change(row.id);
                Ok(Response::Done)
            }
            Err(Silent::TimedOut(_)) => Err(ErrorBody::new(
                ErrorCode::TimedOut,
                format!("the program in pane {} does not read its input", row.name),
            )
            .hint("part of it may have arrived; look with `ccmux read --screen`")
            .into()),
            Err(Silent::Answer(body)) => Err(body.into()),
            // It may have ended since it was looked at.
            Err(silent) => match self.live_pane(&row) {
                Ok(_) => Err(unusable(&row.name, &silent.to_string()).into()),
                Err(ended) => Err(ended.into()),
            },
        }
    }
}

/// A pane that lives but cannot be talked to.
pub(super) fn unusable(name: &Name, why: &str) -> ErrorBody {
    ErrorBody::new(ErrorCode::Failed, format!("pane {name} cannot be used: {why}"))
        .hint("it can be ended with `ccmux stop`")
}
