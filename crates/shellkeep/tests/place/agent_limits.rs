//! Limits of an agent hold on all nodes together.

use crate::redis::Redis;
use crate::support::services::{id, in_parallel};
use crate::support::{Agent, Daemon};
use serde_json::{Value, json};
use shellkeep_poll::until;

fn limited(redis: &Redis, limits: &Value) -> (Daemon, Daemon) {
    let nodes = (redis.node("n1"), redis.node("n2"));
    for node in [&nodes.0, &nodes.1] {
        let put = node.put_quotas(limits);
        assert_eq!(put.status, 200, "{}", put.text());
    }
    nodes
}

/// The same agent, at another node.
fn at<'a>(agent: &Agent, daemon: &'a Daemon) -> Agent<'a> {
    let there = Agent { daemon, id: agent.id.clone(), token: agent.token.clone() };
    until("the other node knows the token", || (there.get("/v1/sessions").status == 200).then_some(()));
    there
}

#[test]
fn an_agent_has_as_many_services_on_all_nodes_as_its_limit_says() {
    let redis = Redis::start();
    let (first, mut second) = limited(&redis, &json!({"services_per_agent": 2}));
    for (node, session, agent) in [(&first, "s1", "ann"), (&second, "s2", "ann"), (&second, "s3", "bob")] {
        node.create_with(json!({"session_id": session, "agent": agent}));
    }
    let sleep = json!({"command": "exec sleep 1000"});
    let here = first.start_service("s1", sleep.clone());
    let there = second.start_service("s2", sleep.clone());
    let refused = first.ask_service("s1", &sleep);
    let problem = refused.json();
    assert_eq!((refused.status, &problem["code"]), (429, &json!("quota_exceeded")), "{problem}");
    assert_eq!((&problem["limit"], &problem["used"]), (&json!(2), &json!(2)), "{problem}");
    assert_eq!(problem["services"][0]["service_id"], here["service_id"], "{problem}");
    assert_eq!(problem["services_elsewhere"], json!([{"session_id": "s2", "service_id": id(&there)}]));
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains(&format!("on other nodes: {} of session s2", id(&there))), "{detail}");
    // A command in the background counts too.
    let long = second.run("s2", json!({"command": "sleep 1000", "timeout": 0.1, "on_timeout": "background"}));
    assert_eq!(long.status(), "timed_out", "{}", long.json);
    assert!(long.notice_codes().contains(&"backgrounded"), "{}", long.json);
    let ann = Agent::named(&first, "ann");
    for ann in [&ann, &at(&ann, &second)] {
        let quotas = ann.get("/v1/quotas").json();
        let used = |name: &str| quotas["quotas"][name]["used"].clone();
        assert_eq!((used("services_per_agent"), used("sessions_per_agent")), (json!(2), json!(2)), "{quotas}");
    }
    second.start_service("s3", sleep.clone());

    // One that was stopped makes room at once, and one whose node is gone when its lease ends.
    first.stop_service("s2", id(&there));
    first.start_service("s1", sleep.clone());
    first.stop_service("s1", id(&here));
    let long = second.run("s2", json!({"command": "sleep 1000", "timeout": 0.1, "on_timeout": "background"}));
    assert_eq!(long.status(), "running", "{}", long.json);
    assert_eq!(first.ask_service("s1", &sleep).status, 429);
    second.kill();
    until("the dead node's command no longer counts", || {
        let answer = first.ask_service("s1", &sleep);
        assert!([201, 429].contains(&answer.status), "{}", answer.text());
        (answer.status == 201).then_some(())
    });
}

#[test]
fn an_agent_has_as_many_sessions_on_all_nodes_as_its_limit_says() {
    let redis = Redis::start();
    let (first, second) = limited(&redis, &json!({"sessions_per_agent": 5}));
    let ann = Agent::named(&first, "ann");
    let nodes = [&ann, &at(&ann, &second)];
    // Many at once, through both nodes: as many as it may have are created.
    let numbers: Vec<usize> = (0..24).collect();
    let answers = in_parallel(6, &numbers, |number| {
        let answer = nodes[number % 2].post("/v1/sessions", &json!({"session_id": format!("s{number}")}));
        assert!([201, 429].contains(&answer.status), "{}", answer.text());
        (answer.status == 201).then(|| answer.json()["session_id"].as_str().unwrap().to_owned())
    });
    let created: Vec<&String> = answers.iter().flatten().collect();
    assert_eq!(created.len(), 5);
    for agent in nodes {
        let refused = agent.post("/v1/sessions", &json!({"session_id": "more"}));
        let problem = refused.json();
        assert_eq!((refused.status, &problem["quota"]), (429, &json!("sessions_per_agent")), "{problem}");
        assert_eq!((&problem["limit"], &problem["used"]), (&json!(5), &json!(5)), "{problem}");
        // One that exists is not one more, and a fork is.
        assert_eq!(agent.post("/v1/sessions", &json!({"session_id": created[0]})).status, 200);
        assert_eq!(agent.post(&format!("/v1/sessions/{}/fork", created[0]), &json!({})).status, 429);
    }
    second.destroy(created[0]);
    nodes[0].create("more");
    assert_eq!(nodes[1].post("/v1/sessions", &json!({"session_id": "again"})).status, 429);
    // The host may create more for it.
    second.create_with(json!({"session_id": "of-the-host", "agent": "ann"}));
}
