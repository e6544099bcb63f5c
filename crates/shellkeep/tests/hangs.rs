//! No command hangs. Whatever a command starts, ignores, holds or forks, the answer comes within its timeout and one
//! second more, nothing of it is left running, and the session goes on with its state.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

mod support;

use serde_json::json;
use shellkeep_poll::until;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::procs::{self, unique_sleep};
use support::{Daemon, Reply, Settings};

/// What a caller is promised beyond the timeout it gave.
const GRACE: Duration = Duration::from_secs(1);
/// Long enough for a command to get going on a busy machine, short enough to run many.
const TIMEOUT: f64 = 1.0;

/// A command that does not end, and what becomes of what it did before.
struct Hang {
    name: &'static str,
    /// `{mark}` stands for a duration by which its processes are found.
    command: &'static str,
    /// Whether the shell itself can be interrupted, so that what the command did before is kept.
    interruptible: bool,
}

/// They wait.
const WAITING: &[Hang] = &[
    Hang { name: "a child", command: "sleep {mark}", interruptible: true },
    Hang {
        name: "a child that ignores TERM",
        command: "bash -c \"trap '' TERM INT HUP; sleep {mark}; sleep {mark}\"",
        interruptible: true,
    },
    Hang {
        name: "a child in its own session",
        command: "setsid sleep {mark} & setsid -w sleep {mark}",
        interruptible: true,
    },
    Hang { name: "a double fork", command: "( (sleep {mark} &) & ); sleep {mark}", interruptible: true },
    Hang {
        name: "a double fork that ignores TERM",
        command: "( (trap '' TERM HUP INT; setsid sleep {mark} &) & ); sleep {mark}",
        interruptible: true,
    },
    Hang { name: "a held pipe", command: "sleep {mark} | cat", interruptible: true },
    Hang { name: "a pipeline of many", command: "yes | cat | sleep {mark} | cat | cat", interruptible: true },
    Hang { name: "inside a substitution", command: "x=$(sleep {mark}); echo no", interruptible: true },
    Hang { name: "inside two substitutions", command: "x=$(echo $(sleep {mark})); echo no", interruptible: true },
    Hang { name: "wait for a job", command: "sleep {mark} & wait", interruptible: true },
    Hang {
        name: "a subshell that ignores TERM",
        command: "(trap '' TERM INT; sleep {mark}; sleep {mark})",
        interruptible: true,
    },
    Hang { name: "process substitution", command: "cat <(sleep {mark})", interruptible: true },
    Hang { name: "a FIFO nobody opens", command: "mkfifo p; cat p", interruptible: true },
    Hang { name: "a FIFO the shell itself opens", command: "mkfifo p; read x < p", interruptible: true },
    Hang { name: "a coprocess", command: "coproc sleep {mark}; read x <&${COPROC[0]}", interruptible: true },
    Hang { name: "a lock", command: "exec 9>l; flock 9; flock l sleep {mark}", interruptible: true },
    Hang { name: "a loop of sleeps", command: "while :; do sleep {mark}; done", interruptible: true },
    Hang { name: "a stopped shell", command: "kill -STOP $$", interruptible: true },
    Hang { name: "a stopped child", command: "bash -c 'kill -STOP $$; sleep {mark}'", interruptible: true },
    Hang { name: "a stopped group", command: "sleep {mark} & kill -STOP $!; wait", interruptible: true },
    Hang { name: "a shell that became something else", command: "exec sleep {mark}", interruptible: false },
    Hang { name: "a terminal reader", command: "cat /dev/tty; sleep {mark}", interruptible: true },
    Hang {
        name: "a child that forks on TERM",
        command: "bash -c 'trap \"sleep {mark} & sleep {mark}\" TERM; sleep {mark}'",
        interruptible: true,
    },
    Hang { name: "nohup", command: "nohup sleep {mark} >/dev/null 2>&1 & sleep {mark}", interruptible: true },
    Hang {
        name: "another directory and no environment",
        command: "(cd /; env -i setsid sleep {mark} &); sleep {mark}",
        interruptible: true,
    },
];

/// They take all the processor time that they get.
const SPINNING: &[Hang] = &[
    Hang { name: "endless output", command: "yes", interruptible: true },
    Hang { name: "endless output to stderr", command: "yes >&2", interruptible: true },
    Hang { name: "endless builtin output", command: "while :; do echo y; done", interruptible: true },
    Hang { name: "a spinning shell", command: "while :; do :; done", interruptible: true },
    Hang {
        name: "a spinning shell that ignores signals",
        command: "trap '' TERM INT HUP QUIT; while :; do :; done",
        interruptible: true,
    },
    Hang {
        name: "a spinning shell that catches signals",
        command: "trap ':' TERM INT HUP QUIT EXIT; while :; do :; done",
        interruptible: true,
    },
    Hang { name: "a loop of children", command: "while :; do /bin/true; done", interruptible: true },
    Hang { name: "an endless trap", command: "trap 'while :; do :; done' EXIT; exit", interruptible: false },
];

fn within_promise(reply: &Reply, timeout: f64, what: &str) {
    let limit = Duration::from_secs_f64(timeout) + GRACE;
    assert!(reply.took <= limit, "{what}: answered after {:?}, promised within {limit:?}", reply.took);
}

/// Hangs once in a session of its own, checks what is left of it, and gives the time the answer took.
fn hang_once(daemon: &Daemon, hang: &Hang, session: &str) -> Duration {
    let mark = unique_sleep();
    let home = daemon.create(session)["cwd"].as_str().unwrap().to_owned();
    daemon.sh(session, "before=1; f() { echo fn; }");
    let command = format!("export during=2; {}", hang.command.replace("{mark}", &mark));
    let reply = daemon.run(session, json!({"command": command, "timeout": TIMEOUT}));
    assert_eq!(reply.status(), "timed_out", "{}: {:?}", hang.name, reply.json);
    assert!(reply.notice_codes().contains(&"timed_out"), "{}: {:?}", hang.name, reply.json["notices"]);
    let left = procs::marked(&mark);
    assert!(left.is_empty(), "{}: left behind {left:?}", hang.name);

    let next = daemon.sh(session, "echo \"$before ${during-lost}\"; f");
    let said = format!("{} {}", reply.notice_text(), next.notice_text());
    match next.out().as_str() {
        "1 2\nfn\n" => {}
        "1 lost\nfn\n" if !hang.interruptible && !said.trim().is_empty() => {}
        other => panic!("{}: the state afterwards is {other:?}; notices: {said}", hang.name),
    }
    let shell = daemon.shell_pid(session);
    let strangers: Vec<_> = procs::working_in(home.as_ref()).into_iter().filter(|p| Some(p.pid) != shell).collect();
    assert!(strangers.is_empty(), "{}: still there {strangers:?}", hang.name);
    daemon.destroy(session);
    reply.took
}

/// Several of those that wait at once, and those that spin one after another: the promise is not about a machine with more
/// spinning processes than processors.
#[test]
fn every_hang_is_ended_in_time() {
    const AT_ONCE: usize = 6;
    let daemon = Daemon::start();
    let limit = Duration::from_secs_f64(TIMEOUT) + GRACE;
    let hang = |hang: &Hang, index: usize| (hang.name, hang_once(&daemon, hang, &format!("hang{index}")));
    let (next, times) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(waiting) = WAITING.get(index) else { return };
                    let time = hang(waiting, index);
                    times.lock().unwrap().push(time);
                }
            });
        }
    });
    let mut times = times.into_inner().unwrap();
    times.extend(SPINNING.iter().zip(WAITING.len()..).map(|(spinning, index)| hang(spinning, index)));
    assert_eq!(times.len(), WAITING.len() + SPINNING.len());
    let late: Vec<_> = times.iter().filter(|(_, took)| *took > limit).collect();
    assert!(late.is_empty(), "promised within {limit:?}: {late:?}, of {times:?}");
}

#[test]
fn partial_output_is_kept() {
    let daemon = Daemon::start();
    daemon.create("partial");
    let mark = unique_sleep();
    let command = format!("echo out; echo err >&2; printf tail; sleep {mark}");
    let reply = daemon.run("partial", json!({"command": command, "timeout": TIMEOUT}));
    assert_eq!((reply.out().as_str(), reply.err().as_str(), reply.status()), ("out\ntail", "err\n", "timed_out"));
}

#[test]
fn endless_output_fills_neither_memory_nor_disk() {
    let daemon = Daemon::with(Settings::default().env("SHELLKEEP_OUTPUT_BYTES_PER_RUN", "1048576"));
    daemon.create("flood");
    let before = procs::resident_kib(daemon.pid());
    let reply = daemon.run("flood", json!({"command": "yes", "timeout": 2, "max_output": 1000}));
    within_promise(&reply, 2.0, "yes");
    assert_eq!(reply.json["truncated"], json!(true));
    assert!(reply.out().starts_with("y\ny\n") && reply.out().ends_with("y\n"), "head and tail are kept");
    let grown = procs::resident_kib(daemon.pid()).saturating_sub(before);
    assert!(grown < 32 << 10, "the daemon grew by {grown} KiB");
    let used = directory_bytes(&daemon.data());
    assert!(used < 16 << 20, "{used} bytes on disk for an output limited to 1 MiB");
}

/// Each write changed threads and left one behind with a heap of its own: 24 threads and 90 MiB after a few commands.
#[test]
fn much_output_leaves_no_threads_behind() {
    let daemon = Daemon::start();
    daemon.create("flood");
    daemon.sh("flood", "true");
    let before = procs::threads(daemon.pid());
    for _ in 0..3 {
        let reply = daemon.run("flood", json!({"command": "yes | head -c 64M", "max_output": 1000}));
        assert_eq!(reply.json["stdout_bytes"], json!(64 << 20), "{:?}", reply.json);
    }
    let after = procs::threads(daemon.pid());
    assert!(after < before + 8, "{before} threads before, {after} after");
}

/// Found by reading, never seen: the grace for a last line of what it left running could begin anew with each write.
#[test]
fn a_background_flood_does_not_hold_up_the_end_of_its_command() {
    let daemon = Daemon::with(Settings::default().env("SHELLKEEP_OUTPUT_BYTES_PER_RUN", "8388608"));
    for flood in ["yes &", "cat /dev/zero & cat /dev/zero >&2 &", "cat /dev/zero > >(cat) &"] {
        daemon.create("flood");
        let command = format!("{flood} sleep 0.5; (exit 3)");
        let reply = daemon.run("flood", json!({"command": command, "timeout": 8, "max_output": 1000}));
        within_promise(&reply, 8.0, flood);
        assert_eq!((reply.status(), reply.exit_code()), ("exited", Some(3)), "{flood}: {:?}", reply.json["notices"]);
        daemon.destroy("flood");
    }
}

#[test]
fn a_background_flood_is_ended_with_its_session() {
    let daemon = Daemon::start();
    let home = daemon.create("flood")["cwd"].as_str().unwrap().to_owned();
    let reply = daemon.run("flood", json!({"command": "yes & echo started", "timeout": 5}));
    within_promise(&reply, 5.0, "yes &");
    assert_eq!(reply.status(), "exited");
    assert!(reply.out().contains("started"), "{:?}", &reply.out().chars().take(100).collect::<String>());
    assert_eq!(daemon.sh("flood", "echo next").out(), "next\n", "the flood is mixed into a later result");
    daemon.destroy("flood");
    let left = procs::working_in(home.as_ref());
    assert!(left.is_empty(), "left behind {left:?}");
}

/// A fork bomb must meet its limit, not the machine's. That the limit holds is tried first with processes that only
/// sleep, so that a daemon without one fails this test instead of taking the machine down.
#[test]
fn a_fork_bomb_stays_in_its_session() {
    const LIMIT: usize = 64;
    let daemon = Daemon::with(Settings::default().env("SHELLKEEP_SESSION_PROCESSES", &LIMIT.to_string()));
    let home = daemon.create("bomb")["cwd"].as_str().unwrap().to_owned();
    let mark = unique_sleep();
    let probe = format!("for i in {{1..100}}; do sleep {mark} & done");
    let timed = daemon.run("bomb", json!({"command": probe, "timeout": TIMEOUT}));
    within_promise(&timed, TIMEOUT, "a hundred children");
    let many = procs::marked(&mark).len();
    assert!(many <= LIMIT, "{many} processes run under a limit of {LIMIT}; the bomb is not tried");
    daemon.post("/v1/sessions/bomb/restart", &json!({}));

    let reply = daemon.run("bomb", json!({"command": "before=1; :(){ :|:& };:", "timeout": 2}));
    within_promise(&reply, 2.0, "fork bomb");
    let after = daemon.run("bomb", json!({"command": "echo alive", "timeout": 10}));
    assert_eq!(after.out(), "alive\n", "{after:?}");
    daemon.destroy("bomb");
    let left = procs::working_in(home.as_ref());
    assert!(left.is_empty(), "{} processes are left of the bomb", left.len());
}

#[test]
fn a_bystanding_job_survives_anothers_timeout() {
    let daemon = Daemon::start();
    daemon.create("jobs");
    let (job, hang) = (unique_sleep(), unique_sleep());
    daemon.sh("jobs", &format!("sleep {job} & disown -h; x=1"));
    // The answer does not wait for the job to become `sleep`.
    until("the job runs", || (procs::marked(&job).len() == 1).then_some(()));
    let reply = daemon.run("jobs", json!({"command": format!("sleep {hang}"), "timeout": TIMEOUT}));
    within_promise(&reply, TIMEOUT, "sleep");
    assert!(procs::marked(&hang).is_empty(), "the command that timed out is gone");
    assert_eq!(procs::marked(&job).len(), 1, "the job of an earlier command is not this command's to end");
    assert_eq!(daemon.sh("jobs", "jobs -r | wc -l; echo $x").out(), "1\n1\n");
    daemon.destroy("jobs");
    assert!(procs::marked(&job).is_empty(), "a destroyed session leaves no job");
}

#[test]
fn a_timeout_can_send_a_command_to_the_background() {
    let daemon = Daemon::start();
    daemon.create("bg");
    daemon.sh("bg", "mkfifo gate; x=1; cd /usr; cd - >/dev/null");
    let command = "echo begun; read -r word < gate; echo \"got $word\"; exit 5";
    let reply = daemon.run("bg", json!({"command": command, "timeout": TIMEOUT, "on_timeout": "background"}));
    within_promise(&reply, TIMEOUT, "to the background");
    assert_eq!(reply.status(), "running", "{:?}", reply.json);
    assert!(reply.notice_codes().contains(&"backgrounded"), "{:?}", reply.json["notices"]);
    let run_id = reply.run_id().to_owned();

    let next = daemon.sh("bg", "echo $x; echo word > gate");
    assert_eq!((next.out().as_str(), next.status()), ("1\n", "exited"), "the session is usable at once: {next:?}");
    let done = daemon.wait_run("bg", &run_id, 20);
    assert_eq!((done.status(), done.exit_code()), ("exited", Some(5)), "{:?}", done.json);
    assert_eq!(done.out(), "begun\ngot word\n");
    assert_eq!(daemon.sh("bg", "echo $x").out(), "1\n", "its end does not reach the session");
}

#[test]
fn signals_reach_a_run() {
    let daemon = Daemon::start();
    for (signal, code) in [("INT", 130), ("TERM", 143), ("KILL", 137), ("SIGTERM", 143)] {
        let session = format!("signal-{signal}");
        let mark = unique_sleep();
        daemon.create(&session);
        daemon.sh(&session, "x=1");
        let command = format!("echo begun; sleep {mark}");
        let mut stream = daemon.stream(&session, &json!({"command": command, "timeout": 30}));
        let first = stream.next_event().expect("the command prints");
        assert_eq!(first.event, "stdout", "{first:?}");
        let busy = daemon.post(&format!("/v1/sessions/{session}/run"), &json!({"command": ":", "if_busy": "reject"}));
        assert_eq!((busy.status, busy.json()["code"].as_str()), (409, Some("session_busy")));
        let run_id = busy.json()["run_id"].as_str().expect("a refusal names the run").to_owned();
        let sent = daemon.signal_run(&session, &run_id, signal);
        assert_eq!(sent.status, 200, "{}", sent.text());
        let done = daemon.wait_run(&session, &run_id, 20);
        assert_eq!(done.status(), "interrupted", "{signal}: {:?}", done.json);
        assert_eq!(done.exit_code(), Some(code), "{signal}: {:?}", done.json);
        assert!(procs::marked(&mark).is_empty(), "{signal}: still running");
        assert_eq!(daemon.sh(&session, "echo $x").out(), "1\n", "{signal}: the session goes on");
        let late = daemon.signal_run(&session, &run_id, signal);
        assert_eq!((late.status, late.json()["code"].as_str()), (409, Some("run_ended")));
    }
}

#[test]
fn a_run_that_is_not_waited_for_takes_input_and_ends() {
    let daemon = Daemon::start();
    daemon.create("input");
    let started =
        daemon.run("input", json!({"command": "read a; echo \"<$a>\"; cat", "blocking": false, "timeout": 30}));
    assert_eq!(started.status(), "running");
    let target = format!("/v1/sessions/input/runs/{}/input", started.run_id());
    assert_eq!(daemon.post(&target, &json!({"text": "one\ntwo\n"})).status, 200);
    assert_eq!(daemon.post(&target, &json!({"text": "three", "eof": true})).status, 200);
    let done = daemon.wait_run("input", started.run_id(), 20);
    assert_eq!((done.status(), done.out().as_str()), ("exited", "<one>\ntwo\nthree"));
}

#[test]
fn a_killed_daemon_leaves_no_process_and_no_state_behind() {
    let mut daemon = Daemon::start();
    daemon.create("crash");
    let (job, hang) = (unique_sleep(), unique_sleep());
    daemon.sh("crash", &format!("x=kept; cd /usr; (setsid sleep {job} &)"));
    let mut stream = daemon.stream("crash", &json!({"command": format!("echo begun; sleep {hang}"), "timeout": 60}));
    stream.next_event().expect("the command prints");
    daemon.restart();
    let left: Vec<_> = procs::marked(&job).into_iter().chain(procs::marked(&hang)).collect();
    assert!(left.is_empty(), "processes outlive their daemon: {left:?}");
    let next = daemon.sh("crash", "echo $x $PWD");
    assert_eq!(next.out(), "kept /usr\n");
    assert!(!next.notice_codes().is_empty(), "the loss is said");
}

fn directory_bytes(directory: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => directory_bytes(&entry.path()),
        Ok(kind) if kind.is_file() => entry.metadata().map_or(0, |meta| meta.len()),
        _ => 0,
    };
    entries.map(size).sum()
}
