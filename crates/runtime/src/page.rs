//! Reading a stream of a run piece by piece: from an offset, the last bytes, or the lines that match.
//!
//! A stream that outgrew its quota has a gap: what came after the kept bytes is gone, but for the last ones. Offsets count
//! what the command wrote, so a reader who comes to the gap is taken to its end and sees that in the page's offset.

use crate::ops::{MAX_OUTPUT_PAGE, OutputPage, OutputQuery};
use crate::output;
use shellkeep_session::Output;
use std::io;
use std::path::Path;

/// Bytes searched at a time; a line longer than this is searched in pieces.
const GREP_BLOCK: usize = 1 << 20;

/// Why a page of output could not be given.
#[derive(Debug)]
pub enum PageError {
    /// The regular expression is wrong.
    Pattern(String),
    /// The file cannot be read.
    Io(io::Error),
}

/// What there is of a stream.
struct Stream<'a, R> {
    record: &'a Output,
    read: R,
}

impl<R: Fn(u64, usize) -> io::Result<Vec<u8>>> Stream<'_, R> {
    fn tail(&self) -> &[u8] {
        self.record.tail.as_ref().map(|tail| tail.as_bytes()).unwrap_or_default()
    }

    /// Where the bytes after the gap begin; the end, if there is no gap.
    fn tail_start(&self) -> u64 {
        self.record.total - self.tail().len() as u64
    }

    /// The first byte from `offset` on that is there.
    fn skip_gap(&self, offset: u64) -> u64 {
        let offset = offset.min(self.record.total);
        if offset >= self.record.kept { offset.max(self.tail_start()) } else { offset }
    }

    /// Bytes from an offset that is not in the gap, up to the gap or the end.
    fn read(&self, offset: u64, limit: usize) -> io::Result<Vec<u8>> {
        if offset < self.record.kept {
            return (self.read)(offset, limit);
        }
        let tail = self.tail();
        let start = usize::try_from(offset - self.tail_start()).unwrap_or(usize::MAX).min(tail.len());
        Ok(tail[start..tail.len().min(start.saturating_add(limit))].to_vec())
    }
}

/// A page of a stream of which only the file is there: its session was removed.
pub fn page_of_file(path: &Path, query: &OutputQuery) -> Result<OutputPage, PageError> {
    let length = std::fs::metadata(path).map_err(PageError::Io)?.len();
    let record = Output { total: length, kept: length, inline: None, tail: None };
    page(&record, true, query, |offset, limit| output::read_kept(&record, path, offset, limit))
}

/// A page of a stream.
pub fn page(
    record: &Output,
    complete: bool,
    query: &OutputQuery,
    read: impl Fn(u64, usize) -> io::Result<Vec<u8>>,
) -> Result<OutputPage, PageError> {
    let stream = Stream { record, read };
    let from_end = query.tail.map_or(0, |tail| record.total.saturating_sub(tail));
    let offset = stream.skip_gap(query.offset.max(from_end));
    let limit = usize::try_from(query.limit.min(MAX_OUTPUT_PAGE)).unwrap_or(usize::MAX);
    let (bytes, next_offset) = match &query.grep {
        None => {
            let bytes = stream.read(offset, limit).map_err(PageError::Io)?;
            let next_offset = offset + bytes.len() as u64;
            (bytes, next_offset)
        }
        Some(pattern) => {
            let pattern = regex::bytes::Regex::new(pattern).map_err(|error| PageError::Pattern(error.to_string()))?;
            grep(&stream, &pattern, offset, limit).map_err(PageError::Io)?
        }
    };
    // What cannot be read any more must not keep a reader waiting for it.
    let next_offset = if next_offset == offset { next_offset } else { stream.skip_gap(next_offset) };
    Ok(OutputPage { bytes, offset, next_offset, total: record.total, complete })
}

/// Lines that match, up to `limit` bytes of them, and where the search ended.
fn grep<R: Fn(u64, usize) -> io::Result<Vec<u8>>>(
    stream: &Stream<'_, R>,
    pattern: &regex::bytes::Regex,
    mut offset: u64,
    limit: usize,
) -> io::Result<(Vec<u8>, u64)> {
    let mut found = Vec::new();
    while offset < stream.record.total {
        let block = stream.read(offset, GREP_BLOCK)?;
        if block.is_empty() {
            break;
        }
        let end = offset + block.len() as u64;
        let is_last = end == stream.record.kept || end == stream.record.total;
        let whole = if is_last {
            block.len()
        } else {
            block.iter().rposition(|&b| b == b'\n').map_or(block.len(), |at| at + 1)
        };
        for line in block[..whole].split_inclusive(|&b| b == b'\n') {
            if pattern.is_match(line.strip_suffix(b"\n").unwrap_or(line)) {
                if found.len() + line.len() > limit && !found.is_empty() {
                    return Ok((found, offset));
                }
                found.extend_from_slice(line);
            }
            offset += line.len() as u64;
        }
        offset = stream.skip_gap(offset);
    }
    Ok((found, offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Stream as Which;

    #[test]
    fn grep_pages_through_matching_lines() {
        let text: Vec<u8> = (0..100).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        let record = Output { total: text.len() as u64, kept: text.len() as u64, ..Output::default() };
        let read = |offset: u64, limit: usize| {
            let start = offset as usize;
            Ok(text[start..text.len().min(start + limit)].to_vec())
        };
        let mut query =
            OutputQuery { stream: Which::Stdout, offset: 0, limit: 20, tail: None, grep: Some("7$".to_owned()) };
        let mut all = Vec::new();
        loop {
            let found = page(&record, true, &query, read).unwrap();
            all.extend_from_slice(&found.bytes);
            if found.next_offset == found.total {
                break;
            }
            query.offset = found.next_offset;
        }
        assert_eq!(all.split(|&b| b == b'\n').count(), 11, "{}", String::from_utf8_lossy(&all));
    }

    #[test]
    fn a_reader_is_taken_over_the_gap() {
        let head = b"0123456789".to_vec();
        let record = Output { total: 100, kept: 10, inline: None, tail: Some(b"END\n".as_slice().into()) };
        let read = |offset: u64, limit: usize| {
            let start = offset as usize;
            Ok(head[start..head.len().min(start + limit)].to_vec())
        };
        let query = |offset, tail, grep: Option<&str>| OutputQuery {
            stream: Which::Stdout,
            offset,
            limit: 1000,
            tail,
            grep: grep.map(str::to_owned),
        };
        let first = page(&record, true, &query(0, None, None), read).unwrap();
        assert_eq!((first.bytes.as_slice(), first.next_offset), (head.as_slice(), 96));
        let rest = page(&record, true, &query(first.next_offset, None, None), read).unwrap();
        assert_eq!((rest.bytes.as_slice(), rest.offset, rest.next_offset), (b"END\n".as_slice(), 96, 100));
        assert_eq!(page(&record, true, &query(50, None, None), read).unwrap().bytes, b"END\n");
        assert_eq!(page(&record, true, &query(0, Some(3), None), read).unwrap().bytes, b"ND\n");
        assert_eq!(page(&record, true, &query(0, None, Some("END")), read).unwrap().bytes, b"END\n");
    }
}
