//! One client cannot stop the node: what an agent, or somebody without a token, did to all doors, each told as a story.
//! Where a long form makes sense, `SHELLKEEP_SOAK` multiplies its counts.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

mod support;

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use support::daemon::signal;
use support::procs;
use support::{Agent, Daemon, Door, Request, Response, Settings, bash, is};

/// What the daemon may take of memory, whatever one client does.
const MEMORY_KIB: u64 = 512 << 10;

/// Sends a request and does not read the answer.
fn ask(agent: &Agent<'_>, head: &str) -> TcpStream {
    let Door::Tcp(address) = agent.daemon.tcp_door() else { unreachable!("a port") };
    let mut stream = TcpStream::connect(address).unwrap();
    let token = &agent.token;
    write!(stream, "{head} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n").unwrap();
    stream
}

fn daemon() -> Daemon {
    Daemon::with(Settings::default().tcp())
}

/// The rest of an answer; everything, if the daemon closes.
fn answer_of(mut stream: TcpStream) -> String {
    let mut head = vec![0; 4096];
    let read = stream.read(&mut head).unwrap();
    String::from_utf8_lossy(&head[..read]).into_owned()
}

/// Three such searches, or two services with such a pattern, held every thread of the daemon for minutes.
#[test]
fn expensive_searches_leave_the_others_alone() {
    let daemon = daemon();
    let (busy, other) = (Agent::named(&daemon, "busy"), Agent::named(&daemon, "other"));
    busy.create("s");
    other.create("s");
    let noise = "head -c 24000000 /dev/urandom | LC_ALL=C tr '\\000-\\377' '[a*128][b*]'; echo; echo needle";
    let run = busy.run("s", &json!({"command": noise, "max_output": 100}));
    let output = format!("/v1/sessions/s/runs/{}/output", run["run_id"].as_str().unwrap());
    let search = format!("GET {output}?grep=a%5Bab%5D%7B1500%7DX");
    let searches = [ask(&busy, &search), ask(&busy, &search), ask(&busy, &search)];
    // All of these are answered while the searches go on: none of those is.
    for number in 0..20 {
        let answer = other.run("s", &json!({"command": format!("echo {number}"), "timeout": 30}));
        assert_eq!(answer["stdout"], json!(format!("{number}\n")));
    }
    for stream in &searches {
        stream.set_nonblocking(true).unwrap();
        assert!(stream.peek(&mut [0]).is_err(), "a search was answered before the other agent's commands");
        stream.set_nonblocking(false).unwrap();
    }
    let [first, second, third] = searches;
    let answer = answer_of(first);
    assert!(answer.starts_with("HTTP/1.1 422") && answer.contains("search_too_expensive"), "{answer}");
    assert!(answer.contains("next_offset"), "{answer}");
    // Who hangs up gives back its turn; the next search does not wait for theirs.
    drop((second, third));
    let found = busy.get(&format!("{output}?grep=needle&offset=24000000"));
    assert_eq!(found.json()["text"], json!("needle\n"), "{}", found.text());
    let answer = busy.get(&format!("{output}?grep=%5Bab%5D%7B100000%7D"));
    assert_eq!(answer.refused(), is(400, "invalid_request"));
    let service = json!({"command": "sleep 100", "ready": {"log": "a[ab]{1500}X"}});
    let answer = busy.post("/v1/sessions/s/services", &service);
    assert_eq!(answer.refused(), is(400, "invalid_request"), "{}", answer.text());
    assert!(answer.text().contains("too large"), "{}", answer.text());
}

/// A hundred that never read took six gigabytes.
#[test]
fn followers_that_never_read_cost_little() {
    let daemon = daemon();
    daemon.create("s");
    let event = json!({"event_type": "x_big", "data": {"text": "x".repeat(60_000)}});
    let events = json!({"events": vec![event; 100]});
    for _ in 0..2 {
        let posted = daemon.post("/v1/sessions/s/events", &events);
        assert_eq!(posted.status, 201, "{}", posted.text());
    }
    let count = (20 * support::soak()).min(250);
    let follow = Request::new("GET", "/v1/sessions/s/events").header("accept", "text/event-stream");
    let followers: Vec<_> = (0..count).map(|_| follow.open(&daemon.door()).unwrap()).collect();
    for mut follower in followers {
        assert_eq!(follower.status, 200);
        // It has begun to write; it is not read any further.
        follower.body.fill_buf().unwrap();
        std::mem::forget(follower);
    }
    assert_eq!(daemon.sh("s", "echo fine").out(), "fine\n");
    let resident = procs::resident_kib(daemon.pid());
    assert!(resident < MEMORY_KIB, "{count} followers made it {resident} KiB");

    let agent = Agent::named(&daemon, "many");
    agent.create("s");
    let follow = || agent.signed(Request::new("GET", "/v1/sessions/s/events").header("accept", "text/event-stream"));
    let mut held: Vec<_> = (0..64).map(|_| follow().open(&daemon.tcp_door()).unwrap()).collect();
    assert!(held.iter().all(|follower| follower.status == 200));
    assert_eq!(agent.send(follow()).refused(), is(429, "too_many_followers"));
    // All of them read at the same time; those above the limit of searches ended with an error.
    let small = json!({"events": [{"event_type": "x_small", "data": {}}]});
    assert_eq!(agent.post("/v1/sessions/s/events", &small).status, 201);
    for follower in &mut held {
        let mut events = std::iter::from_fn(|| follower.next_event());
        assert!(events.any(|event| event.data.contains("x_small")), "a follower ended");
    }
    let other = Agent::named(&daemon, "other");
    other.create("s");
    let theirs = other.signed(Request::new("GET", "/v1/sessions/s/events").header("accept", "text/event-stream"));
    assert_eq!(theirs.open(&daemon.tcp_door()).unwrap().status, 200, "another agent has its own");
}

/// Half a header on each of 8,192 connections closed the port for all, without a token.
#[test]
fn half_requests_do_not_close_the_door() {
    let daemon = daemon();
    let agent = Agent::named(&daemon, "a");
    agent.create("s");
    let Door::Tcp(address) = daemon.tcp_door() else { unreachable!("a port") };
    let half = || {
        let mut stream = TcpStream::connect(address).unwrap();
        // One that was closed already has nothing to say to it.
        let _ = stream.write_all(b"GET /v1/sessions HTTP/1.1\r\nhost: loc");
        stream
    };
    let mut crowd: Vec<TcpStream> = Vec::new();
    for _ in 0..3 {
        crowd.extend((0..500 * support::soak().min(10)).map(|_| half()));
        assert_eq!(agent.run("s", &json!({"command": "echo in"}))["stdout"], json!("in\n"));
    }
    // The oldest made room for the newest.
    crowd[0].set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(matches!(crowd[0].read(&mut [0]), Ok(0) | Err(_)));
    let newest = crowd.last_mut().unwrap();
    newest.set_nonblocking(true).unwrap();
    assert!(newest.peek(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
    assert_eq!(daemon.get("/healthz").status, 200, "the socket has its own");
}

/// Bodies of 60 MiB without their last byte were held for ever, as many as there were connections.
#[test]
fn unfinished_bodies_are_counted() {
    const BODY: usize = 60 << 20;
    let daemon = daemon();
    let (busy, other) = (Agent::named(&daemon, "busy"), Agent::named(&daemon, "other"));
    busy.create("s");
    other.create("s");
    let Door::Tcp(address) = daemon.tcp_door() else { unreachable!("a port") };
    let begin = |agent: &Agent<'_>| {
        let mut stream = TcpStream::connect(address).unwrap();
        let token = &agent.token;
        write!(
            stream,
            "POST /v1/sessions/s/run HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
             connection: close\r\ncontent-length: {BODY}\r\n\r\n"
        )
        .unwrap();
        stream.write_all(&vec![b' '; BODY - 1]).unwrap();
        stream
    };
    let first = begin(&busy);
    let mut second = begin(&busy);
    second.write_all(b" ").unwrap();
    let refused = answer_of(second);
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("too_much_in_flight"), "{refused}");
    let third = begin(&other);
    assert_eq!(other.run("s", &json!({"command": "echo in"}))["stdout"], json!("in\n"));
    let resident = procs::resident_kib(daemon.pid());
    assert!(resident < MEMORY_KIB, "{resident} KiB");
    let late = answer_of(first);
    assert!(late.starts_with("HTTP/1.1 408") && late.contains("body_timeout"), "{late}");
    drop(third);
}

/// Input beyond 64 pieces that a command had not read was acknowledged and dropped.
#[test]
fn input_that_is_not_read_is_refused_at_some_point() {
    // What is in the pipe and on its way there was taken from the queue.
    const MOST: usize = 80;
    let daemon = daemon();
    let agent = Agent::named(&daemon, "a");
    agent.create("s");
    let run = agent.run("s", &json!({"command": "sleep 1000", "blocking": false}));
    let target = format!("/v1/sessions/s/runs/{}/input", run["run_id"].as_str().unwrap());
    let piece = json!({"text": "x".repeat(64 << 10)});
    let (accepted, refused) = (0..=MOST)
        .map(|accepted| (accepted, agent.post(&target, &piece)))
        .find(|(_, answer)| answer.status != 200)
        .expect("there is an end");
    assert_eq!(refused.refused(), is(409, "input_full"), "{}", refused.text());
    assert!((64..=MOST).contains(&accepted), "{accepted} were accepted");
}

/// Commands that waited for a busy session were counted only while their bodies were read: 256 of 32 MiB each could wait.
#[test]
fn commands_that_wait_count_as_the_memory_of_their_agent() {
    const STDIN: usize = 16 << 20;
    let daemon = daemon();
    let (busy, other) = (Agent::named(&daemon, "busy"), Agent::named(&daemon, "other"));
    busy.create("s");
    other.create("s");
    let first = busy.run("s", &json!({"command": "sleep 100", "blocking": false}));
    let body = json!({"command": "wc -c", "stdin": "x".repeat(STDIN), "timeout": 200});
    std::thread::scope(|scope| {
        let (answered, answers) = mpsc::channel();
        for _ in 0..7 {
            let (busy, body, answered) = (&busy, &body, answered.clone());
            scope.spawn(move || answered.send(busy.post("/v1/sessions/s/run", body)));
        }
        drop(answered);
        // Whoever is accepted waits; seven are more than an agent may have.
        let refused = answers.recv().unwrap();
        assert_eq!(refused.refused(), is(429, "too_much_in_flight"), "{}", refused.text());
        assert_eq!(other.run("s", &json!({"command": "echo in"}))["stdout"], json!("in\n"));
        let resident = procs::resident_kib(daemon.pid());
        assert!(resident < MEMORY_KIB, "{resident} KiB");
        let target = format!("/v1/sessions/s/runs/{}/signal", first["run_id"].as_str().unwrap());
        assert_eq!(busy.post(&target, &json!({"signal": "INT"})).status, 200);
        for answer in answers.iter().filter(|answer| answer.status != 429) {
            assert_eq!(answer.json()["stdout"], json!(format!("{STDIN}\n")), "{}", answer.text());
        }
    });
    // What they had is free again.
    assert_eq!(busy.run("s", &body)["stdout"], json!(format!("{STDIN}\n")));
}

/// A list of thirty million zeros, 60 MB, made the daemon use 6.6 GB: only the bytes were counted, and each zero became a
/// value of 32 bytes, in several copies.
#[test]
fn a_body_of_too_many_values_is_refused() {
    let daemon = daemon();
    let (busy, other) = (Agent::named(&daemon, "busy"), Agent::named(&daemon, "other"));
    busy.create("s");
    other.create("s");
    let zeros = |count: usize| format!("[0{}]", ",0".repeat(count));
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"no_such","arguments":{{"a":{}}}}}}}"#,
        zeros(30_000_000)
    );
    let request = Request::new("POST", "/mcp").header("accept", "application/json, text/event-stream");
    let answer = busy.send(request.json(call));
    assert_eq!(answer.refused(), is(413, "payload_too_large"), "{}", answer.text());
    assert!(answer.text().contains("so many values"), "{}", answer.text());
    let event = format!(r#"{{"event_type":"x_zeros","data":{{"a":{}}}}}"#, zeros(5_000_000));
    let answer = busy.send(Request::new("POST", "/v1/sessions/s/events").json(event));
    assert_eq!(answer.refused(), is(413, "payload_too_large"), "{}", answer.text());
    let peak = procs::peak_resident_kib(daemon.pid());
    assert!(peak < MEMORY_KIB, "{peak} KiB");
    // A batch as a framework sends it: a thousand events, each with a conversation.
    let message = json!({"role": "user", "content": "x".repeat(200), "metadata": {}, "tool_calls": []});
    let data = json!({"prompt": vec![message; 20], "response": {"text": "y".repeat(500)}, "token_usage": {"total": 9}});
    let events = json!({"events": vec![json!({"event_type": "x_call", "data": data}); 1000]});
    let posted = busy.post("/v1/sessions/s/events", &events);
    assert_eq!(posted.status, 201, "{}", posted.text());
    assert_eq!(other.run("s", &json!({"command": "echo in"}))["stdout"], json!("in\n"));
}

/// Three readers of a session with one variable of 400 kB took 800 MB, and commands of others ten seconds: each of them
/// built a search for twenty forms of the value, on the threads that serve everybody.
#[test]
fn a_large_secret_costs_little_to_mask() {
    let daemon = daemon();
    let (busy, other) = (Agent::named(&daemon, "busy"), Agent::named(&daemon, "other"));
    busy.create("s");
    other.create("s");
    let set = |name: &str| busy.sh("s", &format!("{name}=$(head -c 300000 /dev/urandom | base64 -w0)"));
    let page = "/v1/sessions/s/events?redact=true&limit=1";
    set("A_TOKEN");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let answer = busy.get(page);
                assert_eq!(answer.status, 200, "{}", answer.text());
            });
        }
        assert_eq!(other.run("s", &json!({"command": "echo in"}))["stdout"], json!("in\n"));
    });
    let peak = procs::peak_resident_kib(daemon.pid());
    assert!(peak < MEMORY_KIB, "{peak} KiB");
    // What is too much to look for is refused, not shown.
    set("B_TOKEN");
    let answer = busy.get(page);
    assert_eq!(answer.refused(), is(422, "too_many_secrets"), "{}", answer.text());
    assert_eq!(busy.get("/v1/sessions/s/events?limit=1").status, 200);
}

fn initialize(agent: &Agent<'_>) -> Response {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params":
        {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}});
    let request = Request::new("POST", "/mcp").header("accept", "application/json, text/event-stream");
    agent.send(request.json(body.to_string()))
}

/// One agent's MCP clients took the places of all, who were answered with 500; an MCP session's id served anybody.
#[test]
fn mcp_clients_are_counted_and_their_own() {
    let daemon = daemon();
    let (busy, other) = (Agent::named(&daemon, "busy"), Agent::named(&daemon, "other"));
    let begun = initialize(&busy);
    assert_eq!(begun.status, 200, "{}", begun.text());
    let id = begun.header("mcp-session-id").unwrap().to_owned();
    let ping = |agent: &Agent<'_>, id: &str| {
        let request = Request::new("POST", "/mcp").header("accept", "application/json, text/event-stream");
        let body = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}).to_string();
        agent.send(request.header("mcp-session-id", id).json(body))
    };
    assert_eq!(ping(&busy, &id).status, 200);
    let (foreign, unknown) = (ping(&other, &id), ping(&other, "no-such-session"));
    assert_eq!((foreign.status, foreign.text()), (unknown.status, unknown.text()), "another's is like none");
    assert_eq!(foreign.status, 404);
    let delete = |agent: &Agent<'_>| agent.send(Request::new("DELETE", "/mcp").header("mcp-session-id", &id)).status;
    assert_eq!((delete(&other), delete(&busy), ping(&busy, &id).status), (404, 204, 404));

    // The one above may still be on its way out.
    let made = (0..300).map(|_| initialize(&busy)).find(|answer| answer.status != 200).expect("there is an end");
    assert_eq!(made.refused(), is(429, "too_many_clients"));
    assert_eq!(initialize(&other).status, 200, "others have their own");
}

/// A service's URL was asked whoever listened there, so that the daemon asked others in its own name.
#[test]
fn a_url_is_asked_only_where_the_service_listens() {
    let daemon = Daemon::start();
    daemon.create("s");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let asked = AtomicUsize::new(0);
    let url = format!("http://{}/admin", listener.local_addr().unwrap());
    std::thread::scope(|scope| {
        let listening = scope.spawn(|| {
            for stream in listener.incoming() {
                let mut line = String::new();
                BufReader::new(stream.unwrap()).read_line(&mut line).unwrap();
                if line.starts_with("end") {
                    return;
                }
                asked.fetch_add(1, Ordering::Relaxed);
            }
        });
        let body = json!({"command": "sleep 100", "ready": {"http": url}, "wait": 2});
        let service = daemon.post("/v1/sessions/s/services", &body);
        assert_eq!(service.json()["status"], json!("starting"), "{}", service.text());
        TcpStream::connect(listener.local_addr().unwrap()).unwrap().write_all(b"end\n").unwrap();
        listening.join().unwrap();
    });
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

/// `wait` without a condition was waited for to its end.
#[test]
fn a_service_without_a_condition_is_not_waited_for() {
    let daemon = Daemon::start();
    daemon.create("s");
    let began = Instant::now();
    let started = daemon.post("/v1/sessions/s/services", &json!({"command": "sleep 100", "wait": 30}));
    assert_eq!(started.json()["status"], json!("running"), "{}", started.text());
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    let wrong = daemon.post("/v1/sessions/s/services", &json!({"command": "no-such-command-here", "wait": 30}));
    assert_eq!(wrong.json()["status"], json!("exited"), "a wrong command shows: {}", wrong.text());
}

/// The result of a command that ended in the background listed changes that its session never got.
#[test]
fn a_command_in_the_background_changes_nothing() {
    let daemon = Daemon::start();
    daemon.create("s");
    let home = daemon.sh("s", "pwd").out();
    let command = "cd /; export LOST=1; lost() { :; }; until [ -e \"$OLDPWD/go\" ]; do sleep 0.05; done";
    let run = daemon.run("s", json!({"command": command, "timeout": 0.5, "on_timeout": "background"}));
    assert_eq!(run.status(), "running", "{:?}", run.json);
    daemon.sh("s", "touch go");
    let ended = daemon.wait_run("s", run.run_id(), 30);
    assert_eq!(ended.status(), "exited", "{:?}", ended.json);
    assert!(!ended.json["changes"].to_string().to_lowercase().contains("lost"), "{:?}", ended.json);
    assert_eq!(ended.json["cwd"], home.trim_end(), "{:?}", ended.json);
    assert_eq!(daemon.sh("s", "echo \"[$LOST]\"; pwd").out(), format!("[]\n{home}"));
}

/// A name that turns the order of letters round was passed on to the terminal.
#[test]
fn a_table_does_not_turn_round() {
    let daemon = Daemon::start();
    daemon.create("s");
    let name = "web\u{202e}gpj.exe\u{200b}";
    let started = daemon.post("/v1/sessions/s/services", &json!({"command": "sleep 100", "name": name}));
    assert_eq!(started.status, 201, "{}", started.text());
    let mut list = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    list.env_clear().envs(bash::environment()).args(["services", "ls", "--data"]).arg(daemon.data());
    let output = list.arg("--socket").arg(daemon.directory().join("s.sock")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("web") && text.contains("gpj.exe"), "{text}");
    assert!(!text.contains(['\u{202e}', '\u{200b}']), "{text:?}");
}

/// A terminal that was closed ended the daemon, and with it every session.
#[test]
fn a_hangup_ends_nothing() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "x=kept");
    signal(daemon.pid(), "HUP");
    assert_eq!(daemon.sh("s", "echo $x").out(), "kept\n");
    assert_eq!(daemon.sh("s", "trap -p HUP; kill -HUP $BASHPID; :").exit_code(), Some(129), "a shell still heeds it");
}

/// Of several Host headers only the first was looked at.
#[test]
fn every_host_is_looked_at() {
    let daemon = daemon();
    let agent = Agent::named(&daemon, "a");
    let two = |second: &str| agent.send(Request::new("GET", "/v1/sessions").header("host", second)).refused();
    assert_eq!(two("evil.example"), is(403, "forbidden_host"));
    assert_eq!(two("127.0.0.1"), is(400, "invalid_request"));
}

/// The limits of each agent in the test below.
const LIMITS: [(&str, &str); 5] = [
    ("--processes-per-agent", "60"),
    ("--session-processes", "40"),
    ("--memory-bytes-per-agent", "134217728"),
    ("--sessions-per-agent", "5"),
    ("--files-per-session", "2000"),
];

/// Allocates until it is killed.
const EAT: &str = "head -c 10G /dev/zero | tail -c 20G | wc -c";

/// Counts on in a session, each number a command, and gives the median of how long they took.
fn count(agent: &Agent<'_>, numbers: std::ops::RangeInclusive<usize>) -> Duration {
    let mut times: Vec<Duration> = numbers
        .map(|number| {
            let started = Instant::now();
            let answer = agent.sh("s", "n=$((n + 1)); echo $n | cat; echo $n >> counted");
            let expected = (&json!(format!("{number}\n")), &json!([]));
            assert_eq!((&answer["stdout"], &answer["notices"]), expected, "{answer}");
            started.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// Starts everything that meets a limit, and waits until the agent is at that of its processes.
fn meet_all_limits(greedy: &Agent<'_>) {
    let begin = |session: &str, command: &str| {
        greedy.run(session, &json!({"command": command, "blocking": false, "timeout": 300}))
    };
    // It starts no process after the first, so that it is not stopped for another limit.
    begin("disk", "mkfifo never; for i in {1..3000}; do printf %020000d 0 > f$i; done; read -r -t 300 <> never");
    begin("memory", &format!("while :; do {EAT}; done"));
    begin("fork", "bomb() { bomb | bomb & }; bomb; wait");
    let sleepers = json!({
        "command": "for i in {1..100}; do sleep 300 & done; wait",
        "blocking": false,
        "timeout": 300,
        // A command that waits its turn here is not begun before the first one is killed, a minute later.
        "if_busy": "reject",
    });
    shellkeep_poll::until("the agent is at its limit", || {
        for session in ["bomb", "bombs"] {
            // It is refused while it runs, and while the fork bomb has all processes, which then ends.
            greedy.post(&format!("/v1/sessions/{session}/run"), &sleepers);
        }
        processes(greedy).filter(|used| *used >= 55)
    });
}

/// The processes of an agent.
fn processes(agent: &Agent<'_>) -> Option<u64> {
    agent.get("/v1/quotas").json()["quotas"]["processes_per_agent"]["used"].as_u64()
}

/// One agent with four sessions used up the processes of the node, its memory and its disk; commands of others failed.
/// With `SHELLKEEP_SOAK` it has 1,000 connections and sends 10,000 requests meanwhile.
#[test]
fn an_agent_at_every_limit_does_not_disturb_another() {
    const COMMANDS: usize = 100;
    let (connections, requests) = ((300 * support::soak()).min(1000), (200 * support::soak()).min(10_000));
    let settings = LIMITS.iter().fold(Settings::default().tcp(), |settings, (name, value)| settings.set(name, value));
    let daemon = Daemon::with(settings);
    let (greedy, other) = (Agent::named(&daemon, "greedy"), Agent::named(&daemon, "other"));
    other.create("s");
    for session in ["bomb", "bombs", "memory", "disk", "fork"] {
        greedy.create(session);
    }
    let full = greedy.post("/v1/sessions", &json!({"session_id": "sixth"}));
    assert_eq!(
        (full.refused(), full.json()["quota"].clone()),
        (is(429, "quota_exceeded"), json!("sessions_per_agent"))
    );
    let doctor = Command::new(env!("CARGO_BIN_EXE_shellkeep")).arg("doctor").output().unwrap();
    let has_memory_limit = !String::from_utf8_lossy(&doctor.stdout).contains("no usable memory controller");
    assert!(has_memory_limit || std::env::var_os("CI").is_none(), "{doctor:?}");
    if has_memory_limit {
        let eaten = greedy.sh("memory", EAT);
        let codes: Vec<_> = eaten["notices"].as_array().unwrap().iter().map(|notice| &notice["code"]).collect();
        assert_eq!(codes, ["memory_limit"], "{eaten}");
    }
    let alone = count(&other, 1..=COMMANDS);
    meet_all_limits(&greedy);
    let connections: Vec<TcpStream> = (0..connections).map(|_| ask(&greedy, "GET /v1/sessions")).collect();
    let beside = std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..requests / 4 {
                    // Some are refused.
                    let _ = greedy.signed(Request::new("GET", "/v1/sessions")).send(&daemon.tcp_door());
                }
            });
        }
        count(&other, COMMANDS + 1..=2 * COMMANDS)
    });
    let ratio = beside.as_secs_f64() / alone.as_secs_f64();
    println!("median of a command: {alone:?} alone, {beside:?} beside an agent at every limit: {ratio:.2}x");
    assert!(processes(&other).unwrap() < 10);
    drop(connections);
    shellkeep_poll::until("the disk filler is stopped", || {
        let runs = greedy.get("/v1/sessions/disk/runs").json();
        (runs["runs"][0]["status"] != json!("running")).then_some(())
    });
    let counted = format!("{0} {0}\n", 2 * COMMANDS);
    assert_eq!(other.sh("s", "echo $n $(wc -l < counted)")["stdout"], json!(counted));
}

/// The name by which another's session is stored was taken for the short name of the caller's own, and all runs of the other
/// were listed.
#[test]
fn who_names_a_session_like_anothers_does_not_see_its_runs() {
    let daemon = daemon();
    let (ann, bob) = (Agent::named(&daemon, "ann"), Agent::named(&daemon, "bob"));
    let theirs = ann.create("main");
    assert_eq!(bob.create(&theirs), "thread_bob_thread_ann_main");
    let listed =
        |agent: &Agent<'_>, query: &str| agent.get(&format!("/v1/sessions?{query}")).json()["sessions"].clone();
    let run = |body: Value| assert_eq!(ann.post("/v1/sessions/main/run", &body).status, 200);
    run(json!({"command": "false # ann"}));
    run(json!({"command": "sleep 600 # ann", "blocking": false}));
    for query in ["", "?status=running", "?status=failed"] {
        assert_eq!(bob.get(&format!("/v1/runs{query}")).json()["runs"], json!([]), "{query}");
    }
    // Nor that it is in use.
    assert_eq!(listed(&ann, "running=true")[0]["session_id"], json!(theirs));
    assert_eq!((listed(&bob, "running=true"), listed(&bob, "live=true")), (json!([]), json!([])));
    assert_eq!(bob.post(&format!("/v1/sessions/{theirs}/run"), &json!({"command": "true # bob"})).status, 200);
    let runs = bob.get("/v1/runs").json();
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(1), "{runs}");
    assert_eq!(runs["runs"][0]["session_id"], "thread_bob_thread_ann_main");
}
