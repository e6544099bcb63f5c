//! Services, quotas and ends at the doors: over HTTP as a program asks for them, and on the command line.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

mod support;

use serde_json::{Value, json};
use shellkeep_poll::until;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Command, Output, Stdio};
use support::daemon::free_port;
use support::procs::{self, unique_sleep};
use support::{Daemon, Door, Request, Response, Settings, bash};

fn start(daemon: &Daemon, session: &str, body: &Value) -> Value {
    let answer = daemon.post(&format!("/v1/sessions/{session}/services"), body);
    assert_eq!(answer.status, 201, "{body}: {}", answer.text());
    answer.json()
}

fn put(daemon: &Daemon, body: &str) -> Response {
    daemon.send(&Request::new("PUT", "/v1/quotas").json(body))
}

#[test]
fn a_service_over_http() {
    let daemon = Daemon::start();
    daemon.create("s");
    let port = free_port().port();
    let command = format!("python3 -u -m http.server {port} --bind 127.0.0.1");
    let url = format!("http://127.0.0.1:{port}/");
    let service = start(
        &daemon,
        "s",
        &json!({"command": command, "name": "web", "ready": url, "restart": "on-failure", "env": {"A": "1"}, "wait": 30}),
    );
    for (field, expected) in [
        ("session_id", json!("s")),
        ("agent", Value::Null),
        ("name", json!("web")),
        ("command", json!(command)),
        ("status", json!("running")),
        ("ports", json!([port])),
        ("restart", json!("on_failure")),
        ("restarts", json!(0)),
    ] {
        assert_eq!(service[field], expected, "{field} of {service}");
    }
    assert!(service["processes"].as_u64().unwrap() >= 1 && service["started_at"].as_str().unwrap().ends_with('Z'));
    for absent in ["ended_at", "exit_code", "signal"] {
        assert!(service.get(absent).is_none(), "{absent} of {service}");
    }
    let id = service["service_id"].as_str().unwrap();
    let path = format!("/v1/sessions/s/services/{id}");
    assert_eq!(daemon.get(&path).json()["pid"], service["pid"]);
    assert_eq!(daemon.get("/v1/services").json()["services"][0]["service_id"], json!(id));
    // The server tells of a request after it has answered it.
    let follow = Request::new("GET", &format!("{path}/logs")).header("accept", "text/event-stream");
    let mut events = follow.open(&daemon.door()).unwrap();
    while !events.next_event().expect("the log goes on").data.contains("GET / HTTP") {}
    let log = daemon.get(&format!("{path}/logs?grep=GET")).json();
    assert!(log["text"].as_str().unwrap().starts_with("127.0.0.1 - - ["), "{log}");
    // A body without fields may be left out.
    let stopped = daemon.send(&Request::new("POST", &format!("{path}/stop")));
    assert_eq!((stopped.status, &stopped.json()["status"]), (200, &json!("stopped")), "{}", stopped.text());
    assert!(stopped.json()["ended_at"].is_string());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert_eq!(daemon.get("/v1/services").json(), json!({"services": []}));
    assert_eq!(daemon.get("/v1/sessions/s/services").json()["services"][0]["status"], "stopped");
    let deleted = daemon.send(&Request::new("DELETE", &path));
    assert_eq!(deleted.refused(), (405, "method_not_allowed".to_owned()));
}

#[test]
fn a_log_is_followed_to_its_end() {
    let daemon = Daemon::start();
    daemon.create("s");
    let command = "printf 'h\\303'; printf '\\251\\n'; until [ -e go ]; do sleep 0.01; done; printf '\\377'; exit 4";
    let service = start(&daemon, "s", &json!({"command": command}));
    let path = format!("/v1/sessions/s/services/{}/logs", service["service_id"].as_str().unwrap());
    let request = Request::new("GET", &path).header("accept", "text/event-stream");
    let mut events = request.open(&daemon.door()).unwrap();
    let mut text = String::new();
    let mut offset = 0;
    while text != "hé\n" {
        let event = events.next_event().expect("the log goes on");
        let data: Value = serde_json::from_str(&event.data).unwrap();
        assert_eq!((event.event.as_str(), &data["offset"]), ("log", &json!(offset)));
        assert!(data.get("base64").is_none(), "text stays text: {data}");
        text += data["text"].as_str().unwrap();
        offset = data["next_offset"].as_u64().unwrap();
    }
    daemon.sh("s", "touch go");
    let last = events.next_event().unwrap();
    let data: Value = serde_json::from_str(&last.data).unwrap();
    assert_eq!((&data["base64"], &data["offset"]), (&json!("/w=="), &json!(4)));
    let end = events.next_event().unwrap();
    let service: Value = serde_json::from_str(&end.data).unwrap();
    assert_eq!((end.event.as_str(), &service["exit_code"]), ("end", &json!(4)), "{service}");
    assert_eq!(events.next_event(), None);
    let tail = Request::new("GET", &format!("{path}?tail=2")).header("accept", "text/event-stream");
    let first = tail.open(&daemon.door()).unwrap().next_event().unwrap();
    assert!(first.data.contains("\"offset\":3,\"next_offset\":5"), "{first:?}");
    let page = daemon.get(&format!("{path}?limit=3")).json();
    assert_eq!((&page["text"], &page["next_offset"]), (&json!("hé"), &json!(3)));
    assert_eq!((&page["total"], &page["first"], &page["complete"]), (&json!(5), &json!(0), &json!(true)));
    let both = Request::new("GET", &format!("{path}?grep=x")).header("accept", "text/event-stream");
    assert_eq!(daemon.send(&both).refused(), (400, "invalid_request".to_owned()));
}

#[test]
fn a_command_in_the_background_is_listed_and_stopped_as_a_service() {
    let daemon = Daemon::start();
    daemon.create("s");
    let mark = unique_sleep();
    let command = format!("echo begun; sleep {mark}");
    let run = daemon.run("s", json!({"command": command, "timeout": 0.5, "on_timeout": "background"}));
    assert_eq!(run.status(), "running");
    let listed = daemon.get("/v1/services").json();
    assert_eq!(
        (&listed["services"][0]["service_id"], &listed["services"][0]["command"]),
        (&json!(run.run_id()), &json!(command))
    );
    let path = format!("/v1/sessions/s/services/{}", run.run_id());
    // Bash and `sleep`; the view had no process, and its start was computed anew each time.
    let view = daemon.get(&path).json();
    assert_eq!(view["processes"], json!(2), "{view}");
    assert!(view["pid"].is_u64() && view == daemon.get(&path).json(), "{view}");
    assert_eq!(daemon.get(&format!("{path}/logs")).json()["text"], "begun\n");
    assert_eq!(daemon.post(&format!("{path}/stop"), &json!({})).json()["status"], "stopped");
    assert!(procs::marked(&mark).is_empty());
    assert_eq!(daemon.get("/v1/services").json(), json!({"services": []}));
}

/// It was killed 350 ms after SIGTERM, whatever the grace.
#[test]
fn a_command_in_the_background_has_the_grace_of_a_service() {
    let daemon = Daemon::start();
    daemon.create("s");
    let command = "bash -c 'trap \"sleep 1; echo clean > clean; exit 0\" TERM; while :; do sleep 0.1; done'";
    let run = daemon.run("s", json!({"command": command, "timeout": 0.5, "on_timeout": "background"}));
    let path = format!("/v1/sessions/s/services/{}/stop", run.run_id());
    assert_eq!(daemon.post(&path, &json!({"grace": 30})).json()["status"], "stopped");
    assert_eq!(daemon.sh("s", "cat clean").out(), "clean\n");
}

#[test]
fn what_cannot_be_is_refused() {
    let daemon = Daemon::start();
    daemon.create("s");
    let refused = |body: Value, expected: &str| {
        let answer = daemon.post("/v1/sessions/s/services", &body);
        assert_eq!(answer.refused(), (400, "invalid_request".to_owned()), "{body}: {}", answer.text());
        assert!(answer.text().contains(expected), "{body}: {}", answer.text());
    };
    refused(json!({}), "missing field `command`");
    refused(json!({"command": "x", "ready": {"port": 1, "log": "x"}}), "exactly one");
    refused(json!({"command": "x", "ready": {"port": 70000}}), "not a TCP port");
    refused(json!({"command": "x", "ready": "("}), "regular expression");
    refused(json!({"command": "x", "ready": {"http": "http://example.com/"}}), "ready");
    refused(json!({"command": "x", "wait": 301}), "wait: 301");
    refused(json!({"command": "x", "name": "two\nlines"}), "name");
    refused(json!({"command": "x", "name": "web/1"}), "must not contain '/'");
    refused(json!({"command": "x", "restart": "maybe"}), "on_failure");
    let nowhere = daemon.post("/v1/sessions/s/services", &json!({"command": "x", "cwd": "/no/such"}));
    assert_eq!(nowhere.refused(), (400, "bad_cwd".to_owned()));
    for target in ["/v1/sessions/s/services/s9", "/v1/sessions/s/services/s9/logs"] {
        assert_eq!(daemon.get(target).refused(), (404, "service_not_found".to_owned()), "{target}");
    }
    let stop = |body: Value| daemon.post("/v1/sessions/s/services/s9/stop", &body).refused();
    assert_eq!(stop(json!({})), (404, "service_not_found".to_owned()));
    assert_eq!(stop(json!({"grace": 121})), (400, "invalid_request".to_owned()));
    assert_eq!(daemon.get("/v1/sessions/none/services").refused(), (404, "session_not_found".to_owned()));
    assert_eq!(daemon.get("/v1/sessions/s/services").json(), json!({"services": []}));
}

#[test]
fn quotas_are_shown_changed_and_kept() {
    let mut daemon = Daemon::start();
    let quotas = daemon.get("/v1/quotas").json();
    assert_eq!(quotas["quotas"]["services_per_agent"], json!({"configured": 5, "limit": 5}));
    let services = &quotas["quotas"]["services"];
    assert_eq!((&services["configured"], &services["used"]), (&json!(500), &json!(0)), "{quotas}");
    let changed = put(&daemon, "{\"services_per_agent\": 1, \"service_log_bytes\": 1048576}");
    assert_eq!(changed.status, 200, "{}", changed.text());
    assert_eq!(changed.json()["quotas"]["services_per_agent"], json!({"configured": 5, "set": 1, "limit": 1}));
    for (body, expected) in [
        ("{\"shells\": 1}", "live_shells"),
        ("{\"services\": -1}", "a whole number"),
        ("{\"services\": \"7\"}", "services: expected a whole number"),
        ("{\"live_shells\": 0}", "live_shells"),
        ("[]", "JSON object"),
    ] {
        let answer = put(&daemon, body);
        assert_eq!(answer.refused(), (400, "invalid_request".to_owned()), "{body}");
        assert!(answer.text().contains(expected), "{body}: {}", answer.text());
    }
    daemon.restart();
    assert_eq!(daemon.get("/v1/quotas").json()["quotas"]["services_per_agent"]["set"], 1);
    daemon.create_with(json!({"session_id": "s", "agent": "ann"}));
    start(&daemon, "s", &json!({"command": "exec sleep 600", "name": "first"}));
    let answer = daemon.post("/v1/sessions/s/services", &json!({"command": "exec sleep 600"}));
    assert_eq!(answer.refused(), (429, "quota_exceeded".to_owned()));
    let problem = answer.json();
    assert_eq!(
        (&problem["quota"], &problem["limit"], &problem["used"]),
        (&json!("services_per_agent"), &json!(1), &json!(1))
    );
    assert_eq!(problem["services"][0]["name"], "first", "{problem}");
    assert_eq!(put(&daemon, "{\"services_per_agent\": null}").json()["quotas"]["services_per_agent"].get("set"), None);
    start(&daemon, "s", &json!({"command": "exec sleep 600"}));
}

#[test]
fn an_end_stops_services_and_keeps_the_session() {
    let daemon = Daemon::start();
    let marks = [unique_sleep(), unique_sleep(), unique_sleep()];
    for (session, mark) in ["a1", "a2", "b1"].into_iter().zip(&marks) {
        daemon.create_with(json!({"session_id": session, "agent": session[..1]}));
        daemon.sh(session, "x=kept");
        start(&daemon, session, &json!({"command": format!("exec sleep {mark}")}));
    }
    let ended = daemon.post("/v1/agents/a/end", &json!({}));
    assert_eq!((ended.status, ended.json()), (200, json!({"agent": "a", "sessions": 2, "services": 2})));
    assert!(procs::marked(&marks[0]).is_empty() && procs::marked(&marks[1]).is_empty());
    assert_eq!(procs::marked(&marks[2]).len(), 1, "another agent's goes on");
    assert_eq!(daemon.get("/v1/sessions/a1").json()["live"], false);
    assert_eq!(daemon.sh("a1", "echo $x").out(), "kept\n");
    let session = daemon.send(&Request::new("POST", "/v1/sessions/b1/end"));
    assert_eq!((session.status, &session.json()["live"]), (200, &json!(false)), "{}", session.text());
    assert!(procs::marked(&marks[2]).is_empty());
}

#[test]
fn the_node_and_its_figures() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "true");
    start(&daemon, "s", &json!({"command": "exec sleep 600"}));
    let node = daemon.get("/v1/node").json();
    assert_eq!(
        (&node["sessions"], &node["services"], &node["live_shells"]),
        (&json!(1), &json!(1), &json!(1)),
        "{node}"
    );
    assert_eq!(node["quotas"]["services"]["used"], 1);
    assert!(node["memory"].as_u64().unwrap() > 1 << 20 && node["uptime"].as_f64().unwrap() > 0.0, "{node}");
    assert!(node["commands_total"].as_u64().unwrap() >= 1 && node["processes"].as_u64().unwrap() >= 2, "{node}");
    assert_eq!(node["commands"], json!([]), "nothing runs");
    daemon.post("/v1/sessions/s/run", &json!({"command": "sleep 600 # in s", "timeout": 900, "blocking": false}));
    let node = daemon.get("/v1/node").json();
    let command = &node["commands"][0];
    assert_eq!((&command["session_id"], &command["command"]), (&json!("s"), &json!("sleep 600 # in s")), "{node}");
    assert!(command["seconds"].is_f64() && command["background"] == json!(false), "{command}");
    let run_id = command["run_id"].as_str().unwrap();
    daemon.signal_run("s", run_id, "KILL");
    daemon.wait_run("s", run_id, 20);
    assert_eq!(daemon.get("/v1/node").json()["commands"], json!([]), "it has ended");
    // A run gives its place back after its result was sent.
    let metrics = until("nothing is counted as running", || {
        let metrics = daemon.get("/metrics").text();
        metrics.lines().any(|line| line == "shellkeep_commands_running 0").then_some(metrics)
    });
    for line in [
        "shellkeep_sessions 1",
        "shellkeep_services 1",
        "shellkeep_limit{limit=\"services\"} 500",
        "shellkeep_limit_used{limit=\"services\"} 1",
        "shellkeep_queue_length 0",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }
    for name in [
        "shellkeep_processes",
        "shellkeep_memory_bytes",
        "shellkeep_pressure{resource=\"cpu\"}",
        "shellkeep_pressure{resource=\"memory\"}",
    ] {
        assert!(metrics.lines().any(|found| found.starts_with(name)), "{name} is not in\n{metrics}");
    }
}

/// The command line on this daemon's socket.
fn command(daemon: &Daemon, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    let Door::Socket(socket) = daemon.door() else { panic!("a socket") };
    command.env_clear().envs(bash::environment()).env("SHELLKEEP_DATA", daemon.data()).stdin(Stdio::null());
    command.current_dir(daemon.directory());
    command.args(&args[..1]).arg("--socket").arg(socket).arg("--no-start").args(&args[1..]);
    command
}

fn shellkeep(daemon: &Daemon, args: &[&str]) -> Output {
    command(daemon, args).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn services_on_the_command_line() {
    let daemon = Daemon::start();
    let port = free_port().port().to_string();
    let serve = format!("python3 -u -m http.server {port} --bind 127.0.0.1");
    let args =
        ["services", "start", "-s", "demo", "--name", "web", "--ready-port", &port, "--env", "A=1", "--", &serve];
    let started = shellkeep(&daemon, &args);
    assert!(started.status.success(), "{started:?}");
    let id = out(&started).trim().to_owned();
    // It was made here, as `run` would.
    assert_eq!(daemon.cwd("demo"), daemon.directory().canonicalize().unwrap());
    let listed = out(&shellkeep(&daemon, &["services", "ls"]));
    let row: Vec<&str> = listed.trim_end().split('\t').collect();
    assert_eq!(row[..5], [id.as_str(), "demo", "-", "web", "running"], "{listed}");
    assert_eq!((row[6], row[9]), (port.as_str(), serve.as_str()), "{listed}");
    let json: Value =
        serde_json::from_slice(&shellkeep(&daemon, &["services", "ls", "-s", "demo", "--json"]).stdout).unwrap();
    assert_eq!(json["services"][0]["ports"], json!([port.parse::<u16>().unwrap()]));
    assert!(out(&shellkeep(&daemon, &["services", "ls", "--agent", "nobody"])).is_empty());
    let log = shellkeep(&daemon, &["services", "logs", &id, "--grep", "^Serving HTTP.*port"]);
    assert!(out(&log).starts_with("Serving HTTP on 127.0.0.1"), "{log:?}");
    // By its name too, wherever it is; --tail counts lines.
    let last = out(&shellkeep(&daemon, &["services", "logs", "web", "--tail", "1"]));
    assert!(last.starts_with("Serving HTTP") && last.lines().count() == 1, "{last}");
    let shown = out(&shellkeep(&daemon, &["services", "show", "web"]));
    assert!(shown.starts_with(&format!("service\t{id} (web) is running")) && shown.contains(&serve), "{shown}");
    let stopped = shellkeep(&daemon, &["services", "stop", "web", "--grace", "10"]);
    assert!(stopped.status.success() && out(&stopped).starts_with(&format!("{id} (web) stopped")), "{stopped:?}");
    // It does not run any more, so the session must be said.
    let gone = shellkeep(&daemon, &["services", "logs", &id]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(err(&gone).contains("-s"), "{gone:?}");
    assert!(out(&shellkeep(&daemon, &["services", "logs", "-s", "demo", &id])).contains("Serving HTTP"));
}

#[test]
fn runs_over_http() {
    let daemon = Daemon::start();
    daemon.create("s");
    for number in 0..12 {
        daemon.sh("s", &format!("echo {number}; (exit {number})"));
    }
    let page = |query: &str| daemon.get(&format!("/v1/sessions/s/runs{query}"));
    let first = page("?limit=5").json();
    let codes = |page: &Value| -> Vec<Value> {
        page["runs"].as_array().unwrap().iter().map(|run| run["exit_code"].clone()).collect()
    };
    assert_eq!(codes(&first), [11, 10, 9, 8, 7].map(Value::from).to_vec(), "{first}");
    let newest = &first["runs"][0];
    assert_eq!((&newest["command"], &newest["stdout_bytes"]), (&json!("echo 11; (exit 11)"), &json!(3)), "{newest}");
    let detail = daemon.get(&format!("/v1/sessions/s/runs/{}", newest["run_id"].as_str().unwrap())).json();
    for same in ["run_id", "seq", "command", "started_at", "exit_code", "cwd"] {
        assert_eq!(detail[same], newest[same], "{same}");
    }
    let rest = page(&format!("?before={}", first["next"].as_str().unwrap())).json();
    assert_eq!((codes(&rest), &rest["next"]), ((0..7).rev().map(Value::from).collect(), &Value::Null), "{rest}");
    // One that runs on beside the session is in the list, is watched to its end, and is read by lines.
    let command = "echo a; echo b; echo oops >&2; read line; echo c $line";
    let run = daemon.run("s", json!({"command": command, "blocking": false}));
    let path = format!("/v1/sessions/s/runs/{}", run.run_id());
    let listed = page("?limit=1").json()["runs"][0].clone();
    assert_eq!((&listed["run_id"], &listed["status"]), (&json!(run.run_id()), &json!("running")), "{listed}");
    let mut events = Request::new("GET", &path).header("accept", "text/event-stream").open(&daemon.door()).unwrap();
    let mut seen = String::new();
    let mut told = false;
    let result = loop {
        let event = events.next_event().expect("a result before the end");
        let data: Value = serde_json::from_str(&event.data).unwrap();
        match event.event.as_str() {
            "stdout" => seen += data["text"].as_str().unwrap(),
            "stderr" => assert_eq!(data["text"], "oops\n"),
            "started" => assert_eq!(data["run_id"], run.run_id()),
            "result" => break data,
            other => panic!("{other}"),
        }
        if seen.contains("b\n") && !std::mem::replace(&mut told, true) {
            assert_eq!(daemon.post(&format!("{path}/input"), &json!({"text": "x\n"})).status, 200);
        }
    };
    assert_eq!((seen.as_str(), &result["exit_code"]), ("a\nb\nc x\n", &json!(0)));
    let read = |query: &str| daemon.get(&format!("{path}/output?{query}"));
    assert_eq!(read("tail_lines=2").json()["text"], "b\nc x\n");
    assert_eq!(read("tail=4").json()["text"], "c x\n");
    for (query, code) in
        [("?limit=0", "invalid_request"), ("?before=now", "invalid_request"), ("?x=1", "invalid_request")]
    {
        assert_eq!(page(query).json()["code"], code, "{query}");
    }
    assert_eq!(read("tail=1&tail_lines=1").json()["code"], "invalid_request");
    assert_eq!(daemon.get("/v1/sessions/none/runs").json()["code"], "session_not_found");
}

#[test]
fn a_run_that_nobody_waited_for_is_no_dead_end() {
    let daemon = Daemon::start();
    let start = |command: &str| {
        let started = shellkeep(&daemon, &["run", "-s", "demo", "--no-wait", "--", command]);
        assert!(started.status.success(), "{started:?}");
        out(&started).trim().to_owned()
    };
    let id = start("read name; echo hello $name; echo bye >&2; exit 7");
    assert!(out(&shellkeep(&daemon, &["runs", "ls", "demo"])).contains("running"));
    let waited = shellkeep(&daemon, &["runs", "wait", "demo", &id, "--timeout", "0.01"]);
    assert_eq!((waited.status.code(), err(&waited)), (Some(124), format!("shellkeep: {id} is running\n")));
    assert!(shellkeep(&daemon, &["runs", "input", "-s", "demo", &id, "--", "ann"]).status.success());
    let waited = shellkeep(&daemon, &["runs", "wait", "-s", "demo", &id]);
    assert_eq!((waited.status.code(), err(&waited)), (Some(7), format!("shellkeep: {id} ended with exit code 7\n")));
    let read = shellkeep(&daemon, &["runs", "output", "demo", &id]);
    assert_eq!((out(&read).as_str(), err(&read).as_str()), ("hello ann\n", "bye\n"));
    let listed = out(&shellkeep(&daemon, &["runs", "ls", "demo"]));
    let row: Vec<&str> = listed.trim_end().split('\t').collect();
    assert_eq!((row[0], row[3], row[4].starts_with("read name")), (id.as_str(), "7", true), "{listed}");
    assert!(out(&shellkeep(&daemon, &["runs", "show", "demo", &id])).contains("  read name; echo hello $name"));
    let id = start("echo begun; sleep 600");
    let follow = ["runs", "output", "demo", &id, "-f"];
    let mut following = command(&daemon, &follow).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "begun");
    assert!(shellkeep(&daemon, &["runs", "signal", "demo", &id]).status.success());
    let followed = following.wait_with_output().unwrap();
    assert!(followed.status.success() && err(&followed).contains("was interrupted by INT"), "{followed:?}");
    let again = shellkeep(&daemon, &["runs", "signal", "demo", &id]);
    assert_eq!((again.status.code(), err(&again).contains("run_ended")), (Some(1), true), "{again:?}");
    for (args, code) in [
        (&["runs", "show", "demo", "r999"][..], 1),
        (&["runs", "show", "r1"], 2),
        (&["runs", "show", "-s", "demo", "demo", "r1"], 2),
        (&["runs", "ls", "none"], 1),
        (&["runs", "ls", "--running", "--failed"], 2),
    ] {
        assert_eq!(shellkeep(&daemon, args).status.code(), Some(code), "{args:?}");
    }
}

#[test]
fn runs_of_all_sessions_are_listed_and_none_is_woken() {
    let mut daemon = Daemon::start();
    for session in ["a", "b", "c"] {
        for command in ["true", "exit 3"] {
            assert_eq!(shellkeep(&daemon, &["run", "-s", session, "--", command]).status.success(), command == "true");
        }
    }
    // Not even after a restart, when nothing of them is in memory.
    daemon.restart();
    let running = shellkeep(&daemon, &["run", "-s", "b", "--no-wait", "--", "sleep 600"]);
    let running = out(&running).trim().to_owned();
    let rows = |args: &[&str]| -> Vec<(String, String, String)> {
        let listed = shellkeep(&daemon, &[&["runs", "ls"], args].concat());
        assert!(listed.status.success(), "{listed:?}");
        let cell = |cells: &[&str], index: usize| cells[index].to_owned();
        let row = |line: &str| {
            let cells: Vec<&str> = line.split('\t').collect();
            (cell(&cells, 0), cell(&cells, 4), cell(&cells, 5))
        };
        out(&listed).lines().map(row).collect()
    };
    let row = |session: &str, result: &str, command: &str| (session.to_owned(), result.to_owned(), command.to_owned());
    let all = [
        row("b", "running", "sleep 600"),
        row("c", "3", "exit 3"),
        row("c", "0", "true"),
        row("b", "3", "exit 3"),
        row("b", "0", "true"),
        row("a", "3", "exit 3"),
        row("a", "0", "true"),
    ];
    assert_eq!(rows(&[]), all);
    assert_eq!(rows(&["--limit", "2"]), all[..2]);
    assert_eq!(rows(&["--running"]), all[..1]);
    assert_eq!(rows(&["--failed"]), [all[1].clone(), all[3].clone(), all[5].clone()]);
    let of_one = |args: &[&str]| out(&shellkeep(&daemon, &[&["runs", "ls", "b"], args].concat()));
    assert!(of_one(&["--running"]).starts_with(&running) && of_one(&["--running"]).lines().count() == 1);
    assert!(of_one(&["--failed"]).ends_with("\t3\texit 3\n") && of_one(&["--failed"]).lines().count() == 1);
    // Page by page, over HTTP, nothing is missing or there twice.
    let (mut seen, mut next) = (Vec::new(), String::new());
    loop {
        let page = daemon.get(&format!("/v1/runs?limit=2{next}")).json();
        let key = |run: &Value| (run["session_id"].clone(), run["run_id"].clone());
        seen.extend(page["runs"].as_array().unwrap().iter().map(key));
        match page["next"].as_str() {
            Some(place) => next = format!("&before={place}"),
            None => break,
        }
    }
    assert_eq!(seen.len(), all.len(), "{seen:?}");
    assert!((0..seen.len()).all(|index| !seen[index + 1..].contains(&seen[index])), "{seen:?}");
    let awake = |session: &str| daemon.get(&format!("/v1/sessions/{session}")).json()["live"].clone();
    assert_eq!([awake("a"), awake("b"), awake("c")], [json!(false), json!(true), json!(false)]);
    for query in ["before=r5", "before=1/.x/2", "status=ended", "limit=0", "x=1"] {
        assert_eq!(daemon.get(&format!("/v1/runs?{query}")).json()["code"], "invalid_request", "{query}");
    }
    assert!(shellkeep(&daemon, &["runs", "signal", "b", &running]).status.success());
}

#[test]
fn what_fails_on_the_command_line_says_so() {
    let daemon = Daemon::start();
    let failed = shellkeep(&daemon, &["services", "start", "-s", "demo", "--", "echo out of luck; exit 3"]);
    assert_eq!((failed.status.code(), out(&failed).starts_with('s')), (Some(1), true), "{failed:?}");
    assert!(err(&failed).contains("exit code 3") && err(&failed).contains("out of luck"), "{failed:?}");
    let ended = shellkeep(&daemon, &["services", "start", "-s", "demo", "--json", "--", "true"]);
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(serde_json::from_slice::<Value>(&ended.stdout).unwrap()["exit_code"], 0);
    // The same id in two sessions is said to be so.
    let sleep = ["--", "exec sleep 600"];
    let ids = ["x1", "x2"].map(|session| {
        out(&shellkeep(&daemon, &[&["services", "start", "-s", session, "--wait", "0"], &sleep[..]].concat()))
    });
    assert_eq!(ids[0], ids[1]);
    let id = ids[0].trim();
    let which = shellkeep(&daemon, &["services", "stop", id]);
    assert_eq!(which.status.code(), Some(1));
    assert!(err(&which).contains("x1") && err(&which).contains("x2") && err(&which).contains("-s"), "{which:?}");
    assert!(shellkeep(&daemon, &["services", "stop", "-s", "x1", id]).status.success());
    // One that is not there does not keep the others from being stopped.
    let mixed = shellkeep(&daemon, &["services", "stop", "s999", id]);
    assert_eq!(mixed.status.code(), Some(1));
    assert!(err(&mixed).contains("'s999'") && out(&mixed).contains("stopped"), "{mixed:?}");
    assert!(out(&shellkeep(&daemon, &["services", "ls"])).is_empty());
    for wrong in [
        &["services", "start", "-s", "demo", "--ready-port", "1", "--ready-log", "x", "--", "true"][..],
        &["services", "start", "-s", "demo", "--ready-port", "0", "--", "true"],
        &["services", "start", "-s", "demo", "--restart", "maybe", "--", "true"],
        &["services", "logs", "-f", "--grep", "x", "s1"],
        &["quotas", "set", "services"],
        &["quotas", "set", "shells=3"],
    ] {
        assert_eq!(shellkeep(&daemon, wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn a_log_is_followed_on_the_command_line() {
    let daemon = Daemon::start();
    let wait = "echo begun; until [ -e go ]; do sleep 0.01; done; echo over; exit 7";
    let id =
        out(&shellkeep(&daemon, &["services", "start", "-s", "demo", "--wait", "0", "--", wait])).trim().to_owned();
    let mut child = command(&daemon, &["services", "logs", "-f", &id])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert_eq!(lines.next().as_deref(), Some("begun"));
    // The second line comes only if it is really followed: the service waits for this.
    daemon.sh("demo", "touch go");
    assert_eq!(lines.next().as_deref(), Some("over"));
    assert_eq!(lines.next(), None);
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success() && err(&ended).contains("exit code 7"), "{ended:?}");
    let json = out(&shellkeep(&daemon, &["services", "logs", "-f", "-s", "demo", &id, "--json"]));
    let last: Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    assert_eq!(last["exit_code"], 7, "{json}");
    let page: Value =
        serde_json::from_slice(&shellkeep(&daemon, &["services", "logs", "-s", "demo", &id, "--json"]).stdout).unwrap();
    assert_eq!((&page["text"], &page["complete"]), (&json!("begun\nover\n"), &json!(true)));
}

#[test]
fn quotas_and_ends_on_the_command_line() {
    let daemon = Daemon::start();
    let rows = |output: &Output| -> Vec<Vec<String>> {
        out(output).lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    };
    let shown = rows(&shellkeep(&daemon, &["quotas"]));
    let find = |rows: &[Vec<String>], name: &str| rows.iter().find(|row| row[0] == name).unwrap()[1..4].to_vec();
    assert_eq!(shown.len(), 17, "{shown:?}");
    assert_eq!(find(&shown, "services_per_agent"), ["5", "-", "5"]);
    let set = rows(&shellkeep(&daemon, &["quotas", "set", "services_per_agent=7", "service_log_bytes=1M"]));
    assert_eq!(find(&set, "services_per_agent"), ["5", "7", "7"]);
    assert_eq!(find(&set, "service_log_bytes")[1..], ["1048576", "1048576"]);
    let reset = rows(&shellkeep(&daemon, &["quotas", "reset", "services_per_agent"]));
    assert_eq!(find(&reset, "services_per_agent"), ["5", "-", "5"]);
    let json: Value = serde_json::from_slice(&shellkeep(&daemon, &["quotas", "--json"]).stdout).unwrap();
    assert_eq!(json["quotas"]["service_log_bytes"]["set"], 1 << 20);
    let beyond = shellkeep(&daemon, &["quotas", "set", "live_shells=0"]);
    assert_eq!(beyond.status.code(), Some(1), "{beyond:?}");
    daemon.create_with(json!({"session_id": "s", "agent": "ann"}));
    let mark = unique_sleep();
    start(&daemon, "s", &json!({"command": format!("exec sleep {mark}")}));
    assert_eq!(out(&shellkeep(&daemon, &["agents", "end", "ann"])), "ann: 1 session ended, 1 service stopped\n");
    assert!(procs::marked(&mark).is_empty());
    start(&daemon, "s", &json!({"command": format!("exec sleep {mark}")}));
    let ended: Value = serde_json::from_slice(&shellkeep(&daemon, &["sessions", "end", "s", "--json"]).stdout).unwrap();
    assert_eq!((&ended["session_id"], &ended["live"]), (&json!("s"), &json!(false)));
    assert!(procs::marked(&mark).is_empty());
}

#[test]
fn a_daemon_that_cannot_start_is_told_of_at_once() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("shellkeep.db"), "this is no database, and nobody will wait for it to be one")
        .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.args(["run", "--data"]).arg(directory.path()).args(["-s", "x", "--", "true"]);
    command.env_clear().envs(bash::environment()).current_dir(directory.path()).stdin(Stdio::null());
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("the daemon could not be started: "), "{errors}");
}

/// One response of a connection that may be kept: its status and its head. The body is passed over.
fn response(stream: &mut BufReader<impl Read>) -> (String, String) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut head).unwrap(), 0, "the connection was closed after {head:?}");
    }
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    let status = head.split(' ').nth(1).unwrap().to_owned();
    (status, head)
}

/// The connection was closed before the body had arrived, so a client that sent the head first got a broken pipe.
#[test]
fn a_refusal_does_not_wait_for_the_body_and_keeps_the_connection() {
    let daemon = Daemon::with(Settings::default().tcp());
    let Door::Socket(path) = daemon.door() else { panic!("a socket") };
    let stream = UnixStream::connect(path).unwrap();
    let (mut writer, mut reader) = (stream.try_clone().unwrap(), BufReader::new(stream));
    for (request, expected) in [("POST /v1/nosuch", "404"), ("POST /healthz", "405"), ("POST /v1/nosuch", "404")] {
        write!(writer, "{request} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5000\r\n\r\n").unwrap();
        let (status, head) = response(&mut reader);
        assert_eq!(status, expected);
        assert!(!head.contains("connection: close"), "{head}");
        // It is sent after the answer, and nobody wants it.
        writer.write_all(&[b' '; 5000]).unwrap();
    }
    write!(writer, "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    assert_eq!(response(&mut reader).0, "200");
    // More than is worth a connection is read nevertheless, and the answer says that it closes.
    let Door::Tcp(address) = daemon.tcp_door() else { panic!("a port") };
    let stream = TcpStream::connect(address).unwrap();
    let (mut writer, mut reader) = (stream.try_clone().unwrap(), BufReader::new(stream));
    let length = 8 << 20;
    write!(writer, "POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n").unwrap();
    writer.write_all(&vec![b' '; length]).unwrap();
    let (status, head) = response(&mut reader);
    assert_eq!(status, "401");
    assert!(head.contains("connection: close"), "{head}");
    assert_eq!(reader.read(&mut [0]).unwrap(), 0, "it closes");
}
