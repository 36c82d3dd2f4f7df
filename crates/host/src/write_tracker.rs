//! Tracks which pane last wrote a file, as reported by the kernel (fanotify).
//!
//! The kernel reports to root which process writes to files in watched directories. Writers are stored
//! by inode and not by name, so a file that replaces another one keeps its writer.
//!
//! A thread looks up each process at once, before it can end. Queries first process all pending
//! events.
#![expect(unsafe_code, reason = "the fanotify system calls have no safe form")]

use std::collections::HashMap;
use std::ffi::CString;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::SystemTime;

use model::PaneId;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, poll};

use crate::own_processes::OwnProcesses;
use crate::process;

/// Maximum number of remembered files; the older half is dropped beyond it.
const MAX_FILES: usize = 8192;

/// The events to report.
const WRITE_EVENTS: u64 = libc::FAN_MODIFY | libc::FAN_CLOSE_WRITE | libc::FAN_EVENT_ON_CHILD;

/// Size of an event.
const EVENT_SIZE: usize = size_of::<libc::fanotify_event_metadata>();

/// Tracks writers until it is dropped.
#[derive(Debug)]
pub struct WriteTracker {
    inner: Arc<Inner>,
    /// Closing it ends the thread.
    _stop: UnixStream,
}

#[derive(Debug)]
struct Inner {
    own: OwnProcesses,
    state: Mutex<State>,
}

/// The events received so far.
#[derive(Debug)]
struct State {
    group: File,
    writers: HashMap<FileId, (PaneId, u64)>,
    count: u64,
}

/// Identity of a file. Inode numbers are reused; together with the creation time they are unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FileId {
    dev: u64,
    ino: u64,
    born: Option<SystemTime>,
}

impl WriteTracker {
    /// Starts tracking. The processes of ccmux belong to no pane.
    ///
    /// # Errors
    ///
    /// Any error of the operating system: fanotify needs root, and some containers forbid it.
    pub fn new(own: OwnProcesses) -> io::Result<Self> {
        let flags = libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK;
        // Opening the reported files must not block.
        let open = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_LARGEFILE;
        let open = libc::c_uint::try_from(open).map_err(io::Error::other)?;
        // SAFETY: the call takes numbers only.
        let group = unsafe { libc::fanotify_init(flags, open) };
        if group < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just created this descriptor, and it has no other owner.
        let group = File::from(unsafe { OwnedFd::from_raw_fd(group) });
        let listener = group.try_clone()?;
        let state = Mutex::new(State { group, writers: HashMap::new(), count: 0 });
        let inner = Arc::new(Inner { own, state });
        let (stop, stopped) = UnixStream::pair()?;
        let for_thread = Arc::clone(&inner);
        thread::Builder::new()
            .name("write-tracker".to_owned())
            .spawn(move || listen(&for_thread, &listener, &stopped))?;
        Ok(Self { inner, _stop: stop })
    }

    /// Starts watching the files in a directory.
    ///
    /// # Errors
    ///
    /// Any error of the operating system.
    pub fn watch(&self, dir: &Path) -> io::Result<()> {
        self.mark(dir, libc::FAN_MARK_ADD | libc::FAN_MARK_ONLYDIR)
    }

    /// Stops watching a directory, which may have been removed.
    pub fn unwatch(&self, dir: &Path) {
        let _gone = self.mark(dir, libc::FAN_MARK_REMOVE | libc::FAN_MARK_ONLYDIR);
    }

    fn mark(&self, dir: &Path, flags: libc::c_uint) -> io::Result<()> {
        let path = CString::new(dir.as_os_str().as_bytes())?;
        let state = self.inner.state.lock();
        let group = state.group.as_raw_fd();
        // SAFETY: the path is NUL-terminated and outlives the call; the descriptor is open as long
        // as `state` is borrowed.
        let marked = unsafe {
            libc::fanotify_mark(group, flags, WRITE_EVENTS, libc::AT_FDCWD, path.as_ptr())
        };
        if marked == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Returns the pane that last wrote to the file at `path`, if that is known.
    #[must_use]
    pub fn writer_of(&self, path: &Path) -> Option<PaneId> {
        let id = FileId::of(&fs::metadata(path).ok()?);
        let mut state = self.inner.state.lock();
        state.drain(&self.inner.own);
        state.writers.get(&id).map(|(pane, _)| *pane)
    }
}

impl FileId {
    fn of(found: &Metadata) -> Self {
        Self { dev: found.dev(), ino: found.ino(), born: found.created().ok() }
    }
}

fn listen(inner: &Inner, group: &File, stopped: &UnixStream) {
    loop {
        let mut polled = [PollFd::new(group, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        }
        if !polled[1].revents().is_empty() {
            return;
        }
        let mut state = inner.state.lock();
        state.drain(&inner.own);
    }
}

impl State {
    /// Processes all pending events.
    fn drain(&mut self, own: &OwnProcesses) {
        let mut buffer = [0; 256 * EVENT_SIZE];
        loop {
            let read = match self.group.read(&mut buffer) {
                Ok(0) => return,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // No event left, or a permanent error, after which writers are unknown.
                Err(_) => return,
            };
            let mut rest = &buffer[..read];
            while let Some((event, after)) = WriteEvent::parse(rest) {
                rest = after;
                self.record(&event, own);
            }
        }
    }

    fn record(&mut self, event: &WriteEvent, own: &OwnProcesses) {
        let Some(Ok(found)) = event.file.as_ref().map(File::metadata) else { return };
        let id = FileId::of(&found);
        let Some(pane) = pane_of(event.pid, own) else {
            // Written by a process outside of all panes.
            self.writers.remove(&id);
            return;
        };
        self.count += 1;
        self.writers.insert(id, (pane, self.count));
        if self.writers.len() > MAX_FILES {
            let half = u64::try_from(MAX_FILES / 2).unwrap_or(u64::MAX);
            let oldest = self.count.saturating_sub(half);
            self.writers.retain(|_, (_, when)| *when > oldest);
        }
    }
}

/// A write event.
struct WriteEvent {
    file: Option<File>,
    pid: u32,
}

impl WriteEvent {
    /// Parses the first event of a buffer and returns it with the rest.
    fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let number = |at: usize| bytes.get(at..at + 4)?.try_into().ok();
        let length = usize::try_from(u32::from_ne_bytes(number(0)?)).ok()?;
        if length < EVENT_SIZE {
            return None;
        }
        let after = bytes.get(length..)?;
        let fd = i32::from_ne_bytes(number(16)?);
        let pid = u32::from_ne_bytes(number(20)?);
        // A queue overflow event has no file.
        let file = (fd >= 0).then(|| {
            // SAFETY: the kernel has opened this descriptor for the reader of the event, which is
            // parsed once.
            File::from(unsafe { OwnedFd::from_raw_fd(fd) })
        });
        Some((Self { file, pid }, after))
    }
}

/// Returns the pane of a process: its own mark, or that of its nearest marked ancestor.
fn pane_of(pid: u32, own: &OwnProcesses) -> Option<PaneId> {
    let outside = |pid: &u32| !own.contains(*pid);
    process::ancestors(pid)
        .take_while(outside)
        .find_map(|pid| process::marks_of(pid).first().copied())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Starts a shell with the mark of a pane.
    fn shell(pane: PaneId) -> Child {
        Command::new("sh")
            .env("CCMUX_PANE_ID", pane.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Runs a command in the shell and waits for its end.
    fn run(shell: &mut Child, line: &str) {
        writeln!(shell.stdin.as_mut().unwrap(), "{line}; echo done").unwrap();
        let mut line_read = String::new();
        BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut line_read).unwrap();
        assert_eq!(line_read, "done\n");
    }

    #[test]
    fn writer_of_file_is_known_across_renames() {
        testkit::require!(Fanotify);
        let tracker = WriteTracker::new(OwnProcesses::none()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        tracker.watch(dir.path()).unwrap();
        let (one, two) = (PaneId::from_random([1; 16]), PaneId::from_random([2; 16]));
        let (mut shell_one, mut shell_two) = (shell(one), shell(two));
        let file = dir.path().join("file");
        let path = file.display();

        run(&mut shell_one, &format!("echo one > '{path}'"));
        assert_eq!(tracker.writer_of(&file), Some(one));
        run(&mut shell_two, &format!("exec 3>>'{path}'; echo two >&3"));
        assert_eq!(tracker.writer_of(&file), Some(two), "the file is still open");
        run(&mut shell_one, &format!("echo new > '{path}.new'; mv '{path}.new' '{path}'"));
        assert_eq!(tracker.writer_of(&file), Some(one));
        crate::file::write_atomic(&file, b"ours", crate::file::Durability::ProcessCrash).unwrap();
        assert_ne!(tracker.writer_of(&file), Some(one), "written by this process");
        tracker.unwatch(dir.path());
        run(&mut shell_one, &format!("echo unseen > '{path}'"));
        assert_ne!(tracker.writer_of(&file), Some(one));

        for mut shell in [shell_one, shell_two] {
            drop(shell.stdin.take());
            shell.wait().unwrap();
        }
    }

    #[test]
    fn parse_rejects_invalid_events() {
        for bytes in [&[0_u8; 0][..], &[0; 23], &[0; 64], &[255; 24]] {
            assert!(WriteEvent::parse(bytes).is_none(), "{bytes:?}");
        }
    }
}
