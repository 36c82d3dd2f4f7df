//! The one writer of the registry: a thread that owns the database, behind a handle.
//!
//! Changes wait in a bounded queue; whoever finds it full waits. The thread takes everything that
//! waits at once, makes one transaction of it and answers all of them after the commit, so ten
//! changes that come together cost one sync of the disk. Events are published in the order of the
//! commits, before the changes that caused them are answered.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use host::file::Survive;
use host::store::{Change, Group, Store, StoreError};
use model::event::Event;
use tokio::sync::{Notify, broadcast, mpsc, oneshot};
use tracing::error;

/// How many changes may wait; more than there are connections.
const QUEUE: usize = 512;

/// How many changes share one transaction at most.
const GROUP: usize = 256;

/// How many events a subscriber may be behind before it has to ask the registry for them.
const EVENTS_BEHIND: usize = 1024;

/// What is done in a transaction, or told that there is none; returns how to answer after it.
type Work = Box<dyn FnOnce(Result<&mut Group<'_>, StoreError>) -> Option<Answer> + Send>;
type Answer = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

enum Message {
    Change { survive: Survive, work: Work },
    Close(oneshot::Sender<()>),
}

/// The outside of the registry.
#[derive(Clone)]
pub(crate) struct Registry {
    queue: mpsc::Sender<Message>,
    events: broadcast::Sender<Event>,
    committed: Arc<Notify>,
}

impl Registry {
    /// Starts the thread that owns `store`.
    pub(crate) fn start(store: Store) -> std::io::Result<Self> {
        let (queue, inbox) = mpsc::channel(QUEUE);
        let (events, _) = broadcast::channel(EVENTS_BEHIND);
        let committed = Arc::new(Notify::new());
        let registry = Self { queue, events: events.clone(), committed: Arc::clone(&committed) };
        let writer = Writer { store, inbox, events, committed };
        thread::Builder::new().name("registry".to_owned()).spawn(move || writer.run())?;
        Ok(registry)
    }

    /// Makes a change that survives the death of the machine once this returns.
    pub(crate) async fn change<T, E>(
        &self,
        change: impl FnOnce(&mut Change<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.apply(Survive::PowerLoss, change).await
    }

    /// Reads something, or makes a change that need not survive more than the death of every
    /// process until the next one.
    pub(crate) async fn apply<T, E>(
        &self,
        survive: Survive,
        change: impl FnOnce(&mut Change<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (reply, replied) = oneshot::channel();
        let work: Work = Box::new(move |group| {
            let result = match group {
                Ok(group) => group.apply(change),
                Err(error) => Err(error.into()),
            };
            let answer: Answer = Box::new(move |committed| {
                let result = committed.map_err(E::from).and(result);
                // A caller that no longer waits is no error.
                let _unwanted = reply.send(result);
            });
            Some(answer)
        });
        let closed = || E::from(StoreError::Closed);
        self.queue.send(Message::Change { survive, work }).await.map_err(|_| closed())?;
        replied.await.map_err(|_| closed())?
    }

    /// Reads something.
    pub(crate) async fn read<T, E>(
        &self,
        read: impl FnOnce(&mut Change<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.apply(Survive::Kill, read).await
    }

    /// The events from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// Waits for the next commit that changed something.
    pub(crate) async fn committed(&self) {
        self.committed.notified().await;
    }

    /// Ends the thread after what waits already, and closes the database.
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.queue.send(Message::Close(done)).await.is_ok() {
            // The thread is gone either way.
            let _closed = closed.await;
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
            let mut works = Vec::new();
            let mut together = Survive::Kill;
            let mut next = Some(first);
            let mut close = None;
            while let Some(message) = next {
                match message {
                    Message::Change { survive, work } => {
                        if survive == Survive::PowerLoss {
                            together = Survive::PowerLoss;
                        }
                        works.push(work);
                    }
                    Message::Close(done) => {
                        close = Some(done);
                        break;
                    }
                }
                next = if works.len() < GROUP { self.inbox.try_recv().ok() } else { None };
            }
            self.commit(together, works);
            if let Some(done) = close {
                drop(self);
                // Nobody waiting for the end is no error.
                let _unwanted = done.send(());
                return;
            }
        }
    }

    fn commit(&mut self, survive: Survive, works: Vec<Work>) {
        let mut answers = Vec::with_capacity(works.len());
        let result = match self.store.begin(survive) {
            Ok(mut group) => {
                for work in works {
                    // The savepoint of a change that panics is taken back; its caller sees the
                    // registry closed, everybody else sees nothing.
                    match catch_unwind(AssertUnwindSafe(|| work(Ok(&mut group)))) {
                        Ok(answer) => answers.extend(answer),
                        Err(_) => error!("a change of the registry panicked"),
                    }
                }
                group.commit()
            }
            Err(error) => {
                answers.extend(works.into_iter().filter_map(|work| work(Err(error.clone()))));
                Err(error)
            }
        };
        let result = result.map(|events| {
            if !events.is_empty() {
                self.committed.notify_one();
            }
            for event in events {
                // Without subscribers there is nobody to tell.
                let _unheard = self.events.send(event);
            }
        });
        if let Err(error) = &result {
            error!(%error, "the registry could not be written");
        }
        for answer in answers {
            answer(result.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use host::StateRoot;
    use model::event::Happening;
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
    async fn changes_that_come_together_are_all_answered_and_told_in_order() {
        let (_dir, registry) = start();
        let mut events = registry.subscribe();

        let changes = (0..40_u8).map(|n| {
            let registry = registry.clone();
            async move {
                registry
                    .change(move |change| {
                        // Every second one takes a name that is taken.
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
    async fn a_change_that_panics_hurts_nobody_else() {
        let (_dir, registry) = start();
        let record = session(1, "web");
        let id = record.id;

        let panicked = registry
            .change(|change| -> Result<(), StoreError> {
                change
                    .emit(Happening::SessionClosed { session: SessionId::from_random([9; 16]) })?;
                panic!("as the test wants");
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
    async fn a_closed_registry_says_so() {
        let (_dir, registry) = start();

        registry.close().await;
        let late = registry.change(|change| change.sessions()).await;

        assert!(matches!(late, Err(StoreError::Closed)));
    }
}
