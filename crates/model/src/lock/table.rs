//! The lock table: grants locks and queues requests.
//!
//! # Rules
//!
//! - Two owners never hold locks that cover a common file in incompatible modes. Locks of the same
//!   owner never conflict.
//! - Several paths are locked together or not at all; a waiting request holds none of them.
//! - A request for a path that its owner has locked in this or a stronger mode returns the same lock.
//!   A request for a stronger mode replaces the lock, with the same id and a new token.
//! - Requests are granted in order: none overtakes an earlier one that it would block. The exception
//!   is an owner that holds a lock for which the earlier one waits, as queueing it would block both.
//! - A wait that closes a cycle of owners, each waiting for a lock of the next, is refused. This
//!   assumes that each owner makes one request at a time.
//! - Tokens only increase.
//!
//! Time, ids and the end of owners are input. Changes to be stored are collected as
//! [`TableChange`]s, to be taken with [`Table::take_changes`] after every call.

mod order;

use std::collections::{BTreeMap, HashMap};

use crate::ids::{LockId, PaneId};
use crate::lock::{DEFAULT_LEASE, Held, Key, Lease, LockMode, LockPath, Moment, Owner, Token};
use crate::process::ProcessIdentity;
use crate::time::Timestamp;

use order::stands_against;

/// The current time, of both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// The monotonic clock, used for decisions.
    pub moment: Moment,
    /// The wall clock, for display.
    pub wall: Timestamp,
}

/// A request for locks.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The paths, each with the id of its lock.
    pub wanted: Vec<(LockId, LockPath)>,
    /// The mode.
    pub mode: LockMode,
    /// The owner.
    pub owner: Owner,
    /// The duration of a lease without automatic renewal, in milliseconds.
    pub ttl: Option<u64>,
    /// The tag.
    pub tag: Option<String>,
    /// Until when to wait; none means not to wait.
    pub deadline: Option<Moment>,
}

/// The id of a waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockOutcome {
    /// The locks were granted.
    Granted(Vec<Held>),
    /// The request waits; [`Table::serve`] or [`Table::give_up`] returns its result.
    Waits(Ticket),
    /// These locks block the request.
    Conflict(Vec<Held>),
    /// Waiting would be a deadlock.
    Deadlock(Vec<DeadlockStep>),
}

/// A step of a deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlockStep {
    /// The waiting owner.
    pub who: Owner,
    /// The lock that it waits for.
    pub held: Held,
}

/// A change to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableChange {
    /// This lock is held, with these properties.
    Put(Box<Held>),
    /// The lock with this token is no longer held.
    Drop(Token),
}

/// The lock is not held, or has another token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotHeld;

#[derive(Clone, Debug)]
struct Waiting {
    ticket: Ticket,
    ask: Ask,
}

/// The identity of an owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Holder {
    Pane(PaneId),
    Process(ProcessIdentity),
}

impl Holder {
    fn of(owner: &Owner) -> Self {
        match owner.pane {
            Some(pane) => Self::Pane(pane),
            None => Self::Process(owner.process.clone()),
        }
    }
}

/// The lock table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    held: BTreeMap<Token, Held>,
    ids: HashMap<LockId, Token>,
    names: BTreeMap<Key, Vec<Token>>,
    holdings: HashMap<Holder, usize>,
    /// In the order of requests.
    waiting: Vec<Waiting>,
    last_token: Token,
    turns: u64,
    changes: Vec<TableChange>,
}

impl Table {
    /// Makes an empty table whose tokens are higher than this one.
    #[must_use]
    pub fn after(token: Token) -> Self {
        Self { last_token: token, ..Self::default() }
    }

    /// Adds a lock that was granted earlier.
    pub fn restore(&mut self, held: Held) {
        self.last_token = self.last_token.max(held.token);
        self.insert(held);
    }

    /// Returns the last token.
    #[must_use]
    pub fn last_token(&self) -> Token {
        self.last_token
    }

    /// Returns all locks, oldest first.
    pub fn held(&self) -> impl Iterator<Item = &Held> {
        self.held.values()
    }

    /// Returns the waiting requests, in order.
    pub fn waiting(&self) -> impl Iterator<Item = (Ticket, &Ask)> {
        self.waiting.iter().map(|waiting| (waiting.ticket, &waiting.ask))
    }

    /// Returns the number of requests that wait for this lock.
    #[must_use]
    pub fn waiting_for(&self, held: &Held) -> usize {
        self.waiting.iter().filter(|waiting| stands_against(held, &waiting.ask)).count()
    }

    /// Returns the changes since the last call.
    pub fn take_changes(&mut self) -> Vec<TableChange> {
        std::mem::take(&mut self.changes)
    }

    /// Returns true if this owner holds or waits for a lock.
    #[must_use]
    pub fn concerns(&self, owner: &Owner) -> bool {
        self.holdings.contains_key(&Holder::of(owner))
            || self.waiting.iter().any(|waiting| waiting.ask.owner.is(owner))
    }

    /// Grants a request, queues it, or returns why not. After [`LockOutcome::Waits`], call
    /// [`Table::serve`], because the queued request may let others pass.
    pub fn acquire(&mut self, ask: Ask, now: Now) -> LockOutcome {
        self.turns += 1;
        let turn = self.turns;
        let holders = self.against(&ask);
        if holders.is_empty() && !self.must_queue(&ask, self.waiting.len()) {
            return LockOutcome::Granted(self.grant(&ask, turn, now));
        }
        // An expired deadline is reported by the next `Table::give_up`.
        if ask.deadline.is_none() {
            return LockOutcome::Conflict(self.in_the_way(&ask, self.waiting.len()));
        }
        if let Some(cycle) = self.cycle(&ask) {
            return LockOutcome::Deadlock(cycle);
        }
        let ticket = Ticket(turn);
        self.waiting.push(Waiting { ticket, ask });
        LockOutcome::Waits(ticket)
    }

    /// Grants waiting requests in order, as far as possible. Call it whenever a lock or a waiting
    /// request was removed.
    pub fn serve(&mut self, now: Now) -> Vec<(Ticket, Vec<Held>)> {
        let mut served = Vec::new();
        let mut at = 0;
        while let Some(next) = self.waiting.get(at) {
            if !self.against(&next.ask).is_empty() || self.must_queue(&next.ask, at) {
                at += 1;
                continue;
            }
            let Waiting { ticket, ask } = self.waiting.remove(at);
            served.push((ticket, self.grant(&ask, ticket.0, now)));
        }
        served
    }

    /// Cancels a waiting request. Returns false if it was not waiting.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|waiting| waiting.ticket != ticket);
        before != self.waiting.len()
    }

    /// Removes the requests whose deadline has passed, and returns them with the blocking locks.
    pub fn give_up(&mut self, now: Now) -> Vec<(Ticket, Vec<Held>)> {
        let late = |waiting: &Waiting| waiting.ask.deadline.is_some_and(|at| at <= now.moment);
        let mut given_up = Vec::new();
        for (at, waiting) in self.waiting.iter().enumerate().filter(|(_, waiting)| late(waiting)) {
            given_up.push((waiting.ticket, self.in_the_way(&waiting.ask, at)));
        }
        self.waiting.retain(|waiting| !late(waiting));
        given_up
    }

    /// Removes and returns the waiting requests of an owner that has ended.
    pub fn forget(&mut self, owner: &Owner) -> Vec<Ticket> {
        let gone = |waiting: &Waiting| waiting.ask.owner.is(owner);
        let tickets = self.waiting.iter().filter(|waiting| gone(waiting));
        let tickets = tickets.map(|waiting| waiting.ticket).collect();
        self.waiting.retain(|waiting| !gone(waiting));
        tickets
    }

    /// Returns the lock with this id, if it is held and has this token.
    ///
    /// # Errors
    ///
    /// [`NotHeld`].
    pub fn get(&self, id: LockId, token: Option<Token>) -> Result<&Held, NotHeld> {
        let found = self.ids.get(&id).and_then(|token| self.held.get(token)).ok_or(NotHeld)?;
        if token.is_none_or(|token| token == found.token) { Ok(found) } else { Err(NotHeld) }
    }

    /// Returns the lock with this token, if it is held and covers this path.
    ///
    /// # Errors
    ///
    /// [`NotHeld`].
    pub fn check(&self, path: &LockPath, token: Token) -> Result<&Held, NotHeld> {
        self.held.get(&token).filter(|held| held.path.meets(path)).ok_or(NotHeld)
    }

    /// Returns the locks that cover this path.
    #[must_use]
    pub fn on(&self, path: &LockPath) -> Vec<Held> {
        let mut tokens: Vec<Token> = self.near(path).collect();
        tokens.sort_unstable();
        tokens.dedup();
        tokens.iter().filter_map(|token| self.held.get(token)).cloned().collect()
    }

    /// Releases a lock.
    ///
    /// # Errors
    ///
    /// [`NotHeld`].
    pub fn release(&mut self, id: LockId, token: Option<Token>) -> Result<Held, NotHeld> {
        let token = self.get(id, token)?.token;
        self.remove(token).ok_or(NotHeld)
    }

    /// Releases all locks that match.
    pub fn release_all(&mut self, matches: impl Fn(&Held) -> bool) -> Vec<Held> {
        let tokens: Vec<Token> =
            self.held.values().filter(|held| matches(held)).map(|held| held.token).collect();
        tokens.into_iter().filter_map(|token| self.remove(token)).collect()
    }

    /// Renews the lease of a lock.
    ///
    /// # Errors
    ///
    /// [`NotHeld`].
    pub fn renew(&mut self, id: LockId, token: Option<Token>, now: Now) -> Result<Held, NotHeld> {
        let token = self.get(id, token)?.token;
        let held = self.held.get_mut(&token).ok_or(NotHeld)?;
        held.lease.until = now.moment.after(held.lease.length);
        self.changes.push(TableChange::Put(Box::new(held.clone())));
        Ok(held.clone())
    }

    /// Returns the locks with an expired lease. The caller renews or releases each of them.
    #[must_use]
    pub fn due(&self, now: Now) -> Vec<Held> {
        self.held.values().filter(|held| held.lease.until <= now.moment).cloned().collect()
    }

    /// Returns the time of the next expiry of a deadline or a lease.
    #[must_use]
    pub fn next_due(&self) -> Option<Moment> {
        let leases = self.held.values().map(|held| held.lease.until);
        let waits = self.waiting.iter().filter_map(|waiting| waiting.ask.deadline);
        leases.chain(waits).min()
    }

    /// Returns the locks of other owners that conflict with a request.
    fn against(&self, ask: &Ask) -> Vec<Token> {
        let mut found = Vec::new();
        for (_, path) in &ask.wanted {
            if self.own(ask, path).is_some_and(|own| own.mode >= ask.mode) {
                continue;
            }
            found.extend(self.near(path).filter(|token| {
                let held = &self.held[token];
                !held.owner.is(&ask.owner) && !held.mode.allows(ask.mode)
            }));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns the lock on exactly this path that the requesting owner already holds.
    fn own(&self, ask: &Ask, path: &LockPath) -> Option<&Held> {
        let tokens = self.names.get(path.keys.first()?)?;
        let locks = tokens.iter().map(|token| &self.held[token]);
        let same = |held: &&Held| held.path.keys == path.keys && held.path.tree == path.tree;
        locks.filter(|held| held.owner.is(&ask.owner)).find(same)
    }

    /// Returns the locks that have a file in common with this path, possibly with duplicates.
    fn near(&self, path: &LockPath) -> impl Iterator<Item = Token> {
        let mut found = Vec::new();
        for key in &path.keys {
            found.extend(self.names.get(key).into_iter().flatten().copied());
            for above in ancestors(key) {
                let tokens = self.names.get(&above).into_iter().flatten().copied();
                found.extend(tokens.filter(|token| self.held[token].path.tree));
            }
            if path.tree {
                let below = self.names.range(key.clone()..);
                let below = below.take_while(|(name, _)| {
                    name.space == key.space && name.path.starts_with(&key.path)
                });
                let below = below.filter(|(name, _)| key.covers(name));
                found.extend(below.flat_map(|(_, tokens)| tokens.iter().copied()));
            }
        }
        found.into_iter()
    }

    fn grant(&mut self, ask: &Ask, turn: u64, now: Now) -> Vec<Held> {
        let mut granted: Vec<Held> = Vec::new();
        for (id, path) in &ask.wanted {
            let own = self.own(ask, path).cloned();
            let held = match own {
                Some(own) if own.mode >= ask.mode => self.again(&own, ask, now),
                own => self.grant_one(ask, own, *id, path, turn, now),
            };
            if granted.iter().all(|other| other.token != held.token) {
                granted.push(held);
            }
        }
        granted
    }

    /// Extends the lock that the owner already holds to the longer lease and the wider purpose.
    fn again(&mut self, own: &Held, ask: &Ask, now: Now) -> Held {
        let held = self.held.get_mut(&own.token).expect("`own` is in the table");
        let lease = lease(ask, now);
        held.lease.automatic |= lease.automatic;
        held.lease.length = held.lease.length.max(lease.length);
        held.lease.until = held.lease.until.max(lease.until);
        if ask.tag.is_none() || held.tag.is_none() {
            held.tag = None;
        } else {
            held.tag.clone_from(&ask.tag);
        }
        self.changes.push(TableChange::Put(Box::new(held.clone())));
        held.clone()
    }

    fn grant_one(
        &mut self,
        ask: &Ask,
        weaker: Option<Held>,
        id: LockId,
        path: &LockPath,
        turn: u64,
        now: Now,
    ) -> Held {
        let id = weaker.and_then(|weaker| self.remove(weaker.token)).map_or(id, |gone| gone.id);
        self.last_token = Token(self.last_token.0 + 1);
        let held = Held {
            id,
            token: self.last_token,
            path: path.clone(),
            mode: ask.mode,
            owner: ask.owner.clone(),
            lease: lease(ask, now),
            tag: ask.tag.clone(),
            turn,
        };
        self.changes.push(TableChange::Put(Box::new(held.clone())));
        self.insert(held.clone());
        held
    }

    fn insert(&mut self, held: Held) {
        self.ids.insert(held.id, held.token);
        *self.holdings.entry(Holder::of(&held.owner)).or_default() += 1;
        for key in &held.path.keys {
            self.names.entry(key.clone()).or_default().push(held.token);
        }
        self.held.insert(held.token, held);
    }

    fn remove(&mut self, token: Token) -> Option<Held> {
        let held = self.held.remove(&token)?;
        self.ids.remove(&held.id);
        for key in &held.path.keys {
            if let Some(tokens) = self.names.get_mut(key) {
                tokens.retain(|other| *other != token);
                if tokens.is_empty() {
                    self.names.remove(key);
                }
            }
        }
        let holder = Holder::of(&held.owner);
        if let Some(count) = self.holdings.get_mut(&holder) {
            *count -= 1;
            if *count == 0 {
                self.holdings.remove(&holder);
            }
        }
        self.changes.push(TableChange::Drop(token));
        Some(held)
    }
}

fn lease(ask: &Ask, now: Now) -> Lease {
    let length = ask.ttl.unwrap_or(DEFAULT_LEASE);
    let until = now.moment.after(length);
    Lease { acquired: now.wall, until, length, automatic: ask.ttl.is_none() }
}

/// Returns the keys of all parent directories, nearest first.
fn ancestors(key: &Key) -> impl Iterator<Item = Key> {
    let space = &key.space;
    let mut rest = key.path.as_str();
    std::iter::from_fn(move || {
        let path = match rest.rfind('/') {
            // The root of the file system is `/`, the root of a repository is empty.
            Some(0) if rest.len() > 1 => "/",
            Some(at) if at > 0 => &rest[..at],
            None if !rest.is_empty() => "",
            _ => return None,
        };
        rest = path;
        Some(Key { space: space.clone(), path: path.to_owned() })
    })
}

#[cfg(test)]
mod tests;
