//! Whether the attached files of a recording match its lines.

use super::owners::{Made, Owners};
use super::verdict::{Bad, Verdict};
use crate::append::snapshot;
use crate::beside::{self, RECLAIMED};
use crate::line::Line;
use crate::read::Recording;
use serde_json::Value;
use shellkeep_session::FileSum;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// What the lines say about files, and about lines that a scrub masked.
#[derive(Default)]
pub(super) struct Beside {
    /// What is recorded of each.
    told: BTreeMap<String, Told>,
    /// Who had the session.
    owners: Owners,
    /// Those that were removed to make room.
    reclaimed: BTreeSet<String>,
    /// Lines in which something is masked, as they are.
    masked: BTreeMap<u64, FileSum>,
    /// The same as scrubs left them.
    scrubbed: BTreeMap<u64, FileSum>,
}

/// What is recorded of a file.
struct Told {
    /// Its newest sum, and the number of the line with that.
    sum: FileSum,
    seq: u64,
    made: Made,
}

impl Beside {
    /// Collects what a line records.
    pub(super) fn line(&mut self, line: &Line, bytes: &[u8]) {
        self.owners.line(line);
        if !line.proof.masked.is_empty() {
            self.masked.insert(line.seq, beside::sum(bytes));
        }
        for (name, sum) in &line.proof.files {
            if let Some(seq) = beside::line_number(name) {
                self.scrubbed.insert(seq, sum.clone());
                continue;
            }
            self.reclaimed.remove(name);
            let made = Made::of(line, self.told.get(name).map(|told| told.made));
            self.told.insert(name.clone(), Told { sum: sum.clone(), seq: line.seq, made });
        }
        if line.event_type == RECLAIMED {
            let names = line.data.get("files").and_then(Value::as_array).into_iter().flatten();
            self.reclaimed.extend(names.filter_map(Value::as_str).map(str::to_owned));
        }
    }

    /// Looks at the files themselves.
    pub(super) fn check(
        &self,
        recording: &Recording,
        outputs: Option<&Path>,
        verdict: &mut Verdict,
    ) -> Result<(), Bad> {
        let Some(outputs) = outputs.filter(|_| !recording.is_export()) else { return Ok(()) };
        for (seq, sum) in &self.masked {
            // Scrubs of earlier versions did not tell.
            if self.scrubbed.get(seq).is_some_and(|told| told != sum) {
                let reason = "it differs from what the scrub left".to_owned();
                return Err(Bad { file: "events".to_owned(), line_number: 0, seq: Some(*seq), reason });
            }
        }
        let own = recording.files().first().and_then(|path| path.parent()).unwrap_or(Path::new("."));
        let mut elsewhere = 0_u64;
        for (name, Told { sum, seq, made }) in &self.told {
            let path = place(name, own, outputs);
            let bad = |reason: String| Bad { file: name.clone(), line_number: 0, seq: Some(*seq), reason };
            match beside::is_as_recorded(&path, sum) {
                Ok(true) => verdict.files += 1,
                Ok(false) => {
                    return Err(bad(format!(
                        "the file differs from the recorded one, which had {} bytes and the hash {}",
                        sum.bytes, sum.hash
                    )));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound && self.reclaimed.contains(name) => {
                    verdict.files_reclaimed += 1;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound && self.owners.made_elsewhere(*made) => {
                    elsewhere += 1;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(bad("the file is missing, and no event says that it was deleted to make \
                        room"
                        .to_owned()));
                }
                Err(error) => return Err(bad(format!("cannot read the file: {error}"))),
            }
        }
        if elsewhere > 0 {
            verdict.remarks.push(format!(
                "files with large outputs or agent states that are not here, because a fork has them, or they stayed on a node that \
                 had the session before: {elsewhere}; they are not checked"
            ));
        }
        Ok(())
    }
}

/// Where a file is. A name with path separators resolves to a file that does not exist.
fn place(name: &str, own: &Path, outputs: &Path) -> PathBuf {
    if name == snapshot::NAME {
        return own.join(name);
    }
    match Path::new(name).file_name() {
        Some(plain) if plain == name => outputs.join(name),
        _ => outputs.join("no such file"),
    }
}
