//! Hooks: how an agent tells ccmux that it is about to edit a file, without being asked to.
//!
//! Some agents run commands of their user's at certain moments. Where they take such commands on
//! their command line, a pane's agent is given ours there: a file of the pane's own, into which
//! settings that the user gave in the same way are merged. Nothing of the user's is written to.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Agent, claude};
use crate::config::locks::{LocksConfig, WhenAway};
use crate::ids::PaneId;
use crate::lock::LockScope;

/// How an agent takes hooks on its command line.
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// The option that takes a file of settings, or the settings themselves. The last one counts.
    pub option: &'static str,
    /// What the file is called in the pane's directory.
    pub file: &'static str,
    /// The user's settings with our hooks in them; none if theirs make no sense.
    pub settings: fn(&Caller<'_>, Map<String, Value>) -> Option<Value>,
}

/// What a hook tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookEvent {
    /// It has accepted a prompt, and a turn begins.
    Prompt,
    /// The agent is about to edit a file, and waits for the answer.
    PreEdit,
    /// It has edited the file, or failed to.
    PostEdit,
    /// Its turn is over.
    TurnEnd,
    /// Its conversation is over.
    SessionEnd,
}

/// How hooks call ccmux.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// The program, as an absolute path.
    pub program: &'a str,
    /// The state root.
    pub root: &'a str,
    /// The pane whose agent has the hooks.
    pub pane: PaneId,
    /// The user's wishes.
    pub locks: &'a LocksConfig,
}

/// Where an agent is started that is given hooks.
pub struct HookGround<'a> {
    /// How hooks call ccmux.
    pub caller: Caller<'a>,
    /// The pane's own directory.
    pub dir: &'a str,
    /// The contents of a file of the user's, if it can be read: the path as the user wrote it,
    /// which counts from the directory that the agent starts in.
    pub read: &'a dyn Fn(&str) -> Option<Vec<u8>>,
}

/// A file that has to be there before the agent starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookFile {
    /// Its absolute path.
    pub path: String,
    /// Its contents.
    pub bytes: Vec<u8>,
}

/// What a hook was told by its agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The file concerned, absolute if the agent said from where it counts.
    pub path: Option<String>,
    /// The prompt that was accepted.
    pub prompt: Option<String>,
}

impl HookEvent {
    /// All of them, in the order in which they happen.
    pub const ALL: [Self; 5] =
        [Self::Prompt, Self::PreEdit, Self::PostEdit, Self::TurnEnd, Self::SessionEnd];

    /// The word for it on the command line.
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
            format!("{text:?} is none of {known}")
        })
    }
}

impl Caller<'_> {
    /// The command line of one event, for a shell: nothing in a path can end its word.
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
            // Whatever keeps the program from answering, its absence included, refuses.
            line.push_str(" --when-away deny || exit 2");
        }
        line
    }
}

/// One word of a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl Told {
    /// Reads what an agent says to a hook. Whatever it says, the answer is at worst that nothing is
    /// known.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        claude::hooks::told(bytes).unwrap_or_default()
    }
}

impl Agent {
    /// `argv` with our hooks, and the file that they are in; as it is where the agent has none, or
    /// where the user's own settings cannot be read: the agent will say so.
    #[must_use]
    pub fn hooked(
        &self,
        argv: Vec<String>,
        ground: &HookGround<'_>,
    ) -> (Vec<String>, Option<HookFile>) {
        match self.try_hooked(&argv, ground) {
            Some((hooked, file)) => (hooked, Some(file)),
            None => (argv, None),
        }
    }

    fn try_hooked(
        &self,
        argv: &[String],
        ground: &HookGround<'_>,
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
            Some(file) => serde_json::from_slice(&(ground.read)(&file)?).ok()?,
        };
        let settings = (hooks.settings)(&ground.caller, theirs)?;
        let path = format!("{}/{}", ground.dir, hooks.file);
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
        let ground = HookGround {
            caller: Caller {
                program: "/opt/it's/ccmux",
                root: "/s",
                pane: PaneId::from_random([1; 16]),
                locks: &LOCKS,
            },
            dir: "/s/p",
            read: &|path| (path == "mine.json").then(|| file.map(|text| text.into()))?,
        };
        let (argv, file) = agent.hooked(argv, &ground);
        (argv.join(" "), file.map(|file| serde_json::from_slice(&file.bytes).unwrap()))
    }

    fn count(settings: &Value, event: &str) -> usize {
        settings["hooks"][event].as_array().map_or(0, Vec::len)
    }

    #[test]
    fn an_agent_with_hooks_is_given_ours_before_everything_else() {
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
    fn settings_of_the_users_own_stay_in_force() {
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
    fn what_the_agent_will_complain_about_is_left_to_it() {
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
    fn a_policy_is_in_the_command_that_is_run() {
        let locks = LocksConfig {
            worktrees: LockScope::Repository,
            when_away: WhenAway::Deny,
            wait: std::time::Duration::from_secs(90),
            ..LOCKS
        };
        let pane = PaneId::from_random([1; 16]);
        let caller = Caller { program: "/c", root: "/s", pane, locks: &locks };

        let line = caller.command(HookEvent::PreEdit);

        let end = "--together --wait 90 --when-away deny || exit 2";
        assert!(line.ends_with(end), "{line}");
        assert!(!caller.command(HookEvent::TurnEnd).contains("exit"));
    }

    #[test]
    fn whatever_is_said_to_a_hook_is_at_worst_not_understood() {
        let path = |value: &Value| Told::read(value.to_string().as_bytes()).path;
        let edit = |cwd: &str, file: Value| json!({"cwd": cwd, "tool_input": {"file_path": file}});

        assert_eq!(path(&edit("/w", json!("/w/a.rs"))).as_deref(), Some("/w/a.rs"));
        assert_eq!(path(&edit("/w", json!("a.rs"))).as_deref(), Some("/w/a.rs"));
        let notebook = json!({"cwd": "/w", "tool_input": {"notebook_path": "/w/n.ipynb"}});
        assert_eq!(path(&notebook).as_deref(), Some("/w/n.ipynb"));
        for strange in [json!(null), json!([1]), edit("/w", json!(7)), edit("/w", json!(""))] {
            assert_eq!(path(&strange), None, "{strange}");
        }
        for garbage in [&b""[..], b"\xff\xfe", b"{", &[b'['; 100_000]] {
            assert_eq!(Told::read(garbage), Told::default());
        }
    }

    #[test]
    fn every_event_is_read_back_as_what_it_was_written_for() {
        for event in HookEvent::ALL {
            assert_eq!(event.to_string().parse(), Ok(event));
        }
        assert!("post".parse::<HookEvent>().unwrap_err().contains("pre-edit"));
    }
}
