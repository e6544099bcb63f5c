//! The actor of one session: the task that alone changes its state and alone touches its shell. Everyone else sends it
//! messages. It lives as long as the session holds a process or has something to do, and then exits; the session stays.
//! The parts own their data: [`journal`] the state and its records, [`queue`] what waits, [`phase`] where the session is,
//! `files` the workspace. [`session`] runs commands with them; the actor itself selects and decides what is done next.

mod call;
mod checkpoint;
mod detached;
mod ending;
mod file_change;
mod files;
mod files_task;
mod files_wait;
mod fork;
mod held_notice;
mod journal;
mod keeping;
mod kept_to;
mod kv;
mod leaving;
mod merge;
mod message;
mod notes;
mod others;
mod owed;
mod panicked;
mod phase;
mod queue;
mod refusals;
mod remnants;
mod removed;
mod reported;
mod rest_reason;
mod rewind;
mod run_keys;
mod scrub;
mod services;
mod session;
mod shell;
mod slot;
mod take_over;
mod unsure;
mod why;

pub(crate) use fork::is_outside;
pub(crate) use kept_to::{all_open, is_open, reopen};
pub(crate) use kv::copy_later;
pub use message::{
    Cancellation, FileChanged, FilesTask, ForkOrder, KvTask, MAILBOX, MAX_WAITING, MergeOrder, Message, ReleaseHold,
    RunReply, ServiceFacts, ServiceNews, Started,
};
pub(crate) use others::refuse as refuse_others;
pub use rest_reason::RestReason;
pub(crate) use shell::confine;
pub use slot::Slot;

use crate::admission::Ticket;
use crate::context::SessionContext;
use crate::crash::{self, Point};
use crate::ops::*;
use crate::pending::Removal;
use crate::running::RunEvent;
use journal::Journal;
use keeping::Worked;
use leaving::LastCopy;
use panicked::OnPanic;
use phase::{Change, Phase, Wait};
use queue::{Queue, Submitted, Taken, Waiting, until};
use session::Session;
use shellkeep_session::SessionState;
use std::sync::Arc;
use take_over::MayRun;
use tokio::sync::mpsc;
use tokio::time::Instant;
use why::{TooLate, admit, not_in_time, run_of, why_waiting};

enum Happened {
    Message(Option<Message>),
    Changed(Change),
    FilesWorked(Option<Worked>),
    /// A wait is over: a command's, for the files or their copy, or for something that ran without its shell.
    WaitOver,
    Due,
}

/// The actor.
pub struct Actor {
    /// Dropped first.
    _on_panic: OnPanic,
    mailbox: mpsc::Receiver<Message>,
    queue: Queue,
    session: Session,
    /// Until when it stays though it holds nothing.
    lingers_until: Option<Instant>,
    last_copy: LastCopy,
}

impl Actor {
    /// An actor for a session at rest.
    pub(crate) fn new(
        ctx: Arc<SessionContext>,
        state: SessionState,
        mailbox: mpsc::Receiver<Message>,
        slot: Arc<Slot>,
    ) -> Self {
        let mut journal = Journal::new(Arc::clone(&ctx), state);
        let on_panic = OnPanic::new(Arc::clone(&ctx), journal.id().clone(), Arc::clone(&slot));
        panicked::end_unfinished(&ctx, &mut journal);
        let session = Session::new(ctx, journal, slot);
        let (queue, last_copy) = (Queue::default(), LastCopy::default());
        Self { _on_panic: on_panic, mailbox, queue, session, lingers_until: None, last_copy }
    }

    /// Serves until the session holds nothing and no message can arrive.
    pub async fn serve(mut self) {
        services::restart_moved(&self.session.ctx, &self.session.journal);
        loop {
            match self.next().await {
                Happened::Message(Some(message)) => self.on_message(message).await,
                Happened::Message(None) => return,
                Happened::Changed(Change::Run(event)) => self.on_run_event(event).await,
                Happened::Changed(Change::ShellEnded(exit)) => self.session.on_shell_ended(exit),
                // Whether there is a shell is checked when the command has its permit.
                Happened::Changed(Change::ShellFreed) => self.session.phase.set_wait(Wait::RetryPending),
                Happened::Changed(Change::Permit(permit)) => self.on_permit(permit).await,
                Happened::WaitOver => self.refuse_expired(),
                Happened::FilesWorked(worked) => {
                    self.session.files.on_worked(&mut self.session.journal, worked);
                    checkpoint::make_room(&mut self.session.files, &mut self.session.journal).await;
                }
                Happened::Due => {
                    let now = Instant::now();
                    self.lingers_until = self.lingers_until.filter(|until| *until > now);
                    self.session.journal.on_due(now);
                    take_over::end_expired(&mut self.session.journal, &mut self.queue);
                }
            }
            self.start_waiting().await;
            self.session.publish(&self.queue);
            if self.holds_only_files() {
                self.session.files.leave();
            }
            while self.holds_nothing() && (self.session.phase.is_gone() || self.mailbox.is_empty()) {
                if self.leave() {
                    return;
                }
                // A task that has a sender uses it at once, or is gone.
                tokio::time::sleep(leaving::LAST_LOOK).await;
            }
        }
    }

    async fn next(&mut self) -> Happened {
        let session = &mut self.session;
        // Admission handles the expiry of a command that waits for its permit.
        let has_permit_line = matches!(session.phase.wait(), Wait::Permit { .. });
        let expired = until(self.queue.next_expiry(usize::from(has_permit_line)));
        // An expired wait was handled already; it must not make this loop spin.
        let wait_ends = || session.files.wait_until(self.queue.first_expires()).filter(|end| *end > Instant::now());
        let wait_ended = until(if self.queue.is_empty() { None } else { wait_ends() });
        let hold_expires = take_over::ends_at(&session.journal, &self.queue);
        let due = until(session.journal.due().into_iter().chain(self.lingers_until).chain(hold_expires).min());
        tokio::select! {
            biased;
            change = session.phase.change() => Happened::Changed(change),
            message = self.mailbox.recv() => Happened::Message(message),
            worked = session.files.worked() => Happened::FilesWorked(worked),
            () = session.remnants.changed() => Happened::WaitOver,
            () = self.last_copy.keeps_no_longer(&session.ctx, session.journal.id()) => Happened::WaitOver,
            () = expired => Happened::WaitOver,
            () = wait_ended => Happened::WaitOver,
            () = due => Happened::Due,
        }
    }

    fn is_busy(&self) -> bool {
        self.session.phase.is_running() || !self.queue.is_empty()
    }

    fn holds_nothing(&mut self) -> bool {
        if self.session.phase.is_gone() {
            return true;
        }
        let is_done = self.holds_only_files() && self.session.files.is_off();
        // It is told in any case: it counts from when nothing else keeps the session.
        !self.last_copy.keeps(&self.session.ctx, self.session.journal.id(), is_done) && is_done
    }

    fn holds_only_files(&self) -> bool {
        let Session { ctx, phase, remnants, late, journal, .. } = &self.session;
        let stays = self.lingers_until.is_some() || journal.due().is_some() || leaving::is_kept_here(ctx, journal.id());
        let waits = !self.queue.is_empty() || self.queue.held_back() > 0;
        phase.shell().is_none() && !waits && remnants.is_empty() && late.is_over() && !stays
    }

    /// Exits, unless there is a message or a sender. Senders are created under the same lock, so no message can arrive
    /// that nobody would read.
    fn leave(&self) -> bool {
        let is_alone = || self.mailbox.is_empty() && self.mailbox.sender_strong_count() == 1;
        self.session.ctx.registry.leave(self.session.id(), || is_alone() || self.session.phase.is_gone())
    }

    /// Stays for a while.
    fn linger(&mut self) {
        self.lingers_until = leaving::lingers_until(&self.session.ctx);
    }

    async fn on_message(&mut self, message: Message) {
        if message.is_one_of_many() {
            self.linger();
        }
        let (session, queue) = (&mut self.session, &mut self.queue);
        let journal = &mut session.journal;
        match message {
            Message::Run { command, share, reply } => self.on_run(Submitted::new(command, share, reply)).await,
            Message::View(answer) => drop(answer.send(Ok(session.view()))),
            Message::Snapshot(answer) => drop(answer.send(Ok(Box::new(journal.state().clone())))),
            Message::State(answer) => drop(answer.send(Ok(session.placed_shell()))),
            Message::Hibernate(answer) => self.in_turn(Waiting::Hibernate(answer)).await,
            Message::Scrub { secret, answer } => self.in_turn(Waiting::Scrub { secret, answer }).await,
            Message::Files(task) => self.in_turn(Waiting::files(task)).await,
            Message::Cancel { request_id, answer } => drop(answer.send(Ok(self.cancel(&request_id)))),
            Message::Restart(answer) => drop(answer.send(self.restart().await)),
            Message::Destroy { removal, answer } => self.destroy(removal, answer).await,
            Message::Reclaim { ended_at, answer } => {
                // A session that is in use again stays.
                match journal.state().ended_at == Some(ended_at) && !self.is_busy() {
                    true => self.destroy(Removal::Purge, answer).await,
                    false => drop(answer.send(Ok(()))),
                }
            }
            Message::Hold { request, answer } => {
                drop(answer.send(take_over::take(journal, queue, &session.phase, request).await));
            }
            Message::Release { request, answer } => {
                drop(answer.send(take_over::release(journal, queue, request).await))
            }
            Message::MayAct { hold, answer } => drop(answer.send(take_over::may_act(journal, queue, hold.as_deref()))),
            Message::End { reason, answer } => drop(answer.send(Ok(self.end(&reason).await))),
            // The caller found another shell meanwhile.
            Message::Evict { why: RestReason::Idle, answer } if answer.is_closed() => {}
            Message::Evict { why, answer } => drop(answer.send(session.evict(why))),
            Message::Detached { running, ended } => session.on_detached(*running, ended).await,
            Message::Typed { run_id, typed, answer } => notes::typed(journal, run_id, typed, answer).await,
            Message::FilesKept(answer) => session.files.answer_when_kept(answer),
            Message::BeforeChange(answer) => file_change::before(session, answer).await,
            Message::Kv(task) => session.kv.do_task(journal, *task).await,
            Message::FileChanged { change, answer } => drop(answer.send(file_change::after(session, change).await)),
            Message::Note { events, author, answer } => {
                let _ = answer.send(notes::post_events(journal, events, &author).await);
            }
            Message::AddMessage { message, author, answer } => {
                let _ = answer.send(notes::add_message(journal, message, author).await);
            }
            Message::SaveAgentState { save, author, answer } => {
                let _ = answer.send(notes::save_agent_state(&session.ctx, journal, save, author).await);
            }
            Message::Moved => {
                session.slot.moves_away();
                self.stop_everything(&crate::cluster::moved(self.session.id())).await;
                self.session.phase = Phase::Gone;
            }
            Message::Forked { forks, answer } => notes::record_forks(journal, forks, answer).await,
            Message::Unreached { unreached, answer } => notes::unreached(journal, unreached, answer),
            Message::AgentState(answer) => drop(answer.send(Ok(journal.state().agent_state.clone()))),
            Message::StartService { request, by, answer } => {
                services::start_service(&session.ctx, journal, *request, by, answer).await;
            }
            Message::Services(answer) => drop(answer.send(Ok(journal.state().services.clone()))),
            Message::ServiceFacts(answer) => drop(answer.send(services::facts(&session.ctx, journal).await)),
            Message::Give(answer) => drop(answer.send(journal.give().await)),
            Message::ServiceNews { service_id, news, answer } => {
                if let Some(service) = services::on_service_news(journal, service_id, news).await {
                    let _ = answer.send(service);
                }
            }
        }
    }

    async fn on_run(&mut self, submitted: Submitted) {
        crash::point(Point::Accepted, submitted.command.command.as_bytes());
        let submitted = Submitted { is_late: leaving::is_free(&self.session.ctx), ..submitted };
        if !self.is_busy() || run_of(self.session.journal.state(), submitted.command.request_id.as_deref()).is_some() {
            return self.start(submitted, None).await;
        }
        if self.session.ctx.lifetime.is_draining() {
            return submitted.reply.refuse(RunError::ShuttingDown.into());
        }
        if submitted.command.if_busy == IfBusy::Reject {
            return submitted.reply.refuse(why_waiting(&self.session, WhileBusy::NotToWait));
        }
        if self.queue.is_full() {
            let (session_id, waiting) = (self.session.id().to_string(), self.queue.len());
            return submitted.reply.refuse(RunError::QueueFull { session_id, waiting }.into());
        }
        self.queue.push(Waiting::Run(submitted));
    }

    /// Starts a command if it may run now; otherwise puts it back to the front of the queue. `ticket` is set if it has waited for one.
    async fn start(&mut self, mut submitted: Submitted, ticket: Option<Ticket>) {
        let session = &mut self.session;
        if submitted.command.hang_up.as_ref().is_some_and(crate::hang_up::HangUp::is_over) {
            // Its caller is gone while it waited, so nobody needs the error.
            return drop(submitted.reply);
        }
        if let Some(request_id) = &submitted.command.request_id {
            match session.answered_before(request_id, &submitted.command).await {
                Ok(None) => {}
                Ok(Some(before)) => return submitted.reply.answer(before, &submitted.command),
                Err(error) => return submitted.reply.refuse(error),
            }
        }
        if submitted.is_late && !leaving::is_kept_here(&session.ctx, session.id()) {
            return submitted.reply.refuse(session.ctx.leaving(session.id()));
        }
        match take_over::may_run(&mut session.journal, &mut self.queue, &submitted.command) {
            MayRun::Now => {}
            MayRun::Later => return self.queue.hold_back(submitted),
            MayRun::Refused(error) => return submitted.reply.refuse(error),
        }
        if let Some(run) = session.phase.run() {
            return submitted.reply.refuse(session.busy(&run.running.cell, WhileBusy::Other));
        }
        if !session.phase.has_idle() {
            session.files.watch_before_first(&session.journal).await;
        }
        session.files.keep_outside(&session.journal);
        if ticket.is_none() && session.files.must_wait(Some(submitted.expires)) {
            return self.queue.put_back(submitted);
        }
        submitted.deduct(&session.files.wait);
        let mut ticket = match admit(session, &submitted, ticket) {
            Err(error) => return submitted.reply.refuse(not_in_time(&session.ctx, &session.phase, error)),
            Ok(None) => return self.queue.put_back(submitted),
            Ok(Some(ticket)) => ticket,
        };
        let was_woken = session.phase.wait().retry_pending();
        session.phase.set_wait(Wait::Nothing);
        match session.begin(&submitted.command, &mut ticket).await {
            Err(error) => submitted.reply.refuse(error),
            Ok(None) => {
                session.phase.set_wait(Wait::Shell(session.ctx.pool.waiter(&session.slot.agent)));
                self.queue.put_back(submitted);
            }
            Ok(Some(mut run)) => {
                run.running.hold(ticket);
                run.running.hold_share(submitted.share);
                session.ctx.admission.begun();
                if was_woken {
                    // Several shells may have become free before anybody waited for one, and only one is told of then.
                    session.ctx.pool.one_is_idle();
                }
                crash::point(Point::Begun, submitted.command.command.as_bytes());
                run.caller = submitted.reply.started(&run.running.cell, submitted.command.max_output);
                session.phase = Phase::Running(run);
            }
        }
    }

    /// Admission has decided about the first command in the queue: a ticket, or a refusal.
    async fn on_permit(&mut self, permit: Result<Ticket, OpError>) {
        let session = &mut self.session;
        session.phase.drop_permit();
        match (permit, self.queue.pop_command()) {
            (Ok(ticket), Some(submitted)) => self.start(submitted, Some(ticket)).await,
            (Err(error), Some(submitted)) => {
                submitted.reply.refuse(not_in_time(&session.ctx, &session.phase, error));
                self.first_has_left();
            }
            // Only a command waits for a permit.
            (_, None) => {}
        }
    }

    /// The first command left the queue without trying. If another one is next, it tries instead; otherwise other sessions are notified of the free shell.
    fn first_has_left(&mut self) {
        let Session { ctx, phase, .. } = &mut self.session;
        phase.drop_permit();
        if self.queue.starts_with_command() {
            return;
        }
        if phase.wait().retry_pending() {
            ctx.pool.one_is_idle();
        }
        phase.set_wait(Wait::Nothing);
    }

    fn refuse_expired(&mut self) {
        let reason = TooLate::of(&self.session);
        let expired = self.queue.take_expired(Instant::now());
        for waiting in self.taken(expired) {
            reason.refuse(waiting);
        }
        take_over::refuse(&self.session.journal, self.queue.take_held_back(Instant::now()));
    }

    /// Something was taken out of the queue, perhaps the first.
    fn taken<T>(&mut self, Taken { what, first_left }: Taken<T>) -> T {
        if first_left {
            self.first_has_left();
        }
        what
    }

    /// Refuses the command with this key if it has not started.
    fn cancel(&mut self, request_id: &str) -> Cancellation {
        if let Some(run_id) = run_of(self.session.journal.state(), Some(request_id)) {
            return Cancellation::Started(run_id);
        }
        let error = OpError::Run(RunError::Cancelled { session_id: self.session.id().to_string() });
        let refused = self.queue.refuse_request(request_id, &error);
        if self.taken(refused) { Cancellation::Done } else { Cancellation::Unknown }
    }

    async fn start_waiting(&mut self) {
        while matches!(&self.session.phase, Phase::Resting { wait, .. } if wait.is_over())
            && !self.session.files.must_wait(self.queue.first_expires())
        {
            match self.queue.pop() {
                Some(waiting) => self.do_now(waiting).await,
                None => return self.first_has_left(),
            }
        }
    }

    /// Does something as soon as nothing runs.
    async fn in_turn(&mut self, waiting: Waiting) {
        match self.is_busy() {
            true => self.queue.push(waiting),
            false => self.do_now(waiting).await,
        }
    }

    async fn do_now(&mut self, waiting: Waiting) {
        let session = &mut self.session;
        match waiting {
            Waiting::Run(submitted) => self.start(submitted, None).await,
            Waiting::Hibernate(answer) => session.hibernate(answer).await,
            // The caller is gone.
            Waiting::Files { task, .. } if task.is_abandoned() => {}
            Waiting::Files { task, .. } => {
                self.linger();
                files_task::do_files(&mut self.session, *task).await;
            }
            Waiting::Scrub { secret, answer } => {
                self.linger();
                let _ = answer.send(scrub::scrub(&mut self.session, secret).await);
            }
        }
    }

    async fn on_run_event(&mut self, event: RunEvent) {
        let session = &mut self.session;
        match event {
            RunEvent::Continue => {}
            RunEvent::Detach => session.detach().await,
            RunEvent::Typed(typed) => {
                if let Phase::Running(run) = &mut session.phase {
                    let run_id = run.running.cell.start.run_id.clone();
                    notes::record_typed(&mut session.journal, run_id, &typed).await;
                    run.running.type_in(*typed);
                }
            }
            RunEvent::Ended(ended) => {
                if let Some(run) = session.phase.take_run() {
                    crash::point(Point::Done, run.running.cell.start.command.as_bytes());
                    let ticket = session.finish(run, ended).await;
                    session.publish(&self.queue);
                    drop(ticket);
                }
            }
        }
    }
}
