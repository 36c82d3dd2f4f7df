//! Answers in OpenAI's chat completions API.

use serde_json::{Value, json};

use super::Piece;
use crate::stub::reply::Reply;

pub(super) fn render(asked: &Value, number: u64, piece: Piece<'_>) -> Reply {
    let (message, reason) = match piece {
        Piece::ToolCall { name, input } => {
            let function = json!({"name": name, "arguments": input.to_string()});
            let id = format!("call_stub{number}");
            let call = json!({"index": 0, "id": id, "type": "function", "function": function});
            (json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls")
        }
        Piece::Text(text) => (json!({"role": "assistant", "content": text}), "stop"),
    };
    let envelope = |kind: &str, choices: Value| {
        json!({
            "id": format!("chatcmpl-stub{number}"),
            "object": kind,
            "created": 1,
            "model": asked["model"],
            "choices": choices,
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        })
    };
    if asked["stream"] == true {
        let chunk = |delta: Value, reason: Value| {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
            envelope("chat.completion.chunk", json!([choice]))
        };
        Reply::stream(&[chunk(message, Value::Null), chunk(json!({}), json!(reason))])
            .ended_by("[DONE]")
    } else {
        let choice = json!({"index": 0, "message": message, "finish_reason": reason});
        Reply::json(200, &envelope("chat.completion", json!([choice])))
    }
}
