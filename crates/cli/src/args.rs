//! The definition of the command line: commands, options and help text.

mod deferred;
mod environment;
mod examples;
mod groups;
mod help;
mod hook;
mod limits;
mod lock;
mod message;
mod serve;
mod team;
mod template;
mod values;
mod workspace;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use model::isolation::Method;
use model::key::Key;
use model::limits::LimitOverrides;
use model::{IdempotencyKey, Name, SessionMode, Size, WorkspaceKind};
use protocol::pane_io::Until;

pub(crate) use deferred::Deferred;
pub(crate) use environment::{EnvArgs, PaneEnvArgs};
pub(crate) use help::HelpArgs;
pub(crate) use hook::HookArgs;
pub(crate) use limits::{LimitArgs, ThawArgs};
pub(crate) use lock::{AcquireArgs, CheckArgs, LockCommand, LockLsArgs, ReleaseArgs, RenewArgs};
pub(crate) use message::{
    MessageArgs, MessageCommand, MessageLsArgs, MessageSendArgs, MessageShowArgs,
};
pub(crate) use serve::{ServeArgs, TokenArgs};
pub(crate) use team::{DownArgs, UpArgs};
pub(crate) use template::{MigrateArgs, TemplateCommand};
pub(crate) use values::Variable;
use values::{seconds, until};
pub(crate) use workspace::{ShareArgs, TrustArgs};

/// Help heading of the options that every command accepts.
const GLOBAL: &str = "Global options";

/// Run AI coding agents side by side in persistent terminal panes
///
/// Without a command, attaches to the most recently created pane, or starts a shell in a new pane
/// if there is none. The name of an agent is a command, too: `ccmux claude --model opus` is short
/// for `ccmux new -- claude --model opus`.
#[derive(Debug, Parser)]
#[command(
    name = "ccmux",
    version,
    help_template = groups::template(),
    after_help = examples::TOP,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    /// State root directory (default: $CCMUX_HOME, or ~/.ccmux)
    #[arg(long, global = true, value_name = "DIR", help_heading = GLOBAL)]
    pub(crate) home: Option<PathBuf>,

    /// Print JSON instead of text, including errors
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,

    /// Command to run.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// The commands. Each variant has its own file in `commands/`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a command in a new pane
    New(Deferred<NewArgs>),
    /// List sessions and panes
    #[command(aliases = ["list-sessions", "list-panes"])]
    Ls(Deferred<LsArgs>),
    /// Show details of a pane or session
    Show(Deferred<ShowArgs>),
    /// Attach this terminal to a pane
    #[command(aliases = ["attach-session", "a"])]
    Attach(Deferred<AttachArgs>),
    /// Rename a pane or session
    Rename(Deferred<RenameArgs>),
    /// Type text and keys into a pane
    Send(Deferred<SendArgs>),
    /// Send messages to panes and track their delivery
    Message(Deferred<MessageArgs>),
    /// Print the screen or the output log of a pane
    Read(Deferred<ReadArgs>),
    /// Show or change the resource limits of a pane
    Limit(Deferred<LimitArgs>),
    /// Resume the processes of frozen panes
    Thaw(Deferred<ThawArgs>),
    /// Wait until a pane exits or prints a matching line
    Wait(Deferred<WaitArgs>),
    /// Stop the processes of panes or sessions and keep their directories
    Stop(Deferred<StopArgs>),
    /// Restart exited panes and resume their conversations
    Restore(Deferred<RestoreArgs>),
    /// Stop panes and move their directories to the trash
    #[command(aliases = ["kill", "kill-pane"])]
    Close(Deferred<CloseArgs>),
    /// Stop all panes of sessions and move the sessions to the trash
    Purge(Deferred<PurgeArgs>),
    /// Create or update a team of panes from a file
    Up(Deferred<UpArgs>),
    /// Stop all panes of a team and keep their directories
    Down(Deferred<DownArgs>),
    /// Delete expired trash and move orphaned directories to the trash
    Gc(Deferred<GcArgs>),
    /// Show the environment of a pane and the source of each variable
    Env(Deferred<EnvArgs>),
    /// Allow a project to run its setup commands in new workspaces
    Trust(Deferred<TrustArgs>),
    /// Share read-only files with all panes
    Share(Deferred<ShareArgs>),
    /// List, show, add and remove session templates
    #[command(subcommand, after_help = template::TEMPLATE, disable_help_subcommand = true)]
    Template(TemplateCommand),
    /// Convert a legacy session to an isolated session
    Migrate(Deferred<MigrateArgs>),
    /// Print the event log
    Events(Deferred<EventsArgs>),
    /// Check panes, directories and configuration for problems and suggest fixes
    #[command(after_help = examples::DOCTOR)]
    Doctor,
    /// Show the effective configuration and the source of each value
    Config(Deferred<ConfigArgs>),
    /// Handle a hook event of an agent
    Hook(Deferred<HookArgs>),
    /// Lock files against concurrent edits
    #[command(subcommand, after_help = lock::LOCK, disable_help_subcommand = true)]
    Lock(LockCommand),
    /// Serve the HTTP API
    Serve(Deferred<ServeArgs>),
    /// Print or rotate an HTTP API token
    Token(Deferred<TokenArgs>),
    /// Manage the daemon
    #[command(subcommand, after_help = examples::DAEMON, disable_help_subcommand = true)]
    Daemon(DaemonCommand),
    /// Print a shell completion script
    Completions(Deferred<CompletionsArgs>),
    /// Print the help of a command, or compare the commands with those of tmux
    Help(Deferred<HelpArgs>),
    /// Write the manual pages to a directory
    #[command(hide = true)]
    Man(Deferred<ManArgs>),
}

/// Arguments of `new`.
#[derive(Debug, Default, Args)]
#[command(after_help = examples::NEW)]
pub(crate) struct NewArgs {
    /// Name of the pane (default: the name of the program)
    #[arg(short, long)]
    pub(crate) name: Option<Name>,

    /// Session to add the pane to, by name or ID; created if it does not exist
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,

    /// Agent to run: claude, codex, gemini, opencode, shell, or an agent defined in ccmux.toml
    /// (default: inferred from the command)
    #[arg(long)]
    pub(crate) agent: Option<String>,

    /// Isolation method: config_dir, home or none (default: that of the session, or of ccmux.toml); a
    /// new session uses it for later panes too
    #[arg(long, value_name = "METHOD")]
    pub(crate) isolation: Option<Method>,

    /// Mode of a new session: isolated or legacy (default: $CCMUX_SESSION_MODE, or isolated)
    #[arg(long)]
    pub(crate) mode: Option<SessionMode>,

    /// Template to create a new session from (default: no template)
    #[arg(long, value_name = "TEMPLATE")]
    pub(crate) template: Option<String>,

    /// Kind of workspace: auto, worktree, clone, copy, shared or empty (default: from ccmux.toml, or
    /// auto: a worktree for an agent in a git repository, otherwise the directory itself)
    #[arg(long, value_name = "KIND")]
    pub(crate) workspace: Option<WorkspaceKind>,

    /// Copy your uncommitted changes into the new worktree or clone (default: they stay where they
    /// are)
    #[arg(long)]
    pub(crate) carry: bool,

    /// Directory to start in (default: the current directory)
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// Set an environment variable; without a value, copy it from the current environment (can be
    /// repeated)
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<Variable>,

    #[command(flatten)]
    pub(crate) pane_env: PaneEnvArgs,

    /// Screen size until a terminal attaches (default: the size of this terminal, or 80x24)
    #[arg(long, value_name = "COLSxROWS")]
    pub(crate) size: Option<Size>,

    /// Resource limits, such as disk=1G,memory=4G,processes=500,cpu=50,files=4096; with
    /// policy=warn|freeze|stop, the action when a limit is exceeded (can be repeated)
    #[arg(long, value_name = "NAME=VALUE,…")]
    pub(crate) limit: Vec<LimitOverrides>,

    /// Unit of the session that the pane belongs to
    #[arg(long)]
    pub(crate) unit: Option<Name>,

    /// First prompt, sent as soon as the agent accepts input
    #[arg(long, value_name = "TEXT")]
    pub(crate) prompt: Option<String>,

    /// Idempotency key: repeating the same request with the same key returns the existing pane
    #[arg(long)]
    pub(crate) key: Option<IdempotencyKey>,

    /// Do not attach (implied by --json and when there is no terminal)
    #[arg(short, long)]
    pub(crate) detach: bool,

    /// Program and arguments, or only the arguments if --agent is given (default: your shell)
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Arguments of `show`.
#[derive(Debug, Args)]
#[command(after_help = examples::SHOW)]
pub(crate) struct ShowArgs {
    /// Pane or session: name, ID, unique ID prefix, or SESSION/PANE
    #[arg(value_name = "TARGET")]
    pub(crate) id: String,
}

/// Arguments of `ls`.
#[derive(Debug, Args)]
#[command(after_help = examples::LS)]
pub(crate) struct LsArgs {
    /// List ended panes, too (always on)
    #[arg(short, long, hide = true)]
    all: bool,
}

/// Arguments of `attach`.
#[derive(Debug, Args)]
#[command(after_help = examples::attach())]
pub(crate) struct AttachArgs {
    /// Pane: name, ID, unique ID prefix, or SESSION/PANE (default: the most recently created pane)
    #[arg(value_name = "PANE")]
    pub(crate) id: Option<String>,

    /// Watch without sending input
    #[arg(long)]
    pub(crate) read_only: bool,
}

/// Arguments of `rename`.
#[derive(Debug, Args)]
#[command(after_help = examples::RENAME)]
pub(crate) struct RenameArgs {
    /// Pane or session: name, ID, unique ID prefix, or SESSION/PANE
    #[arg(value_name = "TARGET")]
    pub(crate) id: String,

    /// New name
    pub(crate) name: Name,
}

/// Arguments of `send`.
#[derive(Debug, Args)]
#[command(after_help = examples::SEND)]
pub(crate) struct SendArgs {
    /// Pane: name, ID, unique ID prefix, or SESSION/PANE
    #[arg(value_name = "PANE")]
    pub(crate) id: String,

    /// Text to type; words are joined by spaces, and a single `-` reads standard input
    pub(crate) text: Vec<String>,

    /// Press a key after the text, such as esc, ctrl-c, up or f5 (can be repeated)
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Vec<Key>,

    /// Press Enter at the end
    #[arg(long)]
    pub(crate) enter: bool,

    /// Type even if the agent is asking a question, which the input would answer
    #[arg(long)]
    pub(crate) force: bool,

    /// Seconds to wait for the pane to accept the text before failing with exit code 5
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "10")]
    pub(crate) timeout: Duration,
}

/// Arguments of `read`.
#[derive(Debug, Args)]
#[command(after_help = examples::READ)]
pub(crate) struct ReadArgs {
    /// Pane: name, ID, unique ID prefix, or SESSION/PANE
    #[arg(value_name = "PANE")]
    pub(crate) id: String,

    /// Print the visible screen as text (the default)
    #[arg(long, conflicts_with = "log")]
    pub(crate) screen: bool,

    /// Print the output log with its escape sequences (on a terminal: those that are safe)
    #[arg(long)]
    pub(crate) log: bool,

    /// Print only the last N lines; without --screen or --log, including scrollback
    #[arg(long, value_name = "N", conflicts_with = "follow")]
    pub(crate) lines: Option<usize>,

    /// Start at this byte offset of the log (default: the oldest byte kept)
    #[arg(long, value_name = "OFFSET", requires = "log")]
    pub(crate) from: Option<u64>,

    /// Keep printing new output until the pane exits
    #[arg(long, requires = "log", conflicts_with = "json")]
    pub(crate) follow: bool,
}

/// Arguments of `wait`.
#[derive(Debug, Args)]
#[command(after_help = examples::WAIT)]
pub(crate) struct WaitArgs {
    /// Pane: name, ID, unique ID prefix, or SESSION/PANE
    #[arg(value_name = "PANE")]
    pub(crate) id: String,

    /// Condition to wait for: exit, or text=REGEX for an output line that matches
    #[arg(long = "for", value_name = "CONDITION", value_parser = until)]
    pub(crate) until: Until,

    /// Give up after this many seconds (exit code 5; default: never)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
}

/// Arguments of `stop`.
#[derive(Debug, Args)]
#[command(after_help = examples::STOP)]
pub(crate) struct StopArgs {
    /// Panes or sessions: name, ID, unique ID prefix, or SESSION/PANE
    #[arg(required = true, value_name = "TARGET")]
    pub(crate) ids: Vec<String>,

    /// Seconds to wait for processes to exit before killing them
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "5")]
    pub(crate) grace: Duration,
}

/// Arguments of `restore`.
#[derive(Debug, Args)]
#[command(after_help = examples::RESTORE)]
pub(crate) struct RestoreArgs {
    /// Panes, or sessions to restore all their exited panes: name, ID, unique ID prefix, or
    /// SESSION/PANE (default: all panes that were interrupted)
    #[arg(value_name = "TARGET")]
    pub(crate) ids: Vec<String>,

    /// Restore all ended panes, also those that exited or were stopped
    #[arg(long, conflicts_with = "ids")]
    pub(crate) all: bool,
}

/// Arguments of `close`.
#[derive(Debug, Args)]
#[command(after_help = examples::CLOSE)]
pub(crate) struct CloseArgs {
    /// Panes: name, ID, unique ID prefix, or SESSION/PANE
    #[arg(required_unless_present = "ended", value_name = "PANE")]
    pub(crate) ids: Vec<String>,

    /// Close all ended panes, except those with unsaved work and those that were interrupted
    #[arg(long, conflicts_with = "ids")]
    pub(crate) ended: bool,

    /// Seconds to wait for processes to exit before killing them
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "5")]
    pub(crate) grace: Duration,

    /// Discard the unsaved work identified by TOKEN, which the error about it contains (can be
    /// repeated)
    #[arg(long, value_name = "TOKEN")]
    pub(crate) discard: Vec<String>,
}

/// Arguments of `purge`.
#[derive(Debug, Args)]
#[command(after_help = examples::PURGE)]
pub(crate) struct PurgeArgs {
    /// Sessions: name, ID or unique ID prefix
    #[arg(required = true, value_name = "SESSION")]
    pub(crate) ids: Vec<String>,

    /// Seconds to wait for processes to exit before killing them
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "5")]
    pub(crate) grace: Duration,

    /// Discard the unsaved work identified by TOKEN, which the error about it contains (can be
    /// repeated)
    #[arg(long, value_name = "TOKEN")]
    pub(crate) discard: Vec<String>,

    /// Delete the data at once (default: after the retention period in the trash)
    #[arg(long)]
    pub(crate) now: bool,

    /// Do not ask for confirmation (required with --json and when there is no terminal)
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Arguments of `gc`.
#[derive(Debug, Args)]
#[command(after_help = examples::GC)]
pub(crate) struct GcArgs {
    /// Print what would be deleted or moved without doing it
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Delete everything in the trash, regardless of age
    #[arg(long)]
    pub(crate) empty_trash: bool,
}

/// Arguments of `events`.
#[derive(Debug, Args)]
#[command(after_help = examples::EVENTS)]
pub(crate) struct EventsArgs {
    /// Start after event number N (default: start at the oldest event kept)
    #[arg(long, value_name = "N")]
    pub(crate) after: Option<u64>,

    /// Keep printing new events as they happen
    #[arg(long)]
    pub(crate) follow: bool,
}

/// Arguments of `config`.
#[derive(Debug, Args)]
#[command(after_help = examples::CONFIG)]
pub(crate) struct ConfigArgs {
    /// Check the configuration file and report every error (exit code 2 if there is one)
    #[arg(long, conflicts_with = "defaults")]
    pub(crate) check: bool,

    /// Print a complete configuration file with every key explained and set to its default
    #[arg(long)]
    pub(crate) defaults: bool,
}

/// The commands of `daemon`.
#[derive(Debug, Subcommand)]
pub(crate) enum DaemonCommand {
    /// Run the daemon in the foreground
    #[command(after_help = examples::DAEMON_RUN)]
    Run(DaemonRunArgs),
    /// Start the daemon in the background if it is not running
    #[command(after_help = examples::DAEMON_START)]
    Start,
    /// Stop the daemon; panes keep running
    #[command(after_help = examples::DAEMON_STOP)]
    Stop,
    /// Show whether the daemon is running (exit code 6 if not)
    #[command(after_help = examples::DAEMON_STATUS)]
    Status,
    /// Start the daemon at login, as a systemd user service
    #[command(after_help = examples::DAEMON_INSTALL)]
    Install(DaemonInstallArgs),
    /// Remove the systemd user service; the daemon and panes keep running
    #[command(after_help = examples::DAEMON_UNINSTALL)]
    Uninstall,
}

/// Arguments of `daemon install`.
#[derive(Debug, Args)]
pub(crate) struct DaemonInstallArgs {
    /// Print the unit instead of installing it
    #[arg(long, conflicts_with = "json")]
    pub(crate) print: bool,
}

/// Arguments of `daemon run`.
#[derive(Debug, Args)]
pub(crate) struct DaemonRunArgs {
    /// Detach from the terminal and print one line on standard output when ready
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = examples::COMPLETIONS)]
pub(crate) struct CompletionsArgs {
    /// Shell to generate the script for
    pub(crate) shell: Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Output directory; created if it does not exist
    pub(crate) dir: PathBuf,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use clap::error::ErrorKind;

    use super::*;

    fn parse(words: &[&str]) -> Result<Cli, ErrorKind> {
        let line = ["ccmux"].iter().chain(words);
        Cli::try_parse_from(line).map_err(|error| error.kind())
    }

    #[test]
    fn command_definition_passes_clap_assertions() {
        Cli::command().debug_assert();
    }

    #[test]
    fn new_passes_everything_after_two_dashes_to_the_command() {
        let cli = parse(&["new", "--json", "--", "claude", "--json", "-d", "--", "x"]).unwrap();

        let Some(Command::New(new)) = cli.command else { panic!("parsed {cli:?}") };
        assert_eq!(new.command, ["claude", "--json", "-d", "--", "x"]);
        assert!(cli.json && !new.detach);
    }

    #[test]
    fn new_accepts_all_documented_options() {
        let cli = parse(&[
            "new",
            "-n",
            "dev1",
            "--session",
            "web",
            "--agent",
            "claude",
            "--isolation",
            "home",
            "--mode",
            "legacy",
            "--cwd",
            "src",
            "--env",
            "A=b=c",
            "--env",
            "TERM_X",
            "--size",
            "100x30",
            "-d",
        ])
        .unwrap();

        let Some(Command::New(new)) = cli.command else { panic!("parsed {cli:?}") };
        assert_eq!(new.name.as_ref().unwrap().as_str(), "dev1");
        assert_eq!(new.session.as_deref(), Some("web"));
        assert_eq!(new.agent.as_deref(), Some("claude"));
        assert_eq!(new.isolation, Some(Method::Home));
        assert_eq!(new.mode, Some(SessionMode::Legacy));
        assert_eq!(new.cwd, Some(PathBuf::from("src")));
        assert_eq!(new.size, Some(Size::new(100, 30).unwrap()));
        assert!(new.detach && new.command.is_empty());
        let variables: Vec<_> =
            new.env.iter().map(|v| (v.name.as_str(), v.value.as_deref())).collect();
        assert_eq!(variables, [("A", Some("b=c")), ("TERM_X", None)]);
    }

    #[test]
    fn send_accepts_options_after_the_text() {
        let cli =
            parse(&["send", "dev1", "fix", "it", "--enter", "--key", "esc", "--timeout", "0.5"])
                .unwrap();

        let Some(Command::Send(send)) = cli.command else { panic!("parsed {cli:?}") };
        assert_eq!(send.text, ["fix", "it"]);
        assert_eq!(send.key, ["esc".parse().unwrap()]);
        assert_eq!(send.timeout, Duration::from_millis(500));
        assert!(send.enter);
    }

    #[test]
    fn invalid_command_lines_are_rejected() {
        let cases: &[(&[&str], ErrorKind)] = &[
            (&["new", "--isolation", "jail"], ErrorKind::ValueValidation),
            (&["restore", "a", "--all"], ErrorKind::ArgumentConflict),
            (&["close", "a", "--ended"], ErrorKind::ArgumentConflict),
            (&["new", "--workspace", "branch"], ErrorKind::ValueValidation),
            (&["new", "--templates", "t"], ErrorKind::UnknownArgument),
            (&["new", "--size", "80"], ErrorKind::ValueValidation),
            (&["new", "--mode", "shared"], ErrorKind::ValueValidation),
            (&["new", "-n", "../x"], ErrorKind::ValueValidation),
            (&["new", "--env", "=x"], ErrorKind::ValueValidation),
            (&["show"], ErrorKind::MissingRequiredArgument),
            (&["stop"], ErrorKind::MissingRequiredArgument),
            (&["close"], ErrorKind::MissingRequiredArgument),
            (&["close", "a", "--grace", "-1"], ErrorKind::UnknownArgument),
            (&["close", "a", "--grace=-1"], ErrorKind::ValueValidation),
            (&["purge"], ErrorKind::MissingRequiredArgument),
            (&["gc", "trash"], ErrorKind::UnknownArgument),
            (&["send", "a", "--key", "hyper-x"], ErrorKind::ValueValidation),
            (&["read", "a", "--screen", "--log"], ErrorKind::ArgumentConflict),
            (&["read", "a", "--from", "7"], ErrorKind::MissingRequiredArgument),
            (&["read", "a", "--follow"], ErrorKind::MissingRequiredArgument),
            (&["read", "a", "--log", "--follow", "--lines", "3"], ErrorKind::ArgumentConflict),
            (&["read", "a", "--log", "--follow", "--json"], ErrorKind::ArgumentConflict),
            (&["wait", "a"], ErrorKind::MissingRequiredArgument),
            (&["wait", "a", "--for", "idle"], ErrorKind::ValueValidation),
            (&["wait", "a", "--for", "text="], ErrorKind::ValueValidation),
            (&["config", "--check", "--defaults"], ErrorKind::ArgumentConflict),
            (&["config", "cleanup.every"], ErrorKind::UnknownArgument),
            (&["daemon"], ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand),
            (&["nonsense"], ErrorKind::InvalidSubcommand),
        ];
        for (words, expected) in cases {
            assert_eq!(parse(words).map(|_| ()), Err(*expected), "{words:?}");
        }
    }
}
