//! Bugs that a hostile user found, each told as a story so that it cannot come back.

#![allow(clippy::expect_used, reason = "a test that cannot go on should stop")]

mod support;

use serde_json::{Value, json};
use shellkeep_poll::until;
use std::time::{Duration, Instant};
use support::procs::{self, unique_sleep};
use support::{Daemon, Request, Settings};

/// A call that must not take longer than its timeout and the promised second.
fn timed_run(daemon: &Daemon, session: &str, body: &Value) -> (u16, Value, Duration) {
    let started = Instant::now();
    let answer = daemon.post(&format!("/v1/sessions/{session}/run"), body);
    (answer.status, answer.json(), started.elapsed())
}

/// Starts a command and waits for its first output, so that what it sets up before that is there. Gives the run.
fn begin(daemon: &Daemon, command: &str) -> String {
    let mut stream = daemon.stream("s", &json!({"command": command, "timeout": 20}));
    stream.next_event().expect("it says that it is ready");
    let busy = daemon.post("/v1/sessions/s/run", &json!({"command": ":", "if_busy": "reject"})).json();
    busy["run_id"].as_str().expect("it runs").to_owned()
}

/// With every shell busy, a command used to wait ten seconds whatever its timeout, and was then refused although shells
/// had long been idle again.
#[test]
fn a_command_waits_for_a_shell_as_long_as_it_may_and_gets_the_first_one() {
    let daemon = Daemon::with(Settings::default().env("SHELLKEEP_MAX_SHELLS", "2").env("SHELLKEEP_SPARE_SHELLS", "0"));
    let names = ["a", "b", "c", "d"];
    for name in names {
        daemon.create(name);
    }
    for name in ["a", "b"] {
        daemon.run(name, json!({"command": "read line", "blocking": false, "timeout": 20}));
    }
    let (status, refusal, took) = timed_run(&daemon, "c", &json!({"command": "echo", "timeout": 1}));
    assert_eq!((status, refusal["code"].as_str()), (503, Some("overloaded")), "{refusal}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(daemon.get("/v1/sessions/c").status, 200, "a session that waits can be asked");
    let answer = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| daemon.run("d", json!({"command": "echo got one", "timeout": 15})));
        let busy = daemon.post("/v1/sessions/a/run", &json!({"command": "x", "if_busy": "reject"})).json();
        let run_id = busy["run_id"].as_str().expect("a runs").to_owned();
        daemon.post(&format!("/v1/sessions/a/runs/{run_id}/input"), &json!({"text": "go\n"}));
        waiting.join().expect("it is answered")
    });
    assert_eq!(answer.out(), "got one\n", "the shell of an idle session was taken");
}

/// A retry used to wait for the end of the first call's run, however long that took.
#[test]
fn a_retry_has_its_own_patience() {
    let daemon = Daemon::start();
    daemon.create("s");
    let first = json!({"command": "read line; echo \"$line\"", "request_id": "k", "blocking": false, "timeout": 20});
    let run_id = daemon.run("s", first).run_id().to_owned();
    let again = json!({"command": "read line; echo \"$line\"", "request_id": "k", "timeout": 1});
    let (_, view, took) = timed_run(&daemon, "s", &again);
    assert_eq!((view["status"].as_str(), view["run_id"].as_str()), (Some("running"), Some(run_id.as_str())));
    assert!(took < Duration::from_secs(2), "{took:?}");
    daemon.post(&format!("/v1/sessions/s/runs/{run_id}/input"), &json!({"text": "done\n"}));
    assert_eq!(daemon.run("s", again).out(), "done\n");
}

/// A watcher used to learn nothing of a command that went to the background, and to watch it to its end.
#[test]
fn a_watcher_learns_that_a_command_went_to_the_background() {
    let daemon = Daemon::start();
    daemon.create("s");
    let mark = unique_sleep();
    let command = format!("echo begun; sleep {mark}");
    let body = json!({"command": command, "timeout": 0.3, "on_timeout": "background"});
    let mut stream = daemon.stream("s", &body);
    let mut last = Value::Null;
    while let Some(event) = stream.next_event() {
        last = serde_json::from_str(&event.data).expect("JSON");
    }
    assert_eq!((last["status"].as_str(), last["notices"][0]["code"].as_str()), (Some("running"), Some("backgrounded")));
    assert_eq!(daemon.sh("s", "echo next").out(), "next\n");
    daemon.destroy("s");
    assert!(procs::marked(&mark).is_empty(), "it ends with its session");
}

/// Given input was dropped where there was a terminal, and the end of input was never typed.
#[test]
fn a_terminal_is_typed_into() {
    let daemon = Daemon::start();
    daemon.create("s");
    let given = daemon.run("s", json!({"command": "cat; x=1", "tty": true, "stdin": "hello\n", "timeout": 10}));
    assert_eq!((given.status(), given.exit_code()), ("exited", Some(0)), "{:?}", given.json);
    assert!(given.out().contains("hello"));
    let later = daemon.run("s", json!({"command": "cat", "tty": true, "blocking": false, "timeout": 10}));
    let target = format!("/v1/sessions/s/runs/{}/input", later.run_id());
    daemon.post(&target, &json!({"text": "typed\n", "eof": true}));
    assert_eq!(daemon.wait_run("s", later.run_id(), 10).status(), "exited");
    // Bash puts the size of the terminal into variables, which stayed in the session.
    let sized = daemon.run("s", json!({"command": "/bin/true; echo $COLUMNS", "tty": true, "timeout": 10}));
    assert_eq!(
        (sized.out().trim(), sized.json["changes"]["variables"]["set"].as_array()),
        ("80", None),
        "{:?}",
        sized.json
    );
    assert_eq!(daemon.sh("s", "echo \"<$COLUMNS$LINES>\"").out(), "<>\n");
    let plain = daemon.sh("s", "test -t 1 || echo \"no terminal $x\"");
    assert_eq!((plain.out().as_str(), plain.notice_codes()), ("no terminal 1\n", vec![]));
}

/// Beyond the quota the last bytes were in the result and nowhere else; a pager never came to the end.
#[test]
fn output_beyond_the_quota_has_a_gap_and_an_end() {
    let daemon = Daemon::with(Settings::default().env("SHELLKEEP_OUTPUT_BYTES_PER_RUN", "100000"));
    daemon.create("s");
    let run = daemon.run("s", json!({"command": "seq 100000; echo END", "max_output": 1000}));
    assert!(run.notice_codes().contains(&"output_dropped"), "{:?}", run.json);
    let base = format!("/v1/sessions/s/runs/{}/output?stream=stdout", run.run_id());
    let (mut offset, mut pages, mut last) = (0, 0, String::new());
    loop {
        let page = daemon.get(&format!("{base}&offset={offset}&limit=65536")).json();
        last.push_str(page["text"].as_str().unwrap_or_default());
        (offset, pages) = (page["next_offset"].as_u64().expect("a number"), pages + 1);
        if page["next_offset"] == page["total"] {
            break;
        }
        assert!(pages < 20, "a pager never ends");
    }
    assert!(last.starts_with("1\n2\n") && last.ends_with("100000\nEND\n"));
    assert_eq!(daemon.get(&format!("{base}&tail=4")).json()["text"], json!("END\n"));
    assert_eq!(daemon.get(&format!("{base}&grep=END")).json()["text"], json!("END\n"));
}

/// `exec <&-` left standard input closed for good, because the replacement was opened to close with the next program.
#[test]
fn closed_standard_descriptors_come_back() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "exec <&- >&- 2>&-");
    let next = daemon.sh("s", "cat; echo out; echo err >&2");
    assert_eq!((next.out().as_str(), next.err().as_str(), next.exit_code()), ("out\n", "err\n", Some(0)));
}

/// A restart told the caller of the running command that its processes go on.
#[test]
fn a_command_that_the_host_ends_is_told_so() {
    let daemon = Daemon::start();
    daemon.create("s");
    let mark = unique_sleep();
    let mut stream = daemon.stream("s", &json!({"command": format!("echo begun; sleep {mark}"), "timeout": 30}));
    stream.next_event().expect("it has begun");
    assert_eq!(daemon.post("/v1/sessions/s/restart", &json!({})).status, 200);
    let mut last = Value::Null;
    while let Some(event) = stream.next_event() {
        last = serde_json::from_str(&event.data).expect("JSON");
    }
    let text = last["notices"].to_string();
    assert!(last["status"] == json!("interrupted") && text.contains("was restarted"), "{last}");
    assert!(!text.contains("keep running"), "{text}");
    // It is killed before the answer, and takes a moment to be gone.
    until("the command is gone", || procs::marked(&mark).is_empty().then_some(()));
}

/// A signal went to the children only, so the shell's own trap never ran.
#[test]
fn a_trap_sees_the_signal() {
    let daemon = Daemon::start();
    daemon.create("s");
    for signal in ["TERM", "INT"] {
        let command = format!("trap 'echo caught; exit 5' {signal}; echo ready; while :; do sleep 0.1; done");
        let run_id = begin(&daemon, &command);
        daemon.signal_run("s", &run_id, signal);
        let done = daemon.wait_run("s", &run_id, 10);
        assert!(done.out().ends_with("caught\n"), "{signal}: {:?}", done.json);
        // It ended by itself: the signal was told instead of its own exit code.
        assert_eq!((done.status(), done.exit_code(), done.signal()), ("exited", Some(5), None), "{:?}", done.json);
    }
}

/// Bash's own handler was once taken for a trap, and an interrupted command lost its shell and what it had changed.
#[test]
fn an_interrupted_command_keeps_what_it_changed() {
    let daemon = Daemon::start();
    daemon.create("s");
    for signal in ["INT", "TERM", "HUP", "KILL"] {
        let mark = unique_sleep();
        let command = format!("x={signal}; echo ready; sleep {mark}");
        let run_id = begin(&daemon, &command);
        daemon.signal_run("s", &run_id, signal);
        let done = daemon.wait_run("s", &run_id, 10);
        assert_eq!((done.status(), done.notice_codes()), ("interrupted", vec![]), "{signal}: {:?}", done.json);
        assert_eq!(daemon.sh("s", "echo $x").out(), format!("{signal}\n"));
    }
}

/// A trap that does not end the command sees the signal too, and its children as well.
#[test]
fn a_trap_may_go_on() {
    let daemon = Daemon::start();
    daemon.create("s");
    let command = "trap 'echo usr; n=1' USR1; echo ready; until [ \"$n\" ]; do sleep 0.1; done";
    let run_id = begin(&daemon, command);
    daemon.signal_run("s", &run_id, "USR1");
    let done = daemon.wait_run("s", &run_id, 10);
    assert_eq!(done.status(), "exited", "{:?}", done.json);
    assert!(done.out().ends_with("usr\n"));
}

/// What a fork bomb left behind filled the session and broke every later command.
#[test]
fn a_fork_bomb_leaves_nothing_and_is_named() {
    let daemon = Daemon::with(Settings::default().env("SHELLKEEP_SESSION_PROCESSES", "40"));
    let home = daemon.create("s")["cwd"].as_str().expect("a path").to_owned();
    let bomb = daemon
        .run("s", json!({"command": "for i in {1..60}; do sleep 300 & done 2>/dev/null; echo done", "timeout": 8}));
    assert!(bomb.notice_codes().contains(&"process_limit"), "{:?}", bomb.json);
    let left = procs::working_in(home.as_ref());
    assert!(left.iter().all(|process| !process.command_line.starts_with("sleep")), "{left:?}");
    assert_eq!(daemon.sh("s", "ls / | wc -l").exit_code(), Some(0));
}

/// A variable of hundreds of megabytes was held by the daemon as well.
#[test]
fn a_huge_variable_is_not_kept_and_that_is_said() {
    let daemon = Daemon::start();
    daemon.create("s");
    let huge = daemon.sh("s", "x=$(head -c 20000000 /dev/zero | tr '\\0' a); y=small; echo ${#x}");
    assert_eq!((huge.out().as_str(), huge.notice_codes()), ("20000000\n", vec!["not_kept"]));
    assert_eq!(daemon.sh("s", "echo ${#x}").out(), "20000000\n", "the shell itself still has it");
    daemon.hibernate("s");
    assert_eq!(daemon.sh("s", "echo \"[$x]\" $y").out(), "[] small\n");
}

/// Input after the end of input was taken and thrown away.
#[test]
fn input_after_its_end_is_refused() {
    let daemon = Daemon::start();
    daemon.create("s");
    let run = daemon.run("s", json!({"command": "cat; read -t 5 < <(sleep 5)", "blocking": false, "timeout": 20}));
    let target = format!("/v1/sessions/s/runs/{}/input", run.run_id());
    assert_eq!(daemon.post(&target, &json!({"text": "a", "eof": true})).status, 200);
    let late = daemon.post(&target, &json!({"text": "b"}));
    assert_eq!((late.status, late.json()["code"].as_str()), (409, Some("no_input")));
    // It said that all input was given at the start, and to start the command as it had been started.
    assert!(late.text().contains("its input was closed") && !late.text().contains("blocking"), "{}", late.text());
}

/// By its request_id, a run that had ended was not found; by its run_id it had ended.
#[test]
fn a_run_that_has_ended_is_found_by_either_name() {
    let daemon = Daemon::start();
    daemon.create("s");
    let run = daemon.run("s", json!({"command": "true", "request_id": "once"}));
    for sleeps in [false, true] {
        if sleeps {
            daemon.hibernate("s");
        }
        for name in [run.run_id(), "once"] {
            let late = daemon.signal_run("s", name, "INT");
            assert_eq!(
                (late.status, late.json()["code"].as_str()),
                (409, Some("run_ended")),
                "{name}: {}",
                late.text()
            );
            assert!(late.text().contains(run.run_id()), "{}", late.text());
        }
        let never = daemon.signal_run("s", "never", "INT");
        assert_eq!((never.status, never.json()["code"].as_str()), (404, Some("run_not_found")));
    }
}

/// A cut in the middle of a character made text look like binary.
#[test]
fn text_is_cut_between_characters() {
    let daemon = Daemon::start();
    daemon.create("s");
    let cut = daemon.run("s", json!({"command": "printf 'aé%.0s' {1..1000}", "max_output": 101}));
    assert_eq!(cut.json["truncated"], json!(true));
    assert!(cut.json["stdout_base64"].is_null() && !cut.out().contains('\u{fffd}'), "{:?}", cut.json);
}

/// A connection that never finished its request was kept for ever.
#[test]
fn a_request_that_never_ends_is_given_up() {
    use std::io::{Read as _, Write as _};
    let daemon = Daemon::start();
    let mut connection = std::os::unix::net::UnixStream::connect(daemon.directory().join("s.sock")).expect("a door");
    connection.write_all(b"GET /healthz HT").expect("half a request");
    connection.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit for the test");
    let mut rest = Vec::new();
    connection.read_to_end(&mut rest).expect("the daemon closes the connection");
    assert_eq!(Request::new("GET", "/healthz").send(&daemon.door()).expect("others are served").status, 200);
}
