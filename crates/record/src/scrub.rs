//! Masks a secret in a session's files. Each file is rewritten under a temporary name and renamed; a line in which
//! something was masked keeps its hash and the commitments to its original fields.

use crate::append::snapshot;
use crate::beside;
use crate::budget::Budget;
use crate::chain::SessionKey;
use crate::line::Line;
use crate::marks;
use crate::mask::Masker;
use crate::private::open_empty;
use crate::read::{ReadError, Recording, segment_name, segments};
use serde_json::Value;
use shellkeep_redact::{Config, ConfigError, MASK, Redactor, Rules};
use shellkeep_session::FileSum;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read as _, Write as _};
use std::path::Path;

/// How much of a file is masked at once.
const CHUNK: usize = 256 * 1024;

/// Ends the name of a file that is being written.
const TEMPORARY: &str = ".scrub";

/// What a scrub masked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scrubbed {
    /// Numbers of the lines in which something was masked, now or in a scrub that did not come to its end.
    pub seqs: Vec<u64>,
    /// Files beside the lines in which something was masked.
    pub files: Vec<String>,
    /// What those of them are now whose hashes the recording keeps.
    pub sums: BTreeMap<String, FileSum>,
    /// What the recording says about files beside it.
    recorded: BTreeMap<String, FileSum>,
}

impl Scrubbed {
    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.seqs.is_empty() && self.files.is_empty()
    }

    /// Notes what became of a file. One that an interrupted scrub masked has no line that records
    /// it; it is not as recorded and shows a mask.
    pub fn look_at(&mut self, name: &str, path: &Path, is_masked: bool) -> io::Result<()> {
        if is_masked {
            self.files.push(name.to_owned());
        }
        let Some(recorded) = self.recorded.get(name) else { return Ok(()) };
        if is_masked || is_left_masked(path, recorded)? {
            self.sums.insert(name.to_owned(), beside::sum_file(path)?);
        }
        Ok(())
    }
}

fn is_left_masked(path: &Path, recorded: &FileSum) -> io::Result<bool> {
    match beside::is_as_recorded(path, recorded) {
        Ok(true) => Ok(false),
        Ok(false) => Ok(memchr::memmem::find(&fs::read(path)?, MASK).is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A redactor that masks these values and nothing else; see [`shellkeep_redact::is_maskable`].
pub fn redactor<V: AsRef<[u8]>>(values: impl IntoIterator<Item = V>) -> Result<Redactor, ConfigError> {
    of_values()?.with_secrets(values)
}

/// A redactor that masks this value and nothing else, also if it is so common that other text is masked with it.
pub fn forced_redactor(value: &[u8]) -> Result<Redactor, ConfigError> {
    of_values()?.with_any_secrets([value])
}

/// A redactor without rules.
fn of_values() -> Result<Redactor, ConfigError> {
    let rules = Rules::only(["registered"])?;
    Redactor::new(&Config { rules, ..Config::default() })
}

/// Masks what the redactor finds in a session's recording and in its snapshot.
pub fn scrub(directory: &Path, key: &SessionKey, redactor: &Redactor) -> io::Result<Scrubbed> {
    let masker = Masker::of_values(redactor.clone());
    // They are made again, from lines in which it is masked.
    marks::remove(directory)?;
    let mut scrubbed = Scrubbed::default();
    let mut masked = Masked::default();
    for number in segments(directory)? {
        scrub_segment(directory, number, key, &masker, &mut masked)?;
    }
    scrubbed.seqs = masked.now.union(&masked.untold).copied().collect();
    let told = |seq: &u64| Some((beside::line_name(*seq), masked.lines.get(seq)?.clone()));
    scrubbed.sums = scrubbed.seqs.iter().filter_map(told).collect();
    scrubbed.recorded = masked.files;
    let path = directory.join(snapshot::NAME);
    let is_masked = scrub_json(&path, &masker)?;
    scrubbed.look_at(snapshot::NAME, &path, is_masked)?;
    Ok(scrubbed)
}

/// Masks what the redactor finds in a file of any kind; whether there was something. What is not there has nothing.
pub fn scrub_file(path: &Path, redactor: &Redactor) -> io::Result<bool> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    replace(path, |out| {
        let mut stream = redactor.stream();
        let (mut chunk, mut shown, mut changed) = (vec![0; CHUNK], Vec::new(), false);
        // What comes out is compared with what goes in, as far as both are known.
        let mut given: Vec<u8> = Vec::new();
        loop {
            let read = file.read(&mut chunk)?;
            shown.clear();
            given.extend_from_slice(&chunk[..read]);
            if read == 0 {
                std::mem::replace(&mut stream, redactor.stream()).finish(&mut shown);
            } else {
                stream.push(&chunk[..read], &mut shown);
            }
            changed |= !given.starts_with(&shown);
            if !changed {
                given.drain(..shown.len());
            } else {
                given.clear();
            }
            out.write_all(&shown)?;
            if read == 0 {
                return Ok(changed);
            }
        }
    })
}

fn scrub_json(path: &Path, masker: &Masker) -> io::Result<bool> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let Ok(mut value) = serde_json::from_slice::<Value>(&bytes) else { return scrub_file(path, masker.redactor()) };
    replace(path, |out| {
        let changed = masker.mask_value(&mut value);
        serde_json::to_writer_pretty(&mut *out, &value)?;
        out.write_all(b"\n")?;
        Ok(changed)
    })
}

/// Numbers of lines in which something is masked.
#[derive(Default)]
struct Masked {
    /// By this scrub.
    now: BTreeSet<u64>,
    /// By one that was interrupted: no line records it.
    untold: BTreeSet<u64>,
    /// What the lines are now in which something is masked.
    lines: BTreeMap<u64, FileSum>,
    /// The files that lines mention.
    files: BTreeMap<String, FileSum>,
}

/// Writes one file anew.
fn scrub_segment(
    directory: &Path,
    number: u64,
    key: &SessionKey,
    masker: &Masker,
    masked: &mut Masked,
) -> io::Result<()> {
    let path = directory.join(segment_name(number));
    let recording = Recording { files: vec![path.clone()], export: false, budget: Budget::unlimited() };
    replace(&path, |out| {
        let mut changed = false;
        let mut raw = recording.raw(0).map_err(failed)?;
        let mut written = Vec::new();
        while let Some(raw) = raw.next().map_err(failed)? {
            written.clear();
            match Line::parse(raw.bytes) {
                Ok(line) => {
                    let shown = masker.mask_line(&line, Some(key));
                    masked.look_at(&line);
                    if shown != line {
                        changed = true;
                        masked.now.insert(line.seq);
                        shown.write_to(&mut written)?;
                    }
                    if !shown.proof.masked.is_empty() {
                        let bytes = written.strip_suffix(b"\n").unwrap_or(raw.bytes);
                        masked.lines.insert(line.seq, beside::sum(bytes));
                    }
                }
                // It no longer proves anything; its secrets are masked anyway.
                Err(_) => {
                    written = masker.redactor().redact(raw.bytes);
                    changed |= written != raw.bytes;
                    written.push(b'\n');
                }
            }
            if written.is_empty() {
                out.write_all(raw.bytes)?;
                out.write_all(b"\n")?;
            }
            out.write_all(&written)?;
        }
        Ok(changed)
    })?;
    Ok(())
}

impl Masked {
    fn look_at(&mut self, line: &Line) {
        self.files.extend(line.proof.files.clone());
        if !line.proof.masked.is_empty() {
            self.untold.insert(line.seq);
        }
        if line.event_type == "scrubbed" {
            for seq in line.data.get("seqs").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_u64) {
                self.untold.remove(&seq);
            }
        }
    }
}

/// Removes what scrubs left that did not come to their end.
pub(crate) fn remove_leftovers(directory: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        if path.to_str().is_some_and(|path| path.ends_with(TEMPORARY)) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Writes a file anew beside the old one, which it replaces if that is worth it.
fn replace(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<bool>) -> io::Result<bool> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(TEMPORARY);
    let temporary = Path::new(&temporary);
    let file = open_empty(temporary)?;
    let mut out = BufWriter::new(file);
    let written = write(&mut out).and_then(|changed| {
        out.flush()?;
        Ok(changed)
    });
    match written {
        Ok(true) => {
            // The old file must not reappear with its secret after a power failure.
            out.get_ref().sync_data()?;
            fs::rename(temporary, path)?;
            Ok(true)
        }
        other => {
            fs::remove_file(temporary)?;
            other
        }
    }
}

fn failed(error: ReadError) -> io::Error {
    io::Error::other(error.to_string())
}
