//! `shellkeep kv`: the keyed store of a session.

use crate::cli::ClientArgs;
use crate::client::paths::of_session;
use crate::client::{self, Client, escaped};
use crate::failure::Failure;
use crate::input;
use crate::terminal::{self, Cell, Column, Table, TableArgs};
use clap::{Args, Subcommand, ValueHint};
use shellkeep_protocol::{KvBatch, KvChanged, KvEntry, KvList, KvOp, KvOpKind, text};
use shellkeep_runtime::MAX_KV_VALUE;
use shellkeep_terminal::words;
use std::path::PathBuf;
use std::process::ExitCode;

/// The largest value that this command puts: it is sent as base64 in JSON, and a body has at most [`MAX_KV_VALUE`] bytes.
const MAX_VALUE: usize = MAX_KV_VALUE / 8 * 5;
/// Keys asked for at a time.
const PAGE: usize = 1000;

/// Arguments of `kv`.
#[derive(Debug, Args)]
#[command(
    after_help = "A session's keyed store holds values of any bytes under text keys, each with a version. It is part of the session: a rewind restores it, a fork copies it.

Examples:
  shellkeep kv put demo plan < plan.json
  shellkeep kv get demo plan
  shellkeep kv put demo plan --if-version 3 --from plan.json
  shellkeep kv ls demo --prefix user/
  shellkeep kv rm demo plan

Exit codes: 0 done, 1 not done (no such session or key, another version, no daemon), 2 wrong usage."
)]
pub struct KvArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    client: ClientArgs,
}

/// What to do with keys.
#[derive(Debug, Subcommand)]
enum Action {
    /// Print a value; with --json, its version and type too
    Get {
        /// The session
        session: String,
        /// The key
        key: String,
    },
    /// Put a value from stdin or from a local file
    Put {
        /// The session
        session: String,
        /// The key
        key: String,
        /// The local file to read [default: stdin]
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        from: Option<PathBuf>,
        /// The value's content type, as in application/json
        #[arg(long, value_name = "TYPE")]
        content_type: Option<String>,
        /// Only if the key has this version now; 0 if it must not exist
        #[arg(long, value_name = "N")]
        if_version: Option<u64>,
    },
    /// Delete a key
    Rm {
        /// The session
        session: String,
        /// The key
        key: String,
        /// Only if the key has this version now
        #[arg(long, value_name = "N")]
        if_version: Option<u64>,
    },
    /// List keys
    Ls {
        /// The session
        session: String,
        /// Only keys with this prefix
        #[arg(long, value_name = "TEXT", default_value = "")]
        prefix: String,
    },
}

pub fn execute(args: KvArgs) -> Result<ExitCode, Failure> {
    client::block_on(act(args))
}

async fn act(args: KvArgs) -> Result<ExitCode, Failure> {
    let KvArgs { action, client: ClientArgs { json, daemon } } = args;
    // Read first: do not start a daemon for a file that cannot be read.
    let value = match &action {
        Action::Put { from, .. } => input::file_or_stdin(from.as_deref(), MAX_VALUE, "of this command")?,
        _ => Vec::new(),
    };
    let mut client = Client::open(&daemon).await?;
    let client = &mut client;
    match action {
        Action::Get { session, key } if json => get_json(client, &session, &key).await?,
        Action::Get { session, key } => {
            let body = client.get_body(&of_session(&session, &format!("kv/{}", escaped(&key)))?).await?;
            terminal::bytes(&client::gathered(body).await?)?;
        }
        Action::Put { session, key, content_type, if_version, .. } => {
            let value_base64 = Some(text::base64(&value));
            let op = KvOp { op: KvOpKind::Put, key, value_base64, sha256: None, content_type, if_version };
            changed(client, &session, op, json).await?;
        }
        Action::Rm { session, key, if_version } => {
            if if_version.is_none() && entry(client, &session, &key, false).await?.is_none() {
                return Err(no_key(&session, &key, client.flags()));
            }
            let (value_base64, sha256, content_type) = (None, None, None);
            let op = KvOp { op: KvOpKind::Delete, key, value_base64, sha256, content_type, if_version };
            changed(client, &session, op, json).await?;
        }
        Action::Ls { session, prefix } => list(client, &session, &prefix, json).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a key with its value: as text if it is UTF-8.
async fn get_json(client: &mut Client, session: &str, key: &str) -> Result<(), Failure> {
    let found = entry(client, session, key, true).await?;
    let mut entry = found.ok_or_else(|| no_key(session, key, client.flags()))?;
    let value = entry.value_base64.take().unwrap_or_default();
    let bytes = text::decode(String::new(), Some(&value)).map_err(Failure::client)?;
    let mut shown = serde_json::to_value(&entry).map_err(Failure::client)?;
    match text::encode(bytes) {
        (_, Some(base64)) => shown["value_base64"] = base64.into(),
        (text, None) => shown["value"] = text.into(),
    }
    terminal::json(&shown)
}

/// The key, if there is one; it is the first of those that begin like it.
async fn entry(client: &mut Client, session: &str, key: &str, value: bool) -> Result<Option<KvEntry>, Failure> {
    let query = format!("kv?prefix={}&limit=1&values={value}", escaped(key));
    let page: KvList = client.get(&of_session(session, &query)?).await?;
    Ok(page.kv.into_iter().next().filter(|entry| entry.key == key))
}

fn no_key(session: &str, key: &str, flags: &str) -> Failure {
    let key = terminal::harmless(key);
    Failure::client(format!(
        "session '{session}' has no key '{key}'; list its keys with `shellkeep kv ls {session}{flags}` (key_not_found)"
    ))
}

async fn changed(client: &mut Client, session: &str, op: KvOp, json: bool) -> Result<(), Failure> {
    let batch = KvBatch { ops: vec![op] };
    let changed: KvChanged = client.post(&of_session(session, "kv")?, &batch).await?;
    if json {
        return terminal::json(&changed);
    }
    for key in &changed.kv {
        let what = key.size.map_or_else(|| "deleted".to_owned(), words::bytes);
        terminal::line(terminal::harmless(&format!("{}: {what}, version {}", key.key, key.version)));
    }
    changed.notices.iter().for_each(|notice| terminal::notice(&notice.message));
    Ok(())
}

async fn list(client: &mut Client, session: &str, prefix: &str, json: bool) -> Result<(), Failure> {
    let mut all = KvList { kv: Vec::new(), next: None };
    loop {
        let after = escaped(all.next.as_deref().unwrap_or_default());
        let query = format!("kv?prefix={}&limit={PAGE}&after={after}", escaped(prefix));
        let page: KvList = client.get(&of_session(session, &query)?).await?;
        all.kv.extend(page.kv);
        all.next = page.next;
        if all.next.is_none() {
            break;
        }
    }
    if json {
        return terminal::json(&all);
    }
    let row = |entry: KvEntry| {
        [entry.key.into(), entry.version.to_string().into(), Cell::size(entry.size), entry.content_type.into()]
    };
    let columns = [Column::id("key"), Column::number("version"), Column::number("size"), Column::text("type")];
    let table = Table::new(columns, all.kv.into_iter().map(row).collect());
    terminal::show(&table, TableArgs::default(), "no keys");
    Ok(())
}
