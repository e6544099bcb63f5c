//! `shellkeep runs ls`: the runs of a session, or of all sessions.

use super::show;
use crate::cli::DaemonArgs;
use crate::client::paths::of_session;
use crate::client::{self, Client};
use crate::failure::Failure;
use crate::terminal;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use shellkeep_protocol::{RunFilter, RunList};
use std::process::ExitCode;

/// Runs asked for at a time.
const PAGE: usize = 1000;
/// How many runs are listed by default.
const LISTED: usize = 20;

/// Arguments of `runs ls`.
#[derive(Debug, Args)]
#[command(
    after_help = "Without a session it lists the runs of all sessions on all nodes. This wakes no session, and takes the same time
with ten sessions or 100,000.

Examples:
  shellkeep runs ls
  shellkeep runs ls --running
  shellkeep runs ls demo --failed
  shellkeep runs ls demo --limit 1000 --before r5000
  shellkeep runs ls --failed --json | jq -r '.runs[] | .session_id + \" \" + .run_id'

A run failed if it ended in any other way than with exit code 0. See also `shellkeep log`, which shows the files that each command of a session changed."
)]
pub struct ListArgs {
    /// The session [default: all sessions]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// The session
    #[arg(short = 's', long = "session", value_name = "NAME", conflicts_with = "session")]
    named: Option<String>,
    /// Only runs that have not ended
    #[arg(long, conflicts_with = "failed")]
    running: bool,
    /// Only runs that failed
    #[arg(long)]
    failed: bool,
    /// Maximum number to list
    #[arg(
        long,
        value_name = "N",
        default_value_t = LISTED,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..)
    )]
    limit: usize,
    /// Only runs that started before this one: a run id; without a session, the `next` of `--json`
    #[arg(long, value_name = "RUN")]
    before: Option<String>,
}

/// Which runs to list.
pub struct Wanted<'a> {
    /// Those of this session; without one, those of all.
    pub session: Option<&'a str>,
    pub status: Option<RunFilter>,
    pub limit: usize,
    /// Only runs that started before this one.
    pub before: Option<String>,
}

pub async fn show(daemon: &DaemonArgs, args: ListArgs, json: bool) -> Result<ExitCode, Failure> {
    let ListArgs { session, named, running, failed, limit, before } = args;
    let session = session.or(named);
    let status = match (running, failed) {
        (true, _) => Some(RunFilter::Running),
        (false, true) => Some(RunFilter::Failed),
        (false, false) => None,
    };
    let mut client = Client::open(daemon).await?;
    let wanted = Wanted { session: session.as_deref(), status, limit, before };
    let list = list(&mut client, wanted).await?;
    match session {
        _ if json => terminal::json(&list)?,
        Some(_) => show::table(list),
        None => show::table_of_all(list),
    }
    Ok(ExitCode::SUCCESS)
}

/// The newest runs, in as many pages as they take.
pub async fn list(client: &mut Client, wanted: Wanted<'_>) -> Result<RunList, Failure> {
    let Wanted { session, status, limit, before } = wanted;
    let mut list = RunList { runs: Vec::new(), next: before };
    let status = status.map(|status| format!("&status={}", status.as_str())).unwrap_or_default();
    loop {
        let count = PAGE.min(limit - list.runs.len());
        let before = list.next.as_deref().map(|run| format!("&before={}", client::escaped(run))).unwrap_or_default();
        let query = format!("runs?limit={count}{status}{before}");
        let path = session.map_or_else(|| Ok(format!("/v1/{query}")), |session| of_session(session, &query))?;
        let page: RunList = client.get(&path).await?;
        list.runs.extend(page.runs);
        list.next = page.next;
        if list.next.is_none() || list.runs.len() >= limit {
            return Ok(list);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use clap::error::ErrorKind;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ListArgs,
    }

    /// One row was printed.
    #[test]
    fn to_list_nothing_is_wrong_usage() {
        let wrong = Line::try_parse_from(["ls", "s", "--limit", "0"]).err().unwrap();
        assert_eq!(wrong.kind(), ErrorKind::ValueValidation, "{wrong}");
        assert_eq!(wrong.exit_code(), 2);
        assert_eq!(Line::try_parse_from(["ls", "s", "--limit", "1"]).ok().unwrap().args.limit, 1);
        assert_eq!(Line::try_parse_from(["ls"]).ok().unwrap().args.limit, LISTED);
    }
}
