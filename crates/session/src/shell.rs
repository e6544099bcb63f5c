//! The state of a shell as a value. Only differences from a bare bash are stored: a bash of another version or on
//! another machine has its own `BASH_VERSION`, and the session's own variables are added.

use crate::bytes::{self, ByteString};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A variable: its attributes and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// The letters of `declare`, sorted: `c i l n r t u x`. Whether it is an array follows from its value.
    pub attributes: String,
    pub value: Value,
}

/// What a variable holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A string.
    Value(ByteString),
    /// An indexed array: index and element, ascending.
    Array(Vec<(i64, ByteString)>),
    /// An associative array: key and element, in the order in which bash walks it.
    Map(Vec<(ByteString, ByteString)>),
    /// Declared but never assigned. The kind matters: `declare -a x` is not `declare x`.
    Declared(DeclaredKind),
    /// A variable that a bare bash has and this session unset.
    Removed(bool),
}

/// Kinds of a variable without a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeclaredKind {
    /// `declare x`
    Scalar,
    /// `declare -a x`
    Array,
    /// `declare -A x`
    Map,
}

/// A function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// The letters of `declare -f` attributes, sorted: `r t x`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub attributes: String,
    /// The definition as bash prints it.
    pub source: ByteString,
}

/// What a signal or pseudo-signal does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trap {
    /// `trap '' SIG`
    Ignore,
    /// `trap 'command' SIG`
    Run(ByteString),
}

/// The named options that are on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Options {
    /// `set -o` names that are on.
    pub set: BTreeSet<String>,
    /// `shopt` names that are on.
    pub shopt: BTreeSet<String>,
}

/// The part of a shell that is data.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ShellState {
    /// The working directory, as `pwd` prints it.
    pub cwd: ByteString,
    /// The directory stack below the working directory, top first.
    pub directory_stack: Vec<ByteString>,
    /// Variables that differ from a bare bash.
    #[serde(with = "bytes::map")]
    pub variables: BTreeMap<ByteString, Variable>,
    /// Functions.
    #[serde(with = "bytes::map")]
    pub functions: BTreeMap<ByteString, Function>,
    /// Aliases.
    #[serde(with = "bytes::map")]
    pub aliases: BTreeMap<ByteString, ByteString>,
    /// Options; `None` means those of a bare bash.
    pub options: Option<Options>,
    /// Traps by the name that `trap -p` prints (`EXIT`, `DEBUG`, `SIGINT`, …).
    pub traps: BTreeMap<String, Trap>,
    /// The umask, if it differs from the daemon's.
    pub umask: Option<u32>,
    /// Soft resource limits that differ from the daemon's, by the name of `ulimit`'s letter; `None` is unlimited.
    pub limits: BTreeMap<String, Option<u64>>,
    /// `$1`, `$2`, …
    pub positional: Vec<ByteString>,
    /// `$0`, if it is not `bash`.
    pub argv0: Option<ByteString>,
    /// Builtins disabled with `enable -n`.
    pub disabled_builtins: BTreeSet<String>,
    /// `$?`
    pub status: i32,
}

/// What one command changed. Variables and functions one by one, the small parts as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ShellDelta {
    /// New working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<ByteString>,
    /// New directory stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory_stack: Option<Vec<ByteString>>,
    /// Variables that were set (`Some`) or unset (`None`).
    #[serde(with = "bytes::map", skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<ByteString, Option<Variable>>,
    /// Functions that were set (`Some`) or unset (`None`).
    #[serde(with = "bytes::map", skip_serializing_if = "BTreeMap::is_empty")]
    pub functions: BTreeMap<ByteString, Option<Function>>,
    /// All aliases, if any changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aliases: Option<Aliases>,
    /// All options, if any changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Options>,
    /// All traps, if any changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traps: Option<BTreeMap<String, Trap>>,
    /// New umask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// All limits, if any changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<BTreeMap<String, Option<u64>>>,
    /// New positional parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub positional: Option<Vec<ByteString>>,
    /// New `$0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argv0: Option<ByteString>,
    /// All disabled builtins, if any changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled_builtins: Option<BTreeSet<String>>,
    /// New `$?`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<i32>,
}

/// All aliases of a shell.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Aliases(#[serde(with = "bytes::map")] pub BTreeMap<ByteString, ByteString>);

/// The keys of a variable. All but the first name its value; exactly one of those is present.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Key {
    Attributes,
    Value,
    Array,
    Map,
    Declared,
    Removed,
}

/// Written out by hand: a flattened enum is collected as a whole before it is read, and a state is mostly variables.
impl Serialize for Variable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if !self.attributes.is_empty() {
            map.serialize_entry("attributes", &self.attributes)?;
        }
        match &self.value {
            Value::Value(value) => map.serialize_entry("value", value)?,
            Value::Array(elements) => map.serialize_entry("array", elements)?,
            Value::Map(elements) => map.serialize_entry("map", elements)?,
            Value::Declared(kind) => map.serialize_entry("declared", kind)?,
            Value::Removed(removed) => map.serialize_entry("removed", removed)?,
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Variable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(VariableVisitor)
    }
}

struct VariableVisitor;

impl<'de> Visitor<'de> for VariableVisitor {
    type Value = Variable;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a variable")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Variable, A::Error> {
        let (mut attributes, mut value) = (String::new(), None);
        while let Some(key) = map.next_key()? {
            match key {
                Key::Attributes => attributes = map.next_value()?,
                Key::Value => value = Some(Value::Value(map.next_value()?)),
                Key::Array => value = Some(Value::Array(map.next_value()?)),
                Key::Map => value = Some(Value::Map(map.next_value()?)),
                Key::Declared => value = Some(Value::Declared(map.next_value()?)),
                Key::Removed => value = Some(Value::Removed(map.next_value()?)),
            }
        }
        let value = value.ok_or_else(|| A::Error::missing_field("value"))?;
        Ok(Variable { attributes, value })
    }
}

impl Variable {
    /// A string with attributes.
    pub fn scalar(attributes: &str, value: impl Into<ByteString>) -> Self {
        Self { attributes: attributes.to_owned(), value: Value::Value(value.into()) }
    }

    /// Whether child processes see it.
    pub fn is_exported(&self) -> bool {
        self.attributes.contains('x')
    }
}

impl ShellState {
    /// Applies a delta.
    pub fn apply(&mut self, delta: &ShellDelta) {
        apply_map(&mut self.variables, &delta.variables);
        apply_map(&mut self.functions, &delta.functions);
        replace(&mut self.cwd, &delta.cwd);
        replace(&mut self.directory_stack, &delta.directory_stack);
        if let Some(Aliases(aliases)) = &delta.aliases {
            self.aliases = aliases.clone();
        }
        if delta.options.is_some() {
            self.options = delta.options.clone();
        }
        replace(&mut self.traps, &delta.traps);
        if delta.umask.is_some() {
            self.umask = delta.umask;
        }
        replace(&mut self.limits, &delta.limits);
        replace(&mut self.positional, &delta.positional);
        if delta.argv0.is_some() {
            self.argv0 = delta.argv0.clone();
        }
        replace(&mut self.disabled_builtins, &delta.disabled_builtins);
        replace(&mut self.status, &delta.status);
    }

    /// The delta from this state to another.
    pub fn difference(&self, to: &Self) -> ShellDelta {
        ShellDelta {
            cwd: unless_same(&self.cwd, &to.cwd),
            directory_stack: unless_same(&self.directory_stack, &to.directory_stack),
            variables: map_difference(&self.variables, &to.variables),
            functions: map_difference(&self.functions, &to.functions),
            aliases: unless_same(&self.aliases, &to.aliases).map(Aliases),
            options: unless_same(&self.options, &to.options).map(Option::unwrap_or_default),
            traps: unless_same(&self.traps, &to.traps),
            umask: unless_same(&self.umask, &to.umask).flatten(),
            limits: unless_same(&self.limits, &to.limits),
            positional: unless_same(&self.positional, &to.positional),
            argv0: unless_same(&self.argv0, &to.argv0).flatten(),
            disabled_builtins: unless_same(&self.disabled_builtins, &to.disabled_builtins),
            status: unless_same(&self.status, &to.status),
        }
    }

    /// The variables that child processes see, as text.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let exported = self.variables.iter().filter(|(_, variable)| variable.is_exported());
        exported
            .filter_map(|(name, variable)| match &variable.value {
                Value::Value(value) => Some((name.to_text().into_owned(), value.to_text().into_owned())),
                _ => None,
            })
            .collect()
    }
}

impl ShellDelta {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn unless_same<T: Clone + PartialEq>(from: &T, to: &T) -> Option<T> {
    (from != to).then(|| to.clone())
}

fn map_difference<K: Ord + Clone, V: Clone + PartialEq>(
    from: &BTreeMap<K, V>,
    to: &BTreeMap<K, V>,
) -> BTreeMap<K, Option<V>> {
    let gone = from.keys().filter(|name| !to.contains_key(name)).map(|name| (name.clone(), None));
    let new = to.iter().filter(|(name, value)| from.get(name) != Some(value));
    gone.chain(new.map(|(name, value)| (name.clone(), Some(value.clone())))).collect()
}

fn apply_map<V: Clone>(state: &mut BTreeMap<ByteString, V>, delta: &BTreeMap<ByteString, Option<V>>) {
    for (name, value) in delta {
        match value {
            Some(value) => {
                state.insert(name.clone(), value.clone());
            }
            None => {
                state.remove(name);
            }
        }
    }
}

fn replace<T: Clone>(place: &mut T, new: &Option<T>) {
    if let Some(new) = new {
        *place = new.clone();
    }
}
