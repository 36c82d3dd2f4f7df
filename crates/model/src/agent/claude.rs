//! Claude Code.
//!
//! All its files are in `CLAUDE_CONFIG_DIR`, including `.claude.json`. With an empty directory it
//! asks about theme, API key and trust, so [`made`] generates a state that answers these questions.
//! The login stays in the user's store, which a separate variable points to: its file is replaced by
//! renaming, which breaks links, and its tokens can be used only once, so copies would log out all
//! others.
//!
//! A running process maintains the undocumented file `sessions/<pid>.json`, which is not updated
//! atomically; it is trusted only as far as it can be verified.

mod answers;
pub(super) mod hooks;

use serde_json::{Map, Value, json};

use super::arguments::Grammar;
use super::probe::{Probe, Verdict};
use super::prompting::{self, Dialogs, Prompting};
use super::traces::{StateFile, Traces, WriteTracker};
use super::{
    Agent, Consulted, Conversations, Link, Live, Liveness, Logins, Origin, Seed, Seeding, Settings,
    Store, UserDir, words,
};
use crate::config::Share;
use crate::conversation::ConversationId;
use crate::time::Timestamp;

pub(super) const NAME: &str = "claude";

/// The inherited variables.
pub(super) const INHERITS: &[&str] = &[
    "ANTHROPIC_*",
    "CLAUDE_CODE_DISABLE_*",
    "CLAUDE_CODE_ENABLE_*",
    "CLAUDE_CODE_MAX_*",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_SKIP_*",
    "CLAUDE_CODE_USE_*",
    "DISABLE_AUTOUPDATER",
    "DISABLE_COST_WARNINGS",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_TELEMETRY",
    "MAX_THINKING_TOKENS",
];

/// The number of trailing characters by which a key is recognised.
const KEY_SUFFIX: usize = 20;

/// The state file, with everything but the settings.
const STATE: &str = ".claude.json";

/// The settings of the user.
const SETTINGS: &str = "settings.json";

/// Settings of a pane. Without the first one, claude registers itself with the desktop in the user's
/// home directory.
const DEFAULTS: &[(&str, &str)] = &[("disableDeepLinkRegistration", "disable")];

const KEY: &str = "ANTHROPIC_API_KEY";

/// The file with the login.
const CREDENTIALS: &str = ".credentials.json";

/// The key of the state with the pane it was created for. The agent preserves unknown keys.
const PANE: &str = "ccmuxPane";

/// `auth status` does not use the network and does not change the login.
const PROBE: Probe = Probe {
    arguments: &["auth", "status"],
    credentials: r#"{"claudeAiOauth":{"accessToken":"sk-ant-oat01-probe","refreshToken":"sk-ant-ort01-probe","expiresAt":4102444800000,"scopes":["user:inference","user:profile"],"subscriptionType":"max"}}"#,
    environment: &[
        ("ANTHROPIC_BASE_URL", "http://127.0.0.1:9"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("DISABLE_TELEMETRY", "1"),
    ],
    verdict,
    otherwise: "set CLAUDE_CODE_OAUTH_TOKEN to the output of `claude setup-token` and restart the \
                pane, or log in inside the pane",
};

/// The keys of a project in the user's state that a pane starts with: its servers and approvals.
const PROJECT_SERVERS: [&str; 4] =
    ["mcpServers", "mcpContextUris", "enabledMcpjsonServers", "disabledMcpjsonServers"];

const GRAMMAR: Grammar = Grammar {
    subcommands: &[
        "agents",
        "attach",
        "auth",
        "auto-mode",
        "config",
        "doctor",
        "gateway",
        "help",
        "import",
        "install",
        "kill",
        "logs",
        "mcp",
        "migrate-installer",
        "plugin",
        "plugins",
        "purge",
        "respawn",
        "rm",
        "setup-token",
        "stop",
        "ultrareview",
        "update",
        "upgrade",
    ],
    switches: &[
        "--allow-dangerously-skip-permissions",
        "--ax-screen-reader",
        "--background",
        "--bare",
        "--bg",
        "--brief",
        "--chrome",
        "--continue",
        "--dangerously-skip-permissions",
        "--desktop",
        "--disable-slash-commands",
        "--exclude-dynamic-system-prompt-sections",
        "--fork-session",
        "--forward-subagent-text",
        "--help",
        "--ide",
        "--include-hook-events",
        "--include-partial-messages",
        "--mcp-debug",
        "--no-chrome",
        "--no-session-persistence",
        "--print",
        "--replay-user-messages",
        "--restricted",
        "--safe-mode",
        "--strict-mcp-config",
        "--tmux",
        "--verbose",
        "--version",
        "-c",
        "-h",
        "-p",
        "-v",
    ],
    variadic: &[
        "--add-dir",
        "--allowed-tools",
        "--allowedTools",
        "--betas",
        "--disallowed-tools",
        "--disallowedTools",
        "--file",
        "--mcp-config",
        "--tools",
    ],
    begins: &["--session-id"],
    resumes: &["--resume", "-r"],
    resume_subcommand: None,
    agent_chooses: &["--continue", "-c", "--fork-session", "--from-pr", "--teleport", "--cloud"],
    ends: &["--help", "-h", "--version", "-v", "--no-session-persistence"],
    takes_prompt: true,
    one_shot: &["--print", "-p"],
};

/// Returns the text in the input box, which is between two horizontal lines. Dialogs mark the
/// selected choice with the same character.
const PROMPTING: Prompting = Prompting {
    composed: |lines| {
        let is_line = |line: &str| prompting::is_drawn(line, '─');
        let begins = |at: usize, line: &str| {
            let words = line.strip_prefix('❯')?;
            (at > 0 && is_line(lines[at - 1])).then(|| words.to_owned())
        };
        prompting::from_last(lines, begins, is_line)
    },
    hints: &["Try \""],
    busy: "esc to interrupt",
    dialogs: Dialogs {
        mark: '❯',
        texts: &["Enter to confirm", "Esc to cancel"],
        looks_like_box: false,
    },
};

pub(super) fn agent() -> Agent {
    let shared = [
        Share::Settings,
        Share::ClaudeMd,
        Share::Commands,
        Share::Agents,
        Share::Skills,
        Share::Plugins,
    ];
    Agent {
        name: NAME.to_owned(),
        command: words(["claude"]),
        variables: vec![("CLAUDE_CONFIG_DIR".to_owned(), String::new())],
        in_every_pane: true,
        temp_variable: Some("CLAUDE_CODE_TMPDIR".to_owned()),
        inherits: INHERITS,
        // With these, inherited from another claude, it acts as a part of that one.
        scrubs: words([
            "CLAUDECODE",
            "CLAUDE_CODE_CHILD_SESSION",
            "CLAUDE_CODE_ENTRYPOINT",
            "CLAUDE_CODE_SESSION_ID",
            "CLAUDE_CODE_SSE_PORT",
        ]),
        directories: &["sessions"],
        user_dir: UserDir {
            variable: Some("CLAUDE_CONFIG_DIR"),
            under_variable: "",
            under_home: ".claude",
        },
        links: shared
            .map(|share| Link {
                at: share.as_str().to_owned(),
                to: Origin::Dir(share.as_str().to_owned()),
                share: Some(share),
            })
            .into(),
        settings: Some(Settings { at: SETTINGS, defaults: DEFAULTS }),
        copies: Vec::new(),
        consults: vec![Consulted { name: STATE, origin: Origin::Top(STATE.to_owned()), digest }],
        made: Some(made),
        logins: Logins {
            variables: &[
                "CLAUDE_CODE_USE_BEDROCK",
                "CLAUDE_CODE_USE_VERTEX",
                "CLAUDE_CODE_USE_FOUNDRY",
                "ANTHROPIC_AUTH_TOKEN",
                KEY,
                "CLAUDE_CODE_OAUTH_TOKEN",
            ],
            store: Some(Store {
                variable: "CLAUDE_SECURESTORAGE_CONFIG_DIR",
                file: CREDENTIALS,
                probe: PROBE,
            }),
        },
        conversations: Conversations {
            grammar: GRAMMAR,
            new: words(["--session-id", "{id}"]),
            resume: words(["--resume", "{id}"]),
            transcript: Some("projects/*/{id}.jsonl".to_owned()),
            database: None,
            live: Some(Live { dir: "sessions", read: liveness }),
            filed: Some(filed),
            identify: Some(|name, _| name.strip_suffix(".jsonl")?.parse().ok()),
        },
        traces: Traces {
            state: Some(StateFile { at: STATE, read: witness }),
            outside: None,
            own_login: Some(CREDENTIALS),
        },
        hooks: Some(hooks::HOOKS),
        prompting: Some(PROMPTING),
    }
}

/// Extracts the relevant part of the user's state.
fn digest(bytes: &[u8]) -> Option<Value> {
    let Value::Object(state) = serde_json::from_slice(bytes).ok()? else { return None };
    let is_kept = |key: &str| {
        answers::is_carried(key) || ["mcpServers", "customApiKeyResponses"].contains(&key)
    };
    let mut kept: Map<String, Value> = state
        .iter()
        .filter(|(key, _)| is_kept(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let projects = state.get("projects").and_then(Value::as_object).into_iter().flatten();
    let projects: Map<String, Value> =
        projects.filter_map(|(path, project)| Some((path.clone(), digest_of(project)?))).collect();
    kept.insert("projects".to_owned(), projects.into());
    Some(kept.into())
}

/// Returns the servers of a project and the answers given in it, if it has any.
fn digest_of(project: &Value) -> Option<Value> {
    let is_empty = |value: &Value| match value {
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    };
    let is_kept = |key: &str, value: &Value| {
        let is_answer = answers::is_carried_in_project(key) && value.as_bool() == Some(true);
        is_answer || PROJECT_SERVERS.contains(&key) && !is_empty(value)
    };
    let kept: Map<String, Value> = project
        .as_object()?
        .iter()
        .filter(|(key, value)| is_kept(key, value))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    (!kept.is_empty()).then(|| kept.into())
}

/// Generates a state with which the first start shows the prompt immediately.
fn made(seeding: &Seeding<'_>) -> Vec<Seed> {
    let nothing = Value::Null;
    let user = seeding.digests.get(STATE).unwrap_or(&nothing);
    let shares_servers = seeding.share.contains(&Share::McpServers);
    let mut state = Map::new();
    let carried = user.as_object().into_iter().flatten();
    let carried = carried.filter(|(key, _)| answers::is_carried(key));
    state.extend(carried.map(|(key, value)| (key.clone(), value.clone())));
    answers::mark_seen(&mut state);
    if let Some(servers) = user.get("mcpServers").filter(|_| shares_servers) {
        state.insert("mcpServers".to_owned(), servers.clone());
    }
    if let Some(key) = seeding.environment.get(KEY) {
        state.insert("customApiKeyResponses".to_owned(), key_responses(key, user));
    }
    let project = |path: &String| {
        let known = user.get("projects").and_then(|projects| projects.get(path)?.as_object());
        let is_kept = |key: &str| shares_servers || answers::is_carried_in_project(key);
        let mut project: Map<String, Value> = known
            .into_iter()
            .flatten()
            .filter(|(key, _)| is_kept(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        answers::mark_seen_in_project(&mut project);
        project.insert("hasTrustDialogAccepted".to_owned(), true.into());
        (path.clone(), Value::Object(project))
    };
    let projects: Map<String, Value> = seeding.trusted.iter().map(project).collect();
    state.insert("projects".to_owned(), projects.into());
    if let Some(pane) = seeding.environment.get(crate::environment::variables::PANE_ID) {
        state.insert(PANE.to_owned(), pane.into());
    }
    let bytes = serde_json::to_vec_pretty(&state).expect("the keys are strings");
    vec![Seed { at: STATE.to_owned(), bytes }]
}

/// Returns the answer that approves the key, unless the user has rejected it.
fn key_responses(key: &str, user: &Value) -> Value {
    let start = key.char_indices().rev().nth(KEY_SUFFIX - 1).map_or(0, |(at, _)| at);
    let suffix = &key[start..];
    let rejected = user
        .pointer("/customApiKeyResponses/rejected")
        .and_then(Value::as_array)
        .is_some_and(|rejected| rejected.iter().any(|known| known == suffix));
    if rejected {
        json!({ "approved": [], "rejected": [suffix] })
    } else {
        json!({ "approved": [suffix], "rejected": [] })
    }
}

/// Reads the owner from a state: the pane that ccmux recorded, and the data that the agent adds on
/// exit.
fn witness(bytes: &[u8]) -> Result<WriteTracker, String> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let Value::Object(state) = value else { return Err("it is not a JSON object".to_owned()) };
    let projects = state.get("projects").and_then(Value::as_object).into_iter().flatten();
    let mut witness = WriteTracker {
        pane: state.get(PANE).and_then(Value::as_str).map(str::to_owned),
        ..WriteTracker::default()
    };
    for (path, project) in projects {
        let last = project.get("lastSessionId").and_then(Value::as_str);
        witness.directories.push(path.clone());
        witness.conversations.extend(last.and_then(|id| id.parse().ok()));
    }
    Ok(witness)
}

/// Evaluates a probe. Only the store has a login of this kind; any other kind is inconclusive.
fn verdict(code: Option<i32>, said: &[u8]) -> Verdict {
    let Ok(status) = serde_json::from_slice::<Value>(said) else {
        return Verdict::unclear(match code {
            Some(code) => format!("it exited with {code} and unexpected output"),
            None => "it was killed by a signal".to_owned(),
        });
    };
    let method = status.get("authMethod").and_then(Value::as_str).unwrap_or_default();
    match (status.get("loggedIn").and_then(Value::as_bool), method) {
        (Some(true), "claude.ai") => Verdict::Honoured,
        (Some(false), _) => Verdict::Ignored,
        (Some(true), other) => Verdict::unclear(format!("it is logged in with {other:?}")),
        (None, _) => Verdict::unclear("its output does not say whether it is logged in"),
    }
}

fn liveness(bytes: &[u8]) -> Option<Liveness> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let text = |key: &str| value.get(key)?.as_str().map(str::to_owned);
    let started = value
        .get("procStart")
        .and_then(|start| start.as_str().map_or_else(|| start.as_u64(), |text| text.parse().ok()));
    Some(Liveness {
        pid: u32::try_from(value.get("pid")?.as_u64()?).ok()?,
        started,
        conversation: text("sessionId")?.parse::<ConversationId>().ok()?,
        cwd: text("cwd"),
        version: text("version"),
        idle_since: text("status")
            .filter(|status| status == "idle")
            .and_then(|_| value.get("statusUpdatedAt")?.as_i64().map(Timestamp)),
    })
}

/// The maximum length of an unambiguous directory name; longer ones are truncated and get a hash
/// that only the agent can compute.
const FILED_MAX: usize = 200;

/// Returns the directory of the conversations held in `cwd`: all characters except letters and
/// digits are replaced by dashes.
fn filed(cwd: &str) -> Option<String> {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    // Characters outside the basic multilingual plane count as two (UTF-16).
    let spelt: String =
        cwd.chars().flat_map(|c| std::iter::repeat_n(plain(c), c.len_utf16())).collect();
    (spelt.len() <= FILED_MAX).then(|| format!("projects/{spelt}"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn filed_replaces_special_characters_by_dashes() {
        assert_eq!(super::filed("/src/a_b.c").as_deref(), Some("projects/-src-a-b-c"));
        assert_eq!(super::filed("/é/\u{1f980}").as_deref(), Some("projects/-----"));
        assert_eq!(super::filed(&"/x".repeat(150)), None);
    }

    use std::collections::BTreeMap;

    use super::*;
    use crate::environment::Environment;

    const USER: &str = r#"{
        "theme": "light", "numStartups": 7, "userID": "x", "bypassPermissionsModeAccepted": true,
        "mcpServers": {"db": {"command": "db-mcp"}},
        "projects": {
            "/src": {"mcpServers": {"web": {"url": "http://localhost"}}, "history": ["secret"],
                "hasClaudeMdExternalIncludesApproved": true},
            "/other": {"mcpServers": {}}
        }
    }"#;

    fn state(share: &[Share], key: Option<&str>) -> Value {
        let mut environment = Environment::default();
        if let Some(key) = key {
            environment.set(KEY, key).unwrap();
        }
        let seeding = Seeding {
            digests: BTreeMap::from([(STATE, digest(USER.as_bytes()).unwrap())]),
            trusted: &["/src".to_owned(), "/src/deep".to_owned()],
            share,
            environment: &environment,
        };
        let seeds = made(&seeding);
        assert_eq!(seeds[0].at, ".claude.json");
        serde_json::from_slice(&seeds[0].bytes).unwrap()
    }

    #[test]
    fn generated_state_answers_all_questions_of_the_first_start() {
        let state = state(&Share::ALL, Some("sk-ant-0123456789abcdefghijklmnop"));

        for key in ["hasCompletedOnboarding", "hasSeenAutoDefaultNudge", "hasSeenTasksHint"] {
            assert_eq!(state[key], true, "{key}");
        }
        assert_eq!(state["theme"], "light");
        assert_eq!(state["bypassPermissionsModeAccepted"], true);
        assert_eq!(state["mcpServers"], json!({"db": {"command": "db-mcp"}}));
        let responses = json!({"approved": ["6789abcdefghijklmnop"], "rejected": []});
        assert_eq!(state["customApiKeyResponses"], responses);
        assert_eq!((state.get("numStartups"), state.get("userID")), (None, None));
        let project = &state["projects"]["/src"];
        assert_eq!(project["mcpServers"], json!({"web": {"url": "http://localhost"}}));
        assert_eq!(project["hasClaudeMdExternalIncludesApproved"], true);
        assert_eq!(project.get("history"), None);
        for path in ["/src", "/src/deep"] {
            let project = &state["projects"][path];
            assert_eq!(project["hasTrustDialogAccepted"], true);
            assert_eq!(project["hasClaudeMdExternalIncludesWarningShown"], true);
        }
        assert_eq!(state["projects"].get("/other"), None);
    }

    #[test]
    fn consents_are_only_carried() {
        let (environment, nothing) = (Environment::default(), BTreeMap::new());
        let trusted = ["/src".to_owned()];
        let seeding = Seeding {
            digests: nothing,
            trusted: &trusted,
            share: &Share::ALL,
            environment: &environment,
        };

        let state: Value = serde_json::from_slice(&made(&seeding)[0].bytes).unwrap();

        assert_eq!(state.get("bypassPermissionsModeAccepted"), None);
        assert_eq!(state["projects"]["/src"].get("hasClaudeMdExternalIncludesApproved"), None);
    }

    #[test]
    fn servers_are_copied_only_if_shared() {
        let state = state(&[], None);

        assert_eq!(state.get("mcpServers"), None);
        assert_eq!(state["projects"]["/src"].get("mcpServers"), None);
        assert_eq!(state["projects"]["/src"]["hasClaudeMdExternalIncludesApproved"], true);
        assert_eq!(state.get("customApiKeyResponses"), None);
    }

    #[test]
    fn liveness_rejects_unexpected_values() {
        let said = br#"{"pid": 7, "procStart": "12345", "cwd": "/src", "status": "idle",
            "sessionId": "550e8400-e29b-41d4-a716-446655440000"}"#;

        let liveness = liveness(said).unwrap();

        assert_eq!((liveness.pid, liveness.started), (7, Some(12345)));
        assert_eq!(super::liveness(&said[..40]), None);
        assert_eq!(super::liveness(br#"{"pid": 7, "sessionId": "../x"}"#), None);
    }

    #[test]
    fn witness_reads_the_pane_of_a_state() {
        let mut environment = Environment::default();
        environment.set("CCMUX_PANE_ID", "p1").unwrap();
        let seeding = Seeding {
            digests: BTreeMap::new(),
            trusted: &["/src".to_owned()],
            share: &[],
            environment: &environment,
        };
        let made = made(&seeding).remove(0).bytes;

        assert_eq!(
            witness(&made).unwrap(),
            WriteTracker {
                pane: Some("p1".to_owned()),
                directories: vec!["/src".to_owned()],
                conversations: vec![],
            }
        );
        let ended = br#"{"projects": {"/src": {"lastSessionId": "550e8400"}}}"#;
        assert_eq!(witness(ended).unwrap().conversations, ["550e8400".parse().unwrap()]);
        assert!(witness(b"{\"projects\":").is_err());
        assert!(witness(b"[]").is_err());
    }

    #[test]
    fn verdict_recognises_a_login_from_the_store() {
        #[rustfmt::skip]
        let table: [(&str, Option<i32>, Option<bool>); 6] = [
            (r#"{"loggedIn": true, "authMethod": "claude.ai"}"#, Some(0), Some(true)),
            (r#"{"loggedIn": false, "authMethod": "none"}"#,     Some(1), Some(false)),
            (r#"{"loggedIn": true, "authMethod": "api_key"}"#,   Some(0), None),
            (r#"{"authMethod": "claude.ai"}"#,                   Some(0), None),
            ("error: unknown command 'auth'",                    Some(1), None),
            ("",                                                 None,    None),
        ];
        for (said, code, honoured) in table {
            let verdict = match verdict(code, said.as_bytes()) {
                Verdict::Honoured => Some(true),
                Verdict::Ignored => Some(false),
                Verdict::Unclear { .. } => None,
            };
            assert_eq!(verdict, honoured, "{said}");
        }
    }
}
