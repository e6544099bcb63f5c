//! `shellkeep verify`: proves that nothing in a recording was changed, dropped or reordered.

use super::replay::source::{self, local_key};
use super::replay::target::Target;
use crate::cli::DaemonArgs;
use crate::client::Client;
use crate::failure::{CANNOT_START, Failure};
use crate::terminal;
use clap::{Args, ValueHint};
use serde_json::json;
use shellkeep_protocol as wire;
use shellkeep_record::Recording;
use std::path::Path;
use std::process::ExitCode;

/// Arguments of `verify`.
#[derive(Debug, Args)]
#[command(
    after_help = "Each event carries a hash of itself and of the one before it. An export proves itself, also where secrets were
masked in it. A session's own files are checked by its daemon, or here with the key in their data directory.

Examples:
  shellkeep verify demo
  shellkeep verify ./demo.jsonl
  shellkeep verify demo --json | jq .head.hash

Exit codes: 0 intact, 1 not intact, 2 it could not be checked."
)]
pub struct VerifyArgs {
    /// The session, or a file or directory with a recording
    #[arg(value_name = "SESSION|FILE|DIR", value_hint = ValueHint::AnyPath)]
    target: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// Does it.
pub fn execute(args: VerifyArgs) -> Result<ExitCode, Failure> {
    let verdict = check(&args).map_err(|failure| failure.with_code(CANNOT_START))?;
    if args.json {
        terminal::json(&verdict)?;
    } else {
        tell(&verdict);
    }
    Ok(if verdict.intact { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check(args: &VerifyArgs) -> Result<wire::Verdict, Failure> {
    match Target::parse(&args.target)? {
        Target::Session(session) => {
            let path = format!("/v1/sessions/{session}/verify");
            let asked = async {
                let mut client = Client::open(&args.daemon).await?;
                let nothing = json!({});
                Ok(terminal::patiently("checking", client.post(&path, &nothing)).await?)
            };
            source::runtime()?.block_on(asked)
        }
        Target::Path(path) => of_files(&path),
    }
}

fn of_files(path: &Path) -> Result<wire::Verdict, Failure> {
    let opened = if path.is_dir() { Recording::open(path) } else { Recording::open_export(path) };
    let recording = opened.map_err(Failure::client)?;
    let (_, key) = local_key(path);
    if key.is_none() && !recording.is_export() {
        return Err(Failure::client(
            "a session's own files are checked with the key of their data directory, which is not beside them; \
             ask its daemon by the session's name, or export it",
        ));
    }
    // Only a daemon knows how far its session has come.
    let verdict = shellkeep_record::verify(&recording, key.as_ref(), None).map_err(Failure::client)?;
    Ok(shellkeep_server::verdict(verdict))
}

fn tell(verdict: &wire::Verdict) {
    let wire::Verdict { events, masked_fields, .. } = verdict;
    if verdict.intact {
        terminal::line(format!("{}: {events} events, none changed, dropped or reordered", good("intact")));
    } else {
        terminal::line(format!("{}: {events} events are right", bad("NOT INTACT")));
    }
    if let Some(wrong) = &verdict.bad {
        let seq = wrong.seq.map_or_else(String::new, |seq| format!(" (event {seq})"));
        terminal::line(format!("first bad line: {}:{}{seq}: {}", wrong.file, wrong.line, wrong.reason));
    }
    for hole in &verdict.holes {
        let kind = if hole.declared { "lost, as the session says" } else { "missing" };
        terminal::line(format!("events {} to {} are {kind}: {}", hole.from, hole.through, hole.reason));
    }
    if *masked_fields > 0 {
        terminal::line(format!("{masked_fields} fields were masked; the rest is still proven"));
    }
    if let Some(head) = &verdict.head {
        terminal::line(format!("last: event {}, hash {}", head.seq, head.hash));
    }
}

fn good(word: &str) -> String {
    terminal::coloured(word, terminal::Colour::Green)
}

fn bad(word: &str) -> String {
    terminal::coloured(word, terminal::Colour::Red)
}
