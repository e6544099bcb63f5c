//! A secret that was recorded is masked afterwards, in everything that is kept, and the recording proves itself as before.

use super::support::{Daemon, Request, Settings};
use super::tools::{Records, holding};
use serde_json::{Value, json};

const SECRET: &str = "leaked-horse-battery";

fn scrub(daemon: &Daemon, session: &str) -> Value {
    let answer = daemon.post(&format!("/v1/sessions/{session}/scrub"), &json!({"secret": SECRET}));
    assert_eq!(answer.status, 200, "{}\n{}", answer.text(), daemon.log());
    answer.json()
}

/// Puts the secret wherever it can be.
fn spread(daemon: &Daemon) {
    daemon.create_with(json!({"session_id": "s", "env": {"FIRST": SECRET}, "config": {"key": SECRET}}));
    daemon.sh("s", &format!("export SECOND={SECRET}; f() {{ echo {SECRET}; }}; alias g='echo {SECRET}'; keep=1"));
    daemon.sh("s", "f; echo $FIRST | base64; for i in $(seq 5000); do echo \"$i $SECOND\"; done");
    daemon.note("s", "x_told", json!({"text": SECRET, SECRET: {"list": [SECRET]}}));
    daemon.say("s", "user", &format!("it is {SECRET}"));
    assert_eq!(
        daemon.save("s", &[("content-type", "application/json")], format!("\"{SECRET}\"").as_bytes()).status,
        201
    );
    let large = format!("{}{SECRET}{}", "x".repeat(70_000), "y".repeat(1000));
    assert_eq!(daemon.save("s", &[], large.as_bytes()).status, 200);
    let service = daemon.start_service("s", json!({"command": format!("echo log {SECRET}; exec sleep 600")}));
    let stopping = format!("/v1/sessions/s/services/{}/stop", service["service_id"].as_str().unwrap());
    assert_eq!(daemon.post(&stopping, &json!({"grace": 0})).status, 200);
}

/// A scrub said nothing of the copies in forks.
#[test]
fn a_scrub_names_the_forks_that_may_still_have_it() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", &format!("echo {SECRET}"));
    for (origin, fork) in [("s", "fork"), ("fork", "fork-of-fork"), ("s", "removed")] {
        let forked = daemon.post(&format!("/v1/sessions/{origin}/fork"), &json!({"session_id": fork}));
        assert_eq!(forked.status, 201, "{}", forked.text());
    }
    assert_eq!(daemon.send(&Request::new("DELETE", "/v1/sessions/removed")).status, 204);
    let report = scrub(&daemon, "s");
    assert_eq!((&report["not_reached"], &report["forks"]), (&json!(["forks"]), &json!(["fork", "fork-of-fork"])));
    let report = scrub(&daemon, "fork-of-fork");
    assert_eq!((&report["not_reached"], &report["forks"]), (&json!([]), &json!([])), "{report}");
}

#[test]
fn a_secret_is_nowhere_afterwards() {
    for store in [None, Some("file://{data}/files")] {
        let mut daemon = Daemon::with(Settings { store: store.map(str::to_owned), ..Settings::default() });
        spread(&daemon);
        daemon.create_with(json!({"session_id": "other"}));
        daemon.sh("other", "echo untouched");
        let before = daemon.assert_whole("s");
        assert!(!holding(&daemon.data(), SECRET.as_bytes()).is_empty());
        let report = scrub(&daemon, "s");
        assert!(report["seqs"].as_array().unwrap().len() >= 7, "{report}");
        let left = holding(&daemon.data(), SECRET.as_bytes());
        assert!(left.is_empty(), "{store:?}: {left:?}");
        // The session goes on: everything else is as it was, and the secret is a mask.
        let reply = daemon.sh("s", "echo $SECOND $keep; f");
        assert_eq!(reply.out(), "*** 1\n***\n");
        let verdict = daemon.verdict("s");
        assert_eq!(
            (&verdict["intact"], verdict["masked_fields"].as_u64() > Some(7)),
            (&json!(true), true),
            "{verdict}"
        );
        let after = daemon.events("s");
        let told = after.iter().find(|event| event["event_type"] == "scrubbed").unwrap();
        assert_eq!((&told["seq"], &told["data"]["seqs"]), (&report["seq"], &report["seqs"]));
        for (old, new) in before.iter().zip(&after) {
            assert_eq!((&old["seq"], &old["hash"]), (&new["seq"], &new["hash"]));
        }
        let state = daemon.get("/v1/sessions/s/agent_state");
        assert_eq!((state.header("etag"), state.text().contains("x***y")), (Some("\"2\""), true));
        assert_eq!(daemon.get("/v1/sessions/s/messages").json()["messages"][0]["content"], "it is ***");
        let listed = daemon.get("/v1/sessions/s").json();
        assert_eq!(listed["agent_config"], json!({"key": "***"}));
        daemon.restart();
        assert_eq!(daemon.sh("s", "echo $SECOND $keep").out(), "*** 1\n");
        assert_eq!(daemon.sh("other", "echo still").out(), "still\n");
        assert_eq!(daemon.verdict("s")["intact"], json!(true));
        let left = holding(&daemon.data(), SECRET.as_bytes());
        assert!(left.is_empty(), "{store:?} after a restart: {left:?}");
        assert!(!daemon.log().contains(SECRET), "a secret must not be logged");
    }
}

#[test]
fn to_scrub_what_is_not_there_or_twice_is_no_harm() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "x=1");
    let report = scrub(&daemon, "s");
    assert_eq!((&report["seqs"], &report["files"]), (&json!([]), &json!([])), "{report}");
    daemon.sh("s", &format!("echo {SECRET}"));
    assert!(!scrub(&daemon, "s")["seqs"].as_array().unwrap().is_empty());
    assert!(scrub(&daemon, "s")["seqs"].as_array().unwrap().is_empty());
    assert_eq!(daemon.sh("s", "echo $x").out(), "1\n");
    daemon.assert_whole("s");
    for (body, word) in
        [(json!({"secret": "short"}), "6 bytes"), (json!({}), "secret"), (json!({"secret": 5}), "secret")]
    {
        let refused = daemon.post("/v1/sessions/s/scrub", &body);
        assert_eq!(refused.status, 400, "{}", refused.text());
        assert!(refused.json()["detail"].as_str().unwrap().contains(word), "{}", refused.text());
    }
}

/// A password that is a series of digits was refused as a short or common word, and there was no way to mask it.
#[test]
fn a_common_secret_is_masked_on_request() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "export PIN=123456; echo my pin is $PIN, not 1234567; keep=1");
    let path = "/v1/sessions/s/scrub";
    let refused = daemon.post(path, &json!({"secret": "123456"}));
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert_eq!(refused.status, 400, "{detail}");
    assert!(detail.contains("repeat or follow each other") && detail.contains("use force"), "{detail}");
    let report = daemon.post(path, &json!({"secret": "123456", "force": true}));
    assert_eq!(report.status, 200, "{}\n{}", report.text(), daemon.log());
    let left = holding(&daemon.data(), b"my pin is 123456");
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(daemon.sh("s", "echo $PIN $keep").out(), "*** 1\n");
    assert_eq!(daemon.verdict("s")["intact"], json!(true));
    // What is too short would be found everywhere.
    assert_eq!(daemon.post(path, &json!({"secret": "1234", "force": true})).status, 400);
}

#[test]
fn a_scrub_waits_for_a_command_and_is_the_hosts() {
    let daemon = Daemon::with(Settings::default().tcp());
    daemon.create_with(json!({"session_id": "given", "agent": "ann"}));
    let token = daemon.post("/v1/tokens", &json!({"agent": "ann"})).json();
    let request = Request::new("POST", "/v1/sessions/given/scrub").json(json!({"secret": SECRET}).to_string());
    let request = request.header("authorization", &format!("Bearer {}", token["token"].as_str().unwrap()));
    let refused = request.send(&daemon.tcp_door()).unwrap();
    assert_eq!((refused.status, refused.json()["code"].as_str()), (403, Some("not_allowed")));
    let run = daemon.run("given", json!({"command": format!("read x; echo $x {SECRET}"), "blocking": false}));
    let run_id = run.run_id().to_owned();
    let report = std::thread::scope(|scope| {
        let scrubbing = scope.spawn(|| scrub(&daemon, "given"));
        let input = format!("/v1/sessions/given/runs/{run_id}/input");
        assert_eq!(daemon.post(&input, &json!({"text": "typed\n", "eof": true})).status, 200);
        scrubbing.join().unwrap()
    });
    assert_eq!(daemon.wait_run("given", &run_id, 20).out(), "typed ***\n");
    assert!(report["seqs"].as_array().unwrap().len() >= 2, "{report}");
    assert!(holding(&daemon.data(), SECRET.as_bytes()).is_empty());
}
