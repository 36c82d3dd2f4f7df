//! Requests that can be sent again: the second answers with what the first one made (B7).
//!
//! The key of a request is entered in the transaction that enters what it makes, so there is never
//! one without the other. While the first is at work, whoever repeats it waits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use host::store::{KeyRow, Made, StoreError};
use model::{IdempotencyKey, LaunchRequest};
use protocol::control::PaneAnswer;
use protocol::run::RunRequest;
use protocol::{ErrorBody, ErrorCode};
use serde::Serialize;
use serde_json::json;
use tokio::sync::OwnedMutexGuard;

use crate::command::Failure;
use crate::supervisor::Supervisor;

/// Who is at work on what: one at a time for each name.
#[derive(Default)]
pub(crate) struct Turns(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

impl Turns {
    /// Waits until nobody else is at work on `what`.
    pub(crate) async fn take(&self, what: String) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Whoever works or waits holds a share.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(what).or_default())
        };
        turn.lock_owned().await
    }
}

impl Supervisor {
    /// Starts a pane, or answers with the one that the same request has started before.
    pub(crate) async fn launch_once(
        self: &Arc<Self>,
        request: LaunchRequest,
    ) -> Result<PaneAnswer, ErrorBody> {
        let Some(key) = request.key.clone() else { return self.launch(request).await };
        let _turn = self.turns.take(turn_of(&key)).await;
        match self.made_by(&key, launch_digest(&request)).await? {
            Some(Made::Pane(id)) => {
                Ok(PaneAnswer { repeated: true, ..self.pane_answer(id).await? })
            }
            Some(made @ Made::Session(_)) => Err(used(&key, made)),
            None => self.launch(request).await,
        }
    }

    /// What the request with this key and digest has made before, if it was carried out.
    ///
    /// # Errors
    ///
    /// That the key was used for another request.
    pub(crate) async fn made_by(
        &self,
        key: &IdempotencyKey,
        digest: String,
    ) -> Result<Option<Made>, ErrorBody> {
        let asked = key.clone();
        let found = self.registry.read(move |change| change.made_by(&asked)).await;
        let found: Option<KeyRow> =
            found.map_err(|error: StoreError| Failure::from(error).into_body())?;
        match found {
            None => Ok(None),
            Some(row) if row.digest == digest => Ok(Some(row.made)),
            Some(row) => Err(used(key, row.made)),
        }
    }
}

/// Under which name the work on a key is done one at a time.
pub(crate) fn turn_of(key: &IdempotencyKey) -> String {
    format!("key {key}")
}

fn used(key: &IdempotencyKey, made: Made) -> ErrorBody {
    let (kind, id) = match made {
        Made::Session(id) => ("session", id.to_string()),
        Made::Pane(id) => ("pane", id.to_string()),
    };
    let message =
        format!("the key {:?} was used for another request, which made {kind} {id}", key.as_str());
    ErrorBody::new(ErrorCode::Conflict, message)
        .hint("a repetition says exactly the same; something new needs a key of its own")
        .details(&json!({ "idempotency_key": key, "made": { "kind": kind, "id": id } }))
}

/// What a request to start a pane says. Where it was typed makes no difference.
pub(crate) fn launch_digest(request: &LaunchRequest) -> String {
    let said = LaunchRequest {
        key: None,
        size: None,
        client_env: std::collections::BTreeMap::new(),
        ..request.clone()
    };
    digest(&said)
}

/// What a request to make a session says. Where it was typed makes no difference.
pub(crate) fn run_digest(request: &RunRequest) -> String {
    let client_env = std::collections::BTreeMap::new();
    digest(&RunRequest { key: None, source: None, client_env, ..request.clone() })
}

fn digest(said: &impl Serialize) -> String {
    let text = serde_json::to_vec(said).expect("requests have string keys only");
    host::digest::of(&text)
}
