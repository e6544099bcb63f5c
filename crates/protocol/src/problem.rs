//! Errors, after RFC 9457. `code` is for programs and stable; `detail` is for the reader, who may be a model.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;
use utoipa::ToSchema;

/// The media type of a problem.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// Why a request was rejected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `urn:shellkeep:problem:{code}`
    #[serde(rename = "type")]
    pub kind: String,
    /// The status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// Stable code in snake_case.
    pub code: String,
    /// What happened and what to do next.
    pub detail: String,
    /// What happened, without what to do next; only with `hint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fact: Option<String>,
    /// A name for what to do next, for clients that word it themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Data where it helps, such as the busy session's `run_id`.
    #[serde(flatten)]
    #[schema(additional_properties, value_type = Object)]
    pub data: Map<String, Value>,
}

impl Problem {
    /// A problem without further data.
    pub fn new(status: u16, title: &str, code: &str, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:shellkeep:problem:{code}"),
            title: title.to_owned(),
            status,
            code: code.to_owned(),
            detail: detail.into(),
            fact: None,
            hint: None,
            data: Map::new(),
        }
    }

    /// Adds data. The names of the standard fields cannot be used.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        debug_assert!(!["type", "title", "status", "code", "detail", "fact", "hint"].contains(&name));
        self.data.insert(name.to_owned(), value.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.detail, self.code)
    }
}

impl std::error::Error for Problem {}
