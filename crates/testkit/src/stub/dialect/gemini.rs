//! Answers in Google's generated content API.

use serde_json::json;

use super::Piece;
use crate::stub::reply::Reply;

pub(super) fn render(path: &str, piece: Piece<'_>) -> Reply {
    let part = match piece {
        Piece::ToolCall { name, input } => json!({"functionCall": {"name": name, "args": input}}),
        Piece::Text(text) => json!({"text": text}),
    };
    let candidate = json!({
        "index": 0,
        "content": {"role": "model", "parts": [part]},
        "finishReason": "STOP",
    });
    let generated = json!({
        "candidates": [candidate],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
        "modelVersion": "stub",
    });
    if path.ends_with(":streamGenerateContent") {
        Reply::stream(&[generated])
    } else {
        Reply::json(200, &generated)
    }
}
