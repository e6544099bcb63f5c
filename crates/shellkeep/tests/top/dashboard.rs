//! The Grafana dashboard asks only for figures that there are: every metric it names, and every label it sorts by, is in
//! `/metrics` of a daemon that has worked.

use crate::support::{Daemon, Settings, services};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const DASHBOARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/grafana/shellkeep.json");

const OPERATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operate.md");

/// Labels that whoever scrapes adds.
const SCRAPED: [&str; 1] = ["instance"];

/// Metrics that only nodes with a shared store have; `place/all_nodes.rs` looks at them.
const OF_A_CLUSTER: [&str; 4] =
    ["shellkeep_cluster_nodes", "shellkeep_forwards_total", "shellkeep_shared_store_up", "shellkeep_takeovers_total"];

/// The labels of each metric in Prometheus' text format.
fn metrics(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (name, rest) = line.split_once(['{', ' ']).unwrap_or((line, ""));
        let labels = rest.split_once('}').map_or("", |(labels, _)| labels);
        let names = labels.split(',').filter_map(|label| label.split_once('=')).map(|(name, _)| name.to_owned());
        found.entry(name.to_owned()).or_default().extend(names);
    }
    found
}

/// All expressions in a dashboard, wherever they are.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("expr").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|value| expressions(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| expressions(value, found)),
        _ => {}
    }
}

/// The words of an expression.
fn words(expression: &str) -> impl Iterator<Item = &str> {
    expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

/// Labels that an expression picks by (`name=`, `name!~`) or sums by (`by (name)`).
fn labels(expression: &str) -> BTreeSet<String> {
    let picked = expression.match_indices(['=', '!']).filter_map(|(place, _)| words(&expression[..place]).last());
    let summed = expression.split("by (").skip(1).flat_map(|rest| words(rest.split(')').next().unwrap_or_default()));
    // `!=` and `=~` are one sign; what stands before their second half is the same word.
    picked.chain(summed).map(str::to_owned).collect()
}

#[test]
fn it_names_only_what_there_is() {
    // History has metrics when it is on, whether or not its database answers.
    let settings = Settings::default().env("SHELLKEEP_HISTORY", "postgres://nobody@127.0.0.1:1/history");
    let daemon = Daemon::with(settings.env("SHELLKEEP_SPARE_SHELLS", "1"));
    daemon.create("demo");
    daemon.sh("demo", "echo worked");
    let service = daemon.start_service("demo", json!({"command": "echo up; read -r nothing < <(sleep 1000)"}));
    daemon.stop_service("demo", services::id(&service));
    // The store writes a moment later than it answers.
    let text = shellkeep_poll::until("the store has written", || {
        let text = daemon.get("/metrics").text();
        text.contains("shellkeep_store_applied_total").then_some(text)
    });
    let known = metrics(&text);

    let dashboard: Value = serde_json::from_slice(&std::fs::read(DASHBOARD).unwrap()).unwrap();
    let mut asked = Vec::new();
    expressions(&dashboard, &mut asked);
    assert!(asked.len() > 30, "only {} expressions were found", asked.len());
    let mut wrong = Vec::new();
    for expression in &asked {
        let names: Vec<&str> = words(expression).filter(|word| word.starts_with("shellkeep_")).collect();
        assert!(!names.is_empty(), "nothing of ours in {expression}");
        wrong.extend(names.iter().filter(|name| !known.contains_key(**name)).map(|name| format!("no metric {name}")));
        for label in labels(expression).iter().filter(|label| !SCRAPED.contains(&label.as_str())) {
            let has = |name: &&str| known.get(*name).is_none_or(|labels| labels.contains(label));
            wrong.extend(names.iter().filter(|name| !has(name)).map(|name| format!("{name} has no label {label}")));
        }
    }
    // The alarms of the page for those who run it, too.
    let page = std::fs::read_to_string(OPERATE).unwrap();
    let alarms: Vec<&str> = words(&page).filter(|word| word.starts_with("shellkeep_")).collect();
    assert!(alarms.len() > 10, "only {} metrics in operate.md", alarms.len());
    let is_known = |name: &str| known.contains_key(name) || OF_A_CLUSTER.contains(&name);
    wrong.extend(alarms.iter().filter(|name| !is_known(name)).map(|name| format!("operate.md: {name}")));
    wrong.sort();
    wrong.dedup();
    assert!(wrong.is_empty(), "{}\nin the metrics:\n{text}", wrong.join("\n"));
}

#[test]
fn it_works_in_any_grafana() {
    let dashboard: Value = serde_json::from_slice(&std::fs::read(DASHBOARD).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().expect("panels");
    let ids: BTreeSet<i64> = panels.iter().map(|panel| panel["id"].as_i64().expect("a panel has an id")).collect();
    assert_eq!(ids.len(), panels.len(), "two panels have the same id");
    let drawn: Vec<&Value> = panels.iter().filter(|panel| panel["type"] != "row").collect();
    for panel in &drawn {
        assert_eq!(panel["datasource"], json!({"type": "prometheus", "uid": "${datasource}"}), "{}", panel["title"]);
        assert!(panel["description"].as_str().is_some_and(|text| text.ends_with('.')), "{}", panel["title"]);
    }
    // Panels lie beside each other and not on each other.
    let mut cells = BTreeSet::new();
    for panel in panels {
        let at = |name: &str| panel["gridPos"][name].as_u64().expect("a place");
        assert!(at("x") + at("w") <= 24, "{} is off the grid", panel["title"]);
        for (x, y) in (at("x")..at("x") + at("w")).flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y))) {
            assert!(cells.insert((x, y)), "{} lies on another panel", panel["title"]);
        }
    }
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    assert!(variables.iter().any(|variable| variable["name"] == "datasource" && variable["query"] == "prometheus"));
}
