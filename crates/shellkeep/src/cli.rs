//! The command line: commands and flags. `commands` implements them.

use crate::commands;
use crate::failure::Failure;
use crate::help;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueHint};
use shellkeep_protocol::SandboxName;
use shellkeep_session::Sandbox;
use std::path::{Path, PathBuf};

/// Durable shell sessions for AI agents.
#[derive(Debug, Parser)]
#[command(name = "shellkeep", version, arg_required_else_help = true, after_help = AFTER)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// The command line of this process.
    pub fn read() -> Result<Self, clap::Error> {
        let mut tree = Self::tree();
        let matches = tree.try_get_matches_from_mut(std::env::args_os())?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut tree))
    }

    /// All commands, each with its full help.
    pub fn tree() -> clap::Command {
        help::completed(Self::command())
    }
}

const AFTER: &str = "Examples:
  shellkeep run -s demo -- 'cd /tmp; export NAME=ann'   a session remembers
  shellkeep run -s demo -- 'echo $NAME in $PWD'         ann in /tmp, even after a crash
  shellkeep services start -s demo -- 'npm run dev'     a server that keeps running
  shellkeep log demo                                    what each command did to its files
  shellkeep undo demo                                   undo the last one
  shellkeep sessions ls
  shellkeep doctor

A daemon is started if none is running. Each command's --help lists its exit codes.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the daemon
    Serve(commands::serve::ServeArgs),
    /// Run a command in a session
    Run(commands::run::RunArgs),
    /// Take over a session: a prompt whose lines are runs
    Attach(commands::attach::AttachArgs),
    /// List runs, wait for them, read their output, send them input and signals
    Runs(commands::runs::RunsArgs),
    /// Send a message to a session's agent and continue from its last step
    Resume(commands::resume::ResumeArgs),
    /// Serve MCP over stdio
    Mcp(commands::mcp::McpArgs),
    /// Create, list, show and end sessions
    Sessions(commands::sessions::SessionsArgs),
    /// Start, stop and list services, and read their logs
    Services(commands::services::ServicesArgs),
    /// Print, follow and add a session's events
    Events(commands::events::EventsArgs),
    /// Replay a session step by step, fast or in real time, or run it again
    Replay(commands::replay::ReplayArgs),
    /// Export a session's recording
    Export(commands::export::ExportArgs),
    /// Prove that a recording was not changed
    Verify(commands::verify::VerifyArgs),
    /// Print the public key that recordings are signed with
    Key(commands::key::KeyArgs),
    /// Mask a secret in everything stored of a session
    Scrub(commands::scrub::ScrubArgs),
    /// List, read, write and remove files of a session
    Files(commands::workspace_files::FilesArgs),
    /// Read and change a session's keyed store
    Kv(commands::kv::KvArgs),
    /// List, show and create checkpoints of a session's files
    Checkpoints(commands::checkpoints::CheckpointsArgs),
    /// Compare a session's files at two moments
    Diff(commands::diff::DiffArgs),
    /// Show what was done in a session, one row per command
    Log(commands::log::LogArgs),
    /// Undo the last change of a session: files, shell and agent state
    Undo(commands::undo::UndoArgs),
    /// Redo the last undone change
    Redo(commands::undo::RedoArgs),
    /// Rewind a session to an earlier moment: files, shell and agent state
    Rewind(commands::rewind::RewindArgs),
    /// Fork a session, and merge its changes back
    Fork(commands::fork::ForkArgs),
    /// Back up the data directory, even while the daemon runs
    Backup(commands::backup::BackupArgs),
    /// Restore a data directory from a backup
    Restore(commands::restore::RestoreArgs),
    /// Show and change quotas
    Quotas(commands::quotas::QuotasArgs),
    /// End agents
    Agents(commands::agents::AgentsArgs),
    /// Show a live view of the daemon
    Top(commands::top::TopArgs),
    /// Open the console in a browser
    Console(commands::console::ConsoleArgs),
    /// Show the audit trail: changed permissions, deletions and rejected requests
    Audit(commands::audit::AuditArgs),
    /// Create, list and revoke tokens of agents, auditors and metrics
    Tokens(commands::tokens::TokensArgs),
    /// Query the history database, and write to it from a broker
    History(commands::history::HistoryArgs),
    /// List the nodes that share a store, and drain one
    Nodes(commands::nodes::NodesArgs),
    /// Show whether a daemon is running, and its health
    Status(commands::status::StatusArgs),
    /// Stop the daemon
    Stop(commands::stop::StopArgs),
    /// Stop the daemon and start it again
    Restart(commands::restart::RestartArgs),
    /// Make the daemon read its configuration file again
    Reload(commands::reload::ReloadArgs),
    /// Show the settings in effect and where each came from
    Config(commands::config::ConfigArgs),
    /// Check what this machine supports, and what each missing feature costs
    Doctor(commands::doctor::DoctorArgs),
    /// Print completions for a shell
    Completions(commands::completions::CompletionsArgs),
    /// Write the man pages
    #[command(hide = true)]
    Man(commands::man::ManArgs),
}

/// What most commands have.
#[derive(Debug, Args)]
pub struct ClientArgs {
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Which daemon to talk to.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Daemon")]
pub struct DaemonArgs {
    /// The daemon's Unix socket [env: SHELLKEEP_SOCKET] [default: the socket noted in DATA, else DATA/shellkeep.sock]
    #[arg(long, global = true, value_name = "PATH", value_hint = ValueHint::FilePath, conflicts_with = "url")]
    pub socket: Option<PathBuf>,
    /// The daemon's address: http://HOST:PORT, or unix:/PATH for its socket [env: SHELLKEEP_URL]
    #[arg(long, global = true, value_name = "URL")]
    pub url: Option<String>,
    /// The daemon's data directory [env: SHELLKEEP_DATA]
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data: Option<PathBuf>,
    /// Do not start a daemon if none is running
    #[arg(long, global = true)]
    pub no_start: bool,
}

impl DaemonArgs {
    /// The flags that select the same daemon, to repeat them in a printed command; empty, or with a leading space. `serve`
    /// knows the socket too, but no URL.
    pub fn as_flags(&self) -> String {
        let path = |flag: &str, path: &Option<PathBuf>| {
            path.as_ref().map_or_else(String::new, |path| format!(" {flag} {}", quoted(&path.to_string_lossy())))
        };
        let url = self.url.as_ref().map_or_else(String::new, |url| match socket_in_url(url) {
            Some(path) => format!(" --socket {}", quoted(path)),
            None => format!(" --url {}", quoted(url)),
        });
        format!("{}{}{url}", path("--data", &self.data), path("--socket", &self.socket))
    }
}

/// A word quoted for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The path in `unix:/PATH`, which is how a daemon names its socket, or in `unix:///PATH`.
pub fn socket_in_url(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("unix:")?;
    let path = rest.strip_prefix("//").unwrap_or(rest);
    (path.starts_with('/') && path.len() > 1).then_some(path)
}

/// Reads `NAME=VALUE`, or `NAME` to copy the variable from this environment.
pub fn variable(text: &str) -> Result<(String, String), String> {
    if let Some((name, value)) = text.split_once('=') {
        return Ok((name.to_owned(), value.to_owned()));
    }
    let value = std::env::var(text).map_err(|_| format!("{text} is not set here; write NAME=VALUE"))?;
    Ok((text.to_owned(), value))
}

/// Reads a number of seconds. Use with `allow_negative_numbers`, so that this explains what is wrong with `-1`.
pub fn seconds(text: &str) -> Result<f64, String> {
    let wrong = || "it must be a number of seconds, as in 30 or 0.5".to_owned();
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    if seconds.is_finite() && seconds >= 0.0 { Ok(seconds) } else { Err(wrong()) }
}

/// Reads the name of a sandbox.
pub fn sandbox(text: &str) -> Result<SandboxName, String> {
    text.parse().map(|sandbox| match sandbox {
        Sandbox::None => SandboxName::None,
        Sandbox::User => SandboxName::User,
        Sandbox::Fence => SandboxName::Fence,
        Sandbox::Room => SandboxName::Room,
    })
}

/// A directory from a flag as an absolute path, because the daemon works elsewhere.
pub fn directory(flag: &str, path: &Path) -> Result<String, Failure> {
    let path = std::path::absolute(path).map_err(|error| Failure::client(format!("{flag}: {error}")))?;
    path.into_os_string().into_string().map_err(|_| Failure::client(format!("{flag}: the path is not UTF-8")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flattened group gives its heading to what follows it, so it must be the last.
    #[test]
    fn only_the_flags_of_the_daemon_are_under_its_heading() {
        fn check(command: &clap::Command) {
            let under = command.get_arguments().filter(|argument| argument.get_help_heading() == Some("Daemon"));
            for argument in under {
                let name = argument.get_id().as_str();
                assert!(["socket", "url", "data", "no_start"].contains(&name), "{}: {name}", command.get_name());
            }
            for argument in command.get_positionals() {
                assert_eq!(argument.get_help_heading(), None, "{}: {}", command.get_name(), argument.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    #[test]
    fn a_socket_is_found_in_a_url_of_one() {
        for (url, path) in [
            ("unix:/run/s.sock", Some("/run/s.sock")),
            ("unix:///run/s.sock", Some("/run/s.sock")),
            ("unix:/a dir/s", Some("/a dir/s")),
            ("unix:s.sock", None),
            ("unix://run/s.sock", None),
            ("unix:", None),
            ("unix:/", None),
            ("http://127.0.0.1:7433", None),
            ("/run/s.sock", None),
        ] {
            assert_eq!(socket_in_url(url), path, "{url}");
        }
        let flags = |url: &str| DaemonArgs { url: Some(url.to_owned()), ..DaemonArgs::default() }.as_flags();
        assert_eq!(flags("unix:/run/s.sock"), " --socket /run/s.sock");
        assert_eq!(flags("http://h:1"), " --url http://h:1");
    }

    #[test]
    fn every_command_lists_its_exit_codes_and_has_an_example() {
        fn check(command: &mut clap::Command, path: &str, lacking: &mut Vec<String>) {
            let path = format!("{path} {}", command.get_name());
            if command.has_subcommands() {
                return command.get_subcommands_mut().for_each(|below| check(below, &path, lacking));
            }
            let help = command.render_long_help().to_string();
            for part in ["Exit codes:", "Example"] {
                let count = help.lines().filter(|line| line.starts_with(part)).count();
                if count != 1 {
                    lacking.push(format!("{path}: {part} {count} times"));
                }
            }
        }
        let mut lacking = Vec::new();
        check(&mut Cli::tree(), "", &mut lacking);
        assert!(lacking.is_empty(), "{lacking:#?}");
    }

    #[test]
    fn help_fits_the_terminal_also_if_it_was_not_asked_for() {
        for args in [&["shellkeep", "sessions"][..], &["shellkeep", "kv"], &["shellkeep", "files", "--help"]] {
            let error = Cli::tree().try_get_matches_from(args).map(|_| ()).unwrap_err();
            let told = help::rendered(&error, 80, false);
            assert!(told.contains("Exit codes:") && told.lines().all(|line| line.chars().count() <= 80), "{told}");
        }
    }

    #[test]
    fn seconds_that_make_no_sense_are_explained() {
        assert_eq!(seconds("2.5"), Ok(2.5));
        assert_eq!(seconds("0"), Ok(0.0));
        for wrong in ["abc", "-1", "inf", "NaN", ""] {
            assert_eq!(seconds(wrong), Err("it must be a number of seconds, as in 30 or 0.5".to_owned()), "{wrong}");
        }
        let negative = Cli::tree().try_get_matches_from(["shellkeep", "run", "-s", "a", "--timeout", "-1", "true"]);
        let told = negative.map(|_| ()).unwrap_err().to_string();
        assert!(told.contains("a number of seconds") && !told.contains("tip:"), "{told}");
    }
}
