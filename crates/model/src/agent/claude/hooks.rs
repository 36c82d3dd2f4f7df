//! The hooks of Claude Code: its settings, and the input of the hook commands.
//!
//! A command that runs before a tool blocks it by exiting with 2; the model reads its standard
//! error. A failed turn has its own event. An interrupted turn has none, so its locks are found to
//! be stale only when another pane asks for them.

use serde_json::{Map, Value, json};

use crate::agent::hooks::{HookCommand, HookEvent, HookInput, Hooks};

pub(super) const HOOKS: Hooks =
    Hooks { option: "--settings", file: "claude-settings.json", settings };

/// The tools that edit files.
const EDITING: &str = "Edit|Write|MultiEdit|NotebookEdit";

/// The events of Claude Code, the tools they are limited to, and the reported events.
const EVENTS: [(&str, Option<&str>, HookEvent); 7] = [
    ("UserPromptSubmit", None, HookEvent::Prompt),
    ("PreToolUse", Some(EDITING), HookEvent::PreEdit),
    ("PostToolUse", Some(EDITING), HookEvent::PostEdit),
    ("PostToolUseFailure", Some(EDITING), HookEvent::PostEdit),
    ("Stop", None, HookEvent::TurnEnd),
    ("StopFailure", None, HookEvent::TurnEnd),
    ("SessionEnd", None, HookEvent::SessionEnd),
];

/// Time, in seconds, that a hook may take in addition to its waiting time; far more than it needs.
const SLACK: u64 = 15;

fn settings(command: &HookCommand<'_>, mut theirs: Map<String, Value>) -> Option<Value> {
    let hooks = theirs.entry("hooks").or_insert_with(|| Map::new().into()).as_object_mut()?;
    let timeout = command.locks.wait.as_secs() + SLACK;
    for (name, matcher, event) in EVENTS {
        let run = json!({
            "type": "command",
            "command": command.command(event),
            "timeout": timeout,
        });
        let mut entry = Map::from_iter([("hooks".to_owned(), json!([run]))]);
        if let Some(matcher) = matcher {
            entry.insert("matcher".to_owned(), matcher.into());
        }
        let list = hooks.entry(name).or_insert_with(|| json!([])).as_array_mut()?;
        list.push(entry.into());
    }
    Some(theirs.into())
}

impl HookInput {
    /// Parses the input of a hook. Unknown input yields empty fields.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        parse_input(bytes).unwrap_or_default()
    }
}

/// Parses the input of a hook: the file that a tool edits, or the prompt.
fn parse_input(bytes: &[u8]) -> Option<HookInput> {
    let said: Value = serde_json::from_slice(bytes).ok()?;
    let input = said.get("tool_input");
    let named = |key: &str| input?.get(key)?.as_str().filter(|path| !path.is_empty());
    let path = named("file_path").or_else(|| named("notebook_path"));
    let absolute = |path: &str| match said.get("cwd").and_then(Value::as_str) {
        Some(cwd) if !path.starts_with('/') => format!("{}/{path}", cwd.trim_end_matches('/')),
        _ => path.to_owned(),
    };
    let prompt = said.get("prompt").and_then(Value::as_str).map(str::to_owned);
    Some(HookInput { path: path.map(absolute), prompt })
}
