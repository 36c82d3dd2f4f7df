//! One way to start a pane.
//!
//! ```text
//!  request --> entry --> directories --> records --> keeper started --> ready --> told --> answer
//!             (registry)                              \                 /
//!                                                      records synced -+
//! ```
//!
//! The entry comes before the directory, and the answer after everything is on disk. Killed before
//! the keeper was started, recovery undoes it; killed later, recovery adopts the pane. The entry
//! alone is not synced: the commit that tells of the pane makes it durable too, and until then
//! there is nothing that somebody could miss.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::file::{self, FileError, Survive};
use host::furnish::{self, Surroundings};
use host::store::{Change, Made, NewPane, Removed, StoreError};
use host::{StateRoot, clock, hooks, lock, record, repository, shared};
use model::config::Config;
use model::launch::{self, PanePaths, Plan, Setting};
use model::resolve::{Candidate, Target, resolve};
use model::{ConversationId, LaunchRecord, LaunchRequest, Name, PaneId, SessionId, SessionRecord};
use protocol::client::CONTROL_SOCKET;
use protocol::control::PaneAnswer;
use protocol::{ErrorBody, ErrorCode};
use serde::Serialize;
use tokio::task::JoinSet;
use tracing::{info, warn};

use crate::command::resolution::ambiguous;
use crate::command::{Failure, limits};
use crate::hooked;
use crate::once;
use crate::pane::{Keeper, LAUNCH_RECORD, Life, Pane};
use crate::retire::Keep;
use crate::session::{self, SessionWish};
use crate::spawn::{self, Starting};
use crate::supervisor::{Supervisor, point, run_blocking};
use crate::trash::{self, Since};
use crate::workspace;

/// The session record in a session's directory.
pub(crate) const SESSION_RECORD: &str = ".session";

/// The directories in a pane's directory.
pub(crate) const PARTS: [&str; 4] = ["temp", "output", "workspace", "log"];

/// What the registry says of a pane that is being made.
struct Entry {
    session: SessionRecord,
    /// Nobody knows of the session yet, so it may have nothing on disk.
    session_is_new: bool,
    name: Name,
}

impl Supervisor {
    /// Starts a pane, whole or not at all.
    pub(crate) async fn launch(
        self: &Arc<Self>,
        request: LaunchRequest,
    ) -> Result<PaneAnswer, ErrorBody> {
        let id = PaneId::from_random(clock::random_id());
        let request = Arc::new(request);
        let config = self.config().await?;
        let argv = check(&request, &config).await?;
        let mode = request.mode.or(request.default_mode).unwrap_or_default();
        self.check_template(mode, request.template.as_deref()).await?;
        let entry = self.enter(id, Arc::clone(&request), argv).await?;
        point("new.entered").await;
        let dir = self.root.pane(entry.session.id, id);
        let pane = Arc::new(Pane::new(id, entry.session.id, dir, Life::Starting));
        self.add(Arc::clone(&pane));
        match self.make(&pane, entry, request, config).await {
            Ok((keeper, warnings)) => {
                info!(pane = %id, session = %pane.session, "started");
                self.take_over(&pane, keeper);
                point("new.committed").await;
                Ok(PaneAnswer { warnings, ..self.pane_answer(id).await? })
            }
            Err(error) => {
                self.undo(&pane).await;
                Err(error)
            }
        }
    }

    /// Watches over a pane whose keeper is ready.
    pub(crate) fn take_over(self: &Arc<Self>, pane: &Arc<Pane>, keeper: Keeper) {
        let keeper = Arc::new(keeper);
        pane.publish(Life::Live(Arc::clone(&keeper)));
        self.watch(pane, keeper);
        self.follow(pane);
        self.probe(pane);
        self.deliver_soon(pane.id);
        self.note_step(pane.id);
    }

    /// Enters the pane, and its session if it is a new one.
    async fn enter(
        &self,
        id: PaneId,
        request: Arc<LaunchRequest>,
        argv: Vec<String>,
    ) -> Result<Entry, ErrorBody> {
        let entered = self.registry.apply(Survive::Kill, move |change| {
            let (mut session, session_is_new) = session_for(change, &request)?;
            session.env.extend(request.session_env.clone());
            let taken = change.pane_names(session.id)?;
            let name = match &request.name {
                Some(name) => name.clone(),
                None => launch::default_name(&argv).free(|name| taken.contains(name)),
            };
            let created = clock::now();
            change.add_pane(&NewPane { id, session: session.id, name: name.clone(), created })?;
            if let Some(key) = &request.key {
                change.add_key(key, Made::Pane(id), &once::launch_digest(&request))?;
            }
            Ok::<_, Failure>(Entry { session, session_is_new, name })
        });
        entered.await.map_err(Failure::into_body)
    }

    /// Directories, records, keeper; then tells of the pane.
    async fn make(
        self: &Arc<Self>,
        pane: &Arc<Pane>,
        entry: Entry,
        request: Arc<LaunchRequest>,
        config: Arc<Config>,
    ) -> Result<(Keeper, Vec<String>), ErrorBody> {
        let (this, planned, wishes) = (Arc::clone(self), Arc::clone(pane), Arc::clone(&config));
        let (session_env, prompt) = (request.session_env.clone(), request.prompt.clone());
        let origin = entry.session_is_new.then(|| session::origin(&request));
        let asked = request.workspace.unwrap_or(config.workspace);
        let (plan, entry) = run_blocking(move || {
            let plan = this.plan(&planned, &entry, &request, &wishes);
            (plan, entry)
        })
        .await;
        let mut plan = plan?;
        pane.set_launch(plan.record.clone());
        if let Some(id) = &plan.record.conversation {
            self.claim(pane.id, id).await?;
        }
        let files = Files {
            session: entry.session,
            session_is_new: entry.session_is_new,
            origin,
            session_dir: self.root.session(pane.session),
            pane_dir: pane.dir.clone(),
        };
        let (this, known) = (Arc::clone(self), Arc::clone(pane));
        let (files, starting, without_git) = run_blocking(move || {
            let starting = this.make_files(&files, &mut plan, &config, &known);
            (files, starting, workspace::in_want_of_git(asked, &plan.record))
        })
        .await;
        let (starting, mut warnings) = starting?;
        warnings.extend(without_git);
        let (keeper, synced) = tokio::join!(starting.ready(), files.sync(&self.root));
        let keeper = keeper.map_err(|why| not_started(&why))?;
        // Before anybody is told of the pane: its first prompt is a promise, too.
        let ready = match (synced, &prompt) {
            (Ok(()), Some(prompt)) => self.queue_prompt(pane.id, prompt).await,
            (synced, _) => synced.map_err(not_written),
        };
        let told = match ready {
            Ok(()) => {
                point("new.started").await;
                self.tell_started(pane, session_env).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = told {
            self.end_unknown(pane, keeper).await;
            return Err(error);
        }
        Ok((keeper, warnings))
    }

    /// Makes everything of a pane that is on disk, and starts its keeper; also what was not done
    /// that somebody may have expected. Blocks.
    fn make_files(
        &self,
        files: &Files,
        plan: &mut Plan,
        config: &Config,
        pane: &Pane,
    ) -> Result<(Starting, Vec<String>), ErrorBody> {
        files.make_dirs(&self.root)?;
        shared::prepare(&self.root).map_err(not_written)?;
        self.make_workspace(&files.pane_dir, &mut plan.record, &files.session.name)?;
        pane.set_launch(plan.record.clone());
        self.keep_apart(plan, config).map_err(not_written)?;
        let warnings = self.set_up(&files.pane_dir, &plan.record)?;
        files.write(&plan.record).map_err(not_written)?;
        let starting = self.start_keeper(&files.pane_dir).map_err(not_written)?;
        Ok((starting, warnings))
    }

    /// Puts on record that a pane lives.
    pub(crate) async fn tell_alive(&self, pane: &Pane) -> Result<(), ErrorBody> {
        let id = pane.id;
        let conversation = pane.launch().and_then(|launch| launch.conversation.clone());
        let told = self.registry.change(move |change| change.tell_alive(id, conversation.as_ref()));
        told.await.map_err(|error| Failure::from(error).into_body())
    }

    /// What to start. Looks at which of the user's files there are, and reads none but settings that
    /// the user's own arguments name.
    fn plan(
        &self,
        pane: &Pane,
        entry: &Entry,
        request: &LaunchRequest,
        config: &Config,
    ) -> Result<Plan, ErrorBody> {
        let asked = request.workspace.unwrap_or(config.workspace);
        let limit = workspace::limit(config.limits.with(&request.limits));
        let place = workspace::decide(&pane.dir, entry.session.mode, asked, request, limit)?;
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let setting = Setting {
            pane: pane.id,
            session: pane.session,
            name: entry.name.clone(),
            paths: PanePaths {
                socket: text(self.root.run().join(CONTROL_SOCKET)),
                temp: text(pane.dir.join("temp")),
                output: text(pane.dir.join("output")),
                shared: text(self.root.shared()),
                unit: text(session::part_of(&self.root, &entry.session, "unit")),
                workflows: text(session::part_of(&self.root, &entry.session, "workflows")),
                logs: text(self.root.session(pane.session).join("logs")),
            },
            place: Some(place),
            root: &self.root.path().to_string_lossy(),
            owner: rustix::process::geteuid().as_raw(),
            method: entry.session.isolation.unwrap_or(config.isolation.method),
            isolation: &config.isolation,
            agents: &config.agents,
            roles: &config.roles,
            shared_env: &config.env,
            session_env: &entry.session.env,
            ports: self.lease_ports(pane.id, config.ports).map_err(unplannable)?,
            conversation: ConversationId::from_random(clock::random_id()),
            exists: &|path| Path::new(path).exists(),
            limits: config.limits,
            hooks: None,
            now: clock::now(),
            version: env!("CARGO_PKG_VERSION"),
        };
        let hooking = self.hooking(pane.id, &pane.dir, &request.cwd, config);
        let planned =
            hooking.with(config, |hooks| launch::plan(request, &Setting { hooks, ..setting }));
        planned.map_err(unplannable)
    }

    /// Makes the directories that keep a pane apart, and fills them.
    fn keep_apart(&self, plan: &Plan, config: &Config) -> Result<(), FileError> {
        let Plan { record, furnishings, .. } = plan;
        let trusted = repository::trust_roots(Path::new(&record.cwd));
        let surroundings = Surroundings {
            trusted: &trusted,
            share: &config.isolation.share,
            environment: &record.env,
        };
        if let Some(temp) = &record.isolation.temp {
            furnish::make_new(Path::new(temp))?;
        }
        for furnishing in furnishings {
            furnish::furnish(furnishing, &surroundings, &self.digests)?;
        }
        hooked::write(plan.hook_file.as_ref())?;
        if let Some(id) = &plan.resumes {
            self.bring_transcript(plan, id);
        }
        hooks::point("new.apart");
        Ok(())
    }

    /// Starts the keeper of a pane whose record is written.
    pub(crate) fn start_keeper(&self, dir: &Path) -> Result<Starting, FileError> {
        let busy = || FileError::when("lock", dir)(std::io::ErrorKind::ResourceBusy.into());
        let lock = lock::take_dir(dir)?.ok_or_else(busy)?;
        spawn::start(&self.exe, self.root.path(), dir, &lock)
    }

    /// Takes back a pane that could not be started: its directory first, so that a row without a
    /// directory is what recovery may find.
    pub(crate) async fn undo(&self, pane: &Pane) {
        let (id, session) = (pane.id, pane.session);
        self.claims.release(id);
        let dir = pane.dir.clone();
        run_blocking(move || limits::remove_groups(&dir)).await;
        self.retire_pane(pane, Keep::Nothing).await;
        let removed = self.registry.change(move |change| change.remove_pane(id)).await;
        pane.publish(Life::Gone(None));
        self.forget(id);
        match removed {
            Ok(Removed::PaneAndSession) => self.retire_session(session).await,
            Ok(Removed::Pane) | Err(StoreError::Gone) => self.fail_messages(session, id).await,
            Err(error) => {
                warn!(%error, pane = %id, "the entry of a pane that was not started stays");
            }
        }
    }

    /// Moves the directory of a session that is no longer in the registry to the trash.
    pub(crate) async fn retire_session(&self, session: SessionId) {
        self.forget_session(session);
        self.messages.apply(move |books| books.forget(session)).await;
        let (dir, trash) = (self.root.session(session), self.root.trash());
        run_blocking(move || {
            if let Err(error) = trash::retire(&dir, &trash, "session", session, Since::Now) {
                warn!(%error, "the directory of a session that is gone stays");
            }
        })
        .await;
    }
}

/// What is wrong with a request, before anything is made for it; otherwise program and arguments.
pub(crate) async fn check(
    request: &Arc<LaunchRequest>,
    config: &Config,
) -> Result<Vec<String>, ErrorBody> {
    let (_, argv) = launch::check(request, &config.agents, &config.roles).map_err(unplannable)?;
    let asked = Arc::clone(request);
    let found = run_blocking(move || std::fs::metadata(&asked.cwd)).await;
    let why = match found {
        Ok(found) if found.is_dir() => return Ok(argv),
        Ok(_) => "it is not a directory".to_owned(),
        Err(error) => error.to_string(),
    };
    let message = format!("cannot start in the directory `{}`: {why}", request.cwd);
    Err(ErrorBody::new(ErrorCode::Usage, message).hint("choose another one with --cwd"))
}

/// The session that a request means, made if it has to be; and whether nobody knows of it yet.
fn session_for(
    change: &mut Change<'_>,
    request: &LaunchRequest,
) -> Result<(SessionRecord, bool), Failure> {
    let id = SessionId::from_random(clock::random_id());
    let Some(asked) = &request.session else {
        return Ok((session::enter(change, id, SessionWish::of(request, None))?, true));
    };
    let rows = change.sessions()?;
    let candidates: Vec<Candidate> = rows.iter().map(|row| candidate(&row.record)).collect();
    match resolve(asked, &candidates) {
        Ok(Candidate { target: Target::Session(found), .. }) => {
            let row = change.session(found)?;
            if request.run != Some(found) && change.pending()?.contains(&found) {
                let message = format!("the session {asked} is still being made");
                return Err(ErrorBody::new(ErrorCode::Conflict, message)
                    .hint("try again later")
                    .into());
            }
            if let Some(mode) = request.mode.filter(|mode| *mode != row.record.mode) {
                let message = format!("the session {} is {}, not {mode}", asked, row.record.mode);
                return Err(ErrorBody::new(ErrorCode::Conflict, message)
                    .hint("leave --mode out, or choose another session")
                    .into());
            }
            let template = request.template.as_ref();
            if template.is_some() && template != row.record.template.as_ref() {
                let message =
                    format!("the session {asked} is there already, without that template");
                return Err(ErrorBody::new(ErrorCode::Conflict, message)
                    .hint("leave --template out, or choose another session")
                    .into());
            }
            Ok((row.record, !row.announced))
        }
        Err(model::resolve::Unresolved::Ambiguous(several)) => {
            Err(ambiguous("session", asked, &several).into())
        }
        Ok(_) | Err(model::resolve::Unresolved::NotFound) => {
            let name: Name = asked.parse().map_err(|error: model::name::InvalidName| {
                let message =
                    format!("there is no session {asked:?}, and none can be made: {error}");
                ErrorBody::new(ErrorCode::Usage, message)
            })?;
            Ok((session::enter(change, id, SessionWish::of(request, Some(name)))?, true))
        }
    }
}

fn candidate(record: &SessionRecord) -> Candidate {
    Candidate {
        target: Target::Session(record.id),
        id: record.id.to_string(),
        name: record.name.clone(),
        session: None,
    }
}

/// The files and directories of a pane that is being made.
struct Files {
    session: SessionRecord,
    session_is_new: bool,
    /// What a new session is made from.
    origin: Option<serde_json::Value>,
    session_dir: PathBuf,
    pane_dir: PathBuf,
}

impl Files {
    fn make_dirs(&self, root: &StateRoot) -> Result<(), ErrorBody> {
        if self.session_is_new {
            session::fill(root, &self.session, self.origin.as_ref())?;
        }
        let own = [self.session_dir.clone(), self.session_dir.join("panes"), self.pane_dir.clone()];
        let parts = PARTS.map(|part| self.pane_dir.join(part));
        own.iter().chain(&parts).try_for_each(|dir| file::make_dir(dir)).map_err(not_written)?;
        hooks::point("new.directories");
        Ok(())
    }

    /// Writes the records, when everything that they tell of is there.
    fn write(&self, launch: &LaunchRecord) -> Result<(), FileError> {
        let path = self.session_dir.join(SESSION_RECORD);
        // A directory that was lost is made again for the next pane, and describes itself.
        if self.session_is_new || !path.exists() {
            record::write(&path, &self.session, Survive::Kill)?;
        }
        record::write(&self.pane_dir.join(LAUNCH_RECORD), launch, Survive::Kill)?;
        hooks::point("new.recorded");
        Ok(())
    }

    /// Makes everything survive the death of the machine, contents before names.
    async fn sync(&self, root: &StateRoot) -> Result<(), FileError> {
        let mut contents = vec![self.pane_dir.join(LAUNCH_RECORD)];
        contents.extend(host::workspace::records(&self.pane_dir));
        let mut names = vec![self.pane_dir.clone(), self.session_dir.join("panes")];
        if self.session_is_new {
            contents.extend([SESSION_RECORD, session::ORIGIN].map(|it| self.session_dir.join(it)));
            names.extend([self.session_dir.clone(), root.sessions()]);
        }
        sync_together(contents, file::sync).await?;
        if self.session_is_new && self.session.template.is_some() {
            let (root, session) = (root.clone(), self.session.clone());
            run_blocking(move || session::sync(&root, &session)).await?;
        }
        sync_together(names, file::sync_dir).await
    }
}

/// Who waits for the disk together waits once: the system writes all of it in one go.
async fn sync_together(
    paths: Vec<PathBuf>,
    sync: fn(&Path) -> Result<(), FileError>,
) -> Result<(), FileError> {
    let mut syncing = JoinSet::new();
    for path in paths {
        syncing.spawn_blocking(move || sync(&path));
    }
    syncing.join_all().await.into_iter().collect()
}

// By value, as `map_err` hands it over.
#[expect(clippy::needless_pass_by_value, reason = "used as a function of `map_err`")]
fn unplannable(error: launch::Unplannable) -> ErrorBody {
    let say = |code| ErrorBody::new(code, error.to_string());
    match &error {
        launch::Unplannable::NoPorts(_) => say(ErrorCode::Conflict)
            .hint("widen [ports] in ccmux.toml, or close panes; with count = 0 panes have none"),
        launch::Unplannable::Role(_) => say(ErrorCode::Usage)
            .hint("describe it in [roles.NAME] of ccmux.toml, or choose another one"),
        launch::Unplannable::Variable(_)
        | launch::Unplannable::EmptyCommand
        | launch::Unplannable::NulInCommand
        | launch::Unplannable::RelativeCwd(_)
        | launch::Unplannable::Agent(_) => say(ErrorCode::Usage),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "used as a function of `map_err`")]
pub(crate) fn not_written(error: FileError) -> ErrorBody {
    let body = ErrorBody::new(ErrorCode::Failed, format!("the pane was not started: {error}"));
    if error.is_full() { body.hint("make room on the disk") } else { body }
}

/// What programs are told of a pane whose own program did not start.
#[derive(Serialize)]
struct NotStarted<'a> {
    not_started: &'a str,
}

pub(crate) fn not_started(why: &str) -> ErrorBody {
    ErrorBody::new(ErrorCode::Failed, format!("the pane was not started: {why}"))
        .hint("check that the program exists and is on the PATH of the pane")
        .details(&NotStarted { not_started: why })
}
