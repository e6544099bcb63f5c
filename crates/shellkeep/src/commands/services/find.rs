//! Finds a service. Ids and names are unique within a session at best, so the session is part of the path; if only one
//! session has such a service, it can be omitted.

use crate::client::Client;
use crate::failure::Failure;
use crate::terminal;
use shellkeep_protocol::{Service, ServiceList};
use shellkeep_session::{RunId, SessionId};

/// The path of a session's services.
pub fn of_session(session: &str) -> Result<String, Failure> {
    // Checked here too: an id with a slash would change the request's path.
    let session = SessionId::parse(session).map_err(|error| Failure::client(format!("--session: {error}")))?;
    Ok(format!("/v1/sessions/{session}/services"))
}

/// The paths of services, each found or not. `names` are ids or names.
pub async fn all(
    client: &mut Client,
    session: Option<&str>,
    names: &[String],
) -> Result<Vec<Result<String, Failure>>, Failure> {
    let path = session.map_or_else(|| Ok("/v1/services".to_owned()), of_session)?;
    let known: ServiceList = client.get(&path).await?;
    Ok(names.iter().map(|name| one(&known.services, session, name)).collect())
}

/// The path of one service.
pub async fn path(client: &mut Client, session: Option<&str>, name: &str) -> Result<String, Failure> {
    let mut found = all(client, session, std::slice::from_ref(&name.to_owned())).await?;
    found.pop().unwrap_or_else(|| Err(Failure::client("no service was named")))
}

/// The service with this id, or else with this name. Of several with the same name, a running one comes first.
fn one(known: &[Service], session: Option<&str>, name: &str) -> Result<String, Failure> {
    let by_id: Vec<&Service> = known.iter().filter(|service| service.service_id == name).collect();
    let by_name = || known.iter().filter(|service| service.name == name).collect();
    let mut found = if by_id.is_empty() { by_name() } else { by_id };
    if found.iter().any(|service| service.status.is_live()) {
        found.retain(|service| service.status.is_live());
    }
    match (found.as_slice(), session) {
        ([service], _) => Ok(format!("{}/{}", of_session(&service.session_id)?, service.service_id)),
        ([], session) => Err(none(session, name)),
        (several, _) => {
            let places = several.iter().map(|service| format!("{} {}", service.session_id, service.service_id));
            let places = places.collect::<Vec<_>>().join(", ");
            Err(Failure::client(format!(
                "there are {} services '{name}' ({places}); specify one: -s SESSION ID",
                several.len()
            )))
        }
    }
}

fn none(session: Option<&str>, name: &str) -> Failure {
    let is_run = RunId::parse(name).is_ok_and(|run_id| run_id.seq().is_some());
    let tip = match session {
        _ if is_run => format!("a run that has ended is read with `shellkeep runs output SESSION {name}`"),
        Some(session) => format!("list its services with `shellkeep services ls -s {session}`"),
        None => "list those that run with `shellkeep services ls`; for one that has ended, name its session with -s"
            .to_owned(),
    };
    let (shown, place) = (terminal::harmless(name), session.map(|session| format!(" in session '{session}'")));
    Failure::client(format!("no service '{shown}'{}; {tip}", place.unwrap_or_else(|| " runs".to_owned())))
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
        let told = |id| format!("{:?}", one(&running, None, id).unwrap_err());
        assert!(told("s3").contains("(a s3, b s3)"), "{}", told("s3"));
        assert!(told("s5").contains("no service 's5' runs"), "{}", told("s5"));
        assert!(told("r5").contains("shellkeep runs output SESSION r5"), "{}", told("r5"));
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
        let told = format!("{:?}", one(&two, None, "web").unwrap_err());
        assert!(told.contains("there are 2 services 'web' (a s3, b s4)"), "{told}");
    }
}
