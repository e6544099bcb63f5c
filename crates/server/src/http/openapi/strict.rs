//! What the server requires beyond the types of its fields: ids, moments, base64, names of variables, which fields go
//! together. `strict.json` has it as JSON merge patches (RFC 7396), which are applied here. The test with schemathesis
//! finds where the document and the server differ.

use serde_json::{Map, Value, json};
use shellkeep_session::QuotaName;

/// Patches for parameters (`[OPERATION ]IN NAME`), schemas and operations, and operations whose parameters may not be empty.
const STRICT: &str = include_str!("strict.json");

/// The document with everything that the server requires.
pub fn strict(mut document: Value) -> Value {
    let rules: Value = serde_json::from_str(STRICT).unwrap_or_default();
    if let Some(schemas) = rules["schemas"].as_object() {
        for (name, patch) in schemas {
            merge(&mut document["components"]["schemas"][name], patch);
        }
    }
    document["components"]["schemas"]["QuotasRequest"]["properties"] = quotas();
    document["components"]["schemas"]["QuotasRequest"]["additionalProperties"] = Value::Bool(false);
    let mut paths = document["paths"].take();
    for operation in paths.as_object_mut().into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
        operation.values_mut().for_each(|operation| tighten(operation, &rules));
    }
    for operation in paths.as_object_mut().into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
        operation.values_mut().for_each(|operation| may_be_empty(operation, &document["components"]["schemas"]));
    }
    document["paths"] = paths;
    whole_range(&mut document);
    document
}

fn tighten(operation: &mut Value, rules: &Value) {
    let name = operation["operationId"].as_str().unwrap_or_default().to_owned();
    let is_blank = !rules["not_blank"].as_array().is_some_and(|list| list.contains(&Value::from(name.as_str())));
    for parameter in operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
        let place = parameter["in"].as_str().unwrap_or_default().to_owned();
        let key = format!("{place} {}", parameter["name"].as_str().unwrap_or_default());
        for key in [format!("{name} {key}"), key] {
            if let Some(patch) = rules["parameters"].get(&key) {
                merge(&mut parameter["schema"], patch);
            }
        }
        if place == "query" && is_blank {
            blank(&mut parameter["schema"]);
        }
    }
    if let Some(patch) = rules["operations"].get(&name) {
        merge(operation, patch);
    }
}

/// `?limit=` is the same as no `limit` at all.
fn blank(schema: &mut Value) {
    if schema["type"] == "string" && schema.get("pattern").is_none() {
        return;
    }
    let default = schema.as_object_mut().and_then(|schema| schema.remove("default"));
    *schema = json!({"anyOf": [schema.take(), {"type": "string", "maxLength": 0}]});
    if let Some(default) = default {
        schema["default"] = default;
    }
}

/// A body whose fields are all optional is optional itself.
fn may_be_empty(operation: &mut Value, schemas: &Value) {
    let Some(body) = operation.get_mut("requestBody") else { return };
    let reference = body["content"]["application/json"]["schema"]["$ref"].as_str().unwrap_or_default();
    let schema = &schemas[reference.rsplit('/').next().unwrap_or_default()];
    if schema.is_object() && schema.get("required").is_none() && schema.get("anyOf").is_none() {
        body["required"] = Value::Bool(false);
    }
}

/// Each quota has its bounds.
fn quotas() -> Value {
    let quota = |name: QuotaName| {
        let (least, most) = name.bounds();
        (name.as_str().to_owned(), json!({"type": ["integer", "null"], "minimum": least, "maximum": most}))
    };
    Value::Object(QuotaName::ALL.into_iter().map(quota).collect())
}

/// Unsigned numbers use all their bits; `int64` would lack one.
fn whole_range(value: &mut Value) {
    match value {
        Value::Object(map) => {
            let most = match map.get("format").and_then(Value::as_str) {
                Some("int64") => Some(u64::MAX),
                Some("int32") => Some(u64::from(u32::MAX)),
                _ => None,
            };
            if let Some(most) = most.filter(|_| map.get("minimum") == Some(&Value::from(0))) {
                map.remove("format");
                map.entry("maximum").or_insert(most.into());
            }
            map.values_mut().for_each(whole_range);
        }
        Value::Array(list) => list.iter_mut().for_each(whole_range),
        _ => {}
    }
}

/// A JSON merge patch: null removes a field, objects are merged, everything else replaces.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            merge(target.entry(name).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_about_something() {
        let rules: Value = serde_json::from_str(STRICT).unwrap();
        let document = serde_json::to_value(super::super::described()).unwrap();
        for name in rules["schemas"].as_object().unwrap().keys() {
            assert!(document["components"]["schemas"].get(name).is_some(), "{name}");
        }
        let operations: Vec<&Value> = document["paths"]
            .as_object()
            .unwrap()
            .values()
            .flat_map(|path| path.as_object().unwrap().values())
            .collect();
        let known = |name: &str| operations.iter().any(|operation| operation["operationId"] == name);
        for name in rules["operations"].as_object().unwrap().keys() {
            assert!(known(name), "{name}");
        }
        for key in rules["parameters"].as_object().unwrap().keys() {
            let mut words: Vec<&str> = key.split(' ').collect();
            let (name, place) = (words.pop().unwrap(), words.pop().unwrap());
            let has = |operation: &&&Value| {
                let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
                words.first().is_none_or(|wanted| operation["operationId"] == *wanted)
                    && parameters.iter().any(|given| given["name"] == name && given["in"] == place)
            };
            assert!(operations.iter().find(has).is_some(), "{key}");
        }
    }

    #[test]
    fn a_parameter_may_be_left_empty_and_a_number_has_all_its_bits() {
        let document = strict(serde_json::to_value(super::super::described()).unwrap());
        let list = &document["paths"]["/v1/sessions/{session_id}/events"]["get"]["parameters"];
        let after = list.as_array().unwrap().iter().find(|parameter| parameter["name"] == "after").unwrap();
        assert_eq!(after["schema"]["anyOf"][0]["maximum"], json!(u64::MAX));
        assert_eq!(after["schema"]["anyOf"][1]["maxLength"], json!(0));
        assert_eq!(document["paths"]["/v1/sessions"]["post"]["requestBody"]["required"], json!(false));
        assert_eq!(document["paths"]["/v1/sessions/{session_id}/run"]["post"]["requestBody"]["required"], json!(true));
    }
}
