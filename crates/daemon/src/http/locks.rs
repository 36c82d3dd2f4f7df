//! Locks over HTTP.

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use model::LockId;
use model::lock::Token;
use protocol::control::{Request, Response};
use protocol::http::{LockBody, LockQuery, LocksBody, LocksQuery};
use protocol::locks::{Acquire, LockRequest, Locks};
use protocol::{ErrorBody, ErrorCode};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::extract::Json;
use super::problem::Refused;

/// How long a caller may wait for a lock.
const WAIT_MS_MAX: u64 = 60_000;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list, acquire))
        .routes(routes!(renew))
        .routes(routes!(release))
}

async fn ask(api: &Api, request: LockRequest) -> Result<Locks, Refused> {
    let Response::Locks(locks) = api.perform(Request::Lock(request)).await? else {
        return Err(Refused::unexpected());
    };
    Ok(locks)
}

/// Every lock, oldest first
#[utoipa::path(get, path = "/v1/locks", tag = "locks", params(LocksQuery),
    responses((status = 200, description = "The locks", body = LocksBody)))]
async fn list(
    State(api): State<Api>,
    Query(query): Query<LocksQuery>,
) -> Result<Json<Locks>, Refused> {
    let LocksQuery { pane, path } = query;
    ask(&api, LockRequest::List { pane, path }).await.map(Json)
}

/// Lock paths for a pane, all of them or none
///
/// A pane that has one of them already gets that one again, renewed: the call may be repeated.
#[utoipa::path(post, path = "/v1/locks", tag = "locks", request_body = LockBody,
    params(("idempotency-key" = Option<String>, Header,
        description = "May be sent; a repeated call changes nothing in any case")),
    responses((status = 201, description = "Granted", body = LocksBody)))]
async fn acquire(
    State(api): State<Api>,
    Json(body): Json<LockBody>,
) -> Result<(StatusCode, Json<Locks>), Refused> {
    let wait_ms = body.wait_ms.unwrap_or(0);
    if wait_ms > WAIT_MS_MAX {
        return Err(ErrorBody::new(ErrorCode::Usage, "waitMs is at most 60000").into());
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
    let locks = ask(&api, LockRequest::Acquire(acquire)).await?;
    Ok((StatusCode::CREATED, Json(locks)))
}

/// Lengthen a lease by what it was given at first
#[utoipa::path(post, path = "/v1/locks/{id}/renew", tag = "locks",
    params(("id" = String, Path, description = "The lock"), LockQuery),
    responses((status = 200, description = "Renewed", body = LocksBody)))]
async fn renew(
    State(api): State<Api>,
    Path(id): Path<String>,
    Query(query): Query<LockQuery>,
) -> Result<Json<Locks>, Refused> {
    let (id, token) = named(&id, query)?;
    ask(&api, LockRequest::Renew { id, token }).await.map(Json)
}

/// Give a lock back
#[utoipa::path(delete, path = "/v1/locks/{id}", tag = "locks",
    params(("id" = String, Path, description = "The lock"), LockQuery),
    responses((status = 200, description = "Given back", body = LocksBody)))]
async fn release(
    State(api): State<Api>,
    Path(id): Path<String>,
    Query(query): Query<LockQuery>,
) -> Result<Json<Locks>, Refused> {
    let (id, token) = named(&id, query)?;
    ask(&api, LockRequest::Release { id, token }).await.map(Json)
}

fn named(id: &str, query: LockQuery) -> Result<(LockId, Option<Token>), Refused> {
    let missing = |_| Refused::new(StatusCode::NOT_FOUND, "not_found", "there is no such lock");
    Ok((id.parse().map_err(missing)?, query.token.map(Token)))
}
