//! What the ship knows of one session: which records the tier has, which it lacks, and who waits for them.

use crate::tier::{Append, ForkNote};
use shellkeep_session::ownership::{Claim, Head, Point};
use shellkeep_session::{Event, Json, Record, SessionId, Timestamp};
use std::collections::VecDeque;
use std::time::Instant;
use tokio::sync::oneshot;

/// Records that are kept after they were sent, in case the tier falls back to an older copy of itself: some more than a
/// replica is usually behind.
const SENT_LINES: usize = 64;
const SENT_BYTES: usize = 64 * 1024;

/// Records in one append. A script of Redis fails at some 8,000 arguments.
const BATCH_LINES: usize = 1000;
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// How a record settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// The tier has it: it survives the loss of this node.
    Kept,
    /// The tier is unreachable, and only this node has it.
    HereOnly {
        /// What is wrong.
        reason: String,
    },
    /// Another node owns the session. The record is not part of it.
    Moved,
}

/// A record as it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// Number of the first record that it stands for: its own, unless it has the state in place of lost ones.
    pub first: u64,
    pub seq: u64,
    pub json: Vec<u8>,
}

impl Line {
    pub(crate) fn of(record: &Record) -> Option<Self> {
        match record.to_json() {
            Ok(json) => {
                let first = if let Event::RecordsLost { from, .. } = &record.event { *from } else { record.seq };
                Some(Self { first, seq: record.seq, json })
            }
            Err(error) => {
                tracing::error!(%error, "a record cannot be written as JSON and is not shared");
                None
            }
        }
    }
}

/// The last records that the tier has, in order, in case it falls back to an older copy of itself.
#[derive(Debug, Default)]
struct Sent {
    lines: VecDeque<Line>,
    bytes: usize,
}

impl Sent {
    /// Takes from a queue what the tier has, up to a record. Returns how many bytes that is.
    fn take_from(&mut self, queue: &mut VecDeque<Line>, through: u64) -> usize {
        let mut taken = 0;
        while queue.front().is_some_and(|line| line.seq <= through)
            && let Some(line) = queue.pop_front()
        {
            taken += line.json.len();
            self.lines.push_back(line);
        }
        self.bytes += taken;
        while self.lines.len() > SENT_LINES || self.bytes > SENT_BYTES {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.json.len();
        }
        taken
    }

    /// Whether there is something after a record, and all of it up to another one, without a gap.
    fn has_all(&self, after: u64, through: u64) -> bool {
        let mut last = after;
        let mut missing = self.lines.iter().filter(|line| line.seq > after);
        missing.all(|line| line.first <= std::mem::replace(&mut last, line.seq) + 1) && last > after && last >= through
    }

    /// Takes the last one out, if it comes after a record.
    fn take_back(&mut self, after: u64) -> Option<Line> {
        self.lines.back().filter(|line| line.seq > after)?;
        let line = self.lines.pop_back()?;
        self.bytes -= line.json.len();
        Some(line)
    }
}

/// Records that have no lane: their session is not claimed, or it is another node's.
#[derive(Debug, Default)]
pub(crate) struct Unclaimed {
    /// In order.
    pub lines: Vec<Line>,
    /// Number of the last record that a caller was told of, if a lane knew that.
    pub told: Option<u64>,
    /// When its session went to sleep with everything sent, if it did.
    pub slept_at: Option<Instant>,
}

impl Unclaimed {
    pub(crate) fn bytes(&self) -> usize {
        self.lines.iter().map(|line| line.json.len()).sum()
    }
}

/// What to do after the tier refused an append because its last record is another.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rewind {
    /// Go on from there.
    Done,
    /// The lane has not all of what the tier lacks; its node must give the session's state.
    NeedsState,
    /// Another node wrote there.
    Apart,
}

/// When the session was created that a record begins.
pub(crate) fn created_at(record: &Record) -> Option<Timestamp> {
    match &record.event {
        Event::SessionCreated { meta, .. } => Some(meta.created_at),
        Event::RecordsLost { state, .. } => Some(state.meta.created_at),
        _ => None,
    }
}

/// One session.
#[derive(Debug)]
pub(crate) struct Lane {
    pub claim: Claim,
    /// When the session was created, once that is known.
    pub created_at: Option<Timestamp>,
    /// Number of the first record under this claim.
    from: u64,
    /// The last record in the tier; none until the tier has confirmed the claim.
    known: Option<Point>,
    queue: VecDeque<Line>,
    queued_bytes: usize,
    /// Number of the last record that was dropped, because too much was queued.
    pub dropped_through: u64,
    sent: Sent,
    waiters: Vec<(u64, oneshot::Sender<Settled>)>,
    /// Number of the last record that a caller was told of, because the tier had it or was unreachable.
    told: u64,
    /// Forks that the node was told of.
    forks: Vec<ForkNote>,
    /// A record that begins the session at its number, for when the tier has exactly that.
    rest: Option<Line>,
    /// When its lease ends, counted from before the last append was sent.
    pub leased_until: Option<Instant>,
    /// Its actor has left: the lease is given up once everything is sent.
    pub is_closing: bool,
}

impl Lane {
    pub(crate) fn new(claim: Claim, from: u64, known: Option<Point>) -> Self {
        Self {
            claim,
            created_at: None,
            from,
            known,
            queue: VecDeque::new(),
            queued_bytes: 0,
            dropped_through: 0,
            sent: Sent::default(),
            waiters: Vec::new(),
            told: 0,
            forks: Vec::new(),
            rest: None,
            leased_until: None,
            is_closing: false,
        }
    }

    /// Whether the tier has confirmed the claim.
    pub(crate) fn is_known(&self) -> bool {
        self.known.is_some()
    }

    /// How many bytes wait to be sent.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Whether there is something to send, and it may be sent.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_known() && !self.queue.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether the tier has everything up to a record.
    pub(crate) fn has(&self, seq: u64) -> bool {
        self.queue.front().is_none_or(|next| next.seq > seq)
            && self.known.as_ref().is_some_and(|known| known.seq >= seq)
    }

    /// Whether a record is of this session, and not of a former one that had its name. `created_at` is when the record's session was
    /// created, if that is known.
    pub(crate) fn is_of(&self, record: &Record, created_at: Option<Timestamp>) -> bool {
        match (self.created_at, created_at) {
            (Some(own), Some(created_at)) => own == created_at,
            (Some(own), None) => own <= record.at,
            (None, _) => true,
        }
    }

    /// Another lane of the session takes its place, and those who wait with it. Gives the lines that the tier may lack.
    pub(crate) fn give_way_to(self, next: &mut Self) -> Vec<Line> {
        next.waiters.extend(self.waiters);
        next.tell(self.told);
        next.dropped_through = self.dropped_through;
        self.queue.into()
    }

    /// Adds a record, unless one that stands for it was added already. Returns how many bytes more are queued.
    pub(crate) fn push(&mut self, line: Line) -> usize {
        let sent = self.known.as_ref().filter(|known| known.at.as_ref() == Some(&self.claim)).map(|known| known.seq);
        if self.queue.back().map(|last| last.seq).max(sent).is_some_and(|last| last >= line.seq) {
            return 0;
        }
        let bytes = line.json.len();
        self.queued_bytes += bytes;
        self.queue.push_back(line);
        bytes
    }

    /// Forgets what is queued: it is too much. Returns how many bytes that was.
    pub(crate) fn drop_queue(&mut self) -> usize {
        self.queue.clear();
        self.known = None;
        std::mem::take(&mut self.queued_bytes)
    }

    pub(crate) fn wait(&mut self, seq: u64, answer: oneshot::Sender<Settled>) {
        self.waiters.push((seq, answer));
    }

    /// A caller is told of a record.
    pub(crate) fn tell(&mut self, seq: u64) {
        self.told = self.told.max(seq);
    }

    /// The tier has notes of forks. Returns those that are new.
    pub(crate) fn new_forks(&mut self, forks: Vec<ForkNote>) -> Vec<ForkNote> {
        let new = forks.iter().filter(|fork| !self.forks.contains(fork)).cloned().collect();
        self.forks = forks;
        new
    }

    /// What this node wrote last.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &Line> {
        self.sent.lines.iter().chain(&self.queue)
    }

    /// Number of the last record that a caller was told of.
    pub(crate) fn told(&self) -> u64 {
        self.told
    }

    /// The session is another node's: what this node wrote last.
    pub(crate) fn into_unclaimed(self) -> Unclaimed {
        Unclaimed {
            lines: self.sent.lines.into_iter().chain(self.queue).collect(),
            told: Some(self.told),
            slept_at: None,
        }
    }

    /// Answers everybody who waits.
    pub(crate) fn answer_all(&mut self, answer: &Settled) {
        for (seq, waiting) in std::mem::take(&mut self.waiters) {
            if *answer != Settled::Moved {
                self.tell(seq);
            }
            // Who no longer waits needs no answer.
            let _ = waiting.send(answer.clone());
        }
    }

    fn answer_those_kept(&mut self) {
        let seq = self.known.as_ref().map_or(0, |known| known.seq);
        let kept: Vec<_> = self.waiters.extract_if(.., |(until, _)| *until <= seq).collect();
        for (until, waiting) in kept {
            self.tell(until);
            let _ = waiting.send(Settled::Kept);
        }
    }

    /// What the tier has is replaced there, so what it is given again comes from its node.
    pub(crate) fn forget_sent(&mut self) {
        (self.sent, self.rest) = (Sent::default(), None);
    }

    pub(crate) fn set_rest(&mut self, line: Line) {
        self.rest = Some(line);
    }

    /// The record that begins the session, if the tier has exactly what it stands for.
    pub(crate) fn rest(&self) -> Option<&Line> {
        self.rest.as_ref().filter(|rest| self.known.as_ref().is_some_and(|known| known.seq == rest.seq))
    }

    /// The tier has the record that begins the session.
    pub(crate) fn rested(&mut self, seq: u64) {
        self.rest.take_if(|rest| rest.seq <= seq);
    }

    /// The next append: the records at the front of the queue, or none to renew the lease.
    pub(crate) fn next_append(&self, session_id: &SessionId) -> Option<Append> {
        let after = self.known.clone()?;
        let (mut bytes, mut before) = (0, None);
        // The record that begins the session must be given when the tier has exactly what it stands for.
        let is_ahead = |rest: &&Line| self.queue.front().is_some_and(|first| first.seq <= rest.seq);
        let stop = self.rest.as_ref().filter(is_ahead).map_or(u64::MAX, |rest| rest.seq);
        let fits = |line: &&Line| {
            bytes += line.json.len();
            let follows = before.replace(line.seq).is_none_or(|before| line.first <= before + 1);
            follows && line.seq <= stop && (bytes <= BATCH_BYTES || bytes == line.json.len())
        };
        let lines: Vec<&Line> = self.queue.iter().take(BATCH_LINES).take_while(fits).collect();
        let first = lines.first().map_or(after.seq + 1, |first| first.first);
        let through = lines.last().map_or(after.seq, |last| last.seq);
        Some(Append {
            session_id: session_id.clone(),
            claim: self.claim.clone(),
            after,
            from: self.from,
            first,
            through,
            lines: lines.into_iter().map(|line| line.json.clone()).collect(),
        })
    }

    /// An append was taken. Returns how many bytes fewer are queued. The answer does not count if the lane is elsewhere by now: if
    /// its queue was dropped, what is queued since must wait for the state.
    pub(crate) fn appended(&mut self, append: &Append) -> usize {
        if append.lines.is_empty() || self.known.as_ref() != Some(&append.after) {
            return 0;
        }
        let gone = self.sent.take_from(&mut self.queue, append.through);
        self.queued_bytes -= gone;
        self.known = Some(Point { seq: append.through, at: Some(self.claim.clone()) });
        self.answer_those_kept();
        gone
    }

    /// The tier refused an append because of its last record. That is not `after`, which the lane knew, if an answer was lost on
    /// its way, or the tier fell back; if it is the same, what is queued does not follow it. Returns what to do, and how the
    /// number of queued bytes changes. The answer does not count if the lane is elsewhere by now.
    pub(crate) fn meet(&mut self, after: &Point, head: &Head) -> (Rewind, isize) {
        if self.known.as_ref() != Some(after) {
            return (Rewind::Done, 0);
        }
        let last = &head.last;
        let is_mine = last.at.as_ref() == Some(&self.claim);
        let before = self.queued_bytes;
        if !is_mine && last.seq >= self.from {
            return (Rewind::Apart, 0);
        }
        self.known = None;
        if after == last {
            return (Rewind::NeedsState, 0);
        }
        if is_mine && last.seq >= after.seq {
            self.queued_bytes -= self.sent.take_from(&mut self.queue, last.seq);
        } else {
            if !self.sent.has_all(last.seq, after.seq) {
                return (Rewind::NeedsState, 0);
            }
            while let Some(line) = self.sent.take_back(last.seq) {
                self.queued_bytes += line.json.len();
                self.queue.push_front(line);
            }
        }
        self.known = Some(last.clone());
        self.answer_those_kept();
        (Rewind::Done, self.queued_bytes.cast_signed() - before.cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_session::ownership::Claims;

    const OWN: &str = "1.n1.x";

    fn lane() -> (Lane, SessionId) {
        (Lane::new(OWN.parse().unwrap(), 1, Some(Point::default())), SessionId::parse("s").unwrap())
    }

    fn push(lane: &mut Lane, seqs: impl IntoIterator<Item = u64>) {
        for seq in seqs {
            lane.push(Line { first: seq, seq, json: seq.to_string().into_bytes() });
        }
    }

    /// Everything that is queued is sent, and the answer comes.
    fn send(lane: &mut Lane, id: &SessionId) {
        let append = lane.next_append(id).unwrap();
        lane.appended(&append);
    }

    /// The next append is refused: the tier has the lane's records up to this one.
    fn meet(lane: &mut Lane, seq: u64) -> (Rewind, isize) {
        let (owner, after): (Claim, Point) = (OWN.parse().unwrap(), lane.known.clone().unwrap());
        let last = Point { seq, at: Some(owner.clone()).filter(|_| seq > 0) };
        lane.meet(&after, &Head { owner, last, claims: Claims::default() })
    }

    fn next(lane: &Lane, id: &SessionId) -> (u64, Vec<String>) {
        let append = lane.next_append(id).unwrap();
        (append.after.seq, append.lines.into_iter().map(|line| String::from_utf8(line).unwrap()).collect())
    }

    /// The bug: records whose answer was lost were not kept. When the tier then fell back to before them, those after them were
    /// sent without them, and no node could read the session any more.
    #[test]
    fn records_whose_answer_was_lost_are_sent_again_after_a_fallback() {
        let (mut lane, id) = lane();
        push(&mut lane, [1]);
        send(&mut lane, &id);
        push(&mut lane, 2..=3);
        assert_eq!(meet(&mut lane, 3), (Rewind::Done, -2));
        push(&mut lane, [4]);
        send(&mut lane, &id);
        assert_eq!((meet(&mut lane, 1), lane.queued_bytes()), ((Rewind::Done, 3), 3));
        assert_eq!(next(&lane, &id), (1, ["2", "3", "4"].map(str::to_owned).into()));
        // It falls back further.
        assert_eq!(meet(&mut lane, 0), (Rewind::Done, 1));
        assert_eq!(next(&lane, &id), (0, ["1", "2", "3", "4"].map(str::to_owned).into()));
    }

    /// The tier has records that the lane never had, and loses them: what follows them is not sent alone.
    #[test]
    fn what_the_lane_does_not_have_is_not_left_out() {
        let (mut lane, id) = lane();
        push(&mut lane, [1]);
        send(&mut lane, &id);
        assert_eq!(meet(&mut lane, 3), (Rewind::Done, 0));
        push(&mut lane, [4]);
        send(&mut lane, &id);
        assert_eq!(meet(&mut lane, 1), (Rewind::NeedsState, 0));
    }

    #[test]
    fn what_does_not_follow_is_not_sent_with_the_others() {
        let (mut lane, id) = lane();
        push(&mut lane, [1, 2, 4]);
        assert_eq!(next(&lane, &id), (0, ["1", "2"].map(str::to_owned).into()));
        send(&mut lane, &id);
        // The tier refuses it.
        assert_eq!(lane.next_append(&id).unwrap().first, 4);
        assert_eq!(meet(&mut lane, 2), (Rewind::NeedsState, 0));
        assert!(!lane.is_known());
    }

    /// The bug: an answer that came after the queue was dropped made the lane ready again, and what was queued since was sent
    /// without what was dropped.
    #[test]
    fn an_answer_does_not_count_after_the_queue_was_dropped() {
        let (mut lane, id) = lane();
        push(&mut lane, [1]);
        let append = lane.next_append(&id).unwrap();
        lane.drop_queue();
        push(&mut lane, [3]);
        assert_eq!(lane.appended(&append), 0);
        let owner: Claim = OWN.parse().unwrap();
        let head = Head { last: Point { seq: 1, at: Some(owner.clone()) }, owner, claims: Claims::default() };
        assert_eq!(lane.meet(&append.after, &head), (Rewind::Done, 0));
        assert!(!lane.is_ready() && lane.queued_bytes() == 1);
    }
}
