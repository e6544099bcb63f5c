//! Before the first command: what an earlier daemon left behind, and what every new session starts with.

use shellkeep_session::shell::{ShellState, Variable};
use shellkeep_session::{ByteString, Output, RunResult, RunStatus, SessionId};
use shellkeep_store::Store;
use std::collections::{BTreeMap, HashMap};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The name under which the processes of this data directory's daemons are found, now and after a crash.
pub fn instance(data_dir: &Path) -> String {
    shellkeep_store::identity::instance(data_dir)
}

/// Removes results that drivers left in files: their commands are lost.
pub fn clear_scratch(scratch: &Path) {
    for entry in std::fs::read_dir(scratch).into_iter().flatten().flatten() {
        let _ = std::fs::remove_file(entry.path());
    }
}

/// How long a start waits for a store that does not respond, and the pause between two attempts: a short failure must
/// not prevent a start.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);

/// Retries for a while.
pub async fn patiently<T, F: Future<Output = Result<T, String>>>(ask: impl Fn() -> F) -> Result<T, String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Err(reason) if Instant::now() < deadline => tracing::warn!(reason, "retrying the store"),
            other => return other,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// All sessions, and the agent that each belongs to.
pub type Known = HashMap<SessionId, Option<Arc<str>>>;

/// The names and agents of all sessions.
pub async fn known_sessions(store: &Store) -> Result<Known, String> {
    let names = store.names().await.map_err(|error| error.to_string())?;
    Ok(names.into_iter().collect())
}

/// The variables that every session starts with, if the daemon has them: what programs commonly need, and no secrets. A
/// name that ends in `*` is a prefix. The same list is in the README and in `docs/security.md`.
pub const ALWAYS_PASSED: [&str; 11] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "TERM"];

/// Whether a list of names and prefixes contains this name.
fn is_listed<S: AsRef<str>>(list: &[S], name: &[u8]) -> bool {
    list.iter().any(|entry| match entry.as_ref().strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning.as_bytes()),
        None => name == entry.as_ref().as_bytes(),
    })
}

/// The variables that new sessions get from the daemon: [`ALWAYS_PASSED`] and those in `more`; never our own settings,
/// which contain a token, nor what bash computes.
pub fn inherited_environment(more: &[String]) -> Vec<(Vec<u8>, Vec<u8>)> {
    const OWN_TO_EACH_SHELL: [&[u8]; 5] = [b"_", b"SHLVL", b"PWD", b"OLDPWD", b"BASH_ENV"];
    let is_name = |name: &[u8]| {
        name.first().is_some_and(|&b| b.is_ascii_alphabetic() || b == b'_')
            && name.iter().all(|&b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let mut inherited: Vec<(Vec<u8>, Vec<u8>)> = std::env::vars_os()
        .map(|(name, value)| (name.into_vec(), value.into_vec()))
        .filter(|(name, _)| is_name(name) && !name.starts_with(b"SHELLKEEP_"))
        .filter(|(name, _)| is_listed(&ALWAYS_PASSED, name) || is_listed(more, name))
        .filter(|(name, _)| !OWN_TO_EACH_SHELL.contains(&name.as_slice()))
        .filter(|(name, _)| !matches!(name.as_slice(), b"BASHOPTS" | b"SHELLOPTS" | b"UID" | b"EUID" | b"PPID"))
        .collect();
    // A table of variables is made of them for every session.
    inherited.sort_unstable();
    inherited
}

/// The initial state of a new session's shell. Built for every session, so arguments are moved, and the table is built
/// at once from mostly sorted data.
pub fn first_shell(inherited: &[(Vec<u8>, Vec<u8>)], given: BTreeMap<String, String>, cwd: &ByteString) -> ShellState {
    let exported = |value: ByteString| Variable::scalar("x", value);
    let inherited = inherited.iter().map(|(name, value)| (name.clone().into(), exported(value.clone().into())));
    let given = given.into_iter().map(|(name, value)| (name.into(), exported(value.into())));
    let here = [("PWD".into(), exported(cwd.clone()))];
    let variables = inherited.chain(given).chain(here).collect();
    ShellState { cwd: cwd.clone(), variables, ..ShellState::default() }
}

/// The result of a lost run.
pub fn nothing_known() -> RunResult {
    RunResult {
        status: RunStatus::Lost,
        exit_code: None,
        signal: None,
        stdout: Output::default(),
        stderr: Output::default(),
        duration_us: 0,
        cwd: ByteString::default(),
        changes: Default::default(),
        background_output: None,
        notices: Vec::new(),
        terminal: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_names_and_beginnings() {
        let more = ["AWS_*".to_owned(), "PLAIN".to_owned()];
        for (name, is_passed) in [("AWS_KEY", true), ("AWS", false), ("PLAIN", true), ("PLAINER", false), ("X", false)]
        {
            assert_eq!(is_listed(&more, name.as_bytes()), is_passed, "{name}");
        }
        assert!(is_listed(&ALWAYS_PASSED, b"LC_ALL") && !is_listed(&ALWAYS_PASSED, b"LD_PRELOAD"));
        assert!(is_listed(&["*"], b"ANYTHING"));
    }
}
