//! The player on a terminal, driven as a person drives it, against a daemon and against files.

use crate::support::Daemon;
use crate::terminal::Terminal;
use crate::{lines, post, program, secret, story, text};
use serde_json::json;

/// Rows and columns of the smallest screen that it promises to fit.
const SMALL: (u16, u16) = (24, 80);

fn replay(daemon: &Daemon, args: &[&str], size: (u16, u16)) -> Terminal {
    Terminal::with(daemon, &[&["replay"], args].concat(), size, &[])
}

/// The row of the list that is marked: the one in another colour behind.
fn selected(screen: &vt100::Screen) -> String {
    let (rows, columns) = screen.size();
    let marked = |row: &u16| screen.cell(*row, 3).is_some_and(|cell| cell.bgcolor() != vt100::Color::Default);
    let row = (0..rows.get()).find(marked);
    row.map_or_else(String::new, |row| screen.rows(0, columns.get()).nth(usize::from(row)).unwrap_or_default())
}

#[test]
fn one_goes_through_a_session_step_by_step() {
    let daemon = Daemon::start();
    story(&daemon, "demo");
    let last = lines(&program(&daemon, &["events", "demo", "--json"])).len();
    let mut player = replay(&daemon, &["demo"], SMALL);
    player.wait_for(&format!("replay demo 1 of {last}"));
    player.wait_for("secrets hidden");
    player.wait_until("the first event", |screen| selected(screen).contains("session_crea"));
    player.send("n");
    player.wait_for("event 2 ");
    player.wait_until("what was asked", |screen| screen.contents().contains("message  please list the fruit"));
    assert!(selected(player.screen()).contains("user_input"), "{}", player.text());
    player.send(" \u{1b}[C");
    player.wait_for("event 4 ");
    player.send("b\u{1b}[D");
    player.wait_for("event 2 ");
    player.send("b");
    player.wait_for("event 1 ");
    player.send("b");
    player.wait_for("this is the first event");
    player.send("G");
    player.wait_for(&format!("event {last} "));
    player.send("n");
    player.wait_for("this is the last event");
    player.send("g3\r");
    player.wait_for("event 3 ");
    player.wait_for("response  I will look");
    // To the next of a type, which is typed over the one that is offered.
    player.send("t");
    player.wait_for("next of type: llm_call");
    player.send("\u{15}tool_call\r");
    player.wait_until("the command as a terminal showed it", |screen| {
        let text = screen.contents();
        text.contains("$ printf 'apple") && text.contains("banana") && text.contains("exit 0")
    });
    player.send("t\r");
    player.wait_for("standard error");
    let text = player.text();
    assert!(text.contains("standard error") && text.contains("oops"), "{text}");
    player.send("g99999\r");
    player.wait_for(&format!("event {last} "));
    player.send("gx\r");
    player.wait_for("'x' is not the number of an event");
    player.send("?");
    player.wait_for("any key closes this");
    player.send(" q");
    assert_eq!(player.end(), Some(0));
}

#[test]
fn a_command_is_one_row_with_the_files_it_changed() {
    let daemon = Daemon::start();
    daemon.create("demo");
    daemon.sh("demo", "printf 'apple\\nbanana\\n' > fruit");
    daemon.sh("demo", &format!("sed -i s/apple/pear/ fruit; echo {} > key", secret()));
    let last = text(&program(&daemon, &["log", "demo", "--json"]));
    assert!(last.contains("checkpoint_id"), "the files are saved: {last}");
    let mut player = replay(&daemon, &["demo"], (40, 160));
    player.wait_for("event 1 ");
    player.send("/sed\r");
    player.wait_for("changed files: +1 ~1");
    player.wait_for("-apple");
    player.wait_for("+pear");
    let shown = player.text();
    assert_eq!(shown.matches("$ printf").count(), 1, "{shown}");
    assert!(selected(player.screen()).contains("+1 ~1"), "{shown}");
    assert!(!shown.contains("run_started") && !shown.contains("checkpoint_"), "{shown}");
    assert!(!shown.contains(&secret()), "secrets are hidden in files too: {shown}");
    player.send("s");
    player.wait_for(&format!("+{}", secret()));
    // A row's other events are found by their type.
    player.send("\u{1b}g1\rt\u{15}checkpoint_created\r");
    player.wait_until("the checkpoint", |screen| selected(screen).contains("checkpoint_"));
    player.send("q");
    assert_eq!(player.end(), Some(0));
}

#[test]
fn one_searches_and_goes_through_what_is_found() {
    let daemon = Daemon::start();
    daemon.create("demo");
    for number in 0..30 {
        let text = if number % 10 == 5 { "needle" } else { "hay" };
        post(&daemon, "demo", "x_pile", json!({"text": format!("{text} {number}")}));
    }
    let mut player = replay(&daemon, &["demo"], SMALL);
    player.wait_for("event 1 ");
    player.send("/needle\r");
    player.wait_for("text  needle 5");
    player.send("n");
    player.wait_for("text  needle 15");
    player.send("n");
    player.wait_for("text  needle 25");
    player.send("n");
    player.wait_for("no match for 'needle' after this event");
    player.send("N");
    player.wait_for("text  needle 15");
    // The end of a search gives n back its first meaning.
    player.send("\u{1b}");
    player.wait_for("← back");
    player.send("n");
    player.wait_for("text  hay 16");
    player.send("/[\r");
    player.wait_until("a word about the pattern", |screen| {
        let last = screen.rows(0, 80).last().unwrap_or_default();
        last.contains("regular expression") || last.contains("regex") || last.contains("pattern")
    });
    player.send("\u{1b}q");
    assert_eq!(player.end(), Some(0));
}

#[test]
fn secrets_are_hidden_until_they_are_asked_for() {
    let daemon = Daemon::start();
    story(&daemon, "demo");
    let (head, tail) = (&secret()[..12], secret());
    let mut player = replay(&daemon, &["demo"], (30, 160));
    player.wait_for("event 1 ");
    player.send("/token is\r");
    player.wait_for("secrets hidden");
    player.wait_until("the masked output", |screen| screen.contents().contains("token is ***"));
    assert!(!player.text().contains(head), "{}", player.text());
    player.send("s");
    player.wait_for("secrets shown");
    player.wait_for(&tail);
    player.send("s");
    player.wait_until("hidden again", |screen| !screen.contents().contains(head));
    player.wait_for("secrets hidden");
    player.send("\u{1b}q");
    assert_eq!(player.end(), Some(0));
    let mut locked = replay(&daemon, &["--redact", "demo"], (30, 160));
    locked.wait_for("secrets hidden");
    locked.send("s");
    locked.wait_for("--redact keeps secrets hidden");
    locked.send("q");
    assert_eq!(locked.end(), Some(0));
}

#[test]
fn a_long_output_is_opened_in_full() {
    let daemon = Daemon::start();
    daemon.create("demo");
    daemon.sh("demo", "for i in {1..60}; do echo \"line $i\"; done; echo problem >&2");
    daemon.sh("demo", "seq 1 200000");
    let mut player = replay(&daemon, &["demo"], SMALL);
    player.wait_for("event 1 ");
    player.send("/line 60\r");
    player.wait_for("line 1");
    player.send("o");
    player.wait_for("stdout of event");
    player.send("G");
    player.wait_for("line 60");
    player.send("\t");
    player.wait_for("stderr of event");
    player.wait_for("problem");
    player.send("q");
    player.wait_for("secrets hidden");
    // The second is in a file beside the recording, in parts; it is as it was printed, so secrets must be shown first.
    player.send("\u{1b}");
    player.wait_for("← back");
    player.send("G");
    player.wait_for("$ seq 1 200000");
    player.send("o");
    player.wait_for("s shows secrets");
    player.send("s");
    player.wait_for("secrets shown");
    player.send("o");
    player.wait_for("bytes 1 to 262144 of 1288895");
    player.send("G");
    player.wait_for("200000");
    player.send("g");
    player.wait_for("bytes 1 to 262144");
    player.send("qq");
    assert_eq!(player.end(), Some(0));
}

#[test]
fn it_follows_the_terminals_size_and_gives_it_back() {
    let daemon = Daemon::start();
    story(&daemon, "demo");
    let mut player = replay(&daemon, &["demo"], SMALL);
    player.wait_for("event 1 ");
    for (rows, columns) in [(40, 160), (24, 60), (10, 40), (24, 80)] {
        player.resize(rows, columns);
        player.wait_until("a picture that fills the screen", |screen| {
            let last = screen.rows(0, columns).last().unwrap_or_default();
            let edge = screen.cell(1, columns - 1).is_some_and(|cell| cell.contents() == "╮");
            edge && last.contains("q quit")
        });
    }
    for (name, number) in [("TERM", 15), ("INT", 2)] {
        let mut player = replay(&daemon, &["demo"], SMALL);
        player.wait_for("event 1 ");
        player.signal(name);
        assert_eq!(player.end(), Some(128 + number), "{name}");
    }
    let mut plain = Terminal::with(&daemon, &["replay", "demo"], SMALL, &[("NO_COLOR", "1")]);
    plain.wait_for("event 1 ");
    plain.send("g9\r");
    plain.wait_for("standard error");
    let coloured =
        |cell: &vt100::Cell| cell.fgcolor() != vt100::Color::Default || cell.bgcolor() != vt100::Color::Default;
    let places = (0..24).flat_map(|row| (0..80).map(move |column| (row, column)));
    let count = places.filter(|(row, column)| plain.screen().cell(*row, *column).is_some_and(coloured)).count();
    assert_eq!(count, 0, "{}", plain.text());
    player.send("q");
    assert_eq!(player.end(), Some(0));
}

#[test]
fn exports_and_directories_are_played_without_a_daemon() {
    let mut daemon = Daemon::start();
    story(&daemon, "demo");
    let file = daemon.directory().join("demo.jsonl");
    text(&program(&daemon, &["export", "demo", "-o", &file.display().to_string()]));
    let redacted = daemon.directory().join("redacted.jsonl");
    text(&program(&daemon, &["export", "demo", "--redact", "-o", &redacted.display().to_string()]));
    let directory = daemon.data().join("sessions/demo");
    daemon.stop();
    for path in [&file, &directory] {
        let mut player = replay(&daemon, &[&path.display().to_string()], (30, 160));
        player.wait_for("event 1 ");
        player.send("/token is\r");
        player.wait_for("token is ***");
        player.send("s");
        player.wait_for(&secret());
        player.send("\u{1b}q");
        assert_eq!(player.end(), Some(0));
    }
    let mut player = replay(&daemon, &[&redacted.display().to_string()], (30, 160));
    player.wait_for("event 1 ");
    player.send("/token is\rs");
    player.wait_for("secrets shown");
    assert!(!player.text().contains(&secret()), "what was masked in the copy is not in it");
    player.send("\u{1b}q");
    assert_eq!(player.end(), Some(0));
}

#[test]
fn a_daemon_that_comes_back_is_found_again() {
    let mut daemon = Daemon::start();
    story(&daemon, "demo");
    let mut player = replay(&daemon, &["demo"], SMALL);
    player.wait_for("event 1 ");
    daemon.kill();
    player.send("n");
    player.wait_until("a word about it", |screen| {
        screen.rows(0, 80).last().is_some_and(|line| line.contains("lost the connection to the daemon"))
    });
    assert!(player.text().contains("event 1 "), "what was known stays in sight:\n{}", player.text());
    daemon.restart();
    player.send("n");
    player.wait_for("event 2 ");
    player.send("q");
    assert_eq!(player.end(), Some(0));
}
