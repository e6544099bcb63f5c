//! Much output: how fast it goes through, and what it does to the daemon's memory.

use crate::daemon::Daemon;
use crate::fallible::Fallible;
use crate::http::{self, Client};
use crate::library::Library;
use crate::report::{Report, Row, Target};
use crate::setup::Setup;
use crate::{floor, machine, stats};
use shellkeep_runtime::{OutputQuery, RunView, Stream};
use shellkeep_session::SessionId;
use std::time::{Duration, Instant};

const BYTES: u64 = 64 << 20;
const TARGET: Target = Target::RatioAtLeast(0.5);
const MEMORY_MIB: f64 = 16.0;
const LIVE_SHELLS: usize = 8;
/// Short commands before memory is looked at, so that what every daemon needs once is not counted.
const SETTLE: usize = 200;
/// Bytes that are read back from the middle of the output.
const LOOKED_AT: u64 = 4096;

fn commands() -> [(&'static str, String); 2] {
    [
        ("`head -c 64M /dev/zero`", format!("head -c {BYTES} /dev/zero")),
        ("`yes | head -c 64M`", format!("yes | head -c {BYTES}")),
    ]
}

pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let library = Library::start(&setup.bash, LIVE_SHELLS, 1)?;
    for (name, command) in commands() {
        let (mut floor, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..setup.effort.output_rounds {
            floor.push(speed(floor::output(&setup.bash, &command, BYTES)?));
            ours.push(speed(through(&library, &command)?));
        }
        let what = format!("64 MiB of output, {name}, library");
        report.row(Row::rate(what, "MiB/s", stats::median(floor), stats::median(ours), TARGET));
    }
    drop(library);
    for (name, command) in commands() {
        let (growth, elapsed) = memory(setup, &command)?;
        let what = format!("daemon's memory during 64 MiB of output over HTTP, {name}: peak above what it had");
        report.row(Row::limit(what, growth, "MiB", MEMORY_MIB));
        report.note(format!("The same 64 MiB over HTTP ({name}) were answered after {}.", stats::time(elapsed)));
    }
    Ok(())
}

fn speed(elapsed: Duration) -> f64 {
    BYTES as f64 / f64::from(1 << 20) / elapsed.as_secs_f64()
}

/// A session of its own for each turn: outputs are kept, and 64 MiB of each turn need not stay on disk.
fn through(library: &Library, command: &str) -> Fallible<Duration> {
    let session = library.create()?;
    library.run(&session, "true")?;
    let start = Instant::now();
    let view = library.run(&session, command)?;
    let elapsed = start.elapsed();
    check(library, &session, &view)?;
    library.destroy(&session)?;
    Ok(elapsed)
}

/// Whether all of it came and can be read back: an engine that threw output away would be faster.
fn check(library: &Library, session: &SessionId, view: &RunView) -> Fallible<()> {
    if view.stdout.total != BYTES {
        return Err(format!("{} bytes came", view.stdout.total).into());
    }
    let (session, run_id) = (session.clone(), view.run_id.clone());
    let (stream, offset) = (Stream::Stdout, BYTES / 2);
    let query = OutputQuery { stream, offset, limit: LOOKED_AT, tail: None, grep: None };
    let page = library.with(move |engine| async move { Ok(engine.output(&session, &run_id, query).await?) })?;
    if page.bytes.len() as u64 == LOOKED_AT { Ok(()) } else { Err("the output cannot be read back".into()) }
}

/// MiB above what the daemon had, at its peak, and the seconds it took.
fn memory(setup: &Setup, command: &str) -> Fallible<(f64, f64)> {
    let daemon = Daemon::start(&setup.program, &setup.bash, LIVE_SHELLS)?;
    let mut client = Client::connect(&daemon.socket())?;
    let session = client.create()?;
    client.times(&session, "true", SETTLE)?;
    machine::forget_peak(daemon.pid())?;
    let before = machine::resident(daemon.pid())?;
    let start = Instant::now();
    http::check(client.call(&http::run_request(&session, command))?)?;
    let elapsed = start.elapsed().as_secs_f64();
    let after = machine::peak(daemon.pid())?;
    Ok((after.saturating_sub(before) as f64 / 1024.0, elapsed))
}
