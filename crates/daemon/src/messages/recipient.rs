//! A pane as the recipient of messages: its screen, its readiness and its transcript.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use host::{process, transcript};
use model::agent::Agent;
use model::agent::hooks::HookEvent;
use model::agent::prompting::{Prompting, Readiness};
use model::message::{Heading, Message};
use protocol::pane::{Request, Response, ScreenView};

use super::Messages;
use crate::panes::{Keeper, Life, Pane};
use crate::runtime::run_blocking;
use crate::wire::keeper;

/// Timeout of a request for the screen.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the output of an agent that shows an empty input box must have been quiet.
const QUIET_AGENT: Duration = Duration::from_millis(300);

/// How long the output of any other program must have been quiet.
const QUIET_PROGRAM: Duration = Duration::from_millis(600);

/// The same for a program without any output yet, or with attached clients who may be typing.
const QUIET_UNCERTAIN: Duration = Duration::from_secs(3);

/// Time after which an agent that shows an empty input box is ready although its output is not
/// quiet.
const RESTLESS_AGENT: Duration = Duration::from_secs(10);

/// Pauses between two looks at the screen: the first, while the pane is about to be ready, and the
/// longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const SHORT_PAUSE: Duration = Duration::from_millis(150);
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// How much of the end of a transcript is searched for a message.
const SEARCHED_TAIL: u64 = 8 << 20;

/// A live pane and its program.
pub(super) struct Recipient {
    pub(super) pane: Arc<Pane>,
    pub(super) keeper: Arc<Keeper>,
    pub(super) agent: Agent,
    /// The agent's hooks report accepted prompts and the ends of turns.
    pub(super) reports_prompts: bool,
}

/// Whether the transcript of an agent contains a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InTranscript {
    Yes,
    /// The conversation, if resumed, does not contain the message.
    No,
    /// There is no readable transcript, or the message has no heading to recognise it by.
    Unknown,
}

impl Messages {
    /// Returns a pane as a recipient; none if it is not live.
    pub(super) async fn recipient(&self, pane: &Arc<Pane>) -> Option<Recipient> {
        let Life::Live(keeper) = pane.life() else { return None };
        let (agent, _) = self.panes.conversations.agent_of(pane).await?;
        let file = agent.hooks.map(|hooks| pane.dir.join(hooks.file));
        let reports_prompts =
            run_blocking(move || file.is_some_and(|file| has_prompt_hook(&file))).await;
        let is_live = keeper.is_alive() && keeper.incompatible().is_none();
        is_live.then(|| Recipient { pane: Arc::clone(pane), keeper, agent, reports_prompts })
    }

    /// Returns whether the transcript of a pane's agent contains a message.
    pub(super) async fn in_transcript(&self, pane: &Pane, message: &Message) -> InTranscript {
        let Some((agent, launch)) = self.panes.conversations.agent_of(pane).await else {
            return InTranscript::Unknown;
        };
        let dir = launch.isolation.dir_of(&agent.name).map(PathBuf::from);
        let (Some(dir), Some(_)) = (dir, &agent.conversations.transcript) else {
            return InTranscript::Unknown;
        };
        let (conversation, message) = (launch.conversation.clone(), message.clone());
        run_blocking(move || {
            // An agent creates its transcript with the first prompt.
            let Some(id) = conversation else { return InTranscript::No };
            let Some(file) = transcript::find(&agent, &dir, &id) else { return InTranscript::No };
            match read_tail(&file) {
                Ok(text) if message.is_in(&text) => InTranscript::Yes,
                Ok(_) if !message.raw => InTranscript::No,
                _ => InTranscript::Unknown,
            }
        })
        .await
    }

    /// Waits until a pane is ready for a message; false if it has ended.
    pub(super) async fn wait_ready(&self, recipient: &Recipient) -> bool {
        let mut changed = self.subscribe();
        let mut quiet: Option<QuietPeriod> = None;
        let mut pause = FIRST_PAUSE;
        loop {
            let Some(screen) = recipient.screen().await else {
                if !recipient.is_live() {
                    return false;
                }
                tokio::time::sleep(MAX_PAUSE).await;
                continue;
            };
            if recipient.accepts_input(&screen) {
                let log_end = screen.view.log_end;
                let period = quiet.get_or_insert_with(|| QuietPeriod::start(log_end));
                if period.is_long_enough(&screen, recipient.agent.prompting.is_some()) {
                    return true;
                }
                pause = SHORT_PAUSE;
            } else {
                quiet = None;
                pause = (pause * 3 / 2).min(MAX_PAUSE);
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                // The end of a turn wakes subscribers.
                _ = changed.changed(), if quiet.is_none() => pause = FIRST_PAUSE,
            }
        }
    }
}

/// The screen of a pane and the number of clients attached to it.
pub(super) struct RecipientScreen {
    view: ScreenView,
    clients: usize,
}

/// The time in which a pane has accepted input.
struct QuietPeriod {
    log_end: u64,
    /// The last output.
    quiet_since: Instant,
    started: Instant,
}

impl QuietPeriod {
    fn start(log_end: u64) -> Self {
        let now = Instant::now();
        Self { log_end, quiet_since: now, started: now }
    }

    /// Takes in the current screen. Returns whether a message may be typed.
    fn is_long_enough(&mut self, screen: &RecipientScreen, has_input_box: bool) -> bool {
        let log_end = screen.view.log_end;
        if self.log_end != log_end {
            self.log_end = log_end;
            self.quiet_since = Instant::now();
        }
        let quiet = self.quiet_since.elapsed();
        if has_input_box {
            return quiet >= QUIET_AGENT || self.started.elapsed() >= RESTLESS_AGENT;
        }
        let is_uncertain = log_end == 0 || screen.clients > 0;
        quiet >= if is_uncertain { QUIET_UNCERTAIN } else { QUIET_PROGRAM }
    }
}

impl Recipient {
    /// Returns whether the pane is live and was not restarted.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.pane.life(), Life::Live(now) if Arc::ptr_eq(&now, &self.keeper))
            && self.keeper.is_alive()
    }

    /// Returns the form of the line that names the sender.
    pub(super) fn heading(&self) -> Heading {
        // A shell executes every line.
        if self.agent.command.is_empty() { Heading::Comment } else { Heading::Bracketed }
    }

    /// Returns the screen; none if the keeper does not answer.
    pub(super) async fn screen(&self) -> Option<RecipientScreen> {
        let dir = &self.pane.dir;
        let ask = |request| async move { keeper::ask(dir, &request, SCREEN_TIMEOUT).await };
        let Ok(Response::Screen(view)) = ask(Request::Screen).await else { return None };
        let Ok(Response::Status(status)) = ask(Request::Status).await else { return None };
        Some(RecipientScreen { view, clients: status.clients })
    }

    /// Returns the readiness of an agent with known prompting rules.
    pub(super) fn readiness(&self, screen: &RecipientScreen) -> Option<Readiness> {
        let rules: Prompting = self.agent.prompting?;
        Some(rules.readiness(&screen.view.text))
    }

    fn accepts_input(&self, screen: &RecipientScreen) -> bool {
        if self.pane.status().frozen.is_some() {
            return false;
        }
        match self.readiness(screen) {
            Some(readiness) => readiness == Readiness::Ready,
            None => process::stat(self.keeper.record.child.pid).is_some_and(|stat| stat.foreground),
        }
    }
}

/// Returns whether an agent's settings file contains the hook for prompts. Blocks.
fn has_prompt_hook(settings: &Path) -> bool {
    let text = host::file::read_regular(settings).unwrap_or_default();
    String::from_utf8_lossy(&text).contains(&format!(" hook {} ", HookEvent::Prompt))
}

/// Reads the end of a file. Blocks.
fn read_tail(path: &Path) -> std::io::Result<String> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(SEARCHED_TAIL)))?;
    let mut bytes = Vec::new();
    file.take(SEARCHED_TAIL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files in place")]
mod tests {
    use super::*;

    #[test]
    fn prompt_hook_is_found_in_settings() {
        let dir = tempfile::tempdir().unwrap();
        let settings = dir.path().join("settings.json");
        assert!(!has_prompt_hook(&settings), "there is no file");

        std::fs::write(&settings, "\"ccmux hook pre-edit --pane x\"").unwrap();
        assert!(!has_prompt_hook(&settings));
        let command = format!("\"ccmux hook {} --pane x\"", HookEvent::Prompt);
        std::fs::write(&settings, command).unwrap();

        assert!(has_prompt_hook(&settings));
    }

    #[test]
    fn tail_of_a_long_file_is_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("transcript");
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(SEARCHED_TAIL).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"last", SEARCHED_TAIL).unwrap();

        let tail = read_tail(&path).unwrap();

        assert_eq!(tail.len(), usize::try_from(SEARCHED_TAIL).unwrap());
        assert!(tail.ends_with("last"));
    }
}
