//! The log as JSON: an object on each line, with `timestamp`, `level`, `target`, `message` and `fields`.

use serde_json::{Map, Value, json};
use shellkeep_session::Timestamp;
use std::fmt;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Writes an event as an object on one line.
pub(super) struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut found = Found::default();
        event.record(&mut found);
        let metadata = event.metadata();
        let line = json!({
            "timestamp": Timestamp::now().to_string(),
            "level": metadata.level().as_str(),
            "target": metadata.target(),
            "message": found.0.remove("message").unwrap_or(Value::Null),
            "fields": found.0,
        });
        writeln!(writer, "{line}")
    }
}

/// The fields of an event.
#[derive(Default)]
struct Found(Map<String, Value>);

impl Found {
    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Found {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}"));
    }
}
