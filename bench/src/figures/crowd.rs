//! A thousand live sessions, all busy: what the machine still gets done, beside a thousand raw loops.

use crate::daemon::Daemon;
use crate::fallible::Fallible;
use crate::floor::RawShell;
use crate::http::{Client, HttpLane};
use crate::library::Library;
use crate::report::{Report, Row, Target};
use crate::setup::Setup;
use crate::stats::{self, Pair};
use crate::{lanes, machine};
use shellkeep_session::SessionId;
use std::time::Duration;

const TARGET: Target = Target::RatioAtLeast(0.5);
/// Threads of the driver; more would take processor time from the shells.
const DRIVERS: usize = 2;
/// Descriptors of a session and its raw twin in this process, with some room.
const DESCRIPTORS_EACH: u64 = 12;
/// Descriptors for everything else.
const DESCRIPTORS_APART: u64 = 500;
/// Memory of a session and its raw twin, generously.
const KIBIBYTES_EACH: u64 = 12 << 10;
/// Places beyond those of the sessions.
const SPARE_PLACES: usize = 8;

pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let count = affordable(setup.effort.crowd)?;
    if count < setup.effort.crowd {
        let wanted = setup.effort.crowd;
        report.note(format!("This machine's limits allow {count} live sessions here, not {wanted}."));
    }
    let mut floor = (0..count).map(|_| RawShell::start(&setup.bash)).collect::<Fallible<Vec<_>>>()?;
    // The first answers come when every bash has started, so that no turn measures that.
    lanes::drive(&mut floor, DRIVERS, Duration::ZERO)?;
    by_library(setup, report, &mut floor)?;
    by_daemon(setup, report, &mut floor)
}

fn by_library(setup: &Setup, report: &mut Report, floor: &mut [RawShell]) -> Fallible<()> {
    let count = floor.len();
    let library = Library::start(&setup.bash, count + SPARE_PLACES, 1)?;
    let ids = library.crowd(count)?;
    let Pair { floor: raw, ours } = take_turns(setup, floor, |window| library.drive(&ids, window))?;
    let what = format!("{count} live sessions running `true`, library");
    report.row(Row::rate(what, "commands/s", raw, ours, TARGET));
    let raw = memory_of_each(floor.iter().map(RawShell::pid).collect())?;
    let ours = memory_of_each(shells(&library, &ids)?)?;
    report.row(Row::rate(format!("memory of a live session's shell (PSS, {count} alive)"), "KiB", raw, ours, None));
    Ok(())
}

/// Kibibytes of a process, on average.
pub(super) fn memory_of_each(pids: Vec<u32>) -> Fallible<f64> {
    let sizes = pids.into_iter().map(machine::pss).collect::<Fallible<Vec<u64>>>()?;
    Ok(sizes.iter().sum::<u64>() as f64 / sizes.len().max(1) as f64)
}

/// The shells of sessions that all have one.
pub(super) fn shells(library: &Library, ids: &[SessionId]) -> Fallible<Vec<u32>> {
    let ids = ids.to_vec();
    library.with(move |engine| async move {
        let mut pids = Vec::with_capacity(ids.len());
        for id in &ids {
            pids.extend(engine.get(id).await?.shell_pid);
        }
        if pids.len() == ids.len() { Ok(pids) } else { Err("a session lost its shell".into()) }
    })
}

fn by_daemon(setup: &Setup, report: &mut Report, floor: &mut [RawShell]) -> Fallible<()> {
    let count = floor.len();
    let daemon = Daemon::start(&setup.program, &setup.bash, count + SPARE_PLACES)?;
    let mut client = Client::connect(&daemon.socket())?;
    let mut connections = Vec::with_capacity(count);
    for _ in 0..count {
        let id = client.create()?;
        client.times(&id, "true", 1)?;
        connections.push(HttpLane::connect(&daemon.socket(), &id)?);
    }
    let Pair { floor: raw, ours } = take_turns(setup, floor, |window| lanes::drive(&mut connections, DRIVERS, window))?;
    let what = format!("{count} live sessions running `true`, HTTP with a connection each");
    report.row(Row::rate(what, "commands/s", raw, ours, TARGET));
    report.note("The client of the live sessions over HTTP takes its processor time from the same cores.".to_owned());
    Ok(())
}

fn take_turns(
    setup: &Setup,
    floor: &mut [RawShell],
    mut ours: impl FnMut(Duration) -> Fallible<f64>,
) -> Fallible<Pair<f64>> {
    let (mut raw, mut rates) = (Vec::new(), Vec::new());
    for _ in 0..setup.effort.crowd_rounds {
        raw.push(lanes::drive(floor, DRIVERS, setup.effort.window)?);
        rates.push(ours(setup.effort.window)?);
    }
    Ok(Pair { floor: stats::median(raw), ours: stats::median(rates) })
}

/// How many sessions, each beside a raw loop, this machine can hold.
pub(super) fn affordable(wanted: usize) -> Fallible<usize> {
    use rustix::process::{Resource, getrlimit};
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let by_descriptors = descriptors.saturating_sub(DESCRIPTORS_APART) / DESCRIPTORS_EACH;
    // Half for the raw loops and half for ours, of half of what the user may have.
    let by_processes = getrlimit(Resource::Nproc).current.unwrap_or(u64::MAX) / 4;
    let by_memory = machine::available()? / KIBIBYTES_EACH;
    let most = usize::try_from(by_descriptors.min(by_processes).min(by_memory)).unwrap_or(usize::MAX);
    if most == 0 { Err("the limits allow no session at all".into()) } else { Ok(wanted.min(most)) }
}
