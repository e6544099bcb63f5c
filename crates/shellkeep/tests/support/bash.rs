//! The oracle: what `bash -c` does with the same text, in the same environment and directory.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

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

/// Runs `bash -c script` with nothing to read and no descriptor but the usual three.
pub fn run(script: &str, directory: &Path) -> Outcome {
    run_with(script, directory, &[])
}

/// The same with more variables.
pub fn run_with(script: &str, directory: &Path, variables: &[(&str, &Path)]) -> Outcome {
    let mut command = Command::new("bash");
    // A text may begin with a dash; it is still the text and not an option.
    match close_leaked() {
        None => command.args(["-c", "--"]),
        Some(closing) => command.arg("-c").arg(closing).arg("bash"),
    };
    command.arg(script).current_dir(directory).stdin(Stdio::null()).env_clear().envs(environment());
    command.envs(variables.iter().copied());
    let output = command.output().expect("bash starts");
    let status = output.status;
    let exit_code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1);
    Outcome { stdout: output.stdout, stderr: output.stderr, exit_code: i64::from(exit_code) }
}

/// Whoever started the tests may have left descriptors open, which the oracle would inherit and a session does not. The
/// script that closes them and becomes the oracle; `None` when there are none.
fn close_leaked() -> &'static Option<String> {
    static SCRIPT: LazyLock<Option<String>> = LazyLock::new(|| {
        let closing: String = leaked_descriptors().iter().map(|fd| format!("exec {fd}>&-; ")).collect();
        (!closing.is_empty()).then(|| format!("{closing} unset OLDPWD; exec bash -c -- \"$1\""))
    });
    &SCRIPT
}

/// Descriptors above the usual three that a child of ours would inherit.
fn leaked_descriptors() -> Vec<u32> {
    const CLOSE_ON_EXEC: u32 = 0o2_000_000;
    let inherits = |fd: &u32| {
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| u32::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok());
        flags.is_some_and(|flags| flags & CLOSE_ON_EXEC == 0)
    };
    let entries = fs::read_dir("/proc/self/fd").expect("Linux has /proc");
    let open = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    open.filter(|fd| *fd > 2).filter(inherits).collect()
}

/// Error text without the one thing that may differ: `bash -c` names its own flag in front of a syntax error.
pub fn same_errors(text: &[u8]) -> String {
    String::from_utf8_lossy(text).replace("bash: -c: line ", "bash: line ")
}
