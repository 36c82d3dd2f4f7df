//! Starting a pane: from what somebody asked for to exactly what is executed.
//!
//! [`plan`] is the only way from a [`LaunchRequest`] to a [`LaunchRecord`], and a keeper executes
//! nothing but a record. Every way to start a pane (command line, API, restore) makes a request.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::agent::hooks::{HookFile, HookGround};
use crate::agent::{Agent, UnknownAgent};
use crate::config::{AgentConfig, IsolationConfig, PortsConfig, RoleConfig};
use crate::conversation::{Asked, ConversationId, Start};
use crate::environment::layers::{Layer, Layers, Unused};
use crate::environment::{Environment, InvalidVariable};
use crate::idempotency::IdempotencyKey;
use crate::ids::{PaneId, SessionId};
use crate::isolation::{Furnishing, Ground, Isolation, Method, Separation, is_in_a_pane, isolate};
use crate::limits::{LimitWishes, Limits};
use crate::name::Name;
use crate::ports::PortBlock;
use crate::role::{self, UnknownRole};
use crate::session::SessionMode;
use crate::size::Size;
use crate::team::WantedPane;
use crate::time::Timestamp;
use crate::workspace::{Place, Workspace, WorkspaceKind};

/// In a pane: which it is.
pub const PANE_ID: &str = "CCMUX_PANE_ID";

/// In a pane: which session it belongs to.
pub const SESSION_ID: &str = "CCMUX_SESSION_ID";

/// In a pane: what all panes may read.
const SHARED: &str = "CCMUX_SHARED";

/// In a pane: where it works.
const WORKING_DIR: &str = "WORKING_DIR";

/// In a pane: where the units of its session are described.
const UNIT_DIR: &str = "CCMUX_UNIT_DIR";

/// In a pane: where the workflows of its session are.
const WORKFLOWS_DIR: &str = "CCMUX_WORKFLOWS_DIR";

/// In a pane: the first of its ports, unless the user says otherwise.
const PORT: &str = "PORT";

/// In a pane: the first of its ports, whatever the user says.
const PORT_BASE: &str = "CCMUX_PORT_BASE";

/// In a pane: how many ports it has.
const PORT_COUNT: &str = "CCMUX_PORT_COUNT";

/// What somebody asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LaunchRequest {
    /// What people will call the pane; its program's name if none is given.
    pub name: Option<Name>,
    /// The session to join, by name or id; made if the name is new. None: a session of its own.
    pub session: Option<String>,
    /// The mode of a session that has to be made.
    pub mode: Option<SessionMode>,
    /// The agent to run, by name; told by the program of the command if none is named.
    pub agent: Option<String>,
    /// How to keep the agent apart; as the session or the configuration says if not said.
    pub isolation: Option<Method>,
    /// What tree to work in; as the session's mode and the configuration say if not said.
    pub workspace: Option<WorkspaceKind>,
    /// Program and arguments, or arguments of the named agent. Empty: the agent alone, or the
    /// user's shell.
    pub command: Vec<String>,
    /// Absolute path of the directory to start in.
    pub cwd: String,
    /// Variables for this pane.
    pub env: BTreeMap<String, String>,
    /// What the pane is for, by name; brings the variables of that role.
    pub role: Option<String>,
    /// Variables for this pane and every later one of its session.
    pub session_env: BTreeMap<String, String>,
    /// The size of the screen until a client attaches.
    pub size: Option<Size>,
    /// What the asking client's own environment was.
    pub client_env: BTreeMap<String, String>,
    /// What it may take, where that differs from what the configuration says.
    pub limits: LimitWishes,
    /// What this request is called, so that it can be sent again.
    pub key: Option<IdempotencyKey>,
    /// The unit of its session that it belongs to.
    pub unit: Option<Name>,
    /// What its agent is told first.
    pub prompt: Option<String>,
    /// As what a team wants it; said by whoever makes the team, never by a client.
    #[serde(skip)]
    pub wanted: Option<Box<WantedPane>>,
    /// The session that is being made with it, which nobody else may join yet.
    #[serde(skip)]
    pub run: Option<SessionId>,
    /// The template of a session that has to be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The mode of a session that has to be made, if [`LaunchRequest::mode`] does not say. Unlike
    /// that, it may differ from the mode of a session that is joined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_mode: Option<SessionMode>,
}

/// Everything needed to start a pane again exactly (`pane.json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchRecord {
    /// The pane.
    pub pane: PaneId,
    /// The session it belongs to.
    pub session: SessionId,
    /// What people call it.
    pub name: Name,
    /// The kind of program: `shell` for anything that is not a known agent.
    pub agent: String,
    /// Program and arguments as they were asked for; empty in records of older releases.
    #[serde(default)]
    pub asked: Vec<String>,
    /// Program and arguments as they are executed: [`LaunchRecord::asked`], and what the agent is
    /// told about its conversation and its hooks. Never empty.
    pub argv: Vec<String>,
    /// The directory it starts in.
    pub cwd: String,
    /// Where it works; none in records of older releases, which shared.
    #[serde(default)]
    pub workspace: Option<Workspace>,
    /// The complete environment.
    pub env: Environment,
    /// The first size of its screen.
    pub size: Size,
    /// When it was first planned.
    pub created: Timestamp,
    /// What keeps it apart.
    #[serde(default = "Isolation::none")]
    pub isolation: Isolation,
    /// The agent's conversation, once it is known.
    #[serde(default)]
    pub conversation: Option<ConversationId>,
    /// Something was said in the conversation: there was a transcript of it.
    #[serde(default)]
    pub used: bool,
    /// Conversations that it had before, oldest first: an id is replaced, never lost.
    #[serde(default)]
    pub earlier: Vec<ConversationId>,
    /// The user that the state root belongs to.
    #[serde(default)]
    pub owner: Option<u32>,
    /// What it is for, where somebody said so.
    #[serde(default)]
    pub role: Option<String>,
    /// Who set each variable; empty in records of older releases.
    #[serde(default)]
    pub sources: BTreeMap<String, Layer>,
    /// What was to be set as well, and was not.
    #[serde(default)]
    pub unused: Vec<Unused>,
    /// The ports that are this pane's.
    #[serde(default)]
    pub ports: Option<PortBlock>,
    /// What it may take.
    #[serde(default)]
    pub limits: Limits,
    /// The unit of its session that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Name>,
    /// As what a team wants it, where it was made for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<Box<WantedPane>>,
}

/// The directories of a pane, as absolute paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PanePaths {
    /// The control socket of the daemon.
    pub socket: String,
    /// Where the pane may write what need not be kept (`TMPDIR`).
    pub temp: String,
    /// Where the pane may write what others should find.
    pub output: String,
    /// Where it finds what all panes may read.
    pub shared: String,
    /// Where the units of its session are described.
    pub unit: String,
    /// Where the workflows of its session are.
    pub workflows: String,
    /// Where the panes of its session put what they want to keep.
    pub logs: String,
}

/// What the plan takes from outside, so that it can be a function.
pub struct Setting<'a> {
    /// The new pane's id.
    pub pane: PaneId,
    /// Its session.
    pub session: SessionId,
    /// Its name, free within its session.
    pub name: Name,
    /// Its directories.
    pub paths: PanePaths,
    /// Where it works; where it was asked for if nothing is said.
    pub place: Option<Place>,
    /// The state root.
    pub root: &'a str,
    /// The user that the state root belongs to.
    pub owner: u32,
    /// How it is kept apart, unless the request says otherwise.
    pub method: Method,
    /// The user's wishes.
    pub isolation: &'a IsolationConfig,
    /// The agents that the user has defined.
    pub agents: &'a BTreeMap<String, AgentConfig>,
    /// The roles that the user has defined.
    pub roles: &'a BTreeMap<String, RoleConfig>,
    /// Variables of every pane.
    pub shared_env: &'a BTreeMap<String, String>,
    /// Variables of every pane of the session.
    pub session_env: &'a BTreeMap<String, String>,
    /// The ports that are the pane's.
    pub ports: Option<PortBlock>,
    /// The id of a conversation that begins with the pane.
    pub conversation: ConversationId,
    /// Whether a file of the user's exists.
    pub exists: &'a dyn Fn(&str) -> bool,
    /// What a pane may take, unless the request says otherwise.
    pub limits: Limits,
    /// What an agent that has hooks is given; none: no hooks.
    pub hooks: Option<HookGround<'a>>,
    /// Now.
    pub now: Timestamp,
    /// The release that plans, for `TERM_PROGRAM_VERSION`.
    pub version: &'static str,
}

/// A pane, planned.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is executed, and remembered.
    pub record: LaunchRecord,
    /// What is put into the directories that keep it apart.
    pub furnishings: Vec<Furnishing>,
    /// The program in it.
    pub agent: Agent,
    /// Where the user keeps his own configuration of that program.
    pub users_dir: Option<String>,
    /// The conversation that the user's own arguments go on with, which may have to be brought
    /// from elsewhere.
    pub resumes: Option<ConversationId>,
    /// The file in which its agent finds our hooks.
    pub hook_file: Option<HookFile>,
}

/// Why a request cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unplannable {
    /// There is no program to run.
    #[error("the command is empty")]
    EmptyCommand,
    /// The kernel would cut the text short.
    #[error("the command contains a NUL character")]
    NulInCommand,
    /// A relative path means nothing to a daemon that lives elsewhere.
    #[error("the working directory {0:?} is not an absolute path")]
    RelativeCwd(String),
    /// A variable that no process can have.
    #[error(transparent)]
    Variable(#[from] InvalidVariable),
    /// An agent that nobody has described.
    #[error(transparent)]
    Agent(#[from] UnknownAgent),
    /// A role that nobody has described.
    #[error(transparent)]
    Role(#[from] UnknownRole),
    /// Every port that a pane may get is another pane's, or in use.
    #[error(
        "no {} neighbouring ports are free from {} to {}",
        .0.count, .0.base, .0.end
    )]
    NoPorts(PortsConfig),
}

/// What to start for `request`, and with which environment.
///
/// The environment is built in the order of [`Layer`], later ones winning: what the client hands
/// down by the list of [`crate::environment::is_inherited`], what all panes share, what the role,
/// the session and the request set, what ccmux itself says about the pane, and last what keeps the
/// pane apart. Nobody can override the last two.
///
/// # Errors
///
/// [`Unplannable`], naming what is wrong with the request.
pub fn plan(request: &LaunchRequest, setting: &Setting<'_>) -> Result<Plan, Unplannable> {
    let (agent, asked) = check(request, setting.agents, setting.roles)?;
    let Separation { isolation, user_home, users_dir, dropped, variables, furnishings } =
        isolate(&Ground {
            root: setting.root,
            pane: setting.pane,
            agent: &agent,
            method: request.isolation.unwrap_or(setting.method),
            config: setting.isolation,
            client: &request.client_env,
            exists: setting.exists,
        });
    let mut env = Layers::inherited(&request.client_env);
    leave_the_clients_pane(&mut env, setting.root, &user_home)?;
    dropped.iter().for_each(|name| env.leave_out(name));
    let preset = role::preset(request.role.as_deref(), setting.roles)?;
    env.set_all(Layer::Shared, setting.shared_env)?;
    env.set_all(Layer::Role, &preset.env)?;
    env.set_all(Layer::Session, setting.session_env)?;
    if let Some(ports) = setting.ports {
        env.set(Layer::Ports, PORT, &ports.base.to_string())?;
    }
    env.set_all(Layer::Pane, &request.env)?;
    for (name, value) in own_variables(request, setting) {
        env.set(Layer::Ccmux, name, &value)?;
    }
    for (name, value) in &variables {
        env.set(Layer::Isolation, name, value)?;
    }
    let (env, sources, unused) = env.into_parts();
    let (start, conversation, resumes) = conversation(&agent, &asked, setting);
    let argv = agent.argv(&asked, &start);
    let (argv, hook_file) = match &setting.hooks {
        Some(ground) => agent.hooked(argv, ground),
        None => (argv, None),
    };
    let record = LaunchRecord {
        pane: setting.pane,
        session: setting.session,
        name: setting.name.clone(),
        agent: agent.name.clone(),
        argv,
        asked,
        cwd: cwd(request, setting).to_owned(),
        workspace: setting.place.as_ref().map(|place| place.workspace.clone()),
        env,
        size: request.size.unwrap_or_default(),
        created: setting.now,
        isolation,
        conversation,
        used: false,
        earlier: Vec::new(),
        owner: Some(setting.owner),
        role: request.role.clone(),
        sources,
        unused,
        ports: setting.ports,
        limits: setting.limits.with(&request.limits),
        unit: request.unit.clone(),
        wanted: request.wanted.clone(),
    };
    Ok(Plan { record, furnishings, agent, users_dir, resumes, hook_file })
}

fn cwd<'a>(request: &'a LaunchRequest, setting: &'a Setting<'_>) -> &'a str {
    setting.place.as_ref().map_or(&request.cwd, |place| &place.cwd)
}

/// What is wrong with a request, if anything; otherwise its agent, program and arguments.
///
/// # Errors
///
/// [`Unplannable`], naming what is wrong with the request.
pub fn check(
    request: &LaunchRequest,
    agents: &BTreeMap<String, AgentConfig>,
    roles: &BTreeMap<String, RoleConfig>,
) -> Result<(Agent, Vec<String>), Unplannable> {
    if !request.cwd.starts_with('/') || request.cwd.contains('\0') {
        return Err(Unplannable::RelativeCwd(request.cwd.clone()));
    }
    let preset = role::preset(request.role.as_deref(), roles)?;
    let by_role = preset.agent.as_ref().filter(|_| request.command.is_empty());
    let (agent, command) = match request.agent.as_ref().or(by_role) {
        Some(name) => {
            let agent = Agent::named(name, agents)?;
            let command = agent.command_for(&request.command);
            (agent, command)
        }
        None => (Agent::of_command(&request.command, agents), request.command.clone()),
    };
    let argv = argv(command, request)?;
    let mut scratch = Environment::default();
    for (name, value) in request.env.iter().chain(&request.session_env) {
        scratch.set(name, value)?;
    }
    Ok((agent, argv))
}

/// A client in a pane has variables that lead into that pane; they are not handed down.
fn leave_the_clients_pane(
    env: &mut Layers,
    root: &str,
    user_home: &str,
) -> Result<(), InvalidVariable> {
    let leads = |(name, value): (&str, &str)| {
        (name != "PATH" && is_in_a_pane(value, root)).then(|| name.to_owned())
    };
    let leading: Vec<String> = env.iter().filter_map(leads).collect();
    for name in leading {
        if name == "HOME" {
            env.set(Layer::Inherited, &name, user_home)?;
        } else {
            env.leave_out(&name);
        }
    }
    Ok(())
}

/// What the agent is told about its conversation, the conversation as far as it is known, and the
/// one that the user's own arguments resume.
fn conversation(
    agent: &Agent,
    asked: &[String],
    setting: &Setting<'_>,
) -> (Start, Option<ConversationId>, Option<ConversationId>) {
    match agent.asked(asked) {
        Asked::Nothing if agent.takes_new_id() => {
            let id = setting.conversation.clone();
            (Start::New(id.clone()), Some(id), None)
        }
        Asked::New(id) => (Start::Plain, Some(id), None),
        Asked::Resume(id) => (Start::Plain, Some(id.clone()), Some(id)),
        Asked::Nothing | Asked::AgentChooses | Asked::None => (Start::Plain, None, None),
    }
}

impl LaunchRecord {
    /// Program and arguments as they were asked for. Records of older releases have only what was
    /// executed, which was the same.
    #[must_use]
    pub fn asked(&self) -> &[String] {
        if self.asked.is_empty() { &self.argv } else { &self.asked }
    }

    /// The directory that all panes may read and none may write.
    #[must_use]
    pub fn shared(&self) -> Option<&str> {
        self.env.iter().find(|(name, _)| *name == SHARED).map(|(_, dir)| dir)
    }

    /// The same pane, working somewhere else, with units and workflows at these places.
    ///
    /// # Errors
    ///
    /// [`InvalidVariable`] for a path that no variable can hold.
    pub fn move_to(
        &mut self,
        place: Place,
        unit: &str,
        workflows: &str,
    ) -> Result<(), InvalidVariable> {
        let moved =
            [(WORKING_DIR, place.cwd.as_str()), (UNIT_DIR, unit), (WORKFLOWS_DIR, workflows)];
        for (name, value) in moved {
            self.env.set(name, value)?;
            self.sources.insert(name.to_owned(), Layer::Ccmux);
        }
        self.workspace = Some(place.workspace);
        self.cwd = place.cwd;
        Ok(())
    }

    /// The same pane with another conversation. The one that it had is remembered.
    pub fn converse(&mut self, id: ConversationId) {
        if self.conversation.as_ref() == Some(&id) {
            return;
        }
        self.earlier.retain(|earlier| *earlier != id);
        self.earlier.extend(self.conversation.replace(id));
    }
}

/// The name of a pane that nobody named: its program's.
#[must_use]
pub fn default_name(argv: &[String]) -> Name {
    let program = argv.first().map(String::as_str).unwrap_or_default();
    Name::near(program.rsplit('/').next().unwrap_or_default())
}

/// The user's shell.
#[must_use]
pub fn shell(client: &BTreeMap<String, String>) -> String {
    let shell = client.get("SHELL").filter(|shell| shell.starts_with('/'));
    shell.cloned().unwrap_or_else(|| "/bin/sh".to_owned())
}

/// Starts the user's shell where nothing else was asked for.
fn argv(command: Vec<String>, request: &LaunchRequest) -> Result<Vec<String>, Unplannable> {
    let argv = if command.is_empty() { vec![shell(&request.client_env)] } else { command };
    if argv[0].is_empty() {
        return Err(Unplannable::EmptyCommand);
    }
    if argv.iter().any(|word| word.contains('\0')) {
        return Err(Unplannable::NulInCommand);
    }
    Ok(argv)
}

fn own_variables(
    request: &LaunchRequest,
    setting: &Setting<'_>,
) -> impl Iterator<Item = (&'static str, String)> {
    let role = request.role.clone().map(|role| (role::VARIABLE, role));
    let ports = setting
        .ports
        .map(|ports| [(PORT_BASE, ports.base.to_string()), (PORT_COUNT, ports.count.to_string())]);
    let fixed = [
        ("CCMUX", "1".to_owned()),
        ("CCMUX_SOCKET", setting.paths.socket.clone()),
        (SESSION_ID, setting.session.to_string()),
        (PANE_ID, setting.pane.to_string()),
        ("SESSION_ID", setting.session.to_string()),
        ("PANE_ID", setting.pane.to_string()),
        (WORKING_DIR, cwd(request, setting).to_owned()),
        ("TMPDIR", setting.paths.temp.clone()),
        ("OUTPUT_DIR", setting.paths.output.clone()),
        (SHARED, setting.paths.shared.clone()),
        (UNIT_DIR, setting.paths.unit.clone()),
        (WORKFLOWS_DIR, setting.paths.workflows.clone()),
        ("CCMUX_LOGS_DIR", setting.paths.logs.clone()),
        // What the emulator of a pane understands, whatever the outer terminal is.
        ("TERM", "xterm-256color".to_owned()),
        ("COLORTERM", "truecolor".to_owned()),
        ("TERM_PROGRAM", "ccmux".to_owned()),
        ("TERM_PROGRAM_VERSION", setting.version.to_owned()),
    ];
    fixed.into_iter().chain(role).chain(ports.into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting() -> Setting<'static> {
        static AGENTS: BTreeMap<String, AgentConfig> = BTreeMap::new();
        static ROLES: BTreeMap<String, RoleConfig> = BTreeMap::new();
        static NOTHING: BTreeMap<String, String> = BTreeMap::new();
        static ISOLATION: std::sync::LazyLock<IsolationConfig> =
            std::sync::LazyLock::new(IsolationConfig::default);
        Setting {
            pane: PaneId::from_random([1; 16]),
            session: SessionId::from_random([2; 16]),
            name: "dev1".parse().unwrap(),
            paths: PanePaths {
                socket: "/s/run/control.sock".to_owned(),
                temp: "/s/temp".to_owned(),
                output: "/s/output".to_owned(),
                shared: "/s/shared".to_owned(),
                unit: "/s/unit".to_owned(),
                workflows: "/s/workflows".to_owned(),
                logs: "/s/logs".to_owned(),
            },
            place: None,
            root: "/s",
            owner: 1000,
            method: Method::ConfigDir,
            isolation: &ISOLATION,
            agents: &AGENTS,
            roles: &ROLES,
            shared_env: &NOTHING,
            session_env: &NOTHING,
            ports: None,
            conversation: ConversationId::from_random([3; 16]),
            exists: &|_| false,
            limits: Limits::default(),
            hooks: None,
            now: Timestamp(7),
            version: "0.1.0",
        }
    }

    fn request(command: &[&str]) -> LaunchRequest {
        LaunchRequest {
            command: command.iter().map(|&word| word.to_owned()).collect(),
            cwd: "/src".to_owned(),
            client_env: BTreeMap::from([("SHELL".to_owned(), "/bin/zsh".to_owned())]),
            ..LaunchRequest::default()
        }
    }

    #[test]
    fn without_a_command_the_users_shell_is_started() {
        let record = plan(&request(&[]), &setting()).unwrap().record;

        assert_eq!(record.argv, ["/bin/zsh"]);
        assert_eq!(record.agent, "shell");
        assert_eq!(default_name(&record.argv).as_str(), "zsh");
    }

    #[test]
    fn nobody_can_override_what_ccmux_says_about_the_pane() {
        let mut request = request(&["bash"]);
        request.env.insert("CCMUX_PANE_ID".to_owned(), "another".to_owned());
        request.env.insert("EDITOR".to_owned(), "vi".to_owned());
        request.client_env.insert("TMPDIR".to_owned(), "/tmp".to_owned());

        let record = plan(&request, &setting()).unwrap().record;

        assert_eq!(record.env.get("CCMUX_PANE_ID"), Some(record.pane.to_string().as_str()));
        assert_eq!(record.env.get("TMPDIR"), Some("/s/temp"));
        assert_eq!(record.env.get("EDITOR"), Some("vi"));
    }

    #[test]
    fn requests_that_cannot_be_executed_are_refused() {
        let relative = LaunchRequest { cwd: "src".to_owned(), ..request(&["bash"]) };
        let cases = [
            (request(&[""]), Unplannable::EmptyCommand),
            (request(&["a\0b"]), Unplannable::NulInCommand),
            (relative, Unplannable::RelativeCwd("src".to_owned())),
        ];
        for (request, refused) in cases {
            assert_eq!(plan(&request, &setting()).unwrap_err(), refused);
        }
    }

    /// A client in a pane that has a home of its own, beside an outer claude and in tmux.
    fn inner_client() -> BTreeMap<String, String> {
        [
            ("HOME", "/s/claude-homes/pane-x"),
            ("CCMUX_USER_HOME", "/home/me"),
            ("PATH", "/usr/bin"),
            ("CLAUDE_CONFIG_DIR", "/s/claude-configs/pane-x"),
            ("XDG_CONFIG_HOME", "/s/opencode-configs/pane-x/config"),
            ("XDG_RUNTIME_DIR", "/run/user/1000"),
            ("CLAUDECODE", "1"),
            ("CLAUDE_CODE_SESSION_ID", "other"),
            ("CLAUDE_CODE_ENTRYPOINT", "cli"),
            ("TMUX", "/tmp/tmux-0/default,1,0"),
            ("ANTHROPIC_API_KEY", "sk-ant-key"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }

    #[test]
    fn a_pane_asked_for_from_inside_another_is_as_clean_as_any() {
        let request = LaunchRequest { client_env: inner_client(), ..request(&["claude"]) };

        let record = plan(&request, &setting()).unwrap().record;

        let pane = record.pane;
        assert_eq!(record.env.get("HOME"), Some("/home/me"));
        let dir = format!("/s/claude-configs/pane-{pane}");
        assert_eq!(record.env.get("CLAUDE_CONFIG_DIR"), Some(dir.as_str()));
        assert_eq!(record.isolation.dir_of("claude"), Some(dir.as_str()));
        assert_eq!(record.env.get("XDG_RUNTIME_DIR"), Some("/run/user/1000"));
        for name in [
            "XDG_CONFIG_HOME",
            "CLAUDECODE",
            "CLAUDE_CODE_SESSION_ID",
            "CLAUDE_CODE_ENTRYPOINT",
            "TMUX",
            "CCMUX_USER_HOME",
        ] {
            assert_eq!(record.env.get(name), None, "{name}");
        }
    }

    #[test]
    fn what_keeps_a_pane_apart_wins_over_what_the_user_sets() {
        let mut request = request(&["bash"]);
        request.env.insert("CLAUDE_CONFIG_DIR".to_owned(), "/home/me/.claude".to_owned());

        let record = plan(&request, &setting()).unwrap().record;

        let dir = format!("/s/claude-configs/pane-{}", record.pane);
        assert_eq!(record.env.get("CLAUDE_CONFIG_DIR"), Some(dir.as_str()));
    }

    #[test]
    fn an_agent_is_told_by_its_name_or_by_its_program() {
        let id = setting().conversation;
        let named = |agent: &str, command: &[&str]| LaunchRequest {
            agent: Some(agent.to_owned()),
            ..request(command)
        };
        let cases = [
            (
                request(&["/opt/bin/claude", "-p", "x"]),
                "claude",
                "/opt/bin/claude --session-id ID -p x",
            ),
            (
                named("claude", &["--model", "opus"]),
                "claude",
                "claude --session-id ID --model opus",
            ),
            (named("claude", &["/opt/claude"]), "claude", "/opt/claude --session-id ID"),
            (request(&["claude", "mcp", "list"]), "claude", "claude mcp list"),
            (request(&["codex", "fix"]), "codex", "codex fix"),
            (named("shell", &["bash", "-l"]), "shell", "bash -l"),
            (request(&["make", "claude"]), "shell", "make claude"),
        ];
        for (request, agent, argv) in cases {
            let record = plan(&request, &setting()).unwrap().record;
            let argv = argv.replace("ID", id.as_str());
            assert_eq!((record.agent.as_str(), record.argv.join(" ")), (agent, argv));
        }
        let unknown = plan(&named("cursor", &[]), &setting()).unwrap_err();
        assert!(unknown.to_string().contains("claude, codex"), "{unknown}");
    }

    #[test]
    fn an_id_is_replaced_and_never_lost() {
        let mut record = plan(&request(&["claude"]), &setting()).unwrap().record;
        let (first, second) = (setting().conversation, ConversationId::from_random([9; 16]));

        record.converse(second.clone());
        record.converse(second.clone());

        assert_eq!(
            (record.conversation.clone(), &record.earlier),
            (Some(second.clone()), &vec![first.clone()])
        );
        record.converse(first.clone());
        assert_eq!((record.conversation, record.earlier), (Some(first), vec![second]));
    }
}
