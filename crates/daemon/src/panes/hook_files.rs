//! Hook files: the settings through which agents call `ccmux hook`.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use host::file::{self, Durability, FileError};
use model::PaneId;
use model::agent::hooks::{HookCommand, HookContext, HookFile};
use model::config::Config;

use crate::runtime::Runtime;

/// Maximum size of a user's settings file that is merged with the hooks, in bytes.
const SETTINGS_MAX: u64 = 4 << 20;

/// The owned data from which a [`HookContext`] is built.
#[derive(Debug)]
pub(crate) struct HookSetup {
    program: String,
    root: String,
    dir: String,
    cwd: String,
    pane: PaneId,
    enabled: bool,
}

impl HookSetup {
    /// Collects the data for the hooks of the agent in a pane.
    pub(crate) fn new(
        runtime: &Runtime,
        pane: PaneId,
        dir: &Path,
        cwd: &str,
        config: &Config,
    ) -> Self {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        Self {
            program: text(&runtime.exe),
            root: text(runtime.root.path()),
            dir: text(dir),
            cwd: cwd.to_owned(),
            pane,
            enabled: config.locks.hooks,
        }
    }

    /// Calls `plan` with the hook context, or with `None` if hooks are disabled.
    pub(crate) fn with<T>(
        &self,
        config: &Config,
        plan: impl FnOnce(Option<HookContext<'_>>) -> T,
    ) -> T {
        let read = |path: &str| read_settings(&Path::new(&self.cwd).join(path));
        let context = HookContext {
            caller: HookCommand {
                program: &self.program,
                root: &self.root,
                pane: self.pane,
                locks: &config.locks,
            },
            dir: &self.dir,
            read: &read,
        };
        plan(self.enabled.then_some(context))
    }
}

/// Writes the hook file of an agent before it starts.
pub(crate) fn write(file: Option<&HookFile>) -> Result<(), FileError> {
    let Some(HookFile { path, bytes }) = file else { return Ok(()) };
    file::write_atomic(Path::new(path), bytes, Durability::ProcessCrash)
}

/// Reads a settings file. Returns `None` if it is not a regular file or is too large.
fn read_settings(path: &Path) -> Option<Vec<u8>> {
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    let read = File::open(path).ok()?.take(SETTINGS_MAX + 1).read_to_end(&mut bytes).ok()?;
    (u64::try_from(read).ok()? <= SETTINGS_MAX).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_settings_skips_directories_and_large_files() {
        let dir = tempfile::tempdir().unwrap();
        let (small, large) = (dir.path().join("small"), dir.path().join("large"));
        file::write_atomic(&small, b"{}", Durability::ProcessCrash).unwrap();
        File::create_new(&large).unwrap().set_len(SETTINGS_MAX + 1).unwrap();

        assert_eq!(read_settings(&small).as_deref(), Some(&b"{}"[..]));
        assert_eq!(read_settings(&large), None);
        assert_eq!(read_settings(dir.path()), None);
        assert_eq!(read_settings(&dir.path().join("missing")), None);
    }
}
