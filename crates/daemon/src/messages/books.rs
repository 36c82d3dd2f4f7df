//! The journals of all sessions, and what they say: the one place that writes them.

use std::collections::HashMap;
use std::path::PathBuf;

use host::StateRoot;
use host::file::{self, FileError};
use host::journal::{Damage, Journal, Opened};
use model::message::book::{Book, Entry, Noted};
use model::message::{Message, Receipt};
use model::{MessageId, PaneId, SessionId};
use protocol::{ErrorBody, ErrorCode};

/// The directory of messages in a session's directory.
const DIR: &str = "messages";

/// The journal in it.
const JOURNAL: &str = "messages.jsonl";

/// How long a journal may get before what is over is forgotten.
const COMPACT_AT: u64 = 4 << 20;

/// How many messages are remembered after they are over, and with them their keys.
const REMEMBERED: usize = 1000;

/// How many messages may wait for one pane.
const WAITING: usize = 1000;

/// Every book that was opened.
#[derive(Debug)]
pub(crate) struct Books {
    root: StateRoot,
    open: HashMap<SessionId, Kept>,
}

/// A book and the journal that it is kept in.
#[derive(Debug)]
struct Kept {
    book: Book,
    journal: Journal,
    /// How long the journal was when it was last written anew.
    base: u64,
}

/// What became of a wish to send something.
#[derive(Debug)]
pub(crate) struct Taken {
    /// The messages.
    pub(crate) noted: Vec<Noted>,
    /// They were not there before.
    pub(crate) fresh: bool,
}

impl Books {
    pub(super) fn new(root: StateRoot) -> Self {
        Self { root, open: HashMap::new() }
    }

    fn path(&self, session: SessionId) -> PathBuf {
        self.root.session(session).join(DIR).join(JOURNAL)
    }

    /// Opens the book of a session, if it has one; what was wrong with it.
    pub(crate) fn open(&mut self, session: SessionId) -> Result<Option<Damage>, FileError> {
        if self.open.contains_key(&session) {
            return Ok(None);
        }
        let Opened { entries, journal, damaged } = Journal::open(&self.path(session))?;
        let mut book = Book::default();
        for entry in entries {
            book.apply(entry);
        }
        let base = journal.length();
        self.open.insert(session, Kept { book, journal, base });
        Ok(damaged)
    }

    fn kept(&mut self, session: SessionId) -> Result<&mut Kept, FileError> {
        self.open(session)?;
        Ok(self.open.get_mut(&session).expect("it was opened"))
    }

    /// What is on record about the messages of a session.
    pub(crate) fn of(&mut self, session: SessionId) -> Result<&Book, FileError> {
        Ok(&self.kept(session)?.book)
    }

    /// Every book that was opened.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Book> {
        self.open.values().map(|kept| &kept.book)
    }

    /// Takes messages of one sending on, all or none; or finds those that the same request led to
    /// before.
    pub(crate) fn take_on(
        &mut self,
        session: SessionId,
        messages: Vec<Message>,
    ) -> Result<Taken, ErrorBody> {
        let dir = self.root.session(session).join(DIR);
        let kept = self.kept(session).map_err(not_kept)?;
        let Some(first) = messages.first() else {
            return Ok(Taken { noted: Vec::new(), fresh: false });
        };
        if let Some(key) = &first.key {
            let known = kept.book.with_key(key);
            if let Some(before) = known.first() {
                check_same(&before.message, first)?;
                let noted = known.into_iter().cloned().collect();
                return Ok(Taken { noted, fresh: false });
            }
        }
        for message in &messages {
            let waiting = kept.book.of_pane(message.to, |state| state.is_waiting()).count();
            if waiting >= WAITING {
                let text = format!("{waiting} messages already wait for pane {}", message.to);
                return Err(ErrorBody::new(ErrorCode::Conflict, text)
                    .hint("see them with `ccmux message ls --state queued`"));
            }
        }
        let ids: Vec<MessageId> = messages.iter().map(|message| message.id).collect();
        let entry = Entry::Messages(messages);
        file::make_dir(&dir).and_then(|()| kept.write(entry)).map_err(not_kept)?;
        let noted = ids.iter().filter_map(|id| kept.book.get(*id).cloned()).collect();
        Ok(Taken { noted, fresh: true })
    }

    /// Puts on record what became of a message; the pane that it is for, unless that cannot be.
    pub(crate) fn note(
        &mut self,
        session: SessionId,
        receipt: Receipt,
    ) -> Result<Option<PaneId>, FileError> {
        let kept = self.kept(session)?;
        let Some(noted) = kept.book.get(receipt.id) else { return Ok(None) };
        if !noted.state().may_become(receipt.state) {
            return Ok(None);
        }
        let pane = noted.message.to;
        kept.write(Entry::Receipt(receipt))?;
        Ok(Some(pane))
    }

    /// Closes the book of a session that is gone.
    pub(crate) fn forget(&mut self, session: SessionId) {
        self.open.remove(&session);
    }
}

impl Kept {
    fn write(&mut self, entry: Entry) -> Result<(), FileError> {
        self.journal.append(std::slice::from_ref(&entry))?;
        self.book.apply(entry);
        if self.journal.length() > self.base + COMPACT_AT {
            let entries = self.book.compact(REMEMBERED);
            // It is only longer than it need be if that fails.
            if let Err(error) = self.journal.replace(&entries) {
                tracing::warn!(%error, "a journal of messages is not shortened");
            }
            self.base = self.journal.length();
        }
        Ok(())
    }
}

/// Whether a request is the one that was made before under the same key.
fn check_same(before: &Message, now: &Message) -> Result<(), ErrorBody> {
    let said = |message: &Message| {
        let from = message.from.as_ref().map(|from| from.pane);
        (message.asked.clone(), message.text.clone(), message.raw, from)
    };
    if said(before) == said(now) {
        return Ok(());
    }
    let text = format!("this key was used for another message, {}", before.id);
    Err(ErrorBody::new(ErrorCode::Conflict, text).hint("choose another key"))
}

// By value, as `map_err` hands it over.
#[expect(clippy::needless_pass_by_value, reason = "used as a function of `map_err`")]
fn not_kept(error: FileError) -> ErrorBody {
    let body = ErrorBody::new(ErrorCode::Failed, format!("messages cannot be kept: {error}"));
    if error.is_full() { body.hint("make room on the disk") } else { body }
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
    use model::message::MessageState;

    use super::*;

    fn message(n: u8, key: Option<&str>, text: &str) -> Message {
        Message {
            id: MessageId::from_random([n; 16]),
            session: SessionId::from_random([1; 16]),
            from: None,
            to: PaneId::from_random([2; 16]),
            asked: "qa".to_owned(),
            text: text.to_owned(),
            raw: false,
            key: key.map(|key| key.parse().unwrap()),
            at: Timestamp(0),
        }
    }

    fn books() -> (tempfile::TempDir, StateRoot, SessionId) {
        let dir = tempfile::tempdir().unwrap();
        let root = StateRoot::open(&dir.path().join("home")).unwrap();
        let session = SessionId::from_random([1; 16]);
        file::make_dir(&root.session(session)).unwrap();
        (dir, root, session)
    }

    /// A repeated request is known by its key, also by the next daemon (B7).
    #[test]
    fn a_key_stands_for_one_message_for_ever() {
        let (_dir, root, session) = books();
        let mut first = Books::new(root.clone());
        assert!(first.take_on(session, vec![message(1, Some("k"), "hi")]).unwrap().fresh);

        let mut next = Books::new(root);
        let again = next.take_on(session, vec![message(2, Some("k"), "hi")]).unwrap();
        let other = next.take_on(session, vec![message(3, Some("k"), "ho")]).unwrap_err();

        assert!(!again.fresh);
        assert_eq!(again.noted[0].message.id, MessageId::from_random([1; 16]));
        assert_eq!(other.code, ErrorCode::Conflict);
    }

    #[test]
    fn what_became_of_a_message_is_there_after_the_daemon_is_gone() {
        let (_dir, root, session) = books();
        let mut first = Books::new(root.clone());
        first.take_on(session, vec![message(1, None, "hi")]).unwrap();
        let receipt = |state| Receipt {
            id: MessageId::from_random([1; 16]),
            state,
            at: Timestamp(1),
            why: None,
        };

        assert!(first.note(session, receipt(MessageState::Typing)).unwrap().is_some());
        assert!(first.note(session, receipt(MessageState::Answered)).unwrap().is_none());

        let mut next = Books::new(root);
        let noted = next.of(session).unwrap().iter().next().unwrap().clone();
        assert_eq!(noted.state(), MessageState::Typing);
    }

    #[test]
    fn a_session_that_is_gone_takes_no_messages() {
        let (_dir, root, session) = books();
        let mut books = Books::new(root.clone());
        std::fs::remove_dir(root.session(session)).unwrap();

        let refused = books.take_on(session, vec![message(1, None, "hi")]).unwrap_err();

        assert!(refused.message.contains("messages"), "{refused:?}");
        assert!(!root.session(session).exists());
    }
}
