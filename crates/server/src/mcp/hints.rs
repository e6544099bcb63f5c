//! What to do next, as MCP tools.

use crate::refusal::Refusal;
use rmcp::model::ErrorData;
use serde_json::Value;
use shellkeep_protocol::Problem;
use shellkeep_runtime::Hint;

/// A refusal as a model reads it: what happened, what to do next, and the code.
pub fn refusal_in_words(refusal: &Refusal) -> String {
    let problem = refusal.problem();
    match refusal.hint().and_then(|hint| words(hint, problem)) {
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
fn words(hint: Hint, problem: &Problem) -> Option<String> {
    let text = |name: &str| problem.data.get(name).and_then(Value::as_str);
    Some(match hint {
        Hint::WaitForRun | Hint::WaitLonger | Hint::TryAfterRun => {
            let id = text("run_id").map_or_else(|| "id".to_owned(), |id| format!("id=\"{id}\""));
            format!("wait for it with read_output({id}, wait=30), or interrupt it with signal({id})")
        }
        Hint::ReadOutput => {
            let id = text("run_id").map_or_else(|| "id".to_owned(), |id| format!("id=\"{id}\""));
            format!("read its output with read_output({id})")
        }
        Hint::StopService => stop_service(problem),
        Hint::MakeRoom => format!("{}, or ask the operator to raise the limit", stop_service(problem)),
        other => fixed(other)?.to_owned(),
    })
}

fn stop_service(problem: &Problem) -> String {
    // Ids are unique within a session only, and the first may belong to another one.
    let first = problem.data.get("services").and_then(|services| services.get(0));
    let of_first = |name: &str| first.and_then(|service| service.get(name)?.as_str());
    match (of_first("service_id"), of_first("session_id")) {
        (Some(id), Some(session)) => {
            format!("to stop the first, call stop_service(service_id=\"{id}\", session=\"{session}\")")
        }
        // A name that is taken comes with the service that has it.
        _ => match problem.data.get("service_id").and_then(Value::as_str) {
            Some(id) => format!("or stop that one with stop_service(service_id=\"{id}\")"),
            None => "stop one with stop_service".to_owned(),
        },
    }
}

/// A hint that needs no data.
fn fixed(hint: Hint) -> Option<&'static str> {
    Some(match hint {
        Hint::ListSessions => "omit session to use your own",
        Hint::ListRuns => "use an id that run_command returned",
        Hint::ListServices => "list services with list_services",
        Hint::KeepInputOpen => "to send input later, start the command with run_command and blocking=false",
        Hint::UseTerminal => "start the command with run_command and tty=true",
        Hint::WaitForRelease => "a person works in the session: do something else, and try again later",
        Hint::TakeWorkspaces => "pass a cwd inside the copy, or ask the host",
        Hint::ForceRewind => "look at them with dry_run=true; force=true undoes their changes too",
        Hint::ListCheckpoints | Hint::ListMoments => "list the moments to return to with list_checkpoints",
        Hint::RestoreDirectory => {
            "restore the directory with rewind(to=\"undo\") if it was in your workspace, or pass a cwd (a `cd` in the \
             command moves the session there)"
        }
        Hint::ClearTmp => "ask the host to remove it there, or work in another session",
        Hint::ReadInParts => "read it in parts with run_command, as in `head -c 100000 FILE`",
        Hint::RaiseQuota => "ask the operator to raise the limit",
        Hint::Verify | Hint::SeparateFiles | Hint::ConfigureAgent => "ask the host",
        Hint::WaitForRun
        | Hint::WaitLonger
        | Hint::TryAfterRun
        | Hint::ReadOutput
        | Hint::ReadPages
        | Hint::StopService
        | Hint::MakeRoom
        | Hint::ListTokens
        | Hint::HoldAgain
        | Hint::ReadAgentState
        | Hint::SaveAgentState
        | Hint::ReadOlderAgentState
        | Hint::ListFiles
        | Hint::ListKeys
        | Hint::RemoveTree
        | Hint::NameAgent
        | Hint::NameNoAgent
        | Hint::ListNodes
        | Hint::ResolveConflicts
        | Hint::WaitForAgent => return None,
    })
}
