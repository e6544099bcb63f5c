//! How far recordings were sent to a broker, in a file for each session. A file that is lost or late costs time only: what
//! was sent is sent again, and changes nothing.

use crate::url;
use serde::{Deserialize, Serialize};
use shellkeep_record::Hash;
use shellkeep_session::{SessionId, Timestamp};
use std::fs;
use std::io;
use std::path::PathBuf;

/// The files of one broker's queue.
pub(crate) struct SentFiles {
    directory: PathBuf,
    /// The queue, without login.
    queue: String,
}

/// How far a recording was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sent {
    /// When its first line was sent, in microseconds; see [`crate::message::ProofPart`].
    pub begun: i64,
    /// The last line; 0 if it is to be sent from the first one on.
    pub seq: u64,
    pub hash: Hash,
    /// When that event happened.
    pub at: Timestamp,
    /// When the session was created, if that is known.
    pub created_at: Option<Timestamp>,
}

impl Sent {
    /// Nothing yet, of a recording that is sent from its first line on. It is later than what was sent before, whatever the
    /// clock says.
    pub(crate) fn begin(before: Option<&Self>, now: Timestamp) -> Self {
        let later = before.map_or(i64::MIN, |before| before.begun.saturating_add(1));
        Self {
            begun: now.as_microsecond().max(later),
            seq: 0,
            hash: Hash::NONE,
            at: now,
            created_at: before.and_then(|before| before.created_at),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Kept {
    queue: String,
    #[serde(flatten)]
    sent: Sent,
}

impl SentFiles {
    pub(crate) fn new(directory: PathBuf, url: &str) -> Self {
        Self { directory, queue: url::without_login(url) }
    }

    fn path(&self, session_id: &SessionId) -> PathBuf {
        self.directory.join(session_id.as_str())
    }

    /// How far a recording was sent; none if that is not known for this queue.
    pub(crate) fn read(&self, session_id: &SessionId) -> Option<Sent> {
        let kept: Kept = serde_json::from_slice(&fs::read(self.path(session_id)).ok()?).ok()?;
        (kept.queue == self.queue).then_some(kept.sent)
    }

    pub(crate) fn write(&self, session_id: &SessionId, sent: Sent) {
        let kept = Kept { queue: self.queue.clone(), sent };
        let path = self.path(session_id);
        let written =
            serde_json::to_vec(&kept).map_err(io::Error::from).and_then(|json| match fs::write(&path, &json) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    fs::create_dir_all(&self.directory)?;
                    fs::write(&path, &json)
                }
                written => written,
            });
        if let Err(error) = written {
            tracing::warn!(%error, path = %path.display(), "cannot be written; a recording may be sent twice");
        }
    }

    /// The session is gone.
    pub(crate) fn forget(&self, session_id: &SessionId) {
        // Most of those that are not there were never written.
        let _ = fs::remove_file(self.path(session_id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_known_for_one_queue_and_begins_later_each_time() {
        let directory = tempfile::tempdir().expect("a directory");
        let files = SentFiles::new(directory.path().join("sent"), "amqp://u:p@h/v");
        let id = SessionId::parse("s").expect("a name");
        assert_eq!(files.read(&id), None);
        let now = Timestamp::from_microsecond(1_000_007).expect("a time");
        let first = Sent { seq: 3, hash: Hash([1; 32]), created_at: Some(now), ..Sent::begin(None, now) };
        files.write(&id, first);
        assert_eq!(files.read(&id), Some(first));
        assert_eq!(SentFiles::new(directory.path().join("sent"), "amqp://u:p@h/v?queue=q").read(&id), None);
        let earlier = Timestamp::UNIX_EPOCH;
        let second = Sent::begin(files.read(&id).as_ref(), earlier);
        assert!(second.begun > first.begun && second.seq == 0 && second.created_at == Some(now), "{second:?}");
        fs::write(directory.path().join("sent/s"), "{").expect("it is ours");
        assert_eq!(files.read(&id), None);
        files.forget(&id);
        assert!(!directory.path().join("sent/s").exists());
    }
}
