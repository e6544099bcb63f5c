//! The values of variables whose names look secret, wherever a recording mentions one. They are masked wherever else they
//! are found: a command that prints `$API_KEY` prints no name.

use crate::line::{Line, Peek};
use crate::read::{ReadError, Recording};
use serde_json::Value;
use shellkeep_redact::{MOST_FOUND, is_maskable, looks_secret};
use shellkeep_session::ShellState;
use shellkeep_session::shell::Value as Variable;
use std::collections::BTreeSet;

/// Names of objects that hold variables: of a shell, of a change of it, of a service.
const HOLDERS: [&str; 2] = ["variables", "env"];

/// Types of lines that can have such an object.
const TYPES: [&str; 7] = [
    "session_created",
    "session_restarted",
    "session_rewound",
    "session_owned",
    "records_lost",
    "tool_call",
    "service_started",
];

/// The values of secret-looking variables in a recording, and in the state of its session if it is given. Reads everything
/// once, but looks closer only at lines that record variables. Ends when they have more than [`MOST_FOUND`] bytes, which
/// cannot be masked.
pub fn secret_values(recording: &Recording, state: Option<&ShellState>) -> Result<Vec<Vec<u8>>, ReadError> {
    secret_values_from(recording, 0, state)
}

/// The same for the lines from a number on.
pub fn secret_values_from(
    recording: &Recording,
    from_seq: u64,
    state: Option<&ShellState>,
) -> Result<Vec<Vec<u8>>, ReadError> {
    let mut values = Values::default();
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
    Ok(values.all.into_iter().collect())
}

/// The values so far. A recording may hold any number.
#[derive(Default)]
struct Values {
    all: BTreeSet<Vec<u8>>,
    bytes: usize,
}

impl Values {
    fn add(&mut self, value: &[u8]) {
        if self.bytes <= MOST_FOUND && is_maskable(value) && !self.all.contains(value) {
            self.bytes += value.len();
            self.all.insert(value.to_vec());
        }
    }
}

fn from_variable(value: &Variable, values: &mut Values) {
    match value {
        Variable::Value(text) => values.add(&text.0),
        Variable::Array(list) => list.iter().for_each(|(_, text)| values.add(&text.0)),
        Variable::Map(list) => list.iter().for_each(|(_, text)| values.add(&text.0)),
        Variable::Declared(_) | Variable::Removed(_) => {}
    }
}

fn from_data(data: &Value, values: &mut Values) {
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

fn texts(value: &Value, values: &mut Values) {
    match value {
        Value::String(text) => values.add(text.as_bytes()),
        Value::Array(list) => list.iter().for_each(|value| texts(value, values)),
        Value::Object(map) => {
            map.iter().filter(|(name, _)| *name != super::ATTRIBUTES).for_each(|(_, value)| texts(value, values));
        }
        _ => {}
    }
}
