//! What one layer says about checkpoints.

use super::super::setting::{Environment, parsed};
use super::super::values::Span;
use crate::failure::Failure;
use clap::Args;
use serde::Deserialize;

/// What one layer says about checkpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Args)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointLayer {
    /// Save the files after each command that changed some [default: true]
    #[arg(
        long = "checkpoints-on", value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true"
    )]
    pub on: Option<bool>,
    /// Leave out files that are larger than this [default: 33554432]
    #[arg(long = "checkpoints-max-file-bytes", value_name = "BYTES")]
    pub max_file_bytes: Option<u64>,
    /// Bytes on disk that the checkpoints of one session may take; the oldest checkpoints are deleted first [default: 1073741824]
    #[arg(long = "checkpoints-bytes-per-session", value_name = "BYTES")]
    pub bytes_per_session: Option<u64>,
    /// Maximum number of files of one workspace that are saved [default: 200000]
    #[arg(long = "checkpoints-max-files", value_name = "N")]
    pub max_files: Option<u64>,
    /// How long one checkpoint may take [default: 10s]
    #[arg(long = "checkpoints-time", value_name = "TIME")]
    pub time: Option<Span>,
    /// How many of the newest checkpoints are all kept; of older ones, one per hour, and after a day one per day [default: 200]
    #[arg(long = "checkpoints-keep-all", value_name = "N")]
    pub keep_all: Option<usize>,
}

/// What the environment says.
pub fn from_environment(env: Environment) -> Result<CheckpointLayer, Failure> {
    Ok(CheckpointLayer {
        on: parsed(env, "SHELLKEEP_CHECKPOINTS_ON")?,
        max_file_bytes: parsed(env, "SHELLKEEP_CHECKPOINTS_MAX_FILE_BYTES")?,
        bytes_per_session: parsed(env, "SHELLKEEP_CHECKPOINTS_BYTES_PER_SESSION")?,
        max_files: parsed(env, "SHELLKEEP_CHECKPOINTS_MAX_FILES")?,
        time: parsed(env, "SHELLKEEP_CHECKPOINTS_TIME")?,
        keep_all: parsed(env, "SHELLKEEP_CHECKPOINTS_KEEP_ALL")?,
    })
}
