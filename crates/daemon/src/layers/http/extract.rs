//! Request and response bodies: JSON, size and time limits, entity tags.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use model::object::Object;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use super::problem::ApiError;

/// The maximum size of a body in bytes.
const MAX_BODY: usize = 1 << 20;

/// The maximum number of bytes read from a body that exceeds [`MAX_BODY`].
const MAX_DRAINED: usize = 16 << 20;

/// The timeout for reading a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);

/// A JSON body of a request or response.
pub(crate) struct Json<T>(pub(crate) T);

/// An optional JSON request body; an absent body means the default value.
pub(crate) struct Optional<T>(pub(crate) T);

/// The `idempotency-key` header.
pub(crate) struct IdempotencyKey(pub(crate) Option<model::IdempotencyKey>);

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let Some(value) = parts.headers.get("idempotency-key") else { return Ok(Self(None)) };
        let key = value.to_str().unwrap_or_default().parse();
        key.map(|key| Self(Some(key))).map_err(|error: model::idempotency::InvalidKey| {
            ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "usage", error.to_string())
        })
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let is_json = is_json(request.headers());
        let bytes = read(request).await?;
        if !is_json {
            return Err(not_json());
        }
        parse(&bytes).map(|Object(body)| Self(body))
    }
}

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for Optional<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let is_json = is_json(request.headers());
        let bytes = read(request).await?;
        match (bytes.is_empty(), is_json) {
            (true, _) => Ok(Self(T::default())),
            (false, true) => parse(&bytes)
                .map(|body: Option<Object<T>>| Self(body.map_or_else(T::default, |body| body.0))),
            (false, false) => Err(not_json()),
        }
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, JSON)], bytes(&self.0)).into_response()
    }
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Serializes a value as JSON.
pub(crate) fn bytes(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("responses have string keys only").into()
}

/// Returns whether the content type is JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()) else {
        return false;
    };
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

fn not_json() -> ApiError {
    ApiError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "not_json",
        "the content type of the body is not JSON",
    )
    .hint("send it with `content-type: application/json`")
}

async fn read(request: Request) -> Result<Bytes, ApiError> {
    let too_large = || {
        let detail = format!("the body is larger than {MAX_BODY} bytes");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    };
    let declared = request.headers().get(header::CONTENT_LENGTH).and_then(|n| n.to_str().ok());
    let declared = declared.and_then(|n| n.parse::<u64>().ok()).unwrap_or_default();
    let expects_continue = request.headers().contains_key(header::EXPECT);
    if declared > MAX_DRAINED as u64 || (declared > MAX_BODY as u64 && expects_continue) {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_TIMEOUT, collect(request.into_body())).await {
        Ok(collected) => collected.ok_or_else(too_large),
        Err(_) => Err(ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            "too_slow",
            "timed out reading the body",
        )),
    }
}

/// Reads a body; returns `None` if it is too large or incomplete.
///
/// The rest of an oversized body is read and discarded, because a client that is still sending
/// would not see the response.
async fn collect(body: Body) -> Option<Bytes> {
    let mut chunks = body.into_data_stream();
    let (mut collected, mut length) = (Vec::new(), 0);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.ok()?;
        length += chunk.len();
        if length > MAX_DRAINED {
            return None;
        }
        if length <= MAX_BODY {
            collected.extend_from_slice(&chunk);
        } else {
            collected = Vec::new();
        }
    }
    (length <= MAX_BODY).then(|| collected.into())
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(bytes).map_err(|error| {
        let (status, code) = match error.classify() {
            Category::Data => (StatusCode::UNPROCESSABLE_ENTITY, "usage"),
            Category::Io | Category::Syntax | Category::Eof => {
                (StatusCode::BAD_REQUEST, "bad_request")
            }
        };
        ApiError::new(status, code, format!("invalid body: {error}"))
            .hint("see /v1/openapi.json for the schema")
    })
}

/// Returns a response with an entity tag, or status 304 if the client has this version.
pub(crate) fn tagged(request: &HeaderMap, body: Bytes) -> Response {
    let digest = blake3::hash(&body).to_hex();
    let tag = format!("\"{}\"", &digest[..32]);
    let value = HeaderValue::from_str(&tag).expect("hex digits and quotes");
    let known = request.get(header::IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    let is_known = known.is_some_and(|known| {
        let bare = |one: &str| one.trim().trim_start_matches("W/") == tag;
        known.trim() == "*" || known.split(',').any(bare)
    });
    let headers = [(header::ETAG, value), (header::CACHE_CONTROL, REVALIDATE)];
    if is_known {
        return (StatusCode::NOT_MODIFIED, headers, Body::empty()).into_response();
    }
    (headers, [(header::CONTENT_TYPE, JSON)], body).into_response()
}

/// Returns status 201, or 200 if an earlier request with the same key created the resource.
pub(crate) fn created(body: &impl Serialize, repeated: bool) -> Response {
    let json = [(header::CONTENT_TYPE, JSON)];
    if repeated {
        let replayed = [(REPLAYED, HeaderValue::from_static("true"))];
        return (replayed, json, bytes(body)).into_response();
    }
    (StatusCode::CREATED, json, bytes(body)).into_response()
}

/// Marks a response that repeats the result of an earlier request.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

const REVALIDATE: HeaderValue = HeaderValue::from_static("private, no-cache");
