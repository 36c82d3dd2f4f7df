//! Gemini CLI.
//!
//! It keeps settings, trust and conversations in `.gemini/` in `GEMINI_CLI_HOME`.

use serde_json::{Map, Value, json};

use super::arguments::Grammar;
use super::prompting::{self, Dialogs, Prompting};
use super::traces::Traces;
use super::{Agent, Consulted, Conversations, Link, Logins, Origin, Seed, Seeding, UserDir, words};
use crate::config::Share;
use crate::conversation::ConversationId;

pub(super) const NAME: &str = "gemini";

/// The inherited variables.
pub(super) const INHERITS: &[&str] = &["GEMINI_API_KEY", "GEMINI_MODEL", "GOOGLE_*"];

const TRUST: &str = "trustedFolders.json";

const SETTINGS: &str = "settings.json";

const KEY: &str = "GEMINI_API_KEY";

const GRAMMAR: Grammar = Grammar {
    subcommands: &["extension", "extensions", "gemma", "hook", "hooks", "mcp", "skill", "skills"],
    switches: &[
        "--accept-raw-output-risk",
        "--acp",
        "--debug",
        "--experimental-acp",
        "--help",
        "--list-extensions",
        "--list-sessions",
        "--raw-output",
        "--sandbox",
        "--screen-reader",
        "--skip-trust",
        "--version",
        "--yolo",
        "-d",
        "-h",
        "-l",
        "-s",
        "-v",
        "-y",
    ],
    variadic: &[
        "--admin-policy",
        "--allowed-mcp-server-names",
        "--allowed-tools",
        "--extensions",
        "--include-directories",
        "--policy",
        "-e",
    ],
    begins: &["--session-id"],
    resumes: &["--resume", "-r"],
    resume_subcommand: None,
    agent_chooses: &["--session-file"],
    ends: &[
        "--help",
        "-h",
        "--version",
        "-v",
        "--list-extensions",
        "-l",
        "--list-sessions",
        "--delete-session",
    ],
    takes_prompt: true,
    one_shot: &["--prompt", "-p"],
};

/// Returns the text in the input box, which is between two bars.
const PROMPTING: Prompting = Prompting {
    composed: |lines| {
        let begins = |at: usize, line: &str| {
            let words = line.strip_prefix('>')?;
            (at > 0 && prompting::is_drawn(lines[at - 1], '▄')).then(|| words.to_owned())
        };
        prompting::from_last(lines, begins, |line| prompting::is_drawn(line, '▀'))
    },
    hints: &["Type your message"],
    busy: "esc to cancel",
    dialogs: Dialogs { mark: '●', texts: &[], looks_like_box: false },
};

pub(super) fn agent() -> Agent {
    let link = |name: &str, share| Link {
        at: format!(".gemini/{name}"),
        to: Origin::Dir(name.to_owned()),
        share: Some(share),
    };
    Agent {
        name: NAME.to_owned(),
        command: words(["gemini"]),
        variables: vec![("GEMINI_CLI_HOME".to_owned(), String::new())],
        in_every_pane: true,
        temp_variable: None,
        inherits: INHERITS,
        scrubs: words(["GEMINI_CLI"]),
        directories: &[".gemini"],
        user_dir: UserDir {
            variable: Some("GEMINI_CLI_HOME"),
            under_variable: ".gemini",
            under_home: ".gemini",
        },
        links: vec![
            link("GEMINI.md", Share::ClaudeMd),
            link("commands", Share::Commands),
            link("extensions", Share::Plugins),
            link("skills", Share::Skills),
            link("agents", Share::Agents),
        ],
        settings: None,
        copies: Vec::new(),
        consults: vec![
            Consulted {
                name: TRUST,
                origin: Origin::Dir(TRUST.to_owned()),
                digest: |bytes| serde_json::from_slice(bytes).ok(),
            },
            Consulted {
                name: SETTINGS,
                origin: Origin::Dir(SETTINGS.to_owned()),
                digest: |bytes| {
                    // A file with comments is not valid JSON and is used unchanged.
                    let text = || Some(std::str::from_utf8(bytes).ok()?.into());
                    serde_json::from_slice(bytes).ok().or_else(text)
                },
            },
        ],
        made: Some(made),
        logins: Logins {
            variables: &[KEY, "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"],
            store: None,
        },
        conversations: Conversations {
            grammar: GRAMMAR,
            new: words(["--session-id", "{id}"]),
            resume: words(["--resume", "{id}"]),
            transcript: Some(".gemini/tmp/*/chats/session-*.json*".to_owned()),
            database: None,
            live: None,
            filed: None,
            identify: Some(identify),
        },
        traces: Traces { own_login: Some(".gemini/oauth_creds.json"), ..Traces::default() },
        hooks: None,
        prompting: Some(PROMPTING),
    }
}

/// Generates the user's settings with a login method, and trust in the working directory in addition
/// to the user's trusted directories.
fn made(seeding: &Seeding<'_>) -> Vec<Seed> {
    let settings = settings(seeding);
    let mut folders = match seeding.digests.get(TRUST) {
        Some(Value::Object(folders)) => folders.clone(),
        _ => Map::new(),
    };
    for path in seeding.trusted {
        folders.entry(path.clone()).or_insert_with(|| "TRUST_FOLDER".into());
    }
    let bytes = serde_json::to_vec_pretty(&folders).expect("the keys are strings");
    let trust = Seed { at: format!(".gemini/{TRUST}"), bytes };
    [trust].into_iter().chain(settings).collect()
}

/// Generates the settings as a copy, because gemini writes to them.
fn settings(seeding: &Seeding<'_>) -> Option<Seed> {
    let shared = seeding.share.contains(&Share::Settings);
    let user = seeding.digests.get(SETTINGS).filter(|_| shared);
    let at = format!(".gemini/{SETTINGS}");
    if let Some(Value::String(text)) = user {
        return Some(Seed { at, bytes: text.clone().into_bytes() });
    }
    let mut settings = user.cloned().unwrap_or_else(|| Map::new().into());
    if settings.pointer("/security/auth/selectedType").is_none()
        && seeding.environment.get(KEY).is_some()
        && let Some(settings) = settings.as_object_mut()
    {
        let security = settings.entry("security").or_insert_with(|| Map::new().into());
        if let Some(security) = security.as_object_mut() {
            security.insert("auth".to_owned(), json!({ "selectedType": "gemini-api-key" }));
        }
    }
    let is_empty = settings.as_object().is_none_or(Map::is_empty);
    let bytes = serde_json::to_vec_pretty(&settings).expect("the keys are strings");
    (!is_empty).then_some(Seed { at, bytes })
}

/// Reads the id from the beginning of the file, which may be long; the field is the first of its
/// name.
fn identify(_name: &str, head: &[u8]) -> Option<ConversationId> {
    let head = String::from_utf8_lossy(head);
    let (_, after) = head.split_once("\"sessionId\"")?;
    let (_, after) = after.split_once('"')?;
    let (id, _) = after.split_once('"')?;
    id.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_kept_and_an_api_key_selects_the_login_method() {
        let mut environment = crate::environment::Environment::default();
        environment.set(KEY, "x").unwrap();
        let made = |user: Value| {
            let seeding = Seeding {
                digests: std::collections::BTreeMap::from([(SETTINGS, user)]),
                trusted: &["/src".to_owned()],
                share: &Share::ALL,
                environment: &environment,
            };
            made(&seeding).pop().unwrap()
        };

        let answered = made(json!({"ui": {"theme": "x"}, "security": {"folderTrust": {}}}));
        let chosen = made(json!({"security": {"auth": {"selectedType": "oauth-personal"}}}));
        let commented = made("{ // mine\n}".into());

        let read = |seed: &Seed| serde_json::from_slice::<Value>(&seed.bytes).unwrap();
        assert_eq!(
            read(&answered),
            json!({
                "ui": {"theme": "x"},
                "security": {"folderTrust": {}, "auth": {"selectedType": "gemini-api-key"}},
            })
        );
        assert_eq!(read(&chosen)["security"]["auth"]["selectedType"], "oauth-personal");
        assert_eq!(commented.bytes, b"{ // mine\n}");
    }

    #[test]
    fn identify_reads_the_id_from_the_file() {
        let head = br#"{ "sessionId": "550e8400-e29b-41d4-a716-446655440000", "messages": [ {"#;

        let id = identify("session-2026-01-01T00-00-550e8400.json", head).unwrap();

        assert_eq!(id.as_str(), "550e8400-e29b-41d4-a716-446655440000");
        assert_eq!(identify("session-x.json", b"{}"), None);
    }
}
