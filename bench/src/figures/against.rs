//! This program beside another build of it, named with `--against`: what a change costs. Both daemons run at the same time
//! and take turns, so that a noisy minute touches both alike.

use crate::daemon::Daemon;
use crate::fallible::Fallible;
use crate::http::{self, Client};
use crate::report::{Report, Row, Target};
use crate::setup::Setup;
use crate::stats::Rounds;
use std::path::Path;
use std::time::{Duration, Instant};

const TARGET: Target = Target::RatioAtMost(1.03);
/// What a session is asked, each in a session of its own.
const COMMANDS: [&str; 3] = ["true", "echo hi", "cd /tmp; export X=1"];
const LIVE_SHELLS: usize = 8;

/// One of the two programs.
struct Side {
    _daemon: Daemon,
    client: Client,
    sessions: Vec<String>,
    commands: [Rounds; COMMANDS.len()],
    wakes: Rounds,
    creations: Rounds,
}

/// Measures; says nothing where there is no other program.
pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let Some(other) = &setup.against else { return Ok(()) };
    let mut sides = [Side::start(setup, other)?, Side::start(setup, &setup.program)?];
    for round in 0..setup.effort.rounds {
        // Neither is always the one that comes after the other.
        if round % 2 == 1 {
            sides.reverse();
        }
        for which in 0..COMMANDS.len() {
            for side in &mut sides {
                side.commands(which, setup.effort.commands)?;
            }
        }
        for side in &mut sides {
            side.wakes(setup.effort.starts)?;
        }
        for side in &mut sides {
            side.creations(setup.effort.created / 10)?;
        }
        if round % 2 == 1 {
            sides.reverse();
        }
    }
    let [before, after] = sides;
    let rows = COMMANDS.iter().map(|command| format!("`{command}`")).zip(before.commands.iter().zip(&after.commands));
    let rest = [("waking", &before.wakes, &after.wakes), ("creating a session", &before.creations, &after.creations)];
    let rest = rest.into_iter().map(|(what, before, after)| (what.to_owned(), (before, after)));
    for (what, (before, after)) in rows.chain(rest) {
        let what = format!("{what}, HTTP, against the other build");
        report.row(Row::latency(what, before.middle(), after.middle(), TARGET));
    }
    Ok(())
}

impl Side {
    fn start(setup: &Setup, program: &Path) -> Fallible<Self> {
        let daemon = Daemon::start(program, &setup.bash, LIVE_SHELLS)?;
        let mut client = Client::connect(&daemon.socket())?;
        let sessions = COMMANDS.iter().map(|_| client.create()).collect::<Fallible<_>>()?;
        let (commands, wakes, creations) = Default::default();
        Ok(Self { _daemon: daemon, client, sessions, commands, wakes, creations })
    }

    fn commands(&mut self, which: usize, count: usize) -> Fallible<()> {
        let (id, command) = (&self.sessions[which], COMMANDS[which]);
        self.commands[which].turn(count, |count| self.client.times(id, command, count))?;
        self.client.settle()
    }

    fn wakes(&mut self, count: usize) -> Fallible<()> {
        let id = &self.sessions[0];
        let hibernate = http::post(&format!("/v1/sessions/{id}/hibernate"), "{}");
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            self.client.call(&hibernate)?;
            times.extend(self.client.times(id, "true", 1)?);
        }
        self.wakes.push(times);
        self.client.settle()
    }

    fn creations(&mut self, count: usize) -> Fallible<()> {
        let mut times: Vec<Duration> = Vec::with_capacity(count);
        for _ in 0..count {
            let start = Instant::now();
            self.client.create()?;
            times.push(start.elapsed());
        }
        self.creations.push(times);
        self.client.settle()
    }
}
