//! What is typed into a pane, and what is read from it.

use model::key::Key;
use serde::{Deserialize, Serialize};

/// What to type into a pane: text, then keys, then Enter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Typing {
    /// Text, delivered as a paste where the program takes pastes.
    pub text: String,
    /// Keys after the text.
    pub keys: Vec<Key>,
    /// Press Enter at the end, separately enough that no program takes it for part of the paste.
    pub enter: bool,
}

/// What to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// The visible screen as text.
    Screen,
    /// The last lines of screen and history as text.
    Lines(usize),
    /// Raw output from an offset on (none: the oldest kept), at most [`LOG_PIECE`] bytes.
    Log {
        /// The first byte wanted.
        from: Option<u64>,
    },
}

/// The most bytes of the log in one answer. A longer log takes several questions.
pub const LOG_PIECE: usize = 1 << 20;

/// What to wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// The pane's process has ended.
    Exit,
    /// A line on the screen, or one that passed by since the question, matches this pattern.
    Text(String),
}

/// A piece of a pane's output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// The text; for a log, its bytes with what is not UTF-8 replaced.
    pub text: String,
    /// For a log, the bytes themselves, where `text` had to replace some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Vec<u8>>,
    /// For a log, the offset of the first byte given, which is later than the one asked for if
    /// that is no longer kept.
    pub from: u64,
    /// The offset that this stands for; asking from here on gives what follows.
    pub next: u64,
    /// More is there already.
    pub more: bool,
}
