//! What one layer says about recordings.

use super::super::setting::{Environment, parsed};
use super::super::values::Span;
use crate::failure::Failure;
use clap::{Args, ValueHint};
use serde::Deserialize;
use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// What one layer says about recordings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Args)]
#[serde(deny_unknown_fields, default)]
pub struct RecordLayer {
    /// Begin a new file of a session's recording at this size [default: 100000000]
    #[arg(long = "record-segment-bytes", value_name = "BYTES")]
    pub segment_bytes: Option<u64>,
    /// Keep the recording of a session that its agent removed for this long, as in 30d; `0s` removes it with the session,
    /// `never` keeps it until the host removes it [default: 30d]
    #[arg(long = "record-keep-deleted", value_name = "TIME")]
    pub keep_deleted: Option<Span>,
    /// Mask secrets before anything is stored or returned [default: false]
    #[arg(
        long = "record-redact-on-write", value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true"
    )]
    pub redact_on_write: Option<bool>,
    /// Secrets that are masked wherever they stand. A command line can be read by others, so it does not take them.
    #[arg(skip)]
    pub secrets: Option<Secrets>,
    /// Mask the secrets in this file, one on each line
    #[arg(long = "record-secrets-file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub secrets_file: Option<PathBuf>,
    /// Mask national ids of these kinds, as in us_ssn,de_steuer_id [default: none]
    #[arg(long = "record-national-ids", value_name = "NAMES")]
    pub national_ids: Option<Names>,
    /// Mask telephone numbers [default: false]
    #[arg(
        long = "record-phone-numbers", value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true"
    )]
    pub phone_numbers: Option<bool>,
    /// Keep the signing key in this file, which is created if it does not exist [default: DATA/sign.key]
    #[arg(long = "record-signing-key", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub signing_key: Option<PathBuf>,
    /// Also write the signed heads of recordings to a file, http://HOST[:PORT]/PATH, or `log` [default: nowhere]
    #[arg(long = "record-anchor", value_name = "PLACE")]
    pub anchor: Option<String>,
    /// How often signed heads are written there, as in 60s [default: 60s]
    #[arg(long = "record-anchor-interval", value_name = "TIME")]
    pub anchor_interval: Option<Span>,
    /// Use only these rules to find secrets [default: all but telephone numbers and national ids]
    #[arg(long = "record-rules", value_name = "NAMES")]
    pub rules: Option<Names>,
}

/// Secrets; they are never printed.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secrets(pub Vec<String>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

/// Names: a list in a file, separated by commas elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Names(pub Vec<String>);

impl FromStr for Names {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        Ok(Self(names.map(str::to_owned).collect()))
    }
}

/// What the environment says.
pub fn from_environment(env: Environment) -> Result<RecordLayer, Failure> {
    let lines = |text: String| Secrets(lines_of(&text));
    Ok(RecordLayer {
        segment_bytes: parsed(env, "SHELLKEEP_RECORD_SEGMENT_BYTES")?,
        keep_deleted: parsed(env, "SHELLKEEP_RECORD_KEEP_DELETED")?,
        redact_on_write: parsed(env, "SHELLKEEP_RECORD_REDACT_ON_WRITE")?,
        secrets: env("SHELLKEEP_RECORD_SECRETS").map(lines),
        secrets_file: env("SHELLKEEP_RECORD_SECRETS_FILE").map(PathBuf::from),
        national_ids: parsed(env, "SHELLKEEP_RECORD_NATIONAL_IDS")?,
        phone_numbers: parsed(env, "SHELLKEEP_RECORD_PHONE_NUMBERS")?,
        signing_key: env("SHELLKEEP_RECORD_SIGNING_KEY").map(PathBuf::from),
        anchor: env("SHELLKEEP_RECORD_ANCHOR"),
        anchor_interval: parsed(env, "SHELLKEEP_RECORD_ANCHOR_INTERVAL")?,
        rules: parsed(env, "SHELLKEEP_RECORD_RULES")?,
    })
}

pub(super) fn lines_of(text: &str) -> Vec<String> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}
