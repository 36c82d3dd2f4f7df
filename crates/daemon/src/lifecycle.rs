//! Lifecycle notifications of panes and sessions.
//!
//! Panes and sessions do not depend on the services that hold locks, deliver messages or save
//! state. Those services register as [`Observer`]s. Notifications are awaited in the order of
//! registration, so the locks of a pane are released before `stop` returns.

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use model::{PaneId, SessionId};

/// A service that reacts to changes of panes and sessions. By default, every method does nothing.
pub(crate) trait Observer: Send + Sync {
    /// The keeper of a pane is ready.
    fn pane_live(&self, _pane: PaneId) {}

    /// A pane has started, ended, been renamed or moved, and clients can see the change.
    fn pane_transitioned(&self, _pane: PaneId) {}

    /// The state of a pane that is saved to disk has changed.
    fn pane_changed(&self, _pane: PaneId) {}

    /// The last process of a pane has exited. Clients do not see the pane as ended yet.
    fn pane_ended(&self, _pane: PaneId) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// A pane was removed from the registry; its session still exists.
    fn pane_removed(&self, _session: SessionId, _pane: PaneId) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// A session and all its panes were removed from the registry.
    fn session_removed(&self, _session: SessionId) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// The handle through which panes and sessions notify the observers.
#[derive(Clone, Default)]
pub(crate) struct Lifecycle(Arc<OnceLock<Vec<Arc<dyn Observer>>>>);

impl Lifecycle {
    /// Registers all observers, once, before any pane is adopted or started.
    pub(crate) fn observe(&self, observers: Vec<Arc<dyn Observer>>) {
        assert!(self.0.set(observers).is_ok(), "observers are registered once");
    }

    fn observers(&self) -> impl Iterator<Item = &Arc<dyn Observer>> {
        self.0.get().into_iter().flatten()
    }

    pub(crate) fn pane_live(&self, pane: PaneId) {
        self.observers().for_each(|observer| observer.pane_live(pane));
    }

    pub(crate) fn pane_transitioned(&self, pane: PaneId) {
        self.observers().for_each(|observer| observer.pane_transitioned(pane));
    }

    pub(crate) fn pane_changed(&self, pane: PaneId) {
        self.observers().for_each(|observer| observer.pane_changed(pane));
    }

    pub(crate) async fn pane_ended(&self, pane: PaneId) {
        for observer in self.observers() {
            observer.pane_ended(pane).await;
        }
    }

    pub(crate) async fn pane_removed(&self, session: SessionId, pane: PaneId) {
        for observer in self.observers() {
            observer.pane_removed(session, pane).await;
        }
    }

    pub(crate) async fn session_removed(&self, session: SessionId) {
        for observer in self.observers() {
            observer.session_removed(session).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[derive(Default)]
    struct Recorder(Mutex<Vec<String>>);

    impl Observer for Recorder {
        fn pane_live(&self, pane: PaneId) {
            self.0.lock().push(format!("live {}", pane.short()));
        }

        fn pane_ended(&self, pane: PaneId) -> BoxFuture<'_, ()> {
            Box::pin(async move { self.0.lock().push(format!("ended {}", pane.short())) })
        }
    }

    #[tokio::test]
    async fn observers_are_notified_in_order() {
        let (lifecycle, recorder) = (Lifecycle::default(), Arc::new(Recorder::default()));
        let pane = PaneId::from_random([1; 16]);
        lifecycle.observe(vec![Arc::clone(&recorder) as Arc<dyn Observer>]);

        lifecycle.pane_live(pane);
        lifecycle.pane_transitioned(pane);
        lifecycle.pane_ended(pane).await;

        let id = pane.short();
        assert_eq!(*recorder.0.lock(), [format!("live {id}"), format!("ended {id}")]);
    }

    #[tokio::test]
    async fn notifications_without_observers_are_dropped() {
        let lifecycle = Lifecycle::default();

        lifecycle.pane_removed(SessionId::from_random([1; 16]), PaneId::from_random([2; 16])).await;
    }
}
