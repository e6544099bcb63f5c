//! Two nodes that share a store in a real Redis: a session is on one of them, and goes on elsewhere when that one is gone.

use crate::support::daemon::{free_port, signal};
use crate::support::{Daemon, Request, Settings, procs};
use serde_json::{Value, json};
use shellkeep_poll::{until, until_within};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Within this time another node answers for a session whose node is gone: the lease and 2 s.
const TAKEN_OVER: Duration = Duration::from_secs(7);

/// The host's token, the same on all nodes.
const TOKEN: &str = "the-same-on-all-nodes";

/// A server with its data in a temporary directory.
struct Redis {
    child: Child,
    address: SocketAddr,
    directory: TempDir,
}

impl Redis {
    fn start() -> Self {
        let (directory, address) = (TempDir::new().expect("a temporary directory"), free_port());
        let child = Self::spawn(address, &directory);
        let redis = Self { child, address, directory };
        redis.wait();
        redis
    }

    fn spawn(address: SocketAddr, directory: &TempDir) -> Child {
        Command::new("redis-server")
            .args(["--port", &address.port().to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
            .arg(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed (Debian: redis-server)")
    }

    fn wait(&self) {
        until("redis-server answers", || (self.cli(&["PING"]).trim() == "PONG").then_some(()));
    }

    fn cli(&self, words: &[&str]) -> String {
        let port = self.address.port().to_string();
        let answer =
            Command::new("redis-cli").args(["-p", &port]).args(words).output().expect("redis-cli is installed");
        String::from_utf8_lossy(&answer.stdout).into_owned()
    }

    fn stop(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Starts it again, empty.
    fn restart(&mut self) {
        self.child = Self::spawn(self.address, &self.directory);
        self.wait();
    }

    fn node(&self, name: &str) -> Daemon {
        let settings = Settings::default().tcp().store(&format!("redis://{}", self.address));
        Daemon::with(settings.env("SHELLKEEP_NODE", name).env("SHELLKEEP_TOKEN", TOKEN))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command until a node answers for the session, and says what was answered before.
fn run_when_taken_over(daemon: &Daemon, session: &str, body: &Value) -> (Value, Vec<String>) {
    let mut refusals = Vec::new();
    let answer = until_within(TAKEN_OVER, "another node answers for the session", || {
        let request = Request::new("POST", &format!("/v1/sessions/{session}/run")).json(body.to_string());
        let answer = daemon.send(&request);
        if answer.status == 200 {
            return Some(answer.json());
        }
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert!(answer.header("retry-after").is_some());
        refusals.push(answer.json()["code"].as_str().unwrap_or_default().to_owned());
        None
    });
    (answer, refusals)
}

#[test]
fn a_session_goes_on_elsewhere_when_its_node_is_killed() {
    let redis = Redis::start();
    let (mut first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    first.sh("s", "cd /usr; v='one two'; f() { echo \"f:$v\"; }; n=0");
    let counted = first.run("s", json!({"command": "n=$((n+1)); echo $n", "request_id": "k1"}));
    assert_eq!(counted.out(), "1\n");

    // The other node sends what it is asked to the owner, and streams the answer.
    let through =
        second.post("/v1/sessions/s/run", &json!({"command": "n=$((n+1)); echo $n; pwd", "request_id": "k2"}));
    assert_eq!((through.status, through.header("shellkeep-node")), (200, Some("n1")), "{}", through.text());
    assert_eq!(through.json()["stdout"], "2\n/usr\n");
    let (mut live, _) = second.stream_from_start("s", &json!({"command": "echo first; read -t 30 line; echo late"}));
    let event = live.next_event().expect("the first line comes before the command ends");
    assert!(event.data.contains("first"), "{}", event.data);
    drop(live);
    let nodes = second.get("/v1/nodes").json();
    let names: Vec<&str> =
        nodes["nodes"].as_array().expect("a list").iter().filter_map(|n| n["name"].as_str()).collect();
    assert_eq!(names, ["n1", "n2"]);
    assert_eq!(redis.cli(&["HGET", "sk:{s}:head", "home"]).trim(), "n1");
    assert_eq!(redis.cli(&["HGET", "sk:{s}:head", "at"]), redis.cli(&["GET", "sk:{s}:lease"]));

    first.kill();
    let killed = Instant::now();
    let body = json!({"command": "n=$((n+1)); echo $n; pwd; f", "request_id": "k3"});
    let (answer, refusals) = run_when_taken_over(&second, "s", &body);
    println!("answered elsewhere {:?} after the kill, refused {} times before", killed.elapsed(), refusals.len());
    assert!(refusals.iter().all(|code| code == "owner_unreachable"), "{refusals:?}");
    assert_eq!(answer["stdout"], "3\n/usr\nf:one two\n");
    let codes: Vec<&str> =
        answer["notices"].as_array().expect("a list").iter().filter_map(|n| n["code"].as_str()).collect();
    assert!(codes.contains(&"session_moved"), "{codes:?}");

    // A retry gets what was stored, whoever ran it.
    for (key, command, out) in [
        ("k1", "n=$((n+1)); echo $n", "1\n"),
        ("k2", "n=$((n+1)); echo $n; pwd", "2\n/usr\n"),
        ("k3", "n=$((n+1)); echo $n; pwd; f", "3\n/usr\nf:one two\n"),
    ] {
        assert_eq!(second.run("s", json!({"command": command, "request_id": key})).out(), out, "{key}");
    }
    assert_eq!(second.sh("s", "echo $n").out(), "3\n");

    // The node is back: the session stays where it is, and is reached through both.
    first.restart();
    let back = first.post("/v1/sessions/s/run", &json!({"command": "n=$((n+1)); echo $n"}));
    assert_eq!((back.json()["stdout"].as_str(), back.header("shellkeep-node")), (Some("4\n"), Some("n2")));
}

#[test]
fn a_node_that_was_asleep_begins_nothing_after_it_lost_its_session() {
    let redis = Redis::start();
    let (first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    first.sh("s", "n=1");
    let shell = first.shell_pid("s").expect("it has a shell");
    signal(first.pid(), "STOP");
    let (answer, _) = run_when_taken_over(&second, "s", &json!({"command": "n=$((n+1)); echo $n"}));
    assert_eq!(answer["stdout"], "2\n");
    signal(first.pid(), "CONT");
    until("the shell of the former owner is gone", || (!procs::alive(shell)).then_some(()));
    let after = first.post("/v1/sessions/s/run", &json!({"command": "n=$((n+1)); echo $n"}));
    assert_eq!((after.json()["stdout"].as_str(), after.header("shellkeep-node")), (Some("3\n"), Some("n2")));
    assert_eq!(second.sh("s", "echo $n").out(), "3\n");
}

#[test]
fn a_node_goes_on_while_redis_is_away_and_gives_everything_again() {
    let mut redis = Redis::start();
    let (mut first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    first.sh("s", "n=1");
    assert_eq!(first.get("/readyz").json()["status"], "ready");

    redis.stop();
    let away = first.run("s", json!({"command": "n=2; echo $n", "request_id": "k"}));
    assert_eq!(away.out(), "2\n");
    assert!(away.notice_codes().contains(&"kept_here_only"), "{:?}", away.notice_codes());
    let ready = first.get("/readyz").json();
    assert_eq!(ready["status"], "degraded");
    assert!(ready["reasons"][0].as_str().is_some_and(|reason| reason.contains("shared store is away")), "{ready}");
    first.create("made-meanwhile");
    assert_eq!(first.sh("made-meanwhile", "m=7; echo $m").out(), "7\n");

    redis.restart();
    until("the node is ready again", || (first.get("/readyz").json()["status"] == "ready").then_some(()));
    assert_eq!(first.sh("s", "n=3; echo $n").notice_codes(), Vec::<&str>::new());
    until("what was made meanwhile is shared", || {
        redis.cli(&["LLEN", "sk:{made-meanwhile}:log"]).trim().parse().ok().filter(|lines: &u64| *lines > 0)
    });

    first.kill();
    let (answer, _) = run_when_taken_over(&second, "s", &json!({"command": "echo $n"}));
    assert_eq!(answer["stdout"], "3\n");
    let (answer, _) = run_when_taken_over(&second, "made-meanwhile", &json!({"command": "echo $m"}));
    assert_eq!(answer["stdout"], "7\n");
}

#[test]
fn one_name_is_created_once_and_removed_for_all() {
    let redis = Redis::start();
    let (first, second) = (redis.node("n1"), redis.node("n2"));
    for number in 0..20 {
        let body = json!({"session_id": format!("s{number}")});
        let statuses = std::thread::scope(|scope| {
            let asked = [&first, &second].map(|node| scope.spawn(|| node.post("/v1/sessions", &body).status));
            asked.map(|asked| asked.join().expect("it answers"))
        });
        let mut sorted = statuses;
        sorted.sort_unstable();
        assert_eq!(sorted, [200, 201], "s{number}: {statuses:?}");
    }
    second.destroy("s0");
    assert_eq!(first.get("/v1/sessions/s0").status, 404);
    assert_eq!(second.get("/v1/sessions/s0").status, 404);
    first.create("s0");
}
