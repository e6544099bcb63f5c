//! An owner's commands: accepted, begun, finished, sent to the background, waiting.

use super::call::call;
use super::{MAX_WAITING, Message, Owner, RunReply, Started, Waiting};
use crate::admission::{Asked, Ticket};
use crate::alarm::Alarm;
use crate::cell::{self, NewCell, RunCell, RunControl};
use crate::checkpoints::Wanted;
use crate::conclude::{Before, Ended, ProcessLimits, conclude};
use crate::crash::{self, Point};
use crate::masking::SessionMask;
use crate::notices;
use crate::ops::{DEFAULT_MAX_OUTPUT, IfBusy, OpError, RunCommand};
use crate::running::{Running, Step};
use crate::stored::read_error;
use shellkeep_process::{RunSpec, Stdin};
use shellkeep_redact::Redactor;
use shellkeep_session::{ActiveRun, ByteString, Event, Notice, QuotaName, RunId, RunResult, ShellDelta};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::time::Instant;

impl Owner {
    pub(super) async fn on_run(&mut self, command: Box<RunCommand>, reply: RunReply) {
        crash::point(Point::Accepted, command.command.as_bytes());
        let is_running = |run: &ActiveRun| run.request_id.is_some() && run.request_id == command.request_id;
        if !self.is_busy() || self.state.active_runs.values().any(is_running) {
            let expires = Instant::now() + command.timeout;
            return self.start(command, reply, expires, None).await;
        }
        if command.if_busy == IfBusy::Reject {
            return reply.refuse(self.why_waiting());
        }
        if self.waiting.len() >= MAX_WAITING {
            let waiting = self.waiting.len();
            return reply.refuse(OpError::QueueFull { session_id: self.id.to_string(), waiting });
        }
        let expires = Instant::now() + command.timeout;
        self.waiting.push_back(Waiting::Run { command, reply, expires });
    }

    /// What a command that cannot run now is waiting for.
    fn why_waiting(&self) -> OpError {
        match (&self.running, &self.at_gate) {
            (Some((running, ..)), _) => self.busy(&running.cell.run_id),
            (None, Some(waiter)) => waiter.overloaded(),
            (None, None) => self.engine.shells.why_none(),
        }
    }

    pub(super) fn busy(&self, run_id: &RunId) -> OpError {
        OpError::Busy { session_id: self.id.to_string(), run_id: run_id.to_string() }
    }

    /// The run that an earlier call with the same key started.
    pub(super) async fn answered_before(
        &self,
        request_id: &str,
        command: &RunCommand,
    ) -> Result<Option<Started>, OpError> {
        let redactor = self.mask.as_ref().map(|mask| mask.for_run(command));
        // What was kept of the first one may be masked, by what was known then.
        let masked = |text: &ByteString| redactor.as_ref().map(|redactor| redactor.redact(text.as_bytes()));
        let same = |text: &ByteString| {
            if *text == command.command || (redactor.is_some() && masked(text) == masked(&command.command)) {
                return Ok(());
            }
            Err(OpError::RequestIdReused { request_id: request_id.to_owned() })
        };
        for (run_id, run) in &self.state.active_runs {
            if run.request_id.as_deref() == Some(request_id) {
                same(&run.command)?;
                return Ok(self.engine.runs.get(&self.id, run_id).map(Started::Live));
            }
        }
        let stored = self.engine.store.run_by_request(&self.id, request_id).await;
        let Some(mut run) = stored.map_err(|error| read_error(&self.id, error))? else { return Ok(None) };
        same(&run.command)?;
        self.engine.kept_files.check_run(&self.id, &mut run).await?;
        // A watcher of a run that ended before gets its output from the result, so there must be some in it.
        let max_output = if command.max_output == 0 { DEFAULT_MAX_OUTPUT } else { command.max_output };
        let view = cell::stored_view(&run, &self.outputs, max_output, &self.state.shell.cwd);
        Ok(Some(Started::Before(Box::new(view))))
    }

    /// Begins a command if it may run now, and else puts it first in line. `ticket` is there if it has waited for it.
    pub(super) async fn start(
        &mut self,
        mut command: Box<RunCommand>,
        reply: RunReply,
        expires: Instant,
        ticket: Option<Ticket>,
    ) {
        if let Some(request_id) = &command.request_id {
            match self.answered_before(request_id, &command).await {
                Ok(None) => {}
                Ok(Some(before)) => return reply.answer(before, &command),
                Err(error) => return reply.refuse(error),
            }
        }
        if let Some((running, ..)) = &self.running {
            return reply.refuse(self.busy(&running.cell.run_id));
        }
        self.watch_before_first().await;
        if ticket.is_none() && self.files.holds(Some(expires)) {
            return self.waiting.push_front(Waiting::Run { command, reply, expires });
        }
        self.take_off_wait(&mut command, expires);
        let ticket = match self.admit(&command, expires, ticket) {
            Err(error) => return reply.refuse(self.not_in_time(error)),
            Ok(None) => return self.waiting.push_front(Waiting::Run { command, reply, expires }),
            Ok(Some(ticket)) => ticket,
        };
        self.owes_a_try = false;
        match self.begin(&command).await {
            Err(error) => reply.refuse(error),
            Ok(None) => {
                self.starved = Some(self.engine.pool.listen(&self.slot.agent));
                self.waiting.push_front(Waiting::Run { command, reply, expires });
            }
            Ok(Some(mut running)) => {
                running.hold(ticket);
                self.engine.admission.begun();
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

    /// Asks for a ticket; `None` if it must be waited for.
    fn admit(
        &mut self,
        command: &RunCommand,
        expires: Instant,
        ticket: Option<Ticket>,
    ) -> Result<Option<Ticket>, OpError> {
        if ticket.is_some() {
            return Ok(ticket);
        }
        if command.if_busy == IfBusy::Reject {
            return self.engine.admission.ask_now(&self.slot.agent).map(Some);
        }
        match self.engine.admission.ask(&self.slot.agent, expires)? {
            Asked::Granted(ticket) => Ok(Some(ticket)),
            Asked::Waits(waiter) => {
                self.at_gate = Some(waiter);
                Ok(None)
            }
        }
    }

    /// The node has room for the command that waited first in line, or will not have it in time.
    pub(super) async fn on_turn(&mut self, turn: Result<Ticket, OpError>) {
        self.at_gate = None;
        match (turn, self.waiting.pop_front()) {
            (Ok(ticket), Some(Waiting::Run { command, reply, expires })) => {
                self.start(command, reply, expires, Some(ticket)).await;
            }
            (Err(error), Some(Waiting::Run { reply, .. })) => {
                reply.refuse(self.not_in_time(error));
                self.first_has_left();
            }
            // Only a command has a place at the gate.
            (_, Some(other)) => self.waiting.push_front(other),
            (_, None) => {}
        }
    }

    /// Why a command was not run in its time: a node that has no room for one that had waited for a shell was short of
    /// shells first.
    fn not_in_time(&self, error: OpError) -> OpError {
        let waited_for_shell = self.owes_a_try && matches!(error, OpError::Overloaded { .. });
        if waited_for_shell { self.engine.shells.why_none() } else { error }
    }

    /// There may be a shell; whether there is one is seen when the command's turn has come.
    pub(super) fn on_shell_freed(&mut self) {
        self.starved = None;
        self.owes_a_try = true;
    }

    /// The first in line has gone without a try. If another command is next, it asks and tries in its place; if none is,
    /// others hear of the shell.
    pub(super) fn first_has_left(&mut self) {
        self.at_gate = None;
        if matches!(self.waiting.front(), Some(Waiting::Run { .. })) {
            return;
        }
        self.starved = None;
        if std::mem::take(&mut self.owes_a_try) {
            self.engine.pool.one_is_idle();
        }
    }

    /// Gives the command to a shell; `None` if there is no shell to be had now.
    pub(super) async fn begin(&mut self, command: &RunCommand) -> Result<Option<Running>, OpError> {
        let cwd = command.cwd.as_ref().map(|cwd| self.resolve_cwd(cwd)).transpose()?;
        let Some(mut worn) = self.shell_for(cwd.is_none()).await? else { return Ok(None) };
        let stdin = match (&command.stdin, command.tty, command.blocking) {
            (_, true, _) => Stdin::Terminal,
            (Some(bytes), ..) => Stdin::Given(bytes.as_bytes()),
            (None, _, false) => Stdin::Open,
            (None, _, true) => Stdin::Empty,
        };
        let takes_input = matches!(stdin, Stdin::Open | Stdin::Terminal);
        // Before the start is recorded: a command whose pipes cannot be made has not run, and its caller is told so.
        let ends = match worn.shell.prepare(stdin) {
            Ok(ends) => ends,
            Err(error) => {
                self.idle = Some(worn);
                return self.engine.shells.no_pipes(error);
            }
        };
        self.files.overtake();
        let redactor = self.mask.as_ref().map(|mask| mask.for_run(command));
        let text = match &redactor {
            Some(redactor) => ByteString(redactor.redact(command.command.as_bytes())),
            None => command.command.clone(),
        };
        self.tell_lost();
        let run_id = RunId::from_seq(self.state.seq + 1);
        self.put(Event::RunStarted {
            run_id: run_id.clone(),
            request_id: command.request_id.clone(),
            command: text.clone(),
            call: call(command, redactor.as_ref()),
            by: command.by.clone(),
            files_unkept: self.files.owed.is_some(),
        });
        self.sync().await;
        crash::point(Point::StartRecorded, command.command.as_bytes());
        let (cell, controls) = self.new_cell(&run_id, command, text, takes_input, redactor);
        let cell = Arc::new(cell);
        let env: Vec<_> =
            command.env.iter().map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes())).collect();
        let spec = RunSpec { command: command.command.as_bytes(), cwd: cwd.as_deref(), env: &env };
        let input = match worn.shell.begin(spec, ends).await {
            Ok(input) => input,
            Err(error) => {
                // The shell died between two commands. What it did with this one is not known, so it is not repeated.
                tracing::warn!(session = %self.id, %error, "the shell could not be given the command");
                None
            }
        };
        self.engine.runs.insert(&self.id, run_id, Arc::clone(&cell));
        let alarm = match self.alarm.take() {
            Some(mut alarm) => {
                alarm.set(command.timeout);
                alarm
            }
            None => Alarm::after(command.timeout),
        };
        if let (true, Some(bytes)) = (command.tty, &command.stdin) {
            // A terminal is typed into; the queue is new, so there is room.
            let _ = cell.control.try_send(RunControl::Input { bytes: bytes.0.clone(), end: true, typist: None });
        }
        Ok(Some(Running::new(worn, cell, controls, input, alarm, command.on_timeout)))
    }

    fn new_cell(
        &self,
        run_id: &RunId,
        command: &RunCommand,
        text: ByteString,
        takes_input: bool,
        redactor: Option<Redactor>,
    ) -> (RunCell, mpsc::Receiver<RunControl>) {
        RunCell::new(NewCell {
            run_id: run_id.clone(),
            seq: self.state.seq,
            command: text,
            takes_input,
            is_terminal: command.tty,
            timeout: command.timeout,
            cwd: self.state.shell.cwd.clone(),
            by: command.by.clone(),
            directory: Arc::clone(&self.outputs),
            limit: self.engine.quotas.get(QuotaName::OutputBytesPerRun),
            redactor,
            tool_name: command.tool_name.clone(),
        })
    }

    pub(super) async fn on_step(&mut self, step: Step) {
        match step {
            Step::Continue => {}
            Step::Detach => self.detach().await,
            Step::Typed(typed) => {
                if let Some((running, ..)) = &self.running {
                    let run_id = running.cell.run_id.clone();
                    self.note_typed(run_id, &typed).await;
                }
                if let Some((running, ..)) = &mut self.running {
                    running.type_in(*typed);
                }
            }
            Step::Ended(ended) => {
                if let Some((running, reply, max_output)) = self.running.take() {
                    crash::point(Point::Done, running.cell.command.as_bytes());
                    self.finish_run(running, ended, reply, max_output).await;
                }
            }
        }
    }

    pub(super) async fn finish_run(
        &mut self,
        running: Running,
        mut ended: Ended,
        reply: Option<RunReply>,
        max_output: usize,
    ) {
        for reader in ended.take_late() {
            self.late.collect(reader, self.mask.as_ref().map(SessionMask::redactor));
        }
        let mut notices = self.state.pending_notices.clone();
        notices.append(&mut self.fresh_notices);
        let homeless = self.homeless.take();
        if let Some(why) = &homeless {
            notices.push(notices::cwd_missing(&self.state.shell.cwd.to_text(), why));
        }
        let (forked, shell_is_alive) = (ended.may_have_forked(), ended.shell_is_alive());
        let late = self.late.take();
        let (result, delta) = self.conclude(&running, ended, notices, late);
        let is_astray = homeless.is_some() && delta.cwd.is_none();
        self.engine.sync_files(running.cell.files()).await;
        let run_id = running.cell.run_id.clone();
        let cell = Arc::clone(&running.cell);
        let mut result = Box::new(result);
        if let Some(notice) =
            self.record(Event::RunFinished { run_id: run_id.clone(), result: result.clone(), delta: Box::new(delta) })
        {
            result.notices.push(notice);
        }
        let seq = self.state.seq;
        crash::point(Point::ResultRecorded, cell.command.as_bytes());
        self.sync_before(&mut result).await;
        cell.finish(seq, *result);
        self.engine.runs.remove(&self.id, run_id);
        if let Some(RunReply::AtEnd(answer)) = reply {
            let _ = answer.send(Ok(cell.view(max_output)));
        }
        let (mut worn, alarm, ticket) = running.into_parts();
        self.alarm = Some(alarm);
        self.keep_files(|covers| Wanted::after_run(&cell, covers));
        if forked {
            self.note_processes(&mut worn);
        }
        if shell_is_alive {
            self.idle = Some(worn);
            if is_astray {
                self.rest("no_directory", "the last one was not in the session's directory, which was gone");
            }
        } else if !worn.shell.others().is_empty() {
            self.remnants.push(worn);
        }
        // Whoever gets the ticket next may need this shell's place, so they must see first that it can be had.
        self.publish();
        drop(ticket);
    }

    /// The result of a run that ended, and what it changed in the session.
    fn conclude(
        &mut self,
        running: &Running,
        ended: Ended,
        notices: Vec<Notice>,
        late: Option<ByteString>,
    ) -> (RunResult, ShellDelta) {
        let limits = || ProcessLimits {
            session: self.engine.quotas.get(QuotaName::SessionProcesses),
            node: self.engine.quotas.get(QuotaName::Processes),
        };
        let is_shell_gone = !ended.shell_is_alive() && !matches!(ended, Ended::KilledWithSession);
        let before = Before {
            notices,
            stopped: running.stopped(),
            timeout: running.cell.timeout,
            met_limits: running.met_process_limit().then(limits),
            over_disk: self.disk_notice(),
            left_running: if is_shell_gone { notices::processes(&running.worn.shell) } else { Vec::new() },
            storage: [self.record_notice(), self.engine.data_dir.notice()],
        };
        let mut conclusion = conclude(before, ended);
        if let Some(mask) = &mut self.mask {
            if mask.learn(&conclusion.delta) {
                running.cell.mask_again(mask.redactor());
            }
            mask.last_word(&mut conclusion.delta);
        }
        conclusion.notices.extend(self.fit(&mut conclusion.delta));
        let (mut result, delta) = conclusion.into_result(&self.state.shell, &running.cell, late);
        if let Some(mask) = &self.mask {
            mask.result(&mut result);
        }
        (result, delta)
    }

    /// The command outgrew its time: it keeps its shell, the session takes another.
    pub(super) async fn detach(&mut self) {
        let Some((mut running, reply, max_output)) = self.running.take() else { return };
        if !self.engine.services.has_room_in_background(self.state.meta.agent.as_deref(), &self.id) {
            self.fresh_notices.push(notices::no_room_in_background());
            running.stop_at_timeout();
            self.running = Some((running, reply, max_output));
            return;
        }
        let run_id = running.cell.run_id.clone();
        running.cell.detach(notices::backgrounded(run_id.as_str(), running.cell.timeout));
        self.record(Event::RunDetached { run_id });
        self.sync().await;
        if let Some(RunReply::AtEnd(answer)) = reply {
            let _ = answer.send(Ok(running.cell.view(max_output)));
        }
        running.detach();
        self.homeless = None;
        self.drive_apart(running);
    }

    /// Drives a run beside the session; its end comes back as a message.
    pub(super) fn drive_apart(&self, mut running: Running) {
        let (engine, id) = (Arc::clone(&self.engine), self.id.clone());
        tokio::spawn(async move {
            loop {
                match running.step().await {
                    Step::Ended(ended) => {
                        engine.sync_files(running.cell.files()).await;
                        return engine
                            .registry
                            .deliver(&id, Message::Detached { running: Box::new(running), ended })
                            .await;
                    }
                    Step::Typed(typed) => {
                        let run_id = running.cell.run_id.clone();
                        let noted = engine.registry.ask(&id, |answer| Message::Typed { run_id, typed, answer }).await;
                        // What is not recorded is not typed.
                        if let Ok(typed) = noted {
                            running.type_in(*typed);
                        }
                    }
                    Step::Continue | Step::Detach => {}
                }
            }
        });
    }

    /// What a command in the background changed in its own shell stays there; only its result is the session's.
    pub(super) fn on_detached(&mut self, running: Running, ended: Ended) {
        let (result, _) = self.conclude(&running, ended, Vec::new(), None);
        let run_id = running.cell.run_id.clone();
        self.record(Event::RunFinished {
            run_id: run_id.clone(),
            result: Box::new(result.clone()),
            delta: Box::default(),
        });
        running.cell.finish(self.state.seq, result);
        self.keep_files(|covers| Wanted::after_run(&running.cell, covers));
        self.engine.runs.remove(&self.id, run_id);
        if !running.worn.shell.others().is_empty() {
            self.remnants.push(running.worn);
        }
    }

    pub(super) async fn start_waiting(&mut self) {
        while self.can_start_next() {
            match self.waiting.pop_front() {
                Some(Waiting::Run { command, reply, expires }) => self.start(command, reply, expires, None).await,
                Some(Waiting::Hibernate(answer)) => self.hibernate(answer).await,
                Some(Waiting::Files(task)) => self.do_files(*task).await,
                Some(Waiting::Scrub { secret, answer }) => self.scrub(secret, answer).await,
                None => return self.first_has_left(),
            }
        }
    }

    fn can_start_next(&self) -> bool {
        let waits_for_files = || self.files.holds(self.waiting.front().and_then(Waiting::expires));
        self.running.is_none() && !self.over && self.at_gate.is_none() && self.starved.is_none() && !waits_for_files()
    }

    pub(super) fn refuse_expired(&mut self) {
        let reason = self.why_waiting();
        let now = Instant::now();
        let first = self.waiting.front().and_then(Waiting::expires);
        let (expired, rest): (Vec<_>, Vec<_>) =
            self.waiting.drain(..).partition(|waiting| waiting.expires().is_some_and(|at| at <= now));
        self.waiting = rest.into();
        if self.waiting.front().and_then(Waiting::expires) != first {
            self.first_has_left();
        }
        for waiting in expired {
            if let Waiting::Run { reply, .. } = waiting {
                reply.refuse(reason.clone());
            }
        }
    }
}
