//! Reading JSON bodies, whatever their content type says. A body is bounded, an empty one stands for `{}`, and an error
//! names the field.

use super::problem::Refusal;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// Longest body of a run: `command` and `stdin` of 16 MiB each, with room for JSON escapes.
pub const RUN_LIMIT: usize = 64 << 20;
/// Longest body of every other route; nobody needs more than some settings there.
pub const SMALL_LIMIT: usize = 1 << 20;
/// Longest body of events: 8 MiB of their data, with room for JSON around it.
pub const EVENTS_LIMIT: usize = 12 << 20;
/// Longest body of a message: 1 MiB, with room for JSON escapes.
pub const MESSAGE_LIMIT: usize = 4 << 20;
/// How much of a refused body is read and thrown away, so that the sender gets to read the answer instead of a reset.
const DRAIN_LIMIT: usize = 256 << 20;
/// How long that may take.
const DRAIN_TIME: Duration = Duration::from_secs(10);

/// A JSON body of at most `LIMIT` bytes.
pub struct Json<T, const LIMIT: usize>(pub T);

impl<S, T, const LIMIT: usize> FromRequest<S> for Json<T, LIMIT>
where
    S: Send + Sync,
    T: DeserializeOwned,
{
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        let (parts, body) = request.into_parts();
        let bytes = read(&parts.headers, body, LIMIT).await?;
        parse(&bytes).map(Self)
    }
}

/// A body of at most `LIMIT` bytes, as it is.
pub struct Raw<const LIMIT: usize>(pub Bytes);

impl<S: Send + Sync, const LIMIT: usize> FromRequest<S> for Raw<LIMIT> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        let (parts, body) = request.into_parts();
        read(&parts.headers, body, LIMIT).await.map(Self)
    }
}

/// A body that says nothing: empty, or an object without fields.
pub struct Nothing;

impl<S: Send + Sync> FromRequest<S> for Nothing {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        Json::<Empty, SMALL_LIMIT>::from_request(request, state).await.map(|_| Self)
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Empty {}

async fn read(headers: &HeaderMap, mut body: Body, limit: usize) -> Result<Bytes, Refusal> {
    let too_large = || Refusal::too_large(format!("the body is longer than the {limit} bytes this route takes"));
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|length| length > limit) {
        // A caller that asked first (`Expect: 100-continue`) has sent nothing yet and need not.
        if !headers.contains_key(header::EXPECT) {
            drain(body).await;
        }
        return Err(too_large());
    }
    let Some(first) = next(&mut body).await? else { return Ok(Bytes::new()) };
    if body.is_end_stream() && first.len() <= limit {
        return Ok(first);
    }
    let mut whole = Vec::with_capacity(declared.unwrap_or(first.len()));
    let mut piece = Some(first);
    while let Some(bytes) = piece {
        if whole.len() + bytes.len() > limit {
            drain(body).await;
            return Err(too_large());
        }
        whole.extend_from_slice(&bytes);
        piece = next(&mut body).await?;
    }
    Ok(whole.into())
}

async fn next(body: &mut Body) -> Result<Option<Bytes>, Refusal> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Refusal::invalid(format!("the body could not be read: {error}")))?;
        if let Ok(bytes) = frame.into_data() {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

async fn drain(mut body: Body) {
    let reading = async {
        let mut read = 0;
        while read < DRAIN_LIMIT {
            match next(&mut body).await {
                Ok(Some(bytes)) => read += bytes.len(),
                Ok(None) | Err(_) => break,
            }
        }
    };
    // Whether all of it came is of no interest: the answer is the same.
    let _ = tokio::time::timeout(DRAIN_TIME, reading).await;
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    let start = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    let bytes = if start.is_none() { b"{}" } else { bytes };
    if start.is_some_and(|byte| *byte != b'{') {
        // serde would take a list as the fields in order, which nobody means.
        return Err(Refusal::invalid("the body must be a JSON object"));
    }
    serde_json::from_slice(bytes).map_err(|error| Refusal::invalid(explain::<T>(bytes, &error)))
}

/// The error with the name of the field it is in. Costs a second parse, which only refused requests pay.
fn explain<T: DeserializeOwned>(bytes: &[u8], error: &serde_json::Error) -> String {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Err(found) if error.is_data() && found.path().iter().len() > 0 => {
            format!("{}: {}", found.path(), in_words(&found.inner().to_string()))
        }
        _ if error.is_data() => in_words(&error.to_string()),
        _ => format!("the body is not valid JSON: {error}"),
    }
}

/// What our types are called in JSON; callers need not know Rust.
fn in_words(message: &str) -> String {
    message
        .replace("expected f64", "expected a number")
        .replace("expected usize", "expected a whole number")
        .replace("expected u64", "expected a whole number")
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_protocol::{CreateSessionRequest, RunRequest};

    fn refused<T: DeserializeOwned>(body: &str) -> String {
        match parse::<T>(body.as_bytes()) {
            Ok(_) => panic!("{body} was taken"),
            Err(refusal) => refusal.problem().detail.clone(),
        }
    }

    #[test]
    fn errors_name_the_field() {
        assert!(refused::<RunRequest>(r#"{"command": 5}"#).starts_with("command: invalid type"));
        assert!(
            refused::<RunRequest>(r#"{"command": "x", "timeout": "1"}"#)
                .contains("timeout: invalid type: string \"1\", expected a number")
        );
        assert!(refused::<RunRequest>(r#"{"command": "x", "env": {"A": 1}}"#).starts_with("env.A: "));
        assert!(refused::<RunRequest>(r#"{"command": "x", "on_timeout": "wait"}"#).contains("`background`"));
        assert!(refused::<RunRequest>(r#"{"comand": "x"}"#).contains("unknown field `comand`"));
        assert!(refused::<RunRequest>("").contains("missing field `command`"));
        assert!(refused::<RunRequest>(r#"["true"]"#).contains("JSON object"));
        assert!(refused::<RunRequest>(r#"{"command": "true"} x"#).contains("not valid JSON"));
        assert!(refused::<RunRequest>("{\"command\": \"tr").contains("not valid JSON"));
    }

    #[test]
    fn an_empty_body_is_an_empty_object() {
        assert!(parse::<CreateSessionRequest>(b" \n").is_ok());
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused_with_or_without_a_length() {
        let refusal = read(&HeaderMap::new(), Body::from(vec![b' '; 11]), 10).await.unwrap_err();
        assert_eq!(refusal.problem().code, "payload_too_large");
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_LENGTH, 11.into());
        let refusal = read(&headers, Body::from(vec![b' '; 11]), 10).await.unwrap_err();
        assert_eq!(refusal.problem().status, 413);
    }
}
