//! `shellkeep services`: starts, stops and lists services, and reads their logs.

mod find;
mod logs;
mod show;
mod start;

use crate::cli::{self, ClientArgs};
use crate::client::{self, Client, escaped};
use crate::failure::Failure;
use crate::terminal::{self, TableArgs};
use clap::{Args, Subcommand};
use shellkeep_protocol::{Service, ServiceList, StopServiceRequest};
use std::process::ExitCode;

/// Arguments of `services`.
#[derive(Debug, Args)]
#[command(
    after_help = "A service is a command that keeps running next to a session's shell: a dev server, a database, a watcher. It starts
with the session's directory, variables and functions, keeps running when the daemon restarts, and has a log.

Examples:
  shellkeep services start -s demo --name web --ready-port 8000 -- 'python3 -m http.server 8000'
  shellkeep services ls
  shellkeep services logs -f web
  shellkeep services stop web

Exit codes: 0 done, 1 not done (no such service, over quota, no daemon), 2 wrong usage.

`start` also exits with 1 if the service has ended or failed."
)]
pub struct ServicesArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    client: ClientArgs,
}

/// What to do with services.
#[derive(Debug, Subcommand)]
enum Action {
    /// Start a service and print its id
    Start(start::StartArgs),
    /// Stop services and everything they started
    #[command(after_help = "Examples:
  shellkeep services stop web
  shellkeep services stop -s demo s3 s7 --grace 30")]
    Stop {
        /// The session; needed only if several sessions have such a service
        #[arg(short, long, value_name = "NAME")]
        session: Option<String>,
        /// Seconds between SIGTERM and SIGKILL [default: 5]
        #[arg(long, value_name = "S", value_parser = cli::seconds, allow_negative_numbers = true)]
        grace: Option<f64>,
        /// The services, by name or id
        #[arg(required = true, value_name = "SERVICE")]
        ids: Vec<String>,
    },
    /// List running services; with -s, all of a session, including ended ones
    #[command(after_help = "Examples:
  shellkeep services ls
  shellkeep services ls -s demo
  shellkeep services ls --agent builder --json | jq -r '.services[].service_id'")]
    Ls {
        /// Only this session's, including those that ended recently
        #[arg(short, long, value_name = "NAME", conflicts_with = "agent")]
        session: Option<String>,
        /// Only this agent's
        #[arg(long)]
        agent: Option<String>,
        #[command(flatten)]
        table: TableArgs,
    },
    /// Show one service
    #[command(after_help = "Examples:\n  shellkeep services show web\n  shellkeep services show -s demo s3 --json")]
    Show {
        /// The session; needed only if several sessions have such a service, or if the service has ended
        #[arg(short, long, value_name = "NAME")]
        session: Option<String>,
        /// The service's name or id
        #[arg(value_name = "SERVICE")]
        id: String,
    },
    /// Print a service's log, or follow it
    Logs(logs::LogsArgs),
}

pub fn execute(args: ServicesArgs) -> Result<ExitCode, Failure> {
    client::block_on(act(args))
}

async fn act(args: ServicesArgs) -> Result<ExitCode, Failure> {
    let json = args.client.json;
    match args.action {
        Action::Start(start) => start::start(&args.client.daemon, start, json).await,
        Action::Stop { session, grace, ids } => {
            let mut client = Client::open(&args.client.daemon).await?;
            stop(&mut client, session.as_deref(), grace, &ids, json).await
        }
        Action::Ls { session, agent, table } => {
            let mut client = Client::open(&args.client.daemon).await?;
            list(&mut client, session.as_deref(), agent.as_deref(), table, json).await
        }
        Action::Show { session, id } => {
            let mut client = Client::open(&args.client.daemon).await?;
            let path = find::path(&mut client, session.as_deref(), &id).await?;
            let service: Service = client.get(&path).await?;
            if json {
                terminal::json(&service)?
            } else {
                show::detail(&service)
            }
            Ok(ExitCode::SUCCESS)
        }
        Action::Logs(logs) => {
            let mut client = Client::open(&args.client.daemon).await?;
            logs::logs(&mut client, &logs, json).await
        }
    }
}

async fn list(
    client: &mut Client,
    session: Option<&str>,
    agent: Option<&str>,
    table: TableArgs,
    json: bool,
) -> Result<ExitCode, Failure> {
    let path = match (session, agent) {
        (Some(session), _) => find::of_session(session)?,
        (None, Some(agent)) => format!("/v1/services?agent={}", escaped(agent)),
        (None, None) => "/v1/services".to_owned(),
    };
    let list: ServiceList = client.get(&path).await?;
    if json {
        terminal::json(&list)?;
    } else {
        show::table(list.services, table);
    }
    Ok(ExitCode::SUCCESS)
}

/// Stops each service, and reports those that could not be stopped.
async fn stop(
    client: &mut Client,
    session: Option<&str>,
    grace: Option<f64>,
    ids: &[String],
    json: bool,
) -> Result<ExitCode, Failure> {
    let places = find::all(client, session, ids).await?;
    let mut code = ExitCode::SUCCESS;
    let mut stopped = Vec::new();
    for (id, place) in ids.iter().zip(places) {
        match stop_one(client, id, place, grace).await {
            Ok(service) => stopped.push(service),
            Err(failure) => {
                terminal::notice(&failure.to_string());
                code = ExitCode::FAILURE;
            }
        }
    }
    if json {
        terminal::json(&ServiceList { services: stopped })?;
    } else {
        stopped.iter().for_each(|service| terminal::line(show::sentence(service)));
    }
    Ok(code)
}

async fn stop_one(
    client: &mut Client,
    id: &str,
    place: Result<String, Failure>,
    grace: Option<f64>,
) -> Result<Service, Failure> {
    let path = format!("{}/stop", place?);
    let request = StopServiceRequest { grace };
    let stopping = client.post(&path, &request);
    Ok(terminal::patiently(&format!("stopping {id}"), stopping).await?)
}
