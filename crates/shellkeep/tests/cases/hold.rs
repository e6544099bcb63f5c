//! A person takes over a session: the agent's commands wait, and its next result says what the person changed.

use crate::support::{Agent, Daemon, Request};
use serde_json::{Value, json};
use std::thread;

fn hold(daemon: &Daemon, body: Value) -> Value {
    let answer = daemon.post("/v1/sessions/s/hold", &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn release(daemon: &Daemon, query: &str) -> Value {
    let answer = daemon.send(&Request::new("DELETE", &format!("/v1/sessions/s/hold{query}")));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// Waits until a command is in the session's line.
fn waiting(daemon: &Daemon, hold_id: &str, count: u64) {
    let extend = json!({"hold_id": hold_id, "holder": "ann"});
    shellkeep_poll::until("a command waits", || {
        (hold(daemon, extend.clone())["waiting"] == json!(count)).then_some(())
    });
}

#[test]
fn the_agent_waits_and_learns_what_changed() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "echo one > kept.txt");
    let held = hold(&daemon, json!({"holder": "ann", "reason": "a look at the tests"}));
    let id = held["hold_id"].as_str().unwrap().to_owned();
    assert_eq!((&held["holder"], &held["waiting"], held.get("running")), (&json!("ann"), &json!(0), None), "{held}");
    let shown = daemon.get("/v1/sessions/s").json();
    assert_eq!(
        (&shown["held"]["holder"], &shown["held"]["reason"]),
        (&json!("ann"), &json!("a look at the tests")),
        "{shown}"
    );
    // One who does not wait is told who holds it, one who waits is told the same in the end.
    for body in [json!({"command": "true", "if_busy": "reject"}), json!({"command": "touch ran", "timeout": 0.2})] {
        let refused = daemon.post("/v1/sessions/s/run", &body);
        let problem = refused.json();
        assert_eq!((refused.status, &problem["code"]), (409, &json!("session_held")), "{problem}");
        assert_eq!((&problem["holder"], &problem["reason"]), (&json!("ann"), &json!("a look at the tests")));
        assert!(problem["detail"].as_str().unwrap().contains("DELETE …/hold"), "{problem}");
    }
    thread::scope(|scope| {
        let agent = scope.spawn(|| daemon.run("s", json!({"command": "echo $A in $PWD", "timeout": 60})));
        waiting(&daemon, &id, 1);
        // The person works meanwhile.
        let run = |command: &str| {
            daemon.run("s", json!({"command": command, "hold": id, "by": "person", "tty": true, "timeout": 30}))
        };
        let first = run("mkdir -p sub; cd sub; export A=from-ann; f() { :; }");
        assert_eq!(first.json["by"], "person", "{:?}", first.json);
        assert_eq!(run("echo two > made.txt; echo $A").out().trim(), "from-ann");
        let done = release(&daemon, &format!("?hold_id={id}"));
        let notice = done["notice"].as_str().unwrap();
        for part in ["ann took over", "2 commands", "/sub", "A", "functions set: f", "sub/made.txt"] {
            assert!(notice.contains(part), "{part}: {notice}");
        }
        let answer = agent.join().unwrap();
        assert!(answer.out().starts_with("from-ann in ") && answer.out().ends_with("/sub\n"), "{}", answer.out());
        assert!(answer.notice_codes().contains(&"held"), "{:?}", answer.json);
        assert!(answer.notice_text().contains("sub/made.txt"), "{}", answer.notice_text());
    });
    assert!(daemon.sh("s", "true").notice_codes().is_empty(), "it is said once");
    assert!(!daemon.cwd("s").parent().unwrap().join("ran").exists());
    let events = daemon.get("/v1/sessions/s/events?limit=1000").text();
    assert!(events.contains("session_held") && events.contains("session_released"), "{events}");
    assert!(!events.contains(&id), "the id of a hold is a secret of its holder");
    assert_eq!(daemon.get("/v1/sessions/s").json().get("held"), None);
    assert_eq!(release(&daemon, "")["released"], json!(false), "there is nothing to release");
}

/// A session without a shell went to sleep with the command that waited, which was answered when somebody asked for the
/// session next, and was run then.
#[test]
fn a_session_without_a_shell_answers_who_waits() {
    let daemon = Daemon::start();
    daemon.create("s");
    let id = hold(&daemon, json!({}))["hold_id"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        let refused = daemon.post("/v1/sessions/s/run", &json!({"command": "touch ran", "timeout": 0.2}));
        assert_eq!((refused.status, &refused.json()["code"]), (409, &json!("session_held")), "{}", refused.text());
        // With a shell that is put to sleep, which only the holder can ask for.
        daemon.run("s", json!({"command": ":", "hold": id}));
        daemon.post("/v1/sessions/s/hibernate", &json!({}));
    }
    hold(&daemon, json!({"hold_id": id, "ttl": 1}));
    let ran = daemon.run("s", json!({"command": "ls", "timeout": 20}));
    assert_eq!(ran.out(), "", "{:?}", ran.json);
}

#[test]
fn one_of_two_people_drives() {
    let daemon = Daemon::start();
    daemon.create("s");
    let answers: Vec<_> = thread::scope(|scope| {
        let take = |name: &'static str| {
            let daemon = &daemon;
            scope.spawn(move || daemon.post("/v1/sessions/s/hold", &json!({"holder": name})))
        };
        ["ann", "bob"].map(take).into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut codes: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    codes.sort_unstable();
    assert_eq!(codes, [200, 409], "exactly one has it");
    let winner = answers.iter().find(|answer| answer.status == 200).unwrap().json();
    let id = winner["hold_id"].as_str().unwrap();
    // Another id is nobody's.
    for body in
        [json!({"command": "true", "hold": "not-it"}), json!({"command": "true", "hold": "not-it", "tty": true})]
    {
        assert_eq!(daemon.post("/v1/sessions/s/run", &body).json()["code"], "session_held");
    }
    let other = daemon.send(&Request::new("DELETE", "/v1/sessions/s/hold?hold_id=not-it"));
    assert_eq!(other.json()["code"], "session_held");
    // The host ends it, and the former holder is told so.
    assert_eq!(release(&daemon, "")["released"], json!(true));
    for target in ["run", "hold"] {
        let body = if target == "run" { json!({"command": "true", "hold": id}) } else { json!({"hold_id": id}) };
        let late = daemon.post(&format!("/v1/sessions/s/{target}"), &body);
        assert_eq!((late.status, &late.json()["code"]), (409, &json!("hold_over")), "{}", late.text());
    }
}

#[test]
fn only_the_holder_acts_on_what_runs() {
    let daemon = Daemon::start();
    daemon.create("s");
    let body = json!({"command": "read -r x; stty size; echo got $x; read -r", "blocking": false, "tty": true});
    let run = daemon.run("s", body).run_id().to_owned();
    let id = hold(&daemon, json!({"holder": "ann", "reason": "a look"}))["hold_id"].as_str().unwrap().to_owned();
    let act = |what: &str, mut body: Value, hold: Option<&str>| {
        if let Some(hold) = hold {
            body["hold"] = hold.into();
        }
        daemon.post(&format!("/v1/sessions/s/runs/{run}/{what}"), &body)
    };
    let acts = [
        ("input", json!({"text": "agent\n"})),
        ("input", json!({"keys": ["C-c"]})),
        ("resize", json!({"rows": 5, "cols": 40})),
        ("signal", json!({"signal": "KILL"})),
    ];
    for (what, body) in acts {
        for hold in [None, Some("not-it")] {
            let refused = act(what, body.clone(), hold);
            let problem = refused.json();
            assert_eq!((refused.status, &problem["code"]), (409, &json!("session_held")), "{what}: {problem}");
            assert_eq!((&problem["holder"], &problem["reason"]), (&json!("ann"), &json!("a look")));
        }
    }
    // Anybody may look, and the holder acts.
    let screen = daemon.get(&format!("/v1/sessions/s/runs/{run}/screen")).json();
    assert_eq!((&screen["rows"], &screen["running"]), (&json!(24), &json!(true)), "{screen}");
    assert_eq!(act("resize", json!({"rows": 5, "cols": 40}), Some(&id)).status, 200);
    assert_eq!(act("input", json!({"text": "ann\r"}), Some(&id)).status, 200);
    let screen = daemon.get(&format!("/v1/sessions/s/runs/{run}/screen?wait=match:got%20ann&timeout=60")).json();
    assert!(screen["lines"].to_string().contains("5 40"), "{screen}");
    // A hold that has expired is nobody's: its id is refused, and others act again.
    hold(&daemon, json!({"hold_id": id, "holder": "ann", "ttl": 0.05}));
    shellkeep_poll::until("the hold expires", || {
        (act("resize", json!({"rows": 6, "cols": 40}), None).status == 200).then_some(())
    });
    let late = act("input", json!({"text": "late\r"}), Some(&id));
    assert_eq!((late.status, &late.json()["code"]), (409, &json!("hold_over")), "{}", late.text());
    assert_eq!(act("signal", json!({"signal": "INT"}), None).status, 200);
    assert_ne!(daemon.wait_run("s", &run, 30).exit_code(), Some(0));
}

#[test]
fn a_hold_outlives_the_daemon_and_ends_by_itself() {
    let mut daemon = Daemon::start();
    daemon.create("s");
    let held = hold(&daemon, json!({"holder": "ann"}));
    let id = held["hold_id"].as_str().unwrap().to_owned();
    daemon.run("s", json!({"command": "export LEFT=1", "hold": id}));
    daemon.restart();
    let refused = daemon.post("/v1/sessions/s/run", &json!({"command": "true", "if_busy": "reject"}));
    assert_eq!(refused.json()["code"], "session_held", "{}", refused.text());
    assert_eq!(daemon.run("s", json!({"command": "echo $LEFT", "hold": id})).out(), "1\n");
    // Now it is short, and a command that waits runs when it is over.
    hold(&daemon, json!({"hold_id": id, "holder": "ann", "ttl": 0.3}));
    let answer = daemon.run("s", json!({"command": "echo $LEFT", "timeout": 60}));
    assert_eq!(answer.out(), "1\n");
    assert!(answer.notice_text().contains("LEFT"), "{}", answer.notice_text());
    let events = daemon.get("/v1/sessions/s/events?limit=1000").text();
    assert!(events.contains("expired"), "{events}");
}

#[test]
fn only_the_host_takes_over() {
    let daemon = Daemon::start();
    let ann = Agent::named(&daemon, "ann");
    ann.create("s");
    for (target, body) in [("hold", json!({})), ("run", json!({"command": "true", "by": "person"}))] {
        let refused = ann.post(&format!("/v1/sessions/s/{target}"), &body);
        assert!([400, 403].contains(&refused.status), "{target}: {}", refused.text());
    }
    daemon.create("t");
    for body in
        [json!({"ttl": 0}), json!({"ttl": 86401}), json!({"holder": ""}), json!({"reason": "a\nb"}), json!({"for": 3})]
    {
        let refused = daemon.post("/v1/sessions/t/hold", &body);
        assert_eq!((refused.status, &refused.json()["code"]), (400, &json!("invalid_request")), "{body}");
    }
    let missing = daemon.post("/v1/sessions/none/hold", &json!({}));
    assert_eq!(missing.json()["code"], "session_not_found");
}
