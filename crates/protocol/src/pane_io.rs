//! Input typed into a pane and output read from it.

use model::key::Key;
use serde::{Deserialize, Serialize};

/// Input for a pane: text, then keys, then Enter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Typing {
    /// Text, sent as a bracketed paste if the program has enabled that mode.
    pub text: String,
    /// Keys pressed after the text.
    pub keys: Vec<Key>,
    /// Press Enter at the end, with enough delay that it is not read as part of the paste.
    pub enter: bool,
}

/// The part of a pane's output to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadView {
    /// The visible screen as text.
    Screen,
    /// The last lines of scrollback and screen as text.
    Lines(usize),
    /// At most [`LOG_PIECE`] bytes of raw output.
    Log {
        /// The offset of the first byte (default: the oldest byte in the log).
        from: Option<u64>,
    },
}

/// The most bytes of the log in one reply. Reading a longer log takes several requests.
pub const LOG_PIECE: usize = 1 << 20;

/// A condition to wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// The pane's process has exited.
    Exit,
    /// A line on the screen, or a line written since the request, matches this regular expression.
    Text(String),
}

/// A piece of a pane's output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// The text. For a log, invalid UTF-8 is replaced.
    pub text: String,
    /// The raw bytes of a log, if `text` is not an exact copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Vec<u8>>,
    /// For a log, the offset of the first byte returned. It is later than the requested offset if
    /// that byte has been discarded.
    pub from: u64,
    /// The offset up to which the output is included; the next read starts here.
    pub next: u64,
    /// Whether more output is available now.
    pub more: bool,
}
