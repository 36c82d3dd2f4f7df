//! Codex.
//!
//! All its files are in `CODEX_HOME`, which must exist. It chooses the ids of its conversations
//! itself; `resume` is a subcommand and precedes all other arguments.

use serde_json::Value;

use super::arguments::Grammar;
use super::prompting::{self, Dialogs, Prompting};
use super::traces::Traces;
use super::{Agent, Consulted, Conversations, Link, Logins, Origin, Seed, Seeding, UserDir, words};
use crate::config::Share;

pub(super) const NAME: &str = "codex";

/// The inherited variables.
pub(super) const INHERITS: &[&str] = &["OPENAI_*", "CODEX_API_KEY"];

const CONFIG: &str = "config.toml";

const GRAMMAR: Grammar = Grammar {
    subcommands: &[
        "a",
        "agents",
        "app-server",
        "apply",
        "archive",
        "cloud",
        "completion",
        "debug",
        "delete",
        "doctor",
        "e",
        "exec",
        "exec-server",
        "features",
        "fork",
        "help",
        "login",
        "logout",
        "mcp",
        "mcp-server",
        "migrate-nfs-db",
        "migrate-rollouts",
        "plugin",
        "queue",
        "remote-control",
        "review",
        "sandbox",
        "unarchive",
        "update",
    ],
    switches: &[
        "--dangerously-bypass-approvals-and-sandbox",
        "--full-auto",
        "--help",
        "--json",
        "--last",
        "--no-alt-screen",
        "--oss",
        "--search",
        "--skip-git-repo-check",
        "--strict-config",
        "--version",
        "-V",
        "-h",
    ],
    variadic: &["--image", "-i"],
    begins: &[],
    resumes: &[],
    resume_subcommand: Some("resume"),
    agent_chooses: &["--last"],
    ends: &["--help", "-h", "--version", "-V"],
    takes_prompt: true,
    one_shot: &[],
};

/// Returns the text in the input box: the last line that starts with its mark. In dialogs that is
/// the selected choice.
const PROMPTING: Prompting = Prompting {
    composed: |lines| {
        let begins = |_, line: &str| line.strip_prefix('›').map(str::to_owned);
        prompting::from_last(lines, begins, str::is_empty)
    },
    hints: &["Ask Codex to do anything"],
    busy: "esc to interrupt",
    dialogs: Dialogs { mark: '›', texts: &[], looks_like_box: true },
};

pub(super) fn agent() -> Agent {
    let link = |name: &str, share| Link {
        at: name.to_owned(),
        to: Origin::Dir(name.to_owned()),
        share: Some(share),
    };
    Agent {
        name: NAME.to_owned(),
        command: words(["codex"]),
        variables: vec![("CODEX_HOME".to_owned(), String::new())],
        in_every_pane: true,
        temp_variable: None,
        inherits: INHERITS,
        scrubs: words(["CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED"]),
        directories: &[],
        user_dir: UserDir {
            variable: Some("CODEX_HOME"),
            under_variable: "",
            under_home: ".codex",
        },
        links: vec![
            link("AGENTS.md", Share::ClaudeMd),
            link("prompts", Share::Commands),
            link("rules", Share::Settings),
            link("skills", Share::Skills),
        ],
        settings: None,
        copies: Vec::new(),
        consults: vec![Consulted {
            name: CONFIG,
            origin: Origin::Dir(CONFIG.to_owned()),
            digest: |bytes| Some(Value::String(std::str::from_utf8(bytes).ok()?.to_owned())),
        }],
        made: Some(made),
        logins: Logins { variables: &["CODEX_API_KEY"], store: None },
        conversations: Conversations {
            grammar: GRAMMAR,
            new: Vec::new(),
            resume: words(["resume", "{id}"]),
            transcript: Some("sessions/*/*/*/rollout-*-{id}.jsonl".to_owned()),
            database: None,
            live: None,
            filed: None,
            identify: Some(|name, _| {
                let stem = name.strip_suffix(".jsonl")?;
                stem.get(stem.len().checked_sub(36)?..)?.parse().ok()
            }),
        },
        traces: Traces { own_login: Some("auth.json"), ..Traces::default() },
        hooks: None,
        prompting: Some(PROMPTING),
    }
}

/// Generates the user's configuration, extended by trust in the working directory and without the
/// daemon of codex, which would copy hundreds of megabytes into every pane's directory. A copy,
/// because codex writes to it.
fn made(seeding: &Seeding<'_>) -> Vec<Seed> {
    let shared = seeding.share.contains(&Share::Settings);
    let user = seeding.digests.get(CONFIG).filter(|_| shared).and_then(Value::as_str);
    let mut text = without_daemon(user.unwrap_or_default());
    for path in seeding.trusted {
        // For paths, JSON string syntax is valid TOML.
        let header = format!("[projects.{}]", Value::String(path.clone()));
        if !text.contains(&header) {
            text.push_str(&["\n", &header, "\ntrust_level = \"trusted\"\n"].concat());
        }
    }
    vec![Seed { at: CONFIG.to_owned(), bytes: text.into_bytes() }]
}

/// Returns `text` with the feature turned off, unless it already contains a setting for it.
fn without_daemon(text: &str) -> String {
    const FEATURE: &str = "daemon_auto_start";
    let mut text = text.trim_end().to_owned();
    if !text.is_empty() {
        text.push('\n');
    }
    let is_inline = |line: &str| {
        line.trim().strip_prefix("features").is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    if text.contains(FEATURE) || text.lines().any(is_inline) {
        return text;
    }
    let line = format!("{FEATURE} = false\n");
    let header = |line: &str| line.trim() == "[features]";
    if !text.lines().any(header) {
        // Dotted keys of a table without a header must precede all headers.
        return format!("features.{line}{text}");
    }
    let lines = text
        .lines()
        .map(|each| if header(each) { format!("{each}\n{line}") } else { format!("{each}\n") });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::conversation::{ConversationId, ConversationStart};
    use crate::environment::Environment;

    const ID: &str = "550e8400-e29b-41d4-a716-446655440000";

    #[test]
    fn trust_is_added_to_a_copy_of_the_users_configuration() {
        let user = "model = \"o3\"\n\n[projects.\"/known\"]\ntrust_level = \"untrusted\"\n";
        let environment = Environment::default();
        let seeding = Seeding {
            digests: BTreeMap::from([(CONFIG, Value::String(user.to_owned()))]),
            trusted: &["/known".to_owned(), "/a \"b\"".to_owned()],
            share: &Share::ALL,
            environment: &environment,
        };

        let seed = made(&seeding).remove(0);

        let text = String::from_utf8(seed.bytes).unwrap();
        let added = "\n[projects.\"/a \\\"b\\\"\"]\ntrust_level = \"trusted\"\n";
        assert_eq!(text, format!("features.daemon_auto_start = false\n{user}{added}"));
        let with_table = "model = \"o3\"\n[features]\napps = true\n";
        let quiet = "model = \"o3\"\n[features]\ndaemon_auto_start = false\napps = true\n";
        assert_eq!(without_daemon(with_table), quiet);
        let decided = "features.daemon_auto_start = true\n";
        assert_eq!(without_daemon(decided), decided);
    }

    #[test]
    fn resume_subcommand_precedes_all_arguments() {
        let base = ["codex", "--model", "o3", "fix it"].map(str::to_owned);
        let id: ConversationId = ID.parse().unwrap();

        let argv = agent().argv(&base, &ConversationStart::Resume(id.clone()));

        assert_eq!(argv, ["codex", "resume", ID, "--model", "o3"]);
        let identify = agent().conversations.identify.unwrap();
        assert_eq!(identify(&format!("rollout-2026-01-01T00-00-00-{ID}.jsonl"), b""), Some(id));
        assert_eq!(identify("x.jsonl", b""), None);
    }
}
