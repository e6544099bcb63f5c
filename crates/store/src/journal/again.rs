//! What a failed sync leaves: the kernel may have dropped what it could not write, and the next sync would say that all is
//! well. So everything since the last good sync is written again, to a new segment, and counts as on disk only when that
//! one has been forced there.

use super::{Front, Journal};
use crate::fault::Point;
use crate::line::{self, Body};
use crate::lock::hold;
use crate::segment::{self, After};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// A stretch of a segment that is not known to be on disk.
#[derive(Clone)]
pub(super) struct Stretch {
    /// The segment.
    pub number: u64,
    pub file: Arc<File>,
    /// Everything before this byte is on disk, and these are its lines.
    pub from: (u64, u64),
    /// Where the stretch ends, and how many lines there are before it.
    pub to: (u64, u64),
}

impl Stretch {
    /// Its lines, as they were written. What the kernel has dropped cannot be read back.
    fn lines(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut bytes = vec![0; usize::try_from(self.to.0 - self.from.0).unwrap_or(0)];
        self.file.read_exact_at(&mut bytes, self.from.0)?;
        let gone = || io::Error::other("what was written since the last sync cannot be read back");
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        lines.map(|line| line.strip_suffix(b"\n").and_then(line::bare).ok_or_else(gone)).collect()
    }
}

impl Front {
    /// What of the present segment is not known to be on disk.
    pub(super) fn part(&self) -> Stretch {
        Stretch { number: self.segment, file: Arc::clone(&self.file), from: self.synced, to: (self.length, self.lines) }
    }
}

impl Journal {
    /// Forces everything written to disk. After a failure nothing is trusted that was written since the last success, and
    /// the next call writes it again.
    pub(crate) fn sync(&self) -> io::Result<()> {
        if self.is_suspect() {
            return self.write_again();
        }
        let parts = {
            let mut front = hold(&self.front);
            let current = front.part();
            let mut parts = std::mem::take(&mut front.unsynced);
            parts.push(current);
            parts
        };
        let forced = |part: &Stretch| self.faults.check(Point::JournalSync).and_then(|()| part.file.sync_data());
        let synced = parts.iter().try_for_each(forced);
        let mut front = hold(&self.front);
        let Some(last) = parts.last() else { return Ok(()) };
        if let Err(error) = synced {
            front.suspect = true;
            // The last is still the present segment, or has been closed meanwhile and is there already.
            let earlier = parts[..parts.len() - 1].iter().cloned();
            front.unsynced.splice(0..0, earlier);
            return Err(error);
        }
        if front.segment == last.number {
            front.synced = last.to;
        } else if let Some(part) = front.unsynced.iter_mut().find(|part| part.number == last.number) {
            part.from = last.to;
        }
        Ok(())
    }

    /// Forces everything written to disk before the backend is given it, where a loss of power counts. A failure is met
    /// again, and told, by the next sync.
    pub(crate) fn sync_ahead(&self) -> io::Result<()> {
        if !self.keep_unsynced || self.is_suspect() {
            return Ok(());
        }
        let parts = {
            let front = hold(&self.front);
            let mut parts = front.unsynced.clone();
            parts.push(front.part());
            parts
        };
        let synced = parts.iter().filter(|part| part.from != part.to).try_for_each(|part| part.file.sync_data());
        if synced.is_err() {
            hold(&self.front).suspect = true;
        }
        synced
    }

    /// Whether a sync has failed and what it was about has not been written again.
    pub(crate) fn is_suspect(&self) -> bool {
        hold(&self.front).suspect
    }

    /// Writes everything since the last good sync to a new segment and forces that to disk. Appends wait meanwhile.
    fn write_again(&self) -> io::Result<()> {
        let mut front = hold(&self.front);
        let mut parts = front.unsynced.clone();
        parts.push(front.part());
        let Some(first) = parts.first() else { return Ok(()) };
        let after = After { segment: first.number, lines: first.from.1 };
        let number = front.segment + 1;
        // Until it is whole it has another name: its header says that what it repeats is needed nowhere else.
        let draft = segment::draft(&self.directory, number);
        let (mut file, mut length) = segment::create_at(&draft, &self.store, after)?;
        let mut lines = 0;
        for mut line in parts.iter().map(Stretch::lines).collect::<io::Result<Vec<_>>>()?.into_iter().flatten() {
            lines += 1;
            Body::of(&line).complete(&mut line, lines);
            file.write_all(&line)?;
            length += line.len() as u64;
        }
        self.faults.check(Point::JournalSync)?;
        file.sync_data()?;
        std::fs::rename(&draft, segment::path(&self.directory, number))?;
        self.sync_directory()?;
        for part in &parts {
            // What is repeated is cut off, so that nobody reads what the disk may have made of it.
            let _ = part.file.set_len(part.from.0).and_then(|()| part.file.sync_data());
        }
        front.file = Arc::new(file);
        (front.segment, front.length, front.lines) = (number, length, lines);
        front.synced = (length, lines);
        self.note_newest(number);
        front.unsynced.clear();
        (front.spoiled, front.suspect) = (false, false);
        tracing::warn!(lines, "what a failed sync was about was written again and is on disk");
        Ok(())
    }
}
