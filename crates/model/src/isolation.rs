//! How a pane's agent is kept apart from the user's own configuration and from other panes.
//!
//! Every agent keeps its state where a variable says. So a pane has a directory for each agent that
//! may run in it, and the variables that point there are set last and win over everything else.
//! [`isolate`] decides all of it before anything is made.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::{Agent, Origin, UserDir};
use crate::config::{AgentConfig, IsolationConfig};
use crate::ids::PaneId;

/// Where the agent of a pane finds its configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// In a configuration directory of the pane's own; the rest of the home is the user's.
    #[default]
    ConfigDir,
    /// In a home of the pane's own, into which only listed items of the user's are linked.
    Home,
    /// Where the user has it: nothing is kept apart.
    None,
}

/// A word that names no method.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a method of isolation is config_dir, home or none, not {0:?}")]
pub struct UnknownMethod(pub String);

impl Method {
    /// All of them, in the order in which they are explained.
    pub const ALL: [Self; 3] = [Self::ConfigDir, Self::Home, Self::None];

    /// The word for it, in files and on the command line.
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

/// What keeps a pane apart, as it was decided when the pane was made. Part of its launch record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    /// How.
    pub method: Method,
    /// The pane's own home.
    pub home: Option<String>,
    /// The directories that belong to the agents of this pane alone.
    pub dirs: Vec<AgentDir>,
    /// Where agents put short-lived files and sockets: a short path, as sockets need one.
    pub temp: Option<String>,
    /// How the agent is logged in.
    pub login: Login,
    /// The directories stay when the pane is closed.
    pub kept_on_close: bool,
}

/// A directory that belongs to one agent of one pane alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentDir {
    /// The agent.
    pub agent: String,
    /// Its directory.
    pub path: String,
}

/// How the agent of a pane is logged in. Nothing secret is in here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum Login {
    /// By a key or token in this variable, which the user has in his environment.
    Variable {
        /// Its name.
        name: String,
    },
    /// By the user's one login, in the store that this variable points to.
    Store {
        /// The variable.
        variable: String,
        /// The directory of the store.
        dir: String,
    },
    /// Not at all: the agent will ask.
    Asks {
        /// Where the login will be kept, if it serves all panes.
        store: Option<String>,
    },
    /// The user's own way, which is not touched.
    #[default]
    Users,
}

impl Isolation {
    /// Of panes that share everything with the user.
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

    /// The directory of this agent in this pane.
    #[must_use]
    pub fn dir_of(&self, agent: &str) -> Option<&str> {
        self.dirs.iter().find(|dir| dir.agent == agent).map(|dir| dir.path.as_str())
    }

    /// Where the directories that this names are, and where [`isolate`] puts them for this pane.
    #[must_use]
    pub fn places(&self, root: &str, pane: PaneId) -> Vec<(&str, String)> {
        let dirs = self.dirs.iter().map(|dir| (&dir.path, config_place(root, &dir.agent, pane)));
        let home = self.home.iter().map(|home| (home, home_place(root, pane)));
        let temp = self.temp.iter().map(|temp| (temp, temp_place(root, pane)));
        dirs.chain(home).chain(temp).map(|(path, place)| (path.as_str(), place)).collect()
    }

    /// What the environment of this pane must say for it to be kept apart.
    #[must_use]
    pub fn required(
        &self,
        root: &str,
        pane: PaneId,
        agents: &BTreeMap<String, AgentConfig>,
    ) -> Vec<(String, String)> {
        let mut required = Vec::new();
        if self.home.is_some() {
            required.push(("HOME".to_owned(), home_place(root, pane)));
        }
        for dir in &self.dirs {
            if let Ok(agent) = Agent::named(&dir.agent, agents) {
                let path = config_place(root, &dir.agent, pane);
                required.extend(pointers(&agent, &path, &temp_place(root, pane)));
            }
        }
        required
    }

    /// Every directory that the pane has besides its own.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let dirs = self.dirs.iter().map(|dir| dir.path.as_str());
        dirs.chain(self.home.as_deref()).chain(self.temp.as_deref())
    }
}

/// The homes of panes, in the state root.
const HOMES: &str = "claude-homes";

/// The short directories for sockets, in the state root.
const TEMPS: &str = "tmp";

/// What the names of the directories for one agent end with, in the state root.
const CONFIGS: &str = "-configs";

/// The variable by which a pane with a home of its own knows the user's.
pub const USER_HOME: &str = "CCMUX_USER_HOME";

/// Variables that move parts of the home elsewhere, which a home of one's own must not follow.
const XDG_HOMES: [&str; 4] =
    ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"];

/// Whether an entry of the state root holds directories of panes, one each.
#[must_use]
pub fn holds_pane_dirs(name: &str) -> bool {
    name == HOMES || name == TEMPS || name.strip_suffix(CONFIGS).is_some_and(|a| !a.is_empty())
}

/// The name of a pane's directory among others of its kind.
#[must_use]
pub fn pane_entry(pane: PaneId) -> String {
    format!("pane-{pane}")
}

/// The pane whose directory has this name.
#[must_use]
pub fn pane_of_entry(name: &str) -> Option<PaneId> {
    name.strip_prefix("pane-")?.parse().ok()
}

fn config_place(root: &str, agent: &str, pane: PaneId) -> String {
    format!("{root}/{agent}{CONFIGS}/{}", pane_entry(pane))
}

fn home_place(root: &str, pane: PaneId) -> String {
    format!("{root}/{HOMES}/{}", pane_entry(pane))
}

fn temp_place(root: &str, pane: PaneId) -> String {
    format!("{root}/{TEMPS}/{}", pane_entry(pane))
}

/// The variables that lead an agent into its directory and its short one.
fn pointers(agent: &Agent, path: &str, temp: &str) -> Vec<(String, String)> {
    let variables = agent.variables.iter().map(|(name, inside)| {
        let value = if inside.is_empty() { path.to_owned() } else { format!("{path}/{inside}") };
        (name.clone(), value)
    });
    let temp = agent.temp_variable.clone().map(|name| (name, temp.to_owned()));
    variables.chain(temp).collect()
}

/// Where the user keeps something of an agent, as the environment of a client shows it.
#[must_use]
pub fn users_place(dir: &UserDir, client: &BTreeMap<String, String>, root: &str) -> String {
    User::new(client, root).dir(dir)
}

/// What [`isolate`] takes from outside.
pub struct Ground<'a> {
    /// The state root.
    pub root: &'a str,
    /// The pane.
    pub pane: PaneId,
    /// The program in it.
    pub agent: &'a Agent,
    /// How it is to be kept apart.
    pub method: Method,
    /// The user's wishes.
    pub config: &'a IsolationConfig,
    /// The asking client's environment.
    pub client: &'a BTreeMap<String, String>,
    /// Whether a file of the user's exists. Only asked for, never opened.
    pub exists: &'a dyn Fn(&str) -> bool,
}

/// What has to be made and set for a pane to be kept apart.
#[derive(Clone, Debug)]
pub struct Separation {
    /// What to remember.
    pub isolation: Isolation,
    /// The user's home.
    pub user_home: String,
    /// Where the user keeps his own configuration of the program in the pane.
    pub users_dir: Option<String>,
    /// Variables that must not be taken over from the client.
    pub dropped: Vec<String>,
    /// Variables that win over everything else.
    pub variables: Vec<(String, String)>,
    /// What to put into the new directories.
    pub furnishings: Vec<Furnishing>,
}

/// What to put into one new directory.
#[derive(Clone, Debug)]
pub struct Furnishing {
    /// The directory.
    pub dir: String,
    /// Whose it is; none for a home.
    pub agent: Option<Agent>,
    /// Directories to make in it.
    pub directories: Vec<String>,
    /// Links to make in it: where, and to what of the user's. What is not there is not linked.
    pub links: Vec<(String, String)>,
    /// Copies to make in it: where, and of what.
    pub copies: Vec<(String, String)>,
    /// Files that are read to make up others: name, and path.
    pub consults: Vec<(&'static str, String)>,
}

/// Decides how a pane is kept apart.
#[must_use]
pub fn isolate(ground: &Ground<'_>) -> Separation {
    let user = User::new(ground.client, ground.root);
    if ground.method == Method::None {
        let isolation = Isolation::none();
        let variables = user.own_variables(ground.client);
        let (dropped, furnishings) = (Vec::new(), Vec::new());
        let user_home = user.home;
        return Separation {
            isolation,
            user_home,
            users_dir: None,
            dropped,
            variables,
            furnishings,
        };
    }
    let mut agents = Agent::everywhere();
    let knows_own = agents.iter().any(|agent| agent.name == ground.agent.name);
    if !knows_own && !ground.agent.variables.is_empty() {
        agents.push(ground.agent.clone());
    }
    let temp = temp_place(ground.root, ground.pane);
    let mut separation = Separation {
        isolation: Isolation {
            method: ground.method,
            home: None,
            dirs: Vec::new(),
            temp: Some(temp.clone()),
            login: login(ground, &user),
            kept_on_close: !ground.config.cleanup_on_close,
        },
        user_home: user.home.clone(),
        users_dir: (!ground.agent.user_dir.under_home.is_empty())
            .then(|| user.dir(&ground.agent.user_dir)),
        dropped: ground.agent.scrubs.clone(),
        variables: Vec::new(),
        furnishings: Vec::new(),
    };
    if ground.method == Method::Home {
        separation.give_home(ground, &user);
    }
    for agent in agents {
        let path = config_place(ground.root, &agent.name, ground.pane);
        separation.variables.extend(pointers(&agent, &path, &temp));
        if let Some(store) = agent.logins.store {
            let dir = user.store_variable(&agent.user_dir, ground.method);
            separation.variables.push((store.variable.to_owned(), dir));
        }
        separation.furnishings.push(furnish(&agent, &path, &user, ground.config));
        separation.isolation.dirs.push(AgentDir { agent: agent.name, path });
    }
    separation
}

impl Separation {
    fn give_home(&mut self, ground: &Ground<'_>, user: &User<'_>) {
        let home = home_place(ground.root, ground.pane);
        let links = ground.config.home_symlinks.iter();
        let links = links.map(|item| (item.clone(), format!("{}/{item}", user.home)));
        self.furnishings.push(Furnishing {
            dir: home.clone(),
            agent: None,
            directories: Vec::new(),
            links: links.collect(),
            copies: Vec::new(),
            consults: Vec::new(),
        });
        self.dropped.extend(XDG_HOMES.map(str::to_owned));
        self.variables.push(("HOME".to_owned(), home.clone()));
        self.variables.push((USER_HOME.to_owned(), user.home.clone()));
        self.isolation.home = Some(home);
    }
}

fn furnish(agent: &Agent, path: &str, user: &User<'_>, config: &IsolationConfig) -> Furnishing {
    let allowed = |share: &Option<crate::config::Share>| {
        share.is_none_or(|share| config.share.contains(&share))
    };
    let place = |origin: &Origin| user.place(&agent.user_dir, origin);
    let links = agent.links.iter().filter(|link| allowed(&link.share));
    let copies = agent.copies.iter().filter(|copy| allowed(&copy.share));
    Furnishing {
        dir: path.to_owned(),
        directories: agent.directories.iter().map(|&dir| dir.to_owned()).collect(),
        links: links.map(|link| (link.at.clone(), place(&link.to))).collect(),
        copies: copies.map(|copy| (copy.at.clone(), place(&copy.from))).collect(),
        consults: agent.consults.iter().map(|file| (file.name, place(&file.origin))).collect(),
        agent: Some(agent.clone()),
    }
}

/// How the agent will be logged in: what its environment says wins, as it does with the agent
/// itself; then the user's store. A shell is told of the first agent that may be typed in it.
fn login(ground: &Ground<'_>, user: &User<'_>) -> Login {
    let every = Agent::everywhere();
    let own = Some(ground.agent).filter(|agent| !agent.variables.is_empty());
    let Some(agent) = own.or(every.first()) else { return Login::Users };
    let given = |name: &&&str| ground.client.get(**name).is_some_and(|value| !value.is_empty());
    if let Some(name) = agent.logins.variables.iter().find(given) {
        return Login::Variable { name: (*name).to_owned() };
    }
    let Some(store) = agent.logins.store else { return Login::Asks { store: None } };
    let dir = user.dir(&agent.user_dir);
    if (ground.exists)(&format!("{dir}/{}", store.file)) {
        Login::Store { variable: store.variable.to_owned(), dir }
    } else {
        Login::Asks { store: Some(dir) }
    }
}

/// The user outside of all panes, as the asking client shows him.
struct User<'a> {
    home: String,
    client: &'a BTreeMap<String, String>,
    root: &'a str,
}

impl<'a> User<'a> {
    fn new(client: &'a BTreeMap<String, String>, root: &'a str) -> Self {
        let get = |name: &str| client.get(name).filter(|value| value.starts_with('/'));
        let homes = format!("{root}/{HOMES}/");
        let home = get("HOME").filter(|home| !home.starts_with(&homes)).or_else(|| get(USER_HOME));
        let home = home.map_or("/", |home| home.trim_end_matches('/')).to_owned();
        Self { home, client, root }
    }

    /// Where the user has put his configuration of an agent, if not in its usual place. A value
    /// that comes from another pane is not the user's.
    fn moved(&self, dir: &UserDir) -> Option<&'a str> {
        let value = self.client.get(dir.variable?)?;
        (value.starts_with('/') && !is_in_a_pane(value, self.root))
            .then(|| value.trim_end_matches('/'))
    }

    fn dir(&self, dir: &UserDir) -> String {
        match self.moved(dir) {
            Some(moved) if dir.under_variable.is_empty() => moved.to_owned(),
            Some(moved) => format!("{moved}/{}", dir.under_variable),
            None => format!("{}/{}", self.home, dir.under_home),
        }
    }

    fn place(&self, dir: &UserDir, origin: &Origin) -> String {
        match origin {
            Origin::Dir(name) => format!("{}/{name}", self.dir(dir)),
            Origin::Top(name) => {
                format!("{}/{name}", self.moved(dir).unwrap_or(&self.home))
            }
            Origin::Home(name) => format!("{}/{name}", self.home),
            Origin::Absolute(path) => path.clone(),
        }
    }

    /// What the variable of a credential store must say to mean the user's own. Empty stands for
    /// the usual place, whatever that is on this system.
    fn store_variable(&self, dir: &UserDir, method: Method) -> String {
        if method == Method::Home || self.moved(dir).is_some() {
            self.dir(dir)
        } else {
            String::new()
        }
    }

    /// The variables with which the user has moved his own configuration: they are passed on where
    /// nothing is kept apart.
    fn own_variables(&self, client: &BTreeMap<String, String>) -> Vec<(String, String)> {
        let own = client.iter().filter(|(name, value)| {
            crate::agent::is_consulted(name) && !is_in_a_pane(value, self.root)
        });
        own.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

/// Whether a path lies in a directory of some pane.
#[must_use]
pub fn is_in_a_pane(path: &str, root: &str) -> bool {
    let inside = path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/'));
    inside.and_then(|inside| inside.split('/').next()).is_some_and(holds_pane_dirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_read_from_its_word_and_nothing_else() {
        for method in Method::ALL {
            assert_eq!(method.to_string().parse(), Ok(method));
        }
        for word in ["", "Home", "config-dir", "off"] {
            assert_eq!(word.parse::<Method>(), Err(UnknownMethod(word.to_owned())));
        }
    }

    #[test]
    fn what_is_planned_is_what_is_required() {
        let (pane, none) = (PaneId::from_random([1; 16]), BTreeMap::new());
        let client = BTreeMap::from([("HOME".to_owned(), "/home/me".to_owned())]);
        for (name, method) in
            [("claude", Method::ConfigDir), ("opencode", Method::Home), ("shell", Method::None)]
        {
            let separation = isolate(&Ground {
                root: "/s",
                pane,
                agent: &Agent::named(name, &none).unwrap(),
                method,
                config: &IsolationConfig::default(),
                client: &client,
                exists: &|_| false,
            });

            let isolation = &separation.isolation;
            assert!(isolation.places("/s", pane).iter().all(|(path, place)| path == place));
            for variable in isolation.required("/s", pane, &none) {
                assert!(separation.variables.contains(&variable), "{name}: {variable:?}");
            }
        }
    }
}
