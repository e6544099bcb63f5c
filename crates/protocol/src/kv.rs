//! A session's keyed store.

use crate::query::Switch;
use crate::run::NoticeView;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Query of `GET …/kv`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct KvParams {
    /// Only keys with this prefix.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub prefix: Option<String>,
    /// Only keys after this one: `next` of the previous page.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub after: Option<String>,
    /// Maximum number of keys to return.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(default = 100, minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
    /// Whether to include the values; a page then ends after 16 MiB of them.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(default = false, value_type = Option<bool>)]
    pub values: Option<Switch>,
}

/// A page of keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KvList {
    /// The keys, sorted.
    pub kv: Vec<KvEntry>,
    /// Where the next page starts; `null` if this is the last.
    pub next: Option<String>,
}

/// A key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KvEntry {
    /// The key.
    pub key: String,
    /// Its version. It increases with every change to the session's store and is never reused.
    pub version: u64,
    /// Bytes of its value.
    pub size: u64,
    /// The SHA-256 of its value, in hexadecimal.
    pub sha256: String,
    /// The content type of its value.
    pub content_type: String,
    /// The value, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_base64: Option<String>,
}

/// Body of `POST …/kv`: all changes are made, or none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KvBatch {
    /// The changes, each to a different key.
    #[schema(min_items = 1, max_items = 1000)]
    pub ops: Vec<KvOp>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KvOp {
    /// The operation.
    pub op: KvOpKind,
    /// The key: 1 to 512 bytes of text without control characters.
    #[schema(min_length = 1, max_length = 512)]
    pub key: String,
    /// The value of a `put`, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_base64: Option<String>,
    /// Instead of a value: the SHA-256 of a value that the session already has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[0-9a-fA-F]{64}$")]
    pub sha256: Option<String>,
    /// The content type of the value; `application/octet-stream` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255)]
    pub content_type: Option<String>,
    /// The version that the key must have now; 0 if it must not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_version: Option<u64>,
}

/// What a change does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KvOpKind {
    /// Sets a value.
    Put,
    /// Deletes the key.
    Delete,
}

/// What a batch changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KvChanged {
    /// The keys in the order of the batch.
    pub kv: Vec<KvChangedKey>,
    /// The version of the change.
    pub version: u64,
    /// Number of the record, to rewind or fork to.
    pub seq: u64,
    /// Notices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<NoticeView>,
}

/// A key that was changed. One that was deleted has no `size` and `sha256`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KvChangedKey {
    /// The key.
    pub key: String,
    /// The version of the change.
    pub version: u64,
    /// Bytes of its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The SHA-256 of its value, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// A value that was put.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KvWritten {
    /// The key.
    pub key: String,
    /// Its version.
    pub version: u64,
    /// Bytes of its value.
    pub size: u64,
    /// The SHA-256 of its value, in hexadecimal.
    pub sha256: String,
    /// Number of the record, to rewind or fork to.
    pub seq: u64,
    /// Notices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<NoticeView>,
}
