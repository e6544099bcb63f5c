//! Reading JSON bodies, whatever their content type. A body is limited in length, in time and by its sender's share of
//! memory; an empty one means `{}`, and an error names the field.

use crate::auth::Scoped;
use crate::pace::{Pace, drain};
use crate::parsed_size::{self, TooMuch, end_of_string};
use crate::refusal::Refusal;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::header;
use axum::http::request::Parts;
use hyper::body::Body as _;
use serde::de::DeserializeOwned;
use shellkeep_runtime::{Engine, Lent, OpError, Share, UNCOUNTED_BODY};

/// Longest body of a run: `command` and `stdin` of 16 MiB each, with room for JSON escapes.
pub const RUN_LIMIT: usize = 64 << 20;
/// Longest body of every other route; more than enough for some settings.
pub const SMALL_LIMIT: usize = 1 << 20;
/// Longest body of events: 8 MiB of their data, with room for JSON around it.
pub const EVENTS_LIMIT: usize = 12 << 20;
/// Longest body of a message: 1 MiB, with room for JSON escapes.
pub const MESSAGE_LIMIT: usize = 4 << 20;

/// What editors and shells of Windows put before a text in UTF-8. In JSON it is not allowed.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// A whole number with fewer digits fits into an integer of 64 bits.
const SAFE_DIGITS: usize = 19;
/// Bytes of a rejected number that its error shows.
const NUMBER_SHOWN: usize = 40;

/// A JSON body of at most `LIMIT` bytes.
pub struct Json<T, const LIMIT: usize>(pub T);

impl<S, T, const LIMIT: usize> FromRequest<S> for Json<T, LIMIT>
where
    S: Send + Sync,
    T: DeserializeOwned,
{
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        Counted::<T, LIMIT>::from_request(request, state).await.map(|Counted { value, .. }| Self(value))
    }
}

/// A JSON body whose values take memory until they are stored, which may be after its caller is gone. A large one counts as
/// its sender's memory while the share is held.
pub struct Counted<T, const LIMIT: usize> {
    pub value: T,
    pub share: Option<Share>,
}

impl<S, T, const LIMIT: usize> FromRequest<S> for Counted<T, LIMIT>
where
    S: Send + Sync,
    T: DeserializeOwned,
{
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        let (parts, body) = request.into_parts();
        let mut whole = read(&parts, body, LIMIT).await?;
        whole.count_parsed(&parts, 1)?;
        Ok(Self { value: parse(&whole.bytes)?, share: whole.share })
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
    share: Option<Share>,
}

impl Whole {
    /// Counts what its values will take as its sender's memory too, or refuses it. To be called before it is parsed, into so
    /// many copies.
    pub(crate) fn count_parsed(&mut self, parts: &Parts, copies: u64) -> Result<(), Refusal> {
        let length = self.bytes.len();
        if length <= UNCOUNTED_BODY {
            return Ok(());
        }
        let values = parsed_size::of(&self.bytes, copies).map_err(|TooMuch| {
            Refusal::too_large(format!(
                "the body has so many values that they would take more than {} MiB of memory; send fewer in one request, or \
                 put the data into a file",
                parsed_size::limit() >> 20
            ))
        })?;
        let mut meter = Meter { engine: engine_of(parts), share: self.share.take() };
        let missing = if meter.share.is_some() { 0 } else { length as u64 };
        meter.take(missing + values)?;
        self.share = meter.share;
        Ok(())
    }
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
    let Some(first) = pace.next(&mut body, 0).await? else { return Ok(Whole { bytes: Bytes::new(), share: None }) };
    if body.is_end_stream() && first.len() <= limit {
        return Ok(Whole { bytes: first, share: None });
    }
    let mut meter = Meter { engine: engine_of(parts), share: None };
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
    Ok(Whole { bytes: whole.into(), share: meter.share })
}

fn engine_of(parts: &Parts) -> Option<&Engine> {
    parts.extensions.get::<Scoped>().map(|Scoped(engine)| engine)
}

/// Counts a body as its sender's memory.
struct Meter<'a> {
    engine: Option<&'a Engine>,
    share: Option<Share>,
}

impl Meter<'_> {
    /// `more` bytes have arrived, `all` in total.
    fn count(&mut self, all: usize, more: usize) -> Result<(), OpError> {
        match (all > UNCOUNTED_BODY, &self.share) {
            (false, _) => Ok(()),
            (true, Some(_)) => self.take(more as u64),
            (true, None) => self.take(all as u64),
        }
    }

    fn take(&mut self, amount: u64) -> Result<(), OpError> {
        match (&mut self.share, self.engine) {
            (Some(share), _) => share.grow(amount)?,
            (None, Some(engine)) => self.share = Some(engine.lend(Lent::BodyBytes, amount)?),
            (None, None) => {}
        }
        Ok(())
    }
}

/// Reads once, with the path: a second reader for each type that explains its errors would cost more to build than this
/// costs to run.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    if bytes.starts_with(BYTE_ORDER_MARK) {
        return Err(Refusal::invalid("the body begins with a byte order mark; send UTF-8 without one"));
    }
    let bytes = if bytes.is_empty() { b"{}" } else { bytes };
    let start = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if start.is_some_and(|byte| *byte != b'{') {
        // serde would accept a list as the fields in order.
        return Err(Refusal::invalid("the body must be a JSON object"));
    }
    if let Some(number) = too_large_number(bytes) {
        let shown = String::from_utf8_lossy(&number[..number.len().min(NUMBER_SHOWN)]);
        return Err(Refusal::invalid(format!(
            "the whole number {shown}{} is not between {} and {}; use one that is, or, where any value is taken, send it \
                as a string",
            if number.len() > NUMBER_SHOWN { "…" } else { "" },
            i64::MIN,
            u64::MAX,
        )));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(unreadable)?;
    reader.end().map_err(|error| not_json(&error))?;
    Ok(value)
}

/// The error with the name of the field it is in.
fn unreadable(error: serde_path_to_error::Error<serde_json::Error>) -> Refusal {
    let (path, error) = (error.path(), error.inner());
    if !error.is_data() {
        return not_json(error);
    }
    let words = in_words(&error.to_string());
    Refusal::invalid(if path.iter().len() > 0 { format!("{path}: {words}") } else { words })
}

fn not_json(error: &serde_json::Error) -> Refusal {
    Refusal::invalid(format!("the body is not valid JSON: {error}"))
}

/// The first whole number in JSON that no integer can hold. Serde would make a floating-point number of it.
fn too_large_number(json: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => at = end_of_string(json, at + 1),
            b'-' | b'0'..=b'9' => {
                let is_part = |byte: &&u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E');
                let number = &json[at..at + json[at..].iter().take_while(is_part).count()];
                let digits = number.strip_prefix(b"-").unwrap_or(number);
                let is_whole = digits.len() >= SAFE_DIGITS && digits.iter().all(u8::is_ascii_digit);
                if is_whole && !fits(number) {
                    return Some(number);
                }
                at += number.len();
            }
            _ => at += 1,
        }
    }
    None
}

fn fits(number: &[u8]) -> bool {
    let text = std::str::from_utf8(number).unwrap_or_default();
    text.parse::<u64>().is_ok() || text.parse::<i64>().is_ok()
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
    use crate::frames;
    use shellkeep_protocol::{CreateSessionRequest, RunRequest};
    use std::task::Poll;
    use std::time::Duration;

    fn refused<T: DeserializeOwned>(body: &str) -> String {
        match parse::<T>(body.as_bytes()) {
            Ok(_) => panic!("{body} was taken"),
            Err(refusal) => refusal.problem().detail.clone(),
        }
    }

    /// The answer was that the body must be a JSON object, which it is.
    #[test]
    fn a_byte_order_mark_is_named() {
        assert!(refused::<RunRequest>("\u{feff}{\"command\": \"true\"}").contains("byte order mark"));
    }

    /// They were rounded without a word: 18446744073709551616 came back as 1.8446744073709552e19.
    #[test]
    fn a_whole_number_that_would_be_rounded_is_refused() {
        for wrong in ["18446744073709551616", "-9223372036854775809", &"9".repeat(400)] {
            let told = refused::<CreateSessionRequest>(&format!(r#"{{"config": {{"a": [1, {wrong}]}}}}"#));
            assert!(told.contains(&wrong[..19]) && told.contains("as a string") && told.len() < 200, "{told}");
        }
        let taken = r#"{"config": {"a": [18446744073709551615, -9223372036854775808, 1e30, 12345678901234567890.5],
            "18446744073709551616": "\" 18446744073709551616 \\"}}"#;
        assert!(parse::<CreateSessionRequest>(taken.as_bytes()).is_ok());
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

    /// A body of 12 MB took half a gigabyte: each zero of a list became a value of 32 bytes.
    #[tokio::test]
    async fn a_body_with_too_many_values_is_refused_before_it_is_parsed() {
        let zeros = format!("{{\"a\": [0{}]}}", ",0".repeat(2_000_000));
        let mut whole = read(&parts(None), Body::from(zeros), EVENTS_LIMIT).await.unwrap();
        let refused = whole.count_parsed(&parts(None), 1).unwrap_err();
        assert_eq!((refused.problem().status, refused.problem().code.as_str()), (413, "payload_too_large"));
        let events =
            format!("{{\"events\": [{{}}{}]}}", ",{\"event_type\": \"x_a\", \"data\": {\"n\": 1}}".repeat(10_000));
        let mut whole = read(&parts(None), Body::from(events), EVENTS_LIMIT).await.unwrap();
        assert!(whole.count_parsed(&parts(None), 1).is_ok());
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_is_given_up() {
        let pace = Pace::with_stall(Duration::from_millis(1));
        let never = frames::body(|_| Poll::Pending);
        let refused = read_at(pace, &parts(Some(5)), never, 10).await.err().unwrap();
        assert_eq!((refused.problem().status, refused.problem().code.as_str()), (408, "body_timeout"));
    }
}
