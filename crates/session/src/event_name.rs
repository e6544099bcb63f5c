//! The names of facts: the one list of them. A record's name is in the journal and in tables of history; the type of its
//! line is what recordings and the API show.

use crate::record::Event;

/// Which fact a record states, without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventName {
    SessionCreated,
    RunStarted,
    RunFinished,
    RunInput,
    RunDetached,
    ShellStarted,
    ProcessesLeft,
    ShellStopped,
    Restarted,
    ServiceStarted,
    ServiceLive,
    ServiceReady,
    ServiceEnded,
    SessionEnded,
    Noted,
    AgentStateSaved,
    KvChanged,
    MessageAdded,
    Scrubbed,
    Checkpointed,
    Rewound,
    Forked,
    SandboxChanged,
    NetworkRefused,
    Owned,
    RecordsLost,
    SessionDestroyed,
    SessionDeleted,
}

impl EventName {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 28] = [
        Self::SessionCreated,
        Self::RunStarted,
        Self::RunFinished,
        Self::RunInput,
        Self::RunDetached,
        Self::ShellStarted,
        Self::ProcessesLeft,
        Self::ShellStopped,
        Self::Restarted,
        Self::ServiceStarted,
        Self::ServiceLive,
        Self::ServiceReady,
        Self::ServiceEnded,
        Self::SessionEnded,
        Self::Noted,
        Self::AgentStateSaved,
        Self::KvChanged,
        Self::MessageAdded,
        Self::Scrubbed,
        Self::Checkpointed,
        Self::Rewound,
        Self::Forked,
        Self::SandboxChanged,
        Self::NetworkRefused,
        Self::Owned,
        Self::RecordsLost,
        Self::SessionDestroyed,
        Self::SessionDeleted,
    ];

    /// Its name in a record.
    pub const fn stored(self) -> &'static str {
        match self {
            Self::SessionCreated => "session_created",
            Self::RunStarted => "run_started",
            Self::RunFinished => "run_finished",
            Self::RunInput => "run_input",
            Self::RunDetached => "run_detached",
            Self::ShellStarted => "shell_started",
            Self::ProcessesLeft => "processes_left",
            Self::ShellStopped => "shell_stopped",
            Self::Restarted => "restarted",
            Self::ServiceStarted => "service_started",
            Self::ServiceLive => "service_live",
            Self::ServiceReady => "service_ready",
            Self::ServiceEnded => "service_ended",
            Self::SessionEnded => "session_ended",
            Self::Noted => "noted",
            Self::AgentStateSaved => "agent_state_saved",
            Self::KvChanged => "kv_changed",
            Self::MessageAdded => "message_added",
            Self::Scrubbed => "scrubbed",
            Self::Checkpointed => "checkpointed",
            Self::Rewound => "rewound",
            Self::Forked => "forked",
            Self::SandboxChanged => "sandbox_changed",
            Self::NetworkRefused => "network_refused",
            Self::Owned => "owned",
            Self::RecordsLost => "records_lost",
            Self::SessionDestroyed => "session_destroyed",
            Self::SessionDeleted => "session_deleted",
        }
    }

    /// The type of its line in a recording. That of a noted event is the one that its caller chose.
    pub const fn shown(self) -> &'static str {
        match self {
            Self::RunFinished => "tool_call",
            Self::Restarted => "session_restarted",
            Self::Checkpointed => "checkpoint_created",
            Self::Rewound => "session_rewound",
            Self::Forked => "session_forked",
            Self::Owned => "session_owned",
            other => other.stored(),
        }
    }

    /// The fact whose lines have this type. A caller may post `tool_call` as well.
    pub fn of_shown(event_type: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| *name != Self::Noted && name.shown() == event_type)
    }
}

impl Event {
    /// Which fact it is.
    pub fn name(&self) -> EventName {
        match self {
            Self::SessionCreated { .. } => EventName::SessionCreated,
            Self::RunStarted { .. } => EventName::RunStarted,
            Self::RunFinished { .. } => EventName::RunFinished,
            Self::RunInput { .. } => EventName::RunInput,
            Self::RunDetached { .. } => EventName::RunDetached,
            Self::ShellStarted { .. } => EventName::ShellStarted,
            Self::ProcessesLeft { .. } => EventName::ProcessesLeft,
            Self::ShellStopped { .. } => EventName::ShellStopped,
            Self::Restarted { .. } => EventName::Restarted,
            Self::ServiceStarted { .. } => EventName::ServiceStarted,
            Self::ServiceLive { .. } => EventName::ServiceLive,
            Self::ServiceReady { .. } => EventName::ServiceReady,
            Self::ServiceEnded { .. } => EventName::ServiceEnded,
            Self::SessionEnded { .. } => EventName::SessionEnded,
            Self::Noted { .. } => EventName::Noted,
            Self::AgentStateSaved { .. } => EventName::AgentStateSaved,
            Self::KvChanged { .. } => EventName::KvChanged,
            Self::MessageAdded { .. } => EventName::MessageAdded,
            Self::Scrubbed { .. } => EventName::Scrubbed,
            Self::Checkpointed { .. } => EventName::Checkpointed,
            Self::Rewound { .. } => EventName::Rewound,
            Self::Forked { .. } => EventName::Forked,
            Self::SandboxChanged { .. } => EventName::SandboxChanged,
            Self::NetworkRefused { .. } => EventName::NetworkRefused,
            Self::Owned { .. } => EventName::Owned,
            Self::RecordsLost { .. } => EventName::RecordsLost,
            Self::SessionDestroyed => EventName::SessionDestroyed,
            Self::SessionDeleted { .. } => EventName::SessionDeleted,
        }
    }

    /// The type of an event that a caller chose, or the name of the fact in a record.
    pub fn stored_type(&self) -> &str {
        match self {
            Self::Noted { event_type, .. } => event_type,
            other => other.name().stored(),
        }
    }

    /// The type of its line in a recording.
    pub fn shown_type(&self) -> &str {
        match self {
            Self::Noted { event_type, .. } => event_type,
            other => other.name().shown(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The variants that serde knows, from the error for a name that it does not know.
    fn known_to_serde() -> Vec<String> {
        let error =
            serde_json::from_str::<Event>(r#""no_such_event""#).expect_err("it has no such variant").to_string();
        error.split('`').skip(3).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn every_fact_has_the_name_that_is_stored() {
        assert_eq!(known_to_serde(), EventName::ALL.map(|name| name.stored().to_owned()));
    }

    #[test]
    fn the_list_is_in_the_order_of_the_enum() {
        assert!(EventName::ALL.into_iter().enumerate().all(|(index, name)| name as usize == index));
    }

    #[test]
    fn a_type_of_lines_belongs_to_one_fact() {
        for name in EventName::ALL.into_iter().filter(|name| *name != EventName::Noted) {
            assert_eq!(EventName::of_shown(name.shown()), Some(name));
        }
        assert_eq!(EventName::of_shown("noted"), None);
        assert_eq!(EventName::of_shown("user_input"), None);
    }
}
