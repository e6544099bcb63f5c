//! Whether a recording is the one that was signed: each head is signed by a key that may sign, follows the one before it,
//! and names a line that is there.

use super::verdict::{Bad, SignatureChecks, Verdict, name};
use crate::heads::{self, Note, SignedHead};
use crate::line::Line;
use crate::read::Recording;
use crate::sign::PublicKey;
use std::collections::VecDeque;
use std::path::Path;

/// It is not signed.
const NO_SIGNATURE: &str = "it has no signature: it was changed, forged, or written by a version without signatures";

/// The heads that lines are compared with.
#[derive(Default)]
pub(super) struct Seals {
    /// Whether signatures are looked at.
    on: bool,
    file: String,
    /// Those whose lines have not come yet.
    heads: VecDeque<SignedHead>,
    last: Option<SignedHead>,
    /// Those of earlier parts of a copy.
    also: Vec<SignedHead>,
    /// How many there are.
    count: u64,
    session_id: Option<String>,
    keys: Vec<PublicKey>,
    through: Option<u64>,
    remarks: Vec<String>,
    /// What a head says about lines that it cannot vouch for.
    unsigned: Option<Unsigned>,
}

/// Lines that had no signature.
struct Unsigned {
    from: u64,
    reason: String,
}

impl Seals {
    /// Reads the heads and checks them among themselves.
    pub(super) fn load(recording: &Recording, checks: Option<SignatureChecks<'_>>) -> Result<Self, Bad> {
        let Some(checks) = checks else { return Ok(Self::default()) };
        let (session_id, keys) = (checks.session_id.map(ToString::to_string), checks.keys.to_vec());
        let mut seals = Self { on: true, session_id, keys, through: checks.through, ..Self::default() };
        if recording.is_export() {
            seals.file = recording.files().first().map(|path| name(path)).unwrap_or_default();
            let first = recording.first().ok().flatten();
            let Some(signed) = first.and_then(|line| line.proof.signed) else {
                return Err(seals.bad(1, NO_SIGNATURE));
            };
            seals.take(1, signed)?;
        } else {
            seals.file = heads::NAME.to_owned();
            let directory = recording.files().first().and_then(|path| path.parent()).unwrap_or(Path::new("."));
            seals.read(&directory.join(heads::NAME))?;
        }
        seals.last = seals.heads.back().cloned();
        seals.count = seals.heads.len() as u64;
        seals.void();
        Ok(seals)
    }

    fn read(&mut self, path: &Path) -> Result<(), Bad> {
        let bytes = std::fs::read(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => self.bad(0, NO_SIGNATURE),
            _ => self.bad(0, &format!("it cannot be read: {error}")),
        })?;
        let whole = bytes.strip_suffix(b"\n").ok_or_else(|| self.bad(1, "its last line has no end"))?;
        for (index, line) in whole.split(|byte| *byte == b'\n').enumerate() {
            let number = index as u64 + 1;
            let head: SignedHead = serde_json::from_slice(line)
                .map_err(|error| self.bad(number, &format!("it cannot be read: {error}")))?;
            if serde_json::to_vec(&head).ok().as_deref() != Some(line) {
                return Err(self.bad(number, "it differs from the signed bytes"));
            }
            let before = self.heads.back().map_or(crate::Hash::NONE, SignedHead::digest);
            if head.before != before {
                return Err(self.bad(number, "it does not follow the previous head: one was removed or inserted"));
            }
            self.take(number, head)?;
        }
        Ok(())
    }

    fn take(&mut self, number: u64, head: SignedHead) -> Result<(), Bad> {
        if !head.is_signed() {
            return Err(self.bad(number, "its signature is invalid: the signed data was changed"));
        }
        if let Some(session_id) = self.session_id.as_ref().filter(|id| **id != head.session_id) {
            let reason = format!("it was signed for session {}, not for {session_id}", head.session_id);
            return Err(self.bad(number, &reason));
        }
        if !self.keys.is_empty() && !self.keys.contains(&head.key) {
            let known: Vec<String> = self.keys.iter().map(PublicKey::to_string).collect();
            let reason = format!("it is signed by {}, not by {}", head.key, known.join(" or "));
            return Err(self.bad(number, &reason));
        }
        match &head.note {
            Some(Note::Unsigned) => self.remarks.push(format!(
                "events up to {} are from a version without signatures; they were signed on {}",
                head.seq, head.at
            )),
            Some(Note::Cut { from }) => self.remarks.push(format!(
                "events from {from} on were removed before {} because the journal had lost them, and replaced",
                head.at
            )),
            Some(Note::Found { from }) if self.unsigned.is_none() => {
                let reason = format!(
                    "from here on, lines had no signature when the daemon checked on {}: a power failure, or forged \
                        lines",
                    head.at
                );
                self.unsigned = Some(Unsigned { from: *from, reason });
            }
            Some(Note::Found { .. }) | None => {}
        }
        self.heads.push_back(head);
        Ok(())
    }

    /// Another part of a copy begins with this line.
    pub(super) fn part(&mut self, line_number: u64, line: &Line) -> Result<(), String> {
        if !self.on {
            return Ok(());
        }
        if self.last.as_ref().is_none_or(|last| last.seq.checked_add(1) != Some(line.seq)) {
            return Err("the events before it are not all signed".to_owned());
        }
        let signed = line.proof.signed.clone().ok_or(NO_SIGNATURE)?;
        self.take(line_number, signed.clone()).map_err(|bad| bad.reason)?;
        self.also.extend(self.last.replace(signed));
        Ok(())
    }

    /// Leaves out heads of lines that were cut afterwards.
    fn void(&mut self) {
        let mut kept: Vec<SignedHead> = Vec::new();
        for head in self.heads.drain(..) {
            if let Some(Note::Cut { from }) = &head.note {
                kept.retain(|earlier| earlier.seq < *from);
            }
            kept.push(head);
        }
        self.heads = kept.into();
    }

    /// Looks whether a line is one that was signed.
    pub(super) fn line(&mut self, line: &Line) -> Result<(), String> {
        let through = line.through();
        if let Some(unsigned) = self.unsigned.take_if(|unsigned| unsigned.from <= through) {
            return Err(unsigned.reason);
        }
        while let Some(head) = self.heads.front() {
            if head.seq > through {
                break;
            }
            if head.seq < through || head.hash != line.proof.hash {
                return Err(format!(
                    "it is not the line that was signed on {}: this line or an earlier one was changed with the key of \
                        the data directory, but without the signing key",
                    head.at
                ));
            }
            self.heads.pop_front();
        }
        Ok(())
    }

    /// Looks whether everything was signed.
    pub(super) fn end(&mut self, last: u64, verdict: &mut Verdict) -> Result<(), Bad> {
        if !self.on {
            return Ok(());
        }
        if let Some(head) = self.heads.front() {
            let reason = format!("the recording ends with {last}, but {} was signed on {}", head.seq, head.at);
            return Err(self.bad(self.count, &reason));
        }
        let signed = self.last.as_ref().map_or(0, |head| head.seq);
        if signed < self.through.unwrap_or(last).min(last) {
            let reason = format!(
                "events {} to {last} are not signed yet; with a running daemon, `shellkeep verify SESSION` has them \
                    signed",
                signed + 1
            );
            return Err(self.bad(self.count, &reason));
        }
        verdict.key_is_known = !self.keys.is_empty();
        verdict.signed = self.last.take();
        verdict.also_signed = std::mem::take(&mut self.also);
        verdict.remarks = std::mem::take(&mut self.remarks);
        Ok(())
    }

    fn bad(&self, line_number: u64, reason: &str) -> Bad {
        Bad { file: self.file.clone(), line_number, seq: None, reason: reason.to_owned() }
    }
}
