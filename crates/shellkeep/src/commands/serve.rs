//! `shellkeep serve`: runs the daemon until a signal ends it.

use crate::cli::DaemonArgs;
use crate::config::{Layer, NO_LISTEN, Sources, unknown_variables};
use crate::daemon::{self, Start};
use crate::failure::Failure;
use crate::ready::Ready;
use crate::terminal;
use clap::{Args, ValueHint};
use rustix::io::Errno;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `serve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shellkeep serve
  shellkeep serve --listen 127.0.0.1:8000 --data /var/lib/shellkeep
  shellkeep serve --no-listen --store memory://

Every setting can also come from the environment (SHELLKEEP_LISTEN, SHELLKEEP_MAX_SHELLS, …) or from a TOML file;
`shellkeep config` shows the settings in effect. TCP needs `Authorization: Bearer TOKEN`, with the token from
SHELLKEEP_TOKEN or DATA/token; the socket needs none.

SIGTERM and SIGINT stop the daemon, as `shellkeep stop` does: running commands get stop_grace to finish, new ones are rejected, and every session is saved. A second signal stops waiting for commands, a third exits
immediately. SIGHUP reloads the configuration file, as `shellkeep reload` does.

Exit codes: 0 stopped with everything saved, 1 stopped immediately by a signal or with records lost, 2 could not start.")]
pub struct ServeArgs {
    #[command(flatten)]
    flags: Layer,
    /// Read this file [default: $XDG_CONFIG_HOME/shellkeep/config.toml, if it exists]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// Do not listen on TCP
    #[arg(long, conflicts_with = "listen")]
    no_listen: bool,
    /// Write a line break to this descriptor when ready and close it, for supervisors; 1 and 2 stay open
    #[arg(long, value_name = "N")]
    ready_fd: Option<u32>,
    /// Start even if the store is missing or records of its journal are lost, and continue without them
    #[arg(long)]
    accept_loss: bool,
    /// Print a command to try first, as on a terminal
    #[arg(long)]
    hint: bool,
    /// In a copied data directory: let its sessions use the original's directories outside of it
    #[arg(long)]
    take_workspaces: bool,
    /// Detach from the terminal; for the client that starts a daemon
    #[arg(long, hide = true)]
    detach: bool,
}

pub fn execute(args: ServeArgs) -> Result<ExitCode, Failure> {
    if args.detach {
        // Fails only for a process that already leads a group, which then has nothing to leave.
        let _ = rustix::process::setsid();
    }
    // Before anything else is opened, which could get the number of a descriptor that was not passed.
    let ready = args.ready_fd.map(|fd| Ready::open(fd).map_err(|error| not_ready(fd, &error))).transpose()?;
    let mut flags = args.flags.absolute(None);
    if args.no_listen {
        flags.listen = Some(NO_LISTEN.to_owned());
    }
    let hint = (args.hint || std::io::stdout().is_terminal()).then(|| first_command(&flags));
    let sources = Sources::new(flags, args.config);
    let settings = sources.load()?;
    unknown_variables().iter().for_each(|problem| terminal::notice(problem));
    let (accept_loss, take_workspaces) = (args.accept_loss, args.take_workspaces);
    daemon::run(Start { settings, sources, ready, hint, accept_loss, take_workspaces })
}

/// The descriptor to report on cannot be written to.
fn not_ready(fd: u32, error: &io::Error) -> Failure {
    Failure::start(match Errno::from_io_error(error) {
        Some(Errno::BADF) => format!("--ready-fd {fd}: descriptor {fd} is not open in this process"),
        _ => format!("--ready-fd {fd}: cannot write to it: {error}"),
    })
}

/// A command to try first, with the flags that select this daemon.
fn first_command(flags: &Layer) -> String {
    let paths = DaemonArgs { socket: flags.socket.clone(), data: flags.data.clone(), ..DaemonArgs::default() };
    format!("shellkeep run{} -s demo -- 'echo hello from $PWD'", paths.as_flags())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_that_is_not_open_is_named() {
        let told = Ready::open(987_654).map(|_| ()).map_err(|error| not_ready(987_654, &error).to_string());
        assert_eq!(told.unwrap_err(), "--ready-fd 987654: descriptor 987654 is not open in this process");
    }
}
