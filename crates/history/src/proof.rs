//! Copies recordings to the database, as far as they are signed: each line as an export has it, and the last signature. So
//! a session can be verified after its node is gone.
//!
//! The journal's records are written first, and a recording is copied when its node has signed it. Lines are kept for each
//! data directory: the recordings that two nodes have of a session are two chains.

use crate::database::{self, Database, DatabaseError, Value, transaction};
use crate::write::{JournalSource, or_leave, upsert};
use shellkeep_record::{ExportLine, Line, ReadError, Recording, SessionKey, SignedHead, heads};
use shellkeep_session::SessionId;
use std::collections::BTreeSet;
use std::path::Path;

/// Bytes of lines that one transaction writes, or that a broker confirms at once.
pub(crate) const BYTES_AT_ONCE: usize = 4 * 1024 * 1024;

/// The table of copied lines, with its columns.
pub(crate) const LINE_COLUMNS: &str = "sk_lines (session_id, source, seq, hash, line)";

/// A recording on this node.
pub(crate) struct Own<'a> {
    pub session_id: &'a SessionId,
    /// Identifies the data directory.
    pub source: &'a str,
    pub directory: &'a Path,
    pub key: &'a SessionKey,
}

/// What became of a copy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    /// Everything that is signed and in the tables of records is copied.
    All,
    /// Its records are not all signed, or not all written yet.
    NotYet,
}

/// Why a recording was not copied.
#[derive(Debug)]
pub(crate) enum CopyError {
    Database(DatabaseError),
    /// The recording cannot be read. It can be verified on its node.
    Recording(ReadError),
}

impl From<DatabaseError> for CopyError {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

impl From<ReadError> for CopyError {
    fn from(error: ReadError) -> Self {
        Self::Recording(error)
    }
}

/// Sessions of a data directory whose last records are not proven in the database.
pub(crate) fn unproven(
    database: &mut dyn Database,
    source: &JournalSource,
) -> Result<BTreeSet<SessionId>, DatabaseError> {
    let sql = "SELECT s.session_id FROM sk_sessions s LEFT JOIN sk_heads h ON h.session_id = s.session_id AND h.source = ? \
               WHERE s.node = ? AND s.deleted_at IS NULL AND (h.seq IS NULL OR h.seq < s.seq)";
    let rows = database.query(sql, &[Value::text(&source.id), Value::text(&source.node)])?.rows;
    Ok(rows.iter().filter_map(|row| SessionId::parse(row.first()?.as_str()?).ok()).collect())
}

impl Own<'_> {
    /// Copies what is signed and not copied yet.
    pub(crate) fn copy(&self, database: &mut dyn Database) -> Result<Copied, CopyError> {
        let Some((recording, head, last)) = self.signed() else { return Ok(Copied::NotYet) };
        let sql = "SELECT at FROM sk_records WHERE session_id = ? AND seq = ?";
        let row = database.query(sql, &[self.id(), Value::count(last.seq)])?.rows.into_iter().next();
        let Some(at) = row.and_then(|row| row.into_iter().next()) else { return Ok(Copied::NotYet) };
        if at != Value::time(last.timestamp) {
            // The name is another session's by now, whose records come next.
            return Ok(Copied::NotYet);
        }
        if self.lacks_its_beginning(database)? {
            return Ok(Copied::All);
        }
        let copied = self.copied(database, &recording)?;
        if copied < head.seq {
            self.write(database, &recording, copied, &head)?;
        }
        let count = "SELECT seq FROM sk_sessions WHERE session_id = ?";
        let known = database.query(count, &[self.id()])?.rows.into_iter().next();
        let known = known.and_then(|row| row.first().and_then(Value::as_int)).unwrap_or(0);
        Ok(if known.cast_unsigned() <= head.seq { Copied::All } else { Copied::NotYet })
    }

    fn id(&self) -> Value {
        Value::text(self.session_id.as_str())
    }

    fn place(&self) -> [Value; 2] {
        [self.id(), Value::text(self.source)]
    }

    /// The recording with its last signature and the line that it names. None if it cannot be read: it may be gone with its
    /// session, or just be written.
    pub(crate) fn signed(&self) -> Option<(Recording, SignedHead, Line)> {
        let head = heads::last(self.directory, self.session_id).ok()??;
        let recording = Recording::open(self.directory).ok()?;
        let line = recording.before(head.seq + 1).ok()?.filter(|line| line.proof.hash == head.hash)?;
        Some((recording, head, line))
    }

    /// Whether the first records are too old to be kept. What is left cannot be proven without them.
    fn lacks_its_beginning(&self, database: &mut dyn Database) -> Result<bool, DatabaseError> {
        let sql = "SELECT MIN(seq) FROM sk_records WHERE session_id = ?";
        let rows = database.query(sql, &[self.id()])?.rows;
        Ok(rows.first().and_then(|row| row.first()?.as_int()).is_some_and(|first| first > 1))
    }

    /// The number up to which lines are copied. If the recording has other lines than the copy, because a power failure took
    /// its end, the copy is begun anew.
    fn copied(&self, database: &mut dyn Database, recording: &Recording) -> Result<u64, CopyError> {
        let sql = "SELECT seq, hash FROM sk_lines WHERE session_id = ? AND source = ? ORDER BY seq DESC LIMIT 1";
        let Some(row) = database.query(sql, &self.place())?.rows.into_iter().next() else { return Ok(0) };
        let seq = row.first().and_then(Value::as_int).unwrap_or(0).cast_unsigned();
        let line = recording.line(seq)?;
        if line.is_some_and(|line| row.get(1).and_then(Value::as_str) == Some(&line.proof.hash.to_string())) {
            return Ok(seq);
        }
        forget(database, self.session_id.as_str(), self.source)?;
        Ok(0)
    }

    fn write(
        &self,
        database: &mut dyn Database,
        recording: &Recording,
        after: u64,
        head: &SignedHead,
    ) -> Result<(), CopyError> {
        let most = database.most_bytes();
        let mut lines =
            recording.lines(after + 1)?.take_while(|line| line.as_ref().map_or(true, |line| line.seq <= head.seq));
        loop {
            let (mut rows, mut bytes) = (Vec::new(), 0);
            while bytes < BYTES_AT_ONCE
                && let Some(line) = lines.next().transpose()?
            {
                if line.seq <= after {
                    continue;
                }
                let row = self.row(&line).map_err(DatabaseError::failed)?;
                if row.len() > most {
                    tracing::warn!(session = %self.session_id, seq = line.seq, "an event is too large for the history \
                        database, which has no proof of this session from here on");
                    return Ok(());
                }
                bytes += row.len();
                let hash = Value::text(line.proof.hash.to_string());
                rows.push([&self.place()[..], &[Value::count(line.seq), hash, Value::Bytes(row)]].concat());
            }
            let is_end = bytes < BYTES_AT_ONCE;
            transaction(database, |database| {
                let dialect = database.dialect();
                database::insert(database, LINE_COLUMNS, &rows, or_leave(dialect))?;
                if is_end {
                    write_head(database, self.session_id.as_str(), self.source, head)?;
                }
                Ok(())
            })?;
            if is_end {
                return Ok(());
            }
        }
    }

    /// A line as an export has it.
    pub(crate) fn row(&self, line: &Line) -> Result<Vec<u8>, serde_json::Error> {
        let mut bytes = Vec::new();
        ExportLine::new(line, None, Some(self.key)).write_to(&mut bytes)?;
        Ok(bytes)
    }
}

/// Writes the last signature of a recording, in place of an earlier one.
pub(crate) fn write_head(
    database: &mut dyn Database,
    session: &str,
    source: &str,
    head: &SignedHead,
) -> Result<(), DatabaseError> {
    let text = serde_json::to_string(head).map_err(DatabaseError::failed)?;
    let row = vec![Value::text(session), Value::text(source), Value::count(head.seq), Value::text(text)];
    let update = upsert(database.dialect(), "session_id, source", &["seq", "head"]);
    database::insert(database, "sk_heads (session_id, source, seq, head)", &[row], &update)?;
    Ok(())
}

/// Deletes the copy of a recording.
pub(crate) fn forget(database: &mut dyn Database, session: &str, source: &str) -> Result<(), DatabaseError> {
    let place = [Value::text(session), Value::text(source)];
    for table in ["sk_heads", "sk_lines"] {
        database.execute(&format!("DELETE FROM {table} WHERE session_id = ? AND source = ?"), &place)?;
    }
    Ok(())
}
