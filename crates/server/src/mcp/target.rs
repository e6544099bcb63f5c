//! What an id names: `r12` is a command, `s12` a service. Only the daemon assigns ids.

use crate::refusal::Refusal;
use axum::http::StatusCode;
use shellkeep_session::{RunId, ServiceId};

/// The target of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A command.
    Run(RunId),
    Service(ServiceId),
}

impl Target {
    /// Reads the argument `id`.
    pub fn parse(id: &str) -> Result<Self, Refusal> {
        let is_service = id.strip_prefix('s').is_some_and(is_number);
        let parsed = if is_service { ServiceId::parse(id).map(Self::Service) } else { RunId::parse(id).map(Self::Run) };
        parsed.map_err(|error| Refusal::bad_id("id", &error))
    }

    /// The command; for a service what `refuse` says.
    pub fn run(self, refuse: impl FnOnce(ServiceId) -> Refusal) -> Result<RunId, Refusal> {
        match self {
            Self::Run(run_id) => Ok(run_id),
            Self::Service(id) => Err(refuse(id)),
        }
    }

    /// Reads the argument `id` of a tool for terminals, which only commands have.
    pub fn run_with_terminal(id: &str) -> Result<RunId, Refusal> {
        Self::parse(id)?.run(|id| {
            let detail =
                format!("{id} is a service, which has no terminal; read its log with read_output(id=\"{id}\")");
            Refusal::new(StatusCode::CONFLICT, "no_terminal", detail)
        })
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_say_what_they_name() {
        assert_eq!(Target::parse("s12").unwrap(), Target::Service(ServiceId::from_seq(12)));
        assert_eq!(Target::parse("r12").unwrap(), Target::Run(RunId::from_seq(12)));
        // Anything else is treated as a run that does not exist.
        assert_eq!(Target::parse("server").unwrap(), Target::Run(RunId::parse("server").unwrap()));
        assert!(Target::parse("../s1").unwrap_err().problem().detail.starts_with("id: "));
    }
}
