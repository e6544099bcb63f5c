//! Masking before anything is stored or returned (`record.redact_on_write`). A session's mask knows the rules, the host's
//! registered secrets and the values of the session's own variables whose names look secret; it is built again only when
//! one of those is new. The shell's state itself is not masked: a restored shell needs it.
//!
//! Where it is off, there is no mask, and nothing here is called.

use crate::ops::{RunCommand, ServiceView};
use serde_json::Value as Json;
use shellkeep_redact::{Config, ConfigError, MASK, Redactor, is_maskable, looks_secret};
use shellkeep_session::shell::{Value, Variable};
use shellkeep_session::{ByteString, Event, Notice, RunResult, ShellDelta, ShellState};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// The redaction settings.
#[derive(Clone, Default)]
pub struct RecordConfig {
    /// The active rules.
    pub redaction: Config,
    /// Secrets that are masked everywhere.
    pub secrets: Vec<String>,
    /// Whether everything is masked before it is stored or returned.
    pub redact_on_write: bool,
}

impl RecordConfig {
    /// What masks everything before it is written, if that is set: the rules and the registered secrets.
    pub fn writing_redactor(&self) -> Result<Option<Redactor>, ConfigError> {
        if self.redact_on_write { Masking::new(self).map(|masking| Some(masking.redactor)) } else { Ok(None) }
    }
}

impl fmt::Debug for RecordConfig {
    /// Without the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { redaction, secrets, redact_on_write } = self;
        let mut shown = f.debug_struct("RecordConfig");
        shown.field("redaction", redaction).field("secrets", &secrets.len()).field("redact_on_write", redact_on_write);
        shown.finish()
    }
}

/// What all sessions share.
#[derive(Clone)]
pub struct Masking {
    rules: Redactor,
    /// Rules and registered secrets.
    redactor: Redactor,
    secrets: Arc<[String]>,
    on_write: bool,
}

impl Masking {
    /// Builds it.
    pub fn new(config: &RecordConfig) -> Result<Self, ConfigError> {
        let rules = Redactor::new(&config.redaction)?;
        let redactor = rules.with_secrets(&config.secrets)?;
        Ok(Self { rules, redactor, secrets: config.secrets.clone().into(), on_write: config.redact_on_write })
    }

    /// The rules and the registered secrets.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// The registered secrets.
    pub fn secrets(&self) -> &[String] {
        &self.secrets
    }

    /// Whether things are masked when they are written.
    pub fn is_on(&self) -> bool {
        self.on_write
    }

    /// A service as shown to callers. The stored definition is not masked, so that it can be restarted.
    pub fn service(&self, mut view: ServiceView) -> ServiceView {
        if self.on_write {
            view.name = self.redactor.redact_str(&view.name);
            view.command.0 = self.redactor.redact(&view.command.0);
        }
        view
    }

    /// The mask of a session, if things are masked when they are written.
    pub fn of(&self, shell: &ShellState) -> Option<SessionMask> {
        if !self.on_write {
            return None;
        }
        let mut mask = SessionMask { masking: self.clone(), values: BTreeSet::new(), redactor: self.redactor.clone() };
        if mask.take(secret_values(shell.variables.iter())) {
            mask.rebuild();
        }
        Some(mask)
    }

    fn with(&self, values: &BTreeSet<Vec<u8>>) -> Redactor {
        let all = self.secrets.iter().map(|secret| secret.as_bytes()).chain(values.iter().map(Vec::as_slice));
        self.rules.with_secrets(all).unwrap_or_else(|error| {
            tracing::error!(%error, "the session's own secrets are not masked; the rules and registered secrets are");
            self.redactor.clone()
        })
    }
}

/// The mask of one session.
pub struct SessionMask {
    masking: Masking,
    /// Values that the session's secret variables have, or had since its actor started.
    values: BTreeSet<Vec<u8>>,
    redactor: Redactor,
}

/// Input that contains no secret. One that does is dropped: with the secret masked it would be another command.
pub fn without_secrets(input: Vec<u8>, mask: Option<&SessionMask>) -> Vec<u8> {
    let is_masked = |mask: &SessionMask| mask.redactor().redact(&input) != input;
    if mask.is_some_and(is_masked) { Vec::new() } else { input }
}

impl SessionMask {
    /// Checks what a command changed; returns whether there is a new secret.
    pub fn learn(&mut self, delta: &ShellDelta) -> bool {
        let set = delta.variables.iter().filter_map(|(name, variable)| Some((name, variable.as_ref()?)));
        let is_new = self.take(secret_values(set));
        if is_new {
            self.rebuild();
        }
        is_new
    }

    /// The current redactor.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// The redactor for one command, which knows the secrets in its text and its own variables too.
    pub fn for_run(&self, command: &RunCommand) -> Redactor {
        let text = command.command.as_bytes();
        let in_text = self.redactor.find(text).into_iter().filter_map(|found| text.get(found.range));
        let env = command.env.iter().filter(|(name, _)| looks_secret(name)).map(|(_, value)| value.as_bytes());
        let mut values = self.values.clone();
        let before = values.len();
        values.extend(in_text.chain(env).filter(|value| is_maskable(value)).map(<[u8]>::to_vec));
        if values.len() == before { self.redactor.clone() } else { self.masking.with(&values) }
    }

    /// Masks bytes.
    pub fn bytes(&self, bytes: &mut ByteString) {
        bytes.0 = self.redactor.redact(&bytes.0);
    }

    /// Masks the last word of the command, which bash keeps as `$_`. No shell needs it to be exact, and it is often what was
    /// printed.
    pub fn last_word(&self, delta: &mut ShellDelta) {
        if let Some(Some(Variable { value: Value::Value(word), .. })) = delta.variables.get_mut(b"_".as_slice()) {
            self.bytes(word);
        }
    }

    /// Masks a result except for its output, which was masked as it arrived.
    pub fn result(&self, result: &mut RunResult) {
        for (name, value) in &mut result.changes.env {
            if let Some(value) = value {
                *value = if looks_secret(name) { mask() } else { self.redactor.redact_str(value) };
            }
        }
        self.notices(&mut result.notices);
    }

    /// Masks what is about to be recorded.
    pub fn event(&self, event: &mut Event) {
        match event {
            Event::ShellStopped { notices, .. } | Event::ServiceEnded { notices, .. } => self.notices(notices),
            Event::ProcessesLeft { processes } => {
                processes.iter_mut().for_each(|process| process.command = self.redactor.redact_str(&process.command));
            }
            Event::Noted { data, .. } => self.json(data),
            Event::MessageAdded { message, .. } => self.json(&mut message.content),
            _ => {}
        }
    }

    fn notices(&self, notices: &mut [Notice]) {
        notices.iter_mut().for_each(|notice| notice.message = self.redactor.redact_str(&notice.message));
    }

    fn json(&self, value: &mut Json) {
        mask_json(&self.redactor, value);
    }

    fn take(&mut self, values: impl Iterator<Item = Vec<u8>>) -> bool {
        let before = self.values.len();
        self.values.extend(values);
        self.values.len() > before
    }

    fn rebuild(&mut self) {
        self.redactor = self.masking.with(&self.values);
    }
}

/// Masks every text in a JSON value, and the whole value of a name that looks secret.
pub fn mask_json(redactor: &Redactor, value: &mut Json) {
    match value {
        Json::String(text) => *text = redactor.redact_str(text),
        Json::Array(list) => list.iter_mut().for_each(|value| mask_json(redactor, value)),
        Json::Object(map) => {
            let masked = std::mem::take(map).into_iter().map(|(name, mut value)| {
                if looks_secret(&name) {
                    hide(&mut value);
                } else {
                    mask_json(redactor, &mut value);
                }
                (redactor.redact_str(&name), value)
            });
            *map = masked.collect();
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// Masks everything.
fn hide(value: &mut Json) {
    match value {
        Json::Array(list) => list.iter_mut().for_each(hide),
        Json::Object(map) => map.values_mut().for_each(hide),
        Json::Null | Json::Bool(_) => {}
        Json::String(text) if text.is_empty() => {}
        Json::String(_) | Json::Number(_) => *value = Json::String(mask()),
    }
}

fn mask() -> String {
    String::from_utf8_lossy(MASK).into_owned()
}

/// The values of variables whose names look secret.
fn secret_values<'a>(variables: impl Iterator<Item = (&'a ByteString, &'a Variable)>) -> impl Iterator<Item = Vec<u8>> {
    let secret = variables.filter(|(name, _)| name.as_str().is_some_and(looks_secret));
    let values = secret.flat_map(|(_, variable)| -> Vec<&ByteString> {
        match &variable.value {
            Value::Value(value) => vec![value],
            Value::Array(list) => list.iter().map(|(_, value)| value).collect(),
            Value::Map(list) => list.iter().map(|(_, value)| value).collect(),
            Value::Declared(_) | Value::Removed(_) => Vec::new(),
        }
    });
    values.filter(|value| is_maskable(value.as_bytes())).map(|value| value.0.clone())
}

/// The values of a shell's variables whose names look secret.
pub fn secrets_of(shell: &ShellState) -> Vec<Vec<u8>> {
    secret_values(shell.variables.iter()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn masking(secrets: &[&str]) -> Masking {
        let secrets = secrets.iter().map(|secret| (*secret).to_owned()).collect();
        Masking::new(&RecordConfig { secrets, redact_on_write: true, ..RecordConfig::default() }).unwrap()
    }

    fn shell(name: &str, value: &str) -> ShellState {
        let mut shell = ShellState::default();
        shell.variables.insert(name.into(), Variable::scalar("x", value));
        shell
    }

    #[test]
    fn a_session_without_the_setting_has_no_mask() {
        let masking = Masking::new(&RecordConfig::default()).unwrap();
        assert!(masking.of(&shell("API_KEY", "quite-a-secret")).is_none());
    }

    #[test]
    fn registered_secrets_and_secret_variables_are_masked_everywhere() {
        let mut mask = masking(&["horse-battery"]).of(&shell("DB_PASSWORD", "correct-staple")).unwrap();
        let text = "a horse-battery, a correct-staple, a later-value";
        assert_eq!(mask.redactor().redact_str(text), "a ***, a ***, a later-value");
        let mut delta = ShellDelta::default();
        delta.variables.insert("NAME".into(), Some(Variable::scalar("x", "later-value")));
        assert!(!mask.learn(&delta));
        delta.variables.insert("GITHUB_TOKEN".into(), Some(Variable::scalar("x", "later-value")));
        assert!(mask.learn(&delta) && !mask.learn(&delta));
        assert_eq!(mask.redactor().redact_str(text), "a ***, a ***, a ***");
    }

    #[test]
    fn the_last_word_is_masked_and_no_other_variable() {
        let mask = masking(&["horse-battery"]).of(&ShellState::default()).unwrap();
        let mut delta = ShellDelta::default();
        for name in ["_", "copy"] {
            delta.variables.insert(name.into(), Some(Variable::scalar("", "a horse-battery")));
        }
        mask.last_word(&mut delta);
        assert_eq!(delta.variables[b"_".as_slice()], Some(Variable::scalar("", "a ***")));
        assert_eq!(delta.variables[b"copy".as_slice()], Some(Variable::scalar("", "a horse-battery")));
    }

    #[test]
    fn a_command_brings_its_own_secrets() {
        let mask = masking(&[]).of(&ShellState::default()).unwrap();
        let mut command = RunCommand::new("export API_KEY=first-value-of-it; echo $API_KEY");
        command.env.insert("DB_PASSWORD".to_owned(), "second-value-of-it".to_owned());
        let redactor = mask.for_run(&command);
        assert_eq!(redactor.redact_str("first-value-of-it second-value-of-it"), "*** ***");
        assert_eq!(mask.redactor().redact_str("first-value-of-it"), "first-value-of-it");
    }

    #[test]
    fn json_is_masked_by_value_and_by_name() {
        let mut data = json!({
            "message": "say horse-battery", "n": 5, "list": ["horse-battery", null],
            "credentials": {"user": "ann", "id": 7}, "token_usage": {"total_tokens": 12}, "horse-battery": 1,
        });
        mask_json(masking(&["horse-battery"]).redactor(), &mut data);
        let masked = json!({
            "message": "say ***", "n": 5, "list": ["***", null],
            "credentials": {"user": "***", "id": "***"}, "token_usage": {"total_tokens": 12}, "***": 1,
        });
        assert_eq!(data, masked);
    }
}
