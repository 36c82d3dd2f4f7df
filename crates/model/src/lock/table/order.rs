//! The order of waiting requests, and deadlock detection.

use std::collections::HashSet;

use super::{Ask, DeadlockStep, Holder, Table, Waiting};
use crate::lock::{Held, Owner};

impl Table {
    /// Returns true if the request must wait for one of the first `count` waiting requests.
    pub(super) fn must_queue(&self, ask: &Ask, count: usize) -> bool {
        let again = ask
            .wanted
            .iter()
            .all(|(_, path)| self.own(ask, path).is_some_and(|own| own.mode >= ask.mode));
        if again {
            return false;
        }
        let holds = self.holdings.contains_key(&Holder::of(&ask.owner));
        let mut earlier =
            self.waiting[..count].iter().filter(|waiting| excludes(&waiting.ask, ask));
        earlier.any(|waiting| !holds || !self.waits_for(waiting, &ask.owner))
    }

    /// Returns true if this request can be granted only after a lock of that owner is released.
    fn waits_for(&self, waiting: &Waiting, owner: &Owner) -> bool {
        let mut seen = HashSet::from([waiting.ticket]);
        let mut next = vec![waiting];
        while let Some(waiting) = next.pop() {
            let holders = self.against(&waiting.ask);
            let holders = holders.iter().map(|token| &self.held[token].owner);
            let earlier = self.waiting.iter().take_while(|other| other.ticket < waiting.ticket);
            let earlier = earlier.filter(|other| excludes(&other.ask, &waiting.ask));
            for blocker in holders.chain(earlier.map(|other| &other.ask.owner)) {
                if blocker.is(owner) {
                    return true;
                }
                let theirs = self.waiting.iter().filter(|other| other.ask.owner.is(blocker));
                next.extend(theirs.filter(|other| seen.insert(other.ticket)));
            }
        }
        false
    }

    /// Returns the locks that block a request behind the first `count` waiting ones: conflicting
    /// locks or, without any, the locks that block the earlier requests.
    pub(super) fn in_the_way(&self, ask: &Ask, count: usize) -> Vec<Held> {
        let mut tokens = self.against(ask);
        if tokens.is_empty() {
            let earlier = self.waiting[..count].iter();
            let earlier = earlier.filter(|waiting| excludes(&waiting.ask, ask));
            tokens.extend(earlier.flat_map(|waiting| self.against(&waiting.ask)));
            tokens.sort_unstable();
            tokens.dedup();
        }
        tokens.iter().map(|token| self.held[token].clone()).collect()
    }

    /// Returns the cycle that this wait would close.
    pub(super) fn cycle(&self, ask: &Ask) -> Option<Vec<DeadlockStep>> {
        if !self.holdings.contains_key(&Holder::of(&ask.owner)) {
            return None;
        }
        let mut seen = HashSet::new();
        let mut paths: Vec<(&Ask, Vec<DeadlockStep>)> = vec![(ask, Vec::new())];
        while let Some((ask_now, path)) = paths.pop() {
            for token in self.against(ask_now) {
                let held = &self.held[&token];
                let mut path = path.clone();
                path.push(DeadlockStep { who: ask_now.owner.clone(), held: held.clone() });
                if held.owner.is(&ask.owner) {
                    return Some(path);
                }
                let theirs = self.waiting.iter().filter(|w| w.ask.owner.is(&held.owner));
                for waiting in theirs.filter(|waiting| seen.insert(waiting.ticket)) {
                    paths.push((&waiting.ask, path.clone()));
                }
            }
        }
        None
    }
}

/// Returns true if both requests cannot be granted at the same time.
pub(super) fn excludes(one: &Ask, two: &Ask) -> bool {
    let meet =
        || one.wanted.iter().any(|(_, path)| two.wanted.iter().any(|(_, other)| path.meets(other)));
    !one.owner.is(&two.owner) && !one.mode.allows(two.mode) && meet()
}

/// Returns true if the lock blocks the request.
pub(super) fn stands_against(held: &Held, ask: &Ask) -> bool {
    !held.owner.is(&ask.owner)
        && !held.mode.allows(ask.mode)
        && ask.wanted.iter().any(|(_, path)| path.meets(&held.path))
}
