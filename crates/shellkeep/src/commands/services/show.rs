//! Services as a person reads them.

use crate::commands::quotas::in_units;
use crate::terminal::{self, Cell, Colour};
use shellkeep_protocol::{Service, ServiceStatus};
use shellkeep_session::plan::shorten;

/// A table of services; for a program, tab-separated lines.
pub fn table(services: Vec<Service>) {
    let header = ["service", "session", "agent", "name", "status", "pid", "ports", "last active", "log", "command"];
    terminal::table(header, services.into_iter().map(row).collect());
}

fn row(service: Service) -> [Cell; 10] {
    let dash = || "-".to_owned();
    let ports = if service.ports.is_empty() { dash() } else { ports(&service) };
    let colour = colour(&service);
    [
        service.service_id.into(),
        service.session_id.into(),
        service.agent.unwrap_or_else(dash).into(),
        shorten(&service.name).into(),
        Cell::coloured(service.status.as_str(), colour),
        service.pid.map_or_else(dash, |pid| pid.to_string()).into(),
        ports.into(),
        service.last_active_at.into(),
        in_units(service.log_bytes).into(),
        shorten(&service.command).into(),
    ]
}

fn colour(service: &Service) -> Option<Colour> {
    match service.status {
        ServiceStatus::Running => Some(Colour::Green),
        ServiceStatus::Starting => Some(Colour::Yellow),
        ServiceStatus::Failed => Some(Colour::Red),
        ServiceStatus::Exited if service.exit_code != Some(0) => Some(Colour::Red),
        ServiceStatus::Exited | ServiceStatus::Stopped => None,
    }
}

/// A service in a line: `s3 (web) is running, pid 4242, listening on 8000`. Without colour, for it is said in a notice.
pub fn sentence(service: &Service) -> String {
    let Service { service_id, name, status, .. } = service;
    let verb = if status.is_live() { "is " } else { "" };
    let mut text = format!("{service_id} ({}) {verb}{}", terminal::harmless(&shorten(name)), status.as_str());
    if let Some(pid) = service.pid {
        text += &format!(", pid {pid}");
    }
    if !service.ports.is_empty() {
        text += &format!(", listening on {}", ports(service));
    }
    match (&service.detail, service.exit_code, &service.signal) {
        // The sentence says the code or the signal, and what else there is to know.
        (Some(detail), ..) => text += &format!(": {detail}"),
        (None, _, Some(signal)) => text += &format!(", by signal {signal}"),
        (None, Some(code), None) => text += &format!(", exit code {code}"),
        (None, None, None) => {}
    }
    text
}

fn ports(service: &Service) -> String {
    service.ports.iter().map(u16::to_string).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use shellkeep_protocol::RestartChoice;

    /// A service that runs.
    pub fn service(id: &str, session: &str) -> Service {
        Service {
            service_id: id.to_owned(),
            session_id: session.to_owned(),
            agent: None,
            name: "web".to_owned(),
            command: "serve".to_owned(),
            cwd: "/".to_owned(),
            status: ServiceStatus::Running,
            pid: Some(42),
            ports: vec![80, 443],
            processes: 1,
            started_at: String::new(),
            last_active_at: String::new(),
            restart: RestartChoice::Never,
            restarts: 0,
            ended_at: None,
            exit_code: None,
            signal: None,
            detail: None,
            log_bytes: 0,
        }
    }

    #[test]
    fn a_service_in_a_line() {
        assert_eq!(sentence(&service("s3", "a")), "s3 (web) is running, pid 42, listening on 80 443");
        let ended = Service {
            status: ServiceStatus::Failed,
            pid: None,
            ports: Vec::new(),
            exit_code: Some(1),
            detail: Some("it ended before it was ready".to_owned()),
            ..service("s3", "a")
        };
        assert_eq!(sentence(&ended), "s3 (web) failed: it ended before it was ready");
        assert_eq!(sentence(&Service { detail: None, ..ended }), "s3 (web) failed, exit code 1");
    }
}
