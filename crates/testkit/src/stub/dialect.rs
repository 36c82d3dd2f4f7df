//! The four APIs between agents and models.
//!
//! They are similar: each request lists messages with a role and content, and each answer is a text
//! or a tool call. This file reads requests; the modules below render answers.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use serde_json::Value;

use super::answer::Answer;
use super::reply::Reply;

/// An API between an agent and its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Anthropic's messages: claude.
    Anthropic,
    /// OpenAI's responses: codex.
    Responses,
    /// OpenAI's chat completions: opencode.
    Chat,
    /// Google's generated content: gemini.
    Gemini,
}

/// The content of an answer.
#[derive(Clone, Copy, Debug)]
enum Piece<'a> {
    Text(&'a str),
    ToolCall { name: &'a str, input: &'a Value },
}

impl Dialect {
    /// Returns the API at this path.
    pub(super) fn of(path: &str) -> Option<Self> {
        const ENDINGS: [(&str, Dialect); 5] = [
            ("/v1/messages", Dialect::Anthropic),
            ("/responses", Dialect::Responses),
            ("/chat/completions", Dialect::Chat),
            (":streamGenerateContent", Dialect::Gemini),
            (":generateContent", Dialect::Gemini),
        ];
        ENDINGS.into_iter().find(|(ending, _)| path.ends_with(ending)).map(|(_, dialect)| dialect)
    }

    /// Returns the user's texts. Agents wrap their own additions in tags, so texts that start with
    /// one are skipped.
    pub(super) fn user_texts(self, body: &Value) -> Vec<&str> {
        let (messages, content) = match self {
            Self::Anthropic | Self::Chat => ("messages", "content"),
            Self::Responses => ("input", "content"),
            Self::Gemini => ("contents", "parts"),
        };
        let of_user = items(&body[messages]).iter().filter(|message| message["role"] == "user");
        of_user
            .flat_map(|message| texts(&message[content]))
            .filter(|text| !text.trim_start().starts_with('<'))
            .collect()
    }

    pub(super) fn is_turn(self, body: &Value) -> bool {
        // The field is the same in all of them.
        !items(&body["tools"]).is_empty()
    }

    /// Renders the response to the request with this path and body. `number` is different for every
    /// turn.
    pub(super) fn render(self, path: &str, body: &Value, number: u64, answer: &Answer) -> Reply {
        let piece = match answer {
            Answer::Text(text) => Piece::Text(text),
            Answer::ToolCall { name, input } => Piece::ToolCall { name, input },
            Answer::Failure(status) => return Reply::failure(*status),
        };
        match self {
            Self::Anthropic => anthropic::render(body, number, piece),
            Self::Responses => responses::render(number, piece),
            Self::Chat => chat::render(body, number, piece),
            Self::Gemini => gemini::render(path, piece),
        }
    }
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn texts(content: &Value) -> Vec<&str> {
    match content.as_str() {
        Some(text) => vec![text],
        None => items(content).iter().filter_map(|piece| piece["text"].as_str()).collect(),
    }
}
