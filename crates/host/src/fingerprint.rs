//! Content fingerprints of files.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Larger files are not read.
const MAX_SIZE: u64 = 64 << 20;

/// A fingerprint of a file's content. Equal fingerprints mean equal content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    hash: Option<[u8; 32]>,
    /// Size and modification time, for files that are too large to read.
    stamp: Option<(u64, i64, i64)>,
}

impl Fingerprint {
    /// Returns whether the file exists.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.hash.is_some() || self.stamp.is_some()
    }
}

/// Returns the fingerprint of a file; a missing file has one as well.
#[must_use]
pub fn of_file(path: &Path) -> Fingerprint {
    of_file_up_to(path, MAX_SIZE)
}

/// Returns the fingerprint of a file without reading files larger than `limit`.
#[must_use]
pub fn of_file_up_to(path: &Path, limit: u64) -> Fingerprint {
    let nothing = Fingerprint { hash: None, stamp: None };
    let Ok(found) = fs::metadata(path) else { return nothing };
    if !found.is_file() {
        return nothing;
    }
    if found.len() > limit {
        let stamp = (found.len(), found.mtime(), found.mtime_nsec());
        return Fingerprint { hash: None, stamp: Some(stamp) };
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
    read.map_or(nothing, |_| Fingerprint {
        hash: Some(*blake3::hash(&bytes).as_bytes()),
        stamp: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprint_changes_with_content_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let put = |text: &str| {
            crate::file::write_atomic(
                &path,
                text.as_bytes(),
                crate::file::Durability::ProcessCrash,
            )
            .unwrap();
            of_file(&path)
        };

        let (missing, one, two, again) = (of_file(&path), put("one"), put("two"), put("two"));

        assert!(missing != one && one != two);
        assert_eq!(two, again);
        assert_eq!(of_file(dir.path()), missing, "a directory has no content");
    }
}
