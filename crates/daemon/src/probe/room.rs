//! The throwaway directory in which a program is asked.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use host::file::{Survive, make_dir, write_atomic};
use host::{clock, furnish};
use model::PaneId;
use model::agent::Agent;

/// A port of this machine at which nobody listens. Agents open connections ahead of time even when
/// they have nothing to say, and some look for newer releases.
const NOWHERE: &str = "http://127.0.0.1:9";

/// What the name of such a directory begins with.
const PREFIX: &str = "probe-";

/// A directory for one question, gone with this value.
#[derive(Debug)]
pub(super) struct Room(PathBuf);

impl Room {
    /// Makes one, with a made-up login where the agent would look for one. Blocks.
    pub(super) fn new(run: &Path, agent: &Agent) -> io::Result<Self> {
        let id = PaneId::from_random(clock::random_id());
        let room = Self(run.join(format!("{PREFIX}{id}")));
        furnish::make_new(&room.0).map_err(io::Error::other)?;
        for part in ["home", "config", "store", "tmp"] {
            make_dir(&room.0.join(part)).map_err(io::Error::other)?;
        }
        for (_, inside) in agent.variables.iter().filter(|(_, inside)| !inside.is_empty()) {
            make_dir(&room.0.join("config").join(inside)).map_err(io::Error::other)?;
        }
        if let Some(store) = agent.logins.store {
            let (file, login) = (room.0.join("store").join(store.file), store.probe.credentials);
            write_atomic(&file, login.as_bytes(), Survive::Kill).map_err(io::Error::other)?;
        }
        Ok(room)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Everything that a program is told: nothing that leads out of the room, but where programs
    /// are.
    pub(super) fn environment(&self, agent: &Agent, search: &str) -> Vec<(String, String)> {
        let place = |part: &str| self.0.join(part).to_string_lossy().into_owned();
        let mut environment = vec![
            ("PATH".to_owned(), search.to_owned()),
            ("HOME".to_owned(), place("home")),
            ("TMPDIR".to_owned(), place("tmp")),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ];
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            environment.push((name.to_owned(), NOWHERE.to_owned()));
        }
        for (name, inside) in &agent.variables {
            let dir = self.0.join("config").join(inside);
            environment.push((name.clone(), dir.to_string_lossy().into_owned()));
        }
        environment.extend(agent.temp_variable.clone().map(|name| (name, place("tmp"))));
        if let Some(store) = agent.logins.store {
            environment.push((store.variable.to_owned(), place("store")));
            let further = store.probe.environment.iter();
            environment.extend(further.map(|(name, value)| ((*name).into(), (*value).into())));
        }
        environment
    }

    /// Removes what daemons that were killed have left. Blocks.
    pub(super) fn clear(run: &Path) {
        for entry in fs::read_dir(run).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
            if id.is_some_and(|id| id.parse::<PaneId>().is_ok()) {
                // The next daemon tries again.
                let _left = fs::remove_dir_all(entry.path());
            }
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // The next daemon tries again.
        let _left = fs::remove_dir_all(&self.0);
    }
}
