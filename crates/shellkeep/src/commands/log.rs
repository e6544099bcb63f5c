//! `shellkeep log`: what was done in a session, one row per command.

use super::runs::{self, Wanted, show};
use crate::cli::ClientArgs;
use crate::client::paths::of_session;
use crate::client::{self, Client, ClientError};
use crate::failure::Failure;
use crate::terminal::{self, Cell, Colour, Column};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde::Serialize;
use shellkeep_protocol::{Checkpoint, CheckpointCause, CheckpointList, Event, EventList, RunSummary};
use shellkeep_session::RunId;
use std::collections::{BTreeMap, HashMap};
use std::process::ExitCode;

/// How many commands are shown by default.
const SHOWN: usize = 30;
/// Checkpoints and events asked for at a time.
const PAGE: usize = 1000;

/// Arguments of `log`.
#[derive(Debug, Args)]
#[command(
    after_help = "Newest first: when each command ran, how it ended, how long it took, and how many files it created (+), changed (~)
and deleted (-). Rewinds, files written with `shellkeep files`, changes of the keyed store, merges and what others changed in
the same directory are shown where they happened. `<-` marks the checkpoint that matches the current files.

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
    #[arg(
        long,
        value_name = "N",
        default_value_t = SHOWN,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..)
    )]
    limit: usize,
    /// Only commands that started before this run
    #[arg(long, value_name = "RUN")]
    before: Option<String>,
    #[command(flatten)]
    client: ClientArgs,
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
    Change(Change),
}

/// A command, and which files it changed.
#[derive(Debug, Serialize)]
struct Run {
    kind: &'static str,
    #[serde(flatten)]
    run: RunSummary,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<Files>,
}

/// Something else than a command changed files or the keyed store.
#[derive(Debug, Serialize)]
struct Change {
    /// `file`, `kv`, `merge` or `outside`.
    kind: &'static str,
    seq: u64,
    timestamp: String,
    /// Keys that were changed, for the keyed store.
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<Files>,
}

/// Files that were changed.
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
    kind: &'static str,
    seq: u64,
    timestamp: String,
    rewound_to: u64,
    /// The run after which that was, if it is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    after_run: Option<String>,
    /// The run that an undo reverted, if it is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    undone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
}

pub fn execute(args: LogArgs) -> Result<ExitCode, Failure> {
    client::block_on(act(args))
}

async fn act(args: LogArgs) -> Result<ExitCode, Failure> {
    let mut client = Client::open(&args.client.daemon).await?;
    let log = terminal::patiently("reading", read(&mut client, &args)).await?;
    if args.client.json {
        terminal::json(&log)?;
    } else {
        table(log);
    }
    Ok(ExitCode::SUCCESS)
}

async fn read(client: &mut Client, args: &LogArgs) -> Result<Log, Failure> {
    let session = &args.session;
    let (limit, before) = (args.limit, args.before.clone());
    let list = runs::list(client, Wanted { session: Some(session), status: None, limit, before }).await?;
    // Events before the oldest of them are about other runs.
    let from = list.runs.last().map_or(0, started);
    let until = list.runs.first().map_or(0, |run| run.seq);
    let FileChanges { by_run: mut files, others: mut changes } = files(client, session, from).await?;
    changes.extend(keys(client, session, from).await?);
    let mut log: Vec<(u64, Entry)> = Vec::new();
    let ends = list.runs.iter().map(|run| (run.seq, Step::Ran { run_id: run.run_id.clone() }));
    let mut steps: BTreeMap<u64, Step> = ends.collect();
    steps.extend(changes.iter().map(|change| (change.seq, Step::Changed)));
    for run in list.runs {
        let files = files.remove(&run.run_id);
        log.push((started(&run), Entry::Run(Box::new(Run { kind: "run", run, files }))));
    }
    let is_shown = |seq: u64| args.before.is_none() || seq < until;
    log.extend(
        changes.into_iter().filter(|change| is_shown(change.seq)).map(|change| (change.seq, Entry::Change(change))),
    );
    let rewinds = rewinds(client, session, from).await?;
    steps.extend(rewinds.iter().map(|rewind| (rewind.seq, Step::Rewound { to: rewind.rewound_to })));
    log.extend(rewinds.into_iter().filter(|rewind| is_shown(rewind.seq)).map(|mut rewind| {
        rewind.after_run = run_before(&steps, rewind.rewound_to);
        rewind.undone = undone(&steps, &rewind);
        (rewind.seq, Entry::Rewind(rewind))
    }));
    log.sort_by_key(|(seq, _)| std::cmp::Reverse(*seq));
    Ok(Log { log: one_row_for_keys(log.into_iter().map(|(_, entry)| entry)), next: list.next })
}

/// What a record did to a session.
#[derive(Debug)]
enum Step {
    /// A run ended.
    Ran { run_id: String },
    /// Something else changed it.
    Changed,
    /// It became what it was after an earlier record.
    Rewound { to: u64 },
}

/// The run after which the session was as it was after a record; none if it was not like after any run. What a rewind
/// took back is passed over.
fn run_before(steps: &BTreeMap<u64, Step>, record: u64) -> Option<String> {
    let mut record = record;
    loop {
        match steps.range(..=record).next_back()? {
            (_, Step::Ran { run_id }) => return Some(run_id.clone()),
            (_, Step::Changed) => return None,
            (seq, Step::Rewound { to }) => record = (*to).min(seq.saturating_sub(1)),
        }
    }
}

/// The run that an undo reverted: it started with the record after the one that the undo went back to.
fn undone(steps: &BTreeMap<u64, Step>, rewind: &Rewind) -> Option<String> {
    let first = RunId::from_seq(rewind.rewound_to + 1);
    let is_first = |step: &Step| matches!(step, Step::Ran { run_id } if run_id == first.as_str());
    let is_undo = rewind.step.as_deref() == Some("undo");
    (is_undo && steps.values().any(is_first)).then(|| first.to_string())
}

/// Changes of the keyed store in a row are one row, as they are one step for undo.
fn one_row_for_keys(entries: impl Iterator<Item = Entry>) -> Vec<Entry> {
    let mut rows: Vec<Entry> = Vec::new();
    for entry in entries {
        match (rows.last_mut(), entry) {
            (Some(Entry::Change(Change { keys: Some(keys), .. })), Entry::Change(Change { keys: Some(more), .. })) => {
                *keys += more;
            }
            (_, entry) => rows.push(entry),
        }
    }
    rows
}

/// The number of the record with which a run started.
fn started(run: &RunSummary) -> u64 {
    RunId::parse(&run.run_id).ok().and_then(|run_id| run_id.seq()).unwrap_or(run.seq)
}

/// What was changed in the files.
#[derive(Default)]
struct FileChanges {
    by_run: HashMap<String, Files>,
    others: Vec<Change>,
}

/// What was changed in the files after a record.
async fn files(client: &mut Client, session: &str, after: u64) -> Result<FileChanges, Failure> {
    let (mut found, mut next) = (FileChanges::default(), Some(after));
    while let Some(after) = next {
        let path = of_session(session, &format!("checkpoints?after={after}&limit={PAGE}"))?;
        let page: CheckpointList = match client.get(&path).await {
            // History has its runs and events, not its files.
            Err(ClientError::Refused(refused)) if refused.problem.code == "session_not_found" => break,
            page => page?,
        };
        for checkpoint in page.checkpoints {
            let Checkpoint { checkpoint_id, run_id, seq, created_at, cause, added, changed, deleted, .. } = checkpoint;
            let current = page.current.as_deref() == Some(&checkpoint_id);
            let files = Files { checkpoint_id, added, changed, deleted, current };
            let kind = match (run_id, cause) {
                (Some(run_id), _) => {
                    found.by_run.insert(run_id, files);
                    continue;
                }
                (None, CheckpointCause::Tool) => "file",
                (None, CheckpointCause::Merge) => "merge",
                (None, CheckpointCause::Outside) => "outside",
                (None, _) => continue,
            };
            found.others.push(Change { kind, seq, timestamp: created_at, keys: None, files: Some(files) });
        }
        next = page.next;
    }
    Ok(found)
}

/// Passes on each event of a type after a record.
async fn each_event(
    client: &mut Client,
    session: &str,
    event_type: &str,
    after: u64,
    mut take: impl FnMut(Event),
) -> Result<(), Failure> {
    let mut next = Some(after);
    while let Some(after) = next {
        let path = of_session(session, &format!("events?type={event_type}&after={after}&limit={PAGE}"))?;
        let page: EventList = client.get(&path).await?;
        page.events.into_iter().for_each(&mut take);
        next = page.next;
    }
    Ok(())
}

/// Changes of the keyed store after a record.
async fn keys(client: &mut Client, session: &str, after: u64) -> Result<Vec<Change>, Failure> {
    let mut found = Vec::new();
    each_event(client, session, "kv_changed", after, |event| {
        // The daemon itself records only those that a fork begins with.
        if event.source != "runtime" {
            let keys = Some(event.data["changes"].as_array().map_or(0, Vec::len));
            found.push(Change { kind: "kv", seq: event.seq, timestamp: event.timestamp, keys, files: None });
        }
    })
    .await?;
    Ok(found)
}

async fn rewinds(client: &mut Client, session: &str, after: u64) -> Result<Vec<Rewind>, Failure> {
    let mut found = Vec::new();
    each_event(client, session, "session_rewound", after, |event| {
        found.push(Rewind {
            kind: "rewind",
            seq: event.seq,
            rewound_to: event.data["to"].as_u64().unwrap_or_default(),
            after_run: None,
            undone: None,
            step: event.data["step"].as_str().map(str::to_owned),
            timestamp: event.timestamp,
        });
    })
    .await?;
    Ok(found)
}

fn table(log: Log) {
    let rows = log.log.iter().map(|entry| match entry {
        Entry::Run(run) => [
            run.run.run_id.clone().into(),
            Cell::time(&run.run.started_at),
            show::took(run.run.duration_ms).into(),
            show::result(&run.run),
            run.files.as_ref().map_or_else(String::new, changes).into(),
            Cell::from(show::one_line(&run.run)),
        ],
        Entry::Change(change) => [
            format!("#{}", change.seq).into(),
            Cell::time(&change.timestamp),
            Cell::from(String::new()),
            Cell::from(String::new()),
            change.files.as_ref().map_or_else(String::new, changes).into(),
            Cell::coloured(in_words(change), Some(Colour::Cyan)),
        ],
        Entry::Rewind(rewind) => [
            format!("#{}", rewind.seq).into(),
            Cell::time(&rewind.timestamp),
            Cell::from(String::new()),
            Cell::from(String::new()),
            Cell::from(String::new()),
            Cell::coloured(rewound(rewind), Some(Colour::Cyan)),
        ],
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

fn in_words(change: &Change) -> String {
    match (change.kind, change.keys) {
        (_, Some(1)) => "(keyed store: 1 key)".to_owned(),
        (_, Some(keys)) => format!("(keyed store: {keys} keys)"),
        ("file", None) => "(file tool)".to_owned(),
        ("outside", None) => "(changed outside this session)".to_owned(),
        (kind, None) => format!("({kind})"),
    }
}

fn rewound(rewind: &Rewind) -> String {
    let what = rewind.step.as_deref().unwrap_or("rewind");
    match (&rewind.undone, &rewind.after_run) {
        (Some(run_id), _) => format!("({what} of {run_id})"),
        (None, Some(run_id)) => format!("({what} to after {run_id})"),
        (None, None) => format!("({what} to record {})", rewind.rewound_to),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// `undo; undo; redo` after three runs is the state after the second one; the log named the third.
    #[test]
    fn a_rewind_to_a_rewind_names_the_run_before_it() {
        let ran = |run_id: &str| Step::Ran { run_id: run_id.to_owned() };
        let steps = BTreeMap::from([
            (5, ran("r4")),
            (8, ran("r7")),
            (11, ran("r10")),
            (13, Step::Rewound { to: 9 }),
            (15, Step::Rewound { to: 6 }),
            (16, Step::Rewound { to: 14 }),
            (18, Step::Changed),
        ]);
        let cases = [(6, Some("r4")), (9, Some("r7")), (14, Some("r7")), (15, Some("r4")), (17, Some("r7"))];
        for (record, run_id) in cases.into_iter().chain([(19, None), (3, None)]) {
            assert_eq!(run_before(&steps, record).as_deref(), run_id, "{record}");
        }
    }
}
