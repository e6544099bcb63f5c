//! How a command fails: one line on stderr that says what to do, and a documented exit code.

use std::fmt::{self, Display};
use std::process::ExitCode;

/// A client command could not do its work.
pub const FAILED: u8 = 1;
/// The daemon could not start, or the command line or configuration is wrong. `clap` uses the same code.
pub const CANNOT_START: u8 = 2;
/// `run`: shellkeep's own error, as in `ssh`, so that it differs from nearly every command's exit code.
pub const RUN_FAILED: u8 = 255;
/// The output pipe is closed: 128 + SIGPIPE, as a shell reports it.
pub const NO_READER: u8 = 141;

/// Why a command failed.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// A failure with an exit code and a sentence.
    pub fn new(code: u8, message: impl Display) -> Self {
        Self { code, message: message.to_string() }
    }

    /// A client command's failure.
    pub fn client(message: impl Display) -> Self {
        Self::new(FAILED, message)
    }

    /// A wrong command line or setting, or a daemon that cannot start.
    pub fn start(message: impl Display) -> Self {
        Self::new(CANNOT_START, message)
    }

    /// The same failure with another exit code.
    pub fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    /// The exit code.
    pub fn code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
