//! Checks of one pane.

use std::fs;
use std::path::{Path, PathBuf};

use host::record;
use host::state::{self as kept, SavedStateFile};
use host::workspace::{WORKSPACE, WorkDir};
use host::{inspect, mounts, process, repository, transcript};
use model::agent::traces::StateFile;
use model::agent::{Agent, Liveness};
use model::health::agent as state;
use model::health::agent::StateOwner;
use model::health::conversation::{self, Known, SessionFile, Speaker};
use model::health::place;
use model::health::place::{Expected, FileObservation, Shape};
use model::health::{Subject, login, ownership, process as environment, saved};
use model::isolation::{AgentDir, Login, USER_HOME};
use model::launch::{PANE_ID, SESSION_ID};
use model::{ConversationId, LaunchRecord};

use super::{Context, ExaminedPane, Report, conversations};
use crate::panes::launch::PANE_SUBDIRS;
use crate::panes::pane::LAUNCH_RECORD;

/// The maximum size of an agent's state file, in bytes. A larger one is not read.
const MAX_STATE_SIZE: u64 = 64 << 20;

/// Runs all checks of a pane. Also returns the agents' state files, to be compared with those of
/// other panes. Blocks.
pub(crate) fn examine(
    pane: &ExaminedPane,
    context: &Context,
) -> (Report, Vec<(Subject, FileObservation)>) {
    let mut report = Report::default();
    let mut states = Vec::new();
    report.checked.panes = 1;
    own_directories(pane, context, &mut report);
    launch_record(pane, context, &mut report);
    saved_state(pane, &mut report);
    let Some(launch) = &pane.launch else { return (report, states) };
    let agent_dirs = isolated_directories(pane, launch, context, &mut report);
    first_process(pane, launch, context, &mut report);
    if pane
        .head
        .as_ref()
        .is_some_and(|head| mounts::is_writable_for(head.pid, &context.root.shared()))
    {
        report.add([environment::shared_is_open(&pane.subject)]);
    }
    for dir in &agent_dirs {
        let Some(agent) = context.agent(&dir.agent) else { continue };
        sessions(pane, launch, &agent, dir, context, &mut report);
        if let Some(file) = agent.traces.state {
            states.extend(state_file(pane, launch, file, dir, context, &mut report));
        }
    }
    transcript_of(pane, launch, &agent_dirs, context, &mut report);
    report.add(login_of(pane, launch, context));
    (report, states)
}

/// Returns the path of a subdirectory. The workspace may be a link to the pane's tree in `work/`.
fn place_of(pane: &ExaminedPane, context: &Context, part: &str) -> PathBuf {
    let path = pane.dir.join(part);
    if part != WORKSPACE {
        return path;
    }
    let work_dir = WorkDir::find(context.root.path(), &pane.dir);
    let tree = work_dir.map(|dir| dir.present().join(dir.project()));
    let leads_to = |tree: &PathBuf| fs::canonicalize(&path).ok() == fs::canonicalize(tree).ok();
    tree.filter(leads_to).unwrap_or(path)
}

/// Checks the pane's own directory and its subdirectories.
fn own_directories(pane: &ExaminedPane, context: &Context, report: &mut Report) {
    let parts = PANE_SUBDIRS.iter().map(|part| place_of(pane, context, part));
    for path in [pane.dir.clone()].into_iter().chain(parts) {
        let observed = inspect::path_status(&path);
        report.checked.places += 1;
        let found = place::of_pane(&pane.subject, &observed, Expected::Directory, context.uid);
        let is_whole = found.is_none();
        report.add(found);
        if !is_whole && path == pane.dir {
            // Its subdirectories would only repeat the finding.
            return;
        }
    }
}

/// Checks the launch record and its owner.
fn launch_record(pane: &ExaminedPane, context: &Context, report: &mut Report) {
    let path = pane.dir.join(LAUNCH_RECORD);
    report.checked.places += 1;
    match record::read::<LaunchRecord>(&path) {
        Err(error) => report.add([ownership::unreadable(&pane.subject, &error.to_string())]),
        Ok(found) => {
            let place = ownership::RecordLocation {
                path: &path.to_string_lossy(),
                session: pane.session,
                root: &context.root_text(),
                us: context.uid,
                agents: &context.agents,
            };
            report.add(ownership::judge(&pane.subject, &found, &place));
            let observed = inspect::path_status(&path);
            report.add(place::of_pane(&pane.subject, &observed, Expected::File, context.uid));
        }
    }
}

/// Checks the saved state of the pane, and reports states that were set aside.
fn saved_state(pane: &ExaminedPane, report: &mut Report) {
    let ExaminedPane { subject, session, dir, .. } = pane;
    report.checked.places += 1;
    report.add(match kept::read(dir, subject.id, *session) {
        SavedStateFile::Missing | SavedStateFile::Valid(_) => None,
        SavedStateFile::Damaged(why) => Some(saved::damaged(subject, &why)),
        SavedStateFile::Unusable(why) => Some(saved::untouchable(subject, &why)),
    });
    let aside = kept::list_set_aside(dir);
    report.add(aside.iter().map(|path| saved::set_aside(subject, &path.to_string_lossy())));
}

/// Checks the isolated directories of the pane. Returns those of agents that exist.
fn isolated_directories(
    pane: &ExaminedPane,
    launch: &LaunchRecord,
    context: &Context,
    report: &mut Report,
) -> Vec<AgentDir> {
    let mut agent_dirs = Vec::new();
    for (path, place) in launch.isolation.places(&context.root_text(), pane.subject.id) {
        let observed = inspect::path_status(Path::new(&place));
        report.checked.places += 1;
        let found = place::of_pane(&pane.subject, &observed, Expected::Directory, context.uid);
        let is_directory = observed.found.is_ok_and(|found| found.shape == Shape::Directory);
        let of_agent = launch.isolation.dirs.iter().find(|dir| dir.path == path);
        if let Some(dir) = of_agent.filter(|_| is_directory) {
            agent_dirs.push(AgentDir { agent: dir.agent.clone(), path: place });
        }
        report.add(found);
    }
    agent_dirs
}

/// Checks that the environment of the pane's first process isolates it as planned.
fn first_process(
    pane: &ExaminedPane,
    launch: &LaunchRecord,
    context: &Context,
    report: &mut Report,
) {
    let Some(head) = &pane.head else { return };
    let isolation = &launch.isolation;
    let required = model::launch::isolation::required(
        isolation,
        &context.root_text(),
        pane.subject.id,
        &context.agents,
    );
    let stores = isolation.dirs.iter().filter_map(|dir| context.agent(&dir.agent)?.logins.store);
    let home = isolation.home.iter().map(|_| USER_HOME.to_owned());
    let names = required.into_iter().map(|(name, _)| name);
    let names = names.chain(stores.map(|store| store.variable.to_owned())).chain(home);
    let own = [
        (PANE_ID.to_owned(), pane.subject.id.to_string()),
        (SESSION_ID.to_owned(), pane.session.to_string()),
    ];
    let planned = names.filter_map(|name| {
        let value = launch.env.get(&name)?.to_owned();
        Some((name, value))
    });
    let expected: Vec<(String, String)> = own.into_iter().chain(planned).collect();
    let found = inspect::environment(head.pid);
    // The process may have ended meanwhile, and its id may have been reused.
    if process::is_alive(head) {
        report.checked.processes += 1;
        report.add(environment::judge(&pane.subject, head.pid, found.as_ref(), &expected));
    }
}

/// Checks the session files that running agents keep in one of the pane's directories.
fn sessions(
    pane: &ExaminedPane,
    launch: &LaunchRecord,
    agent: &Agent,
    dir: &AgentDir,
    context: &Context,
    report: &mut Report,
) {
    for (path, said) in transcript::live_files(agent, Path::new(&dir.path)) {
        let mut own: Vec<ConversationId> = conversations(launch).cloned().collect();
        if transcript::find(agent, Path::new(&dir.path), &said.conversation).is_some() {
            own.push(said.conversation.clone());
        }
        let known = Known {
            current: launch.conversation.as_ref(),
            own: &own,
            others: &context.conversations,
            head: pane.head.as_ref().map(|head| head.pid),
            is_own_agent: launch.agent == agent.name,
        };
        let speaker = speaker(&said);
        let file = SessionFile { path: path.to_string_lossy().into_owned(), said, speaker };
        report.add(conversation::session(&pane.subject, &file, &known));
    }
}

/// Returns which process wrote a session file.
pub(super) fn speaker(said: &Liveness) -> Speaker {
    let is_running = process::stat(said.pid)
        .is_some_and(|now| !now.zombie && said.started.is_none_or(|then| then == now.start));
    if !is_running {
        return Speaker::Gone;
    }
    match inspect::environment(said.pid) {
        None => Speaker::Hidden,
        Some(mut environment) => {
            environment.remove(PANE_ID).map_or(Speaker::Unmarked, Speaker::Marked)
        }
    }
}

/// Checks the agent's state file, and returns it to be compared with those of other panes.
fn state_file(
    pane: &ExaminedPane,
    launch: &LaunchRecord,
    file: StateFile,
    dir: &AgentDir,
    context: &Context,
    report: &mut Report,
) -> Option<(Subject, FileObservation)> {
    let path = Path::new(&dir.path).join(file.at);
    let observed = inspect::path_status(&path);
    let said = match inspect::read_file(&path, MAX_STATE_SIZE) {
        Ok(bytes) => (file.read)(&bytes),
        Err(error) => Err(error.to_string()),
    };
    let own: Vec<ConversationId> = conversations(launch).cloned().collect();
    let owner = StateOwner {
        directories: &repository::trust_roots(Path::new(&launch.cwd)),
        conversations: &own,
        others: &context.conversations,
        us: context.uid,
    };
    report.checked.places += 1;
    report.add(state::state(&pane.subject, &observed, &said, &owner));
    Some((pane.subject.clone(), observed))
}

/// Checks that the transcript of the pane's conversation exists.
fn transcript_of(
    pane: &ExaminedPane,
    launch: &LaunchRecord,
    agent_dirs: &[AgentDir],
    context: &Context,
    report: &mut Report,
) {
    let Some(id) = &launch.conversation else { return };
    report.checked.conversations += 1;
    let Some(agent) = context.agent(&launch.agent).filter(Agent::keeps_transcripts) else { return };
    let Some(dir) = launch.isolation.dir_of(&agent.name) else { return };
    let place = agent_dirs.iter().find(|dir| dir.agent == agent.name);
    let found = place.and_then(|dir| transcript::find(&agent, Path::new(&dir.path), id));
    if launch.used && found.is_none() {
        let database = agent.conversations.database.map(|database| database.path.to_owned());
        let inside = agent.transcript_of(id).or(database).unwrap_or_default();
        let expected = format!("{dir}/{inside}");
        report.add([conversation::transcript_missing(&pane.subject, id, &expected)]);
    }
}

/// Checks which login the pane uses.
fn login_of(
    pane: &ExaminedPane,
    launch: &LaunchRecord,
    context: &Context,
) -> Option<model::health::Finding> {
    let own = context.agent(&launch.agent)?;
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
    let evidence = login::LoginEvidence {
        login: &launch.isolation.login,
        program: pane.program.as_ref(),
        store_has_login,
        own_login: kept.is_some_and(|(dir, file)| Path::new(dir).join(file).exists()),
        is_own_agent,
        otherwise: store.map_or("", |store| store.probe.otherwise),
    };
    Some(login::judge(&pane.subject, &evidence))
}
