//! Reading JSON bodies, whatever their content type. A body is limited in length, in time and by its sender's share of
//! memory; an empty one means `{}`, and an error names the field.

use crate::auth::Scoped;
use crate::pace::{Pace, drain};
use crate::refusal::Refusal;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::header;
use axum::http::request::Parts;
use hyper::body::Body as _;
use serde::de::DeserializeOwned;
use shellkeep_runtime::{Engine, Lent, OpError, Share};

/// Longest body of a run: `command` and `stdin` of 16 MiB each, with room for JSON escapes.
pub const RUN_LIMIT: usize = 64 << 20;
/// Longest body of every other route; more than enough for some settings.
pub const SMALL_LIMIT: usize = 1 << 20;
/// Longest body of events: 8 MiB of their data, with room for JSON around it.
pub const EVENTS_LIMIT: usize = 12 << 20;
/// Longest body of a message: 1 MiB, with room for JSON escapes.
pub const MESSAGE_LIMIT: usize = 4 << 20;
/// A body up to this length is not counted as its sender's memory: nearly all are shorter, and arrive together with
/// their head.
pub(crate) const UNCOUNTED: usize = 64 << 10;

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
        let whole = read(&parts, body, LIMIT).await?;
        parse(&whole.bytes).map(Self)
    }
}

/// A raw body of at most `LIMIT` bytes.
pub struct Raw<const LIMIT: usize>(pub Bytes);

impl<S: Send + Sync, const LIMIT: usize> FromRequest<S> for Raw<LIMIT> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        let (parts, body) = request.into_parts();
        read(&parts, body, LIMIT).await.map(|whole| Self(whole.bytes))
    }
}

/// A body without fields: empty, or `{}`.
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

/// A body that was read. A large one counts as its sender's memory while this is held.
pub(crate) struct Whole {
    pub(crate) bytes: Bytes,
    _share: Option<Share>,
}

/// Reads a body of at most `limit` bytes.
pub(crate) async fn read(parts: &Parts, body: Body, limit: usize) -> Result<Whole, Refusal> {
    read_at(Pace::begin(), parts, body, limit).await
}

async fn read_at(pace: Pace, parts: &Parts, mut body: Body, limit: usize) -> Result<Whole, Refusal> {
    let headers = &parts.headers;
    let too_large = || Refusal::too_large(format!("the body is longer than {limit} bytes, the limit of this route"));
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|length| length > limit) {
        // A caller that asked first (`Expect: 100-continue`) has sent nothing yet.
        if !headers.contains_key(header::EXPECT) {
            drain(body).await;
        }
        return Err(too_large());
    }
    let Some(first) = pace.next(&mut body, 0).await? else { return Ok(Whole { bytes: Bytes::new(), _share: None }) };
    if body.is_end_stream() && first.len() <= limit {
        return Ok(Whole { bytes: first, _share: None });
    }
    let mut meter = Meter { engine: parts.extensions.get::<Scoped>().map(|Scoped(engine)| engine), share: None };
    let mut whole = Vec::with_capacity(declared.unwrap_or(first.len()));
    let mut piece = Some(first);
    while let Some(bytes) = piece {
        if whole.len() + bytes.len() > limit {
            drain(body).await;
            return Err(too_large());
        }
        if let Err(full) = meter.count(whole.len() + bytes.len(), bytes.len()) {
            drop(whole);
            drain(body).await;
            return Err(full.into());
        }
        whole.extend_from_slice(&bytes);
        piece = pace.next(&mut body, whole.len()).await?;
    }
    Ok(Whole { bytes: whole.into(), _share: meter.share })
}

/// Counts a body as its sender's memory.
struct Meter<'a> {
    engine: Option<&'a Engine>,
    share: Option<Share>,
}

impl Meter<'_> {
    /// `more` bytes have arrived, `all` in total.
    fn count(&mut self, all: usize, more: usize) -> Result<(), OpError> {
        let Some(engine) = self.engine.filter(|_| all > UNCOUNTED) else { return Ok(()) };
        match &mut self.share {
            Some(share) => Ok(share.grow(more as u64)?),
            None => {
                self.share = Some(engine.lend(Lent::BodyBytes, all as u64)?);
                Ok(())
            }
        }
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    let bytes = if bytes.is_empty() { b"{}" } else { bytes };
    let start = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if start.is_some_and(|byte| *byte != b'{') {
        // serde would accept a list as the fields in order.
        return Err(Refusal::invalid("the body must be a JSON object"));
    }
    serde_json::from_slice(bytes).map_err(|error| Refusal::invalid(explain::<T>(bytes, &error)))
}

/// The error with the name of the field it is in. Costs a second parse, only for rejected requests.
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

/// Names of our types in JSON terms; callers need not know Rust.
pub fn in_words(message: &str) -> String {
    message
        .replace("expected f64", "expected a number")
        .replace("expected usize", "expected a whole number that is not negative")
        .replace("expected u64", "expected a whole number that is not negative")
        .replace("unknown variant", "unknown value")
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_protocol::{CreateSessionRequest, RunRequest};
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use std::time::Duration;

    fn refused<T: DeserializeOwned>(body: &str) -> String {
        match parse::<T>(body.as_bytes()) {
            Ok(_) => panic!("{body} was taken"),
            Err(refusal) => refusal.problem().detail.clone(),
        }
    }

    #[test]
    fn what_was_expected_is_told_in_words() {
        let told = in_words("invalid value: integer `-1`, expected usize");
        assert_eq!(told, "invalid value: integer `-1`, expected a whole number that is not negative");
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
        assert!(parse::<CreateSessionRequest>(b" \n").is_err());
    }

    fn parts(length: Option<usize>) -> Parts {
        let request = Request::builder();
        let request =
            length.into_iter().fold(request, |request, length| request.header(header::CONTENT_LENGTH, length));
        request.body(()).unwrap().into_parts().0
    }

    async fn refusal(parts: &Parts, body: Body, limit: usize) -> Refusal {
        match read(parts, body, limit).await {
            Ok(_) => panic!("it was read"),
            Err(refusal) => refusal,
        }
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused_with_or_without_a_length() {
        let refused = refusal(&parts(None), Body::from(vec![b' '; 11]), 10).await;
        assert_eq!(refused.problem().code, "payload_too_large");
        let refused = refusal(&parts(Some(11)), Body::from(vec![b' '; 11]), 10).await;
        assert_eq!(refused.problem().status, 413);
    }

    /// A body that never arrives.
    struct Never;

    impl hyper::body::Body for Never {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_is_given_up() {
        let pace = Pace::with_stall(Duration::from_millis(1));
        let refused = read_at(pace, &parts(Some(5)), Body::new(Never), 10).await.err().unwrap();
        assert_eq!((refused.problem().status, refused.problem().code.as_str()), (408, "body_timeout"));
    }
}
