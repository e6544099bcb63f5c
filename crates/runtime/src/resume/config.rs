//! The agent that a session's config names: `{"agent": {"command": ["python3", "agent.py"], "cwd"?, "env"?, "timeout"?}}`.

use crate::given_secrets::{GivenSecrets, MOST_FILLED};
use crate::ops::{DEFAULT_RESUME_TIMEOUT, MAX_TIMEOUT};
use serde_json::Value;
use shellkeep_process::ProgramSpec;
use shellkeep_session::ShellState;
use shellkeep_session::shell;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

/// Longest variable that the system passes to a program.
const MOST_IN_VARIABLE: usize = 128 << 10;

/// An agent as a config names it.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentProgram {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Where it starts; relative to the session's directory, which is the default.
    pub cwd: Option<String>,
    /// Variables in addition to the session's.
    pub env: BTreeMap<String, String>,
    /// How long it may work on a message.
    pub timeout: Duration,
}

impl AgentProgram {
    /// Reads it; an error says what is missing or wrong.
    pub fn of(config: &Value) -> Result<Self, String> {
        let agent = config.get("agent").filter(|agent| !agent.is_null()).ok_or("its config has no \"agent\"")?;
        let agent = agent.as_object().ok_or("\"agent\" in its config is not an object")?;
        let words = agent.get("command").ok_or("\"agent\" in its config has no \"command\"")?;
        let words = words.as_array().ok_or("\"agent.command\" in its config is not a list of strings")?;
        let command: Option<Vec<String>> = words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
        let command = command.ok_or("\"agent.command\" in its config is not a list of strings")?;
        if command.first().is_none_or(String::is_empty) {
            return Err("\"agent.command\" in its config is empty".to_owned());
        }
        let cwd = match agent.get("cwd") {
            None | Some(Value::Null) => None,
            Some(Value::String(path)) if !path.is_empty() => Some(path.clone()),
            Some(_) => return Err("\"agent.cwd\" in its config is not a path".to_owned()),
        };
        let env = variables(agent.get("env"))?;
        let timeout = match agent.get("timeout") {
            None | Some(Value::Null) => DEFAULT_RESUME_TIMEOUT,
            Some(value) => {
                let given = value.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                let is_usable = |timeout: &Duration| !timeout.is_zero() && *timeout <= MAX_TIMEOUT;
                given
                    .filter(is_usable)
                    .ok_or("\"agent.timeout\" in its config is not a number of seconds up to a day")?
            }
        };
        let agent = Self { command, cwd, env, timeout };
        let has_nul = agent.command.iter().chain(&agent.cwd).chain(agent.env.values()).any(|text| text.contains('\0'));
        if has_nul { Err("a string of \"agent\" in its config has a NUL byte".to_owned()) } else { Ok(agent) }
    }

    /// How it is started in a session with this shell state and these secrets. An error says why it cannot be.
    pub fn spec(&self, shell: &ShellState, given: &GivenSecrets) -> Result<ProgramSpec, String> {
        let mut room = MOST_FILLED;
        let mut environment: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for (name, variable) in &shell.variables {
            if let (true, shell::Value::Value(value)) = (variable.attributes.contains('x'), &variable.value) {
                let mut value = value.0.clone();
                let before = room;
                let is_filled = given.fill([&mut value], &mut room);
                // Of one without a secret, the system tells.
                if !is_filled || (room < before && value.len() > MOST_IN_VARIABLE) {
                    let name = name.to_text();
                    return Err(format!(
                        "with the secrets in it, its variable {name} is too long to be passed; unset it"
                    ));
                }
                environment.insert(name.0.clone(), value);
            }
        }
        environment.extend(given.variables(&self.env));
        let base = given.directory(&shell.cwd);
        let cwd = self.cwd.as_ref().map_or_else(|| base.clone(), |cwd| base.join(cwd));
        Ok(ProgramSpec {
            arguments: self.command.iter().map(|word| word.clone().into_bytes()).collect(),
            cwd: cwd.as_os_str().as_bytes().to_vec(),
            environment: environment.into_iter().collect(),
        })
    }
}

fn variables(given: Option<&Value>) -> Result<BTreeMap<String, String>, String> {
    let wrong = "\"agent.env\" in its config is not an object of strings";
    let given = match given {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(value) => value.as_object().ok_or(wrong)?,
    };
    let mut variables = BTreeMap::new();
    for (name, value) in given {
        let is_name = !name.is_empty() && !name.contains(['=', '\0']);
        let value = value.as_str().filter(|_| is_name).ok_or(wrong)?;
        variables.insert(name.clone(), value.to_owned());
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use shellkeep_session::shell::Variable;
    use std::collections::BTreeSet;

    #[test]
    fn what_is_wrong_with_a_config_is_said() {
        let table = [
            (json!({}), "has no \"agent\""),
            (json!({"agent": null}), "has no \"agent\""),
            (json!({"agent": "python3"}), "not an object"),
            (json!({"agent": {}}), "has no \"command\""),
            (json!({"agent": {"command": "python3 a.py"}}), "not a list of strings"),
            (json!({"agent": {"command": ["python3", 5]}}), "not a list of strings"),
            (json!({"agent": {"command": []}}), "is empty"),
            (json!({"agent": {"command": ["a\u{0}"]}}), "NUL"),
            (json!({"agent": {"command": ["a"], "cwd": 5}}), "agent.cwd"),
            (json!({"agent": {"command": ["a"], "env": {"A": 1}}}), "agent.env"),
            (json!({"agent": {"command": ["a"], "env": {"A=B": "x"}}}), "agent.env"),
            (json!({"agent": {"command": ["a"], "timeout": 0}}), "agent.timeout"),
            (json!({"agent": {"command": ["a"], "timeout": "5"}}), "agent.timeout"),
        ];
        for (config, expected) in table {
            let error = AgentProgram::of(&config).unwrap_err();
            assert!(error.contains(expected), "{config}: {error}");
        }
    }

    #[test]
    fn it_starts_with_what_the_session_exports() {
        let config = json!({"agent": {"command": ["a", "b"], "cwd": "sub", "env": {"B": "own"}, "timeout": 1.5}});
        let agent = AgentProgram::of(&config).unwrap();
        assert_eq!(agent.timeout, Duration::from_millis(1500));
        let mut shell = ShellState { cwd: "/tmp".into(), ..ShellState::default() };
        shell.variables.insert("A".into(), Variable::scalar("x", "1"));
        shell.variables.insert("B".into(), Variable::scalar("x", "session's"));
        shell.variables.insert("local".into(), Variable::scalar("", "2"));
        let spec = agent.spec(&shell, &GivenSecrets::default()).unwrap();
        assert_eq!(spec.cwd, b"/tmp/sub");
        let pairs = [(b"A".to_vec(), b"1".to_vec()), (b"B".to_vec(), b"own".to_vec())];
        assert_eq!(spec.environment, pairs);
        assert_eq!(spec.arguments, [b"a".to_vec(), b"b".to_vec()]);
    }

    #[test]
    fn it_gets_the_secrets_and_copies_of_them() {
        let agent = AgentProgram::of(&json!({"agent": {"command": ["a"], "env": {"KEY": "own"}}})).unwrap();
        let mut shell = ShellState::default();
        shell.variables.insert("COPY".into(), Variable::scalar("x", "a ⟨secret:TOKEN⟩ z"));
        shell.variables.insert("TOKEN".into(), Variable::scalar("x", "the session's"));
        let mut given = GivenSecrets::default();
        for name in ["TOKEN", "KEY"] {
            given.add(name, Some(format!("value-of-{name}").into_bytes()), &BTreeSet::new());
        }
        let pair = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        let expected = [pair("COPY", "a value-of-TOKEN z"), pair("KEY", "own"), pair("TOKEN", "value-of-TOKEN")];
        assert_eq!(agent.spec(&shell, &given).unwrap().environment, expected);
        // Three times the longest variable: the system would not say which one it was.
        shell.variables.insert("MANY".into(), Variable::scalar("x", "⟨secret:TOKEN⟩".repeat(30_000)));
        assert!(agent.spec(&shell, &given).unwrap_err().contains("MANY"));
    }
}
