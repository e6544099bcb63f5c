//! A log file of bounded size: at the limit it becomes `FILE.1`, and the oldest is removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// A log file with its predecessors.
pub(super) struct RotatingFile {
    path: PathBuf,
    /// At this size a new file is started.
    limit: u64,
    /// How many old files are kept.
    keep: usize,
    file: File,
    written: u64,
}

impl RotatingFile {
    /// Opens the file for appending. Only its owner can read it.
    pub(super) fn open(path: &Path, limit: u64, keep: usize) -> io::Result<Self> {
        let file = open(path)?;
        let written = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), limit, keep, file, written })
    }

    fn rotate(&mut self) -> io::Result<()> {
        if self.keep == 0 {
            self.file.set_len(0)?;
        } else {
            for number in (1..self.keep).rev() {
                rename(&numbered(&self.path, number), &numbered(&self.path, number + 1))?;
            }
            rename(&self.path, &numbered(&self.path, 1))?;
            self.file = open(&self.path)?;
        }
        self.written = 0;
        Ok(())
    }
}

impl Write for RotatingFile {
    /// Takes whole lines: the logger writes each event with one call.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.written > 0 && self.written + line.len() as u64 > self.limit {
            // A log that is too long is better than none.
            let _ = self.rotate();
        }
        self.file.write_all(line)?;
        self.written += line.len() as u64;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

fn numbered(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

/// Renames the existing files.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_are_kept_in_so_many_files() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("log");
        for keep in [0, 2] {
            let mut file = RotatingFile::open(&path, 10, keep).unwrap();
            for number in 0..9 {
                file.write_all(format!("{keep}{number}\n").as_bytes()).unwrap();
            }
        }
        let read = |name: &str| fs::read_to_string(room.path().join(name)).unwrap();
        assert_eq!(
            (read("log"), read("log.1"), read("log.2")),
            ("26\n27\n28\n".into(), "23\n24\n25\n".into(), "20\n21\n22\n".into())
        );
        assert!(!room.path().join("log.3").exists());
    }

    #[test]
    fn a_file_is_continued() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("log");
        RotatingFile::open(&path, 100, 1).unwrap().write_all(b"one\n").unwrap();
        RotatingFile::open(&path, 100, 1).unwrap().write_all(b"two\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    }
}
