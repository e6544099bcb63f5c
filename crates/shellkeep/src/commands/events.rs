//! `shellkeep events`: prints what happened in a session, follows it, and adds to it.

use super::replay::source::{self, Events};
use super::replay::target::Target;
use crate::cli::DaemonArgs;
use crate::client::{Client, escaped};
use crate::failure::Failure;
use crate::terminal;
use clap::{Args, Subcommand, ValueHint};
use serde_json::Value;
use shellkeep_protocol::{EventRequest, PostedEvents};
use shellkeep_record::Line;
use shellkeep_record::line_types::{self, OWN};
use shellkeep_record::player::{EventSource as _, Summary, Wanted};
use shellkeep_session::SessionId;
use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

/// Events asked for at a time.
const PAGE: usize = 200;

/// The most letters in which a wrong type differs from the one that was meant.
const MOST_WRONG: usize = 3;

/// Arguments of `events`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:
  shellkeep events demo
  shellkeep events demo --type tool_call,llm_call --after 100 --limit 20
  shellkeep events demo --follow --json | jq -r .event_type
  shellkeep events ./demo.jsonl --search 'error|failed'
  shellkeep events post demo user_input '{\"message\": \"please build it\"}'

On a terminal, each event is one aligned line; otherwise its number, time, type, text and outcome, separated by tabs.

Exit codes: 0 done, 1 not done (no such session, refused, no daemon), 2 wrong usage."
)]
pub struct EventsArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// The session, or a file or directory with a recording
    #[arg(required = true, value_name = "SESSION|FILE|DIR", value_hint = ValueHint::AnyPath)]
    target: Option<String>,
    /// Wait for more, until interrupted
    #[arg(short, long)]
    follow: bool,
    /// Only these types, separated by commas, as in tool_call or x_review, or these kinds: session, shell, service,
    /// checkpoint, notice
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    types: Vec<String>,
    /// Only events that match this regular expression
    #[arg(long, value_name = "REGEX", conflicts_with = "follow")]
    search: Option<String>,
    /// Only events after this number
    #[arg(long, value_name = "SEQ", default_value = "0")]
    after: u64,
    /// Maximum number of events to print
    #[arg(long, value_name = "N", conflicts_with = "follow")]
    limit: Option<usize>,
    /// Mask secrets
    #[arg(long)]
    redact: bool,
    /// Print JSON, one event per line
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// Subcommands.
#[derive(Debug, Subcommand)]
enum Action {
    /// Add an event to a session and print its number
    #[command(
        after_help = "TYPE is user_input, state_transition, llm_call, tool_call or final_output, or a name of your own that
begins with x_.

Example:
  shellkeep events post demo x_review '{\"verdict\": \"good\"}'"
    )]
    Post {
        /// The session
        session: String,
        /// The type
        #[arg(value_name = "TYPE")]
        event_type: String,
        /// Its fields, a JSON object; `-` reads them from standard input [default: {}]
        #[arg(value_name = "DATA")]
        fields: Option<String>,
    },
}

pub fn execute(args: EventsArgs) -> Result<ExitCode, Failure> {
    let runtime = source::runtime()?;
    let done = runtime.block_on(act(args));
    runtime.shutdown_background();
    done
}

async fn act(args: EventsArgs) -> Result<ExitCode, Failure> {
    if let Some(Action::Post { session, event_type, fields }) = &args.action {
        return post(&args, session, event_type, fields.as_deref()).await;
    }
    check_types(&args.types)?;
    let target = Target::parse(args.target.as_deref().unwrap_or_default())?;
    let shown = match (&target, args.follow) {
        (Target::Session(session), true) => follow(session, &args).await,
        (Target::Path(_), true) => Err(Failure::client("a file does not grow; --follow is for sessions")),
        (_, false) => list(&target, &args).await,
    };
    shown.map(|()| ExitCode::SUCCESS)
}

/// A type that nothing has would be waited for without end.
fn check_types(given: &[String]) -> Result<(), Failure> {
    let known = line_types::all();
    let is_wrong = |name: &&String| !name.starts_with(OWN) && !known.contains(name.as_str());
    let Some(wrong) = given.iter().find(is_wrong) else { return Ok(()) };
    let rated = known.iter().map(|name| (strsim::osa_distance(wrong, name), *name));
    let meant = rated.filter(|(letters, _)| *letters <= MOST_WRONG).min();
    Err(Failure::start(match meant {
        Some((_, meant)) => format!("--type {wrong}: no event has this type; did you mean {meant}?"),
        None => {
            let all = known.into_iter().collect::<Vec<_>>().join(", ");
            format!("--type {wrong}: no event has this type; it is one of {all}, or begins with {OWN}")
        }
    }))
}

async fn list(target: &Target, args: &EventsArgs) -> Result<(), Failure> {
    let mut events = Events::open(target, &args.daemon).await?;
    let wanted = Wanted { types: args.types.clone(), search: args.search.clone() };
    let (mut after, mut left) = (args.after, args.limit.unwrap_or(usize::MAX));
    while left > 0 {
        let page = events.page(after, left.min(PAGE), &wanted, args.redact).map_err(Failure::client)?;
        left -= page.lines.len().min(left);
        if !shown(&page.lines, args.json)? {
            return Ok(());
        }
        match page.next {
            Some(next) if next > after => after = next,
            _ => break,
        }
    }
    Ok(())
}

async fn follow(session: &SessionId, args: &EventsArgs) -> Result<(), Failure> {
    let mut path = format!("/v1/sessions/{session}/events?after={}", args.after);
    if !args.types.is_empty() {
        path += &format!("&type={}", escaped(&args.types.join(",")));
    }
    if args.redact {
        path += "&redact=true";
    }
    let mut client = Client::open(&args.daemon).await?;
    let mut stream = client.get_events(&path).await?;
    while let Some(event) = stream.next().await? {
        if let Ok(line) = serde_json::from_str::<Line>(&event.data)
            && !shown(&[line], args.json)?
        {
            return Ok(());
        }
    }
    Err(Failure::client(
        "the daemon ended the stream; to continue, pass the number of the last event that you saw to --after",
    ))
}

/// Prints events. False if the reader has closed the pipe.
fn shown(lines: &[Line], json: bool) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    let mut write = || -> io::Result<()> {
        for line in lines {
            if json {
                serde_json::to_writer(&mut out, line)?;
                out.write_all(b"\n")?;
            } else {
                super::replay::row(&mut out, &Summary::of(line))?;
            }
        }
        out.flush()
    };
    match write() {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::client(format!("cannot write the output: {error}"))),
    }
}

async fn post(args: &EventsArgs, session: &str, event_type: &str, fields: Option<&str>) -> Result<ExitCode, Failure> {
    let session = SessionId::parse(session).map_err(Failure::client)?;
    let mut daemon = args.daemon.clone();
    // `--data` is the daemon's directory everywhere; but no directory begins with a brace, so this may be meant as an
    // object.
    let given = daemon.data.take_if(|path| fields.is_none() && path.to_string_lossy().starts_with('{'));
    let given = given.map(|path| path.to_string_lossy().into_owned());
    let mut text = fields.map(str::to_owned).or(given).unwrap_or_else(|| "{}".to_owned());
    if text == "-" {
        text.clear();
        io::stdin().read_to_string(&mut text).map_err(Failure::client)?;
    }
    let data: Value =
        serde_json::from_str(&text).map_err(|error| Failure::client(format!("DATA is not valid JSON: {error}")))?;
    let request = EventRequest { event_type: Some(event_type.to_owned()), data: Some(data), events: None };
    let mut client = Client::open(&daemon).await?;
    let posted: PostedEvents = client.post(&format!("/v1/sessions/{session}/events"), &request).await?;
    if args.json {
        terminal::json(&posted)?;
    } else {
        terminal::line(posted.seq.to_string());
        posted.notices.iter().for_each(|notice| terminal::notice(&notice.message));
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `events --follow --type tol_call` waited for what never comes.
    #[test]
    fn a_type_that_no_event_has_is_refused() {
        let told =
            |name: &str| check_types(&["run_started".to_owned(), name.to_owned()]).map_err(|error| error.to_string());
        for right in
            ["tool_call", "llm_call", "checkpoint_created", "session_released", "hole", "x_mine", "service", "notice"]
        {
            assert_eq!(told(right), Ok(()), "{right}");
        }
        let wrong = told("tol_call").unwrap_err();
        assert_eq!(wrong, "--type tol_call: no event has this type; did you mean tool_call?");
        let wrong = told("something").unwrap_err();
        assert!(wrong.contains("it is one of agent_state_saved, ") && wrong.contains("or begins with x_"), "{wrong}");
        assert!(told("noted").is_err(), "it is only stored under this name");
    }
}
