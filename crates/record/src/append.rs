//! Writing the lines of many sessions. Records come in batches; each session's part of a batch is one write. A record that
//! has a line already is passed over, so a batch may come again after a crash.
//!
//! A session whose files cannot be written is *stalled*: nothing more is written for it until [`Recorder::try_again`] has
//! found that its files take lines again, and then the recorder's feeder brings what it missed. If that is no longer
//! possible, the line that says so is a `hole`.

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
    /// Whose.
    pub session_id: SessionId,
    /// What the system said.
    pub reason: String,
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
    /// Heads that were signed before somebody asked for it.
    signed: Vec<SignedHead>,
    /// Counts uses, so that the recording that was not used for longest can be told.
    clock: u64,
    scratch: Scratch,
}

impl Recorder {
    /// A recorder whose sessions are directories in `root`, which is made if it is not there.
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

    /// What proves a session's lines.
    pub fn session_key(&self, session_id: &SessionId) -> SessionKey {
        self.key.of(session_id)
    }

    /// Writes the lines of these records, which are in order for each session. Gives back the sessions for which that
    /// failed now; those that are stalled already are passed over.
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

    /// Checks whether a stalled session's files take lines again. If so, it is no longer stalled.
    pub fn try_again(&mut self, session_id: &SessionId) -> io::Result<()> {
        let Some(stalled) = self.stalled.get(session_id) else { return Ok(()) };
        open_recording::probe(&self.directory(session_id), stalled.needed)?;
        self.stalled.remove(session_id);
        Ok(())
    }

    /// Signs how far recordings have come, all or that of one session. Gives back what was signed since the last time, and
    /// the sessions for which it could not be written down, which are stalled from now on.
    pub fn sign(&mut self, only: Option<&SessionId>) -> (Vec<SignedHead>, Vec<Stall>) {
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
        (std::mem::take(&mut self.signed), stalls)
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
            // What the recording knows is no longer true; the files tell.
            self.forget(session_id);
            match trouble {
                Trouble::Changed if !last => {
                    tracing::warn!(%session_id, "somebody changed the files of a recording; it goes on after what is there");
                }
                Trouble::Changed => {
                    let reason = "somebody changes the files of the recording".to_owned();
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
            // One that cannot be signed now stays open, or nobody would know later that we wrote it.
            if self.sign_session(&session_id).is_ok() {
                self.open.remove(&session_id);
            }
        }
    }
}
