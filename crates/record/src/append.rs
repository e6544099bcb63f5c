//! Writes the lines of many sessions. Records arrive in batches; each session's part of a batch is one write. A record
//! that already has a line is skipped, so a batch may be repeated after a crash.
//!
//! A session whose files cannot be written is *stalled*: nothing more is written for it until [`Recorder::try_again`]
//! has found that its files accept lines again, and then the caller passes what it missed. If that is no longer
//! possible, a `hole` line says so.

mod deleted;
mod open_recording;
mod options;
pub(crate) mod snapshot;

use crate::chain::{Key, SessionKey};
use crate::heads::{self, SignedHead};
use crate::private::make_directory;
use crate::scrub::{self, Scrubbed};
pub use deleted::RECORDING;
use open_recording::{Context, OpenRecording, Scratch, Trouble};
pub use options::{BeforeWrite, RecorderOptions, SEGMENT_BYTES};
use shellkeep_redact::Redactor;
use shellkeep_session::{Record, SessionId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::PathBuf;

/// A session whose lines cannot be written at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stall {
    pub session_id: SessionId,
    /// What the system said.
    pub reason: String,
}

/// What was signed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SignedNow {
    /// Since the last time.
    pub heads: Vec<SignedHead>,
    /// Sessions for which the signature could not be written, which are stalled from now on.
    pub stalls: Vec<Stall>,
}

/// Why a session is stalled.
struct Stalled {
    reason: String,
    /// Bytes that could not be written.
    needed: usize,
}

/// Writes recordings. One thread uses it.
pub struct Recorder {
    root: PathBuf,
    key: Key,
    options: RecorderOptions,
    open: HashMap<SessionId, OpenRecording>,
    stalled: BTreeMap<SessionId, Stalled>,
    /// Sessions with lines that were written and not signed.
    unsigned: BTreeSet<SessionId>,
    /// Heads that were signed early.
    signed: Vec<SignedHead>,
    /// Counts uses, to find the least recently used recording.
    clock: u64,
    scratch: Scratch,
}

impl Recorder {
    /// A recorder whose sessions are directories in `root`, which is created if missing.
    pub fn open(root: PathBuf, key: Key, options: RecorderOptions) -> io::Result<Self> {
        make_directory(&root)?;
        Ok(Self {
            root,
            key,
            options,
            open: HashMap::new(),
            stalled: BTreeMap::new(),
            unsigned: BTreeSet::new(),
            signed: Vec::new(),
            clock: 0,
            scratch: Scratch::default(),
        })
    }

    /// Where a session's files are.
    pub fn directory(&self, session_id: &SessionId) -> PathBuf {
        self.root.join(session_id.as_str())
    }

    /// The key that proves a session's lines.
    pub fn session_key(&self, session_id: &SessionId) -> SessionKey {
        self.key.of(session_id)
    }

    /// Writes the lines of these records, which are in order for each session. Returns the sessions for which that
    /// failed now; those that are already stalled are skipped.
    pub fn take(&mut self, records: &[&Record]) -> Vec<Stall> {
        let mut groups: HashMap<&SessionId, Vec<&Record>> = HashMap::new();
        for record in records {
            groups.entry(&record.session_id).or_default().push(record);
        }
        let mut stalls = Vec::new();
        for (session_id, records) in groups {
            if self.stalled.contains_key(session_id) {
                continue;
            }
            if let Err(stalled) = self.take_session(session_id, &records) {
                stalls.push(Stall { session_id: session_id.clone(), reason: stalled.reason.clone() });
                self.stalled.insert(session_id.clone(), stalled);
            }
        }
        stalls
    }

    /// The sessions that are stalled, and why.
    pub fn stalled(&self) -> impl Iterator<Item = (&SessionId, &str)> {
        self.stalled.iter().map(|(session_id, stalled)| (session_id, stalled.reason.as_str()))
    }

    /// Checks whether a stalled session's files accept lines again. If so, it is no longer stalled.
    pub fn try_again(&mut self, session_id: &SessionId) -> io::Result<()> {
        let Some(stalled) = self.stalled.get(session_id) else { return Ok(()) };
        open_recording::probe(&self.directory(session_id), stalled.needed)?;
        self.stalled.remove(session_id);
        Ok(())
    }

    /// The sessions whose last lines are not signed.
    pub fn unsigned(&self) -> impl ExactSizeIterator<Item = &SessionId> {
        self.unsigned.iter()
    }

    /// Signs recordings up to their last line, all or that of one session.
    pub fn sign(&mut self, only: Option<&SessionId>) -> SignedNow {
        let wanted: Vec<SessionId> = match only {
            Some(session_id) => self.unsigned.get(session_id).cloned().into_iter().collect(),
            None => self.unsigned.iter().cloned().collect(),
        };
        let mut stalls = Vec::new();
        for session_id in wanted {
            if let Err(error) = self.sign_session(&session_id) {
                let stalled = Stalled { reason: format!("{}: {error}", heads::NAME), needed: 0 };
                stalls.push(Stall { session_id: session_id.clone(), reason: stalled.reason.clone() });
                // The journal brings again what is not signed.
                self.open.remove(&session_id);
                self.unsigned.remove(&session_id);
                self.stalled.insert(session_id, stalled);
            }
        }
        SignedNow { heads: std::mem::take(&mut self.signed), stalls }
    }

    fn sign_session(&mut self, session_id: &SessionId) -> io::Result<()> {
        if let (Some(signer), Some(recording)) = (&self.options.signer, self.open.get_mut(session_id)) {
            self.signed.extend(recording.sign(signer)?);
        }
        self.unsigned.remove(session_id);
        Ok(())
    }

    /// Closes a session's file, if it is open.
    pub fn forget(&mut self, session_id: &SessionId) {
        self.open.remove(session_id);
    }

    /// Masks what the redactor finds in everything that is recorded of a session.
    pub fn scrub(&mut self, session_id: &SessionId, redactor: &Redactor) -> io::Result<Scrubbed> {
        self.sign_session(session_id)?;
        self.forget(session_id);
        let key = self.session_key(session_id);
        scrub::scrub(&self.directory(session_id), &key, redactor)
    }

    fn take_session(&mut self, session_id: &SessionId, records: &[&Record]) -> Result<(), Stalled> {
        for last in [false, true] {
            let trouble = match self.write_session(session_id, records) {
                Ok(()) => return Ok(()),
                Err(trouble) => trouble,
            };
            // The cached state is stale; the files are read again.
            self.forget(session_id);
            match trouble {
                Trouble::Changed if !last => {
                    tracing::warn!(%session_id, "the files of a recording were changed; continuing after their end");
                }
                Trouble::Changed => {
                    let reason = "another process changes the files of the recording".to_owned();
                    return Err(Stalled { reason, needed: 0 });
                }
                Trouble::Failed { error, needed } => return Err(Stalled { reason: error.to_string(), needed }),
            }
        }
        Ok(())
    }

    fn write_session(&mut self, session_id: &SessionId, records: &[&Record]) -> Result<(), Trouble> {
        let directory = self.directory(session_id);
        self.clock += 1;
        if !self.open.contains_key(session_id) {
            self.make_room();
            let recording = OpenRecording::open(directory, session_id.clone(), self.key.of(session_id))?;
            self.open.insert(session_id.clone(), recording);
        }
        let Some(recording) = self.open.get_mut(session_id) else { return Ok(()) };
        recording.used = self.clock;
        self.scratch.buffer.clear();
        let outputs = self.options.outputs.as_ref().map(|root| root.join(session_id.as_str()));
        let mut context = Context {
            options: &self.options,
            scratch: &mut self.scratch,
            outputs: outputs.as_deref(),
            signed: &mut self.signed,
        };
        for record in records {
            recording.take(record, &mut context)?;
        }
        recording.flush(&mut context)?;
        if self.options.signer.is_some() {
            self.unsigned.insert(session_id.clone());
        }
        Ok(())
    }

    /// Closes some of the files that were not used for longest, if there are too many.
    fn make_room(&mut self) {
        let most = self.options.open_files.max(1);
        if self.open.len() < most {
            return;
        }
        let mut used: Vec<u64> = self.open.values().map(|recording| recording.used).collect();
        used.sort_unstable();
        // Several at once, so that looking for them is not paid for every time.
        let oldest = used[most / 8];
        let old = self
            .open
            .iter()
            .filter(|(_, recording)| recording.used <= oldest)
            .map(|(session_id, _)| session_id.clone());
        for session_id in old.collect::<Vec<_>>() {
            // One that cannot be signed now stays open; otherwise its lines could not be distinguished from forged ones
            // later.
            if self.sign_session(&session_id).is_ok() {
                self.open.remove(&session_id);
            }
        }
    }
}
