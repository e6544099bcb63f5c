//! Sessions and outputs as resources, for clients that show them to a person or attach them to a conversation.

use super::hints::protocol_error;
use super::seat::Seat;
use crate::refusal::Refusal;
use crate::translate;
use rmcp::model::{ErrorData, ListResourcesResult, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::json;
use shellkeep_protocol::text;
use shellkeep_runtime::{
    Engine, ListRuns, MAX_OUTPUT_PAGE, OpError, OutputQuery, RunFilter, RunSummary, SessionError, Stream,
};
use shellkeep_session::{RunId, SessionId};

/// The prefix of all URIs.
const ROOT: &str = "shellkeep://sessions/";
/// How many runs' outputs are listed.
const RECENT_RUNS: usize = 20;
const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

/// What a URI names.
#[derive(Debug, PartialEq, Eq)]
enum Named {
    Session(SessionId),
    Output { session: SessionId, run_id: RunId, stream: Stream },
}

/// The kinds of resources there are.
pub fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(format!("{ROOT}{{session_id}}"), "session")
            .with_title("A session")
            .with_description(
                "Its state: directory, names of variables, functions and aliases, whether a shell is live",
            )
            .with_mime_type(JSON),
        ResourceTemplate::new(format!("{ROOT}{{session_id}}/runs/{{run_id}}/stdout"), "stdout")
            .with_title("Standard output of a command")
            .with_mime_type(TEXT),
        ResourceTemplate::new(format!("{ROOT}{{session_id}}/runs/{{run_id}}/stderr"), "stderr")
            .with_title("Standard error of a command")
            .with_mime_type(TEXT),
    ]
}

/// The caller's session and what its recent runs printed, newest first.
pub async fn list(seat: &Seat) -> Result<ListResourcesResult, ErrorData> {
    let session = &seat.session;
    let view = match seat.engine.get(session).await {
        Ok(view) => view,
        // The first command creates it.
        Err(OpError::Session(SessionError::NotFound { .. })) => {
            return Ok(ListResourcesResult::with_all_items(Vec::new()));
        }
        Err(error) => return Err(protocol_error(&error.into())),
    };
    let mut resources = vec![
        Resource::new(format!("{ROOT}{session}"), session.to_string())
            .with_title(format!("Session {session}"))
            .with_description(format!("In {}", view.cwd.to_text()))
            .with_mime_type(JSON),
    ];
    let query = ListRuns { before: None, limit: RECENT_RUNS, filter: RunFilter::All };
    let recent = seat.engine.runs().lists().of(session, query).await.map_err(|error| protocol_error(&error.into()))?;
    resources.extend(recent.runs.iter().flat_map(|run| outputs(session, run)));
    Ok(ListResourcesResult::with_all_items(resources))
}

fn outputs(session: &SessionId, run: &RunSummary) -> Vec<Resource> {
    let id = &run.run_id;
    let streams = [("stdout", run.stdout_bytes), ("stderr", run.stderr_bytes)];
    let written = streams.into_iter().filter(|(_, bytes)| *bytes > 0);
    let resource = |(name, bytes): (&str, u64)| {
        Resource::new(format!("{ROOT}{session}/runs/{id}/{name}"), format!("{id}.{name}"))
            .with_title(format!("{name} of {id}"))
            .with_mime_type(TEXT)
            .with_size(bytes)
    };
    written.map(resource).collect()
}

/// Reads one of them.
pub async fn read(engine: &Engine, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let target = parse(uri).ok_or_else(|| {
        let detail = format!("there is no resource '{uri}'; resources/list and resources/templates/list list them");
        ErrorData::resource_not_found(detail, None)
    })?;
    let contents = match target {
        Named::Session(session) => {
            summary(engine, &session).await.map(|text| ResourceContents::text(text, uri).with_mime_type(JSON))
        }
        Named::Output { session, run_id, stream } => output(engine, &session, &run_id, stream, uri).await,
    };
    let contents = contents.map_err(|error| missing(&error.into()))?;
    Ok(ReadResourceResult::new(vec![contents]))
}

/// Why a resource cannot be read. Hints of tools do not help here.
fn missing(refusal: &Refusal) -> ErrorData {
    let problem = refusal.problem();
    if problem.status != 404 {
        return protocol_error(refusal);
    }
    let next = "resources/list lists your session and what its recent commands printed";
    ErrorData::resource_not_found(format!("{}; {next} ({})", problem.detail, problem.code), None)
}

async fn summary(engine: &Engine, session: &SessionId) -> Result<String, OpError> {
    let (view, state) = (engine.get(session).await?, engine.state(session).await?);
    // Names without values, because a summary may be visible to others.
    let summary = json!({
        "session": translate::session(view),
        "variables": state.variables.keys().collect::<Vec<_>>(),
        "functions": state.functions.keys().collect::<Vec<_>>(),
        "aliases": state.aliases.keys().collect::<Vec<_>>(),
    });
    Ok(format!("{summary:#}"))
}

async fn output(
    engine: &Engine,
    session: &SessionId,
    run_id: &RunId,
    stream: Stream,
    uri: &str,
) -> Result<ResourceContents, OpError> {
    let query = OutputQuery { stream, offset: 0, limit: MAX_OUTPUT_PAGE, tail: None, grep: None };
    let page = engine.output(session, run_id, query).await?;
    Ok(match text::encode(page.bytes) {
        (text, None) => ResourceContents::text(text, uri).with_mime_type(TEXT),
        (_, Some(base64)) => ResourceContents::blob(base64, uri).with_mime_type("application/octet-stream"),
    })
}

fn parse(uri: &str) -> Option<Named> {
    let mut parts = uri.strip_prefix(ROOT)?.split('/');
    let session = SessionId::parse(parts.next()?).ok()?;
    let target = match parts.next() {
        None => return Some(Named::Session(session)),
        Some("runs") => {
            let run_id = RunId::parse(parts.next()?).ok()?;
            let stream = match parts.next()? {
                "stdout" => Stream::Stdout,
                "stderr" => Stream::Stderr,
                _ => return None,
            };
            Named::Output { session, run_id, stream }
        }
        Some(_) => return None,
    };
    parts.next().is_none().then_some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_name_sessions_and_outputs() {
        let session = SessionId::parse("a.b").unwrap();
        assert_eq!(parse("shellkeep://sessions/a.b"), Some(Named::Session(session.clone())));
        let output = Named::Output { session, run_id: RunId::parse("r3").unwrap(), stream: Stream::Stderr };
        assert_eq!(parse("shellkeep://sessions/a.b/runs/r3/stderr"), Some(output));
        for wrong in [
            "",
            "shellkeep://sessions/",
            "file:///etc/passwd",
            "shellkeep://sessions/../x",
            "shellkeep://sessions/a/runs/r1",
            "shellkeep://sessions/a/runs/r1/stdout/x",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
