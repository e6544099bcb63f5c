//! Writes parts of recordings that came through a broker: perhaps not for the first time, and perhaps in another order.
//!
//! A node sends each line once, and from the first one again if its recording is no longer what it sent: a power failure
//! took its end, or a secret was masked in it. A copy that was begun later replaces the one before it, and what still comes
//! of that one is ignored. The last signature stays. So the tables become the same in whatever order the parts come.

use crate::database::{self, Database, DatabaseError, Value, transaction};
use crate::message::{ProofLine, ProofPart};
use crate::names;
use crate::proof::{self, LINE_COLUMNS};
use crate::write::{JournalSource, or_leave, upsert, wait_for_turn};
use shellkeep_session::Timestamp;

/// Writes parts of recordings of one data directory.
pub(crate) fn write_parts(
    database: &mut dyn Database,
    source: &JournalSource,
    parts: &[ProofPart],
) -> Result<(), DatabaseError> {
    let created_at = |part: &ProofPart| part.created_at.map(Timestamp::as_microsecond);
    transaction(database, |database| {
        wait_for_turn(database, source)?;
        let mut known = names::known(database, parts.iter().map(|part| part.session_id.as_str()))?;
        let sessions = parts.iter().map(|part| (part.session_id.as_str(), created_at(part)));
        let latest = names::tell_apart(database, sessions, &mut known)?;
        for part in parts {
            let name = part.session_id.as_str();
            let name = latest.earlier(name, created_at(part)).unwrap_or_else(|| name.to_owned());
            Received { database, source, name: &name, part }.write()?;
        }
        Ok(())
    })
}

/// What the table of copies has of one.
struct KnownCopy {
    begun: i64,
    /// The first line that the database cannot hold.
    ends_before: Option<i64>,
}

/// A part on its way into the tables.
struct Received<'a> {
    database: &'a mut dyn Database,
    source: &'a JournalSource,
    /// The name of its session in the tables.
    name: &'a str,
    part: &'a ProofPart,
}

impl Received<'_> {
    fn write(&mut self) -> Result<(), DatabaseError> {
        let (part, dialect) = (self.part, self.database.dialect());
        let copy = match self.known()? {
            Some(known) if known.begun > part.begun => return Ok(()),
            Some(known) if known.begun == part.begun => known,
            _ => self.begin()?,
        };
        let ends_before = self.end(copy.ends_before)?;
        let is_held = |seq: u64| ends_before.is_none_or(|end| seq.cast_signed() < end);
        let lines = part.lines.iter().filter(|line| is_held(line.seq));
        let rows: Vec<Vec<Value>> = lines.map(|line| self.row(line)).collect();
        let count = database::insert(self.database, LINE_COLUMNS, &rows, or_leave(dialect))?;
        if count > 0 {
            let sql = "UPDATE sk_copies SET line_count = line_count + ? WHERE session_id = ? AND source = ?";
            self.database.execute(sql, &[&[Value::count(count)][..], &self.place()[..]].concat())?;
        }
        if let Some(signed) = part.signed.as_ref().filter(|signed| is_held(signed.seq))
            && self.signed()? < signed.seq.cast_signed()
        {
            proof::write_head(self.database, self.name, &self.source.id, signed)?;
        }
        Ok(())
    }

    fn place(&self) -> [Value; 2] {
        [Value::text(self.name), Value::text(&self.source.id)]
    }

    fn row(&self, line: &ProofLine) -> Vec<Value> {
        let [name, source] = self.place();
        let hash = Value::text(line.hash.to_string());
        vec![name, source, Value::count(line.seq), hash, Value::Bytes(line.line.clone().into_bytes())]
    }

    fn known(&mut self) -> Result<Option<KnownCopy>, DatabaseError> {
        let sql = "SELECT begun, ends_before FROM sk_copies WHERE session_id = ? AND source = ?";
        let rows = self.database.query(sql, &self.place())?.rows;
        let known = |row: &Vec<Value>| {
            Some(KnownCopy { begun: row.first()?.as_int()?, ends_before: row.get(1).and_then(Value::as_int) })
        };
        Ok(rows.first().and_then(known))
    }

    /// Begins a copy, in place of one that is there. The session may come later than its proof; its row tells it apart from
    /// others that have its name.
    fn begin(&mut self) -> Result<KnownCopy, DatabaseError> {
        proof::forget(self.database, self.name, &self.source.id)?;
        let dialect = self.database.dialect();
        let [name, source] = self.place();
        let row = vec![name.clone(), source, Value::Int(self.part.begun), Value::Int(0), Value::Null];
        let update = upsert(dialect, "session_id, source", &["begun", "line_count", "ends_before"]);
        let into = "sk_copies (session_id, source, begun, line_count, ends_before)";
        database::insert(self.database, into, &[row], &update)?;
        let session = vec![
            name,
            self.part.created_at.map_or(Value::Null, Value::time),
            Value::time(self.part.at),
            Value::Int(0),
            Value::Int(0),
            Value::text(&self.source.node),
        ];
        let into = "sk_sessions (session_id, created_at, last_active_at, seq, epoch, node)";
        database::insert(self.database, into, &[session], or_leave(dialect))?;
        Ok(KnownCopy { begun: self.part.begun, ends_before: None })
    }

    /// The first line that the database cannot hold, of this part and of those before it. Without it nothing proves what
    /// follows, so the copy ends there.
    fn end(&mut self, known: Option<i64>) -> Result<Option<i64>, DatabaseError> {
        let most = self.database.most_bytes();
        let too_long = self.part.lines.iter().filter(|line| line.line.len() > most).map(|line| line.seq.cast_signed());
        let Some(found) = too_long.min().filter(|found| known.is_none_or(|known| *found < known)) else {
            return Ok(known);
        };
        tracing::warn!(
            session = self.name,
            seq = found,
            "an event is too large for the history database, which has no \
            proof of this session from here on"
        );
        let key = [&[Value::Int(found)][..], &self.place()[..]].concat();
        let sql = "UPDATE sk_copies SET ends_before = ? WHERE session_id = ? AND source = ?";
        self.database.execute(sql, &key)?;
        for table in ["sk_lines", "sk_heads"] {
            let sql = format!("DELETE FROM {table} WHERE seq >= ? AND session_id = ? AND source = ?");
            self.database.execute(&sql, &key)?;
        }
        Ok(Some(found))
    }

    /// The number up to which the copy is signed.
    fn signed(&mut self) -> Result<i64, DatabaseError> {
        let sql = "SELECT seq FROM sk_heads WHERE session_id = ? AND source = ?";
        let rows = self.database.query(sql, &self.place())?.rows;
        Ok(rows.first().and_then(|row| row.first()?.as_int()).unwrap_or(0))
    }
}
