//! The stream of events, without gaps or duplicates.
//!
//! A stream first subscribes to live events and then reads the recorded ones, so no event is
//! missed; duplicates are recognised by their sequence number. A reader that lags behind the live
//! events reads from the registry again.

use std::collections::VecDeque;

use host::store::StoreError;
use model::event::Event;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::Registry;

/// The number of recorded events read at once.
const PAGE_SIZE: u32 = 500;

/// Events after a sequence number, in order.
pub(crate) struct EventStream {
    registry: Registry,
    live: broadcast::Receiver<Event>,
    /// The sequence number of the last event returned.
    after: u64,
    buffer: VecDeque<Event>,
    /// Whether the registry may have events that were not read yet.
    behind: bool,
    follow: bool,
}

impl Registry {
    /// Returns the events after `after`; with `follow`, also those that are recorded later.
    pub(crate) fn events(&self, after: Option<u64>, follow: bool) -> EventStream {
        EventStream {
            registry: self.clone(),
            live: self.subscribe(),
            after: after.unwrap_or(0),
            buffer: VecDeque::new(),
            behind: true,
            follow,
        }
    }
}

impl EventStream {
    /// Returns the next event, or `None` after the last recorded event of a stream that does not
    /// follow. Cancel safe: no event is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, StoreError> {
        loop {
            if let Some(event) = self.buffer.pop_front() {
                self.after = event.seq;
                return Ok(Some(event));
            }
            if self.behind {
                let after = self.after;
                let page =
                    self.registry.read(move |change| change.events(after, PAGE_SIZE)).await?;
                self.behind = !page.is_empty();
                self.buffer = page.into();
                continue;
            }
            if !self.follow {
                return Ok(None);
            }
            match self.live.recv().await {
                Ok(event) if event.seq > self.after => self.buffer.push_back(event),
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
    use model::event::EventBody;

    use super::*;

    fn empty() -> (tempfile::TempDir, Registry) {
        let dir = tempfile::tempdir().unwrap();
        let (_, registry) = crate::runtime::testing::empty(&dir.path().join("home"));
        (dir, registry)
    }

    async fn emit(registry: &Registry, count: u32) {
        let session = SessionId::from_random([1; 16]);
        let emitted = registry.change(move |change| {
            (0..count).try_for_each(|_| change.emit(EventBody::SessionClosed { session }))
        });
        emitted.await.unwrap();
    }

    #[tokio::test]
    async fn slow_reader_gets_every_event_once_in_order() {
        let (_dir, registry) = empty();
        emit(&registry, 1200).await;
        let mut stream = registry.events(Some(100), true);

        let mut seen = Vec::new();
        for expected in 101..=5200 {
            if expected == 700 {
                // More than the live stream buffers.
                emit(&registry, 4000).await;
            }
            seen.push(stream.next().await.unwrap().unwrap().seq);
        }

        assert_eq!(seen, (101..=5200).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn stream_without_follow_ends_after_recorded_events() {
        let (_dir, registry) = empty();
        emit(&registry, 3).await;
        let mut stream = registry.events(None, false);

        let mut seen = Vec::new();
        while let Some(event) = stream.next().await.unwrap() {
            seen.push(event.seq);
        }

        assert_eq!(seen, [1, 2, 3]);
    }
}
