//! Locks over HTTP.

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use model::LockId;
use model::lock::Token;
use protocol::http::{LockBody, LockQuery, LocksBody, LocksQuery};
use protocol::locks::{Acquire, LockRequest, Locks};
use protocol::{ErrorBody, ErrorCode};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::extract::Json;
use super::problem::ApiError;
use crate::operations;

/// The maximum time to wait for a lock.
const MAX_WAIT_MS: u64 = 60_000;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list, acquire))
        .routes(routes!(renew))
        .routes(routes!(release))
}

async fn perform(api: &Api, request: LockRequest) -> Result<Locks, ApiError> {
    api.perform(
        |services, caller| async move { operations::lock(&services, &caller, request).await },
    )
    .await
}

/// List locks, oldest first
#[utoipa::path(get, path = "/v1/locks", tag = "locks", params(LocksQuery),
    responses((status = 200, description = "The locks", body = LocksBody)))]
async fn list(
    State(api): State<Api>,
    Query(query): Query<LocksQuery>,
) -> Result<Json<Locks>, ApiError> {
    let LocksQuery { pane, path } = query;
    perform(&api, LockRequest::List { pane, path }).await.map(Json)
}

/// Lock paths for a pane, all or none
///
/// A lock that the pane already holds is renewed, so the request is idempotent.
#[utoipa::path(post, path = "/v1/locks", tag = "locks", request_body = LockBody,
    params(("idempotency-key" = Option<String>, Header,
        description = "Accepted and ignored: the request is idempotent without a key")),
    responses((status = 201, description = "The locks were granted", body = LocksBody)))]
async fn acquire(
    State(api): State<Api>,
    Json(body): Json<LockBody>,
) -> Result<(StatusCode, Json<Locks>), ApiError> {
    let wait_ms = body.wait_ms.unwrap_or(0);
    if wait_ms > MAX_WAIT_MS {
        return Err(ErrorBody::new(ErrorCode::Usage, "waitMs must be at most 60000").into());
    }
    let acquire = Acquire {
        paths: body.paths,
        mode: body.mode,
        tree: body.tree,
        scope: body.scope,
        pane: Some(body.pane),
        process: None,
        ttl_ms: body.ttl_ms,
        wait_ms,
        tag: body.tag,
    };
    let locks = perform(&api, LockRequest::Acquire(acquire)).await?;
    Ok((StatusCode::CREATED, Json(locks)))
}

/// Renew a lock for its original lease time
#[utoipa::path(post, path = "/v1/locks/{id}/renew", tag = "locks",
    params(("id" = String, Path, description = "Lock ID"), LockQuery),
    responses((status = 200, description = "The renewed lock", body = LocksBody)))]
async fn renew(
    State(api): State<Api>,
    Path(id): Path<String>,
    Query(query): Query<LockQuery>,
) -> Result<Json<Locks>, ApiError> {
    let (id, token) = lock_id_and_token(&id, query)?;
    perform(&api, LockRequest::Renew { id, token }).await.map(Json)
}

/// Release a lock
#[utoipa::path(delete, path = "/v1/locks/{id}", tag = "locks",
    params(("id" = String, Path, description = "Lock ID"), LockQuery),
    responses((status = 200, description = "The released lock", body = LocksBody)))]
async fn release(
    State(api): State<Api>,
    Path(id): Path<String>,
    Query(query): Query<LockQuery>,
) -> Result<Json<Locks>, ApiError> {
    let (id, token) = lock_id_and_token(&id, query)?;
    perform(&api, LockRequest::Release { id, token }).await.map(Json)
}

fn lock_id_and_token(id: &str, query: LockQuery) -> Result<(LockId, Option<Token>), ApiError> {
    let missing = |_| ApiError::new(StatusCode::NOT_FOUND, "not_found", "no such lock");
    Ok((id.parse().map_err(missing)?, query.token.map(Token)))
}
