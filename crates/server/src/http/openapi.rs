//! `GET /openapi.json`: every route, schema and error, from the handlers' own annotations and from [`strict`], which says
//! what the server demands beyond the types.

mod strict;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use shellkeep_protocol::problem::MEDIA_TYPE;
use shellkeep_protocol::{AnswerEvent, Event, ExportFormat, LogEvent, OutputEvent, Problem};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response as Answer, ResponseBuilder, ResponsesBuilder};
use utoipa::{IntoResponses, Modify, OpenApi};

#[derive(OpenApi)]
#[openapi(
    info(title = "shellkeep", description = "Durable shell sessions for AI agents."),
    paths(
        super::index::page,
        super::health::live,
        super::health::ready,
        super::audit::list,
        super::metrics::scrape,
        serve,
        super::sessions::create,
        super::sessions::list,
        super::sessions::get,
        super::sessions::delete,
        super::sessions::state,
        super::sessions::hibernate,
        super::sessions::restart,
        super::runs::run,
        super::runs::get,
        super::output::read,
        super::output::input,
        super::output::signal,
        super::sessions::end,
        super::services::start,
        super::services::list,
        super::services::get,
        super::services::stop,
        super::services::logs,
        super::services::all,
        super::events::post,
        super::events::list,
        super::records::export,
        super::records::verify,
        super::records::scrub,
        super::records::config_snapshot,
        super::messages::add,
        super::messages::list,
        super::agent_state::put,
        super::agent_state::get,
        super::resume::resume,
        super::checkpoints::list,
        super::checkpoints::create,
        super::checkpoints::get,
        super::checkpoints::file,
        super::checkpoints::usage,
        super::checkpoints::thin,
        super::files::diff,
        super::files::diff_checkpoint,
        super::files::history,
        super::rewind::rewind,
        super::rewind::fork,
        super::rewind::merge_back,
        super::quotas::get,
        super::quotas::set,
        super::node::get,
        super::hold::hold,
        super::node::end_agent,
        super::tokens::create,
        super::tokens::list,
        super::tokens::revoke
    ),
    components(schemas(Problem, OutputEvent, LogEvent, Event, AnswerEvent, ExportFormat)),
    modifiers(&Bearer)
)]
struct Api;

/// TCP needs a token, the Unix socket needs none.
struct Bearer;

impl Modify for Bearer {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        let components = api.components.get_or_insert_with(Default::default);
        components.add_security_scheme("bearer", scheme);
        let bearer = SecurityRequirement::new("bearer", Vec::<String>::new());
        api.security = Some(vec![bearer, SecurityRequirement::default()]);
    }
}

/// The document as the handlers describe themselves.
fn described() -> utoipa::openapi::OpenApi {
    Api::openapi()
}

/// The document itself.
pub fn document() -> serde_json::Value {
    strict::strict(serde_json::to_value(described()).unwrap_or_default())
}

static DOCUMENT: LazyLock<String> = LazyLock::new(|| document().to_string());

/// This document.
#[utoipa::path(
    get, path = "/openapi.json", tag = "daemon", operation_id = "openapi",
    responses((status = 200, description = "OpenAPI 3.1", content_type = "application/json", body = Object))
)]
pub async fn serve() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.as_str()).into_response()
}

/// Refusals every route may give.
pub struct Common;
/// Refusals of a run on a busy session.
pub struct Busy;
/// Refusals of a message for an agent.
pub struct Agent;
/// Refusals when a limit is reached.
pub struct Full;
/// Refusals of what only a running command takes.
pub struct Ended;
/// Refusals of what is done with files.
pub struct Files;
/// Refusals of a search.
pub struct Searched;
/// Refusals of events.
pub struct EventTypes;
/// Refusals of a state that somebody else has saved since.
pub struct Conflict;

impl IntoResponses for Common {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[
            ("400", "`invalid_request`, `bad_cwd`, `bad_workspace`: the detail says what would be right"),
            ("401", "`unauthorized`: the token is missing (TCP only), wrong or revoked"),
            (
                "403",
                "`not_allowed`: the host's right; `forbidden_peer`: a process of a session is not the host (socket only); \
                 `forbidden_origin`, `forbidden_host`: a web page's request (TCP only)",
            ),
            (
                "404",
                "`session_not_found` (another agent's too), `run_not_found`, `service_not_found`, `token_not_found`, \
                 `agent_state_not_found`, `not_found`",
            ),
            ("405", "`method_not_allowed`"),
            ("408", "`body_timeout`: the body did not come, or too slowly"),
            ("413", "`payload_too_large`"),
            (
                "429",
                "`too_many_connections`, `too_many_followers`, `too_many_clients`, `too_many_searches`, \
                 `too_much_in_flight`: you have as many as one agent may, with the `limit`; `quota_exceeded` with `quota`, \
                 `limit`, `used` and your `services`, the most idle first; `queue_full`",
            ),
            ("500", "`session_damaged`: this session is set aside; `internal_error`: a bug"),
            (
                "503",
                "`overloaded`: more work than the node takes, see `Retry-After`; `shell_unavailable`, \
                 `service_not_started`, `store_unavailable`, `shutting_down`; the codes of 429 when all agents together \
                 have as many as there may be",
            ),
        ])
    }
}

impl IntoResponses for Busy {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[(
            "409",
            "`session_busy` (with `if_busy: \"reject\"`), `request_id_reused`; `bad_cwd`: the session's own directory is \
             gone, see the detail for the ways on; `workspace_not_taken`: this daemon's data is a copy, and the directory \
             the original's",
        )])
    }
}

impl IntoResponses for Agent {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[(
            "409",
            "`no_agent`: the session's config names none; `agent_busy` (with `if_busy: \"reject\"`, or after a timeout of \
             waiting); `request_id_reused`",
        )])
    }
}

impl IntoResponses for Full {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[(
            "429",
            "`quota_exceeded` with `quota`, `limit`, `used` and your `services`, the most idle first; `queue_full`",
        )])
    }
}

impl IntoResponses for Ended {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[("409", "`run_ended`, `no_input`")])
    }
}

impl IntoResponses for Files {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[
            (
                "404",
                "`session_not_found`; `checkpoint_not_found`: there is none, or it was given up; `no_such_moment`: there is \
                 no such record, or what was then is not known; `file_not_found`",
            ),
            (
                "409",
                "`session_exists`; `files_not_apart`: the session works outside its workspace; `no_origin`: it is no fork, or what it was forked from is gone; `merge_conflict` with \
                 `conflicts: [{path, reason}]`; `workspace_not_taken`: this daemon's data is a copy, and the directory \
                 the original's",
            ),
            ("500", "`files_failed`: the detail says how the files stand now; `session_damaged`, `internal_error`"),
            ("507", "`files_failed`: the disk is full; the detail says how the files stand now"),
        ])
    }
}

impl IntoResponses for Searched {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[(
            "422",
            "`search_too_expensive`: the search took longer than it may; go on at `next_offset` or `after`, or look for \
             something simpler",
        )])
    }
}

impl IntoResponses for EventTypes {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[("400", "`invalid_event_type`: the detail lists those there are; `invalid_request`")])
    }
}

impl IntoResponses for Conflict {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[("412", "`version_conflict` with the `version` that is kept")])
    }
}

fn refusals(list: &[(&str, &str)]) -> BTreeMap<String, RefOr<Answer>> {
    let problem = || ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let add = |builder: ResponsesBuilder, (status, description): &(&str, &str)| {
        builder.response(*status, ResponseBuilder::new().description(*description).content(MEDIA_TYPE, problem()))
    };
    list.iter().fold(ResponsesBuilder::new(), add).build().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_names_every_route_and_every_schema_it_uses() {
        let document = document();
        let text = document.to_string();
        assert_eq!(document["paths"].as_object().unwrap().len(), 47);
        let run = &document["paths"]["/v1/sessions/{session_id}/run"]["post"]["responses"];
        for status in ["200", "400", "401", "404", "409", "413", "429", "503"] {
            assert!(run.get(status).is_some(), "{status}");
        }
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name}");
        }
    }
}
