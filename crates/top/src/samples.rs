//! What a daemon might say, for the tests.
#![allow(clippy::unwrap_used, reason = "a test says what it expected by panicking")]

use super::app::App;
use super::wants::{News, SessionDetail, SessionsPage, SessionsQuery, StateSummary};
use shellkeep_protocol::{
    LimitChange, Node, Quota, QuotasResponse, Readiness, ReadinessStatus, RestartChoice, RunningCommand, Service,
    ServiceStatus, Session,
};
use shellkeep_session::Timestamp;
use std::time::Duration;

/// The time of all samples.
pub const NOW: &str = "2026-01-02T12:00:00Z";

pub fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// A time this many seconds before the samples' own.
pub fn before(seconds: i64) -> String {
    Timestamp::from_second(now().as_second() - seconds).unwrap().to_string()
}

pub fn daemon() -> Readiness {
    Readiness {
        status: ReadinessStatus::Ready,
        reasons: Vec::new(),
        problems: Vec::new(),
        live_shells: 42,
        spare_shells: 3,
        version: "0.1.0".to_owned(),
        pid: 4242,
    }
}

pub fn node() -> Node {
    let quota = |configured, set, limit, used| Quota { configured, set, limit, used };
    let quotas = [
        ("processes", quota(1000, None, 1000, Some(423))),
        ("services", quota(500, None, 500, Some(490))),
        ("services_per_agent", quota(5, Some(8), 8, None)),
        ("live_shells", quota(200, None, 150, Some(120))),
        ("session_processes", quota(256, None, 256, None)),
        ("output_bytes_per_run", quota(128 << 20, None, 128 << 20, None)),
        ("output_bytes_per_session", quota(1 << 30, None, 1 << 30, None)),
        ("disk_bytes_per_session", quota(10 << 30, None, 10 << 30, None)),
        ("service_log_bytes", quota(16 << 20, None, 16 << 20, None)),
    ];
    let change = |seconds, from, to, reason: &str| LimitChange {
        at: before(seconds),
        limit: "live_shells".to_owned(),
        from,
        to,
        reason: reason.to_owned(),
    };
    Node {
        uptime: 273_600.0,
        sessions: 100_000,
        live_shells: 42,
        spare_shells: 3,
        running: 12,
        running_limit: 64,
        waiting: 7,
        agents_waiting: 2,
        commands: Vec::new(),
        commands_total: 1_000_000,
        services: 490,
        processes: 423,
        memory: 47_395_635,
        cpu_pressure: 0.31,
        memory_pressure: 0.04,
        memory_free: 0.63,
        quotas: QuotasResponse {
            quotas: quotas.into_iter().map(|(name, quota)| (name.to_owned(), quota)).collect(),
            changes: vec![
                change(180, 200, 150, "memory pressure was 0.42 for 10 s"),
                change(7200, 100, 200, "the machine has room again"),
            ],
        },
        problems: Vec::new(),
    }
}

/// Commands that run.
pub fn commands() -> Vec<RunningCommand> {
    let command = |session: &str, run: &str, seconds, command: &str| RunningCommand {
        session_id: session.to_owned(),
        agent: Some("builder".to_owned()),
        run_id: run.to_owned(),
        command: command.to_owned(),
        seconds,
        background: false,
    };
    vec![
        command("api", "r12", 754.0, "cargo test --workspace\n"),
        command("demo", "r7", 42.4, "npm ci && npm run build -- --mode production --report --verbose"),
        command("notes", "r3", 1.2, "sleep 5"),
    ]
}

pub fn service(session: &str, id: &str, name: &str, status: ServiceStatus) -> Service {
    Service {
        service_id: id.to_owned(),
        session_id: session.to_owned(),
        agent: Some("builder".to_owned()),
        name: name.to_owned(),
        command: format!("npm run {name}"),
        cwd: "/srv/app".to_owned(),
        status,
        pid: status.is_live().then_some(31_337),
        ports: if status.is_live() { vec![5173] } else { Vec::new() },
        processes: 3,
        started_at: before(3600),
        last_active_at: before(180),
        restart: RestartChoice::OnFailure,
        restarts: 0,
        ended_at: None,
        exit_code: None,
        signal: None,
        detail: None,
        log_bytes: 123_456,
    }
}

pub fn services() -> Vec<Service> {
    vec![
        service("demo", "s10", "docs", ServiceStatus::Starting),
        Service { last_active_at: before(9000), ..service("demo", "s9", "web", ServiceStatus::Running) },
        Service { log_bytes: 5 << 30, restarts: 2, ..service("api", "s1", "server", ServiceStatus::Running) },
    ]
}

pub fn session(id: &str, live: bool) -> Session {
    Session {
        session_id: id.to_owned(),
        agent: live.then(|| "builder".to_owned()),
        agent_config: serde_json::json!({}),
        created_at: before(90_000),
        last_active_at: before(42),
        cwd: "/srv/app".to_owned(),
        workspace: "/srv/app".to_owned(),
        live,
        shell_pid: live.then_some(777),
        generation: 2,
        seq: 1234,
        forked_from: None,
        sandbox: None,
        secrets: Vec::new(),
        held: None,
        deleted: None,
    }
}

/// A page of sessions `s000` and on.
pub fn page(from: usize, count: usize, next: bool) -> SessionsPage {
    let sessions: Vec<Session> =
        (from..from + count).map(|number| session(&format!("s{number:03}"), number % 2 == 0)).collect();
    let last = sessions.last().map(|session| session.session_id.clone());
    SessionsPage { next: last.filter(|_| next), searched: sessions.len(), sessions, complete: true }
}

pub fn detail(id: &str) -> SessionDetail {
    SessionDetail {
        session: session(id, true),
        state: StateSummary {
            variables: 12,
            exported: 5,
            functions: vec!["deploy".to_owned(), "greet".to_owned()],
            aliases: 1,
            traps: vec!["EXIT".to_owned()],
            status: 0,
        },
        services: vec![
            Service { exit_code: Some(1), ..service(id, "s1", "build", ServiceStatus::Failed) },
            service(id, "s2", "web", ServiceStatus::Running),
        ],
    }
}

/// A screen that a daemon has told everything.
pub fn app() -> App {
    let mut app = App::default();
    app.on_news(News::Found(daemon()), Duration::ZERO);
    for second in 0..120u64 {
        let mut node = node();
        node.commands_total += second * second * 10;
        app.on_news(News::Node(Box::new(node)), Duration::from_secs(second));
    }
    app.on_news(News::Services(services()), Duration::from_secs(120));
    app.on_news(News::Sessions { query: SessionsQuery::default(), page: page(0, 200, true) }, Duration::from_secs(120));
    app
}
