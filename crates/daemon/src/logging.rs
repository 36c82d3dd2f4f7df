//! The daemon's own log: a file that cannot grow without bound.
//!
//! `daemon.log` is moved to `daemon.log.1` when it is full, in place of the one before. Nothing
//! that a pane reads or writes, and no environment, is ever logged.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use host::file::{FileError, open_append};
use tracing::Level;

const NAME: &str = "daemon.log";

/// When a new file is begun.
const FULL: u64 = 4 << 20;

/// Sends what the daemon logs to a file in `dir`.
///
/// # Errors
///
/// [`FileError`].
pub(crate) fn begin(dir: &Path) -> Result<(), FileError> {
    let log = Log::open(dir.join(NAME))?;
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(Level::INFO)
        .with_ansi(false)
        .with_target(false)
        .with_writer(Mutex::new(log))
        .finish();
    // A process that already logs elsewhere, as tests do, goes on doing so.
    let _already = tracing::subscriber::set_global_default(subscriber);
    Ok(())
}

struct Log {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Log {
    fn open(path: PathBuf) -> Result<Self, FileError> {
        let file = open_append(&path)?;
        let length = file.metadata().map_or(0, |found| found.len());
        Ok(Self { path, file, length })
    }

    fn rotate(&mut self) -> io::Result<()> {
        fs::rename(&self.path, self.path.with_extension("log.1"))?;
        self.file = open_append(&self.path).map_err(|error| error.source)?;
        self.length = 0;
        Ok(())
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.length >= FULL {
            self.rotate()?;
        }
        let written = self.file.write(bytes)?;
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_never_has_more_than_two_files_of_bounded_length() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Log::open(dir.path().join(NAME)).unwrap();

        for _ in 0..20 {
            log.write_all(&[b'x'; 1 << 20]).unwrap();
        }

        let lengths: Vec<u64> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .collect();
        assert_eq!(lengths.len(), 2);
        assert!(lengths.iter().all(|length| *length <= FULL + (1 << 20)), "{lengths:?}");
    }
}
