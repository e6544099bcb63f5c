//! The agent for models, against a server on this machine that speaks chat completions: what it asks, what it makes of the
//! answers, and what a crash costs it.

use crate::fixture::*;
use crate::support::Daemon;
use crate::support::procs::unique_sleep;
use serde_json::{Value, json};
use shellkeep_poll::until;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What the server was asked: path, headers and body.
#[derive(Debug, Clone)]
struct Asked {
    path: String,
    authorization: Option<String>,
    body: Value,
}

/// A server that answers as it was told, one answer after the other, and remembers what it was asked.
struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// Answers are a status and a body each. After the last one it hangs up on everybody.
    fn start(answers: Vec<(u16, Value)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let memory = Arc::clone(&asked);
        std::thread::spawn(move || {
            let mut answers = answers.into_iter();
            for stream in listener.incoming() {
                let Some((status, body)) = answers.next() else { continue };
                serve(stream.unwrap(), &memory, status, &body);
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// A session whose agent asks this server.
    fn session(&self, daemon: &Daemon) {
        let key = daemon.directory().join("key");
        std::fs::write(&key, "test-key\n").unwrap();
        let env = json!({
            "OPENAI_BASE_URL": format!("http://{}/v1", self.address),
            "OPENAI_MODEL": "test-model",
            "OPENAI_API_KEY_FILE": key.to_str().unwrap(),
        });
        with_example(daemon, "s", "openai.py", env);
    }
}

fn serve(stream: TcpStream, memory: &Mutex<Vec<Asked>>, status: u16, answer: &Value) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let path = line.split(' ').nth(1).unwrap().to_owned();
    let (mut length, mut authorization) = (0, None);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "authorization" => authorization = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    memory.lock().unwrap().push(Asked { path, authorization, body: serde_json::from_slice(&body).unwrap() });
    let answer = answer.to_string();
    let head =
        format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nretry-after: 0\r\nconnection: close\r\n");
    let _ = write!(&stream, "{head}content-length: {}\r\n\r\n{answer}", answer.len());
}

fn says(text: &str) -> (u16, Value) {
    let message = json!({"role": "assistant", "content": text});
    (
        200,
        json!({"model": "test-model-1", "choices": [{"message": message, "finish_reason": "stop"}], "usage": {"total_tokens": 7}}),
    )
}

fn calls(id: &str, arguments: &Value) -> (u16, Value) {
    let function = json!({"name": "run_command", "arguments": arguments.to_string()});
    let call = json!({"id": id, "type": "function", "function": function});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    (
        200,
        json!({"model": "test-model-1", "choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": {"total_tokens": 5}}),
    )
}

fn roles(asked: &Asked) -> Vec<&str> {
    asked.body["messages"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect()
}

#[test]
fn a_model_acts_by_commands_and_answers() {
    let server = Server::start(vec![
        calls("call_1", &json!({"command": "echo hello > out.txt; cat out.txt; cd /usr"})),
        says("It says hello."),
        says("As I said."),
    ]);
    let daemon = Daemon::start();
    server.session(&daemon);
    let result = done(&daemon, "s", "what does it say?");
    assert_eq!(result["output"], "It says hello.");
    assert_eq!(daemon.sh("s", "pwd; cat ~-/out.txt 2>/dev/null || ls").out().lines().next(), Some("/usr"));
    let asked = server.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(
        (asked[0].path.as_str(), asked[0].authorization.as_deref()),
        ("/v1/chat/completions", Some("Bearer test-key"))
    );
    assert_eq!((&asked[0].body["model"], &asked[0].body["stream"]), (&json!("test-model"), &json!(false)));
    assert_eq!(asked[0].body["tools"][0]["function"]["name"], "run_command");
    assert_eq!(roles(&asked[0]), ["system", "user"]);
    assert_eq!(asked[0].body["messages"][1]["content"], "what does it say?");
    assert_eq!(roles(&asked[1]), ["system", "user", "assistant", "tool"]);
    let answered = &asked[1].body["messages"][3];
    assert_eq!(answered["tool_call_id"], "call_1");
    let content: Value = serde_json::from_str(answered["content"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&content["stdout"], &content["exit_code"], &content["cwd"]),
        (&json!("hello\n"), &json!(0), &json!("/usr"))
    );
    let events = events(&daemon, "s");
    let calls = of_type(&events, "llm_call");
    assert_eq!((calls.len(), &calls[0]["token_usage"]["total_tokens"]), (2, &json!(5)));
    assert!(calls[0]["duration"].is_number() && calls[0]["response"]["tool_calls"].is_array(), "{}", calls[0]);
    assert_eq!(done(&daemon, "s", "again?")["output"], "As I said.");
    let third = server.asked().pop().unwrap();
    assert_eq!(roles(&third), ["system", "user", "assistant", "tool", "assistant", "user"], "it remembers");
    verify(&daemon, "s");
}

#[test]
fn a_busy_server_is_asked_again_and_a_refusal_is_told() {
    let server = Server::start(vec![
        (429, json!({"error": "slowly"})),
        (503, json!({"error": "not yet"})),
        says("there"),
        (401, json!({"error": {"message": "no such key"}})),
    ]);
    let daemon = Daemon::start();
    server.session(&daemon);
    assert_eq!(done(&daemon, "s", "hi")["output"], "there");
    assert_eq!(server.asked().len(), 3);
    let refused = resume(&daemon, "s", "hi");
    assert_eq!(refused["status"], "failed");
    assert!(
        refused["error"].as_str().unwrap().contains("answered 401")
            && refused["error"].as_str().unwrap().contains("no such key"),
        "{refused}"
    );
}

#[test]
fn a_model_that_calls_wrongly_is_told_so() {
    let unknown = {
        let (status, mut answer) = calls("c1", &json!({}));
        answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"] = "fly".into();
        (status, answer)
    };
    let broken = {
        let (status, mut answer) = calls("c2", &json!({}));
        answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = "{\"comm".into();
        (status, answer)
    };
    let server = Server::start(vec![unknown, broken, calls("c3", &json!({"command": "echo \u{0}"})), says("sorry")]);
    let daemon = Daemon::start();
    server.session(&daemon);
    assert_eq!(done(&daemon, "s", "hi")["output"], "sorry");
    let asked = server.asked();
    let last = |asked: &Asked| {
        asked.body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned()
    };
    assert!(last(&asked[1]).contains("there is no tool 'fly'"), "{}", last(&asked[1]));
    assert!(last(&asked[2]).contains("the arguments are not"), "{}", last(&asked[2]));
    assert!(last(&asked[3]).contains("not run: ") && last(&asked[3]).contains("NUL"), "{}", last(&asked[3]));
}

/// The model's answer was saved before its command ran; so after the crash the command's fate is told to the model, it is
/// not run again, and the model is not asked the same a second time.
#[test]
fn killed_in_the_middle_of_a_command_it_tells_the_model_what_is_known() {
    let mark = unique_sleep();
    let command = format!("echo ran >> ran.txt; sleep {mark}");
    let server = Server::start(vec![calls("call_1", &json!({"command": command, "timeout": 500})), says("I see.")]);
    let mut daemon = Daemon::start();
    server.session(&daemon);
    let door = daemon.door();
    let sender = std::thread::spawn(move || {
        let request = crate::support::Request::new("POST", "/v1/sessions/s/resume");
        assert!(request.json(json!({"message": "wait"}).to_string()).send(&door).is_err());
    });
    until("the command runs", || (!crate::support::procs::marked(&mark).is_empty()).then_some(()));
    for agent in living_agents(&daemon) {
        crate::support::daemon::signal(agent.pid, "STOP");
    }
    daemon.kill();
    sender.join().unwrap();
    daemon.restart();
    assert!(living_agents(&daemon).is_empty(), "one that stands still is ended too");
    assert!(crate::support::procs::marked(&mark).is_empty());
    assert_eq!(done(&daemon, "s", "and now?")["output"], "I see.");
    let asked = server.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(roles(&asked[1]), ["system", "user", "assistant", "tool", "user"]);
    assert!(asked[1].body["messages"][3]["content"].as_str().unwrap().contains("\"lost\""), "{}", asked[1].body);
    assert_eq!(daemon.sh("s", "cat ran.txt").out(), "ran\n");
    verify(&daemon, "s");
}
