//! The values of variables whose names look secret, wherever a recording mentions one. They are masked wherever else they
//! are found: a command that prints `$API_KEY` prints no name.

use crate::line::{Line, Peek};
use crate::read::{ReadError, Recording};
use serde_json::Value;
use shellkeep_redact::looks_secret;
use shellkeep_session::ShellState;
use shellkeep_session::shell::Value as Variable;
use std::collections::BTreeSet;

/// Names of objects that hold variables: of a shell, of a change of it, of a service.
const HOLDERS: [&str; 2] = ["variables", "env"];

/// Types of lines that can have such an object.
const TYPES: [&str; 5] = ["session_created", "session_restarted", "session_rewound", "tool_call", "service_started"];

/// The values of secret-looking variables in a recording, and in the state of its session if it is given. Reads everything
/// once, but looks closer only at lines that record variables.
pub fn secret_values(recording: &Recording, state: Option<&ShellState>) -> Result<Vec<Vec<u8>>, ReadError> {
    secret_values_from(recording, 0, state)
}

/// The same for the lines from a number on.
pub fn secret_values_from(
    recording: &Recording,
    from_seq: u64,
    state: Option<&ShellState>,
) -> Result<Vec<Vec<u8>>, ReadError> {
    let mut values = BTreeSet::new();
    for (name, variable) in state.iter().flat_map(|state| &state.variables) {
        if looks_secret(&name.to_text()) {
            from_variable(&variable.value, &mut values);
        }
    }
    recording.each_with(from_seq, &HOLDERS, |bytes| {
        if !Peek::at(bytes).is_some_and(|peek| TYPES.contains(&&*peek.event_type)) {
            return;
        }
        // What cannot be read cannot be shown either.
        if let Ok(line) = Line::parse(bytes)
            && !line.author.is_posted()
        {
            from_data(&line.data, &mut values);
        }
    })?;
    Ok(values.into_iter().collect())
}

fn from_variable(value: &Variable, values: &mut BTreeSet<Vec<u8>>) {
    match value {
        Variable::Value(text) => drop(values.insert(text.0.clone())),
        Variable::Array(list) => values.extend(list.iter().map(|(_, text)| text.0.clone())),
        Variable::Map(list) => values.extend(list.iter().map(|(_, text)| text.0.clone())),
        Variable::Declared(_) | Variable::Removed(_) => {}
    }
}

fn from_data(data: &Value, values: &mut BTreeSet<Vec<u8>>) {
    let Value::Object(map) = data else { return };
    for (name, value) in map {
        match value {
            Value::Object(holder) if HOLDERS.contains(&name.as_str()) => {
                for (_, value) in holder.iter().filter(|(name, _)| looks_secret(name)) {
                    texts(value, values);
                }
            }
            other => from_data(other, values),
        }
    }
}

fn texts(value: &Value, values: &mut BTreeSet<Vec<u8>>) {
    match value {
        Value::String(text) => drop(values.insert(text.clone().into_bytes())),
        Value::Array(list) => list.iter().for_each(|value| texts(value, values)),
        Value::Object(map) => {
            map.iter().filter(|(name, _)| *name != super::ATTRIBUTES).for_each(|(_, value)| texts(value, values));
        }
        _ => {}
    }
}
