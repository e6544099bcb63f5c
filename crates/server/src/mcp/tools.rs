//! The tools: what there is, what each takes, and how a call finds its tool. A new tool is one file and one line here.

use super::handler::Toolset;
use super::tool::Entry;
use super::{bash, list_services, read_output, run_command, send_input, start_service, stop_service};
use rmcp::model::{ErrorData, Tool};
use std::sync::LazyLock;

const DEFAULT: &[Entry] = &[
    run_command::TOOL,
    start_service::TOOL,
    stop_service::TOOL,
    list_services::TOOL,
    read_output::TOOL,
    send_input::TOOL,
];
const BASH: &[Entry] = &[bash::TOOL];

/// The definitions of a toolset, made once.
pub fn definitions(set: Toolset) -> &'static [Tool] {
    static DEFAULTS: LazyLock<Vec<Tool>> = LazyLock::new(|| DEFAULT.iter().map(|tool| (tool.define)()).collect());
    static CLASSIC: LazyLock<Vec<Tool>> = LazyLock::new(|| BASH.iter().map(|tool| (tool.define)()).collect());
    match set {
        Toolset::Default => &DEFAULTS,
        Toolset::Bash => &CLASSIC,
    }
}

/// The tool with this name.
pub fn find(set: Toolset, name: &str) -> Result<&'static Entry, ErrorData> {
    let entries = match set {
        Toolset::Default => DEFAULT,
        Toolset::Bash => BASH,
    };
    let known = definitions(set).iter().zip(entries);
    known.clone().find(|(tool, _)| tool.name == name).map(|(_, entry)| entry).ok_or_else(|| {
        let names: Vec<&str> = known.map(|(tool, _)| tool.name.as_ref()).collect();
        ErrorData::invalid_params(format!("there is no tool '{name}'; there are: {}", names.join(", ")), None)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tool::arguments;
    use super::*;

    #[test]
    fn every_tool_is_described_to_its_last_argument() {
        for set in [Toolset::Default, Toolset::Bash] {
            for tool in definitions(set) {
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
        let Err(error) = find(Toolset::Bash, "run_command") else { panic!("it was found") };
        assert!(error.message.contains("'run_command'") && error.message.contains("bash"), "{error}");
        let given = serde_json::json!({"id": "r1", "ofset": 1}).as_object().cloned().unwrap();
        let Err(refusal) = arguments::<read_output::Arguments>(given) else { panic!("it was taken") };
        assert!(refusal.problem().detail.contains("unknown argument `ofset`"), "{}", refusal.problem());
    }
}
