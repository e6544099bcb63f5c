//! The oracle: what `bash -c` does with the same text, in the same environment and directory.

use std::path::Path;
use std::process::{Command, Stdio};

/// What a command left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub exit_code: i64,
}

/// The environment in which both the daemon and the oracle are started, so that neither sees the developer's own.
pub fn environment() -> Vec<(&'static str, &'static str)> {
    vec![("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/nonexistent"), ("LC_ALL", "C.UTF-8"), ("TERM", "dumb")]
}

/// Runs `bash -c script` with nothing to read.
pub fn run(script: &str, directory: &Path) -> Outcome {
    let mut command = Command::new("bash");
    // A text may begin with a dash; it is still the text and not an option.
    command.args(["-c", "--"]).arg(script).current_dir(directory).stdin(Stdio::null()).env_clear().envs(environment());
    let output = command.output().expect("bash starts");
    use std::os::unix::process::ExitStatusExt;
    let status = output.status;
    let exit_code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1);
    Outcome { stdout: output.stdout, stderr: output.stderr, exit_code: i64::from(exit_code) }
}

/// Error text without the one thing that may differ: `bash -c` names its own flag in front of a syntax error.
pub fn same_errors(text: &[u8]) -> String {
    String::from_utf8_lossy(text).replace("bash: -c: line ", "bash: line ")
}
