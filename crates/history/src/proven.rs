//! The events of a session that are proven, as an export has them. Each node that had the session has copied its own
//! recording of it, signed up to some event. One of them may have everything; if none has, what follows the end of one is
//! taken from another, as a part of its own.

use crate::database::{Database, DatabaseError, Value};
use crate::unproven::{write, write_unproven};
use shellkeep_record::{After, Bad, ExportLine, Hash, Head, Hole, Line, SignedHead};
use shellkeep_session::{EventName, SessionId};
use std::io::Write;

/// Rows that are read at once.
const PAGE: i64 = 200;

/// The table of copied lines.
const LINES: &str = "sk_lines";

/// A copy of a session's recording.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WrittenCopy {
    /// The last event that is proven; 0 if none is.
    pub proven: u64,
    /// The last event.
    pub last: u64,
    /// The signatures that cover what is proven: one for each node of whose recording there is a part.
    pub signed: Vec<SignedHead>,
    /// Events before the last proven one that are not proven, the first and the last.
    pub unproven: Option<(u64, u64)>,
    /// A row that cannot be read.
    pub bad: Option<Bad>,
}

/// Writes the events that are proven and, if they are wanted, those that a node lacks and the records have.
pub(crate) fn write_proven(
    database: &mut dyn Database,
    id: &SessionId,
    with_unproven: bool,
    out: &mut dyn Write,
) -> Result<WrittenCopy, DatabaseError> {
    let mut proven = Proven { id, with_unproven, copy: WrittenCopy::default() };
    let chains = chains(database, id)?;
    while proven.copy.bad.is_none()
        && let Some((chain, part)) = proven.next_part(database, &chains)?
    {
        proven.write(database, chain, part, out)?;
    }
    Ok(proven.copy)
}

/// A recording that a node has copied.
struct Chain {
    source: Value,
    signed: SignedHead,
}

/// The recordings of a session, the longest first. That of a node whose last event another node has replaced is not among
/// them.
fn chains(database: &mut dyn Database, id: &SessionId) -> Result<Vec<Chain>, DatabaseError> {
    let sql = "SELECT h.source, h.head, l.line, r.at FROM sk_heads h \
               JOIN sk_lines l ON l.session_id = h.session_id AND l.source = h.source AND l.seq = h.seq \
               JOIN sk_records r ON r.session_id = h.session_id AND r.seq = h.seq \
               WHERE h.session_id = ? ORDER BY h.seq DESC, h.source";
    let chain = |row: Vec<Value>| {
        let [source, head, line, at]: [Value; 4] = row.try_into().ok()?;
        let signed = serde_json::from_str(head.as_str()?).ok()?;
        // A line that cannot be read is found when its turn comes.
        let is_recorded = parse(&line).map_or(true, |line| Value::time(line.timestamp) == at);
        is_recorded.then_some(Chain { source, signed })
    };
    let rows = database.query(sql, &[Value::text(id.as_str())])?.rows;
    Ok(rows.into_iter().filter_map(chain).collect())
}

/// The first line of a part.
enum First {
    Line(Box<ExportLine>),
    /// A row cannot be read.
    Bad(Bad),
}

/// A session's events, as far as they are written.
struct Proven<'a> {
    id: &'a SessionId,
    with_unproven: bool,
    copy: WrittenCopy,
}

impl Proven<'_> {
    /// The recording that goes on after what is written, and its next line.
    fn next_part<'c>(
        &self,
        database: &mut dyn Database,
        chains: &'c [Chain],
    ) -> Result<Option<(&'c Chain, First)>, DatabaseError> {
        let next = self.copy.proven + 1;
        let sql = "SELECT seq, line, hash FROM sk_lines WHERE session_id = ? AND source = ? AND seq <= ? \
                   ORDER BY seq DESC LIMIT 3";
        for chain in chains.iter().filter(|chain| chain.signed.seq >= next) {
            let key = [Value::text(self.id.as_str()), chain.source.clone(), Value::count(next)];
            let rows: Vec<Row> = database.query(sql, &key)?.rows.into_iter().filter_map(Row::new).collect();
            if let Some(first) = first(chain, &rows, next) {
                return Ok(Some((chain, first)));
            }
        }
        Ok(None)
    }

    /// Writes a part to its end, or to a row that cannot be read.
    fn write(
        &mut self,
        database: &mut dyn Database,
        chain: &Chain,
        first: First,
        out: &mut dyn Write,
    ) -> Result<(), DatabaseError> {
        match first {
            First::Line(line) => write(line.line(), out)?,
            First::Bad(bad) => {
                self.copy.bad = Some(bad);
                return Ok(());
            }
        }
        self.copy.signed.push(chain.signed.clone());
        self.copy.proven += 1;
        let sql = format!(
            "SELECT seq, line, hash FROM sk_lines WHERE session_id = ? AND source = ? AND seq > ? AND seq <= ? \
             ORDER BY seq LIMIT {PAGE}"
        );
        loop {
            let place = [Value::text(self.id.as_str()), chain.source.clone()];
            let range = [Value::count(self.copy.proven), Value::count(chain.signed.seq)];
            let rows = database.query(&sql, &[place, range].concat())?.rows;
            if rows.is_empty() {
                self.copy.proven = chain.signed.seq;
                return Ok(());
            }
            for row in rows.into_iter().filter_map(Row::new) {
                match parse(&row.line) {
                    Ok(line) => {
                        self.fill(database, line.hole(), out)?;
                        write(&line, out)?;
                    }
                    Err(error) => {
                        self.copy.bad = Some(row.bad(chain, &error));
                        return Ok(());
                    }
                }
                // The number of the row: a line that somebody changed may have any.
                self.copy.proven = row.seq;
            }
        }
    }

    /// What a recording says is lost was on another node, if the records have it.
    fn fill(
        &mut self,
        database: &mut dyn Database,
        hole: Option<Hole>,
        out: &mut dyn Write,
    ) -> Result<(), DatabaseError> {
        let Some(Hole { from, through, .. }) = hole.filter(|hole| hole.declared) else { return Ok(()) };
        if self.with_unproven {
            write_unproven(database, self.id, from.saturating_sub(1), Some(through), out)?;
        } else if self.copy.unproven.is_none() {
            let sql = "SELECT COUNT(*) FROM sk_records WHERE session_id = ? AND seq >= ? AND seq <= ?";
            let key = [Value::text(self.id.as_str()), Value::count(from), Value::count(through)];
            let count = database.query(sql, &key)?.rows.first().and_then(|row| row.first()?.as_int());
            self.copy.unproven = count.filter(|count| *count > 0).map(|_| (from, through));
        }
        Ok(())
    }
}

/// The line with which a part begins, if this recording has it, and the one before it by which it is joined. `rows` are
/// those up to there, the last one first.
fn first(chain: &Chain, rows: &[Row], next: u64) -> Option<First> {
    let row = rows.first().filter(|row| row.seq == next)?;
    let line = match parse(&row.line) {
        Ok(line) => line,
        Err(error) => return Some(First::Bad(row.bad(chain, &error))),
    };
    let head = Head { seq: chain.signed.seq, hash: chain.signed.hash };
    let part = ExportLine::new(&line, None, None).with_head(head, Some(chain.signed.clone()));
    if next == 1 {
        return (line.event_type == EventName::SessionCreated.shown()).then(|| First::Line(Box::new(part)));
    }
    let before = rows.get(1).filter(|row| row.seq + 1 == next)?;
    Some(match parse(&before.line) {
        Ok(line) => {
            let hash = rows.get(2).and_then(|row| Hash::parse(row.hash.as_str()?)).unwrap_or(Hash::NONE);
            First::Line(Box::new(part.joined_by(After { before: hash, line })))
        }
        Err(error) => First::Bad(before.bad(chain, &error)),
    })
}

/// A row of copied lines.
struct Row {
    seq: u64,
    line: Value,
    hash: Value,
}

impl Row {
    fn new(row: Vec<Value>) -> Option<Self> {
        let [seq, line, hash]: [Value; 3] = row.try_into().ok()?;
        Some(Self { seq: seq.as_int()?.cast_unsigned(), line, hash })
    }

    /// What is wrong if it cannot be read.
    fn bad(&self, chain: &Chain, error: &serde_json::Error) -> Bad {
        let source = chain.source.as_str().unwrap_or_default();
        let reason = format!("the row with source {source} and seq {} is not an event: {error}", self.seq);
        Bad { file: LINES.to_owned(), line_number: 0, seq: Some(self.seq), reason }
    }
}

fn parse(line: &Value) -> Result<Line, serde_json::Error> {
    Line::parse(line.as_bytes().unwrap_or_default().trim_ascii_end())
}
