//! What admission counts. The handles are created once: a command only increments them.

use metrics::{
    Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};
use std::time::Duration;

/// The handles.
pub(super) struct Counts {
    pub(super) running: Gauge,
    pub(super) waiting: Gauge,
    pub(super) begun: Counter,
    pub(super) refused: Counter,
    wait: Histogram,
}

impl Counts {
    pub(super) fn new() -> Self {
        describe_gauge!("shellkeep_commands_running", "Running commands");
        describe_gauge!("shellkeep_queue_length", "Commands that wait in the queue of the node");
        describe_counter!("shellkeep_commands_total", "Commands begun");
        describe_counter!("shellkeep_queue_refused_total", "Commands rejected because the node had no room in time");
        describe_histogram!("shellkeep_queue_wait_seconds", "How long waiting commands waited");
        Self {
            running: gauge!("shellkeep_commands_running"),
            waiting: gauge!("shellkeep_queue_length"),
            begun: counter!("shellkeep_commands_total"),
            refused: counter!("shellkeep_queue_refused_total"),
            wait: histogram!("shellkeep_queue_wait_seconds"),
        }
    }

    pub(super) fn waited(&self, time: Duration) {
        self.wait.record(time);
    }
}
