//! A terminal that reads as fast as possible and searches the output.

use std::io;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use memchr::memmem;
use model::Size;
use testkit::Pty;

use crate::payload::{COLS, ROWS};
use crate::script::TIMEOUT;

/// A terminal window, closed with its program when dropped.
pub(crate) struct Client {
    pty: Pty,
    child: Child,
    buffer: Vec<u8>,
    /// The end of the previous read, for texts that are split.
    tail: Vec<u8>,
}

/// The result of waiting for a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// When it arrived.
    pub(crate) at: Instant,
    /// The longest time without output.
    pub(crate) longest_gap: Duration,
}

impl Client {
    pub(crate) fn start(command: Command) -> Result<Self> {
        let (pty, child) = Pty::spawn(command, Size::clamped(COLS, ROWS))?;
        Ok(Self { pty, child, buffer: vec![0; 256 * 1024], tail: Vec::new() })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> Result<()> {
        Ok(self.pty.write_all(bytes, TIMEOUT)?)
    }

    /// Reads until `text` arrives in new output.
    pub(crate) fn wait_for(&mut self, text: &[u8]) -> Result<Seen> {
        let wanted = memmem::Finder::new(text);
        let started = Instant::now();
        let (mut last, mut longest_gap) = (started, Duration::ZERO);
        self.tail.clear();
        loop {
            let Some(read) = self.read(TIMEOUT)? else {
                let text = String::from_utf8_lossy(text);
                bail!("{text:?} did not arrive; the last bytes were {:?}", self.last_words());
            };
            let at = Instant::now();
            longest_gap = longest_gap.max(at - last);
            last = at;
            if self.contains(&wanted, read, text.len()) {
                return Ok(Seen { at, longest_gap });
            }
        }
    }

    /// Reads and discards output for `time`.
    pub(crate) fn drain(&mut self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            self.read(left)?;
        }
    }

    /// Acts as the terminal of a detached pane: reads everything, and answers the query at the end.
    pub(crate) fn answer_one_query(&mut self) -> Result<()> {
        self.wait_for(b"\x1b[6n")?;
        self.send(b"\x1b[1;1R")
    }

    /// Returns the number of bytes read; `None` on timeout.
    fn read(&mut self, patience: Duration) -> Result<Option<usize>> {
        loop {
            match self.pty.read(&mut self.buffer) {
                Ok(Some(count)) => return Ok(Some(count)),
                Ok(None) => bail!("the client has ended; it said {:?}", self.last_words()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.pty.wait_readable(patience)? {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn contains(&mut self, wanted: &memmem::Finder<'_>, read: usize, length: usize) -> bool {
        let chunk = self.buffer.get(..read).unwrap_or_default();
        // Across two reads: the end of the previous one and the start of this one.
        let seam = self.tail.len();
        self.tail.extend_from_slice(chunk.get(..chunk.len().min(length)).unwrap_or_default());
        if wanted.find(&self.tail).is_some() || wanted.find(chunk).is_some() {
            return true;
        }
        self.tail.truncate(seam);
        self.tail
            .extend_from_slice(chunk.get(chunk.len().saturating_sub(length)..).unwrap_or_default());
        let keep = self.tail.len().saturating_sub(length.saturating_sub(1));
        self.tail.drain(..keep);
        false
    }

    fn last_words(&self) -> String {
        String::from_utf8_lossy(self.buffer.get(..200).unwrap_or_default()).into_owned()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may have exited by itself; it is reaped either way.
        let _dead = self.child.kill();
        let _reaped = self.child.wait();
    }
}
