//! HTTP responses of the stub.

use serde_json::{Value, json};

/// A complete response: agents accept a stream in one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    pub(super) body: String,
}

impl Reply {
    pub(super) fn json(status: u16, body: &Value) -> Self {
        Self { status, content_type: "application/json", body: body.to_string() }
    }

    /// Server-sent events without names.
    pub(super) fn stream(events: &[Value]) -> Self {
        Self::events(events.iter().map(|data| format!("data: {data}\n\n")).collect())
    }

    /// Server-sent events named after their `type` field.
    pub(super) fn typed_stream(events: &[Value]) -> Self {
        let named = |data: &Value| {
            let name = data["type"].as_str().expect("such an event has a type");
            format!("event: {name}\ndata: {data}\n\n")
        };
        Self::events(events.iter().map(named).collect())
    }

    /// Appends an event of plain text.
    pub(super) fn ended_by(mut self, text: &str) -> Self {
        self.body.push_str("data: ");
        self.body.push_str(text);
        self.body.push_str("\n\n");
        self
    }

    pub(super) fn empty() -> Self {
        Self { status: 200, content_type: "application/json", body: String::new() }
    }

    pub(super) fn failure(status: u16) -> Self {
        let error = json!({"type": "stub_failure", "message": "the stub was told to fail"});
        Self::json(status, &json!({"type": "error", "error": error}))
    }

    pub(super) fn not_found() -> Self {
        Self::json(404, &json!({"error": {"message": "not found"}}))
    }

    fn events(body: String) -> Self {
        Self { status: 200, content_type: "text/event-stream", body }
    }
}
