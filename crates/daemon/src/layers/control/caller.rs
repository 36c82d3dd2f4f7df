//! The caller of a connection, established by the kernel.
//!
//! A process in a pane is a descendant of the pane's keeper and cannot change that. Environment
//! variables are not trusted. A connection of unknown origin is refused.

use host::ancestry::{self, KnownPanes, PeerOrigin};
use model::authority::Caller;
use tokio::net::UnixStream;

use crate::operations::Services;

/// Establishes the caller of a connection. Reads `/proc`, which does not block.
///
/// # Errors
///
/// The reason, if the origin is unknown.
pub(super) fn caller_of(stream: &UnixStream, services: &Services) -> Result<Caller, String> {
    let panes = &services.panes;
    let known = KnownPanes {
        keeper: &|pid, start| panes.keepers.pane_of_keeper(pid, start),
        session: &|session| panes.keepers.pane_of_session(session),
        own: &services.runtime.own_processes,
        cache: &services.runtime.ancestors,
    };
    match ancestry::of_stream(stream, &known) {
        PeerOrigin::Outside => Ok(Caller::LocalUser),
        PeerOrigin::Inside(pane) => match panes.get(pane) {
            Some(known) => Ok(Caller::Pane { pane, session: known.session }),
            None => Err(format!("the client runs in unknown pane {pane}")),
        },
        PeerOrigin::Unknown(why) => {
            Err(format!("cannot determine the origin of the client: {why}"))
        }
    }
}
