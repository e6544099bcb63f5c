//! What may be said: every kind of line, what is answered to lines that make no sense, and states of any kind.

use crate::fixture::*;
use crate::support::{Daemon, Request, Settings};
use serde_json::{Value, json};

/// An agent that says what `says` holds, one line after the other, and gives back everything it hears until it is told the
/// result of the call `last`.
fn parrot(says: &[Value], last: &str) -> String {
    let lines: Vec<String> = says.iter().map(|line| format!("{line}\n")).collect();
    let said = lines.concat().replace('\'', "'\\''");
    format!(
        r#"read -r opening; printf '%s' '{said}'
        printf '%s\n' '{{"type":"tool_call","id":"{last}","tool_name":"run_command","parameters":{{"command":"true"}}}}'
        heard=()
        while read -r line; do
            heard+=("$line")
            case $line in *'"id":"{last}"'*) break ;; esac
        done
        IFS=,; printf '{{"type":"x_heard","lines":[%s]}}\n' "${{heard[*]}}"
        printf '%s\n' '{{"type":"done"}}'"#
    )
}

/// What the agent heard, without the result of its last call.
fn heard(daemon: &Daemon, session: &str, says: &[Value]) -> (Value, Vec<Value>) {
    with_script(daemon, session, &parrot(says, "last"));
    let result = done(daemon, session, "go");
    let events = events(daemon, session);
    let mut lines = of_type(&events, "x_heard")[0]["lines"].as_array().unwrap().clone();
    lines.pop();
    (result, lines)
}

#[test]
fn tools_of_its_own_and_events_of_its_own_are_taken_down_as_they_are() {
    let daemon = Daemon::start();
    let search =
        json!({"tool_name": "search", "parameters": {"q": "x"}, "output": "y", "error": null, "duration": 0.5});
    let call = json!({"prompt": [{"role": "user", "content": "hi"}], "response": "ho", "token_usage": {"total_tokens": 3}, "duration": 1.5});
    let own = json!({"why": "é\n\u{1}"});
    let typed = |name: &str, data: &Value| {
        let mut line = data.clone();
        line["type"] = name.into();
        line
    };
    let says = [typed("tool_call", &search), typed("llm_call", &call), typed("x_thought", &own)];
    let (_, lines) = heard(&daemon, "s", &says);
    assert_eq!(lines, Vec::<Value>::new(), "nothing is answered to what is only taken down");
    let events = events(&daemon, "s");
    assert_eq!(of_type(&events, "tool_call")[0], &search);
    assert_eq!(of_type(&events, "llm_call"), [&call]);
    assert_eq!(of_type(&events, "x_thought"), [&own]);
}

#[test]
fn lines_that_make_no_sense_are_answered_and_the_work_goes_on() {
    let daemon = Daemon::start();
    let run = |id: &str, parameters: Value| json!({"type": "tool_call", "id": id, "tool_name": "run_command", "parameters": parameters});
    let says = [
        json!("hello"),
        json!({"type": "think"}),
        json!({"type": "state_transition", "from_node": "a"}),
        run("bad", json!({"comand": "ls"})),
        run("nul", json!({"command": "echo \u{0}"})),
        run("one", json!({"command": "echo 1"})),
        run("one", json!({"command": "echo 2"})),
        run("cwd", json!({"command": "pwd", "cwd": "/nowhere"})),
    ];
    let (result, lines) = heard(&daemon, "s", &says);
    let find = |name: &str, value: &str| lines.iter().filter(move |line| line[name] == value).collect::<Vec<_>>();
    let codes: Vec<&Value> = find("type", "error").iter().map(|line| &line["code"]).collect();
    assert_eq!(codes, ["bad_line", "unknown_type", "invalid_request", "bad_call"]);
    assert!(find("code", "bad_call")[0]["detail"].as_str().unwrap().contains("used before in this step"));
    assert_eq!(find("id", "bad")[0]["error"]["code"], "invalid_request");
    assert!(find("id", "nul")[0]["error"]["detail"].as_str().unwrap().contains("NUL"));
    assert_eq!(find("id", "cwd")[0]["error"]["code"], "bad_cwd");
    let answered: Vec<&Value> = find("id", "one").into_iter().filter(|line| line["type"] == "tool_result").collect();
    assert_eq!(answered.len(), 1);
    assert_eq!((&answered[0]["stdout"], &answered[0]["exit_code"]), (&json!("1\n"), &json!(0)));
    assert_eq!(result["steps"], 0);
}

#[test]
fn a_result_has_all_that_a_run_has() {
    let daemon = Daemon::start();
    let run = |id: &str, parameters: Value| json!({"type": "tool_call", "id": id, "tool_name": "run_command", "parameters": parameters});
    let says = [
        run("cd", json!({"command": "cd /usr; export A=1; echo out; echo err >&2; (exit 3)"})),
        run("bytes", json!({"command": "printf '\\xff'"})),
        run("stdin", json!({"command": "cat; echo $B", "stdin": "given\n", "env": {"B": "b"}})),
        run("late", json!({"command": "sleep 100", "timeout": 0.2})),
        run("long", json!({"command": "seq 100000", "max_output": 100})),
    ];
    let (_, lines) = heard(&daemon, "s", &says);
    let result = |id: &str| lines.iter().find(|line| line["id"] == id).unwrap();
    let cd = result("cd");
    assert_eq!((&cd["stdout"], &cd["stderr"], &cd["exit_code"]), (&json!("out\n"), &json!("err\n"), &json!(3)));
    assert_eq!(
        (&cd["cwd"], &cd["changes"]["env"]["A"], &cd["status"]),
        (&json!("/usr"), &json!("1"), &json!("exited"))
    );
    assert_eq!(result("bytes")["stdout_base64"], "/w==");
    assert_eq!(result("stdin")["stdout"], "given\nb\n");
    assert_eq!(result("late")["status"], "timed_out");
    assert_eq!((&result("long")["truncated"], &result("long")["stdout_bytes"]), (&json!(true), &json!(588_895)));
    assert_eq!(daemon.sh("s", "echo $A $PWD").out(), "1 /usr\n", "they are the session's own commands");
}

#[test]
fn a_state_that_is_not_json_comes_back_as_it_was() {
    let daemon = Daemon::start();
    let script = r#"read -r line
        case $line in
            *'"state_base64":"AP8="'*'"state_version":1'*) printf '%s\n' '{"type":"done","output":"back"}' ;;
            *) printf '%s\n' '{"type":"state","state_base64":"AP8=","media_type":"application/x-own"}'
               read -r saved; printf '{"type":"done","output":"%s"}\n' "${saved//\"/}" ;;
        esac"#;
    with_script(&daemon, "s", script);
    assert_eq!(done(&daemon, "s", "x")["output"], "{type:saved,version:1}");
    let kept = daemon.get("/v1/sessions/s/agent_state");
    assert_eq!((kept.header("content-type"), kept.body.as_slice()), (Some("application/x-own"), &b"\0\xff"[..]));
    assert_eq!(done(&daemon, "s", "x")["output"], "back");
}

#[test]
fn a_state_that_somebody_else_saved_is_not_overwritten() {
    let daemon = Daemon::start();
    let script = r#"read -r line; echo '{"type":"output","text":"ready"}'
        until [ -e go ]; do sleep 0.02; done
        echo '{"type":"state","state":{"mine":1}}'; read -r answer; echo '{"type":"done"}'"#;
    with_script(&daemon, "s", script);
    let mut live = watch(&daemon, "s", &json!({"message": "x"}));
    until_said(&mut live, "ready");
    let put = Request::new("PUT", "/v1/sessions/s/agent_state").json(r#"{"theirs":1}"#);
    assert!(daemon.send(&put).status < 300);
    daemon.sh("s", "touch go");
    let result = std::iter::from_fn(|| live.next_event()).find(|event| event.event == "result").unwrap();
    let result: Value = serde_json::from_str(&result.data).unwrap();
    assert_eq!((&result["status"], &result["steps"]), (&json!("failed"), &json!(0)));
    assert!(result["error"].as_str().unwrap().contains("version 1"), "{result}");
    assert_eq!(state(&daemon, "s"), json!({"theirs": 1}));
}

/// What the host wants masked is masked in what an agent says and tells, also when it comes in pieces; the agent itself gets
/// its message as it is.
#[test]
fn where_secrets_are_masked_so_are_those_of_agents() {
    let secret = "horse-battery-staple";
    let settings = Settings::default().env("SHELLKEEP_RECORD_REDACT_ON_WRITE", "true");
    let daemon = Daemon::with(settings.env("SHELLKEEP_RECORD_SECRETS", secret));
    let script = r#"read -r line
        case $line in *horse-battery-staple*) knows=yes ;; *) knows=no ;; esac
        for piece in 'a horse-ba' 'ttery-' 'staple!'; do printf '{"type":"output","text":"%s"}\n' "$piece"; done
        echo '{"type":"x_told","key":"horse-battery-staple"}'; echo "last horse-battery-staple" >&2
        printf '{"type":"output","text":" %s"}\n' $knows; exit 1"#;
    with_script(&daemon, "s", script);
    let result = resume(&daemon, "s", &format!("the key is {secret}"));
    assert_eq!((&result["output"], &result["status"]), (&json!("a ***! yes"), &json!("failed")), "{result}");
    let recorded = events(&daemon, "s")[1..].iter().map(Value::to_string).collect::<String>();
    assert!(!recorded.contains(secret) && recorded.contains("the key is ***"), "{recorded}");
    assert!(!result.to_string().contains(secret), "{result}");
    assert!(!conversation(&daemon, "s").concat().contains(secret));
}

/// A value that no rule recognises.
const GIVEN: &str = "zq7-Kettle-orbit-4411";

/// An agent gets the secrets of its session as commands do, a new value with the next message, and nothing that it says with
/// one is told or written down.
#[test]
fn the_secrets_of_its_session_are_there_and_masked() {
    let secrets = tempfile::tempdir().unwrap();
    let file = secrets.path().join("token");
    std::fs::write(&file, GIVEN).unwrap();
    let mut daemon = Daemon::with(Settings::default().set("--secrets", &format!("TOKEN={}", file.display())));
    let script = r#"read -r opening
        printf '{"type":"x_env","length":%s,"begins":"%s","value":"%s","same":"%s"}\n' \
            ${#TOKEN} "${TOKEN%%-*}" "$TOKEN" "$([ "$COPY" = "a $TOKEN z" ] && echo yes)"
        printf '{"type":"output","text":"%s"}\n' "the key is ${TOKEN:0:8}" "${TOKEN:8}." "$TOKEN"
        printf '{"type":"%s"}\n' "$TOKEN"
        printf 'failed with %s\n' "$TOKEN" >&2"#;
    let agent = json!({"command": ["bash", "-c", script]});
    daemon.create_with(json!({"session_id": "s", "secrets": ["TOKEN"], "config": {"agent": agent}}));
    daemon.sh("s", "export COPY=\"a $TOKEN z\"");
    let later = "wx3-Lantern-quay-99021";
    let mut told = Vec::new();
    for value in [GIVEN, later] {
        std::fs::write(&file, value).unwrap();
        told.push(resume(&daemon, "s", "go"));
    }
    for answer in &told {
        assert_eq!(
            (&answer["status"], &answer["output"]),
            (&json!("failed"), &json!("the key is ***.***")),
            "{answer}"
        );
        assert!(answer["error"].as_str().unwrap().ends_with("failed with ***"), "{answer}");
    }
    let recorded = events(&daemon, "s");
    let seen = |length: usize, begins: &str| json!({"length": length, "begins": begins, "value": "***", "same": "yes"});
    assert_eq!(of_type(&recorded, "x_env"), [&seen(GIVEN.len(), "zq7"), &seen(later.len(), "wx3")]);
    let recorded = json!([recorded, told]).to_string() + &conversation(&daemon, "s").concat();
    assert_eq!(daemon.stop(), Some(0));
    let data = daemon.data();
    for value in [GIVEN, later] {
        assert!(!recorded.contains(value), "{recorded}");
        let found = std::process::Command::new("grep").args(["-r", "-l", "-a", "-F", value]).arg(&data).output();
        assert_eq!(String::from_utf8(found.unwrap().stdout).unwrap(), "");
    }
    assert!(!daemon.log().contains(GIVEN), "{}", daemon.log());
    std::fs::remove_file(&file).unwrap();
    daemon.restart();
    let refused = send(&daemon, "s", &json!({"message": "go"}));
    assert_eq!((refused.status, &refused.json()["code"]), (409, &json!("secret_unavailable")), "{}", refused.text());
}
