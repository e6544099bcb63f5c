//! What confining a session costs: the same work without a sandbox, behind a fence and in a room, in turns. And what a
//! shell costs that is forked from a loaded bash: the memory of each, and how many dormant sessions wake in a second.

use super::scale::WOKEN;
use super::scale::by_daemon::Crowd;
use super::{crowd, wake};
use crate::fallible::Fallible;
use crate::library::{self, Library};
use crate::report::{Report, Row, Target};
use crate::setup::Setup;
use crate::stats::{Rounds, Spread, digits};
use shellkeep_process::Forking;
use shellkeep_session::{Sandbox, SessionId};
use std::time::{Duration, Instant};

/// What is compared. Users of agents are a mode of a daemon that runs as root.
const SIDES: [Sandbox; 3] = [Sandbox::None, Sandbox::Fence, Sandbox::Room];
/// More live shells than a turn makes sessions.
const LIVE_SHELLS: usize = 200;
const SPARE_SHELLS: usize = 2;
/// Untimed commands before each turn.
const SETTLE: usize = 50;
/// How long nothing is prepared before a session wakes. An agent thinks for longer between two commands; a wake at the moment
/// when the last spare is ready would share the processors with what is left of its preparation.
const QUIET: Duration = Duration::from_millis(30);
/// Shells whose memory is looked at, of each kind.
const SHELLS: usize = 100;
/// A command behind a fence, against one without.
const COMMAND: Target = Target::RatioAtMost(1.03);
/// A new session without a sandbox answers its first command within this many milliseconds.
const FIRST_MS: f64 = 1.0;
/// What a forked shell takes, against a started one.
const MEMORY: Target = Target::RatioAtMost(0.6);

pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let library = Library::start(&setup.bash, LIVE_SHELLS, SPARE_SHELLS)?;
    let sides = SIDES.map(|sandbox| library.create_confined(sandbox).map(|session| (sandbox, session)));
    let sides = sides.into_iter().collect::<Fallible<Vec<_>>>()?;
    commands(setup, report, &library, &sides)?;
    wakings(setup, report, &library, &sides)?;
    first_commands(setup, report, &library)?;
    drop(library);
    memory(setup, report)?;
    SIDES.into_iter().try_for_each(|sandbox| random_wakings(setup, report, sandbox))
}

fn place(sandbox: Sandbox) -> &'static str {
    match sandbox {
        Sandbox::None => "without a sandbox",
        Sandbox::User => "as a user of its own",
        Sandbox::Fence => "behind a fence",
        Sandbox::Room => "in a room",
    }
}

/// Each side in turn, so often in a round; the middle of the rounds of each, that without a sandbox first.
fn in_turns<S>(
    setup: &Setup,
    sides: &[(Sandbox, S)],
    turns: usize,
    turn: impl Fn(Sandbox, &S) -> Fallible<Vec<Duration>>,
) -> Fallible<(Spread, Vec<(Sandbox, Spread)>)> {
    let mut rounds: Vec<Rounds> = sides.iter().map(|_| Rounds::default()).collect();
    for _ in 0..setup.effort.rounds {
        let mut times = vec![Vec::new(); sides.len()];
        for _ in 0..turns {
            for ((sandbox, side), times) in sides.iter().zip(&mut times) {
                times.extend(turn(*sandbox, side)?);
            }
        }
        rounds.iter_mut().zip(times).for_each(|(rounds, times)| rounds.push(times));
    }
    let mut middles = sides.iter().zip(&rounds).map(|((sandbox, _), rounds)| (*sandbox, rounds.middle()));
    let (_, without) = middles.next().ok_or("nothing was measured")?;
    Ok((without, middles.collect()))
}

fn commands(setup: &Setup, report: &mut Report, library: &Library, sides: &[(Sandbox, SessionId)]) -> Fallible<()> {
    let (without, confined) = in_turns(setup, sides, 1, |_, session| {
        library.times(session, "true", "", SETTLE)?;
        let times = library.times(session, "true", "", setup.effort.commands)?;
        library.settle()?;
        Ok(times)
    })?;
    for (sandbox, ours) in confined {
        let what = format!("`true`, library, {}; floor: without a sandbox", place(sandbox));
        let target = (sandbox == Sandbox::Fence).then_some(COMMAND);
        report.row(Row::latency(what, without, ours, target));
    }
    Ok(())
}

fn wakings(setup: &Setup, report: &mut Report, library: &Library, sides: &[(Sandbox, SessionId)]) -> Fallible<()> {
    // All of them have run commands, so there are spares for each sandbox.
    let spares = SPARE_SHELLS * sides.len();
    let (without, confined) = in_turns(setup, sides, setup.effort.starts, |_, session| {
        let session = session.clone();
        library.with(move |engine| async move { Ok(vec![wake::wake(&engine, &session, spares, QUIET).await?]) })
    })?;
    for (sandbox, ours) in confined {
        let most = if sandbox == Sandbox::Fence { 0.1e-3 } else { 0.5e-3 };
        let what = format!(
            "a dormant session wakes for `true`, {} ms after all spares are prepared, library, {}; floor: without a sandbox",
            QUIET.as_millis(),
            place(sandbox)
        );
        report.row(Row::added(what, without, ours, most));
    }
    Ok(())
}

fn first_commands(setup: &Setup, report: &mut Report, library: &Library) -> Fallible<()> {
    let sides = SIDES.map(|sandbox| (sandbox, ()));
    let (without, confined) = in_turns(setup, &sides, 1, |sandbox, ()| {
        let count = setup.effort.starts;
        library.with(move |engine| async move {
            let mut times = Vec::with_capacity(count);
            for _ in 0..count {
                let id = library::create_confined(&engine, sandbox).await?;
                let start = Instant::now();
                library::run(&engine, &id, "true").await?;
                times.push(start.elapsed());
                // Not deleted: ext4 does not use the inodes of deleted files again for minutes, and looks at each of them
                // whenever it makes a file.
                engine.hibernate(&id).await?;
            }
            Ok(times)
        })
    })?;
    let milliseconds = without.p50 * 1000.0;
    report.row(Row::limit("first command of a new session, library".to_owned(), milliseconds, "ms", FIRST_MS));
    for (sandbox, ours) in confined {
        let what = format!("first command of a new session, library, {}; floor: without a sandbox", place(sandbox));
        report.row(Row::latency(what, without, ours, None));
    }
    Ok(())
}

/// All of them are alive at once, so that each kind has the same share of what all have in common.
fn memory(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let start = |forking| -> Fallible<(Library, Vec<SessionId>)> {
        let library = Library::start_forking(&setup.bash, LIVE_SHELLS, forking)?;
        let ids = library.crowd(SHELLS)?;
        Ok((library, ids))
    };
    let (started, forked) = (start(Forking::Off)?, start(Forking::Auto)?);
    let of = |(library, ids): &(Library, Vec<SessionId>)| crowd::memory_of_each(crowd::shells(library, ids)?);
    let what =
        format!("memory of a live shell that was forked (PSS, {SHELLS} alive); floor: as many that were started");
    report.row(Row::rate(what, "KiB", of(&started)?, of(&forked)?, MEMORY));
    Ok(())
}

fn random_wakings(setup: &Setup, report: &mut Report, sandbox: Sandbox) -> Fallible<()> {
    let count = setup.effort.created as u64;
    let sessions = Crowd::start_with(setup, &[("SHELLKEEP_SANDBOX", sandbox.as_str())])?;
    sessions.fill(count)?;
    let (spawns, wakes) = sessions.wake(setup, count)?;
    sessions.prove(count)?;
    let what = format!(
        "a random one of {} dormant sessions runs `true`, HTTP on eight connections, {}, beside starts of `bash -c true`",
        digits(count as f64),
        place(sandbox)
    );
    report.row(Row::rate(what, "a second", spawns, wakes, (sandbox == Sandbox::None).then_some(WOKEN)));
    Ok(())
}
