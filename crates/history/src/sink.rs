//! Where the outbox writes: a database, or the queue of a broker, which is in `queue_sink`.

use crate::broker::BrokerError;
use crate::database::{Database, DatabaseError};
use crate::proof::{self, Copied, CopyError, Own};
use crate::retention::{Pass, Removed};
use crate::write::{self, JournalSource};
use crate::{open, schema, scrub};
use shellkeep_record::SessionKey;
use shellkeep_redact::Redactor;
use shellkeep_session::{OutOfReach, SessionId};
use shellkeep_store::{FeedBatch, Mark};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// Why something could not be written.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error(transparent)]
    Broker(#[from] BrokerError),
    #[error("the journal cannot be read: {0}")]
    Journal(io::Error),
    #[error("a record cannot be written: {0}")]
    Record(#[from] serde_json::Error),
}

/// Takes the records of one journal. After an error it is opened again.
pub(crate) trait Sink {
    /// Up to which place it has the journal; none if it has nothing, or does not know.
    fn place(&mut self) -> Result<Option<Mark>, SinkError>;

    /// What follows an earlier place will be written again.
    fn go_back(&mut self, to: Mark) -> Result<(), SinkError>;

    /// Writes a part of the journal for good.
    fn write(&mut self, batch: &FeedBatch) -> Result<(), SinkError>;

    /// Whether it is still there.
    fn check(&mut self) -> Result<(), SinkError>;

    /// Removes some of what is too old; what all steps of a pass removed after the last one.
    fn remove(&mut self, pass: &mut Pass) -> Result<Option<Removed>, SinkError>;

    /// Masks a secret in what was written, and returns what it cannot reach.
    fn scrub(&mut self, session_id: &SessionId, redactor: &Redactor) -> Result<Vec<OutOfReach>, SinkError>;

    /// Sessions of this node whose recordings it lacks, or the last part of them.
    fn unproven(&mut self) -> Result<BTreeSet<SessionId>, SinkError>;

    /// Copies what is signed of a recording, and not copied yet. It is there for good after [`Sink::end_copies`].
    fn copy(&mut self, session_id: &SessionId, directory: &Path, key: &SessionKey) -> Result<Copied, SinkError>;

    /// Ends a series of copies.
    fn end_copies(&mut self) -> Result<(), SinkError>;
}

/// A database.
pub(crate) struct DatabaseSink {
    database: Box<dyn Database>,
    source: JournalSource,
}

impl DatabaseSink {
    /// Connects, and brings the tables to this program's version.
    pub(crate) fn open(url: &str, source: &JournalSource) -> Result<Self, SinkError> {
        let mut database = open::open(url)?;
        schema::migrate(&mut *database)?;
        Ok(Self { database, source: source.clone() })
    }
}

impl Sink for DatabaseSink {
    fn place(&mut self) -> Result<Option<Mark>, SinkError> {
        Ok(write::place(&mut *self.database, &self.source.id)?)
    }

    fn go_back(&mut self, to: Mark) -> Result<(), SinkError> {
        Ok(write::go_back(&mut *self.database, &self.source, to)?)
    }

    fn write(&mut self, batch: &FeedBatch) -> Result<(), SinkError> {
        Ok(write::write(&mut *self.database, &self.source, &batch.entries, batch.to)?)
    }

    fn check(&mut self) -> Result<(), SinkError> {
        self.database.query("SELECT 1", &[])?;
        Ok(())
    }

    fn remove(&mut self, pass: &mut Pass) -> Result<Option<Removed>, SinkError> {
        Ok(pass.step(&mut *self.database)?)
    }

    fn scrub(&mut self, session_id: &SessionId, redactor: &Redactor) -> Result<Vec<OutOfReach>, SinkError> {
        scrub::scrub(&mut *self.database, &self.source.id, session_id, redactor)?;
        Ok(vec![OutOfReach::HistoryLogs])
    }

    fn unproven(&mut self) -> Result<BTreeSet<SessionId>, SinkError> {
        Ok(proof::unproven(&mut *self.database, &self.source)?)
    }

    fn copy(&mut self, session_id: &SessionId, directory: &Path, key: &SessionKey) -> Result<Copied, SinkError> {
        if !directory.exists() {
            // It is gone with its session.
            return Ok(Copied::All);
        }
        let own = Own { session_id, source: &self.source.id, directory, key };
        match own.copy(&mut *self.database) {
            Ok(copied) => Ok(copied),
            Err(CopyError::Database(error)) => Err(error.into()),
            Err(CopyError::Recording(error)) => {
                tracing::warn!(session = %session_id, %error, "a recording cannot be read, so history has no proof of it");
                Ok(Copied::All)
            }
        }
    }

    /// Each copy is a transaction.
    fn end_copies(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}
