//! Authorisation, which every operation performs first.
//!
//! The rule itself is [`model::authority::decide`]. A denied request is recorded with its caller.

use host::store::StoreError;
use model::authority::{Access, Caller, Denied, decide};
use model::event::EventBody;
use model::{PaneId, SessionId};
use tracing::warn;

use super::Services;
use crate::fault::{Advice, Description, Fault, FaultKind};

/// The error of a caller that is not authorised.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct AccessDenied(#[from] Denied);

impl Fault for AccessDenied {
    fn describe(&self) -> Description {
        match self.0 {
            Denied::OtherSession { .. } | Denied::OutsideSession { .. } => {
                FaultKind::Denied.advise(Advice::text(
                    "run this outside of panes, or set panes = \"all\" in [authority] of ccmux.toml",
                ))
            }
            Denied::Administration { .. } => {
                FaultKind::Denied.advise(Advice::text("run this outside of panes"))
            }
            Denied::Scope { .. } => FaultKind::Denied.plain(),
        }
    }
}

/// Checks that `caller` has `access` to the session `target` (or, if `None`, to the daemon as a
/// whole).
pub(crate) async fn authorize(
    services: &Services,
    caller: &Caller,
    access: Access,
    target: Option<SessionId>,
) -> Result<(), AccessDenied> {
    // The configuration applies to panes only. If it is invalid, the default policy applies.
    let policy = match caller {
        Caller::Pane { .. } => {
            services.runtime.config().await.map(|config| config.authority.panes).unwrap_or_default()
        }
        Caller::Daemon | Caller::LocalUser | Caller::HttpToken { .. } => Default::default(),
    };
    let Err(denied) = decide(caller, access, target, policy) else { return Ok(()) };
    warn!(%caller, %access, session = ?target, "access denied");
    let why = denied.to_string();
    services.registry.record(EventBody::AccessDenied { access, session: target, why }).await;
    Err(denied.into())
}

/// Checks that `caller` may create a session. A pane may do so with control over its own session.
pub(crate) async fn authorize_new_session(
    services: &Services,
    caller: &Caller,
) -> Result<(), AccessDenied> {
    authorize(services, caller, Access::Control, own_session(caller)).await
}

/// Returns the caller's session, if the caller is a pane.
pub(crate) fn own_session(caller: &Caller) -> Option<SessionId> {
    match caller {
        Caller::Pane { session, .. } => Some(*session),
        Caller::Daemon | Caller::LocalUser | Caller::HttpToken { .. } => None,
    }
}

/// Returns the session of a pane, from memory or from the registry.
pub(crate) async fn session_of(services: &Services, pane: PaneId) -> Result<SessionId, StoreError> {
    match services.panes.get(pane) {
        Some(pane) => Ok(pane.session),
        None => {
            services.registry.read(move |change| change.pane(pane)).await.map(|row| row.session)
        }
    }
}
