//! A session that is awake: its records, its shell and command, and its files. It does what the [`super::Actor`] decides.

mod rest;

use super::call::{call, check_env, stderr_of, stdin_of, variables};
use super::detached;
use super::files::Files;
use super::journal::{Finished, Journal, check_owned, storage_notices};
use super::kv::open::Kv;
use super::message::{Answer, Caller, Started};
use super::phase::{Phase, Run};
use super::queue::Queue;
use super::refusals::Refusals;
use super::remnants::Remnants;
use super::rest_reason::RestReason;
use super::run_keys::RunKeys;
use super::shell::{Acquired, Found, acquire, check_cwd, is_in_place, not_entered, outdated, resolve_cwd};
use super::slot::{Published, Slot};
use crate::admission::Ticket;
use crate::alarm::Alarm;
use crate::cell::{self, OutputSpec, RunCell, RunControl, RunEnd, RunStart};
use crate::checkpoints::Wanted;
use crate::conclude::{Before, Conclusion, Ended, conclude};
use crate::context::SessionContext;
use crate::crash::{self, Point};
use crate::given_secrets::GivenSecrets;
use crate::late::LateOutput;
use crate::masking::{SessionMask, without_secrets};
use crate::node_limits::{memory_limit, process_limits_of};
use crate::notices;
use crate::ops::{DEFAULT_MAX_OUTPUT, HeldBy, OpError, RunCommand, RunError, SessionView, WhileBusy};
use crate::running::Running;
use crate::stored::read_error;
use crate::tasks;
use shellkeep_process::{ExitStatus, RunSpec, Stdin};
use shellkeep_redact::Redactor;
use shellkeep_session::plan::shorten;
use shellkeep_session::{ByteString, Event, Notice, QuotaName, RunId, SessionId, ShellState, Unkept};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::mpsc;

pub(super) struct Session {
    pub(super) ctx: Arc<SessionContext>,
    pub(super) journal: Journal,
    pub(super) files: Files,
    pub(super) kv: Kv,
    pub(super) phase: Phase,
    pub(super) slot: Arc<Slot>,
    /// Directory of the runs' output.
    pub(super) outputs: Arc<Path>,
    /// Output of earlier background jobs.
    pub(super) late: Arc<LateOutput>,
    /// What runs on without its shell.
    pub(super) remnants: Remnants,
    /// The timer of the last command, for the next.
    alarm: Option<Alarm>,
    run_keys: RunKeys,
    /// What was said of its sandbox.
    refusals: Refusals,
}

impl Session {
    pub(super) fn new(ctx: Arc<SessionContext>, journal: Journal, slot: Arc<Slot>) -> Self {
        if journal.state().generation == 0 && journal.state().services.is_empty() {
            ctx.disk.begins(journal.id(), ctx.names.agent_of(journal.id()));
        }
        // What was measured while it slept: its services write without it.
        slot.over_disk.store(ctx.disk.over_quota(journal.id()).is_some(), Ordering::Relaxed);
        Self {
            outputs: ctx.data_dir.outputs(journal.id()),
            files: Files::new(Arc::clone(&ctx)),
            kv: Kv::new(Arc::clone(&ctx)),
            ctx,
            run_keys: RunKeys::of(journal.state()),
            journal,
            phase: Phase::resting(None),
            slot,
            late: Arc::default(),
            remnants: Remnants::default(),
            alarm: None,
            refusals: Refusals::default(),
        }
    }

    pub(super) fn id(&self) -> &SessionId {
        self.journal.id()
    }

    /// What callers see of it.
    pub(super) fn view(&self) -> SessionView {
        let state = self.journal.state();
        let shell_pid = self.phase.shell().map(|pooled| pooled.shell.pid());
        SessionView {
            meta: state.meta.clone(),
            last_active_at: state.last_active_at,
            cwd: state.shell.cwd.clone(),
            live: shell_pid.is_some(),
            shell_pid,
            generation: state.generation,
            seq: state.seq,
            deleted: None,
            hold: HeldBy::of(state.hold.as_deref()),
            sandbox: Some(self.ctx.sandboxes.of(state)),
        }
    }

    /// The state of its shell as it is inside its sandbox.
    pub(super) fn placed_shell(&self) -> ShellState {
        self.ctx.sandboxes.placed(self.journal.state()).into_owned()
    }

    /// Another command runs.
    pub(super) fn busy(&self, cell: &RunCell, asked: WhileBusy) -> OpError {
        let (session_id, run_id) = (self.id().to_string(), cell.start.run_id.to_string());
        let (command, running_for) = (shorten(&cell.start.command.to_text()), cell.started.elapsed());
        RunError::Busy { session_id, run_id, command, running_for, asked }.into()
    }

    /// The run that an earlier call with the same request id started.
    pub(super) async fn answered_before(
        &mut self,
        request_id: &str,
        command: &RunCommand,
    ) -> Result<Option<Started>, OpError> {
        let redactor = self.journal.mask().map(|mask| mask.for_run(command));
        // The stored text of the first one may be masked, with the secrets known at that time.
        let masked = |text: &ByteString| redactor.as_ref().map(|redactor| redactor.redact(text.as_bytes()));
        let same = |text: &ByteString| {
            if *text == command.command || (redactor.is_some() && masked(text) == masked(&command.command)) {
                return Ok(());
            }
            Err(OpError::Run(RunError::RequestIdReused { request_id: request_id.to_owned() }))
        };
        for (run_id, run) in &self.journal.state().active_runs {
            if run.request_id.as_deref() == Some(request_id) {
                same(&run.command)?;
                return Ok(self.ctx.runs.get(self.id(), run_id).map(Started::Live));
            }
        }
        let stored = self.run_keys.find(request_id, &self.ctx.store, self.journal.id()).await;
        let Some(mut run) = stored.map_err(|error| read_error(self.id(), error))? else { return Ok(None) };
        same(&run.command)?;
        self.ctx.kept_files.check_run(self.id(), &mut run).await?;
        // A watcher of a run that already ended gets its output from the result, so the result must include it.
        let max_output = if command.max_output == 0 { DEFAULT_MAX_OUTPUT } else { command.max_output };
        let view = cell::stored_view(&run, &self.outputs, max_output, &self.journal.shell().cwd);
        Ok(Some(Started::Before(Box::new(view))))
    }

    /// The session's shell, acquired if it has none. For a command without a directory `cwd` of its own, one that is in the
    /// session's directory. `None` if no shell is available now.
    async fn shell_for(&mut self, cwd: Option<&[u8]>, given: &GivenSecrets) -> Result<Option<Acquired>, OpError> {
        let in_own_directory = cwd.is_none();
        let own = in_own_directory.then_some(&self.journal.shell().cwd);
        self.ctx.data_dir.check_taken(self.journal.state(), own)?;
        if in_own_directory && !is_in_place(&self.ctx, self.phase.shell(), self.journal.state(), given).await? {
            self.rest(RestReason::Replaced);
        }
        if let Some(outdated) = outdated(&self.ctx, self.phase.shell(), self.journal.state()) {
            self.rest(outdated);
        }
        let acquired = match self.phase.take_idle() {
            Some(acquired) => acquired,
            None => {
                // Before a shell is taken: a rejected command must not cost another session its shell.
                if in_own_directory {
                    check_cwd(&self.ctx, self.journal.state(), given).await?;
                }
                // Meanwhile, so that it is known at the end of a short command that it changed nothing.
                self.files.watch(&self.journal);
                // No session may ask this one for its shell while this one asks: both would wait forever.
                self.slot.pid.store(0, Ordering::Relaxed);
                let Some(acquired) = acquire(&self.ctx, self.journal.state(), given).await? else { return Ok(None) };
                self.journal.record(Event::ShellStarted { generation: self.journal.state().generation + 1 });
                acquired
            }
        };
        match &acquired.found.cwd_missing {
            Some(why) if in_own_directory => {
                // The directory was just removed, or may not be entered.
                let refusal = not_entered(&self.ctx, self.journal.state(), given, why).await;
                self.phase.keep(acquired);
                self.rest(RestReason::NotEntered);
                Err(refusal)
            }
            _ => Ok(Some(acquired)),
        }
    }

    /// Starts a command; `None` if no shell is available now.
    pub(super) async fn begin(&mut self, command: &RunCommand, ticket: &mut Ticket) -> Result<Option<Run>, OpError> {
        check_env(&command.env, self.journal.shell())?;
        check_owned(&self.journal)?;
        let given = self.journal.give().await?;
        let cwd = match &command.cwd {
            Some(cwd) => Some(resolve_cwd(&self.ctx, self.journal.state(), &given, cwd).await?),
            None => None,
        };
        let Some(mut acquired) = self.shell_for(cwd.as_deref(), &given).await? else { return Ok(None) };
        // Before the start is recorded: a command whose pipes cannot be created has not run.
        let prepare = || acquired.pooled.shell.prepare(stdin_of(command), stderr_of(command));
        let ends = match self.ctx.shells.pipes(self.journal.id(), prepare).await {
            Ok(Some(ends)) => ends,
            none => {
                self.phase.keep(acquired);
                return none.map(|_| None);
            }
        };
        self.files.overtake();
        let redactor = self.journal.mask().map(|mask| mask.for_run(command));
        let (run_id, text) = self.record_start(command, redactor.as_ref());
        ticket.aside(self.journal.sync()).await;
        // Before bash sees a byte of it.
        check_owned(&self.journal)?;
        let until = self.ctx.serves_until(self.id());
        crash::point(Point::StartRecorded, command.command.as_bytes());
        let (cell, controls) = self.new_cell(&run_id, command, text, redactor);
        let env = variables(command, self.journal.shell(), &given);
        let spec = RunSpec { command: command.command.as_bytes(), cwd: cwd.as_deref(), env: &env, until };
        let sent = acquired.pooled.shell.begin(spec, ends, command.timeout).await;
        if let Err(error) = &sent {
            // The shell is dead or stuck. What it did with the command is unknown, so it is not repeated.
            tracing::warn!(session = %self.id(), %error, "the command could not be sent to the shell");
            acquired.pooled.shell.kill_all();
        }
        let is_too_late = sent.is_err() && cell.started.elapsed() >= command.timeout;
        self.ctx.runs.insert(self.id(), run_id, Arc::clone(&cell));
        let alarm = match self.alarm.take() {
            Some(mut alarm) => {
                alarm.set(command.timeout);
                alarm
            }
            None => Alarm::after(command.timeout),
        };
        if let (Some(_), Some(bytes)) = (command.terminal, &command.stdin) {
            // A terminal is typed into; the queue is new, so there is room.
            let _ = cell.control.try_send(RunControl::Input { bytes: bytes.0.clone(), end: true, typist: None });
        }
        let mut running =
            Running::new(acquired.pooled, cell, controls, sent.unwrap_or(None), alarm, command.on_timeout);
        if is_too_late {
            running.stop_at_timeout();
        }
        running.end_at(command.hang_up.clone());
        Ok(Some(Run { running, caller: None, found: acquired.found }))
    }

    /// Records that a command starts. Returns the run's id and the text as it was recorded.
    fn record_start(&mut self, command: &RunCommand, redactor: Option<&Redactor>) -> (RunId, ByteString) {
        let text = match redactor {
            Some(redactor) => ByteString(redactor.redact(command.command.as_bytes())),
            None => command.command.clone(),
        };
        let run_id = RunId::from_seq(self.journal.next_seq());
        if let Some(key) = &command.request_id {
            self.run_keys.add(key);
        }
        self.journal.put(Event::RunStarted {
            run_id: run_id.clone(),
            request_id: command.request_id.clone(),
            command: text.clone(),
            call: call(command, redactor, &self.ctx.masking),
            by: command.by.clone(),
            files_unkept: self.files.is_behind(),
        });
        (run_id, text)
    }

    fn new_cell(
        &self,
        run_id: &RunId,
        command: &RunCommand,
        text: ByteString,
        redactor: Option<Redactor>,
    ) -> (Arc<RunCell>, mpsc::Receiver<RunControl>) {
        let state = self.journal.state();
        let start = RunStart {
            run_id: run_id.clone(),
            seq: state.seq,
            command: text,
            takes_input: matches!(stdin_of(command), Stdin::Open | Stdin::Terminal(_)),
            terminal: command.terminal,
            is_merged: command.merge_stderr,
            timeout: command.timeout,
            // Its record is the last one.
            started_at: state.last_active_at,
            cwd: state.shell.cwd.clone(),
            by: command.by.clone(),
            tool_name: command.tool_name.clone(),
        };
        let limit = self.ctx.quotas.get(QuotaName::OutputBytesPerRun);
        RunCell::new(start, OutputSpec { directory: Arc::clone(&self.outputs), limit, redactor })
    }

    /// Records the result of a run and answers its caller. Returns the run's ticket: the next command that gets one may need
    /// this session's shell, so [`Session::publish`] comes before it is dropped.
    pub(super) async fn finish(&mut self, run: Run, mut ended: Ended) -> Option<Ticket> {
        let Run { mut running, caller, found } = run;
        running.write_out().await;
        let mut ticket = running.take_ticket();
        self.collect_late(&mut ended);
        let unread_input = without_secrets(ended.take_unread(), self.journal.mask());
        let notices = self.journal.take_notices(found.notices);
        let cwd_missing = found.cwd_missing.clone().or(ended.cwd_missing().map(str::to_owned));
        let (forked, shell_is_alive) = (ended.may_have_forked(), ended.shell_is_alive());
        let mut conclusion = self.conclude(&running, ended, notices);
        if let Some(why) = cwd_missing.filter(|_| conclusion.delta.cwd.is_none()) {
            conclusion.notices.push(notices::cwd_missing(&self.journal.shell().cwd.to_text(), &why));
        }
        let cell = Arc::clone(&running.cell);
        conclusion.notices.extend(self.refused(&running, conclusion.exit_code));
        let changed = self.files.before_end(&mut self.journal);
        let Finished { result, seq, has_moved } =
            self.journal.finish_run(conclusion, &cell, self.late.take(), ticket.as_mut()).await;
        cell.finish(RunEnd { seq, result, unread_input });
        self.ctx.runs.remove(self.id(), cell.start.run_id.clone());
        if let Some(Caller { answer, max_output }) = caller {
            let _ = answer.send(check_owned(&self.journal).map(|()| Box::new(cell.view(max_output))));
        }
        let (mut pooled, alarm) = running.into_parts();
        self.alarm = Some(alarm);
        self.files.after_end(&mut self.journal, changed, |covers| Wanted::after_run(&cell, covers));
        if forked {
            let left = pooled.shell.descendants.settle();
            let left = left.iter().map(|stat| notices::left_process(stat, &self.ctx.boot_id)).collect();
            self.journal.left(left, self.journal.state().unkept.clone());
        }
        if shell_is_alive {
            self.phase.keep(Acquired { pooled, found: Found::default() });
            if found.cwd_missing.is_some() && !has_moved {
                self.rest(RestReason::Homeless);
            }
        } else {
            self.remnants.keep(pooled);
        }
        ticket
    }

    /// Collects what a command's processes write after its end, for the next result.
    fn collect_late(&self, ended: &mut Ended) {
        for reader in ended.take_late() {
            self.late.collect(reader, self.journal.mask().map(SessionMask::redactor));
        }
    }

    /// What the end of a run means.
    fn conclude(&self, running: &Running, mut ended: Ended, mut notices: Vec<Notice>) -> Conclusion {
        if let (Ended::Reported(report), Some(mask)) = (&mut ended, self.journal.mask())
            && mask.hide(&mut report.facts)
        {
            notices.push(notices::not_moved(&self.journal.shell().cwd.to_text()));
        }
        let limits = || process_limits_of(&self.ctx.quotas, self.journal.state().meta.agent.is_some());
        let is_shell_gone = !ended.shell_is_alive() && !matches!(ended, Ended::KilledWithSession);
        let before = Before {
            notices,
            stopped: running.stopped(),
            timeout: running.cell.start.timeout,
            met_limits: running.limits_met().processes.then(limits),
            out_of_memory: running.limits_met().memory.then(|| memory_limit(&self.ctx.quotas)),
            over_disk: self.slot.over_disk.load(Ordering::Relaxed).then(|| self.ctx.disk.notice(self.id())).flatten(),
            left_running: if is_shell_gone { notices::processes(&running.pooled.shell) } else { Vec::new() },
            unkept: if running.cell.is_detached() { Unkept::default() } else { self.journal.state().unkept.clone() },
            descriptors: notices::descriptors(&running.pooled.shell),
            storage: storage_notices(&self.journal),
        };
        conclude(before, ended)
    }

    /// What to say if a command failed and its sandbox or the limit of open files may be why.
    fn refused(&mut self, running: &Running, exit_code: i32) -> Option<Notice> {
        let (ctx, is_confined) = (&self.ctx, !running.pooled.sandbox().is_none());
        let view = || is_confined.then(|| ctx.sandboxes.view(self.journal.state()));
        let open_files = ctx.quotas.get(QuotaName::OpenFiles);
        (exit_code != 0).then(|| self.refusals.notice(&running.cell, open_files, view)).flatten()
    }

    /// The command reached its timeout: it keeps its shell and runs in the background, the session takes another.
    pub(super) async fn detach(&mut self) {
        let Some(run) = self.phase.run_mut() else { return };
        let run_id = run.running.cell.start.run_id.clone();
        let services = &self.ctx.services;
        let Some(room) =
            services.room_in_background(self.journal.state().meta.agent.as_deref(), self.journal.id(), &run_id).await
        else {
            run.found.notices.push(notices::no_room_in_background());
            return run.running.stop_at_timeout();
        };
        let Some(Run { mut running, caller, found }) = self.phase.take_run() else { return };
        let mut told = self.journal.take_notices(found.notices);
        told.push(notices::backgrounded(run_id.as_str(), running.cell.start.timeout));
        told.extend(notices::kept_in_background(&self.journal.state().unkept));
        running.cell.detach(told, running.pooled.shell.pid());
        self.journal.record(Event::RunDetached { run_id });
        self.journal.sync().await;
        if let Some(Caller { answer, max_output }) = caller {
            let _ = answer.send(Ok(Box::new(running.cell.view(max_output))));
        }
        running.detach();
        tasks::spawn(detached::drive(Arc::clone(&self.ctx), self.id().clone(), running, room));
    }

    /// A command in the background ended. What it changed in its own shell stays there; only its result is the session's.
    pub(super) async fn on_detached(&mut self, running: Running, mut ended: Ended) {
        self.collect_late(&mut ended);
        let conclusion = self.conclude(&running, ended, Vec::new());
        let changed = self.files.before_end(&mut self.journal);
        let Finished { result, seq, .. } = self.journal.finish_run(conclusion, &running.cell, None, None).await;
        running.cell.finish(RunEnd { seq, result, unread_input: Vec::new() });
        self.files.after_end(&mut self.journal, changed, |covers| Wanted::after_run(&running.cell, covers));
        self.ctx.runs.remove(self.id(), running.cell.start.run_id.clone());
        self.remnants.keep(running.pooled);
    }

    /// The idle shell exited on its own.
    pub(super) fn on_shell_ended(&mut self, exit: ExitStatus) {
        if let Some(Acquired { pooled, .. }) = self.phase.take_idle() {
            let alive = notices::processes(&pooled.shell);
            let notices = vec![notices::died_idle(exit, &alive, &self.journal.state().unkept)];
            self.journal.record(Event::ShellStopped { reason: "died".to_owned(), notices });
            self.remnants.keep(pooled);
        }
    }

    /// Drops the shell; the session sleeps until its next command.
    pub(super) async fn hibernate(&mut self, answer: Answer<SessionView>) {
        self.rest(RestReason::Hibernated);
        // Else the session would stay on a node that is drained until somebody reads it.
        self.late = Arc::default();
        if self.ctx.lifetime.is_stopping() {
            // The index of the files is saved, so that the next start need not read them again.
            self.files.let_go(&mut self.journal).await;
        }
        let _ = answer.send(Ok(self.view()));
    }

    /// Kills the command that runs, those in the background, and the shell.
    pub(super) async fn kill_everything(&mut self, queue: &Queue) {
        if let Some(run) = self.phase.take_run() {
            run.running.pooled.shell.kill_all();
            let ticket = self.finish(run, Ended::KilledWithSession).await;
            self.publish(queue);
            drop(ticket);
        }
        self.ctx.runs.kill(|id| id == self.journal.id());
        self.remnants = Remnants::default();
        self.phase.take_idle();
    }

    /// Publishes the session's status to the rest of the node.
    pub(super) fn publish(&self, queue: &Queue) {
        let state = self.journal.state();
        let in_force = state.agent_state.as_ref().map(|state| state.version);
        let can_be_had = self.slot.publish(&Published {
            pid: self.phase.shell().map_or(0, |pooled| pooled.shell.pid()),
            now_ms: self.ctx.lifetime.now_ms(),
            agent_state: in_force.unwrap_or_else(|| state.last_agent_version() + 1),
            is_running: self.phase.is_running(),
            waits: !queue.is_empty(),
        });
        if can_be_had {
            self.ctx.pool.one_is_idle();
        }
    }
}
