//! The pane that a client of the control socket runs in, established by the kernel.
//!
//! A process cannot choose its ancestors. Every keeper is a child subreaper, so the chain of parents
//! of each process in a pane ends at the pane's keeper for as long as the keeper lives, however
//! often the process forked and whatever it did to its environment. The chain is read from `/proc`
//! and compared with the keepers that the caller knows by pid and start time.
//!
//! ```text
//! peer -> parent -> ... -> known keeper             Inside(pane of that keeper)
//! peer -> parent -> ... -> unknown keeper, daemon   weak evidence, else Unknown
//! peer -> parent -> ... -> init                     weak evidence, else Outside
//! chain not readable, peer exited                   Unknown
//! ```
//!
//! Weak evidence covers processes whose keeper died before them: the control group, the terminal
//! session, and the pane id in the environment from exec time. It can only show that a process is
//! in a pane, never that it is outside.
//!
//! # Limits
//!
//! A program in a pane that has a process outside of it started on its behalf (`systemd-run --user`,
//! `at`, a container engine, an already running tmux server, ssh to the same machine) acts through
//! that process, which is outside by every measure of the kernel. On a `/proc` mounted with
//! `hidepid`, parents that belong to other users are invisible to a daemon that is not root; such
//! chains are [`Unknown`](PeerOrigin::Unknown).
#![expect(unsafe_code, reason = "no library has a safe form of SO_PEERPIDFD")]

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use model::PaneId;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::cgroup;
use crate::own_processes::OwnProcesses;
use crate::process::{self, Stat};

/// Longest chain of parents that is followed. A longer one is refused, not trusted.
const MAX_DEPTH: usize = 4096;

/// How often the walk starts again because a process of the chain ended meanwhile.
const MAX_ATTEMPTS: usize = 8;

/// Maximum number of processes in the cache. It is emptied when it is full.
const MAX_CACHED: usize = 1024;

/// Whether a client runs in a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerOrigin {
    /// No ancestor is a keeper: the client was started by the user outside of all panes.
    Outside,
    /// The client is a process of this pane.
    Inside(PaneId),
    /// The chain of parents could not be established; the request must be refused.
    Unknown(UnknownReason),
}

/// Why the origin of a client is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownReason {
    /// The client exited, or lives in a process namespace that is not visible from here.
    PeerExited,
    /// A parent exists but `/proc` does not show it.
    ParentHidden,
    /// The chain kept changing while it was read.
    ChainUnstable,
    /// The chain is longer than any that is followed.
    ChainTooLong,
    /// An ancestor is a daemon, or a keeper that the caller does not know (yet).
    UnknownKeeper,
    /// The environments of the chain name different panes.
    ConflictingMarks,
}

impl fmt::Display for UnknownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PeerExited => "the client process exited",
            Self::ParentHidden => "a parent of the client process is not visible in /proc",
            Self::ChainUnstable => "the parents of the client process kept changing",
            Self::ChainTooLong => "the client process has too many ancestors",
            Self::UnknownKeeper => "the client process belongs to an unknown keeper",
            Self::ConflictingMarks => "the environment of the client names several panes",
        })
    }
}

/// The pane processes that the caller knows.
pub struct KnownPanes<'a> {
    /// Returns the pane whose keeper has this pid and start time ([`Stat::start`]). Should know a
    /// keeper from the moment it is spawned, not only once it is ready.
    pub keeper: &'a dyn Fn(u32, u64) -> Option<PaneId>,
    /// Returns the pane whose terminal session has this id, which is the pid of its first process.
    pub session: &'a dyn Fn(u32) -> Option<PaneId>,
    /// The daemon and the keepers of this state root.
    pub own: &'a OwnProcesses,
    /// What is known about the ancestors of earlier clients.
    pub cache: &'a AncestorCache,
}

/// What was read about the ancestors of clients. The ancestors of most clients are the same few
/// shells, and reading about one costs more than all other work for a connection.
///
/// An entry is used for as long as the process executes the same program. What a process does to its
/// environment or its control group meanwhile is not noticed, which can only hide what it should not
/// be able to change.
#[derive(Debug, Default)]
pub struct AncestorCache(Mutex<HashMap<Execution, Ancestor>>);

/// A program execution: pid, start time and [`Stat::image`] of the process.
type Execution = (u32, u64, u64);

#[derive(Clone, Debug, Default)]
struct Ancestor {
    /// Whether it is the daemon or a keeper.
    is_own: Option<bool>,
    evidence: Option<Evidence>,
}

impl Ancestor {
    fn is_own(&mut self) -> &mut Option<bool> {
        &mut self.is_own
    }

    fn evidence(&mut self) -> &mut Option<Evidence> {
        &mut self.evidence
    }
}

impl AncestorCache {
    /// Returns what is known about a process, or reads and remembers it.
    fn get<T: Clone>(
        &self,
        process: &Stat,
        slot: impl Fn(&mut Ancestor) -> &mut Option<T>,
        read: impl FnOnce() -> T,
    ) -> T {
        let execution = (process.pid, process.start, process.image);
        if let Some(known) = self.0.lock().get_mut(&execution)
            && let Some(value) = slot(known)
        {
            return value.clone();
        }
        let value = read();
        // The address of the environment of a process that may not be examined is 0.
        if process.image != 0 {
            let mut entries = self.0.lock();
            if entries.len() >= MAX_CACHED {
                entries.clear();
            }
            *slot(entries.entry(execution).or_default()) = Some(value.clone());
        }
        value
    }
}

impl fmt::Debug for KnownPanes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownPanes").field("own", self.own).finish_non_exhaustive()
    }
}

/// Returns the pane of the process that connected `stream`, a Unix socket.
///
/// The process is pinned while it is examined, so its pid cannot be reused meanwhile. A process
/// that connected and exited is unknown, even if the connection lives on in a child.
#[must_use]
pub fn of_stream(stream: impl AsFd, known: &KnownPanes<'_>) -> PeerOrigin {
    let exited = PeerOrigin::Unknown(UnknownReason::PeerExited);
    let stream = stream.as_fd();
    let Some(pid) = peer_pid(stream) else { return exited };
    // Before Linux 6.5 there is no descriptor of the peer, only its pid, which another process can
    // have by now if the peer exited right after it connected.
    let pinned = match socket_option(stream, libc::SO_PEERPIDFD) {
        // SAFETY: the kernel has just created this descriptor for the call; it has no other owner.
        Ok([fd]) => Some(unsafe { OwnedFd::from_raw_fd(fd) }),
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => open_pid(pid),
        Err(_) => None,
    };
    pinned.map_or(exited, |pidfd| of_pinned(pid, &pidfd, known))
}

/// Returns the pane of the process with this pid, as reported by `SO_PEERCRED`.
///
/// Prefer [`of_stream`], which also notices that the pid was reused since the connection was made.
#[must_use]
pub fn of_pid(pid: u32, known: &KnownPanes<'_>) -> PeerOrigin {
    match open_pid(pid) {
        Some(pidfd) => of_pinned(pid, &pidfd, known),
        None => PeerOrigin::Unknown(UnknownReason::PeerExited),
    }
}

/// Examines `pid`; the answer is about the process of `pidfd` if that one is alive afterwards.
fn of_pinned(pid: u32, pidfd: &OwnedFd, known: &KnownPanes<'_>) -> PeerOrigin {
    let origin = origin(pid, known, &process::stat, &exists, &Evidence::read);
    if has_exited(pidfd) { PeerOrigin::Unknown(UnknownReason::PeerExited) } else { origin }
}

/// Returns the pid of the process that connected a Unix socket; `None` if the process is in a
/// namespace that is not visible from here, for which the kernel reports pid 0.
fn peer_pid(stream: BorrowedFd<'_>) -> Option<u32> {
    // `struct ucred` consists of pid, uid and gid.
    let [pid, ..]: [libc::c_int; 3] = socket_option(stream, libc::SO_PEERCRED).ok()?;
    u32::try_from(pid).ok().filter(|pid| *pid != 0)
}

/// Reads a socket option that consists of integers.
fn socket_option<const N: usize>(
    stream: BorrowedFd<'_>,
    option: libc::c_int,
) -> io::Result<[libc::c_int; N]> {
    let mut value = [0; N];
    let mut length = libc::socklen_t::try_from(size_of_val(&value)).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open for the call, and the kernel writes at most `length` bytes,
    // which is the size of `value`.
    let got = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if got == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

fn open_pid(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// A pidfd becomes readable when its process has ended.
fn has_exited(pidfd: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    !matches!(poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&now)), Ok(0))
}

/// Whether a process has this pid, even if `/proc` does not show it.
fn exists(pid: u32) -> bool {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let probe = number.map(rustix::process::test_kill_process);
    matches!(probe, Some(Ok(()) | Err(rustix::io::Errno::PERM)))
}

/// Signs that a process belongs to a pane, other than its parents.
#[derive(Clone, Debug, Default)]
struct Evidence {
    /// The pane in whose control group the process is.
    group: Option<PaneId>,
    /// The panes that its environment names.
    marks: Vec<PaneId>,
}

impl Evidence {
    fn read(pid: u32) -> Self {
        Self { group: cgroup::pane_of(pid), marks: process::marks_of(pid) }
    }
}

/// The processes of a chain, nearest first, and the way it ended.
struct Chain {
    members: Vec<Stat>,
    end: ChainEnd,
}

enum ChainEnd {
    Keeper(PaneId),
    UnknownKeeper,
    Init,
}

fn origin(
    peer: u32,
    known: &KnownPanes<'_>,
    stat: &dyn Fn(u32) -> Option<Stat>,
    exists: &dyn Fn(u32) -> bool,
    evidence: &dyn Fn(u32) -> Evidence,
) -> PeerOrigin {
    let mut reason = UnknownReason::ChainUnstable;
    for _ in 0..MAX_ATTEMPTS {
        match chain(peer, known, stat, exists) {
            Ok(Chain { end: ChainEnd::Keeper(pane), .. }) => return PeerOrigin::Inside(pane),
            Ok(chain) => return by_evidence(&chain, known, evidence),
            Err(why @ UnknownReason::ChainUnstable) => reason = why,
            // The parent may just have ended; looking again tells.
            Err(why @ UnknownReason::ParentHidden) => reason = why,
            Err(why) => return PeerOrigin::Unknown(why),
        }
    }
    PeerOrigin::Unknown(reason)
}

/// Walks from the peer to the nearest keeper or to the end of the chain.
fn chain(
    peer: u32,
    known: &KnownPanes<'_>,
    stat: &dyn Fn(u32) -> Option<Stat>,
    exists: &dyn Fn(u32) -> bool,
) -> Result<Chain, UnknownReason> {
    let mut child = stat(peer).ok_or(UnknownReason::PeerExited)?;
    let mut members = vec![child];
    // A keeper reports about its own pane.
    if let Some(pane) = (known.keeper)(child.pid, child.start) {
        return Ok(Chain { members, end: ChainEnd::Keeper(pane) });
    }
    loop {
        // The parent of init, and of a process that entered this process namespace, has no number.
        if child.parent == 0 {
            return Ok(Chain { members, end: ChainEnd::Init });
        }
        if members.len() >= MAX_DEPTH {
            return Err(UnknownReason::ChainTooLong);
        }
        let Some(parent) = stat(child.parent) else {
            let hidden = exists(child.parent);
            return Err(if hidden {
                UnknownReason::ParentHidden
            } else {
                UnknownReason::ChainUnstable
            });
        };
        if !is_parent(&parent, &child, stat) {
            return Err(UnknownReason::ChainUnstable);
        }
        if let Some(pane) = (known.keeper)(parent.pid, parent.start) {
            return Ok(Chain { members, end: ChainEnd::Keeper(pane) });
        }
        if known.cache.get(&parent, Ancestor::is_own, || known.own.contains(parent.pid)) {
            return Ok(Chain { members, end: ChainEnd::UnknownKeeper });
        }
        members.push(parent);
        child = parent;
    }
}

/// Returns whether `parent`, which was read after `child` and has the number of its parent, is the
/// process that had this number then.
///
/// An ancestor is never younger than its descendant, also not one that adopted it, so a younger
/// process has the number of a parent that ended meanwhile. An older one has had its number since
/// before the child began. Only if both began within one clock tick does the child decide, which
/// still names this parent unless the parent ended.
fn is_parent(parent: &Stat, child: &Stat, stat: &dyn Fn(u32) -> Option<Stat>) -> bool {
    match parent.start.cmp(&child.start) {
        Ordering::Less => true,
        Ordering::Equal => stat(child.pid)
            .is_some_and(|again| again.start == child.start && again.parent == parent.pid),
        Ordering::Greater => false,
    }
}

/// Decides about a process without a known keeper among its ancestors.
fn by_evidence(
    chain: &Chain,
    known: &KnownPanes<'_>,
    evidence: &dyn Fn(u32) -> Evidence,
) -> PeerOrigin {
    // The client itself is new.
    let of_peer = chain.members.first().map(|peer| evidence(peer.pid));
    let of_ancestors =
        chain.members.iter().skip(1).map(|ancestor| {
            known.cache.get(ancestor, Ancestor::evidence, || evidence(ancestor.pid))
        });
    let evidence: Vec<Evidence> = of_peer.into_iter().chain(of_ancestors).collect();
    let by_session = |member: &Stat| (known.session)(member.session);
    let of_kernel = evidence
        .iter()
        .find_map(|found| found.group)
        .or_else(|| chain.members.iter().find_map(by_session));
    if let Some(pane) = of_kernel {
        return PeerOrigin::Inside(pane);
    }
    let mut marks = evidence.iter().flat_map(|found| &found.marks).copied();
    match (marks.next(), &chain.end) {
        (Some(first), _) if marks.all(|mark| mark == first) => PeerOrigin::Inside(first),
        (Some(_), _) => PeerOrigin::Unknown(UnknownReason::ConflictingMarks),
        (None, ChainEnd::UnknownKeeper) => PeerOrigin::Unknown(UnknownReason::UnknownKeeper),
        (None, ChainEnd::Keeper(_) | ChainEnd::Init) => PeerOrigin::Outside,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::net::UnixListener;
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn pane(number: u8) -> PaneId {
        PaneId::from_random([number; 16])
    }

    /// A shell script that runs until dropped, and the pid that it printed first.
    struct Script {
        child: Child,
        printed: u32,
    }

    impl Script {
        fn start(script: &str, mark: Option<PaneId>) -> Self {
            let mut command = Command::new("sh");
            command.args(["-c", script]).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
            command.envs(mark.map(|pane| ("CCMUX_PANE_ID", pane.to_string())));
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
            Self { child, printed: line.trim().parse().unwrap() }
        }
    }

    impl Drop for Script {
        fn drop(&mut self) {
            if let Some(found) = process::stat(self.printed) {
                process::signal_all(&[found], rustix::process::Signal::KILL);
            }
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
    }

    fn with_keeper(keeper: &dyn Fn(u32, u64) -> Option<PaneId>, pid: u32) -> PeerOrigin {
        let own = OwnProcesses::none();
        of_pid(
            pid,
            &KnownPanes { keeper, session: &|_| None, own: &own, cache: &AncestorCache::default() },
        )
    }

    #[test]
    fn grandchild_of_keeper_is_inside_its_pane() {
        let script = Script::start("sh -c 'sleep 1000 & echo $!; wait'; true", None);
        let this = process::stat(std::process::id()).unwrap();

        let origin = with_keeper(
            &|pid, start| (pid == this.pid && start == this.start).then(|| pane(1)),
            script.printed,
        );

        assert_eq!(origin, PeerOrigin::Inside(pane(1)));
    }

    #[test]
    fn double_forked_process_is_adopted_by_keeper_and_inside() {
        // The process of this test stands in for the keeper.
        rustix::process::set_child_subreaper(Pid::from_raw(1)).unwrap();
        // The substitution ends with its subshell, so the process is an orphan when its pid is printed.
        let command = "pid=$(setsid sleep 1000 >/dev/null & echo $!); echo $pid; read line";
        let script = Script::start(command, None);
        let this = std::process::id();

        let origin = with_keeper(&|pid, _| (pid == this).then(|| pane(2)), script.printed);

        assert_eq!(process::stat(script.printed).unwrap().parent, this);
        assert_eq!(origin, PeerOrigin::Inside(pane(2)));
    }

    #[test]
    fn keeper_pid_with_other_start_time_is_not_the_keeper() {
        let script = Script::start("sleep 1000 & echo $!; wait", None);
        let this = process::stat(std::process::id()).unwrap();

        let origin = with_keeper(
            &|pid, start| (pid == this.pid && start == this.start + 1).then(|| pane(3)),
            script.printed,
        );

        assert_ne!(origin, PeerOrigin::Inside(pane(3)));
    }

    #[test]
    fn nearest_keeper_wins() {
        let script = Script::start("sleep 1000 & echo $!; wait", None);
        let (shell, this) = (script.child.id(), std::process::id());

        let origin = with_keeper(
            &|pid, _| match pid {
                pid if pid == shell => Some(pane(4)),
                pid if pid == this => Some(pane(5)),
                _ => None,
            },
            script.printed,
        );

        assert_eq!(origin, PeerOrigin::Inside(pane(4)));
    }

    #[test]
    fn environment_mark_without_keeper_is_inside() {
        let script = Script::start("sleep 1000 & echo $!; wait", Some(pane(6)));
        let own = OwnProcesses::none();
        let known = KnownPanes {
            keeper: &|_, _| None,
            session: &|_| None,
            own: &own,
            cache: &AncestorCache::default(),
        };
        let of_script = [script.printed, script.child.id()];
        // The test may itself run in a pane, whose mark its ancestors carry.
        let evidence = |pid| match of_script.contains(&pid) {
            true => Evidence::read(pid),
            false => Evidence::default(),
        };

        let origin = origin(script.printed, &known, &process::stat, &exists, &evidence);

        assert_eq!(origin, PeerOrigin::Inside(pane(6)));
    }

    #[test]
    fn environment_mark_does_not_override_keeper() {
        let script = Script::start("sleep 1000 & echo $!; wait", Some(pane(7)));
        let this = std::process::id();

        let origin = with_keeper(&|pid, _| (pid == this).then(|| pane(8)), script.printed);

        assert_eq!(origin, PeerOrigin::Inside(pane(8)));
    }

    #[test]
    fn terminal_session_of_pane_without_keeper_is_inside() {
        let script = Script::start("setsid sh -c 'echo $$; exec sleep 1000' & wait", None);
        let session = script.printed;
        let own = OwnProcesses::none();
        let by_session = |id| (id == session).then(|| pane(9));
        let known = KnownPanes {
            keeper: &|_, _| None,
            session: &by_session,
            own: &own,
            cache: &AncestorCache::default(),
        };

        assert_eq!(of_pid(script.printed, &known), PeerOrigin::Inside(pane(9)));
    }

    #[test]
    fn exited_process_is_unknown() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();

        let origin = with_keeper(&|_, _| Some(pane(1)), pid);

        assert_eq!(origin, PeerOrigin::Unknown(UnknownReason::PeerExited));
    }

    #[test]
    fn stream_of_this_process_leads_to_its_parent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let _client = std::os::unix::net::UnixStream::connect(&path).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let parent = process::stat(std::process::id()).unwrap().parent;
        let own = OwnProcesses::none();
        let keeper = |pid, _| (pid == parent).then(|| pane(1));
        let known = KnownPanes {
            keeper: &keeper,
            session: &|_| None,
            own: &own,
            cache: &AncestorCache::default(),
        };

        assert_eq!(of_stream(&stream, &known), PeerOrigin::Inside(pane(1)));
    }

    #[test]
    fn stream_of_exited_process_is_unknown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let connect = "use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0); \
                       connect(S, pack_sockaddr_un($ARGV[0])) or die $!;";
        testkit::require!(Perl);
        let status = Command::new("perl").args(["-e", connect]).arg(&path).status().unwrap();
        assert!(status.success());
        let (stream, _) = listener.accept().unwrap();
        let own = OwnProcesses::none();
        let known = KnownPanes {
            keeper: &|_, _| Some(pane(1)),
            session: &|_| None,
            own: &own,
            cache: &AncestorCache::default(),
        };

        let origin = of_stream(&stream, &known);

        assert_eq!(origin, PeerOrigin::Unknown(UnknownReason::PeerExited));
    }

    /// A process: pid, parent, start.
    type Row = (u32, u32, u64);

    fn table(rows: &[Row]) -> HashMap<u32, Stat> {
        let row = |&(pid, parent, start): &Row| {
            let stat = Stat {
                pid,
                parent,
                session: pid,
                start,
                zombie: false,
                stopped: false,
                foreground: false,
                image: 0,
            };
            (pid, stat)
        };
        rows.iter().map(row).collect()
    }

    fn in_table(
        rows: &[Row],
        keeper: (u32, u64),
        evidence: &dyn Fn(u32) -> Evidence,
    ) -> PeerOrigin {
        let processes = table(rows);
        let own = OwnProcesses::none();
        let keepers = |pid, start| ((pid, start) == keeper).then(|| pane(1));
        let known = KnownPanes {
            keeper: &keepers,
            session: &|_| None,
            own: &own,
            cache: &AncestorCache::default(),
        };
        origin(30, &known, &|pid| processes.get(&pid).copied(), &|pid| pid == 99, evidence)
    }

    /// Processes, the keeper, the evidence, and the expected origin.
    type Case<'a> = (&'a [Row], (u32, u64), &'a dyn Fn(u32) -> Evidence, PeerOrigin);

    #[test]
    fn chains_are_classified() {
        use UnknownReason::{ChainUnstable, ConflictingMarks, ParentHidden, PeerExited};
        let none = |_| Evidence::default();
        let group = |pid| Evidence { group: (pid == 20).then(|| pane(2)), marks: vec![pane(3)] };
        let marks = |pid| match pid {
            30 => Evidence { group: None, marks: vec![pane(2)] },
            20 => Evidence { group: None, marks: vec![pane(3)] },
            _ => Evidence::default(),
        };
        let chain: &[_] = &[(30, 20, 9), (20, 10, 8), (10, 1, 7), (1, 0, 0)];
        let unknown = PeerOrigin::Unknown;
        let cases: [Case<'_>; 8] = [
            (chain, (10, 7), &none, PeerOrigin::Inside(pane(1))),
            (chain, (10, 6), &none, PeerOrigin::Outside),
            (chain, (5, 0), &group, PeerOrigin::Inside(pane(2))),
            (chain, (5, 0), &marks, unknown(ConflictingMarks)),
            (&[(20, 1, 8), (1, 0, 0)], (1, 0), &none, unknown(PeerExited)),
            (&[(30, 20, 9), (1, 0, 0)], (1, 0), &none, unknown(ChainUnstable)),
            (&[(30, 99, 9), (1, 0, 0)], (1, 0), &none, unknown(ParentHidden)),
            (&[(30, 20, 9), (20, 1, 10), (1, 0, 0)], (1, 0), &none, unknown(ChainUnstable)),
        ];
        for (number, (rows, keeper, evidence, expected)) in cases.into_iter().enumerate() {
            assert_eq!(in_table(rows, keeper, evidence), expected, "case {number}");
        }
    }

    #[test]
    fn chain_with_a_process_that_ends_meanwhile_is_read_again() {
        let before = table(&[(30, 20, 9)]);
        let after = table(&[(30, 10, 9), (10, 1, 7), (1, 0, 0)]);
        let reads = Cell::new(0);
        let stat = |pid| {
            reads.set(reads.get() + 1);
            let now = if reads.get() <= 2 { &before } else { &after };
            now.get(&pid).copied()
        };
        let own = OwnProcesses::none();
        let keeper = |pid, _| (pid == 10).then(|| pane(1));
        let known = KnownPanes {
            keeper: &keeper,
            session: &|_| None,
            own: &own,
            cache: &AncestorCache::default(),
        };

        let origin = origin(30, &known, &stat, &|_| false, &|_| Evidence::default());

        assert_eq!(origin, PeerOrigin::Inside(pane(1)));
    }

    #[test]
    fn ancestors_are_read_again_after_they_executed_another_program() {
        let processes = |image| {
            let mut processes = table(&[(30, 20, 9), (20, 1, 8), (1, 0, 0)]);
            processes.values_mut().for_each(|process| process.image = image);
            processes
        };
        let own = OwnProcesses::none();
        let cache = AncestorCache::default();
        let known =
            KnownPanes { keeper: &|_, _| None, session: &|_| None, own: &own, cache: &cache };
        let read = RefCell::new(Vec::new());
        let evidence = |pid| {
            read.borrow_mut().push(pid);
            Evidence::default()
        };

        for image in [5, 5, 6, 0, 0] {
            let processes = processes(image);
            let stat = |pid| processes.get(&pid).copied();
            origin(30, &known, &stat, &|_| false, &evidence);
            read.borrow_mut().push(0);
        }

        let expected = [30, 20, 1, 0, 30, 0, 30, 20, 1, 0, 30, 20, 1, 0, 30, 20, 1, 0];
        assert_eq!(*read.borrow(), expected);
    }

    #[test]
    fn full_cache_is_emptied() {
        let cache = AncestorCache::default();
        let stat = table(&[(1, 0, 0)])[&1];

        for pid in 0..2 * u32::try_from(MAX_CACHED).unwrap() {
            let process = Stat { pid, image: 1, ..stat };
            assert!(cache.get(&process, Ancestor::is_own, || true));
            assert!(cache.get(&process, Ancestor::is_own, || panic!("not remembered")));
        }

        assert!(cache.0.lock().len() <= MAX_CACHED);
    }

    #[test]
    fn chain_longer_than_the_limit_is_unknown() {
        let stat = |pid: u32| {
            let (parent, start) = (pid + 1, u64::from(u32::MAX - pid));
            Some(Stat {
                pid,
                parent,
                session: 1,
                start,
                zombie: false,
                stopped: false,
                foreground: false,
                image: 0,
            })
        };
        let own = OwnProcesses::none();
        let known = KnownPanes {
            keeper: &|_, _| None,
            session: &|_| None,
            own: &own,
            cache: &AncestorCache::default(),
        };

        let origin = origin(30, &known, &stat, &|_| false, &|_| Evidence::default());

        assert_eq!(origin, PeerOrigin::Unknown(UnknownReason::ChainTooLong));
    }

    #[test]
    fn descendant_of_unknown_keeper_is_never_outside() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().to_str().unwrap();
        let script = std::path::Path::new(home).join("keeper");
        let text = b"sleep 1000 & echo $!; wait";
        crate::file::write_atomic(&script, text, crate::file::Durability::ProcessCrash).unwrap();
        // `sh keeper` has the command line of `ccmux keeper`: the first argument is the role.
        let mut keeper = Command::new("sh")
            .arg("keeper")
            .current_dir(home)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env(crate::own_processes::VARIABLE, home)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(keeper.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let peer: u32 = line.trim().parse().unwrap();
        let own = OwnProcesses::of_root(home);
        let known = KnownPanes {
            keeper: &|_, _| None,
            session: &|_| None,
            own: &own,
            cache: &AncestorCache::default(),
        };

        let origin = of_pid(peer, &known);

        process::signal_all(&[process::stat(peer).unwrap()], rustix::process::Signal::KILL);
        keeper.kill().unwrap();
        keeper.wait().unwrap();
        assert_eq!(origin, PeerOrigin::Unknown(UnknownReason::UnknownKeeper));
    }
}
