//! Idempotent requests: a repeated request returns what the first one created (B7).
//!
//! The idempotency key is inserted in the same transaction as the created session or pane. A
//! repeated request waits until the first one has finished.

use std::collections::HashMap;
use std::sync::Arc;

use host::store::{Created, StoreError};
use model::{IdempotencyKey, LaunchRequest};
use parking_lot::Mutex;
use protocol::run::RunRequest;
use serde::Serialize;
use tokio::sync::OwnedMutexGuard;

use super::Services;
use crate::fault::{Advice, Description, Details, Fault, FaultKind, any_of};

any_of! {
    /// Why the result of an earlier request was not returned.
    pub(crate) enum RepeatError {
        Store(StoreError),
        Key(KeyReused),
    }
}

/// An idempotency key that was used for another request.
#[derive(Debug, thiserror::Error)]
#[error("idempotency key {:?} was used for another request, which created {}", key.as_str(), created_text(created))]
pub(crate) struct KeyReused {
    pub(super) key: IdempotencyKey,
    pub(super) created: Created,
}

impl Fault for KeyReused {
    fn describe(&self) -> Description {
        FaultKind::KeyReused
            .advise(Advice::text("repeat the request unchanged, or use a new key"))
            .with_details(Details::KeyReused { key: self.key.clone(), created: self.created })
    }
}

fn created_text(created: &Created) -> String {
    match created {
        Created::Session(id) => format!("session {id}"),
        Created::Pane(id) => format!("pane {id}"),
    }
}

/// Named locks that serialise requests.
#[derive(Default)]
pub(crate) struct RequestLocks(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

impl RequestLocks {
    /// Acquires the lock `name`.
    pub(crate) async fn lock(&self, name: String) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock();
            // Every holder and every waiter has a reference; locks without any are unused.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(name).or_default())
        };
        lock.lock_owned().await
    }
}

/// Returns what an earlier request with this key and digest created, if there was one.
///
/// # Errors
///
/// [`KeyReused`] if the key was used for a request with another digest.
pub(crate) async fn find_created(
    services: &Services,
    key: &IdempotencyKey,
    digest: String,
) -> Result<Option<Created>, RepeatError> {
    let sought = key.clone();
    let found = services.registry.read(move |change| change.made_by(&sought)).await;
    match found? {
        None => Ok(None),
        Some(row) if row.digest == digest => Ok(Some(row.made)),
        Some(row) => Err(KeyReused { key: key.clone(), created: row.made }.into()),
    }
}

/// Returns the name of the lock that serialises requests with this key.
pub(crate) fn lock_name(key: &IdempotencyKey) -> String {
    format!("key {key}")
}

/// Returns the digest of a request to start a pane, without the key and the fields that depend on
/// the client's terminal.
pub(crate) fn launch_digest(request: &LaunchRequest) -> String {
    let content = LaunchRequest {
        key: None,
        size: None,
        client_env: std::collections::BTreeMap::new(),
        ..request.clone()
    };
    digest(&content)
}

/// Returns the digest of a request to create a session, without the key and the fields that
/// depend on the client's terminal.
pub(crate) fn run_digest(request: &RunRequest) -> String {
    let client_env = std::collections::BTreeMap::new();
    digest(&RunRequest { key: None, source: None, client_env, ..request.clone() })
}

fn digest(content: &impl Serialize) -> String {
    let text = serde_json::to_vec(content).expect("requests have string keys only");
    host::digest::of(&text)
}
