//! The queue of input for the pane.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::pty::Pty;

/// Maximum number of queued bytes, which bounds memory if the program does not read.
pub(crate) const MAX_QUEUED: usize = 1 << 20;

/// Number of idempotency keys remembered. Retries refer to recent requests only.
const MAX_KEYS: usize = 64;

/// An item of the input queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// Bytes to write to the pane.
    Bytes(Vec<u8>),
    /// A pause, so that the program does not treat the next item as part of the previous one.
    Pause(Duration),
    /// A confirmation to this client that all previous items were written.
    Confirm(u64),
}

/// The input queue. Items queued together are not interleaved with those of other clients.
///
/// Answers of the terminal precede typed input: the program waits for them, and typed input may be
/// delayed by a pause.
#[derive(Debug, Default)]
pub(crate) struct Input {
    answers: Vec<u8>,
    items: VecDeque<Item>,
    /// Number of bytes of the first item already written.
    written: usize,
    queued_bytes: usize,
    paused_until: Option<Instant>,
    /// Idempotency keys of typing requests, latest last.
    idempotency_keys: VecDeque<String>,
}

impl Input {
    /// Returns the number of queued bytes.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Returns whether a request with this idempotency key was queued or typed.
    pub(crate) fn has_typed(&self, key: &str) -> bool {
        self.idempotency_keys.iter().any(|typed| typed == key)
    }

    /// Remembers an idempotency key.
    pub(crate) fn remember(&mut self, key: String) {
        if self.idempotency_keys.len() == MAX_KEYS {
            self.idempotency_keys.pop_front();
        }
        self.idempotency_keys.push_back(key);
    }

    /// Appends an item to the queue.
    pub(crate) fn push(&mut self, item: Item) {
        if let Item::Bytes(bytes) = &item {
            self.queued_bytes += bytes.len();
        }
        self.items.push_back(item);
    }

    /// Queues an answer of the terminal; dropped if the program does not read its answers.
    pub(crate) fn answer(&mut self, bytes: &[u8]) {
        if self.answers.len() < MAX_QUEUED {
            self.answers.extend_from_slice(bytes);
        }
    }

    /// Writes input until the pane would block. Returns the clients to be sent a confirmation.
    pub(crate) fn pump(&mut self, pty: &Pty, now: Instant) -> Vec<u64> {
        let mut confirmed = Vec::new();
        while self.step(pty, now, &mut confirmed) {}
        confirmed
    }

    /// Processes one item; returns whether to continue with the next.
    fn step(&mut self, pty: &Pty, now: Instant, confirmed: &mut Vec<u64>) -> bool {
        if self.written == 0 && !self.answers.is_empty() {
            let written = pty.write(&self.answers);
            self.answers.drain(..written);
            return self.answers.is_empty();
        }
        match self.items.front() {
            None => false,
            Some(Item::Confirm(client)) => {
                confirmed.push(*client);
                self.items.pop_front();
                true
            }
            Some(Item::Pause(length)) => {
                let until = *self.paused_until.get_or_insert(now + *length);
                let over = now >= until;
                if over {
                    self.paused_until = None;
                    self.items.pop_front();
                }
                over
            }
            Some(Item::Bytes(bytes)) => {
                let written = pty.write(&bytes[self.written..]);
                self.written += written;
                self.queued_bytes -= written;
                let all = self.written == bytes.len();
                if all {
                    self.written = 0;
                    self.items.pop_front();
                }
                all
            }
        }
    }

    /// Returns whether input is waiting for the pane to become writable.
    pub(crate) fn wants_write(&self) -> bool {
        !self.answers.is_empty() || matches!(self.items.front(), Some(Item::Bytes(_)))
    }

    /// Returns the end of the current pause.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.paused_until
    }
}

#[cfg(test)]
mod tests {
    use model::Size;

    use super::*;
    use crate::pty::PtyRead;

    /// Reads `count` bytes of terminal echo.
    fn read_echo(pty: &Pty, count: usize) -> String {
        let mut bytes = [0; 64];
        let mut filled = 0;
        let until = Instant::now() + Duration::from_secs(10);
        while filled < count && Instant::now() < until {
            if let PtyRead::Bytes(n) = pty.read(&mut bytes[filled..]) {
                filled += n;
            }
        }
        String::from_utf8_lossy(&bytes[..filled]).into_owned()
    }

    #[test]
    fn pause_delays_input_and_confirmation_but_not_answers() {
        let pty = Pty::open(Size::DEFAULT).unwrap();
        let mut input = Input::default();
        let now = Instant::now();
        let pause = Duration::from_millis(50);
        for item in [Item::Bytes(b"ab".to_vec()), Item::Pause(pause), Item::Bytes(b"cd".to_vec())] {
            input.push(item);
        }
        input.push(Item::Confirm(7));

        assert!(input.pump(&pty, now).is_empty());
        assert_eq!(read_echo(&pty, 2), "ab");
        assert_eq!(input.deadline(), Some(now + pause));
        assert!(input.pump(&pty, now + pause / 2).is_empty());
        input.answer(b"!");
        assert!(input.pump(&pty, now + pause / 2).is_empty(), "an answer does not end the pause");
        assert_eq!(read_echo(&pty, 1), "!", "an answer does not wait for the pause");

        assert_eq!(input.pump(&pty, now + pause), [7]);
        assert_eq!(read_echo(&pty, 2), "cd");
        assert_eq!((input.queued_bytes(), input.wants_write(), input.deadline()), (0, false, None));
    }

    #[test]
    fn oldest_idempotency_key_is_forgotten_first() {
        let mut input = Input::default();

        for number in 0..=MAX_KEYS {
            input.remember(number.to_string());
        }

        assert!(!input.has_typed("0"));
        assert!(input.has_typed("1") && input.has_typed(&MAX_KEYS.to_string()));
    }
}
