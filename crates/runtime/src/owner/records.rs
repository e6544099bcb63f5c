//! What an owner takes down for its session's agent: events, messages, the agent's own state; and what becomes of records
//! that no disk takes.

use super::{Answer, Owner};
use crate::ops::{AgentStateSaved, Expected, MessageAdded, NewEvent, NewMessage, OpError, Posted, SaveAgentState};
use crate::output::INLINE_BYTES;
use crate::running::Typed;
use crate::{notices, state_file};
use shellkeep_session::{
    AgentState, Author, ByteString, Content, Event, Message, Notice, Record, RunId, RunResult, SessionState,
    ShellDelta, Timestamp, size,
};
use shellkeep_store::AppendError;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long an owner stays after it has taken something down: a framework that tells one event tells the next one soon,
/// and to come back costs a look into the store.
pub(super) const LINGER: Duration = Duration::from_secs(2);
/// Bytes of one input that are recorded: as much as of an output that travels with its record. What is beyond is counted.
const INPUT_KEPT: usize = INLINE_BYTES;
/// How often records that were lost are tried to be told of, while nothing else is recorded.
const TELL_LOST: Duration = Duration::from_secs(1);

/// Most bytes of a shell's variables, functions, aliases and parameters that a session keeps: far more than scripts hold, and
/// little enough that a state can be copied, written as JSON and sent to a new shell without being felt. One variable may
/// have 16 MiB (`MOST_BYTES` in the driver's `capture.c`).
const STATE_BYTES: usize = 32 << 20;

/// Records that no disk took.
#[derive(Debug)]
pub(super) struct Lost {
    /// Number of the first of them.
    from: u64,
    /// Why.
    reason: String,
    /// When it is tried again to say so.
    retry_at: Instant,
}

impl Owner {
    /// Takes down events. If the store takes not even the first, none is; the numbers have no gap.
    pub(super) async fn note(&mut self, events: Vec<NewEvent>, author: &Author, answer: Answer<Posted>) {
        self.linger();
        self.tell_lost();
        let (first_seq, total) = (self.state.seq + 1, events.len());
        let mut notices = Vec::new();
        for (index, NewEvent { event_type, data }) in events.into_iter().enumerate() {
            match self.offer(Event::Noted { event_type, data, author: author.clone() }) {
                Ok(None) => {}
                Ok(Some(notice)) if notices.is_empty() => notices.push(notice),
                Ok(Some(_)) => {}
                Err(error) => return drop(answer.send(Err(not_taken(&error, index, total, first_seq)))),
            }
        }
        notices.extend(self.engine.sync().await);
        let _ = answer.send(Ok(Posted { first_seq, last_seq: self.state.seq, notices }));
    }

    /// Takes down what is typed into a command, before the command can read it. A password that a terminal does not echo
    /// is not kept, nor how long it is.
    pub(super) async fn note_typed(&mut self, run_id: RunId, typed: &Typed) {
        let mut input = match &self.mask {
            _ if typed.hidden => Vec::new(),
            Some(mask) => mask.redactor().redact(&typed.bytes),
            None => typed.bytes[..typed.bytes.len().min(INPUT_KEPT)].to_vec(),
        };
        input.truncate(INPUT_KEPT);
        self.record(Event::RunInput {
            run_id,
            bytes: (!typed.hidden).then_some(typed.bytes.len() as u64),
            input: ByteString(input),
            hidden: typed.hidden,
            end: typed.end,
            by: typed.typist.by.clone(),
        });
        self.sync().await;
    }

    /// Adds a message to the conversation, with the next number.
    pub(super) async fn add_message(&mut self, message: NewMessage, author: Author, answer: Answer<MessageAdded>) {
        self.linger();
        self.tell_lost();
        let NewMessage { role, content } = message;
        let message = Message { seq_id: self.state.messages + 1, role, content, at: Timestamp::now() };
        let seq_id = message.seq_id;
        let mut added = match self.offer(Event::MessageAdded { message: Box::new(message), author }) {
            Ok(notice) => Ok(MessageAdded { seq_id, seq: self.state.seq, notices: notice.into_iter().collect() }),
            Err(error) => Err(OpError::StoreUnavailable { reason: error.to_string() }),
        };
        if let (Some(notice), Ok(added)) = (self.engine.sync().await, &mut added) {
            added.notices.push(notice);
        }
        let _ = answer.send(added);
    }

    /// Saves the agent's state if it still is the one that the caller knows.
    pub(super) async fn save_agent_state(
        &mut self,
        save: SaveAgentState,
        author: Author,
        answer: Answer<AgentStateSaved>,
    ) {
        self.linger();
        self.tell_lost();
        let mut saved = self.try_save(save, author).await;
        if let (Some(notice), Ok(saved)) = (self.engine.sync().await, &mut saved) {
            saved.notices.push(notice);
        }
        let _ = answer.send(saved);
    }

    async fn try_save(&mut self, save: SaveAgentState, author: Author) -> Result<AgentStateSaved, OpError> {
        let SaveAgentState { media_type, bytes, expected } = save;
        let current = self.state.agent_state.as_ref().map(|state| state.version);
        let is_expected = match expected {
            Expected::Anything => true,
            Expected::Nothing => current.is_none(),
            Expected::Something => current.is_some(),
            Expected::Version(version) => current == Some(version),
        };
        if !is_expected {
            return Err(OpError::VersionConflict { current });
        }
        let version = self.state.last_agent_version() + 1;
        let (version, content) = if bytes.len() <= INLINE_BYTES {
            (version, Content::Inline(ByteString(bytes)))
        } else {
            self.put_aside(version, bytes).await?
        };
        let state = Box::new(AgentState { version, media_type, content });
        match self.offer(Event::AgentStateSaved { state, author }) {
            Ok(notice) => Ok(AgentStateSaved { version, seq: self.state.seq, notices: notice.into_iter().collect() }),
            Err(error) => Err(OpError::StoreUnavailable { reason: error.to_string() }),
        }
    }

    /// Writes a large state into a file of its own, before the record that names it.
    async fn put_aside(&self, version: u64, bytes: Vec<u8>) -> Result<(u64, Content), OpError> {
        let (directory, power) = (Arc::clone(&self.outputs), self.engine.store.survives_power());
        let written = tokio::task::spawn_blocking(move || {
            let version = state_file::free_version(&directory, version);
            state_file::write(&directory, version, &bytes, power).map(|content| (version, content))
        });
        written
            .await?
            .map_err(|error| OpError::StoreUnavailable { reason: format!("cannot write the agent's state: {error}") })
    }

    /// Appends to the store, then changes the state: the only door into it. A store that fails is a notice.
    pub(crate) fn record(&mut self, event: Event) -> Option<Notice> {
        // What was lost is told first: it takes a number.
        self.tell_lost();
        self.put(event)
    }

    /// The same for an event that has its own number in it.
    pub(super) fn put(&mut self, event: Event) -> Option<Notice> {
        let record = self.next_record(event);
        let notice = match self.append(&record) {
            Ok(()) => None,
            Err(error) => {
                if !is_kept(&error) && self.lost.is_none() {
                    let retry_at = Instant::now() + TELL_LOST;
                    self.lost = Some(Lost { from: record.seq, reason: why(&error), retry_at });
                }
                Some(notices::store_failed(&error.to_string()))
            }
        };
        self.apply(&record);
        notice
    }

    /// What follows something that was lost is not written either, until that is told: nobody could read it. Only the end
    /// of the session needs nothing before it.
    fn append(&self, record: &Record) -> Result<(), AppendError> {
        match &self.lost {
            Some(lost) if !record.event.destroys() => Err(AppendError::Full { reason: lost.reason.clone() }),
            _ => self.engine.store.append(record),
        }
    }

    /// The same for what can be refused: if no disk takes the record, it never was.
    pub(super) fn offer(&mut self, event: Event) -> Result<Option<Notice>, AppendError> {
        let record = self.next_record(event);
        let notice = match self.append(&record) {
            Ok(()) => None,
            Err(error) if is_kept(&error) => Some(notices::store_failed(&error.to_string())),
            Err(error) => return Err(error),
        };
        self.apply(&record);
        Ok(notice)
    }

    fn next_record(&self, mut event: Event) -> Record {
        if let Some(mask) = &self.mask {
            mask.event(&mut event);
        }
        self.engine.counts.event(&event);
        Record { session_id: self.id.clone(), seq: self.state.seq + 1, at: Timestamp::now(), event }
    }

    /// Takes out of a change what would make the state too large, and says so. The sum of all changes is an upper bound, so
    /// the state itself is looked at only when that comes near the limit.
    pub(crate) fn fit(&mut self, delta: &mut ShellDelta) -> Option<Notice> {
        self.state_bytes += size::of_delta(delta);
        if self.state_bytes <= STATE_BYTES {
            return None;
        }
        let left_out = size::fit(&self.state.shell, delta, STATE_BYTES);
        self.state_bytes = size::of_shell(&self.state.shell) + size::of_delta(delta);
        (!left_out.is_empty()).then(|| notices::state_full(left_out, STATE_BYTES))
    }

    fn apply(&mut self, record: &Record) {
        if let Err(error) = self.state.apply(record) {
            // Only this task makes records, one after the other, so this is a bug and not a fault of the data.
            tracing::error!(session = %self.id, %error, "a record does not follow");
        }
        if matches!(record.event, Event::Restarted { .. } | Event::Rewound { .. } | Event::Scrubbed { .. }) {
            self.state_bytes = size::of_shell(&self.state.shell);
        }
    }

    /// Says which records were lost, as soon as a disk takes that. What they led to is in the state, which goes with it.
    pub(super) fn tell_lost(&mut self) {
        let Some(lost) = &mut self.lost else { return };
        lost.retry_at = Instant::now() + TELL_LOST;
        let state: Box<SessionState> = Box::new(self.state.clone());
        let event = Event::RecordsLost { from: lost.from, reason: lost.reason.clone(), state };
        let record = Record { session_id: self.id.clone(), seq: self.state.seq + 1, at: Timestamp::now(), event };
        if self.engine.store.append(&record).is_err_and(|error| !is_kept(&error)) {
            return;
        }
        tracing::warn!(session = %self.id, from = lost.from, through = self.state.seq, "records were lost");
        self.lost = None;
        self.apply(&record);
    }

    /// Waits for the disk, where the host asked for that. If it failed, the next result tells.
    pub(super) async fn sync(&mut self) {
        let notice = self.engine.sync().await;
        self.fresh_notices.extend(notice);
    }

    /// The same for a result that is about to be answered, which tells by itself.
    pub(super) async fn sync_before(&self, result: &mut RunResult) {
        if let Some(notice) = self.engine.sync().await
            && !result.notices.contains(&notice)
        {
            result.notices.push(notice);
        }
    }

    /// What to say if the session's recording cannot be written at the moment.
    pub(crate) fn record_notice(&self) -> Option<Notice> {
        self.engine.store.record_problem(&self.id).map(|reason| notices::record_failed(&reason))
    }

    /// Stays for a while.
    pub(super) fn linger(&mut self) {
        self.stays_until = Some(Instant::now() + LINGER);
    }

    /// When there is something to do even if nobody asks.
    pub(super) fn due(&self) -> Option<Instant> {
        let lost = self.lost.as_ref().map(|lost| lost.retry_at);
        lost.into_iter().chain(self.stays_until).min()
    }

    /// That time has come.
    pub(super) fn on_due(&mut self) {
        let now = Instant::now();
        if self.stays_until.is_some_and(|until| until <= now) {
            self.stays_until = None;
        }
        if self.lost.as_ref().is_some_and(|lost| lost.retry_at <= now) {
            self.tell_lost();
        }
    }
}

/// Whether the record will be written as soon as the disk takes it.
fn is_kept(error: &AppendError) -> bool {
    matches!(error, AppendError::Retrying { .. })
}

/// What the disk said.
fn why(error: &AppendError) -> String {
    match error {
        AppendError::Retrying { reason } | AppendError::Full { reason } => reason.clone(),
        other => other.to_string(),
    }
}

fn not_taken(error: &AppendError, taken: usize, total: usize, first_seq: u64) -> OpError {
    let reason = error.to_string();
    match taken {
        0 => OpError::StoreUnavailable { reason },
        _ => OpError::EventsCutOff { reason, taken, total, first_seq },
    }
}
