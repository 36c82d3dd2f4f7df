//! Single rules by example, and all of them at once against a naive reading of them.

use std::collections::HashSet;

use proptest::prelude::*;

use super::order::excludes;
use super::*;

fn owner(n: u8) -> Owner {
    Owner {
        pane: Some(PaneId::from_random([n; 16])),
        process: ProcessIdentity { pid: n.into(), start: 1, boot: "b".to_owned() },
    }
}

fn path(text: &str, tree: bool) -> LockPath {
    let key = Key { space: String::new(), path: text.to_owned() };
    LockPath { shown: text.to_owned(), keys: vec![key], tree }
}

fn now(moment: u64) -> Now {
    Now { moment: Moment(moment), wall: Timestamp(0) }
}

/// A table with ids that nobody else has.
#[derive(Default)]
struct Desk {
    table: Table,
    ids: u64,
}

impl Desk {
    fn ask(&mut self, n: u8, mode: LockMode, paths: &[&str], wait: bool) -> Outcome {
        let paths = paths.iter().map(|text| path(text, false)).collect();
        self.ask_for(n, mode, paths, if wait { Some(1000) } else { None }, 0)
    }

    fn ask_for(
        &mut self,
        n: u8,
        mode: LockMode,
        paths: Vec<LockPath>,
        deadline: Option<u64>,
        at: u64,
    ) -> Outcome {
        let wanted = paths.into_iter().map(|path| {
            self.ids += 1;
            let mut id = [0; 16];
            id[..8].copy_from_slice(&self.ids.to_le_bytes());
            (LockId::from_random(id), path)
        });
        let ask = Ask {
            wanted: wanted.collect(),
            mode,
            owner: owner(n),
            ttl: None,
            tag: None,
            deadline: deadline.map(Moment),
        };
        self.table.acquire(ask, now(at))
    }

    fn granted(&mut self, n: u8, mode: LockMode, paths: &[&str]) -> Vec<Held> {
        let outcome = self.ask(n, mode, paths, false);
        let Outcome::Granted(held) = outcome else { panic!("{outcome:?}") };
        held
    }

    fn waits(&mut self, n: u8, mode: LockMode, paths: &[&str]) -> Ticket {
        let outcome = self.ask(n, mode, paths, true);
        let Outcome::Waits(ticket) = outcome else { panic!("{outcome:?}") };
        ticket
    }

    /// Releases and says who is served by that.
    fn release(&mut self, held: &Held) -> Vec<Ticket> {
        self.table.release(held.id, Some(held.token)).unwrap();
        self.serve()
    }

    fn serve(&mut self) -> Vec<Ticket> {
        self.table.serve(now(0)).into_iter().map(|(ticket, _)| ticket).collect()
    }
}

use LockMode::{Exclusive, Read, Write};

#[test]
fn a_writer_who_waits_is_not_passed_by_readers() {
    let mut desk = Desk::default();
    let first = desk.granted(1, Read, &["/a"]);
    let writer = desk.waits(2, Write, &["/a"]);
    let reader = desk.waits(3, Read, &["/a"]);

    assert_eq!(desk.ask(4, Read, &["/a"], false), Outcome::Conflict(first.clone()));
    assert_eq!(desk.release(&first[0]), [writer]);
    let written = desk.table.held().next().unwrap().clone();
    assert_eq!(desk.release(&written), [reader]);
}

#[test]
fn several_paths_are_granted_together_or_not_at_all() {
    let mut desk = Desk::default();
    let a = desk.granted(1, Write, &["/a"]);
    let both = desk.waits(2, Write, &["/a", "/b"]);
    assert_eq!(desk.table.held().count(), 1, "who waits holds nothing");

    assert_eq!(desk.release(&a[0]), [both]);

    assert_eq!(desk.table.held().count(), 2);
}

#[test]
fn who_holds_it_already_gets_the_same_lock_again() {
    let mut desk = Desk::default();
    let first = desk.granted(1, Write, &["/a"]);
    desk.waits(2, Write, &["/a"]);

    let again = desk.granted(1, Read, &["/a"]);

    assert_eq!((again[0].id, again[0].token), (first[0].id, first[0].token));
    assert_eq!(desk.table.held().count(), 1);
}

#[test]
fn a_reader_becomes_a_writer_when_it_is_alone_and_gets_a_new_token() {
    let mut desk = Desk::default();
    let mine = desk.granted(1, Read, &["/a"]);
    let theirs = desk.granted(2, Read, &["/a"]);
    // An earlier writer waits for both readers; to wait behind it would never end.
    desk.waits(3, Write, &["/a"]);
    let upgrade = desk.waits(1, Write, &["/a"]);

    assert_eq!(desk.release(&theirs[0]), [upgrade]);

    let held: Vec<&Held> = desk.table.held().collect();
    assert_eq!(held.len(), 1);
    assert_eq!((held[0].id, held[0].mode), (mine[0].id, Write));
    assert!(held[0].token > mine[0].token);
    assert_eq!(desk.table.get(mine[0].id, Some(mine[0].token)), Err(NotHeld));
}

#[test]
fn two_readers_who_both_want_to_write_would_wait_for_ever() {
    let mut desk = Desk::default();
    desk.granted(1, Read, &["/a"]);
    desk.granted(2, Read, &["/a"]);
    desk.waits(1, Write, &["/a"]);

    let Outcome::Deadlock(circle) = desk.ask(2, Write, &["/a"], true) else { panic!() };

    let who: Vec<_> = circle.iter().map(|step| (step.who.pane, step.held.owner.pane)).collect();
    assert_eq!(who, [(owner(2).pane, owner(1).pane), (owner(1).pane, owner(2).pane)]);
}

#[test]
fn a_circle_of_three_is_found_and_the_one_who_closes_it_is_refused() {
    let mut desk = Desk::default();
    for (n, name) in [(1, "/a"), (2, "/b"), (3, "/c")] {
        desk.granted(n, Exclusive, &[name]);
    }
    desk.waits(1, Exclusive, &["/b"]);
    desk.waits(2, Exclusive, &["/c"]);

    let Outcome::Deadlock(circle) = desk.ask(3, Exclusive, &["/a"], true) else { panic!() };

    let paths: Vec<_> = circle.iter().map(|step| step.held.path.shown.as_str()).collect();
    assert_eq!(paths, ["/a", "/b", "/c"]);
}

#[test]
fn who_holds_what_an_earlier_one_waits_for_does_not_wait_behind_it() {
    let mut desk = Desk::default();
    desk.granted(1, Write, &["/a"]);
    desk.waits(2, Write, &["/a", "/b"]);

    desk.granted(1, Write, &["/b"]);
}

#[test]
fn a_wait_ends_at_its_deadline_and_a_lease_at_its_end() {
    let mut desk = Desk::default();
    let held = desk.granted(1, Write, &["/a"]);
    let ticket = desk.waits(2, Write, &["/a"]);

    assert_eq!(desk.table.next_due(), Some(Moment(1000)));
    assert_eq!(desk.table.give_up(now(999)), []);
    assert_eq!(desk.table.give_up(now(1000)), [(ticket, held.clone())]);
    assert_eq!(desk.table.due(now(DEFAULT_LEASE - 1)), []);
    assert_eq!(desk.table.due(now(DEFAULT_LEASE)), held);
}

#[test]
fn what_is_taken_for_good_is_not_given_back_with_a_tag() {
    let mut desk = Desk::default();
    let tagged = |tag: Option<&str>| Ask {
        wanted: vec![(LockId::from_random([9; 16]), path("/a", false))],
        mode: Write,
        owner: owner(1),
        ttl: None,
        tag: tag.map(str::to_owned),
        deadline: None,
    };

    desk.table.acquire(tagged(Some("turn")), now(0));
    desk.table.acquire(tagged(None), now(0));
    desk.table.acquire(tagged(Some("turn")), now(0));

    assert_eq!(desk.table.held().next().unwrap().tag, None);
}

/// What somebody may do.
#[derive(Clone, Debug)]
enum Deed {
    Ask { who: u8, mode: LockMode, paths: Vec<(usize, bool)>, wait: bool },
    Release(usize),
    Leave(u8),
    Cancel(usize),
    Later(u64),
}

const PATHS: [&str; 7] = ["/", "/a", "/a/b", "/a/b/c", "/a/bc", "/d", "/d/e"];

fn deed() -> impl Strategy<Value = Deed> {
    let mode = prop_oneof![Just(Read), Just(Write), Just(Exclusive)];
    let paths = proptest::collection::vec((0..PATHS.len(), any::<bool>()), 1..3);
    prop_oneof![
        6 => (0..6_u8, mode, paths, any::<bool>())
            .prop_map(|(who, mode, paths, wait)| Deed::Ask { who, mode, paths, wait }),
        4 => any::<prop::sample::Index>().prop_map(|at| Deed::Release(at.index(64))),
        1 => (0..6_u8).prop_map(Deed::Leave),
        1 => any::<prop::sample::Index>().prop_map(|at| Deed::Cancel(at.index(64))),
        1 => (1..400_u64).prop_map(Deed::Later),
    ]
}

/// No two locks that exclude each other are held by two owners.
fn nobody_collides(table: &Table) {
    let held: Vec<&Held> = table.held().collect();
    for (at, one) in held.iter().enumerate() {
        for two in &held[at + 1..] {
            let may =
                one.owner.is(&two.owner) || one.mode.allows(two.mode) || !one.path.meets(&two.path);
            assert!(may, "{one:?} and {two:?}");
        }
    }
}

/// Whoever waits is kept out by a lock or by somebody who asked before.
fn nobody_waits_in_vain(table: &Table) {
    let waiting: Vec<(Ticket, &Ask)> = table.waiting().collect();
    for (at, (_, ask)) in waiting.iter().enumerate() {
        let by_lock = table.held().any(|held| stands_against(held, ask));
        let by_earlier = waiting[..at].iter().any(|(_, earlier)| excludes(earlier, ask));
        assert!(by_lock || by_earlier, "{ask:?}");
    }
}

/// Somebody who does not wait holds what the others wait for.
fn nobody_is_stuck(table: &Table) {
    let waits = |owner: &Owner| table.waiting().any(|(_, ask)| ask.owner.is(owner));
    let moving = table.held().any(|held| !waits(&held.owner));
    assert!(table.waiting().next().is_none() || moving, "{table:#?}");
}

/// What was served was not served before somebody who asked earlier and is kept out by it.
fn served_in_order(table: &Table, held_before: &HashSet<Owner>, served: &[(Ticket, Vec<Held>)]) {
    for (ticket, locks) in served {
        for held in locks.iter().filter(|held| !held_before.contains(&held.owner)) {
            let passed = table
                .waiting()
                .find(|(earlier, ask)| earlier < ticket && stands_against(held, ask));
            assert!(passed.is_none(), "{held:?} passed {passed:?}");
        }
    }
}

proptest! {
    /// R20, whatever happens in whatever order.
    #[test]
    fn the_rules_hold_whatever_is_asked(deeds in proptest::collection::vec(deed(), 1..120)) {
        let mut desk = Desk::default();
        let mut time = 0;
        let mut last = Token(0);
        let mut remembered: BTreeMap<Token, Held> = BTreeMap::new();
        for deed in deeds {
            let owners: HashSet<Owner> = desk.table.held().map(|held| held.owner.clone()).collect();
            let mut granted = Vec::new();
            match deed {
                Deed::Ask { who, mode, paths, wait } => {
                    // An owner does one thing at a time.
                    if desk.table.waiting().any(|(_, ask)| ask.owner.is(&owner(who))) {
                        continue;
                    }
                    let paths = paths.iter().map(|&(at, tree)| path(PATHS[at], tree)).collect();
                    let deadline = wait.then_some(time + 300);
                    if let Outcome::Granted(held) = desk.ask_for(who, mode, paths, deadline, time) {
                        granted.extend(held);
                    }
                }
                Deed::Release(at) => {
                    let held = desk.table.held().nth(at).cloned();
                    if let Some(held) = held {
                        desk.table.release(held.id, Some(held.token)).unwrap();
                        prop_assert_eq!(desk.table.get(held.id, None), Err(NotHeld));
                        prop_assert_eq!(desk.table.check(&held.path, held.token), Err(NotHeld));
                    }
                }
                Deed::Leave(who) => {
                    desk.table.forget(&owner(who));
                    desk.table.release_all(|held| held.owner.is(&owner(who)));
                    prop_assert!(!desk.table.concerns(&owner(who)));
                }
                Deed::Cancel(at) => {
                    let ticket = desk.table.waiting().nth(at).map(|(ticket, _)| ticket);
                    if let Some(ticket) = ticket {
                        prop_assert!(desk.table.cancel(ticket));
                    }
                }
                Deed::Later(millis) => {
                    time += millis;
                    desk.table.give_up(now(time));
                    for held in desk.table.due(now(time)) {
                        desk.table.release(held.id, Some(held.token)).unwrap();
                    }
                }
            }
            let served = desk.table.serve(now(time));
            served_in_order(&desk.table, &owners, &served);
            granted.extend(served.into_iter().flat_map(|(_, locks)| locks));
            for held in granted.iter().filter(|held| !remembered.contains_key(&held.token)) {
                prop_assert!(held.token > last);
                last = held.token;
            }
            for change in desk.table.take_changes() {
                match change {
                    Change::Put(held) => drop(remembered.insert(held.token, *held)),
                    Change::Drop(token) => drop(remembered.remove(&token)),
                }
            }
            prop_assert!(desk.table.held().eq(remembered.values()));
            nobody_collides(&desk.table);
            nobody_waits_in_vain(&desk.table);
            nobody_is_stuck(&desk.table);
        }
        for who in 0..6 {
            desk.table.forget(&owner(who));
            desk.table.release_all(|held| held.owner.is(&owner(who)));
        }
        prop_assert!(desk.table.names.is_empty() && desk.table.ids.is_empty());
        prop_assert!(desk.table.holdings.is_empty() && desk.table.waiting.is_empty());
    }
}
