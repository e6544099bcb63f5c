//! Paths of requests. Ids are checked here too: one with a slash would change the path.

use crate::failure::Failure;
use shellkeep_session::{SessionId, id};

/// The path of a session.
pub fn session(name: &str) -> Result<String, Failure> {
    let id = SessionId::parse(name).map_err(Failure::client)?;
    Ok(format!("/v1/sessions/{id}"))
}

/// The path of something in a session.
pub fn of_session(name: &str, rest: &str) -> Result<String, Failure> {
    Ok(format!("{}/{rest}", session(name)?))
}

/// The name of an agent, a node or a token, as a part of a path.
pub fn checked(name: &str) -> Result<&str, Failure> {
    id::check(name).map_err(|error| Failure::client(format!("'{name}': {error}")))?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_part_of_a_path() {
        assert_eq!(of_session("demo", "diff").unwrap(), "/v1/sessions/demo/diff");
        assert!(of_session("../x", "diff").is_err());
        assert!(checked("a/b").is_err());
    }
}
