//! The last whole line of a file, or of its beginning, found from the end.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// How much is read first; more if a line is longer.
const CHUNK: u64 = 8 * 1024;

/// A whole line in a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LastLine {
    /// Where it begins.
    pub start: u64,
    /// The place after its line break.
    pub end: u64,
    /// It, without its line break.
    pub bytes: Vec<u8>,
}

/// The last line with a line break among the first `length` bytes.
pub(crate) fn last_line(file: &File, length: u64) -> io::Result<Option<LastLine>> {
    let mut size = CHUNK;
    loop {
        let from = length.saturating_sub(size);
        let mut chunk = vec![0; usize::try_from(length - from).map_err(io::Error::other)?];
        file.read_exact_at(&mut chunk, from)?;
        if let Some(end) = memchr::memrchr(b'\n', &chunk) {
            let before = memchr::memrchr(b'\n', &chunk[..end]);
            if before.is_some() || from == 0 {
                let start = before.map_or(0, |at| at + 1);
                let bytes = chunk[start..end].to_vec();
                return Ok(Some(LastLine { start: from + start as u64, end: from + end as u64 + 1, bytes }));
            }
        } else if from == 0 {
            return Ok(None);
        }
        size = size.saturating_mul(4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn the_last_line_is_found_however_long_it_is() {
        let long = "x".repeat(3 * CHUNK as usize);
        for (text, wanted) in [
            ("".to_owned(), None),
            ("torn".to_owned(), None),
            ("a\n".to_owned(), Some((0, "a"))),
            ("a\nb\ntorn".to_owned(), Some((2, "b"))),
            (format!("a\n{long}\n"), Some((2, long.as_str()))),
            (format!("a\n{long}"), Some((0, "a"))),
            ("a\n\n".to_owned(), Some((2, ""))),
        ] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            let found = last_line(&file, text.len() as u64).unwrap();
            let found = found.map(|line| (line.start, String::from_utf8(line.bytes).unwrap()));
            assert_eq!(found.as_ref().map(|(start, text)| (*start, text.as_str())), wanted);
        }
    }
}
