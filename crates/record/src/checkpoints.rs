//! The checkpoints in a recording, found through its marks.

use crate::line::Line;
use crate::marks::{CheckpointLine, EVERY, Marks};
use crate::read::{Filter, ReadError, Recording};

/// Lines of one page when the end of a recording is looked through.
const PAGE: usize = 1000;

/// The checkpoints in a recording.
#[derive(Clone, Copy)]
pub struct Checkpoints<'a> {
    /// The lines that record them.
    pub recording: &'a Recording,
    /// Where to find them without reading all of it.
    pub marks: &'a Marks,
}

impl Checkpoints<'_> {
    /// The checkpoints that were recorded after a number, oldest first, at most `most`.
    pub fn after(&self, after: u64, most: usize) -> Result<Vec<CheckpointLine>, ReadError> {
        self.mark(u64::MAX)?;
        let (mut found, mut at) = (Vec::new(), after);
        for number in self.marks.numbers().into_iter().filter(|number| *number > after) {
            if found.len() >= most {
                break;
            }
            // What follows a mark that is missing is read from the lines.
            let Some(head) = self.marks.head(self.recording, number).filter(|head| head.after <= at) else { break };
            found.extend(head.checkpoints.into_iter().filter(|line| line.seq > at));
            at = number;
        }
        if found.len() < most {
            found.extend(self.in_lines(at, most - found.len())?);
        }
        found.truncate(most);
        Ok(found)
    }

    /// The newest checkpoint of which this is true.
    pub fn newest(&self, is_wanted: impl Fn(&CheckpointLine) -> bool) -> Result<Option<CheckpointLine>, ReadError> {
        self.mark(u64::MAX)?;
        let mut numbers = self.marks.numbers();
        let last = numbers.last().copied().unwrap_or_default();
        if let Some(found) = self.in_lines(last, usize::MAX)?.into_iter().rfind(&is_wanted) {
            return Ok(Some(found));
        }
        let mut at = last;
        while let Some(number) = numbers.pop() {
            let Some(head) = self.marks.head(self.recording, number).filter(|_| number == at) else { break };
            at = head.after;
            if let Some(found) = head.checkpoints.into_iter().rfind(&is_wanted) {
                return Ok(Some(found));
            }
        }
        if at == 0 {
            return Ok(None);
        }
        let early = self.in_lines(0, usize::MAX)?;
        Ok(early.into_iter().rfind(|line| line.seq <= at && is_wanted(line)))
    }

    fn in_lines(&self, after: u64, most: usize) -> Result<Vec<CheckpointLine>, ReadError> {
        let filter = Filter { types: vec!["checkpoint_created".to_owned()], ..Filter::default() };
        let (mut found, mut after) = (Vec::new(), after);
        loop {
            let page = self.recording.page(after, PAGE.min(most - found.len()), &filter)?;
            let line = |line: Line| CheckpointLine { seq: line.seq, timestamp: line.timestamp, data: line.data };
            found.extend(page.lines.into_iter().map(line));
            match page.next {
                Some(next) if found.len() < most => after = next,
                _ => return Ok(found),
            }
        }
    }

    /// Sets marks up to the end if many lines have none, in at most this many lines; returns whether there is more to do.
    pub fn mark(&self, most: u64) -> Result<bool, ReadError> {
        let last = self.recording.last()?.map_or(0, |line| line.seq);
        let marked = self.marks.numbers().last().copied().unwrap_or_default();
        if last.saturating_sub(marked) < 2 * EVERY {
            return Ok(false);
        }
        // What it was does not matter here; the marks on the way do.
        let until = last.min(marked.saturating_add(most));
        let set = self.recording.past_with(until, Some(self.marks));
        // Where a record cannot be read, or is missing, no mark can be set.
        Ok(set.is_ok() && until < last)
    }
}
