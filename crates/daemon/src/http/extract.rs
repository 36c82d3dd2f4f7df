//! Bodies: read within bounds, taken only as JSON, and answered so that they can be cached.

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

use super::problem::Refused;

/// The most bytes of a body.
pub(crate) const BODY: usize = 1 << 20;

/// The most bytes of a body that is refused for its size and still read.
const LINGER: usize = 16 << 20;

/// How long a caller may take for a body.
const PATIENCE: Duration = Duration::from_secs(20);

/// A body as JSON, in and out.
pub(crate) struct Json<T>(pub(crate) T);

/// A body as JSON, or nothing at all, which stands for the default.
pub(crate) struct Optional<T>(pub(crate) T);

/// What the caller calls this request, if it does.
pub(crate) struct IdempotencyKey(pub(crate) Option<model::IdempotencyKey>);

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let Some(given) = parts.headers.get("idempotency-key") else { return Ok(Self(None)) };
        let key = given.to_str().unwrap_or_default().parse();
        key.map(|key| Self(Some(key))).map_err(|error: model::idempotency::InvalidKey| {
            Refused::new(StatusCode::UNPROCESSABLE_ENTITY, "usage", error.to_string())
        })
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refused> {
        let is_json = is_json(request.headers());
        let bytes = read(request).await?;
        if !is_json {
            return Err(not_json());
        }
        parse(&bytes).map(|Object(body)| Self(body))
    }
}

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for Optional<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refused> {
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

/// A value as JSON.
pub(crate) fn bytes(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("our answers have string keys only").into()
}

/// Whether a body says that it is JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()) else {
        return false;
    };
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

fn not_json() -> Refused {
    Refused::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "not_json",
        "the body does not say that it is JSON",
    )
    .hint("send it with `content-type: application/json`")
}

async fn read(request: Request) -> Result<Bytes, Refused> {
    let too_large = || {
        let detail = format!("the body has more than {BODY} bytes");
        Refused::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    };
    let told = request.headers().get(header::CONTENT_LENGTH).and_then(|n| n.to_str().ok());
    let told = told.and_then(|n| n.parse::<u64>().ok()).unwrap_or_default();
    let asks_first = request.headers().contains_key(header::EXPECT);
    if told > LINGER as u64 || (told > BODY as u64 && asks_first) {
        return Err(too_large());
    }
    match tokio::time::timeout(PATIENCE, gather(request.into_body())).await {
        Ok(gathered) => gathered.ok_or_else(too_large),
        Err(_) => {
            Err(Refused::new(StatusCode::REQUEST_TIMEOUT, "too_slow", "the body took too long"))
        }
    }
}

/// The bytes of a body; none of one that is too large or breaks off. What is too large is read to
/// its end and forgotten: a caller that is still sending would not see why it is refused.
async fn gather(body: Body) -> Option<Bytes> {
    let mut pieces = body.into_data_stream();
    let (mut gathered, mut length) = (Vec::new(), 0);
    while let Some(piece) = pieces.next().await {
        let piece = piece.ok()?;
        length += piece.len();
        if length > LINGER {
            return None;
        }
        if length <= BODY {
            gathered.extend_from_slice(&piece);
        } else {
            gathered = Vec::new();
        }
    }
    (length <= BODY).then(|| gathered.into())
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(bytes).map_err(|error| {
        let (status, code) = match error.classify() {
            Category::Data => (StatusCode::UNPROCESSABLE_ENTITY, "usage"),
            Category::Io | Category::Syntax | Category::Eof => {
                (StatusCode::BAD_REQUEST, "bad_request")
            }
        };
        Refused::new(status, code, format!("the body cannot be read: {error}"))
            .hint("/v1/openapi.json says what it takes")
    })
}

/// An answer with a tag for what is in it, or only that it is still the same as before.
pub(crate) fn tagged(asked: &HeaderMap, body: Bytes) -> Response {
    let digest = blake3::hash(&body).to_hex();
    let tag = format!("\"{}\"", &digest[..32]);
    let value = HeaderValue::from_str(&tag).expect("hex digits and quotes");
    let known = asked.get(header::IF_NONE_MATCH).and_then(|known| known.to_str().ok());
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

/// The answer to a call that makes something: that it was made, or that an earlier call had.
pub(crate) fn created(body: &impl Serialize, repeated: bool) -> Response {
    let json = [(header::CONTENT_TYPE, JSON)];
    if repeated {
        let replayed = [(REPLAYED, HeaderValue::from_static("true"))];
        return (replayed, json, bytes(body)).into_response();
    }
    (StatusCode::CREATED, json, bytes(body)).into_response()
}

/// Says that an answer is that to an earlier call.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

const REVALIDATE: HeaderValue = HeaderValue::from_static("private, no-cache");
