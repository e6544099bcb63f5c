//! The owner of one session: the task that alone changes its state and alone touches its shell. Everyone else sends it
//! messages. It lives as long as the session holds a process or has something to do, and then leaves; the session stays.

use crate::alarm::Alarm;
use crate::cell::{NewCell, RunCell};
use crate::crash::{self, Point};
use crate::engine::Inner;
use crate::late::LateOutput;
use crate::ops::{IfBusy, OpError, RunCommand, RunView, SessionView};
use crate::pool::Worn;
use crate::running::{Running, Step};
use crate::{cell, finish, notices, translate};
use shellkeep_process::{ExitStatus, RunSpec, Stdin};
use shellkeep_session::{ByteString, Event, Notice, Record, RunId, SessionId, SessionState, ShellState, Timestamp};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// Commands that may wait for one session; more is a caller that does not listen.
pub const MAX_WAITING: usize = 256;
/// Messages that may wait for one owner, above the commands.
pub const MAILBOX: usize = MAX_WAITING + 64;

type Answer<T> = oneshot::Sender<Result<T, OpError>>;

/// What an owner can be asked.
pub enum Message {
    /// Run a command.
    Run {
        /// The command.
        command: Box<RunCommand>,
        /// Who waits, and for what.
        reply: RunReply,
    },
    /// How does the session stand?
    View(Answer<SessionView>),
    /// What does its shell know?
    State(Answer<ShellState>),
    /// Drop the shell when nothing runs any more.
    Hibernate(Answer<SessionView>),
    /// Drop everything and begin again.
    Restart(Answer<SessionView>),
    /// End the session.
    Destroy(Answer<()>),
    /// Drop the shell if nothing runs; says whether it did.
    Evict(oneshot::Sender<bool>),
    /// A command that ran on beside the session has ended.
    Detached(Box<(Running, Box<shellkeep_process::Done>)>),
}

/// Who waits for a run.
pub enum RunReply {
    /// For its end.
    AtEnd(Answer<RunView>),
    /// For its start.
    AtStart(Answer<Started>),
}

/// A run that has started, or had already ended before.
pub enum Started {
    /// It runs.
    Live(Arc<RunCell>),
    /// The same request was answered before.
    Before(Box<RunView>),
}

/// What others may know of an owner without asking it.
#[derive(Debug, Default)]
pub struct Slot {
    /// Process id of the shell, 0 without one.
    pub pid: AtomicU32,
    /// Whether a command runs or waits.
    pub busy: AtomicBool,
    /// When it was last used, in milliseconds of the engine's clock.
    pub last_used: AtomicU64,
}

enum Waiting {
    Run { command: Box<RunCommand>, reply: RunReply, expires: Instant },
    Hibernate(Answer<SessionView>),
}

enum Happened {
    Message(Option<Message>),
    Run(Step),
    ShellEnded(ExitStatus),
    WaitingExpired,
}

/// The owner.
pub struct Owner {
    pub(crate) engine: Arc<Inner>,
    pub(crate) id: SessionId,
    pub(crate) state: SessionState,
    pub(crate) late: Arc<LateOutput>,
    mailbox: mpsc::Receiver<Message>,
    slot: Arc<Slot>,
    idle: Option<Worn>,
    running: Option<(Running, Option<RunReply>, usize)>,
    waiting: VecDeque<Waiting>,
    remnants: Vec<Worn>,
    /// Kept from command to command.
    alarm: Option<Alarm>,
    /// The directory that a new shell took because the session's own is gone.
    pub(crate) moved_to: Option<ByteString>,
    /// Notices of the new shell, for the run that needed it.
    pub(crate) fresh_notices: Vec<Notice>,
    over: bool,
}

impl Owner {
    /// An owner for a session at rest.
    pub fn new(
        engine: Arc<Inner>,
        state: SessionState,
        mailbox: mpsc::Receiver<Message>,
        slot: Arc<Slot>,
    ) -> Self {
        Self {
            engine,
            id: state.meta.session_id.clone(),
            state,
            late: Arc::default(),
            mailbox,
            slot,
            idle: None,
            running: None,
            waiting: VecDeque::new(),
            remnants: Vec::new(),
            alarm: None,
            moved_to: None,
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
                Happened::WaitingExpired => self.refuse_expired(),
            }
            self.start_waiting().await;
            self.publish();
            if self.holds_nothing() && self.leave() {
                return;
            }
        }
    }

    async fn next(&mut self) -> Happened {
        let expiry = self.waiting.iter().filter_map(Waiting::expires).min();
        let expired = async {
            match expiry {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let work = async {
            match (&mut self.running, &mut self.idle) {
                (Some((running, ..)), _) => Happened::Run(running.step().await),
                (None, Some(worn)) => Happened::ShellEnded(worn.shell.ended().await),
                (None, None) => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            happened = work => happened,
            message = self.mailbox.recv() => Happened::Message(message),
            () = expired => Happened::WaitingExpired,
        }
    }

    fn publish(&self) {
        let shell = self.running.as_ref().map(|(running, ..)| &running.worn).or(self.idle.as_ref());
        self.slot.pid.store(shell.map_or(0, |worn| worn.shell.pid()), Ordering::Relaxed);
        self.slot.busy.store(self.running.is_some() || !self.waiting.is_empty(), Ordering::Relaxed);
        self.slot.last_used.store(self.engine.now_ms(), Ordering::Relaxed);
    }

    fn holds_nothing(&self) -> bool {
        self.over
            || (self.idle.is_none()
                && self.running.is_none()
                && self.waiting.is_empty()
                && self.remnants.is_empty())
    }

    /// Leaves, unless a message came in at the last moment.
    fn leave(&mut self) -> bool {
        let mut sessions = self.engine.sessions();
        self.mailbox.close();
        let mut late = Vec::new();
        while let Ok(message) = self.mailbox.try_recv() {
            late.push(message);
        }
        if late.is_empty() || self.over {
            sessions.remove(&self.id);
            return true;
        }
        let (sender, mailbox) = mpsc::channel(MAILBOX);
        for message in late {
            let _ = sender.try_send(message);
        }
        self.mailbox = mailbox;
        sessions.reopen(&self.id, sender);
        false
    }

    async fn on_message(&mut self, message: Message) {
        match message {
            Message::Run { command, reply } => self.on_run(command, reply).await,
            Message::View(answer) => drop(answer.send(Ok(self.view()))),
            Message::State(answer) => drop(answer.send(Ok(self.state.shell.clone()))),
            Message::Hibernate(answer) if self.is_busy() => self.waiting.push_back(Waiting::Hibernate(answer)),
            Message::Hibernate(answer) => self.hibernate(answer),
            Message::Restart(answer) => self.restart(answer).await,
            Message::Destroy(answer) => self.destroy(answer).await,
            Message::Evict(answer) => {
                let idle = !self.is_busy();
                if idle {
                    self.rest("evicted", "the last one was given up because it was idle");
                }
                let _ = answer.send(idle);
            }
            Message::Detached(ended) => self.on_detached(*ended),
        }
    }

    fn is_busy(&self) -> bool {
        self.running.is_some() || !self.waiting.is_empty()
    }

    // ---- runs ----

    async fn on_run(&mut self, command: Box<RunCommand>, reply: RunReply) {
        crash::point(Point::Accepted, command.command.as_bytes());
        if let Some(request_id) = &command.request_id {
            match self.answered_before(request_id, &command).await {
                Ok(None) => {}
                Ok(Some(before)) => return self.reply_before(before, reply, command.max_output),
                Err(error) => return reply.refuse(error),
            }
        }
        if let Some((running, ..)) = &self.running {
            if command.if_busy == IfBusy::Reject {
                return reply.refuse(self.busy(&running.cell.run_id));
            }
            if self.waiting.len() >= MAX_WAITING {
                let waiting = self.waiting.len();
                return reply.refuse(OpError::QueueFull { session_id: self.id.to_string(), waiting });
            }
            let expires = Instant::now() + command.timeout;
            self.waiting.push_back(Waiting::Run { command, reply, expires });
            return;
        }
        self.start(command, reply).await;
    }

    fn busy(&self, run_id: &RunId) -> OpError {
        OpError::Busy { session_id: self.id.to_string(), run_id: run_id.to_string() }
    }

    /// The run that an earlier call with the same key started.
    async fn answered_before(&self, request_id: &str, command: &RunCommand) -> Result<Option<Started>, OpError> {
        let same = |text: &ByteString| {
            if *text == command.command {
                return Ok(());
            }
            Err(OpError::RequestIdReused { request_id: request_id.to_owned() })
        };
        for (run_id, run) in &self.state.active_runs {
            if run.request_id.as_deref() == Some(request_id) {
                same(&run.command)?;
                return Ok(self.engine.runs().get(&(self.id.clone(), run_id.clone())).cloned().map(Started::Live));
            }
        }
        let stored = self.engine.store.run_by_request(&self.id, request_id).await;
        let Some(run) = stored.map_err(|error| self.engine.read_error(&self.id, error))? else { return Ok(None) };
        same(&run.command)?;
        let directory = self.engine.output_directory(&self.id);
        let view = cell::stored_view(&run, &directory, command.max_output, &self.state.shell.cwd);
        Ok(Some(Started::Before(Box::new(view))))
    }

    fn reply_before(&self, before: Started, reply: RunReply, max_output: usize) {
        match (before, reply) {
            (before, RunReply::AtStart(answer)) => drop(answer.send(Ok(before))),
            (Started::Before(view), RunReply::AtEnd(answer)) => drop(answer.send(Ok(*view))),
            (Started::Live(cell), RunReply::AtEnd(answer)) => {
                tokio::spawn(async move {
                    cell.finished().await;
                    let _ = answer.send(Ok(cell.view(max_output)));
                });
            }
        }
    }

    async fn start(&mut self, command: Box<RunCommand>, reply: RunReply) {
        match self.begin(&command).await {
            Err(error) => reply.refuse(error),
            Ok(running) => {
                crash::point(Point::Begun, command.command.as_bytes());
                let reply = match reply {
                    RunReply::AtStart(answer) => {
                        let _ = answer.send(Ok(Started::Live(Arc::clone(&running.cell))));
                        None
                    }
                    at_end => Some(at_end),
                };
                self.running = Some((running, reply, command.max_output));
            }
        }
    }

    async fn begin(&mut self, command: &RunCommand) -> Result<Running, OpError> {
        let cwd = command.cwd.as_ref().map(|cwd| self.resolve_cwd(cwd)).transpose()?;
        let mut worn = match self.idle.take() {
            Some(worn) => worn,
            None => self.wear().await?,
        };
        let seq = self.state.seq + 1;
        let run_id = RunId::from_seq(seq);
        self.record(Event::RunStarted {
            run_id: run_id.clone(),
            request_id: command.request_id.clone(),
            command: command.command.clone(),
        });
        crash::point(Point::StartRecorded, command.command.as_bytes());
        let stdin = match (&command.stdin, command.tty, command.blocking) {
            (_, true, _) => Stdin::Terminal,
            (Some(bytes), ..) => Stdin::Given(bytes.as_bytes()),
            (None, _, false) => Stdin::Open,
            (None, _, true) => Stdin::Empty,
        };
        let (cell, controls) = RunCell::new(NewCell {
            run_id: run_id.clone(),
            seq,
            command: command.command.clone(),
            takes_input: matches!(stdin, Stdin::Open | Stdin::Terminal),
            cwd: self.state.shell.cwd.clone(),
            directory: self.engine.output_directory(&self.id),
            limit: self.engine.config.output_bytes_per_run,
        });
        let cell = Arc::new(cell);
        let env: Vec<_> =
            command.env.iter().map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes())).collect();
        let spec = RunSpec { command: command.command.as_bytes(), cwd: cwd.as_deref(), env: &env, stdin };
        let input = match worn.shell.begin(spec).await {
            Ok(input) => input,
            Err(error) => {
                // The shell died between two commands. What it did with this one is not known, so it is not repeated.
                tracing::warn!(session = %self.id, %error, "the shell could not be given the command");
                None
            }
        };
        self.engine.runs().insert((self.id.clone(), run_id), Arc::clone(&cell));
        let alarm = match self.alarm.take() {
            Some(mut alarm) => {
                alarm.set(command.timeout);
                alarm
            }
            None => Alarm::after(command.timeout),
        };
        Ok(Running::new(worn, cell, controls, input, alarm, command.on_timeout))
    }

    /// A relative directory is meant from where the session is.
    fn resolve_cwd(&self, cwd: &ByteString) -> Result<Vec<u8>, OpError> {
        use std::os::unix::ffi::OsStrExt;
        let base = std::path::Path::new(std::ffi::OsStr::from_bytes(self.state.shell.cwd.as_bytes()));
        let path = base.join(std::ffi::OsStr::from_bytes(cwd.as_bytes()));
        let refused = |reason: String| OpError::BadCwd { path: path.display().to_string(), reason };
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => Ok(path.as_os_str().as_bytes().to_vec()),
            Ok(_) => Err(refused("it is not a directory".to_owned())),
            Err(error) => Err(refused(error.to_string())),
        }
    }

    async fn on_step(&mut self, step: Step) {
        match step {
            Step::Continue => {}
            Step::Detach => self.detach(),
            Step::Done(done) => {
                if let Some((running, reply, max_output)) = self.running.take() {
                    crash::point(Point::Done, running.cell.command.as_bytes());
                    self.finish_run(running, done, reply, max_output).await;
                }
            }
            Step::BadCwd(reason) => {
                if let Some((running, reply, max_output)) = self.running.take() {
                    let line = format!("shellkeep: the directory for this call cannot be entered: {reason}\n");
                    running.cell.append(crate::ops::Stream::Stderr, line.as_bytes());
                    let done = finish::refused();
                    self.finish_run(running, done, reply, max_output).await;
                }
            }
        }
    }

    async fn finish_run(
        &mut self,
        running: Running,
        mut done: Box<shellkeep_process::Done>,
        reply: Option<RunReply>,
        max_output: usize,
    ) {
        for reader in done.late.drain(..) {
            self.late.collect(reader);
        }
        let (result, delta) = finish::result(self, &running, &mut done);
        let run_id = running.cell.run_id.clone();
        let cell = Arc::clone(&running.cell);
        let mut result = Box::new(result);
        if let Some(notice) =
            self.record(Event::RunFinished { run_id: run_id.clone(), result: result.clone(), delta: Box::new(delta) })
        {
            result.notices.push(notice);
        }
        crash::point(Point::ResultRecorded, cell.command.as_bytes());
        self.engine.sync().await;
        cell.finish(*result);
        self.engine.runs().remove(&(self.id.clone(), run_id));
        if let Some(RunReply::AtEnd(answer)) = reply {
            let _ = answer.send(Ok(cell.view(max_output)));
        }
        let (mut worn, alarm) = running.into_parts();
        self.alarm = Some(alarm);
        if done.forked {
            worn.shell.settle();
        }
        if done.exit.is_none() {
            self.idle = Some(worn);
        } else if !worn.shell.others().is_empty() {
            self.remnants.push(worn);
        }
    }

    /// The command outgrew its time: it keeps its shell, the session takes another.
    fn detach(&mut self) {
        let Some((mut running, reply, max_output)) = self.running.take() else { return };
        let run_id = running.cell.run_id.clone();
        running.cell.add_notice(notices::backgrounded(run_id.as_str(), running.cell.started.elapsed()));
        self.record(Event::RunDetached { run_id });
        if let Some(RunReply::AtEnd(answer)) = reply {
            let _ = answer.send(Ok(running.cell.view(max_output)));
        }
        running.detach();
        let (engine, id) = (Arc::clone(&self.engine), self.id.clone());
        tokio::spawn(async move {
            loop {
                if let Step::Done(done) = running.step().await {
                    return engine.deliver(&id, Message::Detached(Box::new((running, done)))).await;
                }
            }
        });
    }

    /// What a command in the background changed in its own shell stays there; only its result is the session's.
    fn on_detached(&mut self, (running, mut done): (Running, Box<shellkeep_process::Done>)) {
        let (result, _) = finish::result(self, &running, &mut done);
        let run_id = running.cell.run_id.clone();
        self.record(Event::RunFinished {
            run_id: run_id.clone(),
            result: Box::new(result.clone()),
            delta: Box::default(),
        });
        running.cell.finish(result);
        self.engine.runs().remove(&(self.id.clone(), run_id));
        if !running.worn.shell.others().is_empty() {
            self.remnants.push(running.worn);
        }
    }

    async fn start_waiting(&mut self) {
        while self.running.is_none() && !self.over {
            match self.waiting.pop_front() {
                Some(Waiting::Run { command, reply, .. }) => self.start(command, reply).await,
                Some(Waiting::Hibernate(answer)) => self.hibernate(answer),
                None => return,
            }
        }
    }

    fn refuse_expired(&mut self) {
        let Some((running, ..)) = &self.running else { return };
        let busy = self.busy(&running.cell.run_id);
        let now = Instant::now();
        let (expired, rest): (Vec<_>, Vec<_>) =
            self.waiting.drain(..).partition(|waiting| waiting.expires().is_some_and(|at| at <= now));
        self.waiting = rest.into();
        for waiting in expired {
            if let Waiting::Run { reply, .. } = waiting {
                reply.refuse(busy.clone());
            }
        }
    }

    // ---- the shell ----

    /// Takes a shell and becomes live: the only way, for new, restored and woken sessions alike.
    async fn wear(&mut self) -> Result<Worn, OpError> {
        let mut worn = self.engine.take_shell(&self.id).await?;
        let unavailable = |reason: String| OpError::ShellUnavailable { reason };
        let (mut facts, cwd_problem) = self.facts_to_restore().map_err(unavailable)?;
        let mut problems = match worn.shell.restore(&facts).await {
            Ok(problems) => problems,
            Err(error) => return Err(unavailable(error.to_string())),
        };
        facts.clear();
        problems.extend(cwd_problem);
        let cwd = self.state.shell.cwd.to_text().into_owned();
        let fallback = self.moved_to.as_ref().map(|path| path.to_text().into_owned()).unwrap_or_default();
        self.fresh_notices = notices::not_restored(&problems, &cwd, &fallback);
        self.record(Event::ShellStarted { generation: self.state.generation + 1 });
        Ok(worn)
    }

    /// The session's facts; if its directory is gone, with its workspace in the place of it.
    #[allow(clippy::type_complexity)]
    fn facts_to_restore(&mut self) -> Result<(Vec<shellkeep_process::Fact>, Option<(String, String)>), String> {
        use std::os::unix::ffi::OsStrExt;
        let workspace = self.state.meta.workspace.clone();
        let path = |bytes: &ByteString| std::path::PathBuf::from(std::ffi::OsStr::from_bytes(bytes.as_bytes()));
        if self.state.shell.cwd.as_bytes().starts_with(workspace.as_bytes()) && self.engine.owns(&path(&workspace)) {
            std::fs::create_dir_all(path(&workspace)).map_err(|error| format!("{}: {error}", workspace.to_text()))?;
        }
        let reason = match std::fs::metadata(path(&self.state.shell.cwd)) {
            Ok(metadata) if metadata.is_dir() => return Ok((translate::facts(&self.state.shell), None)),
            Ok(_) => "it is not a directory".to_owned(),
            Err(error) => error.to_string(),
        };
        let fallback = if std::fs::create_dir_all(path(&workspace)).is_ok() { workspace } else { "/".into() };
        let mut shell = self.state.shell.clone();
        shell.cwd = fallback.clone();
        shell.variables.insert("PWD".into(), shellkeep_session::shell::Variable::scalar("x", fallback.clone()));
        self.moved_to = Some(fallback);
        Ok((translate::facts(&shell), Some(("cwd".to_owned(), reason))))
    }

    fn on_shell_ended(&mut self, exit: ExitStatus) {
        if let Some(worn) = self.idle.take() {
            self.record(Event::ShellStopped { reason: "died".to_owned(), notices: vec![notices::died_idle(exit)] });
            if !worn.shell.others().is_empty() {
                self.remnants.push(worn);
            }
        }
    }

    /// Gives up every process of a session in which nothing runs.
    fn rest(&mut self, reason: &str, why: &str) {
        let Some(worn) = self.idle.take() else {
            self.remnants.clear();
            return;
        };
        let mut notices = notices::given_up(&worn.shell, why);
        for remnant in self.remnants.drain(..) {
            notices.extend(notices::given_up(&remnant.shell, why));
        }
        self.record(Event::ShellStopped { reason: reason.to_owned(), notices });
    }

    // ---- the session ----

    fn hibernate(&mut self, answer: Answer<SessionView>) {
        self.rest("hibernated", "the last one was put to sleep");
        let _ = answer.send(Ok(self.view()));
    }

    /// Ends what runs and what waits, and says so to those who wait.
    async fn stop_everything(&mut self, error: OpError) {
        for waiting in self.waiting.drain(..) {
            match waiting {
                Waiting::Run { reply, .. } => reply.refuse(error.clone()),
                Waiting::Hibernate(answer) => drop(answer.send(Err(error.clone()))),
            }
        }
        if let Some((running, reply, max_output)) = self.running.take() {
            running.worn.shell.kill_all();
            self.finish_run(running, finish::ended_by_host(), reply, max_output).await;
        }
        self.engine.kill_detached(&self.id).await;
        self.idle = None;
        self.remnants.clear();
    }

    async fn restart(&mut self, answer: Answer<SessionView>) {
        let first = self.engine.store.first_shell(&self.id).await;
        let shell = match first.map_err(|error| self.engine.read_error(&self.id, error)) {
            Ok(Some(shell)) => shell,
            Ok(None) => return drop(answer.send(Err(OpError::SessionNotFound { session_id: self.id.to_string() }))),
            Err(error) => return drop(answer.send(Err(error))),
        };
        let refusal = OpError::Invalid {
            detail: "the session was restarted while this command waited; nothing was run, send it again".to_owned(),
        };
        self.stop_everything(refusal).await;
        self.record(Event::Restarted { shell: Box::new(shell) });
        let _ = answer.send(Ok(self.view()));
    }

    async fn destroy(&mut self, answer: Answer<()>) {
        self.stop_everything(OpError::SessionNotFound { session_id: self.id.to_string() }).await;
        self.record(Event::SessionDestroyed);
        self.engine.forget(&self.id, &self.state.meta.workspace).await;
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
        }
    }

    /// Appends to the store, then changes the state: the only door into it. A store that fails is a notice.
    pub(crate) fn record(&mut self, event: Event) -> Option<Notice> {
        let record =
            Record { session_id: self.id.clone(), seq: self.state.seq + 1, at: Timestamp::now(), event };
        let notice = self.engine.store.append(&record).err().map(|error| notices::store_failed(&error.to_string()));
        if let Err(error) = self.state.apply(&record) {
            // Only this task makes records, one after the other, so this is a bug and not a fault of the data.
            tracing::error!(session = %self.id, %error, "a record does not follow");
        }
        notice
    }
}

impl RunReply {
    fn refuse(self, error: OpError) {
        match self {
            Self::AtEnd(answer) => drop(answer.send(Err(error))),
            Self::AtStart(answer) => drop(answer.send(Err(error))),
        }
    }
}

impl Waiting {
    fn expires(&self) -> Option<Instant> {
        match self {
            Self::Run { expires, .. } => Some(*expires),
            Self::Hibernate(_) => None,
        }
    }
}
