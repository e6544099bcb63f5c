//! How many facts were recorded, by kind. The counters are found once, so that counting costs no lookup.

use crate::agent_use::AgentUse;
use crate::validate::records::{OWN, TYPES};
use metrics::{Counter, counter, describe_counter};
use shellkeep_session::Event;

/// The runtime's own kinds, as a recording names them.
const KINDS: [&str; 26] = [
    "session_created",
    "run_started",
    "tool_call",
    "run_detached",
    "shell_started",
    "processes_left",
    "shell_stopped",
    "session_restarted",
    "service_started",
    "service_live",
    "service_ready",
    "service_ended",
    "session_ended",
    "agent_state_saved",
    "message_added",
    "scrubbed",
    "checkpoint_created",
    "session_rewound",
    "session_forked",
    "records_lost",
    "session_destroyed",
    "run_input",
    "session_deleted",
    "kv_changed",
    "session_owned",
    "sandbox_changed",
];

/// The counters.
pub struct Counts {
    agents: AgentUse,
    kinds: [Counter; KINDS.len()],
    noted: [Counter; TYPES.len()],
    own: Counter,
}

impl Counts {
    /// Finds the counters. Call after the recorder of metrics is there.
    pub fn new() -> Self {
        const NAME: &str = "shellkeep_events_total";
        describe_counter!(NAME, "Events recorded, by type");
        Self {
            agents: AgentUse::new(),
            kinds: KINDS.map(|kind| counter!(NAME, "type" => kind)),
            noted: TYPES.map(|(name, _)| counter!(NAME, "type" => format!("posted_{name}"))),
            own: counter!(NAME, "type" => format!("posted_{OWN}")),
        }
    }

    /// What each agent uses.
    pub(crate) fn agents(&self) -> &AgentUse {
        &self.agents
    }

    /// Counts one.
    pub fn event(&self, event: &Event) {
        let index = match event {
            Event::Noted { event_type, .. } => {
                let known = TYPES.iter().position(|(name, _)| name == event_type);
                return known.map_or(&self.own, |index| &self.noted[index]).increment(1);
            }
            Event::SessionCreated { .. } => 0,
            Event::RunStarted { .. } => 1,
            Event::RunFinished { .. } => 2,
            Event::RunDetached { .. } => 3,
            Event::ShellStarted { .. } => 4,
            Event::ProcessesLeft { .. } => 5,
            Event::ShellStopped { .. } => 6,
            Event::Restarted { .. } => 7,
            Event::ServiceStarted { .. } => 8,
            Event::ServiceLive { .. } => 9,
            Event::ServiceReady { .. } => 10,
            Event::ServiceEnded { .. } => 11,
            Event::SessionEnded { .. } => 12,
            Event::AgentStateSaved { .. } => 13,
            Event::MessageAdded { .. } => 14,
            Event::Scrubbed { .. } => 15,
            Event::Checkpointed { .. } => 16,
            Event::Rewound { .. } => 17,
            Event::Forked { .. } => 18,
            Event::RecordsLost { .. } => 19,
            Event::SessionDestroyed => 20,
            Event::RunInput { .. } => 21,
            Event::SessionDeleted { .. } => 22,
            Event::KvChanged { .. } => 23,
            Event::Owned { .. } => 24,
            Event::SandboxChanged { .. } => 25,
        };
        self.kinds[index].increment(1);
    }
}
