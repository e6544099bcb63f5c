//! `replay --exec`: runs the recorded commands again in a new session, and reports the first difference.

mod even;
mod files;
mod outputs;
mod report;
mod stage;
mod steps;
mod typed;
mod written;

use super::source::Events;
use super::target::Target;
use crate::cli::DaemonArgs;
use crate::client::Client;
use crate::failure::{CANNOT_START, Failure};
use crate::terminal;
use even::Even;
use outputs::Difference;
use report::{First, Report, StepDifference};
use serde_json::{Value, json};
use shellkeep_protocol::{
    Place, RewindRequest, RunRequest, RunResponse, Session, StderrChoice, StreamName, TimeoutChoice,
};
use shellkeep_record::Line;
use shellkeep_record::export::ansi;
use shellkeep_record::player::Player;
use shellkeep_session::SessionId;
use shellkeep_terminal::Signals;
use stage::{Snapshot, Stage, Start};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use steps::{FORKED_FILES, Plan, ReplayAction};
use typed::Typed;
use written::Saved;

/// A command may take this many times its recorded duration.
const PATIENCE: f64 = 10.0;
/// Plus this many seconds: the machine may be busy.
const LEAST_PATIENCE: f64 = 60.0;
/// The longest a command may take, in seconds: what the daemon allows.
const MOST_PATIENCE: f64 = 86_400.0;
/// Why a difference proves nothing.
const FILES_MISSING: &str = "a file that was written through the API is missing here";
/// Likewise, from the first step on.
const BEGINNING_MISSING: &str = "the files that the session began with are not here; pass them with --from";
/// Exit codes of a program that a signal ended, as shells report it.
const SIGNALLED: u8 = 128;

/// The options.
pub struct Wish {
    /// What is replayed.
    pub target: Target,
    /// Files to begin with, instead of those that the session began with.
    pub from: Option<PathBuf>,
    /// Whether to compare without normalising.
    pub exact: bool,
    /// Files that are not compared.
    pub ignore: Vec<PathBuf>,
    /// Whether the new session stays.
    pub keep: bool,
    /// Whether the report is JSON.
    pub json: bool,
}

/// Runs the command. An error that prevents the replay has its own exit code.
pub async fn run(wish: Wish, daemon: &DaemonArgs) -> Result<ExitCode, Failure> {
    replay(wish, daemon).await.map_err(|failure| failure.with_code(CANNOT_START))
}

async fn replay(wish: Wish, daemon: &DaemonArgs) -> Result<ExitCode, Failure> {
    let mut signals = Signals::listen().map_err(Failure::client)?;
    let mut events = Events::open(&wish.target, daemon).await?;
    let mut client = Client::open(daemon).await?;
    let snapshot = Snapshot::read(&wish.target, &mut events, &mut client).await?;
    let recorded = stage::recorded_name(&wish.target, &snapshot, &events);
    let mut player = Player::open(events, false).map_err(Failure::client)?;
    let mut plan = steps::plan(&mut player).map_err(Failure::client)?;
    let start = Start::find(&wish.target, wish.from.clone(), plan.first(), &mut client).await;
    let setting = Stage::set(&snapshot, &recorded, &start, &mut client);
    let stage = terminal::patiently("copying the files", setting).await?;
    if stage.has_saved_files {
        plan.left_out.remove(FORKED_FILES);
    }
    let begins_alike = stage.has_saved_files || wish.from.is_some() || !plan.began_with_files;
    let even = if wish.exact {
        Even::exact()
    } else {
        Even::new(&[&stage.old_root, &stage.new_root], &[&recorded, &stage.session]).map_err(Failure::client)?
    };
    let mut work = Work {
        events: player.source(),
        client: &mut client,
        stage: &stage,
        even: &even,
        not_compared: Vec::new(),
        not_run: 0,
        reached: Vec::new(),
        recorded: match &wish.target {
            Target::Session(session) => Some(session),
            Target::Path(_) => None,
        },
        lacks_files: (!begins_alike).then_some(BEGINNING_MISSING),
    };
    let outcome = tokio::select! {
        outcome = work.all(&plan, &wish) => outcome,
        number = signals.next() => {
            terminal::notice("stopped");
            if !wish.keep {
                // A second connection: the first one waits for a command.
                let mut client = Client::open(daemon).await?;
                stage.clear(&mut client).await;
            }
            return Ok(ExitCode::from(SIGNALLED + number));
        }
    };
    if !wish.keep {
        stage.clear(&mut client).await;
    }
    let found = outcome?;
    let report = Report {
        identical: found.first.is_none(),
        recording: recorded,
        session: stage.session,
        kept: wish.keep,
        compared: found.compared,
        steps: plan.steps.len(),
        left_out: plan.left_out,
        not_compared: found.not_compared,
        files: found.files,
        first_difference: found.first,
    };
    report.print(wish.json)?;
    Ok(if report.identical { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What was found.
struct Found {
    compared: usize,
    files: Option<u64>,
    first: Option<First>,
    not_compared: Vec<String>,
}

/// What a command's output consists of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// What it printed.
    Output,
    /// What it printed and what was typed, which the terminal echoes whenever it arrives.
    Terminal,
}

/// The state of a replay.
struct Work<'a> {
    events: &'a mut Events,
    client: &'a mut Client,
    stage: &'a Stage,
    even: &'a Even,
    not_compared: Vec<String>,
    /// How many steps were not run.
    not_run: usize,
    /// The points that the new session has reached, in order.
    reached: Vec<Reached>,
    /// The session that was recorded, if the daemon has it.
    recorded: Option<&'a SessionId>,
    /// Which files are missing here, if some are, so that a difference proves nothing.
    lacks_files: Option<&'static str>,
}

/// A point in both sessions.
struct Reached {
    /// Number of the record in the recording.
    recorded: u64,
    /// The number at which the new session was at the same point.
    here: u64,
}

impl Work<'_> {
    /// All steps, and then the files.
    async fn all(&mut self, plan: &Plan, wish: &Wish) -> Result<Found, Failure> {
        let total = plan.steps.len();
        // Only a rewind needs to know how far each step has come.
        let goes_back = plan.steps.iter().any(|step| matches!(step, ReplayAction::Rewind { .. }));
        if goes_back {
            self.reached(0).await?;
        }
        for (place, step) in plan.steps.iter().enumerate() {
            let words = format!("command {} of {total}", place + 1);
            match (terminal::patiently(&words, self.step(place + 1, step)).await?, self.lacks_files) {
                (Some(difference), Some(missing)) => {
                    let what = difference.what;
                    self.not_compared.push(format!("step {}: {what}, because {missing}", place + 1));
                    self.not_run += 1;
                }
                (Some(difference), None) => return Ok(self.found(place, None, Some(First::Step(difference)))),
                (None, _) => {}
            }
            if goes_back {
                self.reached(last_record(step)).await?;
            }
        }
        if let Some(missing) = self.lacks_files {
            self.not_compared.push(format!("files: {missing}"));
            return Ok(self.found(total, None, None));
        }
        let (old, new) = (Path::new(&self.stage.old_root), Path::new(&self.stage.new_root));
        if !old.is_dir() || !new.is_dir() {
            let why =
                if old.is_dir() { "the new workspace was never used" } else { "the recorded workspace does not exist" };
            self.not_compared.push(format!("files: {why}"));
            return Ok(self.found(total, None, None));
        }
        match files::compare(old, new, self.even, &wish.ignore) {
            Ok(compared) => Ok(self.found(total, Some(compared.files), compared.first.map(First::File))),
            Err(error) => {
                self.not_compared.push(format!("files: {error}"));
                Ok(self.found(total, None, None))
            }
        }
    }

    /// What was found in the first `compared` steps.
    fn found(&mut self, compared: usize, files: Option<u64>, first: Option<First>) -> Found {
        let compared = compared - self.not_run;
        Found { compared, files, first, not_compared: std::mem::take(&mut self.not_compared) }
    }

    /// Notes how far the new session is at this record of the recorded one.
    async fn reached(&mut self, recorded: u64) -> Result<(), Failure> {
        let session: Session = self.client.get(&format!("/v1/sessions/{}", self.stage.session)).await?;
        self.reached.push(Reached { recorded, here: session.seq });
        Ok(())
    }

    async fn rewind(&mut self, to: u64) -> Result<(), Failure> {
        let reached = self.reached.iter().rfind(|reached| reached.recorded <= to);
        let here = reached.map_or(0, |reached| reached.here);
        let request = RewindRequest { to: Place::Seq(here), dry_run: None, services: None, force: None };
        let path = format!("/v1/sessions/{}/rewind", self.stage.session);
        self.client.post::<_, Value>(&path, &request).await?;
        Ok(())
    }

    async fn step(&mut self, number: usize, step: &ReplayAction) -> Result<Option<StepDifference>, Failure> {
        match step {
            ReplayAction::Restart { .. } => {
                let path = format!("/v1/sessions/{}/restart", self.stage.session);
                self.client.post::<_, Value>(&path, &json!({})).await?;
                Ok(None)
            }
            ReplayAction::Rewind { to, .. } => self.rewind(*to).await.map(|()| None),
            ReplayAction::File { seq, saved } => {
                let line = self.event(*seq)?;
                let session = self.recorded.filter(|_| *saved > 0);
                let saved = session.map(|session| Saved { session, checkpoint: *saved });
                if !written::repeat(self.client, &self.stage.session, &line, saved).await {
                    self.not_compared.push(format!("step {number}: a file written through the API cannot be had"));
                    self.lacks_files.get_or_insert(FILES_MISSING);
                    self.not_run += 1;
                }
                Ok(None)
            }
            ReplayAction::Background { start, seconds } => {
                let request = self.request(*start)?;
                let limit = seconds.clamp(0.1, MOST_PATIENCE);
                let request = RunRequest { on_timeout: Some(TimeoutChoice::Background), ..request };
                self.run(request, limit, Vec::new()).await?;
                self.not_compared.push(format!("step {number}: it moved to the background"));
                Ok(None)
            }
            ReplayAction::Run { start, end, typed } => {
                let Some(typed) = self.typed(*start, typed)? else {
                    let why = "what was typed into it was not recorded in full";
                    self.not_compared.push(format!("step {number}: it was not run, because {why}"));
                    self.not_run += 1;
                    return Ok(None);
                };
                let (request, result) = (self.request(*start)?, self.event(*end)?);
                let took = result.data["duration"].as_f64().unwrap_or(0.0);
                let timed_out = result.data["status"] == "timed_out";
                let limit = if timed_out { took } else { took * PATIENCE + LEAST_PATIENCE };
                let command = request.command.clone();
                let shown = if typed.is_empty() || request.tty != Some(true) { Shown::Output } else { Shown::Terminal };
                let run = self.run(request, limit.clamp(0.1, MOST_PATIENCE), typed).await?;
                let found = self.compare(number, &result, &run, shown)?;
                Ok(found.map(|(what, difference)| StepDifference {
                    step: number,
                    seq: *end,
                    command,
                    what,
                    difference,
                }))
            }
        }
    }

    /// A recorded command, as it was requested.
    fn request(&mut self, start: u64) -> Result<RunRequest, Failure> {
        let line = self.event(start)?;
        let told = ["/command", "/cwd", "/env", "/stdin"];
        if line.proof.masked.keys().any(|path| told.iter().any(|name| path.starts_with(name))) {
            return Err(Failure::client(format!(
                "event {start}: a part of the command was masked, so it cannot be run again; replay a recording without masks"
            )));
        }
        let text = |name: &str| line.data.get(name).and_then(Value::as_str).map(str::to_owned);
        let not_text = ["command_base64", "cwd_base64"].iter().any(|name| line.data.get(*name).is_some());
        let Some(command) = text("command").filter(|_| !not_text) else {
            return Err(Failure::client(format!("event {start}: the command is not UTF-8 and cannot be sent again")));
        };
        let stdin_base64 = text("stdin_base64");
        let stdin = text("stdin").filter(|_| stdin_base64.is_none());
        if stdin.is_none() && stdin_base64.is_none() && line.data.get("stdin_bytes").is_some() {
            return Err(Failure::client(format!(
                "event {start}: the command's input was too long to be recorded, so it cannot be run again"
            )));
        }
        let env = line.data.get("env").map(|env| serde_json::from_value(env.clone())).transpose();
        let env = env.map_err(|error| Failure::client(format!("event {start}: env: {error}")))?;
        let tty = line.data.get("tty").and_then(Value::as_bool);
        let is_merged = line.data.get("merged").and_then(Value::as_bool).unwrap_or(false);
        let stderr = is_merged.then_some(StderrChoice::Merge);
        Ok(RunRequest { command, cwd: text("cwd"), env, stdin, stdin_base64, tty, stderr, ..RunRequest::default() })
    }

    fn event(&mut self, seq: u64) -> Result<Line, Failure> {
        steps::event(self.events, seq).map_err(Failure::client)
    }

    /// What was typed into a command; `None` if not all of it was recorded.
    fn typed(&mut self, start: u64, typed: &[u64]) -> Result<Option<Vec<Typed>>, Failure> {
        if typed.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let started = self.event(start)?.timestamp;
        let lines: Result<Vec<Line>, Failure> = typed.iter().map(|seq| self.event(*seq)).collect();
        Ok(typed::read(&lines?, started))
    }

    async fn run(&mut self, request: RunRequest, timeout: f64, typed: Vec<Typed>) -> Result<RunResponse, Failure> {
        let command = self.stage.here(&request.command);
        let cwd = request.cwd.as_deref().map(|cwd| self.stage.here(cwd));
        let request = RunRequest { command, cwd, timeout: Some(timeout), ..request };
        if !typed.is_empty() {
            return typed::run(self.client, &self.stage.session, request, typed).await;
        }
        Ok(self.client.post(&format!("/v1/sessions/{}/run", self.stage.session), &request).await?)
    }

    /// What differs between a recorded result and a new one: how it ended, where the session is, what was printed.
    fn compare(
        &mut self,
        number: usize,
        old: &Line,
        new: &RunResponse,
        shown: Shown,
    ) -> Result<Option<(&'static str, Difference)>, Failure> {
        let masked = |path: &str| old.proof.masked.contains_key(path);
        let status = serde_json::to_value(new.status).map_err(Failure::client)?;
        let cwd = |text: &str| Value::from(String::from_utf8_lossy(&self.even.named(text.as_bytes())).into_owned());
        let old_cwd = old.data["cwd"].as_str().map_or(Value::Null, cwd);
        let facts = [
            ("status", old.data["status"].clone(), status),
            ("exit_code", old.data["exit_code"].clone(), json!(new.exit_code)),
            ("cwd", old_cwd.clone(), if old_cwd.is_null() { Value::Null } else { cwd(&new.cwd) }),
        ];
        let fact = facts.into_iter().find(|(name, was, is)| was != is && !masked(&format!("/{name}")));
        if let Some((what, was, is)) = fact {
            // An exit code alone explains little.
            let words = if what == "exit_code" { last_words(new) } else { String::new() };
            let (expected, got) = (Some(bare(&was)), Some(bare(&is) + &words));
            return Ok(Some((what, Difference { line: 0, expected, got })));
        }
        if old.data["status"] == "timed_out" {
            self.not_compared.push(format!("step {number}: output, because it timed out"));
            return Ok(None);
        }
        if shown == Shown::Terminal {
            self.not_compared.push(format!("step {number}: output, because its terminal was typed into"));
            return Ok(None);
        }
        for (what, field, stream) in
            [("stdout", "/output", StreamName::Stdout), ("stderr", "/stderr", StreamName::Stderr)]
        {
            if masked(field) || masked(&format!("/{what}_base64")) {
                self.not_compared.push(format!("step {number}: {what}, because it was masked"));
                continue;
            }
            let expected = outputs::recorded(old, stream, self.events).map_err(Failure::client)?;
            if !expected.whole {
                self.not_compared.push(format!(
                    "step {number}: {what} beyond its beginning, because an export does not contain the \
                        rest"
                ));
            }
            let got = outputs::fresh(new, stream, &self.stage.session, self.client).map_err(Failure::client)?;
            if let Some(difference) = outputs::compare(expected, got, self.even).map_err(Failure::client)? {
                return Ok(Some((what, difference)));
            }
        }
        Ok(None)
    }
}

/// The record with which a step was done.
fn last_record(step: &ReplayAction) -> u64 {
    match step {
        ReplayAction::Run { end, .. } => *end,
        ReplayAction::Background { start, .. } => *start,
        ReplayAction::File { seq, saved } => *seq.max(saved),
        ReplayAction::Restart { seq } | ReplayAction::Rewind { seq, .. } => *seq,
    }
}

/// The last line that a command printed.
fn last_words(run: &RunResponse) -> String {
    let last = [&run.stderr, &run.stdout].into_iter().find_map(|text| text.trim_end().lines().last());
    last.map_or_else(String::new, |line| format!(" ({})", ansi::plain(line)))
}

fn bare(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "none".to_owned(),
        other => other.to_string(),
    }
}
