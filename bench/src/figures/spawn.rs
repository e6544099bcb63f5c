//! A new bash for every command, as tools without sessions do it: the reference for what a live session saves.

use crate::fallible::Fallible;
use crate::library::Library;
use crate::report::{Bar, Kind, Report, Row};
use crate::setup::Setup;
use crate::stats::Rounds;
use crate::{floor, stats};
use std::time::Duration;

const ARGUMENTS: [&str; 3] = ["--norc", "-c", "true"];

pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let library = Library::start(&setup.bash, 4, 1)?;
    let session = library.create()?;
    library.run(&session, "true")?;
    let (mut spawned, mut ours) = (Rounds::default(), Rounds::default());
    let mut rates = Vec::new();
    for _ in 0..setup.effort.rounds {
        let times = (0..setup.effort.starts).map(|_| floor::spawn(&setup.bash, &ARGUMENTS));
        let times = times.collect::<Fallible<Vec<Duration>>>()?;
        rates.push(times.len() as f64 / times.iter().sum::<Duration>().as_secs_f64());
        spawned.push(times);
        ours.push(library.times(&session, "true", "", setup.effort.starts)?);
    }
    let (spawned, ours) = (spawned.middle(), ours.middle());
    let row =
        Row::latency("`true`, library, beside fork and exec of `bash --norc -c true`".to_owned(), spawned, ours, None);
    report.row(row);
    let rate = stats::digits(stats::median(rates));
    report.note(format!("Fork and exec of `bash --norc -c true`, one after the other: {rate} a second."));
    let label = "fork+exec of bash -c true".to_owned();
    report.bars.push(Bar { label, kind: Kind::Floor, seconds: spawned.p50 });
    Ok(())
}
