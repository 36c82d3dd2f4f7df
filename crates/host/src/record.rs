//! Records: JSON files with a format number and a checksum.
//!
//! ```json
//! { "format": 1, "checksum": "<blake3 of the compact record>", "record": { … } }
//! ```
//!
//! A record that was damaged is never taken for a good one, and a record of a newer format is
//! never rewritten.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::file::{self, FileError, Survive};

/// The format that this release writes.
const FORMAT: u32 = 1;

/// Why a record cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// There is none.
    #[error("`{}` does not exist", .0.display())]
    Missing(PathBuf),
    /// The operating system refused something.
    #[error(transparent)]
    File(#[from] FileError),
    /// The bytes on disk are not the bytes that were written.
    #[error("`{}` is damaged: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A newer release wrote this file.
    #[error("`{}` has format {found}, this release reads up to {FORMAT}", path.display())]
    TooNew {
        /// The file.
        path: PathBuf,
        /// The format found.
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
/// [`FileError`]; the previous record is then still in place.
pub fn write<T: Serialize>(path: &Path, value: &T, survive: Survive) -> Result<(), FileError> {
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

/// Reads the record at `path`.
///
/// # Errors
///
/// [`RecordError`], with [`RecordError::Missing`] for no file at all.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T, RecordError> {
    let damaged = |why: String| RecordError::Damaged { path: path.to_owned(), why };
    let bytes = match fs::read(path) {
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
        return Err(damaged("there is no format 0".to_owned()));
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
    fn a_record_comes_back_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pane.json");

        write(&path, &vec![1, 2, 3], Survive::Kill).unwrap();

        assert_eq!(read::<Vec<u32>>(&path).unwrap(), [1, 2, 3]);
    }

    #[test]
    fn any_changed_byte_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pane.json");
        let good = encode(&"some text".to_owned()).unwrap();

        for at in 0..good.len() - 1 {
            let mut bad = good.clone();
            bad[at] ^= 1;
            file::write_atomic(&path, &bad, Survive::Kill).unwrap();
            assert!(read::<String>(&path).is_err(), "byte {at} of {}", good.len());
        }
    }

    #[test]
    fn a_newer_format_is_named_as_such() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pane.json");
        let text = br#"{"format":9,"checksum":"","record":{}}"#;
        file::write_atomic(&path, text, Survive::Kill).unwrap();

        let error = read::<String>(&path).unwrap_err();

        assert!(matches!(error, RecordError::TooNew { found: 9, .. }), "{error}");
    }
}
