//! Launching a pane: from a [`LaunchRequest`], or from the [`LaunchRecord`] of an ended pane, to the
//! [`Plan`] that the daemon carries out.
//!
//! ```text
//!  request --> new_pane --+
//!                         +--> draft --> argv, hooks --> Plan
//!  record ---> restart ---+
//! ```
//!
//! [`plan`] is the only way to a plan. A plan is complete before anything is created, and is not
//! changed afterwards.

pub mod inheritance;
pub mod isolation;
mod record;
mod restart;
#[cfg(test)]
pub(crate) mod testing;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::agent::hooks::{HookContext, HookFile};
use crate::agent::{Agent, UnknownAgent};
use crate::config::{AgentConfig, IsolationConfig, PortsConfig, RoleConfig};
use crate::conversation::{ConversationId, ConversationRequest, ConversationStart};
use crate::environment::layers::{Layer, Layers};
use crate::environment::{Environment, InvalidVariable};
use crate::idempotency::IdempotencyKey;
use crate::ids::{PaneId, SessionId};
use crate::isolation::{Method, is_in_a_pane};
use crate::limits::{LimitOverrides, Limits};
use crate::name::Name;
use crate::ports::PortBlock;
use crate::role::{self, UnknownRole};
use crate::session::SessionMode;
use crate::size::Size;
use crate::team::WantedPane;
use crate::time::Timestamp;
use crate::workspace::{WorkspaceKind, WorkspacePlace};
use isolation::{DirectorySetup, IsolationContext, IsolationPlan, isolate};

pub use crate::environment::variables::{PANE_ID, SESSION_ID};
pub use record::LaunchRecord;
pub use restart::Restart;

/// Variable with the directory that all panes can read.
const SHARED: &str = "CCMUX_SHARED";

/// Variable with the working directory.
const WORKING_DIR: &str = "WORKING_DIR";

/// Variable with the directory of the session's unit descriptions.
const UNIT_DIR: &str = "CCMUX_UNIT_DIR";

/// Variable with the directory of the session's workflows.
const WORKFLOWS_DIR: &str = "CCMUX_WORKFLOWS_DIR";

/// Variable with the first port; can be overridden.
const PORT: &str = "PORT";

/// Variable with the name of the docker compose project; can be overridden.
const COMPOSE_PROJECT: &str = "COMPOSE_PROJECT_NAME";

/// The maximum length of the names of session and pane in [`COMPOSE_PROJECT`].
const MAX_COMPOSE_PART: usize = 24;

/// Variable with the first port; cannot be overridden.
const PORT_BASE: &str = "CCMUX_PORT_BASE";

/// Variable with the number of ports.
const PORT_COUNT: &str = "CCMUX_PORT_COUNT";

/// A request to launch a pane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LaunchRequest {
    /// The name of the pane (default: the name of its program).
    pub name: Option<Name>,
    /// The session to join, by name or id; created if the name is new (default: a new session).
    pub session: Option<String>,
    /// The mode of a new session.
    pub mode: Option<SessionMode>,
    /// The agent to run, by name (default: inferred from the command).
    pub agent: Option<String>,
    /// The isolation method (default: that of the session or the configuration).
    pub isolation: Option<Method>,
    /// The kind of workspace (default: that of the session mode or the configuration).
    pub workspace: Option<WorkspaceKind>,
    /// Program and arguments, or arguments of the named agent. If empty: the agent without
    /// arguments, or the user's shell.
    pub command: Vec<String>,
    /// Absolute path of the directory to start in.
    pub cwd: String,
    /// Environment variables of the pane.
    pub env: BTreeMap<String, String>,
    /// The role of the pane, by name.
    pub role: Option<String>,
    /// Environment variables of the pane and of all later panes of its session.
    pub session_env: BTreeMap<String, String>,
    /// The size of the screen until a client attaches.
    pub size: Option<Size>,
    /// The environment of the client.
    pub client_env: BTreeMap<String, String>,
    /// Resource limits that differ from the configuration.
    pub limits: LimitOverrides,
    /// The idempotency key.
    pub key: Option<IdempotencyKey>,
    /// The unit of its session that the pane belongs to.
    pub unit: Option<Name>,
    /// The first prompt for the agent.
    pub prompt: Option<String>,
    /// The team's description of the pane; set by the team operation, never by a client.
    #[serde(skip)]
    pub wanted: Option<Box<WantedPane>>,
    /// The session that is being created with the pane and cannot be joined yet.
    #[serde(skip)]
    pub run: Option<SessionId>,
    /// The template of a new session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The mode of a new session if [`LaunchRequest::mode`] is not set. Unlike that field, it may
    /// differ from the mode of an existing session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_mode: Option<SessionMode>,
    /// Whether the uncommitted changes of the user are copied into a worktree or clone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub carry: bool,
}

/// The directories of a pane, as absolute paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PanePaths {
    /// The control socket of the daemon.
    pub socket: String,
    /// Directory for temporary files (`TMPDIR`).
    pub temp: String,
    /// Directory for output that others may read.
    pub output: String,
    /// Directory that all panes can read.
    pub shared: String,
    /// Directory of the session's unit descriptions.
    pub unit: String,
    /// Directory of the session's workflows.
    pub workflows: String,
    /// Directory of the session's logs.
    pub logs: String,
}

/// The pane to launch.
#[derive(Clone, Copy)]
pub enum Launch<'a> {
    /// A requested pane.
    New(&'a LaunchRequest, &'a NewPane<'a>),
    /// An ended pane, from its record.
    Again(&'a LaunchRecord, &'a Restart),
}

/// The input of [`plan`] about a new pane, besides the request.
pub struct NewPane<'a> {
    /// The id of the pane.
    pub pane: PaneId,
    /// Its session.
    pub session: SessionId,
    /// The name of its session.
    pub session_name: Name,
    /// Its name, unique in its session.
    pub name: Name,
    /// Its directories.
    pub paths: PanePaths,
    /// Its workspace; none to work in the requested directory.
    pub place: Option<WorkspacePlace>,
    /// The user id of the owner of the state root.
    pub owner: u32,
    /// The default isolation method.
    pub method: Method,
    /// The user-defined roles.
    pub roles: &'a BTreeMap<String, RoleConfig>,
    /// Environment variables of every pane.
    pub shared_env: &'a BTreeMap<String, String>,
    /// Environment variables of every pane of the session.
    pub session_env: &'a BTreeMap<String, String>,
    /// The ports of the pane.
    pub ports: Option<PortBlock>,
    /// The id for a new conversation.
    pub conversation: ConversationId,
    /// The default resource limits.
    pub limits: Limits,
    /// The current time.
    pub now: Timestamp,
    /// The version of ccmux, for `TERM_PROGRAM_VERSION`.
    pub version: &'static str,
}

/// The input of [`plan`] that does not depend on the pane.
pub struct LaunchContext<'a> {
    /// The state root.
    pub root: &'a str,
    /// The isolation settings.
    pub isolation: &'a IsolationConfig,
    /// The user-defined agents.
    pub agents: &'a BTreeMap<String, AgentConfig>,
    /// Returns true if a file of the user exists.
    pub exists: &'a dyn Fn(&str) -> bool,
    /// The input for hooks; none to launch without hooks.
    pub hooks: Option<HookContext<'a>>,
}

/// A planned launch.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The record to store and execute.
    pub record: LaunchRecord,
    /// The contents of the per-pane directories.
    pub setups: Vec<DirectorySetup>,
    /// The agent.
    pub agent: Agent,
    /// The user's own configuration directory of the agent.
    pub users_dir: Option<String>,
    /// The conversation that the agent opens, if known. No other pane may have it open.
    pub opens: Option<ConversationId>,
    /// The conversation that the user's arguments resume; it may have to be copied from elsewhere.
    pub resumes: Option<ConversationId>,
    /// The file with the hooks for the agent.
    pub hook_file: Option<HookFile>,
}

/// A plan without the command to execute.
struct Draft {
    /// The record; its `argv` is not set yet.
    record: LaunchRecord,
    agent: Agent,
    start: Restart,
    setups: Vec<DirectorySetup>,
    users_dir: Option<String>,
    opens: Option<ConversationId>,
    resumes: Option<ConversationId>,
}

/// A launch request that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The program name is empty.
    #[error("the command is empty")]
    EmptyCommand,
    /// An argument contains NUL.
    #[error("the command contains a NUL character")]
    NulInCommand,
    /// The working directory is relative.
    #[error("the working directory {0:?} is not an absolute path")]
    RelativeCwd(String),
    /// A variable is invalid.
    #[error(transparent)]
    Variable(#[from] InvalidVariable),
    /// The agent is not defined.
    #[error(transparent)]
    Agent(#[from] UnknownAgent),
    /// The role is not defined.
    #[error(transparent)]
    Role(#[from] UnknownRole),
    /// All ports of the range are assigned or in use.
    #[error(
        "no {} neighbouring ports are free from {} to {}",
        .0.count, .0.base, .0.end
    )]
    NoPorts(PortsConfig),
}

/// Plans the launch of a pane.
///
/// # Errors
///
/// [`LaunchError`] if the request is invalid, or if the agent of a record is no longer defined.
pub fn plan(launch: Launch<'_>, context: &LaunchContext<'_>) -> Result<Plan, LaunchError> {
    let draft = match launch {
        Launch::New(request, pane) => new_pane(request, pane, context)?,
        Launch::Again(record, restart) => restart::draft(record, restart, context)?,
    };
    let Draft { record, agent, start, setups, users_dir, opens, resumes } = draft;
    let (argv, hook_file) = match &start {
        Restart::Agent(start) => {
            let argv = agent.argv(&record.asked, start);
            match &context.hooks {
                Some(hooks) => agent.with_hooks(argv, hooks),
                None => (argv, None),
            }
        }
        Restart::Shell => (vec![shell(&record.env.clone().into())], None),
    };
    let record = LaunchRecord { argv, ..record };
    Ok(Plan { record, setups, agent, users_dir, opens, resumes, hook_file })
}

/// Drafts the launch of a new pane.
///
/// The environment is built in the order of [`Layer`]: variables inherited from the client
/// ([`inheritance`]), variables of all panes, of the role, the session, the ports and the request,
/// then those that ccmux sets about the pane and for isolation. The last two cannot be overridden.
fn new_pane(
    request: &LaunchRequest,
    pane: &NewPane<'_>,
    context: &LaunchContext<'_>,
) -> Result<Draft, LaunchError> {
    let (agent, asked) = check(request, context.agents, pane.roles)?;
    let IsolationPlan { isolation, user_home, users_dir, dropped, variables, setups } =
        isolate(&IsolationContext {
            root: context.root,
            pane: pane.pane,
            agent: &agent,
            method: request.isolation.unwrap_or(pane.method),
            config: context.isolation,
            client: &request.client_env,
            exists: context.exists,
        });
    let mut env = Layers::new(inheritance::inherited(&request.client_env));
    remove_variables_of_client_pane(&mut env, context.root, &user_home)?;
    dropped.iter().for_each(|name| env.leave_out(name));
    let preset = role::preset(request.role.as_deref(), pane.roles)?;
    env.set_all(Layer::Shared, pane.shared_env)?;
    env.set_all(Layer::Role, &preset.env)?;
    env.set_all(Layer::Session, pane.session_env)?;
    if let Some(ports) = pane.ports {
        env.set(Layer::Ports, PORT, &ports.base.to_string())?;
    }
    let requested = [pane.shared_env, &preset.env, pane.session_env];
    if !requested.iter().any(|layer| layer.contains_key(COMPOSE_PROJECT)) {
        env.set(Layer::Ports, COMPOSE_PROJECT, &compose_project(pane))?;
    }
    env.set_all(Layer::Pane, &request.env)?;
    for (name, value) in own_variables(request, pane) {
        env.set(Layer::Ccmux, name, &value)?;
    }
    for (name, value) in &variables {
        env.set(Layer::Isolation, name, value)?;
    }
    let (env, sources, unused) = env.into_parts();
    let (start, conversation, resumes) = conversation(&agent, &asked, pane);
    let record = LaunchRecord {
        pane: pane.pane,
        session: pane.session,
        name: pane.name.clone(),
        agent: agent.name.clone(),
        argv: Vec::new(),
        asked,
        cwd: cwd(request, pane).to_owned(),
        workspace: pane.place.as_ref().map(|place| place.workspace.clone()),
        env,
        size: request.size.unwrap_or_default(),
        created: pane.now,
        isolation,
        conversation: conversation.clone(),
        used: false,
        earlier: Vec::new(),
        owner: Some(pane.owner),
        role: request.role.clone(),
        sources,
        unused,
        ports: pane.ports,
        limits: pane.limits.with(&request.limits),
        unit: request.unit.clone(),
        wanted: request.wanted.clone(),
    };
    let (start, opens) = (Restart::Agent(start), conversation);
    Ok(Draft { record, agent, start, setups, users_dir, opens, resumes })
}

fn cwd<'a>(request: &'a LaunchRequest, pane: &'a NewPane<'_>) -> &'a str {
    pane.place.as_ref().map_or(&request.cwd, |place| &place.cwd)
}

/// Returns a name for the docker compose project of a pane: readable by its beginning, unique by the
/// id at its end, and consisting of the characters that docker compose allows.
fn compose_project(pane: &NewPane<'_>) -> String {
    let part = |name: &Name| -> String {
        let plain = |c: char| if c == '.' { '-' } else { c.to_ascii_lowercase() };
        name.as_str().chars().map(plain).take(MAX_COMPOSE_PART).collect()
    };
    format!("{}-{}-{}", part(&pane.session_name), part(&pane.name), pane.pane.short())
}

/// Checks a request and returns its agent, program and arguments.
///
/// # Errors
///
/// [`LaunchError`] if the request is invalid.
pub fn check(
    request: &LaunchRequest,
    agents: &BTreeMap<String, AgentConfig>,
    roles: &BTreeMap<String, RoleConfig>,
) -> Result<(Agent, Vec<String>), LaunchError> {
    if !request.cwd.starts_with('/') || request.cwd.contains('\0') {
        return Err(LaunchError::RelativeCwd(request.cwd.clone()));
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

/// Removes inherited variables that point into the pane of the client.
fn remove_variables_of_client_pane(
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

/// Returns the conversation that the agent is started with, the conversation of the record if
/// known, and the one that the user's arguments resume.
fn conversation(
    agent: &Agent,
    asked: &[String],
    pane: &NewPane<'_>,
) -> (ConversationStart, Option<ConversationId>, Option<ConversationId>) {
    match agent.asked(asked) {
        ConversationRequest::Nothing if agent.takes_new_id() => {
            let id = pane.conversation.clone();
            (ConversationStart::New(id.clone()), Some(id), None)
        }
        ConversationRequest::New(id) => (ConversationStart::Plain, Some(id), None),
        ConversationRequest::Resume(id) => (ConversationStart::Plain, Some(id.clone()), Some(id)),
        ConversationRequest::Nothing
        | ConversationRequest::AgentChooses
        | ConversationRequest::None => (ConversationStart::Plain, None, None),
    }
}

/// Returns the default name of a pane: that of its program.
#[must_use]
pub fn default_name(argv: &[String]) -> Name {
    let program = argv.first().map(String::as_str).unwrap_or_default();
    Name::near(program.rsplit('/').next().unwrap_or_default())
}

/// Returns the user's shell.
#[must_use]
pub fn shell(client: &BTreeMap<String, String>) -> String {
    let shell = client.get("SHELL").filter(|shell| shell.starts_with('/'));
    shell.cloned().unwrap_or_else(|| "/bin/sh".to_owned())
}

/// Returns the command to execute, by default the user's shell.
fn argv(command: Vec<String>, request: &LaunchRequest) -> Result<Vec<String>, LaunchError> {
    let argv = if command.is_empty() { vec![shell(&request.client_env)] } else { command };
    if argv[0].is_empty() {
        return Err(LaunchError::EmptyCommand);
    }
    if argv.iter().any(|word| word.contains('\0')) {
        return Err(LaunchError::NulInCommand);
    }
    Ok(argv)
}

fn own_variables(
    request: &LaunchRequest,
    pane: &NewPane<'_>,
) -> impl Iterator<Item = (&'static str, String)> {
    let role = request.role.clone().map(|role| (role::VARIABLE, role));
    let ports = pane
        .ports
        .map(|ports| [(PORT_BASE, ports.base.to_string()), (PORT_COUNT, ports.count.to_string())]);
    let fixed = [
        ("CCMUX", "1".to_owned()),
        ("CCMUX_SOCKET", pane.paths.socket.clone()),
        (SESSION_ID, pane.session.to_string()),
        (PANE_ID, pane.pane.to_string()),
        ("SESSION_ID", pane.session.to_string()),
        ("PANE_ID", pane.pane.to_string()),
        (WORKING_DIR, cwd(request, pane).to_owned()),
        ("TMPDIR", pane.paths.temp.clone()),
        ("OUTPUT_DIR", pane.paths.output.clone()),
        (SHARED, pane.paths.shared.clone()),
        (UNIT_DIR, pane.paths.unit.clone()),
        (WORKFLOWS_DIR, pane.paths.workflows.clone()),
        ("CCMUX_LOGS_DIR", pane.paths.logs.clone()),
        // The capabilities of the pane's emulator, whatever the outer terminal is.
        ("TERM", "xterm-256color".to_owned()),
        ("COLORTERM", "truecolor".to_owned()),
        ("TERM_PROGRAM", "ccmux".to_owned()),
        ("TERM_PROGRAM_VERSION", pane.version.to_owned()),
    ];
    fixed.into_iter().chain(role).chain(ports.into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use super::testing::{pane, plan_new, request};
    use super::*;

    #[test]
    fn empty_command_launches_the_users_shell() {
        let record = plan_new(&request(&[])).unwrap().record;

        assert_eq!(record.argv, ["/bin/zsh"]);
        assert_eq!(record.agent, "shell");
        assert_eq!(default_name(&record.argv).as_str(), "zsh");
    }

    #[test]
    fn compose_project_is_valid_unique_and_yields_to_explicit_values() {
        let long = "Long.Name_".repeat(6);
        let named = |n: u8| NewPane {
            pane: PaneId::from_random([n; 16]),
            session_name: long.parse().unwrap(),
            name: "Dev.1".parse().unwrap(),
            ..pane()
        };
        let (one, two) = (compose_project(&named(1)), compose_project(&named(2)));
        assert_eq!(one, format!("long-name_long-name_long-dev-1-{}", named(1).pane.short()));
        assert!(one != two && one.len() <= 63);

        let mut request = request(&["bash"]);
        request.client_env.insert(COMPOSE_PROJECT.to_owned(), "mine".to_owned());
        let record = plan_new(&request).unwrap().record;
        let value = compose_project(&pane());
        assert_eq!(record.env.get(COMPOSE_PROJECT), Some(value.as_str()));
        request.env.insert(COMPOSE_PROJECT.to_owned(), "mine".to_owned());
        let record = plan_new(&request).unwrap().record;
        assert_eq!(record.env.get(COMPOSE_PROJECT), Some("mine"));
    }

    #[test]
    fn request_cannot_override_variables_set_by_ccmux() {
        let mut request = request(&["bash"]);
        request.env.insert("CCMUX_PANE_ID".to_owned(), "another".to_owned());
        request.env.insert("EDITOR".to_owned(), "vi".to_owned());
        request.client_env.insert("TMPDIR".to_owned(), "/tmp".to_owned());

        let record = plan_new(&request).unwrap().record;

        assert_eq!(record.env.get("CCMUX_PANE_ID"), Some(record.pane.to_string().as_str()));
        assert_eq!(record.env.get("TMPDIR"), Some("/s/temp"));
        assert_eq!(record.env.get("EDITOR"), Some("vi"));
    }

    #[test]
    fn invalid_request_is_rejected() {
        let relative = LaunchRequest { cwd: "src".to_owned(), ..request(&["bash"]) };
        let cases = [
            (request(&[""]), LaunchError::EmptyCommand),
            (request(&["a\0b"]), LaunchError::NulInCommand),
            (relative, LaunchError::RelativeCwd("src".to_owned())),
        ];
        for (request, refused) in cases {
            assert_eq!(plan_new(&request).unwrap_err(), refused);
        }
    }

    /// The environment of a client in a pane with its own home, below claude and tmux.
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
    fn launch_from_inside_a_pane_does_not_inherit_that_panes_variables() {
        let request = LaunchRequest { client_env: inner_client(), ..request(&["claude"]) };

        let record = plan_new(&request).unwrap().record;

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
    fn isolation_overrides_variables_of_the_request() {
        let mut request = request(&["bash"]);
        request.env.insert("CLAUDE_CONFIG_DIR".to_owned(), "/home/me/.claude".to_owned());

        let record = plan_new(&request).unwrap().record;

        let dir = format!("/s/claude-configs/pane-{}", record.pane);
        assert_eq!(record.env.get("CLAUDE_CONFIG_DIR"), Some(dir.as_str()));
    }

    #[test]
    fn agent_is_chosen_by_name_or_program() {
        let id = pane().conversation;
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
            let record = plan_new(&request).unwrap().record;
            let argv = argv.replace("ID", id.as_str());
            assert_eq!((record.agent.as_str(), record.argv.join(" ")), (agent, argv));
        }
        let unknown = plan_new(&named("cursor", &[])).unwrap_err();
        assert!(unknown.to_string().contains("claude, codex"), "{unknown}");
    }

    #[test]
    fn converse_keeps_earlier_conversations() {
        let mut record = plan_new(&request(&["claude"])).unwrap().record;
        let (first, second) = (pane().conversation, ConversationId::from_random([9; 16]));

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
