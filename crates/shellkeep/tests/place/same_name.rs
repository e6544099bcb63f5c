//! A node's name and its data directory: a node that comes back under its name without the directory, a session that comes back
//! to older files, two nodes with one name, and a node that the store refuses.

use crate::databases::{Kind, Server};
use crate::nodes::run_when_taken_over;
use crate::redis::{Redis, node, settings};
use crate::support::{Daemon, Request};
use serde_json::{Value, json};
use shellkeep_poll::{LONG, until, until_within};
use tempfile::TempDir;

/// Ends a node as a crash would, and its data directory with it. Starts another of its name in its place.
fn replace(node: &mut Daemon) {
    node.kill();
    std::fs::remove_dir_all(node.data()).expect("a data directory");
    node.restart();
}

fn put(daemon: &Daemon, key: &str, value: &str) {
    let mut request = Request::new("PUT", &format!("/v1/sessions/s/kv/{key}"));
    request.body = value.as_bytes().to_vec();
    let answer = daemon.send(&request);
    assert!(answer.status < 300, "{}", answer.text());
}

/// The notice that a session was brought.
fn moved(answer: &Value) -> String {
    let notices = answer["notices"].as_array().expect("a list");
    let found = notices.iter().find(|notice| notice["code"] == "session_moved");
    found.unwrap_or_else(|| panic!("{answer}"))["message"].as_str().expect("a sentence").to_owned()
}

/// It used to take the session for one that it had, with an empty workspace and keyed store, and then replaced the copy of the
/// keyed store by what it had. A session that nobody ran a command in was not found any more.
#[test]
fn a_node_that_lost_its_data_directory_brings_its_sessions_again() {
    let (redis, blobs) = (Redis::start(), TempDir::new().expect("a temporary directory"));
    let url = format!("file://{}", blobs.path().display());
    let mut node = Daemon::with(redis.settings("n1").env("SHELLKEEP_BLOBS", &url));
    node.create("s");
    node.create("cold");
    node.sh("s", "mkdir sub; cd sub; echo kept > file; v=kept");
    until("the checkpoint is copied", || redis.cli(&["HGET", "sk:{s}:head", "files"]).contains("commit").then_some(()));
    put(&node, "k1", "one");

    replace(&mut node);
    until_within(LONG, "a session that nobody used is found", || {
        let answer = node.get("/v1/sessions/cold");
        assert!(matches!(answer.status, 200 | 503), "{}", answer.text());
        (answer.status == 200).then_some(())
    });
    let (answer, _) = run_when_taken_over(&node, "s", &json!({"command": "cat file; echo $v"}));
    assert_eq!(answer["stdout"], "kept\nkept\n", "{answer}");
    let told = moved(&answer);
    assert!(told.contains("Node n1 lost its data directory") && !told.contains("keyed store"), "{told}");
    let checkpoints = node.get("/v1/sessions/s/checkpoints").json();
    let kept = checkpoints["checkpoints"].as_array().expect("a list").iter().all(|one| one["kept"] == true);
    assert!(kept, "{checkpoints}");
    assert_eq!(node.get("/v1/sessions/s/kv/k1").body, b"one");
    // It is told once.
    assert!(!node.sh("s", "true").json["notices"].to_string().contains("session_moved"));

    // What is written from now on is copied beside what was there.
    put(&node, "k2", "two");
    replace(&mut node);
    run_when_taken_over(&node, "s", &json!({"command": "true"}));
    for (key, value) in [("k1", "one"), ("k2", "two")] {
        assert_eq!(node.get(&format!("/v1/sessions/s/kv/{key}")).body, value.as_bytes(), "{key}");
    }
}

/// Without a directory for files they are lost, and the session says so. It used to say nothing.
#[test]
fn a_node_that_lost_its_data_directory_says_what_is_lost() {
    let redis = Redis::start();
    let mut node = redis.node("n1");
    node.create("s");
    node.sh("s", "mkdir sub; cd sub; echo lost > file; v=kept");
    put(&node, "k1", "one");
    replace(&mut node);
    let (answer, _) = run_when_taken_over(&node, "s", &json!({"command": "ls; echo $v"}));
    assert_eq!(answer["stdout"], "kept\n", "{answer}");
    let told = moved(&answer);
    let parts = [
        "were not copied: the nodes share no storage",
        "was made again, empty",
        "These are lost",
        "values of the keyed store",
    ];
    assert!(parts.iter().all(|part| told.contains(part)), "{told}");
}

/// The files of the first stay were taken for the current ones; nothing said that they are older.
#[test]
fn a_session_that_returns_without_its_files_says_that_they_are_older() {
    let redis = Redis::start();
    let (mut first, mut second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    first.sh("s", "echo one > file");
    first.kill();
    let (answer, _) = run_when_taken_over(&second, "s", &json!({"command": "ls; echo two > file"}));
    assert_eq!(answer["stdout"], "", "{answer}");
    assert!(!moved(&answer).contains("older"), "{answer}");
    first.restart();
    second.kill();
    let (answer, _) = run_when_taken_over(&first, "s", &json!({"command": "cat file"}));
    assert_eq!(answer["stdout"], "one\n", "{answer}");
    assert!(moved(&answer).contains("may be older than what it wrote since"), "{answer}");
}

/// Starts a node that is to refuse, and gives what it says.
fn refused(name: &str, store: &str) -> String {
    let directory = TempDir::new().expect("a temporary directory");
    let output = settings(name, store).command(directory.path(), None).output().expect("it can be started");
    assert!(!output.status.success(), "{store}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The second one used to take part: `nodes ls` showed one of the two, and it worked in directories of the first.
fn a_second_node_of_one_name_does_not_start(store: &str) {
    let mut first = node("n1", store);
    first.create("s");
    let said = refused("n1", store);
    assert!(said.contains("another node is named 'n1' at http://") && said.contains("--node"), "{said}");
    assert_eq!(first.get("/readyz").json()["status"], "ready");
    // Restarted, it is not another.
    first.restart();
    let (answer, _) = run_when_taken_over(&first, "s", &json!({"command": "echo again"}));
    assert_eq!(answer["stdout"], "again\n", "{answer}");
}

#[test]
fn a_second_node_of_one_name_does_not_start_with_redis() {
    let redis = Redis::start();
    a_second_node_of_one_name_does_not_start(&format!("redis://{}", redis.address));
}

#[test]
fn a_second_node_of_one_name_does_not_start_with_postgresql() {
    let Some(server) = Server::start(Kind::Postgres) else { return };
    a_second_node_of_one_name_does_not_start(&server.url());
}

/// It used to start as if the store were unreachable, and served sessions under names that other nodes have.
#[test]
fn a_node_that_the_store_refuses_does_not_start() {
    let redis = Redis::start();
    let said = refused("n1", &format!("redis://{}/99", redis.address));
    assert!(said.contains("refuses this node") && said.contains("DB index is out of range"), "{said}");
    redis.cli(&["CONFIG", "SET", "requirepass", "horse"]);
    let said = refused("n1", &format!("redis://{}", redis.address));
    assert!(said.contains("refuses this node") && said.contains("NOAUTH"), "{said}");
    assert_eq!(said.matches("NOAUTH").count(), 1, "{said}");
    let said = refused("n1", &format!("redis://:battery@{}", redis.address));
    assert!(said.contains("refuses this node") && !said.contains("battery"), "{said}");
    let node = node("n1", &format!("redis://:horse@{}", redis.address));
    assert_eq!(node.get("/readyz").json()["status"], "ready");

    let Some(server) = Server::start(Kind::Postgres) else { return };
    let said = refused("n1", &format!("{}-of-nobody", server.url()));
    assert!(said.contains("refuses this node") && said.contains("does not exist"), "{said}");
}
