//! Short commands in a session whose shell is live: the cost that every call has. Over HTTP three processes take turns,
//! and where the scheduler puts them decides much of the time: with an idle second processor each message may wake it.
//! So `true` is measured once more with everything on one processor, where only the work counts.

use crate::daemon::Daemon;
use crate::fallible::Fallible;
use crate::floor::RawShell;
use crate::http::Client;
use crate::library::Library;
use crate::relay::Relay;
use crate::report::{Bar, Kind, Report, Row, Target};
use crate::setup::Setup;
use crate::stats::{Pair, Rounds, Spread};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use shellkeep_session::SessionId;
use std::io::Write as _;
use std::time::Duration;

/// Each with what it writes.
const COMMANDS: [(&str, &str); 3] = [("true", ""), ("echo hi", "hi\n"), ("cd /tmp; export X=1", "")];
const LIBRARY: Target = Target::RatioAtMost(2.0);
const HTTP: Target = Target::RatioAtMost(4.5);
const LIVE_SHELLS: usize = 8;
const SPARE_SHELLS: usize = 2;
/// A record of the start or the end of `true`, in the journal.
const RECORD_BYTES: usize = 300;

/// One command and the three ways it is run.
struct Lineup {
    command: &'static str,
    output: &'static str,
    raw: RawShell,
    session: SessionId,
    remote: String,
    floor: Rounds,
    library: Rounds,
    http: Rounds,
}

pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let library = Library::start(&setup.bash, LIVE_SHELLS, SPARE_SHELLS)?;
    let daemon = Daemon::start(&setup.program, &setup.bash, LIVE_SHELLS)?;
    let mut client = Client::connect(&daemon.socket())?;
    let mut lineups = Vec::new();
    for (command, output) in COMMANDS {
        let raw = RawShell::start(&setup.bash)?;
        let (session, remote) = (library.create()?, client.create()?);
        let (floor, library, http) = Default::default();
        lineups.push(Lineup { command, output, raw, session, remote, floor, library, http });
    }
    for _ in 0..setup.effort.rounds {
        for lineup in &mut lineups {
            lineup.take_turns(&library, &mut client, setup.effort.commands)?;
        }
    }
    for lineup in lineups {
        let (floor, ours, http) = (lineup.floor.middle(), lineup.library.middle(), lineup.http.middle());
        let command = lineup.command;
        report.row(Row::latency(format!("`{command}`, library"), floor, ours, LIBRARY));
        report.row(Row::latency(format!("`{command}`, HTTP on the Unix socket"), floor, http, HTTP));
        if command == "true" {
            plot(report, floor, ours, http);
        }
    }
    drop((library, daemon));
    beside_a_relay(setup, report)?;
    let processors = sched_getaffinity(None)?;
    sched_setaffinity(None, &first_of(&processors))?;
    let measured = on_one_processor(setup, report);
    sched_setaffinity(None, &processors)?;
    measured
}

/// The raw loop takes turns with nobody but this thread. A relay in between shows what one more process costs, whatever
/// it does, and what it costs to keep a start and a result, whatever they are.
fn beside_a_relay(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let mut records = tempfile::tempfile()?;
    let kept = Relay::start(&setup.bash, move || Ok(records.write_all(&[b'.'; RECORD_BYTES])?))?;
    let floors = [
        ("passes the line on and parses nothing", Relay::start(&setup.bash, || Ok(()))?),
        ("passes the line on and writes two records to a file", kept),
    ];
    for (floor, relay) in floors {
        let daemon = Daemon::start(&setup.program, &setup.bash, LIVE_SHELLS)?;
        let (mut relayed, mut client) = (Client::connect(&relay.socket())?, Client::connect(&daemon.socket())?);
        let remote = client.create()?;
        let Pair { floor: below, ours: http } =
            in_turns(setup, &mut client, &remote, |count| relayed.times(&remote, "true", count))?;
        drop(relayed);
        relay.join()?;
        let what = format!("`true`, HTTP on the Unix socket; floor: a relay that {floor}");
        report.row(Row::latency(what, below, http, None));
    }
    Ok(())
}

/// `true` in a floor and over HTTP, one after the other.
fn in_turns(
    setup: &Setup,
    client: &mut Client,
    remote: &str,
    mut floor: impl FnMut(usize) -> Fallible<Vec<Duration>>,
) -> Fallible<Pair<Spread>> {
    let (mut below, mut http): (Rounds, Rounds) = Default::default();
    for _ in 0..setup.effort.rounds {
        below.turn(setup.effort.commands, &mut floor)?;
        http.turn(setup.effort.commands, |count| client.times(remote, "true", count))?;
        client.settle()?;
    }
    Ok(Pair { floor: below.middle(), ours: http.middle() })
}

/// What this thread starts stays on the thread's processor.
fn on_one_processor(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let daemon = Daemon::start(&setup.program, &setup.bash, LIVE_SHELLS)?;
    let mut client = Client::connect(&daemon.socket())?;
    let mut raw = RawShell::start(&setup.bash)?;
    let remote = client.create()?;
    let Pair { floor, ours: http } = in_turns(setup, &mut client, &remote, |count| raw.times("true", "", count))?;
    let what = "`true`, HTTP on the Unix socket, everything on one processor";
    report.row(Row::latency(what.to_owned(), floor, http, HTTP));
    drop(daemon);
    let library = Library::start(&setup.bash, LIVE_SHELLS, SPARE_SHELLS)?;
    let session = library.create()?;
    let (mut floor, mut ours): (Rounds, Rounds) = Default::default();
    for _ in 0..setup.effort.rounds {
        floor.turn(setup.effort.commands, |count| raw.times("true", "", count))?;
        ours.turn(setup.effort.commands, |count| library.times(&session, "true", "", count))?;
        library.settle()?;
    }
    let what = "`true`, library, everything on one processor";
    report.row(Row::latency(what.to_owned(), floor.middle(), ours.middle(), LIBRARY));
    Ok(())
}

fn first_of(processors: &CpuSet) -> CpuSet {
    let mut one = CpuSet::new();
    if let Some(first) = (0..CpuSet::MAX_CPU).find(|&index| processors.is_set(index)) {
        one.set(first);
    }
    one
}

impl Lineup {
    fn take_turns(&mut self, library: &Library, client: &mut Client, count: usize) -> Fallible<()> {
        let (command, output) = (self.command, self.output);
        self.floor.turn(count, |count| self.raw.times(command, output, count))?;
        self.library.turn(count, |count| library.times(&self.session, command, output, count))?;
        // What is recorded afterwards is not to take a processor in somebody else's turn.
        library.settle()?;
        self.http.turn(count, |count| client.times(&self.remote, command, count))?;
        client.settle()
    }
}

fn plot(report: &mut Report, floor: Spread, library: Spread, http: Spread) {
    for (label, kind, spread) in [
        ("raw eval loop over a pipe", Kind::Floor, floor),
        ("shellkeep, library", Kind::Ours, library),
        ("shellkeep, HTTP", Kind::Ours, http),
    ] {
        report.bars.push(Bar { label: label.to_owned(), kind, seconds: spread.p50 });
    }
    report.ours_by_library = Some(library.p50);
    report.ours_by_http = Some(http.p50);
}
