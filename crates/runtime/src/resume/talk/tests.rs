//! Every kind of line, taken and refused.

use super::*;
use shellkeep_session::Timestamp;

fn read_text(line: &str) -> Result<Said, Wrong> {
    read(line.as_bytes())
}

fn parsed(line: Vec<u8>) -> Value {
    assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
    serde_json::from_slice(&line).unwrap()
}

fn called(parameters: Value) -> ToolCall {
    ToolCall { id: "1".to_owned(), parameters: parameters.as_object().unwrap().clone() }
}

#[test]
fn what_an_agent_says_is_understood() {
    let event = |event_type: &str, data: Value| Ok(Said::Event { event_type: event_type.to_owned(), data });
    let table = [
        (
            r#"{"type":"state_transition","from_node":"a","to_node":"b","state_diff":{}}"#,
            event("state_transition", json!({"from_node": "a", "to_node": "b", "state_diff": {}})),
        ),
        (r#"{"type":"x_mine","a":1}"#, event("x_mine", json!({"a": 1}))),
        (
            r#"{"type":"tool_call","tool_name":"search","parameters":{"q":"x"},"output":"y"}"#,
            event(
                "tool_call",
                json!({"tool_name": "search", "parameters": {"q": "x"}, "output": "y", "error": null, "duration": null}),
            ),
        ),
        (
            r#"{"type":"tool_call","id":7,"tool_name":"run_command","parameters":{"command":"ls"}}"#,
            Ok(Said::Call(ToolCall { id: "7".to_owned(), ..called(json!({"command": "ls"})) })),
        ),
        (r#"{"type":"output","text":"hi","stream":true}"#, Ok(Said::Output { text: "hi".to_owned() })),
        (r#"{"type":"done"}"#, Ok(Said::Done { output: None })),
        (r#"{"type":"done","output":"x"}"#, Ok(Said::Done { output: Some("x".to_owned()) })),
        (
            r#"{"type":"state","state":{"n":1}}"#,
            Ok(Said::State { media_type: JSON.to_owned(), bytes: br#"{"n":1}"#.to_vec() }),
        ),
        (
            r#"{"type":"state","state_base64":"/w==","media_type":"application/x-pickle"}"#,
            Ok(Said::State { media_type: "application/x-pickle".to_owned(), bytes: vec![0xff] }),
        ),
    ];
    for (line, expected) in table {
        assert_eq!(read_text(line), expected, "{line}");
    }
}

#[test]
fn what_it_should_not_say_is_explained() {
    let table = [
        ("hello", "bad_line", "not JSON"),
        ("[1]", "bad_line", "not a JSON object"),
        ("{\"a\":1}", "bad_line", "no \"type\""),
        (r#"{"type":"think"}"#, "unknown_type", "'think'"),
        (r#"{"type":"output"}"#, "bad_line", "\"text\""),
        (r#"{"type":"output","text":5}"#, "bad_line", "not a string"),
        (r#"{"type":"state"}"#, "bad_line", "\"state\""),
        (r#"{"type":"state","state_base64":"!"}"#, "bad_line", "state_base64"),
        (r#"{"type":"tool_call"}"#, "bad_line", "tool_name"),
        (r#"{"type":"tool_call","tool_name":"run_command","parameters":{}}"#, "bad_line", "\"id\""),
        (r#"{"type":"tool_call","tool_name":"run_command","id":"1"}"#, "bad_line", "\"parameters\""),
    ];
    for (line, code, words) in table {
        let wrong = read_text(line).unwrap_err();
        assert_eq!(wrong.code, code, "{line}");
        assert!(wrong.detail.contains(words), "{line}: {}", wrong.detail);
        let told = parsed(error(&wrong));
        assert_eq!((&told["type"], &told["code"]), (&json!("error"), &json!(code)));
    }
}

#[test]
fn a_call_is_a_command_that_ends_with_the_agents_time() {
    let left = Duration::from_secs(10);
    let command = called(json!({"command": "ls", "cwd": "/tmp", "env": {"A": "1"}, "timeout": 60, "stdin": "x"}));
    let command = command.command(left).unwrap();
    assert_eq!((command.timeout, command.command.as_bytes()), (left, &b"ls"[..]));
    assert_eq!((command.cwd, command.stdin), (Some("/tmp".into()), Some("x".into())));
    assert_eq!(called(json!({"command": "ls", "timeout": 2})).command(left).unwrap().timeout, Duration::from_secs(2));
    for (parameters, words) in [
        (json!({}), "command is missing"),
        (json!({"command": 5}), "'command'"),
        (json!({"command": "ls", "comand": "x"}), "'comand'"),
        (json!({"command": "ls", "timeout": -1}), "timeout is not a number of seconds"),
    ] {
        let error = called(parameters.clone()).command(left).unwrap_err();
        assert!(error.to_string().contains(words), "{parameters}: {error}");
        let told = parsed(tool_result("1", &Err(error)));
        assert_eq!((&told["id"], &told["error"]["code"]), (&json!("1"), &json!("invalid_request")));
    }
}

#[test]
fn a_call_has_one_key_for_each_step() {
    let call = called(json!({"command": "ls", "timeout": 5}));
    assert_eq!(call.key(3), called(json!({"command": "ls", "timeout": 9})).key(3));
    assert_ne!(call.key(3), call.key(4));
    assert_ne!(call.key(3), called(json!({"command": "ls -l"})).key(3));
    assert_ne!(call.key(3), ToolCall { id: "2".to_owned(), ..call.clone() }.key(3));
    assert!(shellkeep_session::id::check(&call.key(u64::MAX)).is_ok());
}

#[test]
fn an_agent_gets_its_state_back_as_it_gave_it() {
    let at: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
    let said = [Message { seq_id: 1, role: "user".to_owned(), content: json!("hi"), at }];
    let state = |version, media_type: &str, bytes: &[u8]| AgentStateView {
        version,
        media_type: media_type.to_owned(),
        bytes: bytes.to_vec(),
    };
    let (json, pickle) = (state(2, JSON, br#"{"n":1}"#), state(3, "application/x-pickle", b"\xff"));
    let opening = |state| Opening { session_id: "s", resume_id: "a2", message: "hi\nyou", state, messages: &said };
    let first = parsed(opening(None).line());
    assert_eq!((&first["state"], &first["state_version"]), (&Value::Null, &json!(0)));
    assert_eq!(first["message"], "hi\nyou");
    assert_eq!(first["messages"][0]["seq_id"], 1);
    let second = parsed(opening(Some(&json)).line());
    assert_eq!((&second["state"]["n"], &second["state_version"]), (&json!(1), &json!(2)));
    let third = parsed(opening(Some(&pickle)).line());
    assert_eq!((&third["state"], &third["state_base64"]), (&Value::Null, &json!("/w==")));
}
