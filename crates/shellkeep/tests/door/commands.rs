//! The command line: what it says next after an error, what it makes of a mistyped name, and how much has to be typed.

use crate::support::{Daemon, Door, bash};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Command, Output, Stdio};

/// The command line, with the daemon's socket as a flag.
fn shellkeep(daemon: &Daemon, args: &[&str]) -> Output {
    command(daemon, args).output().unwrap()
}

fn command(daemon: &Daemon, args: &[&str]) -> Command {
    let Door::Socket(socket) = daemon.door() else { panic!("a socket") };
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.env_clear().envs(bash::environment()).env("SHELLKEEP_DATA", daemon.data()).stdin(Stdio::null());
    let at = args.iter().position(|word| *word == "--").unwrap_or(args.len());
    command.current_dir(daemon.directory()).args(&args[..at]).arg("--socket").arg(socket).args(&args[at..]);
    command
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Hints named commands that led to another daemon, because they left out the flags that were used, and had SESSION and RUN
/// where the names were known.
#[test]
fn a_hint_is_a_command_that_can_be_typed() {
    let daemon = Daemon::start();
    daemon.create("demo");
    daemon.sh("demo", "mkdir -p d/e");
    let Door::Socket(socket) = daemon.door() else { panic!("a socket") };
    let flags = format!(" --socket {}", socket.display());
    let table: &[(&[&str], &str, &str)] = &[
        (&["runs", "show", "demo", "r99"], "`shellkeep runs ls demo", "run_not_found"),
        (&["sessions", "show", "nothing-like-it"], "list sessions with `shellkeep sessions ls", "session_not_found"),
        (&["export", "nothing-like-it"], "list sessions with `shellkeep sessions ls", "session_not_found"),
        (&["runs", "ls", "nothing-like-it"], "list sessions with `shellkeep sessions ls", "session_not_found"),
        (&["checkpoints", "show", "demo", "nope"], "`shellkeep checkpoints demo", "checkpoint_not_found"),
        (&["rewind", "demo", "999"], "`shellkeep log demo", "no_such_moment"),
        (&["rewind", "demo", "2020-01-01"], "`shellkeep log demo", "no_such_moment"),
        (&["kv", "get", "demo", "nope"], "`shellkeep kv ls demo", "key_not_found"),
        (&["kv", "get", "demo", "nope", "--json"], "`shellkeep kv ls demo", "key_not_found"),
        (&["kv", "rm", "demo", "nope"], "`shellkeep kv ls demo", "key_not_found"),
        (&["files", "cat", "demo", "nope"], "`shellkeep files ls demo", "file_not_found"),
        (&["services", "logs", "-s", "demo", "r99"], "`shellkeep runs output demo r99", ""),
        (&["services", "logs", "-s", "demo", "nope"], "`shellkeep services ls -s demo", ""),
        (&["tokens", "revoke", "tok_nope"], "`shellkeep tokens ls", "token_not_found"),
    ];
    for (args, command, code) in table {
        let output = shellkeep(&daemon, args);
        let told = err(&output);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {told}");
        assert!(told.contains(&format!("{command}{flags}`")) && told.contains(code), "{args:?}: {told}");
    }
    let background =
        shellkeep(&daemon, &["run", "-s", "demo", "--timeout", "0.1", "--background-on-timeout", "--", "sleep 600"]);
    assert_eq!(background.status.code(), Some(124), "{background:?}");
    assert!(err(&background).contains(&format!(" -f{flags}`")), "{background:?}");
    let killed = shellkeep(&daemon, &["run", "-s", "demo", "--timeout", "0.1", "--", "sleep 600"]);
    assert!(err(&killed).contains("pass --timeout SECONDS"), "{killed:?}");
    assert!(err(&killed).contains(&format!("`shellkeep run -s demo --no-wait{flags} -- COMMAND`")), "{killed:?}");
}

/// Messages of the daemon named fields of HTTP.
#[test]
fn what_is_missing_is_named_as_a_flag() {
    let daemon = Daemon::start();
    daemon.create("demo");
    daemon.sh("demo", "mkdir -p d/e");
    for (args, flag) in [
        (&["files", "rm", "demo", "d"][..], "pass --recursive"),
        (&["tokens", "new", "--role", "auditor", "--agent", "bob"], "leave out --agent and --may-restart"),
    ] {
        let output = shellkeep(&daemon, args);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(err(&output).contains(flag), "{output:?}");
    }
    let refused = daemon.post("/v1/tokens", &json!({"role": "agent"}));
    assert_eq!((refused.status, refused.json()["code"].as_str()), (400, Some("invalid_request")));
    assert!(refused.json()["detail"].as_str().unwrap().contains("set agent to"), "{}", refused.text());
}

#[test]
fn a_mistyped_name_gets_a_suggestion_everywhere() {
    let daemon = Daemon::start();
    for name in ["demo", "api"] {
        daemon.create(name);
    }
    for args in [
        &["runs", "ls", "dmeo"][..],
        &["sessions", "show", "dmeo"],
        &["checkpoints", "dmeo"],
        &["log", "dmeo"],
        &["undo", "dmeo"],
        &["files", "ls", "dmeo"],
        &["export", "dmeo"],
    ] {
        let output = shellkeep(&daemon, args);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(err(&output).contains("did you mean 'demo'?"), "{args:?}: {output:?}");
    }
    assert!(err(&shellkeep(&daemon, &["sessions", "show", "apo"])).contains("did you mean 'api'?"));
    assert!(!err(&shellkeep(&daemon, &["sessions", "show", "elsewhere"])).contains("did you mean"));
    // What creates sessions does, and says that another has nearly the name.
    for args in [&["sessions", "new", "demos"][..], &["mcp", "-s", "demmo"], &["run", "-s", "apia", "--", "true"]] {
        let output = shellkeep(&daemon, args);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(err(&output).contains("; did you mean '"), "{args:?}: {output:?}");
    }
    // A script that has most likely mistyped a name ran its command in a new session.
    let refused = shellkeep(&daemon, &["run", "-s", "deno", "--", "true"]);
    assert_eq!(refused.status.code(), Some(255), "{refused:?}");
    assert!(
        err(&refused).contains("did you mean 'demo'? Nothing was run; use `-s demo`, or pass --create"),
        "{refused:?}"
    );
    assert_eq!(daemon.get("/v1/sessions/deno").status, 404);
    let wanted = shellkeep(&daemon, &["run", "-s", "demi", "--create", "--", "true"]);
    assert!(wanted.status.success() && !err(&wanted).contains("did you mean"), "{wanted:?}");
    let numbered = shellkeep(&daemon, &["sessions", "new", "demo2"]);
    assert!(numbered.status.success() && !err(&numbered).contains("'demo'?"), "{numbered:?}");
}

/// A daemon prints `listening on unix:/PATH`, and no client took that as an address, nor said what to write.
#[test]
fn the_address_that_a_daemon_prints_is_one() {
    let daemon = Daemon::start();
    let Door::Socket(socket) = daemon.door() else { panic!("a socket") };
    let status = |url: &str, by_flag: bool| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
        command.env_clear().envs(bash::environment()).env("SHELLKEEP_DATA", daemon.directory().join("elsewhere"));
        command.args(["status", "--json"]);
        let command = if by_flag { command.args(["--url", url]) } else { command.env("SHELLKEEP_URL", url) };
        command.output().unwrap()
    };
    for by_flag in [true, false] {
        for url in [format!("unix:{}", socket.display()), format!("unix://{}", socket.display())] {
            let found = status(&url, by_flag);
            let told: Value = serde_json::from_slice(&found.stdout).unwrap_or_default();
            assert_eq!(told["pid"], json!(daemon.pid()), "{url}: {found:?}");
        }
        for wrong in ["unix:s.sock", "unix://s.sock", "localhost"] {
            let refused = status(wrong, by_flag);
            assert_eq!(refused.status.code(), Some(2), "{wrong}: {refused:?}");
            assert!(err(&refused).contains("write http://HOST:PORT, or unix:/PATH for a socket"), "{refused:?}");
        }
    }
}

/// These were wrong usage without a subcommand, while `quotas` showed what there is.
#[test]
fn a_group_with_a_list_needs_no_subcommand() {
    let daemon = Daemon::start();
    for group in ["nodes", "tokens"] {
        let [bare, named] = [&[group, "--json"][..], &[group, "ls", "--json"]].map(|args| shellkeep(&daemon, args));
        assert_eq!((bare.status.code(), out(&bare)), (Some(0), out(&named)), "{bare:?}");
        assert!(out(&bare).starts_with(&format!("{{\"{group}\":[")), "{bare:?}");
    }
    // An empty list left open why it is empty.
    let alone = shellkeep(&daemon, &["nodes"]);
    assert_eq!((alone.status.code(), out(&alone).as_str()), (Some(0), ""));
    assert!(err(&alone).contains("this daemon has no other nodes: it does not share its store"), "{alone:?}");
    let [bare, asked] = [&["history"][..], &["history", "--help"]].map(|args| {
        Command::new(env!("CARGO_BIN_EXE_shellkeep")).env_clear().envs(bash::environment()).args(args).output().unwrap()
    });
    assert_eq!((bare.status.code(), out(&bare)), (Some(0), out(&asked)), "{bare:?}");
    assert!(out(&bare).contains("\nExit codes:"), "{bare:?}");
}

#[test]
fn a_session_that_cannot_have_that_name_is_wrong_usage() {
    let daemon = Daemon::start();
    let wrong = shellkeep(&daemon, &["run", "-s", "a b", "--", "true"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    assert!(err(&wrong).contains("--session: "), "{wrong:?}");
}

#[test]
fn input_and_signals_follow_the_run() {
    let daemon = Daemon::start();
    daemon.create("demo");
    let begin = || {
        let id =
            shellkeep(&daemon, &["run", "-s", "demo", "--no-wait", "--", "read line; echo \"got $line\"; sleep 600"]);
        out(&id).trim().to_owned()
    };
    for (signal, code) in [(&["KILL"][..], 137), (&["sigterm"], 143), (&["--signal", "SIGINT"], 130), (&[], 130)] {
        let id = begin();
        let sent = shellkeep(&daemon, &["runs", "input", "demo", &id, "two", "words"]);
        assert!(sent.status.success(), "{sent:?}");
        shellkeep_poll::until("it answers", || {
            (out(&shellkeep(&daemon, &["runs", "output", "demo", &id])) == "got two words\n").then_some(())
        });
        let sent = shellkeep(&daemon, &[&["runs", "signal", "-s", "demo", &id][..], signal].concat());
        assert!(sent.status.success(), "{sent:?}");
        assert_eq!(shellkeep(&daemon, &["runs", "wait", "demo", &id]).status.code(), Some(code), "{signal:?}");
    }
    let id = begin();
    let wrong = shellkeep(&daemon, &["runs", "signal", "demo", &id, "INT", "TERM"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    let wrong = shellkeep(&daemon, &["runs", "signal", "demo", &id, "NOSUCH"]);
    assert!(wrong.status.code() == Some(1) && err(&wrong).contains("unknown signal"), "{wrong:?}");
}

#[test]
fn a_key_comes_as_json_with_its_version() {
    let daemon = Daemon::start();
    daemon.create("demo");
    for (key, body) in [("plan", &b"{\"a\": 1}"[..]), ("raw", b"\xff\x00"), ("plan/more", b"x")] {
        let batch = json!({"ops": [{"op": "put", "key": key, "value_base64": shellkeep_protocol::text::base64(body)}]});
        assert_eq!(daemon.post("/v1/sessions/demo/kv", &batch).status, 200);
    }
    let get = |key: &str| -> Value {
        let output = shellkeep(&daemon, &["kv", "get", "demo", key, "--json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    };
    assert_eq!((&get("plan")["value"], &get("plan")["size"]), (&json!("{\"a\": 1}"), &json!(8)));
    assert_eq!((&get("raw")["value"], &get("raw")["value_base64"]), (&Value::Null, &json!("/wA=")));
    let removed = shellkeep(&daemon, &["kv", "rm", "demo", "plan"]);
    assert!(removed.status.success(), "{removed:?}");
    assert_eq!(shellkeep(&daemon, &["kv", "rm", "demo", "plan"]).status.code(), Some(1));
}

/// The end of what was kept of a long output and the beginning of its last bytes were printed as one line, which no
/// command had written.
#[test]
fn output_that_was_not_kept_is_a_gap() {
    let daemon = Daemon::start();
    daemon.create("demo");
    assert_eq!(daemon.put_quotas(&json!({"output_bytes_per_run": 100_000})).status, 200);
    let run = daemon.sh("demo", "seq 100000");
    let paged = shellkeep(&daemon, &["runs", "output", "demo", run.run_id(), "--stream", "stdout", "--json"]);
    let page: Value = serde_json::from_slice(&paged.stdout).unwrap();
    let (head, dropped) = (page["stdout"]["text"].as_str().unwrap(), page["stdout"]["dropped"].as_u64().unwrap());
    let all: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    let tail = &all[head.len() + dropped as usize..];
    assert!(all.starts_with(head) && !tail.is_empty(), "{dropped}");
    let shown = shellkeep(&daemon, &["runs", "output", "demo", run.run_id()]);
    assert_eq!(out(&shown), format!("{}\n{tail}", head.trim_end()));
    let said = err(&shown).replace(',', "");
    assert!(said.contains(&format!("stdout has a gap of {dropped} bytes here")), "{said}");
    let last = shellkeep(&daemon, &["runs", "output", "demo", run.run_id(), "--tail", "1"]);
    assert_eq!((out(&last).as_str(), err(&last).as_str()), ("100000\n", ""));
}

/// A list that did not fit on the disk was reported as a success.
#[test]
fn output_that_cannot_be_written_is_an_error_and_a_closed_pipe_is_none() {
    let daemon = Daemon::start();
    daemon.create("demo");
    for args in [&["sessions", "ls"][..], &["sessions", "ls", "--json"], &["status"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let failed = command(&daemon, args).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
        let failed = failed.wait_with_output().unwrap();
        assert_eq!(failed.status.code(), Some(1), "{args:?}: {failed:?}");
        assert!(err(&failed).contains("cannot write the output: No space left"), "{args:?}: {failed:?}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let closed = command(&daemon, args).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let closed = closed.wait_with_output().unwrap();
        assert_eq!((closed.status.code(), err(&closed).as_str()), (Some(0), ""), "{args:?}");
    }
}

/// A terminal: ours and the program's side of it.
fn terminal() -> (OwnedFd, OwnedFd) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let side = open(&name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    (master, side)
}

/// Everything that was written to a terminal.
fn whole(master: OwnedFd) -> String {
    let mut said = Vec::new();
    // A terminal that nobody has open any more ends with an error.
    let _ = File::from(master).read_to_end(&mut said);
    String::from_utf8_lossy(&said).into_owned()
}

/// `echo hello | shellkeep run … 'wc -c'` printed 0, without a word on why.
#[test]
fn input_that_is_not_passed_is_told_to_a_person() {
    let daemon = Daemon::start();
    daemon.create("demo");
    let file = daemon.directory().join("input");
    std::fs::write(&file, "hello\n").unwrap();
    let pipe = |text: &[u8]| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(text).unwrap();
        Stdio::from(reader)
    };
    let run = |flags: &[&str], stdin: Stdio, stderr: Stdio| {
        let mut client = command(&daemon, &[&["run", "-s", "demo"], flags, &["--", "wc -c"]].concat());
        client
            .env("NO_COLOR", "1")
            .stdin(stdin)
            .stderr(stderr)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
            .wait_with_output()
            .unwrap()
    };
    let on_terminal = |flags: &[&str], stdin: Stdio| {
        let (master, side) = terminal();
        let ran = run(flags, stdin, side.into());
        assert!(ran.status.success(), "{ran:?}");
        (out(&ran), whole(master))
    };
    let told = "shellkeep: stdin was not passed to the command; if the command needs stdin, use --stdin\r\n";
    assert_eq!(on_terminal(&[], pipe(b"hello\n")), ("0\n".to_owned(), told.to_owned()));
    assert_eq!(on_terminal(&[], File::open(&file).unwrap().into()), ("0\n".to_owned(), told.to_owned()));
    for (flags, stdin, result) in
        [(&["--stdin"][..], pipe(b"hello\n"), "6\n"), (&[][..], pipe(b""), "0\n"), (&[][..], Stdio::null(), "0\n")]
    {
        assert_eq!(on_terminal(flags, stdin), (result.to_owned(), String::new()), "{flags:?}");
    }
    // A program's stderr is the command's own.
    assert_eq!(err(&run(&[], pipe(b"hello\n"), Stdio::piped())), "");
}

/// The command was started before its terminal was opened: it failed without a word about the run, which went on.
#[test]
fn without_a_controlling_terminal_nothing_is_run() {
    let daemon = Daemon::start();
    daemon.create("demo");
    let Door::Socket(socket) = daemon.door() else { panic!("a socket") };
    let (master, side) = terminal();
    let copy = || Stdio::from(side.try_clone().unwrap());
    let mut command = Command::new("setsid");
    command.arg(env!("CARGO_BIN_EXE_shellkeep")).arg("run").arg("--socket").arg(socket);
    command.args(["-t", "-s", "demo", "--", "sleep 600"]).env_clear().envs(bash::environment());
    let status = command.stdin(copy()).stdout(copy()).stderr(copy()).status().unwrap();
    // The command has copies of its own.
    drop((command, side));
    let said = whole(master);
    assert!(status.code() == Some(255) && said.contains("no controlling terminal"), "{status} {said}");
    assert_eq!(daemon.get("/v1/sessions/demo/runs").json()["runs"], json!([]));
}
