//! Counters of this door. The handles are made once: a request only adds to them.

use axum::http::StatusCode;
use metrics::{Counter, Histogram, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use std::time::Duration;

/// Buckets of every `…_seconds` histogram: from a warm `true` (tens of microseconds) to a command at its default
/// timeout and beyond.
const SECONDS: [f64; 18] = [
    0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
    5.0, 30.0, 120.0,
];
/// How often recorded samples are folded into their buckets; between two folds they take memory.
const UPKEEP: Duration = Duration::from_secs(5);

/// Counters of what is rare, which other crates make when it first happens. They are there from the first scrape on,
/// because that they came to be would be no increase to Prometheus.
const RARE: [(&str, &str); 10] = [
    ("shellkeep_agent_bad_lines_total", "Lines of agents that could not be taken"),
    ("shellkeep_checkpoint_failures_total", "Checkpoints that could not be taken, or not completely"),
    ("shellkeep_checkpoints_total", "Checkpoints of sessions' files that were taken"),
    ("shellkeep_evictions_total", "Shells stopped because another session needed their place"),
    ("shellkeep_output_failures_total", "Outputs that could not be kept"),
    ("shellkeep_record_failures_total", "Times that a session's recording could not be written"),
    ("shellkeep_reclaimed_bytes_total", "Bytes of ended sessions that were removed"),
    ("shellkeep_service_restarts_total", "Services that were started again"),
    ("shellkeep_services_idle_stopped_total", "Services that were stopped because nobody used them"),
    ("shellkeep_store_failures_total", "Times that the store could not do its work"),
];

/// What this door counts.
pub(crate) struct RequestMetrics {
    answered: [Counter; 4],
    run_seconds: Histogram,
}

impl RequestMetrics {
    pub(crate) fn new() -> Self {
        describe_counter!("shellkeep_http_requests_total", "HTTP requests answered, by class of status");
        describe_histogram!("shellkeep_http_run_seconds", "Time from a run's request to its answer");
        describe_gauge!("shellkeep_shells", "Shells, by what they do");
        describe_gauge!("shellkeep_degraded", "1 when /readyz says degraded");
        describe_gauge!("shellkeep_sessions", "Sessions there are");
        describe_gauge!("shellkeep_services", "Services that run");
        describe_gauge!("shellkeep_processes", "Processes of all sessions and services");
        describe_gauge!("shellkeep_memory_bytes", "Resident memory of the daemon");
        describe_gauge!("shellkeep_queue_length", "Commands that wait for their turn on the node");
        describe_gauge!("shellkeep_commands_running", "Commands that run");
        describe_gauge!("shellkeep_pressure", "Share of time in which something waited for a resource, 0 to 1");
        describe_gauge!("shellkeep_record_behind_bytes", "Bytes of the journal that are not in the recordings yet");
        describe_gauge!("shellkeep_record_stalled", "Sessions whose recording cannot be written at the moment");
        describe_gauge!("shellkeep_limit", "A limit, as it is in force");
        describe_gauge!("shellkeep_limit_used", "What is used of a limit");
        for (name, words) in RARE {
            describe_counter!(name, words);
            counter!(name).increment(0);
        }
        describe_counter!("shellkeep_resumes_total", "Messages that agents have answered, by how that ended");
        counter!("shellkeep_resumes_total", "status" => "done").increment(0);
        gauge!("shellkeep_record_behind_bytes").increment(0.0);
        gauge!("shellkeep_record_stalled").increment(0.0);
        let class = |class: &'static str| counter!("shellkeep_http_requests_total", "class" => class);
        Self {
            answered: [class("2xx"), class("3xx"), class("4xx"), class("5xx")],
            run_seconds: histogram!("shellkeep_http_run_seconds"),
        }
    }

    pub(crate) fn answered(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(2);
        if let Some(counter) = self.answered.get(class) {
            counter.increment(1);
        }
    }

    pub(crate) fn ran(&self, time: Duration) {
        self.run_seconds.record(time);
    }
}

/// Makes the process-wide recorder. Call once, before anything counts.
pub fn install_metrics() -> Result<PrometheusHandle, BuildError> {
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
        .install_recorder()
}

/// Keeps the recorder's memory small. Runs until it is dropped.
pub async fn keep_metrics(handle: PrometheusHandle) {
    let mut ticks = tokio::time::interval(UPKEEP);
    loop {
        ticks.tick().await;
        handle.run_upkeep();
    }
}
