//! The command line: what can be typed, and nothing about what happens then.

mod environment;
mod examples;
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
use model::limits::LimitWishes;
use model::{IdempotencyKey, Name, SessionMode, Size, WorkspaceKind};
use protocol::look::Until;

pub(crate) use environment::{EnvArgs, SurroundingsArgs};
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

/// What every verb takes stands apart from what is its own.
const GLOBAL: &str = "Global options";

/// Run AI coding agents side by side, each in a terminal pane that outlives everything else
///
/// Without a verb, attaches to the pane created last, or starts a shell in a new one.
#[derive(Debug, Parser)]
#[command(name = "ccmux", version, after_help = examples::TOP, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// Keep everything in this directory (default: $CCMUX_HOME, or ~/.ccmux)
    #[arg(long, global = true, value_name = "DIR", help_heading = GLOBAL)]
    pub(crate) home: Option<PathBuf>,

    /// Print JSON instead of text, errors included
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,

    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// The verbs. One variant, one file under `commands/`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a command in a new pane
    New(Box<NewArgs>),
    /// List sessions and panes
    #[command(after_help = examples::LS)]
    Ls,
    /// Show everything about a pane or a session
    Show(ShowArgs),
    /// Attach this terminal to a pane
    Attach(AttachArgs),
    /// Give a pane or a session another name
    Rename(RenameArgs),
    /// Type text and keys into a pane
    Send(SendArgs),
    /// Say something to panes when they can take it, and see what became of it
    Message(MessageArgs),
    /// Print what a pane shows or has written
    Read(ReadArgs),
    /// Show or change what a pane may take
    Limit(LimitArgs),
    /// Let the processes of frozen panes go on
    Thaw(ThawArgs),
    /// Wait until something is true of a pane
    Wait(WaitArgs),
    /// End the processes of panes or sessions and keep their directories
    Stop(StopArgs),
    /// Start panes again that have ended, each going on with its own conversation
    Restore(RestoreArgs),
    /// End panes and retire their directories
    Close(CloseArgs),
    /// End every pane of sessions and delete everything of them
    Purge(PurgeArgs),
    /// Bring a team of panes to what its file says
    Up(UpArgs),
    /// End every process of a team and keep its directories
    Down(DownArgs),
    /// Delete what has been in the trash for long enough, and retire what belongs to no pane
    Gc(GcArgs),
    /// Show the environment of a pane, and who set what of it
    Env(EnvArgs),
    /// Let the commands of a project be run in new workspaces
    Trust(TrustArgs),
    /// Give all panes files to read
    Share(ShareArgs),
    /// Show, add and remove what sessions can begin with
    #[command(subcommand, after_help = template::TEMPLATE, disable_help_subcommand = true)]
    Template(TemplateCommand),
    /// Give a legacy session directories of its own
    Migrate(MigrateArgs),
    /// Print what has happened
    Events(EventsArgs),
    /// Check that everything is as it should be, and say what to do where it is not
    #[command(after_help = examples::DOCTOR)]
    Doctor,
    /// Show the configuration in force, and where each value comes from
    Config(ConfigArgs),
    /// Answer the hook of an agent
    Hook(HookArgs),
    /// Claim files so that nobody else changes them
    #[command(subcommand, after_help = lock::LOCK, disable_help_subcommand = true)]
    Lock(LockCommand),
    /// Serve the HTTP API
    Serve(ServeArgs),
    /// Print or replace a token of the HTTP API
    Token(TokenArgs),
    /// Control the daemon
    #[command(subcommand, after_help = examples::DAEMON, disable_help_subcommand = true)]
    Daemon(DaemonCommand),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Write the manual pages into a directory
    #[command(hide = true)]
    Man(ManArgs),
}

/// Arguments of `new`.
#[derive(Debug, Default, Args)]
#[command(after_help = examples::NEW)]
pub(crate) struct NewArgs {
    /// Call the pane this; its program's name otherwise
    #[arg(short, long)]
    pub(crate) name: Option<Name>,

    /// Join this session, by name or id; a new name makes a new session
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,

    /// Run this agent: claude, codex, gemini, opencode, shell, or one of your own in ccmux.toml;
    /// told by the program otherwise
    #[arg(long)]
    pub(crate) agent: Option<String>,

    /// Keep the agent apart by config_dir, home or none; a new session's panes then follow suit
    #[arg(long, value_name = "METHOD")]
    pub(crate) isolation: Option<Method>,

    /// Whose directories a new session works in: isolated or legacy; as $CCMUX_SESSION_MODE says,
    /// or isolated, otherwise
    #[arg(long)]
    pub(crate) mode: Option<SessionMode>,

    /// Let a new session begin with copies of what is in this template
    #[arg(long, value_name = "TEMPLATE")]
    pub(crate) template: Option<String>,

    /// Work in a tree of this kind: auto, worktree, clone, copy, shared or empty
    #[arg(long, value_name = "KIND")]
    pub(crate) workspace: Option<WorkspaceKind>,

    /// Start in this directory; the current one otherwise
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// Set a variable, or hand one down from this environment (can be repeated)
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<Variable>,

    #[command(flatten)]
    pub(crate) surroundings: SurroundingsArgs,

    /// Size of the screen until a terminal attaches; this terminal's, or 80x24, otherwise
    #[arg(long, value_name = "COLSxROWS")]
    pub(crate) size: Option<Size>,

    /// Let the pane take at most this, such as disk=1G,memory=4G,processes=500,cpu=50,files=4096;
    /// policy=freeze|stop|warn says what happens otherwise (can be repeated)
    #[arg(long, value_name = "NAME=VALUE,…")]
    pub(crate) limit: Vec<LimitWishes>,

    /// Say which unit of its session the pane belongs to
    #[arg(long)]
    pub(crate) unit: Option<Name>,

    /// Tell its agent this first, as soon as it listens
    #[arg(long, value_name = "TEXT")]
    pub(crate) prompt: Option<String>,

    /// Start nothing if the same command with the same key has started a pane before: answer with
    /// that one
    #[arg(long)]
    pub(crate) key: Option<IdempotencyKey>,

    /// Do not attach (implied without a terminal, and by --json)
    #[arg(short, long)]
    pub(crate) detach: bool,

    /// Program and arguments, or arguments of the named agent, after `--`; your shell otherwise
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Arguments of `show`.
#[derive(Debug, Args)]
#[command(after_help = examples::SHOW)]
pub(crate) struct ShowArgs {
    /// Pane or session: name, id, unique beginning of an id, or SESSION/PANE
    pub(crate) id: String,
}

/// Arguments of `attach`.
#[derive(Debug, Args)]
#[command(after_help = examples::ATTACH)]
pub(crate) struct AttachArgs {
    /// Pane: name, id, unique beginning of an id, or SESSION/PANE; the one created last otherwise
    pub(crate) id: Option<String>,

    /// Watch without typing
    #[arg(long)]
    pub(crate) read_only: bool,
}

/// Arguments of `rename`.
#[derive(Debug, Args)]
#[command(after_help = examples::RENAME)]
pub(crate) struct RenameArgs {
    /// Pane or session: name, id, unique beginning of an id, or SESSION/PANE
    pub(crate) id: String,

    /// The new name
    pub(crate) name: Name,
}

/// Arguments of `send`.
#[derive(Debug, Args)]
#[command(after_help = examples::SEND)]
pub(crate) struct SendArgs {
    /// Pane: name, id, unique beginning of an id, or SESSION/PANE
    pub(crate) id: String,

    /// Text to type, joined by spaces; a single `-` reads it from standard input
    pub(crate) text: Vec<String>,

    /// Press a key after the text, such as esc, ctrl-c, up or f5 (can be repeated)
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Vec<Key>,

    /// Press Enter at the end
    #[arg(long)]
    pub(crate) enter: bool,

    /// Give up when the pane has not taken the text after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "10")]
    pub(crate) timeout: Duration,
}

/// Arguments of `read`.
#[derive(Debug, Args)]
#[command(after_help = examples::READ)]
pub(crate) struct ReadArgs {
    /// Pane: name, id, unique beginning of an id, or SESSION/PANE
    pub(crate) id: String,

    /// Print the visible screen as text (this is the default)
    #[arg(long, conflicts_with = "log")]
    pub(crate) screen: bool,

    /// Print the raw output that is kept, escape sequences included
    #[arg(long)]
    pub(crate) log: bool,

    /// Print only the last lines; without --screen and --log, of screen and history
    #[arg(long, value_name = "N", conflicts_with = "follow")]
    pub(crate) lines: Option<usize>,

    /// Begin at this byte of the output
    #[arg(long, value_name = "OFFSET", requires = "log")]
    pub(crate) from: Option<u64>,

    /// Go on with what the pane writes, until it ends
    #[arg(long, requires = "log", conflicts_with = "json")]
    pub(crate) follow: bool,
}

/// Arguments of `wait`.
#[derive(Debug, Args)]
#[command(after_help = examples::WAIT)]
pub(crate) struct WaitArgs {
    /// Pane: name, id, unique beginning of an id, or SESSION/PANE
    pub(crate) id: String,

    /// What to wait for: exit, or text=RE for a line that matches a regular expression
    #[arg(long = "for", value_name = "WHAT", value_parser = until)]
    pub(crate) until: Until,

    /// Give up after this many seconds (exit code 5); never otherwise
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
}

/// Arguments of `stop`.
#[derive(Debug, Args)]
#[command(after_help = examples::STOP)]
pub(crate) struct StopArgs {
    /// Panes or sessions: name, id, unique beginning of an id, or SESSION/PANE
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,

    /// Kill what has not left by itself after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "5")]
    pub(crate) grace: Duration,
}

/// Arguments of `restore`.
#[derive(Debug, Args)]
#[command(after_help = examples::RESTORE)]
pub(crate) struct RestoreArgs {
    /// Panes, or sessions for all of their panes that have ended: name, id, unique beginning of an
    /// id, or SESSION/PANE
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
}

/// Arguments of `close`.
#[derive(Debug, Args)]
#[command(after_help = examples::CLOSE)]
pub(crate) struct CloseArgs {
    /// Panes: name, id, unique beginning of an id, or SESSION/PANE
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,

    /// Kill what has not left by itself after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "5")]
    pub(crate) grace: Duration,

    /// Lose the work that this word stands for; an error that names work gives it (can be repeated)
    #[arg(long, value_name = "TOKEN")]
    pub(crate) discard: Vec<String>,
}

/// Arguments of `purge`.
#[derive(Debug, Args)]
#[command(after_help = examples::PURGE)]
pub(crate) struct PurgeArgs {
    /// Sessions: name, id or unique beginning of an id
    #[arg(required = true, value_name = "SESSION")]
    pub(crate) ids: Vec<String>,

    /// Kill what has not left by itself after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "5")]
    pub(crate) grace: Duration,

    /// Lose the work that this word stands for; an error that names work gives it (can be repeated)
    #[arg(long, value_name = "TOKEN")]
    pub(crate) discard: Vec<String>,

    /// Do not ask; without a terminal, and with --json, nobody can be asked
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Arguments of `gc`.
#[derive(Debug, Args)]
#[command(after_help = examples::GC)]
pub(crate) struct GcArgs {
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Delete everything that is in the trash, however long it has been there
    #[arg(long)]
    pub(crate) empty_trash: bool,
}

/// Arguments of `events`.
#[derive(Debug, Args)]
#[command(after_help = examples::EVENTS)]
pub(crate) struct EventsArgs {
    /// Begin after the event of this number; with the oldest that is kept otherwise
    #[arg(long, value_name = "N")]
    pub(crate) after: Option<u64>,

    /// Go on with what happens from now on
    #[arg(long)]
    pub(crate) follow: bool,
}

/// Arguments of `config`.
#[derive(Debug, Args)]
#[command(after_help = examples::CONFIG)]
pub(crate) struct ConfigArgs {
    /// Only look whether the file is right; if not, name everything that is wrong (exit code 2)
    #[arg(long, conflicts_with = "defaults")]
    pub(crate) check: bool,

    /// Print a complete file, in which every key is explained and has its default
    #[arg(long)]
    pub(crate) defaults: bool,
}

/// The verbs of `daemon`.
#[derive(Debug, Subcommand)]
pub(crate) enum DaemonCommand {
    /// Run the daemon in the foreground
    Run(DaemonRunArgs),
    /// Start the daemon in the background, unless it runs already
    Start,
    /// Stop the daemon and leave every pane running
    Stop,
    /// Report whether the daemon runs (exit code 6 if not)
    Status,
}

/// Arguments of `daemon run`.
#[derive(Debug, Args)]
pub(crate) struct DaemonRunArgs {
    /// Leave the terminal and say on standard output, in one line, when we are ready
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = examples::COMPLETIONS)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Where to write them; made if missing
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
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn everything_after_two_dashes_belongs_to_the_command() {
        let cli = parse(&["new", "--json", "--", "claude", "--json", "-d", "--", "x"]).unwrap();

        let Some(Command::New(new)) = cli.command else { panic!("parsed {cli:?}") };
        assert_eq!(new.command, ["claude", "--json", "-d", "--", "x"]);
        assert!(cli.json && !new.detach);
    }

    #[test]
    fn the_options_of_new_are_those_of_the_contract() {
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
        assert_eq!(new.name.unwrap().as_str(), "dev1");
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
    fn options_may_follow_the_text_to_send() {
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
    fn lines_that_make_no_sense_are_refused() {
        let cases: &[(&[&str], ErrorKind)] = &[
            (&["new", "--isolation", "jail"], ErrorKind::ValueValidation),
            (&["restore"], ErrorKind::MissingRequiredArgument),
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
