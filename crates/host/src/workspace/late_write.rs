//! Writes to a tree after it was examined.
//!
//! A tree is moved to the trash with a rename, after which no path that its writers know leads to it.
//! A process can still hold a file or directory of it open, and a write can have taken place between
//! the examination and the rename. Such a tree is not deleted.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use model::Timestamp;

use super::work::{OWN_FILES, SESSION_FILES};
use crate::{copy, open_files};

/// The resolution of the times of files: at most two ticks of the slowest kernel clock (100 Hz). An
/// examination that starts this long after a moment sees all files whose time is before it.
pub const FILE_TIME_RESOLUTION: Duration = Duration::from_millis(20);

/// Returns a description of a write to a tree since this time, or of a process that can write to
/// it. Directories that cannot be read count as written to.
#[must_use]
pub fn find_late_write(tree: &Path, since: Timestamp) -> Option<String> {
    written_since(tree, since).or_else(|| {
        let process = open_files::process_writing_in(tree)?;
        Some(format!("process {process} has it open"))
    })
}

fn written_since(tree: &Path, since: Timestamp) -> Option<String> {
    let is_of_ccmux = ["pane.json", ".session"].iter().any(|name| tree.join(name).exists());
    let is_own =
        |name: &str| OWN_FILES.iter().chain(&SESSION_FILES).any(|own| name.starts_with(own));
    let mut dirs = vec![tree.to_owned()];
    while let Some(dir) = dirs.pop() {
        let name = |path: &Path| copy::escaped(path.strip_prefix(tree).unwrap_or(path));
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) => return Some(format!("`{}` cannot be examined: {error}", name(&dir))),
        };
        for entry in entries.flatten() {
            let Ok(found) = entry.metadata() else { continue };
            if found.is_dir() {
                dirs.push(entry.path());
                continue;
            }
            if is_of_ccmux && dir == tree && is_own(&entry.file_name().to_string_lossy()) {
                continue;
            }
            let changed = found.ctime().saturating_mul(1000) + found.ctime_nsec() / 1_000_000;
            if changed >= since.0 {
                return Some(format!("`{}` was written meanwhile", name(&entry.path())));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::thread;

    use super::*;
    use crate::clock;
    use crate::file::{Durability, open_append, write_atomic};

    fn later() -> Timestamp {
        thread::sleep(FILE_TIME_RESOLUTION);
        let now = clock::now();
        thread::sleep(FILE_TIME_RESOLUTION);
        now
    }

    fn write(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write_atomic(path, b"text", Durability::ProcessCrash).unwrap();
    }

    #[test]
    fn find_late_write_names_only_files_written_since() {
        let tree = tempfile::tempdir().unwrap();
        write(&tree.path().join("deep/old"));
        let since = later();

        assert_eq!(find_late_write(tree.path(), since), None);
        write(&tree.path().join("deep/new"));
        let found = find_late_write(tree.path(), since).unwrap();
        assert!(found.contains("deep/new"), "{found}");
    }

    #[test]
    fn find_late_write_ignores_records_of_ccmux_in_a_pane_directory() {
        let tree = tempfile::tempdir().unwrap();
        let since = later();
        write(&tree.path().join("workspace.json"));

        assert!(find_late_write(tree.path(), since).is_some());
        write(&tree.path().join("pane.json"));
        assert_eq!(find_late_write(tree.path(), since), None);
        write(&tree.path().join("deep/pane.json"));
        assert!(find_late_write(tree.path(), since).is_some());
    }

    #[test]
    fn find_late_write_names_a_process_with_an_open_file() {
        let tree = tempfile::tempdir().unwrap();
        let path = tree.path().join("file");
        let mut file = open_append(&path).unwrap();
        file.write_all(b"text").unwrap();
        let mut child = std::process::Command::new("sleep");
        let mut child = child.arg("1000").stdout(file).spawn().unwrap();
        let since = later();

        let found = find_late_write(tree.path(), since);

        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.unwrap().contains(&format!("process {}", child.id())));
        assert_eq!(find_late_write(tree.path(), since), None);
    }
}
