//! Messages: what one pane, or somebody outside, has to say to another, and what became of it.
//!
//! ```text
//!  Queued ---> Typing ---> Sent ---> Delivered ---> Answered
//!    ^ |         | |         |          ^  ^
//!    | |         | +---------|----------+  |     (a program that confirms nothing has it when its
//!    | |         +--> Unsure-+-------------+      terminal took it)
//!    | +-> Failed
//!    +-- Typing, Sent: it is proven that the program never had it
//! ```
//!
//! A message is typed at most once into a program that may have taken it. Where nobody can tell any
//! more whether it did, the message is `Unsure` and stays so until something tells.

pub mod book;
pub mod route;

use serde::{Deserialize, Serialize};

use crate::agent::prompting::FOLDED;
use crate::idempotency::IdempotencyKey;
use crate::ids::{MessageId, PaneId, SessionId};
use crate::name::Name;
use crate::time::Timestamp;

/// The longest text of a message, in bytes.
pub const LONGEST: usize = 64 << 10;

/// How many characters of a text are enough to know it again.
const KNOWN_BY: usize = 16;

/// What is to be said to one pane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its identity.
    pub id: MessageId,
    /// The session of the receiver.
    pub session: SessionId,
    /// The pane that said it; none if it came from outside of panes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Sender>,
    /// The pane that it is for.
    pub to: PaneId,
    /// Whom the sender named.
    pub asked: String,
    /// What is said.
    pub text: String,
    /// The receiver gets the text alone, without a line that says who it is from.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub raw: bool,
    /// By this a repeated request is known for what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<IdempotencyKey>,
    /// When it was taken on.
    pub at: Timestamp,
}

/// A pane that says something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// The pane.
    pub pane: PaneId,
    /// What it was called then.
    pub name: Name,
    /// Its session.
    pub session: Name,
}

/// How far a message has come. See the module documentation for the diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageState {
    /// It waits until the receiver can take it.
    Queued,
    /// It is about to be typed.
    Typing,
    /// The terminal took it; the agent has not confirmed it yet.
    Sent,
    /// Nobody can tell whether the receiver has it. It is not typed again.
    Unsure,
    /// The receiver has it.
    Delivered,
    /// The turn that it led to is over.
    Answered,
    /// It will not be delivered.
    Failed,
}

/// What became of a message at some moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The message.
    pub id: MessageId,
    /// How far it has come.
    pub state: MessageState,
    /// When.
    pub at: Timestamp,
    /// Why, where that is not clear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl MessageState {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Typing,
        Self::Sent,
        Self::Unsure,
        Self::Delivered,
        Self::Answered,
        Self::Failed,
    ];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Typing => "typing",
            Self::Sent => "sent",
            Self::Unsure => "unsure",
            Self::Delivered => "delivered",
            Self::Answered => "answered",
            Self::Failed => "failed",
        }
    }

    /// Whether a message may go from here to there.
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        use MessageState::{Answered, Delivered, Failed, Queued, Sent, Typing, Unsure};
        match self {
            Queued => matches!(next, Typing | Failed),
            Typing => matches!(next, Queued | Sent | Unsure | Delivered | Failed),
            Sent => matches!(next, Queued | Unsure | Delivered),
            Unsure => matches!(next, Delivered),
            Delivered => next == Answered,
            Answered | Failed => false,
        }
    }

    /// Whether the receiver still has to get it.
    #[must_use]
    pub fn is_waiting(self) -> bool {
        matches!(self, Self::Queued | Self::Typing)
    }

    /// Whether the receiver has it.
    #[must_use]
    pub fn is_delivered(self) -> bool {
        matches!(self, Self::Delivered | Self::Answered)
    }
}

words!(MessageState);

/// How the line is written that says who a message is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heading {
    /// For an agent that reads it.
    Bracketed,
    /// For a shell, which would execute it.
    Comment,
}

impl Message {
    /// What is typed.
    #[must_use]
    pub fn typed(&self, heading: Heading, session: &Name) -> String {
        if self.raw {
            return self.text.trim_end().to_owned();
        }
        let (open, close) = match heading {
            Heading::Bracketed => ("[", "]"),
            Heading::Comment => ("# ", ""),
        };
        let id = self.id;
        let heading = match &self.from {
            None => format!("message from outside, id {id}"),
            Some(Sender { name, session: theirs, .. }) => {
                let elsewhere =
                    if theirs == session { String::new() } else { format!(" --session {theirs}") };
                format!(
                    "message from {name} in session {theirs}, id {id}; answer with: \
                     ccmux message --to {name}{elsewhere} TEXT"
                )
            }
        };
        format!("{open}{heading}{close}\n{}", self.text.trim_end())
    }

    /// Whether a prompt that an agent has accepted is this message.
    #[must_use]
    pub fn is_prompt(&self, prompt: &str) -> bool {
        if self.raw { prompt.trim() == self.text.trim() } else { self.is_in(prompt) }
    }

    /// Whether the words in an agent's box are this message. A box wraps lines where it likes, and
    /// may fold what is long.
    #[must_use]
    pub fn is_composed(&self, words: &str) -> bool {
        let flat = |text: &str| text.split_whitespace().collect::<String>();
        let beginning: String = flat(&self.text).chars().take(KNOWN_BY).collect();
        let words = flat(words);
        words.contains(&beginning)
            || words.contains(&self.id.to_string())
            || words.starts_with(FOLDED)
    }

    /// Whether what an agent has written down shows that it has this message. A text alone proves
    /// nothing: it may have been said before.
    #[must_use]
    pub fn is_in(&self, transcript: &str) -> bool {
        !self.raw && transcript.contains(&format!(", id {}", self.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(raw: bool, from: Option<(&str, &str)>) -> Message {
        Message {
            id: MessageId::from_random([7; 16]),
            session: SessionId::from_random([1; 16]),
            from: from.map(|(name, session)| Sender {
                pane: PaneId::from_random([2; 16]),
                name: name.parse().unwrap(),
                session: session.parse().unwrap(),
            }),
            to: PaneId::from_random([3; 16]),
            asked: "qa".to_owned(),
            text: "run the tests\nplease".to_owned(),
            raw,
            key: None,
            at: Timestamp(0),
        }
    }

    #[test]
    fn a_receiver_is_told_who_speaks_and_how_to_answer() {
        let web = "web".parse().unwrap();
        let typed = |from, heading| message(false, from).typed(heading, &web);
        let id = "07070707-0707-4707-8707-070707070707";

        let inside = typed(Some(("pm", "web")), Heading::Bracketed);
        assert_eq!(
            inside,
            format!(
                "[message from pm in session web, id {id}; answer with: \
                 ccmux message --to pm TEXT]\nrun the tests\nplease"
            )
        );
        let elsewhere = typed(Some(("pm", "api")), Heading::Bracketed);
        assert!(elsewhere.contains("--to pm --session api TEXT]"), "{elsewhere}");
        let shell = typed(None, Heading::Comment);
        assert!(shell.starts_with(&format!("# message from outside, id {id}\n")), "{shell}");
        assert_eq!(message(true, None).typed(Heading::Comment, &web), "run the tests\nplease");
    }

    #[test]
    fn an_accepted_prompt_is_known_by_its_id_or_if_it_is_all_of_the_text() {
        let web = "web".parse().unwrap();
        let (plain, raw) = (message(false, None), message(true, None));

        assert!(plain.is_prompt(&plain.typed(Heading::Bracketed, &web)));
        assert!(!plain.is_prompt(&plain.text));
        assert!(raw.is_prompt(" run the tests\nplease\n"));
        assert!(!raw.is_prompt("run the tests") && !raw.is_in(&raw.text));
        assert!(raw.is_composed("run the\n te sts please") && !raw.is_composed("run away"));
        assert!(raw.is_composed("[Pasted text #1 +20 lines]"));
    }

    #[test]
    fn what_is_over_stays_over_and_nothing_is_typed_twice() {
        use MessageState::{Answered, Delivered, Failed, Queued, Sent, Typing, Unsure};
        for state in MessageState::ALL {
            assert_eq!(state.to_string().parse(), Ok(state));
            assert!(!state.may_become(state), "{state}");
            assert_eq!(state.may_become(Typing), state == Queued, "{state}");
            assert_eq!(state.may_become(Queued), matches!(state, Typing | Sent), "{state}");
            assert_eq!(state.may_become(Answered), state == Delivered, "{state}");
            let may_be_delivered = matches!(state, Typing | Sent | Unsure);
            assert_eq!(state.may_become(Delivered), may_be_delivered, "{state}");
            assert!(!Failed.may_become(state) && !Answered.may_become(state));
        }
    }
}
