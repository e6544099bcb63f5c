//! One message at a time, no agent, and callers who leave.

use crate::fixture::*;
use crate::support::Daemon;
use serde_json::{Value, json};
use shellkeep_poll::until;
use std::io::Write;
use std::os::unix::net::UnixStream;

/// Says that it is there, waits until it is let go by a file `go`, and answers.
const WAITS: &str = r#"read -r line; echo '{"type":"output","text":"ready "}'
    until [ -e go ]; do sleep 0.02; done
    echo '{"type":"output","text":"gone"}'; echo '{"type":"done"}'"#;

fn result_of(live: &mut crate::support::http::LiveResponse) -> Value {
    let result = std::iter::from_fn(|| live.next_event()).find(|event| event.event == "result").expect("a result");
    serde_json::from_str(&result.data).unwrap()
}

#[test]
fn a_session_without_an_agent_says_what_to_do() {
    let daemon = Daemon::start();
    daemon.create("s");
    let refused = send(&daemon, "s", &json!({"message": "hi"}));
    assert_eq!((refused.status, &refused.json()["code"]), (409, &json!("no_agent")));
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains(r#"{"agent": {"command": ["python3", "agent.py"]}}"#), "{detail}");
    create(&daemon, "t", json!({"command": "python3 agent.py"}));
    let refused = send(&daemon, "t", &json!({"message": "hi"}));
    assert!(refused.json()["detail"].as_str().unwrap().contains("not a list of strings"), "{}", refused.text());
    create(&daemon, "u", json!({"command": ["no-such-program"]}));
    let refused = send(&daemon, "u", &json!({"message": "hi"}));
    assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("agent_not_started")));
    assert!(refused.json()["detail"].as_str().unwrap().contains("no program no-such-program in PATH"));
    for session in ["s", "t", "u"] {
        assert_eq!(types(&events(&daemon, session)), ["session_created"], "nothing was recorded");
    }
    for body in
        ["{}", r#"{"message": 5}"#, r#"{"message": "x", "timeout": 0}"#, r#"{"message": "x", "request_id": "/"}"#]
    {
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(send(&daemon, "s", &body).json()["code"], "invalid_request", "{body}");
    }
}

#[test]
fn a_second_message_waits_its_turn_or_is_refused() {
    let daemon = Daemon::start();
    with_script(&daemon, "s", WAITS);
    let mut first = watch(&daemon, "s", &json!({"message": "first"}));
    until_said(&mut first, "ready");
    let refused = send(&daemon, "s", &json!({"message": "second", "if_busy": "reject"}));
    assert_eq!((refused.status, &refused.json()["code"]), (409, &json!("agent_busy")));
    let late = send(&daemon, "s", &json!({"message": "second", "timeout": 0.2}));
    assert_eq!((late.status, &late.json()["code"]), (409, &json!("agent_busy")), "waiting counts as time");
    std::thread::scope(|scope| {
        let second = scope.spawn(|| resume(&daemon, "s", "second"));
        daemon.sh("s", "touch go");
        assert_eq!(result_of(&mut first)["status"], "done");
        assert_eq!(second.join().unwrap()["status"], "done");
    });
    let events = events(&daemon, "s");
    let told: Vec<&Value> = of_type(&events, "user_input").iter().map(|data| &data["message"]).collect();
    assert_eq!(told, ["first", "second"], "the refused ones are not recorded");
    let order: Vec<&str> =
        types(&events).into_iter().filter(|name| ["user_input", "final_output"].contains(name)).collect();
    assert_eq!(order, ["user_input", "final_output", "user_input", "final_output"]);
}

#[test]
fn whoever_hangs_up_stops_the_agent() {
    let daemon = Daemon::start();
    with_script(&daemon, "s", WAITS);
    let mut live = watch(&daemon, "s", &json!({"message": "hi"}));
    until_said(&mut live, "ready");
    drop(live);
    let ended = until("the end is recorded", || {
        let events = events(&daemon, "s");
        of_type(&events, "resume_ended").first().map(|data| (*data).clone())
    });
    assert_eq!((&ended["status"], &ended["output"]), (&json!("interrupted"), &json!("ready ")));
    assert!(ended["error"].as_str().unwrap().contains("the caller disconnected"), "{ended}");
    assert!(living_agents(&daemon).is_empty());
    assert_eq!(conversation(&daemon, "s"), ["user: hi"]);
}

/// The same for a caller that waits for the whole answer, and for one that waits for its turn.
#[test]
fn whoever_hangs_up_while_waiting_is_not_waited_for() {
    let daemon = Daemon::start();
    with_script(&daemon, "s", WAITS);
    let hanging = |message: &str| {
        let body = json!({"message": message}).to_string();
        let mut stream = UnixStream::connect(daemon.directory().join("s.sock")).unwrap();
        let head = "POST /v1/sessions/s/resume HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
        write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        stream
    };
    let first = hanging("first");
    until("it works", || (conversation(&daemon, "s") == ["user: first"]).then_some(()));
    let second = hanging("second");
    drop(second);
    drop(first);
    let result = until("it was stopped", || {
        let events = events(&daemon, "s");
        of_type(&events, "resume_ended").first().map(|data| (*data).clone())
    });
    assert_eq!(result["status"], "interrupted", "{result}");
    // Behind the second one in line, if that is still there, and let go only when it is its own turn.
    std::thread::scope(|scope| {
        let third = scope.spawn(|| done(&daemon, "s", "third"));
        until("it is its turn", || conversation(&daemon, "s").contains(&"user: third".to_owned()).then_some(()));
        daemon.sh("s", "touch go");
        third.join().unwrap();
    });
    // The daemon may hear of the first one's end before it hears that the second has gone; then that is stopped too.
    let events = events(&daemon, "s");
    let (told, ended) = (of_type(&events, "user_input"), of_type(&events, "resume_ended"));
    assert_eq!((&told[0]["message"], &told[told.len() - 1]["message"]), (&json!("first"), &json!("third")));
    assert_eq!(ended.len(), told.len() - 1, "{events:?}");
    assert!(ended.iter().all(|data| data["status"] == "interrupted"), "{ended:?}");
}

#[test]
fn with_a_key_it_goes_on_and_the_result_is_there_for_who_comes_again() {
    let daemon = Daemon::start();
    with_script(&daemon, "s", WAITS);
    let body = json!({"message": "hi", "request_id": "key"});
    let mut live = watch(&daemon, "s", &body);
    until_said(&mut live, "ready");
    drop(live);
    let mut again = watch(&daemon, "s", &body);
    until_said(&mut again, "ready");
    daemon.sh("s", "touch go");
    let result = result_of(&mut again);
    assert_eq!((&result["status"], &result["output"]), (&json!("done"), &json!("ready gone")));
    assert_eq!(resume_with(&daemon, "s", body), result);
    assert_eq!(of_type(&events(&daemon, "s"), "user_input").len(), 1);
}

#[test]
fn a_session_that_goes_takes_its_agent_with_it() {
    let daemon = Daemon::start();
    for (session, way) in [("ended", "end"), ("removed", "rm")] {
        with_script(&daemon, session, WAITS);
        let mut live = watch(&daemon, session, &json!({"message": "hi"}));
        until_said(&mut live, "ready");
        match way {
            "end" => assert_eq!(daemon.post(&format!("/v1/sessions/{session}/end"), &json!({})).status, 200),
            _ => daemon.destroy(session),
        }
        let result = result_of(&mut live);
        assert_eq!(result["status"], "interrupted", "{result}");
        assert!(living_agents(&daemon).is_empty(), "{session}");
    }
}

#[test]
fn a_daemon_that_stops_takes_its_agents_with_it_and_writes_that_down() {
    let mut daemon = Daemon::start();
    with_script(&daemon, "s", WAITS);
    let mut live = watch(&daemon, "s", &json!({"message": "hi", "request_id": "key"}));
    until_said(&mut live, "ready");
    daemon.stop();
    assert!(living_agents(&daemon).is_empty());
    daemon.restart();
    let events = events(&daemon, "s");
    let ended = of_type(&events, "resume_ended");
    assert_eq!((ended.len(), &ended[0]["status"]), (1, &json!("interrupted")), "{events:?}");
    verify(&daemon, "s");
}
