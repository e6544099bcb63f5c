//! How many facts were recorded, by kind. The counters are found once, so that counting costs no lookup.

use crate::agent_use::AgentUse;
use crate::validate::records::TYPES;
use metrics::{Counter, counter, describe_counter};
use shellkeep_record::line_types::OWN;
use shellkeep_session::{Event, EventName};

/// The counters.
pub struct Counts {
    agents: AgentUse,
    /// In the order of [`EventName::ALL`].
    facts: [Counter; EventName::ALL.len()],
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
            facts: EventName::ALL.map(|name| match name {
                // Those are counted by the type that their caller chose.
                EventName::Noted => Counter::noop(),
                name => counter!(NAME, "type" => name.shown()),
            }),
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
        if let Event::Noted { event_type, .. } = event {
            let known = TYPES.iter().position(|(name, _)| name == event_type);
            return known.map_or(&self.own, |index| &self.noted[index]).increment(1);
        }
        self.facts[event.name() as usize].increment(1);
    }
}
