//! The daemon's part: one that grows from ten sessions to all of them. At each size it is looked at from outside, and
//! started again.

use super::state;
use crate::daemon::Daemon;
use crate::fallible::Fallible;
use crate::http::{self, Client, Errands};
use crate::scale::Point;
use crate::setup::Setup;
use crate::stats::{self, Pair, Rounds, Spread};
use crate::{floor, lanes, machine};
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// So few that a session which is not busy is soon asleep.
const LIVE_SHELLS: usize = 16;
/// What the others are compared with.
const FEW: u64 = 10;
/// Connections that make sessions at once.
const MAKERS: usize = 4;
/// Connections that wake sessions at once, and threads that start bare shells.
const WAKERS: usize = 8;
/// Threads of the driver.
const DRIVERS: usize = 1;
/// The part of the new sessions that one connection makes alone.
const MADE_BY_ONE: u64 = 10;
/// Up to this number every session is woken and furnished.
const ALL_FURNISHED: u64 = 10_000;
/// Beyond it one of so many is: a command in each of a hundred thousand would take longer than all other figures.
const FURNISHED_BEYOND: u64 = 10;
/// Turns of waking and of bare shells.
const WAKE_ROUNDS: usize = 3;
/// Below this many sessions a random one is likely to be still awake.
const ENOUGH_TO_SLEEP: usize = 100;
/// Sessions that must prove that they have their state.
const PROVEN: u64 = 20;
/// Sessions on a page.
const PAGE: usize = 1000;

/// Fills the daemon's part of every point.
pub fn measure(setup: &Setup, points: &mut [Point]) -> Fallible<()> {
    let few = Crowd::start(setup)?;
    few.make(0, FEW, MAKERS)?;
    let mut many = Crowd::start(setup)?;
    let mut made = 0;
    for point in points {
        let wanted = point.sessions as u64;
        many.grow(point, made, wanted)?;
        made = wanted;
        many.settle()?;
        point.warm_http = warm(setup, &few, &many, wanted)?;
        if point.sessions >= ENOUGH_TO_SLEEP {
            (point.spawns, point.wakes) = many.wake(setup, wanted)?;
        }
        point.listed = many.list(point.sessions)?;
        many.prove(wanted)?;
        many.begin_again(point)?;
        many.prove(wanted)?;
        eprintln!("  {wanted} sessions over HTTP");
    }
    Ok(())
}

/// Sessions of a daemon.
pub struct Crowd {
    daemon: Daemon,
    /// Kibibytes of the daemon before its first session.
    empty: u64,
}

impl Crowd {
    fn start(setup: &Setup) -> Fallible<Self> {
        Self::start_with(setup, &[])
    }

    /// A daemon with these settings, and no session yet.
    pub fn start_with(setup: &Setup, settings: &[(&str, &str)]) -> Fallible<Self> {
        let daemon = Daemon::start_with(&setup.program, &setup.bash, LIVE_SHELLS, settings)?;
        let empty = machine::resident(daemon.pid())?;
        Ok(Self { daemon, empty })
    }

    fn client(&self) -> Fallible<Client> {
        Client::connect(&self.daemon.socket())
    }

    /// Kibibytes beyond the empty daemon, once its store has nothing more to do.
    fn memory(&self) -> Fallible<f64> {
        self.client()?.call(&http::get("/v1/sessions?limit=1"))?;
        Ok(machine::resident(self.daemon.pid())?.saturating_sub(self.empty) as f64)
    }

    /// Makes as many sessions as this, with their state.
    pub fn fill(&self, count: u64) -> Fallible<()> {
        self.make(0, count, MAKERS)?;
        self.furnish(0, count)?;
        self.settle()
    }

    /// Waits until everything is recorded and written out.
    fn settle(&self) -> Fallible<()> {
        self.client()?.settle()?;
        // The machine is to have written what it was given.
        rustix::fs::sync();
        Ok(())
    }

    /// Makes the sessions from one number to another; gives sessions per second.
    fn make(&self, from: u64, to: u64, connections: usize) -> Fallible<f64> {
        let next = AtomicU64::new(from);
        let one = || {
            let number = next.fetch_add(1, Ordering::Relaxed);
            (number < to).then(|| state::creation_request(number))
        };
        self.each(connections, lanes::TO_THE_END, |_| Ok(()), one)
    }

    /// Runs both commands in the sessions from one number to another, as far as they are to be furnished.
    fn furnish(&self, from: u64, to: u64) -> Fallible<()> {
        let furnished = |number: &u64| *number < ALL_FURNISHED || number.is_multiple_of(FURNISHED_BEYOND);
        let numbers = Mutex::new((from..to).filter(furnished));
        let request = || {
            let mut second = None;
            let numbers = &numbers;
            move || {
                second.take().or_else(|| {
                    numbers.lock().ok()?.next().map(|number| {
                        let [one, two] = state::furnishing(number);
                        second = Some(two);
                        one
                    })
                })
            }
        };
        let lane = || Errands::connect(&self.daemon.socket(), http::check, request());
        let mut lanes = (0..WAKERS).map(|_| lane()).collect::<Fallible<Vec<_>>>()?;
        lanes::drive(&mut lanes, DRIVERS, lanes::TO_THE_END).map(|_| ())
    }

    /// Sends what `next` gives on many connections; gives answers per second.
    fn each(
        &self,
        connections: usize,
        window: Duration,
        check: http::Check,
        next: impl Fn() -> Option<Vec<u8>> + Sync,
    ) -> Fallible<f64> {
        let lane = |_| Errands::connect(&self.daemon.socket(), check, &next);
        let mut lanes = (0..connections).map(lane).collect::<Fallible<Vec<_>>>()?;
        lanes::drive(&mut lanes, DRIVERS, window)
    }

    fn grow(&mut self, point: &mut Point, from: u64, to: u64) -> Fallible<()> {
        let middle = from + (to - from).div_ceil(MADE_BY_ONE);
        point.created_by_one = self.make(from, middle, 1)?;
        point.created_by_many = self.make(middle, to, MAKERS)?;
        point.memory_made = self.memory()?;
        self.furnish(from, to)?;
        point.memory_woken = self.memory()?;
        Ok(())
    }

    /// Starts of bare shells and wakings of random sessions, in turns; both per second.
    pub fn wake(&self, setup: &Setup, count: u64) -> Fallible<(f64, f64)> {
        let turn = AtomicU64::new(0);
        let request = || {
            let number = state::mix(!turn.fetch_add(1, Ordering::Relaxed)) % count;
            Some(http::run_request(&state::id(number), "true"))
        };
        let (mut spawns, mut wakes) = (Vec::new(), Vec::new());
        for _ in 0..WAKE_ROUNDS {
            spawns.push(floor::spawns(&setup.bash, WAKERS, setup.effort.window)?);
            wakes.push(self.each(WAKERS, setup.effort.window, http::check, request)?);
        }
        Ok((stats::median(spawns), stats::median(wakes)))
    }

    /// Reads all pages; gives the seconds.
    fn list(&self, expected: usize) -> Fallible<f64> {
        let mut client = self.client()?;
        client.call(&http::get("/v1/sessions?limit=1"))?;
        let (mut listed, mut after) = (0, String::new());
        let start = Instant::now();
        loop {
            let body = client.call(&http::get(&format!("/v1/sessions?limit={PAGE}{after}")))?;
            let page: Page = serde_json::from_slice(body)?;
            listed += page.sessions.len();
            match page.next {
                Some(next) => after = format!("&after={next}"),
                None => break,
            }
        }
        let elapsed = start.elapsed().as_secs_f64();
        if listed == expected {
            Ok(elapsed)
        } else {
            Err(format!("{listed} sessions were listed, not {expected}").into())
        }
    }

    /// Sessions that had lost their state would be cheap to keep.
    pub fn prove(&self, count: u64) -> Fallible<()> {
        let mut client = self.client()?;
        for number in (0..count).step_by(usize::try_from(count.div_ceil(PROVEN))?) {
            http::check(client.call(&state::proof(number))?)?;
        }
        Ok(())
    }

    /// Ends the daemon in three ways and starts it again.
    fn begin_again(&mut self, point: &mut Point) -> Fallible<()> {
        self.daemon.end(false);
        point.ready_killed = self.daemon.start_again()?.as_secs_f64();
        self.daemon.end(true);
        point.disk = disk(&self.daemon.directory())? as f64;
        point.ready_stopped = self.daemon.start_again()?.as_secs_f64();
        point.memory_restarted = self.memory()?;
        self.daemon.end(true);
        forget(&self.daemon.directory())?;
        point.ready_cold = self.daemon.start_again()?.as_secs_f64();
        Ok(())
    }
}

#[derive(serde::Deserialize)]
struct Page {
    sessions: Vec<serde::de::IgnoredAny>,
    next: Option<String>,
}

/// `true` beside few sessions and beside many, in turns.
fn warm(setup: &Setup, few: &Crowd, many: &Crowd, count: u64) -> Fallible<Pair<Spread>> {
    let (mut beside_few, mut beside_many) = (Rounds::default(), Rounds::default());
    let mut sides = [
        (few.client()?, state::id(FEW / 2), &mut beside_few),
        (many.client()?, state::id(count / 2), &mut beside_many),
    ];
    for _ in 0..setup.effort.rounds {
        for (client, id, rounds) in &mut sides {
            rounds.turn(setup.effort.commands, |count| client.times(id, "true", count))?;
        }
    }
    Ok(Pair { floor: beside_few.middle(), ours: beside_many.middle() })
}

/// The database and the journal; what is directly in the daemon's directory or in the journal's.
fn files(directory: &Path) -> io::Result<Vec<std::path::PathBuf>> {
    let mut files = Vec::new();
    for directory in [directory.to_owned(), directory.join("journal")] {
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_file() {
                files.push(path);
            }
        }
    }
    Ok(files)
}

/// Kibibytes of the database and the journal.
fn disk(directory: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for file in files(directory)? {
        bytes += std::fs::metadata(file)?.len();
    }
    Ok(bytes >> 10)
}

/// Takes the store's files out of the page cache, as after a start of the machine.
fn forget(directory: &Path) -> Fallible<()> {
    for path in files(directory)? {
        let file = File::open(path)?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}
