//! The complete examination that `ccmux doctor` requests (R12).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use host::store::PaneRow;
use model::agent::Agent;
use model::agent::probe::{Program, Verdict};
use model::authority::Caller;
use model::health::conversation;
use model::health::{Finding, FindingKind, Severity, Subject, agent as state};
use model::http::Scope;
use model::{ConversationId, PaneId};
use protocol::pane::{Request as KeeperRequest, Response as KeeperResponse};
use rustix::process::geteuid;

use super::{Context, ExaminedPane, Health, Report, pane, root, user_dirs};
use crate::panes::probe::AgentProgram;
use crate::panes::{Life, Pane, Tracking};
use crate::runtime::run_blocking;
use crate::wire::keeper;

/// The time limit for a keeper's reply. Longer than that of `show`, because a keeper that exceeds it
/// is reported as unresponsive.
const KEEPER_TIMEOUT: Duration = Duration::from_secs(3);

/// The version of this daemon.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Whether a check may run the programs of agents.
///
/// A probe runs a program outside of all panes. A pane could name its own program in `PATH`, and a
/// read token must not start processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probing {
    /// Runs programs without a cached result.
    Run,
    /// Uses cached results only.
    CachedOnly,
}

impl Probing {
    /// Returns what a caller may cause.
    pub(crate) fn of(caller: &Caller) -> Self {
        match caller {
            Caller::Daemon | Caller::LocalUser | Caller::HttpToken { scope: Scope::Control } => {
                Self::Run
            }
            Caller::Pane { .. } | Caller::HttpToken { scope: Scope::Read } => Self::CachedOnly,
        }
    }
}

impl Health {
    /// Runs all checks. Changes nothing except the cached results of agent probes.
    pub(crate) async fn examine(
        self: &Arc<Self>,
        client: BTreeMap<String, String>,
        version: String,
        probing: Probing,
    ) -> model::health::Health {
        let mut report = Report::default();
        let state_root = self.runtime.root.clone();
        let (config, invalid) = run_blocking(move || root::configuration(&state_root)).await;
        report.add(invalid);
        report.add(version_mismatch("daemon", VERSION, &version));
        report.add(
            self.runtime.problems().into_iter().map(|problem| problem_finding("daemon", &problem)),
        );
        let panes = self.panes_by_age(&mut report).await;
        report.add(self.check_keepers(&panes).await);
        report.add(self.coordination.conflict_findings().await);
        report.add(self.coordination.shared_trees.findings());
        report.merge(self.installed_agents(&client, probing).await);
        for (pane, _) in &panes {
            self.panes.conversations.refresh(pane, Tracking::Continuous).await;
        }
        let context = Arc::new(Context {
            root: self.runtime.root.clone(),
            uid: geteuid().as_raw(),
            agents: config.agents,
            client,
            conversations: conversations(&panes),
        });
        self.examine_panes(&panes, &context, probing, &mut report).await;
        let known: BTreeSet<PaneId> = self.panes.all().iter().map(|pane| pane.id).collect();
        report.merge(run_blocking(move || root::examine(&context, &known)).await);
        report.add(root::identity(&self.runtime.examined_root.identity));
        model::health::Health::of(report.findings, report.checked)
    }

    /// Returns all panes with their subjects, oldest first, except those that are being started or
    /// removed. If the registry cannot be read, that is reported and the order is by id.
    async fn panes_by_age(&self, report: &mut Report) -> Vec<(Arc<Pane>, Subject)> {
        let read = self.registry.read(|change| change.panes());
        let rows: Vec<PaneRow> = match read.await {
            Ok(rows) => rows,
            Err(error) => {
                report.add([root::damaged(&error)]);
                Vec::new()
            }
        };
        let age: BTreeMap<PaneId, u64> = rows.iter().map(|row| (row.id, row.seq)).collect();
        let mut panes = self.panes.all();
        panes.retain(|pane| !matches!(pane.life(), Life::Starting | Life::Gone(_)));
        panes.sort_by_key(|pane| (age.get(&pane.id).copied(), pane.id));
        panes
            .into_iter()
            .map(|pane| {
                let subject = subject(&pane, &rows);
                (pane, subject)
            })
            .collect()
    }

    /// Checks the keepers of live panes, concurrently, and reports the known problems of all panes.
    async fn check_keepers(self: &Arc<Self>, panes: &[(Arc<Pane>, Subject)]) -> Vec<Finding> {
        let asked: Vec<_> = panes
            .iter()
            .filter(|(_, subject)| subject.live)
            .map(|(pane, subject)| {
                let (pane, subject) = (Arc::clone(pane), subject.clone());
                self.runtime.tasks.spawn(async move { check_keeper(&pane, &subject).await })
            })
            .collect();
        let mut findings = Vec::new();
        for (pane, subject) in panes {
            findings.extend(pane.problem().map(|problem| problem_finding(subject, &problem)));
            let over = pane.status().over_limit;
            findings.extend(over.map(|over| over_limit_finding(subject, &over.why)));
        }
        for answer in asked {
            findings.extend(answer.await.unwrap_or_default());
        }
        findings
    }

    /// Probes the agents found in the client's `PATH`, concurrently, for version and login.
    async fn installed_agents(
        self: &Arc<Self>,
        client: &BTreeMap<String, String>,
        probing: Probing,
    ) -> Report {
        let search = client.get("PATH").cloned().unwrap_or_default();
        let found = run_blocking(move || {
            let agents = Agent::built_in().into_iter();
            let find = |agent: Agent| {
                let name = agent.command.first()?.clone();
                AgentProgram::find(agent, &name, &search, Path::new("/"))
            };
            agents.filter_map(find).collect::<Vec<AgentProgram>>()
        });
        let asked: Vec<_> = found
            .await
            .into_iter()
            .map(|candidate| {
                let this = Arc::clone(self);
                self.runtime.tasks.spawn(async move { this.program(&candidate, probing).await })
            })
            .collect();
        let mut report = Report::default();
        for program in asked {
            if let Ok(Some(program)) = program.await {
                report.checked.agents += 1;
                report.add([installed_finding(&program)]);
            }
        }
        report
    }

    /// Checks each pane, then the panes against each other and the user's own directories.
    async fn examine_panes(
        self: &Arc<Self>,
        panes: &[(Arc<Pane>, Subject)],
        context: &Arc<Context>,
        probing: Probing,
        report: &mut Report,
    ) {
        let (mut examined, mut states) = (Vec::new(), Vec::new());
        for (pane, subject) in panes {
            let program = self.program_of(pane, subject, probing).await;
            // Locked while directories of the pane are created or removed.
            let Ok(_guard) = pane.lifecycle_lock.try_lock() else { continue };
            if matches!(pane.life(), Life::Starting | Life::Gone(_)) {
                continue;
            }
            let target = examined_pane(pane, subject, program);
            let (checked, shared) = (target.clone(), Arc::clone(context));
            let (found, state) = run_blocking(move || pane::examine(&checked, &shared)).await;
            report.merge(found);
            states.extend(state);
            examined.push(target);
        }
        report.add(state::one_file(&states));
        report.add(conversation::shared(&context.conversations));
        let shared = Arc::clone(context);
        report.merge(run_blocking(move || user_dirs::examine(&examined, &shared)).await);
    }

    /// Returns the program whose login a pane uses. The program of a live pane is probed if no result
    /// is cached.
    async fn program_of(
        &self,
        pane: &Pane,
        subject: &Subject,
        probing: Probing,
    ) -> Option<Program> {
        let candidate = self.panes.probes.program_of(pane).await?;
        let is_its_own = pane.launch().is_some_and(|own| own.agent == candidate.agent.name);
        if subject.live && is_its_own && candidate.agent.logins.store.is_some() {
            self.program(&candidate, probing).await
        } else {
            self.panes.probes.known_program(&candidate.identity).await
        }
    }

    async fn program(&self, candidate: &AgentProgram, probing: Probing) -> Option<Program> {
        match probing {
            Probing::Run => self.panes.probes.probe(candidate).await,
            Probing::CachedOnly => self.panes.probes.known_program(&candidate.identity).await,
        }
    }
}

fn subject(pane: &Pane, rows: &[PaneRow]) -> Subject {
    let row = rows.iter().find(|row| row.id == pane.id).map(|row| row.name.clone());
    let name = row.or_else(|| pane.launch().map(|launch| launch.name.clone()));
    let name = name.unwrap_or_else(|| model::Name::near(&pane.id.short()));
    Subject { id: pane.id, name, live: pane.status().state.is_live() }
}

fn examined_pane(pane: &Pane, subject: &Subject, program: Option<Program>) -> ExaminedPane {
    let status = pane.status();
    let live = status.state.is_live();
    let head = status.keeper.filter(|_| live).map(|keeper| keeper.record.child.clone());
    ExaminedPane {
        subject: Subject { live, ..subject.clone() },
        session: pane.session,
        dir: pane.dir.clone(),
        launch: pane.launch(),
        head,
        program,
    }
}

/// Returns the panes of each conversation.
fn conversations(panes: &[(Arc<Pane>, Subject)]) -> BTreeMap<ConversationId, Vec<Subject>> {
    let mut all: BTreeMap<ConversationId, Vec<Subject>> = BTreeMap::new();
    for (pane, subject) in panes {
        if let Some(id) = pane.launch().and_then(|launch| launch.conversation.clone()) {
            all.entry(id).or_default().push(subject.clone());
        }
    }
    all
}

/// Checks the keeper of a live pane.
async fn check_keeper(pane: &Pane, subject: &Subject) -> Vec<Finding> {
    let Some(keeper) = pane.status().keeper else { return Vec::new() };
    if let Some(why) = keeper.incompatible() {
        let remedy = format!("{}; its keeper is then of this release", subject.again());
        let kind = FindingKind::KeeperIncompatible;
        return vec![Finding::new(Severity::Warning, subject, kind, why, remedy)];
    }
    let mut findings: Vec<Finding> =
        version_mismatch(subject, &keeper.record.version, VERSION).into_iter().collect();
    let failure = match keeper::ask(&pane.dir, &KeeperRequest::Status, KEEPER_TIMEOUT).await {
        Ok(KeeperResponse::Status(_)) => return findings,
        Ok(_) => "unexpected kind of response".to_owned(),
        Err(error) => error.to_string(),
    };
    // The pane may have ended meanwhile.
    if pane.status().state.is_live() {
        let evidence = format!("keeper {}: {failure}", keeper.record.keeper.pid);
        let remedy = format!("if the problem persists: {}; its output is kept", subject.again());
        let kind = FindingKind::KeeperSilent;
        findings.push(Finding::new(Severity::Error, subject, kind, evidence, remedy));
    }
    findings
}

/// Reports a component whose version differs from the expected one.
fn version_mismatch(
    subject: impl std::fmt::Display,
    found: &str,
    expected: &str,
) -> Option<Finding> {
    (found != expected).then(|| {
        let evidence = format!("version {found}, expected {expected}");
        let remedy = "none is needed; `ccmux daemon stop` and the next command replace a daemon, \
                      restarting a pane replaces its keeper";
        Finding::new(Severity::Info, subject, FindingKind::OtherRelease, evidence, remedy)
    })
}

fn problem_finding(subject: impl std::fmt::Display, problem: &str) -> Finding {
    let remedy = "for details see the daemon's log, `run/daemon.log` in the state root";
    Finding::new(Severity::Warning, subject, FindingKind::Problem, problem, remedy)
}

fn over_limit_finding(subject: &Subject, why: &str) -> Finding {
    let remedy = format!(
        "`ccmux limit {0}` shows its usage; remove files it no longer needs, or raise the limit: \
         `ccmux limit {0} disk=4G`",
        subject.name
    );
    Finding::new(Severity::Warning, subject, FindingKind::Problem, why, remedy)
}

fn installed_finding(program: &Program) -> Finding {
    let version = program.version.as_deref().unwrap_or("unknown version");
    let login = match &program.verdict {
        None => String::new(),
        Some(Verdict::Honoured) => "; it uses the shared login".to_owned(),
        Some(Verdict::Ignored) => "; it does not use the shared login".to_owned(),
        Some(Verdict::Unclear { why }) => {
            format!("; it is unclear whether it uses the shared login: {why}")
        }
    };
    let evidence = format!("{version}, `{}`{login}", program.identity.path);
    let subject = format!("agent {}", program.identity.agent);
    Finding::new(Severity::Info, subject, FindingKind::Agent, evidence, "")
}
