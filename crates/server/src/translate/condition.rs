//! `If-Match` and `If-None-Match` of a change, read alike for everything that has an `ETag`.

use crate::refusal::Refusal;
use axum::http::{HeaderMap, HeaderName, header};
use shellkeep_runtime::Expected;

/// What must be there for a change to be made.
#[derive(Debug, PartialEq)]
pub enum Condition<T> {
    Anything,
    Something,
    Nothing,
    /// What has this tag.
    Tag(T),
}

impl From<Condition<u64>> for Expected {
    fn from(condition: Condition<u64>) -> Self {
        match condition {
            Condition::Anything => Self::Anything,
            Condition::Something => Self::Something,
            Condition::Nothing => Self::Nothing,
            Condition::Tag(version) => Self::Version(version),
        }
    }
}

/// The condition of a change. `parse` reads a tag without its quotes; `valid` says what the headers may be.
pub fn condition<T>(
    headers: &HeaderMap,
    valid: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Condition<T>, Refusal> {
    let named = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default().trim());
    let found = match (named(header::IF_MATCH), named(header::IF_NONE_MATCH)) {
        (None, None) => Some(Condition::Anything),
        (Some("*"), None) => Some(Condition::Something),
        (None, Some("*")) => Some(Condition::Nothing),
        (Some(tag), None) => {
            let bare = tag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(tag);
            parse(bare).map(Condition::Tag)
        }
        _ => None,
    };
    found.ok_or_else(|| Refusal::invalid(valid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    /// `If-Match: *` was valid for the agent's state, and refused for keys and files.
    #[test]
    fn a_condition_is_read_from_the_headers() {
        let read = |headers: HeaderMap| condition(&headers, "wrong", |tag| tag.parse::<u64>().ok());
        let with = |name: HeaderName, value: &str| read(HeaderMap::from_iter([(name, value.parse().unwrap())]));
        assert_eq!(read(HeaderMap::new()).unwrap(), Condition::Anything);
        assert_eq!(with(header::IF_MATCH, "\"3\"").unwrap(), Condition::Tag(3));
        assert_eq!(with(header::IF_MATCH, " 3 ").unwrap(), Condition::Tag(3));
        assert_eq!(with(header::IF_MATCH, "*").unwrap(), Condition::Something);
        assert_eq!(with(header::IF_NONE_MATCH, "*").unwrap(), Condition::Nothing);
        for wrong in ["", "x", "\"*\"", "\"3\", \"4\"", "W/\"3\"", "-1", "\u{e9}"] {
            assert_eq!(with(header::IF_MATCH, wrong).unwrap_err().problem().detail, "wrong", "{wrong}");
        }
        assert!(with(header::IF_NONE_MATCH, "\"3\"").is_err());
        let any = || HeaderValue::from_static("*");
        assert!(read(HeaderMap::from_iter([(header::IF_MATCH, any()), (header::IF_NONE_MATCH, any())])).is_err());
    }
}
