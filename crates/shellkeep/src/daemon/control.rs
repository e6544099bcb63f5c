//! The daemon as its doors see it: the settings in effect, reading them again, and the order to stop.

use super::log::LogFilter;
use crate::config::{HistoryLimits, Settings, ShownSetting, Sources};
use shellkeep_history::Keeper;
use shellkeep_protocol::{ChangedSetting, Reloaded, SettingInForce, SettingsInForce};
use shellkeep_server::{Control, DaemonFacts, Reloading, StopOrder};
use shellkeep_session::QuotaName;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Settings that take effect without a restart, in addition to the quotas. Clients read `project_workspace` themselves.
const LIVE: [&str; 6] =
    ["log", "stop_grace", "project_workspace", "history_keep", "history_keep_agents", "history_keep_deleted"];

/// The running daemon.
pub(super) struct Running {
    facts: DaemonFacts,
    sources: Sources,
    /// What is in effect.
    settings: Mutex<Settings>,
    log: LogFilter,
    /// Where history is kept, if it is.
    keeper: Option<Keeper>,
    orders: watch::Sender<Option<StopOrder>>,
}

impl Running {
    /// A daemon that runs with these settings.
    pub(super) fn new(
        facts: DaemonFacts,
        sources: Sources,
        settings: Settings,
        log: LogFilter,
        keeper: Option<Keeper>,
    ) -> Self {
        let (settings, orders) = (Mutex::new(settings), watch::Sender::new(None));
        Self { facts, sources, settings, log, keeper, orders }
    }

    /// Where orders to stop arrive.
    pub(super) fn orders(&self) -> watch::Receiver<Option<StopOrder>> {
        self.orders.subscribe()
    }

    fn current(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Control for Running {
    fn facts(&self) -> DaemonFacts {
        self.facts.clone()
    }

    fn settings(&self) -> SettingsInForce {
        let settings = self.current();
        let shown = settings.shown().into_iter();
        SettingsInForce {
            settings: shown.map(|row| (row.name.to_owned(), in_force(row))).collect(),
            file: settings.file.as_ref().map(|path| path.display().to_string()),
        }
    }

    fn stop_grace(&self) -> Duration {
        self.current().grace()
    }

    fn reload(&self) -> Result<Reloading, String> {
        let read = self.sources.load().map_err(|failure| failure.to_string())?;
        let mut current = self.current();
        let report = compare(&current.shown(), &read.shown());
        if current.log.filter.value != read.log.filter.value {
            self.log.set(&read.log.filter.value)?;
        }
        current.file = read.file;
        current.log.filter = read.log.filter;
        current.stop_grace = read.stop_grace;
        current.project_workspace = read.project_workspace;
        current.quotas = read.quotas;
        // The journal was opened with it.
        let behind_bytes = current.history_limits.behind_bytes.clone();
        current.history_limits = HistoryLimits { behind_bytes, ..read.history_limits };
        if let Some(keeper) = &self.keeper {
            keeper.set(current.history_limits.retention());
        }
        let quotas = current.quotas();
        for ChangedSetting { name, from, to } in &report.changed {
            tracing::info!(name, from, to, "reloaded");
        }
        for ChangedSetting { name, from, to } in &report.needs_restart {
            tracing::warn!(name, from, to, "changed in the configuration; takes effect after a restart");
        }
        Ok(Reloading { report, quotas })
    }

    fn check_configuration(&self) -> Result<(), String> {
        self.sources.load().map(drop).map_err(|failure| failure.to_string())
    }

    fn stop(&self, order: StopOrder) {
        self.orders.send_replace(Some(order));
    }
}

fn in_force(row: ShownSetting) -> SettingInForce {
    SettingInForce { value: row.value, source: row.source }
}

/// What another configuration changes, and which changes need a restart.
fn compare(before: &[ShownSetting], after: &[ShownSetting]) -> Reloaded {
    let differ = before.iter().zip(after).filter(|(before, after)| before.value != after.value);
    let changes = differ.map(|(before, after)| ChangedSetting {
        name: before.name.to_owned(),
        from: before.value.clone(),
        to: after.value.clone(),
    });
    let is_live = |change: &ChangedSetting| {
        LIVE.contains(&change.name.as_str())
            || QuotaName::ALL.iter().any(|name| change.name == Settings::name_of(*name))
    };
    let (changed, needs_restart) = changes.partition(is_live);
    Reloaded { changed, needs_restart }
}
