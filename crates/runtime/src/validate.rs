//! Requests that make no sense are refused here, before anything is touched, in words that say what would make sense.

use crate::ops::{CreateSession, MAX_COMMAND, MAX_MAX_OUTPUT, MAX_STDIN, MAX_TIMEOUT, OpError, RunCommand};
use shellkeep_session::{ByteString, SessionId, id};
use std::collections::BTreeMap;

/// Variables that bash computes itself and that nobody else may set.
const COMPUTED: [&str; 7] = ["BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "SHLVL", "UID"];

fn invalid(detail: impl Into<String>) -> OpError {
    OpError::Invalid { detail: detail.into() }
}

/// A name for a session whose caller gave none.
pub fn new_id() -> SessionId {
    let text = uuid::Uuid::new_v4().to_string();
    match SessionId::parse(&text) {
        Ok(id) => id,
        Err(_) => unreachable!("a UUID is made of hexadecimal digits and dashes"),
    }
}

/// Checks a request for a session.
pub fn create(request: &CreateSession) -> Result<(), OpError> {
    if let Some(agent) = &request.agent {
        id::check(agent).map_err(|error| invalid(format!("agent: {error}")))?;
    }
    environment(&request.env)?;
    if let Some(cwd) = &request.cwd {
        if !cwd.as_bytes().starts_with(b"/") {
            return Err(invalid("cwd must be an absolute path"));
        }
        no_nul("cwd", cwd)?;
        let path = cwd.to_text().into_owned();
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Err(OpError::BadCwd { path, reason: "it is not a directory".to_owned() }),
            Err(error) => return Err(OpError::BadCwd { path, reason: error.to_string() }),
        }
    }
    Ok(())
}

/// Checks a command.
pub fn command(command: &RunCommand) -> Result<(), OpError> {
    no_nul("command", &command.command)?;
    if command.command.as_bytes().len() > MAX_COMMAND {
        return Err(invalid(format!("command is longer than {MAX_COMMAND} bytes; put it into a file and run that")));
    }
    if command.stdin.as_ref().is_some_and(|stdin| stdin.as_bytes().len() > MAX_STDIN) {
        return Err(invalid(format!("stdin is longer than {MAX_STDIN} bytes; put it into a file and redirect it")));
    }
    if command.timeout.is_zero() || command.timeout > MAX_TIMEOUT {
        let most = MAX_TIMEOUT.as_secs();
        return Err(invalid(format!("timeout must be more than 0 and at most {most} seconds")));
    }
    if command.max_output > MAX_MAX_OUTPUT {
        return Err(invalid(format!("max_output is at most {MAX_MAX_OUTPUT} bytes; read the rest by offset")));
    }
    if let Some(cwd) = &command.cwd {
        no_nul("cwd", cwd)?;
    }
    if let Some(request_id) = &command.request_id {
        id::check(request_id).map_err(|error| invalid(format!("request_id: {error}")))?;
    }
    environment(&command.env)
}

fn no_nul(what: &str, bytes: &ByteString) -> Result<(), OpError> {
    if bytes.as_bytes().contains(&0) {
        return Err(invalid(format!("{what} contains a NUL byte, which bash cannot take; remove it")));
    }
    Ok(())
}

fn environment(env: &BTreeMap<String, String>) -> Result<(), OpError> {
    for (name, value) in env {
        let mut characters = name.chars();
        let starts_well = characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        if !starts_well || !characters.all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(invalid(format!("env: '{name}' is not a variable name (letters, digits and _)")));
        }
        if COMPUTED.contains(&name.as_str()) {
            return Err(invalid(format!("env: {name} is computed by bash and cannot be set")));
        }
        if value.contains('\0') {
            return Err(invalid(format!("env: the value of {name} contains a NUL byte; remove it")));
        }
    }
    Ok(())
}
