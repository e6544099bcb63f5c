//! An owner's services: begun here, and what their supervisors learn becomes a fact here.

use super::{Answer, Owner};
use crate::ops::{OpError, StartService};
use crate::services::{Begin, Entry, Supervised};
use crate::translate;
use shellkeep_process::Fact;
use shellkeep_session::plan::shorten;
use shellkeep_session::{
    ByteString, Event, Notice, Service, ServiceEnd, ServiceId, ServiceSpec, ServiceStamps, ServiceStatus, Timestamp,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::oneshot;

/// What a supervisor has learned.
pub enum ServiceNews {
    /// It has processes.
    Live {
        /// Which.
        stamps: ServiceStamps,
        /// How often it was started again.
        restarts: u32,
    },
    /// It is ready.
    Ready,
    /// It has none any more.
    Ended {
        /// How it stands from now on.
        status: ServiceStatus,
        /// How it ended.
        end: ServiceEnd,
        /// What the next caller should know.
        notices: Vec<Notice>,
    },
}

impl Owner {
    /// Begins a service. Its processes are started by a task of its own, which answers.
    pub(super) async fn start_service(
        &mut self,
        request: StartService,
        by: Option<String>,
        answer: oneshot::Sender<Result<Arc<Supervised>, OpError>>,
    ) {
        let cwd = match self.service_cwd(request.cwd.as_ref()) {
            Ok(cwd) => cwd,
            Err(error) => return drop(answer.send(Err(error))),
        };
        let name = request.name.unwrap_or_else(|| shorten(&request.command.to_text()));
        let (command, env, ready, restart) = (request.command, request.env, request.ready, request.restart);
        let spec = ServiceSpec { name, command, cwd, env, ready, restart, by };
        self.tell_lost();
        let service_id = ServiceId::from_seq(self.state.seq + 1);
        let now = Timestamp::now();
        let entry = Entry {
            session_id: self.id.clone(),
            service_id: service_id.clone(),
            agent: self.state.meta.agent.clone(),
            service: Service {
                spec: spec.clone(),
                status: ServiceStatus::Starting,
                started_at: now,
                stamps: None,
                restarts: 0,
                end: None,
            },
            directory: self.engine.data_dir.service(&self.id, &service_id),
            now,
        };
        let reserved = match self.engine.services.reserve(entry) {
            Ok(reserved) => reserved,
            Err(met) => {
                // Its words need a look at all services of the caller, and theirs may be waiting for this task.
                let (engine, id, agent) = (Arc::clone(&self.engine), self.id.clone(), self.state.meta.agent.clone());
                tokio::spawn(async move {
                    let refusal = OpError::QuotaExceeded(engine.services.quota_met(met, agent.as_deref(), &id).await);
                    let _ = answer.send(Err(refusal));
                });
                return;
            }
        };
        let before: BTreeSet<ServiceId> = self.state.services.keys().cloned().collect();
        self.put(Event::ServiceStarted { service_id, spec: Box::new(spec) });
        self.sync().await;
        for forgotten in before.iter().filter(|id| !self.state.services.contains_key(id)) {
            let directory = self.engine.data_dir.service(&self.id, forgotten);
            tokio::task::spawn_blocking(move || std::fs::remove_dir_all(directory));
        }
        self.engine.supervision.spawn(reserved, Begin::Start(answer));
    }

    /// Where a service starts: where its caller says, or where the session is.
    fn service_cwd(&self, asked: Option<&ByteString>) -> Result<ByteString, OpError> {
        self.engine.data_dir.check_taken(&self.state, asked.is_none().then_some(&self.state.shell.cwd))?;
        match asked {
            Some(asked) => self.make_workspace().and_then(|()| self.resolve_cwd(asked)).map(ByteString),
            None => self.check_cwd().map(|()| self.state.shell.cwd.clone()),
        }
    }

    /// What a service's shell is told: what the session's own would be.
    pub(super) fn service_facts(&self, answer: Answer<Vec<Fact>>) {
        let _ = answer.send(Ok(translate::facts(&self.state.shell)));
    }

    /// Makes a supervisor's news a fact, and tells the supervisor the whole of it.
    pub(super) async fn on_service_news(
        &mut self,
        service_id: ServiceId,
        news: ServiceNews,
        answer: oneshot::Sender<Service>,
    ) {
        if !self.state.services.contains_key(&service_id) {
            return;
        }
        self.record(match news {
            ServiceNews::Live { stamps, restarts } => {
                Event::ServiceLive { service_id: service_id.clone(), stamps, restarts }
            }
            ServiceNews::Ready => Event::ServiceReady { service_id: service_id.clone() },
            ServiceNews::Ended { status, end, notices } => {
                Event::ServiceEnded { service_id: service_id.clone(), status, end, notices }
            }
        });
        self.sync().await;
        if let Some(service) = self.state.services.get(&service_id) {
            let _ = answer.send(service.clone());
        }
    }

    /// The session's agent is done with it.
    pub(super) fn end(&mut self, reason: &str, answer: Answer<crate::ops::SessionView>) {
        self.rest("ended", "the session was ended");
        if self.state.ended_at.is_none() {
            self.record(Event::SessionEnded { reason: reason.to_owned() });
        }
        let _ = answer.send(Ok(self.view()));
    }
}
