//! R20 under load: fifty owners contend for a few files while owners are killed, leases expire and
//! the daemon dies. Their observations are then compared with the guarantees.
//!
//! `CCMUX_SOAK_LOCKS` sets the number of locks; `make soak` takes a hundred thousand, and every
//! owner is a pane.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, HashMap};
use std::process::Child;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use client::{Connection, ConnectionError};
use model::LockId;
use model::lock::{LockMode, LockScope, Token};
use protocol::control::SOCKET as CONTROL_SOCKET;
use protocol::control::{Request, Response};
use protocol::locks::{Acquire, LockRequest, LockView};
use protocol::{ErrorBody, ErrorCode};
use rustix::process::Signal;
use testkit::soak::repetitions;
use testkit::{Dice, Home, process, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Deadline on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Number of owners.
const OWNERS: usize = 50;

/// Number of owners that are panes (default; see `CCMUX_SOAK_LOCK_PANES`).
const PANES: usize = 10;

/// Number of files to contend for.
const FILES: usize = 8;

/// Number of times the daemon is killed.
const DEATHS: usize = 3;

/// Wait timeout in milliseconds: longer than the whole run.
const FOR_EVER: u64 = 500_000;

/// A lease, in milliseconds, that expires while its owner is stopped.
const SHORT_LEASE: u64 = 30;

/// One lock as observed by its owner.
#[derive(Clone, Copy)]
struct Grant {
    daemon: u32,
    turn: u64,
    token: Token,
    mode: LockMode,
}

/// State shared by all owners.
struct Arena<'a> {
    home: &'a Home,
    done: AtomicUsize,
    wanted: usize,
    panes: usize,
    /// Held while a daemon is started.
    starting: Mutex<()>,
    /// The current holders of each file, as far as they know.
    holding: Mutex<HashMap<String, Vec<(usize, LockMode)>>>,
    /// Every lock by file.
    grants: Mutex<BTreeMap<String, Vec<Grant>>>,
}

/// The owner of locks.
enum Owner {
    Pane(String),
    Process(Child),
}

struct Contender<'a> {
    arena: &'a Arena<'a>,
    number: usize,
    owner: Owner,
    /// A second owner, to take over the locks that the first one loses.
    second: Owner,
    dice: Dice,
    daemon: Option<Connection>,
}

impl<'a> Contender<'a> {
    fn new(arena: &'a Arena<'a>, number: usize) -> Self {
        let owner = if number < arena.panes {
            Owner::Pane(arena.home.start_pane(&format!("p{number}"), &["sleep", "100000"]).id)
        } else {
            Owner::sleeper(arena.home)
        };
        let mut dice = Dice::default();
        for _ in 0..number {
            dice.roll(2);
        }
        let second = Owner::sleeper(arena.home);
        Self { arena, number, owner, second, dice, daemon: None }
    }

    fn run(mut self) {
        while self.arena.done.fetch_add(1, Ordering::Relaxed) < self.arena.wanted {
            match self.dice.roll(20) {
                0 => self.die_with_a_lock(),
                1 => self.be_stopped_past_the_lease(),
                _ => self.take_and_give_back(),
            }
        }
    }

    fn take_and_give_back(&mut self) {
        let (paths, mode) = (self.some_paths(), self.some_mode());
        let locks = self.acquire(&paths, mode, None, &self.owner.name());
        self.enter(&locks, mode);
        if self.dice.roll(3) == 0 {
            let lock = &locks[0];
            let renewed = LockRequest::Renew { id: lock.id, token: Some(lock.token) };
            self.ask(&renewed).unwrap();
            let check = LockRequest::Check { path: lock.path.clone(), token: lock.token };
            self.ask(&check).unwrap();
        }
        self.leave(&locks);
        for lock in &locks {
            self.release(lock.id, lock.token);
        }
    }

    /// Takes locks that are released only by the death of their owner.
    fn die_with_a_lock(&mut self) {
        let (paths, mode) = (self.some_paths(), self.some_mode());
        let locks = self.acquire(&paths, mode, None, &self.second.name());
        self.enter(&locks, mode);
        self.leave(&locks);
        let fresh = Owner::sleeper(self.arena.home);
        std::mem::replace(&mut self.second, fresh).kill();
    }

    /// Lets the lease expire while the owner is stopped, takes the file for the second owner, and
    /// continues the first.
    fn be_stopped_past_the_lease(&mut self) {
        let paths = self.some_paths();
        let first = Owner::sleeper(self.arena.home);
        let stale = self.acquire(&paths, LockMode::Write, Some(SHORT_LEASE), &first.name());
        first.signal(Signal::STOP);
        let next = self.acquire(&paths, LockMode::Exclusive, None, &self.owner.name());
        self.enter(&next, LockMode::Exclusive);
        first.signal(Signal::CONT);

        for (old, new) in stale.iter().zip(&next) {
            assert!(old.token < new.token, "{old:?} {new:?}");
            let check = LockRequest::Check { path: old.path.clone(), token: old.token };
            assert_eq!(self.ask(&check).unwrap_err().code, ErrorCode::Conflict, "{old:?}");
            let renew = LockRequest::Renew { id: old.id, token: Some(old.token) };
            assert_eq!(self.ask(&renew).unwrap_err().code, ErrorCode::NotFound, "{old:?}");
            let release = LockRequest::Release { id: old.id, token: Some(old.token) };
            assert_eq!(self.ask(&release).unwrap_err().code, ErrorCode::NotFound, "{old:?}");
        }
        self.leave(&next);
        for lock in &next {
            self.release(lock.id, lock.token);
        }
        first.kill();
    }

    /// Records the locks as held.
    fn enter(&self, locks: &[LockView], mode: LockMode) {
        let mut holding = self.arena.holding.lock().unwrap_or_else(PoisonError::into_inner);
        for lock in locks {
            let others = holding.entry(lock.path.clone()).or_default();
            let clash = others.iter().find(|(_, other)| !mode.allows(*other));
            assert!(clash.is_none(), "{lock:?} of {} clashes with {clash:?}", self.number);
            others.push((self.number, mode));
        }
    }

    /// Records the locks as free, before they are released.
    fn leave(&self, locks: &[LockView]) {
        let mut holding = self.arena.holding.lock().unwrap_or_else(PoisonError::into_inner);
        for lock in locks {
            holding.get_mut(&lock.path).unwrap().retain(|(who, _)| *who != self.number);
        }
    }

    fn acquire(
        &mut self,
        paths: &[String],
        mode: LockMode,
        ttl_ms: Option<u64>,
        owner: &(Option<String>, Option<u32>),
    ) -> Vec<LockView> {
        let request = LockRequest::Acquire(Acquire {
            paths: paths.to_vec(),
            mode,
            tree: false,
            scope: LockScope::Worktree,
            pane: owner.0.clone(),
            process: owner.1,
            ttl_ms,
            wait_ms: FOR_EVER,
            tag: None,
        });
        let (locks, daemon, again) = self.ask_any_daemon(&request);
        let locks = locks.unwrap_or_else(|error| panic!("{}: {error:?}", self.number));
        assert_eq!(locks.len(), paths.len(), "locks are granted all or nothing");
        // After the death of a daemon it may be a lock that the previous one granted.
        if !again {
            let mut grants = self.arena.grants.lock().unwrap_or_else(PoisonError::into_inner);
            for lock in &locks {
                let grant = Grant { daemon, turn: lock.turn, token: lock.token, mode };
                grants.entry(lock.path.clone()).or_default().push(grant);
            }
        }
        locks
    }

    fn release(&mut self, id: LockId, token: Token) {
        let release = LockRequest::Release { id, token: Some(token) };
        let (released, _, again) = self.ask_any_daemon(&release);
        match released {
            Ok(_) => {}
            // The daemon died between the release and its response.
            Err(error) if again && error.code == ErrorCode::NotFound => {}
            Err(error) => panic!("{}: {error:?}", self.number),
        }
    }

    fn ask(&mut self, request: &LockRequest) -> Result<Vec<LockView>, ErrorBody> {
        self.ask_any_daemon(request).0
    }

    /// Returns the response, the daemon that sent it, and whether a daemon died before.
    fn ask_any_daemon(
        &mut self,
        request: &LockRequest,
    ) -> (Result<Vec<LockView>, ErrorBody>, u32, bool) {
        let mut again = false;
        loop {
            let connection = match self.daemon.take() {
                Some(connection) => connection,
                None => self.connect(),
            };
            let daemon = connection.welcome.pid;
            let connection = self.daemon.insert(connection);
            match connection.ask(&Request::Lock(request.clone())) {
                Ok(Response::Locks(locks)) => return (Ok(locks.locks), daemon, again),
                Ok(other) => panic!("{other:?}"),
                Err(ConnectionError::Remote(error)) => return (Err(error), daemon, again),
                Err(_) => {
                    self.daemon = None;
                    again = true;
                }
            }
        }
    }

    fn connect(&self) -> Connection {
        let run = self.arena.home.state_root().join("run");
        loop {
            if let Ok(connection) = Connection::open(&run, CONTROL_SOCKET) {
                return connection;
            }
            let _alone = self.arena.starting.lock().unwrap_or_else(PoisonError::into_inner);
            // It may have been started while this one waited, and killed again since.
            let _running = self.arena.home.ccmux(&["daemon", "start"]).timeout(PATIENCE).run();
        }
    }

    /// Returns one or two files.
    fn some_paths(&mut self) -> Vec<String> {
        let first = self.dice.roll(FILES as u64);
        let count = 1 + self.dice.roll(2);
        let dir = self.arena.home.dir().join("fought-for");
        let name = |n: u64| dir.join(format!("f{}", (first + n * 3) % FILES as u64));
        (0..count).map(|n| name(n).to_str().unwrap().to_owned()).collect()
    }

    fn some_mode(&mut self) -> LockMode {
        match self.dice.roll(5) {
            0 | 1 => LockMode::Read,
            2 | 3 => LockMode::Write,
            _ => LockMode::Exclusive,
        }
    }
}

impl Owner {
    fn sleeper(home: &Home) -> Self {
        Self::Process(home.program("sleep", &["100000"]).spawn())
    }

    fn name(&self) -> (Option<String>, Option<u32>) {
        match self {
            Self::Pane(id) => (Some(id.clone()), None),
            Self::Process(child) => (None, Some(child.id())),
        }
    }

    fn signal(&self, signal: Signal) {
        if let Self::Process(child) = self {
            process::signal(&process::identity(child.id()).unwrap(), signal);
        }
    }

    fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Self::Process(child) = self {
            // A second kill has no effect.
            let _dead = child.kill();
            let _reaped = child.wait();
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.end();
    }
}

/// Asserts that of two conflicting owners that asked the same daemon, the first was served first.
fn assert_served_in_order(grants: &BTreeMap<String, Vec<Grant>>) {
    for (path, grants) in grants {
        let mut by_turn = grants.clone();
        by_turn.sort_by_key(|grant| (grant.daemon, grant.turn));
        for daemon in by_turn.chunk_by(|one, two| one.daemon == two.daemon) {
            let (mut any, mut writers) = (Token(0), Token(0));
            for grant in daemon {
                let before = if grant.mode == LockMode::Read { writers } else { any };
                let (turn, token) = (grant.turn, grant.token);
                assert!(token > before, "{path}: {turn} was passed ({token} after {before})");
                any = any.max(token);
                if grant.mode != LockMode::Read {
                    writers = writers.max(token);
                }
            }
        }
    }
}

/// Asserts that no token was granted twice.
fn assert_tokens_are_unique(grants: &BTreeMap<String, Vec<Grant>>) {
    let mut tokens: Vec<Token> = grants.values().flatten().map(|grant| grant.token).collect();
    let count = tokens.len();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), count);
}

/// R20: no two conflicting holders, no stale token accepted, waiters in order, nothing left.
#[test]
fn heavy_contended_locks_keep_all_guarantees() {
    let home = Home::new(CCMUX);
    home.start_daemon();
    let arena = Arena {
        home: &home,
        done: AtomicUsize::new(0),
        wanted: repetitions("CCMUX_SOAK_LOCKS", 5_000),
        panes: repetitions("CCMUX_SOAK_LOCK_PANES", PANES),
        starting: Mutex::default(),
        holding: Mutex::default(),
        grants: Mutex::default(),
    };
    let fighters: Vec<Contender<'_>> =
        (0..OWNERS).map(|number| Contender::new(&arena, number)).collect();

    thread::scope(|scope| {
        for fighter in fighters {
            scope.spawn(|| fighter.run());
        }
        for death in 1..=DEATHS {
            let enough = arena.wanted * death / (DEATHS + 1);
            wait_until("enough locks were granted", Duration::from_secs(3600), || {
                arena.done.load(Ordering::Relaxed) >= enough
            });
            let _alone = arena.starting.lock().unwrap_or_else(PoisonError::into_inner);
            process::kill_and_wait(&home.start_daemon(), PATIENCE);
        }
    });

    let nothing_left = || {
        let listed = home.ccmux(&["lock", "ls", "--json"]).json();
        listed["locks"].as_array().is_some_and(Vec::is_empty)
    };
    wait_until("nothing is locked", PATIENCE, nothing_left);
    home.kill_daemon();
    assert!(nothing_left(), "the next daemon has locks");
    let grants = arena.grants.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert_tokens_are_unique(&grants);
    assert_served_in_order(&grants);
    let count: usize = grants.values().map(Vec::len).sum();
    assert!(count >= arena.wanted / 2, "{count} grants were seen");
}
