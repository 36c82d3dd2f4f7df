//! Looking at everything there is for what is wrong (R12).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use host::store::PaneRow;
use model::agent::Agent;
use model::agent::probe::{Program, Verdict};
use model::health::conversation;
use model::health::{Finding, Health, Kind, Severity, Subject, agent as state};
use model::{ConversationId, PaneId};
use protocol::control::Response;
use protocol::pane::{Request as KeeperRequest, Response as KeeperResponse};
use rustix::process::geteuid;

use super::Failure;
use crate::conversation::Seen;
use crate::health::{Patient, Report, Ward, outside, pane, root};
use crate::keeper;
use crate::pane::{Life, Pane};
use crate::probe::Candidate;
use crate::supervisor::{Supervisor, run_blocking};

/// How long a keeper may take to answer. Longer than `show` waits: it is asked whether it hangs.
const PATIENCE: Duration = Duration::from_secs(3);

/// This release.
const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Supervisor {
    /// Looks at everything, and changes nothing but what is known of agents' programs.
    pub(super) async fn doctor(
        self: &Arc<Self>,
        client: BTreeMap<String, String>,
        version: String,
    ) -> Result<Response, Failure> {
        let mut report = Report::default();
        let looked_at = self.root.clone();
        let (config, invalid) = run_blocking(move || root::configuration(&looked_at)).await;
        report.add(invalid);
        report.add(other_release("daemon", VERSION, &version));
        report.add(self.problems().into_iter().map(|problem| noted("daemon", &problem)));
        let panes = self.panes_by_age(&mut report).await;
        report.add(self.silent_keepers(&panes).await);
        report.add(self.trespasses().await);
        report.add(self.commons.too_large());
        report.merge(self.installed(&client).await);
        for (pane, _) in &panes {
            self.refresh_conversation(pane, Seen::Watched).await;
        }
        let ward = Arc::new(Ward {
            root: self.root.clone(),
            us: geteuid().as_raw(),
            agents: config.agents,
            client,
            conversations: conversations(&panes),
        });
        self.examine_panes(&panes, &ward, &mut report).await;
        let known: BTreeSet<PaneId> = self.every_pane().iter().map(|pane| pane.id).collect();
        report.merge(run_blocking(move || root::examine(&ward, &known)).await);
        Ok(Response::Health(Health::of(report.findings, report.checked)))
    }

    /// Every pane that is not just coming or going, oldest first, with what to call it. A registry
    /// that cannot say so is no reason not to look.
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
        let mut panes = self.every_pane();
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

    /// What is wrong with the keepers of live panes. All are asked at once.
    async fn silent_keepers(self: &Arc<Self>, panes: &[(Arc<Pane>, Subject)]) -> Vec<Finding> {
        let asked: Vec<_> = panes
            .iter()
            .filter(|(_, subject)| subject.live)
            .map(|(pane, subject)| {
                let (pane, subject) = (Arc::clone(pane), subject.clone());
                self.tasks.spawn(async move { keeper_of(&pane, &subject).await })
            })
            .collect();
        let mut findings = Vec::new();
        for (pane, subject) in panes {
            findings.extend(pane.problem().map(|problem| noted(subject, &problem)));
        }
        for answer in asked {
            findings.extend(answer.await.unwrap_or_default());
        }
        findings
    }

    /// The agents that the client would start, each asked at once how it calls itself.
    async fn installed(self: &Arc<Self>, client: &BTreeMap<String, String>) -> Report {
        let search = client.get("PATH").cloned().unwrap_or_default();
        let found = run_blocking(move || {
            let agents = Agent::built_in().into_iter();
            let find = |agent: Agent| {
                let name = agent.command.first()?.clone();
                Candidate::find(agent, &name, &search, Path::new("/"))
            };
            agents.filter_map(find).collect::<Vec<Candidate>>()
        });
        let asked: Vec<_> = found
            .await
            .into_iter()
            .map(|candidate| {
                let this = Arc::clone(self);
                self.tasks.spawn(async move { this.ask_program(&candidate).await })
            })
            .collect();
        let mut report = Report::default();
        for program in asked {
            if let Ok(Some(program)) = program.await {
                report.checked.agents += 1;
                report.add([installed(&program)]);
            }
        }
        report
    }

    async fn examine_panes(
        self: &Arc<Self>,
        panes: &[(Arc<Pane>, Subject)],
        ward: &Arc<Ward>,
        report: &mut Report,
    ) {
        let (mut patients, mut states) = (Vec::new(), Vec::new());
        for (pane, subject) in panes {
            let program = self.program_of(pane, subject).await;
            // Whoever holds it makes or removes directories at this moment.
            let Ok(_turn) = pane.turn.try_lock() else { continue };
            if matches!(pane.life(), Life::Starting | Life::Gone(_)) {
                continue;
            }
            let patient = patient(pane, subject, program);
            let (examined, surroundings) = (patient.clone(), Arc::clone(ward));
            let seen = run_blocking(move || pane::examine(&examined, &surroundings)).await;
            report.merge(seen.0);
            states.extend(seen.1);
            patients.push(patient);
        }
        report.add(state::one_file(&states));
        report.add(conversation::shared(&ward.conversations));
        let surroundings = Arc::clone(ward);
        report.merge(run_blocking(move || outside::examine(&patients, &surroundings)).await);
    }

    /// The program whose login a pane depends on. That of a live pane is asked if need be.
    async fn program_of(&self, pane: &Pane, subject: &Subject) -> Option<Program> {
        let candidate = self.candidate(pane).await?;
        let is_its_own = pane.launch().is_some_and(|own| own.agent == candidate.agent.name);
        if subject.live && is_its_own && candidate.agent.logins.store.is_some() {
            self.ask_program(&candidate).await
        } else {
            self.known_program(&candidate.identity).await
        }
    }
}

fn subject(pane: &Pane, rows: &[PaneRow]) -> Subject {
    let row = rows.iter().find(|row| row.id == pane.id).map(|row| row.name.clone());
    let name = row.or_else(|| pane.launch().map(|launch| launch.name.clone()));
    let name = name.unwrap_or_else(|| model::Name::near(&pane.id.short()));
    Subject { id: pane.id, name, live: pane.look().state.is_live() }
}

fn patient(pane: &Pane, subject: &Subject, program: Option<Program>) -> Patient {
    let sight = pane.look();
    let live = sight.state.is_live();
    let head = sight.keeper.filter(|_| live).map(|keeper| keeper.record.child.clone());
    Patient {
        subject: Subject { live, ..subject.clone() },
        session: pane.session,
        dir: pane.dir.clone(),
        launch: pane.launch(),
        head,
        program,
    }
}

/// Which panes have which conversation.
fn conversations(panes: &[(Arc<Pane>, Subject)]) -> BTreeMap<ConversationId, Vec<Subject>> {
    let mut all: BTreeMap<ConversationId, Vec<Subject>> = BTreeMap::new();
    for (pane, subject) in panes {
        if let Some(id) = pane.launch().and_then(|launch| launch.conversation.clone()) {
            all.entry(id).or_default().push(subject.clone());
        }
    }
    all
}

/// What is wrong with the keeper of a live pane.
async fn keeper_of(pane: &Pane, subject: &Subject) -> Vec<Finding> {
    let Some(keeper) = pane.look().keeper else { return Vec::new() };
    if let Some(why) = keeper.incompatible() {
        let remedy = format!("{}: it is then kept by this release", subject.again());
        let kind = Kind::KeeperIncompatible;
        return vec![Finding::new(Severity::Warning, subject, kind, why, remedy)];
    }
    let mut findings: Vec<Finding> =
        other_release(subject, &keeper.record.version, VERSION).into_iter().collect();
    let silent = match keeper::ask(&pane.dir, &KeeperRequest::Status, PATIENCE).await {
        Ok(KeeperResponse::Status(_)) => return findings,
        Ok(_) => "it answered something else".to_owned(),
        Err(silent) => silent.to_string(),
    };
    // It may have ended since it was looked at.
    if pane.look().state.is_live() {
        let evidence = format!("keeper {}: {silent}", keeper.record.keeper.pid);
        let remedy = format!("if it stays so: {}; its output is kept", subject.again());
        let kind = Kind::KeeperSilent;
        findings.push(Finding::new(Severity::Error, subject, kind, evidence, remedy));
    }
    findings
}

/// That something is of another release than what it is compared with.
fn other_release(subject: impl std::fmt::Display, found: &str, expected: &str) -> Option<Finding> {
    (found != expected).then(|| {
        let evidence = format!("it is ccmux {found}, and not {expected}");
        let remedy = "none is needed; a daemon is replaced by `ccmux daemon stop` and the next \
                      command, a keeper when its pane is started again";
        Finding::new(Severity::Info, subject, Kind::OtherRelease, evidence, remedy)
    })
}

fn noted(subject: impl std::fmt::Display, problem: &str) -> Finding {
    let remedy = "see the daemon's log, `run/daemon.log` in the state root, for when and why";
    Finding::new(Severity::Warning, subject, Kind::Problem, problem, remedy)
}

fn installed(program: &Program) -> Finding {
    let version = program.version.as_deref().unwrap_or("of an unknown release");
    let login = match &program.verdict {
        None => String::new(),
        Some(Verdict::Honoured) => "; it uses the login that panes share".to_owned(),
        Some(Verdict::Ignored) => "; it does not use the login that panes share".to_owned(),
        Some(Verdict::Unclear { why }) => format!("; whether it shares a login is unclear: {why}"),
    };
    let evidence = format!("{version}, `{}`{login}", program.identity.path);
    let subject = format!("agent {}", program.identity.agent);
    Finding::new(Severity::Info, subject, Kind::Agent, evidence, "")
}
