//! Tokens of the HTTP API, each in a private file.
//!
//! The file is checked on every request, so a token that was replaced or removed by any process is
//! rejected from the next request on.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::file::{self, Durability, FileError};

/// Size limit of a token file.
const MAX_SIZE: u64 = 4096;

/// A token in a file.
#[derive(Debug)]
pub struct TokenFile {
    path: PathBuf,
    cached: Mutex<Option<CachedDigest>>,
}

/// The digest of the token, and the attributes of the file that it was read from.
#[derive(Clone, Copy, Debug)]
struct CachedDigest {
    of: (u64, u64, i64, i64),
    digest: blake3::Hash,
}

impl TokenFile {
    /// Creates a handle for the token at `path`, which may not exist.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, cached: Mutex::default() }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the token, which is created if it does not exist.
    ///
    /// # Errors
    ///
    /// [`FileError`], also if other users could have read the file.
    pub fn get(&self) -> Result<String, FileError> {
        match self.read() {
            Ok(token) => Ok(token),
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => self.replace(),
            Err(error) => Err(error),
        }
    }

    /// Replaces the token. The previous one is invalid from now on.
    ///
    /// # Errors
    ///
    /// [`FileError`]; the previous token stays valid.
    pub fn replace(&self) -> Result<String, FileError> {
        let token = generate();
        file::write_atomic(&self.path, format!("{token}\n").as_bytes(), Durability::PowerLoss)?;
        Ok(token)
    }

    /// Returns the digest of the token if `offered` equals it. The comparison takes constant time.
    ///
    /// # Errors
    ///
    /// [`FileError`], also if other users could have read the file; not if there is no file.
    pub fn matches(&self, offered: &str) -> Result<Option<blake3::Hash>, FileError> {
        let digest = match self.digest() {
            Ok(digest) => digest,
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        // `blake3::Hash` is compared in constant time.
        Ok((blake3::hash(offered.as_bytes()) == digest).then_some(digest))
    }

    /// Returns the digest of the token in the file.
    ///
    /// # Errors
    ///
    /// [`FileError`], also if other users could have read the file.
    pub fn digest(&self) -> Result<blake3::Hash, FileError> {
        let of = identity(&self.check()?);
        let mut cached = self.cached.lock();
        if let Some(cached) = *cached
            && cached.of == of
        {
            return Ok(cached.digest);
        }
        let digest = blake3::hash(self.read()?.as_bytes());
        *cached = Some(CachedDigest { of, digest });
        Ok(digest)
    }

    fn read(&self) -> Result<String, FileError> {
        let fail = || FileError::when("read", &self.path);
        self.check()?;
        let text = fs::read_to_string(&self.path).map_err(fail())?;
        let token = text.trim();
        if token.len() < 32 {
            return Err(fail()(io::Error::other("too short for a token; remove the file")));
        }
        Ok(token.to_owned())
    }

    /// Checks that the file is private.
    fn check(&self) -> Result<Metadata, FileError> {
        let found = check_private(&self.path)?;
        if found.len() > MAX_SIZE {
            let why = io::Error::other("too long for a token; remove the file");
            return Err(FileError::when("use", &self.path)(why));
        }
        Ok(found)
    }
}

/// Checks that a file is owned by the user and not accessible to other users.
///
/// # Errors
///
/// [`FileError`] if the file is missing or not private.
pub fn check_private(path: &Path) -> Result<Metadata, FileError> {
    let fail = |why: &'static str| FileError::when("use", path)(io::Error::other(why));
    let found = fs::metadata(path).map_err(FileError::when("access", path))?;
    if !found.is_file() {
        return Err(fail("not a regular file"));
    }
    if found.uid() != geteuid().as_raw() {
        return Err(fail("it belongs to another user"));
    }
    if found.mode() & 0o077 != 0 {
        return Err(fail("other users can read or write it; run `chmod 600` on it"));
    }
    Ok(found)
}

fn identity(file: &Metadata) -> (u64, u64, i64, i64) {
    (file.ino(), file.len(), file.mtime(), file.mtime_nsec())
}

/// Generates 256 random bits in hexadecimal.
fn generate() -> String {
    let mut bytes = [0; 32];
    let got = getrandom(&mut bytes, GetRandomFlags::empty());
    assert_eq!(got, Ok(bytes.len()), "the kernel provides random bytes");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn token_is_valid_until_replaced_or_removed() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::new(dir.path().join("token"));
        assert!(file.matches("anything").unwrap().is_none(), "no token yet");

        let first = file.get().unwrap();
        assert_eq!((first.len(), file.get().unwrap()), (64, first.clone()));
        assert!(file.matches(&first).unwrap().is_some());
        assert!(file.matches(&first[1..]).unwrap().is_none());

        let second = TokenFile::new(file.path().to_owned()).replace().unwrap();
        assert!(file.matches(&first).unwrap().is_none(), "replaced through another handle");
        assert!(file.matches(&second).unwrap().is_some());

        fs::remove_file(file.path()).unwrap();
        assert!(file.matches(&second).unwrap().is_none());
    }

    #[test]
    fn token_readable_by_others_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::new(dir.path().join("token"));
        let token = file.get().unwrap();
        assert_eq!(fs::metadata(file.path()).unwrap().mode() & 0o777, 0o600);

        fs::set_permissions(file.path(), Permissions::from_mode(0o640)).unwrap();

        assert!(file.matches(&token).is_err());
    }
}
