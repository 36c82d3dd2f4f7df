//! Gemini CLI.
//!
//! It keeps `.gemini/` in `GEMINI_CLI_HOME`, settings, trust and conversations included.

use serde_json::{Map, Value};

use super::arguments::Grammar;
use super::{
    Agent, Consulted, Conversations, Copied, Link, Logins, Origin, Seed, Seeding, UserDir, words,
};
use crate::config::Share;
use crate::conversation::ConversationId;

pub(super) const NAME: &str = "gemini";

/// What panes take over for it.
pub(super) const INHERITS: &[&str] = &["GEMINI_API_KEY", "GEMINI_MODEL", "GOOGLE_*"];

const TRUST: &str = "trustedFolders.json";

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
    variadic: &[],
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
};

pub(super) fn agent() -> Agent {
    let link = |name: &str, share| Link {
        at: format!(".gemini/{name}"),
        to: Origin::Dir(name.to_owned()),
        share: Some(share),
    };
    let settings = Copied {
        at: ".gemini/settings.json".to_owned(),
        from: Origin::Dir("settings.json".to_owned()),
        share: Some(Share::Settings),
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
        copies: vec![settings],
        consults: vec![Consulted {
            name: TRUST,
            origin: Origin::Dir(TRUST.to_owned()),
            digest: |bytes| serde_json::from_slice(bytes).ok(),
        }],
        made: Some(made),
        logins: Logins {
            variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"],
            store: None,
        },
        conversations: Conversations {
            grammar: GRAMMAR,
            new: words(["--session-id", "{id}"]),
            resume: words(["--resume", "{id}"]),
            transcript: Some(".gemini/tmp/*/chats/session-*.json*".to_owned()),
            live: None,
            identify: Some(identify),
        },
    }
}

/// Trust in where the pane works, beside what the user trusts already.
fn made(seeding: &Seeding<'_>) -> Vec<Seed> {
    let mut folders = match seeding.digests.get(TRUST) {
        Some(Value::Object(folders)) => folders.clone(),
        _ => Map::new(),
    };
    for path in seeding.trusted {
        folders.entry(path.clone()).or_insert_with(|| "TRUST_FOLDER".into());
    }
    let bytes = serde_json::to_vec_pretty(&folders).expect("the keys are strings");
    vec![Seed { at: format!(".gemini/{TRUST}"), bytes }]
}

/// The id is the first field of the file that has this name; the rest of it may be long.
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
    fn a_conversation_is_known_by_what_its_file_says() {
        let head = br#"{ "sessionId": "550e8400-e29b-41d4-a716-446655440000", "messages": [ {"#;

        let id = identify("session-2026-01-01T00-00-550e8400.json", head).unwrap();

        assert_eq!(id.as_str(), "550e8400-e29b-41d4-a716-446655440000");
        assert_eq!(identify("session-x.json", b"{}"), None);
    }
}
