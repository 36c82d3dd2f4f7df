//! From a legacy session to an isolated one (R28).
//!
//! ```text
//!  stopped --> planned --> for each pane: tree made --> pane.json --> conversation filed anew
//!          --> unit, workflows copied --> registry --> .session
//! ```
//!
//! A pane works in its new tree from the moment its launch record says so, and the session is
//! isolated from the moment the registry does. Killed anywhere in between, to migrate again goes on:
//! panes that have a tree of their own are left as they are, and what is half made goes to the
//! trash first, for nobody has worked in it. The project itself is only read; a worktree adds a
//! branch to its repository, as it does for every pane.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::file::{self, FileError, Survive};
use host::git::Git;
use host::store::{PaneRow, SessionRow};
use host::workspace::RECORD;
use host::{hooks, record, template, transcript};
use model::agent::Agent;
use model::config::Config;
use model::workspace::Place;
use model::{
    LaunchRecord, LaunchRequest, Name, PaneId, SessionMode, SessionRecord, Workspace, WorkspaceKind,
};
use protocol::control::Response;
use protocol::session::{MigrateRequest, Migration, PaneMigration};
use protocol::{ErrorBody, ErrorCode};
use tracing::{info, warn};

use crate::command::Failure;
use crate::command::resolution::Meant;
use crate::launch::SESSION_RECORD;
use crate::pane::Pane;
use crate::supervisor::{Supervisor, point, run_blocking};
use crate::trash::{self, Since};
use crate::workspace::{self, WORKSPACE};

/// What a session gets copies of.
const COPIED: [&str; 2] = ["unit", "workflows"];

/// One pane of the session.
#[derive(Clone)]
struct Move {
    pane: Arc<Pane>,
    name: Name,
    launch: Arc<LaunchRecord>,
    /// Where it will work; none if it has a tree of its own.
    to: Option<Place>,
}

impl Supervisor {
    /// Gives the panes of a legacy session trees of their own, and makes it an isolated one.
    pub(crate) async fn migrate(
        self: &Arc<Self>,
        request: MigrateRequest,
    ) -> Result<Response, Failure> {
        let rows = self.rows().await?;
        let session = match rows.find(&request.target)? {
            Meant::Session(row) => row,
            Meant::Pane(row) => {
                let message =
                    format!("{:?} is a pane: whole sessions are migrated", request.target);
                let hint = rows.session(row.session).map(|session| session.record.name.to_string());
                let hint = format!("try `ccmux migrate {}`", hint.unwrap_or_default());
                return Err(ErrorBody::new(ErrorCode::Conflict, message).hint(hint).into());
            }
        };
        if session.record.mode == SessionMode::Isolated {
            // Done before: to ask again is no mistake.
            let (panes, copied, warnings) = (Vec::new(), Vec::new(), Vec::new());
            return self.migration(&session, request.dry_run, panes, copied, warnings).await;
        }
        let own: Vec<PaneRow> = rows.panes_of(session.record.id).cloned().collect();
        let known: Vec<(Name, Arc<Pane>)> =
            own.iter().filter_map(|row| Some((row.name.clone(), self.pane(row.id)?))).collect();
        // In the order of their creation, as everybody who takes several turns takes them.
        let mut turns = Vec::with_capacity(known.len());
        for (_, pane) in &known {
            turns.push(pane.turn.lock().await);
        }
        refuse_live(&session.record, &known)?;
        let config = self.config().await?;
        let (this, record) = (Arc::clone(self), session.record.clone());
        let panes = known.clone();
        let planned = run_blocking(move || {
            this.mend_session(&record)?;
            plan(&record, &panes, request.workspace, &config)
        });
        let Planned { moves, project, mut warnings } = planned.await?;
        if request.dry_run {
            let copied = project.iter().flat_map(|project| parts_of(Path::new(project))).collect();
            return self.migration(&session, true, told(&moves), copied, warnings).await;
        }
        for one in &moves {
            let (this, record, one) = (Arc::clone(self), session.record.clone(), one.clone());
            warnings.extend(run_blocking(move || this.carry_out(&record, &one)).await?);
        }
        let copied = self.copy_project(&session.record, project.clone()).await?;
        point("migrate.copied").await;
        let moved: Vec<PaneId> = moves.iter().map(|one| one.pane.id).collect();
        self.enter_migrated(&session.record, project, moved).await?;
        info!(session = %session.record.id, panes = moves.len(), "migrated");
        let session = self.registry.read({
            let id = session.record.id;
            move |change| change.session(id)
        });
        let session = session.await?;
        self.migration(&session, false, told(&moves), copied, warnings).await
    }

    /// Makes the session an isolated one, in the registry and in its directory.
    async fn enter_migrated(
        &self,
        session: &SessionRecord,
        project: Option<String>,
        moved: Vec<PaneId>,
    ) -> Result<(), Failure> {
        let id = session.id;
        let entered = self
            .registry
            .change(move |change| change.migrate_session(id, project.as_deref(), &moved))
            .await?;
        let Some(record) = entered else {
            let message = format!("panes were started in the session {} meanwhile", session.name);
            return Err(ErrorBody::new(ErrorCode::Conflict, message)
                .hint("stop them, and migrate again: it goes on where it is")
                .into());
        };
        point("migrate.entered").await;
        let path = self.root.session(id).join(SESSION_RECORD);
        let written = run_blocking(move || record::write(&path, &record, Survive::PowerLoss)).await;
        if let Err(error) = written {
            // The next daemon tries again.
            warn!(%error, "the mode of a session is in the registry only");
        }
        Ok(())
    }

    /// Copies what the session had from its project.
    async fn copy_project(
        &self,
        session: &SessionRecord,
        project: Option<String>,
    ) -> Result<Vec<String>, ErrorBody> {
        let Some(project) = project.map(PathBuf::from) else { return Ok(Vec::new()) };
        let (dir, name) = (self.root.session(session.id), session.name.clone());
        run_blocking(move || {
            let failed = |error: template::TemplateError| {
                let message = format!("the session {name} is not migrated yet: {error}");
                ErrorBody::new(ErrorCode::Failed, message).hint("migrate again when that is mended")
            };
            template::copy_parts(&project, &COPIED, &dir, false).map_err(failed)?;
            template::sync(&dir).map_err(|error| failed(error.into()))?;
            Ok(parts_of(&project))
        })
        .await
    }

    async fn migration(
        self: &Arc<Self>,
        session: &SessionRow,
        dry_run: bool,
        mut panes: Vec<PaneMigration>,
        copied: Vec<String>,
        warnings: Vec<String>,
    ) -> Result<Response, Failure> {
        // Branches are known only when the trees are there.
        for view in &mut panes {
            let launch = self.pane(view.id).and_then(|pane| pane.launch());
            view.branch = launch.and_then(|launch| launch.workspace.clone()?.branch);
        }
        let rows = self.rows().await?;
        let states: Vec<_> = rows
            .panes_of(session.record.id)
            .filter_map(|row| Some(self.pane(row.id)?.look().state))
            .collect();
        let session = self.session_view(session, states);
        let migration = Migration { session, dry_run, panes, copied, warnings };
        Ok(Response::Migration(Box::new(migration)))
    }

    /// Gives one pane the tree that was planned for it; what somebody may have expected and is not
    /// so. Blocks.
    fn carry_out(
        self: &Arc<Self>,
        session: &SessionRecord,
        one: &Move,
    ) -> Result<Vec<String>, ErrorBody> {
        let mut warnings = Vec::new();
        if let Some(place) = &one.to {
            let made = self.make_tree(session, one, place.clone());
            match made {
                Ok(said) => warnings = said,
                Err(error) => {
                    if let Err(error) = self.clear(&one.pane) {
                        warn!(pane = %one.pane.id, %error, "what is half made stays");
                    }
                    let message = format!("pane {}: {}", one.name, error.message);
                    return Err(ErrorBody { message, ..error });
                }
            }
            self.note_step(one.pane.id);
            hooks::point("migrate.recorded");
        }
        if let Err(error) = file_anew(&one.pane) {
            warnings.push(format!("pane {}: its conversation is where it was: {error}", one.name));
        }
        hooks::point("migrate.pane");
        Ok(warnings)
    }

    fn make_tree(
        &self,
        session: &SessionRecord,
        one: &Move,
        place: Place,
    ) -> Result<Vec<String>, ErrorBody> {
        let Move { pane, launch, .. } = one;
        let failed =
            |error: &dyn std::fmt::Display| ErrorBody::new(ErrorCode::Failed, error.to_string());
        self.clear(pane).map_err(|error| failed(&error))?;
        let dir = self.root.session(session.id);
        let part = |name: &str| dir.join(name).to_string_lossy().into_owned();
        let mut moved = LaunchRecord::clone(launch);
        moved.move_to(place, &part("unit"), &part("workflows")).map_err(|error| failed(&error))?;
        self.make_workspace(&pane.dir, &mut moved, &session.name)?;
        let warnings = self.set_up(&pane.dir, &moved)?;
        hooks::point("migrate.made");
        pane.change_launch(|launch| {
            launch.workspace = moved.workspace;
            launch.cwd = moved.cwd;
            launch.env = moved.env;
            launch.sources = moved.sources;
        })
        .map_err(|error| failed(&error))?;
        Ok(warnings)
    }

    /// Moves what an earlier attempt left half made out of the way.
    fn clear(&self, pane: &Pane) -> Result<(), FileError> {
        let launch = pane.launch();
        let is_own = launch.and_then(|launch| Some(launch.workspace.as_ref()?.is_own()));
        let tree = pane.dir.join(WORKSPACE);
        let is_empty = fs::read_dir(&tree).map_or(true, |mut entries| entries.next().is_none());
        let made = pane.dir.join(RECORD);
        if is_own == Some(true) || is_empty && !made.exists() {
            return file::make_dir(&tree);
        }
        let mut left = Vec::new();
        let trash_dir = self.root.trash();
        let (locks, id) = (self.root.locks(), pane.id);
        workspace::retire(&locks, &pane.dir, &trash_dir, id, Since::Now, &mut left)?;
        trash::retire(&tree, &trash_dir, WORKSPACE, id, Since::Now)?;
        for left in left {
            warn!(path = %left.path.display(), why = %left.why, "is still there");
        }
        match fs::remove_file(&made) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(FileError::when("remove", &made)(error));
            }
            _ => {}
        }
        file::make_dir(&tree)
    }
}

/// A session of which something runs is not moved.
fn refuse_live(session: &SessionRecord, panes: &[(Name, Arc<Pane>)]) -> Result<(), ErrorBody> {
    let live: Vec<&str> = panes
        .iter()
        .filter(|(_, pane)| pane.look().state.is_live())
        .map(|(name, _)| name.as_str())
        .collect();
    if live.is_empty() {
        return Ok(());
    }
    let message =
        format!("the session {} is not migrated: {} still run", session.name, live.join(", "));
    Err(ErrorBody::new(ErrorCode::Conflict, message)
        .hint(format!("stop it with `ccmux stop {}`, then migrate again", session.name)))
}

struct Planned {
    moves: Vec<Move>,
    project: Option<String>,
    warnings: Vec<String>,
}

/// What each pane gets. Blocks, and changes nothing.
fn plan(
    session: &SessionRecord,
    panes: &[(Name, Arc<Pane>)],
    asked: Option<WorkspaceKind>,
    config: &Config,
) -> Result<Planned, ErrorBody> {
    let asked = asked.unwrap_or(config.workspace);
    if asked == WorkspaceKind::Shared {
        let message = "in an isolated session that was migrated no pane shares its project";
        return Err(ErrorBody::new(ErrorCode::Usage, message)
            .hint("choose --workspace auto, worktree, clone, copy or empty"));
    }
    let (mut moves, mut warnings) = (Vec::new(), Vec::new());
    for (name, pane) in panes {
        let Some(launch) = pane.launch() else {
            let lost = "its launch record is lost; it cannot be restored, only closed";
            warnings.push(format!("pane {name}: {lost}"));
            continue;
        };
        let own = launch.workspace.as_ref().is_some_and(Workspace::is_own);
        let to = if own { None } else { Some(place(name, pane, &launch, asked)?) };
        if let Some(place) = to.as_ref().filter(|place| place.workspace.is_of_git()) {
            warnings.extend(uncommitted(&launch, &place.workspace));
        }
        moves.push(Move { pane: Arc::clone(pane), name: name.clone(), launch, to });
    }
    warnings.sort();
    warnings.dedup();
    let first = || moves.first().map(|one: &Move| one.launch.cwd.clone());
    let project = session.project.clone().or_else(first);
    Ok(Planned { moves, project, warnings })
}

fn place(
    name: &Name,
    pane: &Pane,
    launch: &LaunchRecord,
    asked: WorkspaceKind,
) -> Result<Place, ErrorBody> {
    let of = |error: ErrorBody| {
        let message = format!("pane {name}: {}", error.message);
        ErrorBody { message, ..error }
    };
    if !Path::new(&launch.cwd).is_dir() {
        let message = format!("`{}`, where it worked, is missing", launch.cwd);
        let hint = "put the directory back, or close the pane";
        return Err(of(ErrorBody::new(ErrorCode::Conflict, message).hint(hint)));
    }
    let request = LaunchRequest {
        cwd: launch.cwd.clone(),
        client_env: launch.env.clone().into(),
        ..LaunchRequest::default()
    };
    let limit = workspace::limit(launch.limits);
    workspace::decide(&pane.dir, SessionMode::Isolated, asked, &request, limit).map_err(of)
}

/// A new tree begins with the last commit: what is not in it stays behind.
fn uncommitted(launch: &LaunchRecord, tree: &Workspace) -> Option<String> {
    let search = launch.env.get("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin");
    let git = Git::new(search, launch.env.get("HOME"));
    let said = git.run(Path::new(&tree.source), &["status", "--porcelain"]).ok()?;
    let count = said.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).count();
    (count > 0).then(|| {
        format!("{count} changes in `{}` are not committed: they stay there alone", tree.source)
    })
}

/// Files the conversation of a pane under the directory that it works in, for agents to which that
/// matters. Blocks.
fn file_anew(pane: &Pane) -> io::Result<()> {
    let Some(launch) = pane.launch() else { return Ok(()) };
    let Ok(agent) = Agent::named(&launch.agent, &std::collections::BTreeMap::new()) else {
        return Ok(());
    };
    let filed = agent.conversations.filed.and_then(|filed| filed(&launch.cwd));
    let dir = launch.isolation.dir_of(&agent.name).map(Path::new);
    let (Some(filed), Some(dir)) = (filed, dir) else { return Ok(()) };
    let place = dir.join(filed);
    for id in launch.conversation.iter().chain(&launch.earlier) {
        let Some(found) = transcript::of(&agent, dir, id) else { continue };
        let Some(name) = found.file_name().filter(|_| found.parent() != Some(&place)) else {
            continue;
        };
        for made in [place.parent().unwrap_or(dir), &place] {
            file::make_dir(made).map_err(io::Error::other)?;
        }
        // What it keeps beside it, first: the transcript says that all of it is there.
        let beside = found.with_extension("");
        if beside.is_dir() {
            fs::rename(&beside, place.join(id.as_str()))?;
        }
        fs::rename(&found, place.join(name))?;
    }
    Ok(())
}

/// What a project has of what a session has.
fn parts_of(project: &Path) -> Vec<String> {
    let there = COPIED.iter().map(|part| project.join(part)).filter(|dir| dir.is_dir());
    there.map(|dir| dir.to_string_lossy().into_owned()).collect()
}

fn told(moves: &[Move]) -> Vec<PaneMigration> {
    let view = |one: &Move| {
        let now = one.launch.workspace.as_ref();
        let kind = one.to.as_ref().map(|place| place.workspace.kind);
        PaneMigration {
            id: one.pane.id,
            name: one.name.clone(),
            already: one.to.is_none(),
            from: now.map_or_else(|| one.launch.cwd.clone(), |tree| tree.source.clone()),
            to: one.to.as_ref().map_or_else(|| one.launch.cwd.clone(), |place| place.cwd.clone()),
            workspace_kind: kind.or(now.map(|tree| tree.kind)).unwrap_or(WorkspaceKind::Shared),
            branch: None,
        }
    };
    moves.iter().map(view).collect()
}
