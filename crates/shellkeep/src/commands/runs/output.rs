//! `shellkeep runs output`.

use super::show;
use super::which::WhichRun;
use crate::cli::DaemonArgs;
use crate::client::{Client, page_query};
use crate::failure::{Failure, NO_READER};
use crate::terminal;
use clap::{Args, ValueEnum};
use serde_json::json;
use shellkeep_protocol::{OutputEvent, OutputResponse, RunDetail, RunResponse, RunStatus, text};
use shellkeep_terminal::words;
use std::io;
use std::process::ExitCode;

/// Bytes asked for at a time.
const PAGE: u64 = 1 << 20;
/// The longest page the daemon gives: what `--json` prints.
const LONGEST_PAGE: u64 = 16 << 20;

/// Arguments of `runs output`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shellkeep runs output demo r12
  shellkeep runs output demo r12 --tail 20
  shellkeep runs output demo r12 --stream stderr --grep 'error|warn'
  shellkeep runs output demo r12 -f

The run's stdout goes to stdout and its stderr to stderr. Output is kept after the run ends. Where a part of it was not
kept, because the run exceeded the quota output_bytes_per_run, the line ends and stderr says how much is missing. -f
follows it from the beginning until the run ends or you press Ctrl-C, which does not end the run.

Exit codes: 0 done, 1 not done (no such session or run, no daemon), 2 wrong usage, 141 the output pipe was closed.")]
pub struct OutputArgs {
    #[command(flatten)]
    run: WhichRun,
    /// Only this stream
    #[arg(long, value_name = "STREAM")]
    stream: Option<Stream>,
    /// Only the last N lines of each stream
    #[arg(long, value_name = "N")]
    tail: Option<u64>,
    /// Start at this byte offset
    #[arg(long, value_name = "BYTES", conflicts_with = "tail")]
    offset: Option<u64>,
    /// Only lines that match this regular expression
    #[arg(long, value_name = "REGEX")]
    grep: Option<String>,
    /// Follow it until the run ends
    #[arg(short, long, conflicts_with_all = ["tail", "offset", "grep"])]
    follow: bool,
}

/// A stream of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stream {
    /// Standard output
    Stdout,
    /// Standard error
    Stderr,
}

impl Stream {
    fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }

    /// Writes to the same stream as the run did. False if the pipe is closed.
    fn write(self, bytes: &[u8]) -> Result<bool, Failure> {
        match self {
            Self::Stdout => terminal::bytes(bytes),
            Self::Stderr => terminal::write(&mut io::stderr().lock(), bytes),
        }
    }
}

pub async fn output(daemon: &DaemonArgs, args: OutputArgs, json: bool) -> Result<ExitCode, Failure> {
    let path = args.run.path()?;
    let mut client = Client::open(daemon).await?;
    if args.follow {
        let detail: RunDetail = client.get(&format!("{path}?max_output=0")).await?;
        if detail.run.status == RunStatus::Running {
            return follow(&mut client, &path, &args, json).await;
        }
    }
    let streams =
        [Stream::Stdout, Stream::Stderr].into_iter().filter(|one| args.stream.is_none_or(|only| only == *one));
    let mut pages = serde_json::Map::new();
    for stream in streams {
        if json {
            let page: OutputResponse = client.get(&query(&path, &args, stream, None, LONGEST_PAGE)).await?;
            pages.insert(stream.name().to_owned(), json!(page));
        } else if !print(&mut client, &path, &args, stream).await? {
            return Ok(ExitCode::from(NO_READER));
        }
    }
    if json {
        terminal::json(&pages)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the output so far. False if the pipe is closed.
async fn print(client: &mut Client, path: &str, args: &OutputArgs, stream: Stream) -> Result<bool, Failure> {
    let mut page: OutputResponse = client.get(&query(path, args, stream, None, PAGE)).await?;
    let end = page.total;
    if let Some(missing) = args.offset.and_then(|asked| page.offset.checked_sub(asked)).filter(|missing| *missing > 0) {
        terminal::notice(&not_kept(missing, stream));
    }
    loop {
        let (next, stuck) = (page.next_offset, page.next_offset <= page.offset);
        let missing = page.dropped;
        let mut bytes = text::decode(page.text, page.base64.as_deref()).map_err(Failure::client)?;
        if missing > 0 && bytes.last().is_some_and(|last| *last != b'\n') {
            // The first half of a line and the second half of another are not one line.
            bytes.push(b'\n');
        }
        if !stream.write(&bytes)? {
            return Ok(false);
        }
        if missing > 0 {
            terminal::notice(&not_kept(missing, stream));
        }
        if next >= end || stuck {
            return Ok(true);
        }
        page = client.get(&query(path, args, stream, Some(next), PAGE)).await?;
    }
}

/// That a part of the output is missing.
fn not_kept(bytes: u64, stream: Stream) -> String {
    let gap = words::counted(usize::try_from(bytes).unwrap_or(usize::MAX), "byte");
    format!("{} has a gap of {gap} here: the run printed more than the daemon keeps", stream.name())
}

fn query(path: &str, args: &OutputArgs, stream: Stream, offset: Option<u64>, limit: u64) -> String {
    // `tail` determines the start; after that, pages continue by offset.
    let page = page_query(limit, offset.or(args.offset), args.tail, args.grep.as_deref());
    format!("{path}/output?stream={}&{page}", stream.name())
}

async fn follow(client: &mut Client, path: &str, args: &OutputArgs, json: bool) -> Result<ExitCode, Failure> {
    let mut events = client.get_events(path).await?;
    while let Some(event) = events.next().await? {
        let stream = match event.name.as_str() {
            "stdout" => Stream::Stdout,
            "stderr" => Stream::Stderr,
            "result" => {
                if json {
                    terminal::line(&event.data);
                } else {
                    terminal::notice(&show::sentence(&event.read::<RunResponse>()?));
                }
                return Ok(ExitCode::SUCCESS);
            }
            // A newer daemon may send events that we do not know.
            _ => continue,
        };
        if args.stream.is_some_and(|only| only != stream) {
            continue;
        }
        let is_heard = if json {
            let line = format!("{}\n", json!({"stream": stream.name(), "output": event.read::<OutputEvent>()?}));
            Stream::Stdout.write(line.as_bytes())?
        } else {
            stream.write(&event.read::<OutputEvent>()?.into_bytes().map_err(Failure::client)?)?
        };
        if !is_heard {
            return Ok(ExitCode::from(NO_READER));
        }
    }
    Err(Failure::client("the daemon ended the output before the run did; follow it again"))
}
