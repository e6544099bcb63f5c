//! More work than the machine can take: a greedy agent waits, others do not, and who cannot even wait is told so.

use crate::support::http::Response;
use crate::support::services::in_parallel;
use crate::support::{Daemon, Request, Settings};
use serde_json::json;
use shellkeep_poll::until;
use std::time::Duration;

const SESSIONS: usize = 40;
const EACH: usize = 50;
/// How many the other agent sends meanwhile, one after the other.
const OTHERS: usize = 25;

#[test]
fn a_greedy_agent_does_not_starve_another() {
    let daemon = Daemon::start();
    let names: Vec<String> = (0..SESSIONS).map(|number| format!("greedy-{number}")).collect();
    for name in &names {
        daemon.create_with(json!({"session_id": name, "agent": "greedy"}));
    }
    daemon.create_with(json!({"session_id": "other", "agent": "other"}));
    daemon.sh("other", "x=1");
    let work: Vec<&String> = names.iter().flat_map(|name| std::iter::repeat_n(name, EACH)).collect();
    std::thread::scope(|scope| {
        let greedy = scope.spawn(|| {
            in_parallel(SESSIONS, &work, |session| {
                let reply =
                    daemon.run(session, json!({"command": "for i in 1 2 3; do /bin/true; done", "timeout": 300}));
                assert_eq!(reply.exit_code(), Some(0), "{:?}", reply.json);
            })
        });
        until("the greedy agent's commands wait", || (daemon.node()["waiting"].as_u64() > Some(4)).then_some(()));
        let mut times: Vec<Duration> = (0..OTHERS)
            .map(|_| {
                let reply = daemon.run("other", json!({"command": "echo $x; /bin/true", "timeout": 60}));
                assert_eq!((reply.out().as_str(), reply.exit_code()), ("1\n", Some(0)), "{:?}", reply.json);
                reply.took
            })
            .collect();
        let waiting = daemon.node()["waiting"].as_u64().unwrap();
        times.sort();
        println!(
            "beside {} commands of another: median {:?}, slowest {:?}; then {waiting} still waited",
            SESSIONS * EACH,
            times[OTHERS / 2],
            times[OTHERS - 1]
        );
        assert!(waiting > 0, "the other's commands were through before the greedy agent's");
        assert_eq!(greedy.join().expect("all are answered").len(), SESSIONS * EACH);
    });
}

/// The queue is full: refused at once, with words and with a time.
#[test]
fn beyond_the_queue_the_answer_is_overloaded() {
    let settings = Settings::default().set("--queue-length", "2").set("--max-shells", "2").set("--spare-shells", "0");
    let daemon = Daemon::with(settings.set("--queue-wait", "60s"));
    let names: Vec<String> = (0..8).map(|number| format!("s{number}")).collect();
    for name in &names {
        daemon.create_with(json!({"session_id": name, "agent": name}));
    }
    let mut holders = Vec::new();
    for name in &names[..2] {
        let reply =
            daemon.run(name, json!({"command": "read -r line; echo \"$line\"", "blocking": false, "timeout": 120}));
        holders.push((name, reply.run_id().to_owned()));
    }
    std::thread::scope(|scope| {
        let ask = |name: &String| {
            let body = json!({"command": "echo through", "timeout": 100});
            let target = format!("/v1/sessions/{name}/run");
            Request::new("POST", &target).json(body.to_string()).send(&daemon.door()).expect("an answer")
        };
        let waiting: Vec<_> = names[2..4].iter().map(|name| scope.spawn(move || ask(name))).collect();
        until("two wait", || (daemon.node()["waiting"] == 2).then_some(()));
        for name in &names[4..] {
            let refused: Response = ask(name);
            assert_eq!(refused.status, 503, "{}", refused.text());
            let problem = refused.json();
            assert_eq!(
                (problem["code"].as_str(), problem["limit"].as_u64()),
                (Some("overloaded"), Some(2)),
                "{problem}"
            );
            let seconds: u64 = refused.header("retry-after").expect("a time").parse().expect("seconds");
            assert!(seconds >= 1 && problem["retry_after"] == seconds, "{problem}");
            assert!(problem["detail"].as_str().unwrap().contains("nothing was run"), "{problem}");
        }
        for (name, run_id) in &holders {
            let target = format!("/v1/sessions/{name}/runs/{run_id}/input");
            assert_eq!(daemon.post(&target, &json!({"text": "go\n", "eof": true})).status, 200);
        }
        for thread in waiting {
            let answer = thread.join().expect("it is answered");
            assert_eq!(
                (answer.status, answer.json()["stdout"].as_str()),
                (200, Some("through\n")),
                "{}",
                answer.text()
            );
        }
    });
    assert_eq!(daemon.sh("s7", "echo again").out(), "again\n", "who was refused may come again");
}

/// The wait in the queue has an end of its own.
#[test]
fn who_waited_too_long_is_told_so() {
    let settings = Settings::default().set("--max-shells", "1").set("--spare-shells", "0").set("--queue-wait", "1s");
    let daemon = Daemon::with(settings);
    for name in ["a", "b"] {
        daemon.create_with(json!({"session_id": name, "agent": name}));
    }
    daemon.run("a", json!({"command": "read -r line", "blocking": false, "timeout": 120}));
    let refused = daemon.post("/v1/sessions/b/run", &json!({"command": "echo no", "timeout": 60}));
    assert!([503, 429].contains(&refused.status), "{}", refused.text());
    let code = refused.json()["code"].as_str().unwrap().to_owned();
    assert!(["overloaded", "quota_exceeded"].contains(&code.as_str()), "{code}");
}
