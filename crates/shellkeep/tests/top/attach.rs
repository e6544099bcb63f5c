//! `shellkeep attach` and `run -t` on a real terminal.

use crate::support::daemon::{Daemon, Settings};
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
    // A list says so too.
    let listed = daemon.get("/v1/sessions").json()["sessions"][0].clone();
    assert_eq!((&listed["held"]["holder"], &listed["sandbox"]), (&json!("ann"), &json!("none")), "{listed}");
    for (args, shown) in [(&["sessions", "ls"][..], "ann, "), (&["sessions", "show", "s"], "by ann until ")] {
        let mut shows = Terminal::with(&daemon, args, (24, 160), ANN);
        assert_eq!(shows.end(), Some(0));
        assert!(shows.text().contains(shown), "{}", shows.text());
    }
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
    // Ctrl-C ends the program and not the shell, which keeps what the command did before.
    let generation = |daemon: &Daemon| daemon.get("/v1/sessions/s").json()["generation"].as_u64();
    let before = generation(&daemon);
    terminal.send("export KEPT=yes; echo begun; sleep 1000; echo never\r");
    line(&mut terminal, "begun");
    terminal.send("\u{3}");
    terminal.wait_for("s:/usr [130] $ ");
    terminal.send("clear; echo $KEPT; while :; do :; done\r");
    line(&mut terminal, "yes");
    terminal.send("\u{3}");
    terminal.wait_for("s:/usr [130] $ ");
    assert_eq!(generation(&daemon), before, "it is still the same shell");
    assert!(!terminal.text().contains("never\n"), "{}", terminal.text());
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
    assert_eq!(by.iter().filter(|by| *by == "person").count(), 7, "{by:?}");
}

#[test]
fn a_second_person_watches_and_cannot_type() {
    let daemon = Daemon::start();
    daemon.create("s");
    let mut first = Terminal::with(&daemon, &["attach", "s", "--reason", "the build"], (24, 100), ANN);
    first.wait_for("attached to 's'");
    first.wait_for(" $ ");
    let mut second = Terminal::with(&daemon, &["attach", "s"], (24, 100), ANN);
    second.wait_for("You can watch");
    let told = second.text().replace('\n', "");
    assert!(told.contains("held by ann (the build)") && told.contains("--force"), "{told}");
    first.send("read -rp 'name? ' name; echo hello $name\r");
    first.wait_for("name? ");
    // The prompt has no line end, and is seen by both.
    second.wait_for("name? ");
    second.send("bob\r");
    first.send("ann\r");
    line(&mut first, "hello ann");
    line(&mut second, "hello ann");
    first.send("exit\r");
    assert_eq!(first.end(), Some(0));
    assert_eq!(second.end(), Some(0), "{}", second.text());
    assert!(second.text().contains("ann has left"), "{}", second.text());
    let mut third = Terminal::with(&daemon, &["attach", "s"], (24, 100), ANN);
    third.wait_for("attached to 's'");
    let mut fourth = Terminal::with(&daemon, &["attach", "s"], (24, 100), ANN);
    fourth.wait_for("You can watch");
    fourth.send("q");
    assert_eq!(fourth.end(), Some(0));
}

/// Programs that a person uses at a terminal.
#[test]
fn programs_work_as_at_every_terminal() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "cd /usr");
    let mut terminal = Terminal::with(&daemon, &["attach", "s"], (24, 100), ANN);
    prompt(&mut terminal);
    // An editor has the whole screen and gets every key.
    let note = daemon.directory().join("note.txt");
    terminal.send(&format!("vi -u NONE -N {}\r", note.display()));
    terminal.wait_until("the editor", |screen| screen.alternate_screen() && screen.contents().contains("~"));
    terminal.send("itwo\rone");
    line(&mut terminal, "one");
    terminal.send("\u{1b}");
    terminal.send("kx:wq\r");
    prompt(&mut terminal);
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "tw\none\n");
    // A screen that redraws itself.
    terminal.send("if command -v htop >/dev/null; then htop; else top -d 1; fi\r");
    terminal.wait_for("PID");
    terminal.send("q");
    prompt(&mut terminal);
    // An interpreter: Ctrl-C reaches the program, which continues, and Ctrl-D ends it.
    terminal.send("clear; python3 -q -i\r");
    terminal.wait_for(">>> ");
    terminal.send("6 * 7\r");
    line(&mut terminal, "42");
    terminal.send("print('waits'); import time; time.sleep(600)\r");
    line(&mut terminal, "waits");
    terminal.send("\u{3}");
    line(&mut terminal, "KeyboardInterrupt");
    terminal.send("7 * 7\r");
    line(&mut terminal, "49");
    terminal.send("\u{4}");
    prompt(&mut terminal);
    // A password prompt like that of ssh: echo off, and the answer neither shown nor recorded.
    terminal.send("clear; (stty -echo; printf 'password: '; read -r word; stty echo; echo; echo ${#word} letters)\r");
    line(&mut terminal, "password:");
    terminal.send("correct-horse\r");
    line(&mut terminal, "13 letters");
    prompt(&mut terminal);
    assert!(!terminal.text().contains("correct-horse"), "{}", terminal.text());
    terminal.send("exit\r");
    assert_eq!(terminal.end(), Some(0), "{}", terminal.text());
    let events = daemon.get("/v1/sessions/s/events?limit=1000").text();
    assert!(events.contains("13 letters") && !events.contains("correct-horse"), "{events}");
}

/// The terminal of a run ended with it, and with it everything that the run had not read.
#[test]
fn what_is_typed_while_a_command_runs_is_the_next_line() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "cd /usr");
    let mut terminal = Terminal::with(&daemon, &["attach", "s"], (24, 100), ANN);
    prompt(&mut terminal);
    let go = daemon.directory().join("go");
    terminal.send(&format!("clear; echo begun; until test -e {}; do sleep 0.05; done\r", go.display()));
    line(&mut terminal, "begun");
    terminal.send("echo first $((1 + 1))\recho sec");
    // The terminal echoes it, so it is there, and nobody reads it.
    line(&mut terminal, "echo sec");
    std::fs::write(&go, "").unwrap();
    line(&mut terminal, "first 2");
    terminal.wait_until("the beginning of a line at the prompt", |screen| {
        screen.contents().trim_end().lines().last().is_some_and(|line| line == "s:/usr $ echo sec")
    });
    terminal.send("ond\r");
    line(&mut terminal, "second");
    prompt(&mut terminal);
    terminal.send("exit\r");
    assert_eq!(terminal.end(), Some(0), "{}", terminal.text());
}

/// A masked stream keeps an incomplete line back; a viewer saw a prompt only after the answer that it could not give.
#[test]
fn a_prompt_is_seen_where_secrets_are_masked() {
    let secret = "correct-horse-battery-staple";
    let settings =
        Settings::default().env("SHELLKEEP_RECORD_REDACT_ON_WRITE", "true").env("SHELLKEEP_RECORD_SECRETS", secret);
    let daemon = Daemon::with(settings);
    daemon.create("s");
    daemon.sh("s", "printf 'the word is correct-horse-' > a; printf 'battery-staple, name? ' > b");
    let mut terminal = Terminal::with(&daemon, &["attach", "s"], (24, 100), ANN);
    terminal.wait_for(" $ ");
    terminal.send("clear; cat a b; read -r n; echo hi $n\r");
    terminal.wait_for("the word is ***, name? ");
    terminal.send("ann\r");
    line(&mut terminal, "hi ann");
    assert!(!terminal.text().contains("horse") && !terminal.text().contains("staple"), "{}", terminal.text());
    terminal.wait_for("/s $ ");
    terminal.send("exit\r");
    assert_eq!(terminal.end(), Some(0), "{}", terminal.text());
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
