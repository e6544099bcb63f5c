//! Metrics of this door. The handles are created once: a request only increments them.

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
/// How often recorded samples are folded into their buckets; until then they use memory.
const UPKEEP: Duration = Duration::from_secs(5);

/// Counters of rare events, which other crates create at the first event. They exist from the first scrape on, because
/// Prometheus sees no increase in a counter that appears.
const RARE: [(&str, &str); 16] = [
    ("shellkeep_agent_bad_lines_total", "Rejected lines of agents"),
    ("shellkeep_blob_failures_total", "Failed copies of checkpoints for other nodes"),
    ("shellkeep_blob_puts_total", "Copies of checkpoints for other nodes"),
    ("shellkeep_checkpoint_failures_total", "Checkpoints that could not be taken, or not completely"),
    ("shellkeep_checkpoints_total", "Checkpoints of sessions' files that were taken"),
    ("shellkeep_epoll_kills_total", "Processes killed because they left the daemon's user no epoll watches"),
    ("shellkeep_evictions_total", "Shells stopped because another session needed one"),
    ("shellkeep_output_failures_total", "Outputs that could not be stored"),
    ("shellkeep_record_failures_total", "Failed writes of a session's recording"),
    ("shellkeep_record_anchor_failures_total", "Signed heads that could not be sent to the anchor"),
    ("shellkeep_reclaimed_bytes_total", "Bytes of ended sessions that were reclaimed"),
    ("shellkeep_service_restarts_total", "Services that were restarted"),
    ("shellkeep_services_idle_stopped_total", "Services that were stopped because they were idle"),
    ("shellkeep_shell_starts_failed_total", "Shells that could not be started"),
    ("shellkeep_store_failures_total", "Failures of the store"),
    ("shellkeep_takeovers_total", "Sessions that this node took over from another"),
];

/// What came of a request that was sent to another node.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Forward {
    /// The node answered it.
    Answered,
    /// The node could not be reached; nothing was sent.
    Unreachable,
    /// The node does not trust this one.
    Refused,
    /// No answer came; it may have run.
    Lost,
}

impl Forward {
    const ALL: [Self; 4] = [Self::Answered, Self::Unreachable, Self::Refused, Self::Lost];

    pub(crate) fn count(self, times: u64) {
        let result = match self {
            Self::Answered => "answered",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::Lost => "lost",
        };
        counter!("shellkeep_forwards_total", "result" => result).increment(times);
    }
}

/// What this door counts.
pub(crate) struct RequestMetrics {
    answered: [Counter; 4],
    run_seconds: Histogram,
}

impl RequestMetrics {
    pub(crate) fn new() -> Self {
        describe_counter!("shellkeep_http_requests_total", "HTTP requests answered, by class of status");
        describe_histogram!("shellkeep_http_run_seconds", "Time from a run's request to its answer");
        describe_gauge!("shellkeep_shells", "Shells, by state");
        describe_gauge!("shellkeep_degraded", "1 when /readyz says degraded");
        describe_gauge!("shellkeep_sessions", "Sessions there are");
        describe_gauge!("shellkeep_services", "Services that run");
        describe_gauge!("shellkeep_processes", "Processes of all sessions and services");
        describe_gauge!("shellkeep_memory_bytes", "Resident memory of the daemon");
        describe_gauge!("shellkeep_queue_length", "Commands that wait in the queue of the node");
        describe_gauge!("shellkeep_commands_running", "Commands that run");
        describe_gauge!("shellkeep_pressure", "Share of time in which a task waited for a resource, 0 to 1");
        describe_gauge!("shellkeep_record_behind_bytes", "Bytes of the journal that are not in the recordings yet");
        describe_gauge!("shellkeep_record_stalled", "Sessions whose recording cannot be written at the moment");
        describe_gauge!(
            "shellkeep_cluster_nodes",
            "Nodes that are alive, as far as this one sees; only with a shared store"
        );
        describe_gauge!("shellkeep_shared_store_up", "1 if the shared store answers; only with one");
        describe_counter!("shellkeep_forwards_total", "Requests that were sent to other nodes, by what came of them");
        for result in Forward::ALL {
            result.count(0);
        }
        describe_gauge!("shellkeep_limit", "A limit in effect");
        describe_gauge!("shellkeep_limit_used", "How much of a limit is used");
        for (name, words) in RARE {
            describe_counter!(name, words);
            counter!(name).increment(0);
        }
        describe_counter!("shellkeep_resumes_total", "Messages that agents have answered, by status");
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

/// Installs the process-wide recorder. Call once, before anything is counted.
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
