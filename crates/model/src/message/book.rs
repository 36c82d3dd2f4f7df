//! What is on record about the messages of a session: a fold over entries, in order.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{Message, MessageState, Receipt};
use crate::idempotency::IdempotencyKey;
use crate::ids::{MessageId, PaneId};
use crate::time::Timestamp;

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// These were taken on, all of them or none: one sending may have several receivers.
    Messages(Vec<Message>),
    /// This became of one.
    Receipt(Receipt),
}

/// A message and what became of it so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// The message.
    pub message: Message,
    /// What became of it, oldest first.
    pub receipts: Vec<Receipt>,
}

/// The messages of one session, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Book {
    noted: Vec<Noted>,
    places: HashMap<MessageId, usize>,
}

impl Noted {
    /// How far it has come.
    #[must_use]
    pub fn state(&self) -> MessageState {
        self.receipts.last().map_or(MessageState::Queued, |receipt| receipt.state)
    }

    /// Since when.
    #[must_use]
    pub fn since(&self) -> Timestamp {
        self.receipts.last().map_or(self.message.at, |receipt| receipt.at)
    }
}

impl Book {
    /// Takes an entry into account; whether it says something that can be so. What cannot is left
    /// out: a receipt for what is not there, or for a step that is not one.
    pub fn apply(&mut self, entry: Entry) -> bool {
        match entry {
            Entry::Messages(messages) => {
                let mut new = false;
                for message in messages {
                    if !self.places.contains_key(&message.id) {
                        self.places.insert(message.id, self.noted.len());
                        self.noted.push(Noted { message, receipts: Vec::new() });
                        new = true;
                    }
                }
                new
            }
            Entry::Receipt(receipt) => {
                let Some(noted) = self.places.get(&receipt.id).map(|at| &mut self.noted[*at])
                else {
                    return false;
                };
                let legal = noted.state().may_become(receipt.state);
                if legal {
                    noted.receipts.push(receipt);
                }
                legal
            }
        }
    }

    /// All of them, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Noted> {
        self.noted.iter()
    }

    /// The message with this id.
    #[must_use]
    pub fn get(&self, id: MessageId) -> Option<&Noted> {
        self.places.get(&id).map(|at| &self.noted[*at])
    }

    /// Those of one pane that are in such a state, oldest first.
    pub fn of_pane(
        &self,
        pane: PaneId,
        is_meant: impl Fn(MessageState) -> bool,
    ) -> impl Iterator<Item = &Noted> {
        self.noted.iter().filter(move |noted| noted.message.to == pane && is_meant(noted.state()))
    }

    /// The first that a pane has not got yet.
    #[must_use]
    pub fn next_of(&self, pane: PaneId) -> Option<&Noted> {
        self.of_pane(pane, MessageState::is_waiting).next()
    }

    /// Those that were taken on under this key.
    #[must_use]
    pub fn with_key(&self, key: &IdempotencyKey) -> Vec<&Noted> {
        let fits = |noted: &&Noted| noted.message.key.as_ref() == Some(key);
        self.noted.iter().filter(fits).collect()
    }

    /// Forgets the oldest of those that are over until no more than `keep` of them are left; the
    /// entries that the rest is made of.
    pub fn compact(&mut self, keep: usize) -> Vec<Entry> {
        let is_over = |noted: &Noted| {
            matches!(
                noted.state(),
                MessageState::Delivered
                    | MessageState::Answered
                    | MessageState::Failed
                    | MessageState::Unsure
            )
        };
        let over = self.noted.iter().filter(|noted| is_over(noted)).count();
        let mut to_go = over.saturating_sub(keep);
        self.noted.retain(|noted| {
            let goes = to_go > 0 && is_over(noted);
            to_go -= usize::from(goes);
            !goes
        });
        let places = self.noted.iter().enumerate();
        self.places = places.map(|(at, noted)| (noted.message.id, at)).collect();
        let entries = self.noted.iter().flat_map(|noted| {
            let message = Entry::Messages(vec![noted.message.clone()]);
            std::iter::once(message).chain(noted.receipts.iter().cloned().map(Entry::Receipt))
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
    fn a_pane_gets_its_messages_in_order_and_each_once() {
        use MessageState::{Delivered, Sent, Typing};
        let pane = PaneId::from_random([9; 16]);
        let next = |book: &Book| book.next_of(pane).map(|noted| noted.message.text.clone());
        let mut book = Book::default();
        assert!(book.apply(Entry::Messages(vec![message(2, 9), message(3, 8)])));
        assert!(book.apply(Entry::Messages(vec![message(4, 9)])));
        assert!(!book.apply(Entry::Messages(vec![message(4, 9)])), "it is there");

        assert_eq!(next(&book).as_deref(), Some("text 2"));
        assert!(book.apply(receipt(2, Typing)));
        assert_eq!(next(&book).as_deref(), Some("text 2"), "not before it is through");
        assert!(book.apply(receipt(2, Sent)) && book.apply(receipt(2, Delivered)));
        assert_eq!(next(&book).as_deref(), Some("text 4"));
        assert!(!book.apply(receipt(2, Typing)), "never again");
        assert!(!book.apply(receipt(5, Typing)), "nobody knows it");
        assert_eq!(book.with_key(&key(1)).len(), 2);
        assert!(book.with_key(&key(7)).is_empty());
    }

    #[test]
    fn a_compacted_book_says_the_same_about_what_it_keeps() {
        use MessageState::{Delivered, Typing};
        let mut book = Book::default();
        for n in 1..=6 {
            book.apply(Entry::Messages(vec![message(n, 9)]));
        }
        for n in [1, 2, 4] {
            book.apply(receipt(n, Typing));
            book.apply(receipt(n, Delivered));
        }

        let entries = book.compact(1);

        let mut again = Book::default();
        assert!(entries.into_iter().all(|entry| again.apply(entry)));
        let texts: Vec<_> = again.iter().map(|noted| noted.message.text.as_str()).collect();
        assert_eq!(texts, ["text 3", "text 4", "text 5", "text 6"]);
        assert!(again.iter().eq(book.iter()));
        assert_eq!(again.get(MessageId::from_random([4; 16])).unwrap().state(), Delivered);
    }
}
