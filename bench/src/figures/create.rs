//! Making sessions, and what one costs while it sleeps.

use crate::daemon::Daemon;
use crate::fallible::Fallible;
use crate::http::Client;
use crate::library::{self, Library};
use crate::report::{Report, Row};
use crate::setup::Setup;
use crate::{machine, stats};
use std::time::Instant;

const LIVE_SHELLS: usize = 8;
/// Turns of making sessions in the daemon; its allocator grows in steps, which only many sessions even out.
const DAEMON_ROUNDS: usize = 5;

pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let count = setup.effort.created;
    let library = Library::start(&setup.bash, LIVE_SHELLS, 1)?;
    let mut rates = Vec::new();
    for _ in 0..setup.effort.rounds {
        rates.push(library.with(move |engine| async move {
            let start = Instant::now();
            for _ in 0..count {
                library::create(&engine).await?;
            }
            Ok(count as f64 / start.elapsed().as_secs_f64())
        })?);
    }
    report.row(Row::alone(
        "sessions created, library, one after the other".to_owned(),
        "a second",
        stats::median(rates),
    ));
    dormant(setup, report)
}

fn dormant(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let count = setup.effort.created;
    let daemon = Daemon::start(&setup.program, &setup.bash, LIVE_SHELLS)?;
    let mut client = Client::connect(&daemon.socket())?;
    let mut make = |count: usize| -> Fallible<u64> {
        for _ in 0..count {
            client.create()?;
        }
        machine::resident(daemon.pid())
    };
    let before = make(count)?;
    let after = make(count * DAEMON_ROUNDS)?;
    let each = after.saturating_sub(before) as f64 / (count * DAEMON_ROUNDS) as f64;
    let what = format!("memory of a dormant session (growth of the daemon by {} of them)", count * DAEMON_ROUNDS);
    report.row(Row::alone(what, "KiB", each));
    Ok(())
}
