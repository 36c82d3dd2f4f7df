//! Locks: what is asked of the lock service.

use std::sync::Arc;

use protocol::control::Response;
use protocol::locks::{LockRequest, Locks};

use super::Failure;
use crate::supervisor::Supervisor;

impl Supervisor {
    /// Does what was asked of the lock service.
    pub(super) async fn lock(self: &Arc<Self>, _request: LockRequest) -> Result<Response, Failure> {
        Ok(Response::Locks(Locks::default()))
    }
}
