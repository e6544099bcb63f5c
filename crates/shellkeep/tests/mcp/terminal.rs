//! Programs on a terminal, driven by a model's tools alone.

use crate::client::{Answer, Client};
use crate::support::Daemon;
use serde_json::{Value, json};

/// A client with the tools for terminals.
fn client(daemon: &Daemon) -> Client {
    Client::start(daemon, daemon.directory(), &["--toolset", "terminal", "-s", "s"])
}

/// Starts a command on a terminal.
fn start(client: &mut Client, command: &str) -> String {
    let answer = client.call("run_command", json!({"command": command, "tty": true}));
    assert!(answer.text().contains("read_screen(id="), "it says how to go on: {}", answer.text());
    answer.run_id()
}

/// The screen, once a text is on it.
fn see(client: &mut Client, id: &str, text: &str) -> String {
    let screen = client.call("read_screen", json!({"id": id, "wait": format!("match:{text}")}));
    assert_eq!(screen.data()["timed_out"], json!(false), "{}", screen.text());
    screen.text().to_owned()
}

fn press(client: &mut Client, id: &str, keys: &[&str]) -> Answer {
    let answer = client.call("send_keys", json!({"id": id, "keys": keys}));
    assert!(!answer.is_error(), "{}", answer.text());
    answer
}

/// Waits for the end of a command.
fn end(client: &mut Client, id: &str) -> Value {
    client.call("read_output", json!({"id": id, "wait": 60})).data().clone()
}

#[test]
fn an_editor_writes_a_file() {
    let daemon = Daemon::start();
    let mut client = client(&daemon);
    let vi = start(&mut client, "vi -u NONE -N note.txt");
    see(&mut client, &vi, "note.txt");
    let typed = press(&mut client, &vi, &["i", "two\none", "Esc"]);
    assert!(typed.text().starts_with("two\none\n~"), "{}", typed.text());
    // The arrow goes up: `x` deletes the last letter of the first line.
    press(&mut client, &vi, &["Up", "x", ":wq"]);
    let left = press(&mut client, &vi, &["Enter"]);
    assert!(
        left.text().contains("has ended, exit code 0") || end(&mut client, &vi)["exit_code"] == 0,
        "{}",
        left.text()
    );
    assert_eq!(client.run("cat note.txt").text(), "tw\none\n");
}

#[test]
fn an_interpreter_answers_and_is_interrupted() {
    let daemon = Daemon::start();
    let mut client = client(&daemon);
    let python = start(&mut client, "python3 -q -i");
    see(&mut client, &python, ">>>");
    press(&mut client, &python, &["6 * 7", "Enter"]);
    see(&mut client, &python, "(?m)^42$");
    press(&mut client, &python, &["import time; time.sleep(600)", "Enter"]);
    // Ctrl-C reaches the program, which goes on.
    press(&mut client, &python, &["C-c"]);
    see(&mut client, &python, "KeyboardInterrupt\n>>>");
    // Python would report an interrupted last line by its own exit status.
    press(&mut client, &python, &["7 * 7", "Enter"]);
    see(&mut client, &python, "(?m)^49$");
    press(&mut client, &python, &["C-d"]);
    assert_eq!(end(&mut client, &python)["exit_code"], 0);
    let late = client.call("read_screen", json!({"id": python}));
    assert!(late.is_error() && late.text().contains("(run_ended)"), "{}", late.text());
    assert!(late.text().contains("read_output(id="), "{}", late.text());
}

#[test]
fn a_screen_that_redraws_itself_is_read_and_left() {
    let daemon = Daemon::start();
    let mut client = client(&daemon);
    let top = start(&mut client, "if command -v htop >/dev/null; then htop; else top -d 1; fi");
    see(&mut client, &top, "PID");
    let before = client.call("read_screen", json!({"id": top}));
    let after = client.call("read_screen", json!({"id": top, "wait": "change"}));
    assert!(after.data()["version"].as_u64() > before.data()["version"].as_u64(), "{}", after.text());
    assert!(after.text().contains("[24 rows, 80 columns"), "{}", after.text());
    press(&mut client, &top, &["q"]);
    assert_eq!(end(&mut client, &top)["exit_code"], 0);
}

#[test]
fn a_password_is_typed_and_not_recorded() {
    let daemon = Daemon::start();
    let mut client = client(&daemon);
    // The echo is off before the prompt is there. A variable of the session would be in the record of its state.
    let asks = "stty -echo; printf 'password: '; read -r word; stty echo; echo; read -rp 'name: ' name";
    let login = start(&mut client, &format!("({asks}; echo ${{#word}} $name)"));
    see(&mut client, &login, "password:");
    let hidden = press(&mut client, &login, &["correct-horse", "Enter"]);
    assert!(!hidden.text().contains("correct-horse"), "{}", hidden.text());
    see(&mut client, &login, "name:");
    press(&mut client, &login, &["ann", "Enter"]);
    assert!(end(&mut client, &login)["text"].as_str().unwrap().contains("13 ann"));
    let events = daemon.get("/v1/sessions/s/events?limit=1000").text();
    assert!(events.contains("ann") && !events.contains("correct-horse"), "{events}");
}

#[test]
fn what_has_no_terminal_says_how_to_get_one() {
    let daemon = Daemon::start();
    let mut client = client(&daemon);
    let piped = client.call("run_command", json!({"command": "read -r", "blocking": false})).run_id();
    for (tool, arguments) in [("read_screen", json!({"id": piped})), ("send_keys", json!({"id": piped, "keys": ["q"]}))]
    {
        let refused = client.call(tool, arguments);
        assert!(refused.is_error() && refused.text().contains("tty=true") && refused.text().contains("(no_terminal)"));
    }
    let service = client.call("send_keys", json!({"id": "s1", "keys": []}));
    assert!(service.text().contains("(no_terminal)"), "{}", service.text());
    let unknown = client.call("read_screen", json!({"id": "r99"}));
    assert!(unknown.text().contains("(run_not_found)"), "{}", unknown.text());
    let wrong = client.call("read_screen", json!({"id": piped, "wait": "soon"}));
    assert!(wrong.is_error() && wrong.text().contains("quiet:MS"), "{}", wrong.text());
    // The default tools have no terminals, and say who has.
    let mut plain = Client::start(&daemon, daemon.directory(), &["-s", "s"]);
    let refused = plain.call("run_command", json!({"command": "vi", "tty": true}));
    assert!(refused.is_error() && refused.text().contains("the toolset `terminal`"), "{}", refused.text());
}
