//! The lock service: a thread that owns the lock table and the lock store, behind a handle.
//!
//! ```text
//!  operations --- messages ---> worker ---> table        grants locks and queues requests
//!      ^                           |  \
//!      +--------- replies ---------+   ---> lock store   one transaction per batch of messages,
//!                                                        committed before any reply
//! ```
//!
//! The locks of a pane are released when its last process has ended, and those of a process outside
//! all panes when that process has ended. A lease that is not renewed expires by the monotonic
//! clock. A request that is dropped while it waits is cancelled.
//!
//! The message queue is unbounded: each sender waits for a reply, and the number of connections is
//! limited.

mod snapshot;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use host::lock_store::OpenedLockStore;
use host::store::StoreError;
use model::PaneId;
use model::lock::table::{Ask, DeadlockStep, Now, Table};
use model::lock::{Held, Token};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::worker::Worker;

/// Tag of the locks that hooks take. They are released together when the agent's turn ends.
pub(crate) const TURN_TAG: &str = "turn";

/// Why a lock was not granted.
#[derive(Debug)]
pub(crate) enum AcquireError {
    /// Blocked by these locks.
    Conflict(Vec<Held>),
    /// Blocked by these locks until the deadline.
    TimedOut(Vec<Held>),
    /// Waiting would be a deadlock.
    Deadlock(Vec<DeadlockStep>),
    /// The owner has ended.
    OwnerEnded,
    /// The lock cannot be stored.
    Store(StoreError),
}

/// The locks that a request was granted.
#[derive(Debug)]
pub(crate) struct Granted {
    /// One lock per path.
    pub(crate) locks: Vec<Held>,
    /// The tokens of those that the owner did not hold before.
    new_tokens: Vec<Token>,
}

/// Where the tasks of the service run, and until when.
#[derive(Debug)]
pub(crate) struct TaskContext {
    pub(crate) tasks: TaskTracker,
    pub(crate) ending: CancellationToken,
    pub(crate) runtime: Handle,
}

type Reply = oneshot::Sender<Result<Granted, AcquireError>>;
/// Work on the table. Returns a function that replies after the changes are stored.
type Work = Box<dyn FnOnce(&mut Table, Now) -> Finish + Send>;
type Finish = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

enum Message {
    /// Request locks. The number identifies the request for `Cancel`.
    Acquire { number: u64, ask: Ask, reply: Reply },
    /// Cancel a waiting request.
    Cancel(u64),
    /// Release locks whose requester is no longer there.
    Release(Vec<Token>),
    /// A process outside all panes has ended.
    ProcessEnded(model::ProcessIdentity),
    /// Any other work.
    Apply(Work),
    /// End the thread.
    Close(oneshot::Sender<()>),
}

/// A handle on the lock service.
#[derive(Clone, Debug)]
pub(crate) struct Locks {
    queue: mpsc::Sender<Message>,
    last_number: Arc<AtomicU64>,
    changed: Arc<Notify>,
}

impl Locks {
    /// Starts the thread that owns the lock store. Restores stored locks, except those of processes
    /// that have ended; the locks of ended panes are released when recovery has found the panes.
    ///
    /// # Errors
    ///
    /// Any error of the operating system.
    pub(crate) fn start(
        opened: OpenedLockStore,
        boot: &str,
        context: TaskContext,
    ) -> std::io::Result<Self> {
        let (queue, inbox) = mpsc::channel();
        let changed = Arc::new(Notify::new());
        let locks = Self { queue, last_number: Arc::default(), changed };
        let worker = Worker::new(opened, boot, inbox, locks.clone(), context);
        thread::Builder::new().name("locks".to_owned()).spawn(move || worker.run())?;
        Ok(locks)
    }

    /// Requests locks. Dropping the result cancels the request.
    pub(crate) fn acquire(&self, ask: Ask) -> PendingLocks {
        let (reply, answer) = oneshot::channel();
        let number = self.last_number.fetch_add(1, Ordering::Relaxed);
        self.send(Message::Acquire { number, ask, reply });
        PendingLocks { number, answer, queue: self.queue.clone() }
    }

    /// Runs `work` on the table and returns its result when the changes are stored.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub(crate) async fn apply<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Table, Now) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Apply(Box::new(move |table, now| {
            let value = work(table, now);
            Box::new(move |stored| {
                // The caller may have stopped waiting.
                let _dropped = reply.send(stored.map(|()| value));
            })
        })));
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Returns the locks of a pane, oldest first.
    pub(crate) async fn of_pane(&self, pane: PaneId) -> Vec<Held> {
        let own = self.apply(move |table, _| {
            table.held().filter(|held| held.owner.pane == Some(pane)).cloned().collect()
        });
        own.await.unwrap_or_default()
    }

    /// Releases the locks of a pane that has ended and cancels its waiting requests.
    pub(crate) async fn pane_ended(&self, pane: PaneId) {
        let released = self.apply(move |table, _| {
            let waiting = table.waiting().find(|(_, ask)| ask.owner.pane == Some(pane));
            if let Some(owner) = waiting.map(|(_, ask)| ask.owner.clone()) {
                table.forget(&owner);
            }
            table.release_all(|held| held.owner.pane == Some(pane)).len()
        });
        if let Err(error) = released.await {
            tracing::warn!(%pane, %error, "locks of ended pane still stored");
        }
    }

    /// Waits until a lock was granted or released.
    async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Ends the thread after the messages already in the queue, and closes the lock store.
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        self.send(Message::Close(done));
        // An error means that the thread has ended before.
        let _closed = closed.await;
    }

    fn send(&self, message: Message) {
        // After the thread has ended, callers find their reply channel closed.
        let _closed = self.queue.send(message);
    }
}

/// A request for locks that was not answered yet.
pub(crate) struct PendingLocks {
    number: u64,
    answer: oneshot::Receiver<Result<Granted, AcquireError>>,
    queue: mpsc::Sender<Message>,
}

impl PendingLocks {
    /// Waits for the answer.
    ///
    /// # Errors
    ///
    /// [`AcquireError`].
    pub(crate) async fn answer(mut self) -> Result<UnclaimedLocks, AcquireError> {
        let granted =
            (&mut self.answer).await.map_err(|_| AcquireError::Store(StoreError::Closed))??;
        Ok(UnclaimedLocks { granted: Some(granted), queue: self.queue.clone() })
    }
}

impl Drop for PendingLocks {
    fn drop(&mut self) {
        // The worker cannot reply from here on. An earlier reply is still in the channel.
        self.answer.close();
        let message = match self.answer.try_recv() {
            Ok(Ok(granted)) => Message::Release(granted.new_tokens),
            Ok(Err(_)) => return,
            Err(_) => Message::Cancel(self.number),
        };
        let _closed = self.queue.send(message);
    }
}

/// Granted locks, which are released on drop unless they are claimed.
pub(crate) struct UnclaimedLocks {
    granted: Option<Granted>,
    queue: mpsc::Sender<Message>,
}

impl UnclaimedLocks {
    /// Takes the locks; from here on the caller is responsible for them.
    pub(crate) fn claim(mut self) -> Vec<Held> {
        self.granted.take().map(|granted| granted.locks).unwrap_or_default()
    }
}

impl Drop for UnclaimedLocks {
    fn drop(&mut self) {
        if let Some(granted) = self.granted.take() {
            let _closed = self.queue.send(Message::Release(granted.new_tokens));
        }
    }
}
