//! Checks of the saved state in a pane's directory, before it is replaced or used.

use std::sync::Arc;

use host::state::{self, SavedStateFile};
use host::store::SetAside;
use model::event::EventBody;
use model::state::SavedState;
use tracing::warn;

use super::pane::Pane;
use crate::registry::Registry;
use crate::runtime::run_blocking;

/// Checks the saved state of a pane before it is restarted. A damaged file is set aside and
/// recorded as an event.
pub(crate) async fn examine_state(registry: &Registry, pane: &Arc<Pane>) {
    let _guard = pane.state_lock.lock().await;
    check_state(registry, pane).await;
}

/// Checks the saved state of a pane. Returns `Some` with its content, if any, when the file may be
/// replaced, and `None` when it must not be touched. A damaged file is set aside and recorded as
/// an event. The caller holds [`Pane::state_lock`].
pub(crate) async fn check_state(
    registry: &Registry,
    pane: &Arc<Pane>,
) -> Option<Option<Box<SavedState>>> {
    let checked = Arc::clone(pane);
    let found = run_blocking(move || {
        let Pane { dir, id, session, .. } = &*checked;
        match state::read(dir, *id, *session) {
            SavedStateFile::Damaged(why) => Err(state::set_aside(dir, why)),
            found @ (SavedStateFile::Missing
            | SavedStateFile::Valid(_)
            | SavedStateFile::Unusable(_)) => Ok(found),
        }
    });
    match found.await {
        Ok(SavedStateFile::Valid(before)) => Some(Some(before)),
        Ok(SavedStateFile::Missing | SavedStateFile::Damaged(_)) => Some(None),
        Ok(SavedStateFile::Unusable(why)) => {
            pane.set_state_problem(format!("its saved state cannot be updated: {why}"));
            None
        }
        Err(Ok(aside)) => {
            report_damaged(registry, pane, aside).await;
            Some(None)
        }
        Err(Err(error)) => {
            pane.set_state_problem(format!(
                "its saved state is damaged and cannot be set aside: {error}"
            ));
            None
        }
    }
}

async fn report_damaged(registry: &Registry, pane: &Pane, aside: SetAside) {
    let SetAside { path, kept_as, why } = aside;
    let (path, kept_as) = (path.display().to_string(), kept_as.display().to_string());
    let problem = format!("`{path}` was damaged ({why}) and renamed to `{kept_as}`");
    warn!(pane = %pane.id, path, kept_as, why, "saved state damaged");
    pane.set_state_problem(problem);
    let event = EventBody::Quarantined { path, kept_as, why };
    registry.record(event).await;
}
