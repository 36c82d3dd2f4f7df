//! A pseudo-terminal with a program.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use model::Size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

/// The master side of a pseudo-terminal.
///
/// Reads and writes do not block; [`Pty::wait_readable`] and [`Pty::write_all`] do.
#[derive(Debug)]
pub struct Pty {
    master: OwnedFd,
}

impl Pty {
    /// Runs `command` as session leader on a new terminal.
    ///
    /// Only the child has the slave side open, so reading ends when it and its children have
    /// exited.
    ///
    /// # Errors
    ///
    /// When no terminal is available or the program cannot be started.
    pub fn spawn(mut command: Command, size: Size) -> io::Result<(Self, Child)> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let slave = ioctl_tiocgptpeer(&master, flags)?;
        rustix::io::ioctl_fionbio(&master, true)?;
        let pty = Self { master };
        pty.resize(size)?;
        command
            .stdin(Stdio::from(slave.try_clone()?))
            .stdout(Stdio::from(slave.try_clone()?))
            .stderr(Stdio::from(slave));
        make_session_leader(&mut command);
        let child = command.spawn()?;
        Ok((pty, child))
    }

    /// Sets the window size.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn resize(&self, size: Size) -> io::Result<()> {
        let (ws_col, ws_row) = (size.cols(), size.rows());
        Ok(tcsetwinsize(&self.master, Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 })?)
    }

    /// Returns the terminal settings of the slave side.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn termios(&self) -> io::Result<Termios> {
        // Linux returns the settings of the slave side on the master side.
        Ok(tcgetattr(&self.master)?)
    }

    /// Waits for input or the end; returns `false` on timeout.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn wait_readable(&self, timeout: Duration) -> io::Result<bool> {
        self.wait(PollFlags::IN, timeout)
    }

    /// Reads available bytes. `None`: the slave side is closed.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when nothing is available; otherwise the system's error.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match retry_on_intr(|| rustix::io::read(&self.master, &mut *buffer)) {
            Ok(0) | Err(Errno::IO) => Ok(None),
            Ok(count) => Ok(Some(count)),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes all bytes, waiting up to `timeout` each time the terminal does not accept more.
    ///
    /// # Errors
    ///
    /// `TimedOut` when it accepts nothing for that long; otherwise the system's error.
    pub fn write_all(&self, mut bytes: &[u8], timeout: Duration) -> io::Result<()> {
        while !bytes.is_empty() {
            match retry_on_intr(|| rustix::io::write(&self.master, bytes)) {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(Errno::AGAIN) => {
                    if !self.wait(PollFlags::OUT, timeout)? {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn wait(&self, event: PollFlags, timeout: Duration) -> io::Result<bool> {
        let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
        let mut fds = [PollFd::new(&self.master, event)];
        Ok(retry_on_intr(|| poll(&mut fds, Some(&timeout)))? > 0)
    }
}

impl AsFd for Pty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }
}

#[expect(unsafe_code, reason = "std has no stable way to start a session leader with a terminal")]
fn make_session_leader(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    let prepare = || {
        rustix::process::setsid()?;
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        Ok(())
    };
    // SAFETY: between fork and exec only system calls happen here; nothing allocates or locks.
    unsafe { command.pre_exec(prepare) };
}

#[cfg(test)]
mod tests {
    use rustix::termios::LocalModes;

    use super::*;
    use crate::wait::DEADLINE;

    fn read_to_end(pty: &Pty) -> String {
        let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
        while pty.wait_readable(DEADLINE).unwrap() {
            match pty.read(&mut buffer).unwrap() {
                Some(count) => all.extend(&buffer[..count]),
                None => return String::from_utf8(all).unwrap(),
            }
        }
        panic!("the slave side stays open after {all:?}");
    }

    #[test]
    fn spawned_program_leads_session_on_terminal_of_given_size() {
        let mut command = Command::new("sh");
        command.args(["-c", "stty size </dev/tty; ps -o sid= -p $$ | tr -d ' '; echo $$"]);

        let (pty, mut child) = Pty::spawn(command, Size::new(97, 31).unwrap()).unwrap();

        let said = read_to_end(&pty);
        let pid = child.id();
        assert_eq!(said, format!("31 97\r\n{pid}\r\n{pid}\r\n"));
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn settings_changed_by_program_are_visible_on_master() {
        let mut command = Command::new("sh");
        command.args(["-c", "stty -echo; echo changed; read line"]);
        let (pty, mut child) = Pty::spawn(command, Size::DEFAULT).unwrap();
        assert!(pty.wait_readable(DEADLINE).unwrap());

        let modes = pty.termios().unwrap().local_modes;

        assert!(!modes.contains(LocalModes::ECHO) && modes.contains(LocalModes::ICANON));
        pty.write_all(b"\n", DEADLINE).unwrap();
        assert!(child.wait().unwrap().success());
    }
}
