//! A session's keyed store: between the wire and the runtime's vocabulary.

use super::check::decode;
use super::condition::condition;
use crate::refusal::Refusal;
use axum::http::HeaderMap;
use shellkeep_protocol as wire;
use shellkeep_protocol::text;
use shellkeep_runtime::{DEFAULT_KV_PAGE, Expected, KvChangedKeys, KvEntry, KvOp, KvPage, KvPut, KvQuery, MAX_KV_PAGE};

/// The default content type.
pub const UNSAID: &str = "application/octet-stream";
/// Digits of a SHA-256 in hexadecimal.
const SHA256_DIGITS: usize = 64;

/// Which keys to list.
pub fn kv_query(params: wire::KvParams) -> Result<KvQuery, Refusal> {
    let limit = match params.limit.unwrap_or(DEFAULT_KV_PAGE) {
        limit @ 1..=MAX_KV_PAGE => limit,
        limit => return Err(Refusal::invalid(format!("limit: {limit} is not between 1 and {MAX_KV_PAGE}"))),
    };
    Ok(KvQuery {
        prefix: params.prefix.unwrap_or_default(),
        after: params.after.unwrap_or_default(),
        limit,
        values: super::is_on(params.values),
    })
}

/// The changes of a batch.
pub fn kv_batch(batch: wire::KvBatch) -> Result<Vec<KvOp>, Refusal> {
    batch.ops.into_iter().enumerate().map(|(index, op)| kv_op(index, op)).collect()
}

fn kv_op(index: usize, op: wire::KvOp) -> Result<KvOp, Refusal> {
    let wrong = |detail: &str| Err(Refusal::invalid(format!("ops[{index}]: {detail}")));
    let wire::KvOp { op, key, value_base64, sha256, content_type, if_version } = op;
    let content_type_or_default = || content_type.clone().unwrap_or_else(|| UNSAID.to_owned());
    let change = match (op, value_base64, sha256) {
        (wire::KvOpKind::Delete, None, None) if content_type.is_none() => KvPut::Delete,
        (wire::KvOpKind::Delete, ..) => return wrong("a delete has only key and if_version"),
        (wire::KvOpKind::Put, Some(value), None) => KvPut::Bytes {
            bytes: decode(&format!("ops[{index}].value_base64"), &value)?,
            content_type: content_type_or_default(),
        },
        (wire::KvOpKind::Put, None, Some(sha256)) => {
            if sha256.len() != SHA256_DIGITS || !sha256.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return wrong("sha256 has 64 hexadecimal digits");
            }
            KvPut::Known { sha256: sha256.to_ascii_lowercase(), content_type: content_type_or_default() }
        }
        (wire::KvOpKind::Put, None, None) => {
            return wrong("a put needs value_base64, or the sha256 of a value that the session has");
        }
        (wire::KvOpKind::Put, ..) => return wrong("a put has value_base64 or the sha256 of a known value, not both"),
    };
    let expected = match if_version {
        None => Expected::Anything,
        Some(0) => Expected::Nothing,
        Some(version) => Expected::Version(version),
    };
    Ok(KvOp { key, change, expected })
}

/// What must be true of a key, from the headers.
pub fn expected_key(headers: &HeaderMap) -> Result<Expected, Refusal> {
    let valid = "send either if-match: \"VERSION\", as in the ETag (or * for any), or if-none-match: *";
    let version = |tag: &str| tag.parse::<u64>().ok().filter(|version| *version > 0);
    condition(headers, valid, version).map(Expected::from)
}

/// A page of keys, for the caller.
pub fn kv_list(page: KvPage) -> wire::KvList {
    let kv = page.entries.into_iter().map(|(entry, value)| kv_entry(entry, value)).collect();
    wire::KvList { kv, next: page.next }
}

fn kv_entry(entry: KvEntry, value: Option<Vec<u8>>) -> wire::KvEntry {
    wire::KvEntry {
        key: entry.key,
        version: entry.version,
        size: entry.value.bytes,
        sha256: entry.value.sha256,
        content_type: entry.value.content_type,
        value_base64: value.map(|bytes| text::base64(&bytes)),
    }
}

/// What a batch changed, for the caller.
pub fn kv_changed(changed: KvChangedKeys) -> wire::KvChanged {
    let version = changed.version;
    let kv = changed.entries.into_iter().map(|(key, entry)| {
        let value = entry.map(|entry| entry.value);
        let (size, sha256) = value.map(|value| (value.bytes, value.sha256)).unzip();
        wire::KvChangedKey { key, version, size, sha256 }
    });
    let notices = changed.notices.into_iter().map(Into::into).collect();
    wire::KvChanged { kv: kv.collect(), version, seq: changed.seq, notices }
}

/// A value that was put, for the caller.
pub fn kv_written(changed: KvChangedKeys) -> Option<wire::KvWritten> {
    let KvChangedKeys { entries, version, seq, notices } = changed;
    let (key, entry) = entries.into_iter().next()?;
    let value = entry?.value;
    let notices = notices.into_iter().map(Into::into).collect();
    Some(wire::KvWritten { key, version, size: value.bytes, sha256: value.sha256, seq, notices })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, header};

    #[test]
    fn a_batch_says_what_is_wrong_with_it() {
        let op = |text: &str| kv_batch(serde_json::from_str(&format!("{{\"ops\": [{text}]}}")).unwrap());
        assert!(op(r#"{"op": "put", "key": "a", "value_base64": "eA=="}"#).is_ok());
        assert!(op(r#"{"op": "delete", "key": "a", "if_version": 3}"#).is_ok());
        for (wrong, says) in [
            // It was told not to send both.
            (r#"{"op": "put", "key": "a"}"#, "ops[0]: a put needs"),
            (r#"{"op": "put", "key": "a", "value_base64": "!"}"#, "not base64"),
            (r#"{"op": "put", "key": "a", "value_base64": "eA==", "sha256": "00"}"#, "not both"),
            (r#"{"op": "put", "key": "a", "sha256": "00"}"#, "64 hexadecimal digits"),
            (r#"{"op": "delete", "key": "a", "value_base64": "eA=="}"#, "only key and if_version"),
        ] {
            let detail = op(wrong).unwrap_err().problem().detail.clone();
            assert!(detail.contains(says), "{wrong}: {detail}");
        }
    }

    #[test]
    fn the_version_is_read_from_the_headers() {
        let with =
            |name: HeaderName, value: &str| expected_key(&HeaderMap::from_iter([(name, value.parse().unwrap())]));
        assert_eq!(expected_key(&HeaderMap::new()).unwrap(), Expected::Anything);
        assert_eq!(with(header::IF_MATCH, "\"3\"").unwrap(), Expected::Version(3));
        assert_eq!(with(header::IF_MATCH, "*").unwrap(), Expected::Something);
        assert_eq!(with(header::IF_NONE_MATCH, "*").unwrap(), Expected::Nothing);
        for wrong in ["", "\"0\"", "x", "-1"] {
            assert!(with(header::IF_MATCH, wrong).is_err(), "{wrong}");
        }
    }
}
