//! The settings of checkpoints: the table `[checkpoints]` of the file, `SHELLKEEP_CHECKPOINTS_…` of the environment,
//! `--checkpoints-…` of the command line.

pub(super) mod layer;

use super::layers::Layers;
use super::setting::{Setting, ShownSetting, show};
use super::values::Span;
use crate::failure::Failure;
use shellkeep_runtime::CheckpointConfig;

/// The checkpoint settings in effect.
#[derive(Debug, Clone)]
pub struct CheckpointSettings {
    /// Whether checkpoints are taken.
    pub on: Setting<bool>,
    /// Larger files are left out.
    pub max_file_bytes: Setting<u64>,
    /// How much disk space one session's checkpoints may use.
    pub bytes_per_session: Setting<u64>,
    /// How many files of a workspace are saved at most.
    pub max_files: Setting<u64>,
    /// How long one may take.
    pub time: Setting<Span>,
    /// How many of the newest are all kept.
    pub keep_all: Setting<usize>,
}

impl CheckpointSettings {
    /// Joins the layers.
    pub(super) fn load(layers: &Layers) -> Result<Self, Failure> {
        let defaults = CheckpointConfig::default();
        Ok(Self {
            on: layers.or("SHELLKEEP_CHECKPOINTS_ON", |layer| layer.checkpoints.on, defaults.on)?,
            max_file_bytes: layers.or(
                "SHELLKEEP_CHECKPOINTS_MAX_FILE_BYTES",
                |layer| layer.checkpoints.max_file_bytes,
                defaults.max_file_bytes,
            )?,
            bytes_per_session: layers.or(
                "SHELLKEEP_CHECKPOINTS_BYTES_PER_SESSION",
                |layer| layer.checkpoints.bytes_per_session,
                defaults.bytes_per_session,
            )?,
            max_files: layers.or(
                "SHELLKEEP_CHECKPOINTS_MAX_FILES",
                |layer| layer.checkpoints.max_files,
                defaults.max_files,
            )?,
            time: layers.or("SHELLKEEP_CHECKPOINTS_TIME", |layer| layer.checkpoints.time, Span(Some(defaults.time)))?,
            keep_all: layers.or(
                "SHELLKEEP_CHECKPOINTS_KEEP_ALL",
                |layer| layer.checkpoints.keep_all,
                defaults.keep_all,
            )?,
        })
    }

    /// Every setting, for showing.
    pub(super) fn shown(&self) -> [ShownSetting; 6] {
        [
            show("checkpoints.on", &self.on, ToString::to_string),
            show("checkpoints.max_file_bytes", &self.max_file_bytes, ToString::to_string),
            show("checkpoints.bytes_per_session", &self.bytes_per_session, ToString::to_string),
            show("checkpoints.max_files", &self.max_files, ToString::to_string),
            show("checkpoints.time", &self.time, ToString::to_string),
            show("checkpoints.keep_all", &self.keep_all, ToString::to_string),
        ]
    }

    /// Whether they can be used.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.time.value.0.is_none_or(|time| time.is_zero()) {
            return Err(Failure::start("checkpoints.time must be a duration, as in 10s"));
        }
        if self.keep_all.value == 0 {
            return Err(Failure::start("checkpoints.keep_all must be at least 1: the newest is always kept"));
        }
        Ok(())
    }

    /// What the engine gets.
    pub fn config(&self) -> CheckpointConfig {
        CheckpointConfig {
            on: self.on.value,
            max_file_bytes: self.max_file_bytes.value,
            bytes_per_session: self.bytes_per_session.value,
            max_files: self.max_files.value,
            time: self.time.value.0.unwrap_or_else(|| CheckpointConfig::default().time),
            keep_all: self.keep_all.value,
        }
    }
}
