//! `shellkeep completions`: prints a completion script.

use crate::cli::Cli;
use crate::failure::Failure;
use crate::terminal;
use clap::Args;
use std::process::ExitCode;

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  shellkeep completions bash > ~/.local/share/bash-completion/completions/shellkeep

Exit codes: 0 done, 1 the output could not be written, 2 wrong usage.")]
pub struct CompletionsArgs {
    /// The shell to complete for
    shell: clap_complete::Shell,
}

pub fn execute(args: CompletionsArgs) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::tree(), "shellkeep", &mut script);
    terminal::bytes(&script).map(|_| ExitCode::SUCCESS)
}
