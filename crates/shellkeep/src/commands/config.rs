//! `shellkeep config`: the settings in effect and where each came from, as the running daemon reports them.

use crate::cli::DaemonArgs;
use crate::client::{self, Client, ClientError};
use crate::config::{Layer, Settings, environment, unknown_variables};
use crate::failure::Failure;
use crate::terminal::{self, Cell, Column, Table, TableArgs};
use crate::token;
use clap::{Args, ValueHint};
use shellkeep_protocol::{SettingInForce, SettingsInForce};
use shellkeep_terminal::words;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `config`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shellkeep config                     of the running daemon
  shellkeep config --check             what the next daemon would use, and whether the file is valid
  SHELLKEEP_MAX_SHELLS=50 shellkeep config --check --json

Flags win over the environment (SHELLKEEP_…), which wins over the file, which wins over defaults. The file is
$XDG_CONFIG_HOME/shellkeep/config.toml and has the names of this list as keys. The running daemon reports its settings. If none is running, or with --check or a flag of `serve` other than --data
and --socket, this command reads flags, environment and file itself.

Exit codes: 0 done, 1 the daemon did not respond, 2 a setting is invalid.")]
pub struct ConfigArgs {
    #[command(flatten)]
    flags: Layer,
    /// Read this file instead of asking the daemon
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// Do not ask the daemon: read flags, environment and file
    #[arg(long)]
    check: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table: TableArgs,
}

pub fn execute(args: ConfigArgs) -> Result<ExitCode, Failure> {
    let paths = Layer { data: args.flags.data.clone(), socket: args.flags.socket.clone(), ..Layer::default() };
    let asks = !args.check && args.config.is_none() && args.flags == paths;
    let of_daemon = if asks { client::block_on(ask(&args))? } else { None };
    let in_force = match of_daemon {
        Some(settings) => settings,
        None => read_here(args.flags.absolute(None), args.config)?,
    };
    if args.json {
        terminal::json(&in_force)?;
    } else {
        let columns = [Column::word("setting"), Column::text("value"), Column::text("from")];
        let row = |(name, setting): (String, SettingInForce)| {
            let value = value(&name, &setting.value);
            [name.into(), value, setting.source.into()]
        };
        terminal::show(&Table::new(columns, in_force.settings.into_iter().map(row).collect()), args.table, "");
    }
    Ok(ExitCode::SUCCESS)
}

/// A value; for a person, sizes in units, if they are exact, and paths with `~`.
fn value(name: &str, value: &str) -> Cell {
    let is_size = name.split(['.', '_']).any(|word| word == "bytes");
    match value.parse::<u64>() {
        _ if value.is_empty() => Cell::short("", "-"),
        Ok(bytes) if is_size && bytes.is_multiple_of(1024) => Cell::size(bytes),
        Ok(bytes) if is_size => Cell::short(value, format!("{} B", words::count(bytes))),
        _ => terminal::path(value),
    }
}

/// What the daemon says, if one runs.
async fn ask(args: &ConfigArgs) -> Result<Option<SettingsInForce>, Failure> {
    let daemon =
        DaemonArgs { data: args.flags.data.clone(), socket: args.flags.socket.clone(), ..DaemonArgs::default() };
    let Some(mut client) = Client::running(&daemon).await? else {
        terminal::notice("no daemon is running; these are the settings that the next one will use");
        return Ok(None);
    };
    let status: shellkeep_protocol::DaemonStatus = client.get("/v1/daemon").await?;
    let mut settings: SettingsInForce = client.get("/v1/daemon/settings").await.map_err(|error: ClientError| {
        let flags = daemon.as_flags();
        Failure::client(format!("{error}; `shellkeep config --check{flags}` reads the configuration itself"))
    })?;
    let row = token_row(status.data.as_ref());
    settings.settings.insert("token".to_owned(), row);
    Ok(Some(settings))
}

/// What flags, environment and file say.
fn read_here(flags: Layer, file: Option<PathBuf>) -> Result<SettingsInForce, Failure> {
    let settings = Settings::load(flags, file.as_deref(), &environment)?;
    unknown_variables().iter().for_each(|problem| terminal::notice(problem));
    let rows = settings.shown().into_iter();
    let rows = rows.map(|row| (row.name.to_owned(), SettingInForce { value: row.value, source: row.source }));
    let token = ("token".to_owned(), token_row(&settings.data.value));
    Ok(SettingsInForce {
        settings: rows.chain([token]).collect(),
        file: settings.file.map(|path| path.display().to_string()),
    })
}

/// Where the token comes from; never the token.
fn token_row(data: &std::path::Path) -> SettingInForce {
    let path = token::path(data);
    let (value, source) = if environment("SHELLKEEP_TOKEN").is_some() {
        ("(secret)".to_owned(), "env SHELLKEEP_TOKEN".to_owned())
    } else if path.exists() {
        ("(secret)".to_owned(), format!("file {}", path.display()))
    } else {
        ("(created at the first start)".to_owned(), "default".to_owned())
    };
    SettingInForce { value, source }
}
