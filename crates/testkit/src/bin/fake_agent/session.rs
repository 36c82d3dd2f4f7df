//! Files that claude writes: its session file, a transcript, its login.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use testkit::process;

use crate::args::Args;

/// Writes the requested files into the configuration directory.
pub(crate) fn keep(args: &Args) -> io::Result<()> {
    let (Some(id), Some(dir)) = (&args.conversation, variable("CLAUDE_CONFIG_DIR")) else {
        return Ok(());
    };
    if args.said {
        let project = dir.join("projects/-fake");
        fs::create_dir_all(&project)?;
        put(&project.join(format!("{id}.jsonl")), "{\"type\":\"user\"}\n")?;
    }
    if args.keep_session {
        let pid = std::process::id();
        let start = process::stat(pid).map(|stat| stat.start.to_string());
        let said = json!({
            "pid": pid,
            "sessionId": id,
            "cwd": std::env::current_dir()?,
            "procStart": start,
            "status": "idle",
        });
        fs::create_dir_all(dir.join("sessions"))?;
        put(&dir.join(format!("sessions/{pid}.json")), &said.to_string())?;
        println!("session kept");
    }
    Ok(())
}

/// `auth status`: logged in if the login store contains a login.
pub(crate) fn auth_status() -> ExitCode {
    let store = variable("CLAUDE_SECURESTORAGE_CONFIG_DIR");
    let found = store.is_some_and(|store| store.join(".credentials.json").exists());
    let method = if found { "claude.ai" } else { "none" };
    println!("{}", json!({ "loggedIn": found, "authMethod": method }));
    if found { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[expect(clippy::disallowed_methods, reason = "an agent reads its environment")]
fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    File::create(path)?.write_all(text.as_bytes())
}
