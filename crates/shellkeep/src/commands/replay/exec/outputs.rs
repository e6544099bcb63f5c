//! Compares what two runs printed, line by line, however long it is.

use super::even::Even;
use crate::client::{Client, escaped};
use crate::commands::replay::source::{Events, stream_name, waited};
use serde::Serialize;
use shellkeep_protocol::{OutputResponse, RunResponse, StreamName, text};
use shellkeep_record::Line;
use std::io::{self, BufRead, BufReader, Cursor, Read};

/// Bytes asked for at a time.
const PART: u64 = 1 << 20;
/// Longest line that is compared as one.
const MOST_LINE: u64 = 1 << 20;
/// Characters of a line that a report shows.
const MOST_SHOWN: usize = 2000;

/// A difference between two texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Which line, from 1.
    pub line: u64,
    /// What it was; absent if there was no such line.
    pub expected: Option<String>,
    /// What it is; absent if there is no such line.
    pub got: Option<String>,
}

/// Output to be read. `whole` is false if only its beginning is known.
pub struct Printed<'a> {
    pub bytes: Box<dyn Read + 'a>,
    /// Whether that is all.
    pub whole: bool,
}

/// What a recorded command printed.
pub fn recorded<'a>(line: &Line, stream: StreamName, events: &'a mut Events) -> Result<Printed<'a>, String> {
    let name = stream_name(stream);
    let data = &line.data;
    let field = |name: &str| data.get(name).and_then(|value| value.as_str()).map(str::to_owned);
    let inline = field(if stream == StreamName::Stdout { "output" } else { "stderr" }).unwrap_or_default();
    if data.get(format!("{name}_file")).is_some() {
        let run_id = field("run_id").unwrap_or_default();
        // An export has no attached files, so only the beginning is known.
        if events.output(&run_id, stream, 0, 1).is_err() {
            return Ok(Printed { bytes: Box::new(Cursor::new(inline.into_bytes())), whole: false });
        }
        let read = move |offset| events.output(&run_id, stream, offset, PART).map(|piece| (piece.bytes, piece.total));
        return Ok(Printed { bytes: Box::new(Paged::new(read)), whole: true });
    }
    let bytes = text::decode(inline, field(&format!("{name}_base64")).as_deref()).map_err(|error| error.to_string())?;
    Ok(Printed { bytes: Box::new(Cursor::new(bytes)), whole: true })
}

/// What a command printed just now.
pub fn fresh<'a>(
    run: &RunResponse,
    stream: StreamName,
    session: &'a str,
    client: &'a mut Client,
) -> Result<Printed<'a>, String> {
    if !run.truncated {
        let bytes = run.stream_bytes(stream).map_err(|error| error.to_string())?;
        return Ok(Printed { bytes: Box::new(Cursor::new(bytes)), whole: true });
    }
    let run_id = escaped(&run.run_id);
    let read = move |offset: u64| {
        let name = stream_name(stream);
        let path = format!("/v1/sessions/{session}/runs/{run_id}/output?stream={name}&offset={offset}&limit={PART}");
        let page: OutputResponse = waited(client.get(&path)).map_err(|error| error.to_string())?;
        let bytes = text::decode(page.text, page.base64.as_deref()).map_err(|error| error.to_string())?;
        Ok((bytes, page.total))
    };
    Ok(Printed { bytes: Box::new(Paged::new(read)), whole: true })
}

/// The first line in which two outputs differ.
pub fn compare(expected: Printed<'_>, got: Printed<'_>, even: &Even) -> io::Result<Option<Difference>> {
    let (mut one, mut other) = (BufReader::new(expected.bytes), BufReader::new(got.bytes));
    let (mut old, mut new) = (Vec::new(), Vec::new());
    let mut line = 0;
    loop {
        line += 1;
        let (more_old, more_new) = (next(&mut one, &mut old)?, next(&mut other, &mut new)?);
        if !more_old && (!expected.whole || !more_new) {
            return Ok(None);
        }
        // The last line of a truncated output may be incomplete.
        let cut = !expected.whole && !old.ends_with(b"\n");
        if more_old != more_new || (!cut && old != new && even.line(&old) != even.line(&new)) {
            let shown = |has: bool, bytes: &[u8]| has.then(|| shown(&even.line(bytes)));
            return Ok(Some(Difference { line, expected: shown(more_old, &old), got: shown(more_new, &new) }));
        }
    }
}

/// Reads a line with its end. False at the end.
fn next(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    reader.by_ref().take(MOST_LINE).read_until(b'\n', line)?;
    Ok(!line.is_empty())
}

/// A line for a report, in which a missing line break and control characters are visible.
fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let (body, end) = match text.strip_suffix('\n') {
        Some(body) => (body, ""),
        None => (&*text, " (no line break)"),
    };
    let mut out: String = body
        .chars()
        .take(MOST_SHOWN)
        .flat_map(|c| {
            let escaped: Vec<char> = if c.is_control() && c != '\t' { c.escape_default().collect() } else { vec![c] };
            escaped
        })
        .collect();
    if body.chars().count() > MOST_SHOWN {
        out.push('…');
    }
    out + end
}

/// Reads something that arrives in parts.
struct Paged<F> {
    read: F,
    part: Cursor<Vec<u8>>,
    next: u64,
    total: u64,
}

impl<F: FnMut(u64) -> Result<(Vec<u8>, u64), String>> Paged<F> {
    fn new(read: F) -> Self {
        Self { read, part: Cursor::new(Vec::new()), next: 0, total: u64::MAX }
    }
}

impl<F: FnMut(u64) -> Result<(Vec<u8>, u64), String>> Read for Paged<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.part.read(buffer)?;
        if count > 0 || buffer.is_empty() || self.next >= self.total {
            return Ok(count);
        }
        let (bytes, total) = (self.read)(self.next).map_err(io::Error::other)?;
        // What was dropped beyond the quota cannot be read; the end is where nothing more arrives.
        self.total = if bytes.is_empty() { self.next } else { total };
        self.next += bytes.len() as u64;
        self.part = Cursor::new(bytes);
        self.part.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str, whole: bool) -> Printed<'_> {
        Printed { bytes: Box::new(text.as_bytes()), whole }
    }

    fn difference(expected: &str, got: &str) -> Option<(u64, Option<String>, Option<String>)> {
        let even = Even::new(&["/old", "/new"], &[]).unwrap();
        let found = compare(printed(expected, true), printed(got, true), &even).unwrap();
        found.map(|found| (found.line, found.expected, found.got))
    }

    #[test]
    fn the_first_line_that_differs_is_named() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(difference("a\nb\nin /old/x 0.1s\n", "a\nb\nin /new/x 0.2s\n"), None);
        assert_eq!(difference("", ""), None);
        assert_eq!(difference("a\nb\nc\n", "a\nX\nY\n"), Some((2, some("b"), some("X"))));
        assert_eq!(difference("a\n", "a\nb\n"), Some((2, None, some("b"))));
        assert_eq!(difference("a\nb\n", "a\n"), Some((2, some("b"), None)));
        assert_eq!(difference("a\n", "a"), Some((1, some("a"), some("a (no line break)"))));
        assert_eq!(difference("a\u{1b}\n", "a\n"), Some((1, some("a\\u{1b}"), some("a"))));
    }

    #[test]
    fn of_a_beginning_only_that_is_compared() {
        let even = Even::exact();
        let check =
            |got: &str| compare(printed("a\nb\ncu", false), printed(got, true), &even).unwrap().map(|found| found.line);
        assert_eq!(check("a\nb\ncut off\nmore\n"), None);
        assert_eq!(check("a\nX\ncut off\n"), Some(2));
        assert_eq!(check("a\n"), Some(2));
    }

    #[test]
    fn parts_are_one_text() {
        let all = b"one\ntwo\nthree\n";
        let read = |offset: u64| {
            let from = usize::try_from(offset).unwrap().min(all.len());
            Ok((all[from..(from + 4).min(all.len())].to_vec(), all.len() as u64))
        };
        let mut text = Vec::new();
        Paged::new(read).read_to_end(&mut text).unwrap();
        assert_eq!(text, all);
    }
}
