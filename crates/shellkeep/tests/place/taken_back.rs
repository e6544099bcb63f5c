//! A session that its node lost to another, and that comes back to it without a restart.

use crate::databases::Server;
use crate::history::{KINDS, caught_up, texts};
use crate::nodes::run_when_taken_over;
use crate::redis::Redis;
use crate::support::Daemon;
use crate::support::daemon::signal;
use serde_json::{Value, json};
use shellkeep_poll::until;

fn count() -> Value {
    json!({"command": "n=$((n+1)); echo $n"})
}

/// The second node takes sessions of the first one, which was stopped, and the first one learns of it.
pub fn lose(first: &Daemon, second: &Daemon, sessions: &[&str]) {
    signal(first.pid(), "STOP");
    for session in sessions {
        let (answer, _) = run_when_taken_over(second, session, &count());
        assert_eq!(answer["stdout"], "2\n");
    }
    signal(first.pid(), "CONT");
    for session in sessions {
        until("the former owner sends requests on", || {
            let answer = first.get(&format!("/v1/sessions/{session}"));
            (answer.header("shellkeep-node") == Some("n2")).then_some(())
        });
    }
}

fn epoch(redis: &Redis, session: &str) -> u64 {
    let owner = redis.cli(&["HGET", &format!("sk:{{{session}}}:head"), "owner"]);
    owner.split('.').next().and_then(|epoch| epoch.parse().ok()).unwrap_or_else(|| panic!("{owner}"))
}

/// The bug: a node that had lost a session went on with its old copy, under its old claim, while Redis was away; and it gave that
/// copy to a Redis that came back empty, before the owner did.
#[test]
fn a_node_does_not_go_on_with_a_copy_of_what_it_lost() {
    let mut redis = Redis::start();
    let (first, mut second) = (redis.node("n1"), redis.node("n2"));
    let sessions = ["awake", "asleep"];
    for session in sessions {
        first.create(session);
        first.sh(session, "n=1");
    }
    lose(&first, &second, &sessions);
    let lost_at = sessions.map(|session| epoch(&redis, session));
    second.hibernate("asleep");
    until("it sleeps", || redis.cli(&["EXISTS", "sk:{asleep}:lease"]).trim().eq("0").then_some(()));

    redis.stop();
    until("the node is alone", || (first.get("/readyz").json()["status"] == "degraded").then_some(()));
    for session in sessions {
        let answer = first.post(&format!("/v1/sessions/{session}/run"), &count());
        let by = answer.header("shellkeep-node").map(str::to_owned);
        assert_eq!((answer.json()["stdout"].as_str(), by.as_deref()), (Some("3\n"), Some("n2")), "{}", answer.text());
    }
    redis.restart();
    for daemon in [&first, &second] {
        until("the node is ready again", || (daemon.get("/readyz").json()["status"] == "ready").then_some(()));
    }
    for session in sessions {
        let mut refused = Vec::new();
        let answer = until("the owner has given it again", || {
            let answer = first.post(&format!("/v1/sessions/{session}/run"), &count());
            if answer.status != 200 {
                refused.push(format!("{} {}", answer.status, answer.text()));
            }
            (answer.status == 200).then_some(answer)
        });
        assert_eq!(
            (answer.json()["stdout"].as_str(), answer.header("shellkeep-node")),
            (Some("4\n"), Some("n2")),
            "{session} after {refused:?}"
        );
    }

    second.kill();
    for (session, lost_at) in sessions.into_iter().zip(lost_at) {
        let (answer, _) = run_when_taken_over(&first, session, &count());
        assert_eq!(answer["stdout"], "5\n");
        assert!(epoch(&redis, session) > lost_at, "{} after {lost_at}", epoch(&redis, session));
    }
}

/// The bug: a Redis that came back empty was told of the last owner only. A node that had the session before took what it had,
/// which is all part of the session, for a history of its own, declared a fork, and told the agent to run it again.
#[test]
fn an_earlier_owner_s_records_are_no_fork_after_redis_came_back_empty() {
    let mut redis = Redis::start();
    let (mut first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    first.sh("s", "n=1");
    first.kill();
    let (answer, _) = run_when_taken_over(&second, "s", &count());
    assert_eq!(answer["stdout"], "2\n");

    redis.stop();
    redis.restart();
    until("the owner has given it again", || redis.cli(&["EXISTS", "sk:{s}:lease"]).trim().eq("1").then_some(()));
    let claims = redis.cli(&["HGET", "sk:{s}:head", "claims"]);
    assert!(claims.contains(".n1.") && claims.contains(".n2."), "{claims}");
    first.restart();
    let drained = second.post("/v1/nodes/n2/drain?wait=30", &json!({}));
    assert_eq!(drained.status, 200, "{}", drained.text());
    let (answer, _) = run_when_taken_over(&first, "s", &count());
    assert_eq!(answer["stdout"], "3\n");
    assert!(!answer["notices"].to_string().contains("history_diverged"), "{answer}");
    let sessions = first.get("/v1/sessions").json();
    assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(1), "nothing was forked: {sessions}");
}

/// The bug: the result of the lost command, which nobody was given, took the notice with it.
#[test]
fn that_a_session_moved_is_told_also_if_a_command_ran() {
    let redis = Redis::start();
    let (mut first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    first.run("s", json!({"command": "sleep 300", "blocking": false}));
    first.kill();
    let (answer, _) = run_when_taken_over(&second, "s", &json!({"command": "true"}));
    let notices = answer["notices"].to_string();
    assert!(notices.contains("session_moved") && notices.contains("shell_replaced"), "{answer}");
}

/// The bug: a node that took a session back without a restart sent what the other node had recorded to history under the epoch of
/// its own, earlier claim. There it was taken for what a stale node had written.
#[test]
fn what_another_node_recorded_meanwhile_keeps_its_epoch() {
    let Some(server) = Server::start(KINDS[0]) else { return };
    let redis = Redis::start();
    let shared = |name: &str| Daemon::with(redis.settings(name).env("SHELLKEEP_HISTORY", &server.url()));
    let (first, second) = (shared("n1"), shared("n2"));
    first.create("s");
    first.sh("s", "n=1");
    caught_up(&server, &first, "s");
    lose(&first, &second, &["s"]);
    let taken_at = last(&second);
    // So many that the shared store has a state in place of the first ones.
    record_events(&redis, &second, "s");
    caught_up(&server, &second, "s");
    let drained = second.post("/v1/nodes/n2/drain?wait=30", &json!({}));
    assert_eq!(drained.status, 200, "{}", drained.text());
    let (answer, _) = run_when_taken_over(&first, "s", &count());
    assert_eq!(answer["stdout"], "3\n");
    caught_up(&server, &first, "s");

    // The first node's own last record, that its shell was stopped, is no part of the session. Nothing else is set aside.
    let same = "SELECT s.seq, s.epoch, s.type FROM sk_superseded s JOIN sk_records r \
                ON r.session_id = s.session_id AND r.seq = s.seq AND r.type = s.type AND r.at = s.at";
    assert_eq!(texts(&server, same), Vec::<String>::new(), "what was recorded was taken for a stale node's");
    let sql =
        format!("SELECT DISTINCT epoch FROM sk_records WHERE session_id = 's' AND seq > {taken_at} ORDER BY epoch");
    assert_eq!(texts(&server, &sql), ["2", "3"]);
}

fn last(daemon: &Daemon) -> u64 {
    daemon.get("/v1/sessions/s").json()["seq"].as_u64().expect("a number")
}

/// Records events, and nothing else, until the shared store no longer has the first of them.
fn record_events(redis: &Redis, daemon: &Daemon, session: &str) {
    let events = json!({"events": vec![json!({"event_type": "x_step", "data": {"text": "one of many"}}); 50]});
    let (log, base) = (format!("sk:{{{session}}}:log"), format!("sk:{{{session}}}:base"));
    for _ in 0..12 {
        let answer = daemon.post(&format!("/v1/sessions/{session}/events"), &events);
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    assert_eq!(redis.cli(&["EXISTS", &base]).trim(), "1", "the shared store keeps everything");
    let kept: u64 = redis.cli(&["LLEN", &log]).trim().parse().expect("a number");
    assert!((256..512).contains(&kept), "{kept}");
}

/// The bug: the log in the shared store was shortened only when a command ended at a number divisible by 256.
#[test]
fn a_session_of_events_alone_is_shortened_in_redis() {
    let redis = Redis::start();
    let (mut first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    record_events(&redis, &first, "s");
    let before = last(&first);
    first.kill();
    let (answer, _) = run_when_taken_over(&second, "s", &json!({"command": "echo $((40 + 2))"}));
    assert_eq!(answer["stdout"], "42\n");
    assert!(last(&second) > before);
}
