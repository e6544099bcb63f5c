//! What `deploy/` has for many nodes: the script behind `make cluster`, the compose file, the Kubernetes manifests. Nothing in
//! them may name a setting, a command or a path that the program does not have.

use crate::support::skip;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file)
}

fn shellkeep(words: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.args(words).envs(variables.iter().copied()).output().expect("it runs")
}

/// The documents of a YAML file. `None` if they cannot be read here.
fn documents(file: &str) -> Option<Vec<Value>> {
    let script = "import json, sys, yaml; json.dump(list(yaml.safe_load_all(open(sys.argv[1]))), sys.stdout)";
    let read = Command::new("python3").arg("-c").arg(script).arg(deploy(file)).output().expect("python3 is installed");
    let error = String::from_utf8_lossy(&read.stderr);
    if error.contains("No module named 'yaml'") {
        skip("python3 has no yaml (Debian: python3-yaml)");
        return None;
    }
    assert!(read.status.success(), "{file}: {error}");
    Some(serde_json::from_slice(&read.stdout).expect("JSON"))
}

/// Every `SHELLKEEP_…` of a file is a setting, or one of the secrets that are no settings.
fn check_variables(file: &str) {
    let settings = shellkeep(&["config", "--json"], &[("SHELLKEEP_DATA", "/nowhere")]);
    let settings: Value = serde_json::from_slice(&settings.stdout).expect("JSON");
    let known: BTreeSet<String> = settings["settings"]
        .as_object()
        .expect("settings by name")
        .keys()
        .map(|name| format!("SHELLKEEP_{}", name.to_uppercase().replace('.', "_")))
        .chain(["SHELLKEEP_TOKEN", "SHELLKEEP_CLUSTER_SECRET"].map(str::to_owned))
        .collect();
    let text = std::fs::read_to_string(deploy(file)).expect("the file");
    let is_part = |char: char| !(char.is_ascii_uppercase() || char == '_');
    let used: BTreeSet<&str> = text.split(is_part).filter(|word| word.starts_with("SHELLKEEP_")).collect();
    assert!(used.len() >= 5, "{file}: {used:?}");
    for name in used {
        assert!(known.contains(name), "{file}: {name} is none of {known:?}");
    }
}

fn words(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().map(|word| word.as_str().expect("a string")).collect()
}

#[test]
fn the_compose_file_starts_nodes_that_reach_each_other() {
    let Some(documents) = documents("compose.yaml") else { return };
    check_variables("compose.yaml");
    let services = documents[0]["services"].as_object().expect("services");
    let mut ports = BTreeSet::new();
    for name in ["n1", "n2", "n3"] {
        let node = &services[name];
        let environment = &node["environment"];
        assert_eq!(environment["SHELLKEEP_NODE"], *name);
        assert_eq!(environment["SHELLKEEP_ADVERTISE"], format!("http://{name}:7433"));
        let store = environment["SHELLKEEP_STORE"].as_str().expect("a store");
        let host = store.strip_prefix("redis://").and_then(|rest| rest.split(':').next()).expect("a host");
        assert!(services.contains_key(host), "{store}");
        assert!(ports.insert(words(&node["ports"])[0]), "two nodes on one port");
        let [volume] = words(&node["volumes"])[..] else { panic!("one volume") };
        let (volume, path) = volume.split_once(':').expect("a volume and a path");
        assert!(documents[0]["volumes"].as_object().expect("volumes").contains_key(volume));
        let image = std::fs::read_to_string(deploy("container/Containerfile")).expect("the container file");
        assert!(image.contains(&format!("VOLUME {path}\n")), "{path}");
        let checked = shellkeep(
            &["config", "--check"],
            &[
                ("SHELLKEEP_DATA", "/nowhere"),
                ("SHELLKEEP_STORE", store),
                ("SHELLKEEP_NODE", name),
                ("SHELLKEEP_ADVERTISE", environment["SHELLKEEP_ADVERTISE"].as_str().expect("a URL")),
                ("SHELLKEEP_STOP_GRACE", environment["SHELLKEEP_STOP_GRACE"].as_str().expect("a duration")),
            ],
        );
        assert!(checked.status.success(), "{checked:?}");
    }
}

#[test]
fn the_manifests_name_what_there_is() {
    let Some(documents) = documents("kubernetes/shellkeep.yaml") else { return };
    check_variables("kubernetes/shellkeep.yaml");
    let of_kind = |kind: &'static str| documents.iter().filter(move |document| document["kind"] == kind);
    let set = of_kind("StatefulSet").next().expect("a StatefulSet");
    let labels = &set["spec"]["template"]["metadata"]["labels"];
    assert_eq!(set["spec"]["selector"]["matchLabels"], *labels);
    for service in of_kind("Service") {
        assert_eq!(service["spec"]["selector"], *labels);
    }
    let governing = of_kind("Service").find(|service| service["metadata"]["name"] == set["spec"]["serviceName"]);
    let governing = governing.expect("the StatefulSet's own service");
    assert_eq!(
        (&governing["spec"]["clusterIP"], &governing["spec"]["publishNotReadyAddresses"]),
        (&"None".into(), &true.into())
    );

    let pod = &set["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let mut arguments = words(&container["args"]);
    assert_eq!(arguments.remove(0), "serve");
    let checked = shellkeep(&[&["config", "--check"], &arguments[..]].concat(), &[("SHELLKEEP_DATA", "/nowhere")]);
    assert!(checked.status.success(), "{checked:?}");
    let routes = include_str!("../../../server/src/http.rs");
    for probe in ["startupProbe", "livenessProbe"] {
        // The one path that needs no token.
        let path = container[probe]["httpGet"]["path"].as_str().expect("a path");
        assert!(path == "/healthz" && routes.contains(&format!(".route(\"{path}\"")), "{path}");
        assert_eq!(container[probe]["httpGet"]["port"], container["ports"][0]["name"]);
    }
    let ready = words(&container["readinessProbe"]["exec"]["command"]);
    let syntax = Command::new("bash").arg("-nc").arg(ready[2]).output().expect("bash");
    assert!(syntax.status.success() && ready[2].starts_with("shellkeep status "), "{syntax:?}");

    // The drain is a command that parses, and ends before the pod is killed.
    let drain = words(&container["lifecycle"]["preStop"]["exec"]["command"]);
    let parsed = shellkeep(&[&drain[1..], &["--socket", "/nowhere/s.sock", "--help"]].concat(), &[]);
    assert!(drain[0] == "shellkeep" && parsed.status.success(), "{parsed:?}");
    let seconds: u64 = drain.last().and_then(|word| word.parse().ok()).expect("a number of seconds");
    let grace =
        container["env"].as_array().expect("variables").iter().find(|env| env["name"] == "SHELLKEEP_STOP_GRACE");
    let grace = grace.and_then(|env| env["value"].as_str()?.strip_suffix('s')?.parse::<u64>().ok()).expect("seconds");
    assert!(seconds + grace < pod["terminationGracePeriodSeconds"].as_u64().expect("a number"));
}

/// What `make cluster` starts, tried by itself: a command through each node, one node killed, one drained.
#[test]
fn the_cluster_on_one_machine_works() {
    let tried = Command::new(deploy("cluster.sh")).arg(env!("CARGO_BIN_EXE_shellkeep")).arg("--check").output();
    let tried = tried.expect("bash runs it");
    let (out, error) = (String::from_utf8_lossy(&tried.stdout), String::from_utf8_lossy(&tried.stderr));
    assert!(tried.status.success() && out.contains("ok: the session went on"), "{out}\n{error}");
}
