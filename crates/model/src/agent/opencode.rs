//! opencode.
//!
//! It only uses the XDG directories, so its panes have their own. Other panes do not, because other
//! programs use these directories too; the parts of the configuration that those need are linked.

use super::arguments::Grammar;
use super::prompting::{Dialogs, Prompting};
use super::traces::{Outside, Traces};
use super::{Agent, Conversations, Copied, Database, Link, Logins, Origin, UserDir, words};
use crate::config::Share;

pub(super) const NAME: &str = "opencode";

/// The inherited variables.
pub(super) const INHERITS: &[&str] =
    &["OPENCODE_API_KEY", "OPENCODE_DISABLE_*", "OPENCODE_MODEL*", "OPENROUTER_API_KEY"];

const GRAMMAR: Grammar = Grammar {
    subcommands: &[
        "acp",
        "agent",
        "attach",
        "auth",
        "completion",
        "db",
        "debug",
        "export",
        "github",
        "import",
        "mcp",
        "models",
        "plug",
        "plugin",
        "pr",
        "providers",
        "run",
        "serve",
        "session",
        "stats",
        "uninstall",
        "upgrade",
        "web",
    ],
    switches: &[
        "--auto",
        "--continue",
        "--fork",
        "--help",
        "--mdns",
        "--mini",
        "--no-replay",
        "--print-logs",
        "--pure",
        "--version",
        "-c",
        "-h",
        "-v",
    ],
    variadic: &[],
    begins: &[],
    resumes: &["--session", "-s"],
    resume_subcommand: None,
    agent_chooses: &["--continue", "-c", "--fork"],
    ends: &["--help", "-h", "--version", "-v"],
    // A positional argument is the project to work in.
    takes_prompt: false,
    one_shot: &[],
};

/// Returns the text in the input box: a block with a bar at its side, whose last line names the
/// model.
const PROMPTING: Prompting = Prompting {
    composed: |lines| {
        let bottom = lines.iter().rposition(|line| line.trim().starts_with("╹▀▀"))?;
        let above = lines[..bottom].iter().rev();
        let mut inside: Vec<&str> =
            above.map_while(|line| line.trim().strip_prefix('┃')).skip(1).map(str::trim).collect();
        inside.reverse();
        Some(inside.join("\n"))
    },
    hints: &["Ask anything"],
    busy: "esc interrupt",
    dialogs: Dialogs { mark: '△', texts: &["Permission required"], looks_like_box: false },
};

pub(super) fn agent() -> Agent {
    let variable = |name: &str, path: &str| (name.to_owned(), path.to_owned());
    let own = |name: &str, share| Link {
        at: format!("config/opencode/{name}"),
        to: Origin::Dir(name.to_owned()),
        share: Some(share),
    };
    let others = |name: &str| Link {
        at: format!("config/{name}"),
        to: Origin::Home(format!(".config/{name}")),
        share: None,
    };
    let config = |name: &str| Copied {
        at: format!("config/opencode/{name}"),
        from: Origin::Dir(name.to_owned()),
        share: Some(Share::Settings),
    };
    Agent {
        name: NAME.to_owned(),
        command: words(["opencode"]),
        variables: vec![
            variable("XDG_CONFIG_HOME", "config"),
            variable("XDG_DATA_HOME", "data"),
            variable("XDG_STATE_HOME", "state"),
            variable("XDG_CACHE_HOME", "cache"),
        ],
        in_every_pane: false,
        temp_variable: None,
        inherits: INHERITS,
        scrubs: words(["OPENCODE", "OPENCODE_CONFIG_DIR", "OPENCODE_SERVER"]),
        directories: &["config", "config/opencode", "data", "state", "cache"],
        user_dir: UserDir {
            variable: Some("XDG_CONFIG_HOME"),
            under_variable: "opencode",
            under_home: ".config/opencode",
        },
        links: vec![
            own("AGENTS.md", Share::ClaudeMd),
            own("command", Share::Commands),
            own("commands", Share::Commands),
            own("agent", Share::Agents),
            own("agents", Share::Agents),
            own("skills", Share::Skills),
            own("plugin", Share::Plugins),
            own("plugins", Share::Plugins),
            others("git"),
            others("gh"),
        ],
        settings: None,
        copies: vec![config("opencode.json"), config("opencode.jsonc"), config("config.json")],
        consults: Vec::new(),
        made: None,
        logins: Logins {
            variables: &[
                "OPENCODE_API_KEY",
                "ANTHROPIC_API_KEY",
                "OPENAI_API_KEY",
                "GEMINI_API_KEY",
            ],
            store: None,
        },
        conversations: Conversations {
            grammar: GRAMMAR,
            new: Vec::new(),
            resume: words(["--session", "{id}"]),
            transcript: None,
            database: Some(Database {
                path: "data/opencode/opencode.db",
                // Conversations with a parent belong to sub-agents.
                latest: "SELECT id FROM session WHERE parent_id IS NULL \
                         ORDER BY time_updated DESC LIMIT 1",
                count: "SELECT count(*) FROM session WHERE id = ?1",
            }),
            live: None,
            filed: None,
            identify: None,
        },
        traces: traces(),
        hooks: None,
        prompting: Some(PROMPTING),
    }
}

/// Returns the traces: conversations are with the data, not with the configuration.
fn traces() -> Traces {
    let dir = UserDir { variable: None, under_variable: "", under_home: ".local/share/opencode" };
    Traces {
        outside: Some(Outside { dir, stands_for: "data/opencode" }),
        own_login: Some("data/opencode/auth.json"),
        ..Traces::default()
    }
}
