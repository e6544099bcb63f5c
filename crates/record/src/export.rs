//! Exports a recording: as lines with their proof, as an asciicast, or as an HTML page. All three are written while the
//! recording is read; none is held in memory.

pub mod ansi;
mod asciicast;
pub mod frames;
mod html;
mod options;
pub mod outline;
pub mod patch;
pub mod timeline;

use crate::hash::Hash;
use crate::heads::{self, SignedHead};
use crate::line::{Head, Line};
use crate::mask::ExportLine;
use crate::read::{ReadError, Recording, failed};
use crate::verify::{Checks, SignatureChecks, Verdict, check};
pub use options::{ExportError, MOST_EVENTS, Options};
use shellkeep_session::SessionId;
use std::io::{self, Write};

/// Writes the events as lines, with what proves those that are shown. The copy ends where the recording ended when it was
/// begun, and its first line says where that was.
pub fn jsonl(recording: &Recording, options: &Options<'_>, mut out: impl Write) -> Result<(), ExportError> {
    let Some(End { head, signed }) = end(recording, options)? else { return Ok(out.flush()?) };
    let mut bytes = Vec::new();
    let mut first = true;
    for line in recording.lines(0)? {
        let line = line?;
        if line.seq > head.seq && !recording.is_export() {
            break;
        }
        // A copy from history may have events that nothing proves, between and after those that are proven.
        if line.proof.hash == Hash::NONE && head.hash != Hash::NONE {
            continue;
        }
        let mut copy = ExportLine::new(&line, options.masker, options.key);
        if std::mem::take(&mut first) {
            copy = copy.with_head(head.clone(), signed.clone());
        }
        bytes.clear();
        copy.write_to(&mut bytes).map_err(io::Error::from)?;
        out.write_all(&bytes)?;
    }
    Ok(out.flush()?)
}

/// Writes the events as an asciicast of version 2.
pub fn asciicast(recording: &Recording, options: &Options<'_>, out: impl Write) -> Result<(), ExportError> {
    asciicast::write(shown(recording, options)?, options, out)
}

/// Writes the events as one page.
pub fn html(recording: &Recording, options: &Options<'_>, out: impl Write) -> Result<(), ExportError> {
    let session_id = SessionId::parse(options.session_id).ok().filter(|_| !recording.is_export());
    let signatures = SignatureChecks { session_id: session_id.as_ref(), keys: options.public_keys, through: Some(0) };
    let checks = Checks { key: options.key, signatures: Some(signatures), ..Checks::default() };
    let verdict = check(recording, &checks)?;
    let last = head(recording)?;
    let hash = last.as_ref().map_or(Hash::NONE, |head| head.hash);
    let about = html::About {
        last: last.map_or(0, |head| head.seq),
        intact: verdict.is_intact(),
        verdict: sentence(&verdict, options.key.is_some() || recording.is_export()),
        // The hash of the last event cannot be known in advance by a writer of the session.
        nonce: hash.to_string(),
    };
    html::write(shown(recording, options)?, &about, options, out)
}

/// The end of a recording as it is now.
fn head(recording: &Recording) -> Result<Option<Head>, ReadError> {
    Ok(recording.last()?.map(|last| Head { seq: last.seq, hash: last.proof.hash }))
}

/// Where a copy ends.
struct End {
    head: Head,
    /// Without it, the head proves nothing, but the copy can be read.
    signed: Option<SignedHead>,
}

/// A session's own files are copied up to what is signed last, and an export up to its end.
fn end(recording: &Recording, options: &Options<'_>) -> Result<Option<End>, ReadError> {
    if recording.is_export() {
        let first = recording.first()?;
        return Ok(first.and_then(|line| Some(End { head: line.proof.head?, signed: line.proof.signed })));
    }
    let directory = recording.files().first().and_then(|path| path.parent());
    let session_id = SessionId::parse(options.session_id).ok();
    let signed = match (directory, session_id) {
        (Some(directory), Some(id)) => {
            heads::last(directory, &id).map_err(|error| failed(&directory.join(heads::NAME), &error))?
        }
        _ => None,
    };
    if let Some(signed) = signed
        && let Some(line) = recording.before(signed.seq + 1)?
        && line.through() == signed.seq
    {
        return Ok(Some(End { head: Head { seq: line.seq, hash: line.proof.hash }, signed: Some(signed) }));
    }
    Ok(head(recording)?.map(|head| End { head, signed: None }))
}

/// The lines as exported.
fn shown<'a>(
    recording: &Recording,
    options: &'a Options<'_>,
) -> Result<impl Iterator<Item = Result<Line, ExportError>> + 'a, ExportError> {
    let lines = recording.lines(0)?;
    Ok(lines.map(|line| {
        let line = line?;
        Ok(match options.masker {
            Some(masker) => masker.mask_line(&line, options.key),
            None => line,
        })
    }))
}

/// What a check found, for a reader.
pub fn sentence(verdict: &Verdict, provable: bool) -> String {
    let mut words = match (&verdict.bad, &verdict.head) {
        (Some(bad), _) if !provable => {
            return format!("not verified: a session's own files need its key ({})", bad.reason);
        }
        (Some(bad), _) => format!("NOT INTACT: {} line {}: {}", bad.file, bad.line_number, bad.reason),
        (None, None) => "there are no events".to_owned(),
        (None, Some(head)) if verdict.is_intact() => {
            format!(
                "intact: {} events, none changed, dropped or reordered; the last is {}, hash {}",
                verdict.lines, head.seq, head.hash
            )
        }
        (None, Some(head)) => {
            format!("NOT INTACT: {} events, and some are missing; the last is {}", verdict.lines, head.seq)
        }
    };
    if let Some(signed) = &verdict.signed {
        words += &format!("; signed by {} up to {}", signed.key, signed.seq);
    }
    for remark in &verdict.remarks {
        words += &format!("; {remark}");
    }
    for hole in &verdict.holes {
        let kind = if hole.declared { "declared lost" } else { "missing" };
        words += &format!("; {} to {} are {kind}: {}", hole.from, hole.through, hole.reason);
    }
    if verdict.masked_fields > 0 {
        words += &format!("; {} fields were masked later; the rest is still proven", verdict.masked_fields);
    }
    words
}
