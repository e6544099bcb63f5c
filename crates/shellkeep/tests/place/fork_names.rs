//! Forks among nodes: the name of one is a name on all of them, and a fork is merged back where its origin is.

use crate::nodes::run_when_taken_over;
use crate::redis::Redis;
use crate::support::{Daemon, Response, procs};
use serde_json::{Value, json};
use shellkeep_poll::until;
use tempfile::TempDir;

/// A node that has left in order, or is dead.
#[derive(Debug, Clone, Copy)]
enum Owner {
    Drained,
    Stopped,
    Dead,
}

fn code(answer: &Response) -> (u16, Option<String>) {
    (answer.status, answer.json()["code"].as_str().map(str::to_owned))
}

fn exists() -> (u16, Option<String>) {
    (409, Some("session_exists".to_owned()))
}

fn fork(daemon: &Daemon, origin: &str, name: &str) -> Response {
    daemon.post(&format!("/v1/sessions/{origin}/fork"), &json!({"session_id": name}))
}

fn drain(daemon: &Daemon, node: &str) {
    let drained = daemon.post(&format!("/v1/nodes/{node}/drain?wait=30"), &json!({}));
    assert_eq!(drained.json()["status"], "drained", "{}", drained.text());
}

fn sessions(daemon: &Daemon) -> Vec<String> {
    let list = daemon.get("/v1/sessions").json();
    let names = list["sessions"].as_array().expect("a list").iter();
    names.filter_map(|session| session["session_id"].as_str().map(str::to_owned)).collect()
}

fn notice_codes(answer: &Value) -> Vec<&str> {
    answer["notices"].as_array().into_iter().flatten().filter_map(|notice| notice["code"].as_str()).collect()
}

/// The bug: a fork was answered with 201, and the next command ran in the session that had its name before; the fork had become
/// `x.fork-0.n2`.
#[test]
fn a_fork_does_not_get_the_name_of_a_session_whose_node_is_gone() {
    for owner in [Owner::Drained, Owner::Stopped, Owner::Dead] {
        let redis = Redis::start();
        let (mut first, second) = (redis.node("n1"), redis.node("n2"));
        first.create("x");
        first.sh("x", "v=old");
        second.create("y");
        second.sh("y", "v=y");
        match owner {
            Owner::Drained => drain(&second, "n1"),
            Owner::Stopped => assert_eq!(first.stop(), Some(0)),
            Owner::Dead => {
                first.kill();
                until("its lease has ended", || (redis.cli(&["EXISTS", "sk:{x}:lease"]).trim() == "0").then_some(()));
            }
        }
        let answer = fork(&second, "y", "x");
        assert_eq!(code(&answer), exists(), "{owner:?}: {}", answer.text());
        let (answer, _) = run_when_taken_over(&second, "x", &json!({"command": "echo $v"}));
        assert_eq!(answer["stdout"], "old\n", "{owner:?}: {answer}");
        assert!(!notice_codes(&answer).contains(&"history_diverged"), "{owner:?}: {answer}");
        assert_eq!(sessions(&second), ["x", "y"], "{owner:?}");
    }
}

/// The bug: a fork under a name that lives on another node was refused with `owner_unreachable`, to be tried again for ever.
#[test]
fn a_fork_does_not_get_a_name_that_another_node_has() {
    let redis = Redis::start();
    let (first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("x");
    first.sh("x", "v=old");
    second.create("y");
    let answer = fork(&second, "y", "x");
    assert_eq!(code(&answer), exists(), "{}", answer.text());
    first.hibernate("x");
    let answer = fork(&second, "y", "x");
    assert_eq!(code(&answer), exists(), "asleep: {}", answer.text());
    assert_eq!(second.sh("x", "echo $v").out(), "old\n");
    assert!(!second.get("/v1/sessions/y/events").text().contains("session_forked"));
}

/// Whoever comes first has the name, and a fork that fails gives it up.
#[test]
fn of_two_forks_with_one_name_there_is_one() {
    let redis = Redis::start();
    let (first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("a");
    first.sh("a", "v=a");
    second.create("b");
    second.sh("b", "v=b");
    for name in (0..5).map(|number| format!("f{number}")) {
        let answers = std::thread::scope(|scope| {
            let asked = [(&first, "a"), (&second, "b")].map(|(node, origin)| {
                let name = &name;
                (origin, scope.spawn(move || fork(node, origin, name)))
            });
            asked.map(|(origin, answer)| (origin, answer.join().expect("it is answered")))
        });
        let made: Vec<&str> =
            answers.iter().filter(|(_, answer)| answer.status == 201).map(|(origin, _)| *origin).collect();
        let refused = answers.iter().filter(|(_, answer)| code(answer) == exists()).count();
        assert_eq!((made.len(), refused), (1, 1), "{name}: {} {}", answers[0].1.text(), answers[1].1.text());
        for node in [&first, &second] {
            assert_eq!(node.sh(&name, "echo $v").out(), format!("{}\n", made[0]), "{name}");
        }
    }
    let failed = first.post("/v1/sessions/a/fork", &json!({"session_id": "g", "at": 99999}));
    assert_eq!(failed.status, 404, "{}", failed.text());
    let created = second.post("/v1/sessions", &json!({"session_id": "g"}));
    assert_eq!(created.status, 201, "{}", created.text());
}

/// A fork that was answered is on the next node as a whole when its own is killed, and its name is not given away again. A
/// repeated request used to displace it.
#[test]
fn a_fork_outlives_its_node() {
    let redis = Redis::start();
    let (mut first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    first.sh("s", "v=1");
    let answer = fork(&first, "s", "f");
    assert_eq!(answer.status, 201, "{}", answer.text());
    first.kill();
    let (answer, _) = run_when_taken_over(&second, "s", &json!({"command": "v=2"}));
    assert!(notice_codes(&answer).contains(&"session_moved"), "{answer}");
    let answer = fork(&second, "s", "f");
    assert_eq!(code(&answer), exists(), "{}", answer.text());
    let (answer, _) = run_when_taken_over(&second, "f", &json!({"command": "echo $v"}));
    assert_eq!(answer["stdout"], "1\n", "{answer}");
    assert!(!notice_codes(&answer).contains(&"history_diverged"), "{answer}");
}

/// The bug: a fork was told that its origin was gone, or could not be reached for now, while that was on another node that was
/// well.
#[test]
fn a_fork_is_merged_back_when_its_origin_has_come_to_its_node() {
    let (redis, blobs) = (Redis::start(), TempDir::new().expect("a temporary directory"));
    let url = format!("file://{}", blobs.path().display());
    let node = |name: &str| Daemon::with(redis.settings(name).env("SHELLKEEP_BLOBS", &url));
    let (first, second, third) = (node("n1"), node("n2"), node("n3"));
    first.create("s");
    first.sh("s", "echo a > a");
    let answer = fork(&first, "s", "f");
    assert_eq!(answer.status, 201, "{}", answer.text());
    first.sh("f", "echo b > b");
    drain(&second, "n1");
    run_when_taken_over(&second, "s", &json!({"command": "true"}));
    run_when_taken_over(&third, "f", &json!({"command": "true"}));
    for asked in [&second, &third] {
        let answer = asked.post("/v1/sessions/f/merge_back", &json!({}));
        assert_eq!(code(&answer), (409, Some("origin_elsewhere".to_owned())), "{}", answer.text());
        assert_eq!((answer.json()["node"].as_str(), answer.header("retry-after")), (Some("n2"), None));
    }
    drain(&third, "n2");
    let answer = third.post("/v1/sessions/f/merge_back", &json!({}));
    assert_eq!((answer.status, &answer.json()["into"]), (200, &json!("s")), "{}", answer.text());
    assert_eq!(third.sh("s", "cat a b").out(), "a\nb\n");
    third.destroy("s");
    let answer = third.post("/v1/sessions/f/merge_back", &json!({}));
    assert_eq!(code(&answer), (409, Some("no_origin".to_owned())), "{}", answer.text());
}

/// The bug: what only one node had was answered without a word by everything but commands that were waited for.
#[test]
fn whatever_only_this_node_has_says_so() {
    let mut redis = Redis::start();
    let daemon = redis.node("n1");
    daemon.create("s");
    daemon.sh("s", "echo 1 > f");
    daemon.sh("s", "echo 2 > f");
    assert_eq!(fork(&daemon, "s", "g").status, 201);
    daemon.sh("g", "echo g > g");
    redis.stop();
    until("the node is alone", || (daemon.get("/readyz").json()["status"] == "degraded").then_some(()));
    let mark = procs::unique_sleep();
    for (path, body) in [
        ("s/rewind", json!({"to": "undo"})),
        ("s/fork", json!({"session_id": "h"})),
        ("g/merge_back", json!({})),
        ("s/run", json!({"command": format!("sleep {mark}"), "blocking": false})),
    ] {
        let answer = daemon.post(&format!("/v1/sessions/{path}"), &body);
        assert!(answer.status < 300, "{path}: {}", answer.text());
        let answer = answer.json();
        assert!(notice_codes(&answer).contains(&"kept_here_only"), "{path}: {answer}");
    }
}
