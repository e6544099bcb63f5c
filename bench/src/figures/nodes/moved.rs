//! Waking a session on a node that never saw it, beside one that slept there.

use super::start::{start_node, start_redis};
use crate::daemon::Daemon;
use crate::fallible::Fallible;
use crate::figures::wake;
use crate::http::{Client, post};
use crate::report::{Report, Row, Target};
use crate::setup::Setup;
use crate::stats::Rounds;

const TARGET: Target = Target::RatioAtMost(2.0);
/// So few that what is measured is waking, and not a shell that is still there.
const LIVE_SHELLS: usize = 4;
/// Most sessions that are made for this.
const MOST: usize = 400;

pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let redis = start_redis()?;
    let leaving = start_node(setup, &redis, "n1", LIVE_SHELLS)?;
    let staying = start_node(setup, &redis, "n2", LIVE_SHELLS)?;
    let rounds = setup.effort.rounds;
    let each = setup.effort.starts.min(MOST / rounds);
    let (arriving, own) = (asleep(&leaving, each * rounds)?, asleep(&staying, each * rounds)?);
    // Its sessions may go on elsewhere from now on, which nobody has asked for yet.
    let drained = Client::connect(&leaving.socket())?.call(&post("/v1/nodes/n1/drain?wait=60", "{}"))?.to_vec();
    if !String::from_utf8_lossy(&drained).contains("\"drained\"") {
        return Err(format!("the node is not drained: {}", String::from_utf8_lossy(&drained)).into());
    }
    let mut client = Client::connect(&staying.socket())?;
    let (mut floor, mut ours) = (Rounds::default(), Rounds::default());
    for (arriving, own) in arriving.chunks(each).zip(own.chunks(each)) {
        let (mut local, mut moved) = (Vec::new(), Vec::new());
        for (arriving, own) in arriving.iter().zip(own) {
            for (session, times) in [(own, &mut local), (arriving, &mut moved)] {
                times.extend(client.times(session, "true", 1)?);
                sleep(&mut client, session)?;
            }
        }
        floor.push(local);
        ours.push(moved);
    }
    let what = "wake a session on a node that never saw it, `true`; floor: one that slept on the node".to_owned();
    report.row(Row::latency(what, floor.middle(), ours.middle(), TARGET));
    Ok(())
}

/// Makes sessions with variables and functions that sleep on a node.
fn asleep(daemon: &Daemon, count: usize) -> Fallible<Vec<String>> {
    let mut client = Client::connect(&daemon.socket())?;
    let state = wake::state();
    let one = |_| -> Fallible<String> {
        let session = client.create()?;
        client.times(&session, &state, 1)?;
        sleep(&mut client, &session)?;
        Ok(session)
    };
    (0..count).map(one).collect()
}

fn sleep(client: &mut Client, session: &str) -> Fallible<()> {
    client.call(&post(&format!("/v1/sessions/{session}/hibernate"), "{}"))?;
    Ok(())
}
