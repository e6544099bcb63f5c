//! The list of tools, their definitions, and the lookup by name. A new tool is one file and one line here.

use super::handler::Toolset;
use super::tool::Entry;
use super::{
    bash, diff, list_checkpoints, list_services, read_output, read_screen, rewind, run_command, send_input, send_keys,
    signal, start_service, stop_service,
};
use rmcp::model::{ErrorData, Tool};
use std::sync::LazyLock;

const RUN: &[Entry] = &[run_command::TOOL];
const RUN_WITH_TERMINAL: &[Entry] = &[run_command::WITH_TERMINAL];
const SHELL: &[Entry] =
    &[start_service::TOOL, stop_service::TOOL, list_services::TOOL, read_output::TOOL, send_input::TOOL, signal::TOOL];
const TERMINAL: &[Entry] = &[read_screen::TOOL, send_keys::TOOL];
const FILES: &[Entry] = &[list_checkpoints::TOOL, diff::TOOL, rewind::TOOL];
const BASH: &[Entry] = &[bash::TOOL];

/// The tools of a set, with their definitions, which are built once. `undo` says whether those for checkpoints are
/// offered.
pub fn offered(set: Toolset, undo: bool) -> impl Iterator<Item = &'static (Tool, &'static Entry)> {
    type Defined = LazyLock<Vec<(Tool, &'static Entry)>>;
    static RUN_TOOL: Defined = LazyLock::new(|| defined(RUN));
    static RUN_TOOL_WITH_TERMINAL: Defined = LazyLock::new(|| defined(RUN_WITH_TERMINAL));
    static SHELL_TOOLS: Defined = LazyLock::new(|| defined(SHELL));
    static TERMINAL_TOOLS: Defined = LazyLock::new(|| defined(TERMINAL));
    static FILE_TOOLS: Defined = LazyLock::new(|| defined(FILES));
    static BASH_TOOLS: Defined = LazyLock::new(|| defined(BASH));
    let files = undo.then_some(&FILE_TOOLS);
    let parts: [Option<&Defined>; 4] = match set {
        Toolset::Default => [Some(&RUN_TOOL), Some(&SHELL_TOOLS), None, files],
        Toolset::Terminal => [Some(&RUN_TOOL_WITH_TERMINAL), Some(&SHELL_TOOLS), Some(&TERMINAL_TOOLS), files],
        Toolset::Bash => [Some(&BASH_TOOLS), None, None, None],
    };
    parts.into_iter().flatten().flat_map(|tools| tools.iter())
}

fn defined(entries: &'static [Entry]) -> Vec<(Tool, &'static Entry)> {
    entries.iter().map(|entry| ((entry.define)(), entry)).collect()
}

/// The definitions of a set.
pub fn definitions(set: Toolset, undo: bool) -> Vec<Tool> {
    offered(set, undo).map(|(tool, _)| tool.clone()).collect()
}

/// The tool with this name.
pub fn find(set: Toolset, undo: bool, name: &str) -> Result<&'static Entry, ErrorData> {
    offered(set, undo).find(|(tool, _)| tool.name == name).map(|(_, entry)| *entry).ok_or_else(|| {
        let names: Vec<&str> = offered(set, undo).map(|(tool, _)| tool.name.as_ref()).collect();
        ErrorData::invalid_params(format!("there is no tool '{name}'; there are: {}", names.join(", ")), None)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tool::{arguments, offered_arguments};
    use super::*;

    #[test]
    fn every_tool_is_described_to_its_last_argument() {
        for set in [Toolset::Default, Toolset::Terminal, Toolset::Bash] {
            for tool in definitions(set, true) {
                let tool = serde_json::to_value(tool).unwrap();
                assert!(tool["description"].as_str().unwrap().len() > 60, "{tool}");
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
                assert!(!tool.to_string().contains("#/components"), "{tool}");
            }
        }
    }

    /// A conversation pays for all definitions in each turn. Four bytes of such text are about a token.
    #[test]
    fn all_definitions_together_are_short() {
        for (set, tokens) in [(Toolset::Default, 1500), (Toolset::Terminal, 1800)] {
            let bytes = serde_json::to_string(&definitions(set, true)).unwrap().len();
            assert!(bytes <= tokens * 4, "{set:?}: {bytes} bytes, about {} tokens", bytes / 4);
        }
    }

    #[test]
    fn what_the_host_does_not_offer_is_not_there() {
        let names =
            |undo| definitions(Toolset::Default, undo).iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>();
        assert_eq!(names(true)[..names(false).len()], names(false));
        assert!(names(true).contains(&"rewind".to_owned()) && find(Toolset::Default, false, "rewind").is_err());
    }

    #[test]
    fn an_unknown_tool_and_an_unknown_argument_are_named() {
        let Err(error) = find(Toolset::Bash, true, "run_command") else { panic!("it was found") };
        assert!(error.message.contains("'run_command'") && error.message.contains("bash"), "{error}");
        let given = serde_json::json!({"id": "r1", "ofset": 1}).as_object().cloned().unwrap();
        let Err(refusal) = arguments::<read_output::Arguments>(given) else { panic!("it was taken") };
        assert!(refusal.problem().detail.contains("unknown argument `ofset`"), "{}", refusal.problem());
        let given = serde_json::json!({"command": "x", "tyy": true}).as_object().cloned().unwrap();
        let Err(refusal) = offered_arguments::<run_command::Arguments>(given, "tty") else { panic!("it was taken") };
        let detail = &refusal.problem().detail;
        assert!(detail.contains("`tyy`") && detail.contains("`blocking`") && !detail.contains("`tty`"), "{detail}");
    }
}
