//! What brings a node's records to the shared tier: a task that appends, and a thread for everything else. A record is offered to it when the node has it, and whoever
//! answers for the record waits until it has settled. While one batch is on its way the next gathers, so many sessions
//! share a round trip. If the tier is unreachable, the node continues alone and sends its records later.

use crate::alone::Alone;
use crate::appender;
use crate::drain::Drain;
use crate::given::Given;
pub use crate::lane::Settled;
use crate::lane::{Lane, Line, Unclaimed, created_at};
pub use crate::lanes::{Closing, Moved};
use crate::lanes::{Lanes, MOST_QUEUED, Shared};
use crate::tenure::{Remembered, Tenure, WhenAlone};
use crate::tier::{Down, ForkNote, NodeEntry, Tier};
use crate::worker::Worker;
use shellkeep_session::ownership::{Claim, Point};
use shellkeep_session::{Json, Record, SessionId, SessionState, Timestamp};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

/// What a ship is made with.
pub struct ShipOptions {
    /// The tier.
    pub tier: Box<dyn Tier>,
    /// How this node is told to others.
    pub node: NodeEntry,
    /// What the node does while the tier is unreachable.
    pub when_alone: WhenAlone,
    /// The other nodes at the node's last run.
    pub remembered: Remembered,
    /// Where to send what the node must do.
    pub news: mpsc::UnboundedSender<Moved>,
}

/// With what the ship begins to send a session's records.
#[derive(Debug, Clone)]
pub struct Start {
    /// The node's claim.
    pub claim: Claim,
    /// When the session was created; none if it is about to be.
    pub created_at: Option<Timestamp>,
    /// Number of the first record under it.
    pub from: u64,
    /// The last record in the tier; none if the tier is unreachable and has not confirmed the claim.
    pub known: Option<Point>,
    /// Number of the last record that the node has.
    pub seq: u64,
}

impl Start {
    /// The start of a session as this node has it.
    pub fn of(state: &SessionState, claim: Claim, from: u64, known: Option<Point>) -> Self {
        Self { claim, created_at: Some(state.meta.created_at), from, known, seq: state.seq }
    }
}

/// What a node wrote last to a session that it no longer has.
#[derive(Debug, Clone, Default)]
pub struct Left {
    /// The last records, as far as they are at hand.
    pub records: Vec<Record>,
    /// Number of the last record that a caller was told of; none if that is not known.
    pub told: Option<u64>,
}

/// Brings a node's records to the shared tier.
pub struct Ship {
    pub(crate) shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Ship {
    /// Starts the thread; and the task that appends, if this is called in a runtime.
    pub fn start(options: ShipOptions) -> std::io::Result<Self> {
        let ShipOptions { tier, node, when_alone, remembered, news } = options;
        let given = Given::at(remembered.given_file(), &node.name);
        let tenure = Tenure::new(&node.name, when_alone, remembered);
        let shared = Arc::new(Shared::new(tenure, given, news));
        let runtime = Handle::try_current().ok();
        if let Some(runtime) = &runtime {
            shared.lanes().has_appender = true;
            runtime.spawn(appender::run(Arc::clone(&shared)));
        }
        let worker = Worker::new(Arc::clone(&shared), tier, node, runtime);
        let thread = std::thread::Builder::new().name("shared-ship".to_owned()).spawn(|| worker.run())?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Asks the tier, on the ship's thread. At once [`Down`] while it is unreachable.
    pub async fn ask<T, F>(&self, question: F) -> Result<T, Down>
    where
        T: Send + 'static,
        F: FnOnce(&mut dyn Tier) -> Result<T, Down> + Send + 'static,
    {
        self.shared.ask(question).await
    }

    /// Begins to send a session's records under a claim. Records that were offered before, and that the tier lacks, are sent
    /// first; if some of them are no longer at hand, `stands_for` makes one in their place, from the number of the last
    /// record that the tier has.
    pub fn begin(&self, session_id: &SessionId, start: Start, stands_for: impl FnOnce(u64) -> Option<Record>) {
        self.begin_in(&mut self.shared.lanes(), session_id, start, stands_for);
    }

    /// Begins to send the records of a new session, unless this node does so under another claim already. Returns the claim that
    /// counts.
    pub fn begin_unless_open(&self, session_id: &SessionId, start: Start) -> Claim {
        let mut lanes = self.shared.lanes();
        if let Some(open) = lanes.all.get(session_id).filter(|lane| !lane.is_closing) {
            return open.claim.clone();
        }
        let claim = start.claim.clone();
        self.begin_in(&mut lanes, session_id, start, |_| None);
        claim
    }

    fn begin_in(
        &self,
        lanes: &mut Lanes,
        session_id: &SessionId,
        start: Start,
        stands_for: impl FnOnce(u64) -> Option<Record>,
    ) {
        let Start { claim, created_at, from, known, seq } = start;
        let after = known.as_ref().map_or(0, |known| known.seq);
        let Unclaimed { mut lines, told, .. } = lanes.unclaimed.remove(session_id).unwrap_or_default();
        let mut lane = Lane::new(claim, from, known);
        lane.created_at = created_at;
        lane.tell(told.unwrap_or(0));
        if let Some(before) = lanes.all.remove(session_id) {
            let queued = before.give_way_to(&mut lane);
            lines.splice(0..0, queued);
        }
        lanes.queued_bytes -= lines.iter().map(|line| line.json.len()).sum::<usize>();
        lines.retain(|line| line.seq > after);
        let follows = lines.iter().zip(after + 1..).all(|(line, next)| line.seq == next);
        if !follows || after + (lines.len() as u64) < seq {
            lines.retain(|line| line.seq > seq);
            let state = stands_for(after).as_ref().and_then(Line::of);
            lines.splice(0..0, state.map(|line| Line { first: after + 1, ..line }));
        }
        if lane.dropped_through > seq {
            // Records were dropped after the state was read: what is sent would have a gap.
            lane.drop_queue();
            if lanes.down.is_none() {
                let _ = self.shared.news.send(Moved::Reclaim(session_id.clone()));
            }
        } else {
            lanes.queued_bytes += lines.into_iter().map(|line| lane.push(line)).sum::<usize>();
        }
        lanes.all.insert(session_id.clone(), lane);
        self.shared.count.send_replace(lanes.count());
        lanes.dirty.insert(session_id.clone());
        self.shared.has_records(lanes);
    }

    /// Takes a record that this node has. Cheap: it is sent later, once the session is claimed.
    pub fn offer(&self, record: &Record) {
        let Some(line) = Line::of(record) else { return };
        let session_id = &record.session_id;
        let mut lanes = self.shared.lanes();
        let is_full = lanes.queued_bytes + line.json.len() > MOST_QUEUED;
        let Some(lane) = lanes.all.get_mut(session_id) else {
            if !is_full {
                lanes.queued_bytes += line.json.len();
                lanes.unclaimed.entry(session_id.clone()).or_default().lines.push(line);
            }
            return;
        };
        lane.created_at = lane.created_at.or_else(|| created_at(record));
        if is_full {
            let (was_known, dropped) = (lane.is_known(), lane.drop_queue());
            lane.dropped_through = lane.dropped_through.max(line.seq);
            lanes.queued_bytes -= dropped;
            // Once is enough. A tier that is away cannot be given the state; when it is back, every lane is claimed again that
            // is not known by then.
            if was_known && lanes.down.is_none() {
                let _ = self.shared.news.send(Moved::Reclaim(session_id.clone()));
            }
        } else {
            let added = lane.push(line);
            lanes.queued_bytes += added;
        }
        lanes.dirty.insert(session_id.clone());
        self.shared.has_records(&lanes);
    }

    /// Waits until the tier has a record, is unreachable, or says that the session is another's. What the tier said before the
    /// process was stopped for longer than its leases last does not count.
    pub async fn settle(&self, session_id: &SessionId, seq: u64) -> Settled {
        let alone = self.alone();
        loop {
            let settled = self.shared.settled(session_id, seq).await;
            if settled == Settled::Moved || !alone.is_late() {
                return settled;
            }
            alone.until_renewed().await;
        }
    }

    /// A caller is told of a record that has not settled.
    pub fn tell(&self, session_id: &SessionId, seq: u64) {
        if let Some(lane) = self.shared.lanes().all.get_mut(session_id) {
            lane.tell(seq);
        }
    }

    /// What this node wrote last to a session that another node has taken.
    pub fn left(&self, session_id: &SessionId) -> Left {
        let lanes = self.shared.lanes();
        let read = |line: &Line| Record::from_json(&line.json).ok();
        match (lanes.all.get(session_id), lanes.unclaimed.get(session_id)) {
            (Some(lane), _) => Left { records: lane.lines().filter_map(read).collect(), told: Some(lane.told()) },
            (None, Some(Unclaimed { lines, told, .. })) => {
                Left { records: lines.iter().filter_map(read).collect(), told: *told }
            }
            (None, None) => Left::default(),
        }
    }

    /// Forgets what this node wrote to a session of a name that is used again.
    pub fn drop_left(&self, session_id: &SessionId) {
        let mut lanes = self.shared.lanes();
        let dropped = lanes.unclaimed.remove(session_id).unwrap_or_default();
        lanes.queued_bytes -= dropped.bytes();
    }

    /// The node knows of these forks of a session.
    pub fn know_forks(&self, session_id: &SessionId, forks: Vec<ForkNote>) {
        if let Some(lane) = self.shared.lanes().all.get_mut(session_id) {
            lane.new_forks(forks);
        }
    }

    /// Gives the tier a record that stands for everything up to its number, so that it can drop older ones.
    pub fn rest(&self, record: &Record) {
        let Some(line) = Line::of(record) else { return };
        let mut lanes = self.shared.lanes();
        if let Some(lane) = lanes.all.get_mut(&record.session_id) {
            lane.set_rest(line);
            lanes.dirty.insert(record.session_id.clone());
            self.shared.work.notify_one();
        }
    }

    /// Replaces all records of a session in the tier by what `change` makes of them. `seq` is the number of the last one.
    /// Returns whether it did; not if the session is another node's, or has more records by now.
    pub async fn replace<F>(&self, session_id: &SessionId, seq: u64, change: F) -> Result<bool, Down>
    where
        F: FnOnce(Vec<Vec<u8>>) -> Vec<Vec<u8>> + Send + 'static,
    {
        let Some(claim) = self.claim_of(session_id) else { return Ok(false) };
        let id = session_id.clone();
        let replace = move |tier: &mut dyn Tier| {
            let lines = change(tier.load(&id)?.lines);
            tier.replace(&id, &claim, seq, &lines)
        };
        let replaced = self.ask(replace).await?;
        if let Some(lane) = self.shared.lanes().all.get_mut(session_id).filter(|_| replaced) {
            lane.forget_sent();
        }
        Ok(replaced)
    }

    /// The session sleeps: its lease is given up once everything is sent.
    pub fn end(&self, session_id: &SessionId) {
        let mut lanes = self.shared.lanes();
        if let Some(lane) = lanes.all.get_mut(session_id) {
            lane.is_closing = true;
            lanes.dirty.insert(session_id.clone());
            self.shared.work.notify_one();
        }
    }

    /// Nothing follows under this claim: its lease is given up. A session that has another claim by now is left as it is.
    pub fn give_back(&self, session_id: &SessionId, claim: &Claim) {
        let mut lanes = self.shared.lanes();
        if let Some(lane) = lanes.all.get_mut(session_id).filter(|lane| lane.claim == *claim) {
            lane.is_closing = true;
            lanes.dirty.insert(session_id.clone());
            self.shared.work.notify_one();
        }
    }

    /// The session was deleted here: nothing of it is sent.
    pub fn forget(&self, session_id: &SessionId) {
        self.shared.lanes().forget(session_id);
        self.shared.work.notify_one();
    }

    /// The claim under which this node sends a session's records.
    pub fn claim_of(&self, session_id: &SessionId) -> Option<Claim> {
        self.shared.lanes().all.get(session_id).map(|lane| lane.claim.clone())
    }

    /// Whether a record of this node may be shown to others: not while it waits to be sent. One that the tier refused may: it
    /// was written under a claim that has been replaced, which its epoch says. So may one of a former session that had the name:
    /// it does not wait for the session that has it now. `created_at` is when the record's session was created, if that is known.
    pub fn may_be_told(&self, record: &Record, created_at: Option<Timestamp>) -> bool {
        let lanes = self.shared.lanes();
        let waits = |lane: &Lane| lane.is_of(record, created_at) && !lane.has(record.seq);
        !lanes.all.get(&record.session_id).is_some_and(waits)
    }

    /// Calls back whenever records were sent.
    pub fn on_settled(&self, call: Box<dyn Fn() + Send + Sync>) {
        // There is one caller, so there is nothing to be set already.
        let _ = self.shared.settled.set(call);
    }

    /// Whether this node works with a session.
    pub fn is_open(&self, session_id: &SessionId) -> bool {
        self.shared.lanes().all.get(session_id).is_some_and(|lane| !lane.is_closing)
    }

    /// The drain of this node.
    pub fn drain(&self) -> Drain {
        Drain(Arc::clone(&self.shared))
    }

    /// With how many sessions this node works.
    pub fn count(&self) -> usize {
        self.shared.lanes().count()
    }

    /// Changes whenever the tokens in the tier do.
    pub fn tokens(&self) -> watch::Receiver<Option<u64>> {
        self.shared.tokens.subscribe()
    }

    /// What this node may do while the tier is unreachable.
    pub fn alone(&self) -> Alone {
        Alone(Arc::clone(&self.shared))
    }

    /// Sends what it can, gives up or renews leases, and ends the thread. Blocks meanwhile.
    pub fn close(&self, closing: Closing) {
        self.shared.lanes().closing.get_or_insert(closing);
        self.shared.work.notify_one();
        self.shared.to_append.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that shares records panicked; this node's journal keeps them");
        }
    }
}

impl Drop for Ship {
    fn drop(&mut self) {
        self.close(Closing::Stop);
    }
}
