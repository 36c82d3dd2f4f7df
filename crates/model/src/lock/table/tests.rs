//! Each rule by example, and all rules together against a naive implementation.

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

/// A table that generates ids.
#[derive(Default)]
struct Fixture {
    table: Table,
    ids: u64,
}

impl Fixture {
    fn ask(&mut self, n: u8, mode: LockMode, paths: &[&str], wait: bool) -> LockOutcome {
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
    ) -> LockOutcome {
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
        let LockOutcome::Granted(held) = outcome else { panic!("{outcome:?}") };
        held
    }

    fn waits(&mut self, n: u8, mode: LockMode, paths: &[&str]) -> Ticket {
        let outcome = self.ask(n, mode, paths, true);
        let LockOutcome::Waits(ticket) = outcome else { panic!("{outcome:?}") };
        ticket
    }

    /// Releases a lock and returns the requests that are granted.
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
fn readers_do_not_overtake_a_waiting_writer() {
    let mut fixture = Fixture::default();
    let first = fixture.granted(1, Read, &["/a"]);
    let writer = fixture.waits(2, Write, &["/a"]);
    let reader = fixture.waits(3, Read, &["/a"]);

    assert_eq!(fixture.ask(4, Read, &["/a"], false), LockOutcome::Conflict(first.clone()));
    assert_eq!(fixture.release(&first[0]), [writer]);
    let written = fixture.table.held().next().unwrap().clone();
    assert_eq!(fixture.release(&written), [reader]);
}

#[test]
fn several_paths_are_locked_together_or_not_at_all() {
    let mut fixture = Fixture::default();
    let a = fixture.granted(1, Write, &["/a"]);
    let both = fixture.waits(2, Write, &["/a", "/b"]);
    assert_eq!(fixture.table.held().count(), 1, "a waiting request holds nothing");

    assert_eq!(fixture.release(&a[0]), [both]);

    assert_eq!(fixture.table.held().count(), 2);
}

#[test]
fn repeated_request_returns_the_same_lock() {
    let mut fixture = Fixture::default();
    let first = fixture.granted(1, Write, &["/a"]);
    fixture.waits(2, Write, &["/a"]);

    let again = fixture.granted(1, Read, &["/a"]);

    assert_eq!((again[0].id, again[0].token), (first[0].id, first[0].token));
    assert_eq!(fixture.table.held().count(), 1);
}

#[test]
fn single_reader_becomes_writer_with_a_new_token() {
    let mut fixture = Fixture::default();
    let mine = fixture.granted(1, Read, &["/a"]);
    let theirs = fixture.granted(2, Read, &["/a"]);
    // An earlier writer waits for both readers; waiting behind it would be a deadlock.
    fixture.waits(3, Write, &["/a"]);
    let upgrade = fixture.waits(1, Write, &["/a"]);

    assert_eq!(fixture.release(&theirs[0]), [upgrade]);

    let held: Vec<&Held> = fixture.table.held().collect();
    assert_eq!(held.len(), 1);
    assert_eq!((held[0].id, held[0].mode), (mine[0].id, Write));
    assert!(held[0].token > mine[0].token);
    assert_eq!(fixture.table.get(mine[0].id, Some(mine[0].token)), Err(NotHeld));
}

#[test]
fn two_readers_that_both_request_write_are_a_deadlock() {
    let mut fixture = Fixture::default();
    fixture.granted(1, Read, &["/a"]);
    fixture.granted(2, Read, &["/a"]);
    fixture.waits(1, Write, &["/a"]);

    let LockOutcome::Deadlock(circle) = fixture.ask(2, Write, &["/a"], true) else { panic!() };

    let who: Vec<_> = circle.iter().map(|step| (step.who.pane, step.held.owner.pane)).collect();
    assert_eq!(who, [(owner(2).pane, owner(1).pane), (owner(1).pane, owner(2).pane)]);
}

#[test]
fn request_that_closes_a_cycle_of_three_is_refused() {
    let mut fixture = Fixture::default();
    for (n, name) in [(1, "/a"), (2, "/b"), (3, "/c")] {
        fixture.granted(n, Exclusive, &[name]);
    }
    fixture.waits(1, Exclusive, &["/b"]);
    fixture.waits(2, Exclusive, &["/c"]);

    let LockOutcome::Deadlock(circle) = fixture.ask(3, Exclusive, &["/a"], true) else { panic!() };

    let paths: Vec<_> = circle.iter().map(|step| step.held.path.shown.as_str()).collect();
    assert_eq!(paths, ["/a", "/b", "/c"]);
}

#[test]
fn holder_does_not_wait_behind_a_request_for_its_lock() {
    let mut fixture = Fixture::default();
    fixture.granted(1, Write, &["/a"]);
    fixture.waits(2, Write, &["/a", "/b"]);

    fixture.granted(1, Write, &["/b"]);
}

#[test]
fn wait_ends_at_its_deadline_and_lease_at_its_expiry() {
    let mut fixture = Fixture::default();
    let held = fixture.granted(1, Write, &["/a"]);
    let ticket = fixture.waits(2, Write, &["/a"]);

    assert_eq!(fixture.table.next_due(), Some(Moment(1000)));
    assert_eq!(fixture.table.give_up(now(999)), []);
    assert_eq!(fixture.table.give_up(now(1000)), [(ticket, held.clone())]);
    assert_eq!(fixture.table.due(now(DEFAULT_LEASE - 1)), []);
    assert_eq!(fixture.table.due(now(DEFAULT_LEASE)), held);
}

#[test]
fn untagged_lock_is_not_released_with_a_tag() {
    let mut fixture = Fixture::default();
    let tagged = |tag: Option<&str>| Ask {
        wanted: vec![(LockId::from_random([9; 16]), path("/a", false))],
        mode: Write,
        owner: owner(1),
        ttl: None,
        tag: tag.map(str::to_owned),
        deadline: None,
    };

    fixture.table.acquire(tagged(Some("turn")), now(0));
    fixture.table.acquire(tagged(None), now(0));
    fixture.table.acquire(tagged(Some("turn")), now(0));

    assert_eq!(fixture.table.held().next().unwrap().tag, None);
}

/// An operation of a property test.
#[derive(Clone, Debug)]
enum Operation {
    Ask { who: u8, mode: LockMode, paths: Vec<(usize, bool)>, wait: bool },
    Release(usize),
    Leave(u8),
    Cancel(usize),
    Later(u64),
}

const PATHS: [&str; 7] = ["/", "/a", "/a/b", "/a/b/c", "/a/bc", "/d", "/d/e"];

fn operation() -> impl Strategy<Value = Operation> {
    let mode = prop_oneof![Just(Read), Just(Write), Just(Exclusive)];
    let paths = proptest::collection::vec((0..PATHS.len(), any::<bool>()), 1..3);
    prop_oneof![
        6 => (0..6_u8, mode, paths, any::<bool>())
            .prop_map(|(who, mode, paths, wait)| Operation::Ask { who, mode, paths, wait }),
        4 => any::<prop::sample::Index>().prop_map(|at| Operation::Release(at.index(64))),
        1 => (0..6_u8).prop_map(Operation::Leave),
        1 => any::<prop::sample::Index>().prop_map(|at| Operation::Cancel(at.index(64))),
        1 => (1..400_u64).prop_map(Operation::Later),
    ]
}

/// Asserts that no two owners hold conflicting locks.
fn assert_no_conflicts(table: &Table) {
    let held: Vec<&Held> = table.held().collect();
    for (at, one) in held.iter().enumerate() {
        for two in &held[at + 1..] {
            let may =
                one.owner.is(&two.owner) || one.mode.allows(two.mode) || !one.path.meets(&two.path);
            assert!(may, "{one:?} and {two:?}");
        }
    }
}

/// Asserts that each waiting request is blocked by a lock or by an earlier request.
fn assert_waits_are_necessary(table: &Table) {
    let waiting: Vec<(Ticket, &Ask)> = table.waiting().collect();
    for (at, (_, ask)) in waiting.iter().enumerate() {
        let by_lock = table.held().any(|held| stands_against(held, ask));
        let by_earlier = waiting[..at].iter().any(|(_, earlier)| excludes(earlier, ask));
        assert!(by_lock || by_earlier, "{ask:?}");
    }
}

/// Asserts that there is no deadlock: some owner that does not wait holds a lock.
fn assert_no_deadlock(table: &Table) {
    let waits = |owner: &Owner| table.waiting().any(|(_, ask)| ask.owner.is(owner));
    let moving = table.held().any(|held| !waits(&held.owner));
    assert!(table.waiting().next().is_none() || moving, "{table:#?}");
}

/// Asserts that no request was granted before an earlier one that it blocks.
fn assert_granted_in_order(
    table: &Table,
    held_before: &HashSet<Owner>,
    served: &[(Ticket, Vec<Held>)],
) {
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
    /// R20, for arbitrary sequences of operations.
    #[test]
    fn rules_hold_for_arbitrary_operations(
        operations in proptest::collection::vec(operation(), 1..120)
    ) {
        let mut fixture = Fixture::default();
        let mut time = 0;
        let mut last = Token(0);
        let mut remembered: BTreeMap<Token, Held> = BTreeMap::new();
        for operation in operations {
            let owners: HashSet<Owner> = fixture.table.held().map(|held| held.owner.clone()).collect();
            let mut granted = Vec::new();
            match operation {
                Operation::Ask { who, mode, paths, wait } => {
                    // An owner makes one request at a time.
                    if fixture.table.waiting().any(|(_, ask)| ask.owner.is(&owner(who))) {
                        continue;
                    }
                    let paths = paths.iter().map(|&(at, tree)| path(PATHS[at], tree)).collect();
                    let deadline = wait.then_some(time + 300);
                    if let LockOutcome::Granted(held) = fixture.ask_for(who, mode, paths, deadline, time) {
                        granted.extend(held);
                    }
                }
                Operation::Release(at) => {
                    let held = fixture.table.held().nth(at).cloned();
                    if let Some(held) = held {
                        fixture.table.release(held.id, Some(held.token)).unwrap();
                        prop_assert_eq!(fixture.table.get(held.id, None), Err(NotHeld));
                        prop_assert_eq!(fixture.table.check(&held.path, held.token), Err(NotHeld));
                    }
                }
                Operation::Leave(who) => {
                    fixture.table.forget(&owner(who));
                    fixture.table.release_all(|held| held.owner.is(&owner(who)));
                    prop_assert!(!fixture.table.concerns(&owner(who)));
                }
                Operation::Cancel(at) => {
                    let ticket = fixture.table.waiting().nth(at).map(|(ticket, _)| ticket);
                    if let Some(ticket) = ticket {
                        prop_assert!(fixture.table.cancel(ticket));
                    }
                }
                Operation::Later(millis) => {
                    time += millis;
                    fixture.table.give_up(now(time));
                    for held in fixture.table.due(now(time)) {
                        fixture.table.release(held.id, Some(held.token)).unwrap();
                    }
                }
            }
            let served = fixture.table.serve(now(time));
            assert_granted_in_order(&fixture.table, &owners, &served);
            granted.extend(served.into_iter().flat_map(|(_, locks)| locks));
            for held in granted.iter().filter(|held| !remembered.contains_key(&held.token)) {
                prop_assert!(held.token > last);
                last = held.token;
            }
            for change in fixture.table.take_changes() {
                match change {
                    TableChange::Put(held) => drop(remembered.insert(held.token, *held)),
                    TableChange::Drop(token) => drop(remembered.remove(&token)),
                }
            }
            prop_assert!(fixture.table.held().eq(remembered.values()));
            assert_no_conflicts(&fixture.table);
            assert_waits_are_necessary(&fixture.table);
            assert_no_deadlock(&fixture.table);
        }
        for who in 0..6 {
            fixture.table.forget(&owner(who));
            fixture.table.release_all(|held| held.owner.is(&owner(who)));
        }
        prop_assert!(fixture.table.names.is_empty() && fixture.table.ids.is_empty());
        prop_assert!(fixture.table.holdings.is_empty() && fixture.table.waiting.is_empty());
    }
}
