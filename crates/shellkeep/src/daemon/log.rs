//! The daemon's log.

use crate::failure::Failure;
use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use tracing_subscriber::EnvFilter;

/// Changes what is logged, while the daemon runs.
pub(super) struct LogFilter(Arc<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>);

impl LogFilter {
    /// Logs by another filter from now on.
    pub(super) fn set(&self, filter: &str) -> Result<(), String> {
        let filter = EnvFilter::try_new(filter).map_err(|error| format!("log={filter} is wrong: {error}"))?;
        (self.0)(filter)
    }
}

/// Starts to log to stderr.
pub(super) fn start(filter: &str) -> Result<LogFilter, Failure> {
    let filter =
        EnvFilter::try_new(filter).map_err(|error| Failure::start(format!("log={filter} is wrong: {error}")))?;
    let ansi = io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(ansi);
    let builder = builder.with_filter_reloading();
    let handle = builder.reload_handle();
    builder.init();
    Ok(LogFilter(Arc::new(move |filter| handle.reload(filter).map_err(|error| error.to_string()))))
}
