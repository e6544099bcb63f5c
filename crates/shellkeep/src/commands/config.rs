//! `shellkeep config`: the settings in force and where each came from.

use crate::config::{Layer, Settings, Shown, environment};
use crate::failure::Failure;
use crate::terminal::{self, Column, Table, TableArgs};
use crate::token;
use clap::{Args, ValueHint};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `config`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shellkeep config
  SHELLKEEP_MAX_SHELLS=50 shellkeep config --json

Flags win over the environment (SHELLKEEP_…), which wins over the file, which wins over defaults. The file is
$XDG_CONFIG_HOME/shellkeep/config.toml and has the names of this list as keys.

Exit codes: 0 done, 2 a setting is wrong.")]
pub struct ConfigArgs {
    #[command(flatten)]
    flags: Layer,
    /// Read this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table: TableArgs,
}

/// Does it.
pub fn execute(args: ConfigArgs) -> Result<ExitCode, Failure> {
    let settings = Settings::load(args.flags.absolute(None), args.config.as_deref(), &environment)?;
    let mut shown = settings.shown();
    shown.push(token_row(&settings));
    if args.json {
        let pairs = shown.iter().map(|row| (row.name.to_owned(), json!({"value": row.value, "source": row.source})));
        let all: serde_json::Map<_, _> = pairs.collect();
        terminal::json(&json!({"settings": all, "file": settings.file}))?;
    } else {
        let columns = [Column::word("setting"), Column::text("value"), Column::text("from")];
        let rows = shown.into_iter().map(|row| [row.name.into(), terminal::path(&row.value), row.source.into()]);
        terminal::show(&Table::new(columns, rows.collect()), args.table, "");
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the token comes from; never the token.
fn token_row(settings: &Settings) -> Shown {
    let path = token::path(&settings.data.value);
    let (value, source) = if environment("SHELLKEEP_TOKEN").is_some() {
        ("(secret)".to_owned(), "env SHELLKEEP_TOKEN".to_owned())
    } else if path.exists() {
        ("(secret)".to_owned(), format!("file {}", path.display()))
    } else {
        ("(made at first start)".to_owned(), "default".to_owned())
    };
    Shown { name: "token", value, source }
}
