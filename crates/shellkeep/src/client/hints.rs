//! A refusal as text, with what to do next as a command.

use crate::cli::quoted;
use shellkeep_protocol::Problem;
use shellkeep_runtime::Hint;
use std::fmt;

/// A refusal, and what its hint needs to be a command that can be typed as it is.
#[derive(Debug)]
pub struct Refused {
    /// What the daemon said.
    pub problem: Problem,
    asked: Asked,
    meant: Option<String>,
}

/// Ends of paths that a new session could answer too. To list its runs, verify, export or remove one, it must be there.
const FOR_NEW: [&str; 3] = ["run", "messages", "resume"];

/// Without a valid token. The daemon's words are for those who send headers.
const NO_TOKEN: &str = "the token in SHELLKEEP_TOKEN is wrong or was revoked, or there is none. Set it to one from `shellkeep \
    tokens new`, or to the host's, which is in the file `token` of the daemon's data directory; on the daemon's machine \
    none is needed";

/// What was asked for: the flags that lead to the daemon, with a space in front, and the session in the path.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    flags: String,
    session: Option<String>,
    /// Whether a new session could answer it.
    for_new: bool,
}

impl Asked {
    /// A request for a path.
    pub fn new(flags: &str, path: &str) -> Self {
        let session = path.strip_prefix("/v1/sessions/").and_then(|rest| rest.split(['/', '?']).next());
        let session = session.filter(|name| !name.is_empty()).map(str::to_owned);
        let operation = path.split('?').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        Self { flags: flags.to_owned(), session, for_new: FOR_NEW.contains(&operation) }
    }

    /// The session that was asked for and is not there, if that is the problem.
    pub fn missing_session(&self, problem: &Problem) -> Option<String> {
        let is_missing = problem.code == "session_not_found";
        text(problem, "session_id").or(self.session.as_deref()).filter(|_| is_missing).map(str::to_owned)
    }

    /// The refusal. `meant` is the name of a session that may have been meant.
    pub fn refused(self, problem: Problem, meant: Option<String>) -> Refused {
        Refused { problem, asked: self, meant }
    }
}

impl Refused {
    /// The name of a session that the caller may have meant.
    pub fn meant(&self) -> Option<&str> {
        self.meant.as_deref()
    }

    fn command(&self, hint: Hint) -> Option<String> {
        let flags = &self.asked.flags;
        let session = text(&self.problem, "session_id").or(self.asked.session.as_deref()).unwrap_or("SESSION");
        let run = text(&self.problem, "run_id").unwrap_or("RUN");
        Some(match hint {
            Hint::ListSessions => self.list_sessions(flags, session),
            Hint::ListNodes => format!("list nodes with `shellkeep nodes ls{flags}`"),
            Hint::ListTokens => format!("list tokens with `shellkeep tokens ls{flags}`"),
            Hint::ListRuns => format!("list its runs with `shellkeep runs ls {session}{flags}`"),
            Hint::ReadPages => format!("print its events with `shellkeep events {session}{flags}`, without --follow"),
            Hint::Verify => format!("check the rest of the recording with `shellkeep verify {session}{flags}`"),
            Hint::WaitForRun | Hint::WaitLonger | Hint::TryAfterRun => format!(
                "wait for it with `shellkeep runs wait {session} {run}{flags}`, or interrupt it with `shellkeep runs \
                 signal {session} {run}{flags}`"
            ),
            Hint::KeepInputOpen => format!(
                "to send input later, start the command with `shellkeep run -s {session} --no-wait{flags} -- COMMAND` and \
                 without --stdin"
            ),
            Hint::UseTerminal => format!("start it with `shellkeep run -t -s {session}{flags} -- COMMAND`"),
            Hint::WaitForRelease => format!("end the hold with `shellkeep attach {session} --force{flags}`, or wait"),
            Hint::HoldAgain => format!("take it again with `shellkeep attach {session}{flags}`"),
            Hint::TakeWorkspaces => format!(
                "to let the copy work there, stop the original for good and start this daemon once with `shellkeep serve \
                 --take-workspaces{flags}`; to keep them separate, use `shellkeep fork {session} NAME{flags}`, or pass \
                 --cwd with a directory inside the copy"
            ),
            Hint::ListServices => format!("list services with `shellkeep services ls -s {session}{flags}`"),
            Hint::StopService => self.stop_service(flags),
            Hint::MakeRoom => format!("{}, or {}", self.stop_service(flags), self.raise_quota(flags)),
            Hint::RaiseQuota => self.raise_quota(flags),
            Hint::ListKeys => format!("list its keys with `shellkeep kv ls {session}{flags}`"),
            Hint::ListFiles => format!("list its files with `shellkeep files ls {session}{flags}`"),
            Hint::RemoveTree => "pass --recursive to remove everything in it".to_owned(),
            Hint::ReadInParts => "read it in parts with --offset and --limit".to_owned(),
            Hint::ListCheckpoints => format!("list checkpoints with `shellkeep checkpoints {session}{flags}`"),
            Hint::ListMoments => format!("list the moments to go back to with `shellkeep log {session}{flags}`"),
            Hint::SeparateFiles => format!(
                "to give forks their own files, use `shellkeep sessions new NAME --workspace DIR{flags}`, or `cd` into the \
                 workspace first; to share the files, use `shellkeep fork {session} NAME --share-files{flags}`"
            ),
            Hint::ForceRewind => "--dry-run shows what would change; --force undoes their changes as well".to_owned(),
            Hint::ResolveConflicts => {
                "resolve this in either session, or choose a side with --prefer fork or --prefer origin; --dry-run shows \
                 the conflicts"
                .to_owned()
            }
            Hint::ConfigureAgent => {
                format!("create a session with an agent: `shellkeep sessions new NAME{flags} -- PROGRAM ARGUMENTS`")
            }
            Hint::NameAgent => "say whose sessions the token is for with --agent".to_owned(),
            Hint::RestoreDirectory => format!(
                "put the directory back, or restore it with `shellkeep undo {session}{flags}` if it was in the workspace, \
                 or pass --cwd DIR (a `cd` in the command moves the session there)"
            ),
            Hint::ClearTmp => format!(
                "remove it as the daemon's user with `rm {}`, or use `shellkeep fork {session} NAME{flags}`: a fork has a \
                 /tmp of its own",
                quoted(text(&self.problem, "outside").unwrap_or("PATH"))
            ),
            Hint::ReadOutput => format!("read its output with `shellkeep runs output {session} {run}{flags}`"),
            Hint::NameNoAgent => "leave out --agent and --may-restart".to_owned(),
            Hint::WaitForAgent => "wait until it has finished".to_owned(),
            Hint::ReadAgentState | Hint::SaveAgentState | Hint::ReadOlderAgentState => return None,
        })
    }

    fn list_sessions(&self, flags: &str, session: &str) -> String {
        match &self.meant {
            Some(meant) => format!("did you mean '{meant}'? `shellkeep sessions ls{flags}` lists all sessions"),
            None if !self.asked.for_new => format!("list sessions with `shellkeep sessions ls{flags}`"),
            None => format!(
                "list sessions with `shellkeep sessions ls{flags}`, or create this one with `shellkeep sessions new \
                 {session}{flags}`"
            ),
        }
    }

    fn stop_service(&self, flags: &str) -> String {
        match self.most_idle() {
            Some((session, service)) => {
                format!("stop the most idle one with `shellkeep services stop -s {session} {service}{flags}`")
            }
            None => format!("list services with `shellkeep services ls{flags}` and stop one"),
        }
    }

    fn raise_quota(&self, flags: &str) -> String {
        let quota = text(&self.problem, "quota").unwrap_or("NAME");
        format!("raise the limit with `shellkeep quotas set {quota}=N{flags}`")
    }

    /// The session and the id of the service that a met quota names first.
    fn most_idle(&self) -> Option<(&str, &str)> {
        let service = self.problem.data.get("services")?.get(0)?;
        Some((service.get("session_id")?.as_str()?, service.get("service_id")?.as_str()?))
    }
}

impl fmt::Display for Refused {
    /// What went wrong and what to do next. A hint that has no command keeps the daemon's own words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problem = &self.problem;
        if problem.code == "unauthorized" {
            return write!(f, "{NO_TOKEN} ({})", problem.code);
        }
        let hint = problem.hint.as_deref().and_then(Hint::parse).and_then(|hint| self.command(hint));
        match (&problem.fact, hint) {
            (Some(fact), Some(command)) => write!(f, "{fact}; {command} ({})", problem.code),
            _ => problem.fmt(f),
        }
    }
}

/// A text in the problem's data.
fn text<'a>(problem: &'a Problem, name: &str) -> Option<&'a str> {
    problem.data.get(name)?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(hint: Option<&str>) -> Refused {
        let mut problem =
            Problem::new(404, "Not Found", "service_not_found", "no service 's1'; list its services with GET");
        problem.fact = hint.map(|_| "no service 's1'".to_owned());
        problem.hint = hint.map(str::to_owned);
        Asked::new(" --data /d", "/v1/sessions/demo/services/s1?x=1").refused(problem, None)
    }

    #[test]
    fn what_to_do_next_is_a_command_that_can_be_typed() {
        assert_eq!(
            refused(Some("list_services")).to_string(),
            "no service 's1'; list services with `shellkeep services ls -s demo --data /d` (service_not_found)"
        );
        let mut busy = refused(Some("wait_for_run"));
        busy.problem = busy.problem.with("run_id", "r7");
        let told = busy.to_string();
        assert!(told.contains("`shellkeep runs wait demo r7 --data /d`"), "{told}");
    }

    #[test]
    fn the_host_at_its_own_limit_is_told_how_to_raise_it() {
        let mut full = refused(Some("make_room"));
        full.problem = full.problem.with("quota", "services");
        let told = full.to_string();
        assert!(told.contains("; list services with") && told.contains(" and stop one, or raise the limit"), "{told}");
        assert!(told.contains("`shellkeep quotas set services=N --data /d`"), "{told}");
    }

    #[test]
    fn a_name_that_may_have_been_meant_comes_first() {
        let mut refused = refused(Some("list_sessions"));
        assert!(!refused.to_string().contains("sessions new"), "{refused}");
        refused.asked = Asked::new(" --data /d", "/v1/sessions/demo/runs?limit=20");
        assert!(!refused.to_string().contains("sessions new"), "{refused}");
        refused.asked = Asked::new(" --data /d", "/v1/sessions/demo/run");
        assert!(refused.to_string().contains("`shellkeep sessions new demo --data /d`"), "{refused}");
        refused.meant = Some("demos".to_owned());
        assert!(refused.to_string().contains("; did you mean 'demos'?"), "{refused}");
    }

    #[test]
    fn a_wrong_token_is_told_in_the_words_of_the_command_line() {
        let problem = Problem::new(401, "Unauthorized", "unauthorized", "send `Authorization: Bearer TOKEN`");
        let told = Asked::new("", "/v1/sessions").refused(problem, None).to_string();
        assert!(told.contains("SHELLKEEP_TOKEN") && !told.contains("Bearer"), "{told}");
        assert!(told.ends_with(" (unauthorized)"), "{told}");
    }

    #[test]
    fn an_unknown_hint_keeps_the_daemons_words() {
        for hint in [None, Some("of a newer daemon")] {
            assert_eq!(refused(hint).to_string(), "no service 's1'; list its services with GET (service_not_found)");
        }
    }
}
