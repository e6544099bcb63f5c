//! A refusal as text, with what to do next as a command.

use shellkeep_protocol::Problem;
use shellkeep_runtime::Hint;

/// What went wrong and what to do next. Where a hint has no command, the daemon's own text is used.
pub fn words(problem: &Problem) -> String {
    let hint = problem.hint.as_deref().and_then(Hint::parse).and_then(command);
    match (&problem.fact, hint) {
        (Some(fact), Some(command)) => format!("{fact}; {command} ({})", problem.code),
        _ => problem.to_string(),
    }
}

fn command(hint: Hint) -> Option<&'static str> {
    Some(match hint {
        Hint::ListSessions => "list sessions with `shellkeep sessions ls`, or create one with `shellkeep sessions new`",
        Hint::ListTokens => "list tokens with `shellkeep tokens ls`",
        Hint::ListRuns => "list its runs with `shellkeep runs ls SESSION`",
        Hint::Verify => "check the rest of the recording with `shellkeep verify`",
        Hint::WaitForRun => {
            "wait for it with `shellkeep runs wait SESSION RUN`, or interrupt it with `shellkeep runs signal SESSION RUN`"
        }
        Hint::KeepInputOpen => {
            "to send input later, start the command with `shellkeep run --no-wait` and without --stdin"
        }
        Hint::TakeWorkspaces => {
            "to let the copy work there, stop the original for good and start this daemon once with `shellkeep serve \
             --take-workspaces`; to keep them separate, use `shellkeep fork`, or pass --cwd with a directory inside the copy"
        }
        Hint::ListServices => "list services with `shellkeep services ls`",
        Hint::StopService => "stop a service with `shellkeep services stop`",
        Hint::ListKeys => "list its keys with `shellkeep kv ls SESSION`",
        Hint::ListFiles => "list its files with `shellkeep files ls SESSION`",
        Hint::ListCheckpoints => "list checkpoints with `shellkeep checkpoints SESSION`",
        Hint::SeparateFiles => {
            "to give forks their own files, use `shellkeep sessions new NAME --workspace DIR`, or `cd` into the workspace \
             first; to share the files, use `shellkeep fork --share-files`"
        }
        Hint::ForceRewind => "--dry-run shows what would change; --force takes back their changes too",
        Hint::ResolveConflicts => {
            "resolve them in either session, or choose a side with --prefer fork or --prefer origin; --dry-run shows them"
        }
        Hint::ConfigureAgent => "create a session with an agent: `shellkeep sessions new NAME -- PROGRAM ARGUMENTS`",
        Hint::WaitForAgent => "wait until it has finished",
        Hint::ReadAgentState | Hint::SaveAgentState | Hint::ReadOlderAgentState => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(hint: Option<&str>) -> Problem {
        let mut problem =
            Problem::new(404, "Not Found", "service_not_found", "no service 's1'; list its services with GET");
        problem.fact = hint.map(|_| "no service 's1'".to_owned());
        problem.hint = hint.map(str::to_owned);
        problem
    }

    #[test]
    fn what_to_do_next_is_a_command() {
        let told = words(&problem(Some("list_services")));
        assert_eq!(told, "no service 's1'; list services with `shellkeep services ls` (service_not_found)");
    }

    #[test]
    fn an_unknown_hint_keeps_the_daemons_words() {
        for hint in [None, Some("of a newer daemon")] {
            assert_eq!(words(&problem(hint)), "no service 's1'; list its services with GET (service_not_found)");
        }
    }
}
