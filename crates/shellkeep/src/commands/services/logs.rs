//! `shellkeep services logs`.

use super::{find, show};
use crate::client::{Client, page_query};
use crate::failure::{Failure, NO_READER};
use crate::terminal;
use clap::Args;
use shellkeep_protocol::{LogEvent, LogResponse, Service};
use std::process::ExitCode;

/// Bytes asked for at a time.
const PAGE: u64 = 1 << 20;
/// The longest page the daemon gives: what `--json` prints.
const LONGEST_PAGE: u64 = 16 << 20;

/// Arguments of `services logs`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shellkeep services logs web
  shellkeep services logs -s demo s3 --tail 50
  shellkeep services logs s3 --grep 'error|warn'
  shellkeep services logs -f s3

The log is what the service wrote to stdout and stderr. The newest part is kept, up to a quota (service_log_bytes). -f
follows it until the service ends or you press Ctrl-C, which does not stop the service. --json prints a page of up to
16 MiB, or with -f a line for each piece and finally the service.

Exit codes: 0 done, 1 not done (no such service, no daemon), 2 wrong usage, 141 the output pipe was closed.")]
pub struct LogsArgs {
    /// The session; needed only if several sessions have such a service, or if the service has ended
    #[arg(short, long, value_name = "NAME")]
    session: Option<String>,
    /// Only the last N lines
    #[arg(long, value_name = "N")]
    tail: Option<u64>,
    /// Start at this byte offset
    #[arg(long, value_name = "BYTES", conflicts_with = "tail")]
    offset: Option<u64>,
    /// Only lines that match this regular expression
    #[arg(long, value_name = "REGEX", conflicts_with = "follow")]
    grep: Option<String>,
    /// Follow it until the service ends
    #[arg(short, long)]
    follow: bool,
    /// The service's name or id
    #[arg(value_name = "SERVICE")]
    id: String,
}

pub async fn logs(client: &mut Client, args: &LogsArgs, json: bool) -> Result<ExitCode, Failure> {
    let path = format!("{}/logs", find::path(client, args.session.as_deref(), &args.id).await?);
    match (args.follow, json) {
        (true, _) => follow(client, &path, args, json).await,
        (false, true) => {
            let page: LogResponse = client.get(&query(&path, args, None, LONGEST_PAGE)).await?;
            terminal::json(&page)?;
            Ok(ExitCode::SUCCESS)
        }
        (false, false) => print(client, &path, args).await,
    }
}

/// Prints the log so far. Later output is not included; otherwise this might never end.
async fn print(client: &mut Client, path: &str, args: &LogsArgs) -> Result<ExitCode, Failure> {
    let mut page: LogResponse = client.get(&query(path, args, None, PAGE)).await?;
    let end = page.total;
    loop {
        let (next, stuck) = (page.next_offset, page.next_offset <= page.offset);
        if !terminal::bytes(&page.into_bytes().map_err(Failure::client)?)? {
            return Ok(ExitCode::from(NO_READER));
        }
        if next >= end || stuck {
            return Ok(ExitCode::SUCCESS);
        }
        page = client.get(&query(path, args, Some(next), PAGE)).await?;
    }
}

async fn follow(client: &mut Client, path: &str, args: &LogsArgs, json: bool) -> Result<ExitCode, Failure> {
    let begin = match (args.offset, args.tail) {
        (Some(offset), _) => format!("?offset={offset}"),
        (None, Some(lines)) => format!("?tail_lines={lines}"),
        (None, None) => String::new(),
    };
    let mut events = client.get_events(&format!("{path}{begin}")).await?;
    let mut next = None;
    while let Some(event) = events.next().await? {
        let is_heard = match event.name.as_str() {
            "log" | "end" if json => terminal::bytes(format!("{}\n", event.data).as_bytes())?,
            "log" => {
                let log: LogEvent = event.read()?;
                let missed = next.map_or(0, |next| log.offset.saturating_sub(next));
                if missed > 0 {
                    terminal::notice(&format!(
                        "{missed} bytes are missing here: they were dropped before they could be read"
                    ));
                }
                next = Some(log.next_offset);
                terminal::bytes(&log.into_bytes().map_err(Failure::client)?)?
            }
            "end" => {
                terminal::notice(&show::sentence(&event.read::<Service>()?));
                true
            }
            // A newer daemon may send events that we do not know.
            _ => true,
        };
        if !is_heard {
            return Ok(ExitCode::from(NO_READER));
        }
        if event.name == "end" {
            return Ok(ExitCode::SUCCESS);
        }
    }
    Err(Failure::client("the daemon ended the log before the service did; follow it again"))
}

fn query(path: &str, args: &LogsArgs, offset: Option<u64>, limit: u64) -> String {
    // `tail` determines the start; after that, pages continue by offset.
    format!("{path}?{}", page_query(limit, offset.or(args.offset), args.tail, args.grep.as_deref()))
}
