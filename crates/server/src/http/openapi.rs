//! `GET /openapi.json`: every route, schema and error, from the handlers' own annotations and from [`strict`], which
//! adds what the server requires beyond the types.

mod strict;

use super::responses::NoToken;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use shellkeep_protocol::{
    AnswerEvent, Event, EventView, ExportFormat, LogEvent, OutputEvent, Problem, RunFilter, ScreenFormat, StartedEvent,
};
use std::sync::LazyLock;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::{Modify, OpenApi};

#[derive(OpenApi)]
#[openapi(
    info(title = "shellkeep", description = "Durable shell sessions for AI agents."),
    paths(
        super::assets::page,
        super::assets::file,
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
        super::sandbox::get,
        super::sandbox::put,
        super::sessions::hibernate,
        super::sessions::restart,
        super::runs::run,
        super::runs::list,
        super::runs::all,
        super::runs::get,
        super::output::read,
        super::output::input,
        super::output::signal,
        super::take_over::hold,
        super::take_over::release,
        super::screen::read,
        super::screen::list,
        super::screen::resize,
        super::sessions::end,
        super::services::start,
        super::services::list,
        super::services::get,
        super::services::stop,
        super::services::logs,
        super::services::all,
        super::events::post,
        super::events::list,
        super::events::overview,
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
        super::workspace_files::list,
        super::workspace_files::read,
        super::workspace_files::write,
        super::workspace_files::remove,
        super::kv::list,
        super::kv::change,
        super::kv::get,
        super::kv::put,
        super::kv::delete,
        super::rewind::rewind,
        super::rewind::fork,
        super::rewind::merge_back,
        super::quotas::get,
        super::quotas::set,
        super::node::get,
        super::node::nodes,
        super::node::one,
        super::node::drain,
        super::daemon::get,
        super::daemon::settings,
        super::daemon::reload,
        super::daemon::stop,
        super::hold::hold,
        super::node::end_agent,
        super::live::live,
        super::console::code,
        super::console::login,
        super::console::logout,
        super::tokens::create,
        super::tokens::list,
        super::tokens::revoke
    ),
    components(schemas(Problem, StartedEvent, OutputEvent, LogEvent, Event, AnswerEvent, EventView, ExportFormat, RunFilter, ScreenFormat)),
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
    responses((status = 200, description = "OpenAPI 3.1", content_type = "application/json", body = Object), NoToken)
)]
pub async fn serve() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.as_str()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_names_every_route_and_every_schema_it_uses() {
        let document = document();
        let text = document.to_string();
        assert_eq!(document["paths"].as_object().unwrap().len(), 71);
        let run = &document["paths"]["/v1/sessions/{session_id}/run"]["post"]["responses"];
        for status in ["200", "400", "401", "404", "409", "413", "429", "503"] {
            assert!(run.get(status).is_some(), "{status}");
        }
        // Statuses that the server gave and the document lacked.
        let of_run = "/v1/sessions/{session_id}/runs/{run_id}";
        for (path, status) in [
            ("/v1/sessions/{session_id}/export".to_owned(), "422"),
            ("/v1/sessions/{session_id}/config_snapshot".to_owned(), "422"),
            ("/v1/sessions/{session_id}/diff".to_owned(), "422"),
            ("/v1/sessions/{session_id}/checkpoints/{checkpoint}/diff".to_owned(), "422"),
            (format!("{of_run}/screens"), "422"),
            (format!("{of_run}/output"), "410"),
            (format!("{of_run}/output"), "422"),
            ("/readyz".to_owned(), "401"),
            ("/openapi.json".to_owned(), "401"),
        ] {
            assert!(document["paths"][&path]["get"]["responses"].get(status).is_some(), "{path} {status}");
        }
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name}");
        }
    }
}
