//! Who is at a file: the panes whose processes have it open for writing, and what is in it.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use model::PaneId;

use crate::process;

/// The most of a file that is read to know its content.
const MOST_READ: u64 = 64 << 20;

/// What is in a file, in short. Two that are equal mean that nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    hash: Option<[u8; 32]>,
    /// For what is too large to be read.
    stamp: Option<(u64, i64, i64)>,
}

impl Content {
    /// Whether there is a file.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.hash.is_some() || self.stamp.is_some()
    }
}

/// What is in the file now; a file that is not there has a content as well.
#[must_use]
pub fn content(path: &Path) -> Content {
    content_up_to(path, MOST_READ)
}

/// The same, where a file that is larger is not read.
#[must_use]
pub fn content_up_to(path: &Path, most: u64) -> Content {
    let nothing = Content { hash: None, stamp: None };
    let Ok(found) = fs::metadata(path) else { return nothing };
    if !found.is_file() {
        return nothing;
    }
    if found.len() > most {
        let stamp = (found.len(), found.mtime(), found.mtime_nsec());
        return Content { hash: None, stamp: Some(stamp) };
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.map_or(nothing, |_| Content { hash: Some(*blake3::hash(&bytes).as_bytes()), stamp: None })
}

/// The pane of a process that has the file open for writing, if there is one and it belongs to a
/// pane. `path` is absolute and without symbolic links.
#[must_use]
pub fn of(path: &Path) -> Option<PaneId> {
    let writers = process::all().into_iter().filter(|process| has_open(process.pid, path));
    writers.into_iter().find_map(|process| process::marks_of(process.pid).first().copied())
}

fn has_open(pid: u32, path: &Path) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    descriptors.flatten().any(|descriptor| {
        let is_it = fs::read_link(descriptor.path()).is_ok_and(|target| target == path);
        is_it && is_for_writing(pid, &descriptor.file_name().to_string_lossy())
    })
}

/// The last octal digit of the flags is the way in which it was opened: 0 is for reading.
fn is_for_writing(pid: u32, descriptor: &str) -> bool {
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{descriptor}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.is_some_and(|flags| flags.trim().ends_with(['1', '2']))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn content_is_told_apart_and_a_rewrite_with_the_same_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let put = |text: &str| {
            crate::file::write_atomic(&path, text.as_bytes(), crate::file::Survive::Kill).unwrap();
            content(&path)
        };

        let (missing, one, two, again) = (content(&path), put("one"), put("two"), put("two"));

        assert!(missing != one && one != two);
        assert_eq!(two, again);
        assert_eq!(content(dir.path()), missing, "a directory has none");
    }

    #[test]
    fn a_process_that_has_a_file_open_for_writing_is_found_by_its_pane() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("file");
        let pane = PaneId::from_random([5; 16]);
        let start = |redirection: &str| {
            let mut child = Command::new("sh")
                .args(["-c", &format!("exec 3{redirection}\"$1\"; echo; read line"), "sh"])
                .arg(&path)
                .env("CCMUX_PANE_ID", pane.to_string())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            child
        };

        let mut writes = start(">>");
        let found = of(&path);
        writes.kill().unwrap();
        writes.wait().unwrap();
        let mut reads = start("<");
        let not_found = of(&path);
        reads.kill().unwrap();
        reads.wait().unwrap();

        assert_eq!((found, not_found), (Some(pane), None));
    }
}
