//! A command on a node beside the same without a shared store.

use super::start::{live, start_node, start_redis};
use crate::daemon::Daemon;
use crate::fallible::Fallible;
use crate::figures::crowd::affordable;
use crate::http::Client;
use crate::lanes;
use crate::relay::Relay;
use crate::report::{Report, Row, Target};
use crate::setup::Setup;
use crate::stats::{self, Rounds};
use serde_json::json;
use shellkeep_session::ownership::{Ask, Claim, Claimed, Claims, Point};
use shellkeep_session::{SessionId, Timestamp};
use shellkeep_shared::{Append, ClaimRequest, LEASE, Tier};
use std::time::{Duration, Instant};

const LATENCY: Target = Target::RatioAtMost(1.5);
const THROUGHPUT: Target = Target::RatioAtLeast(0.6);
const LIVE_SHELLS: usize = 4;
/// Places beyond those of the sessions.
const SPARE_PLACES: usize = 8;
/// Threads of the driver.
const DRIVERS: usize = 2;
/// Sessions of one node, and of three nodes together.
const OF_THREE: usize = 60;

/// What a command costs more than without a shared store, beside the two appends that it makes.
pub fn latency(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let redis = start_redis()?;
    let plain = Daemon::start(&setup.program, &setup.bash, LIVE_SHELLS)?;
    let node = start_node(setup, &redis, "n1", LIVE_SHELLS)?;
    let (mut plainly, mut shared) = (Client::connect(&plain.socket())?, Client::connect(&node.socket())?);
    let sessions = (plainly.create()?, shared.create()?);
    let mut bare = Bare::new(&redis.url(), "bare")?;
    let mut kept = Bare::new(&redis.url(), "relayed")?;
    let relay = Relay::start(&setup.bash, || Ok(()))?;
    let appending = Relay::start(&setup.bash, move || kept.append_next())?;
    let (mut relayed, mut appended) = (Client::connect(&relay.socket())?, Client::connect(&appending.socket())?);
    let (mut floor, mut without, mut with) = (Rounds::default(), Rounds::default(), Rounds::default());
    let (mut below, mut above) = (Rounds::default(), Rounds::default());
    for _ in 0..setup.effort.rounds {
        without.turn(setup.effort.commands, |count| plainly.times(&sessions.0, "true", count))?;
        plainly.settle()?;
        with.turn(setup.effort.commands, |count| shared.times(&sessions.1, "true", count))?;
        shared.settle()?;
        floor.turn(setup.effort.commands, |count| bare.times(count))?;
        below.turn(setup.effort.commands, |count| relayed.times(&sessions.0, "true", count))?;
        above.turn(setup.effort.commands, |count| appended.times(&sessions.0, "true", count))?;
    }
    drop((relayed, appended));
    relay.join()?;
    appending.join()?;
    let (without, with) = (without.middle(), with.middle());
    report.row(Row::latency("`true`, HTTP, store in Redis; floor: without".to_owned(), without, with, None));
    let what = "what Redis adds to `true`, HTTP; floor: the two appends alone, one after the other".to_owned();
    let added = with.p50 - without.p50;
    report.row(Row::medians(what, floor.middle().p50, added, LATENCY));
    let what =
        "what Redis adds to `true`, HTTP; floor: what the two appends add to a relay that parses nothing".to_owned();
    report.row(Row::medians(what, above.middle().p50 - below.middle().p50, added, None));
    Ok(())
}

/// Many live sessions on one node, beside as many without a shared store.
pub fn crowd(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let count = affordable(setup.effort.crowd)?;
    let redis = start_redis()?;
    let plain = Daemon::start(&setup.program, &setup.bash, count + SPARE_PLACES)?;
    let mut plainly = live(&plain, count)?;
    let node = start_node(setup, &redis, "n1", count + SPARE_PLACES)?;
    let mut shared = live(&node, count)?;
    let (mut floor, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..setup.effort.crowd_rounds {
        floor.push(lanes::drive(&mut plainly, DRIVERS, setup.effort.window)?);
        ours.push(lanes::drive(&mut shared, DRIVERS, setup.effort.window)?);
    }
    let what = format!("{count} live sessions running `true`, HTTP, store in Redis; floor: without");
    report.row(Row::rate(what, "commands/s", stats::median(floor), stats::median(ours), THROUGHPUT));
    Ok(())
}

/// The same sessions on one node and on three.
pub fn three(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let (apart, together) = (start_redis()?, start_redis()?);
    let one = start_node(setup, &apart, "n1", OF_THREE + SPARE_PLACES)?;
    let mut on_one = live(&one, OF_THREE)?;
    let (mut nodes, mut on_three) = (Vec::new(), Vec::new());
    for name in ["n1", "n2", "n3"] {
        let node = start_node(setup, &together, name, OF_THREE + SPARE_PLACES)?;
        on_three.extend(live(&node, OF_THREE / 3)?);
        nodes.push(node);
    }
    let (mut floor, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..setup.effort.crowd_rounds {
        floor.push(lanes::drive(&mut on_one, DRIVERS, setup.effort.window)?);
        ours.push(lanes::drive(&mut on_three, DRIVERS, setup.effort.window)?);
    }
    let what = format!("{OF_THREE} live sessions on three nodes of this machine, HTTP; floor: on one node");
    report.row(Row::rate(what, "commands/s", stats::median(floor), stats::median(ours), None));
    Ok(())
}

/// Appends without a node: the client of the shared store, on this thread.
struct Bare {
    tier: Box<dyn Tier>,
    session_id: SessionId,
    claim: Claim,
    last: Point,
    /// How many it has appended.
    count: usize,
    /// Records as a command makes them.
    lines: [Vec<u8>; 2],
}

impl Bare {
    fn new(url: &str, session: &str) -> Fallible<Self> {
        let mut tier = shellkeep_shared::open(url)?;
        let session_id = SessionId::parse(session)?;
        let ask =
            Ask { node: "bench".to_owned(), nonce: "bench".to_owned(), mine: None, seen: 0, claims: Claims::default() };
        let (data_dir, agent, create) = (String::new(), None, None);
        let request = ClaimRequest { session_id: session_id.clone(), ask, data_dir, agent, create };
        let claimed = tier.claim(&request, LEASE).map_err(|down| down.reason)?;
        let Ok(Claimed::New(head)) = claimed else { return Err(format!("not claimed: {claimed:?}").into()) };
        let started = json!({"run_started": {"run_id": "run-1", "command": "true"}});
        let result = json!({"status": "exited", "exit_code": 0, "duration_us": 1234, "cwd": "/home/agent/project"});
        let finished = json!({"run_finished": {"run_id": "run-1", "result": result, "delta": {}}});
        let line = |event| json!({"session_id": session_id, "seq": 1, "at": Timestamp::now(), "event": event});
        let lines = [started, finished].map(|event| line(event).to_string().into_bytes());
        Ok(Self { tier, session_id, claim: head.owner, last: head.last, count: 0, lines })
    }

    /// How long two appends take, one after the other, `count` times.
    fn times(&mut self, count: usize) -> Fallible<Vec<Duration>> {
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let start = Instant::now();
            for _ in 0..self.lines.len() {
                self.append_next()?;
            }
            times.push(start.elapsed());
        }
        Ok(times)
    }

    fn append_next(&mut self) -> Fallible<()> {
        let line = self.lines[self.count % self.lines.len()].clone();
        self.count += 1;
        let through = self.last.seq + 1;
        let append = Append {
            session_id: self.session_id.clone(),
            claim: self.claim.clone(),
            after: self.last.clone(),
            from: 1,
            first: through,
            through,
            lines: vec![line],
        };
        let answers = self.tier.append(&[append], LEASE).map_err(|down| down.reason)?;
        match answers.into_iter().next() {
            Some(Ok(_)) => self.last = Point { seq: through, at: Some(self.claim.clone()) },
            refused => return Err(format!("not appended: {refused:?}").into()),
        }
        Ok(())
    }
}
