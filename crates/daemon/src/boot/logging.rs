//! The daemon's log file, rotated at a fixed size.
//!
//! A full `daemon.log` is renamed to `daemon.log.1`, which replaces the previous one. Terminal input
//! and output and environment variables are never logged.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use host::file::{FileError, open_append};
use tracing::Level;

const NAME: &str = "daemon.log";

/// The size at which the log is rotated, in bytes.
const MAX_SIZE: u64 = 4 << 20;

/// Directs all log output of the process to a file in `dir`.
///
/// # Errors
///
/// [`FileError`].
pub(crate) fn init(dir: &Path) -> Result<(), FileError> {
    let log = Log::open(dir.join(NAME))?;
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(Level::INFO)
        .with_ansi(false)
        .with_target(false)
        .with_writer(Mutex::new(log))
        .finish();
    // Fails if a subscriber is already set, as in tests; that one then stays in use.
    let _already_set = tracing::subscriber::set_global_default(subscriber);
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
        let length = file.metadata().map_or(0, |metadata| metadata.len());
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
        if self.length >= MAX_SIZE {
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
    fn log_is_rotated_and_never_exceeds_two_files() {
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
        assert!(lengths.iter().all(|length| *length <= MAX_SIZE + (1 << 20)), "{lengths:?}");
    }
}
