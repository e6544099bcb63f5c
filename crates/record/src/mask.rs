//! Copies of lines in which secrets are masked and which still prove the rest.
//!
//! A field in which something was found stays in place and shows the text around the mask; the line's proof has its
//! commitment. A name that contains a secret is masked with everything under it.

mod gather;

use crate::chain::{self, SessionKey};
use crate::hash::Hash;
use crate::heads::SignedHead;
use crate::line::{After, Head, Line, Proof};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
pub use gather::{secret_values, secret_values_from};
use serde_json::{Map, Value};
use shellkeep_redact::{MASK, Redactor, looks_secret};
use shellkeep_session::bytes::map::key_bytes;
use std::collections::BTreeMap;
use std::fmt;

/// Ends the name of a field whose text is bytes in base64.
const BASE64_SUFFIX: &str = "base64";

/// Below a variable with a secret-looking name stand also its attributes, which are letters of `declare`.
const ATTRIBUTES: &str = "attributes";

/// Masks secrets in lines and in any JSON.
#[derive(Clone)]
pub struct Masker {
    redactor: Redactor,
    /// Whether a field under a name that looks secret is masked whole.
    by_name: bool,
}

impl fmt::Debug for Masker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Masker").field("by_name", &self.by_name).finish_non_exhaustive()
    }
}

impl Masker {
    /// For copies that others may see: masks what the redactor finds, and every field under a name that looks secret. The
    /// redactor should know the values that [`secret_values`] gathers.
    pub fn new(redactor: Redactor) -> Self {
        Self { redactor, by_name: true }
    }

    /// For a scrub: masks what the redactor finds and nothing else.
    pub fn of_values(redactor: Redactor) -> Self {
        Self { redactor, by_name: false }
    }

    /// What finds the secrets.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// A text with its secrets masked.
    pub fn mask_text(&self, text: &str) -> String {
        self.redactor.redact_str(text)
    }

    /// Masks any JSON; whether there was something to mask.
    pub fn mask_value(&self, value: &mut Value) -> bool {
        let mut changed = false;
        let mut walk =
            Walk { masker: self, old: String::new(), new: String::new(), each: &mut |leaf| changed |= leaf.masked };
        let taken = value.take();
        *value = walk.value(taken, Under::default());
        changed
    }

    /// A copy of a line with its secrets masked. The commitments to what was masked are made with the key, or with the
    /// salts that an export brings; without either, the copy proves nothing.
    pub fn mask_line(&self, line: &Line, key: Option<&SessionKey>) -> Line {
        let of_line = key.map(|key| key.salt(line.seq)).or(line.proof.salt);
        let old = &line.proof;
        let (files, head, signed) = (old.files.clone(), old.head.clone(), old.signed.clone());
        let masked = |after: &After| Box::new(After { before: after.before, line: self.mask_line(&after.line, None) });
        let after = old.after.as_deref().map(masked);
        let mut proof = Proof { hash: old.hash, files, head, signed, after, ..Proof::default() };
        let mut each = |leaf: &Leaf<'_>| {
            if let Some(commitment) = old.masked.get(leaf.old_path) {
                proof.masked.insert(leaf.new_path.to_owned(), *commitment);
                return;
            }
            let salt = of_line.map(|salt| chain::field_salt(&salt, leaf.old_path));
            let salt = salt.or_else(|| old.salts.get(leaf.old_path).copied());
            match salt {
                Some(salt) if leaf.masked => {
                    let commitment = chain::commit(&salt, leaf.old_path, leaf.old_value);
                    proof.masked.insert(leaf.new_path.to_owned(), commitment);
                }
                Some(salt) if key.is_none() => drop(proof.salts.insert(leaf.new_path.to_owned(), salt)),
                _ => {}
            }
        };
        let mut walk = Walk { masker: self, old: String::new(), new: String::new(), each: &mut each };
        let data = walk.value(line.data.clone(), Under::default());
        if key.is_none() && proof.masked.is_empty() {
            (proof.salt, proof.salts) = (old.salt, old.salts.clone());
        }
        Line { data, proof, ..Line::without_data(line) }
    }

    fn text_of(&self, text: &str, name: &str) -> Option<String> {
        if name.ends_with(BASE64_SUFFIX)
            && let Ok(bytes) = STANDARD.decode(text)
        {
            let masked = self.redactor.redact(&bytes);
            return (masked != bytes).then(|| STANDARD.encode(masked));
        }
        let masked = self.redactor.redact(text.as_bytes());
        (masked != text.as_bytes()).then(|| String::from_utf8_lossy(&masked).into_owned())
    }

    /// The name as it is shown, if something of it must be masked.
    fn name_of(&self, name: &str) -> Option<String> {
        let bytes = match key_bytes(name.to_owned()) {
            Ok(bytes) => bytes.0,
            Err(_) => name.as_bytes().to_vec(),
        };
        let masked = self.redactor.redact(&bytes);
        (masked != bytes).then(|| String::from_utf8_lossy(&masked).into_owned())
    }
}

/// A field, before and after.
struct Leaf<'a> {
    old_path: &'a str,
    new_path: &'a str,
    old_value: &'a Value,
    masked: bool,
}

/// What the names above a field say about it.
#[derive(Clone, Copy, Default)]
struct Under<'a> {
    /// The nearest name.
    name: &'a str,
    /// Everything below is masked whole.
    whole: bool,
}

struct Walk<'a> {
    masker: &'a Masker,
    old: String,
    new: String,
    each: &'a mut dyn FnMut(&Leaf<'_>),
}

impl Walk<'_> {
    fn value(&mut self, value: Value, under: Under<'_>) -> Value {
        match value {
            Value::Object(map) if !map.is_empty() => self.object(map, under),
            Value::Array(list) if !list.is_empty() => {
                let each = list.into_iter().enumerate().map(|(index, value)| {
                    let index = index.to_string();
                    self.below(&index, &index, value, under)
                });
                Value::Array(each.collect())
            }
            field => self.field(field, under),
        }
    }

    /// A value that has a name, which is shown as `new`.
    fn below(&mut self, old: &str, new: &str, value: Value, under: Under<'_>) -> Value {
        let (old_length, new_length) = (self.old.len(), self.new.len());
        chain::push(&mut self.old, old);
        chain::push(&mut self.new, new);
        let value = self.value(value, under);
        self.old.truncate(old_length);
        self.new.truncate(new_length);
        value
    }

    fn object(&mut self, map: Map<String, Value>, under: Under<'_>) -> Value {
        let mut shown = Map::new();
        for (name, value) in map {
            let masked = self.masker.name_of(&name);
            let by_name = self.masker.by_name && looks_secret(&name);
            let whole = under.whole && name != ATTRIBUTES;
            let below = Under { name: &name, whole: whole || by_name || masked.is_some() };
            let new_name = match masked {
                Some(masked) => free_name(&shown, masked),
                None => name.clone(),
            };
            let value = self.below(&name, &new_name, value, below);
            shown.insert(new_name, value);
        }
        Value::Object(shown)
    }

    fn field(&mut self, old_value: Value, under: Under<'_>) -> Value {
        let renamed = self.old != self.new;
        let masked = match &old_value {
            _ if renamed => Some(mask()),
            Value::String(text) if under.whole && !text.is_empty() => Some(mask()),
            // A short number is a count or a switch; a long one may be a secret that happens to be made of digits.
            Value::Number(number) if under.whole && number.to_string().len() >= 6 => Some(mask()),
            Value::String(text) => self.masker.text_of(text, under.name),
            _ => None,
        };
        // What is shown already as it would be shown is not masked by us.
        let masked = masked.filter(|masked| old_value.as_str() != Some(masked) || renamed);
        let leaf = Leaf { old_path: &self.old, new_path: &self.new, old_value: &old_value, masked: masked.is_some() };
        (self.each)(&leaf);
        masked.map_or(old_value, Value::String)
    }
}

fn mask() -> String {
    String::from_utf8_lossy(MASK).into_owned()
}

/// Two masked names may become the same; the second gets a number.
fn free_name(taken: &Map<String, Value>, name: String) -> String {
    let mut free = name.clone();
    let mut number = 2;
    while taken.contains_key(&free) {
        free = format!("{name} {number}");
        number += 1;
    }
    free
}

/// Whether the value of a field shows that something was masked in it.
pub(crate) fn shows_mask(path: &str, value: &Value) -> bool {
    let has_mask = |bytes: &[u8]| memchr::memmem::find(bytes, MASK).is_some();
    let name = path.rsplit('/').next().unwrap_or_default();
    match value {
        Value::String(text) if name.ends_with(BASE64_SUFFIX) => {
            has_mask(text.as_bytes()) || STANDARD.decode(text).is_ok_and(|bytes| has_mask(&bytes))
        }
        Value::String(text) => has_mask(text.as_bytes()),
        _ => false,
    }
}

/// A line for a reader without the key: with the salts of what it shows.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportLine(Line);

impl ExportLine {
    /// A copy of a line, masked if there is a masker. A line that comes from an export itself needs no key.
    pub fn new(line: &Line, masker: Option<&Masker>, key: Option<&SessionKey>) -> Self {
        let mut copy = match masker {
            Some(masker) => masker.mask_line(line, key),
            None => line.clone(),
        };
        if let Some(key) = key {
            let salt = key.salt(line.seq);
            (copy.proof.salt, copy.proof.salts) = salts(&copy, &salt);
        }
        Self(copy)
    }

    /// The same with the end of the recording and its signature; for the first line of a copy.
    pub fn with_head(mut self, head: Head, signed: Option<SignedHead>) -> Self {
        (self.0.proof.head, self.0.proof.signed) = (Some(head), signed);
        self
    }

    /// The same with the event before it; for the first line of a later part.
    pub fn joined_by(mut self, after: After) -> Self {
        self.0.proof.after = Some(Box::new(after));
        self
    }

    pub fn line(&self) -> &Line {
        &self.0
    }

    /// The line, to be kept.
    pub fn into_line(self) -> Line {
        self.0
    }

    /// Adds the line, with its line break.
    pub fn write_to(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        self.0.write_to(out)
    }
}

/// The salts that prove what a line shows: one for all, or those of the fields that are not masked.
fn salts(line: &Line, salt: &Hash) -> (Option<Hash>, BTreeMap<String, Hash>) {
    if line.proof.masked.is_empty() {
        return (Some(*salt), BTreeMap::new());
    }
    let mut salts = BTreeMap::new();
    chain::fields(&line.data, &mut |path, _| {
        if !line.proof.masked.contains_key(path) {
            salts.insert(path.to_owned(), chain::field_salt(salt, path));
        }
    });
    (None, salts)
}
