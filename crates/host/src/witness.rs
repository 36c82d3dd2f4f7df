//! Who writes to files, by the word of the kernel.
//!
//! The kernel tells root which process wrote to a file of a directory that it was asked to look at
//! (fanotify). What was written is remembered by the file and not by its name: who writes a new
//! file and puts it in the place of an old one is known all the same.
//!
//! The process is looked up at once, by a thread that does nothing else: it may end in the next
//! moment. Whoever asks for a writer first takes in what the kernel has told until then.
#![expect(unsafe_code, reason = "the system calls of fanotify have no safe form")]

use std::collections::HashMap;
use std::ffi::CString;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::SystemTime;

use model::PaneId;
use rustix::event::{PollFd, PollFlags, poll};

use crate::household::Household;
use crate::process;

/// How many files are remembered; the older half goes when there are more.
const MOST_FILES: usize = 8192;

/// What the kernel is asked to tell.
const WRITTEN: u64 = libc::FAN_MODIFY | libc::FAN_CLOSE_WRITE | libc::FAN_EVENT_ON_CHILD;

/// The length of what the kernel says of one event.
const EVENT: usize = size_of::<libc::fanotify_event_metadata>();

/// Sees who writes, until it is dropped.
#[derive(Debug)]
pub struct Witness {
    inner: Arc<Inner>,
    /// The thread ends when this is closed.
    _stop: UnixStream,
}

#[derive(Debug)]
struct Inner {
    household: Household,
    told: Mutex<Told>,
}

/// What the kernel has told.
#[derive(Debug)]
struct Told {
    group: File,
    writers: HashMap<FileId, (PaneId, u64)>,
    count: u64,
}

/// A file, whatever it is called. Numbers are given away again; the time of birth is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FileId {
    dev: u64,
    ino: u64,
    born: Option<SystemTime>,
}

impl Witness {
    /// Begins; the household belongs to no pane.
    ///
    /// # Errors
    ///
    /// The system's: only root may ask, and not in every container.
    pub fn new(household: Household) -> io::Result<Self> {
        let flags = libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK;
        // Nothing that it opens for us may block.
        let open = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_LARGEFILE;
        let open = libc::c_uint::try_from(open).map_err(io::Error::other)?;
        // SAFETY: it takes numbers only and touches no memory of ours.
        let group = unsafe { libc::fanotify_init(flags, open) };
        if group < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
        let group = File::from(unsafe { OwnedFd::from_raw_fd(group) });
        let listener = group.try_clone()?;
        let told = Mutex::new(Told { group, writers: HashMap::new(), count: 0 });
        let inner = Arc::new(Inner { household, told });
        let (stop, stopped) = UnixStream::pair()?;
        let for_thread = Arc::clone(&inner);
        thread::Builder::new()
            .name("witness".to_owned())
            .spawn(move || listen(&for_thread, &listener, &stopped))?;
        Ok(Self { inner, _stop: stop })
    }

    /// Looks at the files in a directory from now on.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn watch(&self, dir: &Path) -> io::Result<()> {
        self.mark(dir, libc::FAN_MARK_ADD | libc::FAN_MARK_ONLYDIR)
    }

    /// Looks at them no longer. A directory that is gone is not looked at anyway.
    pub fn unwatch(&self, dir: &Path) {
        let _gone = self.mark(dir, libc::FAN_MARK_REMOVE | libc::FAN_MARK_ONLYDIR);
    }

    fn mark(&self, dir: &Path, flags: libc::c_uint) -> io::Result<()> {
        let path = CString::new(dir.as_os_str().as_bytes())?;
        let told = self.inner.told.lock().unwrap_or_else(PoisonError::into_inner);
        let group = told.group.as_raw_fd();
        // SAFETY: the path ends with a zero and lives until the call is over; the descriptor is
        // open as long as `told` is.
        let marked =
            unsafe { libc::fanotify_mark(group, flags, WRITTEN, libc::AT_FDCWD, path.as_ptr()) };
        if marked == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// The pane that wrote last to what this path leads to, if a pane did and it was seen.
    #[must_use]
    pub fn writer_of(&self, path: &Path) -> Option<PaneId> {
        let id = FileId::of(&fs::metadata(path).ok()?);
        let mut told = self.inner.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.take_in(&self.inner.household);
        told.writers.get(&id).map(|(pane, _)| *pane)
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
        let mut told = inner.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.take_in(&inner.household);
    }
}

impl Told {
    /// Takes in everything that the kernel has to tell at this moment.
    fn take_in(&mut self, household: &Household) {
        let mut buffer = [0; 256 * EVENT];
        loop {
            let read = match self.group.read(&mut buffer) {
                Ok(0) => return,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // That was all; or it fails for good, and the next one who asks is told nothing.
                Err(_) => return,
            };
            let mut rest = &buffer[..read];
            while let Some((event, after)) = Written::first(rest) {
                rest = after;
                self.note(&event, household);
            }
        }
    }

    fn note(&mut self, event: &Written, household: &Household) {
        let Some(Ok(found)) = event.file.as_ref().map(File::metadata) else { return };
        let id = FileId::of(&found);
        let Some(pane) = pane_of(event.pid, household) else {
            // Somebody else has written since.
            self.writers.remove(&id);
            return;
        };
        self.count += 1;
        self.writers.insert(id, (pane, self.count));
        if self.writers.len() > MOST_FILES {
            let half = u64::try_from(MOST_FILES / 2).unwrap_or(u64::MAX);
            let oldest = self.count.saturating_sub(half);
            self.writers.retain(|_, (_, when)| *when > oldest);
        }
    }
}

/// One event.
struct Written {
    file: Option<File>,
    pid: u32,
}

impl Written {
    /// The first event of what the kernel wrote, and what comes after it.
    fn first(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let number = |at: usize| bytes.get(at..at + 4)?.try_into().ok();
        let length = usize::try_from(u32::from_ne_bytes(number(0)?)).ok()?;
        if length < EVENT {
            return None;
        }
        let after = bytes.get(length..)?;
        let fd = i32::from_ne_bytes(number(16)?);
        let pid = u32::from_ne_bytes(number(20)?);
        // There is none where events were lost.
        let file = (fd >= 0).then(|| {
            // SAFETY: the kernel has opened this descriptor for whoever reads the event, which
            // happens once.
            File::from(unsafe { OwnedFd::from_raw_fd(fd) })
        });
        Some((Self { file, pid }, after))
    }
}

/// The pane that a process belongs to: its own mark, or that of the nearest parent that has one.
fn pane_of(pid: u32, household: &Household) -> Option<PaneId> {
    let outside = |pid: &u32| !household.contains(*pid);
    process::lineage(pid)
        .take_while(outside)
        .find_map(|pid| process::marks_of(pid).first().copied())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A shell of a pane, which does what it is told.
    fn shell(pane: PaneId) -> Child {
        Command::new("sh")
            .env("CCMUX_PANE_ID", pane.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Has it do something, and waits until that is done.
    fn run(shell: &mut Child, line: &str) {
        writeln!(shell.stdin.as_mut().unwrap(), "{line}; echo done").unwrap();
        let mut said = String::new();
        BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "done\n");
    }

    #[test]
    fn the_last_pane_that_wrote_a_file_is_known_whatever_the_file_was_called() {
        let witness = match Witness::new(Household::nobody()) {
            Ok(witness) => witness,
            Err(error) => {
                let refused = [io::ErrorKind::PermissionDenied, io::ErrorKind::Unsupported];
                assert!(refused.contains(&error.kind()), "{error}");
                println!("skipped: {error}; the kernel tells this to root only");
                return;
            }
        };
        let dir = tempfile::tempdir().unwrap();
        witness.watch(dir.path()).unwrap();
        let (one, two) = (PaneId::from_random([1; 16]), PaneId::from_random([2; 16]));
        let (mut shell_one, mut shell_two) = (shell(one), shell(two));
        let file = dir.path().join("file");
        let path = file.display();

        run(&mut shell_one, &format!("echo one > '{path}'"));
        assert_eq!(witness.writer_of(&file), Some(one));
        run(&mut shell_two, &format!("exec 3>>'{path}'; echo two >&3"));
        assert_eq!(witness.writer_of(&file), Some(two), "it has not closed it");
        run(&mut shell_one, &format!("echo new > '{path}.new'; mv '{path}.new' '{path}'"));
        assert_eq!(witness.writer_of(&file), Some(one));
        crate::file::write_atomic(&file, b"ours", crate::file::Survive::Kill).unwrap();
        assert_ne!(witness.writer_of(&file), Some(one), "it was not that one");
        witness.unwatch(dir.path());
        run(&mut shell_one, &format!("echo unseen > '{path}'"));
        assert_ne!(witness.writer_of(&file), Some(one));

        for mut shell in [shell_one, shell_two] {
            drop(shell.stdin.take());
            shell.wait().unwrap();
        }
    }

    #[test]
    fn what_is_no_event_is_none() {
        for bytes in [&[0_u8; 0][..], &[0; 23], &[0; 64], &[255; 24]] {
            assert!(Written::first(bytes).is_none(), "{bytes:?}");
        }
    }
}
