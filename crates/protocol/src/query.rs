//! Reading query strings: `?limit=` is the same as no `limit` at all.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::fmt::Display;
use std::str::FromStr;

/// Reads a parameter that may be left empty. Use with `#[serde(default, deserialize_with = "crate::query::blank")]`.
pub fn blank<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr,
    T::Err: Display,
{
    let text = String::deserialize(deserializer)?;
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|error| D::Error::custom(format!("'{text}': {error}")))
}
