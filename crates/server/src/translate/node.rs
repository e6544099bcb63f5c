//! Quotas and the node: from the wire to the runtime's vocabulary and back.

use crate::refusal::Refusal;
use shellkeep_protocol as wire;
use shellkeep_runtime::{
    EndedAgent, LimitChangeView, NodeEntry, NodeView, QuotaChanges, QuotaView, QuotasView, RunningView,
};
use shellkeep_session::QuotaName;

/// A request to change quotas.
pub fn quota_changes(request: wire::QuotasRequest) -> Result<QuotaChanges, Refusal> {
    request.0.into_iter().map(|(name, limit)| Ok((quota_name(&name)?, limit))).collect()
}

fn quota_name(text: &str) -> Result<QuotaName, Refusal> {
    QuotaName::parse(text).ok_or_else(|| {
        let known: Vec<&str> = QuotaName::ALL.iter().map(|name| name.as_str()).collect();
        Refusal::invalid(format!("there is no quota '{}'; there are: {}", text.escape_debug(), known.join(", ")))
    })
}

/// The quotas, for the caller.
pub fn quotas(view: QuotasView) -> wire::QuotasResponse {
    wire::QuotasResponse {
        quotas: view.quotas.into_iter().map(quota).collect(),
        changes: view.changes.into_iter().map(limit_change).collect(),
    }
}

fn quota(view: QuotaView) -> (String, wire::Quota) {
    let QuotaView { name, configured, set, limit, used } = view;
    (name.as_str().to_owned(), wire::Quota { configured, set, limit, used })
}

fn limit_change(view: LimitChangeView) -> wire::LimitChange {
    let LimitChangeView { at, limit, from, to, reason } = view;
    wire::LimitChange { at: at.to_string(), limit: limit.to_owned(), from, to, reason }
}

/// A node among others.
pub fn cluster_node(node: NodeEntry) -> wire::ClusterNode {
    let NodeEntry { name, url, version, since, sessions, draining, .. } = node;
    let status = match (draining, sessions) {
        (false, _) => wire::ClusterNodeStatus::Up,
        (true, 0) => wire::ClusterNodeStatus::Drained,
        (true, _) => wire::ClusterNodeStatus::Draining,
    };
    wire::ClusterNode { name, url, status, since, sessions, version }
}

/// The node, for the host.
pub fn node(view: NodeView) -> wire::Node {
    wire::Node {
        uptime: view.uptime.as_secs_f64(),
        sessions: view.sessions,
        live_shells: view.live_shells,
        spare_shells: view.spare_shells,
        running: view.running,
        running_limit: view.running_limit,
        waiting: view.waiting,
        agents_waiting: view.agents_waiting,
        commands: view.commands.into_iter().map(running).collect(),
        commands_total: view.commands_total,
        services: view.services,
        processes: view.processes,
        memory: view.memory,
        cpu_pressure: view.cpu_pressure,
        memory_pressure: view.memory_pressure,
        memory_free: view.memory_free,
        quotas: quotas(view.quotas),
        problems: view.problems,
    }
}

fn running(view: RunningView) -> wire::RunningCommand {
    wire::RunningCommand {
        session_id: view.session_id.into(),
        agent: view.agent,
        run_id: view.run_id.to_string(),
        command: view.command,
        seconds: view.elapsed.as_secs_f64(),
        background: view.background,
    }
}

/// The result of ending an agent, for the host.
pub fn ended_agent(ended: EndedAgent) -> wire::AgentEnded {
    let EndedAgent { agent, sessions, services } = ended;
    wire::AgentEnded { agent, sessions, services, missing_nodes: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_session::{RunId, SessionId};

    #[test]
    fn quotas_are_changed_by_name() {
        let request = serde_json::from_str(r#"{"services": 7, "processes": null}"#).unwrap();
        let changes = quota_changes(request).unwrap();
        assert_eq!(changes[&QuotaName::Services], Some(7));
        assert_eq!(changes[&QuotaName::Processes], None);
        let refusal = quota_changes(serde_json::from_str(r#"{"services": 7, "shells": 1}"#).unwrap()).unwrap_err();
        let detail = &refusal.problem().detail;
        assert!(detail.contains("'shells'") && detail.contains("live_shells, session_processes"), "{detail}");
    }

    #[test]
    fn the_node_has_its_quotas_beside_the_rest() {
        let view = NodeView {
            uptime: std::time::Duration::from_millis(1500),
            sessions: 1,
            live_shells: 1,
            spare_shells: 2,
            running: 0,
            running_limit: 9,
            waiting: 0,
            agents_waiting: 0,
            commands: vec![RunningView {
                session_id: SessionId::parse("demo").unwrap(),
                agent: None,
                run_id: RunId::from_seq(3),
                command: "make test".to_owned(),
                elapsed: std::time::Duration::from_millis(2500),
                background: false,
            }],
            commands_total: 7,
            services: 1,
            processes: 3,
            memory: 1 << 24,
            cpu_pressure: 0.25,
            memory_pressure: 0.0,
            memory_free: 0.5,
            quotas: QuotasView {
                quotas: vec![QuotaView {
                    name: QuotaName::Services,
                    configured: 500,
                    set: None,
                    limit: 400,
                    used: Some(1),
                }],
                changes: Vec::new(),
            },
            problems: Vec::new(),
        };
        let node = node(view);
        let json = serde_json::to_value(&node).unwrap();
        assert_eq!(json["quotas"]["services"], serde_json::json!({"configured": 500, "limit": 400, "used": 1}));
        assert_eq!((&json["uptime"], &json["changes"]), (&serde_json::json!(1.5), &serde_json::json!([])));
        let command = serde_json::json!({"session_id": "demo", "run_id": "r3", "command": "make test", "seconds": 2.5,
            "background": false});
        assert_eq!(json["commands"], serde_json::json!([command]));
        // The command line reads the same type back.
        assert_eq!(serde_json::from_value::<wire::Node>(json).unwrap(), node);
    }
}
