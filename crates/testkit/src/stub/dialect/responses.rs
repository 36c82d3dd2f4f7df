//! Answers in OpenAI's responses API.

use serde_json::json;

use super::Piece;
use crate::stub::reply::Reply;

/// Always a stream: codex requests nothing else.
pub(super) fn render(number: u64, piece: Piece<'_>) -> Reply {
    let response = format!("resp_stub{number}");
    let item = match piece {
        Piece::ToolCall { name, input } => json!({
            "type": "function_call",
            "id": format!("fc_stub{number}"),
            "call_id": format!("call_stub{number}"),
            "name": name,
            "arguments": input.to_string(),
        }),
        Piece::Text(text) => json!({
            "type": "message",
            "id": format!("msg_stub{number}"),
            "role": "assistant",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }),
    };
    let completed = json!({
        "id": response,
        "output": [item],
        "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
    });
    Reply::typed_stream(&[
        json!({"type": "response.created", "response": {"id": response}}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": completed}),
    ])
}
