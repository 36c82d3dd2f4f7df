//! Messages between panes over HTTP.

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::post;
use protocol::message::{
    MessageBody, MessageRequest, Messages, MessagesBody, MessagesQuery, SendMessage,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::extract::{IdempotencyKey, Json};
use super::problem::ApiError;
use crate::operations;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list, send))
        .routes(routes!(show))
        // Compatibility with earlier releases.
        .route("/v1/message", post(send))
}

async fn perform(api: &Api, request: MessageRequest) -> Result<Messages, ApiError> {
    api.perform(
        |services, caller| async move { operations::message(&services, &caller, request).await },
    )
    .await
}

/// Send a message to panes
///
/// Creates one message per receiver and delivers it when the receiver accepts input. The messages
/// are stored durably before the response is sent.
#[utoipa::path(post, path = "/v1/messages", tag = "messages", request_body = MessageBody,
    params(("idempotency-key" = Option<String>, Header,
        description = "Unique key of this request; a retry with the same key in the same session sends nothing")),
    responses((status = 201, description = "The messages were queued", body = MessagesBody)))]
async fn send(
    State(api): State<Api>,
    IdempotencyKey(key): IdempotencyKey,
    Json(body): Json<MessageBody>,
) -> Result<(StatusCode, Json<Messages>), ApiError> {
    let MessageBody { to, text, session, from, raw } = body;
    let send = SendMessage { to, session, from, text, raw, key };
    let messages = perform(&api, MessageRequest::Send(send)).await?;
    Ok((StatusCode::CREATED, Json(messages)))
}

/// List messages with their delivery state, oldest first
#[utoipa::path(get, path = "/v1/messages", tag = "messages", params(MessagesQuery),
    responses((status = 200, description = "The messages", body = MessagesBody)))]
async fn list(
    State(api): State<Api>,
    Query(query): Query<MessagesQuery>,
) -> Result<Json<Messages>, ApiError> {
    let MessagesQuery { session, pane, state } = query;
    perform(&api, MessageRequest::List { session, pane, state }).await.map(Json)
}

/// Show a message with its delivery state
#[utoipa::path(get, path = "/v1/messages/{id}", tag = "messages",
    params(("id" = String, Path, description = "Message ID, or unique prefix of one")),
    responses((status = 200, description = "The message", body = MessagesBody)))]
async fn show(State(api): State<Api>, Path(id): Path<String>) -> Result<Json<Messages>, ApiError> {
    perform(&api, MessageRequest::Show { id }).await.map(Json)
}
