//! R20 under load: fifty owners fight for a few files while owners are killed, leases run out and
//! the daemon dies. What they saw is then compared with what was promised.
//!
//! `CCMUX_SOAK_LOCKS` says how many locks are taken; `make soak` says a hundred thousand, and that
//! every owner is a pane.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, HashMap};
use std::process::Child;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use model::LockId;
use model::lock::{LockMode, LockScope, Token};
use protocol::client::{CONTROL_SOCKET, ClientError, Connection};
use protocol::control::{Request, Response};
use protocol::locks::{Acquire, LockRequest, LockView};
use protocol::{ErrorBody, ErrorCode};
use rustix::process::Signal;
use testkit::soak::how_often;
use testkit::{Dice, Home, process, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Who fights.
const OWNERS: usize = 50;

/// So many of them are panes, unless `CCMUX_SOAK_LOCK_PANES` says otherwise.
const PANES: usize = 10;

/// What is fought for.
const FILES: usize = 8;

/// How often the daemon is killed.
const DEATHS: usize = 3;

/// How long anybody waits before that is a failure: longer than the whole run may take.
const FOR_EVER: u64 = 500_000;

/// A lease that runs out while its owner is stopped.
const SHORT_LEASE: u64 = 30;

/// One lock as its owner saw it.
#[derive(Clone, Copy)]
struct Grant {
    daemon: u32,
    turn: u64,
    token: Token,
    mode: LockMode,
}

/// What all of them know together.
struct Arena<'a> {
    home: &'a Home,
    done: AtomicUsize,
    wanted: usize,
    panes: usize,
    /// Held for as long as one starts a daemon.
    starting: Mutex<()>,
    /// Who is sure to have which file now.
    holding: Mutex<HashMap<String, Vec<(usize, LockMode)>>>,
    /// Every lock by its file.
    grants: Mutex<BTreeMap<String, Vec<Grant>>>,
}

/// Whose locks they are.
enum Owner {
    Pane(String),
    Process(Child),
}

struct Fighter<'a> {
    arena: &'a Arena<'a>,
    number: usize,
    owner: Owner,
    /// Another one, to take over what the first one lost.
    second: Owner,
    dice: Dice,
    daemon: Option<Connection>,
}

impl<'a> Fighter<'a> {
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

    fn fight(mut self) {
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

    /// Nobody gives these locks back but the death of their owner.
    fn die_with_a_lock(&mut self) {
        let (paths, mode) = (self.some_paths(), self.some_mode());
        let locks = self.acquire(&paths, mode, None, &self.second.name());
        self.enter(&locks, mode);
        self.leave(&locks);
        let fresh = Owner::sleeper(self.arena.home);
        std::mem::replace(&mut self.second, fresh).kill();
    }

    /// The lease runs out, somebody else gets the file, and the first one comes back.
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

    /// From now on nobody else may have these, as far as we can know.
    fn enter(&self, locks: &[LockView], mode: LockMode) {
        let mut holding = self.arena.holding.lock().unwrap_or_else(PoisonError::into_inner);
        for lock in locks {
            let others = holding.entry(lock.path.clone()).or_default();
            let clash = others.iter().find(|(_, other)| !mode.allows(*other));
            assert!(clash.is_none(), "{lock:?} of {} clashes with {clash:?}", self.number);
            others.push((self.number, mode));
        }
    }

    /// Before it is given back.
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
        let (locks, daemon, again) = self.ask_whoever_lives(&request);
        let locks = locks.unwrap_or_else(|error| panic!("{}: {error:?}", self.number));
        assert_eq!(locks.len(), paths.len(), "all or nothing");
        // After the death of a daemon it may be a lock that the last one granted.
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
        let (released, _, again) = self.ask_whoever_lives(&release);
        match released {
            Ok(_) => {}
            // The daemon died after it was given back and before it said so.
            Err(error) if again && error.code == ErrorCode::NotFound => {}
            Err(error) => panic!("{}: {error:?}", self.number),
        }
    }

    fn ask(&mut self, request: &LockRequest) -> Result<Vec<LockView>, ErrorBody> {
        self.ask_whoever_lives(request).0
    }

    /// The answer, the daemon that gave it, and whether one died before.
    fn ask_whoever_lives(
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
                Err(ClientError::Answer(error)) => return (Err(error), daemon, again),
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
            // It may have been started while we waited for our turn, and killed again since.
            let _running = self.arena.home.ccmux(&["daemon", "start"]).patience(PATIENCE).run();
        }
    }

    /// One or two files.
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
            // Killed twice is as dead.
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

/// Of two that excluded each other and asked the same daemon, the earlier asker was served first.
fn served_in_order(grants: &BTreeMap<String, Vec<Grant>>) {
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

/// No token was given twice.
fn tokens_are_unique(grants: &BTreeMap<String, Vec<Grant>>) {
    let mut tokens: Vec<Token> = grants.values().flatten().map(|grant| grant.token).collect();
    let count = tokens.len();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), count);
}

/// R20: no two conflicting holders, no stale token, waiters in order, nothing left.
#[test]
fn heavy_contended_locks_keep_every_promise() {
    let home = Home::new(CCMUX);
    home.start_daemon();
    let arena = Arena {
        home: &home,
        done: AtomicUsize::new(0),
        wanted: how_often("CCMUX_SOAK_LOCKS", 5_000),
        panes: how_often("CCMUX_SOAK_LOCK_PANES", PANES),
        starting: Mutex::default(),
        holding: Mutex::default(),
        grants: Mutex::default(),
    };
    let fighters: Vec<Fighter<'_>> =
        (0..OWNERS).map(|number| Fighter::new(&arena, number)).collect();

    thread::scope(|scope| {
        for fighter in fighters {
            scope.spawn(|| fighter.fight());
        }
        for death in 1..=DEATHS {
            let enough = arena.wanted * death / (DEATHS + 1);
            wait_until("there was enough fighting", Duration::from_secs(3600), || {
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
    assert!(nothing_left(), "the next daemon found something");
    let grants = arena.grants.into_inner().unwrap_or_else(PoisonError::into_inner);
    tokens_are_unique(&grants);
    served_in_order(&grants);
    let count: usize = grants.values().map(Vec::len).sum();
    assert!(count >= arena.wanted / 2, "{count} grants were seen");
}
