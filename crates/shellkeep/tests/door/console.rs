//! The console in the browser: its files, how a browser gets a token, what the token may do, and pages of others.

use crate::support::{Daemon, Door, Request, Response, Settings, is};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;

fn socket(daemon: &Daemon) -> PathBuf {
    match daemon.door() {
        Door::Socket(path) => path,
        Door::Tcp(address) => panic!("{address} is not a socket"),
    }
}

/// The link that `shellkeep console --print` prints: the address, and the code in its fragment.
fn link(daemon: &Daemon, flags: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.args(["console", "--print"]).args(flags).arg("--socket").arg(socket(daemon));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    let (address, code) = printed.trim_end().split_once("/#c=").unwrap();
    (address.to_owned(), code.to_owned())
}

fn login(daemon: &Daemon, code: &str) -> Response {
    let body = json!({"code": code}).to_string();
    Request::new("POST", "/v1/console/login").json(body).send(&daemon.tcp_door()).unwrap()
}

fn with(daemon: &Daemon, issued: &Value, method: &str, path: &str, body: &Value) -> Response {
    let bearer = format!("Bearer {}", issued["token"].as_str().unwrap());
    let mut request = Request::new(method, path).header("authorization", &bearer);
    if method != "GET" {
        request = request.json(body.to_string());
    }
    request.send(&daemon.tcp_door()).unwrap()
}

#[test]
fn the_page_needs_no_token_and_may_do_little() {
    let daemon = Daemon::with(Settings::default().tcp());
    let get = |path: &str| Request::new("GET", path).send(&daemon.tcp_door()).unwrap();
    let page = get("/");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = page.header("content-security-policy").unwrap();
    for rule in
        ["default-src 'none'", "script-src 'self'", "require-trusted-types-for 'script'", "frame-ancestors 'none'"]
    {
        assert!(policy.contains(rule), "{policy}");
    }
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(page.header("cross-origin-opener-policy"), Some("same-origin"));
    // Every file that a file names is there.
    let mut names = vec!["app.js".to_owned(), "style.css".to_owned(), "icon.svg".to_owned()];
    let mut seen = 0;
    while let Some(name) = names.get(seen).cloned() {
        seen += 1;
        let file = get(&format!("/assets/{name}"));
        assert_eq!(file.status, 200, "{name}");
        let text = file.text();
        for found in text.split("'./").skip(1).filter_map(|rest| rest.split('\'').next()) {
            if !names.iter().any(|known| known == found) {
                names.push(found.to_owned());
            }
        }
    }
    assert!(names.len() > 15, "{names:?}");
    assert_eq!(get("/assets/nothing.js").refused(), is(404, "not_found"));
    assert_eq!(get("/v1/live").refused(), is(426, "upgrade_required"));
}

#[test]
fn a_link_works_once_and_its_token_acts_on_sessions_only() {
    let daemon = Daemon::with(Settings::default().tcp());
    let (address, secret) = link(&daemon, &[]);
    assert!(address.starts_with("http://127.0.0.1:"), "{address}");
    let issued = login(&daemon, &secret);
    assert_eq!(issued.status, 201, "{}", issued.text());
    assert_eq!(login(&daemon, &secret).refused(), is(401, "invalid_code"));
    let issued = issued.json();
    assert_eq!(issued["role"], "act");
    assert!(issued["expires_at"].is_string(), "{issued}");
    let act = |method: &str, path: &str, body: Value| with(&daemon, &issued, method, path, &body);
    assert_eq!(act("POST", "/v1/sessions", json!({"session_id": "s"})).status, 201);
    let run = act("POST", "/v1/sessions/s/run", json!({"command": "echo hi"})).json();
    assert_eq!((&run["stdout"], &run["by"]), (&json!("hi\n"), &issued["id"]));
    assert_eq!(act("GET", "/v1/node", Value::Null).status, 200);
    for (method, path, body) in [
        ("POST", "/v1/tokens", json!({"agent": "evil"})),
        ("POST", "/v1/console/code", json!({})),
        ("PUT", "/v1/quotas", json!({})),
        ("POST", "/v1/daemon/stop", json!({})),
    ] {
        assert_eq!(act(method, path, body).refused(), is(403, "not_allowed"), "{path}");
    }
    let listed = daemon.get("/v1/tokens").json();
    assert_eq!(listed["tokens"][0]["id"], issued["id"]);
    assert_eq!(act("POST", "/v1/console/logout", json!({})).status, 204);
    assert_eq!(act("GET", "/v1/sessions", Value::Null).refused(), is(401, "unauthorized"));
}

#[test]
fn a_person_who_watches_changes_nothing() {
    let daemon = Daemon::with(Settings::default().tcp());
    daemon.post("/v1/sessions", &json!({"session_id": "s"}));
    daemon.sh("s", "false");
    let issued = login(&daemon, &link(&daemon, &["--watch"]).1).json();
    assert_eq!(issued["role"], "watch");
    let watch = |method: &str, path: &str| with(&daemon, &issued, method, path, &json!({"command": "true"}));
    assert_eq!(watch("POST", "/v1/sessions/s/run").refused(), is(403, "not_allowed"));
    let rows = watch("GET", "/v1/sessions/s/events?view=summary&failed=true").json();
    let row = &rows["events"][0];
    assert_eq!((&row["text"], &row["outcome"], &row["kind"]), (&json!("$ false"), &json!("exit 1"), &json!("tool")));
    assert_eq!(rows["events"].as_array().unwrap().len(), 1, "{rows}");
    let bars = watch("GET", "/v1/sessions/s/events/overview?buckets=2").json();
    let sum =
        |name: &str| bars["buckets"].as_array().unwrap().iter().map(|bar| bar[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("failed"), bars["sampled"].as_bool()), (1, Some(false)), "{bars}");
    assert_eq!(watch("GET", "/v1/sessions/s/events?failed=true").refused(), is(400, "invalid_request"));
}

/// A development server that an agent runs is a page on another port of this machine.
#[test]
fn a_page_of_another_port_cannot_write_or_log_in() {
    let daemon = Daemon::with(Settings::default().tcp());
    let (_, secret) = link(&daemon, &[]);
    let from = |origin: &str| {
        let body = json!({"code": secret}).to_string();
        Request::new("POST", "/v1/console/login").header("origin", origin).json(body).send(&daemon.tcp_door()).unwrap()
    };
    for origin in ["http://127.0.0.1:3000", "http://localhost:3000", "https://example.com", "null"] {
        assert_eq!(from(origin).refused(), is(403, "forbidden_origin"), "{origin}");
    }
    // None of them used up the code.
    let body = json!({"code": secret}).to_string();
    let own = Request::new("POST", "/v1/console/login").header("origin", "http://localhost").json(body);
    assert_eq!(own.send(&daemon.tcp_door()).unwrap().status, 201);
}

#[test]
fn the_list_filters_and_orders() {
    let daemon = Daemon::with(Settings::default());
    for (name, agent) in [("a", "ann"), ("b", "bob"), ("c", "ann")] {
        daemon.create_with(json!({"session_id": name, "agent": agent}));
    }
    daemon.sh("c", "echo Needle");
    daemon.sh("a", "exit_with() { return 3; }; exit_with");
    let run = daemon.run("b", json!({"command": "read -r line", "blocking": false})).run_id().to_owned();
    let listed = |query: &str| {
        let answer = daemon.get(&format!("/v1/sessions?{query}"));
        assert_eq!(answer.status, 200, "{query}: {}", answer.text());
        let page = answer.json();
        let ids = page["sessions"].as_array().unwrap().iter().map(|session| session["session_id"].clone());
        (Value::Array(ids.collect()), page["next"].clone())
    };
    for (query, expected) in [
        ("", json!(["a", "b", "c"])),
        ("order=active", json!(["b", "a", "c"])),
        ("order=active&agent=ann", json!(["a", "c"])),
        ("failed=true", json!(["a"])),
        ("q=needle", json!(["c"])),
        ("q=ANN", json!(["a", "c"])),
        ("q=ann+needle", json!(["c"])),
        ("q=ann&failed=true&order=active", json!(["a"])),
        ("running=true", json!(["b"])),
        ("live=true&order=active", json!(["b", "a", "c"])),
        ("live=true&agent=bob", json!(["b"])),
        ("live=true&q=nothing", json!([])),
        ("live=true&q=needle", json!(["c"])),
        ("live=true&failed=true", json!(["a"])),
        ("running=true&q=line", json!(["b"])),
        ("q=&live=&order=", json!(["a", "b", "c"])),
    ] {
        assert_eq!(listed(query), (expected, Value::Null), "{query}");
    }
    for query in ["order=active", "order=id", "live=true&order=active", "live=true", "q=workspaces&order=active"] {
        let (whole, _) = listed(query);
        let (mut pages, mut after) = (Vec::new(), String::new());
        loop {
            let (page, next) = listed(&format!("{query}&limit=1&after={after}"));
            pages.extend(page.as_array().unwrap().clone());
            match next.as_str() {
                Some(next) => after = next.to_owned(),
                None => break,
            }
        }
        assert_eq!(Value::Array(pages), whole, "{query}");
    }
    assert_eq!(daemon.get("/v1/sessions?order=size").refused(), is(400, "invalid_request"));
    assert_eq!(daemon.get("/v1/sessions?live=perhaps").refused(), is(400, "invalid_request"));
    daemon.hibernate("c");
    assert_eq!(listed("live=true").0, json!(["a", "b"]));
    daemon.signal_run("b", &run, "INT");
}

#[test]
fn without_a_tcp_port_the_command_says_what_to_do() {
    let daemon = Daemon::with(Settings::default());
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    let output = command.args(["console", "--print", "--socket"]).arg(socket(&daemon)).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("needs a TCP port") && said.contains("`shellkeep serve --"), "{said}");
}
