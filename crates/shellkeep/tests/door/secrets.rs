//! Secrets that sessions are given by name: they reach commands and services, are masked in everything that comes out, and
//! are in no file of the data directory but those that a command itself writes.

use crate::support::{Agent, Daemon, Request, Settings, procs, services};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A value that no rule recognises; what begins with it, and its other forms, as a command may print them.
const VALUE: &str = "zq7-Kettle-orbit-4411";
const IN_BASE64: &str = "enE3LUtldHRsZS1vcmJpdC00NDEx";
const LATER: &str = "wx3-Lantern-quay-9902";

/// The files that the host has its secrets in.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        files.write("token", &format!("{VALUE}\n"));
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, value: &str) {
        std::fs::write(self.path(name), value).unwrap();
    }

    /// The setting for one secret that sessions can be created with, and the same one for all sessions of an agent.
    fn settings(&self) -> Settings {
        let file = self.path("token").display().to_string();
        Settings::default().set("--secrets", &format!("TOKEN={file},ann/ANNS={file}"))
    }
}

/// The files below a directory that contain one of the forms of a value.
fn files_with(value: &[&str], directory: &Path) -> Vec<String> {
    let mut grep = Command::new("grep");
    grep.args(value.iter().flat_map(|form| ["-e", form]));
    let found = grep.args(["-r", "-l", "-a", "-F"]).arg(directory).output().unwrap();
    String::from_utf8(found.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn given(daemon: &Daemon, session: &str) {
    daemon.create_with(json!({"session_id": session, "secrets": ["TOKEN"]}));
}

/// Everything that a command can do to have a value written down, besides writing a file.
const EVERYWHERE: [&str; 12] = [
    "echo $TOKEN; echo $TOKEN >&2",
    "export X=\"a $TOKEN z\"; declare -p X TOKEN",
    "set; env; export -p",
    "Y=($TOKEN two); declare -A Z=([k]=$TOKEN [$TOKEN]=v); eval \"function $TOKEN { :; }\"",
    "eval \"f() { echo '$TOKEN'; }\"; alias g=\"echo $TOKEN\"; trap \"echo $TOKEN\" USR1; set -- $TOKEN",
    "B=$(printf %s \"$TOKEN\" | base64); echo $B",
    "printf %s \"$TOKEN\" | xxd; printf '%s\\n' ${TOKEN:0:9}; echo ${TOKEN:9}",
    "for ((i = 0; i < ${#TOKEN}; i++)); do printf %s \"${TOKEN:i:1}\"; done",
    "(sleep 0.3; echo late $TOKEN) & echo started",
    "sleep 0.5; : \"$TOKEN\"",
    "bash -c 'exec -a \"$TOKEN\" sleep 300' & disown; sleep 0.1",
    "echo $TOKEN; exit 3",
];

#[test]
fn a_secret_reaches_commands_and_nothing_that_is_written_down() {
    let files = Files::new();
    let mut daemon = Daemon::with(files.settings());
    given(&daemon, "a");
    let told = daemon.sh("a", "echo ${#TOKEN} ${TOKEN%%-*}; printenv TOKEN | wc -c").out();
    assert_eq!(told, format!("{} zq7\n{}\n", VALUE.len(), VALUE.len() + 1));
    let mut seen = Vec::new();
    for command in EVERYWHERE {
        seen.push(daemon.sh("a", command).json.to_string());
    }
    let told = daemon.run("a", json!({"command": format!("echo {VALUE}; cat"), "stdin": format!("in {VALUE}\n")}));
    assert_eq!(told.out(), "***\nin ***\n");
    seen.push(told.json.to_string());
    seen.push(
        daemon.run("a", json!({"command": "echo $TOKEN; tput cup 3 3; echo $TOKEN", "tty": true})).json.to_string(),
    );
    for (target, body) in [
        ("events", json!({"event_type": "x_note", "data": {"text": VALUE, (VALUE): 1}})),
        ("messages", json!({"role": "user", "content": format!("use {VALUE}")})),
    ] {
        let answer = daemon.post(&format!("/v1/sessions/a/{target}"), &body);
        assert_eq!(answer.status, 201, "{target}: {}", answer.text());
    }
    daemon.hibernate("a");
    for path in
        ["state", "events?redact=false&limit=1000", "messages", "config_snapshot", "runs", "export?format=jsonl"]
    {
        let answer = daemon.get(&format!("/v1/sessions/a/{path}"));
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        seen.push(answer.text());
    }
    for text in &seen {
        assert!(!text.contains(VALUE) && !text.contains(IN_BASE64), "{text}");
    }
    assert_eq!(daemon.stop(), Some(0));
    assert_eq!(files_with(&[VALUE, IN_BASE64], &daemon.data()), Vec::<String>::new());
    let log = daemon.log();
    assert!(!log.contains(VALUE), "{log}");
}

/// A program that writes the end of a secret before its beginning has no secret in its output, and one on its screen: who looked
/// at the screens of an ended run read it, unless they asked for a mask.
#[test]
fn a_secret_that_is_put_together_on_a_screen_is_masked() {
    let files = Files::new();
    let daemon = Daemon::with(files.settings());
    given(&daemon, "a");
    let command = "printf '\\033[10G%s\\033[1G%s\\n' \"${TOKEN:9}\" \"${TOKEN:0:9}\"";
    let run = daemon.run("a", json!({"command": command, "tty": true}));
    for query in ["", "?redact=false", "?redact=true"] {
        let answer = daemon.get(&format!("/v1/sessions/a/runs/{}/screens{query}", run.run_id()));
        assert_eq!(answer.status, 200, "{query}: {}", answer.text());
        assert!(!answer.text().contains(VALUE) && answer.text().contains("***"), "{query}: {}", answer.text());
    }
}

/// A command wrote the mark of a secret of 60 kB sixteen thousand times into a variable, and the next shell was given a
/// gigabyte.
#[test]
fn marks_that_a_command_writes_do_not_fill_the_memory() {
    let files = Files::new();
    let long: String = ('a'..='z').cycle().take(60_000).collect();
    files.write("token", &long);
    let daemon = Daemon::with(files.settings());
    given(&daemon, "a");
    daemon.sh("a", "X='⟨secret:TOKEN⟩'; for i in {1..14}; do X=$X$X; done; COPY=$TOKEN");
    daemon.hibernate("a");
    let reply = daemon.sh("a", "[[ $X == *secret:TOKEN* ]] && echo marks; echo ${#COPY}");
    assert_eq!(reply.out(), "marks\n60000\n");
    let told = reply.json["notices"].to_string();
    assert!(told.contains("restore_incomplete") && told.contains("copies of secrets"), "{told}");
    let peak = procs::peak_resident_kib(daemon.pid());
    assert!(peak < 512 << 10, "{peak} KiB");
    let refused = daemon.post("/v1/sessions/a/services", &json!({"command": "sleep 100"}));
    assert_eq!(refused.json()["code"], "service_not_started", "{}", refused.text());
    // Without it everything is as before.
    daemon.sh("a", "unset X");
    daemon.hibernate("a");
    let reply = daemon.sh("a", "echo ${#COPY}");
    assert_eq!(reply.out(), "60000\n");
    assert!(!reply.json["notices"].to_string().contains("restore_incomplete"), "{:?}", reply.json);
}

/// A command may write the value into a file, and a difference of files showed it.
#[test]
fn a_file_that_has_it_is_shown_without_it() {
    let files = Files::new();
    let daemon = Daemon::with(files.settings());
    given(&daemon, "a");
    daemon.sh("a", "echo before > file");
    daemon.sh("a", "echo after $TOKEN > file; printf %s $TOKEN | base64 >> file");
    daemon.sh("a", "echo and again $TOKEN >> file");
    for query in ["checkpoints/latest/diff?patch=true", "diff?from=-1&patch=true", "export?format=html"] {
        for redact in [false, true] {
            let answer = daemon.get(&format!("/v1/sessions/a/{query}&redact={redact}"));
            assert_eq!(answer.status, 200, "{query}: {}", answer.text());
            let text = answer.text();
            assert!(text.contains("after ***"), "{query}: {text}");
            assert!(!text.contains(VALUE) && !text.contains(IN_BASE64), "{query}: {text}");
        }
    }
}

/// The path was masked in the state, and then every command was refused: its directory could not be entered.
#[test]
fn a_session_can_work_in_a_directory_that_is_named_by_it() {
    let files = Files::new();
    let mut daemon = Daemon::with(files.settings());
    given(&daemon, "a");
    daemon.sh("a", "mkdir -p \"$PWD/$TOKEN/in\" && cd \"$TOKEN\"");
    let check = |daemon: &Daemon| {
        let where_it_is = "[ \"${PWD##*/}\" = \"$TOKEN\" ] && [ \"$PWD\" -ef . ] && echo there";
        assert_eq!(daemon.sh("a", where_it_is).out(), "there\n");
        let inside = daemon.run("a", json!({"command": "[ \"${PWD##*/}\" = in ] && echo inside", "cwd": "in"}));
        assert_eq!(inside.out(), "inside\n", "{}", inside.json);
    };
    check(&daemon);
    let service = daemon.start_service("a", json!({"command": "echo ${PWD##*/}; echo ran", "wait": 20}));
    assert_eq!(daemon.service_log("a", services::id(&service)), "***\nran\n", "{service}");
    daemon.hibernate("a");
    check(&daemon);
    daemon.kill();
    daemon.restart();
    check(&daemon);
    let shown = daemon.get("/v1/sessions/a").text();
    assert!(shown.contains("⟨secret:TOKEN⟩") && !shown.contains(VALUE), "{shown}");
    // In another form it cannot be entered again: the session stays where it was.
    let moved = daemon.sh("a", "d=/tmp/$(printf %s \"$TOKEN\" | base64); mkdir -p \"$d\" && cd \"$d\"");
    assert!(moved.notice_text().contains("has a masked secret in its path"), "{}", moved.json);
    check(&daemon);
    daemon.sh("a", "rmdir \"/tmp/$(printf %s \"$TOKEN\" | base64)\"");
}

/// What a session keeps of a secret is its name, and the value is filled in wherever the session goes on.
#[test]
fn copies_in_variables_and_functions_come_back_with_the_next_shell() {
    let files = Files::new();
    let mut daemon = Daemon::with(files.settings());
    given(&daemon, "a");
    daemon.sh(
        "a",
        "export X=\"a $TOKEN z\"; L=($TOKEN); eval \"f() { echo '$TOKEN'; }\"; B=$(printf %s $TOKEN | base64)",
    );
    let check = |daemon: &Daemon, session: &str| {
        let same = "[ \"$X\" = \"a $TOKEN z\" ] && [ ${L[0]} = $TOKEN ] && [ $(f) = $TOKEN ] && echo same $B";
        daemon.sh(session, same).out()
    };
    assert_eq!(check(&daemon, "a"), "same ***\n");
    daemon.hibernate("a");
    assert_eq!(check(&daemon, "a"), "same ***\n");
    let state = daemon.get("/v1/sessions/a/state").json();
    assert_eq!(state["env"]["X"], "a ⟨secret:TOKEN⟩ z", "{state}");
    assert!(state["env"].get("TOKEN").is_none(), "{state}");
    assert_eq!(daemon.post("/v1/sessions/a/fork", &json!({"session_id": "b"})).status, 201);
    assert_eq!(check(&daemon, "b"), "same ***\n");
    assert_eq!(daemon.get("/v1/sessions/b").json()["secrets"], json!(["TOKEN"]));
    daemon.kill();
    daemon.restart();
    assert_eq!(check(&daemon, "a"), "same ***\n");
    assert_eq!(daemon.post("/v1/sessions/a/rewind", &json!({"to": "-1"})).status, 200);
    daemon.sh("a", ":");
    assert_eq!(daemon.stop(), Some(0));
    assert_eq!(files_with(&[VALUE, IN_BASE64], &daemon.data()), Vec::<String>::new());
}

#[test]
fn a_new_value_is_there_at_the_next_command_and_a_missing_one_is_an_error() {
    let files = Files::new();
    let mut daemon = Daemon::with(files.settings());
    given(&daemon, "a");
    assert_eq!(daemon.sh("a", "X=$TOKEN; echo ${TOKEN%%-*} $TOKEN").out(), "zq7 ***\n");
    files.write("token", LATER);
    assert_eq!(daemon.sh("a", "echo ${TOKEN%%-*} $TOKEN $X").out(), "wx3 *** ***\n");
    std::fs::remove_file(files.path("token")).unwrap();
    for restarts in [false, true] {
        if restarts {
            daemon.restart();
        }
        let refused = daemon.post("/v1/sessions/a/run", &json!({"command": "echo ran"}));
        let problem = refused.json();
        assert_eq!((refused.status, &problem["code"]), (409, &json!("secret_unavailable")), "{problem}");
        assert_eq!(problem["secret"], "TOKEN");
    }
    files.write("token", "short");
    let refused = daemon.post("/v1/sessions/a/run", &json!({"command": "echo ran"})).json();
    assert!(refused["detail"].as_str().unwrap().contains("it is shorter than 6 bytes"), "{refused}");
    files.write("token", LATER);
    assert_eq!(daemon.sh("a", "echo $TOKEN; [ $X = $TOKEN ] && echo the new one").out(), "***\nthe new one\n");
}

#[test]
fn a_service_gets_it_and_its_log_does_not() {
    let files = Files::new();
    let mut daemon = Daemon::with(files.settings());
    given(&daemon, "a");
    let command = "echo it is $TOKEN; printf %s $TOKEN | base64; echo ${#TOKEN}; sleep 300";
    let service = daemon.start_service("a", json!({"command": command, "ready": {"log": "^21$"}, "wait": 20}));
    assert_eq!(service["status"], "running", "{service}");
    let id = services::id(&service);
    assert_eq!(daemon.service_log("a", id), "it is ***\n***\n21\n");
    assert_eq!(files_with(&[VALUE, IN_BASE64], &daemon.data()), Vec::<String>::new());
    daemon.restart();
    assert_eq!(daemon.service("a", id)["status"], "running");
    assert_eq!(daemon.service_log("a", id), "it is ***\n***\n21\n");
    daemon.stop_service("a", id);
}

/// Bytes that are kept as they are, for the agent alone, cannot be masked without damage.
#[test]
fn the_agents_own_state_and_keys_cannot_hold_it() {
    let files = Files::new();
    let daemon = Daemon::with(files.settings());
    given(&daemon, "a");
    let put =
        |path: &str, body: String| daemon.send(&Request::new("PUT", &format!("/v1/sessions/a/{path}")).json(body));
    for path in ["agent_state", "kv/key"] {
        let refused = put(path, json!({"text": VALUE}).to_string());
        assert_eq!((refused.status, refused.json()["code"].clone()), (400, json!("invalid_request")), "{path}");
        assert!(refused.json()["detail"].as_str().unwrap().contains("never stored"), "{path}: {}", refused.text());
        let kept = put(path, json!({"text": "another"}).to_string());
        assert!((200..300).contains(&kept.status), "{path}: {}", kept.text());
    }
    assert_eq!(files_with(&[VALUE], &daemon.data()), Vec::<String>::new());
}

/// Only the host gives secrets, and an agent's are its own.
#[test]
fn another_agent_does_not_see_it() {
    let files = Files::new();
    let daemon = Daemon::with(files.settings().tcp());
    let (ann, bob) = (Agent::named(&daemon, "ann"), Agent::named(&daemon, "bob"));
    let [anns, bobs] = [&ann, &bob].map(|agent| agent.create("s"));
    let told = |answer: Value| answer["stdout"].as_str().unwrap().to_owned();
    assert_eq!(told(ann.sh(&anns, "echo ${#ANNS} ${#TOKEN}; sleep 300 & disown")), "21 0\n");
    assert_eq!(told(bob.sh(&bobs, "echo ${#ANNS} ${#TOKEN}")), "0 0\n");
    let file = files.path("token");
    let look = format!("cat /proc/[0-9]*/environ {} 2>/dev/null | tr '\\0' '\\n' | grep -c -F {VALUE}", file.display());
    assert_eq!(told(bob.sh(&bobs, &look)), "0\n");
    for (who, name, status) in
        [("ann", "TOKEN", 403), ("host", "OTHER", 400), ("host", "ANNS", 400), ("host", "TOKEN", 201)]
    {
        let body = json!({"session_id": format!("{who}-{name}"), "secrets": [name]});
        let answer = if who == "ann" { ann.post("/v1/sessions", &body) } else { daemon.post("/v1/sessions", &body) };
        assert_eq!(answer.status, status, "{who} {name}: {}", answer.text());
    }
    // A session that the host creates for ann is one of hers.
    daemon.create_with(json!({"session_id": "of-ann", "agent": "ann", "secrets": ["TOKEN"]}));
    assert_eq!(daemon.sh("of-ann", "echo ${#ANNS} ${#TOKEN}").out(), "21 21\n");
}
