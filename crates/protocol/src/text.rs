//! Bytes in JSON. A stream is text; where it is not UTF-8, a second field has its exact bytes in base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use shellkeep_session::ByteString;
use utoipa::ToSchema;

/// The text of some bytes, and their base64 if the text is lossy.
pub fn encode(bytes: Vec<u8>) -> (String, Option<String>) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => {
            let bytes = error.into_bytes();
            (String::from_utf8_lossy(&bytes).into_owned(), Some(STANDARD.encode(&bytes)))
        }
    }
}

/// The bytes that [`encode`] was given.
pub fn decode(text: String, base64: Option<&str>) -> Result<Vec<u8>, base64::DecodeError> {
    match base64 {
        Some(encoded) => STANDARD.decode(encoded),
        None => Ok(text.into_bytes()),
    }
}

/// Bytes in base64.
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// A value of a shell: text, or `{"base64": …}` where the bytes are not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Bytes {
    /// The text.
    Text(String),
    /// The bytes, where they are not UTF-8.
    Binary {
        /// Standard base64 with padding.
        base64: String,
    },
}

impl From<ByteString> for Bytes {
    fn from(bytes: ByteString) -> Self {
        match String::from_utf8(bytes.0) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Binary { base64: STANDARD.encode(error.as_bytes()) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_travels_as_text_and_bytes_come_back_exact() {
        assert_eq!(encode(b"h\xc3\xa9".to_vec()), ("hé".to_owned(), None));
        let (text, base64) = encode(b"a\xffb".to_vec());
        assert_eq!(text, "a\u{fffd}b");
        assert_eq!(decode(text, base64.as_deref()).unwrap(), b"a\xffb");
    }
}
