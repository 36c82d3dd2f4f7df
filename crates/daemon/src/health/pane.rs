//! Looking at one pane.

use std::path::Path;

use host::record;
use host::state::{self as kept, Found};
use host::{examine, mounts, process, repository, transcript};
use model::agent::traces::StateFile;
use model::agent::{Agent, Liveness};
use model::health::agent::{self as state, Owner};
use model::health::conversation::{self, Known, SessionFile, Speaker};
use model::health::place::{self, Expected, Shape, Sighting};
use model::health::{Subject, login, ownership, process as environment, saved};
use model::isolation::{AgentDir, Login, USER_HOME};
use model::launch::{PANE_ID, SESSION_ID};
use model::{ConversationId, LaunchRecord};

use super::{Patient, Report, Ward, conversations};
use crate::launch::PARTS;
use crate::pane::LAUNCH_RECORD;

/// The largest state file of an agent that is read.
const STATE_MAX: u64 = 64 << 20;

/// Looks at everything of a pane; also gives the state files that were seen. Blocks.
pub(crate) fn examine(patient: &Patient, ward: &Ward) -> (Report, Vec<(Subject, Sighting)>) {
    let mut report = Report::default();
    let mut states = Vec::new();
    report.checked.panes = 1;
    own_directories(patient, ward, &mut report);
    launch_record(patient, ward, &mut report);
    saved_state(patient, &mut report);
    let Some(launch) = &patient.launch else { return (report, states) };
    let here = directories_apart(patient, launch, ward, &mut report);
    head(patient, launch, ward, &mut report);
    if patient.head.as_ref().is_some_and(|head| mounts::is_open_for(head.pid, &ward.root.shared()))
    {
        report.add([environment::shared_is_open(&patient.subject)]);
    }
    for dir in &here {
        let Some(agent) = ward.agent(&dir.agent) else { continue };
        sessions(patient, launch, &agent, dir, ward, &mut report);
        if let Some(file) = agent.traces.state {
            states.extend(state_file(patient, launch, file, dir, ward, &mut report));
        }
    }
    transcript_of(patient, launch, &here, ward, &mut report);
    report.add(logged_in(patient, launch, ward));
    (report, states)
}

/// The pane's own directory and what is in it.
fn own_directories(patient: &Patient, ward: &Ward, report: &mut Report) {
    let parts = PARTS.iter().map(|part| patient.dir.join(part));
    for path in [patient.dir.clone()].into_iter().chain(parts) {
        let sighting = examine::sight(&path);
        report.checked.places += 1;
        let found = place::of_pane(&patient.subject, &sighting, Expected::Directory, ward.us);
        let is_whole = found.is_none();
        report.add(found);
        if !is_whole && path == patient.dir {
            // Nothing in it is where it should be either.
            return;
        }
    }
}

fn launch_record(patient: &Patient, ward: &Ward, report: &mut Report) {
    let path = patient.dir.join(LAUNCH_RECORD);
    report.checked.places += 1;
    match record::read::<LaunchRecord>(&path) {
        Err(error) => report.add([ownership::unreadable(&patient.subject, &error.to_string())]),
        Ok(found) => {
            let place = ownership::Place {
                path: &path.to_string_lossy(),
                session: patient.session,
                root: &ward.root_text(),
                us: ward.us,
                agents: &ward.agents,
            };
            report.add(ownership::judge(&patient.subject, &found, &place));
            let sighting = examine::sight(&path);
            report.add(place::of_pane(&patient.subject, &sighting, Expected::File, ward.us));
        }
    }
}

/// What was saved of the pane's state, and what of it had to be set aside.
fn saved_state(patient: &Patient, report: &mut Report) {
    let Patient { subject, session, dir, .. } = patient;
    report.checked.places += 1;
    report.add(match kept::look(dir, subject.id, *session) {
        Found::Nothing | Found::Own(_) => None,
        Found::Damaged(why) => Some(saved::damaged(subject, &why)),
        Found::Untouchable(why) => Some(saved::untouchable(subject, &why)),
    });
    let aside = kept::aside(dir);
    report.add(aside.iter().map(|path| saved::set_aside(subject, &path.to_string_lossy())));
}

/// The directories that keep a pane apart, where they have to be; those that are there are given.
fn directories_apart(
    patient: &Patient,
    launch: &LaunchRecord,
    ward: &Ward,
    report: &mut Report,
) -> Vec<AgentDir> {
    let mut here = Vec::new();
    for (path, place) in launch.isolation.places(&ward.root_text(), patient.subject.id) {
        let sighting = examine::sight(Path::new(&place));
        report.checked.places += 1;
        let found = place::of_pane(&patient.subject, &sighting, Expected::Directory, ward.us);
        let can_be_entered = sighting.found.is_ok_and(|found| found.shape == Shape::Directory);
        let of_agent = launch.isolation.dirs.iter().find(|dir| dir.path == path);
        if let Some(dir) = of_agent.filter(|_| can_be_entered) {
            here.push(AgentDir { agent: dir.agent.clone(), path: place });
        }
        report.add(found);
    }
    here
}

/// Whether the process at the head of the pane has what keeps it apart.
fn head(patient: &Patient, launch: &LaunchRecord, ward: &Ward, report: &mut Report) {
    let Some(head) = &patient.head else { return };
    let isolation = &launch.isolation;
    let required = isolation.required(&ward.root_text(), patient.subject.id, &ward.agents);
    let stores = isolation.dirs.iter().filter_map(|dir| ward.agent(&dir.agent)?.logins.store);
    let home = isolation.home.iter().map(|_| USER_HOME.to_owned());
    let names = required.into_iter().map(|(name, _)| name);
    let names = names.chain(stores.map(|store| store.variable.to_owned())).chain(home);
    let own = [
        (PANE_ID.to_owned(), patient.subject.id.to_string()),
        (SESSION_ID.to_owned(), patient.session.to_string()),
    ];
    let planned = names.filter_map(|name| {
        let value = launch.env.get(&name)?.to_owned();
        Some((name, value))
    });
    let expected: Vec<(String, String)> = own.into_iter().chain(planned).collect();
    let found = examine::environment(head.pid);
    // It may have ended while we looked, and its number may be another's.
    if process::is_alive(head) {
        report.checked.processes += 1;
        report.add(environment::judge(&patient.subject, head.pid, found.as_ref(), &expected));
    }
}

/// What running agents keep about themselves in one of the pane's directories.
fn sessions(
    patient: &Patient,
    launch: &LaunchRecord,
    agent: &Agent,
    dir: &AgentDir,
    ward: &Ward,
    report: &mut Report,
) {
    for (path, said) in transcript::live_files(agent, Path::new(&dir.path)) {
        let mut own: Vec<ConversationId> = conversations(launch).cloned().collect();
        if transcript::of(agent, Path::new(&dir.path), &said.conversation).is_some() {
            own.push(said.conversation.clone());
        }
        let known = Known {
            current: launch.conversation.as_ref(),
            own: &own,
            others: &ward.conversations,
            head: patient.head.as_ref().map(|head| head.pid),
            is_own_agent: launch.agent == agent.name,
        };
        let speaker = speaker(&said);
        let file = SessionFile { path: path.to_string_lossy().into_owned(), said, speaker };
        report.add(conversation::session(&patient.subject, &file, &known));
    }
}

/// Who says what a session file says.
pub(super) fn speaker(said: &Liveness) -> Speaker {
    let lives = process::stat(said.pid)
        .is_some_and(|now| !now.zombie && said.started.is_none_or(|then| then == now.start));
    if !lives {
        return Speaker::Gone;
    }
    match examine::environment(said.pid) {
        None => Speaker::Hidden,
        Some(mut environment) => {
            environment.remove(PANE_ID).map_or(Speaker::Unmarked, Speaker::Marked)
        }
    }
}

/// The agent's own state file, which is also given to be compared with others'.
fn state_file(
    patient: &Patient,
    launch: &LaunchRecord,
    file: StateFile,
    dir: &AgentDir,
    ward: &Ward,
    report: &mut Report,
) -> Option<(Subject, Sighting)> {
    let path = Path::new(&dir.path).join(file.at);
    let sighting = examine::sight(&path);
    let said = match examine::read(&path, STATE_MAX) {
        Ok(bytes) => (file.read)(&bytes),
        Err(error) => Err(error.to_string()),
    };
    let own: Vec<ConversationId> = conversations(launch).cloned().collect();
    let owner = Owner {
        directories: &repository::trust_roots(Path::new(&launch.cwd)),
        conversations: &own,
        others: &ward.conversations,
        us: ward.us,
    };
    report.checked.places += 1;
    report.add(state::state(&patient.subject, &sighting, &said, &owner));
    Some((patient.subject.clone(), sighting))
}

/// Whether what was said in the pane's conversation is still there.
fn transcript_of(
    patient: &Patient,
    launch: &LaunchRecord,
    here: &[AgentDir],
    ward: &Ward,
    report: &mut Report,
) {
    let Some(id) = &launch.conversation else { return };
    report.checked.conversations += 1;
    let Some(agent) = ward.agent(&launch.agent).filter(Agent::keeps_transcripts) else { return };
    let Some(dir) = launch.isolation.dir_of(&agent.name) else { return };
    let place = here.iter().find(|dir| dir.agent == agent.name);
    let found = place.and_then(|dir| transcript::of(&agent, Path::new(&dir.path), id));
    if launch.used && found.is_none() {
        let database = agent.conversations.database.map(|database| database.path.to_owned());
        let inside = agent.transcript_of(id).or(database).unwrap_or_default();
        let expected = format!("{dir}/{inside}");
        report.add([conversation::transcript_missing(&patient.subject, id, &expected)]);
    }
}

fn logged_in(
    patient: &Patient,
    launch: &LaunchRecord,
    ward: &Ward,
) -> Option<model::health::Finding> {
    let own = ward.agent(&launch.agent)?;
    let is_own_agent = !own.variables.is_empty();
    let agent = if is_own_agent { own } else { Agent::everywhere().into_iter().next()? };
    let store = agent.logins.store;
    let store_has_login = match (&launch.isolation.login, store) {
        (Login::Store { dir, .. } | Login::Asks { store: Some(dir) }, Some(store)) => {
            Path::new(dir).join(store.file).exists()
        }
        _ => false,
    };
    let kept = launch.isolation.dir_of(&agent.name).zip(agent.traces.own_login);
    let evidence = login::Evidence {
        login: &launch.isolation.login,
        program: patient.program.as_ref(),
        store_has_login,
        own_login: kept.is_some_and(|(dir, file)| Path::new(dir).join(file).exists()),
        is_own_agent,
        otherwise: store.map_or("", |store| store.probe.otherwise),
    };
    Some(login::judge(&patient.subject, &evidence))
}
