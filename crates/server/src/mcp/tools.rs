//! The tools: what there is, what each takes, and how a call finds its tool. A new tool is one file and one line here.

use super::handler::Handler;
use super::hints::refusal_in_words;
use super::{bash, list_services, read_output, run_command, send_input, start_service, stop_service};
use crate::refusal::Refusal;
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ContentBlock, ErrorData, JsonObject, Tool};
use rmcp::service::RequestContext;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::LazyLock;

/// Which tools a client is offered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Toolset {
    /// The tools of a durable shell.
    #[default]
    Default,
    /// The one classic tool.
    Bash,
}

/// A tool: what the client is told of it, and what a call does.
pub struct Entry {
    /// Its definition.
    pub define: fn() -> Tool,
    /// What it does.
    pub call: for<'a> fn(&'a Handler, JsonObject, &'a RequestContext<RoleServer>) -> Calling<'a>,
}

/// A call under way. A refusal becomes a result that the model reads.
pub type Calling<'a> = Pin<Box<dyn Future<Output = Result<CallToolResult, Refusal>> + Send + 'a>>;

const DEFAULT: &[Entry] = &[
    run_command::TOOL,
    start_service::TOOL,
    stop_service::TOOL,
    list_services::TOOL,
    read_output::TOOL,
    send_input::TOOL,
];
const BASH: &[Entry] = &[bash::TOOL];

impl Toolset {
    /// Its definitions, made once.
    pub fn definitions(self) -> &'static [Tool] {
        static DEFAULTS: LazyLock<Vec<Tool>> = LazyLock::new(|| DEFAULT.iter().map(|tool| (tool.define)()).collect());
        static CLASSIC: LazyLock<Vec<Tool>> = LazyLock::new(|| BASH.iter().map(|tool| (tool.define)()).collect());
        match self {
            Self::Default => &DEFAULTS,
            Self::Bash => &CLASSIC,
        }
    }

    /// The tool with this name.
    pub fn find(self, name: &str) -> Result<&'static Entry, ErrorData> {
        let entries = match self {
            Self::Default => DEFAULT,
            Self::Bash => BASH,
        };
        let known = self.definitions().iter().zip(entries);
        known.clone().find(|(tool, _)| tool.name == name).map(|(_, entry)| entry).ok_or_else(|| {
            let names: Vec<&str> = known.map(|(tool, _)| tool.name.as_ref()).collect();
            ErrorData::invalid_params(format!("there is no tool '{name}'; there are: {}", names.join(", ")), None)
        })
    }
}

impl FromStr for Toolset {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "default" => Ok(Self::Default),
            "bash" => Ok(Self::Bash),
            _ => Err("a toolset is `default` or `bash`"),
        }
    }
}

/// Reads a tool's arguments. An error names the argument, so that the model can correct itself.
pub fn arguments<T: DeserializeOwned>(given: JsonObject) -> Result<T, Refusal> {
    serde_path_to_error::deserialize(Value::Object(given)).map_err(|error| {
        let path = error.path().to_string();
        let message = error.inner().to_string().replace("field", "argument");
        // An unknown or missing argument is already named by the message.
        let is_named = path == "." || message.starts_with("unknown argument");
        Refusal::invalid(if is_named { message } else { format!("{path}: {message}") })
    })
}

/// A result with words for the model and data for a program.
pub fn answer<T: Serialize>(text: String, data: &T) -> Result<CallToolResult, Refusal> {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    let data = serde_json::to_value(data);
    result.structured_content =
        Some(data.map_err(|error| Refusal::internal(format!("the answer could not be written: {error}")))?);
    Ok(result)
}

/// A refusal as the model reads it: what happened, what to do next, and the code.
pub fn refused(refusal: &Refusal) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(refusal_in_words(refusal))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_described_to_its_last_argument() {
        for set in [Toolset::Default, Toolset::Bash] {
            for tool in set.definitions() {
                let tool = serde_json::to_value(tool).unwrap();
                assert!(tool["description"].as_str().unwrap().len() > 100, "{tool}");
                assert!(tool["annotations"]["readOnlyHint"].is_boolean(), "{tool}");
                let input = &tool["inputSchema"];
                assert_eq!(
                    (&input["type"], &input["additionalProperties"]),
                    (&"object".into(), &false.into()),
                    "{tool}"
                );
                for (name, argument) in input["properties"].as_object().unwrap() {
                    assert!(argument["description"].is_string(), "{name} of {tool}");
                }
                assert!(!input.to_string().contains("null") && !input.to_string().contains("$ref"), "{input}");
                assert!(set == Toolset::Bash || tool["outputSchema"]["type"] == "object", "{tool}");
                assert!(!tool.to_string().contains("#/components"), "{tool}");
            }
        }
    }

    #[test]
    fn an_unknown_tool_and_an_unknown_argument_are_named() {
        let Err(error) = Toolset::Bash.find("run_command") else { panic!("it was found") };
        assert!(error.message.contains("'run_command'") && error.message.contains("bash"), "{error}");
        let given = serde_json::json!({"id": "r1", "ofset": 1}).as_object().cloned().unwrap();
        let Err(refusal) = arguments::<read_output::Arguments>(given) else { panic!("it was taken") };
        assert!(refusal.problem().detail.contains("unknown argument `ofset`"), "{}", refusal.problem());
    }
}
