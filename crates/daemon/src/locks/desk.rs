//! The thread of the lock service: takes what waits, decides, writes it down, answers.

use std::collections::{HashMap, VecDeque};
use std::os::fd::AsFd as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use host::ledger::{Ledger, OpenedLedger};
use host::store::StoreError;
use host::{clock, process};
use model::ProcessIdentity;
use model::lock::table::{Ask, Change, Now, Outcome, Table, Ticket};
use model::lock::{Held, Moment, Owner, Token};
use tokio_util::sync::DropGuard;
use tracing::{error, info, warn};

use super::{Done, Granted, Locks, Message, Refused, Reply, Workers};
use crate::pane::process_ended;

/// How many questions share one transaction at most.
const GROUP: usize = 256;

/// How many processes are watched that hold nothing at the moment: most of them ask again.
const IDLE_WATCHES: usize = 64;

pub(super) struct Desk {
    table: Table,
    ledger: Ledger,
    /// What could not be written down yet.
    unwritten: Vec<Change>,
    inbox: Receiver<Message>,
    /// What is to be done before the next message.
    pending: VecDeque<Message>,
    waiting: HashMap<Ticket, (u64, Reply)>,
    /// Processes outside of panes. Dropped, one is no longer watched.
    watched: HashMap<ProcessIdentity, DropGuard>,
    outside: Locks,
    workers: Workers,
}

/// An answer that waits until what it says is written down.
enum Answer {
    Granted(Reply, Granted),
    Refused(Reply, Refused),
    Done(Done),
}

impl Desk {
    pub(super) fn new(
        opened: OpenedLedger,
        boot: &str,
        inbox: Receiver<Message>,
        outside: Locks,
        workers: Workers,
    ) -> Self {
        let mut desk = Self {
            table: Table::after(opened.last_token),
            ledger: opened.ledger,
            unwritten: Vec::new(),
            inbox,
            pending: VecDeque::new(),
            waiting: HashMap::new(),
            watched: HashMap::new(),
            outside,
            workers,
        };
        for held in opened.held {
            desk.take_over(held, boot);
        }
        desk
    }

    /// Goes on with a lock of the last daemon, if its owner may still live.
    fn take_over(&mut self, held: Held, boot: &str) {
        let alive = held.owner.process.boot == boot
            && (held.owner.pane.is_some() || self.watch(&held.owner.process));
        if alive {
            self.table.restore(held);
        } else {
            info!(path = held.path.shown, "its owner is gone");
            self.unwritten.push(Change::Drop(held.token));
        }
    }

    pub(super) fn run(mut self) {
        loop {
            let Ok(first) = self.next() else { return };
            let now = now();
            let mut answers = Vec::new();
            let mut close = None;
            let mut next = first;
            let mut taken = 0;
            while let Some(message) = next {
                if let Message::Close(done) = message {
                    close = Some(done);
                    break;
                }
                self.handle(message, now, &mut answers);
                taken += 1;
                next = if taken < GROUP { self.take_next() } else { None };
            }
            self.end_leases(now);
            self.serve(now, &mut answers);
            self.answer(answers);
            self.forget_watches();
            if let Some(done) = close {
                drop(self);
                // Nobody waiting for the end is no error.
                let _unwanted = done.send(());
                return;
            }
        }
    }

    /// Waits for a message, or until something is due; fails when nobody is left to ask.
    fn next(&mut self) -> Result<Option<Message>, ()> {
        if let Some(message) = self.pending.pop_front() {
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

    fn take_next(&mut self) -> Option<Message> {
        self.pending.pop_front().or_else(|| self.inbox.try_recv().ok())
    }

    fn handle(&mut self, message: Message, now: Now, answers: &mut Vec<Answer>) {
        match message {
            Message::Acquire { number, ask, reply } => {
                self.acquire(number, ask, reply, now, answers);
            }
            Message::Cancel(number) => {
                let found = self.waiting.iter().find(|(_, (other, _))| *other == number);
                if let Some(ticket) = found.map(|(ticket, _)| *ticket) {
                    self.waiting.remove(&ticket);
                    self.table.cancel(ticket);
                }
            }
            Message::GiveBack(tokens) => {
                self.table.release_all(|held| tokens.contains(&held.token));
            }
            Message::Ended(process) => {
                self.watched.remove(&process);
                self.leave(&Owner { pane: None, process }, answers);
            }
            Message::Do(work) => answers.push(Answer::Done(work(&mut self.table, now))),
            Message::Close(_) => unreachable!("the loop ends with it"),
        }
    }

    fn acquire(
        &mut self,
        number: u64,
        ask: Ask,
        reply: Reply,
        now: Now,
        answers: &mut Vec<Answer>,
    ) {
        if ask.owner.pane.is_none() && !self.watch(&ask.owner.process) {
            answers.push(Answer::Refused(reply, Refused::OwnerGone));
            return;
        }
        let before = self.table.last_token();
        answers.push(match self.table.acquire(ask, now) {
            Outcome::Granted(locks) => Answer::Granted(reply, granted(locks, before)),
            Outcome::Conflict(holders) => Answer::Refused(reply, Refused::Conflict(holders)),
            Outcome::Deadlock(circle) => Answer::Refused(reply, Refused::Deadlock(circle)),
            Outcome::Waits(ticket) => {
                self.waiting.insert(ticket, (number, reply));
                return;
            }
        });
    }

    /// Takes everything from an owner that is gone.
    fn leave(&mut self, owner: &Owner, answers: &mut Vec<Answer>) {
        for ticket in self.table.forget(owner) {
            if let Some((_, reply)) = self.waiting.remove(&ticket) {
                answers.push(Answer::Refused(reply, Refused::OwnerGone));
            }
        }
        self.table.release_all(|held| held.owner.is(owner));
    }

    /// Renews the leases that are to be renewed and ends the others that are over.
    fn end_leases(&mut self, now: Now) {
        for held in self.table.due(now) {
            let ended = if held.lease.automatic && !process::is_stopped(&held.owner.process) {
                self.table.renew(held.id, None, now).is_err()
            } else {
                info!(path = held.path.shown, token = %held.token, "the lease is over");
                self.table.release(held.id, None).is_err()
            };
            debug_assert!(!ended, "it was held a moment ago");
        }
    }

    fn serve(&mut self, now: Now, answers: &mut Vec<Answer>) {
        let before = self.table.last_token();
        for (ticket, locks) in self.table.serve(now) {
            if let Some((_, reply)) = self.waiting.remove(&ticket) {
                answers.push(Answer::Granted(reply, granted(locks, before)));
            }
        }
        for (ticket, holders) in self.table.give_up(now) {
            if let Some((_, reply)) = self.waiting.remove(&ticket) {
                answers.push(Answer::Refused(reply, Refused::TimedOut(holders)));
            }
        }
        // Waiters of a pane that has ended were taken out of the table by whoever saw it end.
        let table = &self.table;
        if self.waiting.len() != table.waiting().count() {
            let gone: Vec<Ticket> = self.waiting.keys().copied().collect();
            for ticket in gone {
                if !self.table.waiting().any(|(other, _)| other == ticket)
                    && let Some((_, reply)) = self.waiting.remove(&ticket)
                {
                    answers.push(Answer::Refused(reply, Refused::OwnerGone));
                }
            }
        }
    }

    /// Writes down what has changed, then tells everybody.
    fn answer(&mut self, answers: Vec<Answer>) {
        self.unwritten.extend(self.table.take_changes());
        let changed = !self.unwritten.is_empty();
        let written = if changed { self.ledger.write(&self.unwritten) } else { Ok(()) };
        match &written {
            Ok(()) => self.unwritten.clear(),
            Err(error) => {
                error!(%error, "the ledger of locks could not be written");
                // Nobody is told of a lock that is not written down, so there is none.
                self.unwritten.retain(|change| matches!(change, Change::Drop(_)));
            }
        }
        for answer in answers {
            self.tell(answer, written.clone());
        }
        if changed {
            self.outside.changed.notify_one();
        }
    }

    fn tell(&mut self, answer: Answer, written: Result<(), StoreError>) {
        match (answer, written) {
            (Answer::Done(done), written) => done(written),
            (Answer::Refused(reply, refused), _) => {
                // A caller that no longer waits is no error.
                let _unwanted = reply.send(Err(refused));
            }
            (Answer::Granted(reply, granted), Err(error)) => {
                self.pending.push_back(Message::GiveBack(granted.fresh));
                let _unwanted = reply.send(Err(Refused::Store(error)));
            }
            (Answer::Granted(reply, granted), Ok(())) => {
                if let Err(Ok(granted)) = reply.send(Ok(granted)) {
                    self.pending.push_back(Message::GiveBack(granted.fresh));
                }
            }
        }
    }

    /// Watches a process; false if it has ended.
    fn watch(&mut self, process: &ProcessIdentity) -> bool {
        if self.watched.contains_key(process) {
            return true;
        }
        let Some(pidfd) = process::open(process) else { return false };
        let (stop, outside, process_) =
            (self.workers.ending.child_token(), self.outside.clone(), process.clone());
        self.watched.insert(process.clone(), stop.clone().drop_guard());
        let watching = async move {
            tokio::select! {
                ended = process_ended(pidfd.as_fd()) => match ended {
                    Ok(()) => outside.tell(Message::Ended(process_)),
                    // Its leases still end, and a later daemon sees that it is gone.
                    Err(error) => warn!(%error, pid = process_.pid, "cannot be watched"),
                },
                () = stop.cancelled() => {}
            }
        };
        self.workers.tasks.spawn_on(watching, &self.workers.runtime);
        true
    }

    /// Lets go of processes that hold nothing, when there are many.
    fn forget_watches(&mut self) {
        if self.watched.len() <= IDLE_WATCHES {
            return;
        }
        let table = &self.table;
        self.watched
            .retain(|process, _| table.concerns(&Owner { pane: None, process: process.clone() }));
    }
}

/// Those with a token after `before` are new to their owner.
fn granted(locks: Vec<Held>, before: Token) -> Granted {
    let fresh = locks.iter().map(|held| held.token).filter(|token| *token > before).collect();
    Granted { locks, fresh }
}

fn now() -> Now {
    Now { moment: clock::moment(), wall: clock::now() }
}
