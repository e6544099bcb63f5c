//! The daemon's log: text or JSON, to stderr or to a file that is rotated.

mod json;
mod rotation;

use crate::config::{LogFormat, LogSettings};
use crate::failure::Failure;
use json::JsonLines;
use rotation::RotatingFile;
use std::io::{self, IsTerminal as _};
use std::sync::{Arc, Mutex};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// Changes what is logged at run time.
pub(super) struct LogFilter(Arc<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>);

impl LogFilter {
    /// Logs by another filter from now on.
    pub(super) fn set(&self, filter: &str) -> Result<(), String> {
        (self.0)(parsed(filter)?)
    }
}

fn parsed(filter: &str) -> Result<EnvFilter, String> {
    EnvFilter::try_new(filter).map_err(|error| format!("invalid log={filter}: {error}"))
}

/// Starts to log.
pub(super) fn start(settings: &LogSettings) -> Result<LogFilter, Failure> {
    let filter = parsed(&settings.filter.value).map_err(Failure::start)?;
    let file = &settings.file.value;
    let writer = match file {
        None => BoxMakeWriter::new(io::stderr),
        Some(path) => {
            let file = RotatingFile::open(path, settings.file_bytes.value, settings.files.value);
            let file = file.map_err(|error| Failure::start(format!("log_file {}: {error}", path.display())))?;
            BoxMakeWriter::new(Mutex::new(file))
        }
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    Ok(match settings.format.value {
        LogFormat::Text => {
            let ansi = file.is_none() && io::stderr().is_terminal();
            let builder = builder.with_ansi(ansi).with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            LogFilter(Arc::new(move |filter| handle.reload(filter).map_err(|error| error.to_string())))
        }
        LogFormat::Json => {
            let builder = builder.event_format(JsonLines).with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            LogFilter(Arc::new(move |filter| handle.reload(filter).map_err(|error| error.to_string())))
        }
    })
}
