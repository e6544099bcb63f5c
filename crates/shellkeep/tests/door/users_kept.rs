//! Users of agents, when tokens, lists and daemons come and go: what was started as root does not stay within an agent's reach,
//! and nothing is forgotten that keeps it from being root.

use crate::support::{Agent, Daemon, Settings};
use crate::users::{for_agents, is_possible, reachable};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

fn ask_for_token(daemon: &Daemon, agent: &str) -> (u16, Value) {
    let answer = daemon.post("/v1/tokens", &json!({"agent": agent}));
    (answer.status, answer.json()["code"].clone())
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn user_of(daemon: &Daemon, session: &str) -> u32 {
    daemon.sh(session, "id -u").out().trim().parse().unwrap()
}

/// Whoever gets the token could type into it, or change what it runs.
#[test]
fn nothing_goes_on_as_root_when_an_agent_gets_its_first_token() {
    if !is_possible() {
        return;
    }
    let daemon = Daemon::on(reachable(), for_agents());
    let at = |name: &str| daemon.directory().join(name);
    let refused = (409, json!("sandbox_busy"));
    let [up, down, lock] = ["up", "down", "lock"].map(at);
    [&up, &down].into_iter().for_each(|path| make_pipe(path));
    let program = format!("echo > {}; read < {}", up.display(), down.display());
    for session in ["s", "other"] {
        let config = json!({"agent": {"command": ["bash", "-c", program]}});
        daemon.create_with(json!({"session_id": session, "agent": "ann", "config": config}));
    }
    assert_eq!(user_of(&daemon, "s"), 0);
    let service = daemon.start_service("s", json!({"command": "sleep 1000"}));
    assert_eq!(ask_for_token(&daemon, "ann"), refused);
    daemon.stop_service("s", service["service_id"].as_str().unwrap());
    // A command in the background, one that is waited for, and an agent that was resumed.
    let wait = json!({"command": program, "timeout": 60});
    for (target, body) in [("s/run", wait), ("other/resume", json!({"message": "go"}))] {
        std::thread::scope(|scope| {
            let working = scope.spawn(|| daemon.post(&format!("/v1/sessions/{target}"), &body));
            fs::read(&up).unwrap();
            assert_eq!(ask_for_token(&daemon, "ann"), refused, "{target}");
            fs::write(&down, "\n").unwrap();
            working.join().unwrap();
        });
    }
    // Refused tokens leave no trace.
    assert_eq!(user_of(&daemon, "s"), 0);
    // What an idle shell left running ends with it.
    let held = format!("exec 9> {}; flock 9; (sleep 1000) & exec 9>&-", lock.display());
    daemon.sh("s", &held);
    let is_free = || Command::new("flock").args(["--nonblock"]).arg(&lock).arg("true").status().unwrap().success();
    assert!(!is_free());
    assert_eq!(ask_for_token(&daemon, "ann").0, 201);
    let freed = Command::new("flock").args(["--timeout", "20"]).arg(&lock).arg("true").status().unwrap();
    assert!(freed.success(), "it still runs");
    assert!(user_of(&daemon, "s") > 1000);
    // The next token finds nothing of root's.
    daemon.start_service("s", json!({"command": "sleep 1000"}));
    assert_eq!(ask_for_token(&daemon, "ann").0, 201);
}

#[test]
fn a_service_that_is_still_roots_is_not_taken_over() {
    if !is_possible() {
        return;
    }
    let mut daemon = Daemon::on(reachable(), for_agents());
    for (session, agent) in [("a", "ann"), ("b", "bob")] {
        daemon.create_with(json!({"session_id": session, "agent": agent}));
    }
    let [ann, bob] = ["a", "b"].map(|session| daemon.start_service(session, json!({"command": "sleep 1000"})));
    daemon.kill();
    // As if it had come from elsewhere.
    let elsewhere = Daemon::with(Settings::default());
    Agent::named(&elsewhere, "ann");
    fs::copy(elsewhere.data().join("tokens.json"), daemon.data().join("tokens.json")).unwrap();
    daemon.restart();
    let ann = daemon.service("a", ann["service_id"].as_str().unwrap());
    assert!(ann["status"] != "running" && ann.to_string().contains("its agent's user"), "{ann}");
    assert_eq!(daemon.service("b", bob["service_id"].as_str().unwrap())["status"], "running");
}

#[test]
fn an_agent_that_has_a_user_is_confined_whatever_is_known_of_its_tokens() {
    if !is_possible() {
        return;
    }
    let mut daemon = Daemon::on(reachable(), for_agents());
    let session = Agent::named(&daemon, "ann").create("s");
    let user = user_of(&daemon, &session);
    daemon.kill();
    fs::remove_file(daemon.data().join("tokens.json")).unwrap();
    daemon.restart();
    daemon.create_with(json!({"session_id": "next", "agent": "ann"}));
    assert_eq!([user_of(&daemon, &session), user_of(&daemon, "next")], [user; 2]);
}

#[test]
fn a_daemon_that_cannot_have_the_directory_changes_nothing_there() {
    if !is_possible() {
        return;
    }
    let daemon = Daemon::on(reachable(), for_agents());
    let session = Agent::named(&daemon, "ann").create("s");
    let second = Settings::default();
    let mut second = Command::new(second.program());
    second
        .args(["serve", "--no-listen", "--data"])
        .arg(daemon.data())
        .arg("--socket")
        .arg(daemon.directory().join("t"));
    let refused = second.env("HOME", "/").output().unwrap();
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("another daemon"), "{why}");
    let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
    assert_eq!([mode(&daemon.data()), mode(&daemon.data().join("workspaces"))], [0o711; 2]);
    assert!(user_of(&daemon, &session) > 1000);
}

/// On another node the agent's files would belong to somebody else.
#[test]
fn users_of_agents_and_a_shared_store_exclude_each_other() {
    let data = tempfile::tempdir().unwrap();
    let mut serve = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    serve.args(["serve", "--listen", "none", "--sandbox-agents", "user", "--store", "redis://127.0.0.1:1", "--data"]);
    let ended = serve.arg(data.path()).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("cannot be used with a store that nodes share"), "{said}");
}
