//! Requests to `/mcp` that are refused before they reach a tool, as JSON-RPC errors. The SDK answers them in plain
//! text.

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

const JSON: &str = "application/json";
/// Most of the SDK's text that is read. All of its texts are shorter.
const LONGEST: usize = 64 << 10;

/// Codes of JSON-RPC, and those that the MCP SDKs use for a refused request and for an unknown MCP session.
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const INVALID_PARAMS: i32 = -32602;
const INTERNAL_ERROR: i32 = -32603;
const REFUSED: i32 = -32000;
const SESSION_NOT_FOUND: i32 = -32001;

/// The response for an id of an MCP session that does not exist. Also used for another caller's id, so that the two
/// cannot be distinguished.
pub fn unknown_session() -> Response {
    let text = "there is no MCP session with this id; initialize again";
    (StatusCode::NOT_FOUND, message(SESSION_NOT_FOUND, text)).into_response()
}

/// The response to a request that is refused because of its URL or its headers, whatever it asks for.
pub fn refused(id: &Value, text: &str) -> Response {
    let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": INVALID_PARAMS, "message": text}});
    (StatusCode::BAD_REQUEST, [(header::CONTENT_TYPE, JSON)], error.to_string()).into_response()
}

/// Whether a request says that its body is JSON.
pub fn is_json(headers: &HeaderMap) -> bool {
    content_type(headers).is_some_and(|kind| kind.starts_with(JSON))
}

/// The SDK's response, as a JSON-RPC error if it is a plain text. `sent` is the body of a request that says it is JSON.
pub async fn as_message(response: Response, sent: Option<&Bytes>) -> Response {
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    let is_text = content_type(response.headers()).is_none_or(|kind| kind.starts_with("text/plain"));
    if !is_error || !is_text {
        return response;
    }
    if let (StatusCode::UNSUPPORTED_MEDIA_TYPE, Some(sent)) = (status, sent) {
        return (StatusCode::BAD_REQUEST, not_a_message(sent)).into_response();
    }
    let (mut parts, body) = response.into_parts();
    let text = to_bytes(body, LONGEST).await.unwrap_or_default();
    let code = match status {
        StatusCode::NOT_FOUND => SESSION_NOT_FOUND,
        _ if status.is_server_error() => INTERNAL_ERROR,
        _ => REFUSED,
    };
    let (_, body) = message(code, &String::from_utf8_lossy(&text));
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    Response::from_parts(parts, Body::from(body))
}

/// What is wrong with a body that is not a JSON-RPC message.
fn not_a_message(sent: &Bytes) -> ([(header::HeaderName, &'static str); 1], String) {
    match serde_json::from_slice::<IgnoredAny>(sent) {
        Err(_) if sent.is_empty() => message(PARSE_ERROR, "the body is empty; send one JSON-RPC message"),
        Err(error) => message(PARSE_ERROR, &format!("the body is not JSON: {error}")),
        Ok(_) => message(
            INVALID_REQUEST,
            "the body is not a JSON-RPC 2.0 request, notification or response that MCP knows; send one message, not a \
             batch",
        ),
    }
}

fn message(code: i32, text: &str) -> ([(header::HeaderName, &'static str); 1], String) {
    let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": text}});
    ([(header::CONTENT_TYPE, JSON)], error.to_string())
}

fn content_type(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::CONTENT_TYPE)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn told(response: Response) -> (u16, Value) {
        assert_eq!(content_type(response.headers()), Some(JSON));
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), LONGEST).await.unwrap();
        let error: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&error["jsonrpc"], &error["id"]), (&json!("2.0"), &Value::Null));
        (status, error["error"].clone())
    }

    #[tokio::test]
    async fn a_body_that_is_no_message_is_a_json_rpc_error() {
        let refused = || (StatusCode::UNSUPPORTED_MEDIA_TYPE, "fail to deserialize request body").into_response();
        for (sent, code, says) in [
            ("nonsense", PARSE_ERROR, "is not JSON: expected ident"),
            ("", PARSE_ERROR, "is empty"),
            ("[]", INVALID_REQUEST, "not a batch"),
            ("{}", INVALID_REQUEST, "is not a JSON-RPC 2.0 request"),
        ] {
            let (status, error) = told(as_message(refused(), Some(&Bytes::from(sent))).await).await;
            assert_eq!((status, &error["code"]), (400, &json!(code)), "{sent}");
            assert!(error["message"].as_str().unwrap().contains(says), "{sent}: {error}");
        }
        // Another content type is what the SDK says it is.
        let (status, error) = told(as_message(refused(), None).await).await;
        assert_eq!((status, &error["code"]), (415, &json!(REFUSED)));
        assert_eq!(error["message"], "fail to deserialize request body");
    }

    #[tokio::test]
    async fn only_plain_errors_are_changed() {
        let of = async |response| as_message(response, None).await;
        let allow = [(header::ALLOW, "POST")];
        let refused = of((StatusCode::METHOD_NOT_ALLOWED, allow, "Method Not Allowed").into_response()).await;
        assert_eq!(refused.headers()[header::ALLOW], "POST");
        let codes = [(refused, 405, REFUSED), (unknown_session(), 404, SESSION_NOT_FOUND)];
        for (response, status, code) in codes {
            let (found, error) = told(response).await;
            assert_eq!((found, &error["code"]), (status, &json!(code)));
        }
        let made =
            (StatusCode::BAD_REQUEST, [(header::CONTENT_TYPE, "application/problem+json")], "{}").into_response();
        assert_eq!(content_type(of(made).await.headers()), Some("application/problem+json"));
        let fine = of(StatusCode::ACCEPTED.into_response()).await;
        assert_eq!((fine.status(), content_type(fine.headers())), (StatusCode::ACCEPTED, None));
    }
}
