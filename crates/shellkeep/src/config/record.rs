//! The settings of recordings: the table `[record]` of the file, `SHELLKEEP_RECORD_…` of the environment,
//! `--record-…` of the command line.

pub(super) mod layer;

use super::layers::Layers;
use super::setting::{Setting, ShownSetting, show};
use super::values::Span;
use crate::failure::Failure;
use layer::{Names, Secrets, lines_of};
use shellkeep_redact::{Config, Rules};
use shellkeep_runtime::{KEEP_DELETED, RecordConfig};
use shellkeep_store::{AnchorOptions, AnchorPlace};
use std::path::PathBuf;
use std::time::Duration;

/// A recording starts a new file at this size, by default.
const DEFAULT_SEGMENT_BYTES: u64 = 100_000_000;
/// How often heads are anchored: an attacker with the data directory can then hide at most the last minute.
const ANCHOR_INTERVAL: Duration = Duration::from_secs(60);
/// Smaller files would not be worth their overhead.
const LEAST_SEGMENT_BYTES: u64 = 1_000;

/// The recording settings in effect.
#[derive(Debug, Clone)]
pub struct RecordSettings {
    /// A recording starts a new file at this size.
    pub segment_bytes: Setting<u64>,
    /// How long to keep the recording of a session that its agent deleted.
    pub keep_deleted: Setting<Span>,
    /// Whether everything is masked before it is stored.
    pub redact_on_write: Setting<bool>,
    /// Registered secrets.
    pub secrets: Setting<Secrets>,
    /// A file with more of them.
    pub secrets_file: Setting<Option<PathBuf>>,
    /// National ids that are masked.
    pub national_ids: Setting<Names>,
    /// Whether telephone numbers are masked.
    pub phone_numbers: Setting<bool>,
    /// Where the signing key is, if it is not in the data directory.
    pub signing_key: Setting<Option<PathBuf>>,
    /// Where signed heads are anchored.
    pub anchor: Setting<Option<String>>,
    /// How often.
    pub anchor_interval: Setting<Span>,
    /// The active rules; all if none is named.
    pub rules: Setting<Names>,
}

impl RecordSettings {
    /// Joins the layers.
    pub(super) fn load(layers: &Layers) -> Result<Self, Failure> {
        Ok(Self {
            segment_bytes: layers.or(
                "SHELLKEEP_RECORD_SEGMENT_BYTES",
                |layer| layer.record.segment_bytes,
                DEFAULT_SEGMENT_BYTES,
            )?,
            keep_deleted: layers.or(
                "SHELLKEEP_RECORD_KEEP_DELETED",
                |layer| layer.record.keep_deleted,
                Span(Some(KEEP_DELETED)),
            )?,
            redact_on_write: layers.or(
                "SHELLKEEP_RECORD_REDACT_ON_WRITE",
                |layer| layer.record.redact_on_write,
                false,
            )?,
            secrets: layers.or("SHELLKEEP_RECORD_SECRETS", |layer| layer.record.secrets.clone(), Secrets::default())?,
            secrets_file: layers.or(
                "SHELLKEEP_RECORD_SECRETS_FILE",
                |layer| layer.record.secrets_file.clone().map(Some),
                None,
            )?,
            national_ids: layers.or(
                "SHELLKEEP_RECORD_NATIONAL_IDS",
                |layer| layer.record.national_ids.clone(),
                Names::default(),
            )?,
            phone_numbers: layers.or("SHELLKEEP_RECORD_PHONE_NUMBERS", |layer| layer.record.phone_numbers, false)?,
            signing_key: layers.or(
                "SHELLKEEP_RECORD_SIGNING_KEY",
                |layer| layer.record.signing_key.clone().map(Some),
                None,
            )?,
            anchor: layers.or("SHELLKEEP_RECORD_ANCHOR", |layer| layer.record.anchor.clone().map(Some), None)?,
            anchor_interval: layers.or(
                "SHELLKEEP_RECORD_ANCHOR_INTERVAL",
                |layer| layer.record.anchor_interval,
                Span(Some(ANCHOR_INTERVAL)),
            )?,
            rules: layers.or("SHELLKEEP_RECORD_RULES", |layer| layer.record.rules.clone(), Names::default())?,
        })
    }

    /// Every setting, for showing.
    pub(super) fn shown(&self) -> [ShownSetting; 11] {
        let names = |Names(names): &Names| if names.is_empty() { "-".to_owned() } else { names.join(",") };
        let file = |path: &Option<PathBuf>| path.as_ref().map_or("-".to_owned(), |path| path.display().to_string());
        [
            show("record.segment_bytes", &self.segment_bytes, ToString::to_string),
            show("record.keep_deleted", &self.keep_deleted, ToString::to_string),
            show("record.redact_on_write", &self.redact_on_write, ToString::to_string),
            show("record.secrets", &self.secrets, |secrets| format!("{secrets:?}")),
            show("record.secrets_file", &self.secrets_file, file),
            show("record.national_ids", &self.national_ids, names),
            show("record.phone_numbers", &self.phone_numbers, ToString::to_string),
            show("record.signing_key", &self.signing_key, |path| match path {
                Some(path) => path.display().to_string(),
                None => "DATA/sign.key".to_owned(),
            }),
            show("record.anchor", &self.anchor, |place| place.clone().unwrap_or_else(|| "-".to_owned())),
            show("record.anchor_interval", &self.anchor_interval, ToString::to_string),
            show("record.rules", &self.rules, names),
        ]
    }

    /// Whether they can be used.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let bytes = self.segment_bytes.value;
        if bytes < LEAST_SEGMENT_BYTES {
            let message = format!("record.segment_bytes is {bytes}; it must be at least {LEAST_SEGMENT_BYTES}");
            return Err(Failure::start(message));
        }
        self.anchor()?;
        self.rules().map(|_| ())
    }

    /// Where signed heads are anchored, if anywhere.
    pub fn anchor(&self) -> Result<Option<AnchorOptions>, Failure> {
        let Some(place) = &self.anchor.value else { return Ok(None) };
        let wrong = |error| Failure::start(format!("invalid record.anchor: {error}"));
        let place = AnchorPlace::parse(place).map_err(wrong)?;
        match self.anchor_interval.value.0 {
            Some(interval) if !interval.is_zero() => Ok(Some(AnchorOptions { place, interval })),
            _ => Err(Failure::start("record.anchor_interval must be a duration, as in 60s")),
        }
    }

    fn rules(&self) -> Result<Rules, Failure> {
        let wrong = |name: &str, error| Failure::start(format!("record.{name}: {error}"));
        fn all(Names(names): &Names) -> impl Iterator<Item = &str> {
            names.iter().map(String::as_str)
        }
        let rules = match &self.rules.value {
            Names(names) if names.is_empty() => Rules::default(),
            names => Rules::only(all(names)).map_err(|error| wrong("rules", error))?,
        };
        let rules = if self.phone_numbers.value { rules.with(["phone"]) } else { Ok(rules) };
        let rules = rules.map_err(|error| wrong("phone_numbers", error))?;
        rules.with(all(&self.national_ids.value)).map_err(|error| wrong("national_ids", error))
    }

    /// The engine's settings. Reads the file with secrets.
    pub fn config(&self) -> Result<RecordConfig, Failure> {
        let mut secrets = self.secrets.value.0.clone();
        if let Some(path) = &self.secrets_file.value {
            let text = std::fs::read_to_string(path).map_err(|error| {
                Failure::start(format!("cannot read the secrets in {} (record.secrets_file): {error}", path.display()))
            })?;
            secrets.extend(lines_of(&text));
        }
        let reasons = secrets.iter().map(|secret| shellkeep_redact::why_not_maskable(secret.as_bytes()));
        if let Some((number, why)) = (1..).zip(reasons).find_map(|(number, why)| Some((number, why?))) {
            return Err(Failure::start(format!(
                "secret number {number} of record.secrets cannot be masked: {why}; use a longer random one, or remove it"
            )));
        }
        let redaction = Config { rules: self.rules()?, ..Config::default() };
        Ok(RecordConfig { redaction, secrets, redact_on_write: self.redact_on_write.value })
    }
}
