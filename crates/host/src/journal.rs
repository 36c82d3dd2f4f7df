//! Append-only journals of JSON lines.
//!
//! An incomplete last line was never acknowledged and is dropped. Invalid lines in the middle are
//! damage: the file is set aside unchanged and its readable entries are kept.

use std::fs::OpenOptions;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::file::{self, Durability, FileError};

/// Result of opening a journal.
#[derive(Debug)]
pub struct Opened<T> {
    /// The entries, in order.
    pub entries: Vec<T>,
    /// The journal, for appending.
    pub journal: Journal,
    /// The damage, if the file had invalid lines.
    pub damaged: Option<Damage>,
}

/// Damage of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// New path of the damaged file.
    pub kept_as: PathBuf,
    /// Number of invalid lines.
    pub lines: usize,
}

/// The writing end of a journal. Each file must have only one.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    /// Length of the complete lines.
    length: u64,
}

impl Journal {
    /// Opens a journal; a missing file is empty.
    ///
    /// # Errors
    ///
    /// [`FileError`].
    pub fn open<T: Serialize + DeserializeOwned>(path: &Path) -> Result<Opened<T>, FileError> {
        let bytes = match file::read_regular(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(FileError::when("read", path)(error)),
        };
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let mut entries = Vec::new();
        let mut lines = 0;
        for line in bytes[..whole].split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(entry) => entries.push(entry),
                Err(_) => lines += 1,
            }
        }
        let mut journal = Self { path: path.to_owned(), length: whole as u64 };
        let damaged = if lines > 0 {
            let (dir, name) = (path.parent().unwrap_or(path), path.file_name());
            let stem = format!("{}.damaged", name.unwrap_or_default().to_string_lossy());
            let kept_as = file::set_aside(path, dir, &stem)?;
            journal.replace(&entries)?;
            Some(Damage { kept_as, lines })
        } else {
            None
        };
        Ok(Opened { entries, journal, damaged })
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Appends entries and syncs them to the disk.
    ///
    /// # Errors
    ///
    /// [`FileError`]; none of the entries was added.
    pub fn append<T: Serialize>(&mut self, entries: &[T]) -> Result<(), FileError> {
        let bytes = lines(entries);
        let is_new = self.length == 0;
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&self.path)
            .and_then(|mut file| {
                // Remove the remains of a failed write.
                file.set_len(self.length)?;
                file.seek(SeekFrom::Start(self.length))?;
                file.write_all(&bytes)?;
                file.sync_data()
            });
        written.map_err(FileError::when("write", &self.path))?;
        if is_new && let Some(dir) = self.path.parent() {
            file::sync_dir(dir)?;
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Atomically replaces all entries.
    ///
    /// # Errors
    ///
    /// [`FileError`]; the journal is unchanged.
    pub fn replace<T: Serialize>(&mut self, entries: &[T]) -> Result<(), FileError> {
        let bytes = lines(entries);
        file::write_atomic(&self.path, &bytes, Durability::PowerLoss)?;
        self.length = bytes.len() as u64;
        Ok(())
    }
}

fn lines<T: Serialize>(entries: &[T]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries {
        bytes.extend(serde_json::to_vec(entry).expect("an entry has string keys only"));
        bytes.push(b'\n');
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn reopened(path: &Path) -> Opened<String> {
        Journal::open(path).unwrap()
    }

    fn text(entries: &[&str]) -> Vec<String> {
        entries.iter().map(|&entry| entry.to_owned()).collect()
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "damages the file on purpose")]
    fn open_drops_incomplete_last_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        reopened(&path).journal.append(&text(&["one", "two"])).unwrap();
        let whole = fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();

            let mut opened = reopened(&path);
            opened.journal.append(&text(&["three"])).unwrap();

            let left = if cut < 6 { text(&["three"]) } else { text(&["one", "three"]) };
            assert_eq!(reopened(&path).entries, left, "cut at {cut}");
            assert_eq!(opened.damaged, None);
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "damages the file on purpose")]
    fn open_sets_aside_file_with_invalid_lines_and_keeps_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        fs::write(&path, "\"one\"\n\x00\x00\n\"two\"\n{}\n").unwrap();

        let mut opened = reopened(&path);

        assert_eq!(opened.entries, text(&["one", "two"]));
        let damage = opened.damaged.take().unwrap();
        assert_eq!(damage.lines, 2);
        assert!(fs::read(damage.kept_as).unwrap().contains(&0));
        opened.journal.append(&text(&["three"])).unwrap();
        let again = reopened(&path);
        assert_eq!((again.entries, again.damaged), (text(&["one", "two", "three"]), None));
    }
}
