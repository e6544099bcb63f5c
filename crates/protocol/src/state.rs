//! The state of a session's shell, as clients read it. The stored form differs and may change; this one may not.

use crate::text::Bytes;
use serde::{Deserialize, Serialize};
use shellkeep_session::shell::{DeclaredKind, Options, Trap, Value, Variable};
use shellkeep_session::{ByteString, ShellState, bytes};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Response of `GET /v1/sessions/{id}/state`. Names that are not UTF-8 appear as `base64:…`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StateResponse {
    /// The working directory.
    pub cwd: String,
    /// Exported variables and their values.
    pub env: BTreeMap<String, String>,
    /// Functions and their definitions.
    pub functions: BTreeMap<String, String>,
    /// Aliases and their definitions.
    pub aliases: BTreeMap<String, String>,
    /// Options that are on.
    pub options: OptionsView,
    /// Every variable that differs from a bare bash, exported or not.
    pub variables: BTreeMap<String, VariableView>,
    /// Traps: the command, or an empty text for an ignored signal.
    pub traps: BTreeMap<String, String>,
    /// The umask in octal; `null` if it is the daemon's.
    pub umask: Option<String>,
    /// `$1`, `$2`, …
    pub positional: Vec<Bytes>,
    /// The directory stack below the working directory.
    pub directory_stack: Vec<Bytes>,
    /// Soft resource limits that differ from the daemon's, by the letter of `ulimit`; `null` is unlimited.
    pub limits: BTreeMap<String, Option<u64>>,
    /// Builtins disabled with `enable -n`.
    pub disabled_builtins: Vec<String>,
    /// `$?`
    pub status: i32,
}

/// Options that are on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OptionsView {
    /// Names of `set -o`.
    pub set: Vec<String>,
    /// Names of `shopt`.
    pub shopt: Vec<String>,
}

/// A variable. It has one of `value`, `array`, `map` and `declared`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VariableView {
    /// The letters of `declare`, sorted: `c i l n r t u x`.
    pub attributes: String,
    /// A string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Bytes>,
    /// An indexed array: pairs of index and element.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Vec<serde_json::Value>>>)]
    pub array: Option<Vec<(i64, Bytes)>>,
    /// An associative array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<BTreeMap<String, Bytes>>,
    /// Declared without a value: `scalar`, `array` or `map`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<String>,
}

impl From<ShellState> for StateResponse {
    fn from(state: ShellState) -> Self {
        let env = state.environment();
        Self {
            cwd: text(state.cwd),
            env,
            functions: by_name(state.functions, |function| text(function.source)),
            aliases: by_name(state.aliases, text),
            options: state.options.unwrap_or_else(shellkeep_session::decide::bare_options).into(),
            variables: state.variables.into_iter().filter_map(view).collect(),
            traps: state.traps.into_iter().map(|(name, trap)| (name, trap_text(trap))).collect(),
            umask: state.umask.map(|umask| format!("{umask:04o}")),
            positional: state.positional.into_iter().map(Bytes::from).collect(),
            directory_stack: state.directory_stack.into_iter().map(Bytes::from).collect(),
            limits: state.limits,
            disabled_builtins: state.disabled_builtins.into_iter().collect(),
            status: state.status,
        }
    }
}

impl From<Options> for OptionsView {
    fn from(options: Options) -> Self {
        Self { set: options.set.into_iter().collect(), shopt: options.shopt.into_iter().collect() }
    }
}

fn text(bytes: ByteString) -> String {
    bytes.to_text().into_owned()
}

fn by_name<V, T>(map: BTreeMap<ByteString, V>, value: impl Fn(V) -> T) -> BTreeMap<String, T> {
    map.into_iter().map(|(name, v)| (bytes::map::key_text(&name).into_owned(), value(v))).collect()
}

fn trap_text(trap: Trap) -> String {
    match trap {
        Trap::Ignore => String::new(),
        Trap::Run(command) => text(command),
    }
}

/// A variable that a bare bash has and this session unset is not there, so it is not shown.
fn view((name, variable): (ByteString, Variable)) -> Option<(String, VariableView)> {
    let mut view = VariableView { attributes: variable.attributes, ..VariableView::default() };
    match variable.value {
        Value::Value(value) => view.value = Some(value.into()),
        Value::Array(elements) => {
            view.array = Some(elements.into_iter().map(|(index, element)| (index, element.into())).collect());
        }
        Value::Map(elements) => {
            let named =
                elements.into_iter().map(|(key, element)| (bytes::map::key_text(&key).into_owned(), element.into()));
            view.map = Some(named.collect());
        }
        Value::Declared(kind) => view.declared = Some(kind_name(kind).to_owned()),
        Value::Removed(_) => return None,
    }
    Some((bytes::map::key_text(&name).into_owned(), view))
}

fn kind_name(kind: DeclaredKind) -> &'static str {
    match kind {
        DeclaredKind::Scalar => "scalar",
        DeclaredKind::Array => "array",
        DeclaredKind::Map => "map",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_reads_as_the_contract_says() {
        let mut state = ShellState { cwd: "/w".into(), ..ShellState::default() };
        state.variables.insert("A".into(), Variable::scalar("x", "1"));
        let map = Value::Map(vec![("k".into(), vec![0xff].into())]);
        state.variables.insert("M".into(), Variable { attributes: String::new(), value: map });
        state.variables.insert("GONE".into(), Variable { attributes: String::new(), value: Value::Removed(true) });
        let json = serde_json::to_value(StateResponse::from(state)).unwrap();
        assert_eq!(json["env"], serde_json::json!({"A": "1"}));
        assert_eq!(json["variables"]["M"]["map"]["k"]["base64"], "/w==");
        assert!(json["variables"].get("GONE").is_none());
    }
}
