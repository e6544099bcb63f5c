//! A process of a session that connects to the socket is that session's agent, whatever it does first.

use crate::support::http::Door;
use crate::support::{Daemon, Request, Settings};
use serde_json::{Value, json};
use shellkeep_poll::until;
use std::path::{Path, PathBuf};

/// Where answers are written, in a daemon's directory.
const ANSWERS: &str = "answers";

/// What a process of a session got.
#[derive(Debug)]
struct Got {
    status: u16,
    body: Value,
}

impl Got {
    fn code(&self) -> (u16, &str) {
        (self.status, self.body["code"].as_str().unwrap_or_default())
    }
}

/// The command that asks from inside a session, and the file in which the answer will be.
fn asking(daemon: &Daemon, way: &str, request: &[&str]) -> (String, PathBuf) {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let answers = daemon.directory().join(ANSWERS);
    std::fs::create_dir_all(&answers).unwrap();
    let output = answers.join(format!("answer-{count}"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/door/ask.py");
    let Door::Socket(socket) = daemon.door() else { panic!("a socket") };
    let words = ["python3", script.to_str().unwrap(), socket.to_str().unwrap(), output.to_str().unwrap(), way];
    let quoted: Vec<String> = words.iter().chain(request).map(|word| format!("'{word}'")).collect();
    (quoted.join(" "), output)
}

fn answer(output: &Path) -> Got {
    let text = until("an answer", || std::fs::read_to_string(output).ok());
    let (status, body) = text.split_once(' ').unwrap();
    Got { status: status.parse().unwrap(), body: serde_json::from_str(body).unwrap_or(Value::Null) }
}

fn ask(daemon: &Daemon, session: &str, way: &str, request: &[&str]) -> Got {
    let (command, output) = asking(daemon, way, request);
    let run = daemon.sh(session, &command);
    assert_eq!(run.exit_code(), Some(0), "{:?}", run.json);
    answer(&output)
}

/// The control group in which a session's shell is.
fn group(daemon: &Daemon, session: &str) -> String {
    let read = daemon.sh(session, "cat /proc/self/cgroup").out();
    read.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default().to_owned()
}

fn token(daemon: &Daemon, agent: &str) -> (String, String) {
    let made = daemon.post("/v1/tokens", &json!({"agent": agent})).json();
    (made["id"].as_str().unwrap().to_owned(), made["token"].as_str().unwrap().to_owned())
}

fn daemon(cages: &str) -> Daemon {
    let daemon = Daemon::with(Settings::default().set("--cages", cages));
    daemon.create("a");
    daemon.create("b");
    daemon.sh("b", "x=1");
    daemon
}

/// Until now whoever could open the socket was the host: `curl --unix-socket` in a session ran commands in another
/// agent's session and made tokens.
#[test]
fn a_process_of_the_hosts_session_may_use_that_session_only() {
    for cages in ["auto", "marks"] {
        let daemon = daemon(cages);
        let sessions = ask(&daemon, "a", "plain", &["GET", "/v1/sessions"]);
        assert_eq!(sessions.body["sessions"].as_array().map(Vec::len), Some(1), "{cages}: {sessions:?}");
        assert_eq!(sessions.body["sessions"][0]["session_id"], "a");
        assert_eq!(ask(&daemon, "a", "plain", &["GET", "/v1/sessions/a"]).status, 200);
        assert_eq!(ask(&daemon, "a", "plain", &["GET", "/v1/services"]).body["services"], json!([]));
        for (method, target, body, expected) in [
            ("GET", "/v1/sessions/b", "", (404, "session_not_found")),
            ("POST", "/v1/sessions/b/run", r#"{"command": "id"}"#, (404, "session_not_found")),
            ("POST", "/v1/sessions", r#"{"session_id": "c"}"#, (403, "not_allowed")),
            ("POST", "/v1/sessions", "{}", (403, "not_allowed")),
            ("POST", "/v1/sessions/a/fork", r#"{"session_id": "c"}"#, (403, "not_allowed")),
            ("POST", "/v1/sessions/a/restart", "{}", (403, "not_allowed")),
            ("DELETE", "/v1/sessions/a", "", (403, "not_allowed")),
            ("POST", "/v1/tokens", r#"{"agent": "eve"}"#, (403, "not_allowed")),
            ("GET", "/v1/tokens", "", (403, "not_allowed")),
            ("PUT", "/v1/quotas", r#"{"services": 1}"#, (403, "not_allowed")),
            ("GET", "/v1/node", "", (403, "not_allowed")),
            ("GET", "/metrics", "", (403, "not_allowed")),
        ] {
            let got = ask(&daemon, "a", "plain", &[method, target, body]);
            assert_eq!(got.code(), expected, "{cages}: {method} {target}: {got:?}");
        }
        // The host's token lies in a file that the same user can read. On the socket it makes nobody the host.
        let secret = std::fs::read_to_string(daemon.data().join("token")).unwrap();
        let got = ask(&daemon, "a", "plain", &["GET", "/v1/tokens", "", secret.trim()]);
        assert_eq!(got.code(), (403, "forbidden_peer"), "{got:?}");
        assert_eq!(daemon.get("/v1/tokens").status, 200, "the host is still the host");
    }
}

/// To leave one's parent, one's process session or one's control group does not make one the host, nor another session.
#[test]
fn nobody_gets_away_from_its_session() {
    let ways = [
        "setsid",
        "orphan",
        "orphan+setsid",
        "leave",
        "leave+setsid",
        "leave+orphan",
        "leave+orphan+setsid+orphan",
        "connect+leave",
        "connect+orphan",
        "connect+leave+orphan+setsid",
        "enter",
        "enter+orphan",
        "enter+orphan+setsid+orphan",
        "connect+enter",
    ];
    for cages in ["auto", "marks"] {
        let daemon = daemon(cages);
        // Of this daemon: in a group of another one it would end when a shell there does.
        let entered = group(&daemon, "b");
        let is_others = entered != group(&daemon, "a");
        for way in ways {
            let way = way.replace("enter", &format!("enter={entered}"));
            let got = ask(&daemon, "a", &way, &["GET", "/v1/sessions"]);
            let seen = got.body["sessions"].as_array().map(|list| list.iter().map(|one| &one["session_id"]).collect());
            let is_own = got.status == 200 && seen == Some(vec![&json!("a")]);
            let is_refused = got.code() == (403, "forbidden_peer");
            let must_be_refused = is_others && way.starts_with("enter");
            assert!(is_refused || (is_own && !must_be_refused), "{cages}: {way}: {got:?}");
        }
        daemon.destroy("a");
    }
}

#[test]
fn a_process_of_an_agents_session_is_that_agent_until_its_tokens_are_revoked() {
    // It is confined, and needs the script and a place for what it got.
    let directory = tempfile::Builder::new().prefix("shellkeep-test-").tempdir().unwrap();
    let answers = directory.path().join(ANSWERS);
    std::fs::create_dir(&answers).unwrap();
    let settings = Settings::default()
        .set("--sandbox-read", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/door"))
        .set("--sandbox-write", answers.to_str().unwrap());
    let daemon = Daemon::on(directory, settings);
    daemon.create("host");
    let (id, secret) = token(&daemon, "ann");
    let made = daemon.send(
        &Request::new("POST", "/v1/sessions")
            .header("authorization", &format!("Bearer {secret}"))
            .json(json!({"session_id": "one"}).to_string()),
    );
    assert_eq!(made.status, 201, "{}", made.text());
    let got = ask(&daemon, "thread_ann_one", "plain", &["POST", "/v1/sessions", r#"{"session_id": "two"}"#]);
    assert_eq!((got.status, &got.body["agent"]), (201, &json!("ann")), "{got:?}");
    let got = ask(&daemon, "thread_ann_one", "plain", &["GET", "/v1/sessions"]);
    assert_eq!(got.body["sessions"].as_array().map(Vec::len), Some(2), "{got:?}");
    let got = ask(&daemon, "thread_ann_one", "plain", &["GET", "/v1/tokens"]);
    assert_eq!(got.code(), (403, "not_allowed"));
    // A token that was given to it is worth what it is worth elsewhere.
    let (_, other) = token(&daemon, "bob");
    let got = ask(&daemon, "thread_ann_one", "plain", &["POST", "/v1/sessions", "{}", &other]);
    assert_eq!((got.status, &got.body["agent"]), (201, &json!("bob")), "{got:?}");
    assert_eq!(daemon.send(&Request::new("DELETE", &format!("/v1/tokens/{id}"))).status, 204);
    let got = ask(&daemon, "thread_ann_one", "plain", &["GET", "/v1/sessions"]);
    assert_eq!(got.code(), (403, "not_allowed"), "{got:?}");
}

/// Services outlive the daemon; the next one must know them as well as the one that started them.
#[test]
fn a_service_is_its_session_under_the_next_daemon_too() {
    for cages in ["auto", "marks"] {
        let mut daemon = daemon(cages);
        let (command, first) = asking(&daemon, "plain", &["GET", "/v1/sessions"]);
        let (again, second) = asking(&daemon, "plain", &["GET", "/v1/sessions"]);
        let (orphan, third) = asking(&daemon, "orphan+setsid+orphan", &["GET", "/v1/sessions"]);
        let go = daemon.directory().join("go");
        let wait = format!("until [ -e {} ]; do sleep 0.02; done", go.display());
        let command = format!("{command}; {wait}; {again}; {orphan}; sleep 1000");
        daemon.start_service("a", json!({"command": command, "cwd": "/"}));
        let is_own = |got: &Got| got.body["sessions"].as_array().is_some_and(|list| list.len() == 1);
        let got = answer(&first);
        assert!(is_own(&got), "{cages}: {got:?}");
        daemon.restart();
        std::fs::write(&go, "").unwrap();
        let got = answer(&second);
        assert!(is_own(&got), "{cages}: {got:?}");
        let got = answer(&third);
        assert!(is_own(&got) || got.code() == (403, "forbidden_peer"), "{cages}: {got:?}");
    }
}

/// A command behind a fence could connect to the socket of any other daemon of the same user, and was the host there: it made
/// a session without a sandbox and was out.
#[test]
fn a_session_of_another_daemon_is_not_the_host() {
    let host = Daemon::start();
    let answers = host.directory().join(ANSWERS);
    std::fs::create_dir(&answers).unwrap();
    for cages in ["auto", "marks"] {
        let settings = Settings::default()
            .set("--cages", cages)
            .set("--sandbox-read", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/door"))
            .set("--sandbox-write", answers.to_str().unwrap());
        let other = Daemon::with(settings);
        for sandbox in ["none", "fence"] {
            other.create_with(json!({"session_id": sandbox, "sandbox": sandbox}));
            for way in ["plain", "setsid", "orphan", "orphan+setsid+orphan", "connect+orphan+setsid"] {
                let (command, output) = asking(&host, way, &["POST", "/v1/sessions", r#"{"session_id": "out"}"#]);
                let run = other.sh(sandbox, &command);
                assert_eq!(run.exit_code(), Some(0), "{cages}: {sandbox}: {way}: {:?}", run.json);
                let got = answer(&output);
                assert_eq!(got.code(), (403, "forbidden_peer"), "{cages}: {sandbox}: {way}: {got:?}");
            }
        }
        assert_eq!(host.get("/v1/tokens").status, 200, "{cages}: the host is still the host");
    }
}

/// Such as the commands of an agent that does not run in sessions, or a service that is hardened: what it was given to do must
/// not be more than what it may do itself.
#[test]
fn a_process_with_a_filter_of_system_calls_is_not_the_host() {
    let daemon = Daemon::start();
    let answers = daemon.directory().join(ANSWERS);
    std::fs::create_dir(&answers).unwrap();
    let (command, output) = asking(&daemon, "plain", &["GET", "/v1/tokens"]);
    // The call has a number that no machine uses.
    let confined = format!("'{}/tests/door/without.py' 4000=38 -- {command}", env!("CARGO_MANIFEST_DIR"));
    let done = std::process::Command::new("sh").args(["-c", &format!("python3 {confined}")]).status().unwrap();
    assert!(done.success(), "{done:?}");
    let got = answer(&output);
    assert_eq!(got.code(), (403, "forbidden_peer"), "{got:?}");
    assert_eq!(daemon.get("/v1/tokens").status, 200, "the host is still the host");
}
