//! Creation and start of panes, and the parts of it that restore shares: the plan, the isolated
//! directories and the start of the keeper.
//!
//! ```text
//!  request --> entry --> directories --> records --> keeper started --> ready --> announced --> answer
//!             (registry)                              \                 /
//!                                                      records synced -+
//! ```
//!
//! The registry entry is written before the directory, and the answer is sent after everything is on
//! disk. If the daemon is killed before the keeper was started, recovery rolls the pane back; if it
//! is killed later, recovery adopts the pane. The entry by itself is not synced: the commit that
//! announces the pane makes it durable as well, and until then no client knows of the pane.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::file::{self, Durability, FileError};
use host::pane_dirs::{self, SeedContext};
use host::store::{Removed, StoreError};
use host::workspace::WorkDir;
use host::{StateRoot, clock, hooks, lock, record, repository, shared, template};
use model::config::Config;
use model::launch;
use model::launch::{Launch, LaunchContext, LaunchError, NewPane, PanePaths, Plan};
use model::workspace::Occupant;
use model::{
    ConversationId, LaunchRecord, LaunchRequest, Name, PaneId, SessionMode, SessionRecord,
};
use protocol::control::SOCKET as CONTROL_SOCKET;
use tokio::task::JoinSet;
use tracing::warn;

use super::conversation::import_transcript;
use super::error::{PlanError, StartError};
use super::hook_files::{self, HookSetup};
use super::pane::{Keeper, LAUNCH_RECORD, Life, Pane};
use super::retire::Retention;
use super::spawn::{self, StartingKeeper};
use super::workspace::Reservation;
use super::{Panes, limits, workspace};
use crate::runtime::run_blocking;
use crate::sessions::{self as session, SESSION_RECORD};

/// Subdirectories of every pane's directory.
pub(crate) const PANE_SUBDIRS: [&str; 4] = ["temp", "output", "workspace", "log"];

/// The treatment of isolated directories that exist before a pane is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExistingDirs {
    /// An error: a new pane never uses a directory that ccmux did not create for it.
    Refuse,
    /// Kept, and missing contents are added.
    Complete,
}

/// The registry entry of a pane that is being created.
pub(crate) struct PaneEntry {
    pub(crate) session: SessionRecord,
    /// Whether the session is not announced yet. Its directory may not exist.
    pub(crate) session_is_new: bool,
    pub(crate) name: Name,
}

/// Returns whether the workspace of a known pane is in this directory of `work/`, also if the
/// directory is moved aside or missing.
pub(crate) fn is_work_dir_in_use(panes: &Panes, dir: &Path) -> bool {
    let is_in = |pane: &Arc<Pane>| {
        let launch = pane.launch();
        let workspace = launch.as_ref().and_then(|launch| launch.workspace.as_ref());
        workspace.is_some_and(|workspace| Path::new(&workspace.path).parent() == Some(dir))
    };
    panes.all().iter().any(is_in)
}

impl Panes {
    /// Publishes a pane whose keeper is ready as live, and starts to watch it.
    pub(crate) fn supervise(self: &Arc<Self>, pane: &Arc<Pane>, keeper: Keeper) {
        let keeper = Arc::new(keeper);
        self.keepers.ready(pane.id, &keeper.record.keeper, &keeper.record.child);
        pane.publish(Life::Live(Arc::clone(&keeper)));
        self.watch(pane, keeper);
        self.conversations.follow(pane);
        self.probes.probe_in_background(pane);
        self.lifecycle.pane_live(pane.id);
        self.lifecycle.pane_transitioned(pane.id);
    }

    /// Creates the files and directories of a planned pane and starts its keeper. Also returns
    /// warnings for the user. Blocks.
    pub(crate) fn create_files(
        &self,
        files: &PaneFiles,
        plan: &Plan,
        config: &Config,
    ) -> Result<(StartingKeeper, Vec<String>), StartError> {
        let Plan { record, resumes, .. } = plan;
        files.create_dirs(&self.runtime.root)?;
        shared::prepare(&self.runtime.root)?;
        self.workspaces.make(&files.pane_dir, record, files.carry)?;
        self.prepare_isolation(plan, config, ExistingDirs::Refuse)?;
        if let Some(id) = resumes {
            import_transcript(plan, id);
        }
        hooks::point("new.isolation_dirs");
        let warnings = self.workspaces.set_up(&files.pane_dir, record)?;
        files.write_records(record)?;
        let starting = self.start_keeper(record.pane, &files.pane_dir)?;
        Ok((starting, warnings))
    }

    /// Records in the registry that a pane runs.
    pub(crate) async fn record_running(&self, pane: &Pane) -> Result<(), StoreError> {
        let id = pane.id;
        let conversation = pane.launch().and_then(|launch| launch.conversation.clone());
        let recorded =
            self.registry.change(move |change| change.record_running(id, conversation.as_ref()));
        recorded.await
    }

    /// Records in the registry that a new pane runs, and adds `session_env` to the variables of its
    /// session. A pane that fails to start thus leaves its session unchanged.
    ///
    /// The session record follows the registry, so that a lost registry can be rebuilt from it.
    pub(crate) async fn record_started(
        &self,
        pane: &Pane,
        session_env: BTreeMap<String, String>,
    ) -> Result<(), StoreError> {
        if session_env.is_empty() {
            return self.record_running(pane).await;
        }
        let (id, session) = (pane.id, pane.session);
        let recorded = self.registry.change(move |change| {
            change.record_running(id, None)?;
            change.add_session_env(session, &session_env)
        });
        let record = recorded.await?;
        let path = self.runtime.root.session(session).join(SESSION_RECORD);
        let written =
            run_blocking(move || record::write(&path, &record, Durability::PowerLoss)).await;
        if let Err(error) = written {
            // The next start of the daemon repeats the write.
            warn!(%session, %error, "session record not updated");
        }
        Ok(())
    }

    /// Plans the start of a new pane. Also returns the reservation of its branch and work
    /// directory, which is needed until the workspace exists. Blocks.
    pub(crate) fn plan_new(
        &self,
        pane: &Pane,
        entry: &PaneEntry,
        request: &LaunchRequest,
        config: &Config,
    ) -> Result<(Plan, Option<Reservation>), PlanError> {
        let requested = request.workspace.unwrap_or(config.workspace);
        let limit = workspace::limit(config.limits.with(&request.limits));
        let (agent, _) = launch::check(request, &config.agents, &config.roles)?;
        let session = &entry.session;
        let occupant = match session.mode {
            SessionMode::Legacy => Occupant::Legacy,
            SessionMode::Isolated if agent.is_shell() => Occupant::Command,
            SessionMode::Isolated => Occupant::Agent,
        };
        let root = &self.runtime.root;
        let work_dir = root.work().join(session.name.as_str()).join(entry.name.as_str());
        let place = workspace::decide(&work_dir, occupant, requested, request, limit)?;
        workspace::check_carry(&place, request)?;
        let env = &request.client_env;
        let in_use = |dir: &Path| is_work_dir_in_use(self, dir);
        let (place, reservation) =
            self.workspaces.reserve(place, &session.name, &entry.name, env, &in_use)?;
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let new = NewPane {
            pane: pane.id,
            session: pane.session,
            session_name: session.name.clone(),
            name: entry.name.clone(),
            paths: PanePaths {
                socket: text(root.run().join(CONTROL_SOCKET)),
                temp: text(pane.dir.join("temp")),
                output: text(pane.dir.join("output")),
                shared: text(root.shared()),
                unit: text(session::part_dir(root, session, "unit")),
                workflows: text(session::part_dir(root, session, "workflows")),
                logs: text(root.session(pane.session).join("logs")),
            },
            place: Some(place),
            owner: rustix::process::geteuid().as_raw(),
            method: session.isolation.unwrap_or(config.isolation.method),
            roles: &config.roles,
            shared_env: &config.env,
            session_env: &session.env,
            ports: self.ports.lease(pane.id, config.ports)?,
            conversation: ConversationId::from_random(clock::random_id()),
            limits: config.limits,
            now: clock::now(),
            version: env!("CARGO_PKG_VERSION"),
        };
        let plan = self.plan(pane, Launch::New(request, &new), &request.cwd, config)?;
        Ok((plan, reservation))
    }

    /// Plans the start of a pane whose agent was requested in the directory `cwd`. Checks which of
    /// the user's files exist, but reads only settings files that the user's arguments name. Blocks.
    pub(crate) fn plan(
        &self,
        pane: &Pane,
        launch: Launch<'_>,
        cwd: &str,
        config: &Config,
    ) -> Result<Plan, LaunchError> {
        let hook_setup = HookSetup::new(&self.runtime, pane.id, &pane.dir, cwd, config);
        hook_setup.with(config, |hooks| {
            let context = LaunchContext {
                root: &self.runtime.root.path().to_string_lossy(),
                isolation: &config.isolation,
                agents: &config.agents,
                exists: &|path| Path::new(path).exists(),
                hooks,
            };
            launch::plan(launch, &context)
        })
    }

    /// Creates and fills the directories that isolate a pane, and writes its hook file. Blocks.
    pub(crate) fn prepare_isolation(
        &self,
        plan: &Plan,
        config: &Config,
        existing: ExistingDirs,
    ) -> Result<(), FileError> {
        let Plan { record, setups, .. } = plan;
        let trusted = repository::trust_roots(Path::new(&record.cwd));
        let context = SeedContext {
            trusted: &trusted,
            share: &config.isolation.used(),
            environment: &record.env,
        };
        let is_kept = |dir: &Path| matches!(existing, ExistingDirs::Complete) && dir.exists();
        if let Some(temp) = record.isolation.temp.as_deref().map(Path::new)
            && !is_kept(temp)
        {
            pane_dirs::create_new(temp)?;
        }
        for setup in setups {
            if is_kept(Path::new(&setup.dir)) {
                pane_dirs::fill(setup, &context, &self.digests)?;
            } else {
                pane_dirs::create(setup, &context, &self.digests)?;
            }
        }
        hook_files::write(plan.hook_file.as_ref())
    }

    /// Starts the keeper of a pane whose launch record is written.
    pub(crate) fn start_keeper(
        &self,
        pane: PaneId,
        dir: &Path,
    ) -> Result<StartingKeeper, FileError> {
        let busy = || FileError::when("lock", dir)(std::io::ErrorKind::ResourceBusy.into());
        let lock = lock::take_dir(dir)?.ok_or_else(busy)?;
        let (exe, root) = (&self.runtime.exe, self.runtime.root.path());
        self.keepers.start(pane, || spawn::start(exe, root, dir, &lock))
    }

    /// Rolls back a pane that could not be started: first its directory, then its entry, because
    /// recovery handles an entry without a directory.
    pub(crate) async fn roll_back(&self, pane: &Pane) {
        let (id, session) = (pane.id, pane.session);
        self.conversations.claims.release(id);
        self.keepers.ended(id);
        let dir = pane.dir.clone();
        run_blocking(move || limits::remove_groups(&dir)).await;
        self.retire_pane(pane, Retention::Trash).await;
        let removed = self.registry.change(move |change| change.remove_pane(id)).await;
        pane.publish(Life::Gone(None));
        self.forget(id);
        match removed {
            Ok(Removed::PaneAndSession) => {
                drop(self.sessions.retire(session).await);
            }
            Ok(Removed::Pane) | Err(StoreError::Gone) => {
                self.lifecycle.pane_removed(session, id).await;
            }
            Err(error) => {
                warn!(%error, %session, pane = %id, "registry entry not rolled back");
            }
        }
    }
}

/// Checks a request before anything is created for it. Returns the program and its arguments.
///
/// # Errors
///
/// [`PlanError`] if the request is invalid or its directory cannot be used.
pub(crate) async fn check(
    request: &Arc<LaunchRequest>,
    config: &Config,
) -> Result<Vec<String>, PlanError> {
    let (_, argv) = launch::check(request, &config.agents, &config.roles)?;
    let cwd = Arc::clone(request);
    let why = match run_blocking(move || std::fs::metadata(&cwd.cwd)).await {
        Ok(found) if found.is_dir() => return Ok(argv),
        Ok(_) => "it is not a directory".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(PlanError::Directory { cwd: request.cwd.clone(), why })
}

/// The files and directories of a pane that is being created.
pub(crate) struct PaneFiles {
    pub(crate) session: SessionRecord,
    pub(crate) session_is_new: bool,
    /// The request that a new session was created from.
    pub(crate) origin: Option<serde_json::Value>,
    pub(crate) session_dir: PathBuf,
    pub(crate) pane_dir: PathBuf,
    /// Whether the uncommitted changes of the user are copied into the workspace.
    pub(crate) carry: bool,
}

impl PaneFiles {
    fn create_dirs(&self, root: &StateRoot) -> Result<(), StartError> {
        if self.session_is_new {
            let created = session::create_dir(root, &self.session, self.origin.as_ref());
            created.map_err(|error| StartError::Session(Box::new(error)))?;
        } else {
            // A session directory that was lost is created again for the next pane.
            file::make_dir(&self.session_dir)?;
            file::make_dir(&self.session_dir.join("panes"))?;
        }
        file::make_dir(&self.pane_dir)?;
        for subdir in PANE_SUBDIRS {
            file::make_dir(&self.pane_dir.join(subdir))?;
        }
        hooks::point("new.directories");
        Ok(())
    }

    /// Writes the records, once everything that they describe exists.
    fn write_records(&self, launch: &LaunchRecord) -> Result<(), FileError> {
        let path = self.session_dir.join(SESSION_RECORD);
        if self.session_is_new || !path.exists() {
            record::write(&path, &self.session, Durability::ProcessCrash)?;
        }
        record::write(&self.pane_dir.join(LAUNCH_RECORD), launch, Durability::ProcessCrash)?;
        hooks::point("new.recorded");
        Ok(())
    }

    /// Syncs everything to the disk: file contents first, then directory entries.
    pub(crate) async fn sync(&self, root: &StateRoot) -> Result<(), FileError> {
        let mut contents = vec![self.pane_dir.join(LAUNCH_RECORD)];
        contents.extend(host::workspace::records(&self.pane_dir));
        let mut dirs = vec![self.pane_dir.clone(), self.session_dir.join("panes")];
        dirs.extend(WorkDir::find(root.path(), &self.pane_dir).iter().flat_map(WorkDir::parents));
        if self.session_is_new {
            let files = [SESSION_RECORD, session::ORIGIN];
            contents.extend(files.map(|file| self.session_dir.join(file)));
            dirs.extend([self.session_dir.clone(), root.sessions()]);
        }
        sync_concurrently(contents, file::sync).await?;
        if self.session_is_new && self.session.template.is_some() {
            let dir = self.session_dir.clone();
            run_blocking(move || template::sync(&dir)).await?;
        }
        sync_concurrently(dirs, file::sync_dir).await
    }
}

/// Syncs several paths at once: concurrent syncs share one commit of the file system's journal.
async fn sync_concurrently(
    paths: Vec<PathBuf>,
    sync: fn(&Path) -> Result<(), FileError>,
) -> Result<(), FileError> {
    let mut syncing = JoinSet::new();
    for path in paths {
        syncing.spawn_blocking(move || sync(&path));
    }
    syncing.join_all().await.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use model::SessionId;

    use super::*;

    fn files(root: &StateRoot, session_is_new: bool) -> PaneFiles {
        let id = SessionId::from_random([1; 16]);
        let session = SessionRecord {
            id,
            name: SessionRecord::default_name(&id),
            mode: model::SessionMode::Isolated,
            created: clock::now(),
            implicit: false,
            isolation: None,
            env: BTreeMap::new(),
            template: None,
            project: None,
        };
        PaneFiles {
            session,
            session_is_new,
            origin: session_is_new.then(|| serde_json::json!({ "kind": "new" })),
            session_dir: root.session(id),
            pane_dir: root.pane(id, PaneId::from_random([2; 16])),
            carry: false,
        }
    }

    #[tokio::test]
    async fn create_dirs_for_new_or_lost_session_creates_all_pane_subdirs() {
        for session_is_new in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let root = StateRoot::open(&dir.path().join("home")).unwrap();
            let files = files(&root, session_is_new);

            files.create_dirs(&root).unwrap();

            for subdir in PANE_SUBDIRS {
                assert!(files.pane_dir.join(subdir).is_dir(), "{subdir}");
            }
            assert_eq!(files.session_dir.join(session::ORIGIN).is_file(), session_is_new);
        }
    }

    #[tokio::test]
    async fn check_of_missing_or_regular_file_cwd_reports_path_and_reason() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        host::file::write_atomic(&file, b"", Durability::ProcessCrash).unwrap();
        let cases = [(file, "it is not a directory"), (dir.path().join("none"), "No such file")];
        for (cwd, expected) in cases {
            let cwd = cwd.to_str().unwrap().to_owned();
            let request = LaunchRequest {
                cwd: cwd.clone(),
                command: vec!["sh".to_owned()],
                ..LaunchRequest::default()
            };

            let error = check(&Arc::new(request), &Config::default()).await.unwrap_err();

            let text = error.to_string();
            assert!(text.contains(&cwd) && text.contains(expected), "{text}");
        }
    }
}
