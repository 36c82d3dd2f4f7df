//! Hooks, with which an agent reports its edits to ccmux.
//!
//! Some agents run user-supplied commands on certain events and accept them on the command line. In
//! a pane, ccmux passes a settings file with its hooks, merged with the settings that the user
//! passes in the same way. Files of the user are not changed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Agent;
use crate::config::locks::{LocksConfig, WhenAway};
use crate::ids::PaneId;
use crate::lock::LockScope;

/// How an agent accepts hooks on its command line.
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// The option for a settings file or inline settings; the last one takes precedence.
    pub option: &'static str,
    /// The name of the settings file in the pane's directory.
    pub file: &'static str,
    /// Adds the hooks to the user's settings; none if those are invalid.
    pub settings: fn(&HookCommand<'_>, Map<String, Value>) -> Option<Value>,
}

/// The events that hooks report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookEvent {
    /// The agent has accepted a prompt; a turn begins.
    Prompt,
    /// The agent is about to edit a file and waits for permission.
    PreEdit,
    /// The agent has edited the file, or failed to.
    PostEdit,
    /// The turn has ended.
    TurnEnd,
    /// The conversation has ended.
    SessionEnd,
}

/// The command with which hooks call ccmux.
#[derive(Clone, Copy, Debug)]
pub struct HookCommand<'a> {
    /// The program, as an absolute path.
    pub program: &'a str,
    /// The state root.
    pub root: &'a str,
    /// The pane of the agent.
    pub pane: PaneId,
    /// The lock settings.
    pub locks: &'a LocksConfig,
}

/// The input for hooks.
pub struct HookContext<'a> {
    /// The command with which hooks call ccmux.
    pub caller: HookCommand<'a>,
    /// The pane's directory.
    pub dir: &'a str,
    /// Reads a file of the user, with a path as in the user's arguments, relative to the working
    /// directory of the agent.
    pub read: &'a dyn Fn(&str) -> Option<Vec<u8>>,
}

/// A settings file that must exist before the agent starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookFile {
    /// Its absolute path.
    pub path: String,
    /// Its contents.
    pub bytes: Vec<u8>,
}

/// The input that an agent passes to a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookInput {
    /// The file concerned; absolute if the agent passes its working directory.
    pub path: Option<String>,
    /// The prompt that was accepted.
    pub prompt: Option<String>,
}

impl HookEvent {
    /// All events, in the order in which they occur.
    pub const ALL: [Self; 5] =
        [Self::Prompt, Self::PreEdit, Self::PostEdit, Self::TurnEnd, Self::SessionEnd];

    /// Returns the name used on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::PreEdit => "pre-edit",
            Self::PostEdit => "post-edit",
            Self::TurnEnd => "turn-end",
            Self::SessionEnd => "session-end",
        }
    }
}

impl fmt::Display for HookEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for HookEvent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|event| event.as_str() == text);
        named.ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            format!("unknown hook event {text:?}; expected one of {known}")
        })
    }
}

impl HookCommand<'_> {
    /// Returns the shell command line for an event, with paths quoted.
    #[must_use]
    pub fn command(&self, event: HookEvent) -> String {
        let (program, root) = (quoted(self.program), quoted(self.root));
        let mut line = format!("{program} hook {event} --home {root} --pane {}", self.pane);
        if event != HookEvent::PreEdit {
            return line;
        }
        if self.locks.worktrees == LockScope::Repository {
            line.push_str(" --together");
        }
        if !self.locks.wait.is_zero() {
            line.extend([" --wait ", &self.locks.wait.as_secs().to_string()]);
        }
        if self.locks.when_away == WhenAway::Deny {
            // If the program cannot be run, the edit is denied too.
            line.push_str(" --when-away deny || exit 2");
        }
        line
    }
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl Agent {
    /// Returns `argv` with the hooks, and the file that contains them. Returns `argv` unchanged if
    /// the agent has no hooks or the user's settings cannot be read, which the agent will report.
    #[must_use]
    pub fn with_hooks(
        &self,
        argv: Vec<String>,
        context: &HookContext<'_>,
    ) -> (Vec<String>, Option<HookFile>) {
        match self.try_with_hooks(&argv, context) {
            Some((hooked, file)) => (hooked, Some(file)),
            None => (argv, None),
        }
    }

    fn try_with_hooks(
        &self,
        argv: &[String],
        context: &HookContext<'_>,
    ) -> Option<(Vec<String>, HookFile)> {
        let hooks = self.hooks?;
        let grammar = &self.conversations.grammar;
        let arguments = self.arguments(argv);
        if grammar.says_and_ends(arguments) {
            return None;
        }
        let (rest, theirs) = grammar.without_option(arguments, hooks.option)?;
        let theirs = match theirs {
            None => Map::new(),
            Some(inline) if inline.trim_start().starts_with('{') => {
                serde_json::from_str(&inline).ok()?
            }
            Some(file) => serde_json::from_slice(&(context.read)(&file)?).ok()?,
        };
        let settings = (hooks.settings)(&context.caller, theirs)?;
        let path = format!("{}/{}", context.dir, hooks.file);
        let program = &argv[..argv.len() - arguments.len()];
        let ours = [hooks.option.to_owned(), path.clone()];
        let hooked = program.iter().cloned().chain(ours).chain(rest).collect();
        let bytes = serde_json::to_vec_pretty(&settings).expect("the keys are strings");
        Some((hooked, HookFile { path, bytes }))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    const LOCKS: LocksConfig = LocksConfig {
        hooks: true,
        worktrees: LockScope::Worktree,
        when_away: WhenAway::Allow,
        wait: std::time::Duration::ZERO,
    };

    fn hooked(line: &[&str], file: Option<&str>) -> (String, Option<Value>) {
        let argv: Vec<String> = line.iter().map(|&word| word.to_owned()).collect();
        let agent = Agent::of_command(&argv, &BTreeMap::new());
        let context = HookContext {
            caller: HookCommand {
                program: "/opt/it's/ccmux",
                root: "/s",
                pane: PaneId::from_random([1; 16]),
                locks: &LOCKS,
            },
            dir: "/s/p",
            read: &|path| (path == "mine.json").then(|| file.map(|text| text.into()))?,
        };
        let (argv, file) = agent.with_hooks(argv, &context);
        (argv.join(" "), file.map(|file| serde_json::from_slice(&file.bytes).unwrap()))
    }

    fn count(settings: &Value, event: &str) -> usize {
        settings["hooks"][event].as_array().map_or(0, Vec::len)
    }

    #[test]
    fn hooks_option_precedes_all_other_arguments() {
        let (line, settings) = hooked(&["claude", "-p", "x"], None);

        assert_eq!(line, "claude --settings /s/p/claude-settings.json -p x");
        let settings = settings.unwrap();
        let pre = settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"].as_str().unwrap();
        assert!(
            pre.starts_with(r"'/opt/it'\''s/ccmux' hook pre-edit --home '/s' --pane "),
            "{pre}"
        );
        assert!(!pre.contains("exit 2"), "it fails open: {pre}");
    }

    #[test]
    fn settings_of_the_user_are_merged() {
        let theirs = r#"{"model":"opus","hooks":{"Stop":[{"hooks":[]}],"Notification":[{}]}}"#;
        for given in [vec!["--settings", theirs], vec!["--settings", "mine.json"]] {
            let line = [vec!["claude", "--settings", "{}", "--verbose"], given].concat();

            let (line, settings) = hooked(&line, Some(theirs));

            assert_eq!(line, "claude --settings /s/p/claude-settings.json --verbose");
            let settings = settings.unwrap();
            assert_eq!(settings["model"], "opus");
            assert_eq!(count(&settings, "Stop"), 2, "theirs and ours");
            assert_eq!((count(&settings, "Notification"), count(&settings, "PreToolUse")), (1, 1));
        }
        let inline = format!("--settings={theirs}");
        assert_eq!(hooked(&["claude", &inline], None).1.unwrap()["model"], "opus");
    }

    #[test]
    fn invalid_settings_are_left_to_the_agent() {
        let lines: [&[&str]; 8] = [
            &["claude", "--settings", "missing.json"],
            &["claude", "--settings", "{broken"],
            &["claude", "--settings", r#"{"hooks": 3}"#],
            &["claude", "--settings", r#"{"hooks": {"Stop": 3}}"#],
            &["claude", "--settings"],
            &["claude", "mcp", "list"],
            &["claude", "--version"],
            &["codex", "fix"],
        ];
        for line in lines {
            assert_eq!(hooked(line, None), (line.join(" "), None));
        }
    }

    #[test]
    fn lock_policy_is_part_of_the_hook_command() {
        let locks = LocksConfig {
            worktrees: LockScope::Repository,
            when_away: WhenAway::Deny,
            wait: std::time::Duration::from_secs(90),
            ..LOCKS
        };
        let pane = PaneId::from_random([1; 16]);
        let caller = HookCommand { program: "/c", root: "/s", pane, locks: &locks };

        let line = caller.command(HookEvent::PreEdit);

        let end = "--together --wait 90 --when-away deny || exit 2";
        assert!(line.ends_with(end), "{line}");
        assert!(!caller.command(HookEvent::TurnEnd).contains("exit"));
    }

    #[test]
    fn unknown_hook_input_yields_empty_fields() {
        let path = |value: &Value| HookInput::read(value.to_string().as_bytes()).path;
        let edit = |cwd: &str, file: Value| json!({"cwd": cwd, "tool_input": {"file_path": file}});

        assert_eq!(path(&edit("/w", json!("/w/a.rs"))).as_deref(), Some("/w/a.rs"));
        assert_eq!(path(&edit("/w", json!("a.rs"))).as_deref(), Some("/w/a.rs"));
        let notebook = json!({"cwd": "/w", "tool_input": {"notebook_path": "/w/n.ipynb"}});
        assert_eq!(path(&notebook).as_deref(), Some("/w/n.ipynb"));
        for strange in [json!(null), json!([1]), edit("/w", json!(7)), edit("/w", json!(""))] {
            assert_eq!(path(&strange), None, "{strange}");
        }
        for garbage in [&b""[..], b"\xff\xfe", b"{", &[b'['; 100_000]] {
            assert_eq!(HookInput::read(garbage), HookInput::default());
        }
    }

    #[test]
    fn hook_event_round_trips() {
        for event in HookEvent::ALL {
            assert_eq!(event.to_string().parse(), Ok(event));
        }
        assert!("post".parse::<HookEvent>().unwrap_err().contains("pre-edit"));
    }
}
