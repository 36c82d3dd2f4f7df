//! Giving agents their hooks: the file that a pane's agent finds them in.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use host::file::{self, FileError, Survive};
use model::PaneId;
use model::agent::Agent;
use model::agent::hooks::{Caller, HookFile, HookGround};
use model::config::Config;

use crate::supervisor::Supervisor;

/// The largest file of settings that is merged with ours.
const LARGEST: u64 = 4 << 20;

/// What the ground is made of: texts that live as long as the planning.
#[derive(Debug)]
pub(crate) struct Hooking {
    program: String,
    root: String,
    dir: String,
    cwd: String,
    pane: PaneId,
    wanted: bool,
}

impl Supervisor {
    /// What is needed to give the agent of a pane its hooks.
    pub(crate) fn hooking(&self, pane: PaneId, dir: &Path, cwd: &str, config: &Config) -> Hooking {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        Hooking {
            program: text(&self.exe),
            root: text(self.root.path()),
            dir: text(dir),
            cwd: cwd.to_owned(),
            pane,
            wanted: config.locks.hooks,
        }
    }
}

impl Hooking {
    /// Calls `plan` with the ground on which an agent is given hooks, if it is to have any.
    pub(crate) fn with<T>(
        &self,
        config: &Config,
        plan: impl FnOnce(Option<HookGround<'_>>) -> T,
    ) -> T {
        let read = |path: &str| read_small(&Path::new(&self.cwd).join(path));
        let ground = HookGround {
            caller: Caller {
                program: &self.program,
                root: &self.root,
                pane: self.pane,
                locks: &config.locks,
            },
            dir: &self.dir,
            read: &read,
        };
        plan(self.wanted.then_some(ground))
    }

    /// The words of an agent that is started again, and the file with its hooks.
    pub(crate) fn again(
        &self,
        agent: &Agent,
        argv: Vec<String>,
        config: &Config,
    ) -> (Vec<String>, Option<HookFile>) {
        self.with(config, |ground| match ground {
            Some(ground) => agent.hooked(argv, &ground),
            None => (argv, None),
        })
    }
}

/// Writes the file with the hooks of an agent that is about to start.
pub(crate) fn write(file: Option<&HookFile>) -> Result<(), FileError> {
    let Some(HookFile { path, bytes }) = file else { return Ok(()) };
    file::write_atomic(Path::new(path), bytes, Survive::Kill)
}

/// The contents of a file, unless it is something else or far too large.
fn read_small(path: &Path) -> Option<Vec<u8>> {
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    let read = File::open(path).ok()?.take(LARGEST + 1).read_to_end(&mut bytes).ok()?;
    (u64::try_from(read).ok()? <= LARGEST).then_some(bytes)
}
