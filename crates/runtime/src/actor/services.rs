//! A session's services: started here, and what their supervisors learn is recorded here.

use super::call::check_env;
use super::journal::{Journal, check_owned};
use super::message::{ServiceFacts, ServiceNews};
use super::shell::{check_cwd, confine, make_workspace, resolve_cwd};
use crate::context::SessionContext;
use crate::given_secrets::MOST_FILLED;
use crate::notices;
use crate::ops::{OpError, ServiceError, StartService};
use crate::services::{Begin, Entry, Supervised};
use crate::tasks;
use crate::translate;
use shellkeep_session::plan::shorten;
use shellkeep_session::{ByteString, Event, Service, ServiceId, ServiceSpec, ServiceStatus, SessionState, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Starts a service. Its processes are started by its own task, which answers.
pub(super) async fn start_service(
    ctx: &Arc<SessionContext>,
    journal: &mut Journal,
    request: StartService,
    by: Option<String>,
    answer: oneshot::Sender<Result<Arc<Supervised>, OpError>>,
) {
    let cwd = match startable(ctx, journal, &request).await {
        Ok(cwd) => cwd,
        Err(error) => return drop(answer.send(Err(error))),
    };
    let name = request.name.unwrap_or_else(|| shorten(&request.command.to_text()));
    let (command, env, ready, restart) = (request.command, request.env, request.ready, request.restart);
    let spec = ServiceSpec { name, command, cwd, env, ready, restart, by };
    let service_id = ServiceId::from_seq(journal.next_seq());
    let now = Timestamp::now();
    let entry = Entry {
        session_id: journal.id().clone(),
        service_id: service_id.clone(),
        agent: journal.state().meta.agent.clone(),
        service: Service {
            spec: spec.clone(),
            status: ServiceStatus::Starting,
            started_at: now,
            stamps: None,
            restarts: 0,
            end: None,
        },
        directory: ctx.data_dir.service(journal.id(), &service_id),
        now,
    };
    let reserved = match ctx.services.reserve(entry).await {
        Ok(reserved) => reserved,
        Err(met) => {
            // The error lists all services of the caller, whose sessions may be waiting for this task.
            let (ctx, id) = (Arc::clone(ctx), journal.id().clone());
            let agent = journal.state().meta.agent.clone();
            tasks::spawn(async move {
                let refusal = OpError::QuotaExceeded(ctx.services.quota_met(met, agent.as_deref(), &id).await);
                let _ = answer.send(Err(refusal));
            });
            return;
        }
    };
    let before: BTreeSet<ServiceId> = journal.state().services.keys().cloned().collect();
    journal.put(Event::ServiceStarted { service_id, spec: Box::new(spec) });
    journal.sync().await;
    // Before its first process: another node may run the session by now.
    if let Err(error) = check_owned(journal) {
        ctx.services.give_back(reserved);
        return drop(answer.send(Err(error)));
    }
    for forgotten in before.iter().filter(|id| !journal.state().services.contains_key(id)) {
        let directory = ctx.data_dir.service(journal.id(), forgotten);
        tasks::blocking(move || std::fs::remove_dir_all(directory));
    }
    ctx.supervision.spawn(reserved, Begin::Start(answer));
}

/// Whether a service may be started, and where it starts.
async fn startable(
    ctx: &Arc<SessionContext>,
    journal: &mut Journal,
    request: &StartService,
) -> Result<ByteString, OpError> {
    ctx.check_staying(journal.id())?;
    check_env(&request.env, journal.shell())?;
    let cwd = service_cwd(ctx, journal, request.cwd.as_ref()).await?;
    check_name(journal.state(), request.name.as_deref())?;
    Ok(cwd)
}

/// What a service of this session is started with.
pub(super) async fn facts(ctx: &Arc<SessionContext>, journal: &mut Journal) -> Result<ServiceFacts, OpError> {
    check_owned(journal)?;
    let given = journal.give().await?;
    let state = journal.state();
    let confined = confine(ctx, state, None).await?;
    let mut facts = translate::facts(&ctx.sandboxes.placed(state));
    if let Some(notice) = notices::secrets_not_filled(&given.fill_in(&mut facts), MOST_FILLED) {
        // It would run with a mark for a value, and nobody reads what it could not be given.
        return Err(ServiceError::NotStarted { reason: notice.message }.into());
    }
    Ok(ServiceFacts { facts, confined, given, until: ctx.serves_until(journal.id()) })
}

/// Restarts services that ended with the node that the session came from: the state says that they are starting, and
/// nothing supervises them on this node yet.
pub(super) fn restart_moved(ctx: &SessionContext, journal: &Journal) {
    let (id, state) = (journal.id(), journal.state());
    // On a node that is drained, they are for the next one.
    if ctx.cluster.is_none() || ctx.is_draining() {
        return;
    }
    let waiting = state.services.iter().filter(|(_, service)| service.status.is_live() && service.stamps.is_none());
    for (service_id, service) in waiting {
        let Some(end) = service.end.clone().filter(|_| ctx.services.find(id, service_id).is_none()) else {
            continue;
        };
        let entry = Entry {
            session_id: id.clone(),
            service_id: service_id.clone(),
            agent: state.meta.agent.clone(),
            service: service.clone(),
            directory: ctx.data_dir.service(id, service_id),
            now: Timestamp::now(),
        };
        ctx.supervision.spawn(ctx.services.adopt(entry), Begin::Ended(end));
    }
}

/// An error if a name that a caller chose is taken: callers find the service by it. Names made from commands may repeat.
fn check_name(state: &SessionState, name: Option<&str>) -> Result<(), OpError> {
    let Some(name) = name else { return Ok(()) };
    let has_it = |service: &Service| service.status.is_live() && service.spec.name == name;
    let Some((taken_by, _)) = state.services.iter().find(|(_, service)| has_it(service)) else { return Ok(()) };
    let (session_id, service_id) = (state.meta.session_id.to_string(), taken_by.to_string());
    Err(ServiceError::NameTaken { session_id, name: name.to_owned(), service_id }.into())
}

/// Where a service starts: where its caller says, or in the session's directory. As it is stored, with a mark for the value
/// of a secret.
async fn service_cwd(
    ctx: &Arc<SessionContext>,
    journal: &mut Journal,
    asked: Option<&ByteString>,
) -> Result<ByteString, OpError> {
    let given = journal.give().await?;
    let state = journal.state();
    ctx.data_dir.check_taken(state, asked.is_none().then_some(&state.shell.cwd))?;
    let Some(asked) = asked else {
        check_cwd(ctx, state, &given).await?;
        return Ok(state.shell.cwd.clone());
    };
    make_workspace(ctx, state)?;
    let mut cwd = resolve_cwd(ctx, state, &given, asked).await?;
    given.mark(&mut cwd);
    Ok(ByteString(cwd))
}

/// Records a supervisor's news. Returns all that is known about the service then, if the session still knows it.
pub(super) async fn on_service_news(
    journal: &mut Journal,
    service_id: ServiceId,
    news: ServiceNews,
) -> Option<Service> {
    if !journal.state().services.contains_key(&service_id) {
        return None;
    }
    let id = service_id.clone();
    journal.record(match news {
        ServiceNews::Live { stamps, restarts } => Event::ServiceLive { service_id, stamps, restarts },
        ServiceNews::Ready => Event::ServiceReady { service_id },
        ServiceNews::Ended { status, end, notices } => Event::ServiceEnded { service_id, status, end, notices },
    });
    journal.sync().await;
    journal.state().services.get(&id).cloned()
}
