//! Finding the place of a number by halving: jump, go to the next line break, look at the number there.

use super::{ReadError, Recording, failed};
use crate::line::Peek;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;

/// Below this distance lines are read one after the other, most often with one read.
const NEAR: u64 = 32 * 1024;

/// How much is read to find a line break and the number behind it.
const CHUNK: usize = 4 * 1024;

/// More than the beginning of a line with the largest number has.
const NUMBER: usize = 64;

/// Where a line begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineStart {
    pub file: usize,
    /// Which byte of it.
    pub offset: u64,
}

impl Recording {
    /// Where the first line begins whose number is not below `seq`; the end if there is none.
    pub(crate) fn seek(&self, seq: u64) -> Result<LineStart, ReadError> {
        // The last file that begins below the number, if one does. An empty file begins with nothing.
        let (mut low, mut high) = (0, self.files.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.first_seq(middle)?.is_some_and(|first| first < seq) { low = middle + 1 } else { high = middle }
        }
        let file = low.saturating_sub(1);
        let path = &self.files[file];
        let found = File::open(path).and_then(|file| {
            let length = file.metadata()?.len();
            in_file(&file, length, seq)
        });
        let offset = found.map_err(|error| failed(path, &error))?;
        Ok(LineStart { file, offset })
    }

    /// Removes the lines from this number on, the last first.
    pub(crate) fn cut(&self, seq: u64) -> Result<(), ReadError> {
        let place = self.seek(seq)?;
        for path in self.files.iter().skip(place.file + 1).rev() {
            std::fs::remove_file(path).map_err(|error| failed(path, &error))?;
        }
        let path = &self.files[place.file];
        let cut = File::options().write(true).open(path).and_then(|file| file.set_len(place.offset));
        cut.map_err(|error| failed(path, &error))
    }

    fn first_seq(&self, file: usize) -> Result<Option<u64>, ReadError> {
        let path = &self.files[file];
        let mut bytes = [0; NUMBER];
        let read = File::open(path).and_then(|file| file.read_at(&mut bytes, 0));
        let length = read.map_err(|error| failed(path, &error))?;
        Ok(Peek::seq(&bytes[..length]))
    }
}

fn in_file(file: &File, length: u64, seq: u64) -> io::Result<u64> {
    // The line at `low` is below the number or the first of all; those that begin after `high` are not below it.
    let (mut low, mut high) = (0, length);
    while high - low > NEAR {
        let middle = low + (high - low) / 2;
        match next_line(file, middle, high)? {
            Some((start, found)) if found < seq => low = start,
            _ => high = middle,
        }
    }
    near(file, low, length, seq)
}

/// The first line from `start` on whose number is not below `seq`, found by reading one line after the other.
fn near(mut file: &File, start: u64, length: u64, seq: u64) -> io::Result<u64> {
    file.seek(SeekFrom::Start(start))?;
    let mut lines = BufReader::with_capacity(NEAR as usize, file.take(length - start));
    let (mut start, mut line) = (start, Vec::new());
    loop {
        line.clear();
        let read = lines.read_until(b'\n', &mut line)?;
        // At the end, or in a line without one.
        if !line.ends_with(b"\n") || Peek::seq(&line).is_some_and(|found| found >= seq) {
            return Ok(start);
        }
        start += read as u64;
    }
}

/// Beginning and number of the first line that begins in the stretch and has a number.
fn next_line(file: &File, from: u64, to: u64) -> io::Result<Option<(u64, u64)>> {
    let mut from = from;
    while let Some(end) = line_break(file, from, to)? {
        let start = end + 1;
        if start >= to {
            return Ok(None);
        }
        let mut bytes = [0; NUMBER];
        let read = file.read_at(&mut bytes, start)?;
        if let Some(seq) = Peek::seq(&bytes[..read]) {
            return Ok(Some((start, seq)));
        }
        from = start;
    }
    Ok(None)
}

/// The first line break in the stretch.
fn line_break(file: &File, from: u64, to: u64) -> io::Result<Option<u64>> {
    let mut at = from;
    let mut chunk = [0; CHUNK];
    while at < to {
        let wanted = usize::try_from(to - at).unwrap_or(CHUNK).min(CHUNK);
        let read = file.read_at(&mut chunk[..wanted], at)?;
        if read == 0 {
            break;
        }
        if let Some(found) = memchr::memchr(b'\n', &chunk[..read]) {
            return Ok(Some(at + found as u64));
        }
        at += read as u64;
    }
    Ok(None)
}
