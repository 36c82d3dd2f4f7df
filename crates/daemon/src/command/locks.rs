//! Locks: what is asked of the lock service, and how its answers read.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use host::place::{self, Twin, UnusablePath};
use host::store::StoreError;
use host::{clock, process};
use model::lock::table::{Ask, NotHeld, Step, Table};
use model::lock::{Held, LockPath, LockScope, Moment, Owner, Token};
use model::workspace::WorkspaceKind;
use model::{LockId, Name, PaneId, Timestamp};
use protocol::control::Response;
use protocol::locks::{Acquire, LockRequest, LockView, Locks, Refusal, Waits};
use protocol::{ErrorBody, ErrorCode};

use super::Failure;
use crate::locks::Refused;
use crate::pane::Life;
use crate::supervisor::{Supervisor, run_blocking};

/// How many paths may be asked for at once.
const MOST_PATHS: usize = 1000;

/// The longest lease: what is meant to last has no business with a time limit.
const LONGEST_LEASE: u64 = 30 * 24 * 3_600_000;

/// How many holders an error names.
const NAMED: usize = 5;

type Names = HashMap<PaneId, Name>;

impl Supervisor {
    /// Does what was asked of the lock service.
    pub(super) async fn lock(self: &Arc<Self>, request: LockRequest) -> Result<Response, Failure> {
        let locks = match request {
            LockRequest::Acquire(acquire) => self.acquire_locks(acquire).await?,
            LockRequest::Renew { id, token } => {
                let renewed = self.locks.apply(move |table, now| {
                    let held = table.renew(id, token, now)?;
                    Ok(counted(table, held))
                });
                vec![renewed.await?.map_err(|why| not_held(id, why))?]
            }
            LockRequest::Release { id, token } => {
                let released = self.locks.apply(move |table, _| table.release(id, token));
                let released = released.await?.map_err(|why| not_held(id, why))?;
                released.owner.pane.into_iter().for_each(|pane| self.note_change(pane));
                vec![(released, 0)]
            }
            LockRequest::ReleaseOwner { pane, tag } => {
                let pane = self.lock_pane(&pane).await?;
                let released = self.locks.apply(move |table, _| {
                    table.release_all(|held| {
                        held.owner.pane == Some(pane) && (tag.is_none() || held.tag == tag)
                    })
                });
                self.note_change(pane);
                released.await?.into_iter().map(|held| (held, 0)).collect()
            }
            LockRequest::Check { path, token } => vec![self.check_lock(path, token).await?],
            LockRequest::List { pane, path } => self.list_locks(pane, path).await?,
        };
        Ok(Response::Locks(Locks { locks: self.lock_views(locks) }))
    }

    /// Every lock, as everybody sees it.
    pub(crate) async fn all_locks(&self) -> Result<Vec<LockView>, StoreError> {
        let held = self.locks.apply(|table, _| {
            table.held().map(|held| (held.clone(), table.waiting_for(held))).collect()
        });
        Ok(self.lock_views(held.await?))
    }

    /// What a pane has locked, as everybody sees it.
    pub(crate) async fn locks_of(&self, pane: PaneId) -> Vec<LockView> {
        let held = self.locks.of_pane(pane).await.into_iter().map(|held| (held, 0)).collect();
        self.lock_views(held)
    }

    /// Gives back what is left of panes that have ended while no daemon ran.
    pub(crate) async fn release_locks_of_the_dead(&self) {
        let owners = self.locks.apply(|table, _| {
            table.held().filter_map(|held| held.owner.pane).collect::<Vec<PaneId>>()
        });
        for pane in owners.await.unwrap_or_default() {
            let life = self.pane(pane).map(|pane| pane.life());
            // One that is still being ended gives its locks back when that is done.
            if matches!(life, None | Some(Life::Ended(_) | Life::Gone(_))) {
                self.locks.pane_ended(pane).await;
            }
        }
    }

    async fn acquire_locks(
        self: &Arc<Self>,
        acquire: Acquire,
    ) -> Result<Vec<(Held, usize)>, Failure> {
        check_numbers(&acquire)?;
        let owner = self.lock_owner(&acquire).await?;
        let Acquire { paths, mode, tree, scope, ttl_ms, wait_ms, tag, .. } = acquire;
        let paths = self.lock_paths(paths, scope, tree).await?;
        let wanted =
            paths.into_iter().map(|path| (LockId::from_random(clock::random_id()), path)).collect();
        let deadline = (wait_ms > 0).then(|| clock::moment().after(wait_ms));
        let pane = owner.pane;
        let ask = Ask { wanted, mode, owner, ttl: ttl_ms, tag, deadline };
        let asked = self.locks.acquire(ask);
        let answer = tokio::select! {
            answer = asked.answer() => answer,
            () = self.stopping.cancelled() => return Err(stopping().into()),
        };
        let granted = match answer {
            Ok(granted) => granted,
            Err(refused) => return Err(self.explain(refused, wait_ms).into()),
        };
        // A pane that ended in the meantime has been told of as ended, perhaps before it was
        // granted this.
        if pane.is_some_and(|pane| !self.pane_lives(pane)) {
            return Err(self.explain(Refused::OwnerGone, wait_ms).into());
        }
        pane.into_iter().for_each(|pane| self.note_change(pane));
        Ok(granted.claim().into_iter().map(|held| (held, 0)).collect())
    }

    fn pane_lives(&self, pane: PaneId) -> bool {
        self.pane(pane).is_some_and(|pane| pane.look().state.is_live())
    }

    /// Whom the lock will belong to.
    async fn lock_owner(&self, acquire: &Acquire) -> Result<Owner, Failure> {
        if let Some(target) = &acquire.pane {
            let id = self.lock_pane(target).await?;
            let keeper =
                self.pane(id).map(|pane| pane.look()).filter(|sight| sight.state.is_live());
            let keeper = keeper.and_then(|sight| sight.keeper).ok_or_else(|| {
                ErrorBody::new(ErrorCode::Conflict, format!("pane {target} does not run"))
                    .hint("only a pane that runs can hold a lock; see `ccmux ls`")
            })?;
            return Ok(Owner { pane: Some(id), process: keeper.record.child.clone() });
        }
        let Some(pid) = acquire.process else {
            return Err(ErrorBody::new(ErrorCode::Usage, "a lock needs an owner")
                .hint("name a pane or a process")
                .into());
        };
        let process = process::identify(pid).map_err(|_| gone(&format!("process {pid}")))?;
        Ok(Owner { pane: None, process })
    }

    /// The pane that is meant. An id that is known costs no look into the registry.
    async fn lock_pane(&self, target: &str) -> Result<PaneId, Failure> {
        if let Ok(id) = target.parse::<PaneId>()
            && self.pane(id).is_some()
        {
            return Ok(id);
        }
        Ok(self.rows().await?.find_pane(target)?.id)
    }

    async fn lock_paths(
        &self,
        paths: Vec<String>,
        scope: LockScope,
        tree: bool,
    ) -> Result<Vec<LockPath>, Failure> {
        let twins = if scope == LockScope::Repository { self.twins() } else { Vec::new() };
        let found = run_blocking(move || {
            let each = paths.iter().map(|path| place::lock_path(path, scope, tree, &twins));
            each.collect::<Result<Vec<LockPath>, UnusablePath>>()
        });
        Ok(found.await.map_err(|error| {
            ErrorBody::new(ErrorCode::Usage, error.to_string())
                .hint("a lock takes an absolute path that can be written on one line")
        })?)
    }

    /// The workspaces that are copies of a repository.
    fn twins(&self) -> Vec<Twin> {
        let panes = self.every_pane();
        let workspaces = panes.iter().filter_map(|pane| pane.launch()?.workspace.clone());
        let copies = workspaces.filter(|workspace| workspace.kind == WorkspaceKind::Clone);
        let twin = copies.filter_map(|workspace| {
            Some(Twin { path: PathBuf::from(workspace.path), repository: workspace.repository? })
        });
        twin.collect()
    }

    async fn check_lock(&self, path: String, token: Token) -> Result<(Held, usize), Failure> {
        let shown = path.clone();
        // Under all of its names, so that every lock that stands for it is found.
        let path = self.lock_paths(vec![path], LockScope::Repository, false).await?.remove(0);
        let checked = self.locks.apply(move |table, _| {
            table.check(&path, token).cloned().map(|held| counted(table, held))
        });
        Ok(checked.await?.map_err(|NotHeld| {
            let message = format!("the token {token} does not hold `{shown}`, or no longer");
            ErrorBody::new(ErrorCode::Conflict, message)
                .hint("its lease ran out or it was given back; lock it again before you write")
        })?)
    }

    async fn list_locks(
        &self,
        pane: Option<String>,
        path: Option<String>,
    ) -> Result<Vec<(Held, usize)>, Failure> {
        let pane = match pane {
            Some(target) => Some(self.lock_pane(&target).await?),
            None => None,
        };
        let path = match path {
            Some(path) => {
                self.lock_paths(vec![path], LockScope::Repository, false).await?.into_iter().next()
            }
            None => None,
        };
        let found = self.locks.apply(move |table, _| {
            let locks: Vec<Held> = match &path {
                Some(path) => table.on(path),
                None => table.held().cloned().collect(),
            };
            let own = locks.into_iter().filter(|held| pane.is_none() || held.owner.pane == pane);
            own.map(|held| counted(table, held)).collect()
        });
        Ok(found.await?)
    }

    fn lock_views(&self, locks: Vec<(Held, usize)>) -> Vec<LockView> {
        let names = self.pane_names(locks.iter().map(|(held, _)| &held.owner));
        let (moment, wall) = (clock::moment(), clock::now());
        let view = |(held, waiting): (Held, usize)| LockView {
            waiting,
            ..lock_view(&held, &names, moment, wall)
        };
        locks.into_iter().map(view).collect()
    }

    /// What people call the panes among these: from memory, so that nobody who locks something has
    /// to wait for the registry.
    fn pane_names<'a>(&self, owners: impl Iterator<Item = &'a Owner>) -> Names {
        let named = |id| Some((id, self.pane(id)?.launch()?.name.clone()));
        owners.filter_map(|owner| owner.pane).filter_map(named).collect()
    }

    /// Why a lock was not granted, for whoever asked.
    fn explain(&self, refused: Refused, wait_ms: u64) -> ErrorBody {
        let (holders, late) = match refused {
            Refused::Conflict(holders) => (holders, false),
            Refused::TimedOut(holders) => (holders, true),
            Refused::Deadlock(circle) => return self.explain_circle(&circle),
            Refused::OwnerGone => return gone("the owner of the lock"),
            Refused::Store(error) => return Failure::from(error).into_body(),
        };
        let holders = self.lock_views(holders.into_iter().map(|held| (held, 0)).collect());
        let who: Vec<String> = holders.iter().take(NAMED).map(describe).collect();
        let more = holders.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let who = format!("{}{more}", who.join("; "));
        if late {
            let message = format!("still locked after {wait_ms} ms: {who}");
            return ErrorBody::new(ErrorCode::TimedOut, message)
                .hint("wait longer, or do something else first")
                .details(&Refusal::Timeout { holders });
        }
        ErrorBody::new(ErrorCode::Conflict, format!("already locked: {who}"))
            .hint("wait for it with --wait SECONDS, or see all locks with `ccmux lock ls`")
            .details(&Refusal::Conflict { holders })
    }

    fn explain_circle(&self, circle: &[Step]) -> ErrorBody {
        let owners = circle.iter().flat_map(|step| [&step.who, &step.held.owner]);
        let names = self.pane_names(owners);
        let step = |step: &Step| Waits {
            who: owner_name(&step.who, &names),
            path: step.held.path.shown.clone(),
            held_by: owner_name(&step.held.owner, &names),
        };
        let cycle: Vec<Waits> = circle.iter().map(step).collect();
        let steps: Vec<String> = cycle
            .iter()
            .map(|step| format!("{} waits for `{}` of {}", step.who, step.path, step.held_by))
            .collect();
        let message = format!("waiting would never end: {}", steps.join(", "));
        ErrorBody::new(ErrorCode::Conflict, message)
            .hint("give back what you hold, then lock everything at once")
            .details(&Refusal::Deadlock { cycle })
    }
}

fn check_numbers(acquire: &Acquire) -> Result<(), ErrorBody> {
    let usage = |message: String| Err(ErrorBody::new(ErrorCode::Usage, message));
    if acquire.paths.is_empty() || acquire.paths.len() > MOST_PATHS {
        return usage(format!("1 to {MOST_PATHS} paths can be locked at once"));
    }
    if acquire.ttl_ms.is_some_and(|ttl| ttl == 0 || ttl > LONGEST_LEASE) {
        return usage("a lease lasts between a millisecond and 30 days".to_owned());
    }
    Ok(())
}

fn counted(table: &Table, held: Held) -> (Held, usize) {
    let waiting = table.waiting_for(&held);
    (held, waiting)
}

fn lock_view(held: &Held, names: &Names, moment: Moment, wall: Timestamp) -> LockView {
    let left = i128::from(held.lease.until.0) - i128::from(moment.0);
    let expires = wall.0.saturating_add(i64::try_from(left).unwrap_or(i64::MAX));
    LockView {
        id: held.id,
        path: held.path.shown.clone(),
        tree: held.path.tree,
        mode: held.mode,
        pane: held.owner.pane,
        name: held.owner.pane.and_then(|pane| names.get(&pane).cloned()),
        process: held.owner.process.pid,
        token: held.token,
        acquired: held.lease.acquired,
        expires: Timestamp(expires),
        automatic: held.lease.automatic,
        tag: held.tag.clone(),
        waiting: 0,
        turn: held.turn,
    }
}

fn owner_name(owner: &Owner, names: &Names) -> String {
    match owner.pane {
        Some(pane) => match names.get(&pane) {
            Some(name) => format!("pane {name}"),
            None => format!("pane {}", pane.short()),
        },
        None => format!("process {}", owner.process.pid),
    }
}

/// Who has what since when.
fn describe(view: &LockView) -> String {
    let tree = if view.tree { " and everything below" } else { "" };
    let (path, mode, since) = (&view.path, view.mode, view.acquired);
    format!("{} has `{path}`{tree} ({mode}) since {since}", view.holder())
}

fn not_held(id: LockId, NotHeld: NotHeld) -> ErrorBody {
    ErrorBody::new(ErrorCode::NotFound, format!("there is no lock {id} with this token"))
        .hint("its lease ran out, its owner ended, or it was given back; see `ccmux lock ls`")
}

fn gone(who: &str) -> ErrorBody {
    ErrorBody::new(ErrorCode::Conflict, format!("{who} has ended"))
        .hint("a lock lives only as long as its owner")
}

fn stopping() -> ErrorBody {
    ErrorBody::new(ErrorCode::Unreachable, "the daemon is being stopped")
        .hint("ask again: the next command starts another one")
}
