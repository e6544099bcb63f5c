//! What to do next, as MCP tools.

use crate::refusal::Refusal;
use rmcp::model::ErrorData;
use shellkeep_runtime::Hint;

/// A refusal as a model reads it: what happened, what to do next, and the code.
pub fn refusal_in_words(refusal: &Refusal) -> String {
    let problem = refusal.problem();
    match refusal.hint().and_then(words) {
        Some(words) => format!("{}; {words} ({})", problem.detail, problem.code),
        None => problem.to_string(),
    }
}

/// A refusal outside a tool's result.
pub fn protocol_error(refusal: &Refusal) -> ErrorData {
    let words = refusal_in_words(refusal);
    match refusal.problem().status {
        404 => ErrorData::resource_not_found(words, None),
        400..500 => ErrorData::invalid_params(words, None),
        _ => ErrorData::internal_error(words, None),
    }
}

/// A hint as text; `None` where no tool helps.
fn words(hint: Hint) -> Option<&'static str> {
    Some(match hint {
        Hint::ListSessions => "check the name with list_services, or omit session to use this client's own",
        Hint::ListRuns => "use an id that run_command returned",
        Hint::ListServices => "list services with list_services",
        Hint::StopService => "stop a service with stop_service",
        Hint::KeepInputOpen => "to send input later, start the command with run_command and blocking=false",
        Hint::WaitForRun => "wait for it with read_output(id, wait=30), or interrupt it with signal(id)",
        Hint::TakeWorkspaces => "pass a cwd inside the copy, or ask the host",
        Hint::ForceRewind => "look at them with rewind(dry_run=true); force=true undoes their changes too",
        Hint::ListCheckpoints => "list the moments to return to with list_checkpoints",
        Hint::Verify | Hint::SeparateFiles | Hint::ConfigureAgent => "ask the host",
        Hint::ListTokens
        | Hint::ReadAgentState
        | Hint::SaveAgentState
        | Hint::ReadOlderAgentState
        | Hint::ListFiles
        | Hint::ListKeys
        | Hint::ResolveConflicts
        | Hint::WaitForAgent => return None,
    })
}
