//! Error details as JSON, shared by the control socket and HTTP.

use host::store::Created;
use serde_json::{Value, json};

use crate::fault::Details;

/// Converts error details to JSON.
pub(crate) fn details(details: &Details) -> Value {
    match details {
        Details::Lock(refusal) => json!(refusal),
        Details::UnsavedWork(work) => json!(work),
        Details::NotStarted { why } => json!({ "not_started": why }),
        Details::KeyReused { key, created } => {
            let (kind, id) = match created {
                Created::Session(id) => ("session", id.to_string()),
                Created::Pane(id) => ("pane", id.to_string()),
            };
            json!({ "idempotency_key": key, "made": { "kind": kind, "id": id } })
        }
        Details::TeamPlan(steps) => json!({ "plan": steps }),
        Details::Remote(value) => value.clone(),
    }
}
