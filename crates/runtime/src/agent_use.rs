//! What each agent uses, as metrics. A label for every agent that ever was would grow without bound, so the first agents
//! that are seen have one each, and all others share one.

use crate::sync::lock;
use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Agents with a label of their own: as many as a dashboard can show.
const NAMED: usize = 50;
/// The label of sessions without an agent. No agent's name begins with a dot.
const NONE: &str = ".none";
/// The label of all agents beyond the first.
const OTHERS: &str = ".others";

/// The figures of each agent.
pub(crate) struct AgentUse {
    known: Mutex<BTreeMap<Arc<str>, Figures>>,
}

/// The handles of one label.
struct Figures {
    commands: Counter,
    running: Gauge,
    services: Gauge,
}

impl AgentUse {
    pub(crate) fn new() -> Self {
        describe_counter!("shellkeep_agent_commands_total", "Commands that ended, by agent");
        describe_gauge!("shellkeep_agent_commands_running", "Commands that run, by agent");
        describe_gauge!("shellkeep_agent_services", "Services that run, by agent");
        let known = [NONE, OTHERS].map(|label| (Arc::from(label), Figures::new(label)));
        Self { known: Mutex::new(known.into()) }
    }

    /// A command of an agent has ended.
    pub(crate) fn ran(&self, agent: Option<&str>) {
        let mut known = lock(&self.known);
        let label = label(&mut known, agent);
        if let Some(figures) = known.get(&label) {
            figures.commands.increment(1);
        }
    }

    /// Sets what is counted only when someone asks. Each item is the agent of one command or one service.
    pub(crate) fn gauge(&self, running: &[Option<Arc<str>>], services: &[Option<Arc<str>>]) {
        let mut known = lock(&self.known);
        let mut count = |agents: &[Option<Arc<str>>]| {
            let mut sums: BTreeMap<Arc<str>, usize> = BTreeMap::new();
            for agent in agents {
                *sums.entry(label(&mut known, agent.as_deref())).or_default() += 1;
            }
            sums
        };
        let (running, services) = (count(running), count(services));
        for (label, figures) in known.iter() {
            figures.running.set(running.get(label).copied().unwrap_or_default() as f64);
            figures.services.set(services.get(label).copied().unwrap_or_default() as f64);
        }
    }
}

impl Figures {
    fn new(label: &str) -> Self {
        let figures = Self {
            commands: counter!("shellkeep_agent_commands_total", "agent" => label.to_owned()),
            running: gauge!("shellkeep_agent_commands_running", "agent" => label.to_owned()),
            services: gauge!("shellkeep_agent_services", "agent" => label.to_owned()),
        };
        // There from the first scrape on: to Prometheus, the appearance of a counter is not an increase.
        figures.commands.increment(0);
        figures
    }
}

/// The label of an agent, which may get one now.
fn label(known: &mut BTreeMap<Arc<str>, Figures>, agent: Option<&str>) -> Arc<str> {
    let name = agent.unwrap_or(NONE);
    if let Some((label, _)) = known.get_key_value(name) {
        return Arc::clone(label);
    }
    // NONE and OTHERS are there from the beginning.
    if known.len() >= NAMED + 2 {
        return Arc::from(OTHERS);
    }
    let label: Arc<str> = Arc::from(name);
    known.insert(Arc::clone(&label), Figures::new(name));
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_labels_is_bounded() {
        let using = AgentUse::new();
        for number in 0..3 * NAMED {
            using.ran(Some(&format!("agent-{number}")));
        }
        using.ran(None);
        using.gauge(&[None, Some("agent-1".into()), Some("late".into())], &[]);
        let known = lock(&using.known);
        assert_eq!(known.len(), NAMED + 2);
        assert!(known.contains_key("agent-1") && known.contains_key(OTHERS) && !known.contains_key("late"));
    }
}
