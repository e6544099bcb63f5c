//! `shellkeep key`: the public key that recordings are signed with.

use crate::cli::ClientArgs;
use crate::client;
use crate::failure::Failure;
use crate::terminal;
use clap::Args;
use serde_json::json;
use shellkeep_record::PublicKey;
use shellkeep_store::PUBLIC_KEY;
use std::path::Path;
use std::process::ExitCode;

/// Arguments of `key`.
#[derive(Debug, Args)]
#[command(
    after_help = "Store it where an attacker who can change the data directory cannot. `shellkeep verify --key KEY` then accepts only
recordings that this daemon signed.

Examples:
  shellkeep key
  shellkeep verify --key \"$(cat noted.pub)\" ./demo.jsonl

Exit codes: 0 printed, 1 there is no key yet: start the daemon once."
)]
pub struct KeyArgs {
    #[command(flatten)]
    client: ClientArgs,
}

pub fn execute(args: KeyArgs) -> Result<ExitCode, Failure> {
    let data = client::data_directory(&args.client.daemon)?;
    let Some(key) = of_directory(&data) else {
        let place = data.join(PUBLIC_KEY);
        let message = format!("there is no key in {}; it is created when the daemon first starts", place.display());
        return Err(Failure::client(message));
    };
    match args.client.json {
        true => terminal::json(&json!({"key": key.to_string()}))?,
        false => terminal::line(key.to_string()),
    }
    Ok(ExitCode::SUCCESS)
}

/// The public key of a data directory, if it has one.
pub fn of_directory(data: &Path) -> Option<PublicKey> {
    PublicKey::parse(std::fs::read_to_string(data.join(PUBLIC_KEY)).ok()?.trim())
}
