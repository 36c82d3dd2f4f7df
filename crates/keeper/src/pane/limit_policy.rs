//! Actions of the pane when a resource limit is approached or exceeded.

use std::time::Instant;

use model::limits::gauge::Level;
use model::limits::{LimitEvent, Limits, Policy, event};
use protocol::error::{ErrorBody, ErrorCode};
use protocol::pane::{Reply, Response};

use super::{GRACE_PERIOD, Pane, drain};
use crate::limits::Reading;

impl Pane {
    /// Applies the policy to the readings of a finished measurement.
    pub(super) fn handle_readings(&mut self, now: Instant) {
        drain(self.limits.wakeup());
        for Reading { resource, used, limit, level } in self.limits.take_readings(now) {
            match level {
                Level::Fine => {}
                Level::Near => self.limits.publish(&LimitEvent::Near { resource, used, limit }),
                Level::Over => {
                    let policy = self.limits.policy();
                    let why = event::over(resource, used, limit);
                    match policy {
                        Policy::Warn => {}
                        Policy::Freeze => {
                            self.processes.freeze();
                            self.limits.record_frozen(why);
                        }
                        Policy::Stop => {
                            self.stop_reason = Some(why);
                            self.stop(GRACE_PERIOD, now);
                        }
                    }
                    self.limits.publish(&LimitEvent::Over { resource, used, limit, policy });
                }
            }
        }
    }

    /// Changes the limits of the running pane.
    pub(super) fn set_limits(&mut self, limits: Limits, now: Instant) -> Reply {
        let members: Vec<u32> = self.processes.members().iter().map(|member| member.pid).collect();
        self.limits.change(limits, &members, now);
        Reply::Ok(Response::Limits(self.limits.view()))
    }

    /// Continues the frozen processes.
    pub(super) fn thaw(&mut self, now: Instant) -> Reply {
        if !self.limits.record_thawed(now) {
            return Reply::Error(ErrorBody::new(ErrorCode::Conflict, "the pane is not frozen"));
        }
        self.processes.thaw();
        self.limits.publish(&LimitEvent::Thawed);
        Reply::Ok(Response::Done)
    }
}
