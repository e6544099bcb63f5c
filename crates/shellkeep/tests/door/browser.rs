//! The console in a real browser: Chromium, driven by the scripts in `tests/console`. `install.sh` there fetches what
//! they need.

use crate::support::{Daemon, Settings, soak, tools};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/console")
}

/// Posts something that must be accepted.
fn post(daemon: &Daemon, path: &str, body: &Value) -> Value {
    let answer = daemon.post(path, body);
    assert!(matches!(answer.status, 200 | 201), "{path}: {}", answer.text());
    answer.json()
}

/// A daemon with a session in which everything happened that a page shows, and a fork of it.
fn daemon() -> Daemon {
    let daemon = Daemon::with(Settings::default().tcp());
    daemon.create_with(json!({"session_id": "demo", "agent": "builder"}));
    let say = |kind: &str, data: Value| {
        post(&daemon, "/v1/sessions/demo/events", &json!({"event_type": kind, "data": data}));
    };
    say("user_input", json!({"message": "Add a greeting to the app."}));
    daemon.sh("demo", "mkdir src; printf 'import sys\\n\\nprint(\"one\")\\n' >src/app.py; export CI=1");
    say(
        "llm_call",
        json!({"prompt": "What next?", "response": "I will run the tests.", "token_usage": {"input": 12, "output": 7}, "duration": 1.4}),
    );
    daemon.sh("demo", "printf '\\033[32mok\\033[0m 11 tests\\n'; echo 'test_greeting: \\033[31mnot found\\033[0m' >&2; exit_with() { return 2; }; exit_with");
    daemon.sh("demo", "sed -i 's/one/hello/' src/app.py; echo 'print(\"bye\")' >>src/app.py; seq 40 >numbers.txt");
    let middle = daemon.sh("demo", "cd src; python3 app.py || true").json["seq"].clone();
    post(&daemon, "/v1/sessions/demo/services", &json!({"command": "echo listening; exec sleep 1000", "name": "web"}));
    post(&daemon, "/v1/sessions/demo/fork", &json!({"session_id": "try-1", "at": middle}));
    daemon.sh("try-1", "echo 'print(\"fork\")' >>app.py; false");
    daemon.sh("demo", "rm ../numbers.txt; echo broken >app.py");
    post(&daemon, "/v1/sessions/demo/rewind", &json!({"to": middle}));
    daemon.sh("demo", "cat app.py");
    daemon
}

/// Sessions and events of a large node: 100,000 and a million with `SHELLKEEP_SOAK=100`.
const SESSIONS: usize = 1000;
const EVENTS: usize = 10_000;

/// Runs a script of `tests/console` in a browser, and does what it asks for: it kills and starts the daemon.
fn browse(daemon: &mut Daemon, script: &str) {
    let Some(tools) = tools("console-tools") else { return };
    let mut node = Command::new("node")
        .arg(scripts().join(script))
        .env("SHELLKEEP_BIN", daemon.settings().program())
        .env("SHELLKEEP_SOCKET", daemon.directory().join("s.sock"))
        .env("SHELLKEEP_TOOLS", tools)
        .env("SHELLKEEP_SESSIONS", (SESSIONS * soak()).to_string())
        .env("SHELLKEEP_EVENTS", (EVENTS * soak()).to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node starts");
    let mut orders = node.stdin.take().unwrap();
    for line in BufReader::new(node.stdout.take().unwrap()).lines().map_while(Result::ok) {
        match line.as_str() {
            "kill" => daemon.kill(),
            "start" => daemon.restart(),
            said => {
                println!("{said}");
                continue;
            }
        }
        orders.write_all(b"done\n").unwrap();
    }
    let status = node.wait().unwrap();
    assert!(status.success(), "{script}: {status}\nthe daemon's log:\n{}", daemon.log());
}

#[test]
fn every_page_keeps_its_policy_and_is_accessible() {
    browse(&mut daemon(), "pages.mjs");
}

#[test]
fn the_keyboard_alone_is_enough() {
    browse(&mut daemon(), "keyboard.mjs");
}

/// Seven projects with a terminal in the browser let any page open a shell, because they trusted the machine's own
/// address.
#[test]
fn a_page_of_another_origin_can_do_nothing() {
    browse(&mut daemon(), "foreign.mjs");
}

#[test]
fn hostile_output_stays_text() {
    browse(&mut daemon(), "hostile.mjs");
}

#[test]
fn a_page_comes_back_after_its_daemon_was_killed() {
    browse(&mut daemon(), "killed.mjs");
}

#[test]
fn a_person_drives_the_terminal() {
    browse(&mut daemon(), "terminal.mjs");
}

#[test]
fn a_replay_shows_the_screens_of_a_program() {
    browse(&mut daemon(), "replay.mjs");
}

#[test]
fn what_happens_is_shown_as_it_happens() {
    browse(&mut daemon(), "changes.mjs");
}

/// `SHELLKEEP_FIGURES_BIN` is the program to measure, which is better a release build.
#[test]
fn a_large_node_is_as_quick_as_a_small_one() {
    let program = std::env::var_os("SHELLKEEP_FIGURES_BIN").map(PathBuf::from);
    browse(&mut Daemon::with(Settings { program, ..Settings::default().tcp() }), "scale.mjs");
}

/// The modules that need no browser, with Node's own test runner.
#[test]
fn the_pure_modules_do_what_they_say() {
    if tools("console-tools").is_none() {
        return;
    }
    // Node takes a script for a module if a package says so.
    let place = tempfile::tempdir().unwrap();
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/web");
    let files = fs::read_dir(web).unwrap().map(|entry| entry.unwrap().path());
    for file in files.chain([scripts().join("modules.test.js")]) {
        fs::copy(&file, place.path().join(file.file_name().unwrap())).unwrap();
    }
    fs::write(place.path().join("package.json"), "{\"type\": \"module\"}").unwrap();
    let output = Command::new("node").args(["--test", "modules.test.js"]).current_dir(&place).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
