//! Where a service is. Ids count within a session, so the session is part of the path; where only one session has such a
//! service, it need not be said.

use crate::client::Client;
use crate::failure::Failure;
use shellkeep_protocol::{Service, ServiceList};
use shellkeep_session::{ServiceId, SessionId};

/// The path of a session's services.
pub fn of_session(session: &str) -> Result<String, Failure> {
    // Checked here too: an id with a slash would ask for another path.
    let session = SessionId::parse(session).map_err(|error| Failure::client(format!("--session: {error}")))?;
    Ok(format!("/v1/sessions/{session}/services"))
}

/// The paths of services, each found or not.
pub async fn all(
    client: &mut Client,
    session: Option<&str>,
    ids: &[String],
) -> Result<Vec<Result<String, Failure>>, Failure> {
    for id in ids {
        ServiceId::parse(id).map_err(|error| Failure::client(format!("'{id}': {error}")))?;
    }
    if let Some(session) = session {
        let root = of_session(session)?;
        return Ok(ids.iter().map(|id| Ok(format!("{root}/{id}"))).collect());
    }
    let running: ServiceList = client.get("/v1/services").await?;
    Ok(ids.iter().map(|id| one(&running.services, id)).collect())
}

/// The path of one service.
pub async fn path(client: &mut Client, session: Option<&str>, id: &str) -> Result<String, Failure> {
    let mut found = all(client, session, std::slice::from_ref(&id.to_owned())).await?;
    found.pop().unwrap_or_else(|| Err(Failure::client("no service was named")))
}

fn one(running: &[Service], id: &str) -> Result<String, Failure> {
    let sessions: Vec<&str> =
        running.iter().filter(|service| service.service_id == id).map(|service| service.session_id.as_str()).collect();
    match sessions.as_slice() {
        [session] => Ok(format!("{}/{id}", of_session(session)?)),
        [] => Err(Failure::client(format!(
            "no service '{id}' runs; `shellkeep services ls` lists those that do. For one that has ended say its session \
             with -s"
        ))),
        several => Err(Failure::client(format!(
            "{} sessions have a service '{id}' ({}); say which with -s",
            several.len(),
            several.join(", ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::show::tests::service;
    use super::*;

    #[test]
    fn a_service_is_found_where_there_is_one_of_that_id() {
        let running = [service("s3", "a"), service("s3", "b"), service("s4", "a")];
        assert_eq!(one(&running, "s4").unwrap(), "/v1/sessions/a/services/s4");
        let told = |id| format!("{:?}", one(&running, id).unwrap_err());
        assert!(told("s3").contains("(a, b)"), "{}", told("s3"));
        assert!(told("s5").contains("no service 's5' runs"), "{}", told("s5"));
    }
}
