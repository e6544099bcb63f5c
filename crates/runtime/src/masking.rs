//! Masking before anything is stored or returned, for one of two reasons. With `record.redact_on_write` a session's mask
//! knows the rules, the host's registered secrets and the values of the session's own variables whose names look secret.
//! The mask of a session that is given secrets knows their values, in any case, and those are masked in its state too
//! ([`GivenSecrets::hide`]); otherwise the state is not masked, because a restored shell needs it. A mask is built again
//! only when one of those is new.
//!
//! A session with neither has no mask, and nothing here is called.

use crate::found_values::FoundValues;
use crate::given_secrets::GivenSecrets;
use crate::ops::{OpError, RunCommand, ServiceView};
use crate::tasks;
use serde_json::Value as Json;
use shellkeep_process::Fact;
use shellkeep_record::Masker;
use shellkeep_redact::{Config, ConfigError, MASK, Redactor, is_maskable, looks_secret};
use shellkeep_session::shell::{Value, Variable};
use shellkeep_session::{ByteString, Event, Json as _, Notice, RunResult, ShellDelta, ShellState};
use std::fmt;
use std::sync::Arc;

/// More texts than this take milliseconds to mask, for which other sessions must not wait.
const MANY_TEXTS: usize = 10_000;
/// Values of more bytes than this take milliseconds to get ready for.
pub(crate) const LONG_VALUES: usize = 4 << 10;

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
    /// Masks the values that it is given, and nothing else.
    of_values: Redactor,
    secrets: Arc<[String]>,
    on_write: bool,
}

impl Masking {
    /// Builds it.
    pub fn new(config: &RecordConfig) -> Result<Self, ConfigError> {
        let rules = Redactor::new(&config.redaction)?;
        let redactor = rules.with_secrets(&config.secrets)?;
        let of_values = shellkeep_record::scrub::redactor::<&[u8]>([])?;
        let secrets = config.secrets.clone().into();
        Ok(Self { rules, redactor, of_values, secrets, on_write: config.redact_on_write })
    }

    /// The rules and the registered secrets.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// The registered secrets.
    pub fn secrets(&self) -> &[String] {
        &self.secrets
    }

    /// Whether everything is masked when it is written, and not only the secrets that a session is given.
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

    /// The mask of a session with this shell and these secrets, if anything is masked when it is written.
    pub fn of(&self, shell: &ShellState, given: GivenSecrets) -> Option<SessionMask> {
        if !self.on_write && given.is_empty() {
            return None;
        }
        let (redactor, of_given) = (self.redactor.clone(), self.of_values.clone());
        let mut mask = SessionMask { masking: self.clone(), given, of_given, values: FoundValues::default(), redactor };
        let has_own = self.on_write && mask.values.add(secret_values(shell.variables.iter()));
        if !mask.given.is_empty() {
            mask.rebuild_of_given();
        }
        if has_own || !mask.given.is_empty() {
            mask.rebuild();
        }
        Some(mask)
    }

    /// What masks these values; with `record.redact_on_write` also what is masked in every session. If there are more than
    /// can be masked, it masks everything: what may hold one of them is not shown.
    fn with(&self, given: &GivenSecrets, values: &FoundValues) -> Redactor {
        let everywhere = self.secrets.iter().filter(|_| self.on_write).map(|secret| secret.as_bytes());
        let base = if self.on_write { &self.rules } else { &self.of_values };
        let build = || values.redactor(base, everywhere.chain(given.values()));
        let built = if values.bytes() + given.bytes() > LONG_VALUES { tasks::in_place(build) } else { build() };
        built.unwrap_or_else(|error| {
            tracing::warn!(%error, "the secrets of a session cannot be masked; its output is withheld");
            base.withholding()
        })
    }
}

/// The mask of one session.
pub struct SessionMask {
    masking: Masking,
    /// The secrets that it is given.
    given: GivenSecrets,
    /// Masks those and nothing else.
    of_given: Redactor,
    /// Values that the session's secret variables have, or had since its actor started.
    values: FoundValues,
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
        if !self.masking.on_write {
            return false;
        }
        let set = delta.variables.iter().filter_map(|(name, variable)| Some((name, variable.as_ref()?)));
        let is_new = self.values.add(secret_values(set));
        if is_new {
            self.rebuild();
        }
        is_new
    }

    /// Masks these secrets from now on.
    pub fn give(&mut self, given: GivenSecrets) {
        if self.given != given {
            self.given = given;
            self.rebuild_of_given();
            self.rebuild();
        }
    }

    /// Keeps the secrets that the session is given out of what its shell reports. Returns whether the session stays where it
    /// was, because it could not be given the path of its new directory.
    pub fn hide(&self, facts: &mut Vec<Fact>) -> bool {
        let is_much = facts.iter().map(Fact::count).sum::<usize>() > MANY_TEXTS && !self.given.is_empty();
        let mut hide = || self.given.hide(facts, &self.of_given);
        if is_much { tasks::in_place(hide) } else { hide() }
    }

    /// Whether a text holds a secret that the session is given.
    pub fn holds_given(&self, text: &[u8]) -> bool {
        !self.given.is_empty() && !self.of_given.find(text).is_empty()
    }

    /// The current redactor.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// The redactor for one command, which knows the secrets in its text and its own variables too.
    pub fn for_run(&self, command: &RunCommand) -> Redactor {
        if self.redactor.is_withholding() {
            return self.redactor.clone();
        }
        let text = command.command.as_bytes();
        let in_text = self.redactor.find(text).into_iter().filter_map(|found| text.get(found.range));
        let env = command.env.iter().filter(|(name, _)| self.masks_name(name)).map(|(_, value)| value.as_bytes());
        let mut values = self.values.clone();
        match values.add(in_text.chain(env).map(<[u8]>::to_vec)) {
            true => self.masking.with(&self.given, &values),
            false => self.redactor.clone(),
        }
    }

    /// Whether the value of a variable with this name is masked, whatever it is.
    fn masks_name(&self, name: &str) -> bool {
        self.masking.on_write && looks_secret(name)
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
                *value = if self.masks_name(name) { mask() } else { self.redactor.redact_str(value) };
            }
        }
        self.notices(&mut result.notices);
    }

    /// Masks what is about to be recorded.
    pub fn event(&self, event: &mut Event) {
        if self.masking.on_write {
            self.what_agents_say(event);
        }
        if !self.given.is_empty() {
            self.everywhere(event);
        }
    }

    /// Masks the secrets that the session is given, wherever they are in an event.
    fn everywhere(&self, event: &mut Event) {
        let masked = event.to_tree().and_then(|mut json| {
            let has_some = Masker::of_values(self.of_given.clone()).mask_value(&mut json);
            if has_some { Event::from_tree(&json).map(Some) } else { Ok(None) }
        });
        match masked {
            Ok(None) => {}
            Ok(Some(masked)) => *event = masked,
            // Only a value that is also the name of a session or a run could do that.
            Err(error) => tracing::error!(%error, "a secret of a session cannot be masked in one of its records"),
        }
    }

    fn what_agents_say(&self, event: &mut Event) {
        match event {
            Event::ShellStopped { notices, .. } | Event::ServiceEnded { notices, .. } => self.notices(notices),
            Event::ProcessesLeft { processes, unkept } => {
                unkept.descriptors.iter_mut().for_each(|open| *open = self.redactor.redact_str(open));
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

    fn rebuild(&mut self) {
        self.redactor = self.masking.with(&self.given, &self.values);
    }

    fn rebuild_of_given(&mut self) {
        self.of_given = self.masking.of_values.with_secrets(self.given.values()).unwrap_or_else(|error| {
            tracing::error!(%error, "the secrets that a session is given cannot be masked by themselves");
            self.redactor.clone()
        });
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

/// An error if a text that is stored as it is holds a secret that the session is given.
pub fn check_kept(mask: Option<&SessionMask>, what: &str, text: &[u8]) -> Result<(), OpError> {
    match mask {
        Some(mask) if mask.holds_given(text) => Err(OpError::Invalid {
            detail: format!(
                "{what}: it contains a secret that this session is given, which is never stored; store the secret's name \
                 instead"
            ),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use shellkeep_redact::MOST_FOUND;
    use std::collections::BTreeSet;

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
        assert!(masking.of(&shell("API_KEY", "quite-a-secret"), GivenSecrets::default()).is_none());
    }

    #[test]
    fn registered_secrets_and_secret_variables_are_masked_everywhere() {
        let mut mask =
            masking(&["horse-battery"]).of(&shell("DB_PASSWORD", "correct-staple"), GivenSecrets::default()).unwrap();
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
        let mask = masking(&["horse-battery"]).of(&ShellState::default(), GivenSecrets::default()).unwrap();
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
        let mask = masking(&[]).of(&ShellState::default(), GivenSecrets::default()).unwrap();
        let mut command = RunCommand::new("export API_KEY=first-value-of-it; echo $API_KEY");
        command.env.insert("DB_PASSWORD".to_owned(), "second-value-of-it".to_owned());
        let redactor = mask.for_run(&command);
        assert_eq!(redactor.redact_str("first-value-of-it second-value-of-it"), "*** ***");
        assert_eq!(mask.redactor().redact_str("first-value-of-it"), "first-value-of-it");
    }

    /// A variable of 800 kB took a gigabyte to look for, for each command that had it.
    #[test]
    fn what_may_hold_more_secrets_than_can_be_masked_is_withheld() {
        let mut mask = masking(&[]).of(&shell("API_KEY", "horse-battery"), GivenSecrets::default()).unwrap();
        let mut large = RunCommand::new("echo fine");
        large.env.insert("DB_PASSWORD".to_owned(), "x-y".repeat(MOST_FOUND / 2));
        assert_eq!(mask.for_run(&large).redact_str("fine\n"), "***\n");
        assert_eq!(mask.for_run(&RunCommand::new("echo fine")).redact_str("fine\n"), "fine\n");
        let mut delta = ShellDelta::default();
        let value = "x-y".repeat(MOST_FOUND / 2);
        delta.variables.insert("A_TOKEN".into(), Some(Variable::scalar("x", value)));
        assert!(mask.learn(&delta) && !mask.learn(&delta));
        assert!(mask.redactor().is_withholding());
        assert_eq!(mask.for_run(&RunCommand::new("echo fine")).redact_str("fine\n"), "***\n");
    }

    #[test]
    fn secrets_that_a_session_is_given_are_masked_and_nothing_else_is() {
        let masking = Masking::new(&RecordConfig::default()).unwrap();
        let mut given = GivenSecrets::default();
        given.add("TOKEN", Some(b"horse-battery".to_vec()), &BTreeSet::new());
        let mut mask = masking.of(&shell("DB_PASSWORD", "correct-staple"), given.clone()).unwrap();
        let text = "horse-battery correct-staple postgres://u:a-password@h/d";
        let shown = "*** correct-staple postgres://u:a-password@h/d";
        assert_eq!(mask.redactor().redact_str(text), shown);
        let mut command = RunCommand::new("echo horse-battery");
        command.env.insert("API_KEY".to_owned(), "of-this-call".to_owned());
        assert_eq!(mask.for_run(&command).redact_str("horse-battery of-this-call"), "*** of-this-call");
        let message = Box::new(shellkeep_session::Message {
            seq_id: 1,
            role: "user".to_owned(),
            content: json!({"text": text, "password": "in the clear"}),
            at: shellkeep_session::Timestamp::UNIX_EPOCH,
        });
        let mut event = Event::MessageAdded { message, author: shellkeep_session::Author::runtime(None) };
        mask.event(&mut event);
        let Event::MessageAdded { message, .. } = &event else { panic!("another event") };
        assert_eq!(message.content, json!({"text": shown, "password": "in the clear"}));
        given.add("TOKEN", Some(b"a-later-value".to_vec()), &BTreeSet::from([b"horse-battery".to_vec()]));
        mask.give(given);
        assert_eq!(mask.redactor().redact_str("horse-battery a-later-value"), "*** ***");
        assert!(mask.holds_given(b"say a-later-value") && !mask.holds_given(b"say nothing"));
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
