//! `shellkeep scrub`: masks a secret in everything that is stored of a session.

use super::replay::source;
use crate::cli::ClientArgs;
use crate::client::Client;
use crate::failure::Failure;
use crate::terminal;
use clap::Args;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use shellkeep_protocol::{NotReached, ScrubReport, ScrubRequest};
use shellkeep_session::SessionId;
use shellkeep_terminal::words;
use std::io::{self, IsTerminal as _, Read as _};
use std::process::ExitCode;

/// Arguments of `scrub`.
#[derive(Debug, Args)]
#[command(
    after_help = "The secret is replaced by *** in all recorded events, in output files, and in the session's state; its shell is
dropped. Checkpoints that contain it are deleted. The rest still verifies: `shellkeep verify` knows what was masked.
Not changed: forks, which are separate sessions (the report names them); earlier exports; the files in the session's
workspace; backups and logs of a history database; and history that went to a broker: its messages, and the database
that they are written to.

Examples:
  printf %s \"$TOKEN\" | shellkeep scrub demo --secret-stdin
  shellkeep scrub demo --secret-stdin        (on a terminal: asks, without showing what you type)

Exit codes: 0 done, 1 not done (no such session, not the host, the secret is too short or too common), 2 wrong usage."
)]
pub struct ScrubArgs {
    /// The session
    session: String,
    /// Read the secret from standard input; it cannot be an argument, because other users can see arguments
    #[arg(long, required = true)]
    secret_stdin: bool,
    /// Mask it even if it is a common word or a series such as 123456, even though other text will be masked too
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    client: ClientArgs,
}

pub fn execute(args: ScrubArgs) -> Result<ExitCode, Failure> {
    let session = SessionId::parse(&args.session).map_err(Failure::client)?;
    let force = args.force.then_some(true);
    let request = ScrubRequest { secret: secret().map_err(Failure::client)?, force };
    if request.secret.is_empty() {
        return Err(Failure::client("standard input is empty; pass the secret on it"));
    }
    let path = format!("/v1/sessions/{session}/scrub");
    let asked = async {
        let mut client = Client::open(&args.client.daemon).await?;
        Ok::<_, Failure>(terminal::patiently("masking", client.post::<_, ScrubReport>(&path, &request)).await?)
    };
    let report = source::runtime()?.block_on(asked)?;
    if args.client.json {
        terminal::json(&report)?;
    } else {
        let ScrubReport { seq, seqs, files, checkpoints, not_reached, earlier_nodes, forks } = &report;
        let [events, files] = [(seqs.len(), "event"), (files.len(), "file")].map(|(n, what)| words::counted(n, what));
        terminal::line(format!("masked in {events} and {files}; recorded as event {seq}"));
        if !checkpoints.is_empty() {
            terminal::line(format!("{} with it deleted", words::counted(checkpoints.len(), "checkpoint")));
            terminal::notice("a file in the workspace that still contains it will be in the next checkpoint again");
        }
        let (earlier, forks) = (earlier_nodes.join(", "), forks.join(", "));
        for copy in not_reached {
            let (copy, names) = match copy {
                NotReached::HistoryLogs => ("backups and logs of the history database", ""),
                NotReached::BrokerMessages => ("messages in the queue of the history broker", ""),
                NotReached::ConsumerDatabase => ("the database that `shellkeep history consume` writes to", ""),
                NotReached::EarlierNodes => ("data directories of nodes that had the session earlier: ", &*earlier),
                NotReached::Forks => ("its forks, which are sessions of their own; scrub them too: ", &*forks),
            };
            terminal::notice(&format!("not masked: {copy}{names}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The input, without the line break that `echo` adds.
fn secret() -> io::Result<String> {
    let mut text = String::new();
    if io::stdin().is_terminal() {
        terminal::notice("type the secret and press Enter; it is not shown");
        let _quiet = Quiet::new()?;
        io::stdin().read_line(&mut text)?;
    } else {
        io::stdin().read_to_string(&mut text)?;
    }
    let length = text.trim_end_matches(['\r', '\n']).len();
    text.truncate(length);
    Ok(text)
}

/// A terminal without echo. Dropping it restores the echo.
struct Quiet {
    before: Termios,
}

impl Quiet {
    fn new() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &modes)?;
        Ok(Self { before })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}
