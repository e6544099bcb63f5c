//! `shellkeep top`, driven in a terminal as a person drives it, against a real daemon; and the Grafana dashboard against
//! the figures that a real daemon gives.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

mod attach;
mod dashboard;
#[path = "../support/mod.rs"]
mod support;
mod terminal;
mod tmux;

use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Command, Output};
use support::{Daemon, bash, procs, services};
use terminal::Terminal;

/// A service that says everything it is told through a pipe in its session's directory.
const PARROT: &str = "mkfifo ear; exec 3<>ear; echo ready; while read -r line <&3; do echo \"heard $line\"; done";

/// Tells the parrot something.
fn tell(daemon: &Daemon, session: &str, text: &str) {
    let ear = std::fs::File::options().write(true).open(daemon.cwd(session).join("ear"));
    writeln!(ear.expect("the service listens"), "{text}").unwrap();
}

/// Runs `shellkeep top` without a terminal.
fn piped(daemon: &Daemon, args: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.arg("top").args(args).arg("--no-start").arg("--socket").arg(daemon.directory().join("s.sock"));
    command.arg("--data").arg(daemon.data()).env_clear().envs(bash::environment()).envs(env.iter().copied());
    command.output().expect("the program starts")
}

#[test]
fn a_session_appears_a_log_is_followed_and_a_service_is_stopped() {
    let daemon = Daemon::start();
    let mut top = Terminal::top(&daemon, 30, 110, &[]);
    top.wait_for("● ready");
    top.wait_for("no running services");
    top.send("2");
    top.wait_for("no sessions yet");
    daemon.create("demo");
    daemon.sh("demo", "greet() { :; }");
    top.wait_for("demo");
    top.wait_for("live");
    top.send("\r");
    top.wait_for("functions    1: greet");
    daemon.create("busy");
    daemon.post("/v1/sessions/busy/run", &json!({"command": "sleep 1234", "timeout": 2000, "blocking": false}));
    top.wait_until("what runs where", |screen| {
        screen.contents().contains("running 1 of") && screen.contents().contains("busy     –      r3   sleep 1234")
    });
    let service = daemon
        .start_service("demo", json!({"command": PARROT, "name": "parrot", "ready": {"log": "ready"}, "wait": 20}));
    let pid = services::pid(&service);
    daemon.service_until("demo", services::id(&service), "running");
    top.wait_until("the session's service", |screen| screen.contents().contains("parrot"));
    top.send("q1");
    top.wait_until("the list of services", |screen| {
        screen.contents().contains("by session") && screen.contents().contains(&pid.to_string())
    });

    top.send("l");
    top.wait_for("● following");
    top.wait_for("ready");
    for number in 0..40 {
        tell(&daemon, "demo", &format!("word {number}"));
    }
    top.wait_for("heard word 39");
    assert!(!top.text().contains("heard word 1\n"), "the first lines are scrolled out:\n{}", top.text());
    top.send("/word 3\r");
    top.wait_for("● paused");
    top.send("g");
    top.wait_for("heard word 0");
    tell(&daemon, "demo", "late");
    top.send("f");
    top.wait_for("heard late");
    top.send("\u{1b}");
    top.wait_until("the list", |screen| screen.contents().contains("1 Services 1"));

    top.send("x");
    top.wait_for("Stop ");
    top.send("n");
    top.wait_until("no question", |screen| !screen.contents().contains("Stop "));
    assert!(procs::alive(pid), "no means no");
    top.send("x");
    top.wait_for("y stop it");
    top.send("y");
    top.wait_for("is stopped");
    top.wait_for("no running services");
    assert_eq!(daemon.service("demo", services::id(&service))["status"], "stopped");
    assert!(!procs::alive(pid));
    top.send("q");
    assert_eq!(top.end(), Some(0));
}

#[test]
fn a_daemon_that_goes_is_missed_and_found_again() {
    let mut daemon = Daemon::start();
    daemon.create("before");
    let mut top = Terminal::top(&daemon, 24, 80, &[]);
    top.send("2");
    top.wait_for("before");
    top.wait_for(&format!("pid {}", daemon.pid()));
    daemon.kill();
    top.wait_for("no daemon; retrying");
    assert!(top.text().contains("before"), "what was known stays in sight:\n{}", top.text());
    daemon.restart();
    top.wait_for(&format!("pid {}", daemon.pid()));
    top.wait_for("● ready");
    daemon.create("since");
    top.wait_for("since");
    // As a person does who is done.
    top.send("\u{3}");
    assert_eq!(top.end(), Some(0));
}

#[test]
fn a_signal_ends_it_with_the_terminal_given_back() {
    let daemon = Daemon::start();
    for (name, number) in [("TERM", 15), ("HUP", 1), ("INT", 2)] {
        let mut top = Terminal::top(&daemon, 24, 80, &[]);
        top.wait_for("● ready");
        assert!(top.screen().alternate_screen());
        top.signal(name);
        assert_eq!(top.end(), Some(128 + number), "{name}");
    }
}

#[test]
fn what_is_printed_is_broken_between_words() {
    let daemon = Daemon::start();
    daemon.create("demo");
    daemon.sh("demo", "shopt -s autocd cdable_vars cdspell checkhash checkjobs dirspell globstar");
    for args in [&["doctor"][..], &["sessions", "state", "demo"], &["verify", "demo"]] {
        let mut terminal = Terminal::with(&daemon, args, (400, 80), &[]);
        terminal.end();
        let rows: Vec<String> = terminal.screen().rows(0, 80).collect();
        for (number, row) in (0..).zip(&rows) {
            // Only a long word, such as a path, is not broken.
            let last = row.rsplit(' ').next().unwrap_or_default();
            assert!(!terminal.screen().row_wrapped(number) || last.len() > 30, "{args:?}\n{}", terminal.text());
        }
    }
}

#[test]
fn it_follows_the_terminals_size_and_does_without_colours() {
    let daemon = Daemon::start();
    let coloured = |screen: &vt100::Screen| {
        let (rows, columns) = screen.size();
        let places = (0..rows.get()).flat_map(|row| (0..columns.get()).map(move |column| (row, column)));
        let has = |(row, column)| {
            let cell: &vt100::Cell = screen.cell(row, column).expect("it is on the screen");
            cell.fgcolor() != vt100::Color::Default || cell.bgcolor() != vt100::Color::Default
        };
        places.filter(|place| has(*place)).count()
    };
    let mut top = Terminal::top(&daemon, 24, 120, &[]);
    top.wait_for("● ready");
    assert!(coloured(top.screen()) > 100);
    let mut plain = Terminal::top(&daemon, 24, 120, &[("NO_COLOR", "1")]);
    plain.wait_for("● ready");
    plain.wait_for("no running services");
    assert_eq!(coloured(plain.screen()), 0, "{}", plain.text());
    let right_edge = |screen: &vt100::Screen, column: u16| screen.cell(0, column).map(|cell| cell.contents() == "╮");
    for (rows, columns) in [(30, 60), (10, 40), (40, 160)] {
        plain.resize(rows, columns);
        plain.wait_until("a picture that fills the screen", |screen| {
            let small = rows < 20 && screen.contents().starts_with(" shellkeep ● ready");
            (small || right_edge(screen, columns - 1) == Some(true)) && screen.contents().contains("q quit")
        });
    }
    plain.send("q");
    assert_eq!(plain.end(), Some(0));
    top.send("q");
    assert_eq!(top.end(), Some(0));
}

#[test]
fn many_sessions_are_paged_and_searched() {
    let daemon = Daemon::start();
    let names: Vec<String> = (0..450).map(|number| format!("s{number:03}")).collect();
    services::in_parallel(4, &names, |name| {
        let agent = if name.ends_with('7') { "ann" } else { "bob" };
        daemon.create_with(json!({"session_id": name, "agent": agent}))
    });
    let mut top = Terminal::top(&daemon, 24, 110, &[]);
    top.send("2");
    top.wait_for("1 to 200 · more below");
    top.send("Gj");
    top.wait_for("201 to 400 · more below");
    top.wait_for("s200");
    top.send("Gj");
    top.wait_for("401 to 450");
    top.send("k");
    top.wait_for("201 to 400");
    top.wait_for("s399");
    top.send("/44\r");
    // 044, 144, 244, 344, 440 to 449.
    top.wait_for("1 to 14");
    top.send("/\u{15}nothing\r");
    top.wait_for("none of 450 sessions matches 'nothing'");
    top.send("\u{1b}");
    top.wait_for("1 to 200");
    top.send("/@ann\r");
    top.wait_for("1 to 45");
    assert!(!top.text().contains("bob"), "{}", top.text());
    top.send("\u{1b}q");
    assert_eq!(top.end(), Some(0));
}

#[test]
fn an_mcp_server_that_a_person_starts_says_what_it_is() {
    let daemon = Daemon::start();
    let mut mcp = Terminal::with(&daemon, &["mcp", "-s", "demo"], (24, 100), &[("NO_COLOR", "1")]);
    mcp.wait_for("claude mcp add shellkeep -- shellkeep mcp -s demo --data ");
    mcp.send("\u{4}");
    assert_eq!(mcp.end(), Some(0), "{}", mcp.text());
}

#[test]
fn without_a_terminal_it_prints_one_look() {
    let daemon = Daemon::start();
    daemon.create("demo");
    let service = daemon
        .start_service("demo", json!({"command": PARROT, "name": "parrot", "ready": {"log": "ready"}, "wait": 20}));
    daemon.service_until("demo", services::id(&service), "running");
    let look = piped(&daemon, &[], &[]);
    let text = String::from_utf8(look.stdout).unwrap();
    assert!(look.status.success(), "{}", String::from_utf8_lossy(&look.stderr));
    assert!(!text.contains('\u{1b}'), "{text}");
    let line =
        |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {text}"));
    assert_eq!(line("sessions").split_whitespace().collect::<Vec<_>>(), ["sessions", "1"]);
    assert_eq!(line("services ").split_whitespace().collect::<Vec<_>>(), ["services", "1"]);
    let row: Vec<&str> = line(services::id(&service)).split_whitespace().collect();
    let pid = services::pid(&service).to_string();
    assert_eq!(row[..7], [services::id(&service), "demo", "-", "parrot", "running", &pid, "-"]);
    let json: Value = serde_json::from_slice(&piped(&daemon, &["--json"], &[]).stdout).unwrap();
    assert_eq!((&json["sessions"], &json["services"]), (&json!(1), &json!(1)));
    assert!(json["quotas"]["processes"]["limit"].is_u64(), "{json}");
    assert_eq!(piped(&daemon, &["--interval", "0"], &[]).status.code(), Some(2));
    daemon.stop_service("demo", services::id(&service));
}

#[test]
fn it_is_for_the_host_and_says_so() {
    let mut daemon = Daemon::start();
    let token =
        daemon.post("/v1/tokens", &json!({"agent": "ann"})).json()["token"].as_str().expect("a token").to_owned();
    let refused = piped(&daemon, &[], &[("SHELLKEEP_TOKEN", &token)]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0));
    assert!(!refused.stderr.is_empty());
    daemon.kill();
    let nobody = piped(&daemon, &[], &[]);
    let words = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert_eq!(nobody.status.code(), Some(1));
    assert!(words.contains("no daemon answers on"), "{words}");
}
