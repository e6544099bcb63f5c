//! Exports: they prove themselves, they play, they open, and what must not be in them is not.

use crate::support::Daemon;
use crate::{lines, program, secret, story, text};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

fn exported(daemon: &Daemon, name: &str, args: &[&str]) -> PathBuf {
    let path = daemon.directory().join(name);
    let output = path.display().to_string();
    text(&program(daemon, &[&["export"], args, &["-o", &output]].concat()));
    assert!(!daemon.directory().join(format!("{name}.partial")).exists());
    path
}

fn verdict(daemon: &Daemon, path: &std::path::Path) -> (Option<i32>, Value) {
    let output = program(daemon, &["verify", "--json", &path.display().to_string()]);
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or(Value::Null))
}

#[test]
fn a_copy_proves_itself_also_where_it_is_masked() {
    let daemon = Daemon::start();
    story(&daemon, "demo");
    let open = exported(&daemon, "open.jsonl", &["demo"]);
    let masked = exported(&daemon, "masked.jsonl", &["demo", "--redact"]);
    let again = exported(&daemon, "again.jsonl", &[&open.display().to_string(), "--redact"]);
    let count = lines(&program(&daemon, &["events", "demo", "--json"])).len() as u64;
    for path in [&open, &masked, &again] {
        let (code, told) = verdict(&daemon, path);
        assert_eq!((code, &told["intact"], &told["events"]), (Some(0), &json!(true), &json!(count)), "{told}");
        assert_eq!(told["masked_fields"].as_u64().unwrap() > 0, path != &open);
        let kept = fs::read_to_string(path).unwrap();
        assert_eq!(kept.contains(&secret()), path == &open, "{}", path.display());
    }
    // The session's own directory, with the key beside it.
    assert_eq!(verdict(&daemon, &daemon.data().join("sessions/demo")).0, Some(0));
    // A changed letter, a dropped line, a swapped pair, a cut end: each is found and its line is named.
    let lines: Vec<String> = fs::read_to_string(&masked).unwrap().lines().map(str::to_owned).collect();
    let broken = daemon.directory().join("broken.jsonl");
    let check = |lines: &[String], first_bad: u64| {
        fs::write(&broken, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        let (code, told) = verdict(&daemon, &broken);
        assert_eq!(
            (code, &told["intact"], &told["bad"]["line"]),
            (Some(1), &json!(false), &json!(first_bad)),
            "{told}"
        );
        let words = program(&daemon, &["verify", &broken.display().to_string()]);
        let words = String::from_utf8_lossy(&words.stdout).into_owned();
        assert!(words.contains(&format!("first bad line: broken.jsonl:{first_bad}")), "{words}");
    };
    let mut changed = lines.clone();
    changed[3] = changed[3].replacen("apple", "appla", 1);
    let place = changed.iter().zip(&lines).position(|(one, other)| one != other);
    if place.is_none() {
        changed[1] = changed[1].replacen("fruit", "fruid", 1);
    }
    check(&changed, place.unwrap_or(1) as u64 + 1);
    let mut dropped = lines.clone();
    dropped.remove(4);
    check(&dropped, 5);
    let mut swapped = lines.clone();
    swapped.swap(2, 3);
    check(&swapped, 3);
    check(&lines[..lines.len() - 1], lines.len() as u64);
}

#[test]
fn a_cast_is_one_by_the_published_format() {
    let daemon = Daemon::start();
    story(&daemon, "demo");
    let path = exported(&daemon, "demo.cast", &["demo", "--format", "asciicast"]);
    let cast = fs::read_to_string(&path).unwrap();
    let mut lines = cast.lines();
    let header: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!((&header["version"], &header["title"]), (&json!(2), &json!("session demo")));
    assert!(header["width"].as_u64().unwrap() > 0 && header["height"].as_u64().unwrap() > 0);
    assert!(header["timestamp"].as_u64().unwrap() > 1_600_000_000);
    assert!(header["idle_time_limit"].as_f64().unwrap() > 0.0);
    assert!(header["env"].as_object().unwrap().values().all(Value::is_string));
    let mut before = 0.0;
    let (mut output, mut marks) = (String::new(), Vec::new());
    for line in lines {
        let event: (f64, String, String) = serde_json::from_str(line).expect("[time, code, data]");
        assert!(event.0 >= before, "times go on: {line}");
        before = event.0;
        match event.1.as_str() {
            "o" => output += &event.2,
            "m" => marks.push(event.2),
            other => panic!("'{other}' is no code of ours"),
        }
    }
    assert!(!output.replace("\r\n", "").contains('\n'), "a terminal needs both ends of a line");
    let mut screen = vt100::Parser::new(30.try_into().unwrap(), 100.try_into().unwrap(), 0);
    screen.process(output.as_bytes());
    let seen = screen.screen().contents();
    assert!(seen.contains("\napple\nbanana\n$ printf") && seen.contains("[exit 3]"), "{seen}");
    assert!(marks.iter().any(|mark| mark.starts_with("llm_call I will look")), "{marks:?}");
    assert!(marks.iter().any(|mark| mark.starts_with("x_review")), "{marks:?}");
    let masked =
        fs::read_to_string(exported(&daemon, "masked.cast", &["demo", "--format", "asciicast", "--redact"])).unwrap();
    assert!(cast.contains(&secret()) && !masked.contains(&secret()));
    // Where asciinema is, it is the judge.
    if let Ok(played) = Command::new("asciinema").arg("cat").arg(&path).env("LC_ALL", "C.UTF-8").output() {
        assert!(played.status.success(), "{}", String::from_utf8_lossy(&played.stderr));
        assert_eq!(String::from_utf8_lossy(&played.stdout).replace("\r\n", "\n"), output.replace("\r\n", "\n"));
    }
}

#[test]
fn a_page_is_the_same_from_the_daemon_and_from_a_copy() {
    let daemon = Daemon::start();
    story(&daemon, "demo");
    let page = fs::read_to_string(exported(&daemon, "demo.html", &["demo", "--format", "html", "--redact"])).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert!(!page.contains(&secret()) && page.contains("token is ***"));
    assert!(page.contains("✓ intact: "), "the page says that it is whole");
    assert!(page.contains("<span style=\"color:#c53030\">red apple</span>"));
    let copy = exported(&daemon, "demo.jsonl", &["demo", "--redact"]);
    let again = fs::read_to_string(exported(&daemon, "again.html", &[&copy.display().to_string(), "--format", "html"]))
        .unwrap();
    let events = |page: &str| page.matches("<details").count();
    assert_eq!(events(&page), events(&again));
    let recorded = lines(&program(&daemon, &["events", "demo", "--json"]));
    let calls = recorded.iter().filter(|line| line["event_type"] == "tool_call").count();
    assert_eq!(page.matches("data-t=\"tool_call\"").count(), calls, "one row a command");
    assert!(!page.contains("data-t=\"run_started\"") && events(&page) < recorded.len(), "start and end are one row");
    assert!(page.contains("</b> commands</span>") || page.contains("</b> command</span>"), "totals");
    let tampered = fs::read_to_string(&copy).unwrap().replacen("please list", "please lost", 1);
    fs::write(&copy, tampered).unwrap();
    let bad =
        fs::read_to_string(exported(&daemon, "bad.html", &[&copy.display().to_string(), "--format", "html"])).unwrap();
    assert!(bad.contains("✗ NOT INTACT"), "a page does not hide what is wrong");
}

#[test]
fn a_page_shows_how_files_changed() {
    let daemon = Daemon::start();
    story(&daemon, "demo");
    daemon.sh("demo", "echo \"key $GITHUB_TOKEN\" > key; sed -i s/apple/pear/ fruit");
    let page = fs::read_to_string(exported(&daemon, "open.html", &["demo", "--format", "html"])).unwrap();
    for expected in ["b/fruit", "<span class=\"out\">-apple</span>", "<span class=\"in\">+pear</span>"] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    assert!(page.contains("<span class=\"files\">+1 ~1</span>") && page.contains(&format!("+key {}", secret())));
    let masked = exported(&daemon, "masked.html", &["demo", "--format", "html", "--redact"]);
    let masked = fs::read_to_string(masked).unwrap();
    assert!(masked.contains("+pear") && !masked.contains(&secret()), "{masked}");
    // The route that a player uses.
    let of = |query: &str| daemon.get(&format!("/v1/sessions/demo/checkpoints/latest/diff?{query}")).json();
    assert!(of("")["patch"].as_str().unwrap().contains(&secret()));
    assert!(!of("redact=true")["patch"].as_str().unwrap().contains(&secret()));
}

#[test]
fn a_failed_export_leaves_nothing() {
    let daemon = Daemon::start();
    let path = daemon.directory().join("none.jsonl");
    let output = program(&daemon, &["export", "nobody", "-o", &path.display().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!path.exists() && !daemon.directory().join("none.jsonl.partial").exists());
    let nowhere = program(&daemon, &["export", "nobody", "-o", "/nonexistent/x.jsonl"]);
    assert_eq!(nowhere.status.code(), Some(1));
}

/// A run with a terminal: three pieces of output, a new size, a password, and a name. Output that follows within
/// milliseconds is one event, so the last piece comes later.
fn drawn(daemon: &Daemon) {
    daemon.create("t");
    let command = "echo one; stty -echo; printf word?; read -r word; stty echo; echo; echo two; read -r name; sleep 0.2; stty size; echo hi $name";
    let body = json!({"command": command, "blocking": false, "tty": true, "tty_size": {"rows": 10, "cols": 40}});
    let run = daemon.run("t", body).run_id().to_owned();
    let path = |rest: &str| format!("/v1/sessions/t/runs/{run}/{rest}");
    let see = |text: &str| {
        let screen = daemon.get(&path(&format!("screen?timeout=60&wait=match:{text}"))).json();
        assert_eq!(screen["timed_out"], json!(false), "{screen}");
    };
    see("word");
    daemon.post(&path("input"), &json!({"text": "correct-horse\r"}));
    see("two");
    assert_eq!(daemon.post(&path("resize"), &json!({"rows": 12, "cols": 50})).status, 200);
    daemon.post(&path("input"), &json!({"keys": ["ann", "Enter"]}));
    assert_eq!(daemon.wait_run("t", &run, 60).exit_code(), Some(0));
}

#[test]
fn a_terminal_is_recorded_with_its_times_and_sizes() {
    let daemon = Daemon::start();
    drawn(&daemon);
    let events = lines(&program(&daemon, &["events", "t", "--json"]));
    let ended = events.iter().find(|event| event["event_type"] == "tool_call").unwrap();
    let terminal = &ended["data"]["terminal"];
    assert_eq!((&terminal["rows"], &terminal["cols"]), (&json!(10), &json!(40)), "{terminal}");
    let list = terminal["events"].as_array().unwrap();
    assert!(list.iter().any(|event| event[1] == "r" && event[2] == "50x12"), "{terminal}");
    let bytes: u64 = list.iter().filter(|event| event[1] == "o").map(|event| event[2].as_u64().unwrap()).sum();
    assert_eq!(bytes, ended["data"]["stdout_bytes"].as_u64().unwrap(), "{ended}");
    let cast = exported(&daemon, "t.cast", &["t", "--format", "asciicast"]);
    let cast: Vec<Value> =
        fs::read_to_string(cast).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let times: Vec<f64> = cast[1..].iter().map(|event| event[0].as_f64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let place = |code: &str, text: &str| {
        let found = cast[1..].iter().position(|event| event[1] == code && event[2].as_str().unwrap().contains(text));
        found.unwrap_or_else(|| panic!("no {code} with {text} in {cast:#?}"))
    };
    let order = [
        place("r", "40x10"),
        place("o", "one\r\n"),
        place("o", "two\r\n"),
        place("r", "50x12"),
        place("i", "ann"),
        place("o", "hi ann"),
        place("r", "100x30"),
    ];
    assert!(order.is_sorted(), "{order:?} of {cast:#?}");
    assert!(place("i", "***") < place("i", "ann"), "{cast:#?}");
    assert!(!format!("{cast:?}").contains("correct-horse"), "{cast:#?}");
    // The proof covers it: another size, and another time, are found.
    let copy = exported(&daemon, "t.jsonl", &["t"]);
    assert_eq!(verdict(&daemon, &copy).0, Some(0));
    let kept = fs::read_to_string(&copy).unwrap();
    let changed = kept.replace("\"50x12\"", "\"51x12\"");
    assert_ne!(kept, changed);
    fs::write(&copy, changed).unwrap();
    assert_eq!(verdict(&daemon, &copy).0, Some(1));
    let played = text(&program(&daemon, &["replay", "t", "--speed", "1000"]));
    let places = ["one\r\n", "two\r\n", "hi ann"].map(|part| played.find(part).unwrap_or_else(|| panic!("{played}")));
    assert!(places.is_sorted(), "{played}");
}
