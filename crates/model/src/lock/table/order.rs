//! Whose turn it is: who has to wait for whom, and when nobody would ever get on.

use std::collections::HashSet;

use super::{Ask, Holder, Step, Table, Waiting};
use crate::lock::{Held, Owner};

impl Table {
    /// Whether somebody among the first `count` who wait is to be waited for.
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

    /// Whether this one can go on only after that owner does.
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

    /// What stands in the way of an asker behind the first `count` who wait: locks or, if it is
    /// only those who wait, the locks that they wait for.
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

    /// The circle that this wait would close.
    pub(super) fn circle(&self, ask: &Ask) -> Option<Vec<Step>> {
        if !self.holdings.contains_key(&Holder::of(&ask.owner)) {
            return None;
        }
        let mut seen = HashSet::new();
        let mut paths: Vec<(&Ask, Vec<Step>)> = vec![(ask, Vec::new())];
        while let Some((ask_now, path)) = paths.pop() {
            for token in self.against(ask_now) {
                let held = &self.held[&token];
                let mut path = path.clone();
                path.push(Step { who: ask_now.owner.clone(), held: held.clone() });
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

/// Whether both cannot be granted at once.
pub(super) fn excludes(one: &Ask, two: &Ask) -> bool {
    let meet =
        || one.wanted.iter().any(|(_, path)| two.wanted.iter().any(|(_, other)| path.meets(other)));
    !one.owner.is(&two.owner) && !one.mode.allows(two.mode) && meet()
}

/// Whether this lock keeps that asker out.
pub(super) fn stands_against(held: &Held, ask: &Ask) -> bool {
    !held.owner.is(&ask.owner)
        && !held.mode.allows(ask.mode)
        && ask.wanted.iter().any(|(_, path)| path.meets(&held.path))
}
