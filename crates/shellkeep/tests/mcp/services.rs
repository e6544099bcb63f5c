//! Services as a model starts, reads and stops them.

use crate::client::{Answer, Client};
use crate::support::daemon::free_port;
use crate::support::procs::{self, unique_sleep};
use crate::support::{Daemon, Request};
use serde_json::{Value, json};
use std::net::TcpStream;
use std::process::Command;

fn service_id(answer: &Answer) -> String {
    assert!(!answer.is_error(), "{}", answer.text());
    answer.data()["service_id"].as_str().expect("a service has an id").to_owned()
}

/// A web server on a free port, and that port.
fn web() -> (Value, u16) {
    let port = free_port().port();
    let command = format!("python3 -u -m http.server {port} --bind 127.0.0.1");
    (json!({"command": command, "name": "web", "ready_port": port}), port)
}

#[test]
fn a_server_runs_beside_the_session_until_it_is_stopped() {
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    let (arguments, port) = web();
    let started = client.call("start_service", arguments);
    let id = service_id(&started);
    let data = started.data();
    assert_eq!((&data["status"], &data["name"], &data["ports"]), (&json!("running"), &json!("web"), &json!([port])));
    let pid = data["pid"].as_u64().unwrap();
    assert_eq!(
        started.text(),
        format!(
            "{id} (web) is running, pid {pid}, listening on {port}: http://127.0.0.1:{port}\n[read its log with \
             read_output(id=\"{id}\"), stop it with stop_service(service_id=\"{id}\")]"
        )
    );
    assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
    // The session is free meanwhile.
    assert_eq!(client.run("echo free").text(), "free\n");
    let listed = client.call("list_services", json!({}));
    assert_eq!(listed.data()["services"][0]["service_id"], json!(id));
    assert!(listed.text().starts_with(&format!("{id} (web) is running, pid {pid}, listening on {port}")));
    // A model knows it by the name that it gave.
    let log = client.call("read_output", json!({"id": "web"}));
    assert!(log.text().contains(&format!("[{id} (web) is running")), "{}", log.text());
    for (tool, arguments) in [("send_input", json!({"id": "web", "text": "x"})), ("signal", json!({"id": "web"}))] {
        let refused = client.call(tool, arguments);
        assert!(refused.is_error() && refused.text().starts_with(&format!("{id} is a service")), "{}", refused.text());
    }
    let wrong = client.call("read_output", json!({"id": "web", "wait": "1"}));
    assert!(wrong.text().contains("wait: invalid type: string \"1\", expected a number"), "{}", wrong.text());
    // The same as HTTP has it.
    let by_name = daemon.get(&format!("/v1/sessions/{}/services/web", client.session())).json();
    assert_eq!(by_name["service_id"], json!(id), "{by_name}");
    assert_eq!(daemon.get(&format!("/v1/sessions/{}/services/wob", client.session())).status, 404);
    let over_http = daemon.get(&format!("/v1/sessions/{}/services", client.session())).json();
    assert_eq!(over_http["services"][0]["pid"], json!(pid));
    let stopped = client.call("stop_service", json!({"service_id": "web"}));
    assert_eq!(stopped.data()["status"], "stopped", "{}", stopped.text());
    assert!(stopped.text().starts_with(&format!("{id} (web) stopped")), "{}", stopped.text());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert!(!procs::alive(u32::try_from(pid).unwrap()));
    assert_eq!(client.call("list_services", json!({})).data()["services"][0]["status"], "stopped");
    // Once more is no error.
    assert_eq!(client.call("stop_service", json!({"service_id": id})).data()["status"], "stopped");
}

/// A name with a space is no id, so the tools refused it.
#[test]
fn a_service_has_any_name() {
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    let started = client.call("start_service", json!({"command": "exec sleep 1000", "name": "my größe"}));
    let id = service_id(&started);
    let log = client.call("read_output", json!({"id": "my größe"}));
    assert!(log.text().contains(&format!("[{id} (my größe) is running")), "{}", log.text());
    let stopped = client.call("stop_service", json!({"service_id": "my größe"}));
    assert_eq!(stopped.data()["status"], "stopped", "{}", stopped.text());
}

#[test]
fn a_service_has_what_the_session_has() {
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    let mark = unique_sleep();
    client.run("mkdir -p 'a dir'; cd 'a dir'; export STAGE=test; plain=7; greet() { echo \"hi $1\"; }");
    let command = format!("greet ann; echo \"$STAGE $plain $(basename \"$PWD\")\" >&2; echo up; sleep {mark}");
    let started = client.call("start_service", json!({"command": command, "ready_log": "^up$"}));
    let id = service_id(&started);
    assert_eq!(started.data()["status"], "running", "{}", started.text());
    let log = client.call("read_output", json!({"id": id}));
    assert_eq!(log.data()["text"], "hi ann\ntest 7 a dir\nup\n");
    assert_eq!((&log.data()["status"], &log.data()["complete"]), (&json!("running"), &json!(false)));
    assert!(log.text().starts_with("hi ann\ntest 7 a dir\nup\n[") && log.text().contains("is running, pid"));
    // From here on they go their own ways.
    client.run("greet() { echo changed; }; cd /");
    assert_eq!(client.run("greet").text(), "changed\n");
    client.call("stop_service", json!({"service_id": id}));
    assert!(procs::marked(&mark).is_empty());
    let ended = client.call("read_output", json!({"id": id, "offset": 7}));
    assert_eq!((&ended.data()["text"], &ended.data()["complete"]), (&json!("test 7 a dir\nup\n"), &json!(true)));
}

#[test]
fn a_service_that_does_not_make_it_says_why() {
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    let ended = client.call("start_service", json!({"command": "echo out; echo 'port in use' >&2; exit 3"}));
    service_id(&ended);
    assert_eq!((&ended.data()["status"], &ended.data()["exit_code"]), (&json!("exited"), &json!(3)));
    assert!(ended.text().contains("exited: it ended with exit code 3"), "{}", ended.text());
    assert!(ended.text().contains("[its log]\nout\nport in use\n"), "{}", ended.text());
    let failed = client.call("start_service", json!({"command": "no-such-program --serve", "ready_port": 1}));
    assert_eq!((&failed.data()["status"], &failed.data()["exit_code"]), (&json!("failed"), &json!(127)));
    assert!(failed.text().contains("no-such-program: command not found"), "{}", failed.text());
    let silent = client.call("start_service", json!({"command": "true", "ready_log": "x"}));
    assert!(silent.text().contains("[it printed nothing]"), "{}", silent.text());
}

#[test]
fn a_log_is_read_by_place_and_by_pattern() {
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    let command = "for i in {1..20000}; do echo line $i; done; echo needle; exec sleep 600";
    let id = service_id(&client.call("start_service", json!({"command": command, "ready_log": "needle"})));
    let total: u64 = (1..=20000).map(|n: u64| format!("line {n}\n").len() as u64).sum::<u64>() + 7;
    let end = client.call("read_output", json!({"id": id}));
    assert_eq!((&end.data()["total"], &end.data()["next_offset"]), (&json!(total), &json!(total)));
    assert!(end.data()["text"].as_str().unwrap().ends_with("line 20000\nneedle\n"));
    let begin = client.call("read_output", json!({"id": id, "offset": 0}));
    assert!(begin.data()["text"].as_str().unwrap().starts_with("line 1\nline 2\n"));
    let next = begin.data()["next_offset"].as_u64().unwrap();
    assert!(begin.text().contains(&format!("continue with offset={next}]")), "{}", begin.text());
    let (mut offset, mut read) = (0, 0);
    while offset < total {
        let page = client.call("read_output", json!({"id": id, "offset": offset}));
        read += page.data()["text"].as_str().unwrap().len() as u64;
        offset = page.data()["next_offset"].as_u64().unwrap();
    }
    assert_eq!(read, total);
    let tail = |client: &mut Client, lines: u64| {
        client.call("read_output", json!({"id": id, "tail": lines})).data()["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(tail(&mut client, 2), "line 20000\nneedle\n");
    assert!(tail(&mut client, 15_000).ends_with("line 20000\nneedle\n"));
    let found = client.call("read_output", json!({"id": id, "grep": "^(needle|line 7)$"}));
    assert!(found.data()["text"].as_str().unwrap().contains("line 7\n"), "{}", found.text());
    client.call("stop_service", json!({"service_id": id}));
}

/// An agent with a token, on stdio, in a session of its own.
fn agent(daemon: &Daemon, secret: &str, session: &str) -> Client {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.arg("mcp").arg("--socket").arg(daemon.directory().join("s.sock")).args(["--no-start", "-s", session]);
    command.env("SHELLKEEP_TOKEN", secret);
    let mut client = Client::spawn(command, daemon.directory());
    client.shake_hands();
    client
}

#[test]
fn over_quota_the_model_is_told_what_to_stop() {
    let daemon = Daemon::start();
    let token = daemon.post("/v1/tokens", &json!({"agent": "ann"})).json()["token"].as_str().unwrap().to_owned();
    let quota = Request::new("PUT", "/v1/quotas").json(json!({"services_per_agent": 2}).to_string());
    assert_eq!(daemon.send(&quota).status, 200);
    let (mut one, mut two) = (agent(&daemon, &token, "one"), agent(&daemon, &token, "two"));
    let sleep = json!({"command": "exec sleep 600", "name": "sleeper"});
    let first = service_id(&one.call("start_service", sleep.clone()));
    let second = service_id(&two.call("start_service", sleep.clone()));
    let other = json!({"command": "exec sleep 600", "name": "other"});
    let refused = two.call("start_service", other.clone());
    assert!(refused.is_error());
    for part in ["limit of 2 running services", "stop_service", "thread_ann_one", "(quota_exceeded)"] {
        assert!(refused.text().contains(part), "{part}: {}", refused.text());
    }
    // What counts is shown wherever it runs, and can be stopped from wherever one is.
    let listed = two.call("list_services", json!({}));
    let lines: Vec<&str> = listed.text().lines().collect();
    assert!(lines[0].starts_with(&second) && !lines[0].contains("in session"), "{}", listed.text());
    assert!(lines[1].starts_with(&first) && lines[1].contains("in session thread_ann_one"), "{}", listed.text());
    let stopped = two.call("stop_service", json!({"service_id": first, "session": "thread_ann_one"}));
    assert_eq!(stopped.data()["status"], "stopped", "{}", stopped.text());
    let twice = two.call("start_service", sleep);
    assert!(twice.is_error() && twice.text().contains("(service_name_taken)"), "{}", twice.text());
    service_id(&two.call("start_service", other));
}
