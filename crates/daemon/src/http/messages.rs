//! Messages between panes over HTTP.

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use protocol::control::{Request, Response};
use protocol::message::{
    MessageBody, MessageRequest, Messages, MessagesBody, MessagesQuery, SendMessage,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::extract::{IdempotencyKey, Json};
use super::problem::Refused;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(send)).routes(routes!(list)).routes(routes!(show))
}

async fn ask(api: &Api, request: MessageRequest) -> Result<Messages, Refused> {
    let Response::Messages(messages) = api.perform(Request::Message(request)).await? else {
        return Err(Refused::unexpected());
    };
    Ok(messages)
}

/// Say something to panes when they can take it
///
/// One message per receiver, on disk when this is answered.
#[utoipa::path(post, path = "/v1/message", tag = "messages", request_body = MessageBody,
    params(("idempotency-key" = Option<String>, Header,
        description = "The same call under the same key in the same session is made once")),
    responses((status = 201, description = "Taken on", body = MessagesBody)))]
async fn send(
    State(api): State<Api>,
    IdempotencyKey(key): IdempotencyKey,
    Json(body): Json<MessageBody>,
) -> Result<(StatusCode, Json<Messages>), Refused> {
    let MessageBody { to, text, session, from, raw } = body;
    let wish = SendMessage { to, session, from, text, raw, key };
    let messages = ask(&api, MessageRequest::Send(wish)).await?;
    Ok((StatusCode::CREATED, Json(messages)))
}

/// Messages and what became of them, oldest first
#[utoipa::path(get, path = "/v1/messages", tag = "messages", params(MessagesQuery),
    responses((status = 200, description = "The messages", body = MessagesBody)))]
async fn list(
    State(api): State<Api>,
    Query(query): Query<MessagesQuery>,
) -> Result<Json<Messages>, Refused> {
    let MessagesQuery { session, pane, state } = query;
    ask(&api, MessageRequest::List { session, pane, state }).await.map(Json)
}

/// One message and what became of it
#[utoipa::path(get, path = "/v1/messages/{id}", tag = "messages",
    params(("id" = String, Path, description = "Its id, or the unique beginning of it")),
    responses((status = 200, description = "The message", body = MessagesBody)))]
async fn show(State(api): State<Api>, Path(id): Path<String>) -> Result<Json<Messages>, Refused> {
    ask(&api, MessageRequest::Show { id }).await.map(Json)
}
