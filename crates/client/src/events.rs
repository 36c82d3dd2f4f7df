//! The event stream.

use std::iter::FusedIterator;

use model::event::{EVENT_SET, Event};
use protocol::Kind;
use protocol::control::Request;

use crate::daemon::{DaemonClient, DaemonError, RetryBudget};

/// A stream of events. After a daemon restart it resumes behind the last event it returned, without
/// gaps or duplicates: sequence numbers survive restarts.
///
/// Each call of [`Iterator::next`] waits for one event. The stream ends after the recorded events
/// (unless it follows new ones) and after the first error.
#[derive(Debug)]
pub struct EventStream {
    client: DaemonClient,
    after: Option<u64>,
    follow: bool,
    state: State,
    retries: RetryBudget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The stream must be requested from the daemon.
    Closed,
    /// The daemon sends events.
    Open,
    /// The stream has ended.
    Ended,
}

impl DaemonClient {
    /// Streams events. Gives up the client, because the stream occupies its connection.
    ///
    /// `after` is the sequence number of the last event already seen (none: start with the oldest
    /// event). With `follow` the stream continues with new events; otherwise it ends after the
    /// recorded ones.
    #[must_use]
    pub fn events(self, after: Option<u64>, follow: bool) -> EventStream {
        EventStream::new(self, after, follow)
    }
}

impl EventStream {
    fn new(client: DaemonClient, after: Option<u64>, follow: bool) -> Self {
        Self { client, after, follow, state: State::Closed, retries: RetryBudget::default() }
    }

    /// Returns the sequence number of the last event returned, or the starting position.
    #[must_use]
    pub fn position(&self) -> Option<u64> {
        self.after
    }

    fn try_next(&mut self) -> Result<Option<Event>, DaemonError> {
        loop {
            if self.state == State::Closed {
                let (after, follow) = (self.after, self.follow);
                let set = EVENT_SET;
                self.client.request_retry(|| Request::Events { after, follow, set })?;
                self.state = State::Open;
            }
            match self.client.next_frame()? {
                Ok(frame) if frame.kind == Kind::Event => {
                    let event: Event =
                        frame.parse().map_err(|error| DaemonError::Protocol(error.to_string()))?;
                    if self.after.is_none_or(|after| event.seq > after) {
                        self.after = Some(event.seq);
                        return Ok(Some(event));
                    }
                }
                // The second reply marks the end of the recorded events.
                Ok(_) => return Ok(None),
                Err(error) => {
                    self.retries.spend(error)?;
                    self.state = State::Closed;
                }
            }
        }
    }
}

impl Iterator for EventStream {
    type Item = Result<Event, DaemonError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.state == State::Ended {
            return None;
        }
        let next = self.try_next().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.state = State::Ended;
        }
        next
    }
}

impl FusedIterator for EventStream {}
