//! The screen of a run with a terminal: what programs draw, what they ask their terminal, and how others read it.

use crate::support::{Daemon, Request, Settings};
use serde_json::{Value, json};

/// A run with a terminal.
struct Live<'a> {
    daemon: &'a Daemon,
    run: String,
}

impl<'a> Live<'a> {
    fn start(daemon: &'a Daemon, command: &str, size: Value) -> Self {
        let body = json!({"command": command, "blocking": false, "tty": true, "tty_size": size});
        Self { daemon, run: daemon.run("s", body).run_id().to_owned() }
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/sessions/s/runs/{}/{rest}", self.run)
    }

    fn screen(&self, query: &str) -> Value {
        let answer = self.daemon.get(&self.path(&format!("screen?timeout=60&{query}")));
        assert_eq!(answer.status, 200, "{}", answer.text());
        let screen = answer.json();
        assert_eq!(screen["timed_out"], json!(false), "{screen:#}");
        screen
    }

    fn send(&self, keys: &str) {
        let answer = self.daemon.post(&self.path("input"), &json!({"text": keys}));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

fn text(screen: &Value) -> String {
    let lines = screen["lines"].as_array().unwrap();
    lines.iter().map(|line| line.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

#[test]
fn an_interpreter_is_driven_by_its_screen() {
    let daemon = Daemon::start();
    daemon.create("s");
    let python = Live::start(&daemon, "python3 -q -i", json!({"rows": 10, "cols": 60}));
    let first = python.screen("wait=match:%3E%3E%3E");
    assert_eq!((&first["rows"], &first["cols"], &first["alternate"]), (&json!(10), &json!(60), &json!(false)));
    assert_eq!(first["lines"].as_array().unwrap().len(), 10, "{first:#}");
    assert_eq!((&first["running"], &first["masked"]), (&json!(true), &json!(false)));
    python.send("6 * 7\r");
    let answered = python.screen("wait=match:(%3Fm)%5E42$");
    assert!(answered["version"].as_u64() > first["version"].as_u64(), "{answered:#}");
    assert!(answered["offset"].as_u64() > first["offset"].as_u64(), "{answered:#}");
    let resized = daemon.post(&python.path("resize"), &json!({"rows": 12, "cols": 90}));
    assert_eq!(resized.json(), json!({"run_id": python.run, "rows": 12, "cols": 90}));
    python.send("import os; os.get_terminal_size()\r");
    let large = python.screen("wait=match:columns%3D90,%20lines%3D12");
    assert_eq!((&large["rows"], large["lines"].as_array().unwrap().len()), (&json!(12), 12));
    let quiet = python.screen("wait=quiet:50");
    let change = format!("wait=change&version={}", quiet["version"].as_u64().unwrap() - 1);
    assert_eq!(python.screen(&change)["version"], quiet["version"], "a reader that is behind does not wait");
    python.send("exit()\r");
    // The end of the run ends every wait.
    let last = daemon.get(&python.path("screen?wait=match:never-to-be-seen&timeout=60"));
    let is_over = if last.status == 200 { last.json()["running"] == json!(false) } else { last.status == 409 };
    assert!(is_over, "{}", last.text());
    assert_eq!(daemon.wait_run("s", &python.run, 30).exit_code(), Some(0));
}

#[test]
fn the_daemon_answers_what_programs_ask_their_terminal() {
    let daemon = Daemon::start();
    daemon.create("s");
    // Nobody looks at this screen, and yet the program gets its answers.
    let ask = |query: &str, last: &str| {
        format!("printf 'ab{query}'; IFS= read -rsd {last} answer; printf '%q\\n' \"$answer\"")
    };
    for (query, last, expected) in
        [("\\033[6n", "R", "[1;3"), ("\\033[?6n", "R", "[?1;3"), ("\\033[5n", "n", "[0"), ("\\033[c", "c", "[?62;22")]
    {
        // The whole dialogue is in a child: bash itself has no line discipline to change.
        let command = format!("bash -c {}", quoted(&ask(query, last)));
        let reply = daemon.run("s", json!({"command": command, "tty": true, "timeout": 30}));
        assert!(reply.out().contains(expected), "{query}: {:?}", reply.out());
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[test]
fn a_screen_has_colours_a_title_and_two_buffers() {
    let daemon = Daemon::start();
    daemon.create("s");
    let draw = "printf '\\033]0;my title\\007plain \\033[1;31mred\\033[0m \\377\\n\\033[?1049h\\033[H\\033[44mfull\\033[0m\\033[?25l'; read -r";
    let live = Live::start(&daemon, draw, json!(null));
    let screen = live.screen("wait=match:full");
    assert_eq!((&screen["rows"], &screen["cols"]), (&json!(24), &json!(80)));
    assert_eq!((&screen["title"], &screen["alternate"]), (&json!("my title"), &json!(true)));
    assert_eq!(screen["cursor"], json!({"row": 0, "col": 4, "visible": false}));
    assert!(screen.get("cells").is_none() && screen.get("dump").is_none(), "{screen:#}");
    let cells = live.screen("format=cells");
    assert_eq!(cells["cells"][0], json!([{"text": "full", "background": "4"}]));
    let ansi = live.screen("format=ansi");
    assert_eq!(ansi["lines"][0], "\u{1b}[48;5;4mfull\u{1b}[0m");
    let dump = ansi["dump"].as_str().unwrap();
    assert!(dump.contains("full") && dump.contains("plain"), "both buffers are in {dump:?}");
    live.send("\r");
    daemon.wait_run("s", &live.run, 30);
    let plain = Live::start(&daemon, "printf 'plain \\377\\n'; read -r", json!(null));
    assert!(text(&plain.screen("wait=match:plain")).contains("plain \u{fffd}"));
    plain.send("\r");
}

#[test]
fn a_full_screen_editor_is_driven_by_keys() {
    let daemon = Daemon::start();
    daemon.create("s");
    let vi = Live::start(&daemon, "vi -u NONE -N note.txt", json!({"rows": 20, "cols": 70}));
    let open = vi.screen("wait=match:note.txt");
    assert_eq!(open["alternate"], json!(true), "{open:#}");
    vi.send("ihello from vi\u{1b}");
    let typed = vi.screen("wait=match:hello%20from%20vi");
    assert!(typed["lines"][0].as_str().unwrap().starts_with("hello"), "{typed:#}");
    vi.send(":wq\r");
    assert_eq!(daemon.wait_run("s", &vi.run, 30).exit_code(), Some(0));
    assert_eq!(daemon.sh("s", "cat note.txt").out(), "hello from vi\n");
}

#[test]
fn a_registered_secret_is_not_on_the_screen() {
    let secret = "correct-horse-battery-staple";
    let settings =
        Settings::default().env("SHELLKEEP_RECORD_REDACT_ON_WRITE", "true").env("SHELLKEEP_RECORD_SECRETS", secret);
    let daemon = Daemon::with(settings);
    daemon.create("s");
    let command = "printf '%s' 'the word is correct-horse-'; printf 'battery-staple'; printf '\\n# '; read -r";
    let live = Live::start(&daemon, command, json!({"rows": 5, "cols": 30}));
    for format in ["text", "ansi", "cells"] {
        let answer = live.screen(&format!("wait=match:%23&format={format}"));
        assert_eq!(answer["masked"], json!(true), "{answer:#}");
        assert!(text(&answer).contains("the word is ***"), "{answer:#}");
        let whole = answer.to_string();
        assert!(!whole.contains("horse") && !whole.contains("staple"), "{whole}");
    }
    live.send("\r");
}

/// The rows of each screen of a run that has ended, put together from what changed.
fn past(screens: &[Value]) -> Vec<Vec<String>> {
    let mut rows: Vec<String> = Vec::new();
    let text = |cells: &Value| -> String {
        cells.as_array().unwrap().iter().map(|cell| cell["text"].as_str().unwrap()).collect()
    };
    let put = |screen: &Value| {
        rows.resize(screen["rows"].as_u64().unwrap() as usize, String::new());
        for changed in screen["changed"].as_array().unwrap() {
            rows[changed["row"].as_u64().unwrap() as usize] = text(&changed["cells"]);
        }
        rows.clone()
    };
    screens.iter().map(put).collect()
}

#[test]
fn a_program_that_has_ended_is_shown_as_it_was() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "export API_TOKEN=correct-horse-battery");
    // What is drawn within 10 ms is one screen.
    let draw = "echo before $API_TOKEN; printf '\\033[?1049h\\033[Hfull \\033[31mred\\033[0m'; read -r; sleep 0.05; \
                printf '\\033[2;1Hsecond'; read -r; sleep 0.05; printf '\\033[?1049l'";
    let live = Live::start(&daemon, draw, json!({"rows": 4, "cols": 40}));
    live.screen("wait=match:red");
    let list = |query: &str| daemon.get(&live.path(&format!("screens?{query}"))).json();
    assert_eq!(list(""), json!({"run_id": live.run, "screens": [], "next": null}), "it has not ended");
    live.send("\r");
    live.screen("wait=match:second");
    daemon.post(&live.path("resize"), &json!({"rows": 5, "cols": 50}));
    live.screen("wait=match:second");
    live.send("\r");
    daemon.wait_run("s", &live.run, 30);
    let all = list("");
    let screens = all["screens"].as_array().unwrap();
    let rows = past(screens);
    let place = |first: &str, second: &str| rows.iter().position(|rows| rows[0] == first && rows[1] == second);
    let (one, two) = (place("full red", "").unwrap(), place("full red", "second").unwrap());
    assert!(one < two && screens[one]["alternate"] == json!(true), "{all:#}");
    let cells = json!([{"text": "full "}, {"text": "red", "foreground": "1"}]);
    let red = screens[..=one].iter().flat_map(|screen| screen["changed"].as_array().unwrap());
    assert!(red.into_iter().any(|changed| changed["cells"] == cells), "{all:#}");
    let (last, shown) = (screens.last().unwrap(), rows.last().unwrap());
    assert_eq!((&last["alternate"], &last["rows"], &last["cols"]), (&json!(false), &json!(5), &json!(50)));
    assert_eq!((shown[0].as_str(), shown[1].as_str()), ("before correct-horse-battery", ""), "{all:#}");
    // Pages of one are the same screens; each begins with the whole screen.
    let (mut from, mut times) = (Some(0), Vec::new());
    while let Some(start) = from {
        let page = list(&format!("limit=1&from_ms={start}"));
        times.push(page["screens"][0]["at_ms"].clone());
        assert_eq!(
            page["screens"][0]["changed"].as_array().unwrap().len() as u64,
            page["screens"][0]["rows"].as_u64().unwrap()
        );
        from = page["next"].as_u64();
    }
    let expected: Vec<Value> = screens.iter().map(|screen| screen["at_ms"].clone()).collect();
    assert_eq!(times.last(), expected.last());
    assert!(times.iter().all(|time| expected.contains(time)), "{times:?} {expected:?}");
    let masked = list("redact=true").to_string();
    assert!(masked.contains("before ***") && !masked.contains("horse"), "{masked}");
}

#[test]
fn what_has_no_screen_says_so() {
    let daemon = Daemon::start();
    daemon.create("s");
    let code = |target: String, body: Option<Value>| {
        let answer = match body {
            Some(body) => daemon.post(&target, &body),
            None => daemon.send(&Request::new("GET", &target)),
        };
        (answer.status, answer.json()["code"].as_str().unwrap().to_owned(), answer.json()["detail"].to_string())
    };
    let piped = daemon.run("s", json!({"command": "read -r", "blocking": false}));
    let path = format!("/v1/sessions/s/runs/{}", piped.run_id());
    let size = json!({"rows": 10, "cols": 10});
    for answer in [code(format!("{path}/screen"), None), code(format!("{path}/resize"), Some(size.clone()))] {
        assert_eq!((answer.0, answer.1.as_str()), (409, "no_terminal"), "{answer:?}");
        assert!(answer.2.contains("tty=true"), "{answer:?}");
    }
    daemon.post(&format!("{path}/input"), &json!({"eof": true}));
    daemon.wait_run("s", piped.run_id(), 30);
    assert_eq!(code(format!("{path}/screen"), None).1, "run_ended");
    assert_eq!(code(format!("{path}/screens"), None).1, "no_terminal");
    assert_eq!(code(format!("{path}/screens?limit=0"), None).1, "invalid_request");
    assert_eq!(code("/v1/sessions/s/runs/r999/screen".to_owned(), None).1, "run_not_found");
    let live = Live::start(&daemon, "read -r", json!(null));
    for query in ["wait=soon", "wait=quiet:x", "wait=match:(", "timeout=301", "format=html", "version=1", "rows=1"] {
        let answer = code(live.path(&format!("screen?{query}")), None);
        assert_eq!((answer.0, answer.1.as_str()), (400, "invalid_request"), "{query}: {answer:?}");
    }
    for body in [json!({"rows": 0, "cols": 80}), json!({"rows": 501, "cols": 80}), json!({"rows": 24})] {
        assert_eq!(code(live.path("resize"), Some(body.clone())).0, 400, "{body}");
    }
    let sized = json!({"command": "true", "tty_size": size});
    assert_eq!(code("/v1/sessions/s/run".to_owned(), Some(sized)).1, "invalid_request");
    live.send("\r");
}

/// It was said to have been started without a terminal.
#[test]
fn the_screens_of_a_lost_run_are_lost() {
    let mut daemon = Daemon::start();
    daemon.create("s");
    let path = Live::start(&daemon, "read -r", json!(null)).path("");
    daemon.restart();
    let run = path.trim_end_matches('/');
    assert_eq!(daemon.get(&format!("{run}?wait=60")).json()["status"], "lost");
    let answer = daemon.get(&format!("{run}/screens"));
    assert_eq!((answer.status, &answer.json()["code"]), (410, &json!("screens_lost")), "{}", answer.text());
    assert!(!answer.text().contains("tty=true"), "{}", answer.text());
}
