//! The owner of one session: the task that alone changes its state and alone touches its shell. Everyone else sends it
//! messages. It lives as long as the session holds a process or has something to do, and then leaves; the session stays.

mod branch;
mod call;
mod files;
mod fork;
mod message;
mod owed;
mod records;
mod runs;
mod scrub;
mod services;
mod shell;
mod unsure;

pub use branch::FilesTask;
pub use fork::ForkOrder;
pub(crate) use fork::is_outside;
use message::Answer;
pub use message::{Message, RunReply, Started};
pub(crate) use owed::{all_open, is_open};
pub use services::ServiceNews;

use crate::admission::{Listener, Ticket, Waiter};
use crate::alarm::Alarm;
use crate::conclude::Ended;
use crate::context::SessionContext;
use crate::crash::{self, Point};
use crate::late::LateOutput;
use crate::masking::SessionMask;
use crate::notices;
use crate::ops::*;
use crate::pending::{Deletion, Removal};
use crate::pool::Worn;
use crate::running::{Running, Step};
use crate::stored::read_error;
use files::{Files, Worked};
use records::Lost;
use shellkeep_process::ExitStatus;
use shellkeep_session::{Event, Notice, SessionId, SessionState, size};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Commands that may wait for one session; more is a caller that does not listen.
pub const MAX_WAITING: usize = 256;
/// Messages that may wait for one owner, above the commands.
pub const MAILBOX: usize = MAX_WAITING + 64;
/// An owner that would leave looks again after this long whether somebody who could write to it still can.
const LAST_LOOK: Duration = Duration::from_millis(1);

/// What others may know of an owner without asking it.
#[derive(Debug, Default)]
pub struct Slot {
    /// In whose name its commands wait; see [`crate::admission::agent_of`].
    pub agent: Arc<str>,
    /// Process id of the shell, 0 without one.
    pub pid: AtomicU32,
    /// Whether a command runs or waits.
    pub busy: AtomicBool,
    /// Whether commands wait and none runs, so that its shell can be had by another agent, whose turn it is.
    pub waits: AtomicBool,
    /// When it was last used, in milliseconds of the engine's clock.
    pub last_used: AtomicU64,
    /// When its disk was last measured, likewise.
    pub measured_at: AtomicU64,
    /// Whether it took more of the disk than it may.
    pub over_disk: AtomicBool,
    /// Files of its agent's states from this version on are not removed: the state in force, or the next one.
    pub agent_state: AtomicU64,
}

enum Waiting {
    Run { command: Box<RunCommand>, reply: RunReply, expires: Instant },
    Hibernate(Answer<SessionView>),
    Scrub { secret: Secret, answer: Answer<Scrubbed> },
    Files(Box<FilesTask>),
}

enum Happened {
    Message(Option<Message>),
    Run(Step),
    ShellEnded(ExitStatus),
    ShellFreed,
    Turn(Result<Ticket, OpError>),
    WaitingExpired,
    Files(Option<Worked>),
    HoldEnded,
    Due,
}

/// The owner.
pub struct Owner {
    pub(crate) engine: Arc<SessionContext>,
    pub(crate) id: SessionId,
    pub(crate) state: SessionState,
    pub(crate) late: Arc<LateOutput>,
    outputs: Arc<Path>,
    mailbox: mpsc::Receiver<Message>,
    slot: Arc<Slot>,
    idle: Option<Worn>,
    running: Option<(Running, Option<RunReply>, usize)>,
    waiting: VecDeque<Waiting>,
    /// The place of the first of those that wait in the line of the node, if that is what it waits for.
    at_gate: Option<Waiter>,
    /// If it waits for a shell: what tells when there may be one.
    starved: Option<Listener>,
    /// Whether it was told so and has not tried yet.
    owes_a_try: bool,
    remnants: Vec<Worn>,
    /// Kept from command to command.
    alarm: Option<Alarm>,
    /// Why the shell that was taken last is not in the session's directory: it only runs what brings a directory along,
    /// and is given up after that.
    homeless: Option<String>,
    /// Notices of the new shell, for the run that needed it.
    pub(crate) fresh_notices: Vec<Notice>,
    /// What masks before anything is stored, if the host has set so.
    pub(crate) mask: Option<SessionMask>,
    /// Its session's files.
    files: Files,
    /// How large the shell's state is at most; it may be less.
    state_bytes: usize,
    /// Records that no disk took and that are not told of yet.
    lost: Option<Lost>,
    /// If it stays though it holds nothing: until when.
    stays_until: Option<Instant>,
    over: bool,
}

impl Owner {
    /// An owner for a session at rest.
    pub fn new(
        engine: Arc<SessionContext>,
        state: SessionState,
        mailbox: mpsc::Receiver<Message>,
        slot: Arc<Slot>,
    ) -> Self {
        Self {
            outputs: engine.data_dir.outputs(&state.meta.session_id),
            mask: engine.masking.of(&state.shell),
            files: Files::new(&engine.checkpoints.gate),
            state_bytes: size::of_shell(&state.shell),
            lost: None,
            stays_until: None,
            engine,
            id: state.meta.session_id.clone(),
            state,
            late: Arc::default(),
            mailbox,
            slot,
            idle: None,
            running: None,
            waiting: VecDeque::new(),
            at_gate: None,
            starved: None,
            owes_a_try: false,
            remnants: Vec::new(),
            alarm: None,
            homeless: None,
            fresh_notices: Vec::new(),
            over: false,
        }
    }

    /// Serves until the session holds nothing and nobody asks.
    pub async fn serve(mut self) {
        loop {
            match self.next().await {
                Happened::Message(Some(message)) => self.on_message(message).await,
                Happened::Message(None) => return,
                Happened::Run(step) => self.on_step(step).await,
                Happened::ShellEnded(exit) => self.on_shell_ended(exit),
                Happened::ShellFreed => self.on_shell_freed(),
                Happened::Turn(turn) => self.on_turn(turn).await,
                Happened::WaitingExpired => self.refuse_expired(),
                Happened::Files(worked) => {
                    self.on_files(worked);
                    self.make_room().await;
                }
                // The next command does not wait any longer.
                Happened::HoldEnded => {}
                Happened::Due => self.on_due(),
            }
            self.start_waiting().await;
            self.publish();
            if self.holds_only_files() {
                self.leave_files();
            }
            while self.holds_nothing() && (self.over || self.mailbox.is_empty()) {
                if self.leave() {
                    return;
                }
                // Whoever has a sender uses it at once, or has gone away.
                tokio::time::sleep(LAST_LOOK).await;
            }
        }
    }

    async fn next(&mut self) -> Happened {
        // The gate sees to the one that stands there.
        let unseen = self.waiting.iter().skip(usize::from(self.at_gate.is_some()));
        let expiry = unseen.filter_map(Waiting::expires).min();
        let (expired, due) = (until(expiry), until(self.due()));
        let hold_ended = until(self.waiting.front().and_then(|first| self.files.holds_until(first.expires())));
        let work = async {
            if let Some((running, ..)) = &mut self.running {
                return Happened::Run(running.step().await);
            }
            // A session with a shell waits as well, if there were no descriptors for its command's pipes.
            tokio::select! {
                biased;
                exit = shell_ended(&mut self.idle) => Happened::ShellEnded(exit),
                () = heard(&mut self.starved) => Happened::ShellFreed,
            }
        };
        let turn = async {
            match &mut self.at_gate {
                Some(waiter) => waiter.turn().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            happened = work => happened,
            turn = turn => Happened::Turn(turn),
            message = self.mailbox.recv() => Happened::Message(message),
            worked = self.files.worked() => Happened::Files(worked),
            () = expired => Happened::WaitingExpired,
            () = hold_ended => Happened::HoldEnded,
            () = due => Happened::Due,
        }
    }

    fn publish(&self) {
        let shell = self.running.as_ref().map(|(running, ..)| &running.worn).or(self.idle.as_ref());
        self.slot.pid.store(shell.map_or(0, |worn| worn.shell.pid()), Ordering::Relaxed);
        self.slot.last_used.store(self.engine.lifetime.now_ms(), Ordering::Relaxed);
        let in_force = self.state.agent_state.as_ref().map(|state| state.version);
        let in_force = in_force.unwrap_or_else(|| self.state.last_agent_version() + 1);
        self.slot.agent_state.store(in_force, Ordering::Relaxed);
        let waits = self.running.is_none() && !self.waiting.is_empty();
        let may_be_had = waits && !self.slot.waits.load(Ordering::Relaxed);
        self.slot.waits.store(waits, Ordering::Relaxed);
        if (self.slot.busy.swap(self.is_busy(), Ordering::Relaxed) && !self.is_busy()) || may_be_had {
            self.engine.pool.one_is_idle();
        }
    }

    fn holds_nothing(&self) -> bool {
        self.over || (self.holds_only_files() && self.files.is_off())
    }

    fn holds_only_files(&self) -> bool {
        self.idle.is_none()
            && self.running.is_none()
            && self.waiting.is_empty()
            && self.remnants.is_empty()
            && self.due().is_none()
    }

    /// Leaves, unless there is a message or somebody is about to write one. Who writes has a sender of its own, and takes it
    /// where we look, under the same lock: a message that nobody would read cannot come after that.
    fn leave(&self) -> bool {
        let is_alone = || self.mailbox.is_empty() && self.mailbox.sender_strong_count() == 1;
        self.engine.registry.leave(&self.id, || is_alone() || self.over)
    }

    async fn on_message(&mut self, message: Message) {
        match message {
            Message::Run { command, reply } => self.on_run(command, reply).await,
            Message::View(answer) => drop(answer.send(Ok(self.view()))),
            Message::Snapshot(answer) => drop(answer.send(Ok(Box::new(self.state.clone())))),
            Message::State(answer) => drop(answer.send(Ok(self.state.shell.clone()))),
            Message::Hibernate(answer) if self.is_busy() => self.waiting.push_back(Waiting::Hibernate(answer)),
            Message::Hibernate(answer) => self.hibernate(answer).await,
            Message::Restart(answer) => self.restart(answer).await,
            Message::Destroy { removal, answer } => self.destroy(removal, answer).await,
            Message::Evict(answer) => {
                // One that waits for its turn needs no shell before that.
                let idle = self.running.is_none();
                if idle {
                    self.rest("evicted", "the last one was given up because it was idle");
                }
                let _ = answer.send(idle);
            }
            Message::Detached { running, ended } => self.on_detached(*running, ended),
            Message::Typed { run_id, typed, answer } => {
                self.note_typed(run_id, &typed).await;
                let _ = answer.send(Ok(typed));
            }
            Message::FilesKept(answer) => self.files.tell_when_kept(answer),
            Message::Files(task) if self.is_busy() => self.waiting.push_back(Waiting::Files(task)),
            Message::Files(task) => self.do_files(*task).await,
            Message::Note { events, author, answer } => self.note(events, &author, answer).await,
            Message::AddMessage { message, author, answer } => self.add_message(message, author, answer).await,
            Message::SaveAgentState { save, author, answer } => self.save_agent_state(save, author, answer).await,
            Message::AgentState(answer) => drop(answer.send(Ok(self.state.agent_state.clone()))),
            Message::Scrub { secret, answer } if self.is_busy() => {
                self.waiting.push_back(Waiting::Scrub { secret, answer });
            }
            Message::Scrub { secret, answer } => self.scrub(secret, answer).await,
            Message::StartService { request, by, answer } => self.start_service(*request, by, answer).await,
            Message::Services(answer) => drop(answer.send(Ok(self.state.services.clone()))),
            Message::ServiceFacts(answer) => self.service_facts(answer),
            Message::ServiceNews { service_id, news, answer } => self.on_service_news(service_id, news, answer).await,
            Message::End { reason, answer } if self.is_busy() => {
                // What runs is ended first; its end is recorded before the session's.
                self.stop_everything(OpError::Restarted { session_id: self.id.to_string() }).await;
                self.end(&reason, answer);
            }
            Message::End { reason, answer } => self.end(&reason, answer),
            Message::Reclaim { ended_at, answer } if self.state.ended_at == Some(ended_at) && !self.is_busy() => {
                self.destroy(Removal::Purge, answer).await;
            }
            // It is in use again.
            Message::Reclaim { answer, .. } => drop(answer.send(Ok(()))),
        }
    }

    fn is_busy(&self) -> bool {
        self.running.is_some() || !self.waiting.is_empty()
    }

    async fn hibernate(&mut self, answer: Answer<SessionView>) {
        self.rest("hibernated", "the last one was put to sleep");
        if self.engine.lifetime.is_stopping() {
            // What is known of the files is written down, so that they need not be read again at the next start.
            self.let_go_of_files().await;
        }
        let _ = answer.send(Ok(self.view()));
    }

    /// Ends what runs and what waits, and says so to those who wait.
    async fn stop_everything(&mut self, error: OpError) {
        for waiting in self.waiting.drain(..) {
            match waiting {
                Waiting::Run { reply, .. } => reply.refuse(error.clone()),
                Waiting::Hibernate(answer) => drop(answer.send(Err(error.clone()))),
                Waiting::Scrub { answer, .. } => drop(answer.send(Err(error.clone()))),
                Waiting::Files(task) => task.refuse(error.clone()),
            }
        }
        self.first_has_left();
        if let Some((running, reply, max_output)) = self.running.take() {
            running.worn.shell.kill_all();
            self.finish_run(running, Ended::KilledWithSession, reply, max_output).await;
        }
        self.engine.runs.kill(|id| *id == self.id).await;
        self.idle = None;
        self.remnants.clear();
    }

    async fn restart(&mut self, answer: Answer<SessionView>) {
        let first = self.engine.store.first_shell(&self.id).await;
        let shell = match first.map_err(|error| read_error(&self.id, error)) {
            Ok(Some(shell)) => shell,
            Ok(None) => return drop(answer.send(Err(OpError::SessionNotFound { session_id: self.id.to_string() }))),
            Err(error) => return drop(answer.send(Err(error))),
        };
        let refusal = OpError::Restarted { session_id: self.id.to_string() };
        self.stop_everything(refusal).await;
        self.record(Event::Restarted { shell: Box::new(shell) });
        self.sync().await;
        let _ = answer.send(Ok(self.view()));
    }

    async fn destroy(&mut self, removal: Removal, answer: Answer<()>) {
        self.stop_everything(OpError::SessionNotFound { session_id: self.id.to_string() }).await;
        self.let_go_of_files().await;
        // What was lost takes a number before the end does.
        self.tell_lost();
        let deletion = Deletion::new(&self.state.meta, self.state.seq + 1, removal);
        let pending = self.engine.remover.begin(&deletion);
        crash::point(Point::DeleteNoted, self.id.as_str().as_bytes());
        self.put(deletion.event());
        self.sync().await;
        crash::point(Point::DeleteRecorded, self.id.as_str().as_bytes());
        self.engine.remover.finish(deletion, pending).await;
        self.over = true;
        let _ = answer.send(Ok(()));
    }

    fn view(&self) -> SessionView {
        let shell = self.running.as_ref().map(|(running, ..)| &running.worn).or(self.idle.as_ref());
        SessionView {
            meta: self.state.meta.clone(),
            last_active_at: self.state.last_active_at,
            cwd: self.state.shell.cwd.clone(),
            live: shell.is_some(),
            shell_pid: shell.map(|worn| worn.shell.pid()),
            generation: self.state.generation,
            seq: self.state.seq,
            deleted: None,
        }
    }

    /// What to say if the session took more of the disk than it may when it was last measured.
    pub(crate) fn disk_notice(&self) -> Option<Notice> {
        if !self.slot.over_disk.load(Ordering::Relaxed) {
            return None;
        }
        self.engine.disk.over_quota(&self.id).map(|(limit, used)| notices::over_disk(limit, used))
    }
}

impl Waiting {
    fn expires(&self) -> Option<Instant> {
        match self {
            Self::Run { expires, .. } => Some(*expires),
            Self::Hibernate(_) | Self::Scrub { .. } | Self::Files(_) => None,
        }
    }
}

/// Ends with the shell, if there is one.
async fn shell_ended(idle: &mut Option<Worn>) -> ExitStatus {
    match idle {
        Some(worn) => worn.shell.ended().await,
        None => std::future::pending().await,
    }
}

/// Ends when there may be a shell, if somebody waits for one.
async fn heard(starved: &mut Option<Listener>) {
    match starved {
        Some(listener) => listener.heard().await,
        None => std::future::pending().await,
    }
}

/// Ends at this time, or never.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
