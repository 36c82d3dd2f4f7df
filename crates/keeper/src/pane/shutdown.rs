//! The end of a pane: reading the last output, showing it, and recording the result.

use std::path::Path;
use std::time::{Duration, Instant};

use host::file::Durability;
use host::{clock, hooks, record};
use model::{Ending, EndingReason};
use protocol::frame::{Frame, Kind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Pane, drain};
use crate::client::{Client, Role};
use crate::event_log;
use crate::process_tree;
use crate::pty::PtyRead;

/// Time limit for reading the last output and sending it to the clients.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(300);

impl Pane {
    /// Reads the last output, records the end of the pane, and closes the clients, in that order.
    pub(super) fn finish(mut self) {
        self.pty.close_slave();
        let until = Instant::now() + DRAIN_TIMEOUT;
        while Instant::now() < until && self.read_pane(Instant::now()) != PtyRead::End {
            self.wait_for_pane(until);
        }
        self.terminal.flush();
        let snapshot = self.terminal.snapshot();
        self.log.snapshot(&snapshot);
        self.limits.remove_groups();
        let ending = self.ending();
        hooks::point("keeper.ending");
        if let Err(error) = record::write(Path::new("exit.json"), &ending, Durability::PowerLoss) {
            event_log::report("exit record not written", &[("error", &error)]);
        }
        self.close_clients(&ending, until);
    }

    fn wait_for_pane(&self, until: Instant) {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
        // After a failed poll the caller reads again, which is harmless.
        let _ready = poll(&mut [PollFd::new(&self.pty, PollFlags::IN)], Some(&timeout));
    }

    fn ending(&self) -> Ending {
        let status = self.processes.head_status();
        let (code, signal) = status.map_or((None, None), process_tree::code_and_signal);
        let reason = if self.stopped { EndingReason::Stopped } else { EndingReason::Exited };
        let mut ending = Ending::of(code, signal, reason, clock::now());
        let killed = || self.limits.out_of_memory().filter(|_| signal == Some(9) && !self.stopped);
        ending.detail = self.stop_reason.clone().or_else(killed);
        // The program may have been terminated together with the keeper, and have exited first.
        let both_terminated = !self.stopped && signal.is_some() && drain(&self.signals.terminate);
        ending.interrupted = self.terminated || both_terminated;
        ending
    }

    /// Sends every client the last output and the end of the pane, and closes its connection.
    fn close_clients(&mut self, ending: &Ending, until: Instant) {
        let end = self.log.end();
        let behind = |pane: &Self| pane.clients.iter().any(|client| client.is_behind(end));
        while behind(self) && Instant::now() < until {
            self.wait();
            self.update_clients(Instant::now());
        }
        for client in &mut self.clients {
            // The client restores its terminal itself.
            client.role = Role::Detached;
            client.send(&Frame::json(Kind::Ended, ending));
            client.closing = true;
        }
        while !self.clients.is_empty() && Instant::now() < until {
            self.update_clients(Instant::now());
            if self.clients.iter().any(Client::wants_write) {
                self.wait();
            }
        }
    }
}
