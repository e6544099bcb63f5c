//! `shellkeep attach` and `run -t` on a real terminal.

use crate::support::daemon::Daemon;
use crate::terminal::Terminal;
use serde_json::json;

const ANN: &[(&str, &str)] = &[("USER", "ann"), ("NO_COLOR", "1")];

/// Waits for a line of its own, which is not the command that was typed.
fn line(terminal: &mut Terminal, text: &str) {
    terminal.wait_until(text, |screen| screen.contents().lines().any(|line| line.trim_end() == text));
}

/// Waits for the prompt at the end of the screen.
fn prompt(terminal: &mut Terminal) {
    let is_prompt = |line: &str| line.starts_with("s:/usr") && line.ends_with('$');
    terminal.wait_until("the prompt", |screen| screen.contents().trim_end().lines().last().is_some_and(is_prompt));
}

#[test]
fn a_person_takes_over_and_hands_back() {
    let mut daemon = Daemon::start();
    daemon.create("s");
    let mut terminal = Terminal::with(&daemon, &["attach", "s"], (24, 100), ANN);
    terminal.wait_for("attached to 's'");
    let held = daemon.post("/v1/sessions/s/run", &json!({"command": "true", "if_busy": "reject"}));
    assert_eq!((&held.json()["code"], &held.json()["holder"]), (&json!("session_held"), &json!("ann")));
    terminal.wait_for(" $ ");
    // Lines are runs: the session keeps what they do.
    terminal.send("cd /usr; export FROM=ann; (exit 3)\r");
    terminal.wait_for("s:/usr [3] $ ");
    // The run has this terminal's size, and learns of another.
    let until_resized = "while [ \"$(stty size)\" = '24 100' ]; do sleep 0.05; done; stty size";
    terminal.send(&format!("stty size; {until_resized}\r"));
    line(&mut terminal, "24 100");
    terminal.resize(30, 90);
    line(&mut terminal, "30 90");
    prompt(&mut terminal);
    // A password is not shown, and a program that asks its terminal is answered once.
    terminal.send("read -rsp 'word? ' w; echo; echo ${#w} letters; printf '\\033[6n'; read -rsd R x; echo ${x:2}\r");
    line(&mut terminal, "word?");
    terminal.send("hunter2\r");
    terminal.wait_for("7 letters");
    prompt(&mut terminal);
    assert!(!terminal.text().contains("hunter2"), "{}", terminal.text());
    terminal.send("echo begun; sleep 1000\r");
    line(&mut terminal, "begun");
    terminal.send("\u{3}");
    terminal.wait_for("s:/usr [130] $ ");
    // A killed daemon cuts the run off; the prompt comes back with the session.
    terminal.send("clear; echo waits; sleep 1000\r");
    terminal.wait_until("the command runs", |screen| screen.contents().starts_with("waits"));
    daemon.restart();
    terminal.wait_for("the daemon is back");
    prompt(&mut terminal);
    terminal.send("echo $FROM is here\r");
    terminal.wait_for("ann is here");
    prompt(&mut terminal);
    terminal.send("\u{4}");
    assert_eq!(terminal.end(), Some(0), "{}", terminal.text());
    assert!(terminal.text().contains("handed back"), "{}", terminal.text());
    let next = daemon.sh("s", "pwd");
    assert_eq!(next.out(), "/usr\n");
    assert!(next.notice_text().contains("ann took over this session"), "{}", next.notice_text());
    let runs = daemon.get("/v1/sessions/s/runs?limit=100").json();
    let by = |run: &serde_json::Value| run["by"].as_str().unwrap_or("host").to_owned();
    let by: Vec<String> = runs["runs"].as_array().unwrap().iter().map(by).collect();
    assert_eq!(by.iter().filter(|by| *by == "person").count(), 6, "{by:?}");
}

#[test]
fn a_second_person_is_told_who_is_there() {
    let daemon = Daemon::start();
    daemon.create("s");
    let mut first = Terminal::with(&daemon, &["attach", "s", "--reason", "the build"], (24, 100), ANN);
    first.wait_for("attached to 's'");
    let mut second = Terminal::with(&daemon, &["attach", "s"], (24, 100), ANN);
    assert_eq!(second.end(), Some(1));
    let told = second.text().replace('\n', "");
    assert!(told.contains("held by ann (the build)") && told.contains("--force"), "{told}");
    first.send("exit\r");
    assert_eq!(first.end(), Some(0));
}

#[test]
fn one_command_has_the_terminal() {
    let daemon = Daemon::start();
    daemon.create("s");
    let mut terminal = Terminal::with(
        &daemon,
        &["run", "-s", "s", "-t", "--", "read -p 'name? ' n; echo hi $n; exit 7"],
        (24, 80),
        ANN,
    );
    terminal.wait_for("name? ");
    terminal.send("ann\r");
    assert_eq!(terminal.end(), Some(7), "{}", terminal.text());
    assert!(terminal.text().contains("hi ann"), "{}", terminal.text());
    let mut left = Terminal::with(&daemon, &["run", "-s", "s", "-t", "--", "echo begun; read -r"], (24, 80), ANN);
    left.wait_for("begun");
    left.send("\u{1d}");
    assert_eq!(left.end(), Some(124), "{}", left.text());
    assert!(left.text().contains("it continues as r"), "{}", left.text());
}
