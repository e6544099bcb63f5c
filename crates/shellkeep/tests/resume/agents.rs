//! An agent that behaves: what it answers, what is recorded, and that its state goes on from message to message.

use crate::fixture::*;
use crate::support::{Daemon, Request, Settings};
use serde_json::{Value, json};
use shellkeep_poll::until;

#[test]
fn a_message_is_answered_and_recorded_in_order() {
    let daemon = Daemon::start();
    with_example(&daemon, "s", "counter.py", json!({}));
    let result = done(&daemon, "s", "buy milk");
    assert_eq!(result["output"], "1 notes, the last one: buy milk\n");
    assert_eq!((&result["steps"], &result["agent_state_version"]), (&json!(4), &json!(4)));
    assert!(result.get("error").is_none(), "{result}");
    let events = events(&daemon, "s");
    // What the shell does by itself is not the agent's, nor that its files are kept.
    let is_own = |name: &&str| !name.starts_with("shell_") && *name != "checkpoint_created";
    let told: Vec<&str> = types(&events).into_iter().filter(is_own).collect();
    let step = ["state_transition", "agent_state_saved"];
    let command = ["run_started", "tool_call"];
    let mut expected = vec!["session_created", "user_input", "message_added"];
    expected.extend(step);
    for _ in ["append", "count"] {
        expected.extend(command);
        expected.extend(step);
    }
    expected.extend(step);
    expected.extend(["message_added", "final_output"]);
    assert_eq!(told, expected);
    assert_eq!(result["seq_from"], 2);
    assert_eq!(result["seq_to"], events.len() as u64);
    let input = of_type(&events, "user_input")[0];
    assert_eq!((&input["message"], &input["resume_id"]), (&json!("buy milk"), &result["resume_id"]));
    let nodes: Vec<&Value> = of_type(&events, "state_transition").iter().map(|data| &data["from_node"]).collect();
    assert_eq!(nodes, ["read", "append", "count", "report"]);
    let last = of_type(&events, "final_output")[0];
    assert_eq!((&last["output"], &last["stream"], &last["steps"]), (&result["output"], &json!(true), &json!(4)));
    assert_eq!(conversation(&daemon, "s"), ["user: buy milk", "assistant: 1 notes, the last one: buy milk\n"]);
    verify(&daemon, "s");
}

#[test]
fn its_state_goes_on_from_message_to_message() {
    let mut daemon = Daemon::start();
    with_example(&daemon, "s", "counter.py", json!({}));
    for (number, message) in ["one", "two", "three", "four"].into_iter().enumerate() {
        let result = done(&daemon, "s", message);
        assert_eq!(result["output"], format!("{} notes, the last one: {message}\n", number + 1));
        match number {
            0 => daemon.hibernate("s"),
            1 => drop(daemon.stop()),
            2 => daemon.kill(),
            _ => {}
        }
        if matches!(number, 1 | 2) {
            daemon.restart();
        }
    }
    let state = state(&daemon, "s");
    assert_eq!(state["visits"], json!({"read": 4, "append": 4, "count": 4, "report": 4}));
    // Messages of people have odd numbers here, answers have even ones.
    assert_eq!(daemon.sh("s", "cat notes.txt").out(), "1 one\n3 two\n5 three\n7 four\n");
    verify(&daemon, "s");
}

/// The same story on every store, and where processes are known by marks.
#[test]
fn it_goes_on_whatever_the_daemon_stands_on() {
    let settings = [
        Settings::default().store("file://{data}/files"),
        Settings::default().store("memory://"),
        Settings::default().set("--cages", "marks"),
    ];
    for settings in settings {
        let daemon = Daemon::with(settings.clone());
        with_example(&daemon, "s", "counter.py", json!({}));
        done(&daemon, "s", "one");
        daemon.sh("s", "export COUNTER_CRASH=append:called");
        assert_eq!(resume(&daemon, "s", "two")["status"], "failed", "{settings:?}");
        daemon.sh("s", "unset COUNTER_CRASH");
        let result = done(&daemon, "s", "three");
        assert!(
            result["output"].as_str().unwrap().ends_with("3 notes, the last one: three\n"),
            "{settings:?}: {result}"
        );
        assert_eq!(daemon.sh("s", "cat notes.txt").out(), "1 one\n3 two\n4 three\n", "{settings:?}");
        verify(&daemon, "s");
    }
}

#[test]
fn it_starts_with_what_the_session_exports_and_where_it_is() {
    let daemon = Daemon::start();
    let script = r#"read -r line
        printf '{"type":"done","output":"%s %s %s %s"}\n' "$A" "${hidden-none}" "$OWN" "$PWD""#;
    create(&daemon, "s", json!({"command": ["bash", "-c", script], "env": {"OWN": "mine"}}));
    let workspace = daemon.cwd("s");
    let first = done(&daemon, "s", "x")["output"].clone();
    assert_eq!(first, format!(" none mine {}", workspace.display()), "a session that has never run anything");
    daemon.sh("s", "export A=1; hidden=2; mkdir sub; cd sub");
    assert_eq!(done(&daemon, "s", "x")["output"], format!("1 none mine {}/sub", workspace.display()));
    create(&daemon, "t", json!({"command": ["./agent"], "cwd": "/usr/.."}));
    let refused = send(&daemon, "t", &json!({"message": "x"}));
    assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("agent_not_started")), "{}", refused.text());
}

#[test]
fn a_watcher_sees_each_event_once_and_the_answer_in_pieces() {
    let daemon = Daemon::start();
    with_example(&daemon, "s", "counter.py", json!({}));
    done(&daemon, "s", "before");
    let mut live = watch(&daemon, "s", &json!({"message": "buy milk"}));
    let (mut seen, mut said, mut result) = (Vec::new(), String::new(), Value::Null);
    while let Some(event) = live.next_event() {
        assert!(result.is_null(), "nothing comes after the result");
        let data: Value = serde_json::from_str(&event.data).unwrap();
        match event.event.as_str() {
            "event" => seen.push(data),
            "output" => said.push_str(data["text"].as_str().unwrap()),
            "result" => result = data,
            other => panic!("{other}: {data}"),
        }
    }
    assert_eq!((&result["status"], said.as_str()), (&json!("done"), "2 notes, the last one: buy milk\n"));
    let (from, to) = (result["seq_from"].as_u64().unwrap(), result["seq_to"].as_u64().unwrap());
    let numbers: Vec<u64> = seen.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (from..=to).collect::<Vec<_>>());
    let all = events(&daemon, "s");
    assert_eq!(seen, all[from as usize - 1..], "a watcher sees what is recorded");
}

#[test]
fn the_same_key_gives_the_same_result_and_runs_nothing() {
    let mut daemon = Daemon::start();
    with_example(&daemon, "s", "counter.py", json!({}));
    let body = json!({"message": "once", "request_id": "key"});
    let first = resume_with(&daemon, "s", body.clone());
    assert_eq!(first["status"], "done");
    assert_eq!(resume_with(&daemon, "s", body.clone()), first);
    let other = send(&daemon, "s", &json!({"message": "another", "request_id": "key"}));
    assert_eq!((other.status, &other.json()["code"]), (409, &json!("request_id_reused")));
    daemon.kill();
    daemon.restart();
    assert_eq!(resume_with(&daemon, "s", body), first);
    assert_eq!(daemon.sh("s", "cat notes.txt").out(), "1 once\n");
    assert_eq!(of_type(&events(&daemon, "s"), "user_input").len(), 1);
}

#[test]
fn an_agents_token_resumes_its_own_session_and_the_commands_are_its_own() {
    let command = example("counter.py");
    let examples = std::path::Path::new(&command[1]).parent().unwrap().to_str().unwrap();
    let daemon = Daemon::with(Settings::default().tcp().set("--sandbox-read", examples));
    let made = daemon.post("/v1/tokens", &json!({"agent": "ann"})).json();
    let (id, secret) = (made["id"].clone(), made["token"].as_str().unwrap().to_owned());
    let signed = |method: &str, target: &str, body: Value| {
        let request = Request::new(method, target).header("authorization", &format!("Bearer {secret}"));
        request.json(body.to_string()).send(&daemon.tcp_door()).unwrap()
    };
    let config = json!({"agent": {"command": command, "env": {"PYTHONDONTWRITEBYTECODE": "1"}}});
    let created = signed("POST", "/v1/sessions", json!({"session_id": "s", "config": config}));
    assert_eq!(created.status, 201, "{}", created.text());
    with_example(&daemon, "hosts", "counter.py", json!({}));
    let result = signed("POST", "/v1/sessions/s/resume", json!({"message": "hello"}));
    assert_eq!((result.status, &result.json()["status"]), (200, &json!("done")), "{}", result.text());
    let events = events(&daemon, "thread_ann_s");
    assert_eq!(of_type(&events, "user_input")[0]["by"], id);
    assert!(of_type(&events, "run_started").iter().all(|data| data["by"] == id), "{events:?}");
    let others = signed("POST", "/v1/sessions/hosts/resume", json!({"message": "hello"}));
    assert_eq!((others.status, &others.json()["code"]), (404, &json!("session_not_found")));
}

/// With a key an agent goes on when its caller leaves, but not when the caller has no rights any more.
#[test]
fn a_revoked_token_stops_the_agents_that_work_in_its_name() {
    let daemon = Daemon::with(Settings::default().tcp());
    let made = daemon.post("/v1/tokens", &json!({"agent": "ann"})).json();
    let bearer = format!("Bearer {}", made["token"].as_str().unwrap());
    let script = "read -r line; echo '{\"type\":\"x_ready\"}'; sleep 1000";
    create(&daemon, "hosts", json!({"command": ["bash", "-c", script]}));
    daemon.create_with(
        json!({"session_id": "anns", "agent": "ann", "config": {"agent": {"command": ["bash", "-c", script]}}}),
    );
    let mut hosts = watch(&daemon, "hosts", &json!({"message": "x", "timeout": 60}));
    let body = json!({"message": "x", "request_id": "key"}).to_string();
    let request = Request::new("POST", "/v1/sessions/anns/resume").header("authorization", &bearer);
    let anns = request.header("accept", "text/event-stream").json(body).open(&daemon.tcp_door()).unwrap();
    assert_eq!(anns.status, 200);
    until("both work", || {
        let ready = |session: &str| types(&events(&daemon, session)).contains(&"x_ready");
        (ready("hosts") && ready("anns")).then_some(())
    });
    let revoked = daemon.send(&Request::new("DELETE", &format!("/v1/tokens/{}", made["id"].as_str().unwrap())));
    assert_eq!(revoked.status, 204);
    let ended = until("it was stopped", || {
        let events = events(&daemon, "anns");
        of_type(&events, "resume_ended").first().map(|data| (*data).clone())
    });
    assert!(ended["error"].as_str().unwrap().contains("was revoked"), "{ended}");
    assert_eq!(hosts.next_event().unwrap().event, "event");
    assert_eq!(living_agents(&daemon).len(), 1, "the host's own works on");
}
