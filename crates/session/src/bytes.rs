//! Byte strings that stay readable in JSON: text where the bytes are UTF-8, `{"base64": …}` where they are not.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Borrow;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Bytes as bash holds them: anything but NUL, usually but not always UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteString(pub Vec<u8>);

impl ByteString {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// The text if the bytes are UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The text, with a replacement character for what is not UTF-8.
    pub fn to_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl From<&str> for ByteString {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<String> for ByteString {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

impl From<Vec<u8>> for ByteString {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<&[u8]> for ByteString {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

/// Sound because equality, order and hash of a `Vec<u8>` and its slice agree; lets maps be searched by `&[u8]`.
impl Borrow<[u8]> for ByteString {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for ByteString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// The only key of the object that represents bytes that are not UTF-8.
const BINARY_KEY: &str = "base64";

/// Marks a key that is not UTF-8: JSON object keys must be text, so such a key is this prefix and base64. A key that is
/// text and starts with the prefix is written that way too, so that reading back is never ambiguous.
const KEY_PREFIX: &str = "base64:";

impl Serialize for ByteString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.as_str() {
            Some(text) => serializer.serialize_str(text),
            None => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry(BINARY_KEY, &STANDARD.encode(&self.0))?;
                map.end()
            }
        }
    }
}

/// Written out by hand: a derived enum would copy every string once more, and this is in every record.
impl<'de> Deserialize<'de> for ByteString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BytesVisitor)
    }
}

struct BytesVisitor;

impl<'de> Visitor<'de> for BytesVisitor {
    type Value = ByteString;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a string or {{\"{BINARY_KEY}\": …}}")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ByteString, E> {
        Ok(text.into())
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<ByteString, E> {
        Ok(text.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ByteString, A::Error> {
        let Some((key, encoded)) = map.next_entry::<String, String>()? else {
            return Err(A::Error::missing_field(BINARY_KEY));
        };
        if key != BINARY_KEY {
            return Err(A::Error::unknown_field(&key, &[BINARY_KEY]));
        }
        STANDARD.decode(encoded).map(ByteString).map_err(A::Error::custom)
    }
}

/// Serialises maps whose keys are byte strings. Use with `#[serde(with = "crate::bytes::map")]`.
pub mod map {
    use super::{ByteString, KEY_PREFIX, STANDARD};
    use base64::Engine as _;
    use serde::de::{Error as _, MapAccess, Visitor};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::borrow::Cow;
    use std::collections::BTreeMap;
    use std::fmt;
    use std::marker::PhantomData;

    /// Writes the map with text keys.
    pub fn serialize<S: Serializer, V: Serialize>(
        map: &BTreeMap<ByteString, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(map.iter().map(|(key, value)| (key_text(key), value)))
    }

    struct MapVisitor<V>(PhantomData<V>);

    impl<'de, V: Deserialize<'de>> Visitor<'de> for MapVisitor<V> {
        type Value = BTreeMap<ByteString, V>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some((key, value)) = access.next_entry()? {
                map.insert(key_bytes(key).map_err(A::Error::custom)?, value);
            }
            Ok(map)
        }
    }

    /// Reads a map that [`serialize`] wrote.
    pub fn deserialize<'de, D: Deserializer<'de>, V: Deserialize<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<ByteString, V>, D::Error> {
        deserializer.deserialize_map(MapVisitor(PhantomData))
    }

    /// The key as JSON text.
    pub fn key_text(key: &ByteString) -> Cow<'_, str> {
        match key.as_str() {
            Some(text) if !text.starts_with(KEY_PREFIX) => text.into(),
            _ => format!("{KEY_PREFIX}{}", STANDARD.encode(key.as_bytes())).into(),
        }
    }

    /// The key that [`key_text`] wrote.
    pub fn key_bytes(text: String) -> Result<ByteString, base64::DecodeError> {
        match text.strip_prefix(KEY_PREFIX) {
            Some(encoded) => STANDARD.decode(encoded).map(ByteString),
            None => Ok(ByteString(text.into_bytes())),
        }
    }
}

/// Bytes at the end that begin a character which is not complete. Bytes before it that are no characters do not matter.
pub fn unfinished(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(3);
    let Some(lead) = bytes[from..].iter().rposition(|byte| *byte >= 0xc0) else { return 0 };
    let tail = &bytes[from + lead..];
    match std::str::from_utf8(tail) {
        Err(error) if error.error_len().is_none() => tail.len(),
        _ => 0,
    }
}

/// Bytes at the start that complete a character which began before them.
pub fn carried_over(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_cut_character_is_found_whatever_is_before_it() {
        for (bytes, expected) in [
            (&b""[..], 0),
            (b"ab", 0),
            (b"a\xc3", 1),
            (b"\xc3", 1),
            (b"\xff\xfe a\xe2\x82", 2),
            (b"a\xf0\x9f\x98", 3),
            (b"a\xf0\x9f\x98\x80", 0),
            (b"a\xffb", 0),
            (b"a\xff", 0),
            (b"\x80\x80\x80", 0),
        ] {
            assert_eq!(unfinished(bytes), expected, "{bytes:?}");
        }
        assert_eq!((carried_over(b"\x82\xacx"), carried_over(b"x\x82"), carried_over(b"")), (2, 0, 0));
    }

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Holder {
        value: ByteString,
        #[serde(with = "map")]
        by_key: BTreeMap<ByteString, ByteString>,
    }

    #[test]
    fn text_stays_text() {
        assert_eq!(serde_json::to_string(&ByteString::from("héllo")).unwrap(), "\"héllo\"");
        assert_eq!(serde_json::to_string(&ByteString(vec![0xff])).unwrap(), "{\"base64\":\"/w==\"}");
    }

    proptest! {
        #[test]
        fn any_bytes_survive_json(value: Vec<u8>, keys: Vec<Vec<u8>>) {
            let mut by_key: BTreeMap<_, _> =
                keys.into_iter().map(|k| (ByteString(k.clone()), ByteString(k))).collect();
            by_key.insert("base64:tricky".into(), "x".into());
            let holder = Holder { value: ByteString(value), by_key };
            let json = serde_json::to_string(&holder).unwrap();
            prop_assert_eq!(serde_json::from_str::<Holder>(&json).unwrap(), holder);
        }
    }
}
