//! The stream of events, without gap or duplicate.
//!
//! A stream subscribes first and reads what is recorded afterwards, so nothing can fall in
//! between; what comes twice is told by its number. A reader that is too slow for the live stream
//! goes on from the registry, as if it had just begun.

use std::collections::VecDeque;
use std::sync::Arc;

use host::store::StoreError;
use model::event::Event;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::supervisor::Supervisor;

/// How many recorded events are read at once.
const PAGE: u32 = 500;

/// Events after a number, in order.
pub(crate) struct EventStream {
    supervisor: Arc<Supervisor>,
    live: broadcast::Receiver<Event>,
    /// The number of the last event that was given.
    after: u64,
    read: VecDeque<Event>,
    /// There may be recorded events that were not read.
    behind: bool,
    follow: bool,
}

impl Supervisor {
    /// The events after `after`; with `follow`, also those that are yet to come.
    pub(crate) fn events(self: &Arc<Self>, after: Option<u64>, follow: bool) -> EventStream {
        EventStream {
            supervisor: Arc::clone(self),
            live: self.registry.subscribe(),
            after: after.unwrap_or(0),
            read: VecDeque::new(),
            behind: true,
            follow,
        }
    }
}

impl EventStream {
    /// The next event; none when the recorded ones are through and no others are wanted. Nothing
    /// is lost if it is not waited for.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, StoreError> {
        loop {
            if let Some(event) = self.read.pop_front() {
                self.after = event.seq;
                return Ok(Some(event));
            }
            if self.behind {
                let after = self.after;
                let page =
                    self.supervisor.registry.read(move |change| change.events(after, PAGE)).await?;
                self.behind = !page.is_empty();
                self.read = page.into();
                continue;
            }
            if !self.follow {
                return Ok(None);
            }
            match self.live.recv().await {
                Ok(event) if event.seq > self.after => self.read.push_back(event),
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => self.behind = true,
                Err(RecvError::Closed) => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use model::SessionId;
    use model::event::Happening;

    use super::*;

    fn supervisor() -> (tempfile::TempDir, Arc<Supervisor>) {
        let dir = tempfile::tempdir().unwrap();
        let supervisor = Supervisor::without_panes(&dir.path().join("home"));
        (dir, Arc::new(supervisor))
    }

    async fn emit(supervisor: &Supervisor, count: u32) {
        let session = SessionId::from_random([1; 16]);
        let emitted = supervisor.registry.change(move |change| {
            (0..count).try_for_each(|_| change.emit(Happening::SessionClosed { session }))
        });
        emitted.await.unwrap();
    }

    #[tokio::test]
    async fn a_slow_reader_gets_every_event_once_and_in_order() {
        let (_dir, supervisor) = supervisor();
        emit(&supervisor, 1200).await;
        let mut stream = supervisor.events(Some(100), true);

        let mut seen = Vec::new();
        for expected in 101..=5200 {
            if expected == 700 {
                // More than the live stream holds, while nobody reads.
                emit(&supervisor, 4000).await;
            }
            seen.push(stream.next().await.unwrap().unwrap().seq);
        }

        assert_eq!(seen, (101..=5200).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn without_following_the_stream_ends_with_what_is_recorded() {
        let (_dir, supervisor) = supervisor();
        emit(&supervisor, 3).await;
        let mut stream = supervisor.events(None, false);

        let mut seen = Vec::new();
        while let Some(event) = stream.next().await.unwrap() {
            seen.push(event.seq);
        }

        assert_eq!(seen, [1, 2, 3]);
    }
}
