//! Identities: an agent with a token sees and touches its own sessions and nothing else, not even that others exist.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

mod support;

use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use support::{Agent, Daemon, Door, Request, Response, Settings, bash, is};

/// The ids of the sessions that an agent sees.
fn sessions(agent: &Agent<'_>, query: &str) -> Vec<String> {
    let answer = agent.get(&format!("/v1/sessions{query}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["next"], Value::Null);
    let list = answer.json()["sessions"].as_array().unwrap().clone();
    list.iter().map(|session| session["session_id"].as_str().unwrap().to_owned()).collect()
}

fn revoke(agent: &Agent<'_>) {
    let answer = agent.daemon.send(&Request::new("DELETE", &format!("/v1/tokens/{}", agent.id)));
    assert_eq!(answer.status, 204, "{}", answer.text());
}

fn daemon() -> Daemon {
    Daemon::with(Settings::default().tcp())
}

/// A query and a body.
type Call = (&'static str, &'static str);

/// How every route about a session is called: method, path, calls. `{run_id}` and `{service_id}` are a run and a service
/// that exist.
const ROUTES: &[(&str, &str, &[Call])] = &[
    ("get", "/v1/sessions/{session_id}", &[("", "")]),
    ("delete", "/v1/sessions/{session_id}", &[("", "")]),
    ("get", "/v1/sessions/{session_id}/state", &[("", "")]),
    ("get", "/v1/sessions/{session_id}/sandbox", &[("", "")]),
    ("put", "/v1/sessions/{session_id}/sandbox", &[("", "{\"sandbox\": \"none\"}"), ("", "{\"sandbox\": \"room\"}")]),
    ("post", "/v1/sessions/{session_id}/hibernate", &[("", "{}")]),
    ("post", "/v1/sessions/{session_id}/restart", &[("", "")]),
    (
        "post",
        "/v1/sessions/{session_id}/run",
        &[
            ("", "{\"command\": \"true\"}"),
            ("", "{\"command\": \"true\", \"if_busy\": \"reject\"}"),
            ("", "{\"command\": \"true\", \"blocking\": false}"),
            ("", "{\"command\": \"true\", \"request_id\": \"known\"}"),
            ("", "{\"command\": \"\\u0000\"}"),
            ("", "{\"command\": 5}"),
        ],
    ),
    ("get", "/v1/sessions/{session_id}/runs", &[("", ""), ("?limit=1", ""), ("?before=x", "")]),
    ("get", "/v1/sessions/{session_id}/runs/{run_id}", &[("", ""), ("?wait=1", ""), ("?wait=x", "")]),
    ("get", "/v1/sessions/{session_id}/runs/{run_id}/output", &[("", ""), ("?tail=5", ""), ("?grep=(", "")]),
    ("post", "/v1/sessions/{session_id}/runs/{run_id}/input", &[("", "{\"text\": \"x\"}"), ("", "{\"eof\": true}")]),
    (
        "post",
        "/v1/sessions/{session_id}/runs/{run_id}/signal",
        &[("", "{\"signal\": \"INT\"}"), ("", "{\"signal\": \"X\"}")],
    ),
    ("get", "/v1/sessions/{session_id}/runs/{run_id}/screen", &[("", ""), ("?wait=match:(", ""), ("?wait=x", "")]),
    ("get", "/v1/sessions/{session_id}/runs/{run_id}/screens", &[("", ""), ("?limit=0", "")]),
    (
        "post",
        "/v1/sessions/{session_id}/runs/{run_id}/resize",
        &[("", "{\"rows\": 5, \"cols\": 5}"), ("", "{\"rows\": 0, \"cols\": 5}")],
    ),
    ("post", "/v1/sessions/{session_id}/hold", &[("", "{}"), ("", "{\"ttl\": 1}"), ("", "{\"ttl\": 0}")]),
    ("delete", "/v1/sessions/{session_id}/hold", &[("", ""), ("?hold_id=x", "")]),
    (
        "post",
        "/v1/sessions/{session_id}/resume",
        &[
            ("", "{\"message\": \"hi\"}"),
            ("", "{\"message\": \"hi\", \"request_id\": \"known\"}"),
            ("", "{\"message\": 5}"),
        ],
    ),
    ("post", "/v1/sessions/{session_id}/end", &[("", "")]),
    ("get", "/v1/sessions/{session_id}/services", &[("", "")]),
    (
        "post",
        "/v1/sessions/{session_id}/services",
        &[
            ("", "{\"command\": \"true\"}"),
            ("", "{\"command\": \"true\", \"wait\": 1}"),
            ("", "{\"command\": \"true\", \"ready\": 0}"),
        ],
    ),
    ("get", "/v1/sessions/{session_id}/services/{service_id}", &[("", ""), ("?wait=1", ""), ("?wait=x", "")]),
    (
        "post",
        "/v1/sessions/{session_id}/services/{service_id}/stop",
        &[("", ""), ("", "{\"grace\": 0}"), ("", "{\"grace\": -1}")],
    ),
    (
        "get",
        "/v1/sessions/{session_id}/services/{service_id}/logs",
        &[("", ""), ("?tail=5", ""), ("?offset=1", ""), ("?grep=(", "")],
    ),
    (
        "post",
        "/v1/sessions/{session_id}/events",
        &[
            ("", "{\"event_type\": \"x_mine\", \"data\": {}}"),
            ("", "{\"events\": [{\"event_type\": \"x_mine\", \"data\": {}}]}"),
            ("", "{\"event_type\": \"run_started\", \"data\": {}}"),
        ],
    ),
    (
        "get",
        "/v1/sessions/{session_id}/events",
        &[("", ""), ("?after=1&redact=true", ""), ("?type=tool_call", ""), ("?search=(", ""), ("?view=summary", "")],
    ),
    ("get", "/v1/sessions/{session_id}/events/overview", &[("", ""), ("?buckets=5", ""), ("?buckets=0", "")]),
    (
        "get",
        "/v1/sessions/{session_id}/export",
        &[("", ""), ("?format=asciicast", ""), ("?format=html&redact=1", ""), ("?format=x", "")],
    ),
    ("post", "/v1/sessions/{session_id}/verify", &[("", ""), ("", "{}")]),
    ("post", "/v1/sessions/{session_id}/scrub", &[("", "{\"secret\": \"horse-battery\"}"), ("", "{\"secret\": \"\"}")]),
    ("get", "/v1/sessions/{session_id}/config_snapshot", &[("", ""), ("?redact=true", "")]),
    ("post", "/v1/sessions/{session_id}/messages", &[("", "{\"role\": \"user\", \"content\": \"hi\"}"), ("", "{}")]),
    ("get", "/v1/sessions/{session_id}/messages", &[("", ""), ("?after=1&limit=5", "")]),
    ("put", "/v1/sessions/{session_id}/agent_state", &[("", "{\"step\": 1}")]),
    ("get", "/v1/sessions/{session_id}/agent_state", &[("", ""), ("?version=1", "")]),
    ("get", "/v1/sessions/{session_id}/checkpoints", &[("", ""), ("?after=1&limit=5", ""), ("?limit=0", "")]),
    ("post", "/v1/sessions/{session_id}/checkpoints", &[("", ""), ("", "{}"), ("", "{\"x\": 1}")]),
    ("get", "/v1/sessions/{session_id}/checkpoints/usage", &[("", "")]),
    ("post", "/v1/sessions/{session_id}/checkpoints/thin", &[("", "")]),
    ("get", "/v1/sessions/{session_id}/checkpoints/{checkpoint}", &[("", "")]),
    (
        "get",
        "/v1/sessions/{session_id}/checkpoints/{checkpoint}/diff",
        &[("", ""), ("?against=now", ""), ("?against=1&path=/etc", "")],
    ),
    (
        "get",
        "/v1/sessions/{session_id}/checkpoints/{checkpoint}/file",
        &[("?path=a", ""), ("", ""), ("?path=/etc", "")],
    ),
    ("get", "/v1/sessions/{session_id}/diff", &[("", ""), ("?from=1&to=latest", ""), ("?from=now", "")]),
    ("get", "/v1/sessions/{session_id}/files/history", &[("?path=a", ""), ("", ""), ("?path=/etc", "")]),
    ("get", "/v1/sessions/{session_id}/files", &[("", ""), ("?path=/etc", ""), ("?limit=0", "")]),
    ("get", "/v1/sessions/{session_id}/files/content", &[("?path=a", ""), ("", ""), ("?path=/etc", "")]),
    ("put", "/v1/sessions/{session_id}/files/content", &[("?path=a", "x"), ("", "x"), ("?path=/etc/x", "x")]),
    ("get", "/v1/sessions/{session_id}/kv", &[("", ""), ("?prefix=a", ""), ("?limit=0", "")]),
    ("post", "/v1/sessions/{session_id}/kv", &[("", "{\"ops\": [{\"op\": \"delete\", \"key\": \"a\"}]}"), ("", "{}")]),
    ("get", "/v1/sessions/{session_id}/kv/{key}", &[("", "")]),
    ("put", "/v1/sessions/{session_id}/kv/{key}", &[("", "x")]),
    ("delete", "/v1/sessions/{session_id}/kv/{key}", &[("", "")]),
    ("delete", "/v1/sessions/{session_id}/files/content", &[("?path=a", ""), ("", ""), ("?path=/etc/x", "")]),
    (
        "post",
        "/v1/sessions/{session_id}/rewind",
        &[
            ("", "{\"to\": 1}"),
            ("", "{\"to\": \"latest\", \"dry_run\": true}"),
            ("", "{\"to\": 999999}"),
            ("", "{\"to\": \"a b\"}"),
        ],
    ),
    (
        "post",
        "/v1/sessions/{session_id}/fork",
        &[("", ""), ("", "{\"at\": 1, \"session_id\": \"stolen\"}"), ("", "{\"at\": \"latest\"}")],
    ),
    ("post", "/v1/sessions/{session_id}/merge_back", &[("", ""), ("", "{\"dry_run\": true}"), ("", "{\"prefer\": 1}")]),
];

/// Routes about no session, and what an agent gets there.
const OTHER_ROUTES: &[(&str, &str, &str, u16)] = &[
    ("get", "/", "", 200),
    ("get", "/healthz", "", 200),
    ("get", "/readyz", "", 200),
    ("get", "/openapi.json", "", 200),
    ("get", "/metrics", "", 403),
    ("get", "/assets/{name}", "", 404),
    ("get", "/v1/live", "", 426),
    ("post", "/v1/console/code", "", 403),
    ("post", "/v1/console/login", "{\"code\": \"x\"}", 401),
    ("post", "/v1/console/logout", "", 403),
    ("get", "/v1/audit", "", 403),
    ("get", "/v1/tokens", "", 403),
    ("post", "/v1/tokens", "{\"agent\": \"bob\"}", 403),
    ("delete", "/v1/tokens/{token_id}", "", 403),
    ("get", "/v1/services", "", 200),
    ("get", "/v1/services?agent=ann", "", 200),
    ("get", "/v1/runs", "", 200),
    ("get", "/v1/runs?status=running", "", 200),
    ("get", "/v1/quotas", "", 200),
    ("put", "/v1/quotas", "{\"services_per_agent\": 1000}", 403),
    ("get", "/v1/node", "", 403),
    ("get", "/v1/nodes", "", 403),
    ("get", "/v1/nodes/{node}", "", 403),
    ("post", "/v1/nodes/{node}/drain", "", 403),
    ("get", "/v1/daemon", "", 403),
    ("get", "/v1/daemon/settings", "", 403),
    ("post", "/v1/daemon/reload", "", 403),
    ("post", "/v1/daemon/stop", "", 403),
    ("post", "/v1/hold", "", 403),
    ("post", "/v1/agents/{agent}/end", "", 403),
    ("get", "/v1/sessions", "", 200),
    ("post", "/v1/sessions", "{\"session_id\": \"mine\"}", 201),
];

/// The routes that are served, as the daemon itself tells them: a new one cannot be forgotten here.
fn served(daemon: &Daemon) -> Vec<(String, String)> {
    let document = daemon.get("/openapi.json").json();
    let paths = document["paths"].as_object().unwrap();
    let methods = |item: &Value| item.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    paths.iter().flat_map(|(path, item)| methods(item).into_iter().map(move |method| (method, path.clone()))).collect()
}

#[test]
fn every_route_is_in_a_table() {
    let daemon = daemon();
    for (method, path) in served(&daemon) {
        // MCP has tools in place of routes, and its own table.
        let known = ROUTES.iter().any(|(m, p, _)| (*m, *p) == (&method, &path))
            || OTHER_ROUTES.iter().any(|(m, p, ..)| (*m, *p) == (&method, &path))
            || path == "/mcp";
        assert!(known, "{method} {path}: say in ROUTES or OTHER_ROUTES how an agent's token fares there");
    }
}

/// The same call to another's session and to one that never was: the answers must not differ in a byte. Both ids have
/// the same length, so that not even the length of the answer may differ.
#[test]
fn another_agents_session_is_like_none() {
    let daemon = daemon();
    let (ann, bob) = (Agent::named(&daemon, "ann"), Agent::named(&daemon, "bob"));
    let theirs = ann.create("secret");
    assert_eq!(theirs, "thread_ann_secret");
    let run = ann.post(
        &format!("/v1/sessions/{theirs}/run"),
        &json!({"command": "read line; echo got $line", "blocking": false, "request_id": "known"}),
    );
    let run_id = run.json()["run_id"].as_str().unwrap().to_owned();
    let service = ann.post(&format!("/v1/sessions/{theirs}/services"), &json!({"command": "sleep 600"}));
    assert_eq!(service.status, 201, "{}", service.text());
    let service_id = service.json()["service_id"].as_str().unwrap().to_owned();
    daemon.create_with(json!({"session_id": "by-the-host-ann", "agent": "ann"}));
    daemon.create_with(json!({"session_id": "by-the-host-all"}));
    let pairs = [
        (theirs.as_str(), "thread_ann_nobody"),
        ("by-the-host-ann", "by-nobody-at-al"),
        ("by-the-host-all", "by-nobody-at-al"),
    ];
    let mut compared = 0;
    for (method, path, calls) in ROUTES {
        for (query, body) in *calls {
            for accept in ["application/json", "text/event-stream"] {
                for (existing, missing) in pairs {
                    let ask = |session: &str| {
                        let target = path.replace("{session_id}", session).replace("{run_id}", &run_id);
                        let target = target.replace("{service_id}", &service_id);
                        let target = target.replace("{checkpoint}", "latest").replace("{key}", "a") + query;
                        let request = Request::new(&method.to_uppercase(), &target).header("accept", accept);
                        let mut answer = bob.send(request.json(*body));
                        answer.headers.retain(|(name, _)| name != "date");
                        let text = answer.text().replace(session, "SESSION");
                        (answer.status, answer.headers, text)
                    };
                    let (found, expected) = (ask(existing), ask(missing));
                    assert_eq!(found, expected, "{method} {path}{query} {body}");
                    assert!((400..500).contains(&found.0), "{method} {path}{query}: {found:?}");
                    compared += 1;
                }
            }
        }
    }
    assert!(compared >= 100, "only {compared} answers were compared");
    // Nothing of it reached the session.
    assert_eq!(ann.get(&format!("/v1/sessions/{theirs}/runs/{run_id}")).json()["status"], "running");
    ann.post(&format!("/v1/sessions/{theirs}/runs/{run_id}/input"), &json!({"text": "a line\n"}));
    let ended = ann.get(&format!("/v1/sessions/{theirs}/runs/{run_id}?wait=20")).json();
    assert_eq!(ended["stdout"], "got a line\n");
    let service = ann.get(&format!("/v1/sessions/{theirs}/services/{service_id}")).json();
    assert_eq!((&service["status"], &service["pid"].is_u64()), (&json!("running"), &true), "{service}");
}

#[test]
fn services_and_quotas_show_an_agent_its_own() {
    let daemon = daemon();
    let (ann, bob) = (Agent::named(&daemon, "ann"), Agent::named(&daemon, "bob"));
    let start = |agent: &Agent| {
        agent.create("s");
        let answer = agent.post("/v1/sessions/s/services", &json!({"command": "sleep 600"}));
        assert_eq!(answer.status, 201, "{}", answer.text());
    };
    let listed = |answer: Response| -> Vec<String> {
        let list = answer.json()["services"].as_array().unwrap().clone();
        list.iter().map(|service| service["agent"].as_str().unwrap().to_owned()).collect()
    };
    let used = |agent: &Agent| agent.get("/v1/quotas").json()["quotas"]["services_per_agent"]["used"].clone();
    start(&ann);
    assert!(listed(bob.get("/v1/services")).is_empty() && listed(bob.get("/v1/services?agent=ann")).is_empty());
    assert_eq!(used(&bob), 0);
    start(&bob);
    assert_eq!(listed(bob.get("/v1/services")), ["bob"]);
    assert_eq!((used(&ann), used(&bob)), (json!(1), json!(1)));
    let quotas = bob.get("/v1/quotas").json();
    assert_eq!((&quotas["changes"], &quotas["quotas"]["services_per_agent"]["limit"]), (&json!([]), &json!(5)));
    assert_eq!(listed(daemon.get("/v1/services?agent=ann")), ["ann"]);
    assert_eq!(listed(daemon.get("/v1/services")).len(), 2);
}

#[test]
fn an_agent_lists_its_own_runs() {
    let daemon = daemon();
    let (ann, bob) = (Agent::named(&daemon, "ann"), Agent::named(&daemon, "bob"));
    let run = |agent: &Agent, body: Value| assert_eq!(agent.post("/v1/sessions/s/run", &body).status, 200);
    ann.create("s");
    bob.create("s");
    let commands = |answer: Response| -> Vec<Value> {
        let list = answer.json()["runs"].as_array().unwrap().clone();
        list.iter().map(|run| run["command"].clone()).collect()
    };
    run(&ann, json!({"command": "false # ann"}));
    run(&ann, json!({"command": "sleep 600 # ann", "blocking": false}));
    assert_eq!(bob.get("/v1/runs").json(), json!({"runs": [], "next": null}));
    run(&bob, json!({"command": "true # bob"}));
    assert_eq!(commands(bob.get("/v1/runs")), ["true # bob"]);
    assert_eq!(
        commands(bob.get("/v1/runs?status=running")).len() + commands(bob.get("/v1/runs?status=failed")).len(),
        0
    );
    assert_eq!(commands(ann.get("/v1/runs")), ["sleep 600 # ann", "false # ann"]);
    assert_eq!(commands(ann.get("/v1/runs?status=running")), ["sleep 600 # ann"]);
    assert_eq!(commands(daemon.get("/v1/runs")).len(), 3);
}

#[test]
fn routes_about_no_session_tell_an_agent_nothing_of_others() {
    let daemon = daemon();
    let (ann, bob) = (Agent::named(&daemon, "ann"), Agent::named(&daemon, "bob"));
    for (method, path, body, status) in OTHER_ROUTES {
        let target = path.replace("{token_id}", &ann.id).replace("{agent}", "ann").replace("{node}", "n1");
        let answer = bob.send(Request::new(&method.to_uppercase(), &target).json(*body));
        assert_eq!(answer.status, *status, "{method} {path}: {}", answer.text());
        if *status == 403 {
            assert_eq!(answer.refused().1, "not_allowed", "{method} {path}");
        }
        // What is wrong with a request is for those who may make it. A console that ends has nothing to refuse.
        if *status == 403 && *method != "get" && *path != "/v1/console/logout" {
            for wrong in ["{", "[]", "{\"unknown\": 1}"] {
                let answer = bob.send(Request::new(&method.to_uppercase(), &target).json(wrong));
                assert_eq!(answer.refused(), is(403, "not_allowed"), "{method} {path} {wrong}: {}", answer.text());
            }
        }
    }
    let scrub = bob.send(Request::new("POST", "/v1/sessions/thread_ann_x/scrub").json("{"));
    assert_eq!(scrub.refused(), is(403, "not_allowed"), "{}", scrub.text());
    let before = (sessions(&bob, ""), bob.get("/readyz").json());
    let theirs = ann.create("secret");
    ann.sh(&theirs, "true");
    daemon.create_with(json!({"session_id": "hidden", "agent": "ann"}));
    assert_eq!((sessions(&bob, ""), bob.get("/readyz").json()), before);
    assert_eq!(ann.get("/readyz").json()["live_shells"], 1);
    assert_eq!(sessions(&bob, ""), ["thread_bob_mine"]);
    assert_eq!(sessions(&bob, "?agent=bob"), ["thread_bob_mine"]);
    assert!(sessions(&bob, "?agent=ann").is_empty() && sessions(&bob, "?agent=nobody").is_empty());
    assert_eq!(sessions(&ann, ""), ["hidden", "thread_ann_secret"]);
    // To create by another's name is to create one's own.
    for session in ["secret", &theirs, "hidden", "never-was"] {
        assert_eq!(bob.create(session), format!("thread_bob_{session}"));
    }
    let forced = bob.post("/v1/sessions", &json!({"session_id": "forced", "agent": "ann"})).json();
    assert_eq!((&forced["agent"], &forced["session_id"]), (&json!("bob"), &json!("thread_bob_forced")));
    let unnamed = bob.post("/v1/sessions", &json!({})).json();
    assert_eq!(unnamed["agent"], "bob");
}

#[test]
fn the_host_sees_and_touches_all() {
    let daemon = daemon();
    let ann = Agent::named(&daemon, "ann");
    let theirs = ann.create("work");
    ann.sh(&theirs, "export X=1");
    assert_eq!(daemon.sh(&theirs, "echo $X").out(), "1\n");
    let host = fs::read_to_string(daemon.data().join("token")).unwrap();
    let list = Request::new("GET", "/v1/sessions").header("authorization", &format!("Bearer {}", host.trim()));
    for door in [daemon.door(), daemon.tcp_door()] {
        let answer = list.send(&door).unwrap();
        assert_eq!(answer.json()["sessions"][0]["session_id"], json!(theirs), "{door:?}");
    }
    // The host may give an agent a session under any name; the agent then finds it by that.
    daemon.create_with(json!({"session_id": "given", "agent": "ann"}));
    assert_eq!(ann.sh("given", "echo mine")["stdout"], "mine\n");
    assert_eq!(ann.post("/v1/sessions", &json!({"session_id": "given"})).status, 200);
    // But a name in an agent's own room that the host has kept for itself is refused, and not given away.
    daemon.create_with(json!({"user_id": "ann", "session_id": "kept"}));
    let answer = ann.post("/v1/sessions", &json!({"session_id": "kept"}));
    assert_eq!(answer.refused(), is(403, "not_allowed"));
    assert_eq!(ann.get("/v1/sessions/kept").refused(), is(404, "session_not_found"));
}

#[test]
fn the_same_name_finds_the_same_session_after_a_crash() {
    let mut daemon = daemon();
    let (id, secret) = {
        let ann = Agent::named(&daemon, "ann");
        let full = ann.create("project");
        assert_eq!(full, "thread_ann_project");
        // Either name will do, and with `user_id` it is the same.
        let run = ann.sh("project", "export STAGE=7");
        assert_eq!(run["by"], json!(ann.id));
        let again = ann.post("/v1/sessions", &json!({"session_id": "project", "user_id": "ann"}));
        assert_eq!((again.status, &again.json()["session_id"]), (200, &json!(full)));
        let too_long = ann.post("/v1/sessions", &json!({"session_id": "x".repeat(120)}));
        assert_eq!(too_long.refused(), is(400, "invalid_request"));
        (ann.id, ann.token)
    };
    daemon.restart();
    let ann = Agent { daemon: &daemon, id, token: secret };
    let again = ann.post("/v1/sessions", &json!({"session_id": "project"}));
    assert_eq!((again.status, &again.json()["session_id"]), (200, &json!("thread_ann_project")));
    assert_eq!(ann.sh("project", "echo $STAGE")["stdout"], "7\n");
    let first = ann.get("/v1/sessions/project/runs/r3").json();
    assert_eq!((&first["by"], &first["status"]), (&json!(ann.id), &json!("exited")));
    assert_eq!(daemon.sh("thread_ann_project", "true").json["by"], Value::Null);
}

#[test]
fn an_agent_restarts_only_if_it_may() {
    let daemon = daemon();
    let (may_not, may) =
        (Agent::named(&daemon, "ann"), Agent::new(&daemon, json!({"agent": "bob", "may_restart": true})));
    for (agent, expected) in [(&may_not, "1\n"), (&may, "\n")] {
        agent.create("s");
        agent.sh("s", "X=1");
        let answer = agent.post("/v1/sessions/s/restart", &json!({}));
        if expected == "1\n" {
            assert_eq!(answer.refused(), is(403, "not_allowed"));
            assert!(answer.text().contains("ask the host"), "{}", answer.text());
        } else {
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        assert_eq!(agent.sh("s", "echo $X")["stdout"], expected);
    }
    assert_eq!(daemon.post("/v1/sessions/thread_ann_s/restart", &json!({})).status, 200);
    assert_eq!(may_not.sh("s", "echo $X")["stdout"], "\n");
}

#[test]
fn the_daemons_setting_is_for_tokens_that_do_not_say() {
    let daemon = Daemon::with(Settings::default().tcp().env("SHELLKEEP_AGENT_MAY_RESTART", "true"));
    let made = |body: Value| daemon.post("/v1/tokens", &body).json()["may_restart"].clone();
    assert_eq!(made(json!({"agent": "ann"})), json!(true));
    assert_eq!(made(json!({"agent": "ann", "may_restart": false})), json!(false));
}

#[test]
fn a_token_is_kept_as_a_hash_and_named_in_the_audit_trail() {
    let daemon = daemon();
    let ann = Agent::new(&daemon, json!({"agent": "ann", "name": "laptop"}));
    ann.create("s");
    ann.sh("s", "true");
    let file = daemon.data().join("tokens.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let secret = ann.token.strip_prefix("sk_").unwrap();
    let listed = daemon.get("/v1/tokens");
    for text in [fs::read_to_string(&file).unwrap(), daemon.log(), listed.text()] {
        assert!(!text.contains(secret), "{text}");
    }
    let listed = &listed.json()["tokens"][0];
    assert_eq!((&listed["id"], &listed["agent"], &listed["name"]), (&json!(ann.id), &json!("ann"), &json!("laptop")));
    let log = daemon.log();
    for operation in ["create", "run"] {
        let told = |line: &&str| {
            let parts = ["audit", &ann.id, &format!("operation=\"{operation}\""), "thread_ann_s"];
            parts.iter().all(|part| line.contains(part))
        };
        assert_eq!(log.lines().filter(told).count(), 1, "{operation}:\n{log}");
    }
}

#[test]
fn wrong_tokens_are_refused_at_both_doors() {
    let daemon = daemon();
    let ann = Agent::named(&daemon, "ann");
    ann.create("s");
    let ask = |door: &Door, value: &str| {
        Request::new("GET", "/v1/sessions/s").header("authorization", value).send(door).unwrap()
    };
    let mut other = ann.token.clone().into_bytes();
    *other.last_mut().unwrap() ^= 1;
    let other = String::from_utf8(other).unwrap();
    for door in [daemon.door(), daemon.tcp_door()] {
        assert_eq!(ask(&door, &format!("Bearer {}", ann.token)).status, 200, "{door:?}");
        for wrong in ["", "Bearer", "Bearer sk_", &format!("Bearer {other}"), &format!("Basic {}", ann.token), &ann.id]
        {
            let answer = ask(&door, wrong);
            assert_eq!(answer.refused(), is(401, "unauthorized"), "{door:?} {wrong}");
            assert!(answer.header("www-authenticate").is_some());
        }
    }
    // On the socket nobody is the host; with an agent's token even there one is the agent.
    assert_eq!(ask(&daemon.door(), &format!("Bearer {}", Agent::named(&daemon, "bob").token)).refused().0, 404);
}

/// Sends a request on a connection that stays open, and reads the answer's status.
fn ask_again(stream: &mut BufReader<TcpStream>, secret: &str) -> u16 {
    let request = format!("GET /v1/sessions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {secret}\r\n\r\n");
    stream.get_mut().write_all(request.as_bytes()).unwrap();
    let mut head = Vec::new();
    while head.last().is_none_or(|line: &String| !line.trim().is_empty()) {
        let mut line = String::new();
        assert_ne!(stream.read_line(&mut line).unwrap(), 0, "the connection was closed");
        head.push(line.to_ascii_lowercase());
    }
    let length = head.iter().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok()).unwrap();
    stream.read_exact(&mut vec![0; length]).unwrap();
    head[0].split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_revoked_token_is_refused_at_once() {
    let daemon = daemon();
    let (ann, bob) = (Agent::named(&daemon, "ann"), Agent::named(&daemon, "bob"));
    let Door::Tcp(address) = daemon.tcp_door() else { panic!("TCP") };
    let mut kept = BufReader::new(TcpStream::connect(address).unwrap());
    assert_eq!(ask_again(&mut kept, &ann.token), 200);
    ann.create("s");
    ann.create("quiet");
    // One stream in the middle, and one answer that is waited for.
    let command = json!({"command": "echo begun; read line; echo more", "blocking": false});
    let stream = Request::new("POST", "/v1/sessions/s/run").header("accept", "text/event-stream");
    let mut stream = ann.signed(stream.json(command.to_string())).open(&daemon.tcp_door()).unwrap();
    assert_eq!(stream.next_event().unwrap().event, "started");
    assert_eq!(stream.next_event().unwrap().event, "stdout");
    let quiet = ann.post("/v1/sessions/quiet/run", &json!({"command": "read line", "blocking": false})).json();
    let target = format!("/v1/sessions/quiet/runs/{}?wait=60", quiet["run_id"].as_str().unwrap());
    let (request, door) = (ann.signed(Request::new("GET", &target)), daemon.tcp_door());
    let waiting = std::thread::spawn(move || request.send(&door).unwrap());
    revoke(&ann);
    assert_eq!(ann.get("/v1/sessions").refused(), is(401, "unauthorized"));
    assert_eq!(ask_again(&mut kept, &ann.token), 401);
    assert_eq!(waiting.join().unwrap().refused(), is(401, "unauthorized"));
    // What the token started goes on, and the token that asked sees nothing more of it.
    let input = daemon.post("/v1/sessions/thread_ann_s/runs/r3/input", &json!({"text": "x\n"}));
    assert_eq!(input.status, 200, "{}", input.text());
    assert_eq!(daemon.wait_run("thread_ann_s", "r3", 20).out(), "begun\nmore\n");
    let mut rest = Vec::new();
    let ended = stream.body.read_to_end(&mut rest);
    assert!(ended.is_err(), "a stream that was cut off must not look whole");
    assert!(!String::from_utf8_lossy(&rest).contains("more"));
    // The other's token is as good as before, the revocation is on record, and once more is no error.
    assert_eq!(bob.get("/v1/sessions").status, 200);
    revoke(&ann);
    let listed = daemon.get("/v1/tokens").json();
    let revoked = |agent: &str| {
        listed["tokens"].as_array().unwrap().iter().find(|token| token["agent"] == agent).unwrap()["revoked_at"].clone()
    };
    assert!(revoked("ann").is_string() && revoked("bob").is_null(), "{listed}");
    let unknown = daemon.send(&Request::new("DELETE", "/v1/tokens/tok_none"));
    assert_eq!(unknown.refused(), is(404, "token_not_found"));
}

#[test]
fn a_revocation_outlives_the_daemon() {
    let mut daemon = daemon();
    let (secret, id) = {
        let ann = Agent::named(&daemon, "ann");
        revoke(&ann);
        (ann.token, ann.id)
    };
    daemon.restart();
    let ann = Agent { daemon: &daemon, id, token: secret };
    assert_eq!(ann.get("/v1/sessions").refused(), is(401, "unauthorized"));
}

fn shellkeep(daemon: &Daemon, token: Option<&str>, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    let Door::Socket(socket) = daemon.door() else { panic!("a socket") };
    command.env_clear().envs(bash::environment()).env("SHELLKEEP_DATA", daemon.data()).stdin(Stdio::null());
    command.envs(token.map(|token| ("SHELLKEEP_TOKEN", token)));
    command.args(&args[..1]).arg("--socket").arg(socket).arg("--no-start").args(&args[1..]).output().unwrap()
}

#[test]
fn the_command_line_makes_lists_and_revokes() {
    let daemon = Daemon::start();
    let text = |output: &Output| String::from_utf8(output.stdout.clone()).unwrap();
    let made = shellkeep(&daemon, None, &["tokens", "new", "--agent", "ann", "--name", "laptop", "--may-restart"]);
    assert!(made.status.success(), "{made:?}");
    let secret = text(&made).trim().to_owned();
    assert!(secret.starts_with("sk_") && secret.lines().count() == 1);
    let listed = text(&shellkeep(&daemon, None, &["tokens", "ls"]));
    let row: Vec<&str> = listed.trim_end().split('\t').collect();
    assert_eq!((row[1], row[2], row[3], row[5]), ("ann", "laptop", "own sessions, restart", "-"), "{listed}");
    // The agent's own command line, over the socket, is the agent and not the host.
    let run = shellkeep(&daemon, Some(&secret), &["run", "-s", "demo", "--", "echo mine"]);
    assert_eq!(text(&run), "mine\n", "{run:?}");
    assert!(text(&shellkeep(&daemon, None, &["sessions", "ls"])).starts_with("thread_ann_demo\tann\t"));
    let refused = shellkeep(&daemon, Some(&secret), &["tokens", "ls"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("not_allowed"), "{refused:?}");
    let json: Value =
        serde_json::from_slice(&shellkeep(&daemon, None, &["tokens", "new", "--agent", "ann", "--json"]).stdout)
            .unwrap();
    assert_eq!((&json["agent"], &json["may_restart"]), (&json!("ann"), &json!(false)));
    assert!(shellkeep(&daemon, None, &["tokens", "revoke", row[0]]).status.success());
    let late = shellkeep(&daemon, Some(&secret), &["run", "-s", "demo", "--", "true"]);
    assert_eq!(late.status.code(), Some(255), "{late:?}");
    assert_eq!(shellkeep(&daemon, None, &["tokens", "revoke", "tok_none"]).status.code(), Some(1));
}

/// What of all documented routes an auditor may read only as the host.
const HOST_ONLY: [&str; 1] = ["/v1/daemon/settings"];
/// What a token for metrics may read.
const FIGURES: [&str; 3] = ["/metrics", "/healthz", "/readyz"];
/// Routes that need no token: the console's files, and those whose callers prove in the request who they are.
const OPEN: [&str; 4] = ["/", "/assets/{name}", "/v1/console/login", "/v1/live"];
/// How a person at the console signs out; the engine rejects other tokens.
const LOGOUT: &str = "/v1/console/logout";

/// Every documented route with each role that only reads: a new route cannot be forgotten, and none changes anything.
#[test]
fn readers_read_and_change_nothing_on_every_route() {
    let daemon = daemon();
    daemon.create("s");
    let run = daemon.sh("s", "echo kept > file").run_id().to_owned();
    let service = daemon.post("/v1/sessions/s/services", &json!({"command": "exec sleep 600"})).json();
    let service = service["service_id"].as_str().unwrap().to_owned();
    let auditor = Agent::new(&daemon, json!({"role": "auditor"}));
    let metrics = Agent::new(&daemon, json!({"role": "metrics", "name": "prometheus"}));
    let before = daemon.get("/v1/sessions/s").json();
    let document = daemon.get("/openapi.json").json();
    let mut tried = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        if OPEN.contains(&path.as_str()) {
            continue;
        }
        let target = path
            .replace("{session_id}", "s")
            .replace("{run_id}", &run)
            .replace("{service_id}", &service)
            .replace("{checkpoint}", "latest")
            .replace("{token_id}", &auditor.id)
            .replace(['{', '}'], "");
        for method in methods.as_object().unwrap().keys().map(|method| method.to_uppercase()) {
            let asked = |reader: &Agent<'_>| {
                let request = Request::new(&method, &target);
                reader.send(if method == "GET" { request } else { request.json("{}") })
            };
            let (audited, measured) = (asked(&auditor), asked(&metrics));
            let is_figure = method == "GET" && FIGURES.contains(&path.as_str());
            assert_eq!(measured.status == 403, !is_figure, "metrics: {method} {path}: {}", measured.text());
            let reads = method == "GET" && !HOST_ONLY.contains(&path.as_str()) && path != LOGOUT;
            let verifies = path.ends_with("/verify");
            assert_eq!(audited.status == 403, !(reads || verifies), "auditor: {method} {path}: {}", audited.text());
            assert_ne!(audited.status, 401, "{method} {path}");
            if audited.status == 403 {
                assert_eq!(audited.json()["code"], "not_allowed", "{method} {path}");
            }
            tried += 1;
        }
    }
    assert!(tried > 50, "{tried} routes");
    assert_eq!(daemon.get("/v1/sessions/s").json()["seq"], before["seq"]);
    assert_eq!(auditor.get("/v1/sessions/s").json()["session_id"], "s");
    assert_eq!(auditor.get("/v1/sessions").json()["sessions"].as_array().unwrap().len(), 1);
    assert!(metrics.get("/metrics").text().contains("shellkeep_sessions 1"));
    assert_eq!(auditor.post("/mcp", &json!({})).refused(), is(403, "not_allowed"));
    for wrong in
        [json!({}), json!({"role": "auditor", "agent": "ann"}), json!({"role": "metrics", "may_restart": true})]
    {
        assert_eq!(daemon.post("/v1/tokens", &wrong).refused(), is(400, "invalid_request"), "{wrong}");
    }
}
