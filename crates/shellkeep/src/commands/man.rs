//! `shellkeep man`: writes the man pages. For packages, so it is not in the list of commands.

use crate::cli::Cli;
use crate::failure::Failure;
use clap::{Args, ValueHint};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `man`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  shellkeep man /usr/local/share/man/man1

Writes shellkeep.1 and a page for each command.

Exit codes: 0 done, 1 a file could not be written, 2 wrong usage.")]
pub struct ManArgs {
    /// The directory to write to
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
}

pub fn execute(args: ManArgs) -> Result<ExitCode, Failure> {
    clap_mangen::generate_to(Cli::tree(), &args.directory)
        .map_err(|error| Failure::client(format!("{}: {error}", args.directory.display())))?;
    Ok(ExitCode::SUCCESS)
}
