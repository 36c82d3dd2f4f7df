//! A pane as the receiver of messages: what can be seen of it, and when it can take one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use host::{process, transcript};
use model::LaunchRecord;
use model::agent::Agent;
use model::agent::hooks::HookEvent;
use model::agent::prompting::{Prompting, Readiness};
use model::message::{Heading, Message};
use protocol::pane::{Request, Response, ScreenView};

use crate::keeper;
use crate::pane::{Keeper, Life, Pane};
use crate::supervisor::{Supervisor, run_blocking};

/// How long a keeper may take to show its screen.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long an agent that shows an empty box must have been quiet.
const QUIET: Duration = Duration::from_millis(300);

/// How long any other program must have been.
const STILL: Duration = Duration::from_millis(600);

/// The same, for one that has not written anything yet, or that somebody may be typing into.
const SILENT: Duration = Duration::from_secs(3);

/// An agent that shows an empty box for this long takes a prompt, however much else it shows.
const RESTLESS: Duration = Duration::from_secs(10);

/// Between two looks: at first, while it is about to be ready, and at most.
const FIRST: Duration = Duration::from_millis(200);
const SOON: Duration = Duration::from_millis(150);
const AT_MOST: Duration = Duration::from_secs(2);

/// How much of the end of a transcript is looked through for a message.
const TAIL: u64 = 8 << 20;

/// A pane that lives, and what is known of its program.
pub(super) struct Receiver {
    pub(super) pane: Arc<Pane>,
    pub(super) keeper: Arc<Keeper>,
    pub(super) agent: Agent,
    /// The agent tells which prompts it accepts, and when its turns are over.
    pub(super) tells: bool,
}

/// Whether a message is in what an agent has written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// It is.
    Yes,
    /// It is not, so whoever goes on with the conversation does not know it.
    No,
    /// That cannot be told.
    Unknown,
}

impl Supervisor {
    /// The agent of a pane.
    pub(super) async fn agent_of(&self, pane: &Pane) -> Option<(Agent, Arc<LaunchRecord>)> {
        let launch = pane.launch()?;
        let config = self.config().await.ok()?;
        Some((Agent::named(&launch.agent, &config.agents).ok()?, launch))
    }

    /// A pane as a receiver, if it lives.
    pub(super) async fn receiver(&self, pane: &Arc<Pane>) -> Option<Receiver> {
        let Life::Live(keeper) = pane.life() else { return None };
        let (agent, _) = self.agent_of(pane).await?;
        let file = agent.hooks.map(|hooks| pane.dir.join(hooks.file));
        let tells = run_blocking(move || file.is_some_and(|file| tells_prompts(&file))).await;
        let live = keeper.is_alive() && keeper.incompatible().is_none();
        live.then(|| Receiver { pane: Arc::clone(pane), keeper, agent, tells })
    }

    /// Whether a message is in what the agent of a pane has written down.
    pub(super) async fn written(&self, pane: &Pane, message: &Message) -> Written {
        let Some((agent, launch)) = self.agent_of(pane).await else { return Written::Unknown };
        let dir = launch.isolation.dir_of(&agent.name).map(PathBuf::from);
        let (Some(dir), Some(_)) = (dir, &agent.conversations.transcript) else {
            return Written::Unknown;
        };
        let (conversation, message) = (launch.conversation.clone(), message.clone());
        run_blocking(move || {
            // Without a transcript nothing was said yet.
            let Some(id) = conversation else { return Written::No };
            let Some(file) = transcript::of(&agent, &dir, &id) else { return Written::No };
            match tail(&file) {
                Ok(said) if message.is_in(&said) => Written::Yes,
                Ok(_) if !message.raw => Written::No,
                _ => Written::Unknown,
            }
        })
        .await
    }

    /// Waits until a pane can take a message; whether it can, or has ended.
    pub(super) async fn wait_ready(&self, receiver: &Receiver) -> bool {
        let mut changed = self.messages.subscribe();
        let mut calm: Option<Calm> = None;
        let mut pause = FIRST;
        loop {
            let Some(looked) = receiver.look().await else {
                if !receiver.lives() {
                    return false;
                }
                tokio::time::sleep(AT_MOST).await;
                continue;
            };
            if receiver.takes(&looked) {
                let now = calm.get_or_insert_with(|| Calm::from(&looked.screen));
                if now.is_over(&looked, receiver.agent.prompting.is_some()) {
                    return true;
                }
                pause = SOON;
            } else {
                calm = None;
                pause = (pause * 3 / 2).min(AT_MOST);
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                // Somebody may have become free.
                _ = changed.changed(), if calm.is_none() => pause = FIRST,
            }
        }
    }
}

/// What a pane shows now.
pub(super) struct Looked {
    screen: ScreenView,
    clients: usize,
}

/// Since when a pane could take something.
struct Calm {
    log_end: u64,
    since: Instant,
    first: Instant,
}

impl Calm {
    fn from(screen: &ScreenView) -> Self {
        let now = Instant::now();
        Self { log_end: screen.log_end, since: now, first: now }
    }

    /// Whether it has been calm for long enough.
    fn is_over(&mut self, looked: &Looked, has_box: bool) -> bool {
        if self.log_end != looked.screen.log_end {
            self.log_end = looked.screen.log_end;
            self.since = Instant::now();
        }
        if has_box {
            return self.since.elapsed() >= QUIET || self.first.elapsed() >= RESTLESS;
        }
        let careful = looked.screen.log_end == 0 || looked.clients > 0;
        self.since.elapsed() >= if careful { SILENT } else { STILL }
    }
}

impl Receiver {
    /// Whether its keeper is still the one of this life of the pane.
    pub(super) fn lives(&self) -> bool {
        matches!(self.pane.life(), Life::Live(now) if Arc::ptr_eq(&now, &self.keeper))
            && self.keeper.is_alive()
    }

    /// How the line is written that says who a message is from.
    pub(super) fn heading(&self) -> Heading {
        // Of a shell, everything that is typed is executed.
        if self.agent.command.is_empty() { Heading::Comment } else { Heading::Bracketed }
    }

    /// What it shows.
    pub(super) async fn look(&self) -> Option<Looked> {
        let ask = |request| async move { keeper::ask(&self.pane.dir, &request, PATIENCE).await };
        let Ok(Response::Screen(screen)) = ask(Request::Screen).await else { return None };
        let Ok(Response::Status(live)) = ask(Request::Status).await else { return None };
        Some(Looked { screen, clients: live.clients })
    }

    /// What it can do with a prompt, where its screen tells.
    pub(super) fn readiness(&self, looked: &Looked) -> Option<Readiness> {
        let rule: Prompting = self.agent.prompting?;
        Some(rule.readiness(&looked.screen.text))
    }

    fn takes(&self, looked: &Looked) -> bool {
        if self.pane.look().frozen.is_some() {
            return false;
        }
        match self.readiness(looked) {
            Some(readiness) => readiness == Readiness::Ready,
            None => process::stat(self.keeper.record.child.pid).is_some_and(|head| head.foreground),
        }
    }
}

/// Whether the settings of an agent have it tell which prompts it accepts. Blocks.
fn tells_prompts(settings: &Path) -> bool {
    let text = std::fs::read_to_string(settings).unwrap_or_default();
    text.contains(&format!(" hook {} ", HookEvent::Prompt))
}

/// The end of a file. Blocks.
fn tail(path: &Path) -> std::io::Result<String> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
