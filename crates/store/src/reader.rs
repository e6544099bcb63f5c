//! Readers of the journal. Each reads every line, in order and at its own pace, and has a mark: everything before it is
//! applied. The backend and the recordings are readers; [`crate::scheduler`] gives them turns.

use crate::backend::{Entry, Mark};
use crate::journal::End;
use crate::tail::{Batch, Tail, replay};
use shellkeep_session::SessionId;
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What applies the lines of the journal.
///
/// An entry is passed once while the daemon runs. After a crash, everything since the mark is passed again, including
/// what was applied early, so an entry that was already applied must be skipped.
pub(crate) trait Reader {
    /// Everything before this position is applied, even after a crash.
    fn mark(&self) -> Mark;

    /// Takes the next part of the journal. After an error the same part is passed again.
    fn apply(&mut self, batch: &Arc<Batch>) -> Result<(), String>;

    /// Applies entries of some sessions early, without moving the mark.
    fn apply_early(&mut self, entries: &[Entry]) -> Result<(), String>;

    /// Completes what it has taken of a session, before what it has taken of others. Nothing to do for a reader that
    /// applies entries immediately.
    fn complete(&mut self, _session_id: &SessionId) {}

    /// Whether it can take another stretch now.
    fn has_room(&self) -> bool {
        true
    }
}

/// A reader on its way through the journal.
pub(crate) struct Follower<R> {
    pub reader: R,
    directory: PathBuf,
    /// Its position is the place after what was read.
    tail: Tail,
    /// Read, but not passed to the reader.
    ahead: Option<Arc<Batch>>,
    /// The position after what the reader was passed.
    given: Mark,
    /// Sessions that were served early: the reader has everything of them before this position.
    early: HashMap<SessionId, Mark>,
}

impl<R: Reader> Follower<R> {
    /// Continues at the reader's mark.
    pub(crate) fn new(reader: R, directory: &Path) -> Self {
        let given = reader.mark();
        let tail = Tail::new(directory.to_owned(), given);
        Self { reader, directory: directory.to_owned(), tail, ahead: None, given, early: HashMap::new() }
    }

    /// The position after what the reader was passed.
    pub(crate) fn given(&self) -> Mark {
        self.given
    }

    /// Whether the reader was passed everything up to an end.
    pub(crate) fn has_all(&self, end: &End) -> bool {
        self.given >= end.mark()
    }

    /// Reads up to an end in the same segment, if that is no more than `most` bytes; whether it did.
    pub(crate) fn read_ahead(&mut self, end: &End, most: u64) -> io::Result<bool> {
        let from = if self.given.segment == end.segment { self.given.offset } else { 0 };
        if self.tail.position().segment != end.segment || end.length.saturating_sub(from) > most {
            return Ok(false);
        }
        while let Some(batch) = self.tail.next(end)? {
            self.tail.advance(batch.mark);
            match &mut self.ahead {
                Some(ahead) => Arc::make_mut(ahead).append(batch),
                None => self.ahead = Some(Arc::new(batch)),
            }
        }
        Ok(true)
    }

    /// Whether something of these sessions was read that the reader does not have.
    pub(crate) fn lacks_some_of(&self, session_ids: &[SessionId]) -> bool {
        let asked: HashSet<&SessionId> = session_ids.iter().collect();
        let mut waiting = self.ahead.iter().flat_map(|ahead| ahead.placed());
        waiting.any(|(entry, place)| asked.contains(entry.session_id()) && self.is_due(entry, place))
    }

    /// The reader, and what was read of a session that the reader does not have.
    pub(crate) fn waiting_of(&mut self, session_id: &SessionId) -> (&mut R, Vec<&Entry>) {
        let since = self.early.get(session_id).copied().unwrap_or_default();
        let waiting = self.ahead.iter().flat_map(|ahead| ahead.placed());
        let of_it = waiting.filter(|(entry, place)| entry.session_id() == session_id && *place >= since);
        (&mut self.reader, of_it.map(|(entry, _)| entry).collect())
    }

    /// Gives the reader the next stretch; `None` if it has everything up to an end.
    pub(crate) fn step(&mut self, end: &End) -> Result<Option<Arc<Batch>>, String> {
        let batch = match self.ahead.take() {
            Some(batch) => batch,
            None => match self.tail.next(end) {
                Ok(Some(batch)) => Arc::new(batch),
                Ok(None) => return Ok(None),
                Err(error) => return Err(format!("the journal cannot be read: {error}")),
            },
        };
        self.tail.advance(batch.mark);
        if let Err(reason) = self.give(&batch) {
            self.ahead = Some(batch);
            return Err(reason);
        }
        Ok(Some(batch))
    }

    /// Takes a part that another reader was passed, if it follows directly and there is room.
    pub(crate) fn offer(&mut self, batch: &Arc<Batch>, from: Mark) {
        if self.given == from && self.ahead.is_none() && self.reader.has_room() && self.give(batch).is_ok() {
            self.tail.advance(batch.mark);
        }
    }

    fn give(&mut self, batch: &Arc<Batch>) -> Result<(), String> {
        if batch.placed().all(|(entry, place)| self.is_due(entry, place)) {
            self.reader.apply(batch)?;
        } else {
            let mut due = Batch::clone(batch);
            due.retain(|entry, place| self.is_due(entry, place));
            self.reader.apply(&Arc::new(due))?;
        }
        self.given = batch.mark;
        self.early.retain(|_, until| *until > batch.mark);
        Ok(())
    }

    fn is_due(&self, entry: &Entry, place: Mark) -> bool {
        self.early.get(entry.session_id()).is_none_or(|until| place >= *until)
    }

    /// Gives the reader what the journal has of some sessions up to an end, before what it has of others.
    pub(crate) fn bring_forward(&mut self, session_ids: &[&SessionId], end: &End) -> Result<(), String> {
        for session_id in session_ids {
            self.reader.complete(session_id);
        }
        let has = |id: &&SessionId| self.early.get(*id).copied().unwrap_or_default().max(self.given);
        let Some(from) = session_ids.iter().map(has).min() else { return Ok(()) };
        if from >= end.mark() {
            return Ok(());
        }
        replay(&self.directory, from, end, session_ids.iter().copied(), |mut batch, _| {
            batch.retain(|entry, place| self.early.get(entry.session_id()).is_none_or(|until| place >= *until));
            if batch.entries.is_empty() { Ok(()) } else { self.reader.apply_early(&batch.entries) }
        })?;
        self.early.extend(session_ids.iter().map(|id| ((*id).clone(), end.mark())));
        Ok(())
    }

    /// Passes entries again in their turn, for sessions that were served early and need them again.
    pub(crate) fn forget_early(&mut self, is_meant: impl Fn(&SessionId) -> bool) {
        self.early.retain(|session_id, _| !is_meant(session_id));
    }

    /// Gives the reader again what it had of some sessions, from a place on.
    pub(crate) fn repeat<'a>(
        &mut self,
        from: Mark,
        session_ids: impl Iterator<Item = &'a SessionId>,
        mut apply: impl FnMut(&mut R, &Batch, Mark),
    ) -> Result<(), String> {
        replay(&self.directory, from, &End::from(self.given), session_ids, |batch, at| {
            apply(&mut self.reader, &batch, at);
            Ok(())
        })
    }

    /// Continues at a place before which nothing is left to read.
    pub(crate) fn pass_to(&mut self, mark: Mark) {
        self.tail.advance(mark);
        self.given = mark;
    }
}
