//! Program lookup on a search path, and identification without running the program.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use model::agent::probe::Identity;
use rustix::fs::{Access, access};

/// Finds a program by path or on a search path. Relative paths are resolved against `cwd`.
#[must_use]
pub fn find(name: &str, search: &str, cwd: &Path) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(cwd.join(name)).filter(|path| is_program(path));
    }
    let places = search.split(':').filter(|place| !place.is_empty());
    places.map(|place| cwd.join(place).join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file()) && access(path, Access::EXEC_OK).is_ok()
}

/// Returns the identity of an agent's program.
///
/// # Errors
///
/// Any error of the operating system.
pub fn identify(agent: &str, program: &Path) -> io::Result<Identity> {
    let real = fs::canonicalize(program)?;
    let found = fs::metadata(&real)?;
    Ok(Identity {
        agent: agent.to_owned(),
        path: real.to_string_lossy().into_owned(),
        size: found.size(),
        modified: (found.mtime(), found.mtime_nsec()),
        inode: found.ino(),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn put(path: &Path, mode: u32) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        crate::file::write_atomic(path, b"#!/bin/sh\n", crate::file::Durability::ProcessCrash)
            .unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn find_returns_first_executable_file() {
        let base = tempfile::tempdir().unwrap();
        let at = |path: &str| base.path().join(path);
        put(&at("a/agent"), 0o600);
        put(&at("b/agent"), 0o700);
        fs::create_dir_all(at("c/agent")).unwrap();
        let search = |dirs: &str| find("agent", dirs, base.path());

        assert_eq!(search("c:a:b"), Some(at("b/agent")));
        assert_eq!(search("a::c"), None);
        assert_eq!(find("b/agent", "", base.path()), Some(at("b/agent")));
        assert_eq!(find("./a/agent", "", base.path()), None);
    }

    #[test]
    fn identify_follows_links_and_distinguishes_replaced_programs() {
        let base = tempfile::tempdir().unwrap();
        let (real, link) = (base.path().join("agent-1"), base.path().join("agent"));
        put(&real, 0o700);
        symlink("agent-1", &link).unwrap();

        let first = identify("a", &link).unwrap();
        put(&real, 0o700);
        let second = identify("a", &link).unwrap();

        assert!(first.path.ends_with("agent-1"), "{first:?}");
        assert_ne!(first, second);
        assert!(identify("a", &base.path().join("nothing")).is_err());
    }
}
