//! Workspaces of panes: chosen before a pane is planned, created before it is started, and removed
//! when it holds no unsaved work.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::StateRoot;
use host::copy;
use host::git::{Git, GitError, Trust};
use host::hooks;
use host::process;
use host::project::{self, Project, ProjectError};
use host::workspace::{self, RepositoryStatus, Work, WorkspacePlan, WorkspaceRecord};
use model::isolation::USER_HOME;
use model::limits::Limits;
use model::workspace::{Occupant, RepositoryState, SourceDirectory, WorkspacePlace, choose};
use model::{LaunchRecord, LaunchRequest, Name, PaneId, Workspace, WorkspaceKind};
use parking_lot::Mutex;
use protocol::control::UncommittedFiles;
use protocol::workspace::{PaneWork, UnsavedWork};
use tracing::{info, warn};

use super::error::{PlanError, RestoreError, StartError};
use super::pane::Pane;
use crate::fault::{Advice, Description, Details, Fault, FaultKind};
use crate::registry::Registry;
use crate::runtime::{Runtime, run_blocking};
use crate::trash::{self, Expiry, RemovalFailure};

pub(crate) use host::workspace::WORKSPACE;

/// The variables of a client's environment that workspaces depend on.
struct ClientEnv<'a> {
    search: &'a str,
    home: Option<&'a str>,
}

impl<'a> ClientEnv<'a> {
    fn new(get: impl Fn(&str) -> Option<&'a str>) -> Self {
        let search = get("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin");
        // A pane with its own `HOME` passes the user's in another variable.
        Self { search, home: get(USER_HOME).or_else(|| get("HOME")) }
    }
}

/// Returns the maximum number of bytes that may be copied into a workspace under these limits.
pub(crate) fn limit(limits: Limits) -> u64 {
    limits.disk.map_or(u64::MAX, |disk| disk.0)
}

/// Chooses the workspace of a requested pane. Runs git at most once, and only for kinds of workspace
/// that depend on it. Blocks.
///
/// # Errors
///
/// [`PlanError`] if the directory does not allow the requested kind.
pub(crate) fn decide(
    pane_dir: &Path,
    occupant: Occupant,
    requested: WorkspaceKind,
    request: &LaunchRequest,
    limit: u64,
) -> Result<WorkspacePlace, PlanError> {
    let is_auto = requested == WorkspaceKind::Auto;
    if requested == WorkspaceKind::Shared
        || is_auto && matches!(occupant, Occupant::Command | Occupant::Legacy)
    {
        return Ok(shared_place(&request.cwd));
    }
    let client = ClientEnv::new(|name| request.client_env.get(name).map(String::as_str));
    let real = fs::canonicalize(&request.cwd).unwrap_or_else(|_| PathBuf::from(&request.cwd));
    let found = workspace::repository_for(requested, &real, client.search, client.home);
    let home = client.home.map(|home| fs::canonicalize(home).unwrap_or_else(|_| home.into()));
    let is_home_or_root = real == Path::new("/") || home.as_deref() == Some(&real);
    let existing = pane_dir.ancestors().find_map(|dir| fs::canonicalize(dir).ok());
    let source = SourceDirectory {
        dir: &request.cwd,
        is_home_or_root,
        holds_panes: existing.is_some_and(|dir| dir.starts_with(&real)),
        repository: match &found {
            RepositoryStatus::None => RepositoryState::No,
            RepositoryStatus::GitMissing => RepositoryState::WithoutGit,
            RepositoryStatus::NoCommit(_) => RepositoryState::WithoutCommit,
            RepositoryStatus::Unusable(error) => RepositoryState::Unusable(error.to_string()),
            RepositoryStatus::Usable(_) => RepositoryState::Yes,
        },
        limit,
        fits: &|| copy::fits(&real, limit),
    };
    let kind = choose(requested, occupant, &source)?;
    if kind == WorkspaceKind::Shared {
        return Ok(shared_place(&request.cwd));
    }
    let text = |path: &Path| {
        path.to_str().map(str::to_owned).ok_or_else(|| PlanError::PathNotUtf8(path.to_owned()))
    };
    let path = pane_dir.join(WORKSPACE);
    let mut chosen =
        Workspace { kind, path: text(&path)?, ..shared_place(&text(&real)?).workspace };
    let mut cwd = path;
    if let (true, RepositoryStatus::Usable(repository)) = (chosen.is_git(), found) {
        chosen.source = text(&repository.top)?;
        chosen.repository = Some(text(&repository.common)?);
        chosen.base = repository.head;
        cwd.extend(&repository.prefix);
    }
    Ok(WorkspacePlace { workspace: chosen, cwd: text(&cwd)? })
}

/// Returns a directory as a shared workspace.
pub(crate) fn shared_place(dir: &str) -> WorkspacePlace {
    let workspace = Workspace {
        kind: WorkspaceKind::Shared,
        path: dir.to_owned(),
        source: dir.to_owned(),
        repository: None,
        branch: None,
        base: None,
    };
    WorkspacePlace { workspace, cwd: dir.to_owned() }
}

/// Returns a warning if a pane shares its directory only because git is not installed. Runs no
/// process, but blocks.
pub(crate) fn no_git_warning(requested: WorkspaceKind, record: &LaunchRecord) -> Option<String> {
    let workspace = record.workspace.as_ref()?;
    let is_agent = record.agent != model::agent::SHELL;
    if requested != WorkspaceKind::Auto || workspace.kind != WorkspaceKind::Shared || !is_agent {
        return None;
    }
    let client = ClientEnv::new(|name| record.env.get(name));
    let source = &workspace.source;
    workspace::is_git_missing(Path::new(source), client.search).then(|| {
        format!(
            "`{source}` is in a git repository, but git is not on your PATH: the pane works in the \
             directory itself, without a branch; install git, or use --workspace shared to silence \
             this warning"
        )
    })
}

/// Returns the uncommitted files of the user, if the workspace was created from a commit and does
/// not contain them. Runs git, and blocks.
pub(crate) fn uncommitted_files(record: &LaunchRecord) -> Option<UncommittedFiles> {
    let workspace = record.workspace.as_ref().filter(|workspace| workspace.is_git())?;
    let client = ClientEnv::new(|name| record.env.get(name));
    // Other panes may have worked in this tree.
    let git = Git::new(client.search, client.home, Trust::Agent);
    let count = git.status(Path::new(&workspace.source)).ok()?.len();
    (count > 0).then(|| UncommittedFiles { dir: workspace.source.clone(), count })
}

/// Branches that are named in a plan and may not exist yet, with their repositories.
type ReservedBranches = Mutex<BTreeSet<(String, String)>>;

/// Keeps a branch name from other panes until it is dropped.
pub(crate) struct BranchReservation {
    reserved: Arc<ReservedBranches>,
    key: (String, String),
}

impl Drop for BranchReservation {
    fn drop(&mut self) {
        self.reserved.lock().remove(&self.key);
    }
}

/// The service that creates, sets up and checks workspaces.
#[derive(Clone)]
pub(crate) struct Workspaces {
    runtime: Arc<Runtime>,
    registry: Registry,
    reserved_branches: Arc<ReservedBranches>,
}

impl Workspaces {
    pub(super) fn new(runtime: Arc<Runtime>, registry: Registry) -> Self {
        Self { runtime, registry, reserved_branches: Arc::default() }
    }

    /// Names the branch of a chosen workspace. No other pane can get the name until the returned
    /// reservation is dropped, which must be after the branch was created. Blocks.
    ///
    /// # Errors
    ///
    /// [`GitError`] if the branches of the repository cannot be listed.
    pub(crate) fn name_branch(
        &self,
        mut place: WorkspacePlace,
        session: &Name,
        pane: &Name,
        env: &BTreeMap<String, String>,
    ) -> Result<(WorkspacePlace, Option<BranchReservation>), GitError> {
        let Some(repository) = place.workspace.repository.clone() else { return Ok((place, None)) };
        let client = ClientEnv::new(|name| env.get(name).map(String::as_str));
        let git = Git::new(client.search, client.home, Trust::User);
        // Held while git runs, so that a branch is always either reserved or listed.
        let mut reserved = self.reserved_branches.lock();
        let mut taken = git.branches(Path::new(&repository))?;
        let others = reserved.iter().filter(|(other, _)| *other == repository);
        taken.extend(others.map(|(_, branch)| branch.clone()));
        let branch = model::workspace::branch(session, pane, &taken);
        place.workspace.branch = Some(branch.clone());
        let key = (repository, branch);
        reserved.insert(key.clone());
        drop(reserved);
        let reserved = Arc::clone(&self.reserved_branches);
        Ok((place, Some(BranchReservation { reserved, key })))
    }

    /// Creates the workspace of a planned pane. Blocks.
    pub(crate) fn make(&self, pane_dir: &Path, record: &LaunchRecord) -> Result<(), StartError> {
        let Some(workspace) = &record.workspace else { return Ok(()) };
        let client = ClientEnv::new(|name| record.env.get(name));
        workspace::make(&WorkspacePlan {
            workspace,
            pane_dir,
            locks: &self.runtime.root.locks(),
            search: client.search,
            home: client.home,
            limit: limit(record.limits),
        })?;
        if !workspace.is_git() {
            return Ok(());
        }
        // The requested directory may be untracked, so that a new work tree does not have it.
        let cwd = Path::new(&record.cwd);
        let failed = |error| host::file::FileError::when("create", cwd)(error);
        fs::create_dir_all(cwd).map_err(|error| StartError::Workspace(failed(error).into()))
    }

    /// Runs the setup commands of the project in a new workspace, if the user trusts its project
    /// file. Returns a warning if they were skipped. Blocks.
    pub(crate) fn set_up(
        &self,
        pane_dir: &Path,
        record: &LaunchRecord,
    ) -> Result<Vec<String>, StartError> {
        let (project, trusted) = match self.project(record) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(Vec::new()),
            Err(error) => return Ok(vec![format!("project setup skipped: {error}")]),
        };
        if project.setup.is_empty() {
            return Ok(Vec::new());
        }
        if !trusted {
            let (path, dir) = (project.path.display(), project.path.parent());
            let dir = dir.unwrap_or(Path::new("/")).display();
            return Ok(vec![format!(
                "project setup skipped: `{path}` is not trusted; review it, then run `ccmux trust {dir}`"
            )]);
        }
        hooks::point("workspace.setting-up");
        let log = pane_dir.join("log/setup.log");
        project::run(&project.setup, Path::new(&record.cwd), &record.env, &log)
            .map_err(|why| StartError::Setup { file: project.path.clone(), why })?;
        Ok(Vec::new())
    }

    /// Reads the project file of a workspace that was created for a pane. Also returns whether it is
    /// trusted.
    fn project(&self, record: &LaunchRecord) -> Result<Option<(Project, bool)>, ProjectError> {
        let Some(workspace) = &record.workspace else { return Ok(None) };
        if !workspace.is_own() || workspace.kind == WorkspaceKind::Empty {
            return Ok(None);
        }
        let Some(project) = project::read(Path::new(&workspace.source))? else { return Ok(None) };
        let trusted = project.is_trusted(&project::trust(&self.runtime.root)?);
        Ok(Some((project, trusted)))
    }

    /// Runs the teardown commands of the project before a workspace is removed. A failure is
    /// recorded as an event and does not prevent the removal.
    pub(crate) async fn tear_down(&self, pane: &Pane) {
        let Some(record) = pane.launch() else { return };
        let (this, dir) = (self.clone(), pane.dir.clone());
        let failed = run_blocking(move || {
            let project = this.project_with_teardown(&record)?;
            let (cwd, log) = (Path::new(&record.cwd), dir.join("log/teardown.log"));
            let failed = project::run(&project.teardown, cwd, &record.env, &log).err()?;
            Some(RemovalFailure { path: project.path, why: failed })
        });
        let failed = failed.await;
        trash::report_removal_failures(&self.registry, failed.into_iter().collect()).await;
    }

    /// Returns whether [`Self::tear_down`] runs commands.
    pub(crate) async fn has_teardown(&self, pane: &Pane) -> bool {
        let Some(record) = pane.launch() else { return false };
        let this = self.clone();
        run_blocking(move || this.project_with_teardown(&record).is_some()).await
    }

    /// Returns the trusted project of a workspace, if it has teardown commands. Blocks.
    fn project_with_teardown(&self, record: &LaunchRecord) -> Option<Project> {
        let (project, true) = self.project(record).ok().flatten()? else { return None };
        (!project.teardown.is_empty() && Path::new(&record.cwd).is_dir()).then_some(project)
    }

    pub(super) fn state_root(&self) -> &StateRoot {
        &self.runtime.root
    }
}

/// Unsaved work that prevents the removal of a pane or session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnsavedWorkFound {
    #[error("pane {name} {}, because it has unsaved work:{}", kept(*running), listed(work))]
    Pane { pane: PaneId, name: Name, cwd: String, work: Work, running: bool },
    #[error(
        "session {session} {}, because it has unsaved work:{}",
        kept(*running),
        each_listed(panes)
    )]
    Session { session: Name, panes: Vec<(Name, Work)>, running: bool },
}

impl UnsavedWorkFound {
    /// The work of a pane. It is `running` if it was examined before anything was stopped.
    pub(crate) fn of_pane(name: &Name, pane: &Pane, work: Work, running: bool) -> Self {
        let cwd = pane.launch().map(|launch| launch.cwd.clone()).unwrap_or_default();
        Self::Pane { pane: pane.id, name: name.clone(), cwd, work, running }
    }
}

/// Says what a refused removal has left.
fn kept(running: bool) -> &'static str {
    if running { "keeps running" } else { "has ended and is kept" }
}

impl Fault for UnsavedWorkFound {
    fn describe(&self) -> Description {
        let (advice, panes) = match self {
            Self::Pane { pane, name, cwd, work, running } => {
                let (pane, cwd, token) = (pane.short(), cwd.clone(), work.token());
                let advice = Advice::DiscardPane { pane, cwd, token, running: *running };
                (advice, vec![pane_work(name, work)])
            }
            Self::Session { session, panes, running } => {
                let tokens = panes.iter().map(|(_, work)| work.token()).collect();
                let works = panes.iter().map(|(name, work)| pane_work(name, work)).collect();
                let session = session.to_string();
                (Advice::DiscardSession { session, tokens, running: *running }, works)
            }
        };
        FaultKind::Conflict.advise(advice).with_details(Details::UnsavedWork(UnsavedWork { panes }))
    }
}

fn pane_work(name: &Name, work: &Work) -> PaneWork {
    PaneWork { name: name.clone(), work: work.lines.clone(), discard: work.token() }
}

fn listed(work: &Work) -> String {
    work.lines.iter().map(|line| format!("\n  {line}")).collect()
}

fn each_listed(panes: &[(Name, Work)]) -> String {
    panes.iter().map(|(name, work)| format!("\n pane {name}:{}", listed(work))).collect()
}

/// Moves the git work tree of a pane to the trash and removes it from its repository. This precedes
/// the removal of the pane's directory, which has the record of the work tree. Paths that could not
/// be removed are added to `failures`. Blocks.
pub(crate) fn retire(
    locks: &Path,
    dir: &Path,
    trash_dir: &Path,
    pane: PaneId,
    expiry: Expiry,
    failures: &mut Vec<RemovalFailure>,
) -> Result<Option<PathBuf>, host::file::FileError> {
    let record = match WorkspaceRecord::read(dir) {
        Ok(Some(record)) => record,
        Ok(None) => return Ok(None),
        Err(error) => {
            failures
                .push(RemovalFailure { path: dir.join(workspace::RECORD), why: error.to_string() });
            return Ok(None);
        }
    };
    if let Err(error) = record.wait_until_made(dir, locks) {
        warn!(%pane, %error, "workspace is still being created");
    }
    if record.workspace.kind != WorkspaceKind::Worktree {
        // It is moved together with the directory of its pane.
        return Ok(None);
    }
    let moved = trash::retire_unsynced(&dir.join(WORKSPACE), trash_dir, WORKSPACE, pane, expiry)?;
    hooks::point("workspace.shelved");
    if let Err(error) = record.forget(locks) {
        let path = record.workspace.repository.unwrap_or_default().into();
        failures.push(RemovalFailure { path, why: error.to_string() });
    }
    hooks::point("workspace.forgotten");
    Ok(moved)
}

/// Checks that the directories of an ended pane still exist, and removes a stale git lock. Blocks.
///
/// # Errors
///
/// [`RestoreError::DirectoryMissing`].
pub(crate) fn check_restorable(pane_dir: &Path, launch: &LaunchRecord) -> Result<(), RestoreError> {
    let path = launch.workspace.as_ref().map_or(&launch.cwd, |workspace| &workspace.path);
    for dir in [path, &launch.cwd] {
        if !Path::new(dir).is_dir() {
            let (pane, dir) = (launch.name.clone(), dir.clone());
            return Err(RestoreError::DirectoryMissing { pane, dir });
        }
    }
    let Ok(Some(record)) = WorkspaceRecord::read(pane_dir) else { return Ok(()) };
    // A process that works in the tree may be about to write the index.
    if process::working_in(Path::new(path)).is_empty() {
        match record.remove_stale_lock() {
            Ok(true) => info!(pane = %launch.pane, "stale git lock removed"),
            Ok(false) => {}
            Err(error) => warn!(pane = %launch.pane, %error, "stale git lock not removed"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use host::file::{Durability, write_atomic};

    use super::*;

    /// A directory that looks like a repository, and a search path whose git counts its runs.
    struct Fixture {
        base: tempfile::TempDir,
        request: LaunchRequest,
    }

    impl Fixture {
        fn new() -> Self {
            let base = tempfile::tempdir().unwrap();
            let (project, bin) = (base.path().join("project"), base.path().join("bin"));
            fs::create_dir_all(project.join(".git")).unwrap();
            fs::create_dir(&bin).unwrap();
            let script = format!(
                "#!/bin/sh\necho run >> '{}'\nexit 1\n",
                base.path().join("runs").display()
            );
            let git = bin.join("git");
            write_atomic(&git, script.as_bytes(), Durability::ProcessCrash).unwrap();
            fs::set_permissions(&git, fs::Permissions::from_mode(0o700)).unwrap();
            let request = LaunchRequest {
                cwd: project.to_str().unwrap().to_owned(),
                client_env: [("PATH".to_owned(), bin.to_str().unwrap().to_owned())].into(),
                ..LaunchRequest::default()
            };
            Self { base, request }
        }

        fn decide(&self, requested: WorkspaceKind) -> Result<WorkspacePlace, PlanError> {
            self.decide_for(Occupant::Agent, requested)
        }

        fn decide_for(
            &self,
            occupant: Occupant,
            requested: WorkspaceKind,
        ) -> Result<WorkspacePlace, PlanError> {
            let pane_dir = self.base.path().join("state/pane");
            decide(&pane_dir, occupant, requested, &self.request, u64::MAX)
        }

        fn git_runs(&self) -> usize {
            let runs = fs::read_to_string(self.base.path().join("runs"));
            runs.unwrap_or_default().lines().count()
        }
    }

    #[test]
    fn decide_runs_git_only_for_kinds_that_depend_on_it() {
        use WorkspaceKind::{Auto, Clone, Copy, Empty, Shared, Worktree};
        let fixture = Fixture::new();

        for kind in [Empty, Copy, Shared] {
            assert_eq!(fixture.decide(kind).unwrap().workspace.kind, kind);
        }
        let command = fixture.decide_for(Occupant::Command, Auto).unwrap();
        assert_eq!(command.workspace.kind, Shared);
        assert_eq!(fixture.git_runs(), 0);

        assert_eq!(fixture.decide(Auto).unwrap().workspace.kind, Shared);
        assert_eq!(fixture.git_runs(), 1);
        for (count, kind) in [Worktree, Clone].into_iter().enumerate() {
            assert!(matches!(fixture.decide(kind), Err(PlanError::Workspace(_))), "{kind:?}");
            assert_eq!(fixture.git_runs(), count + 2, "{kind:?}");
        }
    }

    #[test]
    fn decide_for_agent_without_git_shares_the_requested_directory() {
        let mut fixture = Fixture::new();
        fixture.request.client_env.insert("PATH".to_owned(), "/nonexistent".to_owned());

        let place = fixture.decide(WorkspaceKind::Auto).unwrap();

        assert_eq!(place, shared_place(&fixture.request.cwd));
    }
}
