//! What the pane does about its limits.

use std::time::Instant;

use model::limits::gauge::Level;
use model::limits::{LimitNews, Limits, Policy, news};
use protocol::error::{ErrorBody, ErrorCode};
use protocol::pane::{Reply, Response};

use super::{GRACE, Pane, drain};
use crate::limits::Reading;

impl Pane {
    /// A look at what the pane takes is over.
    pub(super) fn heed(&mut self, now: Instant) {
        drain(self.warden.bell());
        for Reading { resource, used, limit, level } in self.warden.hear(now) {
            match level {
                Level::Fine => {}
                Level::Near => self.warden.tell(&LimitNews::Near { resource, used, limit }),
                Level::Over => {
                    let policy = self.policy;
                    let why = news::over(resource, used, limit);
                    match policy {
                        Policy::Warn => {}
                        Policy::Freeze => {
                            self.tree.freeze();
                            self.warden.froze(why);
                        }
                        Policy::Stop => {
                            self.why = Some(why);
                            self.stop(GRACE, now);
                        }
                    }
                    self.warden.tell(&LimitNews::Over { resource, used, limit, policy });
                }
            }
        }
    }

    /// The pane may take this from now on.
    pub(super) fn set_limits(&mut self, limits: Limits, now: Instant) -> Reply {
        let members: Vec<u32> = self.tree.members().iter().map(|member| member.pid).collect();
        self.policy = limits.policy;
        self.warden.change(limits, &members, now);
        Reply::Ok(Response::Limits(self.warden.view()))
    }

    /// Lets the processes go on.
    pub(super) fn thaw(&mut self, now: Instant) -> Reply {
        if !self.warden.thawed(now) {
            return Reply::Error(ErrorBody::new(ErrorCode::Conflict, "the pane is not frozen"));
        }
        self.tree.thaw();
        self.warden.tell(&LimitNews::Thawed);
        Reply::Ok(Response::Done)
    }
}
