//! Answers in Anthropic's messages API.

use serde_json::{Value, json};

use super::Piece;
use crate::stub::reply::Reply;

pub(super) fn render(asked: &Value, number: u64, piece: Piece<'_>) -> Reply {
    let (block, stop_reason) = match piece {
        Piece::ToolCall { name, input } => {
            let id = format!("toolu_stub{number}");
            (json!({"type": "tool_use", "id": id, "name": name, "input": input}), "tool_use")
        }
        Piece::Text(text) => (json!({"type": "text", "text": text}), "end_turn"),
    };
    let message = json!({
        "id": format!("msg_stub{number}"),
        "type": "message",
        "role": "assistant",
        "model": asked["model"],
        "content": [block],
        "stop_reason": stop_reason,
        "stop_sequence": null,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    });
    if asked["stream"] == true {
        Reply::typed_stream(&streamed(message, block, stop_reason))
    } else {
        Reply::json(200, &message)
    }
}

fn streamed(mut message: Value, mut block: Value, stop_reason: &str) -> [Value; 6] {
    // A stream starts with empty fields.
    message["content"] = json!([]);
    message["stop_reason"] = Value::Null;
    let delta = if block["type"] == "tool_use" {
        let input = std::mem::replace(&mut block["input"], json!({}));
        json!({"type": "input_json_delta", "partial_json": input.to_string()})
    } else {
        let text = std::mem::replace(&mut block["text"], json!(""));
        json!({"type": "text_delta", "text": text})
    };
    let stop = json!({"stop_reason": stop_reason, "stop_sequence": null});
    [
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}}),
        json!({"type": "message_stop"}),
    ]
}
