//! A wire type as a JSON Schema. The schemas are those of `/openapi.json`, which is the same dialect; only the location
//! of the parts differs.

use rmcp::model::JsonObject;
use serde_json::Value;
use std::sync::Arc;
use utoipa::ToSchema;

/// The self-contained schema of `T`.
fn of<T: ToSchema>() -> Arc<JsonObject> {
    let mut parts = Vec::new();
    T::schemas(&mut parts);
    let mut root = match serde_json::to_value(T::schema()) {
        Ok(Value::Object(root)) => root,
        // Arguments and results of tools are objects; the tests check every one.
        _ => JsonObject::new(),
    };
    let definitions: JsonObject =
        parts.into_iter().map(|(name, part)| (name, serde_json::to_value(part).unwrap_or_default())).collect();
    if !definitions.is_empty() {
        root.insert("$defs".to_owned(), Value::Object(definitions));
    }
    let mut root = Value::Object(root);
    move_references(&mut root);
    match root {
        Value::Object(root) => Arc::new(root),
        _ => Arc::default(),
    }
}

/// The schema of a tool's arguments, as flat as possible. Optional arguments are omitted; `null` would be accepted too,
/// but not every client's model understands `null` or references.
pub fn of_arguments<T: ToSchema>() -> Arc<JsonObject> {
    let mut root = Arc::unwrap_or_clone(of::<T>());
    root.remove("description");
    let definitions = root.remove("$defs").unwrap_or_default();
    // A tool without arguments has an empty object; some clients do not understand a missing field.
    root.entry("properties").or_insert_with(|| Value::Object(JsonObject::new()));
    if let Some(Value::Object(properties)) = root.get_mut("properties") {
        for property in properties.values_mut() {
            if let Value::Object(property) = property {
                without_null(property);
                inline(property, &definitions);
                // The range of a number is in the description or in the error; here it would cost tokens in every
                // conversation.
                ["format", "minimum"].iter().for_each(|key| drop(property.remove(*key)));
            }
        }
    }
    Arc::new(root)
}

/// A schema of arguments without one of them.
pub fn without(mut schema: Arc<JsonObject>, argument: &str) -> Arc<JsonObject> {
    if let Some(Value::Object(properties)) = Arc::make_mut(&mut schema).get_mut("properties") {
        properties.remove(argument);
    }
    schema
}

fn without_null(property: &mut JsonObject) {
    if let Some(Value::Array(types)) = property.get("type")
        && let [one, Value::String(null)] = types.as_slice()
        && null == "null"
    {
        let one = one.clone();
        property.insert("type".to_owned(), one);
    }
    if let Some(Value::Array(choices)) = property.get_mut("oneOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
        if let [Value::Object(only)] = choices.as_slice() {
            *property = only.clone();
        }
    }
}

fn inline(property: &mut JsonObject, definitions: &Value) {
    let Some(Value::String(target)) = property.remove("$ref") else { return };
    let name = target.rsplit('/').next().unwrap_or_default();
    if let Some(Value::Object(definition)) = definitions.get(name) {
        for (key, value) in definition {
            // The argument's own description wins over that of its type.
            property.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
}

fn move_references(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(target)) = fields.get_mut("$ref") {
                *target = target.replace("#/components/schemas/", "#/$defs/");
            }
            fields.values_mut().for_each(move_references);
        }
        Value::Array(items) => items.iter_mut().for_each(move_references),
        _ => {}
    }
}
