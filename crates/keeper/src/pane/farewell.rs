//! The end of a pane: what is still to be read, shown and put on record.

use std::path::Path;
use std::time::{Duration, Instant};

use host::file::Survive;
use host::{clock, hooks, record};
use model::{Ending, EndingReason};
use protocol::frame::{Frame, Kind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Pane, complain};
use crate::client::{Client, Role};
use crate::pty::Got;
use crate::tree;

/// How long clients may take to get the last picture.
const FAREWELL: Duration = Duration::from_millis(300);

impl Pane {
    /// The last bytes, the last picture, the record of the end, in that order.
    pub(super) fn finish(mut self) {
        self.pty.release();
        let until = Instant::now() + FAREWELL;
        while Instant::now() < until && self.read_pane(Instant::now()) != Got::End {
            self.wait_for_pane(until);
        }
        self.terminal.settle();
        let snapshot = self.terminal.snapshot();
        self.log.snapshot(&snapshot);
        self.warden.leave();
        let ending = self.ending();
        hooks::point("keeper.ending");
        if let Err(error) = record::write(Path::new("exit.json"), &ending, Survive::PowerLoss) {
            complain(&error.to_string());
        }
        self.take_leave(&ending, until);
    }

    fn wait_for_pane(&self, until: Instant) {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
        // Nothing to do about a failed wait but to look again.
        let _ready = poll(&mut [PollFd::new(&self.pty, PollFlags::IN)], Some(&timeout));
    }

    fn ending(&self) -> Ending {
        let (code, signal) = self.tree.head_ended().map_or((None, None), tree::code_and_signal);
        let reason = if self.stopped { EndingReason::Stopped } else { EndingReason::Exited };
        let mut ending = Ending::of(code, signal, reason, clock::now());
        let killed = || self.warden.why_killed().filter(|_| signal == Some(9) && !self.stopped);
        ending.detail = self.why.clone().or_else(killed);
        ending
    }

    /// Shows every client the last picture and tells it that this was the last.
    fn take_leave(&mut self, ending: &Ending, until: Instant) {
        let end = self.log.end();
        let behind = |pane: &Self| pane.clients.iter().any(|client| client.is_behind(end));
        while behind(self) && Instant::now() < until {
            self.wait();
            self.show(Instant::now());
        }
        for client in &mut self.clients {
            // The terminal is the client's again: what follows is for it to clear up.
            client.role = Role::Asking;
            client.send(&Frame::json(Kind::Ended, ending));
            client.leaving = true;
        }
        while !self.clients.is_empty() && Instant::now() < until {
            self.show(Instant::now());
            if self.clients.iter().any(Client::wants_socket) {
                self.wait();
            }
        }
    }
}
