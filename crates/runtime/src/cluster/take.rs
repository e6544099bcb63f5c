//! Sessions that this node takes: it claims one before its task starts, and brings its own copy and the shared one together.

use super::arrive::{self, Former, NOT_SHARED, kept, stands_for};
use super::files::{self, Brought};
use super::lane::OpenLane;
use super::look::{Look, away, holder, unreachable};
use super::{Cluster, keys, told};
use crate::checkpoints::path;
use crate::names::not_found;
use crate::ops::OpError;
use shellkeep_session::ownership::{Claim, Claimed, Head, Meeting, meet};
use shellkeep_session::{Event, Record, SessionId, SessionState, Timestamp};
use shellkeep_shared::{Down, Found, Start};
use std::sync::Arc;

impl Cluster {
    /// Makes a session this node's, before it is used: claims it, and brings what this node and the shared store have of it
    /// together. Gives its state.
    pub(crate) async fn take(&self, id: &SessionId, local: Option<SessionState>) -> Result<SessionState, OpError> {
        if self.removals.is_waiting(id) {
            return Err(not_found(id));
        }
        let request = self.asker.request(id, local.as_ref());
        let (nonce, alone) = (request.claim.ask.nonce.clone(), self.ship.alone());
        let taken_by = self.asker.elsewhere.owner(id);
        let (is_lost, asker) = (taken_by.is_some(), self.asker.clone());
        let asked = self.ship.ask(move |tier| {
            let look = Look::at(tier, &request.claim.session_id, &request.claim.ask.node, &alone)?;
            let is_others = look.elsewhere.is_some() || look.is_early || (is_lost && look.is_forgotten());
            let claimed = if is_others { None } else { asker.claim(tier, &request)?.ok() };
            Ok((look, claimed))
        });
        let (look, claimed) = match asked.await {
            Ok(answer) => answer,
            Err(down) => return self.alone(id, local, nonce, down).await,
        };
        if let Some(owner) = taken_by.filter(|_| look.is_forgotten()) {
            return Err(unreachable(id, &owner.node));
        }
        if let Some(node) = look.elsewhere {
            return Err(unreachable(id, &node.name));
        }
        if let Some(found) = look.found.as_ref().filter(|_| look.is_early) {
            return Err(unreachable(id, holder(found)));
        }
        match claimed {
            None => {
                self.removals.unname(&self.names, id);
                Err(not_found(id))
            }
            Some(Claimed::Held(by)) => Err(unreachable(id, &by.node)),
            Some(Claimed::New(head) | Claimed::Kept(head) | Claimed::Taken(head)) => {
                self.join(id, local, head, look.found).await
            }
        }
    }

    /// Brings this node's copy of a claimed session and the shared one together.
    async fn join(
        &self,
        id: &SessionId,
        local: Option<SessionState>,
        head: Head,
        found: Option<Found>,
    ) -> Result<SessionState, OpError> {
        let meeting = match &local {
            Some(state) => meet(&state.claims, state.seq, &head),
            None => meet(&Default::default(), 0, &head),
        };
        let mut forks = found.as_ref().map(|found| found.forks.clone()).unwrap_or_default();
        let mut state = match (meeting, local) {
            (Meeting::Same | Meeting::TierLacks { .. }, Some(state)) => state,
            (Meeting::Same | Meeting::TierLacks { .. }, None) => return Err(not_found(id)),
            (Meeting::NodeLacks { .. }, local) => self.bring(id, local).await?,
            (Meeting::Apart { after }, local) => {
                if let Some(state) = &local {
                    let kept = self.diverged.keep(state, after, &head).await?;
                    forks.extend(kept.filter(|kept| !forks.contains(kept)));
                }
                self.bring(id, None).await?
            }
        };
        // This node may have known a removed session of the name, which was another agent's.
        self.names.add(id, state.meta.agent.as_deref().map(Arc::from));
        let (next, is_first) = (state.seq + 1, state.claims.last() != Some(&head.owner));
        let from = if is_first { next } else { state.claims.last_from().unwrap_or(next) };
        let start = Start::of(&state, head.owner.clone(), from, Some(head.last));
        let lane = OpenLane::begin(&self.ship, id, start, |after| Some(stands_for(&state, after + 1, NOT_SHARED)));
        if is_first {
            let has_copy = !self.asker.elsewhere.is_lost(id);
            let events = match Former::of(&state, &self.node, has_copy, found) {
                Some(former) => self.moved_here(&state, head.owner, former).await,
                None => arrive::joined(head.owner),
            };
            self.arrive(&mut state, events)?;
            self.files.iter().for_each(|files| files.offer(&state));
        }
        self.asker.known(id).await;
        if !forks.is_empty() {
            self.ship.know_forks(id, forks.clone());
            self.arrive(&mut state, forks.iter().map(told::forked).collect())?;
            self.ship.settle(id, state.seq).await;
            self.diverged.recorded(id, forks).await;
        }
        lane.keep();
        Ok(state)
    }

    /// What is recorded of a session that comes from another node, after its files were brought.
    async fn moved_here(&self, state: &SessionState, claim: Claim, former: Former) -> Vec<Event> {
        metrics::counter!("shellkeep_takeovers_total").increment(1);
        let mut arrived = arrive::relocated(state, &former, &self.data_dir);
        let is_own = self.workspaces.owns(&arrived.meta.workspace);
        if let Err(error) = self.workspaces.ensure(&arrived.meta.workspace) {
            // Its first command tries again and reports the failure.
            tracing::warn!(session = %state.meta.session_id, %error, "a session's workspace could not be created here");
        }
        let brought = match &self.files {
            Some(files) => files.bring(&arrived, former.files.as_ref(), is_own).await,
            None => Brought::NotConfigured { has_older: is_own && files::has_files(path(&arrived.meta.workspace)) },
        };
        if let Brought::Failed { reason } = &brought {
            tracing::error!(session = %state.meta.session_id, reason, "the files of a session that moved here could not be brought");
        }
        arrived.files = brought.at().cloned();
        let cwd = arrive::make_cwd(&arrived, is_own);
        let id = state.meta.session_id.clone();
        let lines = self.ship.ask(move |tier| tier.load(&id)).await.map(|loaded| loaded.lines).unwrap_or_default();
        let since = arrive::runs_since(&lines, arrived.files.as_ref());
        let keys = keys::bring(self.files.as_deref(), &self.data_dir, state).await;
        let arrival =
            told::Arrival { from: &former.node, here: &self.node, files: &brought, keys: &keys, since: &since, cwd };
        arrived.pending_notices.push(told::arrived(arrival));
        arrive::events(arrived, claim, &former.node)
    }

    /// Brings this node's store to where the shared one is. Gives the state.
    async fn bring(&self, id: &SessionId, local: Option<SessionState>) -> Result<SessionState, OpError> {
        let asked = id.clone();
        let loaded = self.ship.ask(move |tier| tier.load(&asked)).await.map_err(away)?;
        let state = arrive::fold(id, local, &loaded.lines, |record| kept(self.store.append(record)))?;
        state.ok_or_else(|| not_found(id))
    }

    /// Records that this node owns the session from now on.
    fn arrive(&self, state: &mut SessionState, events: Vec<Event>) -> Result<(), OpError> {
        for event in events {
            let session_id = state.meta.session_id.clone();
            let record = Record { session_id, seq: state.seq + 1, at: Timestamp::now(), event };
            kept(self.store.append(&record))?;
            self.offer(&record);
            state.apply(&record).map_err(|error| OpError::Internal { detail: error.to_string() })?;
            self.rest(state);
        }
        Ok(())
    }

    /// The shared store is unreachable: this node keeps serving the sessions that are its own or have no owner.
    async fn alone(
        &self,
        id: &SessionId,
        local: Option<SessionState>,
        nonce: String,
        down: Down,
    ) -> Result<SessionState, OpError> {
        self.members.check_serving()?;
        if let Some(owner) = self.asker.elsewhere.owner(id) {
            return Err(unreachable(id, &owner.node));
        }
        if self.ship.alone().is_in_doubt() {
            return Err(self.members.cut_off());
        }
        let Some(mut state) = local.filter(|_| !self.asker.elsewhere.is_lost(id)) else { return Err(away(down)) };
        match state.claims.last().cloned() {
            Some(claim) if claim.node == self.node => {
                let from = state.claims.last_from().unwrap_or(state.seq);
                let start = Start::of(&state, claim, from, None);
                self.ship.begin(id, start, |after| Some(stands_for(&state, after + 1, NOT_SHARED)));
            }
            Some(claim) => return Err(unreachable(id, &claim.node)),
            None => {
                self.asker.made_alone.note(id).await;
                let claim = Claim { epoch: 1, node: self.node.clone(), nonce };
                let start = Start::of(&state, claim.clone(), state.seq + 1, None);
                let whole = |after: u64| Some(stands_for(&state, after + 1, NOT_SHARED));
                let lane = OpenLane::begin(&self.ship, id, start, whole);
                self.arrive(&mut state, arrive::joined(claim))?;
                lane.keep();
            }
        }
        Ok(state)
    }

    /// The shared store lacks records of a session that is awake here, and the ship no longer has them: claims the session
    /// again and gives its state. Returns whether it is still this node's.
    pub(crate) async fn reclaim(&self, state: &SessionState) -> bool {
        let id = &state.meta.session_id;
        let Some(mine) = self.ship.claim_of(id) else { return true };
        let mut request = self.asker.request(id, Some(state));
        request.claim.ask.mine = Some(mine.clone());
        let (owner, asker) = (mine.clone(), self.asker.clone());
        let asked = self.ship.ask(move |tier| {
            // One that is another's by now is not taken from it.
            match tier.find(&request.claim.session_id)?.filter(|found| found.head.owner != owner) {
                Some(_) => Ok(None),
                None => Ok(asker.claim(tier, &request)?.ok()),
            }
        });
        match asked.await {
            // It is tried again when the store is back.
            Err(_) => true,
            Ok(Some(Claimed::New(head) | Claimed::Kept(head))) => {
                self.asker.made_alone.forget(id).await;
                let from = state.claims.last_from().unwrap_or(state.seq);
                let start = Start::of(state, mine, from, Some(head.last));
                self.ship.begin(id, start, |after| Some(stands_for(state, after + 1, NOT_SHARED)));
                // A store that came back empty does not know where the files are.
                self.files.iter().for_each(|files| files.offer(state));
                true
            }
            Ok(_) => false,
        }
    }
}
