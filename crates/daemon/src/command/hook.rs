//! What agents tell by their hooks: that they are about to edit a file, and that they are done.

use std::sync::Arc;

use protocol::control::Response;
use protocol::hooks::{HookAnswer, HookRequest};

use super::Failure;
use crate::supervisor::Supervisor;

impl Supervisor {
    /// Whether an agent may go ahead.
    pub(super) async fn hook(self: &Arc<Self>, request: HookRequest) -> Result<Response, Failure> {
        let _pane = self.pane(request.pane);
        Ok(Response::Hook(HookAnswer::default()))
    }
}
