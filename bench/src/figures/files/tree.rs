//! Trees of files as a project has them: directories of a hundred, one to four kilobytes of source text each.

use crate::fallible::Fallible;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const IN_DIRECTORY: usize = 100;
const SMALLEST: usize = 1 << 10;
const LARGEST: usize = 4 << 10;
/// What the files are cut from.
const TEXT: &[u8] = include_bytes!("../../report.rs");

/// Fills a directory, the same in every run; gives the bytes.
pub fn write(root: &Path, files: usize) -> Fallible<u64> {
    let mut bytes = 0;
    for number in 0..files {
        let path = root.join(path(number));
        if number.is_multiple_of(IN_DIRECTORY)
            && let Some(directory) = path.parent()
        {
            fs::create_dir_all(directory)?;
        }
        let content = content(number, files);
        fs::write(path, &content)?;
        bytes += content.len() as u64;
    }
    Ok(bytes)
}

fn content(number: usize, files: usize) -> Vec<u8> {
    let mut content = format!("// file {number}\n").into_bytes();
    let size = SMALLEST + chance(number) % (LARGEST - SMALLEST);
    let from = chance(number + files) % (TEXT.len() - LARGEST);
    content.extend_from_slice(&TEXT[from..from + size - content.len()]);
    content
}

/// Fills a directory with files that are in memory already, on all processors, each thread a directory at a time: what
/// every copy costs that does not share bytes. Gives how long it took.
pub fn fill(root: &Path, files: usize) -> Fallible<Duration> {
    let contents: Vec<Vec<u8>> = (0..files).map(|number| content(number, files)).collect();
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    fs::create_dir(root)?;
    let work = || -> io::Result<()> {
        loop {
            let first = next.fetch_add(IN_DIRECTORY, Ordering::Relaxed);
            if first >= files {
                return Ok(());
            }
            let directory = root.join(directory(first));
            fs::create_dir(&directory)?;
            for (number, content) in contents.iter().enumerate().skip(first).take(IN_DIRECTORY) {
                fs::write(directory.join(name(number)), content)?;
            }
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let ours = work();
        let theirs =
            others.into_iter().try_for_each(|other| other.join().map_err(|_| "a thread panicked")?.map_err(Into::into));
        ours.map_err(Into::into).and(theirs)
    })
    .map(|()| start.elapsed())
}

/// Where a file is, below the tree's root.
pub fn path(number: usize) -> String {
    format!("{}/{}", directory(number), name(number))
}

fn directory(number: usize) -> String {
    format!("d{:03}", number / IN_DIRECTORY)
}

fn name(number: usize) -> String {
    format!("f{:02}.rs", number % IN_DIRECTORY)
}

/// One of the files, another one for each turn.
pub fn pick(turn: usize, files: usize) -> usize {
    chance(turn) % files
}

/// A command that adds a line to each of the first `count` files.
pub fn change_command(count: usize, line: &str) -> String {
    format!(
        "for ((n = 0; n < {count}; n++)); do printf -v p 'd%03d/f%02d.rs' $((n / {IN_DIRECTORY})) \
         $((n % {IN_DIRECTORY})); echo '{line}' >> \"$p\"; done"
    )
}

/// Adds a line to a file.
pub fn append(path: &Path, line: &str) -> Fallible<()> {
    let mut file = OpenOptions::new().append(true).open(path)?;
    Ok(writeln!(file, "{line}")?)
}

/// Blocks of the disk that everything in a directory takes, in kibibytes.
pub fn disk(directory: &Path) -> Fallible<f64> {
    let mut blocks = 0;
    let mut todo = vec![directory.to_owned()];
    while let Some(directory) = todo.pop() {
        blocks += fs::metadata(&directory)?.blocks();
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                todo.push(entry.path());
            } else {
                blocks += metadata.blocks();
            }
        }
    }
    Ok(blocks as f64 / 2.0)
}

/// Has everything written out, so that nobody pays for what somebody else did.
pub fn settle(directory: &Path) -> Fallible<()> {
    Ok(rustix::fs::syncfs(File::open(directory)?)?)
}

/// A number that looks like chance and is the same in every run.
fn chance(number: usize) -> usize {
    ((number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_so_many_files_of_such_sizes_and_is_always_the_same() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        assert_eq!(write(one.path(), 250).unwrap(), write(two.path(), 250).unwrap());
        for number in 0..250 {
            let content = fs::read(one.path().join(path(number))).unwrap();
            assert!((SMALLEST..LARGEST).contains(&content.len()), "{number}: {}", content.len());
            assert_eq!(content, fs::read(two.path().join(path(number))).unwrap());
        }
        assert!(!one.path().join(path(250)).exists() && disk(one.path()).unwrap() >= 250.0);
    }
}
