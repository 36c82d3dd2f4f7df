//! What waits to be typed into the pane, in order.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::pty::Pty;

/// How much may wait. A program that reads nothing must not make its keeper grow.
pub(crate) const AT_MOST: usize = 1 << 20;

/// How many names are remembered of what was typed. Whoever asks again does so for the last one.
const NAMES: usize = 64;

/// Something to type.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// These bytes.
    Bytes(Vec<u8>),
    /// Nothing, for this long: what follows must not look like part of what went before.
    Pause(Duration),
    /// Tell this client that everything before was taken.
    Confirm(u64),
}

/// The queue. Whoever types several items has them typed without another client's in between.
///
/// Answers of the terminal itself go before everything that people typed: the program waits for
/// them, and typed text may be held back by a pause.
#[derive(Debug, Default)]
pub(crate) struct Input {
    answers: Vec<u8>,
    items: VecDeque<Item>,
    /// How much of the first item's bytes the pane has taken.
    taken: usize,
    waiting: usize,
    paused_until: Option<Instant>,
    /// What was typed under a name, latest last.
    names: VecDeque<String>,
}

impl Input {
    /// How many bytes wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether something was typed under this name, or waits to be.
    pub(crate) fn has_typed(&self, name: &str) -> bool {
        self.names.iter().any(|typed| typed == name)
    }

    /// Remembers that something is typed under this name.
    pub(crate) fn remember(&mut self, name: String) {
        if self.names.len() == NAMES {
            self.names.pop_front();
        }
        self.names.push_back(name);
    }

    /// Queues an item behind the others.
    pub(crate) fn push(&mut self, item: Item) {
        if let Item::Bytes(bytes) = &item {
            self.waiting += bytes.len();
        }
        self.items.push_back(item);
    }

    /// Queues an answer of the terminal.
    pub(crate) fn answer(&mut self, bytes: &[u8]) {
        // A program that asks and never reads must not make its keeper grow either.
        if self.answers.len() < AT_MOST {
            self.answers.extend_from_slice(bytes);
        }
    }

    /// Types as much as the pane takes now. Returns the clients to be told.
    pub(crate) fn pump(&mut self, pty: &Pty, now: Instant) -> Vec<u64> {
        let mut confirmed = Vec::new();
        while self.step(pty, now, &mut confirmed) {}
        confirmed
    }

    /// Does one thing; whether another one may follow at once.
    fn step(&mut self, pty: &Pty, now: Instant, confirmed: &mut Vec<u64>) -> bool {
        if self.taken == 0 && !self.answers.is_empty() {
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
                let written = pty.write(&bytes[self.taken..]);
                self.taken += written;
                self.waiting -= written;
                let all = self.taken == bytes.len();
                if all {
                    self.taken = 0;
                    self.items.pop_front();
                }
                all
            }
        }
    }

    /// Whether the pane's terminal has to take something before this can go on.
    pub(crate) fn wants_pane(&self) -> bool {
        !self.answers.is_empty() || matches!(self.items.front(), Some(Item::Bytes(_)))
    }

    /// When a pause ends.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.paused_until
    }
}

#[cfg(test)]
mod tests {
    use model::Size;

    use super::*;
    use crate::pty::Got;

    /// What the terminal echoes of what was typed; it takes a moment to come round.
    fn echoed(pty: &Pty, count: usize) -> String {
        let mut bytes = [0; 64];
        let mut filled = 0;
        let until = Instant::now() + Duration::from_secs(10);
        while filled < count && Instant::now() < until {
            if let Got::Bytes(n) = pty.read(&mut bytes[filled..]) {
                filled += n;
            }
        }
        String::from_utf8_lossy(&bytes[..filled]).into_owned()
    }

    #[test]
    fn what_follows_a_pause_waits_for_it_and_nobody_is_told_before() {
        let pty = Pty::open(Size::DEFAULT).unwrap();
        let mut input = Input::default();
        let now = Instant::now();
        let pause = Duration::from_millis(50);
        for item in [Item::Bytes(b"ab".to_vec()), Item::Pause(pause), Item::Bytes(b"cd".to_vec())] {
            input.push(item);
        }
        input.push(Item::Confirm(7));

        assert!(input.pump(&pty, now).is_empty());
        assert_eq!(echoed(&pty, 2), "ab");
        assert_eq!(input.deadline(), Some(now + pause));
        assert!(input.pump(&pty, now + pause / 2).is_empty());
        input.answer(b"!");
        assert!(input.pump(&pty, now + pause / 2).is_empty(), "an answer does not end the pause");
        assert_eq!(echoed(&pty, 1), "!", "but it does not wait for it either");

        assert_eq!(input.pump(&pty, now + pause), [7]);
        assert_eq!(echoed(&pty, 2), "cd");
        assert_eq!((input.waiting(), input.wants_pane(), input.deadline()), (0, false, None));
    }
}
