//! Reading query strings: `?limit=` is the same as no `limit` at all.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::any::Any;
use std::fmt::Display;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};
use std::str::{FromStr, ParseBoolError};

/// Reads a parameter that may be left empty. Use with `#[serde(default, deserialize_with = "crate::query::blank")]`.
pub fn blank<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr,
    T::Err: Display + 'static,
{
    let text = String::deserialize(deserializer)?;
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|error| D::Error::custom(format!("'{text}': {}", why_unreadable(&error))))
}

/// Why a text is not the value that it should be, for a person: the standard library says of `-1` that it has an invalid
/// digit.
pub fn why_unreadable<E: Display + 'static>(error: &E) -> String {
    let any: &dyn Any = error;
    if let Some(error) = any.downcast_ref::<ParseIntError>() {
        return match error.kind() {
            IntErrorKind::PosOverflow => "it is too large".to_owned(),
            _ => "it must be a whole number that is not negative".to_owned(),
        };
    }
    if any.is::<ParseFloatError>() {
        "it must be a number".to_owned()
    } else if any.is::<ParseBoolError>() {
        "it must be true or false".to_owned()
    } else {
        error.to_string()
    }
}

/// `true` or `false` in a query; 1 and 0 are accepted too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch(pub bool);

impl FromStr for Switch {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "true" | "1" => Ok(Self(true)),
            "false" | "0" => Ok(Self(false)),
            _ => Err("it is `true` or `false`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told<T>(text: &str) -> String
    where
        T: FromStr,
        T::Err: Display + 'static,
    {
        text.parse::<T>().map_or_else(|error| why_unreadable(&error), |_| "read".to_owned())
    }

    #[test]
    fn what_cannot_be_read_is_explained_in_words() {
        for wrong in ["-1", "abc", "1.5"] {
            assert_eq!(told::<u64>(wrong), "it must be a whole number that is not negative", "{wrong}");
        }
        assert_eq!(told::<u16>("70000"), "it is too large");
        assert_eq!(told::<f64>("abc"), "it must be a number");
        assert_eq!(told::<bool>("yes"), "it must be true or false");
        assert_eq!(told::<crate::EventView>("x"), "a view is `full` or `summary`");
        assert_eq!(told::<u64>("7"), "read");
    }
}
