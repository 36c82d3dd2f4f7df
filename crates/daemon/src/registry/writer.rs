//! The registry writer: a thread that owns the database, and its handle.
//!
//! Changes are sent through a bounded queue; senders wait while it is full. The thread applies all
//! queued changes in one transaction and replies after the commit (group commit), so ten concurrent
//! changes cost one disk sync. Events are published in commit order, before the changes that caused
//! them are acknowledged.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use host::file::Durability;
use host::store::{Change, Group, Store, StoreError};
use model::event::{Event, EventBody};
use model::{Name, PaneId};
use tokio::sync::{Notify, broadcast, mpsc, oneshot};
use tracing::{error, warn};

use super::current_caller;

/// The capacity of the queue; greater than the maximum number of connections.
const QUEUE_CAPACITY: usize = 512;

/// The maximum number of changes in one transaction.
const MAX_GROUP: usize = 256;

/// How many events a subscriber may lag behind before it has to read them from the registry.
const EVENTS_BEHIND: usize = 1024;

/// A change to apply in a transaction, or to fail if none could be started. Returns the function
/// that replies to the caller.
type Work = Box<dyn FnOnce(Result<&mut Group<'_>, StoreError>) -> Option<Reply> + Send>;
/// Replies to the caller with the outcome of the commit.
type Reply = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

enum Message {
    Change { durability: Durability, work: Work },
    Close(oneshot::Sender<()>),
}

/// A handle to the registry.
#[derive(Clone)]
pub(crate) struct Registry {
    queue: mpsc::Sender<Message>,
    events: broadcast::Sender<Event>,
    committed: Arc<Notify>,
}

impl Registry {
    /// Starts the thread that owns `store`.
    pub(crate) fn start(store: Store) -> std::io::Result<Self> {
        let (queue, inbox) = mpsc::channel(QUEUE_CAPACITY);
        let (events, _) = broadcast::channel(EVENTS_BEHIND);
        let committed = Arc::new(Notify::new());
        let registry = Self { queue, events: events.clone(), committed: Arc::clone(&committed) };
        let writer = Writer { store, inbox, events, committed };
        thread::Builder::new().name("registry".to_owned()).spawn(move || writer.run())?;
        Ok(registry)
    }

    /// Makes a change that is durable against power loss when this returns.
    pub(crate) async fn change<T, E>(
        &self,
        change: impl FnOnce(&mut Change<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.apply(Durability::PowerLoss, change).await
    }

    /// Reads or changes the registry with the given durability.
    pub(crate) async fn apply<T, E>(
        &self,
        durability: Durability,
        change: impl FnOnce(&mut Change<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (reply, replied) = oneshot::channel();
        let caller = current_caller();
        let work: Work = Box::new(move |group| {
            let result = match group {
                Ok(group) => group.apply(|made| {
                    made.act_as(caller);
                    change(made)
                }),
                Err(error) => Err(error.into()),
            };
            let respond: Reply = Box::new(move |committed| {
                let result = committed.map_err(E::from).and(result);
                // The caller may have been cancelled.
                let _ignored = reply.send(result);
            });
            Some(respond)
        });
        let closed = || E::from(StoreError::Closed);
        self.queue.send(Message::Change { durability, work }).await.map_err(|_| closed())?;
        replied.await.map_err(|_| closed())?
    }

    /// Reads from the registry.
    pub(crate) async fn read<T, E>(
        &self,
        read: impl FnOnce(&mut Change<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.apply(Durability::ProcessCrash, read).await
    }

    /// Records an event without any other change. A failure is logged, since no caller could handle
    /// it.
    pub(crate) async fn record(&self, event: EventBody) {
        if let Err(error) = self.change(move |change| change.emit(event)).await {
            warn!(%error, "event not recorded");
        }
    }

    /// Queues an event without waiting for its commit. It precedes all later changes and survives a
    /// crash of the daemon as soon as it is committed, which takes about a millisecond.
    ///
    /// For frequent requests, whose response must not wait for the disk.
    pub(crate) async fn queue_event(&self, event: EventBody) {
        let caller = current_caller();
        let work: Work = Box::new(move |group| {
            let result = group.and_then(|group| {
                group.apply(|change| {
                    change.act_as(caller);
                    change.emit(event)
                })
            });
            if let Err(error) = result {
                warn!(%error, "event not recorded");
            }
            None
        });
        let durability = Durability::ProcessCrash;
        if self.queue.send(Message::Change { durability, work }).await.is_err() {
            warn!("event not recorded: the registry is closed");
        }
    }

    /// Returns the current name of a pane.
    pub(crate) async fn pane_name(&self, pane: PaneId) -> Option<Name> {
        self.read(move |change| change.pane(pane)).await.ok().map(|row| row.name)
    }

    /// Subscribes to the events that are recorded from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// Waits for the next commit that recorded an event.
    pub(crate) async fn committed(&self) {
        self.committed.notified().await;
    }

    /// Closes the database and ends the thread after the changes that are already queued.
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.queue.send(Message::Close(done)).await.is_ok() {
            // An error means that the thread has already ended.
            let _ignored = closed.await;
        }
    }
}

struct Writer {
    store: Store,
    inbox: mpsc::Receiver<Message>,
    events: broadcast::Sender<Event>,
    committed: Arc<Notify>,
}

impl Writer {
    fn run(mut self) {
        while let Some(first) = self.inbox.blocking_recv() {
            let mut queued = Vec::new();
            let mut group_durability = Durability::ProcessCrash;
            let mut next = Some(first);
            let mut close = None;
            while let Some(message) = next {
                match message {
                    Message::Change { durability, work } => {
                        if durability == Durability::PowerLoss {
                            group_durability = Durability::PowerLoss;
                        }
                        queued.push(work);
                    }
                    Message::Close(done) => {
                        close = Some(done);
                        break;
                    }
                }
                next = if queued.len() < MAX_GROUP { self.inbox.try_recv().ok() } else { None };
            }
            self.commit(group_durability, queued);
            if let Some(done) = close {
                drop(self);
                // The caller of `close` may have been cancelled.
                let _ignored = done.send(());
                return;
            }
        }
    }

    fn commit(&mut self, durability: Durability, queued: Vec<Work>) {
        let mut replies = Vec::with_capacity(queued.len());
        let result = match self.store.begin(durability) {
            Ok(mut group) => {
                for work in queued {
                    // A change that panics is rolled back to its savepoint, and its caller gets
                    // `Closed`. Other changes are not affected.
                    match catch_unwind(AssertUnwindSafe(|| work(Ok(&mut group)))) {
                        Ok(reply) => replies.extend(reply),
                        Err(_) => error!("registry change panicked"),
                    }
                }
                group.commit()
            }
            Err(error) => {
                replies.extend(queued.into_iter().filter_map(|work| work(Err(error.clone()))));
                Err(error)
            }
        };
        let result = result.map(|events| {
            if !events.is_empty() {
                self.committed.notify_one();
            }
            for event in events {
                // There may be no subscribers.
                let _ignored = self.events.send(event);
            }
        });
        if let Err(error) = &result {
            error!(%error, "registry commit failed");
        }
        for reply in replies {
            reply(result.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use host::StateRoot;
    use model::{SessionId, SessionMode, SessionRecord, Timestamp};

    use super::*;

    fn session(n: u8, name: &str) -> SessionRecord {
        SessionRecord {
            id: SessionId::from_random([n; 16]),
            name: name.parse().unwrap(),
            mode: SessionMode::Isolated,
            created: Timestamp(0),
            implicit: false,
            isolation: None,
            env: std::collections::BTreeMap::new(),
            template: None,
            project: None,
        }
    }

    fn start() -> (tempfile::TempDir, Registry) {
        let dir = tempfile::tempdir().unwrap();
        let root = StateRoot::open(&dir.path().join("home")).unwrap();
        let registry = Registry::start(Store::open(&root).unwrap().store).unwrap();
        (dir, registry)
    }

    #[tokio::test]
    async fn concurrent_changes_are_all_answered_and_events_keep_their_order() {
        let (_dir, registry) = start();
        let mut events = registry.subscribe();

        let changes = (0..40_u8).map(|n| {
            let registry = registry.clone();
            async move {
                registry
                    .change(move |change| {
                        // Every second name is already taken.
                        let session = session(n, &format!("s{}", n / 2));
                        change.add_session(&session)?;
                        change.announce_session(session.id)
                    })
                    .await
            }
        });
        let mut tasks = tokio::task::JoinSet::new();
        for change in changes {
            tasks.spawn(change);
        }
        let results = tasks.join_all().await;

        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 20);
        for seq in 1..=20 {
            assert_eq!(events.recv().await.unwrap().seq, seq);
        }
    }

    #[tokio::test]
    async fn queued_event_precedes_later_changes() {
        let (_dir, registry) = start();
        let session = SessionId::from_random([9; 16]);

        registry.queue_event(EventBody::SessionClosed { session }).await;
        let events = registry.read(|change| change.events(0, 10)).await;

        let events: Result<_, StoreError> = events;
        assert_eq!(events.unwrap()[0].what, EventBody::SessionClosed { session });
    }

    #[tokio::test]
    async fn panicking_change_does_not_affect_other_changes() {
        let (_dir, registry) = start();
        let record = session(1, "web");
        let id = record.id;

        let panicked = registry
            .change(|change| -> Result<(), StoreError> {
                change
                    .emit(EventBody::SessionClosed { session: SessionId::from_random([9; 16]) })?;
                panic!("expected by the test");
            })
            .await;
        let added = registry
            .change(move |change| {
                change.add_session(&record)?;
                change.announce_session(id)?;
                change.events(0, 10)
            })
            .await;

        assert!(matches!(panicked, Err(StoreError::Closed)));
        assert_eq!(added.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn change_after_close_returns_closed() {
        let (_dir, registry) = start();

        registry.close().await;
        let late = registry.change(|change| change.sessions()).await;

        assert!(matches!(late, Err(StoreError::Closed)));
    }
}
