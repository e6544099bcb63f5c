//! The same over HTTP, at `/mcp`.

use crate::support::http::LiveResponse;
use crate::support::procs::{self, unique_sleep};
use crate::support::{Daemon, Request, Response, Settings};
use serde_json::{Value, json};
use std::fs;

const TOKEN: &str = "the-token-of-the-host";

fn daemon() -> Daemon {
    Daemon::with(Settings::default().tcp().env("SHELLKEEP_TOKEN", TOKEN))
}

fn post(message: &Value) -> Request {
    Request::new("POST", "/mcp").header("accept", "application/json, text/event-stream").json(message.to_string())
}

fn open(daemon: &Daemon, request: Request) -> LiveResponse {
    request.header("authorization", &format!("Bearer {TOKEN}")).open(&daemon.tcp_door()).expect("the daemon answers")
}

/// The next JSON-RPC message of an answer; priming events carry none.
fn message(answer: &mut LiveResponse) -> Value {
    loop {
        let event = answer.next_event().expect("the stream goes on");
        if !event.data.is_empty() {
            return serde_json::from_str(&event.data).expect("an event is JSON");
        }
    }
}

/// A client with an MCP session, as before 2026-07-28.
struct Client<'a> {
    daemon: &'a Daemon,
    mcp_session: String,
    headers: Vec<(&'static str, String)>,
    next_id: u64,
}

impl<'a> Client<'a> {
    fn start(daemon: &'a Daemon) -> Self {
        Self::start_in(daemon, None)
    }

    /// A client that names its session when it begins, and not again.
    fn start_in(daemon: &'a Daemon, session: Option<&str>) -> Self {
        let about = json!({"name": "web", "version": "1"});
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about});
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let hello = session.into_iter().fold(post(&hello), |hello, name| hello.header("shellkeep-session", name));
        let mut answer = open(daemon, hello);
        let mcp_session = answer.headers.iter().find(|(name, _)| name == "mcp-session-id").unwrap().1.clone();
        assert_eq!(message(&mut answer)["result"]["serverInfo"]["name"], "shellkeep");
        let client = Self { daemon, mcp_session, headers: Vec::new(), next_id: 0 };
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn request(&self, message: &Value) -> Request {
        let request =
            post(message).header("mcp-session-id", &self.mcp_session).header("mcp-protocol-version", "2025-06-18");
        self.headers.iter().fold(request, |request, (name, value)| request.header(name, value))
    }

    fn send(&self, message: &Value) {
        assert_eq!(open(self.daemon, self.request(message)).status, 202);
    }

    fn begin(&mut self, command: &str, more: Value) -> (u64, LiveResponse) {
        self.next_id += 1;
        let mut arguments = json!({"command": command});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let params = json!({"name": "run_command", "arguments": arguments, "_meta": {"progressToken": self.next_id}});
        let call = json!({"jsonrpc": "2.0", "id": self.next_id, "method": "tools/call", "params": params});
        (self.next_id, open(self.daemon, self.request(&call)))
    }

    fn run(&mut self, command: &str) -> Value {
        self.run_with(command, json!({}))
    }

    fn run_with(&mut self, command: &str, more: Value) -> Value {
        let (id, mut answer) = self.begin(command, more);
        loop {
            let message = message(&mut answer);
            if message["id"] == id {
                return message["result"]["structuredContent"].clone();
            }
        }
    }
}

fn code(answer: &Response) -> String {
    answer.json()["code"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn the_gate_is_the_same_as_for_every_route() {
    let daemon = daemon();
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "ping"});
    let sent = |request: Request| request.send(&daemon.tcp_door()).unwrap();
    let nobody = sent(post(&hello));
    assert_eq!((nobody.status, code(&nobody)), (401, "unauthorized".to_owned()));
    let key = ("authorization", format!("Bearer {TOKEN}"));
    let page = sent(post(&hello).header(key.0, &key.1).header("origin", "https://example.com"));
    assert_eq!((page.status, code(&page)), (403, "forbidden_origin".to_owned()));
    let raw = |accept: &str, body: &str| {
        let request = Request::new("POST", "/mcp").header(key.0, &key.1).header("accept", accept);
        let answer = sent(request.json(body));
        assert_eq!(answer.header("content-type"), Some("application/json"), "{body}");
        (answer.status, answer.json()["error"]["code"].as_i64().unwrap())
    };
    let both = "application/json, text/event-stream";
    assert_eq!((raw(both, "{nonsense"), raw(both, ""), raw(both, "[]")), ((400, -32700), (400, -32700), (400, -32600)));
    assert_eq!(raw("text/html", "{}"), (406, -32000));
    let stale = sent(
        post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))
            .header(key.0, &key.1)
            .header("mcp-session-id", "gone"),
    );
    assert_eq!((stale.status, &stale.json()["error"]["code"]), (404, &json!(-32001)), "{}", stale.text());
    let long = format!("{{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"{}\"}}", "x".repeat(65 << 20));
    let long = Request::new("POST", "/mcp")
        .header(key.0, &key.1)
        .header("accept", "application/json, text/event-stream")
        .json(long);
    assert_eq!(long.send(&daemon.tcp_door()).map(|answer| answer.status).unwrap_or(413), 413);
}

#[test]
fn a_client_keeps_its_session_and_may_name_it() {
    let daemon = daemon();
    let mut client = Client::start(&daemon);
    client.run("cd /usr; x=1");
    assert_eq!(client.run("echo $x $PWD")["stdout"], "1 /usr\n");
    let mut other = Client::start(&daemon);
    assert_eq!(other.run("echo \"[$x]\"")["stdout"], "[]\n");
    other.headers.push(("shellkeep-session", "named".to_owned()));
    other.run("y=2");
    assert_eq!(daemon.sh("named", "echo $y").out(), "2\n");
    let sessions = daemon.get("/v1/sessions").json();
    let names: Vec<&str> = sessions["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|session| session["session_id"].as_str().unwrap())
        .collect();
    assert_eq!(names.iter().filter(|name| name.starts_with("mcp-web-")).count(), 2, "{names:?}");
    other.headers[0].1 = "../x".to_owned();
    other.next_id += 1;
    let call = json!({"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": {"name": "run_command", "arguments": {"command": "true"}}});
    let refused = message(&mut open(&daemon, other.request(&call)));
    assert_eq!(refused["result"]["isError"], true, "{refused}");
}

/// The name in the header of `initialize` was checked and then forgotten: commands ran in a session of another name.
#[test]
fn a_client_may_name_its_session_once() {
    let daemon = daemon();
    let mut client = Client::start_in(&daemon, Some("named"));
    client.run("x=1");
    assert_eq!(daemon.sh("named", "echo $x").out(), "1\n");
    // A request that names another one has that.
    client.headers.push(("shellkeep-session", "other".to_owned()));
    client.run("x=2");
    client.headers.clear();
    assert_eq!(client.run("echo $x")["stdout"], "1\n");
    assert_eq!(daemon.sh("other", "echo $x").out(), "2\n");
    let sessions = daemon.get("/v1/sessions").text();
    assert!(!sessions.contains("mcp-web-"), "{sessions}");
}

/// A client with a name that is none, or an unknown toolset, was given an MCP session, and told with its first call.
#[test]
fn a_client_that_begins_wrongly_is_told_at_once() {
    let daemon = daemon();
    let about = json!({"name": "web", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about});
    let hello = json!({"jsonrpc": "2.0", "id": 5, "method": "initialize", "params": params});
    let refused = |request: Request, expected: &str| {
        let sent = request.header("authorization", &format!("Bearer {TOKEN}")).send(&daemon.tcp_door());
        let answer = sent.expect("the daemon answers");
        let error = answer.json();
        assert_eq!((answer.status, answer.header("mcp-session-id")), (400, None), "{error}");
        assert_eq!((&error["id"], &error["error"]["code"]), (&json!(5), &json!(-32602)), "{error}");
        assert!(error["error"]["message"].as_str().unwrap().contains(expected), "{error}");
    };
    for name in ["a b", ".x", &"x".repeat(200)] {
        refused(post(&hello).header("shellkeep-session", name), "Shellkeep-Session");
    }
    let mut other = post(&hello);
    other.target = "/mcp?toolset=zz".to_owned();
    refused(other, "`terminal`");
}

#[test]
fn progress_comes_and_a_cancelled_command_ends() {
    let daemon = daemon();
    let mut client = Client::start(&daemon);
    let mark = unique_sleep();
    client.run("x=1");
    let command = format!("echo begun; sleep {mark}");
    let (id, mut answer) = client.begin(&command, json!({"request_id": "k", "timeout": 600}));
    assert_eq!(message(&mut answer)["params"]["message"], "begun");
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    assert_eq!(client.run("echo $x")["stdout"], "1\n");
    assert!(procs::marked(&mark).is_empty());
    let again = client.run_with(&command, json!({"request_id": "k", "timeout": 600}));
    assert_eq!((&again["status"], &again["stdout"]), (&json!("interrupted"), &json!("begun\n")));
}

#[test]
fn a_client_that_hangs_up_finds_its_result_afterwards() {
    let daemon = daemon();
    let mut client = Client::start(&daemon);
    let go = daemon.directory().join("go");
    let command = format!("echo begun; until [ -e {} ]; do sleep 0.01; done; echo over", go.display());
    let (_, mut answer) = client.begin(&command, json!({"request_id": "k"}));
    assert_eq!(message(&mut answer)["params"]["message"], "begun");
    drop(answer);
    fs::write(go, "").unwrap();
    let again = client.run_with(&command, json!({"request_id": "k"}));
    assert_eq!((&again["status"], &again["stdout"]), (&json!("exited"), &json!("begun\nover\n")));
}

/// Since 2026-07-28 there are no MCP sessions: every request says all there is to say. Without a progress token the
/// answer is plain JSON.
fn stateless(name: &str, arguments: Value, progress: Option<u64>) -> Request {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "new", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    if let Some(token) = progress {
        meta["progressToken"] = json!(token);
    }
    let params = json!({"name": name, "arguments": arguments, "_meta": meta});
    post(&json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}))
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", name)
}

#[test]
fn the_protocol_without_sessions_works_too() {
    let daemon = daemon();
    let key = format!("Bearer {TOKEN}");
    let call = |command: &str, more: Value, progress: Option<u64>| {
        let mut arguments = json!({"command": command});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        stateless("run_command", arguments, progress)
    };
    let run = |command: &str, more: Value| {
        let answer = call(command, more, None).header("authorization", &key).send(&daemon.tcp_door()).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["result"]["structuredContent"].clone()
    };
    run("cd /usr; x=1", json!({}));
    assert_eq!(daemon.sh("mcp-new", "echo $x $PWD").out(), "1 /usr\n");
    // To hang up is the only way to cancel here.
    let mark = unique_sleep();
    let command = format!("echo begun; sleep {mark}");
    let mut answer = open(&daemon, call(&command, json!({"request_id": "k", "timeout": 600}), Some(1)));
    assert_eq!(message(&mut answer)["params"]["message"], "begun");
    drop(answer);
    assert_eq!(daemon.sh("mcp-new", "echo $x").out(), "1\n");
    assert!(procs::marked(&mark).is_empty());
    let again = daemon.run("mcp-new", json!({"command": command, "request_id": "k", "timeout": 600}));
    assert_eq!((again.status(), again.out().as_str()), ("interrupted", "begun\n"));
}

#[test]
fn an_agent_is_at_its_own_session_and_sees_no_other() {
    let daemon = daemon();
    daemon.create_with(json!({"user_id": "bob", "session_id": "default", "agent": "bob"}));
    daemon.sh("thread_bob_default", "x=bob");
    let made = daemon.post("/v1/tokens", &json!({"agent": "ann"})).json();
    let key = format!("Bearer {}", made["token"].as_str().expect("a token has a secret"));
    let ask = |request: Request| request.header("authorization", &key).send(&daemon.tcp_door()).unwrap();
    let run = |session: Option<&str>, command: &str| {
        let request = stateless("run_command", json!({"command": command}), None);
        let request = session.map_or(request.clone(), |name| request.header("shellkeep-session", name));
        let answer = ask(request);
        answer.json()["result"]["structuredContent"]["stdout"].as_str().map(str::to_owned)
    };
    assert_eq!(run(None, "x=ann; echo $x").as_deref(), Some("ann\n"));
    assert_eq!(daemon.sh("thread_ann_default", "echo $x").out(), "ann\n");
    let read = |session: &str| {
        let mut request = stateless("x", json!({}), None);
        let uri = format!("shellkeep://sessions/{session}");
        let mut message: Value = serde_json::from_slice(&request.body).unwrap();
        message["method"] = json!("resources/read");
        message["params"] = json!({"uri": uri, "_meta": message["params"]["_meta"]});
        request.body = message.to_string().into_bytes();
        request.headers.retain(|(name, _)| !name.starts_with("mcp-name") && !name.starts_with("mcp-method"));
        let answer = ask(request.header("mcp-method", "resources/read").header("mcp-name", &uri)).json();
        answer["error"]["message"].as_str().expect("it is refused").replace(session, "SESSION")
    };
    assert_eq!(read("thread_bob_default"), read("thread_bob_nothing"));
    // Another's name is as good as any that nobody has: the agent gets a session of its own by it.
    assert_eq!(run(Some("thread_bob_default"), "echo \"[$x]\"").as_deref(), Some("[]\n"));
}

#[test]
fn the_classic_tool_is_asked_for_in_the_address() {
    let daemon = daemon();
    let client = Client::start(&daemon);
    let mut request = client.request(&json!({"jsonrpc": "2.0", "id": 5, "method": "tools/list"}));
    request.target = "/mcp?toolset=bash".to_owned();
    let tools = message(&mut open(&daemon, request));
    assert_eq!(tools["result"]["tools"][0]["name"], "bash", "{tools}");
}
