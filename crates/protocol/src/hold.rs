//! A person takes over a session.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Body of `POST …/hold`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HoldRequest {
    /// Why; shown to callers who wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200)]
    pub reason: Option<String>,
    /// Seconds until it ends by itself. To keep it, extend it before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = 600, minimum = 0.001, maximum = 86400)]
    pub ttl: Option<f64>,
    /// Your name; shown to callers who wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "a person", min_length = 1, max_length = 200)]
    pub holder: Option<String>,
    /// The id of your hold, to extend it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_id: Option<String>,
}

/// Query of `DELETE …/hold`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HoldParams {
    /// The id of your hold. Without it, whichever hold there is ends.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub hold_id: Option<String>,
}

/// A hold, for its holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HoldResponse {
    /// The session.
    pub session_id: String,
    /// Pass it as `hold` with your commands. Nobody else learns it.
    pub hold_id: String,
    #[serde(flatten)]
    pub held: Held,
    /// Commands of others that wait for its end.
    pub waiting: usize,
    /// The command that runs now. Yours wait until it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<RunningNow>,
}

/// A command that runs while a hold begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunningNow {
    /// The run.
    pub run_id: String,
    pub command: String,
}

/// Who holds a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Held {
    pub holder: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it ends unless it is extended (RFC 3339, UTC).
    #[schema(format = DateTime)]
    pub until: String,
}

/// The end of a hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReleaseResponse {
    /// The session.
    pub session_id: String,
    /// Whether it was held.
    pub released: bool,
    /// What the agent's next result says about it; nothing if the holder ran nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}
