//! Ids in paths and parameters in queries. Ids are checked only here, so no other code ever sees one that could leave
//! its directory.

use crate::refusal::Refusal;
use axum::extract::{FromRequestParts, Query, RawPathParams};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use shellkeep_session::{RunId, SessionId, id};
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::Type;
use utoipa::openapi::{ObjectBuilder, Required};

/// `{session_id}` of a path.
pub struct SessionPath(pub SessionId);

/// `{session_id}` and `{run_id}` of a path.
pub struct RunPath(pub SessionId, pub RunId);

/// `{session_id}` and `{service_id}` of a path. A service is also found by its name, which may be any text.
pub struct ServicePath(pub SessionId, pub String);

/// `{session_id}` and `{checkpoint}` of a path.
pub struct CheckpointPath(pub SessionId, pub String);

/// `{session_id}` and `{key}` of a path.
pub struct KeyPath(pub SessionId, pub String);

/// `{agent}` of a path.
pub struct AgentPath(pub String);

/// `{node}` of a path.
pub struct NodePath(pub String);

/// `{token_id}` of a path.
pub struct TokenPath(pub String);

/// `{name}` of a file of the console.
pub struct AssetPath(pub String);

/// The parameters of a query.
pub struct Params<T>(pub T);

/// What `/openapi.json` says of the names in a path.
macro_rules! described {
    ($($path:ty: $($name:literal = $description:literal),+;)+) => {$(
        impl IntoParams for $path {
            fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
                vec![$(in_path($name, $description)),+]
            }
        }
    )+};
}

described! {
    SessionPath: "session_id" = "The session";
    RunPath: "session_id" = "The session", "run_id" = "The run";
    ServicePath: "session_id" = "The session", "service_id" = "The service's id, or its name, percent-encoded";
    CheckpointPath: "session_id" = "The session", "checkpoint" = "As in `GET …/checkpoints/{checkpoint}`";
    KeyPath: "session_id" = "The session", "key" = "The key, percent-encoded; it may contain slashes";
}

fn in_path(name: &str, description: &str) -> Parameter {
    let schema = ObjectBuilder::new().schema_type(Type::String);
    let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Path).required(Required::True);
    parameter.description(Some(description)).schema(Some(schema)).build()
}

/// How the names in a path are read from a request.
macro_rules! read {
    ($($path:ident($params:ident): $($name:expr),+;)+) => {$(
        impl<S: Send + Sync> FromRequestParts<S> for $path {
            type Rejection = Refusal;

            async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
                let $params = path_params(parts, state).await?;
                Ok(Self($($name),+))
            }
        }
    )+};
}

read! {
    SessionPath(params): session_id(&params)?;
    ServicePath(params): session_id(&params)?, text(&params, "service_id")?.to_owned();
    // The kind of moment is determined where moments are parsed.
    CheckpointPath(params): session_id(&params)?, text(&params, "checkpoint")?.to_owned();
    // Keys are checked together with batches.
    KeyPath(params): session_id(&params)?, text(&params, "key")?.to_owned();
    AgentPath(params): checked(&params, "agent")?;
    NodePath(params): checked(&params, "node")?;
    TokenPath(params): checked(&params, "token_id")?;
    // It is only compared with the names that there are.
    AssetPath(params): text(&params, "name")?.to_owned();
}

impl<S: Send + Sync> FromRequestParts<S> for RunPath {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let params = path_params(parts, state).await?;
        let run_id = RunId::parse(text(&params, "run_id")?).map_err(|error| Refusal::bad_id("run_id", &error))?;
        Ok(Self(session_id(&params)?, run_id))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(value)) => Ok(Self(value)),
            Err(rejection) => {
                let text = rejection.body_text();
                Err(Refusal::invalid(text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text)))
            }
        }
    }
}

async fn path_params<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<RawPathParams, Refusal> {
    RawPathParams::from_request_parts(parts, state).await.map_err(|rejection| Refusal::invalid(rejection.body_text()))
}

fn session_id(params: &RawPathParams) -> Result<SessionId, Refusal> {
    SessionId::parse(text(params, "session_id")?).map_err(|error| Refusal::bad_id("session_id", &error))
}

fn checked(params: &RawPathParams, name: &str) -> Result<String, Refusal> {
    let found = text(params, name)?;
    id::check(found).map_err(|error| Refusal::bad_id(name, &error))?;
    Ok(found.to_owned())
}

fn text<'a>(params: &'a RawPathParams, name: &str) -> Result<&'a str, Refusal> {
    let found = params.iter().find(|(key, _)| *key == name).map(|(_, value)| value);
    found.ok_or_else(|| Refusal::internal(format!("the route has no {{{name}}}")))
}
