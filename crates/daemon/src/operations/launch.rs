//! Starts a new pane, for `new`, `up` and runs.

use std::sync::Arc;

use host::clock;
use host::config::ConfigError;
use host::file::Durability;
use host::store::{Created, NewPane, RenamedPane, StoreError};
use model::authority::{Access, Caller};
use model::config::Config;
use model::{LaunchRequest, Name, PaneId, launch};
use protocol::control::PaneAnswer;
use tracing::info;

use super::Services;
use super::access::{AccessDenied, authorize, authorize_new_session};
use super::once::{self, RepeatError};
use super::rename;
use crate::fault::any_of;
use crate::messages::QueueError;
use crate::panes::error::{PlanError, StartError};
use crate::panes::launch::{PaneEntry, PaneFiles, check};
use crate::panes::{Keeper, Life, Pane, workspace};
use crate::runtime::{point, run_blocking};
use crate::sessions as session;
use crate::sessions::error::{CreateError, JoinError};

any_of! {
    /// Why a pane was not launched.
    pub(crate) enum LaunchError {
        Denied(AccessDenied),
        Config(ConfigError),
        Plan(PlanError),
        Session(CreateError),
        Join(JoinError),
        Store(StoreError),
        Repeat(RepeatError),
        Start(StartError),
        Prompt(QueueError),
    }
}

/// Starts a pane. Returns the existing pane if the request repeats an idempotency key.
pub(crate) async fn launch_once(
    services: &Arc<Services>,
    caller: &Caller,
    request: LaunchRequest,
) -> Result<PaneAnswer, LaunchError> {
    authorize_launch(services, caller, &request).await?;
    let Some(key) = request.key.clone() else {
        let carry = request.carry;
        let answer = launch(services, request).await?;
        return Ok(with_files_left(services, answer, carry).await);
    };
    let _guard = services.request_locks.lock(once::lock_name(&key)).await;
    match once::find_created(services, &key, once::launch_digest(&request)).await? {
        Some(Created::Pane(id)) => {
            Ok(PaneAnswer { repeated: true, ..services.panes.pane_answer(id).await? })
        }
        Some(created @ Created::Session(_)) => {
            Err(RepeatError::from(once::KeyReused { key, created }).into())
        }
        None => {
            let carry = request.carry;
            let answer = launch(services, request).await?;
            Ok(with_files_left(services, answer, carry).await)
        }
    }
}

/// Adds the files of the user that the workspace of a new pane does not contain.
async fn with_files_left(services: &Services, answer: PaneAnswer, carry: bool) -> PaneAnswer {
    let launch = services.panes.get(answer.pane.id).and_then(|pane| pane.launch());
    let Some(launch) = launch else { return answer };
    let files = run_blocking(move || {
        let uncommitted = if carry { None } else { workspace::uncommitted_files(&launch) };
        (uncommitted, workspace::absent_files(&launch))
    });
    let (uncommitted, absent) = files.await;
    PaneAnswer { uncommitted, absent, ..answer }
}

/// Checks that the caller may start a pane in the requested session, or in a new one.
async fn authorize_launch(
    services: &Services,
    caller: &Caller,
    request: &LaunchRequest,
) -> Result<(), LaunchError> {
    let Some(named) = &request.session else {
        return Ok(authorize_new_session(services, caller).await?);
    };
    match services.panes.rows().await?.find_session(named) {
        Ok(session) => {
            authorize(services, caller, Access::Control, Some(session.record.id)).await?;
        }
        // The session is created by this request, or the request fails later with a specific error.
        Err(_) => authorize_new_session(services, caller).await?,
    }
    Ok(())
}

/// Starts a pane. If any step fails, all steps are rolled back.
pub(crate) async fn launch(
    services: &Arc<Services>,
    request: LaunchRequest,
) -> Result<PaneAnswer, LaunchError> {
    let id = PaneId::from_random(clock::random_id());
    let request = Arc::new(request);
    let config = services.runtime.config().await?;
    let argv = check(&request, &config).await?;
    let mode = request.mode.or(request.default_mode).unwrap_or_default();
    services.sessions.check_template(mode, request.template.as_deref()).await?;
    let (entry, renamed) = insert_pane(services, id, Arc::clone(&request), argv).await?;
    point("new.entered").await;
    let name_warning = match renamed {
        Some(renamed) => Some(complete_rename(services, &entry.name, renamed).await),
        None => None,
    };
    let dir = services.runtime.root.pane(entry.session.id, id);
    let pane = Arc::new(Pane::new(id, entry.session.id, dir, Life::Starting));
    services.panes.add(Arc::clone(&pane));
    match create(services, &pane, entry, request, config).await {
        Ok((keeper, mut warnings)) => {
            warnings.extend(name_warning);
            info!(pane = %id, session = %pane.session, "pane started");
            services.panes.supervise(&pane, keeper);
            point("new.committed").await;
            Ok(PaneAnswer { warnings, ..services.panes.pane_answer(id).await? })
        }
        Err(error) => {
            services.panes.roll_back(&pane).await;
            Err(error)
        }
    }
}

/// Inserts the pane into the registry, and its session if that is new. Also returns the ended pane
/// that gave up its name.
async fn insert_pane(
    services: &Services,
    id: PaneId,
    request: Arc<LaunchRequest>,
    argv: Vec<String>,
) -> Result<(PaneEntry, Option<RenamedPane>), JoinError> {
    let panes = Arc::clone(&services.panes);
    let inserted = services.registry.apply(Durability::ProcessCrash, move |change| {
        let (mut session, session_is_new) = session::session_for(change, &request)?;
        session.env.extend(request.session_env.clone());
        let (name, renamed) = match &request.name {
            Some(name) => {
                let is_live = |id| panes.get(id).is_some_and(|pane| pane.is_starting_or_live());
                (name.clone(), change.vacate_pane_name(session.id, name, is_live)?)
            }
            None => {
                let taken = change.taken_pane_names(session.id)?;
                (launch::default_name(&argv).free(|name| taken.contains(name)), None)
            }
        };
        let created = clock::now();
        change.add_pane(&NewPane { id, session: session.id, name: name.clone(), created })?;
        if let Some(key) = &request.key {
            change.add_key(key, Created::Pane(id), &once::launch_digest(&request))?;
        }
        Ok::<_, JoinError>((PaneEntry { session, session_is_new, name }, renamed))
    });
    inserted.await
}

/// Completes the renaming of an ended pane whose name a new pane got. Returns a warning about it.
async fn complete_rename(services: &Services, name: &Name, renamed: RenamedPane) -> String {
    let RenamedPane { id, name: new_name } = renamed;
    let warning = format!("the ended pane {name} is now named {new_name}");
    rename::complete(services, id, new_name).await;
    warning
}

/// Creates the directories and records, starts the keeper, and announces the pane.
async fn create(
    services: &Arc<Services>,
    pane: &Arc<Pane>,
    entry: PaneEntry,
    request: Arc<LaunchRequest>,
    config: Arc<Config>,
) -> Result<(Keeper, Vec<String>), LaunchError> {
    let (this, planned, plan_config) =
        (Arc::clone(services), Arc::clone(pane), Arc::clone(&config));
    let (session_env, prompt) = (request.session_env.clone(), request.prompt.clone());
    let origin = entry.session_is_new.then(|| session::origin(&request));
    let (workspace_kind, carry) = (request.workspace.unwrap_or(config.workspace), request.carry);
    let (plan, entry) = run_blocking(move || {
        let plan = this.panes.plan_new(&planned, &entry, &request, &plan_config);
        (plan, entry)
    })
    .await;
    let (plan, branch) = plan?;
    pane.set_launch(plan.record.clone());
    if let Some(id) = &plan.opens {
        services.panes.conversations.claim(pane.id, id).await.map_err(StartError::from)?;
    }
    let files = PaneFiles {
        session: entry.session,
        session_is_new: entry.session_is_new,
        origin,
        session_dir: services.runtime.root.session(pane.session),
        pane_dir: pane.dir.clone(),
        carry,
    };
    let this = Arc::clone(services);
    let (files, starting, git_warning) = run_blocking(move || {
        let starting = this.panes.create_files(&files, &plan, &config);
        drop(branch);
        (files, starting, workspace::no_git_warning(workspace_kind, &plan.record))
    })
    .await;
    let (starting, mut warnings) = starting?;
    warnings.extend(git_warning);
    let (keeper, synced) = tokio::join!(starting.ready(), files.sync(&services.runtime.root));
    let keeper = keeper.map_err(StartError::NotStarted)?;
    // The first prompt must be queued before clients see the pane, so that it cannot be lost.
    let ready = match (synced, &prompt) {
        (Ok(()), Some(prompt)) => {
            services.messages.queue_prompt(pane.id, prompt).await.map_err(LaunchError::from)
        }
        (synced, _) => synced.map_err(|error| StartError::from(error).into()),
    };
    let announced = match ready {
        Ok(()) => {
            point("new.started").await;
            services.panes.record_started(pane, session_env).await.map_err(LaunchError::from)
        }
        Err(error) => Err(error),
    };
    if let Err(error) = announced {
        services.panes.kill_unannounced(pane, keeper).await;
        return Err(error);
    }
    Ok((keeper, warnings))
}
