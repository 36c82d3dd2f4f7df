//! The hooks of Claude Code: what its settings say, and what it tells the commands in them.
//!
//! A command before a tool blocks it by ending with 2, and what it wrote to standard error is what
//! the model reads. A turn that fails has an event of its own; one that the user interrupts has
//! none, so what it left held is found out when somebody else wants it.

use serde_json::{Map, Value, json};

use crate::agent::hooks::{Caller, HookEvent, Hooks, Told};

pub(super) const HOOKS: Hooks =
    Hooks { option: "--settings", file: "claude-settings.json", settings };

/// The tools that change a file.
const EDITING: &str = "Edit|Write|MultiEdit|NotebookEdit";

/// When what is told.
const EVENTS: [(&str, Option<&str>, HookEvent); 7] = [
    ("UserPromptSubmit", None, HookEvent::Prompt),
    ("PreToolUse", Some(EDITING), HookEvent::PreEdit),
    ("PostToolUse", Some(EDITING), HookEvent::PostEdit),
    ("PostToolUseFailure", Some(EDITING), HookEvent::PostEdit),
    ("Stop", None, HookEvent::TurnEnd),
    ("StopFailure", None, HookEvent::TurnEnd),
    ("SessionEnd", None, HookEvent::SessionEnd),
];

/// How much longer than it is willing to wait a hook may take, in seconds: far more than it needs.
const SLACK: u64 = 15;

fn settings(caller: &Caller<'_>, mut theirs: Map<String, Value>) -> Option<Value> {
    let hooks = theirs.entry("hooks").or_insert_with(|| Map::new().into()).as_object_mut()?;
    let timeout = caller.locks.wait.as_secs() + SLACK;
    for (name, matcher, event) in EVENTS {
        let run = json!({
            "type": "command",
            "command": caller.command(event),
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

/// The file that a tool is about, or the prompt.
pub(in crate::agent) fn told(bytes: &[u8]) -> Option<Told> {
    let said: Value = serde_json::from_slice(bytes).ok()?;
    let input = said.get("tool_input");
    let named = |key: &str| input?.get(key)?.as_str().filter(|path| !path.is_empty());
    let path = named("file_path").or_else(|| named("notebook_path"));
    let absolute = |path: &str| match said.get("cwd").and_then(Value::as_str) {
        Some(cwd) if !path.starts_with('/') => format!("{}/{path}", cwd.trim_end_matches('/')),
        _ => path.to_owned(),
    };
    let prompt = said.get("prompt").and_then(Value::as_str).map(str::to_owned);
    Some(Told { path: path.map(absolute), prompt })
}
