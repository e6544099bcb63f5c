//! How long a copy of a workspace takes, beside `cp -r` and beside making as many empty files, which no copy can beat.
//!
//! `cargo run --release -p shellkeep-workspace --example fork -- [FILES] [DIRECTORY]`: the files (10,000 unless told) are
//! made in a directory of their own below DIRECTORY (the system's for temporary files unless told), read once, and each
//! way is timed in turn, seven times. Nothing is removed before the end: ext4 passes over inodes that were freed in the
//! last minutes one by one, so that what is timed after a large removal is the removal.

use shellkeep_workspace::copy;
use shellkeep_workspace::fault::Faults;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const ROUNDS: usize = 7;
const FILES_PER_DIRECTORY: usize = 50;
const DIRECTORIES_PER_DIRECTORY: usize = 20;

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let files = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let home = arguments.next().map_or_else(std::env::temp_dir, Into::into);
    let home = home.join(format!("shellkeep-fork-{}", std::process::id()));
    fs::create_dir(&home)?;
    let result = measure(&home, files);
    fs::remove_dir_all(&home)?;
    result
}

fn measure(home: &Path, files: usize) -> io::Result<()> {
    let from = home.join("from");
    fill(&from, files)?;
    let mut times: [Vec<f64>; 3] = Default::default();
    let mut shares = false;
    for round in 0..=ROUNDS {
        let to = |way: &str| home.join(format!("{way}-{round}"));
        let ways: [&mut dyn FnMut() -> io::Result<()>; 3] = [
            &mut || Command::new("cp").arg("-r").args([&from, &to("cp")]).status().map(drop),
            &mut || copy::workspace(&from, &to("copy"), &Faults::default()).map(|copied| shares = copied.shares_bytes),
            &mut || empty(&to("empty"), files),
        ];
        for (way, times) in ways.into_iter().zip(&mut times) {
            let start = Instant::now();
            way()?;
            let took = start.elapsed().as_secs_f64() * 1e3;
            // The first round warms up.
            if round > 0 {
                times.push(took);
            }
        }
    }
    let medians = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        (times[ROUNDS / 2], times[0], times[ROUNDS - 1])
    });
    println!("{files} files, median of {ROUNDS} (least, most) in ms; bytes shared: {shares}");
    for ((median, least, most), name) in medians.into_iter().zip(["cp -r", "copy::workspace", "as many empty files"]) {
        let part = median / medians[0].0;
        println!("{name:>20}  {median:8.1} ({least:.1}, {most:.1})  {part:.2} of cp -r");
    }
    Ok(())
}

fn name(file: usize) -> (String, String) {
    let directory = file / FILES_PER_DIRECTORY;
    (format!("d{}/e{directory}", directory / DIRECTORIES_PER_DIRECTORY), format!("file{file}.txt"))
}

/// Files of 1,500 to 4,500 bytes, as source code has.
fn fill(root: &Path, files: usize) -> io::Result<()> {
    for file in 0..files {
        let (directory, name) = name(file);
        fs::create_dir_all(root.join(&directory))?;
        let bytes: Vec<u8> = (0..1500 + file * 7919 % 3000).map(|at| (at * file % 251) as u8).collect();
        fs::write(root.join(directory).join(name), bytes)?;
    }
    Ok(())
}

/// As many empty files in as many directories, by two threads.
fn empty(root: &Path, files: usize) -> io::Result<()> {
    let half = |from: usize| {
        for file in (0..files).filter(|file| file / FILES_PER_DIRECTORY % 2 == from) {
            let (directory, name) = name(file);
            if file % FILES_PER_DIRECTORY == 0 {
                fs::create_dir_all(root.join(&directory))?;
            }
            fs::File::create(root.join(directory).join(name))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| half(1));
        half(0)?;
        other.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
    })
}
