//! Gathers evidence for `model::health` from panes, the state root, and the user's own directories,
//! into which nothing of a pane may leak.
//!
//! The checks are read-only and do not follow symbolic links. `model` derives the findings from the
//! evidence.

mod examination;
mod pane;
mod root;
mod user_dirs;

pub(crate) use self::examination::Probing;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use host::StateRoot;
use model::agent::probe::Program;
use model::config::AgentConfig;
use model::conversation::ConversationRequest;
use model::health::{Checked, Finding, Subject};
use model::isolation::Method;
use model::{ConversationId, LaunchRecord, ProcessIdentity, SessionId};

use crate::coordination::Coordination;
use crate::panes::Panes;
use crate::registry::Registry;
use crate::runtime::Runtime;

/// Examines panes, the state root and the user's own directories.
pub(crate) struct Health {
    runtime: Arc<Runtime>,
    registry: Registry,
    panes: Arc<Panes>,
    coordination: Arc<Coordination>,
}

impl Health {
    pub(crate) fn new(
        runtime: Arc<Runtime>,
        registry: Registry,
        panes: Arc<Panes>,
        coordination: Arc<Coordination>,
    ) -> Self {
        Self { runtime, registry, panes, coordination }
    }
}

/// The values that all checks share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) root: StateRoot,
    /// The id of the user that must own all files.
    pub(crate) uid: u32,
    /// The agents that the configuration defines.
    pub(crate) agents: BTreeMap<String, AgentConfig>,
    /// The environment of the client, which locates the user's own directories.
    pub(crate) client: BTreeMap<String, String>,
    /// The panes of each current conversation.
    pub(crate) conversations: BTreeMap<ConversationId, Vec<Subject>>,
}

/// A pane under examination.
#[derive(Clone, Debug)]
pub(crate) struct ExaminedPane {
    pub(crate) subject: Subject,
    pub(crate) session: SessionId,
    pub(crate) dir: PathBuf,
    /// The launch record that the daemon has in memory.
    pub(crate) launch: Option<Arc<LaunchRecord>>,
    /// The first process of the pane, while it is running.
    pub(crate) head: Option<ProcessIdentity>,
    /// The program whose login the pane uses, if it was probed.
    pub(crate) program: Option<Program>,
}

/// The findings so far, and the number of checked items.
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

impl Context {
    /// Returns the path of the state root as text, as in records.
    pub(crate) fn root_text(&self) -> String {
        self.root.path().to_string_lossy().into_owned()
    }

    /// Returns the definition of an agent, if there is one.
    fn agent(&self, name: &str) -> Option<model::agent::Agent> {
        model::agent::Agent::named(name, &self.agents).ok()
    }
}

impl ExaminedPane {
    /// Returns the launch record, if the pane is isolated.
    fn isolated_launch(&self) -> Option<&LaunchRecord> {
        self.launch.as_deref().filter(|launch| launch.isolation.method != Method::None)
    }
}

/// Returns the current and all earlier conversations of a pane.
fn conversations(launch: &LaunchRecord) -> impl Iterator<Item = &ConversationId> {
    launch.conversation.iter().chain(&launch.earlier)
}

/// Returns the conversation that the pane was started to resume. It existed before the pane.
fn brought_conversation(
    launch: &LaunchRecord,
    agent: &model::agent::Agent,
) -> Option<ConversationId> {
    match agent.asked(launch.asked()) {
        ConversationRequest::Resume(id) => Some(id),
        ConversationRequest::Nothing
        | ConversationRequest::New(_)
        | ConversationRequest::AgentChooses
        | ConversationRequest::None => None,
    }
}
