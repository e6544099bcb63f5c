//! What stands before a line: session, directory, and the exit code of the last command if it failed.

use crate::terminal;
use shellkeep_protocol::RunResponse;
use shellkeep_terminal::{Colour, words};

pub struct Prompt {
    session: String,
    cwd: String,
    failed: Option<i32>,
}

impl Prompt {
    /// Before the first command.
    pub fn new(session: &str, cwd: &str) -> Self {
        Self { session: session.to_owned(), cwd: cwd.to_owned(), failed: None }
    }

    /// After a command.
    pub fn after(&mut self, result: &RunResponse) {
        self.cwd = result.cwd.clone();
        self.failed = result.exit_code.filter(|code| *code != 0);
    }

    /// As it is printed.
    pub fn text(&self) -> String {
        let home = std::env::var("HOME").ok();
        let cwd = terminal::harmless(&words::path(&self.cwd, home.as_deref()));
        let failed = self
            .failed
            .map_or_else(String::new, |code| format!(" {}", terminal::coloured(&format!("[{code}]"), Colour::Red)));
        format!("{}:{}{failed} $ ", terminal::coloured(&self.session, Colour::Green), cwd)
    }
}
