//! Named points at which tests observe, pause and kill the real binary.
//!
//! Disabled unless `CCMUX_TEST_HOOKS` names a directory. A process that reaches the point `p` appends
//! a byte to `p.reached` in that directory and waits while `p.pause` exists.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::file::open_append;

/// The environment variable that names the directory.
pub const VARIABLE: &str = "CCMUX_TEST_HOOKS";

static DIR: OnceLock<PathBuf> = OnceLock::new();

/// Enables the hooks in this process.
pub fn enable(dir: &Path) {
    // Only the first call counts, which is that of `main`.
    let _already = DIR.set(dir.to_owned());
}

/// Returns the directory, to pass it on to a child.
#[must_use]
pub fn dir() -> Option<&'static Path> {
    DIR.get().map(PathBuf::as_path)
}

/// Marks a point that a test may wait for or pause at.
pub fn point(name: &str) {
    let Some(dir) = DIR.get() else { return };
    if let Ok(mut reached) = open_append(&dir.join(format!("{name}.reached"))) {
        // A test that misses the byte fails by itself.
        let _unseen = reached.write_all(b".");
    }
    let pause = dir.join(format!("{name}.pause"));
    while pause.exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
}
