//! What is said on the WebSocket of a pane.
//!
//! Text messages are JSON with a `type`. Every binary message to the client begins with eight bytes,
//! an offset in the pane's output as a big-endian number: after a `snapshot` message, the one that
//! the escape sequences stand for; otherwise, that of the first byte of output that follows. A
//! binary message from the client is what was typed, as it is.

use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, close_code};
use model::{Ending, Size};
use protocol::look::Typing;
use protocol::{ErrorBody, ErrorCode};
use serde::{Deserialize, Serialize};

/// The client was not heard for too long. Private codes begin at 4000.
const IDLE: u16 = 4008;

/// The longest reason that a close frame has room for.
const REASON_MAX: usize = 123;

/// To the client.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Tell<'a> {
    /// A snapshot is the next binary message.
    Snapshot { offset: u64, size: Size },
    /// What follows the offset that the client named comes next.
    Resumed { offset: u64, size: Size },
    /// The screen has another size.
    Resized { size: Size },
    /// Something that the client asked for did not work. The connection goes on.
    Error(&'a ErrorBody),
    /// The pane has ended; everything it wrote has been sent.
    Ended { offset: u64, ending: Option<&'a Ending> },
}

impl Tell<'_> {
    pub(super) fn message(&self) -> Message {
        let text = serde_json::to_string(self).expect("messages have string keys only");
        Message::Text(text.into())
    }
}

/// Output, or a snapshot, with the offset in front.
pub(super) fn bytes_at(offset: u64, bytes: &[u8]) -> Message {
    let mut message = Vec::with_capacity(size_of::<u64>() + bytes.len());
    message.extend_from_slice(&offset.to_be_bytes());
    message.extend_from_slice(bytes);
    Message::Binary(Bytes::from(message))
}

/// What a client wants.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Type these bytes.
    Keys(Bytes),
    /// Type this, as a person would.
    Typing(Typing),
    /// Its terminal has this size.
    Resize(Size),
    /// Leave.
    Leave,
    /// Nothing: it lives.
    Nothing,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Told {
    Resize {
        cols: u16,
        rows: u16,
    },
    Input {
        #[serde(default)]
        text: String,
        #[serde(default)]
        enter: bool,
    },
}

impl Wish {
    /// What a message says, or why it says nothing.
    pub(super) fn read(message: Message) -> Result<Self, Goodbye> {
        match message {
            Message::Binary(keys) => Ok(Self::Keys(keys)),
            Message::Text(text) => {
                let told = serde_json::from_str(text.as_str());
                match told.map_err(|error| Goodbye::unreadable(&error.to_string()))? {
                    Told::Resize { cols, rows } => Size::new(cols, rows)
                        .map(Self::Resize)
                        .map_err(|error| Goodbye::unreadable(&error.to_string())),
                    Told::Input { text, enter } => {
                        Ok(Self::Typing(Typing { text, enter, ..Typing::default() }))
                    }
                }
            }
            Message::Close(_) => Ok(Self::Leave),
            Message::Ping(_) | Message::Pong(_) => Ok(Self::Nothing),
        }
    }

    /// Whether it changes something, so that looking on is not enough.
    pub(super) fn needs_control(&self) -> bool {
        matches!(self, Self::Keys(_) | Self::Typing(_) | Self::Resize(_))
    }
}

/// Why the connection ends: a code and a reason.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Goodbye(u16, String);

impl Goodbye {
    pub(super) fn ended() -> Self {
        Self(close_code::NORMAL, "the pane has ended".to_owned())
    }

    pub(super) fn asked() -> Self {
        Self(close_code::NORMAL, String::new())
    }

    pub(super) fn stopping() -> Self {
        Self(close_code::AWAY, "the daemon is stopping; the pane runs on".to_owned())
    }

    pub(super) fn idle(seconds: u64) -> Self {
        Self(IDLE, format!("nothing was heard for {seconds} seconds, not even a pong"))
    }

    pub(super) fn not_allowed() -> Self {
        Self(close_code::POLICY, "this token may look on, and neither type nor resize".to_owned())
    }

    pub(super) fn failed(why: &str) -> Self {
        Self(close_code::ERROR, why.to_owned())
    }

    fn unreadable(why: &str) -> Self {
        Self(close_code::INVALID, format!("this message means nothing here: {why}"))
    }

    pub(super) fn message(mut self) -> Message {
        let end = (0..=REASON_MAX).rev().find(|&end| self.1.is_char_boundary(end));
        self.1.truncate(end.unwrap_or(0));
        Message::Close(Some(CloseFrame { code: self.0, reason: Utf8Bytes::from(self.1) }))
    }
}

impl From<&ErrorBody> for Goodbye {
    fn from(body: &ErrorBody) -> Self {
        let code = match body.code {
            ErrorCode::NotFound | ErrorCode::Conflict => close_code::NORMAL,
            ErrorCode::Failed
            | ErrorCode::Usage
            | ErrorCode::TimedOut
            | ErrorCode::Unreachable
            | ErrorCode::Unknown => close_code::ERROR,
        };
        Self(code, body.message.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_says_is_read_or_answered_with_a_reason() {
        let keys = Wish::read(Message::Binary(Bytes::from_static(b"\x03")));
        assert_eq!(keys, Ok(Wish::Keys(Bytes::from_static(b"\x03"))));

        let typed =
            Wish::read(Message::Text(r#"{"type":"input","text":"ls","enter":true}"#.into()));
        let typing = Typing { text: "ls".to_owned(), enter: true, ..Typing::default() };
        assert_eq!(typed, Ok(Wish::Typing(typing)));

        let resize = Wish::read(Message::Text(r#"{"type":"resize","cols":90,"rows":30}"#.into()));
        assert_eq!(resize, Ok(Wish::Resize(Size::new(90, 30).unwrap())));

        for odd in ["", "[]", r#"{"type":"fly"}"#, r#"{"type":"resize","cols":0,"rows":1}"#] {
            let Err(Goodbye(code, _)) = Wish::read(Message::Text(odd.into())) else {
                panic!("{odd:?} was understood")
            };
            assert_eq!(code, close_code::INVALID, "{odd:?}");
        }
    }

    #[test]
    fn a_reason_fits_into_its_frame_and_ends_with_a_whole_character() {
        let Message::Close(Some(frame)) = Goodbye::failed(&"é".repeat(100)).message() else {
            panic!("no close frame")
        };

        assert_eq!(frame.reason.as_str(), "é".repeat(61));
    }

    #[test]
    fn an_offset_stands_before_the_bytes() {
        let Message::Binary(bytes) = bytes_at(0x0102, b"ab") else { panic!("not binary") };

        assert_eq!(&bytes[..], b"\0\0\0\0\0\0\x01\x02ab");
    }
}
