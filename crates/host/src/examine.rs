//! Looking at files and processes as evidence. Nothing is followed, taken for granted or changed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use model::health::place::{Found, Shape, Sighting};
use rustix::fs::OFlags;

/// What is at a place; a link is seen as a link.
#[must_use]
pub fn sight(path: &Path) -> Sighting {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => Ok(Found {
            shape: shape(path, &found),
            owner: found.uid(),
            mode: found.mode(),
            identity: (found.dev(), found.ino()),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err("it is not there".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    Sighting { path: path.to_string_lossy().into_owned(), found }
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

/// The bytes of a regular file that is not larger than `most`.
///
/// # Errors
///
/// The system's; also for a link, and for what is larger.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or(0);
    let file = fs::File::options().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

/// How often an empty environment is looked at again, and how long in between.
const LOOKS: u32 = 10;
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// The environment that a process was started with; none if the system does not show it. What is
/// not text is left out.
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

/// A process that is just being given another program has none for a moment, so that one is looked
/// at again; one that has none stays without.
fn environ(pid: u32) -> Option<Vec<u8>> {
    let path = format!("/proc/{pid}/environ");
    for _ in 0..LOOKS {
        let bytes = fs::read(&path).ok()?;
        if !bytes.is_empty() {
            return Some(bytes);
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    fs::read(&path).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_place_is_seen_for_what_it_is() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        fs::create_dir(at("dir")).unwrap();
        fs::File::create(at("file")).unwrap();
        symlink("dir", at("link")).unwrap();

        let shape = |name: &str| sight(&at(name)).found.map(|found| found.shape);

        assert_eq!(shape("dir"), Ok(Shape::Directory));
        assert_eq!(shape("file"), Ok(Shape::File));
        assert_eq!(shape("link"), Ok(Shape::Link("dir".to_owned())));
        assert_eq!(shape("nothing"), Err("it is not there".to_owned()));
    }

    #[test]
    fn only_a_small_file_itself_is_read() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        crate::file::write_atomic(&at("file"), b"12345", crate::file::Survive::Kill).unwrap();
        symlink("file", at("link")).unwrap();

        assert_eq!(read(&at("file"), 5).unwrap(), b"12345");
        assert!(read(&at("file"), 4).is_err());
        assert!(read(&at("link"), 5).is_err());
        assert!(read(base.path(), 5).is_err());
    }

    #[test]
    fn a_process_shows_what_it_was_started_with() {
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
