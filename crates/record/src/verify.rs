//! Whether a recording is as it was written: nothing changed, dropped, reordered or truncated. Names the first line
//! that is wrong.

mod files;
mod owners;
mod signatures;
mod verdict;

use crate::chain::{self, ChainHasher, SessionKey};
use crate::hash::Hash;
use crate::line::{After, Head, Line, Proof, RECORDS_LOST};
use crate::mask::shows_mask;
use crate::read::{RawLine, ReadError, Recording};
use files::Beside;
use serde_json::Value;
use shellkeep_session::Timestamp;
use signatures::Seals;
use std::collections::BTreeMap;
use verdict::name;
pub use verdict::{Bad, Checks, SignatureChecks, Verdict};

/// How often a recording is looked at again because its last line was just being written.
const LOOKS: usize = 3;

/// Type of the line that records a scrub.
const SCRUBBED: &str = "scrubbed";
/// A scrub masks first and is recorded afterwards.
const UNTOLD: &str = "something in it is masked, but no scrub is recorded; an interrupted scrub leaves this, and \
    repeating the scrub fixes it";

/// Checks the lines of a recording, and neither signatures nor files. A session's own files need its key; an export brings what it needs. `expected` is the number
/// that the last line must have, as the store knows it: without it, a file that was cut between two lines looks whole.
pub fn verify(recording: &Recording, key: Option<&SessionKey>, expected: Option<u64>) -> Result<Verdict, ReadError> {
    check(recording, &Checks { key, expected, ..Checks::default() })
}

/// Checks all of a recording: its lines, its signatures, the files beside it.
pub fn check(recording: &Recording, checks: &Checks<'_>) -> Result<Verdict, ReadError> {
    // A line may be on its way into the file while it is read.
    for _ in 0..LOOKS {
        let look = look(recording, checks)?;
        if !look.may_change {
            return Ok(look.verdict);
        }
    }
    look(recording, checks).map(|look| look.verdict)
}

/// What one look at a recording found.
struct Look {
    verdict: Verdict,
    /// Whether the next one may find something else, because the files have grown since they were read.
    may_change: bool,
}

impl From<Verdict> for Look {
    fn from(verdict: Verdict) -> Self {
        Self { verdict, may_change: false }
    }
}

fn look(recording: &Recording, checks: &Checks<'_>) -> Result<Look, ReadError> {
    let seals = match Seals::load(recording, checks.signatures) {
        Ok(seals) => seals,
        Err(bad) => return Ok(Verdict { bad: Some(bad), ..Verdict::default() }.into()),
    };
    let mut check = Check::new(recording, checks, seals);
    for (index, path) in recording.files().iter().enumerate() {
        let file = name(path);
        let mut raw = recording.one_file(index);
        let mut last = 0;
        while let Some(line) = raw.next()? {
            check.spot = Spot { file: index, line_number: line.line_number };
            if let Err(wrong) = check.line(&line) {
                return Ok(check.bad(file, line.line_number, wrong).into());
            }
            last = line.line_number;
        }
        let is_last = index + 1 == recording.files().len();
        if let Some(length) = raw.torn_at() {
            let grows = is_last && !recording.is_export() && path.metadata().is_ok_and(|now| now.len() != length);
            let verdict = check.bad(file, last + 1, check.missing("the line has no end"));
            return Ok(Look { verdict, may_change: grows });
        }
        // Only the last may have just been begun.
        if last == 0 && !is_last {
            return Ok(check.bad(file, 1, check.missing("the file has no lines")).into());
        }
        if is_last && let Err(wrong) = check.end(checks.expected) {
            return Ok(check.bad(file, last + 1, wrong).into());
        }
    }
    if let Some((seq, spot)) = check.tombstones.first_key_value() {
        let file = name(&recording.files()[spot.file]);
        return Ok(check.bad(file, spot.line_number, wrong(*seq, UNTOLD)).into());
    }
    // Lines, heads and files are not written in one moment.
    let found = check.seals.end(check.next - 1, &mut check.verdict);
    let found = found.and_then(|()| check.beside.check(recording, checks.outputs, &mut check.verdict));
    Ok(match found {
        Ok(()) => check.verdict.into(),
        Err(bad) => {
            let verdict = Verdict { bad: Some(bad), ..check.verdict };
            Look { verdict, may_change: !recording.is_export() }
        }
    })
}

/// A line of a file.
#[derive(Debug, Clone, Copy, Default)]
struct Spot {
    /// Its index among the recording's files.
    file: usize,
    line_number: u64,
}

/// What is wrong, and the number it concerns.
struct Wrong {
    seq: Option<u64>,
    reason: String,
}

fn wrong(seq: impl Into<Option<u64>>, reason: impl Into<String>) -> Wrong {
    Wrong { seq: seq.into(), reason: reason.into() }
}

struct Check<'a> {
    key: Option<&'a SessionKey>,
    export: bool,
    hasher: ChainHasher,
    written: Vec<u8>,
    before: Hash,
    next: u64,
    /// Type and time of the line before.
    last: Option<(String, Timestamp)>,
    /// Where an export, or this part of it, says that it ends.
    promised: Option<Head>,
    /// The line that is being looked at.
    spot: Spot,
    /// Lines with masked fields of which no scrub has told yet, and where they are.
    tombstones: BTreeMap<u64, Spot>,
    seals: Seals,
    beside: Beside,
    verdict: Verdict,
}

impl<'a> Check<'a> {
    fn new(recording: &Recording, checks: &Checks<'a>, seals: Seals) -> Self {
        Self {
            key: checks.key,
            export: recording.is_export(),
            hasher: ChainHasher::default(),
            written: Vec::new(),
            before: Hash::NONE,
            next: 1,
            last: None,
            promised: None,
            spot: Spot::default(),
            tombstones: BTreeMap::new(),
            seals,
            beside: Beside::default(),
            verdict: Verdict::default(),
        }
    }

    fn line(&mut self, raw: &RawLine<'_>) -> Result<(), Wrong> {
        let line = Line::parse(raw.bytes).map_err(|error| wrong(self.next, format!("it cannot be read: {error}")))?;
        self.written.clear();
        let written = line.write_to(&mut self.written);
        if written.is_err() || self.written.strip_suffix(b"\n") != Some(raw.bytes) {
            return Err(wrong(line.seq, "it differs from the recorded bytes"));
        }
        self.number(&line)?;
        self.head(&line)?;
        self.salts(&line)?;
        let hash = self.hasher.hash(&self.before, &line, self.key);
        let hash = hash.map_err(|error| wrong(line.seq, error.to_string()))?;
        if hash != line.proof.hash {
            return Err(wrong(line.seq, "its hash does not match it and the previous line"));
        }
        if line.event_type == SCRUBBED {
            for seq in line.data.get("seqs").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_u64) {
                self.tombstones.remove(&seq);
            }
        }
        self.seals.line(&line).map_err(|reason| wrong(line.seq, reason))?;
        self.beside.line(&line, raw.bytes);
        self.before = hash;
        self.next = line.through() + 1;
        let verdict = &mut self.verdict;
        verdict.lines += 1;
        verdict.masked_fields += line.proof.masked.len() as u64;
        verdict.holes.extend(line.hole());
        verdict.head = Some(Head { seq: line.seq, hash });
        self.last = Some((line.event_type, line.timestamp));
        Ok(())
    }

    /// Numbers follow each other, but for those of which a line says that they are lost.
    fn number(&self, line: &Line) -> Result<(), Wrong> {
        match line.hole() {
            Some(hole) if hole.declared && hole.from == self.next => Ok(()),
            Some(hole) if !hole.declared && hole.through < line.seq => {
                Err(wrong(line.seq, "the gap's end is before its start"))
            }
            _ if line.seq == self.next => Ok(()),
            _ if line.seq < self.next => Err(wrong(line.seq, format!("line {} should be here", self.next))),
            _ => Err(wrong(self.next, format!("line {} is here, so this one is missing", line.seq))),
        }
    }

    /// Only the first line of an export, and of each later part of it, says where that ends.
    fn head(&mut self, line: &Line) -> Result<(), Wrong> {
        let Proof { head, signed, after, .. } = &line.proof;
        if self.export && self.verdict.lines == 0 && after.is_none() {
            let named = head.clone().ok_or_else(|| wrong(line.seq, "the first line of an export must name its end"))?;
            self.promised = Some(named);
            return Ok(());
        }
        match (head, after) {
            (None, None) if signed.is_none() => Ok(()),
            (Some(_), Some(after)) if self.promised.is_some() && self.promised == self.verdict.head => {
                self.promised.clone_from(head);
                self.join(line, after)
            }
            _ => Err(wrong(line.seq, "it has a head, which belongs in the first line of an export")),
        }
    }

    /// A part that another daemon signed follows if that daemon recorded the same event before it.
    fn join(&mut self, line: &Line, after: &After) -> Result<(), Wrong> {
        let Line { proof, timestamp, event_type, .. } = &after.line;
        // A daemon that takes over a long session gets its state in place of its events, with the time of the last.
        let is_same = |(of_type, at): &(String, Timestamp)| {
            at == timestamp && (of_type == event_type || event_type == RECORDS_LOST)
        };
        if after.line.seq.checked_add(1) != Some(self.next) || !self.last.as_ref().is_some_and(is_same) {
            return Err(wrong(line.seq, "it does not follow the event before it"));
        }
        self.salts(&after.line)?;
        if self.hasher.hash(&after.before, &after.line, None).ok() != Some(proof.hash) {
            return Err(wrong(line.seq, "the event that joins it to the part before does not match its hash"));
        }
        self.before = proof.hash;
        self.seals.part(self.spot.line_number, line).map_err(|reason| wrong(line.seq, reason))
    }

    /// What proves the line must be neither more nor less than what is needed.
    fn salts(&mut self, line: &Line) -> Result<(), Wrong> {
        let proof = &line.proof;
        if !self.export && (proof.salt.is_some() || !proof.salts.is_empty()) {
            return Err(wrong(line.seq, "it has salts, which belong in exports"));
        }
        if self.export && proof.salt.is_some() != proof.masked.is_empty() {
            return Err(wrong(line.seq, "its salts do not match what is masked"));
        }
        if proof.salt.is_some() && !proof.salts.is_empty() {
            return Err(wrong(line.seq, "its salts do not match what is masked"));
        }
        if let (true, Some(key), Some(salt)) = (self.export, self.key, proof.salt)
            && key.salt(line.seq) != salt
        {
            return Err(wrong(line.seq, "its salt is not the one of this session"));
        }
        if !proof.masked.is_empty() || !proof.salts.is_empty() {
            self.masks(line)?;
            if !self.export {
                self.tombstones.insert(line.seq, self.spot);
            }
        }
        Ok(())
    }

    /// Each commitment and each salt must be that of a field, and a field with a commitment must show its mask.
    fn masks(&self, line: &Line) -> Result<(), Wrong> {
        let proof = &line.proof;
        let (mut masked, mut salted, mut unmasked) = (0, 0, None);
        let of_line = self.key.map(|key| key.salt(line.seq));
        let mut other_salt = false;
        chain::fields(&line.data, &mut |path, value| {
            if proof.masked.contains_key(path) {
                masked += 1;
                if !shows_mask(path, value) {
                    unmasked.get_or_insert_with(|| path.to_owned());
                }
            } else if let Some(salt) = proof.salts.get(path) {
                salted += 1;
                other_salt |= of_line.is_some_and(|of_line| chain::field_salt(&of_line, path) != *salt);
            }
        });
        if let Some(path) = unmasked {
            return Err(wrong(line.seq, format!("{path} is declared masked but shows no mask")));
        }
        if masked != proof.masked.len() || salted != proof.salts.len() || other_salt {
            return Err(wrong(line.seq, "its proof names fields that it does not have"));
        }
        Ok(())
    }

    fn end(&self, expected: Option<u64>) -> Result<(), Wrong> {
        let last = self.next - 1;
        if let Some(promised) = &self.promised
            && self.verdict.head.as_ref() != Some(promised)
        {
            return Err(wrong(self.next, format!("the export should end with line {}", promised.seq)));
        }
        if let Some(expected) = expected
            && expected > last
        {
            return Err(wrong(self.next, format!("the recording ends here; the session's last record is {expected}")));
        }
        Ok(())
    }

    fn missing(&self, reason: &str) -> Wrong {
        wrong(self.next, reason)
    }

    fn bad(&self, file: String, line_number: u64, wrong: Wrong) -> Verdict {
        let bad = Bad { file, line_number, seq: wrong.seq, reason: wrong.reason };
        Verdict { bad: Some(bad), ..self.verdict.clone() }
    }
}
