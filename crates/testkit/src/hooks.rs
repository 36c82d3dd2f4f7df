//! Named points in the real binary at which a test can wait and pause it.
//!
//! With `CCMUX_TEST_HOOKS=DIR` in its environment, the binary appends one byte to `DIR/P.reached`
//! whenever it passes the point `P`, and then waits while `DIR/P.pause` exists.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::wait::{DEADLINE, wait_until};

/// The variable that names the directory of the hooks.
pub const VARIABLE: &str = "CCMUX_TEST_HOOKS";

/// The hooks of one [`Home`](crate::Home).
#[derive(Clone, Debug)]
pub struct Hooks {
    dir: PathBuf,
}

impl Hooks {
    /// Creates hooks in `dir`, and the directory if it does not exist.
    ///
    /// # Panics
    ///
    /// When the directory cannot be created.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        fs::create_dir_all(dir).expect("the hooks' directory can be made");
        Self { dir: dir.to_owned() }
    }

    /// Returns the value for [`VARIABLE`].
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Pauses every process that reaches `point` from now on.
    ///
    /// # Panics
    ///
    /// When the file cannot be created.
    pub fn pause(&self, point: &str) {
        File::create(self.pause_file(point)).expect("a hook can be paused");
    }

    /// Releases the processes paused at `point`, and stops pausing there.
    ///
    /// # Panics
    ///
    /// When the file exists and cannot be removed.
    pub fn release(&self, point: &str) {
        match fs::remove_file(self.pause_file(point)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                panic!("cannot release the hook {point}: {error}")
            }
            _ => {}
        }
    }

    /// Returns the number of times `point` was reached.
    #[must_use]
    pub fn reached(&self, point: &str) -> u64 {
        fs::metadata(self.dir.join(format!("{point}.reached"))).map_or(0, |meta| meta.len())
    }

    /// Waits until `point` was reached `times` times in total.
    ///
    /// # Panics
    ///
    /// When [`DEADLINE`] expires.
    #[track_caller]
    pub fn wait_reached(&self, point: &str, times: u64) {
        wait_until(&format!("the point {point} is reached {times} times"), DEADLINE, || {
            self.reached(point) >= times
        });
    }

    fn pause_file(&self, point: &str) -> PathBuf {
        self.dir.join(format!("{point}.pause"))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Stands in for the binary: passes the point `p` twice.
    const PASSES_TWICE: &str =
        "for i in 1 2; do printf x >>p.reached; while [ -e p.pause ]; do :; done; done";

    #[test]
    fn paused_point_blocks_until_released() {
        let dir = tempfile::tempdir().unwrap();
        let hooks = Hooks::new(&dir.path().join("hooks"));
        hooks.pause("p");

        let mut passer =
            Command::new("sh").args(["-c", PASSES_TWICE]).current_dir(hooks.dir()).spawn().unwrap();
        hooks.wait_reached("p", 1);

        assert!(passer.try_wait().unwrap().is_none(), "it waits at the point");
        assert_eq!(hooks.reached("p"), 1);
        hooks.release("p");
        hooks.wait_reached("p", 2);
        assert!(passer.wait().unwrap().success());
    }

    #[test]
    fn release_of_unpaused_point_has_no_effect() {
        let dir = tempfile::tempdir().unwrap();

        Hooks::new(dir.path()).release("never-paused");
    }
}
