//! `record.redact_on_write`: a secret is masked before it is stored or returned.

use super::support::{Daemon, Request, Settings};
use super::tools::{Records, holding};
use serde_json::json;
use shellkeep_poll::until;
use std::path::PathBuf;

const SECRET: &str = "registered-horse-battery";

fn masking() -> Settings {
    Settings::default().env("SHELLKEEP_RECORD_REDACT_ON_WRITE", "true").env("SHELLKEEP_RECORD_SECRETS", SECRET)
}

/// Files of the data directory that hold a text, but for those that keep the shell's state, which must be exact.
fn leaks(daemon: &Daemon, text: &str) -> Vec<PathBuf> {
    let state = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("shellkeep.db") || path.parent().is_some_and(|parent| parent.ends_with("journal"))
    };
    holding(&daemon.data(), text.as_bytes()).into_iter().filter(|path| !state(path)).collect()
}

#[test]
fn a_secret_in_pieces_reaches_neither_files_nor_answers() {
    let daemon = Daemon::with(masking());
    daemon.create("s");
    // In three writes, with other streams in between, without a line's end, and more than fits into memory.
    let split = "printf 'a registered-ho'; sleep 0.02; printf 'rse-bat'; echo registered-horse-battery >&2; sleep 0.02; \
                 printf 'tery b'";
    let reply = daemon.sh("s", split);
    assert_eq!((reply.out().as_str(), reply.err().as_str()), ("a *** b", "***\n"));
    let long = daemon.run(
        "s",
        json!({"command": format!("for i in $(seq 5000); do echo \"$i {SECRET} $i\"; done"), "max_output": 200}),
    );
    assert!(!long.json.to_string().contains(SECRET));
    let page = daemon.get(&format!("/v1/sessions/s/runs/{}/output?offset=50000&limit=1000", long.run_id()));
    assert!(page.text().contains(" *** ") && !page.text().contains(SECRET));
    let mut stream = daemon.stream("s", &json!({"command": split}));
    let mut streamed = String::new();
    while let Some(event) = stream.next_event() {
        streamed += &event.data;
    }
    assert!(streamed.contains("a *** b") && !streamed.contains("horse"), "{streamed}");
    let late = daemon.sh("s", &format!("(sleep 0.05; echo late {SECRET}) & echo now"));
    assert_eq!(late.out(), "now\n");
    let late = daemon.sh("s", "wait; sleep 0.1; echo then");
    assert!(!late.json.to_string().contains(SECRET), "{:?}", late.json);
    daemon.note(
        "s",
        "llm_call",
        json!({"prompt": format!("use {SECRET}"), "response": "ok", "api_key": "anything-at-all"}),
    );
    assert_eq!(daemon.say("s", "user", &format!("my key is {SECRET}")), 1);
    let messages = daemon.get("/v1/sessions/s/messages").json();
    assert_eq!(messages["messages"][0]["content"], "my key is ***");
    let events = daemon.assert_whole("s");
    assert!(!json!(events).to_string().contains(SECRET));
    let call = events.iter().find(|event| event["event_type"] == "llm_call").unwrap();
    assert_eq!((&call["data"]["prompt"], &call["data"]["api_key"]), (&json!("use ***"), &json!("***")));
    // Not even in the state here: no variable that is kept holds the whole of it.
    assert!(leaks(&daemon, SECRET).is_empty(), "{:?}", leaks(&daemon, SECRET));
    let journal = holding(&daemon.data().join("journal"), SECRET.as_bytes());
    assert!(journal.is_empty(), "{journal:?}");
}

#[test]
fn a_variables_value_is_masked_from_the_command_that_sets_it_on() {
    let daemon = Daemon::with(masking());
    daemon.create("s");
    let value = "value-of-a-variable";
    let first = daemon.sh("s", &format!("export SOME_API_KEY={value}; echo $SOME_API_KEY; export PLAIN=shown"));
    assert_eq!(first.out(), "***\n");
    let env = &first.json["changes"]["env"];
    assert_eq!((&env["SOME_API_KEY"], &env["PLAIN"]), (&json!("***"), &json!("shown")), "{env}");
    // Made up inside the command: known only when it ends, and masked in what it answers all the same.
    let computed = daemon.sh("s", "export DB_PASSWORD=$(echo pieces-of | tr - _)_a_password; echo $DB_PASSWORD");
    assert_eq!(computed.out(), "***\n");
    assert_eq!(daemon.sh("s", "echo $SOME_API_KEY $DB_PASSWORD $PLAIN").out(), "*** *** shown\n");
    // The shell itself has it, also after it was put to sleep.
    daemon.hibernate("s");
    assert_eq!(daemon.sh("s", "echo ${#SOME_API_KEY} ${#DB_PASSWORD}").out(), format!("{} 20\n", value.len()));
    assert_eq!(daemon.sh("s", "echo $SOME_API_KEY").out(), "***\n");
    daemon.assert_whole("s");
    for text in [value, "pieces_of_a_password"] {
        assert!(leaks(&daemon, text).is_empty(), "{:?}", leaks(&daemon, text));
    }
}

#[test]
fn the_same_request_is_still_run_once() {
    let daemon = Daemon::with(masking());
    daemon.create("s");
    let body = json!({"command": format!("n=$((n+1)); echo $n {SECRET}; export TOKEN_A=later-known-value"), "request_id": "a"});
    let first = daemon.run("s", body.clone());
    assert_eq!(first.out(), "1 ***\n");
    assert_eq!(daemon.run("s", body).json, first.json);
    let other = daemon.post("/v1/sessions/s/run", &json!({"command": "echo other", "request_id": "a"}));
    assert_eq!((other.status, other.json()["code"].as_str()), (409, Some("request_id_reused")));
}

#[test]
fn a_services_log_is_masked_when_it_is_read() {
    let daemon = Daemon::with(masking());
    daemon.create("s");
    let command = format!("printf 'log registered-ho'; sleep 0.05; echo rse-battery; echo {SECRET} again");
    let service = daemon.start_service("s", json!({"command": command}));
    let target = format!("/v1/sessions/s/services/{}", service["service_id"].as_str().unwrap());
    until("it has ended", || {
        let status = daemon.get(&format!("{target}?wait=5")).json()["status"].clone();
        (status == "exited").then_some(())
    });
    assert_eq!(daemon.get(&format!("{target}/logs")).json()["text"], "log ***\n*** again\n");
    let request = Request::new("GET", &format!("{target}/logs")).header("accept", "text/event-stream");
    let mut stream = request.open(&daemon.door()).unwrap();
    let mut told = String::new();
    while let Some(event) = stream.next_event() {
        told += &event.data;
    }
    assert!(told.contains("log ***\\n*** again") && !told.contains(SECRET), "{told}");
    // The end that a reader is told is one of the log, whose bytes are others.
    let bytes = "log  again\n\n".len() + 2 * SECRET.len();
    assert!(told.contains(&format!("\"next_offset\":{bytes}")), "{told}");
}

#[test]
fn without_the_setting_nothing_is_masked() {
    let daemon = Daemon::with(Settings::default().env("SHELLKEEP_RECORD_SECRETS", SECRET));
    daemon.create("s");
    assert_eq!(daemon.sh("s", &format!("echo {SECRET}")).out(), format!("{SECRET}\n"));
}

/// A variable of 800 kB took a gigabyte to look for, and everybody waited for half a minute.
#[test]
fn output_is_withheld_if_there_is_too_much_to_mask() {
    let daemon = Daemon::with(masking());
    daemon.create("s");
    daemon.create("other");
    let first = daemon.sh("s", "A_TOKEN=$(head -c 600000 /dev/urandom | base64 -w0); echo ${A_TOKEN:9:99}; echo set");
    assert_eq!(first.out(), "***\n***\n");
    let second = daemon.sh("s", "echo ${A_TOKEN:9:99}; echo ${#A_TOKEN}");
    assert_eq!(second.out(), "***\n***\n");
    for reply in [first, second] {
        let told = reply.json["notices"].to_string();
        assert!(told.contains("output_dropped") && told.contains("withheld"), "{told}");
    }
    assert_eq!(daemon.sh("other", "echo fine").out(), "fine\n");
}
