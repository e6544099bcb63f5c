//! `shellkeep nodes`: the nodes that share a store, and draining one of them.

use crate::cli::DaemonArgs;
use crate::client::{self, Client, paths};
use crate::failure::Failure;
use crate::terminal::{self, Cell, Column, Fields, Table, TableArgs};
use clap::{Args, Subcommand};
use serde_json::json;
use shellkeep_protocol::{ClusterNode, ClusterNodeStatus, NodeList};
use shellkeep_terminal::words;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long one request of `drain` waits before it says how many sessions are left.
const STEP: Duration = Duration::from_secs(2);

/// Arguments of `nodes`.
#[derive(Debug, Args)]
#[command(
    after_help = "Nodes are daemons that share a store: `shellkeep serve --store redis://HOST:PORT`. A session is on one node at a
time; every node accepts requests for every session. Without a subcommand, lists the nodes.

Examples:
  shellkeep nodes
  shellkeep nodes show n1
  shellkeep nodes drain n1 && ssh n1 systemctl restart shellkeep

Exit codes: 0 done, 1 not done (no such node, sessions left at the timeout, no daemon), 2 wrong usage."
)]
pub struct NodesArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    table: TableArgs,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// What to do with nodes.
#[derive(Debug, Subcommand)]
enum Action {
    /// List the nodes that are alive
    #[command(after_help = "Example:\n  shellkeep nodes ls --json | jq -r '.nodes[] | select(.status == \"up\").url'")]
    Ls,
    /// Show one node
    #[command(after_help = "Example:\n  shellkeep nodes show n1")]
    Show {
        /// Its name [default: the node that answers]
        #[arg(value_name = "NODE")]
        node: Option<String>,
    },
    /// Move all sessions away from a node, so that it can be stopped
    #[command(
        after_help = "The node takes no more sessions and stops its services. Each of its sessions sleeps when its commands have ended, and
the next request wakes it on another node. The node still accepts requests and forwards them; its /readyz
says `draining`. It takes sessions again after a restart.

Examples:
  shellkeep nodes drain n1
  shellkeep nodes drain --timeout 60"
    )]
    Drain {
        /// Its name [default: the node that answers]
        #[arg(value_name = "NODE")]
        node: Option<String>,
        /// Stop waiting after this many seconds; the node continues to drain
        #[arg(long, value_name = "SECONDS")]
        timeout: Option<u64>,
    },
}

pub fn execute(args: NodesArgs) -> Result<ExitCode, Failure> {
    client::block_on(act(args))
}

async fn act(args: NodesArgs) -> Result<ExitCode, Failure> {
    let mut client = Client::open(&args.daemon).await?;
    match args.action.unwrap_or(Action::Ls) {
        Action::Ls => list(client.get("/v1/nodes").await?, args.table, args.json)?,
        Action::Show { node } => {
            let name = named(&mut client, node).await?;
            let node = client.get(&format!("/v1/nodes/{name}")).await?;
            if args.json { terminal::json(&node)? } else { show(&node) }
        }
        Action::Drain { node, timeout } => {
            let name = named(&mut client, node).await?;
            return drain(&mut client, &name, timeout.map(Duration::from_secs), args.json).await;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The node that was named, or the one that answers.
async fn named(client: &mut Client, node: Option<String>) -> Result<String, Failure> {
    match node {
        Some(name) => Ok(paths::checked(&name)?.to_owned()),
        None => client.get::<NodeList>("/v1/nodes").await?.this.ok_or_else(alone),
    }
}

/// What there is to say of nodes if the store is not shared.
const ALONE: &str = "this daemon has no other nodes: it does not share its store; `shellkeep serve --store redis://HOST:PORT` starts one that does";

fn alone() -> Failure {
    Failure::client(ALONE)
}

fn list(list: NodeList, table: TableArgs, json: bool) -> Result<(), Failure> {
    if json {
        return terminal::json(&list);
    }
    if list.this.is_none() {
        terminal::notice(ALONE);
        return Ok(());
    }
    let columns = [
        Column::id("node"),
        Column::word("status"),
        Column::number("sessions"),
        Column::word("since"),
        Column::word("version").if_room(),
        Column::text("url"),
    ];
    let rows = list.nodes.into_iter().map(|node| {
        let status = word(node.status);
        let url = if node.url.is_empty() { Cell::dash() } else { node.url.into() };
        [
            node.name.into(),
            status.into(),
            node.sessions.to_string().into(),
            Cell::time(&node.since),
            node.version.into(),
            url,
        ]
    });
    terminal::show(&Table::new(columns, rows.collect()), table, "");
    Ok(())
}

fn word(status: ClusterNodeStatus) -> &'static str {
    match status {
        ClusterNodeStatus::Up => "up",
        ClusterNodeStatus::Draining => "draining",
        ClusterNodeStatus::Drained => "drained",
    }
}

fn show(node: &ClusterNode) {
    let url = if node.url.is_empty() { "none: other nodes cannot reach it" } else { &node.url };
    let fields = Fields::new()
        .with("node", node.name.as_str())
        .with("status", word(node.status))
        .with("sessions", node.sessions.to_string())
        .with("since", Cell::time(&node.since))
        .with("version", node.version.as_str())
        .with("url", url);
    terminal::fields(&fields);
}

/// Drains a node, and says how far it is until it has no session.
async fn drain(client: &mut Client, name: &str, timeout: Option<Duration>, json: bool) -> Result<ExitCode, Failure> {
    let begun = Instant::now();
    let mut told = None;
    loop {
        let left = timeout.map_or(STEP, |timeout| timeout.saturating_sub(begun.elapsed()).min(STEP));
        let path = format!("/v1/nodes/{name}/drain?wait={}", left.as_secs_f64());
        let node: ClusterNode = client.post(&path, &json!({})).await?;
        let is_over = timeout.is_some_and(|timeout| begun.elapsed() >= timeout);
        if node.status == ClusterNodeStatus::Drained || is_over {
            if json {
                terminal::json(&node)?;
            } else if node.sessions == 0 {
                terminal::line(format!("{name} is drained"));
            }
            if node.sessions == 0 {
                return Ok(ExitCode::SUCCESS);
            }
            let left = words::counted(node.sessions as usize, "session");
            terminal::notice(&format!("{name} still has {left}; it continues to drain"));
            return Ok(ExitCode::FAILURE);
        }
        if told != Some(node.sessions) {
            terminal::notice(&format!("{name}: {} left", words::counted(node.sessions as usize, "session")));
            told = Some(node.sessions);
        }
    }
}
