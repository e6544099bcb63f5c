//! Bad input: each is refused with a problem that says what to do, and the daemon goes on serving the others.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

mod support;

use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Output;
use support::{Agent, Daemon, Door, Request, Response, Settings};

/// A refusal as the contract has it.
fn refused(answer: &Response, status: u16, code: &str, what: &str) -> Value {
    assert_eq!(answer.status, status, "{what}: {}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{what}");
    let problem = answer.json();
    assert_eq!(problem["code"], json!(code), "{what}: {problem}");
    assert!(problem["detail"].as_str().is_some_and(|detail| detail.len() > 10), "{what}: no help in {problem}");
    problem
}

fn serves(daemon: &Daemon) {
    assert_eq!(daemon.get("/healthz").status, 200);
    assert_eq!(daemon.sh("good", "echo served").out(), "served\n");
}

fn with_good_session() -> Daemon {
    let daemon = Daemon::start();
    daemon.create("good");
    daemon
}

#[test]
fn bodies_that_are_not_what_they_should_be() {
    let daemon = with_good_session();
    let create = [
        "{",
        "nonsense",
        "[]",
        "null",
        "42",
        "\"text\"",
        "{\"session_id\": 5}",
        "{\"session_id\": null, \"extra\": 1}",
        "{\"sesion_id\": \"x\"}",
        "{\"env\": []}",
        "{\"env\": {\"A\": 1}}",
        "{\"env\": {\"A=B\": \"x\"}}",
        "{\"env\": {\"\": \"x\"}}",
        "{\"env\": {\"A\": \"nul\\u0000\"}}",
        "{\"cwd\": 1}",
        "{\"cwd\": \"nul\\u0000\"}",
        "{\"agent\": {}}",
        "{\"user_id\": \"a/b\", \"session_id\": \"x\"}",
        "{} {}",
        "{\"session_id\": \"a\", \"session_id\": \"b\"}",
        "\u{feff}{}",
    ];
    for body in create {
        let answer = daemon.send(&Request::new("POST", "/v1/sessions").json(body));
        refused(&answer, 400, "invalid_request", body);
    }
    let run = [
        "",
        "{}",
        "{",
        "[\"true\"]",
        "{\"command\": 1}",
        "{\"command\": null}",
        "{\"command\": [\"a\"]}",
        "{\"comand\": \"x\"}",
        "{\"command\": \"x\", \"timeout\": \"1\"}",
        "{\"command\": \"x\", \"timeout\": -1}",
        "{\"command\": \"x\", \"timeout\": 0}",
        "{\"command\": \"x\", \"timeout\": 1e300}",
        "{\"command\": \"x\", \"timeout\": 1e999}",
        "{\"command\": \"x\", \"blocking\": \"yes\"}",
        "{\"command\": \"x\", \"on_timeout\": \"explode\"}",
        "{\"command\": \"x\", \"if_busy\": 1}",
        "{\"command\": \"x\", \"max_output\": -1}",
        "{\"command\": \"x\", \"max_output\": 1e30}",
        "{\"command\": \"x\", \"env\": {\"1x\": \"y\"}}",
        "{\"command\": \"x\", \"request_id\": \"a/b\"}",
        "{\"command\": \"x\", \"request_id\": \"\"}",
        "{\"command\": \"x\", \"more\": {}}",
        "{\"command\": \"nul\\u0000byte\"}",
        "{\"command\": \"lone \\ud800\"}",
        "{\"command\": \"x\", \"stdin\": 5}",
        "{\"command\": \"x\", \"cwd\": \"nul\\u0000\"}",
    ];
    for body in run {
        let answer = daemon.send(&Request::new("POST", "/v1/sessions/good/run").json(body));
        refused(&answer, 400, "invalid_request", body);
    }
    let not_utf8 =
        daemon.send(&Request::new("POST", "/v1/sessions/good/run").json(b"{\"command\": \"\xff\"}".to_vec()));
    refused(&not_utf8, 400, "invalid_request", "bytes that are not UTF-8");
    let nowhere = daemon.post("/v1/sessions/good/run", &json!({"command": "echo ran", "cwd": "/nonexistent"}));
    refused(&nowhere, 400, "bad_cwd", "a directory that is not there");
    let unmade = daemon.post("/v1/sessions", &json!({"session_id": "unmade", "cwd": "/nonexistent"}));
    let problem = refused(&unmade, 400, "bad_cwd", "a session in a directory that is not there");
    assert!(problem["detail"].as_str().unwrap().ends_with("; no session was created"), "{problem}");
    serves(&daemon);
}

#[test]
fn ids_that_could_leave_their_directory() {
    let daemon = with_good_session();
    let outside = daemon.directory().join("outside");
    fs::write(&outside, "precious").unwrap();
    let too_long = "x".repeat(129);
    let bad = [
        "..",
        ".",
        ".hidden",
        "a/b",
        "../../outside",
        "a\\b",
        "a b",
        "a\n",
        "é",
        "",
        "a%2e",
        "*",
        "a;b",
        "$(x)",
        "~",
        &too_long,
    ];
    for id in bad {
        let answer = daemon.post("/v1/sessions", &json!({"session_id": id}));
        refused(&answer, 400, "invalid_request", id);
    }
    let nul = daemon.send(&Request::new("POST", "/v1/sessions").json("{\"session_id\": \"a\\u0000b\"}"));
    refused(&nul, 400, "invalid_request", "NUL in an id");
    assert_eq!(fs::read_to_string(outside).unwrap(), "precious");
    serves(&daemon);
}

/// `thread_a_b_c` was the session of user `a` and of user `a_b` alike.
#[test]
fn one_user_does_not_get_the_session_of_another() {
    let mut daemon = with_good_session();
    let of = |user: &str, session: &str| json!({"user_id": user, "session_id": session});
    assert_eq!(daemon.create_with(of("a_b", "c"))["session_id"], json!("thread_a_b_c"));
    let forked = daemon.post("/v1/sessions/good/fork", &of("x_y", "z"));
    assert_eq!(forked.status, 201, "{}", forked.text());
    for _ in 0..2 {
        for wrong in [of("a", "b_c"), of("x", "y_z")] {
            refused(&daemon.post("/v1/sessions", &wrong), 409, "session_exists", &wrong.to_string());
        }
        for right in [of("a_b", "c"), of("x_y", "z"), json!({"session_id": "thread_a_b_c"})] {
            assert_eq!(daemon.post("/v1/sessions", &right).status, 200, "{right}");
        }
        daemon.restart();
    }
    // Which user a name was made for is known only if it was said.
    daemon.create_with(json!({"session_id": "thread_old_one_x"}));
    assert_eq!(daemon.post("/v1/sessions", &of("old", "one_x")).status, 200);
    serves(&daemon);
}

/// Bash left a readonly variable as it was, and the command ran with the old value.
#[test]
fn a_readonly_variable_cannot_be_given() {
    let daemon = with_good_session();
    daemon.sh("good", "readonly FIXED=1");
    for route in ["run", "services"] {
        let body = json!({"command": "touch ran", "env": {"FIXED": "2"}});
        let problem =
            refused(&daemon.post(&format!("/v1/sessions/good/{route}"), &body), 400, "invalid_request", route);
        assert!(problem["detail"].as_str().unwrap().contains("'FIXED'"), "{problem}");
    }
    assert_eq!(daemon.sh("good", "echo $FIXED; ls").out(), "1\n");
    serves(&daemon);
}

#[test]
fn ids_in_paths_that_could_leave_their_directory() {
    let daemon = with_good_session();
    let outside = daemon.directory().join("outside");
    fs::write(&outside, "precious").unwrap();
    let too_long = "x".repeat(129);
    let encoded = [
        "..%2f..%2foutside",
        "%2e%2e",
        "%2e%2e%2foutside",
        "a%2fb",
        "a%00b",
        "%c3%a9",
        "a%20b",
        "%ff",
        ".x",
        "a%0ab",
        "%252e%252e%252f",
        &too_long,
    ];
    for id in encoded {
        for (method, tail) in [
            ("GET", ""),
            ("DELETE", ""),
            ("POST", "/run"),
            ("GET", "/state"),
            ("POST", "/hibernate"),
            ("GET", "/runs/r1"),
        ] {
            let request = Request::new(method, &format!("/v1/sessions/{id}{tail}")).json(if tail == "/run" {
                "{\"command\": \"true\"}"
            } else {
                ""
            });
            refused(&daemon.send(&request), 400, "invalid_request", &format!("{method} {id}{tail}"));
        }
    }
    for id in ["%2e%2e", "a%2fb", "%00", "r%201"] {
        refused(&daemon.get(&format!("/v1/sessions/good/runs/{id}")), 400, "invalid_request", id);
    }
    for target in [
        "/v1/sessions/../../outside",
        "/v1/sessions/good/../../../outside",
        "//v1/sessions",
        "/v1/sessions/good/runs/../../x",
    ] {
        let answer = daemon.get(target);
        assert!((400..500).contains(&answer.status), "{target}: {}", answer.text());
    }
    assert_eq!(fs::read_to_string(outside).unwrap(), "precious");
    serves(&daemon);
}

#[test]
fn things_that_are_not_there() {
    let daemon = with_good_session();
    for (method, target) in [
        ("GET", "/v1/sessions/nobody"),
        ("DELETE", "/v1/sessions/nobody"),
        ("GET", "/v1/sessions/nobody/state"),
        ("POST", "/v1/sessions/nobody/hibernate"),
        ("POST", "/v1/sessions/nobody/restart"),
        ("GET", "/v1/sessions/nobody/runs/r1"),
    ] {
        let problem = refused(&daemon.send(&Request::new(method, target)), 404, "session_not_found", target);
        assert_eq!(problem["session_id"], json!("nobody"));
    }
    let run = daemon.post("/v1/sessions/nobody/run", &json!({"command": "true"}));
    refused(&run, 404, "session_not_found", "run in no session");
    for tail in ["", "/output"] {
        refused(&daemon.get(&format!("/v1/sessions/good/runs/r999{tail}")), 404, "run_not_found", tail);
    }
    refused(&daemon.signal_run("good", "r999", "TERM"), 404, "run_not_found", "a signal for nobody");
    for target in ["/nowhere", "/v1", "/v1/", "/v2/sessions", "/v1/sessions/good/nothing", "/v1/sessions/good/run/x"] {
        refused(&daemon.get(target), 404, "not_found", target);
    }
    for (method, target) in [
        ("PUT", "/v1/sessions"),
        ("DELETE", "/v1/sessions"),
        ("PATCH", "/v1/sessions/good"),
        ("GET", "/v1/sessions/good/run"),
        ("POST", "/healthz"),
        ("NONSENSE", "/v1/sessions"),
    ] {
        refused(&daemon.send(&Request::new(method, target)), 405, "method_not_allowed", target);
    }
    serves(&daemon);
}

#[test]
fn queries_that_make_no_sense() {
    let daemon = with_good_session();
    let run_id = daemon.sh("good", "echo a").run_id().to_owned();
    let lists = [
        "limit=x",
        "limit=-1",
        "limit=1.5",
        "limit=99999999999999999999",
        "after=a%2fb",
        "unknown=1",
        "agent=a%2fb&limit=x",
    ];
    for query in lists {
        refused(&daemon.get(&format!("/v1/sessions?{query}")), 400, "invalid_request", query);
    }
    for query in ["wait=x", "wait=-1", "wait=1e999", "wait=NaN", "wait=inf", "until=1"] {
        refused(&daemon.get(&format!("/v1/sessions/good/runs/{run_id}?{query}")), 400, "invalid_request", query);
    }
    for query in ["stream=both", "offset=-1", "offset=x", "limit=x", "tail=-5", "grep=%5b", "grep=(", "colour=red"] {
        refused(&daemon.get(&format!("/v1/sessions/good/runs/{run_id}/output?{query}")), 400, "invalid_request", query);
    }
    // An offset beside a tail was refused, and so was the limit of a stream, which clients had always sent.
    for query in ["tail=5&offset=3", "tail_lines=1&offset=3"] {
        assert_eq!(daemon.get(&format!("/v1/sessions/good/runs/{run_id}/output?{query}")).status, 200, "{query}");
    }
    let limited = Request::new("GET", "/v1/sessions/good/events?limit=1").header("accept", "text/event-stream");
    let events = daemon.send(&limited);
    assert_eq!((events.status, events.text().matches("event: event").count()), (200, 1), "{}", events.text());
    for query in ["type=tool_cal", "type=tool_call,run_finished", "type=typo&after=3"] {
        let problem = refused(&daemon.get(&format!("/v1/sessions/good/events?{query}")), 400, "invalid_request", query);
        assert!(problem["detail"].as_str().unwrap().contains("checkpoint_created, "), "{problem}");
    }
    for signal in ["", "NOSUCH", "9; rm", "-1", "TERM KILL", "SIG"] {
        let started = daemon.run("good", json!({"command": "read x", "blocking": false, "timeout": 30}));
        refused(&daemon.signal_run("good", started.run_id(), signal), 400, "invalid_request", signal);
        daemon.signal_run("good", started.run_id(), "KILL");
        daemon.wait_run("good", started.run_id(), 20);
    }
    serves(&daemon);
}

#[test]
fn bodies_that_are_too_large() {
    let daemon = with_good_session();
    let huge = format!("{{\"command\": \"{}\"}}", "x".repeat(65 << 20));
    refused(
        &daemon.send(&Request::new("POST", "/v1/sessions/good/run").json(huge)),
        413,
        "payload_too_large",
        "65 MiB",
    );
    let settings = format!("{{\"agent\": \"{}\"}}", "x".repeat(2 << 20));
    refused(
        &daemon.send(&Request::new("POST", "/v1/sessions").json(settings)),
        413,
        "payload_too_large",
        "2 MiB of settings",
    );
    let long = format!("{{\"command\": \": {}\"}}", "x".repeat(17 << 20));
    refused(
        &daemon.send(&Request::new("POST", "/v1/sessions/good/run").json(long)),
        413,
        "payload_too_large",
        "a command of 17 MiB",
    );
    serves(&daemon);
}

#[test]
fn bytes_that_are_not_http() {
    let daemon = with_good_session();
    let Door::Socket(path) = daemon.door() else { panic!("the default door is the socket") };
    let endless_header = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(1 << 20));
    let messages: [&[u8]; 7] = [
        b"\r\n\r\n",
        b"hello\r\n\r\n",
        b"GET\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/sessions HTTP/1.1\r\nhost: x\r\ncontent-length: -5\r\n\r\n",
        endless_header.as_bytes(),
    ];
    for message in messages {
        let mut stream = UnixStream::connect(&path).unwrap();
        // The daemon may hang up before it has read everything; then the rest cannot be written, and need not be.
        let _ = stream.write_all(message);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || text.starts_with("HTTP/1.1 4") || text.starts_with("HTTP/1.1 5"), "{text}");
        serves(&daemon);
    }
    let mut cut_short = UnixStream::connect(&path).unwrap();
    cut_short
        .write_all(b"POST /v1/sessions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{\"session_id\": \"half\"")
        .unwrap();
    drop(cut_short);
    serves(&daemon);
    assert_eq!(daemon.get("/v1/sessions/half").status, 404, "half a request makes no session");
}

#[test]
fn tcp_needs_the_token() {
    let daemon = Daemon::with(Settings::default().tcp());
    let token_file = daemon.data().join("token");
    let token = fs::read_to_string(&token_file).expect("a token was made").trim().to_owned();
    assert_eq!(fs::metadata(&token_file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(token.len() >= 32, "a token of {} characters can be guessed", token.len());
    let Door::Socket(socket) = daemon.door() else { panic!("a socket") };
    assert_eq!(fs::metadata(socket).unwrap().permissions().mode() & 0o777, 0o600);
    let door = daemon.tcp_door();
    let ask = |authorization: Option<&str>| {
        let request = Request::new("GET", "/v1/sessions");
        let request = authorization.iter().fold(request, |request, value| request.header("authorization", value));
        request.send(&door).unwrap()
    };
    let basic = format!("Basic {token}");
    let (longer, shorter) = (format!("Bearer {token}x"), format!("Bearer {}", &token[1..]));
    for wrong in [
        None,
        Some(""),
        Some("Bearer"),
        Some("Bearer "),
        Some("Bearer wrong"),
        Some(basic.as_str()),
        Some(longer.as_str()),
        Some(shorter.as_str()),
        Some(token.as_str()),
    ] {
        let answer = ask(wrong);
        refused(&answer, 401, "unauthorized", &format!("{wrong:?}"));
        assert!(answer.header("www-authenticate").is_some());
        assert!(!answer.text().contains(&token), "the refusal gives the token away");
    }
    assert_eq!(ask(Some(&format!("Bearer {token}"))).status, 200);
    assert!(!daemon.log().contains(&token), "the log gives the token away");
}

#[test]
fn the_token_can_be_given() {
    let daemon = Daemon::with(Settings::default().tcp().env("SHELLKEEP_TOKEN", "given-by-the-host"));
    let ask = |token: &str| {
        Request::new("GET", "/v1/sessions")
            .header("authorization", &format!("Bearer {token}"))
            .send(&daemon.tcp_door())
            .unwrap()
    };
    assert_eq!(ask("given-by-the-host").status, 200);
    refused(&ask("another"), 401, "unauthorized", "another token");
}

/// Runs `serve` where it cannot work and expects a sentence, not a trace.
fn refuses_to_start(
    settings: &Settings,
    directory: &Path,
    listen: Option<std::net::SocketAddr>,
    words: &[&str],
) -> Output {
    let output = settings.command(directory, listen).output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "it started: {text}");
    assert!(!text.contains("panicked"), "{text}");
    for word in words {
        assert!(text.contains(word), "{text:?} does not name {word:?}");
    }
    output
}

#[test]
fn a_port_in_use() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let directory = tempfile::tempdir().unwrap();
    refuses_to_start(&Settings::default(), directory.path(), Some(address), &[&address.to_string()]);
}

#[test]
fn a_directory_that_cannot_be_written() {
    let directory = tempfile::tempdir().unwrap();
    // Root may write anywhere, but not below a file.
    fs::write(directory.path().join("data"), "a file").unwrap();
    refuses_to_start(&Settings::default(), directory.path(), None, &["data"]);
}

#[test]
fn a_store_nobody_knows() {
    let directory = tempfile::tempdir().unwrap();
    for url in ["nonsense", "mongo://x", "sqlite:", ""] {
        refuses_to_start(&Settings::default().store(url), directory.path(), None, &[]);
    }
}

#[test]
fn a_directory_another_daemon_uses() {
    let daemon = with_good_session();
    let output = refuses_to_start(&Settings::default(), daemon.directory(), None, &[]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("another") || text.contains("already") || text.contains("in use"), "{text}");
    serves(&daemon);
}

#[test]
fn a_database_that_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("broken.db");
    fs::write(&file, "this is not a database, it is a letter to whoever opens it ".repeat(100)).unwrap();
    let settings = Settings::default().store(&format!("sqlite://{}", file.display()));
    refuses_to_start(&settings, directory.path(), None, &["broken.db", "corrupt"]);
    assert!(fs::read_to_string(&file).unwrap().starts_with("this is not"), "the file was not touched");
}

/// Stops the daemon, changes every file that holds `find`, and starts it again.
fn damage(daemon: &mut Daemon, find: &str, replace: &str) {
    assert_eq!(find.len(), replace.len(), "offsets inside a database must not move");
    daemon.stop();
    let mut changed = 0;
    let mut open = vec![daemon.data()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                // The journal says what happened; what is damaged here is what was made of it.
                if path.file_name().is_some_and(|name| name != "journal") {
                    open.push(path);
                }
            } else if let Ok(bytes) = fs::read(&path) {
                let count = bytes.windows(find.len()).filter(|window| *window == find.as_bytes()).count();
                if count > 0 {
                    fs::write(&path, replace_all(&bytes, find.as_bytes(), replace.as_bytes())).unwrap();
                    changed += count;
                }
            }
        }
    }
    assert!(changed > 0, "nothing holds {find:?}");
    daemon.restart();
}

fn replace_all(bytes: &[u8], find: &[u8], replace: &[u8]) -> Vec<u8> {
    let mut result = bytes.to_vec();
    for start in 0..=bytes.len().saturating_sub(find.len()) {
        if &bytes[start..start + find.len()] == find {
            result[start..start + find.len()].copy_from_slice(replace);
        }
    }
    result
}

/// One session's stored state is damaged: it is set aside with its error, the others serve, and it can be deleted.
fn one_damaged_session(store: Option<&str>, corrupt: impl FnOnce(&mut Daemon)) {
    let mut daemon = Daemon::with(Settings { store: store.map(str::to_owned), ..Settings::default() });
    daemon.create("good");
    daemon.create("bad");
    daemon.sh("good", "kept=1");
    daemon.sh("bad", "export MARK=damage-this-one");
    corrupt(&mut daemon);
    let answer = daemon.post("/v1/sessions/bad/run", &json!({"command": "echo ran"}));
    let problem = refused(&answer, 500, "session_damaged", "the damaged session");
    assert_eq!(problem["session_id"], json!("bad"));
    assert_eq!(daemon.sh("good", "echo $kept").out(), "1\n", "the others serve");
    let listed = daemon.get("/v1/sessions");
    assert_eq!(listed.status, 200, "{}", listed.text());
    assert!(listed.text().contains("\"good\""), "{}", listed.text());
    daemon.destroy("bad");
    daemon.create("bad");
    assert_eq!(daemon.sh("bad", "echo ${MARK-new}").out(), "new\n");
    serves(&daemon);
}

#[test]
fn a_corrupt_state_file_is_one_sessions_trouble() {
    one_damaged_session(Some("file://{data}/files"), |daemon| {
        daemon.stop();
        let state = daemon.data().join("files/sessions/bad/state.json");
        let text = fs::read_to_string(&state).expect("a state a person can read");
        assert!(text.contains("damage-this-one"), "{text}");
        fs::write(&state, &text[..text.len() / 2]).unwrap();
        daemon.restart();
    });
}

#[test]
fn a_corrupt_row_is_one_sessions_trouble() {
    one_damaged_session(None, |daemon| damage(daemon, "\"damage-this-one\"", "!damage-this-one!"));
}

#[test]
fn files_a_person_can_read() {
    let mut daemon = Daemon::with(Settings::default().store("file://{data}/files"));
    daemon.create_with(json!({"session_id": "plain", "agent": "reader", "config": {"model": "m"}}));
    daemon.sh("plain", "export GREETING='hello there'");
    daemon.stop();
    let session = daemon.data().join("files/sessions/plain");
    let read =
        |name: &str| -> Value { serde_json::from_str(&fs::read_to_string(session.join(name)).unwrap()).unwrap() };
    assert_eq!(read("meta.json")["session_id"], json!("plain"));
    assert!(read("config_snapshot.json").to_string().contains("\"model\":\"m\""));
    assert!(read("state.json").to_string().contains("hello there"));
    daemon.restart();
    assert_eq!(daemon.sh("plain", "echo $GREETING").out(), "hello there\n");
}

#[test]
fn a_token_needs_a_sound_agent() {
    let daemon = Daemon::with(Settings::default().tcp());
    Agent::named(&daemon, "a_b");
    for body in [
        json!({}),
        json!({"agent": ""}),
        json!({"agent": "../x"}),
        json!({"agent": "x".repeat(65)}),
        json!({"agent": "x", "name": ""}),
        json!({"agent": "x", "name": "two\nlines"}),
        json!({"agent": "x", "may_restart": "yes"}),
        json!({"agent": "x", "rights": []}),
        // `thread_a_b_c` could be c of a_b, or b_c of a.
        json!({"agent": "a"}),
    ] {
        refused(&daemon.post("/v1/tokens", &body), 400, "invalid_request", &body.to_string());
    }
}
