//! `shellkeep log`: what was done in a session, one row per command.

use super::files::of_session;
use super::runs::{self, show};
use crate::cli::DaemonArgs;
use crate::client::{self, Client};
use crate::failure::Failure;
use crate::terminal::{self, Cell, Colour, Column};
use clap::Args;
use serde::Serialize;
use shellkeep_protocol::{Checkpoint, CheckpointList, EventList, RunSummary};
use shellkeep_session::RunId;
use std::collections::HashMap;
use std::process::ExitCode;

/// How many commands are shown by default.
const SHOWN: usize = 30;
/// Checkpoints and events asked for at a time.
const PAGE: usize = 1000;

/// Arguments of `log`.
#[derive(Debug, Args)]
#[command(
    after_help = "Newest first: when each command ran, how it ended, how long it took, and how many files it created (+), changed (~)
and deleted (-). Rewinds are shown where they happened. `<-` marks the checkpoint that matches the current files.

Examples:
  shellkeep log demo
  shellkeep log demo --limit 200 --before r500
  shellkeep log demo --json | jq -r '.log[] | select(.files) | .run_id'

See also `shellkeep runs`, `shellkeep checkpoints show`, `shellkeep undo`, `shellkeep replay`.

Exit codes: 0 done, 1 not done (no such session, no daemon), 2 wrong usage."
)]
pub struct LogArgs {
    /// The session
    session: String,
    /// Maximum number of commands to show
    #[arg(long, value_name = "N", default_value_t = SHOWN)]
    limit: usize,
    /// Only commands that started before this run
    #[arg(long, value_name = "RUN")]
    before: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// What is printed.
#[derive(Debug, Serialize)]
struct Log {
    log: Vec<Entry>,
    next: Option<String>,
}

/// Something that was done.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Entry {
    Run(Box<Run>),
    Rewind(Rewind),
}

/// A command, and which files it changed.
#[derive(Debug, Serialize)]
struct Run {
    #[serde(flatten)]
    run: RunSummary,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<Files>,
}

/// Files that a command changed.
#[derive(Debug, Serialize)]
struct Files {
    checkpoint_id: String,
    added: u64,
    changed: u64,
    deleted: u64,
    /// Whether the files are at this checkpoint.
    current: bool,
}

/// The session was rewound.
#[derive(Debug, Serialize)]
struct Rewind {
    seq: u64,
    timestamp: String,
    rewound_to: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
}

pub fn execute(args: LogArgs) -> Result<ExitCode, Failure> {
    client::block_on(act(args))
}

async fn act(args: LogArgs) -> Result<ExitCode, Failure> {
    let mut client = Client::open(&args.daemon).await?;
    let log = terminal::patiently("reading", read(&mut client, &args)).await?;
    if args.json {
        terminal::json(&log)?;
    } else {
        table(log);
    }
    Ok(ExitCode::SUCCESS)
}

async fn read(client: &mut Client, args: &LogArgs) -> Result<Log, Failure> {
    let session = &args.session;
    let list = runs::list(client, session, args.limit.max(1), args.before.clone()).await?;
    // Events before the oldest of them are about other runs.
    let from = list.runs.last().map_or(0, started);
    let until = list.runs.first().map_or(0, |run| run.seq);
    let mut files = files(client, session, from).await?;
    let mut log: Vec<(u64, Entry)> = Vec::new();
    for run in list.runs {
        let files = files.remove(&run.run_id);
        log.push((started(&run), Entry::Run(Box::new(Run { run, files }))));
    }
    let is_shown = |rewind: &Rewind| args.before.is_none() || rewind.seq < until;
    let rewinds = rewinds(client, session, from).await?.into_iter().filter(is_shown);
    log.extend(rewinds.map(|rewind| (rewind.seq, Entry::Rewind(rewind))));
    log.sort_by_key(|(seq, _)| std::cmp::Reverse(*seq));
    Ok(Log { log: log.into_iter().map(|(_, entry)| entry).collect(), next: list.next })
}

/// The number of the record with which a run started.
fn started(run: &RunSummary) -> u64 {
    RunId::parse(&run.run_id).ok().and_then(|run_id| run_id.seq()).unwrap_or(run.seq)
}

/// What runs changed in the files, by run, according to the checkpoints after a record.
async fn files(client: &mut Client, session: &str, after: u64) -> Result<HashMap<String, Files>, Failure> {
    let (mut found, mut next) = (HashMap::new(), Some(after));
    while let Some(after) = next {
        let path = of_session(session, &format!("checkpoints?after={after}&limit={PAGE}"))?;
        let page: CheckpointList = client.get(&path).await?;
        for checkpoint in page.checkpoints {
            let Checkpoint { checkpoint_id, run_id, added, changed, deleted, .. } = checkpoint;
            let current = page.current.as_deref() == Some(&checkpoint_id);
            found.extend(run_id.map(|run_id| (run_id, Files { checkpoint_id, added, changed, deleted, current })));
        }
        next = page.next;
    }
    Ok(found)
}

async fn rewinds(client: &mut Client, session: &str, after: u64) -> Result<Vec<Rewind>, Failure> {
    let (mut found, mut next) = (Vec::new(), Some(after));
    while let Some(after) = next {
        let path = of_session(session, &format!("events?type=session_rewound&after={after}&limit={PAGE}"))?;
        let page: EventList = client.get(&path).await?;
        found.extend(page.events.into_iter().map(|event| Rewind {
            seq: event.seq,
            timestamp: event.timestamp,
            rewound_to: event.data["to"].as_u64().unwrap_or_default(),
            step: event.data["step"].as_str().map(str::to_owned),
        }));
        next = page.next;
    }
    Ok(found)
}

fn table(log: Log) {
    let rows = log.log.iter().map(|entry| match entry {
        Entry::Run(run) => {
            let (result, colour) = show::result(&run.run);
            [
                run.run.run_id.clone().into(),
                Cell::time(&run.run.started_at),
                show::took(run.run.duration_ms).into(),
                Cell::coloured(result, colour),
                run.files.as_ref().map_or_else(String::new, changes).into(),
                Cell::from(show::one_line(&run.run)),
            ]
        }
        Entry::Rewind(rewind) => {
            let what = rewind.step.as_deref().unwrap_or("rewind");
            [
                format!("#{}", rewind.seq).into(),
                Cell::time(&rewind.timestamp),
                Cell::from(String::new()),
                Cell::from(String::new()),
                Cell::from(String::new()),
                Cell::coloured(format!("({what} to record {})", rewind.rewound_to), Some(Colour::Cyan)),
            ]
        }
    });
    let columns = [
        Column::word("run"),
        Column::word("started"),
        Column::number("took"),
        Column::word("exit"),
        Column::word("files"),
        Column::text("command"),
    ];
    terminal::table(columns, rows.collect());
    if let Some(next) = log.next.filter(|_| terminal::is_terminal()) {
        terminal::notice(&format!("there are older ones: --before {next}, or --limit N"));
    }
}

fn changes(files: &Files) -> String {
    let here = if files.current { " <-" } else { "" };
    format!("{}{here}", signed(files.added, files.changed, files.deleted))
}

/// How many files were added, changed and deleted: `+1 ~2`.
fn signed(added: u64, changed: u64, deleted: u64) -> String {
    let parts = [("+", added), ("~", changed), ("-", deleted)];
    let parts = parts.iter().filter(|(_, number)| *number > 0).map(|(sign, number)| format!("{sign}{number}"));
    parts.collect::<Vec<_>>().join(" ")
}
