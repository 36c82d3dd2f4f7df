//! Where panes work: decided before a pane is planned, made before it is started, and taken away
//! when nothing can be lost with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::StateRoot;
use host::copy;
use host::hooks;
use host::process;
use host::project::{self, Project, ProjectError};
use host::usage;
use host::workspace::{self, Found, Made, Wanted, Work, WorkspaceError};
use model::isolation::USER_HOME;
use model::limits::Limits;
use model::workspace::{InRepository, Place, Refused, Site, choose};
use model::{LaunchRecord, LaunchRequest, Name, SessionMode, Workspace, WorkspaceKind};
use protocol::workspace::{PaneUsage, PaneWork, UnsavedWork};
use protocol::{ErrorBody, ErrorCode};
use tracing::{info, warn};

use crate::pane::Pane;
use crate::retire::Left;
use crate::supervisor::{Supervisor, run_blocking};
use crate::trash::{self, Since};

/// The workspace in a pane's directory.
pub(crate) const WORKSPACE: &str = "workspace";

/// Where a client finds programs and its home.
struct Client<'a> {
    search: &'a str,
    home: Option<&'a str>,
}

impl<'a> Client<'a> {
    fn new(get: impl Fn(&str) -> Option<&'a str>) -> Self {
        let search = get("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin");
        // In a pane with a home of its own, that of the user.
        Self { search, home: get(USER_HOME).or_else(|| get("HOME")) }
    }
}

/// The most bytes that are copied for a pane that may take this much.
pub(crate) fn limit(limits: Limits) -> u64 {
    limits.disk.map_or(u64::MAX, |disk| disk.0)
}

/// Where a pane will work that is asked for. Blocks.
///
/// # Errors
///
/// Why it cannot work anywhere, with what the user can choose from.
pub(crate) fn decide(
    pane_dir: &Path,
    mode: SessionMode,
    asked: WorkspaceKind,
    request: &LaunchRequest,
    limit: u64,
) -> Result<Place, ErrorBody> {
    let shared = |source: &str| Workspace {
        kind: WorkspaceKind::Shared,
        path: source.to_owned(),
        source: source.to_owned(),
        repository: None,
        branch: None,
        base: None,
    };
    let legacy = mode == SessionMode::Legacy;
    if asked == WorkspaceKind::Shared || asked == WorkspaceKind::Auto && legacy {
        return Ok(Place { workspace: shared(&request.cwd), cwd: request.cwd.clone() });
    }
    let client = Client::new(|name| request.client_env.get(name).map(String::as_str));
    let real = fs::canonicalize(&request.cwd).unwrap_or_else(|_| PathBuf::from(&request.cwd));
    let found = workspace::look(&real, client.search, client.home);
    let home = client.home.map(|home| fs::canonicalize(home).unwrap_or_else(|_| home.into()));
    let is_home_or_root = real == Path::new("/") || home.as_deref() == Some(&real);
    let state = pane_dir.ancestors().find_map(|dir| fs::canonicalize(dir).ok());
    let site = Site {
        dir: &request.cwd,
        is_home_or_root,
        holds_panes: state.is_some_and(|dir| dir.starts_with(&real)),
        repository: match &found {
            Found::Plain => InRepository::No,
            Found::WithoutGit => InRepository::WithoutGit,
            Found::WithoutCommit(_) => InRepository::WithoutCommit,
            Found::Unusable(error) => InRepository::Unusable(error.to_string()),
            Found::Repository(_) => InRepository::Yes,
        },
        limit,
        fits: &|| copy::fits(&real, limit),
    };
    let kind = choose(asked, legacy, &site).map_err(refused)?;
    let text = |path: &Path| {
        path.to_str().map(str::to_owned).ok_or_else(|| {
            let message = format!("the path of `{}` is not UTF-8", path.display());
            ErrorBody::new(ErrorCode::Usage, message)
        })
    };
    let path = pane_dir.join(WORKSPACE);
    let mut made = Workspace { kind, path: text(&path)?, ..shared(&text(&real)?) };
    let mut cwd = path;
    if let (true, Found::Repository(repository)) = (made.is_of_git(), found) {
        made.source = text(&repository.top)?;
        made.repository = Some(text(&repository.common)?);
        made.base = repository.head;
        cwd.extend(&repository.prefix);
    }
    Ok(Place { workspace: made, cwd: text(&cwd)? })
}

/// That a pane got a copy because there is no git, where nobody asked for a copy. Blocks.
pub(crate) fn in_want_of_git(asked: WorkspaceKind, record: &LaunchRecord) -> Option<String> {
    let workspace = record.workspace.as_ref()?;
    if asked != WorkspaceKind::Auto || workspace.kind != WorkspaceKind::Copy {
        return None;
    }
    let client = Client::new(|name| record.env.get(name));
    let source = &workspace.source;
    let found = workspace::look(Path::new(source), client.search, client.home);
    matches!(found, Found::WithoutGit).then(|| {
        format!(
            "`{source}` is in a git repository, but git is not on your PATH: the pane works in a \
             copy and has no branch; install git, or say --workspace copy if that is what you want"
        )
    })
}

#[expect(clippy::needless_pass_by_value, reason = "used as a function of `map_err`")]
fn refused(why: Refused) -> ErrorBody {
    ErrorBody::new(ErrorCode::Conflict, why.to_string()).hint(Refused::HINT)
}

fn not_made(error: &WorkspaceError) -> ErrorBody {
    let message = format!("the pane was not started: its workspace cannot be made: {error}");
    let body = ErrorBody::new(ErrorCode::Failed, message);
    if error.is_full() { body.hint("make room on the disk") } else { body }
}

impl Supervisor {
    /// Makes the tree that a planned pane works in. Its branch is known from now on. Blocks.
    pub(crate) fn make_workspace(
        &self,
        pane_dir: &Path,
        record: &mut LaunchRecord,
        session: &Name,
    ) -> Result<(), ErrorBody> {
        let Some(planned) = record.workspace.take() else { return Ok(()) };
        let client = Client::new(|name| record.env.get(name));
        let made = workspace::make(Wanted {
            workspace: planned,
            pane_dir,
            locks: &self.root.locks(),
            names: (session, &record.name),
            search: client.search,
            home: client.home,
            limit: limit(record.limits),
        });
        record.workspace = Some(made.map_err(|error| not_made(&error))?);
        // A directory that git does not know is not in a new tree.
        let cwd = Path::new(&record.cwd);
        fs::create_dir_all(cwd).map_err(|error| {
            let error = host::file::FileError::when("make", cwd)(error);
            not_made(&error.into())
        })
    }

    /// Runs what the project wants to be run in a new workspace, if the user trusts it; otherwise
    /// says what was not run. Blocks.
    pub(crate) fn set_up(
        &self,
        pane_dir: &Path,
        record: &LaunchRecord,
    ) -> Result<Vec<String>, ErrorBody> {
        let (project, trusted) = match self.project(record) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(Vec::new()),
            Err(error) => return Ok(vec![format!("nothing was set up: {error}")]),
        };
        if project.setup.is_empty() {
            return Ok(Vec::new());
        }
        if !trusted {
            let (path, dir) = (project.path.display(), project.path.parent());
            let dir = dir.unwrap_or(Path::new("/")).display();
            return Ok(vec![format!(
                "nothing was set up: `{path}` is not trusted as it is; read it, then `ccmux trust {dir}`"
            )]);
        }
        hooks::point("workspace.setting-up");
        let log = pane_dir.join("log/setup.log");
        project::run(&project.setup, Path::new(&record.cwd), &record.env, &log).map_err(|why| {
            let file = project.path.display();
            let message = format!("the pane was not started: the setup of `{file}` failed: {why}");
            ErrorBody::new(ErrorCode::Failed, message)
        })?;
        Ok(Vec::new())
    }

    /// What the project of a workspace that was made for a pane wants, and whether that is trusted.
    fn project(&self, record: &LaunchRecord) -> Result<Option<(Project, bool)>, ProjectError> {
        let Some(workspace) = &record.workspace else { return Ok(None) };
        if !workspace.is_own() || workspace.kind == WorkspaceKind::Empty {
            return Ok(None);
        }
        let Some(project) = project::read(Path::new(&workspace.source))? else { return Ok(None) };
        let trusted = project.is_trusted(&project::trust(&self.root)?);
        Ok(Some((project, trusted)))
    }

    /// Runs what the project wants to be run in a workspace that goes. What fails is told, and keeps
    /// nothing from going.
    pub(crate) async fn tear_down(self: &Arc<Self>, pane: &Pane) {
        let Some(record) = pane.launch() else { return };
        let (this, dir) = (Arc::clone(self), pane.dir.clone());
        let failed = run_blocking(move || {
            let (project, true) = this.project(&record).ok().flatten()? else { return None };
            let (cwd, log) = (Path::new(&record.cwd), dir.join("log/teardown.log"));
            if project.teardown.is_empty() || !cwd.is_dir() {
                return None;
            }
            let failed = project::run(&project.teardown, cwd, &record.env, &log).err()?;
            Some(Left { path: project.path, why: failed })
        });
        let failed = failed.await;
        self.tell_left(failed.into_iter().collect()).await;
    }

    /// What would be lost if a pane went whose processes have ended. None if it is nothing, or if
    /// exactly that is to be discarded; the latter is on record then.
    ///
    /// # Errors
    ///
    /// Why it cannot be put on record.
    pub(crate) async fn unsaved_work(
        &self,
        pane: &Pane,
        discard: &[String],
    ) -> Result<Option<Work>, ErrorBody> {
        let work = self.work_of(pane).await;
        if work.is_empty() {
            return Ok(None);
        }
        if !discard.contains(&work.token()) {
            return Ok(Some(work));
        }
        let dir = pane.dir.clone();
        let marked = run_blocking(move || match Made::read(&dir) {
            Ok(Some(made)) => made.discard(&dir).map_err(|error| error.to_string()),
            // One that cannot be read cannot be made worse.
            Ok(None) | Err(_) => Ok(()),
        });
        info!(pane = %pane.id, work = ?work.lines, "is discarded");
        marked.await.map_err(|why| ErrorBody::new(ErrorCode::Failed, why))?;
        Ok(None)
    }

    async fn work_of(&self, pane: &Pane) -> Work {
        let (dir, locks) = (pane.dir.clone(), self.root.locks());
        run_blocking(move || workspace::find(&dir, &dir.join("output"), &locks)).await
    }
}

/// Why a pane stays though it was to be closed.
pub(crate) fn stays(name: &Name, pane: &Pane, work: &Work) -> ErrorBody {
    let message = format!("pane {name} has ended and stays, because it has work:{}", listed(work));
    let at = pane.launch().map(|launch| launch.cwd.clone()).unwrap_or_default();
    let hint = format!(
        "save it from `{at}`, or lose exactly this with `ccmux close {} --discard {}`",
        pane.id.short(),
        work.token()
    );
    let details = UnsavedWork { panes: vec![told(name, work)] };
    ErrorBody::new(ErrorCode::Conflict, message).hint(hint).details(&details)
}

fn told(name: &Name, work: &Work) -> PaneWork {
    PaneWork { name: name.clone(), work: work.lines.clone(), discard: work.token() }
}

/// Why a session stays though it was to be purged.
pub(crate) fn session_stays(session: &Name, panes: &[(Name, Work)]) -> ErrorBody {
    let lines = panes.iter().map(|(name, work)| format!("\n pane {name}:{}", listed(work)));
    let lines: String = lines.collect();
    let message = format!("the session {session} has ended and stays, because it has work:{lines}");
    let words: String =
        panes.iter().map(|(_, work)| format!(" --discard {}", work.token())).collect();
    let hint = format!(
        "save it from the workspaces, or lose exactly this with `ccmux purge {session} --yes{words}`"
    );
    let panes = panes.iter().map(|(name, work)| told(name, work)).collect();
    ErrorBody::new(ErrorCode::Conflict, message).hint(hint).details(&UnsavedWork { panes })
}

fn listed(work: &Work) -> String {
    work.lines.iter().map(|line| format!("\n  {line}")).collect()
}

/// Takes the tree of a pane out of its directory and out of its repository, before the directory
/// itself goes: that says what else there is. What could not be taken away is told. Blocks.
pub(crate) fn retire(
    locks: &Path,
    dir: &Path,
    trash_dir: &Path,
    pane: model::PaneId,
    since: Since,
    left: &mut Vec<Left>,
) -> Result<Option<PathBuf>, host::file::FileError> {
    let made = match Made::read(dir) {
        Ok(Some(made)) => made,
        Ok(None) => return Ok(None),
        Err(error) => {
            left.push(Left { path: dir.join(workspace::RECORD), why: error.to_string() });
            return Ok(None);
        }
    };
    if let Err(error) = made.wait_until_made(dir, locks) {
        warn!(pane = %pane, %error, "somebody still makes its workspace");
    }
    if made.workspace.kind != WorkspaceKind::Worktree {
        // It goes with the directory that it is in.
        return Ok(None);
    }
    let moved = trash::shelve(&dir.join(WORKSPACE), trash_dir, WORKSPACE, pane, since)?;
    hooks::point("workspace.shelved");
    if let Err(error) = made.forget(locks) {
        let path = made.workspace.repository.unwrap_or_default().into();
        left.push(Left { path, why: error.to_string() });
    }
    hooks::point("workspace.forgotten");
    Ok(moved)
}

/// Whether a pane that has ended can work where it did. Blocks.
///
/// # Errors
///
/// What is missing, and what to do about it.
pub(crate) fn check_again(pane_dir: &Path, launch: &LaunchRecord) -> Result<(), ErrorBody> {
    let path = launch.workspace.as_ref().map_or(&launch.cwd, |workspace| &workspace.path);
    for dir in [path, &launch.cwd] {
        if !Path::new(dir).is_dir() {
            let message = format!("pane {} cannot be restored: `{dir}` is missing", launch.name);
            return Err(ErrorBody::new(ErrorCode::Conflict, message).hint(
                "put the directory back (what was retired is in the trash), or close the pane and \
                 start a new one",
            ));
        }
    }
    let Ok(Some(made)) = Made::read(pane_dir) else { return Ok(()) };
    // Whoever works in there may be about to write the index.
    if process::working_in(Path::new(path)).is_empty() {
        match made.remove_stale_lock() {
            Ok(true) => info!(pane = %launch.pane, "removed the lock of a git that was killed"),
            Ok(false) => {}
            Err(error) => warn!(pane = %launch.pane, %error, "a stale lock stays"),
        }
    }
    Ok(())
}

impl Supervisor {
    /// What every pane takes on disk, and what closing it would free.
    pub(crate) async fn usage(self: &Arc<Self>) -> Vec<PaneUsage> {
        let mut panes = self.every_pane();
        panes.sort_by_key(|pane| {
            let created = pane.launch().map(|launch| launch.created);
            (created, pane.id)
        });
        let root = self.root.clone();
        run_blocking(move || panes.iter().filter_map(|pane| usage_of(&root, pane)).collect()).await
    }
}

fn usage_of(root: &StateRoot, pane: &Pane) -> Option<PaneUsage> {
    let launch = pane.launch()?;
    let part = |name: &str| usage::bytes(&pane.dir.join(name));
    let [workspace, temp, output, log] = [WORKSPACE, "temp", "output", "log"].map(part);
    let config = root.apart(pane.id).iter().map(|path| usage::bytes(path)).sum();
    let work = if pane.look().state.is_live() {
        vec!["it runs".to_owned()]
    } else {
        workspace::find(&pane.dir, &pane.dir.join("output"), &root.locks()).lines
    };
    let all = usage::bytes(&pane.dir) + config;
    let frees = if work.is_empty() { all } else { 0 };
    let name = launch.name.clone();
    Some(PaneUsage { pane: pane.id, name, workspace, temp, output, config, log, frees, work })
}
