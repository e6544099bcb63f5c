//! What a command is run with besides its text: for its record, and for the shell.

use crate::given_secrets::GivenSecrets;
use crate::masking::Masking;
use crate::ops::{OpError, RunCommand};
use shellkeep_process::{Stderr, Stdin};
use shellkeep_redact::{MASK, Redactor, looks_secret};
use shellkeep_session::shell::Value;
use shellkeep_session::{ByteString, Call, ShellState};
use std::collections::BTreeMap;

/// What the screen of a run understands.
const TERMINAL_KIND: &str = "xterm-256color";
/// What a command reads is recorded up to this size; of more, only the length.
const STDIN_BYTES: usize = 64 << 10;

/// What the caller asked for, masked if there is a redactor, and if everything is masked also the whole value of a name that
/// looks secret; `None` for a command with nothing but its text.
pub(super) fn call(command: &RunCommand, redactor: Option<&Redactor>, masking: &Masking) -> Option<Box<Call>> {
    let RunCommand { cwd, env, stdin, terminal, merge_stderr, .. } = command;
    if cwd.is_none() && env.is_empty() && stdin.is_none() && terminal.is_none() && !merge_stderr {
        return None;
    }
    let bytes = |bytes: &ByteString| match redactor {
        Some(redactor) => ByteString(redactor.redact(bytes.as_bytes())),
        None => bytes.clone(),
    };
    let value = |name: &str, value: &str| match redactor {
        Some(_) if masking.is_on() && looks_secret(name) => String::from_utf8_lossy(MASK).into_owned(),
        Some(redactor) => redactor.redact_str(value),
        None => value.to_owned(),
    };
    Some(Box::new(Call {
        cwd: cwd.as_ref().map(bytes),
        env: env.iter().map(|(name, given)| (name.clone(), value(name, given))).collect(),
        stdin: stdin.as_ref().filter(|stdin| stdin.as_bytes().len() <= STDIN_BYTES).map(bytes),
        stdin_bytes: stdin.as_ref().map_or(0, |stdin| stdin.as_bytes().len() as u64),
        tty: terminal.is_some(),
        merged: *merge_stderr,
    }))
}

/// Whether these variables can be set for a call or a service: bash would leave a readonly one as it is, and say
/// nothing.
pub(super) fn check_env(env: &BTreeMap<String, String>, shell: &ShellState) -> Result<(), OpError> {
    let is_readonly = |name: &&String| {
        let variable = shell.variables.get(&ByteString::from(name.as_str()));
        variable.is_some_and(|variable| variable.attributes.contains('r'))
    };
    match env.keys().find(is_readonly) {
        None => Ok(()),
        Some(name) => Err(OpError::Invalid {
            detail: format!(
                "env: '{name}' is readonly in this session, so it cannot be set for one call; leave it out. Nothing was \
                 run"
            ),
        }),
    }
}

/// The variables for this call alone: the secrets that the session is given, and what the caller gives, which comes first.
/// A program needs to know the kind of its terminal.
pub(super) fn variables(command: &RunCommand, shell: &ShellState, given: &GivenSecrets) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut variables = given.variables(&command.env);
    if command.terminal.is_some() && !command.env.contains_key("TERM") && !names_terminal(shell) {
        variables.push((b"TERM".to_vec(), TERMINAL_KIND.as_bytes().to_vec()));
    }
    variables
}

/// Whether the session says itself what kind of terminal it has.
fn names_terminal(shell: &ShellState) -> bool {
    let variable = shell.variables.get(&ByteString::from("TERM"));
    let value = variable.filter(|variable| variable.attributes.contains('x')).map(|variable| &variable.value);
    matches!(value, Some(Value::Value(kind)) if !matches!(kind.as_bytes(), b"" | b"dumb"))
}

pub(super) fn stderr_of(command: &RunCommand) -> Stderr {
    if command.merge_stderr { Stderr::Merged } else { Stderr::Apart }
}

pub(super) fn stdin_of(command: &RunCommand) -> Stdin<'_> {
    match (&command.stdin, command.terminal, command.blocking) {
        (_, Some(size), _) => Stdin::Terminal(size),
        (Some(bytes), ..) => Stdin::Given(bytes.as_bytes()),
        (None, _, false) => Stdin::Open,
        (None, _, true) => Stdin::Empty,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_session::shell::Variable;

    #[test]
    fn a_readonly_variable_is_refused_by_its_name() {
        let mut shell = ShellState::default();
        for (name, attributes) in [("FIXED", "rx"), ("FREE", "x")] {
            shell.variables.insert(name.into(), Variable::scalar(attributes, "1"));
        }
        let check = |name: &str| check_env(&BTreeMap::from([(name.to_owned(), "2".to_owned())]), &shell);
        assert!(check("FREE").is_ok() && check("NEW").is_ok());
        let refused = check("FIXED").unwrap_err();
        assert_eq!(refused.code(), "invalid_request");
        assert!(refused.to_string().contains("'FIXED'"), "{refused}");
    }
}
