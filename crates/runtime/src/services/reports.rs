//! What the task of a service tells its session, which records it: at once, or as soon as the session can be woken.

use super::Supervised;
use crate::actor::{Message, ServiceNews};
use crate::names::not_found;
use crate::ops::OpError;
use crate::registry::{Registry, may_pass};
use shellkeep_session::{Notice, Service, ServiceEnd, ServiceStatus};
use std::sync::Arc;
use tokio::sync::oneshot;

/// The reports of one service.
pub(super) struct Reports {
    pub(super) registry: Arc<Registry>,
    pub(super) seen: Arc<Supervised>,
}

/// An end that waits until its session can be woken.
pub(super) struct Unrecorded(ServiceNews);

impl Reports {
    /// Has the session record an update. The error says why it did not: it cannot be woken now, or is not this node's.
    pub(super) async fn tell(&self, news: ServiceNews) -> Result<(), OpError> {
        let (message, recorded) = self.message(news);
        self.registry.deliver(&self.seen.session_id, message).await?;
        let service = recorded.await.map_err(|_| not_found(&self.seen.session_id))?;
        self.seen.facts.send_replace(service);
        Ok(())
    }

    /// The same for an end. Those that wait for it are notified in any case: they must not wait for a store. Gives the end
    /// back if the session cannot be woken now.
    pub(super) async fn ended(
        &self,
        status: ServiceStatus,
        end: ServiceEnd,
        notices: Vec<Notice>,
    ) -> Option<Unrecorded> {
        if !status.is_live() {
            self.seen.uncount().await;
        }
        let news = ServiceNews::Ended { status, end: end.clone(), notices };
        let error = self.tell(news.clone()).await.err()?;
        let is_late = may_pass(&error);
        self.seen.facts.send_modify(|service| {
            // One whose session is gone is not started again.
            service.status = if status.is_live() && !is_late { ServiceStatus::Failed } else { status };
            service.stamps = None;
            service.end = Some(end);
        });
        is_late.then_some(Unrecorded(news))
    }

    /// Has the session record an end that it could not be told of, as soon as it can be woken; until it is gone, or the
    /// daemon stops. The service stays in the list until then: otherwise its session could wake, find it in its state as one
    /// that is to be started again, and do that. May be dropped.
    pub(super) async fn insist(&self, late: Option<Unrecorded>) {
        let Some(Unrecorded(news)) = late else { return };
        let (message, recorded) = self.message(news);
        self.registry.deliver_for_certain(&self.seen.session_id, message).await;
        // It is dropped unanswered if the session is gone.
        let _ = recorded.await;
    }

    fn message(&self, news: ServiceNews) -> (Message, oneshot::Receiver<Service>) {
        let (answer, recorded) = oneshot::channel();
        (Message::ServiceNews { service_id: self.seen.service_id.clone(), news, answer }, recorded)
    }
}
