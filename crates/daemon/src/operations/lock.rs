//! Acquires, renews, releases, checks and lists locks.

use std::path::PathBuf;
use std::sync::Arc;

use host::lock_keys::{self, RepositoryCopy, UnusablePath};
use host::store::StoreError;
use host::{clock, process};
use model::authority::{Access, Caller};
use model::lock::table::{Ask, DeadlockStep, NotHeld};
use model::lock::{Held, LockPath, LockScope, Owner, Token};
use model::workspace::WorkspaceKind;
use model::{LockId, PaneId};
use protocol::locks::{Acquire, LockRefusal, LockRequest, LockView, Locks, WaitStep};

use super::Services;
use super::access::{AccessDenied, authorize, own_session, session_of};
use crate::coordination::lock_views::{owner_name, with_waiting};
use crate::coordination::locks::AcquireError;
use crate::fault::{Advice, Description, Details, Fault, FaultKind, ShuttingDown, any_of};
use crate::panes::stop::wait_started;
use crate::registry::TargetError;
use crate::runtime::run_blocking;

any_of! {
    /// Why a lock request failed.
    pub(crate) enum LockError {
        Denied(AccessDenied),
        Target(TargetError),
        Store(StoreError),
        Invalid(InvalidLock),
        NotHeld(LockNotHeld),
        Refused(LockRefused),
        Shutdown(ShuttingDown),
    }
}

/// A lock request that is invalid regardless of other locks.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InvalidLock {
    #[error("1 to {MAX_PATHS} paths can be locked at once")]
    PathCount,
    #[error("a lease lasts between a millisecond and 30 days")]
    Lease,
    #[error("a lock needs an owner")]
    NoOwner,
    #[error(transparent)]
    Path(#[from] UnusablePath),
    #[error("pane {0} is not running")]
    PaneNotRunning(String),
    #[error("{0} has ended")]
    OwnerEnded(String),
}

impl Fault for InvalidLock {
    fn describe(&self) -> Description {
        match self {
            Self::PathCount | Self::Lease => FaultKind::Invalid.plain(),
            Self::NoOwner => FaultKind::Invalid.advise(Advice::text("name a pane or a process")),
            Self::Path(_) => FaultKind::Invalid
                .advise(Advice::text("a lock takes an absolute path without line breaks")),
            Self::PaneNotRunning(_) => {
                FaultKind::Conflict.advise(Advice::text("only a running pane can hold a lock"))
            }
            Self::OwnerEnded(_) => {
                FaultKind::Conflict.advise(Advice::text("a lock is released when its owner ends"))
            }
        }
    }
}

/// A lock that is not held with this token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockNotHeld {
    #[error("no lock {0} with this token")]
    Id(LockId),
    #[error("token {token} does not hold `{path}`")]
    Path { path: String, token: Token },
}

impl Fault for LockNotHeld {
    fn describe(&self) -> Description {
        match self {
            Self::Id(_) => FaultKind::NotFound
                .advise(Advice::text("its lease expired, its owner ended, or it was released")),
            Self::Path { .. } => FaultKind::Conflict.advise(Advice::text(
                "its lease expired or it was released; acquire it again before you write",
            )),
        }
    }
}

/// A lock that was not granted because of other locks.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockRefused {
    #[error("already locked: {}", describe_all(holders))]
    Conflict { holders: Vec<LockView> },
    #[error("still locked after {wait_ms} ms: {}", describe_all(holders))]
    TimedOut { holders: Vec<LockView>, wait_ms: u64 },
    #[error("deadlock: {}", describe_cycle(cycle))]
    Deadlock { cycle: Vec<WaitStep> },
}

impl Fault for LockRefused {
    fn describe(&self) -> Description {
        match self {
            Self::Conflict { holders } => FaultKind::Conflict
                .advise(Advice::WaitForLock)
                .with_details(Details::Lock(LockRefusal::Conflict { holders: holders.clone() })),
            Self::TimedOut { holders, .. } => FaultKind::TimedOut
                .advise(Advice::text("wait longer, or work on something else first"))
                .with_details(Details::Lock(LockRefusal::Timeout { holders: holders.clone() })),
            Self::Deadlock { cycle } => FaultKind::Conflict
                .advise(Advice::text("release what you hold, then lock everything at once"))
                .with_details(Details::Lock(LockRefusal::Deadlock { cycle: cycle.clone() })),
        }
    }
}

/// The maximum number of paths in one request.
const MAX_PATHS: usize = 1000;

/// The maximum lease, in milliseconds. Locks that are needed longer should have no lease.
const MAX_LEASE_MS: u64 = 30 * 24 * 3_600_000;

/// The maximum number of holders named in an error message.
const MAX_NAMED_HOLDERS: usize = 5;

/// Performs a lock request and returns the locks concerned.
pub(crate) async fn lock(
    services: &Arc<Services>,
    caller: &Caller,
    request: LockRequest,
) -> Result<Locks, LockError> {
    authorize_lock(services, caller, &request).await?;
    let locks = match request {
        LockRequest::Acquire(acquire) => acquire_locks(services, acquire).await?,
        LockRequest::Renew { id, token } => {
            let renewed = services.coordination.locks.apply(move |table, now| {
                let held = table.renew(id, token, now)?;
                Ok(with_waiting(table, held))
            });
            vec![renewed.await?.map_err(|NotHeld| LockNotHeld::Id(id))?]
        }
        LockRequest::Release { id, token } => {
            let released =
                services.coordination.locks.apply(move |table, _| table.release(id, token));
            let released = released.await?.map_err(|NotHeld| LockNotHeld::Id(id))?;
            released.owner.pane.into_iter().for_each(|pane| services.lifecycle.pane_changed(pane));
            vec![(released, 0)]
        }
        LockRequest::ReleaseOwner { pane, tag } => {
            let pane = lock_pane(services, &pane).await?;
            let released = services.coordination.locks.apply(move |table, _| {
                table.release_all(|held| {
                    held.owner.pane == Some(pane) && (tag.is_none() || held.tag == tag)
                })
            });
            services.lifecycle.pane_changed(pane);
            released.await?.into_iter().map(|held| (held, 0)).collect()
        }
        LockRequest::Check { path, token } => vec![check_lock(services, path, token).await?],
        LockRequest::List { pane, path } => list_locks(services, pane, path).await?,
    };
    Ok(Locks { locks: services.coordination.lock_views(locks) })
}

/// Checks that the caller controls the owner of the lock. Every caller may list and check locks, so
/// that panes can avoid conflicts.
async fn authorize_lock(
    services: &Services,
    caller: &Caller,
    request: &LockRequest,
) -> Result<(), LockError> {
    let owner = match request {
        LockRequest::Check { .. } | LockRequest::List { .. } => {
            return Ok(authorize(services, caller, Access::List, None).await?);
        }
        LockRequest::Acquire(Acquire { pane: Some(pane), .. })
        | LockRequest::ReleaseOwner { pane, .. } => Some(lock_pane(services, pane).await?),
        LockRequest::Acquire(_) => None,
        LockRequest::Renew { id, .. } | LockRequest::Release { id, .. } => {
            // The owner matters only to panes: all other callers may control every session or none.
            if own_session(caller).is_none() {
                return Ok(authorize(services, caller, Access::Control, None).await?);
            }
            let id = *id;
            let held = services.coordination.locks.apply(move |table, _| {
                table.held().find(|held| held.id == id).and_then(|held| held.owner.pane)
            });
            held.await?
        }
    };
    let session = match owner {
        Some(pane) => Some(session_of(services, pane).await?),
        // Locks owned by a process need control over the caller's own session.
        None => own_session(caller),
    };
    Ok(authorize(services, caller, Access::Control, session).await?)
}

async fn acquire_locks(
    services: &Arc<Services>,
    acquire: Acquire,
) -> Result<Vec<(Held, usize)>, LockError> {
    check_request(&acquire)?;
    let owner = lock_owner(services, &acquire).await?;
    let Acquire { paths, mode, tree, scope, ttl_ms, wait_ms, tag, .. } = acquire;
    let paths = lock_paths(services, paths, scope, tree).await?;
    let wanted =
        paths.into_iter().map(|path| (LockId::from_random(clock::random_id()), path)).collect();
    let deadline = (wait_ms > 0).then(|| clock::moment().after(wait_ms));
    let pane = owner.pane;
    let request = Ask { wanted, mode, owner, ttl: ttl_ms, tag, deadline };
    let pending = services.coordination.locks.acquire(request);
    let answer = tokio::select! {
        answer = pending.answer() => answer,
        () = services.runtime.stopping.cancelled() => return Err(ShuttingDown.into()),
    };
    let granted = match answer {
        Ok(granted) => granted,
        Err(refused) => return Err(explain(services, refused, wait_ms)),
    };
    // The locks of an ended pane are released when it ends, which may have been before this grant.
    // Dropping the grant releases them.
    if pane.is_some_and(|pane| !services.panes.is_live(pane)) {
        return Err(explain(services, AcquireError::OwnerEnded, wait_ms));
    }
    pane.into_iter().for_each(|pane| services.lifecycle.pane_changed(pane));
    Ok(granted.claim().into_iter().map(|held| (held, 0)).collect())
}

/// Determines the owner of the requested lock.
async fn lock_owner(services: &Services, acquire: &Acquire) -> Result<Owner, LockError> {
    if let Some(target) = &acquire.pane {
        let id = lock_pane(services, target).await?;
        let pane = services.panes.get(id);
        if let Some(pane) = &pane {
            // The program of a new pane may ask before the pane is seen to run. A pane that takes too
            // long is not running.
            let _slow = wait_started(pane, target).await;
        }
        let keeper = pane.map(|pane| pane.status()).filter(|status| status.state.is_live());
        let keeper = keeper
            .and_then(|status| status.keeper)
            .ok_or_else(|| InvalidLock::PaneNotRunning(target.clone()))?;
        return Ok(Owner { pane: Some(id), process: keeper.record.child.clone() });
    }
    let Some(pid) = acquire.process else {
        return Err(InvalidLock::NoOwner.into());
    };
    let process =
        process::identify(pid).map_err(|_| InvalidLock::OwnerEnded(format!("process {pid}")))?;
    Ok(Owner { pane: None, process })
}

/// Finds the pane `target`. A known id needs no registry lookup.
async fn lock_pane(services: &Services, target: &str) -> Result<PaneId, LockError> {
    if let Ok(id) = target.parse::<PaneId>()
        && services.panes.get(id).is_some()
    {
        return Ok(id);
    }
    Ok(services.panes.rows().await?.find_pane(target)?.id)
}

async fn lock_paths(
    services: &Services,
    paths: Vec<String>,
    scope: LockScope,
    tree: bool,
) -> Result<Vec<LockPath>, LockError> {
    let copies =
        if scope == LockScope::Repository { repository_copies(services) } else { Vec::new() };
    let found = run_blocking(move || {
        let each = paths.iter().map(|path| lock_keys::lock_path(path, scope, tree, &copies));
        each.collect::<Result<Vec<LockPath>, UnusablePath>>()
    });
    Ok(found.await.map_err(InvalidLock::Path)?)
}

/// Returns the workspaces that are clones of a repository.
fn repository_copies(services: &Services) -> Vec<RepositoryCopy> {
    let panes = services.panes.all();
    let workspaces = panes.iter().filter_map(|pane| pane.launch()?.workspace.clone());
    let clones = workspaces.filter(|workspace| workspace.kind == WorkspaceKind::Clone);
    let copies = clones.filter_map(|workspace| {
        Some(RepositoryCopy {
            path: PathBuf::from(workspace.path),
            repository: workspace.repository?,
        })
    });
    copies.collect()
}

async fn check_lock(
    services: &Services,
    path: String,
    token: Token,
) -> Result<(Held, usize), LockError> {
    let shown = path.clone();
    // Repository scope resolves all aliases of the path, so that every lock that covers it is
    // found.
    let path = lock_paths(services, vec![path], LockScope::Repository, false).await?.remove(0);
    let checked = services.coordination.locks.apply(move |table, _| {
        table.check(&path, token).cloned().map(|held| with_waiting(table, held))
    });
    Ok(checked.await?.map_err(|NotHeld| LockNotHeld::Path { path: shown, token })?)
}

async fn list_locks(
    services: &Services,
    pane: Option<String>,
    path: Option<String>,
) -> Result<Vec<(Held, usize)>, LockError> {
    let pane = match pane {
        Some(target) => Some(lock_pane(services, &target).await?),
        None => None,
    };
    let path = match path {
        Some(path) => {
            lock_paths(services, vec![path], LockScope::Repository, false).await?.into_iter().next()
        }
        None => None,
    };
    let found = services.coordination.locks.apply(move |table, _| {
        let locks: Vec<Held> = match &path {
            Some(path) => table.on(path),
            None => table.held().cloned().collect(),
        };
        let selected = locks.into_iter().filter(|held| pane.is_none() || held.owner.pane == pane);
        selected.map(|held| with_waiting(table, held)).collect()
    });
    Ok(found.await?)
}

/// Converts a refusal of the lock service, adding the names of panes.
fn explain(services: &Services, refused: AcquireError, wait_ms: u64) -> LockError {
    let views = |holders: Vec<Held>| {
        services.coordination.lock_views(holders.into_iter().map(|held| (held, 0)).collect())
    };
    match refused {
        AcquireError::Conflict(holders) => LockRefused::Conflict { holders: views(holders) }.into(),
        AcquireError::TimedOut(holders) => {
            LockRefused::TimedOut { holders: views(holders), wait_ms }.into()
        }
        AcquireError::Deadlock(steps) => {
            LockRefused::Deadlock { cycle: wait_cycle(services, &steps) }.into()
        }
        AcquireError::OwnerEnded => {
            InvalidLock::OwnerEnded("the owner of the lock".to_owned()).into()
        }
        AcquireError::Store(error) => error.into(),
    }
}

fn wait_cycle(services: &Services, steps: &[DeadlockStep]) -> Vec<WaitStep> {
    let owners = steps.iter().flat_map(|step| [&step.who, &step.held.owner]);
    let names = services.coordination.pane_names(owners);
    let step = |step: &DeadlockStep| WaitStep {
        who: owner_name(&step.who, &names),
        path: step.held.path.shown.clone(),
        held_by: owner_name(&step.held.owner, &names),
    };
    steps.iter().map(step).collect()
}

fn describe_cycle(cycle: &[WaitStep]) -> String {
    let step = |step: &WaitStep| {
        format!("{} waits for `{}`, held by {}", step.who, step.path, step.held_by)
    };
    cycle.iter().map(step).collect::<Vec<_>>().join(", ")
}

fn describe_all(holders: &[LockView]) -> String {
    let named: Vec<String> = holders.iter().take(MAX_NAMED_HOLDERS).map(describe).collect();
    let more = holders.len().saturating_sub(MAX_NAMED_HOLDERS);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join("; "))
}

fn check_request(acquire: &Acquire) -> Result<(), InvalidLock> {
    if acquire.paths.is_empty() || acquire.paths.len() > MAX_PATHS {
        return Err(InvalidLock::PathCount);
    }
    if acquire.ttl_ms.is_some_and(|ttl| ttl == 0 || ttl > MAX_LEASE_MS) {
        return Err(InvalidLock::Lease);
    }
    Ok(())
}

/// Describes the holder, path, mode and time of acquisition of a lock.
fn describe(view: &LockView) -> String {
    let tree = if view.tree { " and everything below" } else { "" };
    let (path, mode, since) = (&view.path, view.mode, view.acquired);
    format!("{} has `{path}`{tree} ({mode}) since {since}", view.holder())
}
