//! The user's terminal: what it is, how it was, and the promise that it will be so again.

use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::terminal::outer;
use model::Size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, fstat};
use rustix::io::Errno;
use rustix::process::getpgrp;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr};

/// How long a terminal that takes no output may hold us up when we leave.
const STALLED: Duration = Duration::from_secs(1);

/// Where the user sits.
#[derive(Debug)]
pub(crate) struct Terminal {
    input: OwnedFd,
    output: OwnedFd,
    /// Input and output are one terminal, open for both: it can be handed to a keeper.
    can_be_passed: bool,
}

impl Terminal {
    /// The terminal of this process; none if it has none to read keys from and paint on.
    pub(crate) fn of_this_process() -> Option<Self> {
        Self::of(io::stdin().as_fd(), io::stdout().as_fd())
    }

    /// The terminal behind these descriptors.
    pub(super) fn of(input: BorrowedFd<'_>, output: BorrowedFd<'_>) -> Option<Self> {
        if !input.is_terminal() || !output.is_terminal() {
            return None;
        }
        let is_same = match (fstat(input), fstat(output)) {
            (Ok(input), Ok(output)) => input.st_rdev == output.st_rdev,
            _ => false,
        };
        let is_two_way =
            fcntl_getfl(input).is_ok_and(|flags| flags & OFlags::RWMODE == OFlags::RDWR);
        Some(Self {
            input: input.try_clone_to_owned().ok()?,
            output: output.try_clone_to_owned().ok()?,
            can_be_passed: is_same && is_two_way,
        })
    }

    /// The descriptor for the keeper, where one will do for both directions.
    pub(crate) fn to_pass(&self) -> Option<BorrowedFd<'_>> {
        self.can_be_passed.then(|| self.input.as_fd())
    }

    /// Whether another job of the user's shell has it. A terminal that is not ours to control
    /// has no jobs that we could know of.
    pub(crate) fn is_busy(&self) -> bool {
        tcgetpgrp(&self.input).is_ok_and(|foreground| foreground != getpgrp())
    }

    /// Where keys come from.
    pub(crate) fn input(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    /// Its size; none if it does not know.
    pub(crate) fn size(&self) -> Option<Size> {
        let size = tcgetwinsize(&self.output).ok()?;
        (size.ws_col > 0 && size.ws_row > 0).then(|| Size::clamped(size.ws_col, size.ws_row))
    }

    /// Passes keys on as they are typed, and everything else as it is.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn make_raw(&self) -> io::Result<()> {
        let mut raw = tcgetattr(&self.input)?;
        raw.make_raw();
        Ok(tcsetattr(&self.input, OptionalActions::Now, &raw)?)
    }

    /// Writes all of it, however long the terminal takes.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn paint(&self, bytes: &[u8]) -> io::Result<()> {
        write_until(&self.output, bytes, None)
    }
}

/// Puts the terminal back as it was: when dropped, and before a panic is printed.
///
/// # Invariant
///
/// It happens once, whoever comes first.
#[derive(Debug)]
#[must_use = "the terminal is restored when this is dropped"]
pub(crate) struct Restore(Arc<Mutex<Option<Saved>>>);

/// What the terminal was like.
#[derive(Debug)]
struct Saved {
    input: OwnedFd,
    output: OwnedFd,
    termios: Termios,
    /// The flags belong to the terminal's open file and are shared with the user's shell.
    input_flags: OFlags,
    output_flags: OFlags,
}

impl Restore {
    /// Remembers what the terminal is like now.
    ///
    /// # Errors
    ///
    /// The system's; nothing was changed, and nothing will be.
    pub(crate) fn later(terminal: &Terminal) -> io::Result<Self> {
        Ok(Self(Arc::new(Mutex::new(Some(Saved {
            input: terminal.input.try_clone()?,
            output: terminal.output.try_clone()?,
            termios: tcgetattr(&terminal.input)?,
            input_flags: fcntl_getfl(&terminal.input)?,
            output_flags: fcntl_getfl(&terminal.output)?,
        })))))
    }

    /// Also before the message of a panic, which nobody could read otherwise.
    pub(crate) fn also_on_panic(&self) {
        let saved = Arc::clone(&self.0);
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore(&saved);
            print(panic);
        }));
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        restore(&self.0);
    }
}

fn restore(saved: &Mutex<Option<Saved>>) {
    let saved = saved.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(saved) = saved {
        // Each step is worth trying whatever became of the others: the terminal may be gone.
        let _gone = fcntl_setfl(&saved.output, saved.output_flags | OFlags::NONBLOCK);
        let stalled = Instant::now() + STALLED;
        let _gone = write_until(&saved.output, &outer::leave(), Some(stalled));
        let _gone = fcntl_setfl(&saved.output, saved.output_flags);
        let _gone = fcntl_setfl(&saved.input, saved.input_flags);
        let _gone = tcsetattr(&saved.input, OptionalActions::Now, &saved.termios);
    }
}

/// Writes all of it, or gives up at the deadline. Works whether the descriptor blocks or not.
fn write_until(to: &OwnedFd, mut bytes: &[u8], deadline: Option<Instant>) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait_writable(to, deadline)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn wait_writable(to: &OwnedFd, deadline: Option<Instant>) -> io::Result<()> {
    let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
    let timeout = left.and_then(|left| Timespec::try_from(left).ok());
    match poll(&mut [PollFd::new(to, PollFlags::OUT)], timeout.as_ref()) {
        Ok(0) => Err(io::ErrorKind::TimedOut.into()),
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs::File;
    use std::io::Read as _;

    use rustix::fs::{Mode, open};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::LocalModes;

    use super::*;

    /// Both ends of a new terminal: what its user sees, and what programs open.
    pub(in crate::attach) fn pty(flags: OFlags) -> (File, OwnedFd) {
        let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&user).unwrap();
        unlockpt(&user).unwrap();
        let path = ptsname(&user, Vec::new()).unwrap();
        let program = open(path, flags | OFlags::NOCTTY, Mode::empty()).unwrap();
        (File::from(user), program)
    }

    #[test]
    fn a_terminal_can_be_passed_if_one_descriptor_does_for_both_directions() {
        let (_one_user, one) = pty(OFlags::RDWR);
        let (_other_user, other) = pty(OFlags::RDWR);
        let (_half_user, half) = pty(OFlags::RDONLY);
        let file = tempfile::tempfile().unwrap();

        let passes = |input: BorrowedFd<'_>, output: BorrowedFd<'_>| {
            Terminal::of(input, output).map(|terminal| terminal.to_pass().is_some())
        };
        assert_eq!(passes(one.as_fd(), one.as_fd()), Some(true));
        assert_eq!(passes(one.as_fd(), other.as_fd()), Some(false));
        assert_eq!(passes(half.as_fd(), half.as_fd()), Some(false));
        assert_eq!(passes(one.as_fd(), file.as_fd()), None);
        assert_eq!(passes(file.as_fd(), one.as_fd()), None);
    }

    #[test]
    fn whatever_was_done_to_the_terminal_is_undone() {
        let (mut user, program) = pty(OFlags::RDWR);
        let terminal = Terminal::of(program.as_fd(), program.as_fd()).unwrap();
        let before = tcgetattr(&program).unwrap();
        let flags_before = fcntl_getfl(&program).unwrap();

        let guard = Restore::later(&terminal).unwrap();
        terminal.make_raw().unwrap();
        fcntl_setfl(&program, flags_before | OFlags::NONBLOCK).unwrap();
        assert!(!tcgetattr(&program).unwrap().local_modes.contains(LocalModes::ICANON));
        drop(guard);

        let after = tcgetattr(&program).unwrap();
        assert_eq!(after.local_modes, before.local_modes);
        assert_eq!(after.input_modes, before.input_modes);
        assert_eq!(fcntl_getfl(&program).unwrap(), flags_before);
        let mut seen = vec![0; outer::leave().len()];
        user.read_exact(&mut seen).unwrap();
        // The last sequence comes through whether or not line feeds are translated.
        assert!(seen.windows(8).any(|bytes| bytes == b"\x1b[?1049l"), "{seen:?}");
    }

    #[test]
    fn a_terminal_that_takes_nothing_cannot_hold_us_for_ever() {
        let (_user, program) = pty(OFlags::RDWR | OFlags::NONBLOCK);
        // What it took is moved on a moment later, which makes room again, until the end is full.
        let moment = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        loop {
            while rustix::io::write(&program, b"x").is_ok() {}
            if poll(&mut [PollFd::new(&program, PollFlags::OUT)], Some(&moment)) == Ok(0) {
                break;
            }
        }

        let stuck = write_until(&program, b"leave", Some(Instant::now())).unwrap_err();

        assert_eq!(stuck.kind(), io::ErrorKind::TimedOut);
    }
}
