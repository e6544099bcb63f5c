//! What every tool consists of: its definition, parsing its arguments, and its result.

use super::handler::Handler;
use super::hints::refusal_in_words;
use super::schema;
use crate::body::in_words;
use crate::refusal::Refusal;
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use rmcp::service::RequestContext;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::future::Future;
use std::pin::Pin;
use utoipa::ToSchema;

/// A tool: its definition, and its function.
pub struct Entry {
    /// Its definition.
    pub define: fn() -> Tool,
    /// What it does.
    pub call: for<'a> fn(&'a Handler, JsonObject, &'a RequestContext<RoleServer>) -> Calling<'a>,
}

/// What a call of a tool can do.
pub enum Effect {
    /// It only reads.
    Reads,
    /// It may change or destroy something.
    Changes,
}

/// A running call. A refusal becomes a result that the model reads.
pub type Calling<'a> = Pin<Box<dyn Future<Output = Result<CallToolResult, Refusal>> + Send + 'a>>;

/// A tool's definition.
pub fn defined<A: ToSchema>(name: &'static str, description: &'static str, effect: Effect) -> Tool {
    let only_reads = matches!(effect, Effect::Reads);
    Tool::new(name, description, schema::of_arguments::<A>())
        .with_annotations(ToolAnnotations::new().read_only(only_reads).destructive(!only_reads))
}

/// Reads a tool's arguments. An error names the argument, so that the model can correct itself.
pub fn arguments<T: DeserializeOwned>(given: JsonObject) -> Result<T, Refusal> {
    serde_path_to_error::deserialize(Value::Object(given)).map_err(|error| {
        let path = error.path().to_string();
        let message = in_words(&error.inner().to_string()).replace("field", "argument");
        // The message already names an unknown or missing argument.
        let is_named = path == "." || message.starts_with("unknown argument");
        Refusal::invalid(if is_named { message } else { format!("{path}: {message}") })
    })
}

/// The same for a tool that does not offer all of them: what is `hidden` is not named among those that are expected.
pub fn offered_arguments<T: DeserializeOwned>(given: JsonObject, hidden: &str) -> Result<T, Refusal> {
    arguments(given).map_err(|refusal| {
        let detail = &refusal.problem().detail;
        match detail.starts_with("unknown argument") {
            true => Refusal::invalid(detail.replace(&format!(", `{hidden}`"), "")),
            false => refusal,
        }
    })
}

/// A result with text for the model and data for a program.
pub fn answer<T: Serialize>(text: String, data: &T) -> Result<CallToolResult, Refusal> {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    let data = serde_json::to_value(data);
    result.structured_content =
        Some(data.map_err(|error| Refusal::internal(format!("cannot encode the result: {error}")))?);
    Ok(result)
}

/// A refusal as the model reads it: what happened, what to do next, and the code.
pub fn refused(refusal: &Refusal) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(refusal_in_words(refusal))])
}
