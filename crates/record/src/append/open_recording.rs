//! The end of one session's recording: what its last line was, and the file in which the next goes.

use super::options::RecorderOptions;
use super::{deleted, snapshot};
use crate::chain::{ChainHasher, SessionKey};
use crate::from_record::{Beside, LineContent, line_content, parameters, parameters_of};
use crate::hash::Hash;
use crate::heads::{self, Heads, NewHead, Note, SignedHead};
use crate::line::{HOLE, Line, Proof};
use crate::marks;
use crate::private::{make_last_directory, open_to_append};
use crate::read::{ReadError, Recording, segment_name, segments};
use crate::scrub;
use crate::sign::Signer;
use crate::tail;
use serde_json::{Map, Value, json};
use shellkeep_session::{Author, Event, Record, RunId, SessionId, SessionMeta, ShellState, Timestamp};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Lines are written when they are this many bytes, even if there are more to come.
const WRITE_BYTES: usize = 1024 * 1024;

/// What a hole says that the recorder found by itself.
const HOLE_REASON: &str = "nothing was written for these numbers: their records arrived while the recording could not \
    be written, or the end of its files was lost";

/// Memory that is used again for each line.
#[derive(Default)]
pub(super) struct Scratch {
    pub hasher: ChainHasher,
    pub buffer: Vec<u8>,
}

/// Why lines were not written.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The file is not as we left it.
    Changed,
    /// The system refused.
    Failed {
        /// What it said.
        error: io::Error,
        /// Bytes that were to be written.
        needed: usize,
    },
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Failed { error, needed: 0 }
    }
}

/// What a recording needs of its recorder.
pub(super) struct Context<'a> {
    pub options: &'a RecorderOptions,
    pub scratch: &'a mut Scratch,
    /// The session's directory with long outputs.
    pub outputs: Option<&'a Path>,
    /// Heads that were signed on the way.
    pub signed: &'a mut Vec<SignedHead>,
}

/// Where a recording ends.
#[derive(Debug, Clone, Copy)]
struct End {
    /// The number that the next line follows.
    seq: u64,
    /// Hash of the last line.
    hash: Hash,
    /// Length of the last file.
    length: u64,
}

impl End {
    const NONE: Self = Self { seq: 0, hash: Hash::NONE, length: 0 };
}

/// What is known of a recording's signatures.
struct Signatures {
    heads: Heads,
    /// The first line that was there without a signature when the files were opened.
    found: Option<u64>,
    /// The first of those whose records did not come again.
    kept: Option<u64>,
    /// Lines from this number on were signed and are gone, because the journal had lost their records.
    cut: Option<u64>,
    /// Whether the line that the last head names is known to be there.
    checked: bool,
    /// What is in the files is not what was signed. It is never signed over.
    contradicted: bool,
}

/// One session's recording, open at its end.
pub(super) struct OpenRecording {
    session_id: SessionId,
    directory: PathBuf,
    key: SessionKey,
    segment: u64,
    file: Option<File>,
    /// The end of what is written.
    written: End,
    /// The end once what waits in the buffer is written.
    staged: End,
    /// What runs that have not ended were begun with, by the number of their start.
    begun: BTreeMap<u64, Map<String, Value>>,
    /// Whether what it has is known to be what is being told.
    agrees: bool,
    signatures: Signatures,
    /// When it was used last, by its recorder's count.
    pub used: u64,
}

impl OpenRecording {
    /// Opens a recording at its end. A last line without an end was not written whole; it is cut, and comes again.
    pub(super) fn open(directory: PathBuf, session_id: SessionId, key: SessionKey) -> io::Result<Self> {
        let heads = Heads::open(&directory, &session_id)?;
        let mut recording = Self {
            session_id,
            directory,
            key,
            segment: 0,
            file: None,
            written: End::NONE,
            staged: End::NONE,
            begun: BTreeMap::new(),
            agrees: false,
            signatures: Signatures { heads, found: None, kept: None, cut: None, checked: false, contradicted: false },
            used: 0,
        };
        let numbers = segments(&recording.directory)?;
        for (index, number) in numbers.iter().rev().enumerate() {
            let path = recording.directory.join(segment_name(*number));
            let newest = index == 0;
            let file = if newest { open_to_append(&path)? } else { File::open(&path)? };
            let length = file.metadata()?.len();
            let (end, last) = readable_end(&file, length)?;
            if newest {
                if end < length {
                    tracing::warn!(path = %path.display(), bytes = length - end, "truncated an incomplete line");
                    file.set_len(end)?;
                }
                (recording.segment, recording.file, recording.written.length) = (*number, Some(file), end);
            }
            if let Some(line) = last {
                (recording.written.seq, recording.written.hash) = (line.through(), line.proof.hash);
                break;
            }
        }
        recording.staged = recording.written;
        let signed = recording.signatures.heads.last().map_or(0, |head| head.seq);
        recording.signatures.found = (recording.written.seq > signed).then_some(signed + 1);
        Ok(recording)
    }

    /// Takes over one record, if it is new.
    pub(super) fn take(&mut self, record: &Record, context: &mut Context<'_>) -> Result<(), Trouble> {
        self.look_at_found(record, context)?;
        let next = self.staged.seq + 1;
        match &record.event {
            Event::SessionDestroyed if self.staged.seq == 0 || record.seq >= next => self.remove(context),
            Event::SessionDestroyed => Ok(()),
            Event::SessionDeleted { kept_as, .. } => self.put_away(record, kept_as, context),
            Event::SessionCreated { meta, shell } if record.seq == 1 => self.create(record, meta, shell, context),
            _ if record.seq < next => match self.agrees_with(record) {
                true => Ok(()),
                false => {
                    self.cut(record.seq)?;
                    self.take(record, context)
                }
            },
            Event::RecordsLost { from, .. } => {
                if *from > next {
                    self.hole(next, from - 1, record.at, context)?;
                }
                self.record(record, context)
            }
            _ => {
                if record.seq > next {
                    self.hole(next, record.seq - 1, record.at, context)?;
                }
                self.record(record, context)
            }
        }
    }

    /// Lines without a signature were written by a daemon that died before it signed them. Its journal brings their records
    /// again, and they are written anew from those: what is in the files is not taken on trust.
    fn look_at_found(&mut self, record: &Record, context: &Context<'_>) -> io::Result<()> {
        if context.options.signer.is_none() {
            return Ok(());
        }
        let Some(from) = self.signatures.found.take() else { return Ok(()) };
        if record.seq > from {
            self.signatures.kept = Some(from);
            return Ok(());
        }
        Recording::open(&self.directory).and_then(|recording| recording.cut(from)).map_err(io::Error::other)?;
        self.open_again()
    }

    /// Signs how far it has come, if that is not signed yet.
    pub(super) fn sign(&mut self, signer: &Signer) -> io::Result<Option<SignedHead>> {
        let End { seq, hash, .. } = self.written;
        let Signatures { found, cut, checked, contradicted, .. } = self.signatures;
        if seq == 0 || contradicted || found.is_some() {
            return Ok(None);
        }
        let note = match self.signatures.heads.last() {
            Some(last) if last.seq == seq && last.hash == hash => return Ok(None),
            Some(_) if cut.is_some() => cut.map(|from| Note::Cut { from }),
            // What is missing comes again, or verifying reports it.
            Some(last) if last.seq > seq => return Ok(None),
            Some(last) if !checked && !self.has(last)? => {
                tracing::error!(
                    session_id = %self.session_id, seq = last.seq,
                    "the recording is not the one that was signed: its files were changed; it is no longer signed"
                );
                self.signatures.contradicted = true;
                return Ok(None);
            }
            _ => self.signatures.kept.map(|from| Note::Found { from }),
        };
        let head = self.signatures.heads.add(NewHead { seq, hash, note }, signer, Timestamp::now())?;
        (self.signatures.cut, self.signatures.kept, self.signatures.checked) = (None, None, true);
        Ok(Some(head))
    }

    /// Whether the line that a head names is there. Only what this recording did not write itself is looked for.
    fn has(&self, head: &SignedHead) -> io::Result<bool> {
        if head.seq == self.written.seq {
            return Ok(head.hash == self.written.hash);
        }
        match Recording::open(&self.directory).and_then(|recording| recording.before(head.seq + 1)) {
            Ok(line) => Ok(line.is_some_and(|line| line.proof.hash == head.hash && line.through() == head.seq)),
            // A file that cannot be read now is not one that was changed.
            Err(error @ ReadError::Failed { .. }) => Err(io::Error::other(error)),
            Err(_) => Ok(false),
        }
    }

    /// Reads the end of the files again.
    fn open_again(&mut self) -> io::Result<()> {
        let fresh = Self::open(self.directory.clone(), self.session_id.clone(), self.key.clone())?;
        *self = Self { used: self.used, agrees: self.agrees, ..fresh };
        Ok(())
    }

    /// Whether a record that has a line already is the one that the line records. A loss of power can take records from
    /// the journal that are in the recording, and the session continues from an earlier number. One look shows: what follows
    /// a record that agrees was recorded after it.
    fn agrees_with(&mut self, record: &Record) -> bool {
        if !std::mem::replace(&mut self.agrees, true) {
            let line = Recording::open(&self.directory).and_then(|recording| recording.line(record.seq));
            if let Ok(Some(line)) = line {
                return line.timestamp == record.at || line.event_type == HOLE;
            }
        }
        true
    }

    /// Cuts the recording before a number.
    fn cut(&mut self, seq: u64) -> io::Result<()> {
        tracing::warn!(directory = %self.directory.display(), seq, "a recording has records that the journal lost; \
            truncating it");
        Recording::open(&self.directory).and_then(|recording| recording.cut(seq)).map_err(io::Error::other)?;
        self.open_again()?;
        self.agrees = true;
        self.signatures.cut = self.signatures.heads.last().filter(|head| head.seq >= seq).map(|_| seq);
        Ok(())
    }

    /// Writes what waits in the buffer.
    pub(super) fn flush(&mut self, context: &mut Context<'_>) -> Result<(), Trouble> {
        let buffer = &mut context.scratch.buffer;
        if buffer.is_empty() {
            return Ok(());
        }
        let needed = buffer.len();
        let failed = |error| Trouble::Failed { error, needed };
        if let Some(before_write) = &context.options.before_write {
            before_write().map_err(failed)?;
        }
        if self.file.is_none() {
            self.file = Some(self.open_file().map_err(failed)?);
        }
        let Some(file) = &mut self.file else { return Err(Trouble::Changed) };
        let metadata = file.metadata().map_err(failed)?;
        if metadata.len() != self.written.length || metadata.nlink() == 0 {
            return Err(Trouble::Changed);
        }
        if let Err(error) = file.write_all(buffer) {
            // If this fails too, opening cuts the unfinished line; whole lines that went in are as good as any.
            let _ = file.set_len(self.written.length);
            return Err(failed(error));
        }
        buffer.clear();
        self.written = self.staged;
        Ok(())
    }

    /// Opens the file for the next lines. Its directory is mostly there.
    fn open_file(&self) -> io::Result<File> {
        let path = self.directory.join(segment_name(self.segment));
        match open_to_append(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_last_directory(&self.directory)?;
                open_to_append(&path)
            }
            opened => opened,
        }
    }

    fn create(
        &mut self,
        record: &Record,
        meta: &SessionMeta,
        shell: &ShellState,
        context: &mut Context<'_>,
    ) -> Result<(), Trouble> {
        if self.staged.seq > 0 {
            self.flush(context)?;
            if self.begins_with(record, context) {
                return Ok(());
            }
            // An earlier session of this name left its files.
            self.remove(context)?;
        }
        make_last_directory(&self.directory)?;
        let snapshot = snapshot::write(&self.directory, meta, shell, context.options.masker.as_ref())?;
        let mut line = self.line(record, context);
        line.proof.files.insert(snapshot::NAME.to_owned(), snapshot);
        self.stage(line, context)
    }

    /// Whether the recording begins with this record.
    fn begins_with(&mut self, record: &Record, context: &mut Context<'_>) -> bool {
        let first = Recording::open(&self.directory).and_then(|recording| recording.first());
        let Ok(Some(first)) = first else { return false };
        let mut line = self.line(record, context);
        // A recording that was begun before authors were written down has none in its first line, and the snapshot may have
        // been written by another version, in its own way.
        (line.author, line.proof.files) = (first.author.clone(), first.proof.files.clone());
        let hash = context.scratch.hasher.hash(&Hash::NONE, &line, Some(&self.key));
        hash.is_ok_and(|hash| first.proof.hash == hash)
    }

    /// Removes everything, the last file first: what a crash leaves is then a shorter recording, and this comes again.
    fn remove(&mut self, context: &mut Context<'_>) -> Result<(), Trouble> {
        context.scratch.buffer.clear();
        self.file = None;
        for number in segments(&self.directory)?.into_iter().rev() {
            std::fs::remove_file(self.directory.join(segment_name(number)))?;
        }
        for name in [heads::NAME, snapshot::NAME] {
            match std::fs::remove_file(self.directory.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        scrub::remove_leftovers(&self.directory)?;
        marks::remove(&self.directory)?;
        // Others may have files there, who remove them themselves.
        let _ = std::fs::remove_dir(&self.directory);
        self.open_again()?;
        Ok(())
    }

    /// The agent removed the session: its recording ends with a line that says so and is kept elsewhere.
    fn put_away(&mut self, record: &Record, kept_as: &SessionId, context: &mut Context<'_>) -> Result<(), Trouble> {
        let Some(home) = context.options.deleted.as_ref().map(|deleted| deleted.join(kept_as.as_str())) else {
            return self.remove(context);
        };
        let next = self.staged.seq + 1;
        if deleted::is_filled(&home) {
            // It comes again after a crash. What was built up again until here is there already; what goes beyond is
            // another session's.
            return if record.seq >= next { self.remove(context) } else { Ok(()) };
        }
        if record.seq < next && !self.tells_of(record) {
            return Ok(());
        }
        // A session that cannot be read is removed with a number that no line can have.
        if record.seq >= next && self.staged.seq > 0 && record.seq < u64::MAX {
            if record.seq > next {
                self.hole(next, record.seq - 1, record.at, context)?;
            }
            self.record(record, context)?;
        }
        self.flush(context)?;
        // It has no daemon afterwards that could sign it.
        if let Some(signer) = &context.options.signer {
            context.signed.extend(self.sign(signer)?);
        }
        self.file = None;
        deleted::fill(&self.directory, &home)?;
        Ok(self.open_again()?)
    }

    /// Whether the last line is that of this record: it was written, and then the daemon died.
    fn tells_of(&self, record: &Record) -> bool {
        let last = Recording::open(&self.directory).and_then(|recording| recording.last());
        matches!(last, Ok(Some(line)) if line.seq == record.seq && line.timestamp == record.at)
    }

    fn hole(&mut self, from: u64, through: u64, at: Timestamp, context: &mut Context<'_>) -> Result<(), Trouble> {
        tracing::warn!(directory = %self.directory.display(), from, through, "a recording has a hole");
        let data = json!({"from": from, "through": through, "reason": HOLE_REASON});
        let (event_type, author) = (HOLE.to_owned(), Author::runtime(None));
        let line = Line { seq: from, event_type, timestamp: at, author, data, proof: Proof::default() };
        self.stage(line, context)
    }

    fn record(&mut self, record: &Record, context: &mut Context<'_>) -> Result<(), Trouble> {
        if let Event::RunStarted { command, call, .. } = &record.event {
            self.begun.insert(record.seq, parameters(command, call.as_deref()));
        }
        let line = self.line(record, context);
        self.stage(line, context)
    }

    fn line(&mut self, record: &Record, context: &Context<'_>) -> Line {
        let parameters = match &record.event {
            Event::RunFinished { run_id, .. } => self.parameters(run_id),
            _ => None,
        };
        let LineContent { event_type, mut data, files } =
            line_content(record, Beside { parameters: parameters.as_ref(), outputs: context.outputs });
        if let (Event::RecordsLost { .. }, Some(fields)) = (&record.event, data.as_object_mut()) {
            // What has a line here is not lost here.
            fields.insert("from".to_owned(), (self.staged.seq + 1).into());
        }
        if let Some(masker) = &context.options.masker {
            masker.mask_value(&mut data);
        }
        let (event_type, proof) = (event_type.to_owned(), Proof { files, ..Proof::default() });
        Line { seq: record.seq, event_type, timestamp: record.at, author: record.event.author(), data, proof }
    }

    /// What a run that ends was started with; read from the recording if that was long ago.
    fn parameters(&mut self, run_id: &RunId) -> Option<Map<String, Value>> {
        let seq = run_id.as_str().strip_prefix('r')?.parse().ok()?;
        if let Some(parameters) = self.begun.remove(&seq) {
            return Some(parameters);
        }
        let line = Recording::open(&self.directory).ok()?.line(seq).ok()??;
        Some(parameters_of(&line.data))
    }

    /// Puts a line into the buffer, after what must be written before it.
    fn stage(&mut self, mut line: Line, context: &mut Context<'_>) -> Result<(), Trouble> {
        let before = self.staged.hash;
        let hash = context.scratch.hasher.hash(&before, &line, Some(&self.key));
        let hash = hash.map_err(|error| io::Error::other(error.to_string()))?;
        line.proof.hash = hash;
        let start = context.scratch.buffer.len();
        line.write_to(&mut context.scratch.buffer).map_err(io::Error::from)?;
        let size = (context.scratch.buffer.len() - start) as u64;
        if self.staged.length > 0 && self.staged.length + size > context.options.segment_bytes {
            let line = context.scratch.buffer.split_off(start);
            self.flush(context)?;
            context.scratch.buffer = line;
            (self.file, self.written.length, self.staged.length) = (None, 0, 0);
            self.segment += 1;
        }
        self.staged = End { seq: line.through(), hash, length: self.staged.length + size };
        if context.scratch.buffer.len() >= WRITE_BYTES { self.flush(context) } else { Ok(()) }
    }
}

/// The place after the last whole line, and the last line that can be read. Lines that cannot are passed over: verifying
/// lists them, and recording continues.
fn readable_end(file: &File, length: u64) -> io::Result<(u64, Option<Line>)> {
    let Some(mut last) = tail::last_line(file, length)? else { return Ok((0, None)) };
    let end = last.end;
    loop {
        if let Ok(line) = Line::parse(&last.bytes) {
            return Ok((end, Some(line)));
        }
        match tail::last_line(file, last.start)? {
            Some(line) => last = line,
            None => return Ok((end, None)),
        }
    }
}

/// Looks whether a session's files take some bytes. A crash before they are taken back leaves a line without an end.
pub(super) fn probe(directory: &Path, bytes: usize) -> io::Result<()> {
    make_last_directory(directory)?;
    let number = segments(directory)?.pop().unwrap_or(0);
    let mut file = open_to_append(&directory.join(segment_name(number)))?;
    let length = file.metadata()?.len();
    let written = file.write_all(&vec![b' '; bytes.max(1)]);
    file.set_len(length)?;
    written
}
