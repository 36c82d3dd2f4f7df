//! The operations of the daemon, one per file.
//!
//! An operation composes services and is independent of sockets, HTTP and the command line. Layers
//! authenticate the caller, call an operation with typed arguments, and format its result or error.

pub(crate) mod access;
mod close;
mod daemon_status;
mod doctor;
mod environment;
mod gc;
mod hook;
mod launch;
mod limit;
mod list;
pub(crate) mod locate;
mod lock;
mod message;
mod migrate;
mod once;
pub(crate) mod page;
mod purge;
mod read;
mod rename;
mod resize;
mod restore;
mod run;
mod send;
mod share;
mod show;
mod stop;
mod template;
mod thaw;
mod trust;
pub(crate) mod wait;

use std::sync::Arc;

use protocol::control::{PaneAnswer, SessionAnswer};

use self::once::RequestLocks;
pub(crate) use self::{
    close::CloseRequest, close::close, daemon_status::daemon_status, doctor::doctor,
    environment::environment, gc::gc, hook::hook, launch::launch_once, limit::limit, list::list,
    locate::locate, lock::lock, message::message, migrate::migrate, page::page,
    purge::PurgeRequest, purge::purge, read::read, rename::rename, resize::resize,
    restore::restore, run::rollback::roll_back_pending, run::run, run::up::up, send::Input,
    send::send, share::share, show::show, stop::stop, template::template, thaw::report_limits,
    thaw::thaw, trust::trust, wait::wait,
};
use crate::coordination::Coordination;
use crate::coordination::locks::Locks;
use crate::health::Health;
use crate::housekeeping::Housekeeping;
use crate::lifecycle::Lifecycle;
use crate::messages::Messages;
use crate::panes::{AgentUpdates, Panes};
use crate::registry::Registry;
use crate::runtime::Runtime;
use crate::sessions::Sessions;

/// The services that operations use.
pub(crate) struct Services {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) registry: Registry,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) panes: Arc<Panes>,
    pub(crate) coordination: Arc<Coordination>,
    pub(crate) messages: Arc<Messages>,
    pub(crate) housekeeping: Arc<Housekeeping>,
    pub(crate) health: Arc<Health>,
    /// Serialises requests with the same idempotency key, and changes of one team.
    request_locks: RequestLocks,
}

impl Services {
    /// Builds the services and connects them. Also returns the channel for
    /// [`Panes::follow_agents`].
    pub(crate) fn new(
        runtime: Arc<Runtime>,
        registry: Registry,
        locks: Locks,
    ) -> (Self, AgentUpdates) {
        let lifecycle = Lifecycle::default();
        let shared = || (Arc::clone(&runtime), registry.clone());
        let (base, rows) = shared();
        let sessions = Arc::new(Sessions::new(base, rows, lifecycle.clone()));
        let (base, rows) = shared();
        let (panes, updates) = Panes::new(base, rows, lifecycle.clone(), Arc::clone(&sessions));
        let panes = Arc::new(panes);
        let (base, rows) = shared();
        let coordination = Arc::new(Coordination::new(base, rows, Arc::clone(&panes), locks));
        let (base, rows) = shared();
        let messages = Messages::new(base, rows, lifecycle.clone(), Arc::clone(&panes));
        let (base, rows) = shared();
        let housekeeping = Arc::new(Housekeeping::new(
            base,
            rows,
            Arc::clone(&sessions),
            Arc::clone(&panes),
            Arc::clone(&coordination),
        ));
        let (base, rows) = shared();
        let health =
            Arc::new(Health::new(base, rows, Arc::clone(&panes), Arc::clone(&coordination)));
        lifecycle.observe(vec![
            Arc::clone(&coordination) as _,
            Arc::clone(&messages) as _,
            Arc::clone(&housekeeping) as _,
        ]);
        let services = Self {
            runtime,
            registry,
            lifecycle,
            sessions,
            panes,
            coordination,
            messages,
            housekeeping,
            health,
            request_locks: RequestLocks::default(),
        };
        (services, updates)
    }
}

/// The result of an operation on a pane or a whole session.
#[derive(Debug)]
pub(crate) enum PaneOrSession {
    Pane(Box<PaneAnswer>),
    Session(Box<SessionAnswer>),
}
