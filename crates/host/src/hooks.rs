//! Named points at which a test can find, hold and kill the real binary.
//!
//! Off unless `CCMUX_TEST_HOOKS` names a directory. Then a process that comes by the point `p`
//! appends a byte to `p.reached` in that directory, and stays there while `p.pause` exists.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::file::open_append;

/// The variable that names the directory.
pub const VARIABLE: &str = "CCMUX_TEST_HOOKS";

static DIR: OnceLock<PathBuf> = OnceLock::new();

/// Turns the hooks of this process on.
pub fn enable(dir: &Path) {
    // Once is enough, and the first caller is `main`.
    let _already = DIR.set(dir.to_owned());
}

/// The directory, for handing it on to a child.
#[must_use]
pub fn dir() -> Option<&'static Path> {
    DIR.get().map(PathBuf::as_path)
}

/// A point that a test may wait for, or hold us at.
pub fn point(name: &str) {
    let Some(dir) = DIR.get() else { return };
    if let Ok(mut reached) = open_append(&dir.join(format!("{name}.reached"))) {
        // A test that cannot see us come by fails by itself.
        let _unseen = reached.write_all(b".");
    }
    let pause = dir.join(format!("{name}.pause"));
    while pause.exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
}
