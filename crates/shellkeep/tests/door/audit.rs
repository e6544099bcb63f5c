//! The audit trail: what changes rights or removes something, and who was refused.

use crate::support::{Daemon, Door, Request, Settings, bash};
use serde_json::{Value, json};
use std::process::{Command, Stdio};

fn entries(daemon: &Daemon) -> Vec<(String, String, String, String)> {
    let list = daemon.get("/v1/audit").json();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    let entry = |entry: &Value| {
        let object = format!("{} {}", text(entry, "object"), text(entry, "code")).trim_end().to_owned();
        (text(entry, "door"), text(entry, "who"), text(entry, "what"), object)
    };
    list["audit"].as_array().unwrap().iter().map(entry).collect()
}

fn is(door: &str, who: &str, what: &str, object: &str) -> (String, String, String, String) {
    (door.to_owned(), who.to_owned(), what.to_owned(), object.to_owned())
}

/// Refusals were in no log, and a removed session left one line without a name.
#[test]
fn what_changes_rights_and_who_was_refused_is_on_record() {
    let mut daemon = Daemon::with(Settings::default().tcp());
    let made = daemon.post("/v1/tokens", &json!({"agent": "ann"})).json();
    let (id, secret) = (made["id"].as_str().unwrap().to_owned(), made["token"].as_str().unwrap().to_owned());
    let bearer = |token: &str| format!("Bearer {token}");
    let as_ann = |method: &str, target: &str| {
        Request::new(method, target).header("authorization", &bearer(&secret)).send(&daemon.tcp_door()).unwrap().status
    };
    let create = Request::new("POST", "/v1/sessions").header("authorization", &bearer(&secret));
    assert_eq!(create.json(json!({"session_id": "x"}).to_string()).send(&daemon.tcp_door()).unwrap().status, 201);
    assert_eq!(as_ann("GET", "/v1/tokens?a=secret"), 403);
    assert_eq!(Request::new("GET", "/v1/sessions").send(&daemon.tcp_door()).unwrap().status, 401);
    daemon.destroy("thread_ann_x");
    assert_eq!(daemon.send(&Request::new("DELETE", &format!("/v1/tokens/{id}"))).status, 204);
    assert_eq!(as_ann("GET", "/v1/audit"), 401);
    let expected = [
        is("socket", "host", "create_token", &format!("{id} of ann")),
        is("tcp", &id, "refused", "GET /v1/tokens not_allowed"),
        is("tcp", "unknown", "refused", "GET /v1/sessions unauthorized"),
        is("socket", "host", "destroy", "thread_ann_x"),
        is("socket", "host", "revoke_token", &id),
        is("tcp", "unknown", "refused", "GET /v1/audit unauthorized"),
    ];
    assert_eq!(entries(&daemon), expected);
    let agents: Vec<Value> = daemon.get("/v1/audit").json()["audit"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["agent"].clone())
        .collect();
    assert_eq!(agents, [json!(null), json!("ann"), json!(null), json!(null), json!(null), json!(null)]);
    assert!(daemon.log().contains("refused") && !daemon.log().contains(&secret), "{}", daemon.log());
    // It is still there after a crash, and the command line shows it.
    daemon.restart();
    assert_eq!(entries(&daemon), expected);
    let Door::Socket(socket) = daemon.door() else { panic!("a socket") };
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.env_clear().envs(bash::environment()).stdin(Stdio::null()).args(["audit", "-n", "1", "--socket"]);
    let shown = String::from_utf8(command.arg(&socket).output().unwrap().stdout).unwrap();
    assert!(shown.contains("GET /v1/audit") && shown.lines().count() == 1, "{shown}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.env_clear().envs(bash::environment()).stdin(Stdio::null()).args(["audit", "--socket"]);
    let shown = String::from_utf8(command.arg(socket).output().unwrap().stdout).unwrap();
    assert!(shown.contains("agent ann") && !shown.contains(&format!("{id}  refused")), "{shown}");
}

#[test]
fn a_flood_of_refusals_does_not_fill_the_disk() {
    let daemon = Daemon::with(Settings::default().tcp());
    for _ in 0..200 {
        assert_eq!(Request::new("GET", "/v1/sessions").send(&daemon.tcp_door()).unwrap().status, 401);
    }
    let list = daemon.get("/v1/audit?limit=10000").json();
    let (kept, left_out) = list["audit"]
        .as_array()
        .unwrap()
        .iter()
        .fold((0, 0), |(kept, left_out), entry| (kept + 1, left_out + entry["left_out"].as_u64().unwrap()));
    assert!(kept >= 20 && kept + left_out <= 200, "{kept} kept, {left_out} left out");
    let lines = daemon.log().lines().filter(|line| line.contains("refused")).count() as u64;
    assert_eq!(lines, kept);
}
