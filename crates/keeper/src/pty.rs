//! The pane's terminal. The program of a pane is started here and nowhere else.
#![expect(unsafe_code, reason = "the compiler cannot check code between fork and exec")]

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use host::mounts::ReadOnlyMount;
use model::{LaunchRecord, Size};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, setpriority_process, setrlimit};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{InputModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

/// A pseudoterminal whose slave side is held open.
///
/// As long as the slave side is open, a program that closes its terminal temporarily does not end
/// the pane: only the exit of its processes does.
#[derive(Debug)]
pub(crate) struct Pty {
    master: OwnedFd,
    slave: Option<OwnedFd>,
}

/// Restrictions applied to the first process of a pane before exec.
#[derive(Debug, Default)]
pub(crate) struct Confinement {
    /// `cgroup.procs` files of the groups to join, by writing `0`.
    pub(crate) cgroup_procs: Vec<File>,
    /// Maximum number of open files.
    pub(crate) files: Option<u64>,
    /// Maximum size of the data segment, in bytes.
    pub(crate) data: Option<u64>,
    /// Nice value.
    pub(crate) nice: Option<i32>,
    /// Whether it runs under the batch scheduling policy, so that other processes preempt it.
    pub(crate) batch_scheduling: bool,
    /// Directory to make read-only.
    pub(crate) read_only: Option<ReadOnlyMount>,
}

impl Confinement {
    /// Applies the restrictions to this process. Runs between fork and exec, so it makes system calls
    /// only.
    fn apply(&self) -> io::Result<()> {
        for file in &self.cgroup_procs {
            // The keeper checks membership later; the program can run without the group.
            let _refused = rustix::io::write(file, b"0");
        }
        let limits = [(Resource::Nofile, self.files), (Resource::Data, self.data)];
        for (resource, limit) in limits.into_iter().filter(|(_, limit)| limit.is_some()) {
            setrlimit(resource, Rlimit { current: limit, maximum: limit })?;
        }
        if let Some(nice) = self.nice {
            setpriority_process(None, nice)?;
        }
        if self.batch_scheduling {
            // Best effort: the nice value applies even if this fails.
            let _refused = host::scheduling::yield_to_others();
        }
        if let Some(closing) = &self.read_only {
            // Best effort: some containers do not permit it. The result is visible from outside.
            let _refused = closing.apply();
        }
        Ok(())
    }
}

/// Result of a read from the pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PtyRead {
    /// Number of bytes read.
    Bytes(usize),
    /// No output is available.
    Empty,
    /// The slave side is closed by all processes, including the keeper.
    End,
}

impl Pty {
    /// Opens a pseudoterminal of this size.
    pub(crate) fn open(size: Size) -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let slave = ioctl_tiocgptpeer(&master, flags)?;
        let mut termios = tcgetattr(&slave)?;
        // In canonical mode, Backspace must erase a character, not a byte.
        termios.input_modes |= InputModes::IUTF8;
        tcsetattr(&slave, OptionalActions::Now, &termios)?;
        fcntl_setfl(&master, OFlags::NONBLOCK)?;
        let pty = Self { master, slave: Some(slave) };
        pty.resize(size)?;
        Ok(pty)
    }

    /// Starts the program of the launch record as the leader of a new session on this terminal.
    pub(crate) fn start(
        &self,
        record: &LaunchRecord,
        confinement: Confinement,
    ) -> io::Result<Child> {
        let slave = self.slave.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let stdio = || slave.try_clone().map(|fd| Stdio::from(File::from(fd)));
        let (program, arguments) = record.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(OsStr::new(program));
        command
            .args(arguments)
            .env_clear()
            .envs(record.env.iter())
            .current_dir(&record.cwd)
            .stdin(stdio()?)
            .stdout(stdio()?)
            .stderr(stdio()?);
        // SAFETY: between fork and exec only system calls are made; all are async-signal-safe and
        // none allocates.
        unsafe {
            command.pre_exec(move || {
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
                confinement.apply()?;
                Ok(())
            });
        }
        command.spawn()
    }

    /// Changes the size of the terminal and notifies its programs.
    pub(crate) fn resize(&self, size: Size) -> io::Result<()> {
        let winsize =
            Winsize { ws_row: size.rows(), ws_col: size.cols(), ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(&self.master, winsize)?)
    }

    /// Reads output of the pane.
    pub(crate) fn read(&self, into: &mut [u8]) -> PtyRead {
        loop {
            match rustix::io::read(&self.master, &mut *into) {
                Ok(0) | Err(Errno::IO) => return PtyRead::End,
                Ok(n) => return PtyRead::Bytes(n),
                Err(Errno::INTR) => {}
                Err(_) => return PtyRead::Empty,
            }
        }
    }

    /// Writes input to the pane; returns the number of bytes written.
    pub(crate) fn write(&self, bytes: &[u8]) -> usize {
        loop {
            match rustix::io::write(&self.master, bytes) {
                Ok(n) => return n,
                Err(Errno::INTR) => {}
                Err(_) => return 0,
            }
        }
    }

    /// Closes the slave side, so that reading reports the end after the last byte.
    pub(crate) fn close_slave(&mut self) {
        self.slave = None;
    }
}

impl AsFd for Pty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_reports_the_end_only_after_the_slave_side_is_closed() {
        let mut pty = Pty::open(Size::DEFAULT).unwrap();
        let mut bytes = [0; 16];

        assert_eq!(pty.read(&mut bytes), PtyRead::Empty);
        pty.close_slave();

        assert_eq!(pty.read(&mut bytes), PtyRead::End);
    }
}
