//! Isolation of a pane's agent from the user's configuration and from other panes: the method, the
//! record, and the layout of the per-pane directories.
//!
//! Environment variables tell each agent where to keep its state. A pane therefore has a directory
//! for each agent that may run in it, and variables that point there and override all others.
//! [`crate::launch::isolation`] plans them.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::PaneId;

pub use crate::environment::variables::USER_HOME;

/// The method of isolation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The pane has its own configuration directory and the user's home.
    #[default]
    ConfigDir,
    /// The pane has its own home, into which only listed items of the user's home are linked.
    Home,
    /// No isolation: the pane uses the user's configuration.
    None,
}

/// A word that is not an isolation method.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown isolation method {0:?}; expected config_dir, home or none")]
pub struct UnknownMethod(pub String);

impl Method {
    /// All values, in the order in which they are documented.
    pub const ALL: [Self; 3] = [Self::ConfigDir, Self::Home, Self::None];

    /// Returns the name used in files and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConfigDir => "config_dir",
            Self::Home => "home",
            Self::None => "none",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|method| method.as_str() == text);
        named.ok_or_else(|| UnknownMethod(text.to_owned()))
    }
}

/// The isolation of a pane, as planned when the pane was created. Part of its launch record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    /// The method.
    pub method: Method,
    /// The pane's own home.
    pub home: Option<String>,
    /// The directories of the agents in this pane.
    pub dirs: Vec<AgentDir>,
    /// The directory for temporary files and sockets; short, because socket paths are limited.
    pub temp: Option<String>,
    /// How the agent logs in.
    pub login: Login,
    /// Whether the directories stay when the pane is closed.
    pub kept_on_close: bool,
}

/// The directory of one agent in one pane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentDir {
    /// The name of the agent.
    pub agent: String,
    /// The path of the directory.
    pub path: String,
}

/// How the agent of a pane logs in. Contains no secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum Login {
    /// With a key or token in a variable of the user's environment.
    Variable {
        /// The name of the variable.
        name: String,
    },
    /// With the user's login, in the credential store that a variable points to.
    Store {
        /// The name of the variable.
        variable: String,
        /// The directory of the store.
        dir: String,
    },
    /// Not logged in: the agent will ask.
    Asks {
        /// The directory where the login will be stored, if all panes share it.
        store: Option<String>,
    },
    /// As outside of ccmux, without isolation.
    #[default]
    Users,
}

impl Isolation {
    /// Returns the isolation of a pane that shares everything with the user.
    #[must_use]
    pub fn none() -> Self {
        Self {
            method: Method::None,
            home: None,
            dirs: Vec::new(),
            temp: None,
            login: Login::Users,
            kept_on_close: false,
        }
    }

    /// Returns the directory of an agent.
    #[must_use]
    pub fn dir_of(&self, agent: &str) -> Option<&str> {
        self.dirs.iter().find(|dir| dir.agent == agent).map(|dir| dir.path.as_str())
    }

    /// Returns each recorded directory with the path that it should have for this pane.
    #[must_use]
    pub fn places(&self, root: &str, pane: PaneId) -> Vec<(&str, String)> {
        let dirs = self.dirs.iter().map(|dir| (&dir.path, config_place(root, &dir.agent, pane)));
        let home = self.home.iter().map(|home| (home, home_place(root, pane)));
        let temp = self.temp.iter().map(|temp| (temp, temp_place(root, pane)));
        dirs.chain(home).chain(temp).map(|(path, place)| (path.as_str(), place)).collect()
    }

    /// Returns all per-pane directories outside of the session.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let dirs = self.dirs.iter().map(|dir| dir.path.as_str());
        dirs.chain(self.home.as_deref()).chain(self.temp.as_deref())
    }
}

/// The directory of the panes' homes, in the state root.
pub const HOMES: &str = "claude-homes";

/// The directory of the short temporary directories, in the state root.
const TEMPS: &str = "tmp";

/// Suffix of the directories of the agents' configurations, in the state root.
const CONFIGS: &str = "-configs";

/// Returns true if an entry of the state root contains per-pane directories.
#[must_use]
pub fn holds_pane_dirs(name: &str) -> bool {
    name == HOMES || name == TEMPS || name.strip_suffix(CONFIGS).is_some_and(|a| !a.is_empty())
}

/// Returns the name of a per-pane directory.
#[must_use]
pub fn pane_entry(pane: PaneId) -> String {
    format!("pane-{pane}")
}

/// Returns the pane of a per-pane directory.
#[must_use]
pub fn pane_of_entry(name: &str) -> Option<PaneId> {
    name.strip_prefix("pane-")?.parse().ok()
}

pub(crate) fn config_place(root: &str, agent: &str, pane: PaneId) -> String {
    format!("{root}/{agent}{CONFIGS}/{}", pane_entry(pane))
}

pub(crate) fn home_place(root: &str, pane: PaneId) -> String {
    format!("{root}/{HOMES}/{}", pane_entry(pane))
}

pub(crate) fn temp_place(root: &str, pane: PaneId) -> String {
    format!("{root}/{TEMPS}/{}", pane_entry(pane))
}

/// Returns true if a path is inside a per-pane directory.
#[must_use]
pub fn is_in_a_pane(path: &str, root: &str) -> bool {
    let inside = path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/'));
    inside.and_then(|inside| inside.split('/').next()).is_some_and(holds_pane_dirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_parses_its_exact_name_only() {
        for method in Method::ALL {
            assert_eq!(method.to_string().parse(), Ok(method));
        }
        for word in ["", "Home", "config-dir", "off"] {
            assert_eq!(word.parse::<Method>(), Err(UnknownMethod(word.to_owned())));
        }
    }
}
