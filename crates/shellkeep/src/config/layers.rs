//! All layers together: the uppermost that says something wins.

use super::layer::Layer;
use super::setting::{SetBy, Setting};
use crate::failure::Failure;
use shellkeep_session::{QuotaName, Quotas};
use std::path::PathBuf;

/// All layers, and the path of the file.
pub(super) struct Layers {
    pub(super) flags: Layer,
    pub(super) env: Layer,
    pub(super) file: Layer,
    pub(super) path: Option<PathBuf>,
}

impl Layers {
    pub(super) fn quotas(&self) -> Result<Vec<(QuotaName, Setting<u64>)>, Failure> {
        let defaults = Quotas::default();
        let pick = |name: QuotaName| {
            let variable = format!("SHELLKEEP_{}", setting_of(name).to_uppercase());
            Ok((name, self.or(&variable, |layer| layer.quota(name), defaults.get(name))?))
        };
        QuotaName::ALL.into_iter().map(pick).collect()
    }

    /// What the layers say, or a default that needs no thought.
    pub(super) fn or<T>(
        &self,
        variable: &str,
        get: impl Fn(&Layer) -> Option<T>,
        default: T,
    ) -> Result<Setting<T>, Failure> {
        self.pick(variable, get, || Ok(default))
    }

    /// The uppermost layer that says something wins.
    pub(super) fn pick<T>(
        &self,
        variable: &str,
        get: impl Fn(&Layer) -> Option<T>,
        default: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<Setting<T>, Failure> {
        let file = || SetBy::File(self.path.clone().unwrap_or_default());
        let found = get(&self.flags)
            .map(|value| Setting { value, source: SetBy::Flag })
            .or_else(|| get(&self.env).map(|value| Setting { value, source: SetBy::Environment(variable.to_owned()) }))
            .or_else(|| get(&self.file).map(|value| Setting { value, source: file() }));
        match found {
            Some(setting) => Ok(setting),
            None => Ok(Setting { value: default()?, source: SetBy::Default }),
        }
    }
}

/// The setting that a quota is. The number of live shells has the name it had before there were quotas.
pub(super) fn setting_of(name: QuotaName) -> &'static str {
    match name {
        QuotaName::LiveShells => "max_shells",
        other => other.as_str(),
    }
}
