//! The thread of the lock service: takes messages, changes the table, stores the changes, replies.

use std::collections::{HashMap, VecDeque};
use std::os::fd::AsFd as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use host::lock_store::{LockStore, OpenedLockStore};
use host::store::StoreError;
use host::{clock, process};
use model::ProcessIdentity;
use model::lock::table::{Ask, LockOutcome, Now, Table, TableChange, Ticket};
use model::lock::{Held, Moment, Owner, Token};
use tokio_util::sync::DropGuard;
use tracing::{error, info, warn};

use super::{AcquireError, Finish, Granted, Locks, Message, Reply, TaskContext};
use crate::panes::pane::process_ended;

/// Maximum number of messages in one transaction.
const MAX_BATCH: usize = 256;

/// Number of watched processes above which those without locks are unwatched. Most processes
/// request locks again.
const IDLE_PROCESSES: usize = 64;

pub(super) struct Worker {
    table: Table,
    store: LockStore,
    /// Changes that are not stored yet.
    unstored: Vec<TableChange>,
    inbox: Receiver<Message>,
    /// Messages of the worker to itself, handled before the inbox.
    own_messages: VecDeque<Message>,
    waiting: HashMap<Ticket, (u64, Reply)>,
    /// Processes outside all panes. Dropping the guard ends the task that watches the process.
    processes: HashMap<ProcessIdentity, DropGuard>,
    handle: Locks,
    context: TaskContext,
}

/// A reply that is sent when the changes are stored.
enum PendingReply {
    Granted(Reply, Granted),
    Refused(Reply, AcquireError),
    Finish(Finish),
}

impl Worker {
    pub(super) fn new(
        opened: OpenedLockStore,
        boot: &str,
        inbox: Receiver<Message>,
        handle: Locks,
        context: TaskContext,
    ) -> Self {
        let mut worker = Self {
            table: Table::after(opened.last_token),
            store: opened.store,
            unstored: Vec::new(),
            inbox,
            own_messages: VecDeque::new(),
            waiting: HashMap::new(),
            processes: HashMap::new(),
            handle,
            context,
        };
        for held in opened.held {
            worker.restore(held, boot);
        }
        worker
    }

    /// Restores a stored lock unless its owner has ended.
    fn restore(&mut self, held: Held, boot: &str) {
        let may_live = held.owner.process.boot == boot
            && (held.owner.pane.is_some() || self.watch(&held.owner.process));
        if may_live {
            self.table.restore(held);
        } else {
            info!(path = held.path.shown, pane = ?held.owner.pane, "lock of ended owner dropped");
            self.unstored.push(TableChange::Drop(held.token));
        }
    }

    pub(super) fn run(mut self) {
        loop {
            let Ok(first) = self.wait_next() else { return };
            let now = now();
            let mut replies = Vec::new();
            let mut close = None;
            let mut next = first;
            let mut handled = 0;
            while let Some(message) = next {
                if let Message::Close(done) = message {
                    close = Some(done);
                    break;
                }
                self.handle(message, now, &mut replies);
                handled += 1;
                next = if handled < MAX_BATCH { self.try_next() } else { None };
            }
            self.expire_leases(now);
            self.serve_waiting(now, &mut replies);
            self.store_and_reply(replies);
            self.unwatch_idle_processes();
            if let Some(done) = close {
                drop(self);
                // The caller may have stopped waiting.
                let _dropped = done.send(());
                return;
            }
        }
    }

    /// Waits for a message; returns none when a lease or deadline expires first, and an error when
    /// all handles are dropped.
    fn wait_next(&mut self) -> Result<Option<Message>, ()> {
        if let Some(message) = self.own_messages.pop_front() {
            return Ok(Some(message));
        }
        let Some(due) = self.table.next_due() else {
            return self.inbox.recv().map(Some).map_err(drop);
        };
        let Moment(now) = clock::moment();
        match self.inbox.recv_timeout(Duration::from_millis(due.0.saturating_sub(now))) {
            Ok(message) => Ok(Some(message)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(()),
        }
    }

    fn try_next(&mut self) -> Option<Message> {
        self.own_messages.pop_front().or_else(|| self.inbox.try_recv().ok())
    }

    fn handle(&mut self, message: Message, now: Now, replies: &mut Vec<PendingReply>) {
        match message {
            Message::Acquire { number, ask, reply } => {
                replies.extend(self.acquire(number, ask, reply, now));
            }
            Message::Cancel(number) => {
                let found = self.waiting.iter().find(|(_, (other, _))| *other == number);
                if let Some(ticket) = found.map(|(ticket, _)| *ticket) {
                    self.waiting.remove(&ticket);
                    self.table.cancel(ticket);
                }
            }
            Message::Release(tokens) => {
                self.table.release_all(|held| tokens.contains(&held.token));
            }
            Message::ProcessEnded(process) => {
                self.processes.remove(&process);
                self.remove_owner(&Owner { pane: None, process }, replies);
            }
            Message::Apply(work) => {
                replies.push(PendingReply::Finish(work(&mut self.table, now)));
            }
            Message::Close(_) => unreachable!("`run` handles it"),
        }
    }

    /// Requests locks from the table; returns none if the request waits.
    fn acquire(&mut self, number: u64, ask: Ask, reply: Reply, now: Now) -> Option<PendingReply> {
        if ask.owner.pane.is_none() && !self.watch(&ask.owner.process) {
            return Some(PendingReply::Refused(reply, AcquireError::OwnerEnded));
        }
        let last_token = self.table.last_token();
        let refused = match self.table.acquire(ask, now) {
            LockOutcome::Granted(locks) => {
                return Some(PendingReply::Granted(reply, granted(locks, last_token)));
            }
            LockOutcome::Waits(ticket) => {
                self.waiting.insert(ticket, (number, reply));
                return None;
            }
            LockOutcome::Conflict(holders) => AcquireError::Conflict(holders),
            LockOutcome::Deadlock(cycle) => AcquireError::Deadlock(cycle),
        };
        Some(PendingReply::Refused(reply, refused))
    }

    /// Releases the locks of an owner that has ended and refuses its waiting requests.
    fn remove_owner(&mut self, owner: &Owner, replies: &mut Vec<PendingReply>) {
        for ticket in self.table.forget(owner) {
            if let Some((_, reply)) = self.waiting.remove(&ticket) {
                replies.push(PendingReply::Refused(reply, AcquireError::OwnerEnded));
            }
        }
        self.table.release_all(|held| held.owner.is(owner));
    }

    /// Renews or releases the locks whose lease has expired.
    fn expire_leases(&mut self, now: Now) {
        for held in self.table.due(now) {
            let failed = if held.lease.automatic && !process::is_stopped(&held.owner.process) {
                self.table.renew(held.id, None, now).is_err()
            } else {
                info!(
                    path = held.path.shown, token = %held.token, pane = ?held.owner.pane,
                    "lease expired"
                );
                self.table.release(held.id, None).is_err()
            };
            debug_assert!(!failed, "the table has just returned this lock");
        }
    }

    /// Replies to the waiting requests that are granted, timed out, or removed.
    fn serve_waiting(&mut self, now: Now, replies: &mut Vec<PendingReply>) {
        let last_token = self.table.last_token();
        for (ticket, locks) in self.table.serve(now) {
            if let Some((_, reply)) = self.waiting.remove(&ticket) {
                replies.push(PendingReply::Granted(reply, granted(locks, last_token)));
            }
        }
        for (ticket, holders) in self.table.give_up(now) {
            if let Some((_, reply)) = self.waiting.remove(&ticket) {
                replies.push(PendingReply::Refused(reply, AcquireError::TimedOut(holders)));
            }
        }
        // `Locks::pane_ended` removes requests from the table only.
        let table = &self.table;
        if self.waiting.len() != table.waiting().count() {
            let is_removed = |ticket: Ticket| !table.waiting().any(|(other, _)| other == ticket);
            let removed = self.waiting.extract_if(|ticket, _| is_removed(*ticket));
            replies.extend(
                removed
                    .map(|(_, (_, reply))| PendingReply::Refused(reply, AcquireError::OwnerEnded)),
            );
        }
    }

    /// Stores the changes, then sends all replies.
    fn store_and_reply(&mut self, replies: Vec<PendingReply>) {
        self.unstored.extend(self.table.take_changes());
        let has_changed = !self.unstored.is_empty();
        let stored = if has_changed { self.store.write(&self.unstored) } else { Ok(()) };
        match &stored {
            Ok(()) => self.unstored.clear(),
            Err(error) => {
                error!(%error, "lock store write failed");
                // The locks are not granted, so only releases have to be stored later.
                self.unstored.retain(|change| matches!(change, TableChange::Drop(_)));
            }
        }
        for reply in replies {
            self.send(reply, stored.clone());
        }
        if has_changed {
            self.handle.changed.notify_one();
        }
    }

    fn send(&mut self, reply: PendingReply, stored: Result<(), StoreError>) {
        match (reply, stored) {
            (PendingReply::Finish(finish), stored) => finish(stored),
            (PendingReply::Refused(reply, refused), _) => {
                // The caller may have stopped waiting.
                let _dropped = reply.send(Err(refused));
            }
            (PendingReply::Granted(reply, granted), Err(error)) => {
                self.own_messages.push_back(Message::Release(granted.new_tokens));
                let _dropped = reply.send(Err(AcquireError::Store(error)));
            }
            (PendingReply::Granted(reply, granted), Ok(())) => {
                if let Err(Ok(granted)) = reply.send(Ok(granted)) {
                    self.own_messages.push_back(Message::Release(granted.new_tokens));
                }
            }
        }
    }

    /// Watches a process; false if it has ended.
    fn watch(&mut self, process: &ProcessIdentity) -> bool {
        if self.processes.contains_key(process) {
            return true;
        }
        let Some(pidfd) = process::open(process) else { return false };
        let (stop, handle) = (self.context.ending.child_token(), self.handle.clone());
        self.processes.insert(process.clone(), stop.clone().drop_guard());
        let process = process.clone();
        let watching = async move {
            tokio::select! {
                ended = process_ended(pidfd.as_fd()) => match ended {
                    Ok(()) => handle.send(Message::ProcessEnded(process)),
                    // Its leases expire, and the next daemon drops its locks.
                    Err(error) => warn!(%error, pid = process.pid, "lock owner not watched"),
                },
                () = stop.cancelled() => {}
            }
        };
        self.context.tasks.spawn_on(watching, &self.context.runtime);
        true
    }

    /// Unwatches processes without locks when many are watched.
    fn unwatch_idle_processes(&mut self) {
        if self.processes.len() <= IDLE_PROCESSES {
            return;
        }
        let table = &self.table;
        self.processes
            .retain(|process, _| table.concerns(&Owner { pane: None, process: process.clone() }));
    }
}

/// Makes the reply for granted locks; tokens after `last_token` are new to the owner.
fn granted(locks: Vec<Held>, last_token: Token) -> Granted {
    let tokens = locks.iter().map(|held| held.token);
    let new_tokens = tokens.filter(|token| *token > last_token).collect();
    Granted { locks, new_tokens }
}

fn now() -> Now {
    Now { moment: clock::moment(), wall: clock::now() }
}
