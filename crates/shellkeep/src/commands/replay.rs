//! `shellkeep replay`: shows what happened in a session step by step, as a list or in real time, or runs it again.

mod exec;
mod play;
mod print;
pub mod source;
pub mod target;
mod tui;

use crate::cli::DaemonArgs;
use crate::failure::Failure;
use clap::{Args, ValueHint};
pub use print::row;
use shellkeep_record::player::{Pace, Player};
use source::Events;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use target::Target;

/// Arguments of `replay`.
#[derive(Debug, Args)]
#[command(
    after_help = "SESSION is the name of a session; an argument that contains a slash or ends with .jsonl is a file created by `export`, or a session's directory.

On a terminal it opens a player: → or space goes forward, ← back, g to a number, t to the next event of a type, /
searches, s shows or hides secrets (hidden at first), o opens the output, ? shows all keys, q quits.

With --exec it runs the recorded commands again, in a new session with the files that the recorded one started with, and
compares exit codes, output and files. A recording in a file has no files: pass them with --from. Paths of the workspace,
times and durations are normalised first; --exact compares them too.

Examples:
  shellkeep replay demo
  shellkeep replay --fast demo
  shellkeep replay --speed 4 --idle-limit 1s ./demo.jsonl
  shellkeep replay --json demo | jq 'select(.event_type == \"tool_call\").data.exit_code'
  shellkeep replay --exec build
  shellkeep replay --exec --from ./project ./build.jsonl

Exit codes: 0 done, 1 not done (no such session, not a recording), 2 wrong usage, 128+n ended by signal n.
With --exec: 0 everything was the same, 1 something differed, 2 it could not be run."
)]
pub struct ReplayArgs {
    /// The session, or a file or directory with a recording
    #[arg(value_name = "SESSION|FILE|DIR", value_hint = ValueHint::AnyPath)]
    target: String,
    /// Print the key events only: messages, commands, answers and failures
    #[arg(long, conflicts_with_all = ["speed", "exec"])]
    fast: bool,
    /// Print JSON, one event per line; with --exec, one report
    #[arg(long)]
    json: bool,
    /// Play in real time, this many times as fast
    #[arg(long, value_name = "N", conflicts_with_all = ["json", "exec"], value_parser = speed)]
    speed: Option<f64>,
    /// With --speed: no pause is longer than this [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "speed")]
    idle_limit: Option<Duration>,
    /// Mask secrets
    #[arg(long, conflicts_with = "exec")]
    redact: bool,
    /// Run the recorded commands again and compare
    #[arg(long)]
    exec: bool,
    /// With --exec: start with a copy of these files [default: those that the session started with]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "exec")]
    from: Option<PathBuf>,
    /// With --exec: compare byte for byte, including times and paths
    #[arg(long, requires = "exec")]
    exact: bool,
    /// With --exec: do not compare files of this name, or below this path; may be repeated
    #[arg(long, value_name = "PATH", requires = "exec")]
    ignore: Vec<PathBuf>,
    /// With --exec: keep the new session
    #[arg(long, requires = "exec")]
    keep: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

fn speed(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "a number, as in 2 or 0.5".to_owned())?;
    if (0.01..=1000.0).contains(&number) { Ok(number) } else { Err("a number from 0.01 to 1000".to_owned()) }
}

/// `500ms`, `2s`, `1.5`, `3m`.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "a time, as in 500ms, 2s or 1m".to_owned();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let scale = match &text[digits.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(number * scale).map_err(|_| wrong())
}

/// The longest pause by default.
const IDLE_LIMIT: Duration = Duration::from_secs(2);

pub fn execute(args: ReplayArgs) -> Result<ExitCode, Failure> {
    let runtime = source::runtime()?;
    let done = runtime.block_on(act(args));
    // A thread may still wait for a key; it need not end.
    runtime.shutdown_background();
    done
}

async fn act(args: ReplayArgs) -> Result<ExitCode, Failure> {
    let target = Target::parse(&args.target)?;
    if args.exec {
        let wish = exec::Wish {
            target,
            from: args.from,
            exact: args.exact,
            ignore: args.ignore,
            keep: args.keep,
            json: args.json,
        };
        return exec::run(wish, &args.daemon).await;
    }
    let events = Events::open(&target, &args.daemon).await?;
    let printed = args.fast || args.json || !is_usable();
    // The player hides secrets until the user shows them.
    let hidden = args.redact || !(printed || args.speed.is_some());
    let mut player = Player::open(events, hidden).map_err(Failure::client)?;
    if let Some(speed) = args.speed {
        let pace = Pace::new(speed, args.idle_limit.unwrap_or(IDLE_LIMIT));
        return play::play(&mut player, pace).await;
    }
    if printed {
        return print::print(&mut player, print::Style { fast: args.fast, json: args.json });
    }
    tui::run(player, args.redact).await
}

/// Whether there is a terminal that can be drawn on.
fn is_usable() -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    !dumb && std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let read = |text: &str| duration(text).ok();
        assert_eq!(read("500ms"), Some(Duration::from_millis(500)));
        assert_eq!((read("2s"), read("2"), read("1.5s")), (read("2000ms"), read("2s"), read("1500ms")));
        assert_eq!(read("1m"), Some(Duration::from_secs(60)));
        for wrong in ["", "s", "-1s", "2 s", "2x", "nan", "1e400"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert!(speed("2").is_ok() && speed("0").is_err() && speed("x").is_err());
    }
}
