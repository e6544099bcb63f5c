//! A person takes over a session, and hands it back.

use super::access::{Access, Permitted};
use super::files::FileOps;
use crate::actor::{Message, ReleaseHold};
use crate::ops::*;
use crate::validate;
use shellkeep_session::SessionId;

/// Paths that are named to the agent.
const NAMED_PATHS: usize = 100;

/// Operations of a person who takes over.
pub struct HoldOps<'a> {
    pub(super) access: &'a Access,
}

impl HoldOps<'_> {
    /// Takes a hold, or extends one. Host only: an agent must not keep a person out.
    pub fn take<'a>(&'a self, id: &'a SessionId, request: TakeHold) -> BoxFuture<'a, Result<HoldView, OpError>> {
        Box::pin(async move {
            validate::hold(&request)?;
            let Permitted { parts, id } = self.access.over(id)?;
            self.access.as_host()?;
            self.access.audit("hold", id.as_str());
            parts.ctx.registry.ask(&id, |answer| Message::Hold { request, answer }).await
        })
    }

    /// Ends a hold; without an id, whichever there is.
    pub fn release<'a>(
        &'a self,
        id: &'a SessionId,
        hold_id: Option<String>,
    ) -> BoxFuture<'a, Result<ReleasedHold, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            self.access.as_host()?;
            self.access.audit("release", id.as_str());
            let files = self.changed_files(&id).await;
            let request = ReleaseHold { is_holder: hold_id.is_some(), hold_id, files };
            parts.ctx.registry.ask(&id, |answer| Message::Release { request, answer }).await
        })
    }

    /// The paths that changed since the hold began. What cannot be compared is not named.
    async fn changed_files(&self, id: &SessionId) -> Vec<String> {
        let Ok(Permitted { parts, .. }) = self.access.over(id) else { return Vec::new() };
        let Ok(state) = parts.ctx.registry.snapshot(id).await else { return Vec::new() };
        let Some(hold) = state.hold.filter(|hold| hold.runs > 0) else { return Vec::new() };
        let from = Some(Moment::Seq(hold.since));
        let query = DiffQuery { from, ..DiffQuery::default() };
        let compared = FileOps::of(self.access).diff(id, query).await;
        let changed = compared.map(|view| view.files).unwrap_or_default();
        changed.into_iter().take(NAMED_PATHS).map(|file| file.path.to_text().into_owned()).collect()
    }
}
