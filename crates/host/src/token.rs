//! Tokens of the HTTP API: each a file that only its owner can read.
//!
//! The file is the truth: it is looked at for every call, so that a token that was replaced or
//! removed, by whomever, is refused from the next call on.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::file::{self, FileError, Survive};

/// The longest file that is read as a token.
const LONGEST: u64 = 4096;

/// A token in a file.
#[derive(Debug)]
pub struct TokenFile {
    path: PathBuf,
    known: Mutex<Option<Known>>,
}

/// What was read of the file when it last was another one.
#[derive(Clone, Copy, Debug)]
struct Known {
    of: (u64, u64, i64, i64),
    digest: blake3::Hash,
}

impl TokenFile {
    /// The token at `path`, which need not be there.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, known: Mutex::default() }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The token, made if there is none.
    ///
    /// # Errors
    ///
    /// [`FileError`], also if others could have read it.
    pub fn get(&self) -> Result<String, FileError> {
        match self.read() {
            Ok(token) => Ok(token),
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => self.replace(),
            Err(error) => Err(error),
        }
    }

    /// Another token. The one before is worth nothing from now on.
    ///
    /// # Errors
    ///
    /// [`FileError`]; then the one before still holds.
    pub fn replace(&self) -> Result<String, FileError> {
        let token = draw();
        file::write_atomic(&self.path, format!("{token}\n").as_bytes(), Survive::PowerLoss)?;
        Ok(token)
    }

    /// The digest of the token, if `offered` is it. Takes as long for one that is nearly right as
    /// for one that is all wrong.
    ///
    /// # Errors
    ///
    /// [`FileError`], also if others could have read it. That there is none is no error.
    pub fn matches(&self, offered: &str) -> Result<Option<blake3::Hash>, FileError> {
        let digest = match self.digest() {
            Ok(digest) => digest,
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        // Digests are compared in constant time.
        Ok((blake3::hash(offered.as_bytes()) == digest).then_some(digest))
    }

    fn digest(&self) -> Result<blake3::Hash, FileError> {
        let of = identity(&self.look()?);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = *known
            && known.of == of
        {
            return Ok(known.digest);
        }
        let digest = blake3::hash(self.read()?.as_bytes());
        *known = Some(Known { of, digest });
        Ok(digest)
    }

    fn read(&self) -> Result<String, FileError> {
        let fail = || FileError::when("read", &self.path);
        self.look()?;
        let text = fs::read_to_string(&self.path).map_err(fail())?;
        let token = text.trim();
        if token.len() < 32 {
            return Err(fail()(io::Error::other("it is too short for a token; remove it")));
        }
        Ok(token.to_owned())
    }

    /// Makes sure that nobody else knows what is in the file.
    fn look(&self) -> Result<Metadata, FileError> {
        let found = private(&self.path)?;
        if found.len() > LONGEST {
            let why = io::Error::other("it is too long for a token; remove it");
            return Err(FileError::when("use", &self.path)(why));
        }
        Ok(found)
    }
}

/// Looks at a file that nobody but us may have read or written.
///
/// # Errors
///
/// [`FileError`] if it is not there, or if somebody could.
pub fn private(path: &Path) -> Result<Metadata, FileError> {
    let fail = |why: &'static str| FileError::when("use", path)(io::Error::other(why));
    let found = fs::metadata(path).map_err(FileError::when("look at", path))?;
    if !found.is_file() {
        return Err(fail("it is not a file"));
    }
    if found.uid() != geteuid().as_raw() {
        return Err(fail("it belongs to somebody else"));
    }
    if found.mode() & 0o077 != 0 {
        return Err(fail("others can read or write it; `chmod 600` it"));
    }
    Ok(found)
}

fn identity(file: &Metadata) -> (u64, u64, i64, i64) {
    (file.ino(), file.len(), file.mtime(), file.mtime_nsec())
}

/// 256 bits, as hexadecimal digits.
fn draw() -> String {
    let mut bytes = [0; 32];
    let got = getrandom(&mut bytes, GetRandomFlags::empty());
    assert_eq!(got, Ok(bytes.len()), "the kernel gives random bytes");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_token_holds_until_it_is_replaced_or_removed() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::new(dir.path().join("token"));
        assert!(file.matches("anything").unwrap().is_none(), "there is none yet");

        let first = file.get().unwrap();
        assert_eq!((first.len(), file.get().unwrap()), (64, first.clone()));
        assert!(file.matches(&first).unwrap().is_some());
        assert!(file.matches(&first[1..]).unwrap().is_none());

        let second = TokenFile::new(file.path().to_owned()).replace().unwrap();
        assert!(file.matches(&first).unwrap().is_none(), "whoever replaced it");
        assert!(file.matches(&second).unwrap().is_some());

        fs::remove_file(file.path()).unwrap();
        assert!(file.matches(&second).unwrap().is_none());
    }

    #[test]
    fn a_token_that_others_could_have_read_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::new(dir.path().join("token"));
        let token = file.get().unwrap();
        assert_eq!(fs::metadata(file.path()).unwrap().mode() & 0o777, 0o600);

        fs::set_permissions(file.path(), Permissions::from_mode(0o640)).unwrap();

        assert!(file.matches(&token).is_err());
    }
}
