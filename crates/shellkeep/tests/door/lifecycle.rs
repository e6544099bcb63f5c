//! The life of a daemon: its status, an orderly stop, a restart, and another configuration.

use crate::support::daemon::signal;
use crate::support::gap::Gap;
use crate::support::{Daemon, Door, Request, Settings, bash};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The command line on this daemon's socket.
fn command(daemon: &Daemon, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    let Door::Socket(socket) = daemon.door() else { panic!("a socket") };
    command.env_clear().envs(bash::environment()).env("SHELLKEEP_DATA", daemon.data()).stdin(Stdio::null());
    command.current_dir(daemon.directory()).args(&args[..1]).arg("--socket").arg(socket).args(&args[1..]);
    command
}

fn shellkeep(daemon: &Daemon, args: &[&str]) -> Output {
    command(daemon, args).output().unwrap()
}

fn told(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A daemon that reads this file, and the file.
fn configured(text: &str) -> (Daemon, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("shellkeep.toml");
    fs::write(&file, text).unwrap();
    let settings = Settings::default().set("--config", file.to_str().unwrap());
    (Daemon::on(directory, settings), file)
}

#[test]
fn the_status_says_how_the_daemon_is() {
    let mut daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "true");
    let output = shellkeep(&daemon, &["status", "--json"]);
    let status = told(&output);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    for (field, expected) in [
        ("status", json!("ready")),
        ("pid", json!(daemon.pid())),
        ("version", json!(env!("CARGO_PKG_VERSION"))),
        ("data", json!(daemon.data())),
        ("store", json!("sqlite")),
        ("doors", json!([format!("unix:{}", daemon.directory().join("s.sock").display())])),
        ("sessions", json!(1)),
        ("live_shells", json!(1)),
    ] {
        assert_eq!(status[field], expected, "{field} of {status}");
    }
    let text = String::from_utf8(shellkeep(&daemon, &["status"]).stdout).unwrap();
    assert!(text.starts_with("ready, up ") && text.contains("1 live"), "{text}");
    daemon.kill();
    let output = shellkeep(&daemon, &["status", "--json"]);
    assert_eq!((output.status.code(), told(&output)), (Some(3), json!({"status": "not_running"})));
    let output = shellkeep(&daemon, &["stop"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"no daemon is running\n"[..]));
    assert_eq!(shellkeep(&daemon, &["reload"]).status.code(), Some(1));
}

/// `stop` said "no daemon is running" of one that listened elsewhere, and `serve` said that it was.
#[test]
fn a_daemon_with_its_socket_elsewhere_is_found_by_its_data() {
    let mut daemon = Daemon::start();
    let by_data = |data: &std::path::Path, args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
        command.env_clear().envs(bash::environment()).stdin(Stdio::null());
        command.args(args).arg("--data").arg(data).output().unwrap()
    };
    let status = by_data(&daemon.data(), &["status", "--json"]);
    assert_eq!((status.status.code(), &told(&status)["pid"]), (Some(0), &json!(daemon.pid())), "{status:?}");
    // Neither a copy of the directory nor one whose daemon was killed leads to a daemon.
    let copy = daemon.directory().join("copy");
    fs::create_dir(&copy).unwrap();
    for name in ["lock", "listening.txt"] {
        fs::copy(daemon.data().join(name), copy.join(name)).unwrap();
    }
    assert_eq!(by_data(&copy, &["status"]).status.code(), Some(3));
    daemon.kill();
    assert_eq!(by_data(&daemon.data(), &["status"]).status.code(), Some(3));
    daemon.restart();
    let stopped = by_data(&daemon.data(), &["stop"]);
    assert_eq!((stopped.status.code(), stopped.stdout.starts_with(b"stopped (pid ")), (Some(0), true), "{stopped:?}");
    assert!(!daemon.data().join("listening.txt").exists());
}

/// An orderly stop killed running commands at once, and their callers were not told why.
#[test]
fn a_stop_lets_commands_finish_and_takes_no_new_ones() {
    let daemon = Daemon::with(Settings::default().env("SHELLKEEP_STOP_GRACE", "60s"));
    let cwd = daemon.create("s")["cwd"].as_str().unwrap().to_owned();
    daemon.create("other");
    let waits = "echo begun; until [ -e go ]; do sleep 0.01; done; echo done";
    let mut events = daemon.stream("s", &json!({"command": waits, "timeout": 300}));
    while !events.next_event().expect("it runs").data.contains("begun") {}
    let stop = command(&daemon, &["stop"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let refused = shellkeep_poll::until("new commands are refused", || {
        let answer = daemon.post("/v1/sessions/other/run", &json!({"command": "true"}));
        (answer.status == 503).then_some(answer)
    });
    assert_eq!(refused.json()["code"], "shutting_down", "{}", refused.text());
    assert_eq!(refused.header("retry-after"), Some("5"), "{}", refused.text());
    let busy = daemon.post("/v1/sessions/s/run", &json!({"command": "true"}));
    assert_eq!((busy.status, busy.json()["code"].as_str()), (503, Some("shutting_down")));
    assert_eq!(busy.header("retry-after"), Some("5"), "{}", busy.text());
    // Only this was not told, of all refusals of commands that have not started.
    assert!(busy.text().contains("nothing was run"), "{}", busy.text());
    assert_eq!(daemon.get("/readyz").json()["status"], "degraded");
    fs::write(format!("{cwd}/go"), "").unwrap();
    let mut last = None;
    while let Some(event) = events.next_event() {
        last = Some(event);
    }
    let last = last.expect("a result");
    let result: Value = serde_json::from_str(&last.data).unwrap();
    assert_eq!((last.event.as_str(), &result["exit_code"]), ("result", &json!(0)), "{result}");
    assert_eq!(result["notices"], json!([]), "{result}");
    let output = stop.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(err(&output).contains("waiting up to 60 s for "), "{output:?}");
    assert!(daemon.log().contains("every session is saved"), "{}", daemon.log());
}

#[test]
fn a_command_that_is_cut_off_is_told_so() {
    let daemon = Daemon::with(Settings::default().env("SHELLKEEP_STOP_GRACE", "60s"));
    let run = command(&daemon, &["run", "-s", "s", "--", "echo begun; trap 'echo cleaned' TERM; sleep 600"]);
    let mut run = { run }.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "begun");
    let stop = shellkeep(&daemon, &["stop", "--now", "--json"]);
    assert_eq!((stop.status.code(), told(&stop)), (Some(0), json!({"stopped": true})), "{stop:?}");
    let output = run.wait_with_output().unwrap();
    assert!(err(&output).contains("The daemon was stopped while this command ran"), "{output:?}");
    assert_eq!(output.status.code(), Some(143), "{output:?}");
}

#[test]
fn a_restart_keeps_the_process_the_sessions_and_the_token() {
    let daemon = Daemon::with(Settings::default().tcp().env("SHELLKEEP_TOKEN", "horse-battery-staple"));
    daemon.create("s");
    daemon.sh("s", "x=kept");
    let limits = "umask; ulimit -Sn";
    let (before, limits_before) = (daemon.get("/v1/daemon").json(), daemon.sh("s", limits).out().to_owned());
    let output = shellkeep(&daemon, &["restart", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}\n{}", daemon.log());
    let after = told(&output);
    assert_eq!((&after["pid"], &after["doors"]), (&before["pid"], &before["doors"]));
    assert_ne!(after["started_at"], before["started_at"]);
    assert_eq!(daemon.sh("s", "echo $x").out(), "kept\n");
    daemon.create("new");
    assert_eq!(daemon.sh("new", limits).out(), limits_before, "shells get the caller's, not the daemon's");
    let request = Request::new("GET", "/v1/daemon").header("authorization", "Bearer horse-battery-staple");
    assert_eq!(request.send(&daemon.tcp_door()).unwrap().json()["started_at"], after["started_at"]);
}

/// The client waited for 70 s for a daemon that had ended.
#[test]
fn a_restart_that_fails_is_told_at_once() {
    let daemon = Daemon::start();
    // Writable for others, it is not accepted.
    fs::set_permissions(daemon.data(), fs::Permissions::from_mode(0o703)).unwrap();
    let begun = Instant::now();
    let output = shellkeep(&daemon, &["restart"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(err(&output).contains("did not start again; its log says why"), "{output:?}");
    assert!(begun.elapsed() < Duration::from_secs(30), "after {:?}", begun.elapsed());
}

/// A client that came between the end of a daemon and its next start found none, and started one with other flags; then
/// the daemon could not start again.
#[test]
fn no_client_starts_a_daemon_in_the_middle_of_a_restart() {
    let (daemon, gap) = Gap::daemon(Settings::default());
    let (locks, socket) = (|| fs::read_to_string("/proc/locks").unwrap(), daemon.directory().join("s.sock"));
    daemon.create("s");
    daemon.sh("s", "x=kept");
    gap.restart(&daemon);
    let mut run = command(&daemon, &["run", "-s", "s", "--", "echo $x"]);
    let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let waits = format!(" {} ", run.id());
    shellkeep_poll::until("the client waits, or a daemon listens", || {
        let is_waiting = locks().lines().any(|line| line.contains("->") && line.contains(&waits));
        (is_waiting || socket.exists()).then_some(())
    });
    gap.go_on();
    let output = run.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"kept\n"[..]), "{output:?}");
    let status = told(&shellkeep(&daemon, &["status", "--json"]));
    assert_eq!(status["pid"], json!(daemon.pid()), "{status}\n{}", daemon.log());
}

#[test]
fn a_signal_stops_a_daemon_that_is_about_to_restart() {
    let mut daemon = Daemon::with(Settings::default().env("SHELLKEEP_STOP_GRACE", "600s"));
    daemon.create("s");
    let mut events = daemon.stream("s", &json!({"command": "echo begun; sleep 600", "timeout": 600}));
    while !events.next_event().expect("it runs").data.contains("begun") {}
    assert_eq!(daemon.post("/v1/daemon/stop", &json!({"restart": true})).status, 202);
    shellkeep_poll::until("it drains", || (daemon.get("/readyz").json()["status"] == "degraded").then_some(()));
    assert_eq!(daemon.stop(), Some(0), "{}", daemon.log());
}

#[test]
fn another_configuration_comes_into_force_or_says_what_it_needs() {
    let (daemon, file) = configured("max_shells = 20\nqueue_length = 50\n");
    let limit = |daemon: &Daemon| daemon.get("/v1/quotas").json()["quotas"]["live_shells"]["configured"].clone();
    assert_eq!(limit(&daemon), 20);
    assert_eq!(shellkeep(&daemon, &["reload"]).stdout, b"nothing changed\n");
    fs::write(&file, "max_shells = 30\nqueue_length = 60\nlog = \"debug\"\n").unwrap();
    let output = shellkeep(&daemon, &["reload"]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(text.contains("changed: max_shells from 20 to 30\n"), "{output:?}");
    assert!(text.contains("needs a restart: queue_length from 50 to 60\n"), "{output:?}");
    assert!(err(&output).contains("`shellkeep restart --socket "), "{output:?}");
    assert_eq!(limit(&daemon), 30);
    let settings = daemon.get("/v1/daemon/settings").json()["settings"].clone();
    assert_eq!((&settings["max_shells"]["value"], &settings["queue_length"]["value"]), (&json!("30"), &json!("50")));
    fs::write(&file, "max_shels = 40\n").unwrap();
    let wrong = shellkeep(&daemon, &["reload"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(err(&wrong).contains("nothing was changed") && err(&wrong).contains("max_shels"), "{wrong:?}");
    assert!(err(&wrong).contains("line 1: unknown setting `max_shels`; did you mean `max_shells`?"), "{wrong:?}");
    assert!(err(&wrong).contains("invalid_configuration"), "{wrong:?}");
    // A restart with it ended the daemon, and said only that it did not come back.
    let before = daemon.get("/v1/daemon").json()["started_at"].clone();
    let wrong = shellkeep(&daemon, &["restart"]);
    assert_eq!(wrong.status.code(), Some(1), "{wrong:?}");
    for part in ["the daemon was not restarted", file.to_str().unwrap(), "max_shels"] {
        assert!(err(&wrong).contains(part), "{part}: {wrong:?}");
    }
    assert_eq!(daemon.get("/v1/daemon").json()["started_at"], before);
    fs::write(&file, "max_shells = 40\n").unwrap();
    signal(daemon.pid(), "HUP");
    shellkeep_poll::until("SIGHUP is heard", || (limit(&daemon) == 40).then_some(()));
}

/// `shellkeep config` said "in force" and read the file; a typo in the file broke every client command.
#[test]
fn the_daemon_says_what_is_in_force_and_a_typo_hides_nothing() {
    let daemon = Daemon::with(Settings::default().set("--services", "7"));
    daemon.create("s");
    let home = daemon.directory().join("home");
    fs::create_dir_all(home.join(".config/shellkeep")).unwrap();
    fs::write(home.join(".config/shellkeep/config.toml"), "servces = 3\n").unwrap();
    let asked = |args: &[&str]| command(&daemon, args).env("HOME", &home).output().unwrap();
    let settings = told(&asked(&["config", "--json"]));
    assert_eq!(settings["settings"]["services"], json!({"value": "7", "source": "flag"}));
    assert_eq!(settings["file"], Value::Null);
    let list = asked(&["sessions", "ls"]);
    assert!(list.status.success() && list.stdout.starts_with(b"s\t"), "{list:?}");
    let doctor = asked(&["doctor"]);
    assert_eq!(doctor.status.code(), Some(1), "{doctor:?}");
    let found = String::from_utf8_lossy(&doctor.stdout).into_owned();
    for part in ["missing configuration", "config.toml", "servces", "ok      daemon"] {
        assert!(found.contains(part), "{part}: {found}");
    }
    let checked = asked(&["config", "--check"]);
    assert_eq!(checked.status.code(), Some(2));
    assert!(err(&checked).contains("servces") && err(&checked).contains("line 1"), "{checked:?}");
}

/// `serve --data X` printed a command that led to another daemon.
#[test]
fn the_first_thing_to_try_leads_to_this_daemon() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("my data");
    let mut serve = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    serve.env_clear().envs(bash::environment()).args(["serve", "--no-listen", "--hint", "--data"]).arg(&data);
    let mut child = serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let hint = lines.into_iter().find_map(|line| line.strip_prefix("try: ").map(str::to_owned)).unwrap();
    assert_eq!(hint, format!("shellkeep run --data '{}' -s demo -- 'echo hello from $PWD'", data.display()));
    signal(child.id(), "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_second_daemon_says_how_to_stop_the_first() {
    let daemon = Daemon::start();
    let mut serve = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    serve.env_clear().envs(bash::environment()).args(["serve", "--no-listen", "--data"]).arg(daemon.data());
    let refused = serve.output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let hint = format!("stop it with `shellkeep stop --data {}`", daemon.data().display());
    let told = err(&refused);
    assert!(told.contains(&format!("(pid {})", daemon.pid())) && told.contains(&hint), "{told}");
}

#[test]
fn the_log_is_json_in_files_that_do_not_grow() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log.json");
    let settings = Settings::default()
        .set("--log-file", log.to_str().unwrap())
        .set("--log-format", "json")
        .set("--log-file-bytes", "1500")
        .set("--log-files", "2")
        .set("--log", "warn,shellkeep=debug");
    let mut daemon = Daemon::on(directory, settings);
    for number in 0..40 {
        daemon.create(&format!("s{number}"));
    }
    assert_eq!(daemon.stop(), Some(0));
    let room = daemon.directory();
    let mut last = String::new();
    for name in ["log.json.2", "log.json.1", "log.json"] {
        let text = fs::read_to_string(room.join(name)).unwrap();
        assert!(!text.is_empty() && text.len() <= 1500, "{name} has {} bytes", text.len());
        assert_eq!(fs::metadata(room.join(name)).unwrap().permissions().mode() & 0o777, 0o600);
        for line in text.lines() {
            let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            for field in ["timestamp", "level", "target", "message"] {
                assert!(event[field].is_string(), "{field} of {line}");
            }
            assert!(event["fields"].is_object(), "{line}");
            last = line.to_owned();
        }
    }
    assert!(last.contains("every session is saved"), "{last}");
    assert!(!room.join("log.json.3").exists());
    assert_eq!(daemon.log(), "", "nothing goes to stderr");
}
