//! The message journals of all sessions. Only this module writes them.

use std::collections::HashMap;
use std::path::PathBuf;

use host::StateRoot;
use host::file::{self, FileError};
use host::journal::{Damage, Journal, Opened};
use model::message::journal::{Entry, MessageJournal, TrackedMessage};
use model::message::{Message, Receipt};
use model::{MessageId, PaneId, SessionId};

use crate::fault::{Advice, Description, Fault, FaultKind};
use crate::registry::TargetError;

/// Directory of messages in a session's directory.
const DIR: &str = "messages";

/// Name of the journal in that directory.
const FILE_NAME: &str = "messages.jsonl";

/// Growth of a journal file after which it is compacted.
const COMPACT_AFTER: u64 = 4 << 20;

/// Number of finished messages, and with them idempotency keys, that survive a compaction.
const KEPT_FINISHED: usize = 1000;

/// Maximum number of messages that wait for one pane.
const MAX_WAITING: usize = 1000;

/// The open message journals.
#[derive(Debug)]
pub(crate) struct Journals {
    root: StateRoot,
    open: HashMap<SessionId, OpenJournal>,
}

/// A journal in memory and its file.
#[derive(Debug)]
struct OpenJournal {
    messages: MessageJournal,
    file: Journal,
    /// Length of the file after the last compaction.
    compacted_length: u64,
}

/// The result of a request to queue messages.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) messages: Vec<TrackedMessage>,
    /// False for a repeated request, whose messages were queued before.
    pub(crate) is_new: bool,
}

impl Journals {
    pub(super) fn new(root: StateRoot) -> Self {
        Self { root, open: HashMap::new() }
    }

    fn path(&self, session: SessionId) -> PathBuf {
        self.root.session(session).join(DIR).join(FILE_NAME)
    }

    /// Opens the journal of a session, if it has one. Returns the damage that was repaired.
    ///
    /// # Errors
    ///
    /// [`FileError`].
    pub(crate) fn open(&mut self, session: SessionId) -> Result<Option<Damage>, FileError> {
        if self.open.contains_key(&session) {
            return Ok(None);
        }
        let Opened { entries, journal: file, damaged } = Journal::open(&self.path(session))?;
        let mut messages = MessageJournal::default();
        for entry in entries {
            messages.apply(entry);
        }
        let compacted_length = file.length();
        self.open.insert(session, OpenJournal { messages, file, compacted_length });
        Ok(damaged)
    }

    fn opened(&mut self, session: SessionId) -> Result<&mut OpenJournal, FileError> {
        self.open(session)?;
        Ok(self.open.get_mut(&session).expect("it was opened"))
    }

    /// Returns the messages of a session.
    ///
    /// # Errors
    ///
    /// [`FileError`].
    pub(crate) fn of(&mut self, session: SessionId) -> Result<&MessageJournal, FileError> {
        Ok(&self.opened(session)?.messages)
    }

    /// Returns all open journals.
    pub(crate) fn all(&self) -> impl Iterator<Item = &MessageJournal> {
        self.open.values().map(|journal| &journal.messages)
    }

    /// Queues the messages of one request, all or none. A repeated request returns the messages
    /// that were queued before.
    ///
    /// # Errors
    ///
    /// [`QueueError`].
    pub(crate) fn queue(
        &mut self,
        session: SessionId,
        messages: Vec<Message>,
    ) -> Result<Queued, QueueError> {
        let dir = self.root.session(session).join(DIR);
        let journal = self.opened(session)?;
        let Some(first) = messages.first() else {
            return Ok(Queued { messages: Vec::new(), is_new: false });
        };
        if let Some(key) = &first.key {
            let known = journal.messages.with_key(key);
            if let Some(before) = known.first() {
                check_same_request(&before.message, first)?;
                let messages = known.into_iter().cloned().collect();
                return Ok(Queued { messages, is_new: false });
            }
        }
        for message in &messages {
            let waiting = journal.messages.of_pane(message.to, |state| state.is_waiting()).count();
            if waiting >= MAX_WAITING {
                return Err(QueueError::Full { waiting, pane: message.to });
            }
        }
        let ids: Vec<MessageId> = messages.iter().map(|message| message.id).collect();
        file::make_dir(&dir).and_then(|()| journal.append(Entry::Messages(messages)))?;
        let messages = ids.iter().filter_map(|id| journal.messages.get(*id).cloned()).collect();
        Ok(Queued { messages, is_new: true })
    }

    /// Records a new state of a message. Returns its recipient; none if the message is unknown or
    /// the change of state is illegal.
    ///
    /// # Errors
    ///
    /// [`FileError`].
    pub(crate) fn record(
        &mut self,
        session: SessionId,
        receipt: Receipt,
    ) -> Result<Option<PaneId>, FileError> {
        let journal = self.opened(session)?;
        let Some(tracked) = journal.messages.get(receipt.id) else { return Ok(None) };
        if !tracked.state().may_become(receipt.state) {
            return Ok(None);
        }
        let pane = tracked.message.to;
        journal.append(Entry::Receipt(receipt))?;
        Ok(Some(pane))
    }

    /// Closes the journal of a removed session.
    pub(crate) fn forget(&mut self, session: SessionId) {
        self.open.remove(&session);
    }
}

impl OpenJournal {
    fn append(&mut self, entry: Entry) -> Result<(), FileError> {
        self.file.append(std::slice::from_ref(&entry))?;
        self.messages.apply(entry);
        if self.file.length() > self.compacted_length + COMPACT_AFTER {
            let entries = self.messages.compact(KEPT_FINISHED);
            // The entry is written, so a failure here is no error of the caller.
            if let Err(error) = self.file.replace(&entries) {
                tracing::warn!(%error, "message journal not compacted");
            }
            self.compacted_length = self.file.length();
        }
        Ok(())
    }
}

/// Checks that two requests with the same idempotency key are equal.
fn check_same_request(before: &Message, now: &Message) -> Result<(), QueueError> {
    let request = |message: &Message| {
        let from = message.from.as_ref().map(|from| from.pane);
        (message.asked.clone(), message.text.clone(), message.raw, from)
    };
    if request(before) == request(now) {
        return Ok(());
    }
    Err(QueueError::KeyReused(before.id))
}

/// Why messages were not queued.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QueueError {
    #[error("the idempotency key was used for another message, {0}")]
    KeyReused(MessageId),
    #[error("{waiting} messages already wait for pane {pane}")]
    Full { waiting: usize, pane: PaneId },
    #[error("cannot store messages: {0}")]
    File(#[from] FileError),
    #[error(transparent)]
    Target(#[from] TargetError),
}

impl Fault for QueueError {
    fn describe(&self) -> Description {
        match self {
            Self::KeyReused(_) => {
                FaultKind::Conflict.advise(Advice::text("choose another idempotency key"))
            }
            Self::Full { .. } => FaultKind::Conflict.advise(Advice::ListQueuedMessages),
            Self::File(error) => error.describe(),
            Self::Target(error) => error.describe(),
        }
    }
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
    use model::message::MessageState;

    use super::*;

    fn message(n: u16, key: Option<&str>, text: &str) -> Message {
        let mut id = [0; 16];
        id[..2].copy_from_slice(&n.to_le_bytes());
        Message {
            id: MessageId::from_random(id),
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

    fn session_dir() -> (tempfile::TempDir, StateRoot, SessionId) {
        let dir = tempfile::tempdir().unwrap();
        let root = StateRoot::open(&dir.path().join("home")).unwrap();
        let session = SessionId::from_random([1; 16]);
        file::make_dir(&root.session(session)).unwrap();
        (dir, root, session)
    }

    /// B7.
    #[test]
    fn repeated_request_is_recognised_by_its_key_after_a_restart() {
        let (_dir, root, session) = session_dir();
        let mut first = Journals::new(root.clone());
        let queued = first.queue(session, vec![message(1, Some("k"), "hi")]).unwrap();
        assert!(queued.is_new);

        let mut next = Journals::new(root);
        let again = next.queue(session, vec![message(2, Some("k"), "hi")]).unwrap();
        let other = next.queue(session, vec![message(3, Some("k"), "ho")]).unwrap_err();

        assert!(!again.is_new);
        assert_eq!(again.messages[0].message.id, message(1, None, "").id);
        assert!(matches!(other, QueueError::KeyReused(_)), "{other:?}");
    }

    #[test]
    fn message_state_survives_a_restart() {
        let (_dir, root, session) = session_dir();
        let mut first = Journals::new(root.clone());
        first.queue(session, vec![message(1, None, "hi")]).unwrap();
        let receipt =
            |state| Receipt { id: message(1, None, "").id, state, at: Timestamp(1), why: None };

        assert!(first.record(session, receipt(MessageState::Typing)).unwrap().is_some());
        assert!(first.record(session, receipt(MessageState::Answered)).unwrap().is_none());

        let mut next = Journals::new(root);
        let tracked = next.of(session).unwrap().iter().next().unwrap().clone();
        assert_eq!(tracked.state(), MessageState::Typing);
    }

    #[test]
    fn message_over_the_limit_is_refused() {
        let (_dir, root, session) = session_dir();
        let mut journals = Journals::new(root);
        let count = u16::try_from(MAX_WAITING).unwrap();
        let all = (0..count).map(|n| message(n, None, "hi")).collect();
        journals.queue(session, all).unwrap();

        let refused = journals.queue(session, vec![message(count, None, "hi")]).unwrap_err();

        assert!(matches!(refused, QueueError::Full { waiting: MAX_WAITING, .. }), "{refused:?}");
    }

    #[test]
    fn removed_session_accepts_no_messages() {
        let (_dir, root, session) = session_dir();
        let mut journals = Journals::new(root.clone());
        std::fs::remove_dir(root.session(session)).unwrap();

        let refused = journals.queue(session, vec![message(1, None, "hi")]).unwrap_err();

        assert!(matches!(refused, QueueError::File(_)), "{refused:?}");
        assert!(!root.session(session).exists());
    }
}
