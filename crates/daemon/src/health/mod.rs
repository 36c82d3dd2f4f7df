//! Gathering evidence for `model::health`: looking at panes, at the state root, and at the places
//! of the user's own that nothing may leak into.
//!
//! Everything in here blocks, changes nothing, and follows no link. What follows from what was seen
//! is decided by `model`.

pub(crate) mod outside;
pub(crate) mod pane;
pub(crate) mod root;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use host::StateRoot;
use model::agent::probe::Program;
use model::config::AgentConfig;
use model::conversation::Asked;
use model::health::{Checked, Finding, Subject};
use model::isolation::Method;
use model::{ConversationId, LaunchRecord, ProcessIdentity, SessionId};

/// What holds for all panes.
#[derive(Debug)]
pub(crate) struct Ward {
    pub(crate) root: StateRoot,
    /// The user that everything must belong to.
    pub(crate) us: u32,
    /// The agents that the user has defined.
    pub(crate) agents: BTreeMap<String, AgentConfig>,
    /// What the asking client says about where things are.
    pub(crate) client: BTreeMap<String, String>,
    /// Which panes have which conversations now.
    pub(crate) conversations: BTreeMap<ConversationId, Vec<Subject>>,
}

/// A pane that is looked at.
#[derive(Clone, Debug)]
pub(crate) struct Patient {
    pub(crate) subject: Subject,
    pub(crate) session: SessionId,
    pub(crate) dir: PathBuf,
    /// What the daemon goes by.
    pub(crate) launch: Option<Arc<LaunchRecord>>,
    /// The process at its head, while it lives.
    pub(crate) head: Option<ProcessIdentity>,
    /// The program whose login it depends on, as far as it was asked.
    pub(crate) program: Option<Program>,
}

/// What was found so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) findings: Vec<Finding>,
    pub(crate) checked: Checked,
}

impl Report {
    pub(crate) fn add(&mut self, found: impl IntoIterator<Item = Finding>) {
        self.findings.extend(found);
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.findings.extend(other.findings);
        let (ours, theirs) = (&mut self.checked, other.checked);
        ours.panes += theirs.panes;
        ours.places += theirs.places;
        ours.processes += theirs.processes;
        ours.conversations += theirs.conversations;
        ours.own_places += theirs.own_places;
        ours.agents += theirs.agents;
    }
}

impl Ward {
    /// The state root as text, as records have it.
    pub(crate) fn root_text(&self) -> String {
        self.root.path().to_string_lossy().into_owned()
    }

    /// The agent of a pane, unless nobody has described it.
    fn agent(&self, name: &str) -> Option<model::agent::Agent> {
        model::agent::Agent::named(name, &self.agents).ok()
    }
}

impl Patient {
    /// What it was started as, if anything keeps it apart.
    fn isolated(&self) -> Option<&LaunchRecord> {
        self.launch.as_deref().filter(|launch| launch.isolation.method != Method::None)
    }
}

/// Every conversation that a pane has or had.
fn conversations(launch: &LaunchRecord) -> impl Iterator<Item = &ConversationId> {
    launch.conversation.iter().chain(&launch.earlier)
}

/// The conversation that the user's own arguments go on with: it was somewhere else before.
fn brought(launch: &LaunchRecord, agent: &model::agent::Agent) -> Option<ConversationId> {
    match agent.asked(launch.asked()) {
        Asked::Resume(id) => Some(id),
        Asked::Nothing | Asked::New(_) | Asked::AgentChooses | Asked::None => None,
    }
}
