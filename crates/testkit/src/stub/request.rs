//! A recorded request.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::dialect::Dialect;

/// Headers that name the conversation. Gemini sends none.
const CONVERSATION_HEADERS: [&str; 3] = ["x-claude-code-session-id", "session-id", "x-session-id"];

/// Headers with the API key or token.
const AUTHORIZATION_HEADERS: [&str; 3] = ["authorization", "x-api-key", "x-goog-api-key"];

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedRequest {
    /// `GET`, `POST` and so on.
    pub method: String,
    /// The path, with the query.
    pub path: String,
    /// The headers, their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body; `null` if there was none or it was not JSON.
    pub body: Value,
}

/// The result of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// Its text.
    pub text: String,
    /// Whether it failed or was not run.
    pub is_error: bool,
}

impl RecordedRequest {
    /// Returns the conversation that the agent names.
    #[must_use]
    pub fn conversation(&self) -> Option<&str> {
        CONVERSATION_HEADERS.iter().find_map(|name| self.header(name))
    }

    /// Returns the key or token in the header.
    #[must_use]
    pub fn authorization(&self) -> Option<&str> {
        AUTHORIZATION_HEADERS.iter().find_map(|name| self.header(name))
    }

    /// Returns all user texts of the conversation in the request, oldest first, without the agent's
    /// additions in tags.
    #[must_use]
    pub fn user_texts(&self) -> Vec<&str> {
        self.dialect().map(|dialect| dialect.user_texts(&self.body)).unwrap_or_default()
    }

    /// Returns all tool results of the conversation in the request, oldest first. Claude only.
    #[must_use]
    pub fn tool_results(&self) -> Vec<ToolResult> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let pieces = list(&self.body["messages"]).into_iter().flat_map(|m| list(&m["content"]));
        pieces
            .filter(|piece| piece["type"] == "tool_result")
            .map(|piece| {
                let texts = list(&piece["content"]);
                let texts = texts.iter().filter_map(|part| part["text"].as_str());
                let text = match piece["content"].as_str() {
                    Some(text) => text.to_owned(),
                    None => texts.collect::<Vec<_>>().join("\n"),
                };
                ToolResult { text, is_error: piece["is_error"] == true }
            })
            .collect()
    }

    /// Whether this is a turn of a conversation, not an auxiliary request of the agent. A turn
    /// offers tools; requests for titles and routing do not.
    #[must_use]
    pub fn is_turn(&self) -> bool {
        self.dialect().is_some_and(|dialect| dialect.is_turn(&self.body))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(super) fn dialect(&self) -> Option<Dialect> {
        if self.method == "POST" { Dialect::of(self.bare_path()) } else { None }
    }

    /// Returns the path without the query.
    pub(super) fn bare_path(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }
}

/// Omits the instructions and tools, which fill pages.
impl fmt::Display for RecordedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)?;
        if let Some(conversation) = self.conversation() {
            write!(f, " in {conversation}")?;
        }
        match self.user_texts().as_slice() {
            [] => Ok(()),
            texts => write!(f, " {texts:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn posted(path: &str, headers: &[(&str, &str)], body: Value) -> RecordedRequest {
        let headers =
            headers.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        RecordedRequest { method: "POST".to_owned(), path: path.to_owned(), headers, body }
    }

    #[test]
    fn user_texts_are_found_in_every_dialect() {
        let turns = [
            posted(
                "/v1/messages?beta=true",
                &[],
                json!({"messages": [
                    {"role": "user", "content": "one"},
                    {"role": "assistant", "content": [{"type": "text", "text": "answer"}]},
                    {"role": "user", "content": [
                        {"type": "text", "text": "<system-reminder>noise</system-reminder>"},
                        {"type": "text", "text": "two"}]},
                    {"role": "user", "content": [{"type": "tool_result", "content": "result"}]},
                ]}),
            ),
            posted(
                "/v1/responses",
                &[],
                json!({"input": [
                    {"role": "developer", "content": [{"type": "input_text", "text": "rules"}]},
                    {"role": "user", "content": [
                        {"type": "input_text", "text": "<environment_context>noise"}]},
                    {"role": "user", "content": [{"type": "input_text", "text": "one"}]},
                    {"type": "reasoning"},
                    {"role": "user", "content": [{"type": "input_text", "text": "two"}]},
                ]}),
            ),
            posted(
                "/v1/chat/completions",
                &[],
                json!({"messages": [
                    {"role": "system", "content": "rules"},
                    {"role": "user", "content": "one"},
                    {"role": "user", "content": "two"},
                ]}),
            ),
            posted(
                "/v1beta/models/some-model:streamGenerateContent?alt=sse",
                &[],
                json!({"contents": [
                    {"role": "user", "parts": [{"text": "<session_context>"}, {"text": "one"}]},
                    {"role": "model", "parts": [{"text": "answer"}]},
                    {"role": "user", "parts": [{"text": "two"}]},
                ]}),
            ),
        ];
        for turn in turns {
            assert_eq!(turn.user_texts(), ["one", "two"], "{}", turn.path);
        }
    }

    #[test]
    fn only_requests_with_tools_are_turns() {
        let path = "/v1/messages";
        assert!(posted(path, &[], json!({"tools": [{"name": "Bash"}]})).is_turn());
        assert!(!posted(path, &[], json!({"tools": []})).is_turn());
        assert!(!posted(path, &[], json!({})).is_turn());
        assert!(!posted("/v1/oauth/token", &[], json!({"tools": [1]})).is_turn());
    }

    #[test]
    fn conversation_and_authorization_are_read_from_each_agents_headers() {
        let path = "/v1/messages";
        let claude = [("x-claude-code-session-id", "c"), ("x-api-key", "key")];
        let codex = [("session-id", "x"), ("authorization", "Bearer token")];
        let opencode = [("x-session-id", "ses_1")];
        let table = [
            (&claude[..], Some("c"), Some("key")),
            (&codex[..], Some("x"), Some("Bearer token")),
            (&opencode[..], Some("ses_1"), None),
            (&[("x-goog-api-key", "key")][..], None, Some("key")),
        ];
        for (headers, conversation, authorization) in table {
            let seen = posted(path, headers, Value::Null);
            assert_eq!(seen.conversation(), conversation, "{headers:?}");
            assert_eq!(seen.authorization(), authorization, "{headers:?}");
        }
    }
}
