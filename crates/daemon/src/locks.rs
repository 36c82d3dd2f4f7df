//! The lock service: a thread that owns the table of locks and its ledger, behind a handle.
//!
//! ```text
//!  operations --- questions ---> desk ---> table    who gets what, in order
//!      ^                          |  \
//!      +-------- answers ---------+   ---> ledger   one transaction for all that came together,
//!                                                   before anybody is answered
//! ```
//!
//! Locks of a pane go when no process of the pane is left. Those of a process outside of panes go
//! when it ends, which a process descriptor tells. A lease that nobody renews ends by a clock that
//! cannot be set. Who stops waiting for a lock does not get it.
//!
//! The queue has no bound of its own: everybody in it waits for an answer, and there are only so
//! many connections.

mod desk;
mod snapshot;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use host::ledger::OpenedLedger;
use host::store::StoreError;
use model::PaneId;
use model::lock::table::{Ask, Now, Step, Table};
use model::lock::{Held, Token};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::desk::Desk;

/// Why a lock was not granted.
#[derive(Debug)]
pub(crate) enum Refused {
    /// These stand in the way.
    Conflict(Vec<Held>),
    /// These stood in the way for all of the time.
    TimedOut(Vec<Held>),
    /// Waiting would never end.
    Deadlock(Vec<Step>),
    /// Its owner is gone.
    OwnerGone,
    /// It cannot be written down.
    Store(StoreError),
}

/// What was granted.
#[derive(Debug)]
pub(crate) struct Granted {
    /// One lock per path.
    pub(crate) locks: Vec<Held>,
    /// Those of them that the owner did not have before.
    fresh: Vec<Token>,
}

/// Where tasks of the service run, and until when.
#[derive(Debug)]
pub(crate) struct Workers {
    pub(crate) tasks: TaskTracker,
    pub(crate) ending: CancellationToken,
    pub(crate) runtime: Handle,
}

type Reply = oneshot::Sender<Result<Granted, Refused>>;
/// What is done with the table; returns how to answer once it is written down.
type Work = Box<dyn FnOnce(&mut Table, Now) -> Done + Send>;
type Done = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

enum Message {
    /// Somebody wants locks. The number is the asker's own.
    Acquire { number: u64, ask: Ask, reply: Reply },
    /// It no longer does.
    Cancel(u64),
    /// Nobody knows that these were granted.
    GiveBack(Vec<Token>),
    /// This process has ended.
    Ended(model::ProcessIdentity),
    /// Everything else.
    Do(Work),
    /// No more.
    Close(oneshot::Sender<()>),
}

/// The outside of the lock service.
#[derive(Clone, Debug)]
pub(crate) struct Locks {
    queue: mpsc::Sender<Message>,
    numbers: Arc<AtomicU64>,
    changed: Arc<Notify>,
}

impl Locks {
    /// Starts the thread that owns the ledger. What was held is held again, as far as its owner
    /// may still live: of panes that is decided when they are found.
    pub(crate) fn start(
        opened: OpenedLedger,
        boot: &str,
        workers: Workers,
    ) -> std::io::Result<Self> {
        let (queue, inbox) = mpsc::channel();
        let changed = Arc::new(Notify::new());
        let locks = Self { queue, numbers: Arc::default(), changed };
        let desk = Desk::new(opened, boot, inbox, locks.clone(), workers);
        thread::Builder::new().name("locks".to_owned()).spawn(move || desk.run())?;
        Ok(locks)
    }

    /// A service that has ended, for tests of what has nothing to do with locks.
    #[cfg(test)]
    pub(crate) fn closed() -> Self {
        Self { queue: mpsc::channel().0, numbers: Arc::default(), changed: Arc::default() }
    }

    /// Asks for locks. Dropped before it is answered, nothing is held.
    pub(crate) fn acquire(&self, ask: Ask) -> Asked {
        let (reply, answer) = oneshot::channel();
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.tell(Message::Acquire { number, ask, reply });
        Asked { number, answer, queue: self.queue.clone() }
    }

    /// Does something with the table, and answers when it is written down.
    pub(crate) async fn apply<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Table, Now) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.tell(Message::Do(Box::new(move |table, now| {
            let value = work(table, now);
            Box::new(move |written| {
                // A caller that no longer waits is no error.
                let _unwanted = reply.send(written.map(|()| value));
            })
        })));
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// What a pane holds, oldest first.
    pub(crate) async fn of_pane(&self, pane: PaneId) -> Vec<Held> {
        let own = self.apply(move |table, _| {
            table.held().filter(|held| held.owner.pane == Some(pane)).cloned().collect()
        });
        own.await.unwrap_or_default()
    }

    /// Gives back what a pane holds and lets it wait for nothing more: it has ended.
    pub(crate) async fn pane_ended(&self, pane: PaneId) {
        let released = self.apply(move |table, _| {
            let waiting = table.waiting().find(|(_, ask)| ask.owner.pane == Some(pane));
            if let Some(owner) = waiting.map(|(_, ask)| ask.owner.clone()) {
                table.forget(&owner);
            }
            table.release_all(|held| held.owner.pane == Some(pane)).len()
        });
        if let Err(error) = released.await {
            tracing::warn!(%pane, %error, "its locks are still in the ledger");
        }
    }

    /// Waits until some lock was granted or given back.
    async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Ends the thread after what waits already, and closes the ledger.
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        self.tell(Message::Close(done));
        // Already closed is closed.
        let _closed = closed.await;
    }

    fn tell(&self, message: Message) {
        // After the end, whoever waits for an answer finds its channel closed.
        let _closed = self.queue.send(message);
    }
}

/// A question for locks that is not answered yet.
pub(crate) struct Asked {
    number: u64,
    answer: oneshot::Receiver<Result<Granted, Refused>>,
    queue: mpsc::Sender<Message>,
}

impl Asked {
    /// The answer.
    pub(crate) async fn answer(mut self) -> Result<Unclaimed, Refused> {
        let granted =
            (&mut self.answer).await.map_err(|_| Refused::Store(StoreError::Closed))??;
        Ok(Unclaimed { granted: Some(granted), queue: self.queue.clone() })
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // From here on the desk sees that nobody listens. What it said before is still there.
        self.answer.close();
        let message = match self.answer.try_recv() {
            Ok(Ok(granted)) => Message::GiveBack(granted.fresh),
            Ok(Err(_)) => return,
            Err(_) => Message::Cancel(self.number),
        };
        let _closed = self.queue.send(message);
    }
}

/// Locks that were granted, and given back again unless somebody claims them.
pub(crate) struct Unclaimed {
    granted: Option<Granted>,
    queue: mpsc::Sender<Message>,
}

impl Unclaimed {
    /// Whoever asked will know of them.
    pub(crate) fn claim(mut self) -> Vec<Held> {
        self.granted.take().map(|granted| granted.locks).unwrap_or_default()
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(granted) = self.granted.take() {
            let _closed = self.queue.send(Message::GiveBack(granted.fresh));
        }
    }
}
