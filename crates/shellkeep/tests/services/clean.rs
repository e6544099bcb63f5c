//! Cleaning up: what is idle, and what belongs to an agent or session that is done.

use crate::support::procs::{self, unique_sleep};
use crate::support::services::{id, pid};
use crate::support::{Daemon, Request, Settings, groups};
use serde_json::json;
use shellkeep_poll::until;
use std::net::TcpStream;

const CONNECTED: &str = "exec python3 -uc 'import socket
s = socket.create_server((\"127.0.0.1\", 0))
print(\"up\")
c = []
while True:
    c.append(s.accept()[0])'";

#[test]
fn only_a_service_in_which_nothing_happens_is_stopped() {
    for mode in ["auto", "marks"] {
        let daemon = Daemon::with(Settings::default().set("--idle-services", "3s").set("--cages", mode));
        daemon.create("s");
        let quiet = unique_sleep();
        let idle = daemon.start_service("s", json!({"command": format!("exec sleep {quiet}"), "name": "quiet"}));
        let writes = daemon.start_service("s", json!({"command": "while :; do echo tick; sleep 0.3; done"}));
        let computes = daemon.start_service("s", json!({"command": "while :; do :; done"}));
        let connected = daemon.start_service("s", json!({"command": CONNECTED, "ready": {"log": "up"}, "wait": 30}));
        let port = u16::try_from(connected["ports"][0].as_u64().expect("a port")).unwrap();
        let connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let ended = daemon.service_until("s", id(&idle), "stopped");
        assert!(ended["detail"].as_str().unwrap().contains("without output, connections or work"), "{ended}");
        assert!(procs::marked(&quiet).is_empty());
        // A second one proves that the others have had the same time and more.
        let second = daemon.start_service("s", json!({"command": format!("exec sleep {quiet}")}));
        daemon.service_until("s", id(&second), "stopped");
        for service in [&writes, &computes, &connected] {
            let view = daemon.service("s", id(service));
            assert_eq!((&view["status"], pid(&view)), (&json!("running"), pid(service)), "{mode}: {view}");
        }
        drop(connection);
        let told = daemon.sh("s", "true");
        assert_eq!(told.notice_codes(), ["service_ended", "service_ended"], "{mode}: {:?}", told.json);
        assert!(told.notice_text().contains(&format!("Service {} (quiet)", id(&idle))), "{}", told.notice_text());
        assert!(daemon.sh("s", "true").notice_codes().is_empty(), "said once");
    }
}

#[test]
fn an_agents_end_ends_what_is_its_own_and_nothing_else() {
    let daemon = Daemon::start();
    let (mine, yours) = (unique_sleep(), unique_sleep());
    for (session, agent, mark) in [("a1", "a", &mine), ("a2", "a", &mine), ("b1", "b", &yours)] {
        daemon.create_with(json!({"session_id": session, "agent": agent}));
        daemon.sh(session, &format!("x={session}; sleep {mark} &"));
        daemon.start_service(
            session,
            json!({"command": format!("setsid sleep {mark} & sleep {mark}"), "restart": "always"}),
        );
    }
    until("all run", || (procs::marked(&mine).len() == 6).then_some(()));
    let busy = daemon.run("a1", json!({"command": format!("sleep {mine}"), "blocking": false, "timeout": 1000}));
    let ended = daemon.post("/v1/agents/a/end", &json!({}));
    assert_eq!(ended.status, 200, "{}", ended.text());
    assert_eq!(ended.json(), json!({"agent": "a", "sessions": 2, "services": 2}));
    // They are killed before the answer, and take a moment to be gone.
    until("nothing of the agent's is left", || procs::marked(&mine).is_empty().then_some(()));
    until("all of the other's", || (procs::marked(&yours).len() == 3).then_some(()));
    let run = daemon.wait_run("a1", busy.run_id(), 5);
    assert_ne!(run.status(), "running", "{:?}", run.json);
    let service = &daemon.services_of("a2")[0];
    assert_eq!(service["status"], "stopped");
    assert!(service["detail"].as_str().unwrap().contains("with its agent"), "{service}");
    // The sessions themselves are there until they are reclaimed.
    assert_eq!(daemon.sh("a2", "echo $x").out(), "a2\n");
    let nobody = daemon.post("/v1/agents/nobody/end", &json!({}));
    assert_eq!((nobody.status, nobody.json()["sessions"].as_u64()), (200, Some(0)), "{}", nobody.text());
}

#[test]
fn a_sessions_end_and_its_removal_end_its_services() {
    for mode in ["auto", "marks"] {
        let daemon = Daemon::with(Settings::default().set("--cages", mode));
        for way in ["end", "delete"] {
            daemon.create(way);
            let mark = unique_sleep();
            let service = daemon
                .start_service(way, json!({"command": format!("echo out; setsid sleep {mark} & exec sleep {mark}")}));
            until("both run", || (procs::marked(&mark).len() == 2).then_some(()));
            if way == "delete" {
                daemon.destroy(way);
                assert!(!daemon.data().join("services").join(way).exists(), "with its logs");
            } else {
                let ended = daemon.post(&format!("/v1/sessions/{way}/end"), &json!({}));
                assert_eq!(ended.status, 200, "{}", ended.text());
                assert_eq!(daemon.service(way, id(&service))["status"], "stopped");
                assert_eq!(daemon.service_log(way, id(&service)), "out\n", "the log stays");
            }
            assert!(procs::marked(&mark).is_empty(), "{mode} {way}: {:?}", procs::marked(&mark));
            until("no keeper is left", || groups::of_services_alive(&daemon.data()).is_empty().then_some(()));
            until("no group is left", || groups::of_services(&daemon.data()).is_empty().then_some(()));
        }
    }
}

/// A command that runs on in the background of a session.
fn in_background(daemon: &Daemon, session: &str, mark: &str) {
    let command = format!("exec sleep {mark}");
    let run = daemon.run(session, json!({"command": command, "timeout": 0.2, "on_timeout": "background"}));
    assert_eq!(run.json["status"], "running", "{:?}", run.json);
}

#[test]
fn commands_in_the_background_end_with_their_session_or_agent_and_are_not_listed() {
    let daemon = Daemon::start();
    let ways =
        [("removed", "/v1/sessions/removed"), ("done", "/v1/sessions/done/end"), ("agents", "/v1/agents/ann/end")];
    for (session, path) in ways {
        let mark = unique_sleep();
        daemon.create_with(json!({"session_id": session, "agent": "ann"}));
        in_background(&daemon, session, &mark);
        in_background(&daemon, session, &mark);
        assert_eq!((procs::marked(&mark).len(), daemon.all_services().len()), (2, 2), "{session}");
        let answer = match session {
            "removed" => daemon.send(&Request::new("DELETE", path)),
            _ => daemon.post(path, &json!({})),
        };
        assert!(answer.status < 300, "{}", answer.text());
        assert!(procs::marked(&mark).is_empty(), "{session}");
        assert!(daemon.all_services().is_empty(), "{session}: {:?}", daemon.all_services());
    }
}

#[test]
fn commands_in_the_background_count_as_services_of_the_node() {
    let daemon = Daemon::with(Settings::default().set("--services", "2"));
    let mark = unique_sleep();
    for session in ["a", "b", "c"] {
        daemon.create(session);
    }
    in_background(&daemon, "a", &mark);
    in_background(&daemon, "b", &mark);
    let used = daemon.get("/v1/quotas").json()["quotas"]["services"]["used"].clone();
    assert_eq!(used, json!(2));
    let refused = daemon.ask_service("c", &json!({"command": "sleep 9"}));
    assert_eq!((refused.status, &refused.json()["quota"]), (429, &json!("services")), "{}", refused.text());
    let run = daemon.run("c", json!({"command": "sleep 9", "timeout": 0.2, "on_timeout": "background"}));
    assert_eq!(run.json["status"], "timed_out", "{:?}", run.json);
}

#[test]
fn a_service_started_while_its_session_is_removed_ends_with_it() {
    let daemon = Daemon::start();
    let mark = unique_sleep();
    for number in 0..15 {
        let session = format!("s{number}");
        daemon.create(&session);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| daemon.ask_service(&session, &json!({"command": format!("sleep {mark}"), "wait": 0})));
            }
            assert_eq!(daemon.send(&Request::new("DELETE", &format!("/v1/sessions/{session}"))).status, 204);
        });
    }
    until("all are gone", || (procs::marked(&mark).is_empty() && daemon.all_services().is_empty()).then_some(()));
}
