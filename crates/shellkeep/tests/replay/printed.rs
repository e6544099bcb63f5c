//! `events`, `replay --fast`, `--json`, `--speed`: what a program and a person in a hurry get.

use crate::support::Daemon;
use crate::terminal::Terminal;
use crate::{lines, post, program, program_with, secret, story, text};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

#[test]
fn all_events_are_printed_in_order_without_gaps() {
    let daemon = Daemon::start();
    story(&daemon, "demo");
    let all = lines(&program(&daemon, &["events", "demo", "--json"]));
    let seqs: Vec<u64> = all.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert_eq!(all[0]["event_type"], "session_created");
    assert_eq!(lines(&program(&daemon, &["replay", "--json", "demo"])), all, "replay tells the same");
    let calls = lines(&program(&daemon, &["events", "demo", "--json", "--type", "tool_call"]));
    assert_eq!(calls.len(), 3);
    assert_eq!(calls[0]["data"]["output"], "apple\nbanana\n");
    assert_eq!((&calls[1]["data"]["exit_code"], &calls[1]["data"]["stderr"]), (&json!(3), &json!("oops\n")));
    let two = lines(&program(&daemon, &["events", "demo", "--json", "--after", "2", "--limit", "2"]));
    assert_eq!(two.iter().map(|event| event["seq"].as_u64().unwrap()).collect::<Vec<_>>(), [3, 4]);
    let found = lines(&program(&daemon, &["events", "demo", "--json", "--search", "banana$|I will"]));
    assert_eq!(found[0]["event_type"], "llm_call");
    let rows = text(&program(&daemon, &["events", "demo", "--type", "user_input,final_output"]));
    let rows: Vec<Vec<&str>> = rows.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[0][2], rows[0][3], rows[1][3]), ("user_input", "please list the fruit", "apple and banana"));
}

#[test]
fn fast_tells_what_matters() {
    let daemon = Daemon::start();
    story(&daemon, "demo");
    let told = lines(&program(&daemon, &["replay", "--fast", "--json", "demo"]));
    let types: Vec<&str> = told.iter().map(|told| told["event_type"].as_str().unwrap()).collect();
    assert_eq!(types, ["user_input", "llm_call", "tool_call", "tool_call", "tool_call", "final_output"]);
    assert_eq!((&told[3]["outcome"], &told[3]["failed"]), (&json!("exit 3"), &json!(true)));
    let rows = text(&program(&daemon, &["replay", "--fast", "demo"]));
    assert_eq!(rows.lines().count(), told.len());
    assert!(rows.contains("$ printf 'apple"), "{rows}");
    assert_eq!(told[2]["files"], json!({"added": 1, "changed": 0, "deleted": 0}), "{}", told[2]);
    assert!(told[3]["files"].is_null() && rows.lines().nth(2).unwrap().ends_with("s, +1"), "{rows}");
}

/// An event that was recorded between the end of a command and its checkpoint hid the files that the command changed. A
/// daemon records one there only now and then, so the checkpoint is moved in a copy.
#[test]
fn a_command_has_its_files_whatever_was_recorded_between() {
    let daemon = Daemon::start();
    daemon.create("demo");
    daemon.sh("demo", "echo apple > fruit");
    post(&daemon, "demo", "x_note", json!({"text": "between"}));
    let list = text(&program(&daemon, &["checkpoints", "demo"]));
    assert!(list.contains("echo apple"), "the files are saved: {list}");
    let export = text(&program(&daemon, &["export", "demo"]));
    let (files, mut events): (Vec<&str>, Vec<&str>) =
        export.lines().partition(|line| line.contains(r#""event_type":"checkpoint_created""#));
    events.extend(files);
    let numbered = |(line, seq): (&&str, usize)| format!("{{\"seq\":{seq},{}\n", line.split_once(',').unwrap().1);
    let copy = daemon.directory().join("between.jsonl");
    fs::write(&copy, events.iter().zip(1..).map(numbered).collect::<String>()).unwrap();
    let copy = copy.display().to_string();
    let told = lines(&program(&daemon, &["replay", "--fast", "--json", &copy]));
    assert_eq!(told[0]["files"], json!({"added": 1, "changed": 0, "deleted": 0}), "{told:?}");
    let page = text(&program(&daemon, &["export", "--format", "html", &copy]));
    let rows: Vec<&str> = page.split("<details").filter(|row| row.contains("echo apple")).collect();
    assert!(matches!(rows[..], [row] if row.contains("<span class=\"files\">+1</span>")), "{page}");
    assert!(!page.contains("data-t=\"checkpoint_created\""), "the command's row has it: {page}");
    let mut player = Terminal::with(&daemon, &["replay", &copy], (24, 80), &[]);
    player.wait_for("event 1 ");
    player.send("/apple\r");
    player.wait_for("changed files: +1");
    player.send("q");
    assert_eq!(player.end(), Some(0));
}

#[test]
fn secrets_are_masked_where_asked() {
    let daemon = Daemon::start();
    story(&daemon, "demo");
    for args in [
        &["events", "demo", "--json"][..],
        &["replay", "--json", "demo"],
        &["replay", "--fast", "demo"],
        &["replay", "--speed", "1000", "demo"],
    ] {
        let open = text(&program(&daemon, args));
        assert!(open.contains(&secret()), "{args:?}: {open}");
        let hidden = text(&program(&daemon, &[args, &["--redact"]].concat()));
        assert!(!hidden.contains(&secret()) && hidden.contains("***"), "{args:?}: {hidden}");
    }
}

#[test]
fn playing_shows_commands_and_output_as_a_terminal_did() {
    let daemon = Daemon::start();
    story(&daemon, "demo");
    let played = text(&program(&daemon, &["replay", "--speed", "1000", "--idle-limit", "10ms", "demo"]));
    let mut screen = vt100::Parser::new(30.try_into().unwrap(), 100.try_into().unwrap(), 0);
    screen.process(played.as_bytes());
    let seen = screen.screen().contents();
    let shown: Vec<&str> = seen.lines().collect();
    assert_eq!(shown[0], "user please list the fruit");
    assert!(shown[1].starts_with("$ printf 'apple"), "{seen}");
    assert_eq!(shown[2..4], ["apple", "banana"]);
    let red = shown.iter().position(|line| *line == "red apple").expect("the coloured line");
    let cell = screen.screen().cell(u16::try_from(red).unwrap(), 0).unwrap();
    assert_eq!(cell.fgcolor(), vt100::Color::Idx(1));
    assert_eq!(shown[red + 1..red + 3], ["oops", "[exit 3]"]);
    assert!(shown.last().unwrap().contains("agent apple and banana"), "{seen}");
}

#[test]
fn following_tells_what_comes() {
    let daemon = Daemon::start();
    daemon.create("demo");
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.args(["events", "demo", "--follow", "--json", "--type", "x_news", "--no-start", "--socket"]);
    command.arg(daemon.directory().join("s.sock")).arg("--data").arg(daemon.data());
    let mut follower = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut news = BufReader::new(follower.stdout.take().unwrap());
    for number in 1..=3 {
        let seq = post(&daemon, "demo", "x_news", json!({"number": number}));
        let mut line = String::new();
        news.read_line(&mut line).unwrap();
        let event: Value = serde_json::from_str(&line).expect("an event");
        assert_eq!((&event["seq"], &event["data"]["number"]), (&json!(seq), &json!(number)));
    }
    follower.kill().unwrap();
    follower.wait().unwrap();
}

#[test]
fn events_are_posted_by_hand() {
    let daemon = Daemon::start();
    daemon.create("demo");
    let posted = program(&daemon, &["events", "post", "demo", "user_input", r#"{"message": "hello"}"#]);
    let seq: u64 = text(&posted).trim().parse().unwrap();
    let piped = program_with(&daemon, &["events", "post", "demo", "x_mine", "-", "--json"], br#"{"a": [1]}"#);
    assert_eq!(lines(&piped)[0]["seq"], json!(seq + 1));
    // As an option too, where the daemon is named otherwise.
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.args(["events", "post", "demo", "x_mine", "--data", r#"{"a": 2}"#, "--no-start", "--socket"]);
    let optional =
        command.arg(daemon.directory().join("s.sock")).env("SHELLKEEP_DATA", daemon.data()).output().unwrap();
    assert_eq!(text(&optional).trim(), (seq + 2).to_string());
    let all = lines(&program(&daemon, &["events", "demo", "--json", "--after", &(seq - 1).to_string()]));
    assert_eq!((&all[0]["data"]["message"], &all[1]["data"]["a"]), (&json!("hello"), &json!([1])));
    assert_eq!(all[2]["data"], json!({"a": 2}));
    let wrong = program(&daemon, &["events", "post", "demo", "made_up", "{}"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("x_"), "it says what is allowed");
    let wrong = program(&daemon, &["events", "post", "demo", "x_mine", "{"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("DATA is not valid JSON"));
}

#[test]
fn a_session_is_verified_and_scrubbed() {
    let daemon = Daemon::start();
    story(&daemon, "demo");
    let verdict = lines(&program(&daemon, &["verify", "demo", "--json"]));
    assert_eq!(verdict[0]["intact"], json!(true), "{verdict:?}");
    assert!(text(&program(&daemon, &["verify", "demo"])).starts_with("intact: "));
    assert_eq!(program(&daemon, &["scrub", "demo"]).status.code(), Some(2), "there is one way in only");
    let none = program_with(&daemon, &["scrub", "demo", "--secret-stdin"], b"\n");
    assert_eq!(none.status.code(), Some(1));
    let report =
        program_with(&daemon, &["scrub", "demo", "--secret-stdin", "--json"], format!("{}\n", secret()).as_bytes());
    assert!(!lines(&report)[0]["seqs"].as_array().unwrap().is_empty());
    let after = text(&program(&daemon, &["events", "demo", "--json"]));
    assert!(!after.contains(&secret()) && after.contains("***"));
    let verdict = lines(&program(&daemon, &["verify", "demo", "--json"]));
    assert_eq!(verdict[0]["intact"], json!(true), "{verdict:?}");
    assert!(verdict[0]["masked_fields"].as_u64().unwrap() > 0);
    // The session goes on, without the secret.
    assert_eq!(daemon.sh("demo", "echo on").json["stdout"], "on\n");
}

#[test]
fn wrong_names_are_told_with_what_to_do() {
    let daemon = Daemon::start();
    let words = |args: &[&str], code: i32| {
        let output = program(&daemon, args);
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for command in ["events", "replay", "export"] {
        assert!(words(&[command, "nobody"], 1).contains("nobody"), "{command}");
        assert!(words(&[command, "./nothing.jsonl"], 1).contains("nothing.jsonl"), "{command}");
        assert!(words(&[command, "two words"], 1).contains("./two words"), "{command}");
    }
    assert!(words(&["verify", "nobody"], 2).contains("nobody"));
    assert!(words(&["verify", "./nothing.jsonl"], 2).contains("nothing.jsonl"));
    assert!(words(&["replay", "--exec", "nobody"], 2).contains("nobody"));
    words(&["replay", "demo", "--speed", "0"], 2);
    words(&["replay", "demo", "--from", "."], 2);
    let file = daemon.directory().join("x.jsonl");
    std::fs::write(&file, "").unwrap();
    assert!(words(&["events", &file.display().to_string(), "--follow"], 1).contains("--follow"));
}
