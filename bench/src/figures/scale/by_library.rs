//! The library's part: how fast sessions are made, and whether a short command notices how many there are.

use super::state;
use crate::fallible::Fallible;
use crate::library::Library;
use crate::scale::Point;
use crate::setup::Setup;
use crate::stats::{self, Pair, Rounds, Spread};
use shellkeep_runtime::{Engine, SessionQuery};
use shellkeep_session::SessionId;
use std::time::Instant;

const LIVE_SHELLS: usize = 8;
const SPARE_SHELLS: usize = 2;
/// What the others are compared with.
const FEW: u64 = 10;
/// A small number of sessions is made so often that this many are timed, in engines of their own.
const TIMED: usize = 1000;
/// Not more often than this.
const MOST_TURNS: usize = 20;

/// Fills the library's part of every point.
pub fn measure(setup: &Setup, points: &mut [Point]) -> Fallible<()> {
    let few = Crowd::make(setup, FEW)?;
    for point in points {
        let turns = (TIMED / point.sessions).clamp(1, MOST_TURNS);
        let mut rates = Vec::new();
        for _ in 1..turns {
            rates.push(Crowd::make(setup, point.sessions as u64)?.rate);
        }
        let many = Crowd::make(setup, point.sessions as u64)?;
        rates.push(many.rate);
        point.created = stats::median(rates);
        let start = Instant::now();
        many.library.with(|engine| async move { settled(&engine).await })?;
        point.applied = start.elapsed().as_secs_f64();
        // What is compared is a command beside sessions that rest, and a disk that does too.
        many.library.settle()?;
        point.recorded = start.elapsed().as_secs_f64();
        rustix::fs::sync();
        point.warm = warm(setup, &few, &many)?;
        eprintln!("  {} sessions through the library", point.sessions);
    }
    Ok(())
}

/// An engine with its sessions, one of them live.
struct Crowd {
    library: Library,
    /// Sessions made in a second.
    rate: f64,
    live: SessionId,
}

impl Crowd {
    fn make(setup: &Setup, count: u64) -> Fallible<Self> {
        let library = Library::start(&setup.bash, LIVE_SHELLS, SPARE_SHELLS)?;
        let rate = library.with(move |engine| async move {
            let start = Instant::now();
            for number in 0..count {
                engine.create(state::creation(number)?).await?;
            }
            Ok(count as f64 / start.elapsed().as_secs_f64())
        })?;
        Ok(Self { library, rate, live: SessionId::parse(&state::id(count / 2))? })
    }
}

/// Waits until all is in the database: a list is answered after everything before it has been applied.
async fn settled(engine: &Engine) -> Fallible<()> {
    engine.list(&SessionQuery { limit: 1, ..SessionQuery::default() }).await?;
    Ok(())
}

/// `true` beside few sessions and beside many, in turns.
fn warm(setup: &Setup, few: &Crowd, many: &Crowd) -> Fallible<Pair<Spread>> {
    let (mut beside_few, mut beside_many) = (Rounds::default(), Rounds::default());
    for _ in 0..setup.effort.rounds {
        for (crowd, rounds) in [(few, &mut beside_few), (many, &mut beside_many)] {
            rounds.turn(setup.effort.commands, |count| crowd.library.times(&crowd.live, "true", "", count))?;
        }
    }
    Ok(Pair { floor: beside_few.middle(), ours: beside_many.middle() })
}
