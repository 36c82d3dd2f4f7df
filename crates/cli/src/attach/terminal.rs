//! The user's terminal, and restoring its state.

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

/// How long to wait for a terminal that accepts no output when restoring it.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(1);

/// The user's terminal.
#[derive(Debug)]
pub(crate) struct Terminal {
    input: OwnedFd,
    output: OwnedFd,
    /// Whether input and output are the same terminal, open for reading and writing, so that one
    /// descriptor can be passed to a keeper.
    can_be_passed: bool,
}

impl Terminal {
    /// Returns the terminal of this process, if standard input and output are terminals.
    pub(crate) fn of_this_process() -> Option<Self> {
        Self::of(io::stdin().as_fd(), io::stdout().as_fd())
    }

    /// Returns the terminal of these descriptors.
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

    /// Returns the descriptor for the keeper, if one serves both directions.
    pub(crate) fn to_pass(&self) -> Option<BorrowedFd<'_>> {
        self.can_be_passed.then(|| self.input.as_fd())
    }

    /// Returns whether another job of the user's shell is in the foreground (false if this is not
    /// the controlling terminal).
    pub(crate) fn is_busy(&self) -> bool {
        tcgetpgrp(&self.input).is_ok_and(|foreground| foreground != getpgrp())
    }

    /// Returns the descriptor for reading input.
    pub(crate) fn input(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    /// Returns its size, if known.
    pub(crate) fn size(&self) -> Option<Size> {
        let size = tcgetwinsize(&self.output).ok()?;
        (size.ws_col > 0 && size.ws_row > 0).then(|| Size::clamped(size.ws_col, size.ws_row))
    }

    /// Switches to raw mode.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub(crate) fn make_raw(&self) -> io::Result<()> {
        let mut raw = tcgetattr(&self.input)?;
        raw.make_raw();
        Ok(tcsetattr(&self.input, OptionalActions::Now, &raw)?)
    }

    /// Writes all bytes, without a timeout.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub(crate) fn paint(&self, bytes: &[u8]) -> io::Result<()> {
        write_until(&self.output, bytes, None)
    }
}

/// Restores the terminal when dropped and before a panic message is printed.
///
/// # Invariant
///
/// The terminal is restored exactly once.
#[derive(Debug)]
#[must_use = "the terminal is restored when this is dropped"]
pub(crate) struct Restore(Arc<Mutex<Option<Saved>>>);

/// The saved state of the terminal.
#[derive(Debug)]
struct Saved {
    input: OwnedFd,
    output: OwnedFd,
    termios: Termios,
    /// The flags belong to the open file description, which the user's shell shares.
    input_flags: OFlags,
    output_flags: OFlags,
}

impl Restore {
    /// Saves the current state of the terminal.
    ///
    /// # Errors
    ///
    /// The system's error; nothing was changed.
    pub(crate) fn later(terminal: &Terminal) -> io::Result<Self> {
        Ok(Self(Arc::new(Mutex::new(Some(Saved {
            input: terminal.input.try_clone()?,
            output: terminal.output.try_clone()?,
            termios: tcgetattr(&terminal.input)?,
            input_flags: fcntl_getfl(&terminal.input)?,
            output_flags: fcntl_getfl(&terminal.output)?,
        })))))
    }

    /// Restores the terminal before a panic message as well, so that the message is readable.
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
        // Try every step even if others fail: the terminal may be closed.
        let _closed = fcntl_setfl(&saved.output, saved.output_flags | OFlags::NONBLOCK);
        let deadline = Instant::now() + RESTORE_TIMEOUT;
        let _closed = write_until(&saved.output, &outer::leave(), Some(deadline));
        let _closed = fcntl_setfl(&saved.output, saved.output_flags);
        let _closed = fcntl_setfl(&saved.input, saved.input_flags);
        let _closed = tcsetattr(&saved.input, OptionalActions::Now, &saved.termios);
    }
}

/// Writes all bytes or fails at the deadline, for blocking and non-blocking descriptors.
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

    /// Opens a pseudoterminal: the user's end and the program's end.
    pub(in crate::attach) fn pty(flags: OFlags) -> (File, OwnedFd) {
        let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&user).unwrap();
        unlockpt(&user).unwrap();
        let path = ptsname(&user, Vec::new()).unwrap();
        let program = open(path, flags | OFlags::NOCTTY, Mode::empty()).unwrap();
        (File::from(user), program)
    }

    #[test]
    fn terminal_can_be_passed_only_with_one_descriptor_for_both_directions() {
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
    fn restore_undoes_all_changes_to_the_terminal() {
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
        // The last sequence is unchanged whether or not line feeds are translated.
        assert!(seen.windows(8).any(|bytes| bytes == b"\x1b[?1049l"), "{seen:?}");
    }

    #[test]
    fn write_to_stalled_terminal_times_out() {
        let (_user, program) = pty(OFlags::RDWR | OFlags::NONBLOCK);
        // The kernel moves written bytes on after a moment, which makes room until both buffers
        // are full.
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
