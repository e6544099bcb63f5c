//! Rejects invalid requests before anything happens, with errors that say what is valid.

pub mod records;

use crate::ops::{
    CreateSession, MAX_COMMAND, MAX_HOLD, MAX_HOLD_TEXT, MAX_MAX_OUTPUT, MAX_SERVICE_NAME, MAX_STDIN,
    MAX_TERMINAL_SIDE, MAX_TIMEOUT, OpError, RunCommand, SessionError, StartService, TakeHold, TerminalSize,
};
use crate::services::{Url, pattern};
use crate::user_path;
use records::invalid;
use shellkeep_session::{ByteString, Ready, ServiceId, SessionId, id};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

/// Variables that bash computes itself and that cannot be set.
const COMPUTED: [&str; 7] = ["BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "SHLVL", "UID"];

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
    records::not_too_deep("config", &request.config)?;
    environment(&request.env)?;
    if let Some(cwd) = &request.cwd {
        if !cwd.as_bytes().starts_with(b"/") {
            return Err(invalid("cwd must be an absolute path"));
        }
        no_nul("cwd", cwd)?;
    }
    Ok(())
}

/// The directory that a session's configuration names as its workspace, if it names one.
pub async fn workspace(config: &serde_json::Value, data_dir: &Path) -> Result<Option<ByteString>, OpError> {
    let named = match config.get("workspace") {
        None | Some(serde_json::Value::Null) => return Ok(None),
        Some(named) => named,
    };
    let shown = named.as_str().map_or_else(|| named.to_string(), str::to_owned);
    let refused =
        |reason: &str| OpError::Session(SessionError::BadWorkspace { path: shown.clone(), reason: reason.to_owned() });
    let Some(named) = named.as_str() else { return Err(refused("it must be a string, an absolute path")) };
    if !named.starts_with('/') || named.contains('\0') {
        return Err(refused("it must be an absolute path"));
    }
    let real = user_path::real_directory(named.into()).await.map_err(|reason| refused(&reason))?;
    let data_dir = user_path::real_directory(data_dir.to_owned()).await.unwrap_or_else(|_| data_dir.to_owned());
    if data_dir.starts_with(&real) || real.starts_with(&data_dir) {
        return Err(refused("it holds the daemon's own data, or is part of it"));
    }
    Ok(Some(ByteString(real.into_os_string().into_vec())))
}

/// Checks a service.
pub fn service(request: &StartService) -> Result<(), OpError> {
    no_nul("command", &request.command)?;
    let text = request.command.as_bytes();
    if text.len() > MAX_COMMAND {
        return Err(invalid(format!("command is longer than {MAX_COMMAND} bytes; put it into a file and run that")));
    }
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err(invalid("command must not be empty"));
    }
    if let Some(name) = &request.name
        && (name.is_empty() || name.chars().count() > MAX_SERVICE_NAME || name.chars().any(char::is_control))
    {
        return Err(invalid(format!(
            "name must be 1 to {MAX_SERVICE_NAME} characters, none of them a control character"
        )));
    }
    if request.name.as_ref().is_some_and(|name| name.contains('/')) {
        return Err(invalid("name must not contain '/': it is part of the path at which the service is found"));
    }
    if let Some(name) = &request.name
        && ServiceId::parse(name).is_ok_and(|id| id.is_assigned())
    {
        return Err(invalid(format!("name: '{name}' has the form of an id (s1, r1), so it would not be found by it")));
    }
    if let Some(cwd) = &request.cwd {
        no_nul("cwd", cwd)?;
    }
    environment(&request.env)?;
    let checked = match &request.ready {
        Some(Ready::Port(0)) => Err("0 is not a port; pass the one it will listen on".to_owned()),
        Some(Ready::Port(_)) | None => Ok(()),
        Some(Ready::Log(text)) => pattern(text).map(|_| ()),
        Some(Ready::Http(text)) => Url::parse(text).map(|_| ()),
    };
    checked.map_err(|detail| invalid(format!("ready: {detail}")))
}

/// Checks the size of a terminal.
pub fn terminal(size: TerminalSize) -> Result<(), OpError> {
    for (name, side) in [("rows", size.rows), ("cols", size.cols)] {
        if !(1..=MAX_TERMINAL_SIDE).contains(&side) {
            return Err(invalid(format!("{name}: {side} is not between 1 and {MAX_TERMINAL_SIDE}")));
        }
    }
    Ok(())
}

/// Checks a hold.
pub fn hold(request: &TakeHold) -> Result<(), OpError> {
    let texts = [("holder", Some(&request.holder)), ("reason", request.reason.as_ref())];
    for (name, text) in texts.into_iter().filter_map(|(name, text)| text.map(|text| (name, text))) {
        if text.is_empty() || text.chars().count() > MAX_HOLD_TEXT || text.chars().any(char::is_control) {
            return Err(invalid(format!(
                "{name} must be 1 to {MAX_HOLD_TEXT} characters, none of them a control character"
            )));
        }
    }
    if request.ttl.is_zero() || request.ttl > MAX_HOLD {
        return Err(invalid(format!("ttl must be more than 0 and at most {} seconds", MAX_HOLD.as_secs())));
    }
    Ok(())
}

/// Checks a command.
pub fn command(command: &RunCommand) -> Result<(), OpError> {
    if let Some(tool_name) = &command.tool_name {
        // It is part of the name of a checkpoint.
        id::check(tool_name).map_err(|error| invalid(format!("tool_name: {error}")))?;
    }
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
    command.terminal.map_or(Ok(()), terminal)?;
    environment(&command.env)
}

fn no_nul(what: &str, bytes: &ByteString) -> Result<(), OpError> {
    if bytes.as_bytes().contains(&0) {
        return Err(invalid(format!("{what} contains a NUL byte, which cannot be passed to bash; remove it")));
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[tokio::test]
    async fn a_workspace_that_is_no_path_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let (data_dir, project) = (home.path().join("data"), home.path().join("project"));
        std::fs::create_dir(&data_dir).unwrap();
        std::fs::create_dir(&project).unwrap();
        for (named, shown) in
            [(json!(5), "5"), (json!(true), "true"), (json!(["/tmp"]), "[\"/tmp\"]"), (json!("x"), "x")]
        {
            let refused = workspace(&json!({"workspace": named}), &data_dir).await.unwrap_err();
            let OpError::Session(SessionError::BadWorkspace { path, reason }) = &refused else { panic!("{refused}") };
            assert!(path == shown && reason.contains("an absolute path"), "{refused}");
        }
        for config in [json!({}), json!({"workspace": null}), json!(null)] {
            assert_eq!(workspace(&config, &data_dir).await.unwrap(), None, "{config}");
        }
        let found = workspace(&json!({"workspace": project}), &data_dir).await.unwrap();
        assert_eq!(found.unwrap().as_path(), project.canonicalize().unwrap());
    }
}
