//! What is read of a session that only history has.

use super::access::Access;
use super::parts::Parts;
use super::records::{ExportStream, full, summaries};
use super::run_summary::{has_failed, summary};
use crate::cell;
use crate::ops::*;
use crate::past_sessions::{PastCopy, PastEvents, PastPart, PastSession, ReadBack};
use crate::recordings::unreadable;
use crate::validate::records::selected_types;
use crate::work::SEARCH_TIME;
use shellkeep_record::mask::secret_values;
use shellkeep_record::{Bad, Budget, Checks, Filter, Masker, ReadError, Recording, Search, SignatureChecks};
use shellkeep_session::{ByteString, RunId, SessionId};
use std::sync::Arc;

/// What a verdict says about a recording from history.
const FROM_HISTORY: &str = "this node does not have the session; its recording was read from history";

/// Why events between others have no proof.
const ELSEWHERE: &str = "another node had the session meanwhile";

/// Why the last events have no proof.
const NOT_COPIED: &str =
    "their node had not signed and copied them, the proof is not through the broker yet, or it was removed";

/// Where a session's signed events are in the database.
const SIGNED_EVENTS: &str = "sk_lines";

/// A session that only history has, and that the caller may read.
pub(super) struct Past<'a> {
    parts: &'a Arc<Parts>,
    back: &'a ReadBack,
    session: PastSession,
}

impl<'a> Past<'a> {
    /// The session of this name, if the caller may read it.
    pub(super) async fn of(access: &'a Access, id: &SessionId) -> Result<Self, OpError> {
        let (parts, back, session) = access.over_past(id).await?;
        Ok(Self { parts, back, session })
    }

    fn id(&self) -> &SessionId {
        &self.session.session_id
    }

    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn crate::past_sessions::PastSessions, &SessionId) -> Result<T, String> + Send + 'static,
    ) -> Result<T, OpError> {
        let id = self.id().clone();
        self.back.ask(self.session.agent.as_deref(), move |past| question(past, &id)).await
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Recording) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, OpError> {
        let copy = self.back.copy(&self.session).await?;
        let reading = move |budget: &Budget| read(&Recording::open_export(&copy.path)?.within(budget.clone()));
        let agent = self.session.agent.as_deref();
        let done = self.parts.work.short(agent, Some(SEARCH_TIME), reading).await?;
        done.map_err(|error| unreadable(self.id(), error))
    }

    async fn masker(&self) -> Result<Masker, OpError> {
        let values = self.read(|recording| secret_values(recording, None)).await?;
        let (secrets, id) = (Arc::clone(&self.parts.ctx.secrets), self.id().clone());
        let build = move |_: &Budget| secrets.masker_of(&id, values);
        self.parts.work.short(self.session.agent.as_deref(), None, build).await?
    }

    async fn filter(&self, query: &EventQuery) -> Result<Filter, OpError> {
        selected_types(&query.types)?;
        let search = query.search.as_deref().map(Search::new).transpose();
        let wrong = |error| OpError::Invalid { detail: format!("search is {error}") };
        let masker = if query.redact { Some(self.masker().await?) } else { None };
        Ok(Filter { types: query.types.clone(), search: search.map_err(wrong)?, masker })
    }

    pub(super) async fn events(&self, query: EventQuery) -> Result<EventPage, OpError> {
        let filter = self.filter(&query).await?;
        let read = self.read(move |recording| full::page(recording, query.after, query.limit, &filter)).await?;
        Ok(EventPage { origin: Origin::History, ..read })
    }

    pub(super) async fn summaries(&self, query: EventQuery, failed: bool) -> Result<SummaryPage, OpError> {
        let filter = self.filter(&query).await?;
        let (after, limit) = (query.after, query.limit);
        let read = self.read(move |recording| summaries::page(recording, after, limit, failed, &filter)).await?;
        Ok(SummaryPage { origin: Origin::History, ..read })
    }

    /// Why its events are not a stream.
    pub(super) fn cannot_be_followed(&self) -> OpError {
        OpError::Record(RecordError::OnlyInHistory { session_id: self.id().to_string() })
    }

    pub(super) async fn overview(&self, buckets: u64) -> Result<Overview, OpError> {
        self.read(move |recording| summaries::overview(recording, buckets)).await
    }

    pub(super) async fn export(&self, format: ExportFormat, redact: bool) -> Result<ExportStream, OpError> {
        let masker = if redact { Some(self.masker().await?) } else { None };
        let copy = self.back.copy(&self.session).await?;
        ExportStream::of_copy(self.parts, &self.session, copy, format, masker).await
    }

    /// Checks what is signed. Who signed it is known only if it was this node: the database could name any key.
    pub(super) async fn verify(&self) -> Result<Verdict, OpError> {
        let copy = self.back.new_copy(&self.session, PastPart::Proven).await?;
        let (own, id, last) = (self.parts.ctx.store.public_key(), self.id().clone(), self.session.seq);
        let check =
            move |budget: &Budget| verdict(&copy, &id, own, budget).map(|verdict| with_gaps(verdict, &copy, last));
        let agent = self.session.agent.as_deref();
        let mut verdict = self.parts.work.long(agent, check).await?.map_err(|error| unreadable(self.id(), error))?;
        verdict.remarks.insert(0, FROM_HISTORY.to_owned());
        Ok(verdict)
    }

    pub(super) async fn messages(&self, after: u64, limit: usize) -> Result<MessagePage, OpError> {
        let limit = limit.clamp(1, MAX_MESSAGE_PAGE);
        let mut messages = self.ask(move |past, id| past.messages(id, after, limit + 1)).await?;
        let has_more = messages.len() > limit;
        messages.truncate(limit);
        let next = if has_more { messages.last().map(|last| last.seq_id) } else { None };
        Ok(MessagePage { messages, next, origin: Origin::History })
    }

    /// Runs, newest first. With a filter, a page may have none of those that were read for it.
    pub(super) async fn runs(&self, query: ListRuns<u64>) -> Result<RunPage<u64>, OpError> {
        let origin = Origin::History;
        if query.filter == RunFilter::Running {
            return Ok(RunPage { runs: Vec::new(), next: None, origin });
        }
        let limit = query.limit.clamp(1, MAX_RUN_PAGE);
        let before = query.before.unwrap_or(i64::MAX.cast_unsigned());
        let mut stored = self.ask(move |past, id| past.runs(id, before, limit + 1)).await?;
        let has_more = stored.len() > limit;
        stored.truncate(limit);
        let next = if has_more { stored.last().map(|last| last.seq) } else { None };
        let wanted = stored.into_iter().filter(|run| query.filter == RunFilter::All || has_failed(run));
        Ok(RunPage { runs: wanted.map(|run| summary(self.id(), run, None)).collect(), next, origin })
    }

    /// A run. Long outputs were files of its node; what the record has of them is shown.
    pub(super) async fn run(&self, run_id: &RunId, max_output: usize) -> Result<RunDetail, OpError> {
        let wanted = run_id.clone();
        let found = self.ask(move |past, id| past.run(id, &wanted)).await?;
        let Some(stored) = found else {
            return Err(RunError::NotFound { session_id: self.id().to_string(), run_id: run_id.to_string() }.into());
        };
        let outputs = self.parts.ctx.data_dir.outputs(self.id());
        let run = cell::stored_view(&stored, &outputs, max_output, &ByteString::default());
        Ok(RunDetail { run, command: stored.command, started_at: stored.started_at, origin: Origin::History })
    }
}

fn verdict(
    copy: &PastCopy,
    id: &SessionId,
    own: shellkeep_record::PublicKey,
    budget: &Budget,
) -> Result<Verdict, ReadError> {
    if copy.events.proven == 0 {
        return Ok(Verdict::default());
    }
    let recording = Recording::open_export(&copy.path)?.within(budget.clone());
    let is_own = copy.events.keys.iter().all(|key| *key == own);
    let keys = if is_own { vec![own] } else { Vec::new() };
    let signatures = SignatureChecks { session_id: Some(id), keys: &keys, through: None };
    let checks = Checks { signatures: Some(signatures), ..Checks::default() };
    shellkeep_record::check(&recording, &checks)
}

/// The same with what the copy lacks, if that is the first that is wrong. `last` is the session's last event.
fn with_gaps(mut verdict: Verdict, copy: &PastCopy, last: u64) -> Verdict {
    let PastEvents { proven, unproven, bad, .. } = &copy.events;
    let gap = |from: u64, through: u64, why: &str| Bad {
        file: SIGNED_EVENTS.to_owned(),
        line_number: 0,
        seq: Some(from),
        reason: format!("events {from} to {through} are in the database without a proof: {why}"),
    };
    let gaps = [
        bad.clone(),
        unproven.map(|(from, through)| gap(from, through, ELSEWHERE)),
        (*proven < last).then(|| gap(proven + 1, last, NOT_COPIED)),
    ];
    let first = gaps.into_iter().flatten().min_by_key(|gap| gap.seq);
    match (first, &mut verdict.bad) {
        (Some(gap), found) if found.as_ref().is_none_or(|found| found.seq >= gap.seq) => *found = Some(gap),
        // The copy is a file, but what was read are rows.
        (_, Some(found)) => (found.file, found.line_number) = (SIGNED_EVENTS.to_owned(), 0),
        (_, None) => {}
    }
    verdict
}
