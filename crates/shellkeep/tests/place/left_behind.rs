//! The past of a session that moved: what came along, and what stayed on the node that had it.

use crate::node_files::Cluster;
use crate::nodes::run_when_taken_over;
use crate::redis::Redis;
use crate::support::Request;
use serde_json::json;
use shellkeep_poll::until;

/// The bug: the directory of an earlier moment was compared with the workspace of the node that the session is on now, so a fork at
/// any moment before the move was refused with `files_not_apart`.
#[test]
fn a_moment_before_the_move_can_be_forked() {
    let mut cluster = Cluster::start();
    cluster.first.create("s");
    let early = cluster.first.sh("s", "mkdir sub; cd sub; echo one > f; v=1").run_id().to_owned();
    cluster.shared(&cluster.first, "s");
    cluster.first.sh("s", "echo two > f; v=2");
    cluster.shared(&cluster.first, "s");
    cluster.first.kill();
    run_when_taken_over(&cluster.second, "s", &json!({"command": "true"}));
    let fork = cluster.second.post("/v1/sessions/s/fork", &json!({"session_id": "early", "at": early}));
    assert_eq!(fork.status, 201, "{}", fork.text());
    let here = cluster.second.data().join("workspaces/early/sub");
    let answer = cluster.second.sh("early", "pwd; cat f; echo $v");
    assert_eq!(answer.out(), format!("{}\none\n1\n", here.display()));
    assert_eq!(cluster.second.sh("s", "cat f; echo $v").out(), "two\n2\n");
}

/// The bug: on a node without any checkpoint of the session, a rewind to one that had stayed behind changed no file and said that it
/// was done, and a comparison with it said that nothing differs.
#[test]
fn a_checkpoint_that_stayed_behind_is_refused_by_name_of_its_node() {
    let redis = Redis::start();
    let (mut first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    let early = first.sh("s", "echo one > f; v=1").run_id().to_owned();
    let listed = first.get("/v1/sessions/s/checkpoints").json();
    let name = listed["checkpoints"][0]["checkpoint_id"].as_str().expect("there is a checkpoint").to_owned();
    until("the shared store knows of it", || {
        let seq = first.get("/v1/sessions/s").json()["seq"].to_string();
        (redis.cli(&["HGET", "sk:{s}:head", "seq"]).trim() == seq).then_some(())
    });
    first.kill();
    run_when_taken_over(&second, "s", &json!({"command": "v=2"}));
    let moment = json!({ "to": early });
    for (what, answer) in [
        ("rewind", second.post("/v1/sessions/s/rewind", &moment)),
        ("fork", second.post("/v1/sessions/s/fork", &json!({"session_id": "f", "at": early}))),
        ("diff", second.get(&format!("/v1/sessions/s/checkpoints/{name}/diff"))),
    ] {
        assert_eq!((answer.status, answer.json()["code"].as_str()), (404, Some("checkpoint_not_found")), "{what}");
        assert!(answer.text().contains("node n1") && answer.text().contains(&name), "{what}: {}", answer.text());
    }
    assert_eq!(second.get("/v1/sessions/f").status, 404, "a fork that was refused is there");
    assert_eq!(second.sh("s", "echo $v").out(), "2\n");
}

/// The bug: with a large state of the agent that had stayed behind, each rewind was answered with 500, because the present state was
/// to be saved once more; and a fork lost it without a word.
#[test]
fn a_state_of_the_agent_that_stayed_behind_stops_no_rewind() {
    let redis = Redis::start();
    let (mut first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    let mut put = Request::new("PUT", "/v1/sessions/s/agent_state").header("content-type", "application/octet-stream");
    put.body = vec![b'y'; 200_000];
    assert_eq!(first.send(&put).status, 201);
    first.kill();
    let (moved, _) = run_when_taken_over(&second, "s", &json!({"command": "v=1"}));
    second.sh("s", "v=2");
    let rewound = second.post("/v1/sessions/s/rewind", &json!({"to": moved["run_id"]}));
    assert_eq!(rewound.status, 200, "{}", rewound.text());
    assert!(rewound.text().contains("Version 1 of the agent's state is missing"), "{}", rewound.text());
    assert_eq!(rewound.json()["agent_state_version"], 1, "it is still the one that stayed behind");
    assert_eq!(second.sh("s", "echo $v").out(), "1\n");
    let fork = second.post("/v1/sessions/s/fork", &json!({"session_id": "f"}));
    assert_eq!(fork.status, 201, "{}", fork.text());
    assert!(fork.text().contains("Version 1 of the agent's state was not copied"), "{}", fork.text());
    let gone = second.get("/v1/sessions/s/agent_state");
    assert_eq!((gone.status, gone.json()["code"].as_str()), (410, Some("agent_state_reclaimed")), "{}", gone.text());
    assert!(gone.text().contains("stayed on node n1"), "{}", gone.text());
    // The node that has it is back, and so is the session.
    first.restart();
    let drained = second.post("/v1/nodes/n2/drain?wait=30", &json!({}));
    assert_eq!(drained.status, 200, "{}", drained.text());
    run_when_taken_over(&first, "s", &json!({"command": "true"}));
    assert_eq!(first.get("/v1/sessions/s/agent_state").body.len(), 200_000);
}

/// The bug: after a move, each large output that had stayed on the other node was taken for one that somebody had deleted, and so
/// were the values of the keyed store.
#[test]
fn what_stayed_behind_is_no_tampering() {
    let redis = Redis::start();
    let (mut first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    let large = "head -c 200000 /dev/zero | tr '\\0' x";
    first.sh("s", large);
    let put = Request::new("PUT", "/v1/sessions/s/kv/colour").json(json!("blue").to_string());
    assert!(first.send(&put).status < 300);
    first.kill();
    run_when_taken_over(&second, "s", &json!({"command": "true"}));
    let run_id = second.sh("s", large).run_id().to_owned();
    let verdict = second.post("/v1/sessions/s/verify", &json!({})).json();
    // The other file is what the session began with.
    assert_eq!((&verdict["intact"], &verdict["files"]), (&json!(true), &json!(2)), "{verdict}");
    assert!(verdict["remarks"].to_string().contains("session before: 1; they are not checked"), "{verdict}");
    // What this node made must be here.
    std::fs::remove_file(second.data().join(format!("outputs/s/{run_id}.stdout"))).expect("it is there");
    let verdict = second.post("/v1/sessions/s/verify", &json!({})).json();
    assert_eq!((&verdict["intact"], &verdict["bad"]["file"]), (&json!(false), &json!(format!("{run_id}.stdout"))));
}
