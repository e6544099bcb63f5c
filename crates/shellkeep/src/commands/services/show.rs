//! Prints services.

use crate::commands::quotas::in_units;
use crate::terminal::{self, Cell, Colour, Column, Fields, Table, TableArgs};
use shellkeep_protocol::{Service, ServiceStatus};
use shellkeep_session::plan::shorten;
use shellkeep_terminal::words;

/// A table of services; for a program, tab-separated lines.
pub fn table(services: Vec<Service>, args: TableArgs) {
    let columns = [
        Column::word("service"),
        Column::id("session"),
        Column::text("agent").if_any(),
        Column::id("name"),
        Column::word("status"),
        Column::number("pid").if_room(),
        Column::word("ports"),
        Column::word("last active"),
        Column::number("log").if_room(),
        Column::text("command"),
    ];
    terminal::show(&Table::new(columns, services.into_iter().map(row).collect()), args, "no services");
}

fn row(service: Service) -> [Cell; 10] {
    let ports = (!service.ports.is_empty()).then(|| ports(&service));
    let colour = colour(&service);
    [
        service.service_id.into(),
        service.session_id.into(),
        Cell::or_dash(service.agent),
        shorten(&service.name).into(),
        Cell::coloured(service.status.as_str(), colour),
        Cell::or_dash(service.pid.map(|pid| pid.to_string())),
        Cell::or_dash(ports),
        Cell::time(&service.last_active_at),
        Cell::short(in_units(service.log_bytes), words::bytes(service.log_bytes)),
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

/// One service.
pub fn detail(service: &Service) {
    let time = |at: &str| Cell::short(at, terminal::moment(at));
    let ended = service.ended_at.as_deref().map(time);
    let fields = Fields::new()
        .with("service", sentence(service))
        .with("session", service.session_id.as_str())
        .maybe("agent", service.agent.as_deref())
        .with("started", time(&service.started_at))
        .with("last active", time(&service.last_active_at))
        .maybe("ended", ended)
        .with("directory", terminal::path(&service.cwd))
        .with("log", Cell::size(service.log_bytes))
        .with("command", service.command.as_str());
    terminal::fields(&fields);
}

/// A service in a line, without control characters.
pub fn sentence(service: &Service) -> String {
    terminal::harmless(&service.sentence()).to_string()
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
}
