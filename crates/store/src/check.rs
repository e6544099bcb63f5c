//! Checks the journal at the start, before any of it is applied. Damaged lines set their sessions aside later, when
//! they are read; missing lines, and damaged ones of unknown sessions, leave no trace in any session, so they prevent
//! the start.

use crate::backend::Mark;
use crate::error::OpenError;
use crate::line;
use crate::segment::{self, After, Begin, Header};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::Path;

/// How much of a segment is read at a time.
const BUFFER_BYTES: usize = 256 * 1024;

/// How much of a segment counts.
struct Bounds {
    /// How many of its lines.
    lines: u64,
    /// Up to which byte it has been applied.
    applied: u64,
}

/// The contents of a segment.
#[derive(Debug, Default)]
struct Contents {
    /// How many lines there were when it was written, according to the remaining ones.
    lines: u64,
    /// The first problem that belongs to no known session.
    lost: Option<String>,
}

/// What the start needs to know about the existing journal.
#[derive(Debug)]
pub(crate) struct Checked {
    /// The newest segment with its lines; what a new one comes after.
    pub after: After,
    /// What is lost, if anything.
    pub lost: Option<OpenError>,
}

/// Checks the segments that have not been applied to their end. Their headers have been read already. The newest is the one
/// that was begun last, if that is known.
pub(crate) fn check(
    directory: &Path,
    headers: &BTreeMap<u64, Option<Header>>,
    applied: Mark,
    newest: Option<u64>,
) -> io::Result<Checked> {
    let mut after = After { segment: applied.segment, lines: 0 };
    let mut lost = None;
    let mut known: BTreeMap<u64, u64> = BTreeMap::new();
    let limits = limits(headers);
    // After a clean stop the mark is behind the newest segment, and none is there.
    let partly = (applied.offset > 0).then_some(applied.segment);
    let expected = newest.filter(|newest| *newest >= applied.segment).into_iter().chain(partly);
    if let Some(missing) = expected.into_iter().find(|number| !headers.contains_key(number)) {
        let path = segment::path(directory, missing);
        let reason = "it is missing, and not all of it had been applied".to_owned();
        lost = Some(OpenError::RecordsLost { path, reason });
    }
    for (number, header) in headers.range(applied.segment..) {
        let limit = limits.get(number).copied().unwrap_or(u64::MAX);
        if limit == 0 && number != &applied.segment {
            continue;
        }
        let path = segment::path(directory, *number);
        let has_sums = header.as_ref().is_none_or(Header::has_sums);
        let contents = if has_sums {
            let applied = if *number == applied.segment { applied.offset } else { 0 };
            read(&path, &Bounds { lines: limit, applied })?
        } else {
            Contents { lines: count(&path)?, lost: None }
        };
        known.insert(*number, contents.lines);
        after = After { segment: *number, lines: contents.lines };
        let before = header.as_ref().and_then(|header| header.after).filter(|before| before.segment >= applied.segment);
        let cut = before.and_then(|before| missing_before(before, &known));
        if let Some(reason) = cut.or(contents.lost) {
            lost.get_or_insert(OpenError::RecordsLost { path, reason });
        }
    }
    Ok(Checked { after, lost })
}

/// How many lines of each segment count. A segment that was written after a failed sync repeats what came after the
/// last good one, so those lines are skipped.
fn limits(headers: &BTreeMap<u64, Option<Header>>) -> BTreeMap<u64, u64> {
    let mut limits = BTreeMap::new();
    for (number, header) in headers {
        let Some(After { segment, lines }) = header.as_ref().and_then(|header| header.after) else { continue };
        limits.insert(segment, lines);
        limits.extend(
            headers.keys().filter(|between| (segment + 1..*number).contains(between)).map(|between| (*between, 0)),
        );
    }
    limits
}

/// What is missing at the end of the previous segment.
fn missing_before(before: After, known: &BTreeMap<u64, u64>) -> Option<String> {
    let After { segment, lines } = before;
    match known.get(&segment) {
        Some(found) if *found >= lines => None,
        Some(found) => Some(format!("segment {segment} before it had {lines} lines and has {found}")),
        None if lines == 0 => None,
        None => Some(format!("segment {segment} before it, with {lines} lines, is missing")),
    }
}

/// Reads a segment whose lines have numbers.
fn read(path: &Path, bounds: &Bounds) -> io::Result<Contents> {
    let mut file = File::open(path)?;
    let Begin::Header { length: mut offset, .. } = segment::begin(&file)? else { return Ok(Contents::default()) };
    file.seek(SeekFrom::Start(offset))?;
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
    let (mut contents, mut line) = (Contents::default(), Vec::new());
    let mut damaged = 0;
    while contents.lines + damaged < bounds.lines {
        line.clear();
        let length = reader.read_until(b'\n', &mut line)? as u64;
        // A last line without its end was never acknowledged.
        if line.pop() != Some(b'\n') {
            break;
        }
        let has_been_applied = offset + length <= bounds.applied;
        match line::check(&line) {
            Ok(found) if found == contents.lines + damaged + 1 => {
                contents.lines = found;
                damaged = 0;
            }
            Ok(found) => {
                let expected = contents.lines + damaged + 1;
                contents
                    .lost
                    .get_or_insert(format!("line {expected} was expected at byte {offset}, and line {found} is there"));
                contents.lines = found;
                damaged = 0;
            }
            Err(reason) => {
                if !has_been_applied && line::proven_session(&line).is_none() {
                    contents.lost.get_or_insert(format!("the line at byte {offset}, of an unknown session: {reason}"));
                }
                damaged += 1;
            }
        }
        offset += length;
    }
    contents.lines += damaged;
    Ok(contents)
}

/// Counts the lines of an older program's segment.
fn count(path: &Path) -> io::Result<u64> {
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, File::open(path)?);
    let mut lines = 0_u64;
    while reader.skip_until(b'\n')? > 0 {
        lines += 1;
    }
    Ok(lines.saturating_sub(1))
}
