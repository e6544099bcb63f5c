//! Finds a service. Ids and names are unique within a session at best, so the session is part of the path; if only one
//! session has such a service, it can be omitted.

use crate::client::{Client, paths};
use crate::failure::Failure;
use crate::terminal;
use shellkeep_protocol::{Service, ServiceList};
use shellkeep_session::RunId;

/// The path of a session's services.
pub fn of_session(session: &str) -> Result<String, Failure> {
    paths::of_session(session, "services").map_err(|wrong| Failure::client(format!("--session: {wrong}")))
}

/// The paths of services, each found or not. `names` are ids or names.
pub async fn all(
    client: &mut Client,
    session: Option<&str>,
    names: &[String],
) -> Result<Vec<Result<String, Failure>>, Failure> {
    let path = session.map_or_else(|| Ok("/v1/services".to_owned()), of_session)?;
    let known: ServiceList = client.get(&path).await?;
    let flags = client.flags();
    Ok(names
        .iter()
        .map(|name| one(&known.services, session, name).map_err(|wrong| wrong.failure(name, flags)))
        .collect())
}

/// The path of one service.
pub async fn path(client: &mut Client, session: Option<&str>, name: &str) -> Result<String, Failure> {
    let mut found = all(client, session, std::slice::from_ref(&name.to_owned())).await?;
    found.pop().unwrap_or_else(|| Err(Failure::client("no service was named")))
}

/// Why a service was not found.
#[derive(Debug)]
enum NotFound<'a> {
    /// None has this id or name, in the session if one was named.
    Unknown { session: Option<&'a str> },
    /// Several have it.
    Several(Vec<&'a Service>),
    /// The session's name is invalid.
    Invalid(Failure),
}

/// The service with this id, or else with this name. Of several with the same name, a running one comes first.
fn one<'a>(known: &'a [Service], session: Option<&'a str>, name: &str) -> Result<String, NotFound<'a>> {
    let by_id: Vec<&Service> = known.iter().filter(|service| service.service_id == name).collect();
    let by_name = || known.iter().filter(|service| service.name == name).collect();
    let mut found = if by_id.is_empty() { by_name() } else { by_id };
    if found.iter().any(|service| service.status.is_live()) {
        found.retain(|service| service.status.is_live());
    }
    match found.as_slice() {
        [service] => {
            let path = of_session(&service.session_id).map_err(NotFound::Invalid)?;
            Ok(format!("{path}/{}", service.service_id))
        }
        [] => Err(NotFound::Unknown { session }),
        _ => Err(NotFound::Several(found)),
    }
}

impl NotFound<'_> {
    /// What to say. `flags` lead to the daemon.
    fn failure(self, name: &str, flags: &str) -> Failure {
        let shown = terminal::harmless(name);
        let is_run = RunId::parse(name).is_ok_and(|run_id| run_id.seq().is_some());
        match self {
            Self::Invalid(failure) => failure,
            Self::Several(services) => {
                let command = |service: &&Service| format!("-s {} {}", service.session_id, service.service_id);
                let choices = services.iter().map(command).collect::<Vec<_>>().join(", or ");
                Failure::client(format!("there are {} services '{shown}'; specify one: {choices}", services.len()))
            }
            Self::Unknown { session: Some(session) } if is_run => Failure::client(format!(
                "no service '{shown}'{}; read the output of a run that has ended with `shellkeep runs output {session} \
                 {name}{flags}`",
                in_session(session)
            )),
            Self::Unknown { session: None } if is_run => Failure::client(format!(
                "no service '{shown}'; it looks like a run: find its session with `shellkeep runs ls{flags}`, and name it \
                 with -s"
            )),
            Self::Unknown { session: Some(session) } => Failure::client(format!(
                "no service '{shown}'{}; list its services with `shellkeep services ls -s {session}{flags}`",
                in_session(session)
            )),
            Self::Unknown { session: None } => Failure::client(format!(
                "no service '{shown}' is running; list running services with `shellkeep services ls{flags}`; for one \
                 that has ended, name its session with -s"
            )),
        }
    }
}

fn in_session(name: &str) -> String {
    format!(" in session '{name}'")
}

#[cfg(test)]
mod tests {
    use super::super::show::tests::service;
    use super::*;
    use shellkeep_protocol::ServiceStatus;

    #[test]
    fn a_service_is_found_where_there_is_one_of_that_id() {
        let running = [service("s3", "a"), service("s3", "b"), service("s4", "a")];
        assert_eq!(one(&running, None, "s4").unwrap(), "/v1/sessions/a/services/s4");
        let told = |id| one(&running, None, id).unwrap_err().failure(id, " --data /d").to_string();
        assert!(told("s3").contains("-s a s3, or -s b s3"), "{}", told("s3"));
        assert!(told("s5").contains("no service 's5' is running"), "{}", told("s5"));
        assert!(told("r5").contains("`shellkeep runs ls --data /d`"), "{}", told("r5"));
    }

    #[test]
    fn a_service_is_found_by_its_name_and_one_that_runs_comes_first() {
        let named = |id: &str, session: &str, name: &str, status| Service {
            name: name.to_owned(),
            status,
            ..service(id, session)
        };
        let known = [
            named("s3", "a", "web", ServiceStatus::Exited),
            named("s7", "a", "web", ServiceStatus::Running),
            named("s8", "a", "s3", ServiceStatus::Running),
        ];
        assert_eq!(one(&known, Some("a"), "web").unwrap(), "/v1/sessions/a/services/s7");
        assert_eq!(one(&known, Some("a"), "s3").unwrap(), "/v1/sessions/a/services/s3", "an id comes before a name");
        let two = [named("s3", "a", "web", ServiceStatus::Running), named("s4", "b", "web", ServiceStatus::Running)];
        let told = one(&two, None, "web").unwrap_err().failure("web", "").to_string();
        assert!(told.contains("there are 2 services 'web'; specify one: -s a s3, or -s b s4"), "{told}");
    }
}
