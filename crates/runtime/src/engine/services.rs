//! Operations on services.

use super::access::{Access, Permitted};
use super::handle::Engine;
use super::output;
use super::parts::Parts;
use super::runs::MAX_WAIT;
use crate::actor::Message;
use crate::masked_piece::{AROUND, PieceMask};
use crate::ops::*;
use crate::page::{self, Searching};
use crate::services::{self, Order, ServiceStop, Supervised};
use crate::tasks;
use crate::validate;
use crate::work::SEARCH_TIME;
use shellkeep_process::service::log::{LogWatch, ServiceLog};
use shellkeep_record::Budget;
use shellkeep_redact::Redactor;
use shellkeep_session::{Output, RunId, Service, ServiceId, SessionId};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The time between SIGTERM and SIGKILL when a session is deleted.
const REMOVAL_GRACE: Duration = Duration::from_secs(1);
/// How long a start without a condition waits to see whether the service ends at once.
const SETTLE: Duration = Duration::from_secs(1);
/// Bytes of log that a follower gets at a time.
const FOLLOW_BYTES: u64 = 64 << 10;

/// A service's log as it grows.
pub struct LogStream {
    log: ServiceLog,
    watch: LogWatch,
    seen: Option<Arc<Supervised>>,
    offset: u64,
    /// The mask, if the host configured one. The file itself is not masked.
    redactor: Option<Redactor>,
}

impl LogStream {
    /// The next bytes; `None` when the service has ended and everything was given. May be dropped and called again.
    pub async fn next(&mut self) -> Option<Result<LogPage, OpError>> {
        loop {
            // Asked before the log is read: what it wrote before it ended is then in the log.
            let has_ended = self.seen.as_ref().is_none_or(|seen| !seen.facts().status.is_live());
            let query = LogQuery { offset: self.offset, limit: FOLLOW_BYTES, tail: None, grep: None };
            match log_page(&self.log, &query, has_ended, (Budget::unlimited(), self.redactor.clone())) {
                Ok(page) if !page.bytes.is_empty() => {
                    self.offset = page.next_offset;
                    return Some(Ok(page));
                }
                Ok(_) if has_ended => return None,
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
            let ended = async {
                match &self.seen {
                    Some(seen) => drop(seen.until(|_| false).await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.watch.changed() => {}
                () = ended => {}
            }
        }
    }
}

/// Operations on services. Each takes a service's id or its name.
pub struct ServiceOps<'a> {
    access: &'a Access,
}

impl Engine {
    /// Operations on services.
    pub fn services(&self) -> ServiceOps<'_> {
        ServiceOps { access: &self.access }
    }
}

impl ServiceOps<'_> {
    /// Starts a service with the session's directory, variables and functions.
    pub fn start<'a>(
        &'a self,
        id: &'a SessionId,
        request: StartService,
    ) -> BoxFuture<'a, Result<ServiceView, OpError>> {
        Box::pin(async move {
            validate::service(&request)?;
            let Permitted { parts, id } = self.access.over(id)?;
            parts.ctx.lifetime.check_accepting()?;
            self.access.audit("start_service", id.as_str());
            let (wait, has_ready) = (request.wait.min(MAX_WAIT), request.ready.is_some());
            let (request, by) = (Box::new(request), self.access.scope().token().map(str::to_owned));
            let seen = parts.ctx.registry.ask(&id, |answer| Message::StartService { request, by, answer }).await?;
            let settled =
                seen.until(|service| has_ready && service.status == shellkeep_session::ServiceStatus::Running);
            // Without a condition it is ready as soon as it runs; a wrong command fails at once.
            let wait = if has_ready { wait } else { wait.min(SETTLE) };
            let _ = tokio::time::timeout(wait, settled).await;
            view(parts, seen).await
        })
    }

    /// Stops a service and everything it started: SIGTERM, and SIGKILL after `grace`.
    pub fn stop<'a>(
        &'a self,
        id: &'a SessionId,
        service: &'a str,
        grace: Duration,
    ) -> BoxFuture<'a, Result<ServiceView, OpError>> {
        Box::pin(async move { stop(self.access, id, service, grace).await })
    }

    /// A session's services: running ones, and those that ended recently, in the order they were started.
    pub fn list<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<Vec<ServiceView>, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            let known = services_of(parts, &id).await?;
            let live = parts.ctx.services.views(parts.ctx.services.list(|seen| seen.session_id == *id)).await;
            let mut views: BTreeMap<ServiceId, ServiceView> =
                live.into_iter().map(|view| (view.service_id.clone(), view)).collect();
            let agent = parts.ctx.names.agent_of(&id);
            for (service_id, service) in known {
                views.entry(service_id).or_insert_with_key(|service_id| {
                    let directory = parts.ctx.data_dir.service(&id, service_id);
                    let view = services::stored_view(&id, agent.as_deref(), service_id, &service, &directory);
                    parts.ctx.masking.service(view)
                });
            }
            let mut views: Vec<ServiceView> = views.into_values().collect();
            views.extend(parts.ctx.services.background.views(|session| session == &*id).await);
            views.sort_by_key(|view| view.started_at);
            Ok(views)
        })
    }

    /// One service; waits up to `wait` until it is ready or has ended.
    pub fn get<'a>(
        &'a self,
        id: &'a SessionId,
        service: &'a str,
        wait: Duration,
    ) -> BoxFuture<'a, Result<ServiceView, OpError>> {
        Box::pin(async move {
            let service_id = &known_as(self.access, id, service).await?;
            let Permitted { parts, id } = self.access.over(id)?;
            let in_background = parts.ctx.services.background.views(|session| session == &*id).await;
            if let Some(view) = in_background.into_iter().find(|view| view.service_id == *service_id) {
                return Ok(view);
            }
            let Some(seen) = parts.ctx.services.find(&id, service_id) else {
                return stored_service(parts, &id, service_id).await;
            };
            let ready = seen.until(|service| service.status == shellkeep_session::ServiceStatus::Running);
            let _ = tokio::time::timeout(wait.min(MAX_WAIT), ready).await;
            view(parts, seen).await
        })
    }

    /// The id of the service with this name, if there is one.
    pub fn named<'a>(&'a self, id: &'a SessionId, name: &'a str) -> BoxFuture<'a, Option<ServiceId>> {
        Box::pin(async move { known_as(self.access, id, name).await.ok() })
    }

    /// Running services of all sessions; an agent sees its own. `agent` filters.
    pub fn all<'a>(&'a self, agent: Option<&'a str>) -> BoxFuture<'a, Result<Vec<ServiceView>, OpError>> {
        Box::pin(async move {
            let parts = self.access.at_large();
            if let Some(own) = self.access.scope().only_session() {
                return if agent.is_some() { Ok(Vec::new()) } else { self.list(own).await };
            }
            let own = self.access.scope().agent();
            let wanted = |seen: &Supervised| {
                own.is_none_or(|own| seen.agent() == Some(own)) && agent.is_none_or(|asked| seen.agent() == Some(asked))
            };
            let mut views = parts.ctx.services.views(parts.ctx.services.list(wanted)).await;
            let wanted = |id: &SessionId| {
                let whose = parts.ctx.names.agent_of(id);
                own.is_none_or(|own| whose.as_deref() == Some(own))
                    && agent.is_none_or(|asked| whose.as_deref() == Some(asked))
            };
            views.extend(parts.ctx.services.background.views(wanted).await);
            Ok(views)
        })
    }

    /// Reads a service's log.
    pub fn log<'a>(
        &'a self,
        id: &'a SessionId,
        service: &'a str,
        query: LogQuery,
    ) -> BoxFuture<'a, Result<LogPage, OpError>> {
        Box::pin(async move {
            let service_id = &known_as(self.access, id, service).await?;
            let Permitted { parts, id } = self.access.over(id)?;
            if let Some(cell) = parts.ctx.services.background.find(&id, service_id) {
                return self.background_log(&id, &cell.start.run_id, query).await;
            }
            let (directory, seen) = log_of(parts, &id, service_id).await?;
            let complete = seen.is_none_or(|seen| !seen.facts().status.is_live());
            let mask = parts.ctx.secrets.mask_of(&id).await?;
            let reading =
                move |budget: &Budget| log_page(&ServiceLog::at(directory), &query, complete, (budget.clone(), mask));
            parts.work.short(self.access.scope().agent(), Some(SEARCH_TIME), reading).await?
        })
    }

    /// The log of a command in the background: its standard output.
    async fn background_log(&self, id: &SessionId, run_id: &RunId, query: LogQuery) -> Result<LogPage, OpError> {
        let LogQuery { offset, limit, tail, grep } = query;
        let query = OutputQuery { stream: Stream::Stdout, offset, limit, tail, grep };
        let OutputPage { bytes, offset, next_offset, total, complete, .. } =
            output::read(self.access, id, run_id, query).await?;
        Ok(LogPage { bytes, offset, next_offset, first: 0, total, complete })
    }

    /// Follows a service's log from `offset`, or from `tail` on.
    pub fn follow_log<'a>(
        &'a self,
        id: &'a SessionId,
        service: &'a str,
        offset: u64,
        tail: Option<Tail>,
    ) -> BoxFuture<'a, Result<LogStream, OpError>> {
        Box::pin(async move {
            let service_id = &known_as(self.access, id, service).await?;
            let Permitted { parts, id } = self.access.over(id)?;
            if let Some(cell) = parts.ctx.services.background.find(&id, service_id) {
                let detail =
                    format!("'{}' is a command in the background; read its output as a run's", cell.start.run_id);
                return Err(OpError::Invalid { detail });
            }
            let (directory, seen) = log_of(parts, &id, service_id).await?;
            let watch = LogWatch::new(&directory);
            let log = ServiceLog::at(directory.clone());
            let redactor = parts.ctx.secrets.mask_of(&id).await?;
            let mask = redactor.clone();
            let find = move |budget: &Budget| {
                let query = LogQuery { offset, limit: 0, tail, grep: None };
                let page = log_page(&ServiceLog::at(directory), &query, false, (budget.clone(), mask));
                page.map(|page| page.offset)
            };
            let offset = match tail {
                None => offset,
                Some(_) => parts.work.short(self.access.scope().agent(), Some(SEARCH_TIME), find).await??,
            };
            Ok(LogStream { log, watch, seen, offset, redactor })
        })
    }
}

/// Stops a service and everything it started: SIGTERM, and SIGKILL after `grace`.
pub(super) async fn stop(
    access: &Access,
    id: &SessionId,
    service: &str,
    grace: Duration,
) -> Result<ServiceView, OpError> {
    let service_id = &known_as(access, id, service).await?;
    let Permitted { parts, id } = access.over(id)?;
    access.audit("stop_service", id.as_str());
    if let Some(cell) = parts.ctx.services.background.find(&id, service_id) {
        return Ok(parts.ctx.services.background.stop(&id, &cell, grace.min(MAX_STOP_GRACE)).await);
    }
    let Some(seen) = parts.ctx.services.find(&id, service_id) else {
        return stored_service(parts, &id, service_id).await;
    };
    seen.tell(Order::Stop { grace: grace.min(MAX_STOP_GRACE), reason: ServiceStop::Asked }).await;
    seen.until(|_| false).await;
    view(parts, seen).await
}

/// The id of a service that is named by its id or its name, which may be any text. Of several with one name it is the one
/// that runs, otherwise the newest.
async fn known_as(access: &Access, id: &SessionId, service: &str) -> Result<ServiceId, OpError> {
    if let Some(known) = ServiceId::parse(service).ok().filter(ServiceId::is_assigned) {
        return Ok(known);
    }
    let views = ServiceOps { access }.list(id).await?;
    let named = views.into_iter().filter(|view| view.name == service);
    if let Some(found) = named.max_by_key(|view| (view.status.is_live(), view.started_at)) {
        return Ok(found.service_id);
    }
    let Permitted { id, .. } = access.over(id)?;
    Err(ServiceError::NotFound { session_id: id.to_string(), service_id: service.to_owned() }.into())
}

async fn view(parts: &Parts, seen: Arc<Supervised>) -> Result<ServiceView, OpError> {
    let mut views = parts.ctx.services.views(vec![seen]).await;
    views.pop().ok_or_else(|| OpError::Internal { detail: "cannot read the state of a service".to_owned() })
}

/// A page of a log: like a run's output, but with its beginning gone instead of its middle. With a mask, the log of a
/// service that runs ends where what follows could still make a secret of it.
fn log_page(
    log: &ServiceLog,
    query: &LogQuery,
    complete: bool,
    (budget, redactor): (Budget, Option<Redactor>),
) -> Result<LogPage, OpError> {
    let unreadable = |error: std::io::Error| OpError::StoreUnavailable { reason: format!("the log: {error}") };
    let (first, mut total) = log.bounds().map_err(unreadable)?;
    if let Some(redactor) = redactor.as_ref().filter(|_| !complete) {
        let (at, end) = log.tail(AROUND).map_err(unreadable)?;
        total = at + redactor.settled(&end) as u64;
    }
    let searching = Searching { budget, mask: redactor.map(|redactor| PieceMask { redactor, first }) };
    let offset = query.offset.max(first);
    let stream = Output { total, kept: total, ..Output::default() };
    let output =
        OutputQuery { stream: Stream::Stdout, offset, limit: query.limit, tail: query.tail, grep: query.grep.clone() };
    let read = |offset: u64, limit: usize| {
        // Not what was written since `bounds`: the page ends where it says.
        let there = usize::try_from(total.saturating_sub(offset)).unwrap_or(usize::MAX);
        let (start, bytes) = log.read(offset, limit.min(there))?;
        // What was rotated away since `bounds` is a hole; the reader continues after it.
        Ok(if start == offset { bytes } else { Vec::new() })
    };
    let page = page::page(&stream, complete, &output, &searching, read).map_err(|error| error.told(unreadable))?;
    let OutputPage { bytes, offset, next_offset, total, complete, .. } = page;
    Ok(LogPage { bytes, offset, next_offset, first, total, complete })
}

async fn services_of(parts: &Parts, id: &SessionId) -> Result<BTreeMap<ServiceId, Service>, OpError> {
    match parts.ctx.registry.ask_awake(id, Message::Services).await {
        Some(services) => services,
        None => parts.stored.load(id).await.map(|state| state.services),
    }
}

async fn stored_service(parts: &Parts, id: &SessionId, service_id: &ServiceId) -> Result<ServiceView, OpError> {
    let known = services_of(parts, id).await?;
    let service = known.get(service_id).ok_or_else(|| {
        OpError::Service(ServiceError::NotFound { session_id: id.to_string(), service_id: service_id.to_string() })
    })?;
    let directory = parts.ctx.data_dir.service(id, service_id);
    let view = services::stored_view(id, parts.ctx.names.agent_of(id).as_deref(), service_id, service, &directory);
    Ok(parts.ctx.masking.service(view))
}

async fn log_of(
    parts: &Parts,
    id: &SessionId,
    service_id: &ServiceId,
) -> Result<(PathBuf, Option<Arc<Supervised>>), OpError> {
    let seen = parts.ctx.services.find(id, service_id);
    if seen.is_none() {
        stored_service(parts, id, service_id).await?;
    }
    Ok((parts.ctx.data_dir.service(id, service_id), seen))
}

/// Stops the services of a session that is being deleted, and its commands in the background.
pub(super) async fn stop_services_of(parts: &Parts, id: &SessionId) {
    stop_with_session(parts, id).await;
    parts.ctx.services.background.stop_all(REMOVAL_GRACE, |other| other == id).await;
}

/// Stops services that were started while their session was being deleted. They could not be stopped later.
pub(super) async fn stop_latecomers(parts: &Parts, id: &SessionId) {
    if stop_with_session(parts, id).await > 0 {
        let logs = parts.ctx.data_dir.services(id);
        let _ = tasks::blocking(move || std::fs::remove_dir_all(logs)).await;
    }
}

async fn stop_with_session(parts: &Parts, id: &SessionId) -> usize {
    parts.ctx.services.stop(REMOVAL_GRACE, ServiceStop::SessionEnded, |seen| seen.session_id == *id).await
}

pub(super) async fn end_session(parts: &Parts, id: &SessionId, reason: &str) -> Result<SessionView, OpError> {
    let reason = reason.to_owned();
    let view = parts.ctx.registry.ask(id, |answer| Message::End { reason, answer }).await?;
    parts.ctx.disk.note_ended(id);
    Ok(view)
}
