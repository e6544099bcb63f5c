//! What dormant sessions take in Redis. They have the state that those of the figures about many sessions have.

use super::start::{start_node, start_redis};
use crate::fallible::Fallible;
use crate::figures::scale::state;
use crate::http::{self, Errands};
use crate::lanes;
use crate::report::{Report, Row};
use crate::setup::Setup;
use crate::stats::digits;
use shellkeep_servers::RedisServer;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What [`MANY`] of them may take, in MiB.
const MOST: f64 = 600.0;
const MANY: usize = 100_000;
/// So few that a session which is not busy is soon asleep.
const LIVE_SHELLS: usize = 16;
/// How often the memory of Redis is looked at until it no longer falls.
const LOOK: Duration = Duration::from_millis(500);
/// Connections that make sessions and run commands in them.
const CONNECTIONS: usize = 8;
/// Up to this number every session runs its two commands; beyond it one of ten does, which would take too long otherwise.
const ALL_WOKEN: u64 = 10_000;

pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let Some(&count) = setup.effort.scale.last() else { return Ok(()) };
    let redis = start_redis()?;
    let node = start_node(setup, &redis, "n1", LIVE_SHELLS)?;
    let before = redis.used_memory()?;
    let mebibytes = || -> Fallible<f64> { Ok(settled(&redis)?.saturating_sub(before) as f64 / f64::from(1 << 20)) };
    let sessions = 0..count as u64;
    send(&node.socket(), |_| Ok(()), sessions.clone().map(state::creation_request))?;
    let made = mebibytes()?;
    let woken = sessions.filter(|number| *number < ALL_WOKEN || number.is_multiple_of(10));
    let mut commands = (Vec::new(), Vec::new());
    for [first, second] in woken.map(state::furnishing) {
        commands.0.push(first);
        commands.1.push(second);
    }
    send(&node.socket(), http::check, commands.0.into_iter())?;
    send(&node.socket(), http::check, commands.1.into_iter())?;
    let what = |when: &str| format!("memory in Redis of {} dormant sessions, {when}", digits(count as f64));
    for (when, amount) in [("when they were made", made), ("when they had been woken and slept again", mebibytes()?)] {
        report.row(match count < MANY {
            true => Row::alone(what(when), "MiB", amount),
            false => Row::limit(what(when), amount, "MiB", MOST),
        });
    }
    Ok(())
}

/// The memory of Redis once it no longer falls: sessions are packed behind the answers.
fn settled(redis: &RedisServer) -> Fallible<u64> {
    let mut last = redis.used_memory()?;
    loop {
        std::thread::sleep(LOOK);
        let now = redis.used_memory()?;
        if now >= last - last / 1000 {
            return Ok(now);
        }
        last = now;
    }
}

/// Sends requests on several connections.
fn send(socket: &Path, check: http::Check, requests: impl Iterator<Item = Vec<u8>>) -> Fallible<()> {
    let requests: Vec<Vec<u8>> = requests.collect();
    let next = AtomicU64::new(0);
    let one = || -> Option<Vec<u8>> {
        let number = next.fetch_add(1, Ordering::Relaxed);
        requests.get(usize::try_from(number).ok()?).cloned()
    };
    let lane = |_| Errands::connect(socket, check, one);
    let mut lanes = (0..CONNECTIONS).map(lane).collect::<Fallible<Vec<_>>>()?;
    lanes::drive(&mut lanes, 1, lanes::TO_THE_END).map(|_| ())
}
