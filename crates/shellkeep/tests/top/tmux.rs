//! `shellkeep attach` in tmux, as a person uses it: a terminal that has a size of its own, sends keys as a keyboard does
//! and answers what programs ask it, beside the daemon, which answers too.

use crate::support::daemon::Daemon;
use crate::support::{bash, skip};
use serde_json::Value;
use std::process::{Command, Output};

/// Columns and rows of the window.
const SIZE: (&str, &str) = ("100", "30");

/// A tmux server with one window, in which somebody is attached to the session `s`.
struct Window<'a> {
    daemon: &'a Daemon,
}

impl<'a> Window<'a> {
    /// `None`, with the reason printed, where a program is missing.
    fn attached(daemon: &'a Daemon, needs: &[&str]) -> Option<Self> {
        let exists =
            |program: &str| Command::new("which").arg(program).output().is_ok_and(|found| found.status.success());
        if let Some(missing) = ["tmux"].iter().chain(needs).find(|program| !exists(program)) {
            skip(&format!("{missing} is missing"));
            return None;
        }
        daemon.create("s");
        daemon.sh("s", "cd /usr");
        let window = Self { daemon };
        let (socket, data) = (daemon.directory().join("s.sock"), daemon.data());
        let attach = [env!("CARGO_BIN_EXE_shellkeep"), "attach", "s", "--no-start", "--socket"];
        let mut command = window.command();
        command
            .args(["new-session", "-d", "-x", SIZE.0, "-y", SIZE.1])
            .args(["sh", "-c", "\"$@\"; echo exit status $?", "sh"])
            .args(attach)
            .arg(socket)
            .arg("--data")
            .arg(data);
        // What it said last can be read when it has ended. tmux 3.3 at times loses the exit status that it shows itself:
        // it drops SIGCHLD while it takes the terminal off the list of logins.
        done(command.args([";", "set-option", "remain-on-exit", "on"]));
        window.prompt();
        Some(window)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        command.env_clear().envs(bash::environment()).env("USER", "ann").env("NO_COLOR", "1");
        command.args(["-u", "-f", "/dev/null", "-S"]).arg(self.daemon.directory().join("tmux.sock"));
        command
    }

    fn ask(&self, args: &[&str]) -> String {
        String::from_utf8(done(self.command().args(args)).stdout).unwrap()
    }

    /// A figure of tmux about the window.
    fn figure(&self, name: &str) -> String {
        self.ask(&["display-message", "-p", &format!("#{{{name}}}")]).trim_end().to_owned()
    }

    /// What is to be seen, without empty lines at the end.
    fn screen(&self) -> String {
        self.ask(&["capture-pane", "-p"]).trim_end().to_owned()
    }

    fn type_text(&self, text: &str) {
        self.ask(&["send-keys", "-l", text]);
    }

    /// Presses keys by their names.
    fn press(&self, keys: &[&str]) {
        self.ask(&[&["send-keys"], keys].concat());
    }

    fn enter(&self, line: &str) {
        self.type_text(line);
        self.press(&["Enter"]);
    }

    fn until(&self, what: &str, is: impl Fn(&str) -> bool) {
        let mut seen = String::new();
        let found = shellkeep_poll::attempt(shellkeep_poll::LONG, || {
            seen = self.screen();
            is(&seen).then_some(())
        });
        assert!(found.is_some(), "waited in vain for {what}:\n{seen}");
    }

    fn line(&self, text: &str) {
        self.until(text, |screen| screen.lines().any(|line| line.trim_end() == text));
    }

    /// Waits for an empty prompt below everything else: nothing was typed that nobody typed.
    fn prompt(&self) {
        let is_prompt = |line: &str| line.ends_with(" $") && line.starts_with("s:/usr");
        self.until("an empty prompt", |screen| screen.lines().last().is_some_and(is_prompt));
    }

    /// Leaves; what the session recorded.
    fn leave(self) -> Vec<Value> {
        self.enter("exit");
        self.line("exit status 0");
        let said = self.screen();
        assert!(said.contains("handed back"), "{said}");
        let events = self.daemon.get("/v1/sessions/s/events?limit=1000").json();
        events["events"].as_array().unwrap().clone()
    }
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        let _ = self.command().arg("kill-server").output();
    }
}

fn done(command: &mut Command) -> Output {
    let output = command.output().expect("tmux starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn htop_fills_the_window_and_follows_its_size() {
    let daemon = Daemon::start();
    let Some(window) = Window::attached(&daemon, &["htop"]) else { return };
    window.enter("htop");
    let fills =
        |rows: usize| move |screen: &str| screen.lines().nth(rows - 1).is_some_and(|line| line.contains("F10Quit"));
    window.until("htop", fills(30));
    assert_eq!(window.figure("alternate_on"), "1");
    window.ask(&["resize-window", "-x", "90", "-y", "20"]);
    window.until("htop in fewer rows", fills(20));
    window.press(&["F1"]);
    window.until("its help", |screen| screen.starts_with("htop "));
    window.press(&["Space"]);
    window.until("its list", fills(20));
    window.press(&["F10"]);
    window.prompt();
    assert_eq!(window.figure("alternate_on"), "0");
    window.enter("stty size");
    window.line("20 90");
    window.leave();
}

#[test]
fn an_editor_gets_every_key() {
    let daemon = Daemon::start();
    let Some(window) = Window::attached(&daemon, &["vi"]) else { return };
    let note = daemon.directory().join("note.txt");
    window.enter(&format!("vi -u NONE -N {}", note.display()));
    window.until("the editor", |screen| screen.lines().nth(1) == Some("~"));
    assert_eq!(window.figure("alternate_on"), "1");
    window.type_text("itwo");
    window.press(&["Enter"]);
    window.type_text("one");
    window.line("one");
    window.press(&["Escape"]);
    // The end of insert mode is not seen in every editor; the cursor on the last letter is.
    shellkeep_poll::until("the end of insert mode", || (window.figure("cursor_x") == "2").then_some(()));
    window.press(&["Up"]);
    window.type_text("x:wq");
    window.press(&["Enter"]);
    window.prompt();
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "tw\none\n");
    window.leave();
}

#[test]
fn an_interpreter_is_interrupted_and_goes_on() {
    let daemon = Daemon::start();
    let Some(window) = Window::attached(&daemon, &["python3"]) else { return };
    window.enter("python3 -q -i");
    window.until("the interpreter", |screen| screen.lines().last() == Some(">>>"));
    window.enter("6 * 7");
    window.line("42");
    window.enter("print('waits'); import time; time.sleep(600)");
    window.line("waits");
    window.press(&["C-c"]);
    window.until("the interpreter again", |screen| screen.ends_with("KeyboardInterrupt\n>>>"));
    window.enter("7 * 7");
    window.line("49");
    window.press(&["C-d"]);
    window.prompt();
    window.leave();
}

/// Python's `getpass` does as ssh does: it opens the terminal itself and turns the echo off.
#[test]
fn a_password_is_neither_shown_nor_recorded() {
    let daemon = Daemon::start();
    let Some(window) = Window::attached(&daemon, &["python3"]) else { return };
    window.enter("clear; python3 -c 'import getpass; print(len(getpass.getpass(\"password: \")), \"letters\")'");
    window.line("password:");
    window.enter("correct-horse");
    window.line("13 letters");
    window.prompt();
    assert!(!window.screen().contains("correct-horse"), "{}", window.screen());
    window.enter("echo seen");
    window.line("seen");
    window.prompt();
    let events = Value::from(window.leave()).to_string();
    assert!(events.contains("13 letters") && !events.contains("correct-horse"), "{events}");
}
