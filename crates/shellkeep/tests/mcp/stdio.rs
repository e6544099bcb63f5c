//! What a client on stdio can rely on.

use crate::client::Client;
use crate::support::procs::{self, unique_sleep};
use crate::support::{Daemon, Request, Settings, daemon};
use serde_json::{Value, json};
use shellkeep_poll::until;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

fn project(daemon: &Daemon, name: &str) -> PathBuf {
    let path = daemon.directory().join(name);
    fs::create_dir_all(&path).unwrap();
    path
}

fn names(tools: &Value) -> Vec<&str> {
    tools["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn the_tools_are_those_of_the_contract() {
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    assert_eq!(client.hello["protocolVersion"], "2025-06-18");
    assert_eq!(client.hello["serverInfo"]["name"], "shellkeep");
    let tools = client.request("tools/list", json!({}));
    // What a client must give, and whether it may be called without asking a person.
    let table = [
        ("run_command", json!(["command"]), false),
        ("start_service", json!(["command"]), false),
        ("stop_service", json!(["service_id"]), false),
        ("list_services", Value::Null, true),
        ("read_output", json!(["id"]), true),
        ("send_input", json!(["id", "text"]), false),
        ("signal", json!(["id"]), false),
        ("list_checkpoints", Value::Null, true),
        ("diff", Value::Null, true),
        ("rewind", json!(["to"]), false),
    ];
    assert_eq!(names(&tools), table.each_ref().map(|(name, ..)| *name));
    for (at, (name, required, is_read_only)) in table.into_iter().enumerate() {
        let tool = &tools["result"]["tools"][at];
        assert_eq!(tool["inputSchema"]["required"], required, "{name}");
        assert_eq!(tool["annotations"]["readOnlyHint"], is_read_only, "{name}");
        assert_eq!(tool["annotations"]["destructiveHint"], !is_read_only, "{name}");
    }
    assert_eq!(client.leave(), Some(0));
}

#[test]
fn a_result_is_words_for_the_model_and_data_for_the_program() {
    let daemon = Daemon::start();
    let home = project(&daemon, "home");
    let mut client = Client::start(&daemon, &home, &[]);
    let answer = client.run("echo out; echo err >&2; exit 3");
    assert_eq!(answer.text(), format!("out\n[stderr]\nerr\n[exit code 3; cwd {}]", home.display()));
    assert!(!answer.is_error());
    let data = answer.data();
    assert_eq!((&data["stdout"], &data["stderr"], &data["exit_code"]), (&json!("out\n"), &json!("err\n"), &json!(3)));
    // The same as HTTP has it, to the last field.
    let mut over_http = daemon.wait_run(&client.session(), &answer.run_id(), 0).json;
    assert_eq!(over_http["command"].take(), "echo out; echo err >&2; exit 3");
    over_http.as_object_mut().unwrap().retain(|name, _| name != "command" && name != "started_at");
    assert_eq!(*data, over_http);
    assert_eq!(client.run("true").text(), "(no output)");
    assert_eq!(client.run("pwd").data()["stdout"], json!(format!("{}\n", home.display())));
}

#[test]
fn a_project_finds_its_shell_again() {
    let daemon = Daemon::start();
    let home = project(&daemon, "My Project");
    let mut monday = Client::start(&daemon, &home, &[]);
    let session = monday.session();
    assert!(session.starts_with("test-client-my-project-"), "{session}");
    monday.run("mkdir -p sub; cd sub; export STAGE=test; hi() { echo \"hi $1\"; }");
    monday.leave();
    daemon.hibernate(&session);
    let mut tuesday = Client::start(&daemon, &home, &[]);
    assert_eq!(tuesday.session(), session);
    assert_eq!(tuesday.run("hi ann; echo $STAGE; basename \"$PWD\"").text(), "hi ann\ntest\nsub\n");
    // Another project of the same client is another session.
    let mut other = Client::start(&daemon, &project(&daemon, "other"), &[]);
    assert_eq!(other.run("echo \"[$STAGE]\"").text(), "[]\n");
}

#[test]
fn each_window_has_a_session_unless_they_ask_for_the_same() {
    let daemon = Daemon::start();
    let home = project(&daemon, "home");
    let mut first = Client::start(&daemon, &home, &[]);
    let second = Client::start(&daemon, &home, &[]);
    let (one, two) = (first.session(), second.session());
    assert_eq!(two, format!("{one}-2"));
    assert_eq!(Client::start(&daemon, &home, &[]).session(), format!("{one}-3"));
    // A closed window frees its name at once, even while its command still runs.
    let mark = unique_sleep();
    first.ask("tools/call", json!({"name": "run_command", "arguments": {"command": format!("sleep {mark}")}}));
    until("the sleep runs", || (!procs::marked(&mark).is_empty()).then_some(()));
    first.crash();
    until("the name is free", || (Client::start(&daemon, &home, &[]).session() == one).then_some(()));
    let mut named = Client::start(&daemon, &home, &["-s", "shared"]);
    named.run("x=7");
    assert_eq!(Client::start(&daemon, &home, &["-s", "shared"]).run("echo $x").text(), "7\n");
}

#[test]
fn progress_tells_what_is_printed_and_not_too_often() {
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    let call = |command: &str| json!({"name": "run_command", "arguments": {"command": command}, "_meta": {"progressToken": "p"}});
    // The command waits until the test has heard of it, so what is shown is that the message comes while it runs.
    let id = client.ask("tools/call", call("echo begun; until [ -e go ]; do sleep 0.01; done; echo over"));
    let first = client.next();
    assert_eq!(first["method"], "notifications/progress", "{first}");
    assert_eq!((&first["params"]["progressToken"], &first["params"]["message"]), (&json!("p"), &json!("begun")));
    fs::write(daemon.directory().join("go"), "").unwrap();
    assert_eq!(client.answer(id)["result"]["structuredContent"]["stdout"], "begun\nover\n");
    client.notifications.clear();
    let id = client.ask("tools/call", call("for i in {1..200}; do echo $i; sleep 0.002; done"));
    let took = client.answer(id)["result"]["structuredContent"]["duration_ms"].as_f64().unwrap();
    let told: Vec<f64> = client.notifications.iter().map(|note| note["params"]["progress"].as_f64().unwrap()).collect();
    assert!(told.windows(2).all(|pair| pair[0] < pair[1]), "progress goes forward: {told:?}");
    assert!(!told.is_empty() && told.len() as f64 <= took / 100.0 + 2.0, "{} in {took} ms", told.len());
}

#[test]
fn cancelling_interrupts_the_command_and_keeps_the_session() {
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    let mark = unique_sleep();
    client.run("x=1");
    let arguments = json!({"command": format!("echo begun; sleep {mark}"), "timeout": 600, "request_id": "k1"});
    let params = json!({"name": "run_command", "arguments": arguments, "_meta": {"progressToken": 1}});
    let id = client.ask("tools/call", params);
    assert_eq!(client.next()["method"], "notifications/progress");
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    // No answer comes to what was cancelled; the next command finds the session free.
    let after = client.run("echo still $x");
    assert_eq!(after.text(), "still 1\n");
    assert!(procs::marked(&mark).is_empty());
    let again = client.call("run_command", arguments);
    assert_eq!((&again.data()["status"], &again.data()["stdout"]), (&json!("interrupted"), &json!("begun\n")));
}

#[test]
fn ten_mebibytes_are_shown_in_part_and_read_in_full() {
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    let answer = client.run("yes 0123456789abcde | head -c 10485760; echo needle >&2; echo needle");
    let (text, data) = (answer.text(), answer.data());
    assert!(text.len() < 40_000, "{} bytes for a model", text.len());
    assert_eq!((&data["stdout_bytes"], &data["truncated"]), (&json!(10_485_767), &json!(true)));
    let id = answer.run_id();
    assert!(text.contains(&format!("read_output(id=\"{id}\", offset=15000)")), "{}", &text[text.len() - 400..]);
    let (mut offset, mut read) = (0, 0);
    while offset < 10_485_767 {
        let page = client.call("read_output", json!({"id": id, "offset": offset}));
        read += page.data()["text"].as_str().unwrap().len();
        offset = page.data()["next_offset"].as_u64().unwrap();
    }
    assert_eq!(read, 10_485_767);
    let found = client.call("read_output", json!({"id": id, "grep": "^needle"}));
    assert_eq!(found.data()["text"], "needle\n");
    assert!(found.text().starts_with("needle\n[1 line matches \"^needle\" in "), "{}", found.text());
    let none = client.call("read_output", json!({"id": id, "grep": "haystack"}));
    assert!(none.text().starts_with("[no line matches \"haystack\" in 10485767 bytes]"), "{}", none.text());
    let tail = |client: &mut Client, lines: u64| {
        client.call("read_output", json!({"id": id, "tail": lines})).data()["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(tail(&mut client, 2), "0123456789abcde\nneedle\n");
    // More lines than an answer can carry: the last of them.
    let most = tail(&mut client, 100_000);
    assert!(most.len() <= 30_000 && most.ends_with("0123456789abcde\nneedle\n"), "{} bytes", most.len());
    let last = client.call("read_output", json!({"id": id, "tail": 2}));
    assert!(last.text().starts_with("[from byte 10485744 of 10485767; read from the beginning with offset=0]\n"));
    let stderr = client.call("read_output", json!({"id": id, "stream": "stderr"}));
    let other = "[stdout has 10485767 bytes; read it with stream=\"stdout\"]";
    assert_eq!(stderr.text(), format!("needle\n{other}\n[{id} has ended, exit code 0]"));
    let uri = format!("shellkeep://sessions/{}/runs/{id}/stdout", client.session());
    let whole = client.request("resources/read", json!({"uri": uri}));
    assert_eq!(whole["result"]["contents"][0]["text"].as_str().unwrap().len(), 10_485_767);
}

/// Pages met in the middle of a character, and one invalid byte before it was enough to cut it.
#[test]
fn no_character_is_lost_between_two_pages() {
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    let answer = client.run("printf 'x\\xff'; for i in {1..20000}; do printf '€'; done; printf z");
    let id = answer.run_id();
    let told = answer.text();
    let offset: u64 = told.split("offset=").nth(1).unwrap().split(')').next().unwrap().parse().unwrap();
    assert!((offset - 2).is_multiple_of(3), "{offset} is the first byte of a character");
    let (mut offset, mut read) = (0, String::new());
    while offset < 60_003 {
        let page = client.call("read_output", json!({"id": id, "offset": offset}));
        read += page.data()["text"].as_str().unwrap();
        offset = page.data()["next_offset"].as_u64().unwrap();
    }
    assert_eq!(read, format!("x\u{fffd}{}z", "€".repeat(20_000)));
    let last = client.call("read_output", json!({"id": id, "tail": 1}));
    let text = last.data()["text"].as_str().unwrap();
    assert!(text.starts_with('€') && text.ends_with("€z"), "{:?}", text.chars().next());
}

#[test]
fn a_client_that_goes_away_finds_its_result_afterwards() {
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    let session = client.session();
    let arguments =
        json!({"command": "echo begun; until [ -e go ]; do sleep 0.01; done; echo over", "request_id": "k"});
    let params = json!({"name": "run_command", "arguments": arguments, "_meta": {"progressToken": 1}});
    client.ask("tools/call", params);
    assert_eq!(client.next()["method"], "notifications/progress");
    client.crash();
    let mut back = Client::start(&daemon, daemon.directory(), &["-s", &session]);
    // It still runs, and can be followed.
    let resources = back.request("resources/list", json!({}));
    let uri = resources["result"]["resources"][1]["uri"].as_str().unwrap().to_owned();
    let id = uri.split('/').nth(5).unwrap().to_owned();
    let page = back.call("read_output", json!({"id": id}));
    assert_eq!((&page.data()["status"], &page.data()["text"]), (&json!("running"), &json!("begun\n")));
    fs::write(daemon.directory().join("go"), "").unwrap();
    let again = back.call("run_command", arguments);
    assert_eq!((again.text(), again.run_id()), ("begun\nover\n", id));
}

#[test]
fn what_runs_beside_is_followed_and_answered() {
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    let started =
        client.call("run_command", json!({"command": "read name; echo \"hello $name\"; cat", "blocking": false}));
    let id = started.run_id();
    assert!(started.text().contains(&format!("[running as {id}")), "{}", started.text());
    assert!(!client.call("send_input", json!({"id": id, "text": "ann\n"})).is_error());
    assert!(!client.call("send_input", json!({"id": id, "text": "bye\n", "eof": true})).is_error());
    // The next command waits its turn, so it answers when the first has ended.
    client.run("true");
    let page = client.call("read_output", json!({"id": id}));
    assert_eq!(page.text(), format!("hello ann\nbye\n[{id} has ended, exit code 0]"));
    let late = client.call("send_input", json!({"id": id, "text": "x"}));
    assert!(late.is_error() && late.text().contains("(run_ended)"), "{}", late.text());
}

#[test]
fn a_model_waits_for_output_and_interrupts() {
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    let command = "echo begun; echo oops >&2; while read line; do echo \"got $line\"; done";
    let started = client.call("run_command", json!({"command": command, "blocking": false}));
    let id = started.run_id();
    // Both streams are shown, whichever came first.
    let page = until("both are there", || {
        let page = client.call("read_output", json!({"id": id, "wait": 30}));
        (page.text().contains("begun") && page.text().contains("oops")).then_some(page)
    });
    assert_eq!(page.text(), format!("begun\n[stderr]\noops\n[{id} is still running]"));
    client.call("send_input", json!({"id": id, "text": "one\n"}));
    // It comes back with the answer, long before the wait is over.
    let page = client.call("read_output", json!({"id": id, "wait": 300}));
    assert!(page.text().contains("got one\n"), "{}", page.text());
    client.call("send_input", json!({"id": id, "text": "two\n"}));
    let page = client.call("read_output", json!({"id": id, "wait": 300, "offset": 14}));
    assert!(page.text().starts_with("got two\n[stderr has 5 bytes;"), "{}", page.text());
    let ended = client.call("signal", json!({"id": id}));
    assert_eq!(ended.text(), format!("Sent INT to {id}.\n[{id} was interrupted, exit code 130]"));
    assert_eq!(client.run("echo free").text(), "free\n");
    // What only wrote to stderr is not nothing.
    let quiet = client.run("echo only >&2").run_id();
    let page = client.call("read_output", json!({"id": quiet}));
    assert_eq!(page.text(), format!("[stderr]\nonly\n[{quiet} has ended, exit code 0]"));
}

#[test]
fn a_model_sees_what_it_changed_and_undoes_it() {
    let daemon = Daemon::start();
    daemon.create("s");
    let mut client = Client::start(&daemon, daemon.directory(), &["-s", "s"]);
    assert!(client.call("list_checkpoints", json!({})).text().starts_with("No command has changed files"));
    assert!(client.call("diff", json!({})).text().contains("nothing to compare"));
    let nothing = client.call("rewind", json!({"to": "undo"}));
    assert!(nothing.is_error() && nothing.text().contains("nothing to undo"), "{}", nothing.text());
    let first = client.run("echo one > a; printf '\\033[31mred\\033[0m\\n'");
    assert_eq!((first.text(), &first.data()["stdout"]), ("red\n", &json!("red\n")));
    let shown = client.call("read_output", json!({"id": first.run_id()}));
    assert_eq!(shown.data()["text"], "red\n", "some clients show a model the data");
    let middle = client.run("mkdir sub; touch sub/keep; cd sub").run_id();
    let second = client.run("echo two > ../a; echo x > b").run_id();
    let list = client.call("list_checkpoints", json!({}));
    let lines: Vec<&str> = list.text().lines().collect();
    assert!(
        lines[0].starts_with(&second) && lines[0].ends_with("1 added, 1 changed <- the files are here"),
        "{lines:?}"
    );
    let hint =
        format!("[diff(from=\"{middle}\") shows what changed since then, rewind(to=\"{middle}\") returns to it]");
    assert_eq!(*lines.last().unwrap(), hint, "an id that exists, and where the files are not already");
    let unknown = client.call("diff", json!({"path": "no/such/file"}));
    assert!(unknown.text().contains("Nothing differs at 'no/such/file'. If you"), "{}", unknown.text());
    let patch = client.call("diff", json!({}));
    assert!(patch.text().contains("-one\n+two\n") && patch.text().contains("b/sub/b"), "{}", patch.text());
    let trial = client.call("rewind", json!({"to": "undo", "dry_run": true}));
    assert!(trial.text().starts_with("Would return to"), "{}", trial.text());
    let undone = client.call("rewind", json!({"to": "undo"}));
    assert!(undone.text().contains(&format!("before {second}")), "{}", undone.text());
    assert!(undone.text().contains("modified a") && undone.text().contains("deleted sub/b"), "{}", undone.text());
    assert!(client.run("cat ../a").text().ends_with("one\n"));
    let back = undone.data()["undo"].as_u64().unwrap().to_string();
    assert!(!client.call("rewind", json!({"to": back})).is_error());
    assert!(client.run("cat ../a b").text().ends_with("two\nx\n"));
    let wrong = client.call("rewind", json!({"to": "r999"}));
    assert!(wrong.is_error() && wrong.text().contains("(run_not_found)"), "{}", wrong.text());
}

#[test]
fn the_host_may_keep_undo_from_models() {
    let daemon = Daemon::with(Settings::default().env("SHELLKEEP_MCP_UNDO", "false"));
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    let tools = client.request("tools/list", json!({}));
    assert!(names(&tools).contains(&"signal") && !names(&tools).contains(&"rewind"), "{tools}");
    let refused = client.request("tools/call", json!({"name": "rewind", "arguments": {"to": "undo"}}));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
}

#[test]
fn a_notice_reaches_the_model_once() {
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    let mark = unique_sleep();
    client.run(&format!("hi() {{ echo hi; }}; sleep {mark} >/dev/null 2>&1 &"));
    // Until it has become `sleep`, it is a bash like any other and could not be named.
    until("the sleep runs", || (!procs::marked(&mark).is_empty()).then_some(()));
    daemon.hibernate(&client.session());
    let told = client.run("hi");
    assert!(told.text().starts_with("[notice] This is a new shell"), "{}", told.text());
    assert!(told.text().contains(&mark) && told.text().ends_with("\nhi\n"), "{}", told.text());
    assert_eq!(told.data()["notices"][0]["code"], "shell_replaced");
    assert_eq!(client.run("hi").text(), "hi\n");
    let id = told.run_id();
    let read = client.call("read_output", json!({"id": id}));
    assert_eq!(read.text(), format!("hi\n[{id} has ended, exit code 0]"));
}

#[test]
fn a_timeout_is_said_and_survived() {
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    let answer = client.call("run_command", json!({"command": "x=5; echo begun; sleep 600", "timeout": 0.3}));
    assert!(answer.text().contains("begun\n") && answer.text().contains("[timed out after"), "{}", answer.text());
    assert!(!answer.is_error());
    // What it advises can be done with the tools there are.
    assert!(answer.text().contains("blocking=false") && !answer.text().contains("on_timeout"), "{}", answer.text());
    assert_eq!(client.run("echo $x").text(), "5\n");
}

#[test]
fn the_classic_tool_behaves_as_its_callers_expect() {
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &["--toolset", "bash", "-s", "classic"]);
    assert_eq!(names(&client.request("tools/list", json!({}))), ["bash"]);
    let instructions = client.hello["instructions"].as_str().unwrap();
    assert!(!instructions.contains("start_service"), "there is no such tool: {instructions}");
    assert_eq!(client.call("bash", json!({"command": "cd /usr; echo out; echo err >&2"})).text(), "out\nerr\n");
    assert_eq!(client.call("bash", json!({"command": "pwd", "restart": false})).text(), "/usr\n");
    let refused = client.call("bash", json!({"restart": true}));
    assert!(refused.is_error() && refused.text().contains("(not_allowed)"), "{}", refused.text());
    assert_eq!(client.call("bash", json!({"command": "pwd"})).text(), "/usr\n");
    assert!(client.call("bash", json!({})).is_error());
}

#[test]
fn a_model_may_restart_where_the_host_says_so() {
    let daemon = Daemon::with(Settings::default().env("SHELLKEEP_AGENT_MAY_RESTART", "true"));
    let mut client = Client::start(&daemon, daemon.directory(), &["--toolset", "bash"]);
    client.call("bash", json!({"command": "x=1"}));
    assert_eq!(client.call("bash", json!({"restart": true})).text(), "tool has been restarted.");
    assert_eq!(client.call("bash", json!({"command": "echo \"[$x]\""})).text(), "[]\n");
}

#[test]
fn sessions_and_outputs_are_resources() {
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    assert_eq!(client.request("resources/list", json!({}))["result"]["resources"], json!([]));
    client.run("hi() { :; }; printf 'a\\377'");
    let listed = client.request("resources/list", json!({}));
    let uris: Vec<&str> =
        listed["result"]["resources"].as_array().unwrap().iter().map(|one| one["uri"].as_str().unwrap()).collect();
    let session = format!("shellkeep://sessions/{}", client.session());
    assert_eq!(uris, [session.clone(), format!("{session}/runs/r3/stdout")]);
    let summary = client.request("resources/read", json!({"uri": session}));
    let summary: Value = serde_json::from_str(summary["result"]["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(summary["functions"], json!(["hi"]));
    let output = client.request("resources/read", json!({"uri": format!("{session}/runs/r3/stdout")}));
    assert_eq!(output["result"]["contents"][0]["blob"], "Yf8=");
    assert_eq!(
        client.request("resources/templates/list", json!({}))["result"]["resourceTemplates"].as_array().unwrap().len(),
        3
    );
    let missing = client.request("resources/read", json!({"uri": "shellkeep://sessions/nobody"}));
    assert_eq!(missing["error"]["code"], -32002, "{missing}");
    let told = missing["error"]["message"].as_str().unwrap();
    assert!(told.contains("resources/list") && !told.contains("omit session"), "{told}");
    let missing = client.request("resources/read", json!({"uri": format!("{session}/runs/r999/stdout")}));
    let told = missing["error"]["message"].as_str().unwrap();
    assert!(told.contains("resources/list") && told.contains("(run_not_found)"), "{told}");
}

#[test]
fn an_agent_works_under_its_name_until_its_token_is_revoked() {
    let daemon = Daemon::start();
    let made = daemon.post("/v1/tokens", &json!({"agent": "ann"})).json();
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.arg("mcp").arg("--socket").arg(daemon.directory().join("s.sock")).arg("--no-start");
    command.env("SHELLKEEP_TOKEN", made["token"].as_str().unwrap());
    let mut client = Client::spawn(command, daemon.directory());
    client.shake_hands();
    assert!(client.session().starts_with("thread_ann_test-client-"), "{}", client.session());
    assert_eq!(client.run("echo hello").text(), "hello\n");
    assert_eq!(daemon.get(&format!("/v1/sessions/{}", client.session())).json()["agent"], "ann");
    let revoked = Request::new("DELETE", &format!("/v1/tokens/{}", made["id"].as_str().unwrap()));
    assert_eq!(daemon.send(&revoked).status, 204);
    until("it is refused", || {
        let refused = client.request("tools/list", json!({}));
        refused["error"]["message"].as_str()?.contains("was revoked").then_some(())
    });
    assert_eq!(client.leave(), Some(0));
}

/// `printf '%s' "$requests" | shellkeep mcp` never got the last answer.
#[test]
fn a_last_message_without_a_line_feed_is_answered() {
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    client.write(br#"{"jsonrpc": "2.0", "id": "last", "method": "ping"}"#);
    assert_eq!(client.leave(), Some(0));
    assert_eq!(client.next(), json!({"jsonrpc": "2.0", "id": "last", "result": {}}));
}

#[test]
fn a_daemon_is_started_when_none_runs() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.arg("mcp").arg("--data").arg(&data).env_remove("SHELLKEEP_SOCKET").env_remove("SHELLKEEP_URL");
    let mut client = Client::spawn(command, directory.path());
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
    assert_eq!(client.request("initialize", params)["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(client.run("echo hello").text(), "hello\n");
    let stop = || {
        let pid: u32 = fs::read_to_string(data.join("lock")).unwrap().trim().parse().unwrap();
        daemon::signal(pid, "TERM");
        until("the daemon ends", || (!procs::alive(pid)).then_some(()));
        pid
    };
    stop();
    // A daemon that was stopped is started when it is needed, and not before.
    assert!(client.run("echo again").text().ends_with("again\n"));
    let stopped = stop();
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    assert_eq!(client.leave(), Some(0));
    let last = fs::read_to_string(data.join("lock")).unwrap();
    assert_eq!(last.trim(), stopped.to_string(), "nobody waits for an answer to these");
}
