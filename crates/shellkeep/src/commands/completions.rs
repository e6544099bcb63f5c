//! `shellkeep completions`: prints a completion script.

use crate::cli::Cli;
use crate::failure::Failure;
use clap::Args;
use std::io::Write as _;
use std::process::ExitCode;

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  shellkeep completions bash > ~/.local/share/bash-completion/completions/shellkeep

Exit codes: 0 done, 2 wrong usage.")]
pub struct CompletionsArgs {
    /// The shell to complete for
    shell: clap_complete::Shell,
}

pub fn execute(args: CompletionsArgs) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::tree(), "shellkeep", &mut script);
    // A closed pipe is not an error.
    let _ = std::io::stdout().write_all(&script);
    Ok(ExitCode::SUCCESS)
}
