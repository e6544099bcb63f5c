//! Two nodes that share a store in a real Redis: a session is on one of them, and goes on elsewhere when that one is gone.

use crate::redis::{Redis, TOKEN};
use crate::support::daemon::signal;
use crate::support::{Agent, Daemon, Request, Settings, procs, services, soak};
use serde_json::{Value, json};
use shellkeep_poll::{LONG, pass, until, until_within};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Within this time another node answers for a session whose node is gone: the lease and 2 s.
const TAKEN_OVER: Duration = Duration::from_secs(7);

/// Runs a command until a node answers for the session, and says what was answered before.
pub fn run_when_taken_over(daemon: &Daemon, session: &str, body: &Value) -> (Value, Vec<String>) {
    let mut refusals = Vec::new();
    let answer = until_within(TAKEN_OVER, "another node answers for the session", || {
        let request = Request::new("POST", &format!("/v1/sessions/{session}/run")).json(body.to_string());
        let answer = daemon.send(&request);
        if answer.status == 200 {
            return Some(answer.json());
        }
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert!(answer.header("retry-after").is_some(), "{}", answer.text());
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

/// A stream through another node used to hang for ever when the owner stopped without closing its connection.
#[test]
fn a_stream_through_another_node_ends_when_the_owner_stops() {
    let redis = Redis::start();
    let (mut first, second) = (redis.node("n1"), redis.node("n2"));
    for (session, is_killed) in [("stopped", false), ("killed", true)] {
        first.create(session);
        let (mut live, _) = second.stream_from_start(session, &json!({"command": "echo first; sleep 60; echo late"}));
        assert!(live.next_event().expect("its first line").data.contains("first"));
        if is_killed {
            first.kill()
        } else {
            signal(first.pid(), "STOP")
        }
        let last = live.next_event().expect("the end is told");
        let problem: Value = serde_json::from_str(&last.data).expect("a problem");
        assert_eq!((last.event.as_str(), problem["code"].as_str()), ("error", Some("owner_unreachable")), "{problem}");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("it may have run")), "{problem}");
        assert!(live.next_event().is_none());
        if !is_killed {
            signal(first.pid(), "CONT");
        }
    }
}

/// What nodes send to each other used to carry the host token.
#[test]
fn a_node_with_another_secret_is_not_trusted() {
    let redis = Redis::start();
    let with = |name: &str, secret: &str| {
        let settings = Settings::default().tcp().store(&format!("redis://{}", redis.address));
        let settings = settings.env("SHELLKEEP_NODE", name).env("SHELLKEEP_CLUSTER_SECRET", secret);
        Daemon::with(settings.env("SHELLKEEP_TOKEN", &format!("{TOKEN}-{name}")))
    };
    let secret = "the-secret-of-this-cluster";
    let (first, second, third) = (with("n1", secret), with("n2", secret), with("n3", "the-secret-of-another"));
    first.create("s");
    // Each node has a host token of its own, and agents are known to the node that they ask.
    assert_eq!(second.sh("s", "echo $((40+2))").out(), "42\n");
    first.create_with(json!({"session_id": "thread_ann_1", "agent": "ann"}));
    let ann = Agent::named(&second, "ann");
    assert_eq!(ann.sh("thread_ann_1", "echo mine")["stdout"], "mine\n");
    assert_eq!(ann.get("/v1/sessions/s").status, 404);
    let refused = third.post("/v1/sessions/s/run", &json!({"command": "echo no"}));
    assert_eq!((refused.status, refused.json()["code"].as_str()), (502, Some("node_not_trusted")));
    // Which check failed is said to the caller and in the logs of both nodes.
    assert!(refused.text().contains("its hash is wrong"), "{}", refused.text());
    until("both logs say why", || {
        [&first, &third].iter().all(|node| node.log().contains("its hash is wrong")).then_some(())
    });
    assert!(first.log().contains("node 'n3'"), "{}", first.log());
    // Without the secret the header opens nothing.
    let forged = Request::new("GET", "/v1/sessions/s").header("shellkeep-forwarded", "v1 n2 1 1 - 00 host");
    let refused = forged.send(&first.tcp_door()).expect("an answer");
    assert_eq!((refused.status, refused.json()["code"].as_str()), (401, Some("node_not_trusted")));
}

/// How many commands a shell ran, which wrote their shell's number to a file.
fn by(witness: &Path, shell: u32) -> usize {
    let ran = std::fs::read_to_string(witness).unwrap_or_default();
    ran.lines().filter(|pid| *pid == shell.to_string()).count()
}

/// Commands that wait at the node while it is stopped are the first that it sees afterwards.
#[test]
fn a_node_that_was_asleep_begins_nothing_after_it_lost_its_session() {
    let redis = Redis::start();
    let (first, second) = (redis.node("n1"), redis.node("n2"));
    let witness = redis.directory().join("witness");
    for round in 0..if soak() == 1 { 1 } else { 5 } {
        let session = format!("s{round}");
        first.create(&session);
        first.sh(&session, "n=1");
        let shell = first.shell_pid(&session).expect("it has a shell");
        let path = format!("/v1/sessions/{session}/run");
        let count = json!({"command": format!("n=$((n+1)); echo $$ >> {}; echo $n", witness.display())});
        let mut begun = 0;
        signal(first.pid(), "STOP");
        let waiting = std::thread::scope(|scope| {
            let waiting: Vec<_> = (0..4).map(|_| scope.spawn(|| first.post(&path, &count))).collect();
            let (answer, _) = run_when_taken_over(&second, &session, &json!({"command": "n=$((n+1)); echo $n"}));
            assert_eq!(answer["stdout"], "2\n");
            if soak() > 1 {
                // Two leases more.
                pass(Duration::from_secs(10));
            }
            // A signal takes its time on a busy machine: what reached the shell before it did was begun in time.
            begun = by(&witness, shell);
            signal(first.pid(), "CONT");
            let gone = if soak() > 1 { Duration::from_secs(2) } else { LONG };
            until_within(gone, "the shell of the former owner is gone", || (!procs::alive(shell)).then_some(()));
            waiting.into_iter().map(|waiting| waiting.join().expect("it is answered")).collect::<Vec<_>>()
        });
        let answered = waiting.iter().filter(|answer| answer.status == 200).count();
        assert!(waiting.iter().all(|answer| matches!(answer.status, 200 | 503)), "{:?}", waiting[0].text());
        let after = first.post(&path, &count);
        let last = answered + 3;
        let expected = (Some(format!("{last}\n")), Some("n2"));
        assert_eq!((after.json()["stdout"].as_str().map(str::to_owned), after.header("shellkeep-node")), expected);
        assert_eq!(by(&witness, shell), begun, "the former owner began a command");
        assert_eq!(second.sh(&session, "echo $n").out(), format!("{last}\n"));
    }
}

/// The bug: the store had confirmed the command's record, so bash got the command as soon as the node went on.
#[test]
fn a_node_that_was_stopped_just_before_a_command_does_not_begin_it_afterwards() {
    let redis = Redis::start();
    let first = Daemon::with(redis.settings("n1").env("SHELLKEEP_CRASH_AT", "stop:start_recorded"));
    let second = redis.node("n2");
    let witness = redis.directory().join("witness");
    first.create("s");
    first.sh("s", "n=1");
    let shell = first.shell_pid("s").expect("it has a shell");
    let command = json!({"command": format!("echo $$ >> {}; : crash-here", witness.display())});
    let answer = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| first.post("/v1/sessions/s/run", &command));
        until("the node has stopped itself", || procs::is_stopped(first.pid()).then_some(()));
        let (answer, _) = run_when_taken_over(&second, "s", &json!({"command": "echo $n"}));
        assert_eq!(answer["stdout"], "1\n");
        signal(first.pid(), "CONT");
        waiting.join().expect("it is answered")
    });
    assert_eq!(answer.status, 503, "{}", answer.text());
    until_within(LONG, "the shell of the former owner is gone", || (!procs::alive(shell)).then_some(()));
    assert_eq!(by(&witness, shell), 0, "the former owner began a command");
}

#[test]
fn a_node_goes_on_while_redis_is_away_and_gives_everything_again() {
    let mut redis = Redis::start();
    let (mut first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    first.sh("s", "n=1");
    assert_eq!(first.get("/readyz").json()["status"], "ready");
    first.create("asleep");
    first.sh("asleep", "v=9");
    first.hibernate("asleep");
    until("it sleeps", || redis.cli(&["EXISTS", "sk:{asleep}:lease"]).trim().eq("0").then_some(()));

    redis.stop();
    let away = first.run("s", json!({"command": "n=2; echo $n", "request_id": "k"}));
    assert_eq!(away.out(), "2\n");
    assert!(away.notice_codes().contains(&"kept_here_only"), "{:?}", away.notice_codes());
    let ready = first.get("/readyz").json();
    assert_eq!(ready["status"], "degraded");
    assert!(
        ready["reasons"][0].as_str().is_some_and(|reason| reason.contains("shared store is unreachable")),
        "{ready}"
    );
    first.create("made-meanwhile");
    assert_eq!(first.sh("made-meanwhile", "m=7; echo $m").out(), "7\n");

    redis.restart();
    until("the node is ready again", || (first.get("/readyz").json()["status"] == "ready").then_some(()));
    assert_eq!(first.sh("s", "n=3; echo $n").notice_codes(), Vec::<&str>::new());
    // Redis came back empty, and nobody used this one.
    until("what slept is shared", || redis.cli(&["EXISTS", "sk:{asleep}:head"]).trim().eq("1").then_some(()));
    assert_eq!(second.sh("asleep", "echo $v").out(), "9\n");
    until("what was made meanwhile is shared", || {
        redis.cli(&["HGET", "sk:{made-meanwhile}:head", "seq"]).trim().parse().ok().filter(|seq: &u64| *seq > 0)
    });

    first.kill();
    let (answer, _) = run_when_taken_over(&second, "s", &json!({"command": "echo $n"}));
    assert_eq!(answer["stdout"], "3\n");
    let (answer, _) = run_when_taken_over(&second, "made-meanwhile", &json!({"command": "echo $m"}));
    assert_eq!(answer["stdout"], "7\n");
}

/// The bug: a command that came after Redis had lost everything, and before the node knew, was answered after 3 s with the
/// notice that only this node has the result. The node asked the session for its state to give it again, and the session
/// was waiting for Redis.
#[test]
fn a_command_waits_until_a_redis_that_lost_everything_has_it_again() {
    let redis = Redis::start();
    let (mut first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    first.sh("s", "n=1");
    for number in 2..6 {
        redis.cli(&["FLUSHALL"]);
        let answer = first.sh("s", "n=$((n+1)); echo $n");
        assert_eq!((answer.out(), answer.notice_codes()), (format!("{number}\n"), Vec::<&str>::new()));
    }
    first.kill();
    let (answer, _) = run_when_taken_over(&second, "s", &json!({"command": "echo $n"}));
    assert_eq!(answer["stdout"], "5\n");
}

/// The bug: a node that had sent a command on answered that the owner was lost, although the command ran there, when Redis had
/// lost everything and the owner had not given it again yet.
#[test]
fn a_command_that_was_sent_on_is_answered_after_redis_lost_everything() {
    let redis = Redis::start();
    let (first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    let [begun, gate] = ["begun", "go"].map(|name| first.directory().join(name));
    let command = format!("> {}; until [ -e {} ]; do sleep 0.02; done; echo done", begun.display(), gate.display());
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| second.post("/v1/sessions/s/run", &json!({ "command": command })));
        until("the command runs", || begun.exists().then_some(()));
        // The owner cannot give it again while it is stopped.
        signal(first.pid(), "STOP");
        redis.cli(&["FLUSHALL"]);
        redis.cli(&["CONFIG", "RESETSTAT"]);
        until("the other node has looked twice", || (redis.calls("hmget") >= 2).then_some(()));
        signal(first.pid(), "CONT");
        std::fs::write(gate, "").expect("a file");
        let answer = asked.join().expect("it is answered");
        assert_eq!((answer.status, answer.header("shellkeep-node")), (200, Some("n1")), "{}", answer.text());
        assert_eq!(answer.json()["stdout"], "done\n");
    });
}

#[test]
fn one_name_is_created_once_and_removed_for_all() {
    let redis = Redis::start();
    let (first, second) = (redis.node("n1"), redis.node("n2"));
    let names = if soak() == 1 { 20 } else { 50 * soak() };
    for number in 0..names {
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

/// A node that died before a deletion had removed the session in Redis brought it back after its next start. If another node has
/// gone on with the session meanwhile, it stays: nobody was told that it is deleted.
#[test]
fn a_deletion_that_was_cut_off_is_completed_in_redis() {
    for is_taken_over in [false, true] {
        let redis = Redis::start();
        let mut first = Daemon::with(redis.settings("n1").env("SHELLKEEP_CRASH_AT", "delete_noted"));
        let second = redis.node("n2");
        first.create("crash-here");
        first.sh("crash-here", "n=1");
        let deleted = Request::new("DELETE", "/v1/sessions/crash-here").send(&first.door());
        assert!(deleted.is_err(), "nobody answers: the daemon is dead");
        assert_eq!(
            redis.cli(&["HGET", "sk:{crash-here}:head", "removed"]).trim(),
            "",
            "it died too late for this test"
        );
        if is_taken_over {
            let (answer, _) = run_when_taken_over(&second, "crash-here", &json!({"command": "n=$((n+1)); echo $n"}));
            assert_eq!(answer["stdout"], "2\n");
        }
        first.restart_with(redis.settings("n1"));
        for daemon in [&first, &second] {
            let found = daemon.get("/v1/sessions/crash-here");
            assert_eq!(found.status, if is_taken_over { 200 } else { 404 }, "{}", found.text());
        }
        if is_taken_over {
            assert_eq!(first.sh("crash-here", "echo $n").out(), "2\n");
        } else {
            assert_eq!(redis.cli(&["HGET", "sk:{crash-here}:head", "removed"]).trim(), "1");
            first.create("crash-here");
        }
    }
}

#[test]
fn a_drained_node_gives_its_sessions_to_others() {
    let redis = Redis::start();
    let (first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("idle");
    first.sh("idle", "v='one two'; cd /usr");
    first.create("busy");
    let gate = first.directory().join("go");
    let waits = format!("n=1; echo begun; until [ -e {} ]; do sleep 0.02; done; n=2", gate.display());
    let (mut live, _) = first.stream_from_start("busy", &json!({"command": waits}));
    assert!(live.next_event().expect("its first line").data.contains("begun"));

    // Asked for at the other node. What runs may finish, so one session is left.
    let drained = second.post("/v1/nodes/n1/drain?wait=0", &json!({}));
    assert_eq!((drained.status, drained.header("shellkeep-node")), (200, Some("n1")), "{}", drained.text());
    assert_eq!(drained.json()["status"], "draining");
    let ready = first.get("/readyz");
    assert_eq!((ready.status, ready.json()["status"].as_str()), (503, Some("draining")), "{}", ready.text());
    let moved = until("the idle session is on the other node", || {
        let answer = first.post("/v1/sessions/idle/run", &json!({"command": "echo $v; pwd"}));
        (answer.header("shellkeep-node") == Some("n2")).then_some(answer)
    });
    assert_eq!(moved.json()["stdout"], "one two\n/usr\n");
    let made = first.post("/v1/sessions", &json!({"session_id": "new"}));
    assert_eq!((made.status, made.header("shellkeep-node")), (201, Some("n2")), "{}", made.text());

    // Its command ends: nothing of it is lost.
    std::fs::write(gate, "").expect("a file");
    let mut last = live.next_event().expect("more output");
    while last.event != "result" {
        last = live.next_event().expect("a result");
    }
    assert!(last.data.contains("\"exit_code\":0"), "{}", last.data);
    let cli = nodes(&second, &["drain", "n1"]);
    assert_eq!((cli.0, cli.1.as_str()), (Some(0), "n1 is drained\n"), "{}", cli.2);
    assert_eq!(second.sh("busy", "echo $n").out(), "2\n");

    let (_, table, _) = nodes(&first, &["ls"]);
    assert!(table.lines().all(|line| line.len() <= 80), "{table}");
    assert!(table.contains("n1\tdrained\t0\t") && table.contains("n2\tup\t"), "{table}");
    let (code, shown, _) = nodes(&second, &["show", "--json"]);
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!((code, shown["name"].as_str()), (Some(0), Some("n2")));
    let (code, _, error) = nodes(&second, &["show", "n9"]);
    assert!(code == Some(1) && error.contains("no node 'n9'") && error.contains("shellkeep nodes ls"), "{error}");
}

/// An MCP client may ask any node: its requests go to the node that has its session.
#[test]
fn mcp_over_http_goes_to_the_node_of_its_session() {
    let redis = Redis::start();
    let (mut first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    first.sh("s", "v=7");
    let ask = |mcp_session: Option<&str>, message: Value| {
        let request = Request::new("POST", "/mcp").header("shellkeep-session", "s");
        let request = request.header("accept", "application/json, text/event-stream");
        let request = match mcp_session {
            Some(id) => request.header("mcp-session-id", id).header("mcp-protocol-version", "2025-06-18"),
            None => request,
        };
        second.send(&request.json(message.to_string()))
    };
    let initialize = || {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        let answer = ask(None, json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}));
        assert!(answer.status == 200 || answer.status == 503, "{}", answer.text());
        answer.header("mcp-session-id").map(|id| (id.to_owned(), answer.header("shellkeep-node").map(str::to_owned)))
    };
    let call = |id: &str, command: &str| {
        let params = json!({"name": "run_command", "arguments": {"command": command}});
        ask(Some(id), json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}))
    };
    let (id, node) = initialize().expect("a session");
    assert!(id.starts_with("n1.") && node.as_deref() == Some("n1"), "{id} {node:?}");
    ask(Some(&id), json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let called = call(&id, "echo $v; v=8");
    assert!(called.text().contains("7\\n") || called.text().contains("\"7"), "{}", called.text());
    assert_eq!(first.sh("s", "echo $v").out(), "8\n");

    first.kill();
    let (id, _) = until_within(TAKEN_OVER, "the client can begin again elsewhere", || {
        let gone = call(&id, "echo");
        assert!(matches!(gone.status, 404 | 503), "{}", gone.text());
        initialize()
    });
    assert!(id.starts_with("n2."), "{id}");
    ask(Some(&id), json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    assert!(call(&id, "echo v is $v").text().contains("v is 8"));
}

/// Services outlive their daemon. A node that was killed and started again took them over, and started those that had ended,
/// although another node had their session by then: they ran twice.
#[test]
fn a_restarted_node_ends_the_services_of_a_session_that_another_took() {
    let redis = Redis::start();
    let (mut first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    let start =
        |name: &str| first.start_service("s", json!({"command": "sleep 1000", "name": name, "restart": "always"}));
    let (lives, dies) = (start("lives"), start("dies"));
    let (living, dying) = (services::pid(&lives), services::pid(&dies));
    first.kill();
    signal(dying, "KILL");
    let (_, _) = run_when_taken_over(&second, "s", &json!({"command": "true"}));
    let elsewhere = [&lives, &dies].map(|service| second.service_until("s", services::id(service), "running"));
    assert!(procs::alive(living), "it outlives its daemon");

    first.restart();
    until("what ran on the former owner is gone", || (!procs::alive(living)).then_some(()));
    // Every node lists the services of all nodes.
    let mut expected = elsewhere.each_ref().map(|service| service["pid"].as_u64());
    expected.sort_unstable();
    for daemon in [&first, &second] {
        until("each runs once", || {
            let mut pids: Vec<Option<u64>> =
                daemon.all_services().iter().map(|service| service["pid"].as_u64()).collect();
            pids.sort_unstable();
            (pids == expected).then_some(())
        });
    }
}

/// A node that is stopped hands over at once: nobody waits for its lease to end.
#[test]
fn a_node_that_is_stopped_hands_its_sessions_over() {
    let redis = Redis::start();
    let (mut first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    first.sh("s", "v=7");
    assert_eq!(first.stop(), Some(0));
    assert_eq!(second.sh("s", "echo $v").out(), "7\n");
}

/// What slept when its node was stopped, or had never been used, was kept from a node that had just started as if the other might
/// still go on with it: 503 for 5 s.
#[test]
fn a_node_that_has_just_started_takes_what_slept_on_one_that_was_stopped() {
    let redis = Redis::start();
    let mut first = redis.node("n1");
    first.create("unused");
    first.create("slept");
    first.sh("slept", "v=7");
    first.hibernate("slept");
    let lease = |session: &str| redis.cli(&["EXISTS", &format!("sk:{{{session}}}:lease")]);
    for session in ["unused", "slept"] {
        until("its lease is given up", || (lease(session).trim() == "0").then_some(()));
    }
    assert_eq!(first.stop(), Some(0));
    let second = redis.node("n2");
    assert_eq!(second.sh("unused", "echo $v").out(), "\n");
    assert_eq!(second.sh("slept", "echo $v").out(), "7\n");
}

/// Runs `shellkeep nodes` at a daemon: exit code, output, errors.
fn nodes(daemon: &Daemon, words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    let output = command
        .arg("nodes")
        .args(words)
        .arg("--socket")
        .arg(daemon.directory().join("s.sock"))
        .output()
        .expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}
