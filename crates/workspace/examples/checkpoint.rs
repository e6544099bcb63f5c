//! What checkpoints cost, against git in the same run: `cargo run --release -p shellkeep-workspace --example checkpoint
//! [files] [directories] [repeats]`. Medians of the repeats; git's index is warm, as an agent's would be.

use shellkeep_workspace::keeper::{Keeper, Label, Limits, Saved};
use shellkeep_workspace::repo::{Author, ObjectId};
use shellkeep_workspace::watch::Watcher;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let numbers: Vec<usize> = std::env::args().skip(1).map(|word| word.parse()).collect::<Result<_, _>>()?;
    let files = numbers.first().copied().unwrap_or(50_000);
    let directories = numbers.get(1).copied().unwrap_or(500).max(1);
    let repeats = numbers.get(2).copied().unwrap_or(15).max(1);
    let room = tempfile::tempdir()?;
    let (ours, theirs) = (room.path().join("ours"), room.path().join("theirs"));
    println!("{files} files in {directories} directories, medians of {repeats}");
    for workspace in [&ours, &theirs] {
        fill(workspace, files, directories)?;
    }
    let one = Path::new("d0/s0/f0");
    let (first, changed, nothing) = git_times(&theirs, one, repeats)?;
    tell("git add -A && git commit: the first", first);
    tell("git add -A && git commit: one changed file", changed);
    tell("git add -A: nothing changed", nothing);
    our_times(room.path(), &ours, one, repeats, changed)
}

fn our_times(room: &Path, workspace: &Path, one: &Path, repeats: usize, git: Duration) -> Outcome<()> {
    let watcher = Watcher::new();
    let home = room.join("home");
    let limits = Limits { time: Duration::from_secs(600), ..Limits::default() };
    let mut keeper = Keeper::new(&watcher, workspace.to_owned(), home, limits);
    let mut last = None;
    tell("begin: the first time", timed(|| Ok(keeper.begin()?))?);
    let (took, saved) = save(&mut keeper, &mut last)?;
    tell("save: the first, everything", took);
    println!(
        "    {} files, {} bytes written",
        saved.map_or(0, |one| one.counts.added),
        keeper.repo().map_or(0, |r| r.size())
    );

    let mut times: [Vec<Duration>; 5] = Default::default();
    for turn in 0..repeats {
        fs::write(workspace.join(one), format!("changed {turn}\n"))?;
        let (took, saved) = save(&mut keeper, &mut last)?;
        if saved.is_none_or(|saved| saved.counts.changed != 1) {
            return Err("the change was not seen".into());
        }
        times[0].push(took);
        times[1].push(timed(|| keeper.is_clean().then_some(()).ok_or_else(|| "not clean".into()))?);
        times[2].push(save(&mut keeper, &mut last)?.0);
        keeper.scan_everything();
        times[3].push(save(&mut keeper, &mut last)?.0);
    }
    let changed = median(&mut times[0]);
    tell("save: one changed file", changed);
    println!("    1/{:.1} of git's time", git.as_secs_f64() / changed.as_secs_f64());
    tell("is_clean: nothing changed", median(&mut times[1]));
    tell("save: nothing changed", median(&mut times[2]));
    tell("save: nothing changed, after a look at everything", median(&mut times[3]));
    println!("    {} watches", watcher.watches());
    for _ in 0..repeats.min(5) {
        let rested = timed(|| {
            keeper.rest();
            Ok(())
        })?;
        times[4].push(timed(|| Ok(keeper.begin()?))?);
        times[0].push(rested);
    }
    tell("rest (the first writes the index)", times[0].split_off(repeats)[0]);
    tell("begin: with a saved index", median(&mut times[4]));
    drop(Arc::clone(&watcher));
    Ok(())
}

fn save(keeper: &mut Keeper, last: &mut Option<ObjectId>) -> Outcome<(Duration, Option<Saved>)> {
    let label = Label {
        tag: "tool_bash_20261115T183000.000000Z".to_owned(),
        message: "Run 1: true".to_owned(),
        author: Author { name: "shellkeep".to_owned(), email: "shellkeep@localhost".to_owned() },
        seconds: 1_800_000_000,
    };
    let begun = Instant::now();
    let saved = keeper.save(&label, *last)?;
    let took = begun.elapsed();
    *last = saved.as_ref().map(|saved| saved.commit).or(*last);
    Ok((took, saved))
}

/// The first commit, one changed file, and nothing changed.
fn git_times(workspace: &Path, one: &Path, repeats: usize) -> Outcome<(Duration, Duration, Duration)> {
    git(workspace, &["init", "-q"])?;
    let commit = || git(workspace, &["add", "-A"]).and_then(|()| git(workspace, &["commit", "-qm", "x"]));
    let first = timed(commit)?;
    let (mut changed, mut nothing) = (Vec::new(), Vec::new());
    for turn in 0..repeats {
        fs::write(workspace.join(one), format!("changed {turn}\n"))?;
        changed.push(timed(commit)?);
        nothing.push(timed(|| git(workspace, &["add", "-A"]))?);
    }
    Ok((first, median(&mut changed), median(&mut nothing)))
}

fn git(workspace: &Path, arguments: &[&str]) -> Outcome<()> {
    let settings = ["user.name=t", "user.email=t@localhost", "gc.auto=0", "maintenance.auto=false"];
    let settings = settings.iter().flat_map(|setting| ["-c", setting]);
    let status = Command::new("git")
        .current_dir(workspace)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .args(settings)
        .args(arguments)
        .status()?;
    if status.success() { Ok(()) } else { Err(format!("git {arguments:?} failed").into()) }
}

/// Files of 0.4 to 4 KB that look like text, in directories two deep.
fn fill(workspace: &Path, files: usize, directories: usize) -> Outcome<()> {
    let width = directories.isqrt().max(1);
    let place = |number: usize| {
        let directory = number % directories;
        workspace.join(format!("d{}/s{}", directory % width, directory / width))
    };
    for number in 0..directories {
        fs::create_dir_all(place(number))?;
    }
    for number in 0..files {
        let line = format!("let value_{number} = {};\n", number.wrapping_mul(2_654_435_761));
        fs::write(place(number).join(format!("f{}", number / directories)), line.repeat(10 + number % 90))?;
    }
    Ok(())
}

fn timed(job: impl FnOnce() -> Outcome<()>) -> Outcome<Duration> {
    let begun = Instant::now();
    job()?;
    Ok(begun.elapsed())
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn tell(what: &str, took: Duration) {
    println!("{what:55} {:>12.3} ms", took.as_secs_f64() * 1e3);
}
