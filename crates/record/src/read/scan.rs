//! Looking for the lines in which a text is written, a block at a time: most of a long recording has it nowhere, and need
//! not be divided into lines.

use super::seek::LineStart;
use super::{ReadError, Recording, failed};
use memchr::memmem::Finder;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

/// How much is read at once. A longer line is read whole.
const BLOCK: usize = 256 * 1024;

impl Recording {
    /// Calls `look` with every whole line, from a number on, in which one of these texts is written, in order.
    pub(crate) fn each_with(
        &self,
        from_seq: u64,
        texts: &[&str],
        mut look: impl FnMut(&[u8]),
    ) -> Result<(), ReadError> {
        let finders: Vec<Finder<'_>> = texts.iter().map(|text| Finder::new(text.as_bytes())).collect();
        // Who wants everything also gets what has no number.
        let begin = if from_seq <= 1 { LineStart { file: 0, offset: 0 } } else { self.seek(from_seq)? };
        for (number, path) in self.files.iter().enumerate().skip(begin.file) {
            let offset = if number == begin.file { begin.offset } else { 0 };
            let mut blocks = Blocks::open(path, offset).map_err(|error| failed(path, &error))?;
            while let Some(lines) = blocks.next().map_err(|error| failed(path, &error))? {
                if self.budget.is_cancelled() {
                    return Err(ReadError::Cancelled);
                }
                in_lines(lines, &finders, &mut look);
            }
        }
        Ok(())
    }
}

/// Calls `look` with the lines in which something is found. The last byte is a line break.
fn in_lines(lines: &[u8], finders: &[Finder<'_>], look: &mut impl FnMut(&[u8])) {
    let find = |finder: &Finder<'_>, at: usize| finder.find(&lines[at..]).map(|found| at + found);
    // Where each is next, so that one that is rare is not looked for again at each place of another.
    let mut next: Vec<Option<usize>> = finders.iter().map(|finder| find(finder, 0)).collect();
    while let Some(place) = next.iter().flatten().min().copied() {
        let start = memchr::memrchr(b'\n', &lines[..place]).map_or(0, |before| before + 1);
        let end = memchr::memchr(b'\n', &lines[place..]).map_or(lines.len(), |length| place + length);
        look(&lines[start..end]);
        for (next, finder) in next.iter_mut().zip(finders) {
            if next.is_some_and(|found| found < end) {
                *next = find(finder, end);
            }
        }
    }
}

/// A file in blocks of whole lines. What follows the last line break is not a line yet.
struct Blocks {
    file: File,
    buffer: Vec<u8>,
    /// How much of the buffer was returned.
    returned: usize,
    /// How much of the buffer was read.
    filled: usize,
}

impl Blocks {
    fn open(path: &std::path::Path, offset: u64) -> io::Result<Self> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Self { file, buffer: vec![0; BLOCK], returned: 0, filled: 0 })
    }

    fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.buffer.copy_within(self.returned..self.filled, 0);
        self.filled -= self.returned;
        self.returned = 0;
        loop {
            if self.filled == self.buffer.len() {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            let read = match self.file.read(&mut self.buffer[self.filled..]) {
                Ok(0) => return Ok(None),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let before = self.filled;
            self.filled += read;
            // The rest of a line has no line break, so only what is new is searched.
            if let Some(last) = memchr::memrchr(b'\n', &self.buffer[before..self.filled]) {
                self.returned = before + last + 1;
                return Ok(Some(&self.buffer[..self.returned]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn found(files: &[&str], texts: &[&str]) -> Vec<String> {
        let place = tempfile::tempdir().unwrap();
        for (number, text) in files.iter().enumerate() {
            fs::write(place.path().join(crate::read::segment_name(number as u64)), text).unwrap();
        }
        let mut found = Vec::new();
        let recording = Recording::open(place.path()).unwrap();
        recording.each_with(0, texts, |line| found.push(String::from_utf8(line.to_vec()).unwrap())).unwrap();
        found
    }

    #[test]
    fn each_line_with_one_of_the_texts_is_found_once_and_in_order() {
        let first = "a env\nb\nc variables env env\nd variables\n";
        assert_eq!(found(&[first, "e\nenv"], &["variables", "env"]), ["a env", "c variables env env", "d variables"]);
        assert_eq!(found(&["\n\nenv\n", "env\n"], &["env"]), ["env", "env"]);
    }

    #[test]
    fn lines_across_blocks_and_longer_than_one_are_whole() {
        let long = format!("{}env{}", "x".repeat(BLOCK - 2), "y".repeat(3 * BLOCK));
        let short = format!("{}env", "z".repeat(1000));
        let many = vec![short.as_str(); 1000].join("\n");
        let all = found(&[&format!("{long}\n{many}\n{long}\n")], &["env"]);
        assert_eq!(all.len(), 1002);
        assert_eq!((&all[0], &all[1], &all[1000], &all[1001]), (&long, &short, &short, &long));
    }
}
