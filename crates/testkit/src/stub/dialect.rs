//! The four ways in which agents talk to their models.
//!
//! They differ in names more than in substance: each request lists messages with a role and
//! pieces of content, and each answer is a piece of text or the wish to have a tool run. This file
//! knows where the pieces are; the modules below know how an answer looks.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use serde_json::Value;

use super::answer::Answer;
use super::reply::Reply;
use super::seen::Seen;

/// A protocol between an agent and its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Anthropic's messages: claude.
    Anthropic,
    /// OpenAI's responses: codex.
    Responses,
    /// OpenAI's chat completions, which everybody imitates: opencode.
    Chat,
    /// Google's generated content: gemini.
    Gemini,
}

/// What the model says or wants, to be put into words.
#[derive(Clone, Copy, Debug)]
enum Piece<'a> {
    Text(&'a str),
    ToolCall { name: &'a str, input: &'a Value },
}

impl Dialect {
    /// What is spoken at this path.
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

    /// What the person wrote. Agents wrap what they add themselves in tags, so what begins with
    /// one is not the person's.
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
        // The place is the same in all of them.
        !items(&body["tools"]).is_empty()
    }

    /// Puts an answer into words. `number` is different for every turn.
    pub(super) fn render(self, asked: &Seen, number: u64, answer: &Answer) -> Reply {
        let piece = match answer {
            Answer::Text(text) => Piece::Text(text),
            Answer::ToolCall { name, input } => Piece::ToolCall { name, input },
            Answer::Failure(status) => return Reply::failure(*status),
        };
        match self {
            Self::Anthropic => anthropic::render(&asked.body, number, piece),
            Self::Responses => responses::render(number, piece),
            Self::Chat => chat::render(&asked.body, number, piece),
            Self::Gemini => gemini::render(asked.bare_path(), piece),
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
