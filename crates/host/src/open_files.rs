//! Files that processes have open.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use model::PaneId;

use crate::process;

/// Returns the pane of a process that has the file open for writing. `path` must be canonical.
///
/// If several panes have it open, the one that has written last is at the end of the file. Returns
/// none if that does not tell them apart.
#[must_use]
pub fn pane_writing(path: &Path) -> Option<PaneId> {
    let size = fs::metadata(path).map_or(0, |found| found.len());
    let writers = process::all().into_iter().filter_map(|process| {
        let at_end = is_at_end(process.pid, path, size)?;
        let pane = process::marks_of(process.pid).first().copied()?;
        Some((pane, at_end))
    });
    let writers: Vec<(PaneId, bool)> = writers.collect();
    let only = |panes: BTreeSet<PaneId>| panes.first().copied().filter(|_| panes.len() == 1);
    only(writers.iter().map(|(pane, _)| *pane).collect())
        .or_else(|| only(writers.iter().filter(|(_, end)| *end).map(|(pane, _)| *pane).collect()))
}

/// Returns another process that can write to files in a tree without a path: it has a file open for
/// writing or mapped, has a directory open, or works in it. `tree` must be canonical.
#[must_use]
pub fn process_writing_in(tree: &Path) -> Option<u32> {
    let others = process::all().into_iter().map(|process| process.pid);
    others.filter(|pid| *pid != std::process::id()).find(|pid| can_write_in(*pid, tree))
}

fn can_write_in(pid: u32, tree: &Path) -> bool {
    let leads_in = |link: &Path| fs::read_link(link).is_ok_and(|target| target.starts_with(tree));
    let dir = Path::new("/proc").join(pid.to_string());
    let descriptors = fs::read_dir(dir.join("fd")).into_iter().flatten().flatten();
    let is_for_writing = |number: &OsStr| {
        let info = fs::read_to_string(dir.join("fdinfo").join(number)).unwrap_or_default();
        write_position(&info).is_some()
            || fs::metadata(dir.join("fd").join(number)).is_ok_and(|found| found.is_dir())
    };
    leads_in(&dir.join("cwd"))
        || descriptors.into_iter().any(|descriptor| {
            leads_in(&descriptor.path()) && is_for_writing(&descriptor.file_name())
        })
        || maps(&dir).any(|path| Path::new(&path).starts_with(tree))
}

/// Returns the files that a process has mapped for shared writing.
fn maps(process: &Path) -> impl Iterator<Item = String> {
    let text = fs::read_to_string(process.join("maps")).unwrap_or_default();
    // `ADDRESS PERMISSIONS OFFSET DEVICE INODE PATH`
    let mapped = text.lines().filter(|line| {
        line.split(' ')
            .nth(1)
            .is_some_and(|allowed| allowed.contains('w') && allowed.ends_with('s'))
    });
    let paths = mapped.filter_map(|line| line.find('/').map(|at| line[at..].to_owned()));
    paths.collect::<Vec<_>>().into_iter()
}

/// Returns whether a process has a descriptor at the end of the file, of those that it has open for
/// writing; none if there are none.
fn is_at_end(pid: u32, path: &Path, size: u64) -> Option<bool> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    let of_file = descriptors
        .filter(|descriptor| fs::read_link(descriptor.path()).is_ok_and(|target| target == path));
    let positions = of_file.filter_map(|descriptor| {
        let number = descriptor.file_name();
        let info =
            fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", number.to_string_lossy())).ok()?;
        write_position(&info)
    });
    positions.map(|position| position == size).reduce(|any, at_end| any || at_end)
}

/// Returns the position of a descriptor from the text of its `fdinfo`; none if it is read-only.
fn write_position(info: &str) -> Option<u64> {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    // The last octal digit of the flags is the access mode: 0 is read-only.
    let is_for_writing = field("flags:")?.ends_with(['1', '2']);
    is_for_writing.then(|| field("pos:")?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::path::PathBuf;
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Starts a shell of a pane that opens the file, and waits until it has.
    fn open(path: &Path, pane: PaneId, script: &str) -> Child {
        let mut child = Command::new("sh")
            .args(["-c", &format!("{script}; echo; read line"), "sh"])
            .arg(path)
            .env("CCMUX_PANE_ID", pane.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        child
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn file() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("file");
        (dir, path)
    }

    #[test]
    fn pane_with_file_open_for_writing_is_found() {
        let (_dir, path) = file();
        let pane = PaneId::from_random([5; 16]);

        let writes = open(&path, pane, "exec 3>>\"$1\"");
        let found = pane_writing(&path);
        end(writes);
        let reads = open(&path, pane, "exec 3<\"$1\"");
        let not_found = pane_writing(&path);
        end(reads);

        assert_eq!((found, not_found), (Some(pane), None));
    }

    #[test]
    fn last_writer_is_found_if_several_panes_have_the_file_open() {
        let (_dir, path) = file();
        let [one, two] = [[5; 16], [6; 16]].map(PaneId::from_random);
        let write =
            |pane, text: &str| open(&path, pane, &format!("exec 3>\"$1\"; echo {text} >&3"));

        let first = write(one, "first");
        let second = write(two, "the second");
        let by_second = pane_writing(&path);
        let third = write(one, "1");
        let by_first = pane_writing(&path);
        let fourth = write(two, "2");
        let by_either = pane_writing(&path);
        [first, second, third, fourth].into_iter().for_each(end);

        assert_eq!((by_second, by_first, by_either), (Some(two), Some(one), None));
    }
}
