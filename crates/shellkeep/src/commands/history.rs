//! `shellkeep history`: what agents did, in the history database.

mod consume;
mod query;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::help;
use clap::{Args, Subcommand};
use std::process::ExitCode;

/// Arguments of `history`.
#[derive(Debug, Args)]
#[command(after_help = "A daemon writes history with `shellkeep serve --history URL`.

Examples:
  shellkeep history query failed --agent ann --since today
  shellkeep history query --sql 'SELECT COUNT(*) FROM sk_runs'
  shellkeep history consume --from amqp://broker --into postgres://shellkeep@db/history

Exit codes: 0 done, 1 not done (a URL or a version that cannot be used, a query that failed), 2 wrong usage.")]
pub struct HistoryArgs {
    #[command(subcommand)]
    action: Option<Action>,
}

/// What to do with history.
#[derive(Debug, Subcommand)]
enum Action {
    /// Query the history database
    Query(query::QueryArgs),
    /// Write history from a broker to a database
    Consume(consume::ConsumeArgs),
}

pub fn execute(args: HistoryArgs) -> Result<ExitCode, Failure> {
    match args.action {
        Some(Action::Query(args)) => query::execute(args),
        Some(Action::Consume(args)) => consume::execute(args),
        // There is nothing to list: what it can do is its help.
        None => match Cli::tree().try_get_matches_from(["shellkeep", "history", "--help"]) {
            Err(asked) => help::exit(&asked),
            Ok(_) => Ok(ExitCode::SUCCESS),
        },
    }
}
