//! Names of sessions and runs. An id is checked once, where it enters; a value of these types is always valid and is
//! safe as a file name.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Longest id a caller may give; long enough for `thread_{user}_{uuid}`, short enough for any file system's names.
pub const MAX_ID_LENGTH: usize = 128;

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Empty or longer than [`MAX_ID_LENGTH`].
    #[error("an id must have 1 to {MAX_ID_LENGTH} characters; this one has {length}")]
    Length {
        /// Characters given.
        length: usize,
    },
    /// A character outside the alphabet, or a leading dot.
    #[error(
        "an id may have only A-Z a-z 0-9 . _ : - and must not start with a dot; '{found}' at position {position} is wrong"
    )]
    Character {
        /// The offending character, escaped.
        found: String,
        /// Its position, from 0.
        position: usize,
    },
}

/// The name of a session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(String);

/// The name of a run inside its session: `r` and the sequence number of the record that started it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

/// The name of a service inside its session: `r` and the sequence number of the record that started it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ServiceId(String);

impl SessionId {
    /// Parses an id.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        check(text)?;
        Ok(Self(text.to_owned()))
    }

    /// The deterministic binding of a user's session: `thread_{user_id}_{session_id}`.
    pub fn bound(user_id: &str, session_id: &str) -> Result<Self, IdError> {
        check(user_id)?;
        check(session_id)?;
        Self::parse(&format!("thread_{user_id}_{session_id}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl RunId {
    /// Parses an id.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        check(text)?;
        Ok(Self(text.to_owned()))
    }

    /// The run that the record `seq` starts.
    pub fn from_seq(seq: u64) -> Self {
        Self(format!("r{seq}"))
    }

    /// The number of the record that started it, if it is named as [`RunId::from_seq`] names runs.
    pub fn seq(&self) -> Option<u64> {
        let digits = self.0.strip_prefix('r').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        digits.parse().ok()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ServiceId {
    /// Parses an id.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        check(text)?;
        Ok(Self(text.to_owned()))
    }

    /// The service that the record `seq` starts.
    pub fn from_seq(seq: u64) -> Self {
        Self(format!("s{seq}"))
    }

    /// Whether it is an id as the daemon assigns them, to services and to commands in the background; otherwise it may
    /// be a service's name.
    pub fn is_assigned(&self) -> bool {
        let digits = self.0.strip_prefix(['s', 'r']);
        digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Checks any id from a caller (sessions, users, agents, requests).
pub fn check(text: &str) -> Result<(), IdError> {
    let length = text.chars().count();
    if !(1..=MAX_ID_LENGTH).contains(&length) {
        return Err(IdError::Length { length });
    }
    let bad = |(position, c): (usize, char)| {
        let allowed = c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '-') || (c == '.' && position > 0);
        (!allowed).then(|| IdError::Character { found: c.escape_default().to_string(), position })
    };
    match text.chars().enumerate().find_map(bad) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

macro_rules! text_conversions {
    ($name:ident) => {
        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                check(&text)?;
                Ok(Self(text))
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_conversions!(SessionId);
text_conversions!(RunId);
text_conversions!(ServiceId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_cannot_leave_their_directory() {
        for bad in ["", ".", "..", "../x", "a/b", ".hidden", "a b", "a\n", "é", "a\0", &"x".repeat(129)] {
            assert!(SessionId::parse(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "A.b_c:d-9", "x..y", "-", &"x".repeat(128)] {
            assert!(SessionId::parse(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn an_error_says_what_is_wrong() {
        assert_eq!(SessionId::parse(&"é".repeat(100)).unwrap_err().to_string().matches("\\u{e9}").count(), 1);
        let long = SessionId::parse(&"x".repeat(129)).unwrap_err();
        assert_eq!(long.to_string(), "an id must have 1 to 128 characters; this one has 129");
    }

    #[test]
    fn binding_is_deterministic() {
        assert_eq!(SessionId::bound("ann", "7").unwrap().as_str(), "thread_ann_7");
        assert!(SessionId::bound("a/b", "7").is_err());
    }
}
