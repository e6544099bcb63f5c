//! `shellkeep history consume`: writes what daemons sent to a broker to a database.

use crate::client;
use crate::config::{ByAgent, Span, retention};
use crate::failure::Failure;
use crate::terminal;
use clap::Args;
use shellkeep_history::consume::{self, ConsumeOptions, Report};
use shellkeep_history::url::without_login;
use shellkeep_terminal::words;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Arguments of `history consume`.
#[derive(Debug, Args)]
#[command(
    after_help = "Daemons send history to the broker with `shellkeep serve --history amqp://…`. Any number of consumers may run. Each
acknowledges a message after the database has committed it; a message that comes twice changes nothing. While the
database or the broker cannot be reached, it tries again. It runs until it gets SIGTERM or SIGINT.

Other users of this machine can see arguments; set the variables instead if the URLs have passwords.

Examples:
  shellkeep history consume --from amqp://broker --into postgres://shellkeep@db/history
  SHELLKEEP_HISTORY=amqp://ann:secret@broker SHELLKEEP_HISTORY_INTO=mysql://ann:secret@db/history shellkeep history consume

Exit codes: 0 stopped by a signal, 1 cannot work (a URL, or a version of the tables or of a message), 2 wrong usage."
)]
pub struct ConsumeArgs {
    /// The broker: amqp://USER:PASSWORD@HOST:PORT/VHOST?queue=NAME
    #[arg(long, value_name = "URL", env = "SHELLKEEP_HISTORY", hide_env_values = true)]
    from: String,
    /// The database: postgres://USER:PASSWORD@HOST:PORT/DATABASE or mysql://USER:PASSWORD@HOST:PORT/DATABASE
    #[arg(long, value_name = "URL", env = "SHELLKEEP_HISTORY_INTO", hide_env_values = true)]
    into: String,
    /// Remove records from the database when they are this old, as in 90d; `never` [default: never]
    #[arg(long, value_name = "TIME", env = "SHELLKEEP_HISTORY_KEEP", hide_env_values = true)]
    keep: Option<Span>,
    /// The same for the sessions of some agents instead: AGENT=TIME, separated by commas
    #[arg(long, value_name = "AGENTS", env = "SHELLKEEP_HISTORY_KEEP_AGENTS", hide_env_values = true)]
    keep_agents: Option<ByAgent>,
    /// Remove a deleted session from the database after this long; `never` keeps it as long as others [default: never]
    #[arg(long, value_name = "TIME", env = "SHELLKEEP_HISTORY_KEEP_DELETED", hide_env_values = true)]
    keep_deleted: Option<Span>,
}

/// What was written.
#[derive(Default)]
struct Totals {
    records: usize,
    messages: usize,
}

pub fn execute(args: ConsumeArgs) -> Result<ExitCode, Failure> {
    client::block_on(run(args))?;
    Ok(ExitCode::SUCCESS)
}

async fn run(args: ConsumeArgs) -> Result<(), Failure> {
    let mut terminated = signal(SignalKind::terminate()).map_err(Failure::client)?;
    let mut interrupted = signal(SignalKind::interrupt()).map_err(Failure::client)?;
    let (tell, stop) = watch::channel(false);
    let mut working = tokio::task::spawn_blocking(move || work(&args, stop));
    tokio::select! {
        done = &mut working => return done.map_err(Failure::client)?,
        _ = terminated.recv() => {}
        _ = interrupted.recv() => {}
    }
    // It may have ended by itself meanwhile.
    let _ = tell.send(true);
    working.await.map_err(Failure::client)?
}

fn work(args: &ConsumeArgs, stop: watch::Receiver<bool>) -> Result<(), Failure> {
    let (from, into) = (without_login(&args.from), without_login(&args.into));
    let never = || Span(None);
    let agents = args.keep_agents.clone().unwrap_or_default();
    let options = ConsumeOptions {
        from: args.from.clone(),
        into: args.into.clone(),
        retention: retention(args.keep.unwrap_or_else(never), &agents, args.keep_deleted.unwrap_or_else(never)),
    };
    let mut totals = Totals::default();
    let done = consume::consume(&options, stop, |report| match report {
        Report::Connected => terminal::notice(&format!("from {from} into {into}")),
        Report::Failed { error } => terminal::notice(&format!("{error}; trying again")),
        Report::Written { records } => {
            (totals.records, totals.messages) = (totals.records + records, totals.messages + 1);
        }
        Report::Removed(removed) => terminal::notice(&format!("removed because of its age: {removed}")),
        Report::SetAside { queue, error } => {
            terminal::notice(&format!("{error}; the message was moved to the queue {queue}"));
        }
    });
    let Totals { records, messages } = totals;
    if done.is_err() && messages == 0 {
        return done.map_err(Failure::client);
    }
    let (records, messages) = (words::counted(records, "record"), words::counted(messages, "message"));
    terminal::notice(&format!("{records} from {messages} written"));
    done.map_err(Failure::client)
}
