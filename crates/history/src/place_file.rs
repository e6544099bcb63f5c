//! Up to which place a broker has confirmed the journal, and whose recordings it lacks, in a file of the data directory. A
//! file that is late costs time only: what was sent is sent again, and changes nothing. One that is lost also delays the
//! proof of sessions until their next record.

use crate::url;
use serde::{Deserialize, Serialize};
use shellkeep_session::{SessionId, Timestamp};
use shellkeep_store::Mark;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// The file of one broker's queue.
pub(crate) struct PlaceFile {
    path: PathBuf,
    /// The queue, without login.
    queue: String,
}

/// How far a broker is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Place {
    /// It has all records before this place.
    pub mark: Mark,
    /// Sessions whose recordings it lacks, or the last part of them, with the last record that it has of each.
    pub unproven: BTreeMap<SessionId, LastRecord>,
}

/// The last record of a session that a broker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastRecord {
    pub seq: u64,
    pub at: Timestamp,
    /// When the session was created, if that is known.
    pub created_at: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    queue: String,
    segment: u64,
    offset: u64,
    /// Earlier versions did not have it.
    #[serde(default)]
    unproven: BTreeMap<SessionId, LastRecord>,
}

impl PlaceFile {
    pub(crate) fn new(path: PathBuf, url: &str) -> Self {
        Self { path, queue: url::without_login(url) }
    }

    /// The place; none if it is that of another queue, or unreadable.
    pub(crate) fn read(&self) -> Option<Place> {
        let Kept { queue, segment, offset, unproven } = serde_json::from_slice(&fs::read(&self.path).ok()?).ok()?;
        (queue == self.queue).then_some(Place { mark: Mark { segment, offset }, unproven })
    }

    pub(crate) fn write(&self, place: &Place) {
        let Place { mark: Mark { segment, offset }, unproven } = place.clone();
        let kept = Kept { queue: self.queue.clone(), segment, offset, unproven };
        let next = self.path.with_extension("next");
        let written = serde_json::to_vec(&kept).map_err(std::io::Error::from).and_then(|json| fs::write(&next, json));
        if let Err(error) = written.and_then(|()| fs::rename(&next, &self.path)) {
            tracing::warn!(%error, path = %self.path.display(), "cannot be written; history may be sent twice");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_that_of_one_queue() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("history-place.json");
        let file = PlaceFile::new(path.clone(), "amqp://u:p@h/v");
        assert_eq!(file.read(), None);
        let last = LastRecord { seq: 4, at: Timestamp::UNIX_EPOCH, created_at: None };
        let unproven = BTreeMap::from([(SessionId::parse("s").expect("a name"), last)]);
        let place = Place { mark: Mark { segment: 3, offset: 7 }, unproven };
        file.write(&place);
        assert_eq!(file.read().as_ref(), Some(&place));
        assert_eq!(PlaceFile::new(path.clone(), "amqp://u:other@h/v").read(), Some(place.clone()));
        assert_eq!(PlaceFile::new(path.clone(), "amqp://u:p@h/v?queue=q").read(), None);
        fs::write(&path, r#"{"queue": "amqp://h/v", "segment": 3, "offset": 7}"#).expect("it is ours");
        let older = file.read().expect("what an earlier version wrote");
        assert!(older.mark == place.mark && older.unproven.is_empty());
        fs::write(&path, "").expect("it is ours");
        assert_eq!(file.read(), None);
    }
}
