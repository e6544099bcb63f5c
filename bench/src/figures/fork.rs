//! A shell for a session: forked from a bash that is loaded, beside one that is started.

use crate::fallible::Fallible;
use crate::report::{Report, Row};
use crate::setup::Setup;
use crate::stats::Rounds;
use shellkeep_process::{CageFactory, CageMode, Forking, Limits, Zygote};
use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Turns of both ways; with a turn's starts, well over a thousand of each in a full run.
const TURNS: usize = 3;
const LIMITS: Limits =
    Limits { per_cage: 64, per_party: 1000, node: 1000, memory_per_party: 8 << 30, open_files: 4096 };

pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let forks = Shells::new(&setup.bash, Forking::Auto)?;
    let starts = Shells::new(&setup.bash, Forking::Off)?;
    let (mut forked, mut started) = (Rounds::default(), Rounds::default());
    for _ in 0..setup.effort.rounds * TURNS {
        started.push(starts.times(&runtime, setup.effort.starts)?);
        forked.push(forks.times(&runtime, setup.effort.starts)?);
    }
    let what = "a shell that takes a command: forked from a loaded bash, beside started".to_owned();
    report.row(Row::latency(what, started.middle(), forked.middle(), None));
    for shells in [forks, starts] {
        runtime.block_on(async { shells.close() });
    }
    Ok(())
}

/// One way to make shells.
struct Shells {
    scratch: TempDir,
    factory: CageFactory,
    zygote: Zygote,
    made: AtomicU64,
}

impl Shells {
    fn new(bash: &Path, forking: Forking) -> Fallible<Self> {
        let scratch = tempfile::tempdir()?;
        let name = format!("shellkeep-bench-{}-{forking:?}", std::process::id());
        let factory = CageFactory::detect(&name, CageMode::Auto, LIMITS);
        let zygote = Zygote::new(bash.to_owned(), scratch.path().to_owned(), factory.clone(), forking);
        Ok(Self { scratch, factory, zygote, made: AtomicU64::new(0) })
    }

    /// Makes shells, one after the other, each until it has taken over a state.
    fn times(&self, runtime: &Runtime, count: usize) -> Fallible<Vec<Duration>> {
        runtime.block_on(async {
            let mut times = Vec::with_capacity(count);
            for _ in 0..count {
                let name = format!("shell-{}", self.made.fetch_add(1, Ordering::Relaxed));
                let start = Instant::now();
                let mut shell = self.zygote.shell(self.scratch.path().join(&name), self.factory.cage(&name)).await?;
                shell.restore(&[]).await?;
                times.push(start.elapsed());
                shell.kill_all();
                shell.ended().await;
            }
            Ok(times)
        })
    }

    fn close(self) {
        self.zygote.close();
        self.factory.remove(&HashSet::new());
    }
}
