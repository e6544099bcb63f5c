//! The program: parses the command line and calls the command. It is a library, so that it is compiled while the crates that
//! it calls are still being optimised: a program has to wait for all of them.

mod cli;
mod client;
mod commands;
mod config;
mod daemon;
mod failure;
mod help;
mod input;
mod machine;
mod noted;
mod passthrough;
mod project;
mod ready;
mod terminal;
mod token;
mod turn;

use cli::{Cli, Command};
use failure::{FAILED, Failure, RUN_FAILED};
use std::process::ExitCode;

/// Runs the program.
pub fn main() -> ExitCode {
    let cli = Cli::read().unwrap_or_else(|error| help::exit(&error));
    let unwritten = match cli.command {
        // What it printed is not what it was started for.
        Command::Serve(_) => None,
        Command::Run(_) => Some(RUN_FAILED),
        _ => Some(FAILED),
    };
    done(cli.command, unwritten).unwrap_or_else(|failure| {
        terminal::notice(&failure.to_string());
        failure.code()
    })
}

/// Does what the command line says. `unwritten` is the exit code if only its output cannot be written.
fn done(command: Command, unwritten: Option<u8>) -> Result<ExitCode, Failure> {
    let code = execute(command)?;
    match (unwritten.filter(|_| code == ExitCode::SUCCESS), terminal::stdout_error()) {
        (Some(code), Some(reason)) => Err(Failure::new(code, reason)),
        _ => Ok(code),
    }
}

fn execute(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Serve(args) => commands::serve::execute(args),
        Command::Run(args) => commands::run::execute(args),
        Command::Attach(args) => commands::attach::execute(args),
        Command::Runs(args) => commands::runs::execute(args),
        Command::Resume(args) => commands::resume::execute(args),
        Command::Mcp(args) => commands::mcp::execute(args),
        Command::Sessions(args) => commands::sessions::execute(args),
        Command::Services(args) => commands::services::execute(args),
        Command::Events(args) => commands::events::execute(args),
        Command::Replay(args) => commands::replay::execute(args),
        Command::Export(args) => commands::export::execute(args),
        Command::Verify(args) => commands::verify::execute(args),
        Command::Key(args) => commands::key::execute(args),
        Command::Scrub(args) => commands::scrub::execute(args),
        Command::Files(args) => commands::workspace_files::execute(args),
        Command::Kv(args) => commands::kv::execute(args),
        Command::Checkpoints(args) => commands::checkpoints::execute(args),
        Command::Diff(args) => commands::diff::execute(args),
        Command::Log(args) => commands::log::execute(args),
        Command::Undo(args) => commands::undo::undo(args),
        Command::Redo(args) => commands::undo::redo(args),
        Command::Rewind(args) => commands::rewind::execute(args),
        Command::Fork(args) => commands::fork::execute(args),
        Command::Backup(args) => commands::backup::execute(args),
        Command::Restore(args) => commands::restore::execute(args),
        Command::Quotas(args) => commands::quotas::execute(args),
        Command::Agents(args) => commands::agents::execute(args),
        Command::Top(args) => commands::top::execute(args),
        Command::Console(args) => commands::console::execute(args),
        Command::Audit(args) => commands::audit::execute(args),
        Command::Tokens(args) => commands::tokens::execute(args),
        Command::History(args) => commands::history::execute(args),
        Command::Nodes(args) => commands::nodes::execute(args),
        Command::Status(args) => commands::status::execute(args),
        Command::Stop(args) => commands::stop::execute(args),
        Command::Restart(args) => commands::restart::execute(args),
        Command::Reload(args) => commands::reload::execute(args),
        Command::Config(args) => commands::config::execute(args),
        Command::Doctor(args) => commands::doctor::execute(args),
        Command::Completions(args) => commands::completions::execute(args),
        Command::Man(args) => commands::man::execute(args),
    }
}
