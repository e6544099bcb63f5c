//! Stored values as JSON. Serde's implementations are generic: a crate that gives a record to `serde_json` compiles all that
//! is in it again, once for each kind of reader and writer. Here each of these values has one of each, compiled where the
//! macro is used.

use crate::{
    AgentState, Event, KvChange, KvRewound, KvScrubbed, Message, Notice, Record, RunResult, SessionMeta, SessionState,
    ShellState, StoredResume, StoredRun, shell,
};
use serde::ser::Error as _;
use serde_json::{Error, Value};

/// A value that is stored as JSON.
pub trait Json: Sized {
    /// Reads it.
    fn from_json(json: &[u8]) -> Result<Self, Error>;

    /// Writes it to the end of `to`. After an error a part of it may be there.
    fn write_json(&self, to: &mut Vec<u8>) -> Result<(), Error>;

    /// The same as bytes of their own.
    fn to_json(&self) -> Result<Vec<u8>, Error> {
        let mut json = Vec::with_capacity(128);
        self.write_json(&mut json).map(|()| json)
    }

    /// The same as text.
    fn to_json_text(&self) -> Result<String, Error> {
        String::from_utf8(self.to_json()?).map_err(Error::custom)
    }

    /// The value as a tree.
    fn to_tree(&self) -> Result<Value, Error> {
        Value::from_json(&self.to_json()?)
    }

    /// Reads it from a tree.
    fn from_tree(tree: &Value) -> Result<Self, Error> {
        Self::from_json(&tree.to_json()?)
    }
}

/// Compiles reading and writing of these types here.
#[macro_export]
macro_rules! stored_as_json {
    ($($type:ty),+ $(,)?) => {$(
        impl $crate::json::Json for $type {
            #[inline(never)]
            fn from_json(json: &[u8]) -> ::core::result::Result<Self, serde_json::Error> {
                serde_json::from_slice(json)
            }

            #[inline(never)]
            fn write_json(&self, to: &mut Vec<u8>) -> ::core::result::Result<(), serde_json::Error> {
                serde_json::to_writer(to, self)
            }
        }
    )+};
}

stored_as_json!(Value, Record, Event, SessionState, SessionMeta, ShellState, StoredRun, RunResult, StoredResume);
stored_as_json!(shell::Variable, shell::Function, AgentState, Message, Vec<Notice>);
stored_as_json!(Vec<KvChange>, KvRewound, KvScrubbed);

impl<T: Json> Json for Box<T> {
    fn from_json(json: &[u8]) -> Result<Self, Error> {
        T::from_json(json).map(Self::new)
    }

    fn write_json(&self, to: &mut Vec<u8>) -> Result<(), Error> {
        T::write_json(self, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::ByteString;

    #[test]
    fn a_tree_and_its_bytes_say_the_same() {
        let shell = ShellState { cwd: ByteString(vec![0xff, b'/']), ..ShellState::default() };
        let json = shell.to_json().unwrap();
        assert_eq!(ShellState::from_json(&json).unwrap(), shell);
        assert_eq!(serde_json::to_value(&shell).unwrap(), shell.to_tree().unwrap());
        assert_eq!(ShellState::from_tree(&shell.to_tree().unwrap()).unwrap(), shell);
    }
}
