//! Migrates a legacy session to an isolated one (R28).
//!
//! ```text
//!  stopped --> planned --> for each pane: workspace --> pane.json --> conversation files moved
//!          --> unit, workflows copied --> registry --> .session
//! ```
//!
//! Writing the launch record commits the move of a pane; the registry commits the mode of the
//! session. A migration that was interrupted is continued by migrating again: panes that already
//! have their own workspace are skipped, and partial workspaces, in which no agent has worked yet,
//! are moved to the trash. The project is only read, except that a worktree adds a branch to its
//! repository, as for every pane.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use host::config::ConfigError;
use host::file::{self, Durability, FileError};
use host::git::{Git, Trust};
use host::store::{PaneRow, SessionRow, StoreError};
use host::template::{self, TemplateError};
use host::workspace::RECORD;
use host::{StateRoot, hooks, record};
use model::authority::{Access, Caller};
use model::config::Config;
use model::environment::InvalidVariable;
use model::workspace::{Occupant, WorkspacePlace};
use model::{
    LaunchRecord, LaunchRequest, Name, PaneId, SessionMode, SessionRecord, Workspace, WorkspaceKind,
};
use protocol::session::{MigrateRequest, Migration, PaneMigration};
use tracing::{info, warn};

use super::Services;
use super::access::{AccessDenied, authorize};
use crate::fault::{Advice, Description, Fault, FaultKind, any_of};
use crate::panes::error::{PlanError, StartError};
use crate::panes::launch::is_work_dir_in_use;
use crate::panes::workspace::{self, WORKSPACE};
use crate::panes::{Pane, conversation_files};
use crate::registry::{PaneOrSessionRow, TargetError};
use crate::runtime::{point, run_blocking};
use crate::sessions::SESSION_RECORD;
use crate::sessions::error::RepairError;
use crate::trash;

any_of! {
    /// Why a session was not migrated.
    pub(crate) enum MigrateError {
        Denied(AccessDenied),
        Target(TargetError),
        Store(StoreError),
        Config(ConfigError),
        Session(RepairError),
        NotMigrated(NotMigrated),
    }
}

/// Why a session was not migrated, or only in part.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotMigrated {
    #[error("{text:?} is a pane; only whole sessions are migrated")]
    IsPane { text: String, session: String },
    #[error("panes were started in session {0} meanwhile")]
    PanesStarted(Name),
    #[error("session {session} is not migrated: {} still running", panes.join(", "))]
    Running { session: Name, panes: Vec<String> },
    #[error("panes of a migrated session cannot share the project")]
    SharedWorkspace,
    #[error("session {session} is not migrated yet: {source}")]
    Copy { session: Name, source: TemplateError },
    #[error("pane {pane}: {why}")]
    Pane { pane: Name, why: MoveError },
}

impl Fault for NotMigrated {
    fn describe(&self) -> Description {
        match self {
            Self::IsPane { session, .. } => {
                FaultKind::Conflict.advise(Advice::MigrateSession { session: session.clone() })
            }
            Self::PanesStarted(_) => FaultKind::Conflict
                .advise(Advice::text("stop them, then migrate again; it continues where it was")),
            Self::Running { session, .. } => FaultKind::Conflict
                .advise(Advice::StopSessionThenMigrate { session: session.to_string() }),
            Self::SharedWorkspace => FaultKind::Invalid.advise(Advice::ChooseWorkspaceForMigration),
            Self::Copy { .. } => {
                FaultKind::Failed.advise(Advice::text("resolve this, then migrate again"))
            }
            Self::Pane { why, .. } => why.describe(),
        }
    }
}

/// Why a pane was not moved to its own workspace.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MoveError {
    #[error("its directory `{0}` is missing")]
    DirectoryMissing(String),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Environment(#[from] InvalidVariable),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    File(#[from] FileError),
}

impl Fault for MoveError {
    fn describe(&self) -> Description {
        match self {
            Self::DirectoryMissing(_) => FaultKind::Conflict
                .advise(Advice::text("put the directory back, or close the pane")),
            Self::Plan(error) => error.describe(),
            Self::Environment(_) => FaultKind::Failed.plain(),
            Self::Start(error) => error.describe(),
            Self::File(error) => error.describe(),
        }
    }
}

/// The directories of a project that are copied into the session.
const COPIED_DIRS: [&str; 2] = ["unit", "workflows"];

/// The planned move of one pane.
#[derive(Clone)]
struct PaneMove {
    pane: Arc<Pane>,
    name: Name,
    launch: Arc<LaunchRecord>,
    /// The new workspace (`None` if the pane already has its own).
    to: Option<WorkspacePlace>,
}

/// Gives each pane of a legacy session its own workspace and makes the session isolated.
pub(crate) async fn migrate(
    services: &Arc<Services>,
    caller: &Caller,
    request: MigrateRequest,
) -> Result<Migration, MigrateError> {
    let rows = services.panes.rows().await?;
    let session = match rows.find(&request.target)? {
        PaneOrSessionRow::Session(row) => row,
        PaneOrSessionRow::Pane(row) => {
            let session = rows.session(row.session).map(|row| row.record.name.to_string());
            let (text, session) = (request.target, session.unwrap_or_default());
            return Err(NotMigrated::IsPane { text, session }.into());
        }
    };
    authorize(services, caller, Access::Control, Some(session.record.id)).await?;
    if session.record.mode == SessionMode::Isolated {
        // Migrating twice is not an error.
        let (panes, copied, warnings) = (Vec::new(), Vec::new(), Vec::new());
        return answer(services, &session, request.dry_run, panes, copied, warnings).await;
    }
    let pane_rows: Vec<PaneRow> = rows.panes_of(session.record.id).cloned().collect();
    let known: Vec<(Name, Arc<Pane>)> = pane_rows
        .iter()
        .filter_map(|row| Some((row.name.clone(), services.panes.get(row.id)?)))
        .collect();
    // Locked in order of creation, as everywhere, to avoid deadlocks.
    let mut guards = Vec::with_capacity(known.len());
    for (_, pane) in &known {
        guards.push(pane.lifecycle_lock.lock().await);
    }
    check_stopped(&session.record, &known)?;
    let config = services.runtime.config().await?;
    let (this, record) = (Arc::clone(services), session.record.clone());
    let panes = known.clone();
    let planned = run_blocking(move || {
        this.sessions.repair(&record)?;
        Ok::<_, MigrateError>(plan(
            &this.runtime.root,
            &record,
            &panes,
            request.workspace,
            &config,
        )?)
    });
    let Planned { moves, project, mut warnings } = planned.await?;
    if request.dry_run {
        let copied = project.iter().flat_map(|project| copied_dirs(Path::new(project))).collect();
        return answer(services, &session, true, pane_views(&moves), copied, warnings).await;
    }
    for planned in &moves {
        let (this, record) = (Arc::clone(services), session.record.clone());
        let planned = planned.clone();
        warnings.extend(run_blocking(move || migrate_pane(&this, &record, &planned)).await?);
    }
    let copied = copy_project(services, &session.record, project.clone()).await?;
    point("migrate.copied").await;
    let moved: Vec<PaneId> = moves.iter().map(|planned| planned.pane.id).collect();
    record_migration(services, &session.record, project, moved).await?;
    info!(session = %session.record.id, panes = moves.len(), "session migrated");
    let session = services.registry.read({
        let id = session.record.id;
        move |change| change.session(id)
    });
    let session = session.await?;
    answer(services, &session, false, pane_views(&moves), copied, warnings).await
}

/// Records the new mode of the session in the registry and in its directory.
async fn record_migration(
    services: &Services,
    session: &SessionRecord,
    project: Option<String>,
    moved: Vec<PaneId>,
) -> Result<(), MigrateError> {
    let id = session.id;
    let migrated = services
        .registry
        .change(move |change| change.migrate_session(id, project.as_deref(), &moved))
        .await?;
    let Some(record) = migrated else {
        return Err(NotMigrated::PanesStarted(session.name.clone()).into());
    };
    point("migrate.entered").await;
    let path = services.runtime.root.session(id).join(SESSION_RECORD);
    let written = run_blocking(move || record::write(&path, &record, Durability::PowerLoss)).await;
    if let Err(error) = written {
        // Recovery writes it when the daemon starts.
        warn!(session = %id, %error, "session record not written");
    }
    Ok(())
}

/// Copies the directories that the session used in its project.
async fn copy_project(
    services: &Services,
    session: &SessionRecord,
    project: Option<String>,
) -> Result<Vec<String>, NotMigrated> {
    let Some(project) = project.map(PathBuf::from) else { return Ok(Vec::new()) };
    let (dir, name) = (services.runtime.root.session(session.id), session.name.clone());
    run_blocking(move || {
        let failed = |source: TemplateError| NotMigrated::Copy { session: name.clone(), source };
        template::copy_parts(&project, &COPIED_DIRS, &dir, false).map_err(failed)?;
        template::sync(&dir).map_err(|error| failed(error.into()))?;
        Ok(copied_dirs(&project))
    })
    .await
}

async fn answer(
    services: &Arc<Services>,
    session: &SessionRow,
    dry_run: bool,
    mut panes: Vec<PaneMigration>,
    copied: Vec<String>,
    warnings: Vec<String>,
) -> Result<Migration, MigrateError> {
    // Branches and paths are known only after the workspaces have been created.
    for view in &mut panes {
        let launch = services.panes.get(view.id).and_then(|pane| pane.launch());
        let Some(launch) = launch else { continue };
        view.branch = launch.workspace.as_ref().and_then(|workspace| workspace.branch.clone());
        if !dry_run {
            view.to.clone_from(&launch.cwd);
        }
    }
    let rows = services.panes.rows().await?;
    let states: Vec<_> = rows
        .panes_of(session.record.id)
        .filter_map(|row| Some(services.panes.get(row.id)?.status().state))
        .collect();
    let session = services.sessions.view(session, states);
    Ok(Migration { session, dry_run, panes, copied, warnings })
}

/// Moves one pane to its planned workspace and returns warnings. Blocks.
fn migrate_pane(
    services: &Arc<Services>,
    session: &SessionRecord,
    planned: &PaneMove,
) -> Result<Vec<String>, NotMigrated> {
    let mut warnings = Vec::new();
    if let Some(place) = &planned.to {
        match create_workspace(services, session, planned, place.clone()) {
            Ok(reported) => warnings = reported,
            Err(error) => {
                if let Err(error) = discard_partial_workspace(services, &planned.pane) {
                    warn!(pane = %planned.pane.id, %error, "partial workspace not discarded");
                }
                return Err(NotMigrated::Pane { pane: planned.name.clone(), why: error });
            }
        }
        services.lifecycle.pane_transitioned(planned.pane.id);
        hooks::point("migrate.recorded");
    }
    let launch = planned.pane.launch();
    let refiled = launch.map_or(Ok(()), |launch| conversation_files::refile(&launch));
    if let Err(error) = refiled {
        warnings.push(format!("pane {}: conversation files not moved: {error}", planned.name));
    }
    hooks::point("migrate.pane");
    Ok(warnings)
}

fn create_workspace(
    services: &Services,
    session: &SessionRecord,
    planned: &PaneMove,
    place: WorkspacePlace,
) -> Result<Vec<String>, MoveError> {
    let PaneMove { pane, launch, .. } = planned;
    discard_partial_workspace(services, pane)?;
    let dir = services.runtime.root.session(session.id);
    let part = |name: &str| dir.join(name).to_string_lossy().into_owned();
    let workspaces = &services.panes.workspaces;
    let in_use = |dir: &Path| is_work_dir_in_use(&services.panes, dir);
    let (place, reservation) = workspaces
        .reserve(place, &session.name, &planned.name, &launch.env.clone().into(), &in_use)
        .map_err(PlanError::from)?;
    let mut moved = LaunchRecord::clone(launch);
    moved.move_to(place, &part("unit"), &part("workflows"))?;
    workspaces.make(&pane.dir, &moved, false)?;
    drop(reservation);
    let warnings = workspaces.set_up(&pane.dir, &moved)?;
    hooks::point("migrate.made");
    pane.change_launch(|launch| {
        launch.workspace = moved.workspace;
        launch.cwd = moved.cwd;
        launch.env = moved.env;
        launch.sources = moved.sources;
    })?;
    Ok(warnings)
}

/// Moves the partial workspace of an interrupted attempt to the trash.
fn discard_partial_workspace(services: &Services, pane: &Pane) -> Result<(), FileError> {
    let launch = pane.launch();
    let is_own = launch.and_then(|launch| Some(launch.workspace.as_ref()?.is_own()));
    let tree = pane.dir.join(WORKSPACE);
    let is_empty = !tree.is_symlink()
        && fs::read_dir(&tree).map_or(true, |mut entries| entries.next().is_none());
    let record = pane.dir.join(RECORD);
    if is_own == Some(true) || is_empty && !record.exists() {
        return file::make_dir(&tree);
    }
    let mut leftovers = Vec::new();
    let trash_dir = services.runtime.root.trash();
    let (root, id) = (&services.runtime.root, pane.id);
    workspace::retire(root, &pane.dir, id, &mut leftovers)?;
    if tree.is_symlink() {
        fs::remove_file(&tree).map_err(FileError::when("remove", &tree))?;
    } else {
        trash::retire(&tree, &trash_dir, WORKSPACE, id)?;
    }
    for leftover in leftovers {
        let (path, why) = (leftover.path.display(), &leftover.why);
        warn!(pane = %id, %path, %why, "workspace part not removed");
    }
    match fs::remove_file(&record) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(FileError::when("remove", &record)(error));
        }
        _ => {}
    }
    file::make_dir(&tree)
}

/// Checks that no pane of the session is running.
fn check_stopped(session: &SessionRecord, panes: &[(Name, Arc<Pane>)]) -> Result<(), NotMigrated> {
    let live: Vec<String> = panes
        .iter()
        .filter(|(_, pane)| pane.status().state.is_live())
        .map(|(name, _)| name.to_string())
        .collect();
    if live.is_empty() {
        return Ok(());
    }
    Err(NotMigrated::Running { session: session.name.clone(), panes: live })
}

struct Planned {
    moves: Vec<PaneMove>,
    project: Option<String>,
    warnings: Vec<String>,
}

/// Plans the workspace of each pane. Blocks, and changes nothing.
fn plan(
    root: &StateRoot,
    session: &SessionRecord,
    panes: &[(Name, Arc<Pane>)],
    requested: Option<WorkspaceKind>,
    config: &Config,
) -> Result<Planned, NotMigrated> {
    let kind = requested.unwrap_or(config.workspace);
    if kind == WorkspaceKind::Shared {
        return Err(NotMigrated::SharedWorkspace);
    }
    let (mut moves, mut warnings) = (Vec::new(), Vec::new());
    for (name, pane) in panes {
        let Some(launch) = pane.launch() else {
            let lost = "its launch record is lost; it can be closed, but not restored";
            warnings.push(format!("pane {name}: {lost}"));
            continue;
        };
        let has_own = launch.workspace.as_ref().is_some_and(Workspace::is_own);
        let to = if has_own { None } else { Some(place(root, session, name, &launch, kind)?) };
        if let Some(place) = to.as_ref().filter(|place| place.workspace.is_git()) {
            warnings.extend(uncommitted_warning(&launch, &place.workspace));
        }
        moves.push(PaneMove { pane: Arc::clone(pane), name: name.clone(), launch, to });
    }
    warnings.sort();
    warnings.dedup();
    let first = || moves.first().map(|planned: &PaneMove| planned.launch.cwd.clone());
    let project = session.project.clone().or_else(first);
    Ok(Planned { moves, project, warnings })
}

fn place(
    root: &StateRoot,
    session: &SessionRecord,
    name: &Name,
    launch: &LaunchRecord,
    kind: WorkspaceKind,
) -> Result<WorkspacePlace, NotMigrated> {
    let failed = |why: MoveError| NotMigrated::Pane { pane: name.clone(), why };
    if !Path::new(&launch.cwd).is_dir() {
        return Err(failed(MoveError::DirectoryMissing(launch.cwd.clone())));
    }
    let request = LaunchRequest {
        cwd: launch.cwd.clone(),
        client_env: launch.env.clone().into(),
        ..LaunchRequest::default()
    };
    let limit = workspace::limit(launch.limits);
    let work_dir = root.work().join(session.name.as_str()).join(name.as_str());
    workspace::decide(&work_dir, Occupant::Migrated, kind, &request, limit)
        .map_err(|error| failed(error.into()))
}

/// Warns of uncommitted changes, which a workspace created from the last commit does not contain.
fn uncommitted_warning(launch: &LaunchRecord, tree: &Workspace) -> Option<String> {
    let search = launch.env.get("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin");
    // The panes have worked in this tree.
    let git = Git::new(search, launch.env.get("HOME"), Trust::Agent);
    let count = git.status(Path::new(&tree.source)).ok()?.len();
    (count > 0).then(|| {
        format!(
            "{count} uncommitted changes in `{}` are not copied to the new workspaces",
            tree.source
        )
    })
}

/// Returns the directories of a project that are copied into the session.
fn copied_dirs(project: &Path) -> Vec<String> {
    let dirs = COPIED_DIRS.iter().map(|part| project.join(part)).filter(|dir| dir.is_dir());
    dirs.map(|dir| dir.to_string_lossy().into_owned()).collect()
}

fn pane_views(moves: &[PaneMove]) -> Vec<PaneMigration> {
    let view = |planned: &PaneMove| {
        let current = planned.launch.workspace.as_ref();
        let kind = planned.to.as_ref().map(|place| place.workspace.kind);
        PaneMigration {
            id: planned.pane.id,
            name: planned.name.clone(),
            already: planned.to.is_none(),
            from: current.map_or_else(|| planned.launch.cwd.clone(), |tree| tree.source.clone()),
            to: planned
                .to
                .as_ref()
                .map_or_else(|| planned.launch.cwd.clone(), |place| place.cwd.clone()),
            workspace_kind: kind.or(current.map(|tree| tree.kind)).unwrap_or(WorkspaceKind::Shared),
            branch: None,
        }
    };
    moves.iter().map(view).collect()
}
