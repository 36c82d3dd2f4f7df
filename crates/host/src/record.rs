//! Records: JSON files with a format number and a checksum.
//!
//! ```json
//! { "format": 1, "checksum": "<blake3 of the compact record>", "record": { … } }
//! ```
//!
//! A damaged record is never accepted, and a record of a newer format is never overwritten.

use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::file::{self, Durability, FileError};

/// The format written by this release.
const FORMAT: u32 = 1;

/// Failure to read a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The file does not exist.
    #[error("`{}` does not exist", .0.display())]
    Missing(PathBuf),
    /// Error of the operating system.
    #[error(transparent)]
    File(#[from] FileError),
    /// The bytes on disk are not the bytes that were written.
    #[error("`{}` is damaged: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Description of the damage.
        why: String,
    },
    /// The file was written by a newer release.
    #[error("`{}` has format {found}, this release reads up to {FORMAT}", path.display())]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Format number of the file.
        found: u32,
    },
}

#[derive(Deserialize, Serialize)]
struct Envelope<'a> {
    format: u32,
    checksum: String,
    #[serde(borrow)]
    record: &'a RawValue,
}

/// Replaces the record at `path`.
///
/// # Errors
///
/// [`FileError`]; the previous record is kept.
pub fn write<T: Serialize>(path: &Path, value: &T, survive: Durability) -> Result<(), FileError> {
    let bytes = encode(value).map_err(FileError::when("encode", path))?;
    file::write_atomic(path, &bytes, survive)
}

fn encode<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    let record = serde_json::value::to_raw_value(value)?;
    let checksum = blake3::hash(record.get().as_bytes()).to_hex().to_string();
    let mut bytes = serde_json::to_vec(&Envelope { format: FORMAT, checksum, record: &record })?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Returns a copy of a record in which the path of the state root is replaced in every text.
///
/// # Errors
///
/// If the result is not a valid record.
pub fn rebased<T: Serialize + DeserializeOwned>(value: &T, from: &str, to: &str) -> io::Result<T> {
    let mut json = serde_json::to_value(value)?;
    model::rebase::value(&mut json, from, to);
    Ok(serde_json::from_value(json)?)
}

/// Reads the record at `path`.
///
/// # Errors
///
/// [`RecordError`]; [`RecordError::Missing`] if there is no file.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T, RecordError> {
    let damaged = |why: String| RecordError::Damaged { path: path.to_owned(), why };
    let bytes = match file::read_regular(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(RecordError::Missing(path.to_owned()));
        }
        Err(error) => return Err(FileError::when("read", path)(error).into()),
    };
    let envelope: Envelope<'_> =
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if envelope.format > FORMAT {
        return Err(RecordError::TooNew { path: path.to_owned(), found: envelope.format });
    }
    if envelope.format == 0 {
        return Err(damaged("format 0 is invalid".to_owned()));
    }
    let found = blake3::hash(envelope.record.get().as_bytes()).to_hex();
    if found.as_str() != envelope.checksum {
        return Err(damaged(format!("checksum {found}, expected {}", envelope.checksum)));
    }
    serde_json::from_str(envelope.record.get()).map_err(|error| damaged(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_is_read_back_as_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pane.json");

        write(&path, &vec![1, 2, 3], Durability::ProcessCrash).unwrap();

        assert_eq!(read::<Vec<u32>>(&path).unwrap(), [1, 2, 3]);
    }

    #[test]
    fn read_detects_every_changed_byte() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pane.json");
        let good = encode(&"some text".to_owned()).unwrap();

        for at in 0..good.len() - 1 {
            let mut bad = good.clone();
            bad[at] ^= 1;
            file::write_atomic(&path, &bad, Durability::ProcessCrash).unwrap();
            assert!(read::<String>(&path).is_err(), "byte {at} of {}", good.len());
        }
    }

    #[test]
    fn read_newer_format_returns_too_new() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pane.json");
        let text = br#"{"format":9,"checksum":"","record":{}}"#;
        file::write_atomic(&path, text, Durability::ProcessCrash).unwrap();

        let error = read::<String>(&path).unwrap_err();

        assert!(matches!(error, RecordError::TooNew { found: 9, .. }), "{error}");
    }
}
