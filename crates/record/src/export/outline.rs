//! The fields of an event for a person: names and values in indented lines, not JSON.

use serde_json::{Map, Value};

/// Spaces by which what is in a field is indented.
const STEP: usize = 2;
/// Levels that are indented. What is deeper is shown as it was recorded.
const DEEPEST: usize = 8;

/// A value as text: one line if it is simple, an indented line for each field otherwise. Empty fields are left out, so the
/// text may be empty.
pub fn outline(value: &Value) -> String {
    let mut text = String::new();
    put(&mut text, value, 0);
    text.trim_start_matches('\n').to_owned()
}

fn put(text: &mut String, value: &Value, depth: usize) {
    if let Some(line) = simple(value) {
        text.push_str(&line);
    } else if depth == DEEPEST {
        text.push_str(&value.to_string());
    } else if let Value::Object(map) = value {
        for (name, value) in map.iter().filter(|(_, value)| !is_empty(value)) {
            begin(text, depth);
            text.push_str(name);
            text.push_str(if simple(value).is_some() { "  " } else { "" });
            put(text, value, depth + 1);
        }
    } else if let Value::Array(list) = value {
        for value in list.iter().filter(|value| !is_empty(value)) {
            begin(text, depth);
            text.push('-');
            text.push_str(if simple(value).is_some() { " " } else { "" });
            put(text, value, depth + 1);
        }
    }
}

fn begin(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n(' ', depth * STEP));
}

/// A value that fits on the line of its name.
fn simple(value: &Value) -> Option<String> {
    match value {
        // What continues is not to be taken for the next field.
        Value::String(text) => Some(text.replace('\n', "\n    ")),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null => Some(String::new()),
        Value::Array(list) => {
            let is_word = |value: &Value| !matches!(value, Value::Array(_) | Value::Object(_));
            let words = || list.iter().filter_map(simple).collect::<Vec<_>>().join(", ");
            list.iter().all(is_word).then(words)
        }
        Value::Object(map) => variable(map),
    }
}

/// A variable of a shell is its value; bytes that are no text are only mentioned.
fn variable(map: &Map<String, Value>) -> Option<String> {
    match (map.get("value"), map.get("base64"), map.len()) {
        (Some(value), _, 1) => simple(value),
        (Some(value), _, 2) if map.contains_key("attributes") => simple(value),
        (_, Some(_), 1) => Some("(bytes)".to_owned()),
        _ => None,
    }
}

/// Whether there is nothing to tell of a value.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.iter().all(is_empty),
        Value::Object(map) => map.values().all(is_empty),
        Value::Number(_) | Value::Bool(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_lines_and_what_is_empty_is_left_out() {
        let changes = json!({"cwd": "/tmp", "env": {"STAGE": "1"}, "functions": {"set": ["f", "g"]}, "aliases": {}});
        assert_eq!(outline(&changes), "cwd  /tmp\nenv\n  STAGE  1\nfunctions\n  set  f, g");
        let shell = json!({"argv0": null, "variables": {"HOME": {"attributes": "x", "value": "/root"}}});
        assert_eq!(outline(&shell), "variables\n  HOME  /root");
        assert_eq!(outline(&json!([{"pid": 7, "command": "sleep 1"}])), "-\n  command  sleep 1\n  pid  7");
        assert_eq!((outline(&json!({"a": {}, "b": [null]})), outline(&json!("x"))), (String::new(), "x".to_owned()));
        assert_eq!(outline(&json!({"base64": "AA=="})), "(bytes)");
    }

    #[test]
    fn what_is_deep_ends() {
        let deep = (0..100).fold(json!(1), |inner, _| json!({"in": inner}));
        assert_eq!(outline(&deep).lines().count(), DEEPEST);
    }
}
