//! The pane's terminal, and the one place where a process in a pane is started.
#![expect(
    unsafe_code,
    reason = "what runs between fork and exec cannot be checked by the compiler"
)]

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use host::mounts::Closing;
use model::{LaunchRecord, Size};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, setpriority_process, setrlimit};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{InputModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

/// The master side, and the slave side held open.
///
/// While we hold the slave side, a program that closes its terminal for a moment does not look
/// like the end of the pane: that is told by the process alone.
#[derive(Debug)]
pub(crate) struct Pty {
    master: OwnedFd,
    slave: Option<OwnedFd>,
}

/// What the first process of a pane takes on before it becomes the program.
#[derive(Debug, Default)]
pub(crate) struct Confinement {
    /// Groups to join, by writing `0`.
    pub(crate) doors: Vec<File>,
    /// The most files that it may have open.
    pub(crate) files: Option<u64>,
    /// The most memory of its own that it may have.
    pub(crate) data: Option<u64>,
    /// How far others come first.
    pub(crate) nice: Option<i32>,
    /// Whether whoever wakes up goes before it.
    pub(crate) goes_last: bool,
    /// What it may read and not write.
    pub(crate) closing: Option<Closing>,
}

impl Confinement {
    /// Makes it hold for this process. Called between fork and exec: system calls and nothing else.
    fn take_on(&self) -> io::Result<()> {
        for door in &self.doors {
            // Whether it is in is looked at from outside; without the group it can still run.
            let _refused = rustix::io::write(door, b"0");
        }
        let limits = [(Resource::Nofile, self.files), (Resource::Data, self.data)];
        for (resource, limit) in limits.into_iter().filter(|(_, limit)| limit.is_some()) {
            setrlimit(resource, Rlimit { current: limit, maximum: limit })?;
        }
        if let Some(nice) = self.nice {
            setpriority_process(None, nice)?;
        }
        if self.goes_last {
            // It still has its share if the system does not want to hear of this.
            let _refused = host::turns::let_others_go_first();
        }
        if let Some(closing) = &self.closing {
            // Not every container has it to give. Whoever wants to know looks from outside.
            let _refused = closing.take_on();
        }
        Ok(())
    }
}

/// What a read from the pane found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// So many bytes.
    Bytes(usize),
    /// Nothing for now.
    Nothing,
    /// Every process has closed the terminal, and so have we.
    End,
}

impl Pty {
    /// Opens a terminal of this size.
    pub(crate) fn open(size: Size) -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let slave = ioctl_tiocgptpeer(&master, flags)?;
        let mut termios = tcgetattr(&slave)?;
        // Backspace in line mode must take back a character, not a byte.
        termios.input_modes |= InputModes::IUTF8;
        tcsetattr(&slave, OptionalActions::Now, &termios)?;
        fcntl_setfl(&master, OFlags::NONBLOCK)?;
        let pty = Self { master, slave: Some(slave) };
        pty.resize(size)?;
        Ok(pty)
    }

    /// Starts exactly what the record says, at the head of a session of its own on this terminal.
    pub(crate) fn start(
        &self,
        record: &LaunchRecord,
        confinement: Confinement,
    ) -> io::Result<Child> {
        let slave = self.slave.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let side = || slave.try_clone().map(|fd| Stdio::from(File::from(fd)));
        let (program, arguments) = record.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(OsStr::new(program));
        command
            .args(arguments)
            .env_clear()
            .envs(record.env.iter())
            .current_dir(&record.cwd)
            .stdin(side()?)
            .stdout(side()?)
            .stderr(side()?);
        // SAFETY: between fork and exec only system calls are made; all are async-signal-safe and
        // none allocates.
        unsafe {
            command.pre_exec(move || {
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
                confinement.take_on()?;
                Ok(())
            });
        }
        command.spawn()
    }

    /// Tells the pane's programs that the screen has another size.
    pub(crate) fn resize(&self, size: Size) -> io::Result<()> {
        let winsize =
            Winsize { ws_row: size.rows(), ws_col: size.cols(), ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(&self.master, winsize)?)
    }

    /// Reads what the pane wrote.
    pub(crate) fn read(&self, into: &mut [u8]) -> Got {
        loop {
            match rustix::io::read(&self.master, &mut *into) {
                Ok(0) | Err(Errno::IO) => return Got::End,
                Ok(n) => return Got::Bytes(n),
                Err(Errno::INTR) => {}
                Err(_) => return Got::Nothing,
            }
        }
    }

    /// Types into the pane; how many bytes it took.
    pub(crate) fn write(&self, bytes: &[u8]) -> usize {
        loop {
            match rustix::io::write(&self.master, bytes) {
                Ok(n) => return n,
                Err(Errno::INTR) => {}
                Err(_) => return 0,
            }
        }
    }

    /// Lets go of the slave side, so that the last byte of the pane is followed by an end.
    pub(crate) fn release(&mut self) {
        self.slave = None;
    }
}

impl AsFd for Pty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }
}
