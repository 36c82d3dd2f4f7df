//! Planning of isolation: the per-pane directories, their contents, and the variables that point to
//! them.

use std::collections::BTreeMap;

use crate::agent::refresh::Mirror;
use crate::agent::{Agent, Link, Origin, UserDir, is_consulted};
use crate::config::{AgentConfig, IsolationConfig, Share};
use crate::environment::variables::USER_HOME;
use crate::ids::PaneId;
use crate::isolation::{
    AgentDir, HOMES, Isolation, Login, Method, config_place, home_place, is_in_a_pane, temp_place,
};

/// Variables that relocate parts of the home; removed if the pane has its own home.
const XDG_HOMES: [&str; 4] =
    ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"];

/// Returns the variables that the environment of an isolated pane must contain.
#[must_use]
pub fn required(
    isolation: &Isolation,
    root: &str,
    pane: PaneId,
    agents: &BTreeMap<String, AgentConfig>,
) -> Vec<(String, String)> {
    let mut required = Vec::new();
    if isolation.home.is_some() {
        required.push(("HOME".to_owned(), home_place(root, pane)));
    }
    for dir in &isolation.dirs {
        if let Ok(agent) = Agent::named(&dir.agent, agents) {
            let path = config_place(root, &dir.agent, pane);
            required.extend(pointers(&agent, &path, &temp_place(root, pane)));
        }
    }
    required
}

/// Returns the variables that point an agent to its directory and its temporary directory.
fn pointers(agent: &Agent, path: &str, temp: &str) -> Vec<(String, String)> {
    let variables = agent.variables.iter().map(|(name, inside)| {
        let value = if inside.is_empty() { path.to_owned() } else { format!("{path}/{inside}") };
        (name.clone(), value)
    });
    let temp = agent.temp_variable.clone().map(|name| (name, temp.to_owned()));
    variables.chain(temp).collect()
}

/// Returns the user's directory of an agent, according to the environment of a client.
#[must_use]
pub fn users_place(dir: &UserDir, client: &BTreeMap<String, String>, root: &str) -> String {
    User::new(client, root).dir(dir)
}

/// The input of [`isolate`].
pub struct IsolationContext<'a> {
    /// The state root.
    pub root: &'a str,
    /// The pane.
    pub pane: PaneId,
    /// The agent in it.
    pub agent: &'a Agent,
    /// The isolation method.
    pub method: Method,
    /// The isolation settings.
    pub config: &'a IsolationConfig,
    /// The environment of the client that requested the pane.
    pub client: &'a BTreeMap<String, String>,
    /// Returns true if a file of the user exists.
    pub exists: &'a dyn Fn(&str) -> bool,
}

/// The isolation of a new pane: directories to create and variables to set.
#[derive(Clone, Debug)]
pub struct IsolationPlan {
    /// The record.
    pub isolation: Isolation,
    /// The user's home directory.
    pub user_home: String,
    /// The user's own configuration directory of the agent.
    pub users_dir: Option<String>,
    /// Variables that must not be inherited from the client.
    pub dropped: Vec<String>,
    /// Variables that override all others.
    pub variables: Vec<(String, String)>,
    /// The contents of the new directories.
    pub setups: Vec<DirectorySetup>,
}

/// The initial contents of a per-pane directory.
#[derive(Clone, Debug)]
pub struct DirectorySetup {
    /// The directory.
    pub dir: String,
    /// The agent it belongs to; none for a home directory.
    pub agent: Option<Agent>,
    /// Directories to create in it.
    pub directories: Vec<String>,
    /// Links to create in it: path, and path of the user's file. Missing files are skipped.
    pub links: Vec<(String, String)>,
    /// Copies that follow the user's files.
    pub mirrors: Vec<Mirror>,
    /// Files to copy into it: path, and path of the user's file.
    pub copies: Vec<(String, String)>,
    /// Files from which others are generated: name, and path.
    pub consults: Vec<(&'static str, String)>,
}

/// Plans the isolation of a pane.
#[must_use]
pub fn isolate(context: &IsolationContext<'_>) -> IsolationPlan {
    let user = User::new(context.client, context.root);
    if context.method == Method::None {
        let isolation = Isolation::none();
        let variables = user.own_variables(context.client);
        let (dropped, setups) = (Vec::new(), Vec::new());
        let user_home = user.home;
        return IsolationPlan { isolation, user_home, users_dir: None, dropped, variables, setups };
    }
    let mut agents = Agent::everywhere();
    let knows_own = agents.iter().any(|agent| agent.name == context.agent.name);
    if !knows_own && !context.agent.variables.is_empty() {
        agents.push(context.agent.clone());
    }
    let temp = temp_place(context.root, context.pane);
    let mut plan = IsolationPlan {
        isolation: Isolation {
            method: context.method,
            home: None,
            dirs: Vec::new(),
            temp: Some(temp.clone()),
            login: login(context, &user),
            kept_on_close: !context.config.cleanup_on_close,
        },
        user_home: user.home.clone(),
        users_dir: (!context.agent.user_dir.under_home.is_empty())
            .then(|| user.dir(&context.agent.user_dir)),
        dropped: context.agent.scrubs.clone(),
        variables: Vec::new(),
        setups: Vec::new(),
    };
    if context.method == Method::Home {
        plan.give_home(context, &user);
    }
    for agent in agents {
        let path = config_place(context.root, &agent.name, context.pane);
        plan.variables.extend(pointers(&agent, &path, &temp));
        if let Some(store) = agent.logins.store {
            let dir = user.store_variable(&agent.user_dir, context.method);
            plan.variables.push((store.variable.to_owned(), dir));
        }
        plan.setups.push(setup(&agent, &path, &user, context.config));
        plan.isolation.dirs.push(AgentDir { agent: agent.name, path });
    }
    plan
}

impl IsolationPlan {
    fn give_home(&mut self, context: &IsolationContext<'_>, user: &User<'_>) {
        let home = home_place(context.root, context.pane);
        let links = context.config.home_symlinks.iter();
        let links = links.map(|item| (item.clone(), format!("{}/{item}", user.home)));
        self.setups.push(DirectorySetup {
            dir: home.clone(),
            agent: None,
            directories: Vec::new(),
            links: links.collect(),
            mirrors: Vec::new(),
            copies: Vec::new(),
            consults: Vec::new(),
        });
        self.dropped.extend(XDG_HOMES.map(str::to_owned));
        self.variables.push(("HOME".to_owned(), home.clone()));
        self.variables.push((USER_HOME.to_owned(), user.home.clone()));
        self.isolation.home = Some(home);
    }
}

fn setup(agent: &Agent, path: &str, user: &User<'_>, config: &IsolationConfig) -> DirectorySetup {
    let place = |origin: &Origin| user.place(&agent.user_dir, origin);
    let is_linked = |link: &&Link| link.share.is_none_or(|share| config.share.contains(&share));
    let (links, others): (Vec<&Link>, Vec<&Link>) = agent.links.iter().partition(is_linked);
    let mirrors = others.into_iter().filter_map(|link| {
        let is_copied = link.share.is_some_and(|share| config.copy.contains(&share));
        let settings = agent.settings.filter(|settings| settings.at == link.at);
        // Settings have defaults, even if those of the user are not used.
        (is_copied || settings.is_some()).then(|| Mirror {
            at: link.at.clone(),
            from: is_copied.then(|| place(&link.to)),
            settings: settings.map(|settings| settings.defaults),
        })
    });
    let is_used = |share: &Option<Share>| share.is_none_or(|share| config.uses(share));
    let copies = agent.copies.iter().filter(|copy| is_used(&copy.share));
    DirectorySetup {
        dir: path.to_owned(),
        directories: agent.directories.iter().map(|&dir| dir.to_owned()).collect(),
        mirrors: mirrors.collect(),
        links: links.into_iter().map(|link| (link.at.clone(), place(&link.to))).collect(),
        copies: copies.map(|copy| (copy.at.clone(), place(&copy.from))).collect(),
        consults: agent.consults.iter().map(|file| (file.name, place(&file.origin))).collect(),
        agent: Some(agent.clone()),
    }
}

/// Determines how the agent will log in. Like the agent itself, prefers its environment over the
/// user's credential store. For a shell, considers the first agent that runs in every pane.
fn login(context: &IsolationContext<'_>, user: &User<'_>) -> Login {
    let every = Agent::everywhere();
    let own = Some(context.agent).filter(|agent| !agent.variables.is_empty());
    let Some(agent) = own.or(every.first()) else { return Login::Users };
    let given = |name: &&&str| context.client.get(**name).is_some_and(|value| !value.is_empty());
    if let Some(name) = agent.logins.variables.iter().find(given) {
        return Login::Variable { name: (*name).to_owned() };
    }
    let Some(store) = agent.logins.store else { return Login::Asks { store: None } };
    let dir = user.dir(&agent.user_dir);
    if (context.exists)(&format!("{dir}/{}", store.file)) {
        Login::Store { variable: store.variable.to_owned(), dir }
    } else {
        Login::Asks { store: Some(dir) }
    }
}

/// The user's directories outside all panes, according to the environment of a client.
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

    /// Returns the user's configuration directory of an agent if it is not the default one. Ignores
    /// values that point into a pane.
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

    /// Returns the value that makes the variable of a credential store point to the user's store.
    /// An empty value means the default location.
    fn store_variable(&self, dir: &UserDir, method: Method) -> String {
        if method == Method::Home || self.moved(dir).is_some() {
            self.dir(dir)
        } else {
            String::new()
        }
    }

    /// Returns the variables with which the user relocated configuration, to be passed on without
    /// isolation.
    fn own_variables(&self, client: &BTreeMap<String, String>) -> Vec<(String, String)> {
        let own = client
            .iter()
            .filter(|(name, value)| is_consulted(name) && !is_in_a_pane(value, self.root));
        own.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planned_variables_include_all_required_ones() {
        let (pane, none) = (PaneId::from_random([1; 16]), BTreeMap::new());
        let client = BTreeMap::from([("HOME".to_owned(), "/home/me".to_owned())]);
        for (name, method) in
            [("claude", Method::ConfigDir), ("opencode", Method::Home), ("shell", Method::None)]
        {
            let plan = isolate(&IsolationContext {
                root: "/s",
                pane,
                agent: &Agent::named(name, &none).unwrap(),
                method,
                config: &IsolationConfig::default(),
                client: &client,
                exists: &|_| false,
            });

            let isolation = &plan.isolation;
            assert!(isolation.places("/s", pane).iter().all(|(path, place)| path == place));
            for variable in required(isolation, "/s", pane, &none) {
                assert!(plan.variables.contains(&variable), "{name}: {variable:?}");
            }
        }
    }
}
