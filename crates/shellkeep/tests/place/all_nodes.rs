//! What is the same on all nodes: lists, the audit trail, tokens.

use crate::nodes::run_when_taken_over;
use crate::redis::Redis;
use crate::support::daemon::signal;
use crate::support::http::Door;
use crate::support::{Agent, Daemon, Request, services};
use serde_json::{Value, json};
use shellkeep_poll::until;

#[test]
fn every_node_lists_the_sessions_of_all_nodes() {
    let redis = Redis::start();
    let (mut first, second) = (redis.node("n1"), redis.node("n2"));
    for number in 0..6 {
        let daemon = if number % 2 == 0 { &first } else { &second };
        daemon
            .create_with(json!({"session_id": format!("s{number}"), "agent": if number < 3 { "ann" } else { "bob" }}));
    }
    let names = |daemon: &Daemon, query: &str| -> Vec<String> {
        let list = daemon.get(&format!("/v1/sessions{query}")).json();
        list["sessions"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|s| s["session_id"].as_str().unwrap().to_owned())
            .collect()
    };
    for daemon in [&first, &second] {
        assert_eq!(names(daemon, ""), ["s0", "s1", "s2", "s3", "s4", "s5"]);
        assert_eq!(names(daemon, "?agent=ann"), ["s0", "s1", "s2"]);
        let page = daemon.get("/v1/sessions?limit=4").json();
        assert_eq!((page["sessions"].as_array().map(Vec::len), page["next"].as_str()), (Some(4), Some("s3")), "{page}");
        assert_eq!(names(daemon, "?limit=4&after=s3"), ["s4", "s5"]);
        assert_eq!(daemon.get("/v1/sessions?limit=0").status, 400);
    }
    // An agent sees its own, wherever they are.
    let ann = Agent::named(&first, "ann");
    let list = ann.get("/v1/sessions").json();
    assert_eq!(list["sessions"].as_array().map(Vec::len), Some(3), "{list}");
    second.destroy("s1");
    assert_eq!(names(&first, "?agent=ann"), ["s0", "s2"]);
    first.destroy("s4");
    for daemon in [&first, &second] {
        let audit = daemon.get("/v1/audit").json();
        let of = |what: &str| audit["audit"].as_array().unwrap().iter().filter(|entry| entry["what"] == what).count();
        assert_eq!((of("create_token"), of("destroy")), (1, 2), "{audit}");
        let last = daemon.get("/v1/audit?limit=1").json();
        assert_eq!(last["audit"][0]["object"], "s4", "{last}");
    }

    // One that moved is listed once, as its owner knows it; one that was removed there is not listed from an old copy.
    first.kill();
    run_when_taken_over(&second, "s0", &json!({"command": "cd /usr"}));
    run_when_taken_over(&second, "s2", &json!({"command": "cd /usr"}));
    first.restart();
    second.destroy("s2");
    until("the nodes see each other", || {
        let list = first.get("/v1/sessions").json();
        let shown =
            |name: &str| list["sessions"].as_array().unwrap().iter().filter(|s| s["session_id"] == name).count();
        (list["sessions"].as_array().map(Vec::len) == Some(3) && shown("s0") == 1 && shown("s2") == 0).then_some(())
    });
    let list = first.get("/v1/sessions").json();
    assert_eq!(list["sessions"][0]["cwd"], "/usr", "{list}");
}

/// Lists in the order of activity were put together by id, and their pages began anew on nodes that did not have the last session.
#[test]
fn every_node_lists_the_most_recently_active_sessions_first() {
    let redis = Redis::start();
    let mut nodes = ["n1", "n2", "n3"].map(|name| redis.node(name));
    // The order of activity is neither that of the names nor that of the nodes.
    let order = [4, 0, 7, 2, 8, 5, 1, 6, 3];
    for number in 0..order.len() {
        nodes[number % 3].create(&format!("s{number}"));
    }
    for number in order {
        nodes[(number + 1) % 3].sh(&format!("s{number}"), "(exit 3)");
    }
    let pages = |daemon: &Daemon, query: &str| -> Vec<String> {
        let (mut names, mut after) = (Vec::new(), Some(String::new()));
        while let Some(from) = after {
            let page = daemon.get(&format!("/v1/sessions?{query}&after={from}"));
            assert_eq!(page.status, 200, "{}", page.text());
            let page = page.json();
            let sessions = page["sessions"].as_array().expect("a list");
            names.extend(sessions.iter().map(|session| session["session_id"].as_str().expect("a name").to_owned()));
            after = page["next"].as_str().map(str::to_owned);
        }
        names
    };
    let expected: Vec<String> = order.iter().rev().map(|number| format!("s{number}")).collect();
    for daemon in &nodes {
        for query in
            ["order=active", "order=active&limit=2", "order=active&limit=1", "order=active&failed=true&limit=2"]
        {
            assert_eq!(pages(daemon, query), expected, "{query}");
        }
        assert_eq!(pages(daemon, "order=active&live=true&limit=2"), expected);
        let by_id: Vec<String> = (0..order.len()).map(|number| format!("s{number}")).collect();
        assert_eq!(pages(daemon, "order=id&limit=2"), by_id);
        assert_eq!(pages(daemon, "failed=true&limit=2"), by_id);
    }

    // One that moved is at its place there, and its old copy at none.
    nodes[0].kill();
    let (moved, _) = run_when_taken_over(&nodes[1], "s3", &json!({"command": "echo moved"}));
    assert_eq!(moved["stdout"], "moved\n");
    for number in [0, 6] {
        run_when_taken_over(&nodes[1], &format!("s{number}"), &json!({"command": "true"}));
    }
    nodes[0].restart();
    let after: Vec<&str> = ["s6", "s0", "s3"].into_iter().chain(expected.iter().map(String::as_str)).collect();
    let expected: Vec<&str> =
        after.iter().enumerate().filter(|(at, name)| !after[..*at].contains(name)).map(|(_, name)| *name).collect();
    until("the nodes see each other", || {
        nodes.iter().all(|daemon| pages(daemon, "order=active&limit=2") == expected).then_some(())
    });
}

#[test]
fn every_node_lists_the_runs_of_all_nodes() {
    let redis = Redis::start();
    let (mut first, second) = (redis.node("n1"), redis.node("n2"));
    for (number, daemon) in [&first, &second, &first, &second].into_iter().enumerate() {
        let name = format!("s{number}");
        daemon.create_with(json!({"session_id": name, "agent": if number < 2 { "ann" } else { "bob" }}));
        // Through the other node, so that each has runs which it only passed on.
        let through = if number % 2 == 0 { &second } else { &first };
        through.run(&name, json!({"command": format!("exit {}", number % 3)}));
    }
    let names = |daemon: &Daemon, query: &str| -> (Vec<String>, Option<String>) {
        let list = daemon.get(&format!("/v1/runs{query}")).json();
        let runs = list["runs"].as_array().expect("a list");
        let names = runs.iter().map(|run| run["session_id"].as_str().expect("a name").to_owned()).collect();
        (names, list["next"].as_str().map(str::to_owned))
    };
    let whole = |names: &[&str]| (names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>(), None);
    for daemon in [&first, &second] {
        assert_eq!(names(daemon, ""), whole(&["s3", "s2", "s1", "s0"]));
        assert_eq!(names(daemon, "?status=failed"), whole(&["s2", "s1"]));
        let (page, next) = names(daemon, "?limit=3");
        assert_eq!(page, ["s3", "s2", "s1"]);
        assert_eq!(names(daemon, &format!("?limit=3&before={}", next.expect("another page"))), whole(&["s0"]));
        assert_eq!(daemon.get("/v1/runs?limit=0").status, 400);
    }
    // An agent sees its own, wherever they are.
    let ann = Agent::named(&first, "ann");
    assert_eq!(ann.get("/v1/runs").json()["runs"].as_array().map(Vec::len), Some(2));
    second.destroy("s1");
    assert_eq!(names(&first, ""), whole(&["s3", "s2", "s0"]));

    // A run whose session moved is listed once, and so is what came after it.
    first.kill();
    run_when_taken_over(&second, "s0", &json!({"command": "true"}));
    first.restart();
    until("the nodes see each other", || {
        let (listed, _) = names(&first, "");
        (listed == ["s0", "s3", "s2", "s0"]).then_some(())
    });
}

/// The list had each service once more from the copy on the node that the session had left.
#[test]
fn a_process_of_a_session_that_moved_sees_its_services_once() {
    let redis = Redis::start();
    let (mut first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    let service = first.start_service("s", json!({"command": "sleep 1000"}));
    first.kill();
    run_when_taken_over(&second, "s", &json!({"command": "true"}));
    first.restart();
    until("the nodes see each other", || {
        (second.get("/v1/nodes").json()["nodes"].as_array().map(Vec::len) == Some(2)).then_some(())
    });
    let Door::Socket(socket) = second.door() else { panic!("a socket") };
    let ask = "import http.client, socket, sys; c = http.client.HTTPConnection('node'); \
               c.sock = socket.socket(socket.AF_UNIX); c.sock.connect(sys.argv[1]); \
               c.request('GET', '/v1/services'); print(c.getresponse().read().decode())";
    let list = second.sh("s", &format!("python3 -c \"{ask}\" '{}'", socket.display())).out();
    let list: Value = serde_json::from_str(&list).expect("a list");
    let ids: Vec<_> = list["services"].as_array().expect("services").iter().map(|one| &one["service_id"]).collect();
    assert_eq!(ids, [services::id(&service)], "{list}");
}

/// What a node that does not answer has is missing, and the answer says so.
#[test]
fn a_list_names_the_nodes_whose_part_is_missing() {
    let redis = Redis::start();
    let first = redis.node("n1");
    // Nothing listens there.
    let _second = Daemon::with(redis.settings("n2").env("SHELLKEEP_ADVERTISE", "http://127.0.0.1:1"));
    first.create("s1");
    first.run("s1", json!({"command": "true"}));
    let list = first.get("/v1/runs");
    assert_eq!(list.header("shellkeep-missing-nodes"), Some("n2"), "{}", list.text());
    assert_eq!(list.json()["runs"][0]["session_id"], "s1");
}

/// An agent was ended on the node that was asked, and went on on all others.
#[test]
fn an_agent_is_ended_on_all_nodes() {
    let redis = Redis::start();
    let (mut first, second) = (redis.node("n1"), redis.node("n2"));
    let mut started = Vec::new();
    for (daemon, session, agent) in [(&first, "s1", "ann"), (&second, "s2", "ann"), (&second, "s3", "bob")] {
        daemon.create_with(json!({"session_id": session, "agent": agent}));
        started.push(daemon.start_service(session, json!({"command": "sleep 1000"})));
    }
    let ended = first.post("/v1/agents/ann/end", &json!({}));
    assert_eq!(ended.json(), json!({"agent": "ann", "sessions": 2, "services": 2}), "{}", ended.text());
    assert_eq!(second.service("s2", services::id(&started[1]))["status"], "stopped");
    assert_eq!(second.service("s3", services::id(&started[2]))["status"], "running", "another agent's");
    assert_eq!(first.post("/v1/agents/b%6Fb/end", &json!({"x": 1})).status, 400);
    assert_eq!(second.service("s3", services::id(&started[2]))["status"], "running", "it was refused");
    let ann = Agent::named(&first, "ann");
    assert_eq!(ann.send(Request::new("POST", "/v1/agents/bob/end")).status, 403);
    assert_eq!(second.service("s3", services::id(&started[2]))["status"], "running", "only the host may");

    // A session that moved is ended by its node only: the other has an old copy.
    first.kill();
    run_when_taken_over(&second, "s1", &json!({"command": "true"}));
    first.restart();
    until("the nodes see each other", || {
        (first.get("/v1/nodes").json()["nodes"].as_array().map(Vec::len) == Some(2)).then_some(())
    });
    let ended = first.post("/v1/agents/ann/end", &json!({})).json();
    assert_eq!(ended, json!({"agent": "ann", "sessions": 2, "services": 0}));
    assert_eq!(second.get("/v1/sessions/s1").header("shellkeep-node"), None, "it stays where it is");

    // A node that cannot be reached is named.
    let _third = Daemon::with(redis.settings("n3").env("SHELLKEEP_ADVERTISE", "http://127.0.0.1:1"));
    let ended = second.post("/v1/agents/bob/end", &json!({})).json();
    assert_eq!(ended, json!({"agent": "bob", "sessions": 1, "services": 1, "missing_nodes": ["n3"]}));
}

/// Only the node that had the session decoded its name: clients that encode a colon got 404 from all others.
#[test]
fn a_session_is_found_through_every_node_if_its_name_is_encoded() {
    let redis = Redis::start();
    let (first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("u:1");
    first.sh("u:1", "v=1");
    for path in ["/v1/sessions/u:1/run", "/v1/sessions/u%3A1/run", "/v1/sessions/%75%3a1/run"] {
        assert_eq!(first.post(path, &json!({"command": "echo $v"})).json()["stdout"], "1\n", "{path}");
        let ran = second.post(path, &json!({"command": "echo $v"}));
        assert_eq!((ran.status, ran.header("shellkeep-node")), (200, Some("n1")), "{path}: {}", ran.text());
        assert_eq!(ran.json()["stdout"], "1\n");
    }
    for daemon in [&first, &second] {
        assert_eq!(daemon.get("/v1/sessions/u%2F1").status, 400);
        assert_eq!(daemon.get("/v1/sessions/u%3A2").status, 404);
    }
}

/// Nothing in `/metrics` told about other nodes.
#[test]
fn metrics_tell_about_the_other_nodes() {
    let mut redis = Redis::start();
    let (mut first, second) = (redis.node("n1"), redis.node("n2"));
    let shows = |daemon: &Daemon, line: &str| daemon.get("/metrics").text().lines().any(|shown| shown == line);
    first.create("s");
    first.sh("s", "true");
    for result in ["answered", "unreachable", "refused", "lost"] {
        assert!(shows(&second, &format!("shellkeep_forwards_total{{result=\"{result}\"}} 0")), "{result}");
    }
    second.sh("s", "true");
    assert!(shows(&second, "shellkeep_forwards_total{result=\"answered\"} 1"));
    assert!(shows(&second, "shellkeep_cluster_nodes 2") && shows(&second, "shellkeep_shared_store_up 1"));
    assert!(shows(&second, "shellkeep_takeovers_total 0"));
    first.kill();
    run_when_taken_over(&second, "s", &json!({"command": "true"}));
    assert!(shows(&second, "shellkeep_takeovers_total 1"));
    until("the other node is not counted", || shows(&second, "shellkeep_cluster_nodes 1").then_some(()));
    redis.stop();
    until("the shared store is missed", || shows(&second, "shellkeep_shared_store_up 0").then_some(()));
    assert!(!Daemon::start().get("/metrics").text().contains("shellkeep_cluster_nodes"), "one daemon has no cluster");
}

/// Asks a node with a token: the status of the answer.
fn status(daemon: &Daemon, token: &str) -> u16 {
    let request = Request::new("GET", "/v1/sessions").header("authorization", &format!("Bearer {token}"));
    request.send(&daemon.tcp_door()).expect("an answer").status
}

#[test]
fn a_token_is_valid_on_all_nodes_until_it_is_revoked_on_one() {
    let mut redis = Redis::start();
    let (first, mut second) = (redis.node("n1"), redis.node("n2"));
    let (token, id) = {
        let agent = Agent::named(&first, "ann");
        (agent.token.clone(), agent.id.clone())
    };
    until("the other node accepts it", || (status(&second, &token) == 200).then_some(()));
    let listed = second.get("/v1/tokens").json();
    assert_eq!(listed["tokens"][0]["id"], id, "{listed}");

    // A node that did not run, and one that could not reach Redis, learn of it later.
    second.kill();
    redis.stop();
    let alone = Agent::named(&first, "bob").token;
    assert_eq!(status(&first, &alone), 200);
    let revoked = first.send(&Request::new("DELETE", &format!("/v1/tokens/{id}")));
    assert_eq!(revoked.status, 204, "{}", revoked.text());
    redis.restart();
    second.restart();
    until("the other node accepts what was created meanwhile", || (status(&second, &alone) == 200).then_some(()));
    until("the other node refuses what was revoked meanwhile", || (status(&second, &token) == 401).then_some(()));
    assert_eq!((status(&first, &token), status(&first, &alone)), (401, 200));
    // It stays so after a restart, whoever starts first.
    second.restart();
    assert_eq!((status(&second, &token), status(&second, &alone)), (401, 200));
}

/// The bug: what is kept of a session that its agent deleted was listed by all nodes, and readable on one of them only.
#[test]
fn what_is_kept_of_a_deleted_session_is_read_through_every_node() {
    let redis = Redis::start();
    let (first, second) = (redis.node("n1"), redis.node("n2"));
    let ann = Agent::named(&first, "ann");
    let session = ann.create("w");
    ann.sh(&session, "echo trail");
    assert_eq!(ann.send(Request::new("DELETE", &format!("/v1/sessions/{session}"))).status, 204);
    let list = second.get("/v1/sessions?deleted=true").json();
    let kept = list["sessions"][0]["session_id"].as_str().unwrap_or_else(|| panic!("{list}")).to_owned();
    for path in ["", "/events", "/export?format=jsonl"] {
        let answer = second.get(&format!("/v1/sessions/{kept}{path}"));
        assert_eq!((answer.status, answer.header("shellkeep-node")), (200, Some("n1")), "{path}: {}", answer.text());
    }
    let verified = second.post(&format!("/v1/sessions/{kept}/verify"), &json!({}));
    assert_eq!((verified.status, &verified.json()["intact"]), (200, &json!(true)), "{}", verified.text());
    assert_eq!(ann.get(&format!("/v1/sessions/{kept}")).status, 404, "it is for the host only");

    // A node that does not answer may have it.
    signal(first.pid(), "STOP");
    let silent = second.get(&format!("/v1/sessions/{kept}"));
    signal(first.pid(), "CONT");
    assert_eq!((silent.status, silent.json()["code"].as_str()), (503, Some("node_unreachable")), "{}", silent.text());
    assert!(silent.text().contains("'n1'") && silent.header("retry-after").is_some(), "{}", silent.text());
    until("it answers again", || (second.get(&format!("/v1/sessions/{kept}")).status == 200).then_some(()));
    assert_eq!(second.send(&Request::new("DELETE", &format!("/v1/sessions/{kept}"))).status, 204);
    for daemon in [&first, &second] {
        assert_eq!(daemon.get(&format!("/v1/sessions/{kept}")).status, 404);
    }
}
