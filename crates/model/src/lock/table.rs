//! The table of locks: who gets what, and who waits.
//!
//! # Rules
//!
//! - Locks of different owners that claim a common file in modes that do not allow each other are
//!   never held at once. What an owner has never stands in its own way.
//! - Several paths are granted together or not at all; who waits for several holds none of them.
//! - Whoever has a path already, in this mode or a stronger one, gets the same lock again. Asking
//!   for a stronger one replaces it: under the same id, with a new token.
//! - Waiting is in order of asking: nobody passes an earlier one whom it would keep out. The one
//!   exception is who holds what that earlier one waits for: to make it wait would help nobody.
//! - A wait that closes a circle of owners, each of whom waits for what the next one holds, is
//!   refused. Each owner is taken to do one thing at a time.
//! - A token is higher than every one before it.
//!
//! Time, ids and the fate of owners come from outside. What has to be remembered is collected as
//! [`Change`]s, to be taken with [`Table::take_changes`] after every call.

mod order;

use std::collections::{BTreeMap, HashMap};

use crate::ids::{LockId, PaneId};
use crate::lock::{DEFAULT_LEASE, Held, Key, Lease, LockMode, LockPath, Moment, Owner, Token};
use crate::process::ProcessIdentity;
use crate::time::Timestamp;

use order::stands_against;

/// Now, by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// The one that decides.
    pub moment: Moment,
    /// The one that people read.
    pub wall: Timestamp,
}

/// What somebody wants.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The paths, each with the id that its lock would get.
    pub wanted: Vec<(LockId, LockPath)>,
    /// How much of them.
    pub mode: LockMode,
    /// For whom.
    pub owner: Owner,
    /// The length of a lease that is only renewed when asked for, in milliseconds.
    pub ttl: Option<u64>,
    /// What for.
    pub tag: Option<String>,
    /// Until when to wait; none does not wait at all.
    pub deadline: Option<Moment>,
}

/// Names one who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What became of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was granted.
    Granted(Vec<Held>),
    /// It waits; [`Table::serve`] or [`Table::give_up`] will tell.
    Waits(Ticket),
    /// These stand in the way.
    Conflict(Vec<Held>),
    /// Waiting would never end.
    Deadlock(Vec<Step>),
}

/// One step of a circle of waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Who waits.
    pub who: Owner,
    /// For what, which somebody else has.
    pub held: Held,
}

/// What has to be remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// This lock is held, now with these properties.
    Put(Box<Held>),
    /// The lock with this token is no longer held.
    Drop(Token),
}

/// There is no such lock, or its token is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotHeld;

#[derive(Clone, Debug)]
struct Waiting {
    ticket: Ticket,
    ask: Ask,
}

/// What two owners are compared by.
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

/// The table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    held: BTreeMap<Token, Held>,
    ids: HashMap<LockId, Token>,
    names: BTreeMap<Key, Vec<Token>>,
    holdings: HashMap<Holder, usize>,
    /// In order of asking.
    waiting: Vec<Waiting>,
    last_token: Token,
    turns: u64,
    changes: Vec<Change>,
}

impl Table {
    /// An empty table whose tokens are all higher than this one.
    #[must_use]
    pub fn after(token: Token) -> Self {
        Self { last_token: token, ..Self::default() }
    }

    /// Takes in a lock that was granted earlier.
    pub fn restore(&mut self, held: Held) {
        self.last_token = self.last_token.max(held.token);
        self.insert(held);
    }

    /// The token given last.
    #[must_use]
    pub fn last_token(&self) -> Token {
        self.last_token
    }

    /// Every lock, oldest first.
    pub fn held(&self) -> impl Iterator<Item = &Held> {
        self.held.values()
    }

    /// Who waits, in order.
    pub fn waiting(&self) -> impl Iterator<Item = (Ticket, &Ask)> {
        self.waiting.iter().map(|waiting| (waiting.ticket, &waiting.ask))
    }

    /// How many wait for this lock.
    #[must_use]
    pub fn waiting_for(&self, held: &Held) -> usize {
        self.waiting.iter().filter(|waiting| stands_against(held, &waiting.ask)).count()
    }

    /// What has changed since this was called last.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Whether this owner holds or waits for anything.
    #[must_use]
    pub fn concerns(&self, owner: &Owner) -> bool {
        self.holdings.contains_key(&Holder::of(owner))
            || self.waiting.iter().any(|waiting| waiting.ask.owner.is(owner))
    }

    /// Grants what was asked for, or says why not. After [`Outcome::Waits`], [`Table::serve`] is
    /// to be called: that the asker now waits may let others pass.
    pub fn acquire(&mut self, ask: Ask, now: Now) -> Outcome {
        self.turns += 1;
        let turn = self.turns;
        let holders = self.against(&ask);
        if holders.is_empty() && !self.must_queue(&ask, self.waiting.len()) {
            return Outcome::Granted(self.grant(&ask, turn, now));
        }
        // One that is over already is told so by the next [`Table::give_up`].
        if ask.deadline.is_none() {
            return Outcome::Conflict(self.in_the_way(&ask, self.waiting.len()));
        }
        if let Some(circle) = self.circle(&ask) {
            return Outcome::Deadlock(circle);
        }
        let ticket = Ticket(turn);
        self.waiting.push(Waiting { ticket, ask });
        Outcome::Waits(ticket)
    }

    /// Grants what can be granted to those who wait, in order. To be called whenever a lock or a
    /// waiter has gone.
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

    /// Lets somebody wait no longer; whether it did.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|waiting| waiting.ticket != ticket);
        before != self.waiting.len()
    }

    /// Those who have waited long enough, with what stands in their way. They wait no longer.
    pub fn give_up(&mut self, now: Now) -> Vec<(Ticket, Vec<Held>)> {
        let late = |waiting: &Waiting| waiting.ask.deadline.is_some_and(|at| at <= now.moment);
        let mut given_up = Vec::new();
        for (at, waiting) in self.waiting.iter().enumerate().filter(|(_, waiting)| late(waiting)) {
            given_up.push((waiting.ticket, self.in_the_way(&waiting.ask, at)));
        }
        self.waiting.retain(|waiting| !late(waiting));
        given_up
    }

    /// Those who wait for an owner that is gone. They wait no longer.
    pub fn forget(&mut self, owner: &Owner) -> Vec<Ticket> {
        let gone = |waiting: &Waiting| waiting.ask.owner.is(owner);
        let tickets = self.waiting.iter().filter(|waiting| gone(waiting));
        let tickets = tickets.map(|waiting| waiting.ticket).collect();
        self.waiting.retain(|waiting| !gone(waiting));
        tickets
    }

    /// The lock with this id, if it is held and its token is this one.
    ///
    /// # Errors
    ///
    /// [`NotHeld`].
    pub fn get(&self, id: LockId, token: Option<Token>) -> Result<&Held, NotHeld> {
        let found = self.ids.get(&id).and_then(|token| self.held.get(token)).ok_or(NotHeld)?;
        if token.is_none_or(|token| token == found.token) { Ok(found) } else { Err(NotHeld) }
    }

    /// The lock with this token, if it is held and stands for this path.
    ///
    /// # Errors
    ///
    /// [`NotHeld`].
    pub fn check(&self, path: &LockPath, token: Token) -> Result<&Held, NotHeld> {
        self.held.get(&token).filter(|held| held.path.meets(path)).ok_or(NotHeld)
    }

    /// The locks that stand for this path.
    #[must_use]
    pub fn on(&self, path: &LockPath) -> Vec<Held> {
        let mut tokens: Vec<Token> = self.near(path).collect();
        tokens.sort_unstable();
        tokens.dedup();
        tokens.iter().filter_map(|token| self.held.get(token)).cloned().collect()
    }

    /// Gives a lock back.
    ///
    /// # Errors
    ///
    /// [`NotHeld`].
    pub fn release(&mut self, id: LockId, token: Option<Token>) -> Result<Held, NotHeld> {
        let token = self.get(id, token)?.token;
        self.remove(token).ok_or(NotHeld)
    }

    /// Gives every lock back of which this is true.
    pub fn release_all(&mut self, given_back: impl Fn(&Held) -> bool) -> Vec<Held> {
        let tokens: Vec<Token> =
            self.held.values().filter(|held| given_back(held)).map(|held| held.token).collect();
        tokens.into_iter().filter_map(|token| self.remove(token)).collect()
    }

    /// Begins the lease of a lock anew.
    ///
    /// # Errors
    ///
    /// [`NotHeld`].
    pub fn renew(&mut self, id: LockId, token: Option<Token>, now: Now) -> Result<Held, NotHeld> {
        let token = self.get(id, token)?.token;
        let held = self.held.get_mut(&token).ok_or(NotHeld)?;
        held.lease.until = now.moment.after(held.lease.length);
        self.changes.push(Change::Put(Box::new(held.clone())));
        Ok(held.clone())
    }

    /// The locks whose lease has come to its end. The caller renews or releases each.
    #[must_use]
    pub fn due(&self, now: Now) -> Vec<Held> {
        self.held.values().filter(|held| held.lease.until <= now.moment).cloned().collect()
    }

    /// When somebody has waited long enough or a lease ends next.
    #[must_use]
    pub fn next_due(&self) -> Option<Moment> {
        let leases = self.held.values().map(|held| held.lease.until);
        let waits = self.waiting.iter().filter_map(|waiting| waiting.ask.deadline);
        leases.chain(waits).min()
    }

    /// The locks of others that this cannot be granted beside.
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

    /// The lock on exactly this path that the asker has already.
    fn own(&self, ask: &Ask, path: &LockPath) -> Option<&Held> {
        let tokens = self.names.get(path.keys.first()?)?;
        let locks = tokens.iter().map(|token| &self.held[token]);
        let same = |held: &&Held| held.path.keys == path.keys && held.path.tree == path.tree;
        locks.filter(|held| held.owner.is(&ask.owner)).find(same)
    }

    /// The locks that have a file in common with this path; some may be named twice.
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

    /// The lock that the asker has already. Of two leases and two purposes the longer one counts.
    fn again(&mut self, own: &Held, ask: &Ask, now: Now) -> Held {
        let held = self.held.get_mut(&own.token).expect("it was just found");
        let lease = lease(ask, now);
        held.lease.automatic |= lease.automatic;
        held.lease.length = held.lease.length.max(lease.length);
        held.lease.until = held.lease.until.max(lease.until);
        if ask.tag.is_none() || held.tag.is_none() {
            held.tag = None;
        } else {
            held.tag.clone_from(&ask.tag);
        }
        self.changes.push(Change::Put(Box::new(held.clone())));
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
        self.changes.push(Change::Put(Box::new(held.clone())));
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
        self.changes.push(Change::Drop(token));
        Some(held)
    }
}

fn lease(ask: &Ask, now: Now) -> Lease {
    let length = ask.ttl.unwrap_or(DEFAULT_LEASE);
    let until = now.moment.after(length);
    Lease { acquired: now.wall, until, length, automatic: ask.ttl.is_none() }
}

/// The names above this one, nearest first.
fn ancestors(key: &Key) -> impl Iterator<Item = Key> {
    let space = &key.space;
    let mut rest = key.path.as_str();
    std::iter::from_fn(move || {
        let path = match rest.rfind('/') {
            // The root of the file system is `/`, that of a repository is the empty name.
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
