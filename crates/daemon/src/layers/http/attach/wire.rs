//! The messages on the WebSocket of a pane.
//!
//! Text messages are JSON objects with a `type`. Every binary message to the client starts with an
//! offset into the output of the pane, as 8 bytes in big-endian order. After a `snapshot` message
//! it is the offset that the snapshot represents; otherwise it is the offset of the first byte of
//! the output that follows. A binary message from the client is raw input.

use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, close_code};
use model::{Ending, Size};
use protocol::pane_io::Typing;
use protocol::{ErrorBody, ErrorCode};
use serde::{Deserialize, Serialize};

/// The close code for an idle client. Private codes start at 4000.
const IDLE: u16 = 4008;

/// The maximum length of a close reason in bytes.
const MAX_REASON: usize = 123;

/// A text message to the client.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ServerMessage<'a> {
    /// The next binary message is a snapshot.
    Snapshot { offset: u64, size: Size },
    /// The output after the requested offset follows.
    Resumed { offset: u64, size: Size },
    /// The size of the screen changed.
    Resized { size: Size },
    /// A request of the client failed. The connection stays open.
    Error(&'a ErrorBody),
    /// The pane ended and all its output has been sent.
    Ended { offset: u64, ending: Option<&'a Ending> },
}

impl ServerMessage<'_> {
    pub(super) fn message(&self) -> Message {
        let text = serde_json::to_string(self).expect("messages have string keys only");
        Message::Text(text.into())
    }
}

/// Returns a binary message with output or a snapshot.
pub(super) fn binary_message(offset: u64, bytes: &[u8]) -> Message {
    let mut message = Vec::with_capacity(size_of::<u64>() + bytes.len());
    message.extend_from_slice(&offset.to_be_bytes());
    message.extend_from_slice(bytes);
    Message::Binary(Bytes::from(message))
}

/// A message from the client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClientMessage {
    /// Raw input.
    Input(Bytes),
    /// Text to type.
    Typing(Typing),
    /// The size of the client's terminal.
    Resize(Size),
    /// The client closes the connection.
    Close,
    /// A ping or pong.
    KeepAlive,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum TextMessage {
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

impl ClientMessage {
    /// Parses a message.
    pub(super) fn parse(message: Message) -> Result<Self, CloseReason> {
        match message {
            Message::Binary(keys) => Ok(Self::Input(keys)),
            Message::Text(text) => {
                let parsed = serde_json::from_str(text.as_str());
                match parsed.map_err(|error| CloseReason::invalid(&error.to_string()))? {
                    TextMessage::Resize { cols, rows } => Size::new(cols, rows)
                        .map(Self::Resize)
                        .map_err(|error| CloseReason::invalid(&error.to_string())),
                    TextMessage::Input { text, enter } => {
                        Ok(Self::Typing(Typing { text, enter, ..Typing::default() }))
                    }
                }
            }
            Message::Close(_) => Ok(Self::Close),
            Message::Ping(_) | Message::Pong(_) => Ok(Self::KeepAlive),
        }
    }

    /// Returns whether the message needs the control scope.
    pub(super) fn needs_control(&self) -> bool {
        matches!(self, Self::Input(_) | Self::Typing(_) | Self::Resize(_))
    }
}

/// The code and reason of a close frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CloseReason(u16, String);

impl CloseReason {
    pub(super) fn ended() -> Self {
        Self(close_code::NORMAL, "the pane ended".to_owned())
    }

    pub(super) fn normal() -> Self {
        Self(close_code::NORMAL, String::new())
    }

    pub(super) fn revoked() -> Self {
        Self(close_code::POLICY, "the token is no longer valid".to_owned())
    }

    pub(super) fn stopping() -> Self {
        Self(close_code::AWAY, "the daemon is stopping; the pane keeps running".to_owned())
    }

    pub(super) fn idle(seconds: u64) -> Self {
        Self(IDLE, format!("no message or pong received for {seconds} seconds"))
    }

    pub(super) fn not_allowed() -> Self {
        Self(
            close_code::POLICY,
            "input and resize are not allowed: read-only connection".to_owned(),
        )
    }

    pub(super) fn failed(why: &str) -> Self {
        Self(close_code::ERROR, why.to_owned())
    }

    fn invalid(why: &str) -> Self {
        Self(close_code::INVALID, format!("invalid message: {why}"))
    }

    pub(super) fn message(mut self) -> Message {
        let end = (0..=MAX_REASON).rev().find(|&end| self.1.is_char_boundary(end));
        self.1.truncate(end.unwrap_or(0));
        Message::Close(Some(CloseFrame { code: self.0, reason: Utf8Bytes::from(self.1) }))
    }
}

impl From<&ErrorBody> for CloseReason {
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
    fn valid_messages_are_parsed_and_others_rejected() {
        let keys = ClientMessage::parse(Message::Binary(Bytes::from_static(b"\x03")));
        assert_eq!(keys, Ok(ClientMessage::Input(Bytes::from_static(b"\x03"))));

        let typed = ClientMessage::parse(Message::Text(
            r#"{"type":"input","text":"ls","enter":true}"#.into(),
        ));
        let typing = Typing { text: "ls".to_owned(), enter: true, ..Typing::default() };
        assert_eq!(typed, Ok(ClientMessage::Typing(typing)));

        let resize =
            ClientMessage::parse(Message::Text(r#"{"type":"resize","cols":90,"rows":30}"#.into()));
        assert_eq!(resize, Ok(ClientMessage::Resize(Size::new(90, 30).unwrap())));

        for invalid_text in
            ["", "[]", r#"{"type":"fly"}"#, r#"{"type":"resize","cols":0,"rows":1}"#]
        {
            let Err(CloseReason(code, _)) =
                ClientMessage::parse(Message::Text(invalid_text.into()))
            else {
                panic!("{invalid_text:?} was accepted")
            };
            assert_eq!(code, close_code::INVALID, "{invalid_text:?}");
        }
    }

    #[test]
    fn long_close_reason_is_truncated_at_char_boundary() {
        let Message::Close(Some(frame)) = CloseReason::failed(&"é".repeat(100)).message() else {
            panic!("no close frame")
        };

        assert_eq!(frame.reason.as_str(), "é".repeat(61));
    }

    #[test]
    fn binary_message_starts_with_offset() {
        let Message::Binary(bytes) = binary_message(0x0102, b"ab") else { panic!("not binary") };

        assert_eq!(&bytes[..], b"\0\0\0\0\0\0\x01\x02ab");
    }
}
