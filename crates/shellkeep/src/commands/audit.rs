//! `shellkeep audit`: who changed permissions or deleted something, and which requests were rejected.

use crate::cli::DaemonArgs;
use crate::client::{self, Client};
use crate::failure::Failure;
use crate::terminal::{self, Cell, Column, Table, TableArgs};
use clap::Args;
use shellkeep_protocol::AuditList;
use std::process::ExitCode;

/// Arguments of `audit`.
#[derive(Debug, Args)]
#[command(
    after_help = "Lists created and revoked tokens; deleted, restarted, scrubbed and ended sessions; changed quotas; and rejected requests
(401, 403; at most 20 per second). --json has the ids of tokens. The file is audit.jsonl in the data directory, the previous one audit.1.jsonl. What
happens in sessions is in their recordings.

Examples:
  shellkeep audit
  shellkeep audit -n 1000 --json | jq -r '.audit[] | select(.what == \"refused\").object'

Exit codes: 0 done, 1 not done (not the host, no daemon), 2 wrong usage."
)]
pub struct AuditArgs {
    /// Maximum number of entries, newest last
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table: TableArgs,
    #[command(flatten)]
    daemon: DaemonArgs,
}

pub fn execute(args: AuditArgs) -> Result<ExitCode, Failure> {
    client::block_on(show(args))
}

async fn show(args: AuditArgs) -> Result<ExitCode, Failure> {
    let mut client = Client::open(&args.daemon).await?;
    let list: AuditList = client.get(&format!("/v1/audit?limit={}", args.limit)).await?;
    if args.json {
        terminal::json(&list)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = list.audit.into_iter().map(|entry| {
        let more = if entry.left_out > 0 { format!("{} more left out", entry.left_out) } else { String::new() };
        let why = [entry.code.unwrap_or_default(), more].join(" ").trim().to_owned();
        let who = entry.agent.map_or(entry.who, |agent| format!("agent {agent}"));
        let texts = [entry.door, who, entry.what, entry.object, why].map(Cell::from);
        let [door, who, what, object, why] = texts;
        [Cell::time(&entry.at), door, who, what, object, why]
    });
    let columns = [
        Column::word("when"),
        Column::text("door").if_room(),
        Column::id("who"),
        Column::word("what"),
        Column::id("object"),
        Column::text("why"),
    ];
    terminal::show(&Table::new(columns, rows.collect()), args.table, "nothing to report yet");
    Ok(ExitCode::SUCCESS)
}
