//! Reading a stream of a run piece by piece: from an offset, the last bytes, or the lines that match.
//!
//! A stream that exceeded its quota has a gap: what follows the kept bytes is gone, except for the last ones. Offsets
//! count what the command wrote, so a reader that reaches the gap continues at its end, which the page's offset shows.

use crate::masked_piece::{self, AROUND, PieceMask, Shown};
use crate::ops::{MAX_OUTPUT_PAGE, OpError, OutputPage, OutputQuery, RecordError, SearchNext, Tail};
use crate::output;
use crate::work::SEARCH_TIME;
use shellkeep_record::{Budget, Pattern, PatternError, Spent};
use shellkeep_session::Output;
use std::io;
use std::path::Path;

/// Bytes searched at a time; a line longer than this is searched in pieces.
const BLOCK: usize = 1 << 20;
/// Bytes at the end of such a piece that are searched again with the next one: the longest match that is found wherever
/// in a line it is.
const CARRIED: usize = 64 << 10;

/// Why a page of output could not be returned.
#[derive(Debug)]
pub enum PageError {
    /// The regular expression is invalid.
    Pattern(PatternError),
    /// The search took too long, and found nothing up to here.
    Spent {
        /// Where to continue.
        next_offset: u64,
    },
    /// The file cannot be read.
    Io(io::Error),
}

impl PageError {
    /// The error for a caller. `unreadable` makes one for a file that cannot be read.
    pub fn told(self, unreadable: impl FnOnce(io::Error) -> OpError) -> OpError {
        match self {
            Self::Pattern(error) => OpError::Invalid { detail: format!("grep is {error}") },
            Self::Spent { next_offset } => OpError::Record(RecordError::SearchSpent {
                limit: SEARCH_TIME.as_secs(),
                next: SearchNext::Offset(next_offset),
            }),
            Self::Io(error) => unreadable(error),
        }
    }
}

/// How a page is searched.
#[derive(Default)]
pub struct Searching {
    /// How long it may take.
    pub budget: Budget,
    /// What masks a page, and what is searched: a search must not reveal what is masked.
    pub mask: Option<PieceMask>,
}

/// What there is of a stream.
struct KeptStream<'a, R> {
    record: &'a Output,
    read: R,
}

impl<R: Fn(u64, usize) -> io::Result<Vec<u8>>> KeptStream<'_, R> {
    fn tail(&self) -> &[u8] {
        self.record.tail.as_ref().map(|tail| tail.as_bytes()).unwrap_or_default()
    }

    /// Where the bytes after the gap begin; the end, if there is no gap.
    fn tail_start(&self) -> u64 {
        self.record.total - self.tail().len() as u64
    }

    /// The first kept byte from `offset` on.
    fn skip_gap(&self, offset: u64) -> u64 {
        let offset = offset.min(self.record.total);
        if offset >= self.record.kept { offset.max(self.tail_start()) } else { offset }
    }

    /// How many bytes of a range were not kept.
    fn dropped(&self, from: u64, to: u64) -> u64 {
        to.min(self.tail_start()).saturating_sub(from.max(self.record.kept))
    }

    /// Where the last lines begin, not before `from`. What is before the gap is not the end.
    fn last_lines(&self, lines: u64, from: u64, budget: &Budget) -> Result<u64, PageError> {
        let (total, gap_end) = (self.record.total, self.tail_start());
        let floor = if self.record.kept < gap_end { from.max(gap_end) } else { from };
        let (mut found, mut end) = (0, total);
        while end > floor && found < lines {
            if budget.is_spent() {
                return Err(PageError::Spent { next_offset: end });
            }
            let start = end.saturating_sub(BLOCK as u64).max(floor);
            let block = self.read(start, (end - start) as usize).map_err(PageError::Io)?;
            for (index, _) in block.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
                let next_line = start + index as u64 + 1;
                // The line feed at the very end begins no line.
                found += u64::from(next_line < total);
                if found == lines {
                    return Ok(next_line);
                }
            }
            end = start;
        }
        Ok(if lines == 0 { total } else { floor })
    }

    /// Bytes that were read at an offset, as they are shown, and where those end.
    fn shown(&self, bytes: Vec<u8>, offset: u64, mask: Option<&PieceMask>) -> io::Result<(Vec<u8>, u64)> {
        let end = offset + bytes.len() as u64;
        let Some(PieceMask { redactor, first }) = mask else { return Ok((bytes, end)) };
        let start = offset.saturating_sub(AROUND as u64).max(*first).min(offset);
        let mut text = self.read(start, (offset - start) as usize)?;
        if start + text.len() as u64 != offset {
            // It was removed since.
            text.clear();
        }
        let at = text.len();
        let is_torn = offset > at as u64 && at < AROUND;
        text.extend_from_slice(&bytes);
        text.extend(self.read(end, AROUND)?);
        let Shown { bytes: shown, end } = masked_piece::show(redactor, &text, at..at + bytes.len(), is_torn);
        Ok((shown, offset - at as u64 + end as u64))
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

/// A page of a stream of which only the file exists: its session was deleted.
pub fn page_of_file(path: &Path, query: &OutputQuery, searching: &Searching) -> Result<OutputPage, PageError> {
    let length = std::fs::metadata(path).map_err(PageError::Io)?.len();
    let record = Output { total: length, kept: length, ..Output::default() };
    page(&record, true, query, searching, |offset, limit| output::read_kept(&record, path, offset, limit))
}

/// A page of a stream.
pub fn page(
    record: &Output,
    complete: bool,
    query: &OutputQuery,
    searching: &Searching,
    read: impl Fn(u64, usize) -> io::Result<Vec<u8>>,
) -> Result<OutputPage, PageError> {
    let stream = KeptStream { record, read };
    let from_end = match query.tail {
        None => 0,
        Some(Tail::Bytes(bytes)) => record.total.saturating_sub(bytes),
        Some(Tail::Lines(lines)) => stream.last_lines(lines, query.offset, &searching.budget)?,
    };
    let offset = stream.skip_gap(query.offset.max(from_end));
    let limit = usize::try_from(query.limit.min(MAX_OUTPUT_PAGE)).unwrap_or(usize::MAX);
    let (bytes, next_offset) = match &query.grep {
        None => {
            let bytes = stream.read(offset, limit).map_err(PageError::Io)?;
            stream.shown(bytes, offset, searching.mask.as_ref()).map_err(PageError::Io)?
        }
        Some(pattern) => {
            let pattern = Pattern::new(pattern).map_err(PageError::Pattern)?;
            grep(&stream, &Grep { pattern, searching }, offset, limit)?
        }
    };
    // A reader must not wait for dropped bytes.
    let next_offset = if next_offset == offset { next_offset } else { stream.skip_gap(next_offset) };
    let (total, dropped) = (record.total, stream.dropped(offset, next_offset));
    Ok(OutputPage { bytes, offset, next_offset, total, dropped, complete, merged: record.merged })
}

/// What is looked for, and how.
struct Grep<'a> {
    pattern: Pattern,
    searching: &'a Searching,
}

/// Lines that match, up to `limit` bytes of them, and where the search ended.
fn grep<R: Fn(u64, usize) -> io::Result<Vec<u8>>>(
    stream: &KeptStream<'_, R>,
    grep: &Grep<'_>,
    mut offset: u64,
    limit: usize,
) -> Result<(Vec<u8>, u64), PageError> {
    let mut found = Vec::new();
    while offset < stream.record.total {
        let block = stream.read(offset, BLOCK).map_err(PageError::Io)?;
        if block.is_empty() {
            break;
        }
        let end = offset + block.len() as u64;
        let is_last = end == stream.record.kept || end == stream.record.total;
        let lines_end =
            if is_last { Some(block.len()) } else { block.iter().rposition(|&b| b == b'\n').map(|at| at + 1) };
        let (whole, found_before) = (lines_end.unwrap_or(block.len()), found.len());
        let mask = grep.searching.mask.as_ref();
        let (shown, end) = stream.shown(block[..whole].to_vec(), offset, mask).map_err(PageError::Io)?;
        let length = (end - offset) as usize;
        // Of one that ends behind the block, all of the block is masked.
        let block = Block { text: block.get(..length).unwrap_or_default(), shown: &shown, length };
        let (taken, stopped) = grep.block(&block, limit, &mut found);
        offset += taken as u64;
        match stopped {
            Some(SearchEnd::Full) => return Ok((found, offset)),
            Some(SearchEnd::Spent) if found.is_empty() => return Err(PageError::Spent { next_offset: offset }),
            Some(SearchEnd::Spent) => return Ok((found, offset)),
            // The line goes on, and what is looked for may lie over the end of this piece. One that was found is not
            // shown twice.
            None if lines_end.is_none() && found.len() == found_before => offset -= CARRIED.min(taken / 2) as u64,
            None => {
                let next = stream.skip_gap(offset);
                if next > offset && found.last().is_some_and(|last| *last != b'\n') {
                    // A line that the gap cuts off does not go on behind it.
                    found.push(b'\n');
                }
                offset = next;
            }
        }
    }
    Ok((found, offset))
}

/// Why a search ended before the end of the text.
enum SearchEnd {
    /// Enough was found.
    Full,
    /// The time is used up.
    Spent,
}

/// What is searched at a time.
struct Block<'a> {
    text: &'a [u8],
    /// The text as it is shown.
    shown: &'a [u8],
    /// How long the text is.
    length: usize,
}

impl Grep<'_> {
    /// Searches a block of lines; returns how much of it was searched.
    fn block(&self, block: &Block<'_>, limit: usize, found: &mut Vec<u8>) -> (usize, Option<SearchEnd>) {
        let Block { text, shown, length: whole } = *block;
        let lines = |text: &[u8]| text.iter().filter(|&&byte| byte == b'\n').count();
        // Text that was masked over several lines cannot be split into lines; such a block is treated as one line.
        let by_lines = self.searching.mask.is_none() || lines(shown) == lines(text);
        let mut lengths = text.split_inclusive(|&b| b == b'\n').map(<[u8]>::len);
        let mut taken = 0;
        for line in shown.split_inclusive(|&b| b == b'\n') {
            let length = if by_lines { lengths.next().unwrap_or(0) } else { 0 };
            if by_lines && self.searching.budget.is_spent() {
                return (taken, Some(SearchEnd::Spent));
            }
            match self.pattern.is_in(line.strip_suffix(b"\n").unwrap_or(line), &self.searching.budget) {
                Ok(true) if by_lines && found.len() + line.len() > limit && !found.is_empty() => {
                    return (taken, Some(SearchEnd::Full));
                }
                Ok(true) => found.extend_from_slice(line),
                Ok(false) => {}
                // One line used up the time: it is skipped, so that a caller who continues makes progress.
                Err(Spent) => return (if by_lines { taken + length } else { whole }, Some(SearchEnd::Spent)),
            }
            taken += length;
        }
        (whole, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Stream as Which;
    use shellkeep_redact::Redactor;

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
            let found = page(&record, true, &query, &Searching::default(), read).unwrap();
            all.extend_from_slice(&found.bytes);
            if found.next_offset == found.total {
                break;
            }
            query.offset = found.next_offset;
        }
        assert_eq!(all.split(|&b| b == b'\n').count(), 11, "{}", String::from_utf8_lossy(&all));
    }

    fn whole(text: &[u8]) -> Output {
        Output { total: text.len() as u64, kept: text.len() as u64, ..Output::default() }
    }

    fn searched(text: &[u8], searching: &Searching, grep: &str, limit: u64) -> Result<OutputPage, PageError> {
        let query = OutputQuery { stream: Which::Stdout, offset: 0, limit, tail: None, grep: Some(grep.to_owned()) };
        let read = |offset: u64, limit: usize| {
            let start = offset as usize;
            Ok(text[start..text.len().min(start + limit)].to_vec())
        };
        page(&whole(text), true, &query, searching, read)
    }

    #[test]
    fn a_search_without_time_says_where_to_go_on() {
        let searching = Searching { budget: Budget::of(std::time::Duration::ZERO), mask: None };
        let stopped = searched(b"one\ntwo\n", &searching, "two", 100);
        assert!(matches!(stopped, Err(PageError::Spent { next_offset: 0 })), "{stopped:?}");
        let long = vec![b'x'; 3 << 20];
        let stopped = searched(&long, &searching, "two", 100);
        assert!(matches!(stopped, Err(PageError::Spent { next_offset: 0 })), "{stopped:?}");
    }

    /// The two halves of a match over the end of a block were searched apart, and neither was it.
    #[test]
    fn a_match_is_found_wherever_in_a_long_line_it_is() {
        let of = |text: &[u8], grep| searched(text, &Searching::default(), grep, 100).unwrap();
        for before in [BLOCK - 3, BLOCK + 7, 2 * BLOCK - CARRIED - 3, 3 * BLOCK - 2 * CARRIED - 1] {
            let text = [vec![b'x'; before].as_slice(), b"needle", &vec![b'y'; 2 * BLOCK], b"\nnext\n"].concat();
            let found = of(&text, "needle");
            let times = found.bytes.windows(6).filter(|window| window == b"needle").count();
            assert_eq!((times, found.bytes.len() <= BLOCK), (1, true), "{before} bytes before it");
            assert_eq!(of(&text, "next").bytes, b"next\n");
            assert_eq!(of(&text, "nothing").next_offset, text.len() as u64);
        }
    }

    fn masked() -> Searching {
        let redactor = Redactor::new(&Default::default()).unwrap().with_secrets(["horse-battery"]).unwrap();
        Searching { budget: Budget::unlimited(), mask: Some(PieceMask { redactor, first: 0 }) }
    }

    /// A search from within a secret found its rest, and one whose block ended there its head.
    #[test]
    fn a_search_from_within_a_secret_shows_no_part_of_it() {
        let text = b"a horse-battery b\nplain\n";
        let of = |offset| OutputQuery {
            stream: Which::Stdout,
            offset,
            limit: 100,
            tail: None,
            grep: Some("batt|ery|b$".to_owned()),
        };
        let read = |offset: u64, limit: usize| {
            let start = offset as usize;
            Ok(text[start..text.len().min(start + limit)].to_vec())
        };
        for offset in 3..15 {
            let found = page(&whole(text), true, &of(offset), &masked(), read).unwrap();
            assert_eq!(String::from_utf8_lossy(&found.bytes), "*** b\n", "{offset}");
        }
    }

    #[test]
    fn what_is_masked_cannot_be_searched_for() {
        let searching = masked();
        let text = b"a horse-battery b\nplain horse\n";
        assert_eq!(searched(text, &searching, "horse-b", 100).unwrap().bytes, b"");
        let found = searched(text, &searching, "horse|b$", 100).unwrap();
        assert_eq!(String::from_utf8_lossy(&found.bytes), "a *** b\nplain horse\n");
        assert_eq!(found.next_offset, text.len() as u64);
        let first = searched(text, &searching, "horse|b$", 5).unwrap();
        assert_eq!((first.bytes.as_slice(), first.next_offset), (b"a *** b\n".as_slice(), 18));
    }

    #[test]
    fn a_reader_is_taken_over_the_gap() {
        let head = b"0123456789".to_vec();
        let record = Output { total: 100, kept: 10, tail: Some(b"END\n".as_slice().into()), ..Output::default() };
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
        let first = page(&record, true, &query(0, None, None), &Searching::default(), read).unwrap();
        assert_eq!((first.bytes.as_slice(), first.next_offset, first.dropped), (head.as_slice(), 96, 86));
        let rest = page(&record, true, &query(first.next_offset, None, None), &Searching::default(), read).unwrap();
        assert_eq!((rest.bytes.as_slice(), rest.offset, rest.next_offset), (b"END\n".as_slice(), 96, 100));
        assert_eq!(rest.dropped, 0);
        let found = page(&record, true, &query(0, None, Some(".")), &Searching::default(), read).unwrap();
        assert_eq!(found.bytes, [head.trim_ascii_end(), b"\nEND\n"].concat(), "the halves of two lines are not one");
        // One that begins in the gap, one that ends before it, and a search over it.
        let of = |offset, limit, grep| {
            let query = OutputQuery { limit, ..query(offset, None, grep) };
            page(&record, true, &query, &Searching::default(), read).unwrap().dropped
        };
        assert_eq!((of(50, 100, None), of(0, 5, None), of(0, 100, Some("nothing"))), (0, 0, 86));
        assert_eq!(page(&record, true, &query(50, None, None), &Searching::default(), read).unwrap().bytes, b"END\n");
        assert_eq!(
            page(&record, true, &query(0, Some(Tail::Bytes(3)), None), &Searching::default(), read).unwrap().bytes,
            b"ND\n"
        );
        assert_eq!(
            page(&record, true, &query(0, None, Some("END")), &Searching::default(), read).unwrap().bytes,
            b"END\n"
        );
        let lines = page(&record, true, &query(0, Some(Tail::Lines(9)), None), &Searching::default(), read).unwrap();
        assert_eq!(lines.bytes, b"END\n", "what is before the gap is not the end");
    }

    #[test]
    fn the_last_lines_are_counted_from_the_end() {
        let from = |text: &str, lines: u64, offset: u64| {
            let read = |start: u64, limit: usize| {
                let start = start as usize;
                Ok(text.as_bytes()[start..text.len().min(start + limit)].to_vec())
            };
            let (stream, limit, tail) = (Which::Stdout, 1 << 30, Some(Tail::Lines(lines)));
            let query = OutputQuery { stream, offset, limit, tail, grep: None };
            let page = page(&whole(text.as_bytes()), true, &query, &Searching::default(), read).unwrap();
            String::from_utf8(page.bytes).unwrap()
        };
        assert_eq!(from("one\ntwo\nthree\n", 2, 0), "two\nthree\n");
        assert_eq!(from("one\ntwo\nthree", 2, 0), "two\nthree");
        assert_eq!(from("one\n\n\n", 2, 0), "\n\n");
        assert_eq!((from("one\n", 9, 0), from("one\n", 0, 0), from("", 1, 0)), ("one\n".into(), "".into(), "".into()));
        assert_eq!(from("one\ntwo\nthree\n", 9, 5), "wo\nthree\n", "not before the offset");
        let long: String = (0..400_000).map(|n| format!("line {n}\n")).collect();
        assert!(long.len() > 3 * BLOCK);
        let last = from(&long, 300_000, 0);
        assert!(last.starts_with("line 100000\n") && last.lines().count() == 300_000, "{}", &last[..40]);
    }
}
