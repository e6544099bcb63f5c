//! How many services and processes there may be, who is refused, in which words, and that what was stopped is gone.

use crate::support::procs::{self, unique_sleep};
use crate::support::services::{id, in_parallel, pid};
use crate::support::{Daemon, Settings, groups};
use serde_json::{Value, json};
use shellkeep_poll::until;
use std::collections::HashSet;
use std::time::Instant;

/// Requests at a time: enough to be a crowd, few enough for two processors.
const CROWD: usize = 16;
const EACH: usize = 5;

/// A session for each of some agents.
fn sessions(daemon: &Daemon, count: usize) -> Vec<String> {
    let names: Vec<String> = (0..count).map(|number| format!("agent-{number}")).collect();
    in_parallel(CROWD, &names, |name| {
        daemon.create_with(json!({"session_id": name, "agent": name}));
    });
    names
}

/// Nothing of any service is left: no process with the mark, no keeper, no group.
fn assert_nothing_left(daemon: &Daemon, mark: &str, pids: &[u32]) {
    let alive: Vec<&u32> = pids.iter().filter(|pid| procs::alive(**pid)).collect();
    assert!(alive.is_empty(), "still alive: {alive:?}");
    assert!(procs::marked(mark).is_empty(), "still there: {:?}", procs::marked(mark));
    let left = until("keepers go", || {
        let left = groups::of_services_alive(&daemon.data());
        left.is_empty().then_some(left)
    });
    assert!(left.is_empty());
    until("their groups are removed", || groups::of_services(&daemon.data()).is_empty().then_some(()));
}

fn many_at_once(settings: Settings, agents: usize) {
    let daemon = Daemon::with(settings);
    let (names, mark) = (sessions(&daemon, agents), unique_sleep());
    let (all, begun) = (agents * EACH, Instant::now());
    let wanted: Vec<&String> = names.iter().flat_map(|name| std::iter::repeat_n(name, EACH)).collect();
    let started = in_parallel(CROWD, &wanted, |name| {
        daemon.start_service(name, json!({"command": format!("exec sleep {mark}")}))
    });
    let took_start = begun.elapsed();
    assert_eq!(started.len(), all);

    let looked = Instant::now();
    let listed = daemon.all_services();
    let took_list = looked.elapsed();
    assert_eq!(listed.len(), all);
    assert!(listed.iter().all(|service| service["status"] == "running"), "not all run");
    let pids: HashSet<u32> = listed.iter().map(pid).collect();
    assert_eq!(pids.len(), all, "each has a process of its own");
    let marked: HashSet<u32> = procs::marked(&mark).iter().map(|process| process.pid).collect();
    assert_eq!(marked, pids, "what is listed is what runs");
    assert_eq!(daemon.node()["services"], all);

    refusals(&daemon, &mark, all);
    assert_eq!(procs::marked(&mark).len(), all, "nothing was started for who was refused");

    let stopping = Instant::now();
    let stopped = in_parallel(CROWD, &listed, |service| {
        daemon.stop_service(service["session_id"].as_str().unwrap(), id(service))
    });
    let took_stop = stopping.elapsed();
    assert!(stopped.iter().all(|service| service["status"] == "stopped" && service.get("pid").is_none()));
    assert!(daemon.all_services().is_empty());
    let pids: Vec<u32> = pids.into_iter().collect();
    assert_nothing_left(&daemon, &mark, &pids);
    println!("{all} services: started in {took_start:?}, listed in {took_list:?}, stopped in {took_stop:?}");
}

/// One more than the node may have, and one more than an agent may.
fn refusals(daemon: &Daemon, mark: &str, all: usize) {
    daemon.create_with(json!({"session_id": "late", "agent": "late"}));
    let body = json!({"command": format!("exec sleep {mark}")});
    let refused = daemon.ask_service("late", &body);
    assert_eq!(refused.status, 429, "{}", refused.text());
    let problem = refused.json();
    assert_eq!(problem["code"], "quota_exceeded");
    assert_eq!(
        (&problem["quota"], &problem["limit"], &problem["used"]),
        (&json!("services"), &json!(all), &json!(all))
    );
    assert_eq!(problem["services"], json!([]), "none of them is the caller's");
    let words = problem["detail"].as_str().unwrap();
    assert!(words.contains(&format!("{all} running services")) && words.contains("None of them is yours"), "{words}");

    let refused = daemon.ask_service("agent-7", &body);
    assert_eq!(refused.status, 429, "{}", refused.text());
    let problem = refused.json();
    assert_eq!(problem["code"], "quota_exceeded");
    let figures = (&problem["quota"], &problem["limit"], &problem["used"]);
    assert_eq!(figures, (&json!("services_per_agent"), &json!(5), &json!(5)));
    let own = problem["services"].as_array().unwrap();
    assert_eq!(own.len(), EACH);
    assert!(own.iter().all(|service| service["agent"] == "agent-7"));
    let words = problem["detail"].as_str().unwrap();
    let first = id(&own[0]);
    assert!(words.contains("agent 'agent-7' is at its limit of 5 running services"), "{words}");
    assert!(
        words.contains(&format!("for example {first}")) && words.contains("/services/{service_id}/stop"),
        "{words}"
    );
}

#[test]
fn five_hundred_services_at_once() {
    many_at_once(Settings::default(), 100);
}

#[test]
fn a_hundred_services_at_once_without_groups() {
    many_at_once(Settings::default().set("--cages", "marks").set("--services", "100"), 20);
}

#[test]
#[ignore = "takes long: every start looks at all processes of the machine"]
fn five_hundred_services_at_once_without_groups() {
    many_at_once(Settings::default().set("--cages", "marks"), 100);
}

/// The one that did nothing for longest stands first, whatever the order in which they were started.
#[test]
fn the_refused_are_told_which_service_is_most_idle() {
    let daemon = Daemon::with(Settings::default().set("--services-per-agent", "2").set("--idle-services", "12s"));
    daemon.create_with(json!({"session_id": "s", "agent": "a"}));
    let busy = daemon.start_service("s", json!({"command": "while :; do echo tick; sleep 0.1; done", "name": "busy"}));
    let quiet = daemon.start_service("s", json!({"command": "exec sleep 1000", "name": "quiet"}));
    until("the busy one is seen to be busy", || {
        let at = |service: &Value| daemon.service("s", id(service))["last_active_at"].as_str().unwrap().to_owned();
        (at(&busy) > at(&quiet)).then_some(())
    });
    daemon.create_with(json!({"session_id": "t", "agent": "a"}));
    let problem = daemon.ask_service("t", &json!({"command": "true"})).json();
    assert_eq!(problem["code"], "quota_exceeded", "{problem}");
    let names: Vec<&str> = problem["services"].as_array().unwrap().iter().filter_map(|s| s["name"].as_str()).collect();
    assert_eq!(names, ["quiet", "busy"], "over all sessions of the agent, the most idle first");
    assert!(problem["detail"].as_str().unwrap().contains(&format!("for example {} (quiet)", id(&quiet))));
    // What it says to do helps.
    daemon.stop_service("s", id(&quiet));
    assert_eq!(daemon.ask_service("t", &json!({"command": "exec sleep 1000"})).status, 201);
}

/// The host was told that none of them was its own, and to ask the host.
#[test]
fn the_host_is_told_of_all_services() {
    let daemon = Daemon::start();
    daemon.create("one");
    daemon.create("two");
    let other = daemon.start_service("one", json!({"command": "exec sleep 1000", "name": "tick"}));
    assert_eq!(daemon.put_quotas(&json!({"services": 1})).status, 200);
    let problem = daemon.ask_service("two", &json!({"command": "true"})).json();
    assert_eq!((&problem["code"], &problem["quota"]), (&json!("quota_exceeded"), &json!("services")));
    assert_eq!(problem["services"][0]["service_id"], other["service_id"], "{problem}");
    let words = problem["detail"].as_str().unwrap();
    assert!(
        words.contains("(tick) of session one") && words.ends_with("raise the limit with PUT /v1/quotas"),
        "{words}"
    );
}

/// A session without an agent is its own agent; others are not counted with it.
#[test]
fn sessions_without_an_agent_have_their_own_five() {
    let daemon = Daemon::start();
    for session in ["one", "two"] {
        daemon.create(session);
        for _ in 0..EACH {
            daemon.start_service(session, json!({"command": "exec sleep 1000"}));
        }
        assert_eq!(daemon.ask_service(session, &json!({"command": "true"})).status, 429);
    }
    // Counted is what runs, not what was asked for.
    let first = daemon.services_of("one")[0].clone();
    assert!(procs::alive(pid(&first)));
    let killed = std::process::Command::new("kill").args(["-9", &pid(&first).to_string()]).status().unwrap();
    assert!(killed.success());
    let ended = daemon.service_until("one", id(&first), "exited");
    assert_eq!((&ended["signal"], &ended["exit_code"]), (&json!("KILL"), &json!(137)));
    assert_eq!(daemon.ask_service("one", &json!({"command": "exec sleep 1000"})).status, 201);
}

#[test]
fn quotas_are_changed_at_run_time_and_kept() {
    let mut daemon = Daemon::start();
    daemon.create("s");
    let quota = |daemon: &Daemon, name: &str| daemon.get("/v1/quotas").json()["quotas"][name].clone();
    assert_eq!(quota(&daemon, "services_per_agent"), json!({"configured": 5, "limit": 5}));
    let put = daemon.put_quotas(&json!({"services_per_agent": 1, "service_log_bytes": 65536}));
    assert_eq!(put.status, 200, "{}", put.text());
    assert_eq!(put.json()["quotas"]["services_per_agent"], json!({"configured": 5, "set": 1, "limit": 1}));
    daemon.start_service("s", json!({"command": "exec sleep 1000"}));
    let refused = daemon.ask_service("s", &json!({"command": "exec sleep 1000"})).json();
    assert_eq!((&refused["quota"], &refused["limit"]), (&json!("services_per_agent"), &json!(1)));
    daemon.restart();
    assert_eq!(quota(&daemon, "services_per_agent")["limit"], 1, "kept over a restart");
    assert_eq!(quota(&daemon, "services")["used"], 1, "the adopted one counts");
    assert_eq!(daemon.ask_service("s", &json!({"command": "exec sleep 1000"})).status, 429);

    for (wrong, word) in [
        (json!({"services_per_agent": 100_001}), "services_per_agent"),
        (json!({"live_shells": 0}), "live_shells"),
        (json!({"service_log_bytes": 1}), "service_log_bytes"),
        (json!({"no_such_quota": 1}), "no_such_quota"),
        (json!({"services": -1}), "services"),
        (json!({"services": "many"}), "services"),
        (json!({"services_per_agent": 7, "processes": 0}), "processes"),
        (json!([1]), ""),
    ] {
        let answer = daemon.put_quotas(&wrong);
        assert_eq!((answer.status, answer.json()["code"].as_str()), (400, Some("invalid_request")), "{wrong}");
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(word), "{wrong}: {detail}");
    }
    assert_eq!(quota(&daemon, "services_per_agent")["limit"], 1, "one wrong limit changes none");
    assert_eq!(daemon.put_quotas(&json!({"services_per_agent": null})).status, 200);
    assert_eq!(quota(&daemon, "services_per_agent"), json!({"configured": 5, "limit": 5}));
    daemon.start_service("s", json!({"command": "exec sleep 1000"}));
}

/// With no room for one more process a service is refused in words, and runs again once there is room.
#[test]
fn no_service_is_started_when_the_node_is_full_of_processes() {
    let daemon = Daemon::with(Settings::default().set("--processes", "30").set("--spare-shells", "0"));
    daemon.create_with(json!({"session_id": "s", "agent": "a"}));
    let mark = unique_sleep();
    let many = format!("for i in {{1..27}}; do sleep {mark} & done; wait");
    let started = daemon.start_service("s", json!({"command": many, "name": "many"}));
    until("all of them run", || (procs::marked(&mark).len() >= 27).then_some(()));
    daemon.put_quotas(&json!({"processes": 28}));
    let refused = daemon.ask_service("s", &json!({"command": "exec sleep 1000"}));
    assert_eq!(refused.status, 429, "{}", refused.text());
    let problem = refused.json();
    assert_eq!((&problem["quota"], &problem["limit"]), (&json!("processes"), &json!(28)), "{problem}");
    assert!(problem["used"].as_u64().unwrap() >= 28);
    let words = problem["detail"].as_str().unwrap();
    assert!(
        words.contains(&format!("{} (many)", id(&started))) && words.contains("/services/{service_id}/stop"),
        "{words}"
    );
    daemon.stop_service("s", id(&started));
    assert_eq!(daemon.ask_service("s", &json!({"command": "exec sleep 1000"})).status, 201);
}
