//! Up to which place a broker has confirmed the journal, in a file of the data directory. A file that is lost or late costs
//! time only: what was sent is sent again, and changes nothing.

use crate::url;
use serde::{Deserialize, Serialize};
use shellkeep_store::Mark;
use std::fs;
use std::path::PathBuf;

/// The file of one broker's queue.
pub(crate) struct PlaceFile {
    path: PathBuf,
    /// The queue, without login.
    queue: String,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    queue: String,
    segment: u64,
    offset: u64,
}

impl PlaceFile {
    pub(crate) fn new(path: PathBuf, url: &str) -> Self {
        Self { path, queue: url::without_login(url) }
    }

    /// The place; none if it is that of another queue, or unreadable.
    pub(crate) fn read(&self) -> Option<Mark> {
        let kept: Kept = serde_json::from_slice(&fs::read(&self.path).ok()?).ok()?;
        (kept.queue == self.queue).then_some(Mark { segment: kept.segment, offset: kept.offset })
    }

    pub(crate) fn write(&self, to: Mark) {
        let kept = Kept { queue: self.queue.clone(), segment: to.segment, offset: to.offset };
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
        file.write(Mark { segment: 3, offset: 7 });
        assert_eq!(file.read(), Some(Mark { segment: 3, offset: 7 }));
        assert_eq!(PlaceFile::new(path.clone(), "amqp://u:other@h/v").read(), Some(Mark { segment: 3, offset: 7 }));
        assert_eq!(PlaceFile::new(path.clone(), "amqp://u:p@h/v?queue=q").read(), None);
        fs::write(&path, "").expect("it is ours");
        assert_eq!(file.read(), None);
    }
}
