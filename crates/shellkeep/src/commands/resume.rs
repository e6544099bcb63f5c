//! `shellkeep resume`: a message for a session's agent, and its answer.

use crate::cli::{self, DaemonArgs};
use crate::client::events::Event;
use crate::client::{self, Client};
use crate::failure::{FAILED, Failure, NO_READER};
use crate::input;
use crate::terminal;
use clap::Args;
use shellkeep_protocol::{AnswerEvent, BusyChoice, ResumeRequest, ResumeResponse, ResumeStatus};
use shellkeep_session::SessionId;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// Exit code when the agent timed out, as for `timeout(1)`.
const TIMED_OUT: u8 = 124;
/// Exit code when the agent was interrupted: 128 + SIGINT.
const INTERRUPTED: u8 = 130;
/// Longest message that is read from standard input.
const MAX_MESSAGE: usize = 1 << 20;

/// Arguments of `resume`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shellkeep resume demo 'run the tests again and fix what fails'
  git diff | shellkeep resume demo -
  shellkeep resume demo --json 'how many are left?'

The session's agent is the program named in its config; it continues from the last step that it completed. Its answer
is printed as it arrives. Ctrl-C stops the agent; completed steps are kept. With --request-id, the agent keeps running
when you disconnect, and repeating the key returns its result.

Exit codes: 0 the agent is done; 1 it failed, or shellkeep's own error; 124 it timed out; 130 it was stopped; 141 the
output pipe was closed; 2 wrong usage.")]
pub struct ResumeArgs {
    /// The session
    #[arg(value_name = "SESSION")]
    session: String,
    /// The message for its agent; `-` reads it from standard input
    #[arg(value_name = "MESSAGE", allow_hyphen_values = true)]
    message: String,
    /// Seconds the agent may work on it [default: the session's config, or 300]
    #[arg(long, value_name = "S", value_parser = cli::seconds, allow_negative_numbers = true)]
    timeout: Option<f64>,
    /// Idempotency key: repeating it returns the first result without running again
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// Fail instead of waiting while the agent works on another message
    #[arg(long)]
    no_wait: bool,
    /// Show the session's events on stderr as they happen
    #[arg(long, conflicts_with = "json")]
    events: bool,
    /// Print the result as JSON at the end
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

pub fn execute(args: ResumeArgs) -> Result<ExitCode, Failure> {
    client::block_on(resume(args)).map(ExitCode::from)
}

async fn resume(args: ResumeArgs) -> Result<u8, Failure> {
    SessionId::parse(&args.session).map_err(|error| Failure::client(format!("session: {error}")))?;
    let request = ResumeRequest {
        message: if args.message == "-" { stdin()? } else { args.message.clone() },
        timeout: args.timeout,
        request_id: args.request_id.clone(),
        if_busy: args.no_wait.then_some(BusyChoice::Reject),
    };
    let mut client = Client::open(&args.daemon).await?;
    let path = format!("/v1/sessions/{}/resume", args.session);
    if args.json {
        let result: ResumeResponse = client.post(&path, &request).await?;
        terminal::json(&result)?;
        return Ok(code(result.status));
    }
    let mut events = client.post_events(&path, &request).await?;
    let mut shown = Printed { events: args.events, text: String::new() };
    loop {
        let Some(event) = events.next().await? else {
            return Err(Failure::client("the daemon ended the stream without a result"));
        };
        if let Some(code) = shown.handle(event)? {
            return Ok(code);
        }
    }
}

/// The output so far.
struct Printed {
    events: bool,
    text: String,
}

impl Printed {
    /// Shows an event; gives the exit code at the end.
    fn handle(&mut self, event: Event) -> Result<Option<u8>, Failure> {
        match event.name.as_str() {
            "output" => self.print(&event.read::<AnswerEvent>()?.text),
            "event" => {
                if self.events {
                    let _ = writeln!(io::stderr(), "{}", event.data);
                }
                Ok(None)
            }
            "result" => self.finish(&event.read()?).map(Some),
            // A newer daemon may send events that we do not know.
            _ => Ok(None),
        }
    }

    fn print(&mut self, text: &str) -> Result<Option<u8>, Failure> {
        if !terminal::bytes(text.as_bytes())? {
            return Ok(Some(NO_READER));
        }
        self.text.push_str(text);
        Ok(None)
    }

    /// Prints what was not streamed, and the reason if the agent is not done.
    fn finish(&mut self, result: &ResumeResponse) -> Result<u8, Failure> {
        let rest = match result.output.strip_prefix(self.text.as_str()) {
            Some(rest) => rest.to_owned(),
            // The agent's final answer differs from the streamed parts.
            None => format!("{}{}", if self.text.ends_with('\n') { "" } else { "\n" }, result.output),
        };
        if let Some(code) = self.print(&rest)? {
            return Ok(code);
        }
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            terminal::line("");
        }
        if let Some(error) = &result.error {
            terminal::notice(error);
        }
        Ok(code(result.status))
    }
}

fn code(status: ResumeStatus) -> u8 {
    match status {
        ResumeStatus::Done => 0,
        ResumeStatus::Failed => FAILED,
        ResumeStatus::TimedOut => TIMED_OUT,
        ResumeStatus::Interrupted => INTERRUPTED,
    }
}

fn stdin() -> Result<String, Failure> {
    let too_long = "the message is longer than 1 MiB; put it into a file and name the file";
    let bytes = input::stdin(MAX_MESSAGE, too_long)?;
    String::from_utf8(bytes).map_err(|_| Failure::client("cannot read stdin: stream did not contain valid UTF-8"))
}
