//! Reading a service's log: segments that the keeper writes, each named by the absolute offset of its first byte. The
//! writer is `keeper/log.c`; it removes the oldest segment while we read, and leaves a hole where it could not write.

pub use super::watch::{LogWatch, watch_logs};

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// What the name of a segment begins with; its offset follows, in this many digits.
const PREFIX: &str = "log-";
const OFFSET_DIGITS: usize = 20;
/// A segment may be gone by the time we open it, because much is written. How often to retry.
const ATTEMPTS: usize = 100;

/// The log of a service, to read. Holds nothing open.
#[derive(Debug, Clone)]
pub struct ServiceLog {
    directory: PathBuf,
}

/// A file of the log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Segment {
    start: u64,
    length: u64,
    path: PathBuf,
}

impl Segment {
    fn end(&self) -> u64 {
        self.start + self.length
    }
}

impl ServiceLog {
    /// The log in this directory, whether it is there yet or not.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// Offsets of the first byte that is kept and of the next one to be written.
    pub fn bounds(&self) -> io::Result<(u64, u64)> {
        let segments = self.segments()?;
        Ok((segments.first().map_or(0, |first| first.start), segments.last().map_or(0, Segment::end)))
    }

    /// At most `limit` bytes from `offset` on, with the offset of the first of them: a later one where what was asked
    /// for is no longer there. They are in one piece; a hole ends them. Nothing, with the offset of the end, where
    /// nothing is written yet.
    pub fn read(&self, offset: u64, limit: usize) -> io::Result<(u64, Vec<u8>)> {
        for _ in 0..ATTEMPTS {
            let segments = self.segments()?;
            match read_from(&segments, offset, limit) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => return other,
            }
        }
        Err(io::Error::other("the log is written faster than it can be read; ask for its end instead"))
    }

    /// The last bytes, at most this many, without a gap, with the offset of the first of them.
    pub fn tail(&self, bytes: usize) -> io::Result<(u64, Vec<u8>)> {
        let (_, end) = self.bounds()?;
        let mut last = self.read(end.saturating_sub(bytes as u64), bytes)?;
        // What is before a hole cannot be joined to the end.
        while last.0 + (last.1.len() as u64) < end {
            let next = self.read(last.0 + last.1.len() as u64, bytes)?;
            if next.1.is_empty() {
                break;
            }
            last = next;
        }
        Ok(last)
    }

    /// The segments in order of their offsets. One that is being removed may be in the list or not.
    fn segments(&self) -> io::Result<Vec<Segment>> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut segments = Vec::new();
        for entry in entries {
            let entry = entry?;
            let Some(start) = entry.file_name().to_str().and_then(parse_name) else { continue };
            if let Ok(about) = entry.metadata() {
                segments.push(Segment { start, length: about.len(), path: entry.path() });
            }
        }
        segments.sort();
        // One that seems to leave a hole before the next may have grown since we looked; with the next there, it is
        // complete.
        for at in 1..segments.len() {
            if segments[at - 1].end() < segments[at].start
                && let Ok(about) = fs::metadata(&segments[at - 1].path)
            {
                segments[at - 1].length = about.len();
            }
        }
        Ok(segments)
    }
}

fn parse_name(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?;
    let is_offset = digits.len() == OFFSET_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_offset)
}

fn read_from(segments: &[Segment], offset: u64, limit: usize) -> io::Result<(u64, Vec<u8>)> {
    let end = segments.last().map_or(0, Segment::end);
    let Some(first) = segments.iter().position(|segment| offset < segment.end()) else {
        return Ok((end, Vec::new()));
    };
    let offset = offset.max(segments[first].start);
    let mut bytes = Vec::new();
    for segment in &segments[first..] {
        let at = offset + bytes.len() as u64;
        if at < segment.start || bytes.len() >= limit {
            break;
        }
        let file = match File::open(&segment.path) {
            // What was read before is good; the next call continues behind the gap.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !bytes.is_empty() => break,
            other => other?,
        };
        let wanted = usize::try_from(segment.end() - at).unwrap_or(usize::MAX).min(limit - bytes.len());
        read_at(&file, at - segment.start, wanted, &mut bytes)?;
    }
    Ok((offset, bytes))
}

fn read_at(file: &File, from: u64, wanted: usize, into: &mut Vec<u8>) -> io::Result<()> {
    let before = into.len();
    into.resize(before + wanted, 0);
    let mut done = 0;
    while done < wanted {
        match file.read_at(&mut into[before + done..], from + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    into.truncate(before + done);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(segments: &[(u64, &str)]) -> (tempfile::TempDir, ServiceLog) {
        let directory = tempfile::tempdir().unwrap();
        for (start, text) in segments {
            fs::write(directory.path().join(format!("log-{start:020}")), text).unwrap();
        }
        let log = ServiceLog::at(directory.path());
        (directory, log)
    }

    #[test]
    fn an_offset_finds_its_bytes_wherever_they_are() {
        let (_directory, log) = log(&[(100, "abcd"), (104, "efgh"), (120, "ijkl")]);
        assert_eq!(log.bounds().unwrap(), (100, 124));
        for (offset, limit, expected) in [
            (0, 3, (100, "abc")),
            (102, 4, (102, "cdef")),
            (104, 100, (104, "efgh")),
            (110, 2, (120, "ij")),
            (123, 9, (123, "l")),
            (124, 9, (124, "")),
            (900, 9, (124, "")),
            (101, 0, (101, "")),
        ] {
            let (at, bytes) = log.read(offset, limit).unwrap();
            assert_eq!((at, std::str::from_utf8(&bytes).unwrap()), expected, "{offset} {limit}");
        }
    }

    #[test]
    fn the_tail_is_in_one_piece() {
        let (_directory, log) = log(&[(100, "abcd"), (104, "efgh")]);
        assert_eq!(log.tail(3).unwrap(), (105, b"fgh".to_vec()));
        assert_eq!(log.tail(6).unwrap(), (102, b"cdefgh".to_vec()));
        assert_eq!(log.tail(600).unwrap(), (100, b"abcdefgh".to_vec()));
    }

    #[test]
    fn the_tail_does_not_reach_across_a_hole() {
        let (_directory, log) = log(&[(100, "abcd"), (120, "ijkl")]);
        assert_eq!(log.tail(600).unwrap(), (120, b"ijkl".to_vec()));
    }

    #[test]
    fn no_log_is_an_empty_one_and_other_files_are_none() {
        let (directory, log) = log(&[]);
        fs::write(directory.path().join("log-12"), "x").unwrap();
        fs::write(directory.path().join("exit"), "x").unwrap();
        assert_eq!(log.bounds().unwrap(), (0, 0));
        assert_eq!(log.tail(5).unwrap(), (0, Vec::new()));
        assert_eq!(ServiceLog::at(directory.path().join("none")).bounds().unwrap(), (0, 0));
    }
}
