//! Short commands in a session whose shell is live: the cost that every call has.

use super::Setup;
use crate::daemon::Daemon;
use crate::floor::RawShell;
use crate::http::Client;
use crate::library::Library;
use crate::report::{Bar, Kind, Report, Row, Target};
use crate::stats::{Rounds, Spread};
use crate::{Fallible, stats};

/// Each with what it writes.
const COMMANDS: [(&str, &str); 3] = [("true", ""), ("echo hi", "hi\n"), ("cd /tmp; export X=1", "")];
const LIBRARY: Target = Target::RatioAtMost(2.0);
const HTTP: Target = Target::RatioAtMost(6.0);
/// Untimed commands before each turn: caches and processor clocks settle.
const SETTLE: usize = 50;
const LIVE_SHELLS: usize = 8;
const SPARE_SHELLS: usize = 2;

struct Sides {
    floor: Rounds,
    library: Rounds,
    http: Rounds,
}

/// Measures.
pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let library = Library::start(&setup.bash, LIVE_SHELLS, SPARE_SHELLS)?;
    let daemon = Daemon::start(&setup.program, &setup.bash, LIVE_SHELLS)?;
    for (command, output) in COMMANDS {
        let sides = take_turns(setup, &library, &daemon, command, output)?;
        let (floor, ours, http) = (sides.floor.middle(), sides.library.middle(), sides.http.middle());
        report.row(Row::latency(format!("`{command}`, library"), floor, ours, LIBRARY));
        report.row(Row::latency(format!("`{command}`, HTTP on the Unix socket"), floor, http, HTTP));
        if command == "true" {
            plot(report, floor, ours, http);
        }
    }
    Ok(())
}

fn take_turns(setup: &Setup, library: &Library, daemon: &Daemon, command: &str, output: &str) -> Fallible<Sides> {
    let mut raw = RawShell::start(&setup.bash)?;
    let session = library.create()?;
    let mut client = Client::connect(&daemon.socket())?;
    let remote = client.create()?;
    let mut sides = Sides { floor: Rounds::default(), library: Rounds::default(), http: Rounds::default() };
    for _ in 0..setup.effort.rounds {
        raw.times(command, output, SETTLE)?;
        sides.floor.push(raw.times(command, output, setup.effort.commands)?);
        library.times(&session, command, output, SETTLE)?;
        sides.library.push(library.times(&session, command, output, setup.effort.commands)?);
        client.times(&remote, command, SETTLE)?;
        sides.http.push(client.times(&remote, command, setup.effort.commands)?);
    }
    Ok(sides)
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
    eprintln!("  true: {} / {} / {}", stats::time(floor.p50), stats::time(library.p50), stats::time(http.p50));
}
