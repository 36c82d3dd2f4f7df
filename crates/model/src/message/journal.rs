//! The journal of a session's messages.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{Message, MessageState, Receipt};
use crate::idempotency::IdempotencyKey;
use crate::ids::{MessageId, PaneId};
use crate::time::Timestamp;

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// Messages that were accepted together: one request may have several recipients.
    Messages(Vec<Message>),
    /// A change of a message's state.
    Receipt(Receipt),
}

/// A message with its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackedMessage {
    /// The message.
    pub message: Message,
    /// The changes of its state, oldest first.
    pub receipts: Vec<Receipt>,
}

/// The messages of a session, oldest first.
#[derive(Clone, Debug, Default)]
pub struct MessageJournal {
    tracked: Vec<TrackedMessage>,
    positions: HashMap<MessageId, usize>,
}

impl TrackedMessage {
    /// Returns its state.
    #[must_use]
    pub fn state(&self) -> MessageState {
        self.receipts.last().map_or(MessageState::Queued, |receipt| receipt.state)
    }

    /// Returns when its state last changed.
    #[must_use]
    pub fn since(&self) -> Timestamp {
        self.receipts.last().map_or(self.message.at, |receipt| receipt.at)
    }
}

impl MessageJournal {
    /// Applies an entry. Returns false and ignores it if it is invalid: a duplicate message, or a
    /// receipt for an unknown message or an illegal change of state.
    pub fn apply(&mut self, entry: Entry) -> bool {
        match entry {
            Entry::Messages(messages) => {
                let mut new = false;
                for message in messages {
                    if !self.positions.contains_key(&message.id) {
                        self.positions.insert(message.id, self.tracked.len());
                        self.tracked.push(TrackedMessage { message, receipts: Vec::new() });
                        new = true;
                    }
                }
                new
            }
            Entry::Receipt(receipt) => {
                let Some(tracked) =
                    self.positions.get(&receipt.id).map(|at| &mut self.tracked[*at])
                else {
                    return false;
                };
                let legal = tracked.state().may_become(receipt.state);
                if legal {
                    tracked.receipts.push(receipt);
                }
                legal
            }
        }
    }

    /// Returns all messages, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &TrackedMessage> {
        self.tracked.iter()
    }

    /// Returns the message with this id.
    #[must_use]
    pub fn get(&self, id: MessageId) -> Option<&TrackedMessage> {
        self.positions.get(&id).map(|at| &self.tracked[*at])
    }

    /// Returns the messages to a pane in matching states, oldest first.
    pub fn of_pane(
        &self,
        pane: PaneId,
        matches: impl Fn(MessageState) -> bool,
    ) -> impl Iterator<Item = &TrackedMessage> {
        self.tracked
            .iter()
            .filter(move |tracked| tracked.message.to == pane && matches(tracked.state()))
    }

    /// Returns the next message to type into a pane.
    #[must_use]
    pub fn next_of(&self, pane: PaneId) -> Option<&TrackedMessage> {
        self.of_pane(pane, MessageState::is_waiting).next()
    }

    /// Returns the messages that were accepted under this key.
    #[must_use]
    pub fn with_key(&self, key: &IdempotencyKey) -> Vec<&TrackedMessage> {
        let fits = |tracked: &&TrackedMessage| tracked.message.key.as_ref() == Some(key);
        self.tracked.iter().filter(fits).collect()
    }

    /// Removes the oldest finished messages until at most `keep` of them remain, and returns the
    /// entries of all remaining messages.
    pub fn compact(&mut self, keep: usize) -> Vec<Entry> {
        let is_over = |tracked: &TrackedMessage| {
            matches!(
                tracked.state(),
                MessageState::Delivered
                    | MessageState::Answered
                    | MessageState::Failed
                    | MessageState::Unsure
            )
        };
        let over = self.tracked.iter().filter(|tracked| is_over(tracked)).count();
        let mut to_go = over.saturating_sub(keep);
        self.tracked.retain(|tracked| {
            let goes = to_go > 0 && is_over(tracked);
            to_go -= usize::from(goes);
            !goes
        });
        let positions = self.tracked.iter().enumerate();
        self.positions = positions.map(|(at, tracked)| (tracked.message.id, at)).collect();
        let entries = self.tracked.iter().flat_map(|tracked| {
            let message = Entry::Messages(vec![tracked.message.clone()]);
            std::iter::once(message).chain(tracked.receipts.iter().cloned().map(Entry::Receipt))
        });
        entries.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SessionId;

    fn key(n: u8) -> IdempotencyKey {
        format!("key {n}").parse().unwrap()
    }

    fn message(n: u8, to: u8) -> Message {
        Message {
            id: MessageId::from_random([n; 16]),
            session: SessionId::from_random([1; 16]),
            from: None,
            to: PaneId::from_random([to; 16]),
            asked: "qa".to_owned(),
            text: format!("text {n}"),
            raw: true,
            key: Some(key(n / 2)),
            at: Timestamp(i64::from(n)),
        }
    }

    fn receipt(n: u8, state: MessageState) -> Entry {
        Entry::Receipt(Receipt {
            id: MessageId::from_random([n; 16]),
            state,
            at: Timestamp(100),
            why: None,
        })
    }

    #[test]
    fn messages_to_a_pane_are_delivered_in_order_and_once() {
        use MessageState::{Delivered, Sent, Typing};
        let pane = PaneId::from_random([9; 16]);
        let next = |journal: &MessageJournal| {
            journal.next_of(pane).map(|tracked| tracked.message.text.clone())
        };
        let mut journal = MessageJournal::default();
        assert!(journal.apply(Entry::Messages(vec![message(2, 9), message(3, 8)])));
        assert!(journal.apply(Entry::Messages(vec![message(4, 9)])));
        assert!(!journal.apply(Entry::Messages(vec![message(4, 9)])), "duplicate");

        assert_eq!(next(&journal).as_deref(), Some("text 2"));
        assert!(journal.apply(receipt(2, Typing)));
        assert_eq!(next(&journal).as_deref(), Some("text 2"), "not yet delivered");
        assert!(journal.apply(receipt(2, Sent)) && journal.apply(receipt(2, Delivered)));
        assert_eq!(next(&journal).as_deref(), Some("text 4"));
        assert!(!journal.apply(receipt(2, Typing)), "already delivered");
        assert!(!journal.apply(receipt(5, Typing)), "unknown message");
        assert_eq!(journal.with_key(&key(1)).len(), 2);
        assert!(journal.with_key(&key(7)).is_empty());
    }

    #[test]
    fn compacted_journal_restores_the_remaining_messages() {
        use MessageState::{Delivered, Typing};
        let mut journal = MessageJournal::default();
        for n in 1..=6 {
            journal.apply(Entry::Messages(vec![message(n, 9)]));
        }
        for n in [1, 2, 4] {
            journal.apply(receipt(n, Typing));
            journal.apply(receipt(n, Delivered));
        }

        let entries = journal.compact(1);

        let mut again = MessageJournal::default();
        assert!(entries.into_iter().all(|entry| again.apply(entry)));
        let texts: Vec<_> = again.iter().map(|tracked| tracked.message.text.as_str()).collect();
        assert_eq!(texts, ["text 3", "text 4", "text 5", "text 6"]);
        assert!(again.iter().eq(journal.iter()));
        assert_eq!(again.get(MessageId::from_random([4; 16])).unwrap().state(), Delivered);
    }
}
