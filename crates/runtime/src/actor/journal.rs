//! A session's records, and the state that follows from them. The journal is the only writer of both: it appends a
//! record to the store, then applies it. It also knows which records could not be written, and what the next result has
//! to report about that.

use crate::admission::Ticket;
use crate::cell::RunCell;
use crate::cluster;
use crate::conclude::{Conclusion, RecordedRun};
use crate::context::SessionContext;
use crate::crash::{self, Point};
use crate::given_secrets::GivenSecrets;
use crate::masking::SessionMask;
use crate::notices;
use crate::ops::OpError;
use shellkeep_session::{
    ByteString, Event, LeftProcess, Notice, Record, RunResult, SessionId, SessionState, ShellDelta, ShellState,
    Timestamp, Unkept, size,
};
use shellkeep_store::AppendError;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often the journal tries to report lost records while nothing else is recorded.
const RETRY_LOST: Duration = Duration::from_secs(1);
/// Most bytes of a shell's variables, functions, aliases and parameters that a session keeps: far more than scripts
/// use, and little enough that a state can be copied, written as JSON and sent to a new shell without a noticeable
/// delay. One variable may have 16 MiB (`MOST_BYTES` in the driver's `capture.c`).
const STATE_BYTES: usize = 32 << 20;

/// Records that could not be written.
#[derive(Debug)]
struct Lost {
    /// Number of the first of them.
    from: u64,
    error: AppendError,
    /// When to try again to report them.
    retry_at: Instant,
}

/// A run whose result is recorded.
pub(super) struct Finished {
    /// The result for its caller, with notices about the record itself.
    pub(super) result: Box<RunResult>,
    /// Number of the record.
    pub(super) seq: u64,
    /// Whether the run changed the session's directory.
    pub(super) has_moved: bool,
}

/// A session's records and the state that follows from them.
pub(super) struct Journal {
    ctx: Arc<SessionContext>,
    state: SessionState,
    /// Masks what is recorded, if there is something to mask.
    mask: Option<SessionMask>,
    /// Records that are lost and not reported yet.
    lost: Option<Lost>,
    /// Upper bound of the size of the shell's state.
    state_bytes: usize,
    /// Notices for the next result, whichever command it belongs to.
    untold: Vec<Notice>,
    /// Number of the last record that was kept.
    kept: u64,
    /// Whether the session is another node's by now.
    is_moved: bool,
}

impl Journal {
    /// The journal of a session in this state.
    pub(super) fn new(ctx: Arc<SessionContext>, state: SessionState) -> Self {
        let mask = ctx.masking.of(&state.shell, ctx.secret_sources.known(&state.meta));
        let state_bytes = size::of_shell(&state.shell);
        let kept = state.seq;
        Self { ctx, state, mask, lost: None, state_bytes, untold: Vec::new(), kept, is_moved: false }
    }

    /// The session's state.
    pub(super) fn state(&self) -> &SessionState {
        &self.state
    }

    /// The session's shell, as it is recorded.
    pub(super) fn shell(&self) -> &ShellState {
        &self.state.shell
    }

    /// The session's id.
    pub(super) fn id(&self) -> &SessionId {
        &self.state.meta.session_id
    }

    /// The mask for records, if there is something to mask.
    pub(super) fn mask(&self) -> Option<&SessionMask> {
        self.mask.as_ref()
    }

    /// The secrets that the session is given, as they are now. From here on they are masked.
    pub(super) async fn give(&mut self) -> Result<GivenSecrets, OpError> {
        let given = self.ctx.secret_sources.read(&self.state.meta).await?;
        match &mut self.mask {
            Some(mask) => mask.give(given.clone()),
            None => self.mask = self.ctx.masking.of(&self.state.shell, given.clone()),
        }
        Ok(given)
    }

    /// Number of the next record, for an event that contains its own number. Lost records are reported first, because that
    /// takes a number.
    pub(super) fn next_seq(&mut self) -> u64 {
        self.report_lost();
        self.state.seq + 1
    }

    /// Appends to the store, then changes the state. A store that fails is a notice.
    pub(super) fn record(&mut self, event: Event) -> Option<Notice> {
        self.report_lost();
        self.put(event)
    }

    /// The same for an event that contains the number from [`Journal::next_seq`].
    pub(super) fn put(&mut self, event: Event) -> Option<Notice> {
        let record = self.next_record(event);
        let notice = match self.append(&record) {
            Ok(()) => None,
            Err(error) if is_kept(&error) => Some(notices::store_failed(&why(&error))),
            Err(error) => {
                let notice = notices::not_stored(&why(&error));
                if self.lost.is_none() {
                    let retry_at = Instant::now() + RETRY_LOST;
                    self.lost = Some(Lost { from: record.seq, error, retry_at });
                }
                Some(notice)
            }
        };
        self.apply(&record);
        notice
    }

    /// The same for an event that can be rejected: if the record cannot be written, it never happened.
    pub(super) fn offer(&mut self, event: Event) -> Result<Option<Notice>, AppendError> {
        let record = self.next_record(event);
        let notice = match self.append(&record) {
            Ok(()) => None,
            Err(error) if is_kept(&error) => Some(notices::store_failed(&why(&error))),
            Err(error) => return Err(error),
        };
        self.apply(&record);
        Ok(notice)
    }

    /// Records after lost ones are not written before the loss is reported: they could not be read. Only the end of the
    /// session needs no earlier records.
    fn append(&self, record: &Record) -> Result<(), AppendError> {
        match &self.lost {
            Some(lost) if !record.event.destroys() => Err(lost.error.clone()),
            _ => {
                let appended = self.ctx.append(record);
                if !appended.as_ref().is_err_and(|error| !is_kept(error)) {
                    self.ctx.attach(&self.state, record);
                }
                appended
            }
        }
    }

    fn next_record(&self, mut event: Event) -> Record {
        if let Some(mask) = &self.mask {
            mask.event(&mut event);
        }
        self.ctx.counts.event(&event);
        if matches!(event, Event::RunFinished { .. }) {
            self.ctx.counts.agents().ran(self.state.meta.agent.as_deref());
        }
        Record { session_id: self.id().clone(), seq: self.state.seq + 1, at: Timestamp::now(), event }
    }

    fn apply(&mut self, record: &Record) {
        if self.lost.is_none() {
            self.kept = record.seq;
        }
        if let Err(error) = self.state.apply(record) {
            // Only this task creates records, one after the other, so this is a bug and not damaged data.
            tracing::error!(session = %self.id(), %error, "a record does not follow");
        }
        if matches!(
            record.event,
            Event::Restarted { .. } | Event::Rewound { .. } | Event::Scrubbed { .. } | Event::Owned { .. }
        ) {
            self.state_bytes = size::of_shell(&self.state.shell);
        }
        if let Some(cluster) = self.ctx.cluster.as_ref().filter(|_| self.lost.is_none()) {
            cluster.rest(&self.state);
        }
    }

    /// Records which records were lost, as soon as that can be written, together with the resulting state.
    fn report_lost(&mut self) {
        let Some(lost) = &mut self.lost else { return };
        lost.retry_at = Instant::now() + RETRY_LOST;
        let state: Box<SessionState> = Box::new(self.state.clone());
        let event = Event::RecordsLost { from: lost.from, reason: why(&lost.error), state };
        let session_id = self.state.meta.session_id.clone();
        let record = Record { session_id, seq: self.state.seq + 1, at: Timestamp::now(), event };
        if self.ctx.append(&record).is_err_and(|error| !is_kept(&error)) {
            return;
        }
        tracing::warn!(session = %record.session_id, from = lost.from, through = self.state.seq, "records were lost");
        self.lost = None;
        self.apply(&record);
    }

    /// When lost records are due to be reported.
    pub(super) fn due(&self) -> Option<Instant> {
        self.lost.as_ref().map(|lost| lost.retry_at)
    }

    /// Reports lost records if that is due.
    pub(super) fn on_due(&mut self, now: Instant) {
        if self.due().is_some_and(|at| at <= now) {
            self.report_lost();
        }
    }

    /// Records the result of a run and applies what it changed. What a run in the background changed in its own shell is not
    /// the session's.
    pub(super) async fn finish_run(
        &mut self,
        conclusion: Conclusion,
        cell: &RunCell,
        late: Option<ByteString>,
        ticket: Option<&mut Ticket>,
    ) -> Finished {
        let RecordedRun { mut result, delta, unkept } = self.recorded(conclusion, cell, late);
        let is_in_background = cell.is_detached();
        let has_moved = delta.cwd.is_some();
        if !is_in_background {
            self.ctx.sync_files(cell.files()).await;
        }
        let run_id = cell.start.run_id.clone();
        let notice = self.record(Event::RunFinished { run_id, result: result.clone(), delta });
        result.notices.extend(notice);
        let seq = self.state.seq;
        if !is_in_background {
            // Before the answer, so that a crash loses none of it without a word.
            self.left(self.state.processes.clone(), unkept);
        }
        crash::point(Point::ResultRecorded, cell.start.command.as_bytes());
        let settled = match ticket {
            Some(ticket) => ticket.aside(self.settle()).await,
            None => self.settle().await,
        };
        if let Ok(Some(notice)) = settled
            && !result.notices.contains(&notice)
        {
            result.notices.push(notice);
        }
        Finished { result, seq, has_moved }
    }

    /// Records what a command left running and what only the live shell has, if that has changed, so that a notice is correct
    /// even after a crash. What is recorded is masked, so that is compared.
    pub(super) fn left(&mut self, processes: Vec<LeftProcess>, unkept: Unkept) {
        if processes == self.state.processes && unkept == self.state.unkept {
            return;
        }
        let mut event = Event::ProcessesLeft { processes, unkept };
        if let Some(mask) = &self.mask {
            mask.event(&mut event);
        }
        let is_known = |processes: &[LeftProcess], unkept: &Unkept| {
            processes == self.state.processes.as_slice() && *unkept == self.state.unkept
        };
        if !matches!(&event, Event::ProcessesLeft { processes, unkept } if is_known(processes, unkept)) {
            self.record(event);
        }
    }

    /// What is recorded of a run. Masks its changes, and its output if a secret became known, and removes from the changes
    /// what would make the state too large.
    fn recorded(&mut self, mut conclusion: Conclusion, cell: &RunCell, late: Option<ByteString>) -> RecordedRun {
        let delta = &mut conclusion.delta;
        if let Some(mask) = &mut self.mask {
            if mask.learn(delta) {
                cell.mask_again(mask.redactor());
            }
            mask.last_word(delta);
        }
        if cell.is_detached() {
            // Its changes are looked at only for secrets: the session never gets them, so its result does not list them.
            **delta = ShellDelta::default();
            conclusion.unkept = Unkept::default();
        }
        // The sum of all changes is an upper bound, so the state itself is measured only near the limit.
        self.state_bytes += size::of_delta(delta);
        if self.state_bytes > STATE_BYTES {
            let left_out = size::fit(&self.state.shell, delta, STATE_BYTES);
            self.state_bytes = size::of_shell(&self.state.shell) + size::of_delta(delta);
            let is_full = !left_out.is_empty();
            let is_variable = |name: &&String| delta.variables.contains_key(&ByteString::from(name.as_str()));
            conclusion.unkept.add_variables(left_out.iter().filter(is_variable).cloned());
            conclusion.notices.extend(is_full.then(|| notices::state_full(left_out, STATE_BYTES)));
        }
        let is_alive = conclusion.shell_is_alive;
        let mut run = conclusion.with_output(&self.state.shell, cell, late);
        if let Some(mask) = &self.mask {
            mask.result(&mut run.result);
        }
        // Behind the masking, which would mask it too.
        run.result.notices.extend(cell.is_withheld().then(notices::output_withheld));
        // What was too large before still is, unless the command has changed it.
        let earlier = self.state.unkept.variables.iter();
        let is_same = |name: &&String| !run.delta.variables.contains_key(&ByteString::from(name.as_str()));
        run.unkept.add_variables(earlier.filter(is_same).cloned());
        if is_alive { run } else { RecordedRun { unkept: Unkept::default(), ..run } }
    }

    /// Replaces the state by its masked copy; the record of the scrub follows.
    pub(super) fn replace_state(&mut self, masked: SessionState) {
        self.state = masked;
    }

    /// The next result carries these notices.
    pub(super) fn tell(&mut self, notices: impl IntoIterator<Item = Notice>) {
        self.untold.extend(notices);
    }

    /// Takes the notices for a result: those in the state, those of its shell, then those of this task.
    pub(super) fn take_notices(&mut self, of_shell: Vec<Notice>) -> Vec<Notice> {
        let mut notices = self.state.pending_notices.clone();
        notices.extend(of_shell);
        notices.append(&mut self.untold);
        notices
    }

    /// Waits until what is recorded is as safe as the host asked for. Returns what to say if it is not; an error if the
    /// session is another node's.
    pub(super) async fn settle(&mut self) -> Result<Option<Notice>, OpError> {
        let settled = self.ctx.settle(&self.state.meta.session_id, self.kept).await;
        self.is_moved |= settled.is_err();
        settled
    }

    /// The same. If it is not safe, the next result says so.
    pub(super) async fn sync(&mut self) {
        if let Ok(Some(notice)) = self.settle().await
            && !self.untold.contains(&notice)
        {
            self.untold.push(notice);
        }
    }
}

/// What to say if the session's recording or the data directory cannot be written.
pub(super) fn storage_notices(journal: &Journal) -> [Option<Notice>; 2] {
    let recording = journal.ctx.store.record_problem(journal.id()).map(|reason| notices::record_failed(&reason));
    [recording, journal.ctx.data_dir.notice()]
}

/// An error if the session is another node's: nothing may be done with it here.
pub(super) fn check_owned(journal: &Journal) -> Result<(), OpError> {
    if journal.is_moved { Err(cluster::moved(journal.id())) } else { Ok(()) }
}

/// Whether the record will be written as soon as the disk accepts it.
fn is_kept(error: &AppendError) -> bool {
    matches!(error, AppendError::Retrying { .. })
}

fn why(error: &AppendError) -> String {
    match error {
        AppendError::Retrying { reason } | AppendError::Full { reason } | AppendError::NoSpace { reason } => {
            reason.clone()
        }
        other => other.to_string(),
    }
}
