//! One agent floods the daemon with commands; what another agent's commands take meanwhile.

use crate::daemon::Daemon;
use crate::fallible::Fallible;
use crate::http::{self, Client, Errands};
use crate::lanes;
use crate::report::{Report, Row, Target};
use crate::setup::Setup;
use crate::stats::Rounds;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const TARGET: Target = Target::RatioAtMost(2.0);
/// The greedy agent's sessions, each with a connection of its own.
const SESSIONS: usize = 100;
/// Places for all sessions, as by default.
const LIVE_SHELLS: usize = 200;
/// What the greedy agent runs: something that costs nothing but the call, and something that starts a process, of which a
/// fifth is as long a flood.
const FLOODS: [(&str, usize); 2] = [("true", 1), ("/bin/true", 5)];
/// The modest agent's commands before the flood.
const ALONE: usize = 2000;

pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let daemon = Daemon::start(&setup.program, &setup.bash, LIVE_SHELLS)?;
    let mut client = Client::connect(&daemon.socket())?;
    let sessions = (0..SESSIONS).map(|_| client.create_for("greedy")).collect::<Fallible<Vec<_>>>()?;
    let modest = client.create_for("modest")?;
    for id in sessions.iter().chain([&modest]) {
        client.times(id, "true", 1)?;
    }
    for (flood, part) in FLOODS {
        let count = setup.effort.greedy / part;
        let (mut alone, mut beside) = (Rounds::default(), Rounds::default());
        let mut rates = Vec::new();
        for _ in 0..setup.effort.greedy_rounds {
            alone.turn(ALONE, |count| client.times(&modest, "true", count))?;
            let (times, rate) = flooded(&daemon, &mut client, &sessions, &modest, flood, count)?;
            beside.push(times);
            rates.push(rate);
        }
        let what = format!(
            "`true` of one agent while another sends {count} × `{flood}` on {SESSIONS} connections, against none"
        );
        report.row(Row::latency(what, alone.middle(), beside.middle(), TARGET));
        let rate = crate::stats::digits(crate::stats::median(rates));
        report.note(format!("The greedy agent's `{flood}` were answered at {rate} a second meanwhile."));
    }
    Ok(())
}

/// The modest agent's times while the greedy one sends its commands, and how many of those were answered in a second.
fn flooded(
    daemon: &Daemon,
    client: &mut Client,
    sessions: &[String],
    modest: &str,
    flood: &str,
    count: usize,
) -> Fallible<(Vec<Duration>, f64)> {
    let (left, started, over) = (AtomicUsize::new(count), AtomicBool::new(false), AtomicBool::new(false));
    let lane = |id: &String| {
        let request = http::run_request(id, flood);
        let (left, started) = (&left, &started);
        let next = move || {
            // The flood has begun when somebody asks for the second time.
            let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).ok()?;
            started.fetch_or(before + SESSIONS <= count, Ordering::Relaxed);
            Some(request.clone())
        };
        Errands::connect(&daemon.socket(), http::check, next)
    };
    let mut lanes = sessions.iter().map(lane).collect::<Fallible<Vec<_>>>()?;
    std::thread::scope(|scope| {
        let over = &over;
        let flood = scope.spawn(move || {
            let rate = lanes::drive(&mut lanes, 1, lanes::TO_THE_END);
            over.store(true, Ordering::Relaxed);
            rate
        });
        let mut times = Vec::new();
        while !over.load(Ordering::Relaxed) {
            let is_timed = started.load(Ordering::Relaxed);
            let start = Instant::now();
            http::check(client.call(&http::run_request(modest, "true"))?)?;
            if is_timed {
                times.push(start.elapsed());
            }
        }
        let rate = flood.join().map_err(|_| "the flood panicked")??;
        // The last one may have been answered when the flood was over.
        times.pop();
        Ok((times, rate))
    })
}
