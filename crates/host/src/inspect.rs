//! Read-only inspection of paths and process environments. Links are not followed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use model::health::place::{FileInfo, FileObservation, Shape};
use rustix::fs::OFlags;

/// Returns the type, owner and mode of a path; a link is reported as a link.
#[must_use]
pub fn path_status(path: &Path) -> FileObservation {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => Ok(FileInfo {
            shape: shape(path, &found),
            owner: found.uid(),
            mode: found.mode(),
            identity: (found.dev(), found.ino()),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err("it does not exist".to_owned())
        }
        Err(error) => Err(error.to_string()),
    };
    FileObservation { path: path.to_string_lossy().into_owned(), found }
}

fn shape(path: &Path, found: &fs::Metadata) -> Shape {
    let kind = found.file_type();
    if kind.is_symlink() {
        let to = fs::read_link(path).unwrap_or_default();
        Shape::Link(to.to_string_lossy().into_owned())
    } else if kind.is_dir() {
        Shape::Directory
    } else if kind.is_file() {
        Shape::File
    } else {
        Shape::Other
    }
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
///
/// Any error of the operating system; also for a link and for a larger file.
pub fn read_file(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or(0);
    let file = fs::File::options().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

/// How often an empty environment is read again, and the interval.
const MAX_READS: u32 = 10;
const READ_INTERVAL: Duration = Duration::from_millis(2);

/// Returns the environment from the last exec of a process; `None` if it is not accessible. Variables
/// that are not UTF-8 are omitted.
#[must_use]
pub fn environment(pid: u32) -> Option<BTreeMap<String, String>> {
    let bytes = environ(pid)?;
    let text = |word: &[u8]| std::str::from_utf8(word).ok().map(str::to_owned);
    let pair = |word: &[u8]| {
        let at = word.iter().position(|&byte| byte == b'=')?;
        Some((text(&word[..at])?, text(&word[at + 1..])?))
    };
    Some(bytes.split(|&byte| byte == 0).filter_map(pair).collect())
}

/// During exec the environment is empty for a moment, so an empty one is read again.
fn environ(pid: u32) -> Option<Vec<u8>> {
    let path = format!("/proc/{pid}/environ");
    for _ in 0..MAX_READS {
        let bytes = fs::read(&path).ok()?;
        if !bytes.is_empty() {
            return Some(bytes);
        }
        std::thread::sleep(READ_INTERVAL);
    }
    fs::read(&path).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn path_status_reports_type() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        fs::create_dir(at("dir")).unwrap();
        fs::File::create(at("file")).unwrap();
        symlink("dir", at("link")).unwrap();

        let shape = |name: &str| path_status(&at(name)).found.map(|found| found.shape);

        assert_eq!(shape("dir"), Ok(Shape::Directory));
        assert_eq!(shape("file"), Ok(Shape::File));
        assert_eq!(shape("link"), Ok(Shape::Link("dir".to_owned())));
        assert_eq!(shape("nothing"), Err("it does not exist".to_owned()));
    }

    #[test]
    fn read_file_accepts_small_regular_files_only() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        crate::file::write_atomic(&at("file"), b"12345", crate::file::Durability::ProcessCrash)
            .unwrap();
        symlink("file", at("link")).unwrap();

        assert_eq!(read_file(&at("file"), 5).unwrap(), b"12345");
        assert!(read_file(&at("file"), 4).is_err());
        assert!(read_file(&at("link"), 5).is_err());
        assert!(read_file(base.path(), 5).is_err());
    }

    #[test]
    fn environment_returns_variables_from_exec() {
        let mut child = Command::new("sh")
            .args(["-c", "echo; exec sleep 1000"])
            .env_clear()
            .env("A", "b=c")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();

        let seen = environment(child.id()).unwrap();

        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen.get("A").map(String::as_str), Some("b=c"));
        assert_eq!(environment(u32::MAX), None);
    }
}
