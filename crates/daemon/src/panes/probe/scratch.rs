//! The temporary directory in which a program is probed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use host::file::{Durability, make_dir, write_atomic};
use host::{clock, pane_dirs};
use model::PaneId;
use model::agent::Agent;

/// A local proxy address on which no process listens. Agents open connections in advance, and some
/// check for updates.
const DEAD_PROXY: &str = "http://127.0.0.1:9";

/// Prefix of the directory names.
const PREFIX: &str = "probe-";

/// A directory for one probe, removed on drop.
#[derive(Debug)]
pub(super) struct ScratchDir(PathBuf);

impl ScratchDir {
    /// Creates a directory, with invented credentials in the place where the agent looks for a login.
    /// Blocks.
    pub(super) fn new(run: &Path, agent: &Agent) -> io::Result<Self> {
        let id = PaneId::from_random(clock::random_id());
        let scratch = Self(run.join(format!("{PREFIX}{id}")));
        pane_dirs::create_new(&scratch.0).map_err(io::Error::other)?;
        for part in ["home", "config", "store", "tmp"] {
            make_dir(&scratch.0.join(part)).map_err(io::Error::other)?;
        }
        for (_, inside) in agent.variables.iter().filter(|(_, inside)| !inside.is_empty()) {
            make_dir(&scratch.0.join("config").join(inside)).map_err(io::Error::other)?;
        }
        if let Some(store) = agent.logins.store {
            let (file, login) = (scratch.0.join("store").join(store.file), store.probe.credentials);
            write_atomic(&file, login.as_bytes(), Durability::ProcessCrash)
                .map_err(io::Error::other)?;
        }
        Ok(scratch)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the environment of the probed program. Except for `PATH`, it has no path outside of
    /// the directory.
    pub(super) fn environment(&self, agent: &Agent, search: &str) -> Vec<(String, String)> {
        let dir = |part: &str| self.0.join(part).to_string_lossy().into_owned();
        let mut environment = vec![
            ("PATH".to_owned(), search.to_owned()),
            ("HOME".to_owned(), dir("home")),
            ("TMPDIR".to_owned(), dir("tmp")),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ];
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            environment.push((name.to_owned(), DEAD_PROXY.to_owned()));
        }
        for (name, inside) in &agent.variables {
            let dir = self.0.join("config").join(inside);
            environment.push((name.clone(), dir.to_string_lossy().into_owned()));
        }
        environment.extend(agent.temp_variable.clone().map(|name| (name, dir("tmp"))));
        if let Some(store) = agent.logins.store {
            environment.push((store.variable.to_owned(), dir("store")));
            let further = store.probe.environment.iter();
            environment.extend(further.map(|(name, value)| ((*name).into(), (*value).into())));
        }
        environment
    }

    /// Removes the directories that killed daemons left behind. Blocks.
    pub(super) fn remove_stale(run: &Path) {
        for entry in fs::read_dir(run).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
            if id.is_some_and(|id| id.parse::<PaneId>().is_ok()) {
                // The next start of the daemon retries.
                let _failed = fs::remove_dir_all(entry.path());
            }
        }
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // The next start of the daemon retries.
        let _failed = fs::remove_dir_all(&self.0);
    }
}
