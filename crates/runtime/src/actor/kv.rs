//! The keyed store of a session: opened when it is first used, changed only together with a record.

pub(super) mod open;

use super::journal::Journal;
use super::message::{KvTask, Message};
use crate::cluster::{keys, told};
use crate::context::SessionContext;
use crate::crash::{self, Point};
use crate::masking::check_kept;
use crate::ops::*;
use open::Kv;
use shellkeep_redact::Redactor;
use shellkeep_session::{
    Author, Event, KvChange, KvRestored, KvRewound, KvScrubbed, KvTold, KvValue, Notice, NoticeCode, QuotaName,
    SessionId,
};
use shellkeep_store::KeyedError;
use shellkeep_store::keyed::{self, Keyed, LogPart, LogPlace};
use std::collections::HashSet;
use std::sync::Arc;

/// Changes in one record of a new fork.
const FORKED_AT_ONCE: usize = 1000;

/// Why the store of a moment is not known: records before it are missing, and programs of before 20 November 2026 did not write
/// it down with what replaces them.
const VERSION_UNKNOWN: &str =
    "the recording does not say what was in it at that moment, because earlier records are missing";

/// What a batch would write.
struct Prepared {
    changes: Vec<KvChange>,
    values: Vec<(String, Vec<u8>)>,
    /// Keys to delete that do not exist.
    absent: Vec<String>,
}

impl Kv {
    /// Handles a request.
    pub(super) async fn do_task(&mut self, journal: &mut Journal, task: KvTask) {
        match task {
            KvTask::Get { key, answer } => drop(answer.send(self.get(journal, key).await)),
            KvTask::Scan { query, answer } => drop(answer.send(self.scan(journal, query).await)),
            KvTask::Change { ops, author, answer } => drop(answer.send(self.change(journal, ops, author).await)),
            KvTask::Share { answer } => drop(answer.send(self.share_all(journal).await)),
            KvTask::Check { told, answer } => drop(answer.send(self.check(journal, told).await)),
        }
    }

    /// A key with its value.
    async fn get(&mut self, journal: &Journal, key: String) -> Result<(KvEntry, Vec<u8>), OpError> {
        let former = journal.state().claims.before().filter(|_| self.ctx.shared_files().is_none());
        let former = former.map(str::to_owned);
        let missing = KvError::NotFound { session_id: journal.id().to_string(), key: key.clone(), former };
        if journal.state().kv.is_unused() {
            return Err(missing.into());
        }
        let read = move |keyed: &mut Keyed| match keyed.get(&key)? {
            Some(found) => keyed.read(&found).map(|bytes| Some((found, bytes))),
            None => Ok(None),
        };
        self.with(journal, read).await?.ok_or_else(|| missing.into())
    }

    /// A page of keys.
    async fn scan(&mut self, journal: &Journal, query: KvQuery) -> Result<KvPage, OpError> {
        if journal.state().kv.is_unused() {
            return Ok(KvPage { entries: Vec::new(), next: None });
        }
        let read = move |keyed: &mut Keyed| {
            let KvQuery { prefix, after, limit, values } = query;
            let mut found = keyed.scan(&prefix, &after, limit + 1)?;
            let mut has_more = found.len() > limit;
            found.truncate(limit);
            let (mut entries, mut bytes) = (Vec::new(), 0);
            for entry in found {
                bytes += if values { entry.value.bytes } else { 0 };
                if bytes > MAX_KV_PAGE_BYTES && !entries.is_empty() {
                    has_more = true;
                    break;
                }
                let value = if values { Some(keyed.read(&entry)?) } else { None };
                entries.push((entry, value));
            }
            let next = entries.last().filter(|_| has_more).map(|(entry, _)| entry.key.clone());
            Ok(KvPage { entries, next })
        };
        self.with(journal, read).await
    }

    /// Changes keys: all of them or none. When this returns, the change survives a crash.
    async fn change(
        &mut self,
        journal: &mut Journal,
        ops: Vec<KvOp>,
        author: Author,
    ) -> Result<KvChangedKeys, OpError> {
        for op in &ops {
            check_kept(journal.mask(), "key", op.key.as_bytes())?;
            if let KvPut::Bytes { bytes, .. } = &op.change {
                check_kept(journal.mask(), "value", bytes)?;
            }
        }
        // Lost records are reported first, because that takes a number.
        journal.next_seq();
        let version = journal.state().kv.version + 1;
        let limit = self.ctx.quotas.get(QuotaName::KvBytesPerSession);
        let mark: Vec<u8> = ops.iter().flat_map(|op| op.key.bytes()).collect();
        let log = self.log_place(journal, journal.state().seq + 1, version - 1);
        let write = move |keyed: &mut Keyed| {
            let prepared = match prepare(keyed, ops, version)? {
                Ok(prepared) => prepared,
                Err(error) => return Ok(Err(OpError::from(error))),
            };
            if let Some(met) = over_quota(keyed, &prepared, limit)? {
                return Ok(Err(met));
            }
            keyed.change(&prepared.changes, &prepared.values)?;
            let Prepared { changes, values, absent } = prepared;
            let part = |seq: u64| LogPart::changed(seq, version, changes.clone());
            let shared = log.filter(|_| !changes.is_empty()).map_or(Ok(()), |log| share(keyed, log, part, &values));
            Ok(Ok((changes, absent, shared)))
        };
        let (changes, absent, shared) = self.with(journal, write).await??;
        if shared.is_err() {
            copy_later(&self.ctx, journal.id()).await;
        }
        crash::point(Point::KvWritten, &mark);
        let changed = changes.iter().map(|change| (change.key.clone(), entry_of(change)));
        let entries = changed.chain(absent.into_iter().map(|key| (key, None))).collect();
        if changes.is_empty() {
            let state = journal.state();
            return Ok(KvChangedKeys { entries, version: state.kv.version, seq: state.seq, notices: Vec::new() });
        }
        let offered = journal.offer(Event::KvChanged { version, changes, author });
        let on_disk = journal.settle().await?;
        match offered {
            Ok(notice) => {
                crash::point(Point::KvRecorded, &mark);
                let seq = journal.state().seq;
                let notices = notice.into_iter().chain(on_disk).chain(shared.err()).collect();
                Ok(KvChangedKeys { entries, version, seq, notices })
            }
            Err(error) => {
                self.with(journal, move |keyed| keyed.take_back(version - 1)).await?;
                Err(OpError::not_stored(&error))
            }
        }
    }

    /// Shares everything, in place of what was shared before.
    pub(super) async fn share_all(&mut self, journal: &Journal) -> Result<(), OpError> {
        let recorded = journal.state().kv;
        let log = self.log_place(journal, journal.state().seq, recorded.version);
        let Some(log) = log.filter(|_| !recorded.is_unused()) else { return Ok(()) };
        let log = log.map_err(|reason| KvError::Unavailable { reason })?;
        self.with(journal, move |keyed| keyed.share_all(&log, recorded.version)).await
    }

    /// What a rewind does to the store; `None` if nothing has changed since then.
    pub(super) async fn plan_rewind(&mut self, journal: &Journal, version: u64) -> Result<Option<KvRewound>, OpError> {
        let recorded = journal.state().kv;
        if recorded.is_unused() {
            return Ok(None);
        }
        let missing = self.with(journal, move |keyed| keyed.plan_restore(version)).await?;
        let restored = KvRestored { from: version, version: recorded.version + 1 };
        Ok(missing.map(|missing| KvRewound { restored, missing }))
    }

    /// Rewinds the store, after the rewind was recorded. If this fails, it is done when the store is opened again.
    pub(super) async fn rewind(&mut self, journal: &mut Journal) {
        crash::point(Point::KvRewound, journal.id().as_str().as_bytes());
        self.close();
        let restored = journal.state().kv.restored;
        let log = restored.and_then(|restored| self.log_place(journal, journal.state().seq, restored.version - 1));
        // Opening it rewinds it.
        let opened = self.with(journal, move |keyed| {
            let part = |(log, restored)| share(keyed, log, |seq| LogPart::restored(seq, restored), &[]);
            Ok(log.zip(restored).map_or(Ok(()), part))
        });
        match opened.await {
            Ok(shared) => {
                if shared.is_err() {
                    copy_later(&self.ctx, journal.id()).await;
                }
                journal.tell(shared.err());
            }
            Err(error) => {
                tracing::error!(session = %journal.id(), %error, "the keyed store is rewound when it is next opened");
            }
        }
    }

    /// Copies the store for a fork: as it is, or as it was at a version. Returns the records of it, and a notice if the
    /// copy lacks something.
    pub(super) async fn fork(
        &mut self,
        journal: &Journal,
        id: &SessionId,
        at: Option<u64>,
        by: Option<&str>,
    ) -> Result<(Vec<Event>, Option<Notice>), OpError> {
        let version = journal.state().kv.version;
        if version == 0 {
            return Ok((Vec::new(), None));
        }
        let (to, durability) = (self.directory(id), self.ctx.durability());
        let copied = self.with(journal, move |keyed| keyed.copy_to(&to, at, durability)).await?;
        let author = Author::runtime(by.map(str::to_owned));
        let change = |entry: &KvEntry| KvChange {
            key: entry.key.clone(),
            version: entry.version,
            value: Some(entry.value.clone()),
        };
        let records = copied.entries.chunks(FORKED_AT_ONCE).map(|entries| Event::KvChanged {
            version,
            changes: entries.iter().map(change).collect(),
            author: author.clone(),
        });
        Ok((records.collect(), values_lost(&copied.lost)))
    }

    /// Masks a secret in the store. Returns what was masked, and the names of the keys.
    pub(super) async fn scrub(
        &mut self,
        journal: &Journal,
        redactor: &Redactor,
    ) -> Result<(KvScrubbed, Vec<String>), OpError> {
        if journal.state().kv.is_unused() {
            return Ok(Default::default());
        }
        let redactor = redactor.clone();
        let scrubbed = self.with(journal, move |keyed| keyed.scrub(&redactor)).await?;
        crash::point(Point::KvScrubbed, journal.id().as_str().as_bytes());
        Ok(scrubbed)
    }

    /// The record of a scrub tells what it masked in the store. What fails here makes the next scrub tell it again.
    pub(super) async fn scrub_recorded(&mut self, journal: &Journal) {
        if let Err(error) = self.with(journal, Keyed::scrub_recorded).await {
            tracing::warn!(session = %journal.id(), %error, "the next scrub records what this one masked again");
        }
    }

    /// Where the store differs from the recording.
    async fn check(&mut self, journal: &Journal, told: KvTold) -> Result<Vec<String>, OpError> {
        if journal.state().kv.is_unused() {
            return Ok(Vec::new());
        }
        // Where records are not known here, or values stayed on another node, only the values are compared with their hashes.
        let stayed_behind = self.ctx.shared_files().is_none() && journal.state().claims.before().is_some();
        let (entries, version) =
            if told.is_whole() && !stayed_behind { (told.entries(), told.version()) } else { Default::default() };
        self.with(journal, move |keyed| keyed.compare(entries, version)).await
    }

    /// Where other nodes read the store, if there is such a place.
    fn log_place(&self, journal: &Journal, seq: u64, after: u64) -> Option<Result<LogPlace, String>> {
        keys::place(self.ctx.shared_files()?, journal.state(), seq, after)
    }
}

/// Shares everything of a session as soon as that works, because a change could not be shared. Returns when that is noted.
pub(crate) async fn copy_later(ctx: &SessionContext, id: &SessionId) {
    let Some(files) = ctx.shared_files() else { return };
    let (registry, of) = (Arc::downgrade(&ctx.registry), id.clone());
    let share = move || {
        let (registry, id) = (registry.upgrade(), of.clone());
        async move {
            let Some(registry) = registry else { return Err("the daemon is stopping".to_owned()) };
            match registry.ask(&id, |answer| Message::Kv(Box::new(KvTask::Share { answer }))).await {
                Err(
                    OpError::Kv(KvError::Unavailable { reason })
                    | OpError::StoreUnavailable { reason }
                    | OpError::StoreFull { reason },
                ) => Err(reason),
                Err(error @ (OpError::Cluster(ClusterError::Alone { .. }) | OpError::ShuttingDown)) => {
                    Err(error.to_string())
                }
                // It is done, or the session is another node's or removed.
                _ => Ok(()),
            }
        }
    };
    files.share_again(id, share).await;
}

/// Shares a change. What fails is a notice; it is tried again, and the next change shares everything.
fn share(
    keyed: &mut Keyed,
    log: Result<LogPlace, String>,
    part: impl FnOnce(u64) -> LogPart,
    values: &[(String, Vec<u8>)],
) -> Result<(), Notice> {
    let shared = log.and_then(|log| keyed.share(&log, part(log.seq), values).map_err(|error| error.to_string()));
    shared.map_err(|reason| {
        tracing::warn!(reason, "a change of a keyed store is not copied for other nodes");
        told::keys_not_copied(&reason)
    })
}

fn entry_of(change: &KvChange) -> Option<KvEntry> {
    let value = change.value.clone()?;
    Some(KvEntry { key: change.key.clone(), version: change.version, value })
}

/// Compares a batch with what is there.
fn prepare(keyed: &Keyed, ops: Vec<KvOp>, version: u64) -> Result<Result<Prepared, KvError>, KeyedError> {
    let mut prepared = Prepared { changes: Vec::new(), values: Vec::new(), absent: Vec::new() };
    for KvOp { key, change, expected } in ops {
        if expected != Expected::Anything {
            let current = keyed.get(&key)?.map(|found| found.version);
            if !expected.holds(current) {
                return Ok(Err(KvError::Conflict { key, current: current.unwrap_or(0) }));
            }
        }
        let value = match change {
            // A key that does not exist need not be deleted.
            KvPut::Delete if keyed.get(&key)?.is_none() => {
                prepared.absent.push(key);
                continue;
            }
            KvPut::Delete => None,
            KvPut::Known { sha256, content_type } => {
                let staged = prepared.values.iter().find(|(known, _)| *known == sha256);
                let size = match staged {
                    Some((_, bytes)) => Some(bytes.len() as u64),
                    None => keyed.size_of(&sha256)?,
                };
                let Some(bytes) = size else { return Ok(Err(KvError::ValueNotFound { sha256 })) };
                Some(KvValue { sha256, bytes, content_type })
            }
            KvPut::Bytes { bytes, content_type } => {
                let sha256 = keyed::hash(&bytes);
                let value = KvValue { sha256: sha256.clone(), bytes: bytes.len() as u64, content_type };
                prepared.values.push((sha256, bytes));
                Some(value)
            }
        };
        prepared.changes.push(KvChange { key, version, value });
    }
    Ok(Ok(prepared))
}

/// Makes room for new values by dropping those that only the past needs. Fails if that is not enough.
fn over_quota(keyed: &mut Keyed, prepared: &Prepared, limit: u64) -> Result<Option<OpError>, KeyedError> {
    let mut new = 0;
    for (sha256, bytes) in &prepared.values {
        new += if keyed.size_of(sha256)?.is_none() { bytes.len() as u64 } else { 0 };
    }
    let (mut replaced, mut needed) = (0, HashSet::new());
    for change in &prepared.changes {
        replaced += keyed.get(&change.key)?.map_or(0, |found| found.value.bytes);
        needed.extend(change.value.as_ref().map(|value| value.sha256.as_str()));
    }
    let mut revived = 0;
    for sha256 in &needed {
        revived += keyed.size_of_past(sha256)?.unwrap_or(0);
    }
    if new + revived == 0 {
        return Ok(None);
    }
    let used = keyed.used()?;
    if used.current.saturating_sub(replaced).saturating_add(new + revived) > limit {
        let met = QuotaMet::new(QuotaName::KvBytesPerSession, limit, used.current);
        return Ok(Some(OpError::QuotaExceeded(Box::new(met))));
    }
    let over = used.kept.saturating_add(new).saturating_sub(limit);
    if over > 0 {
        keyed.make_room(over, &needed)?;
    }
    Ok(None)
}

/// A notice about keys whose values at that moment are gone.
pub(super) fn values_gone(keys: &[String]) -> Notice {
    let (first, count) = (keys.first().map_or("", String::as_str), keys.len());
    let message = format!(
        "The values of {count} keys at that moment were removed to free space ('{first}' first); these keys were not \
            changed."
    );
    Notice { code: NoticeCode::Rewound, message }
}

/// The recording does not say which version the store had at a moment to which the session is rewound: the store stays as it
/// is. `None` if it was never used.
pub(super) fn not_rewound(journal: &Journal) -> Option<Notice> {
    let message = format!("The keyed store was not changed: {VERSION_UNKNOWN}.");
    (!journal.state().kv.is_unused()).then_some(Notice { code: NoticeCode::Rewound, message })
}

/// The same for a fork of that moment, which gets the store as it is now.
pub(super) fn copied_as_now(journal: &Journal) -> Option<Notice> {
    let message = format!("The keyed store is a copy of the current one: {VERSION_UNKNOWN}.");
    (!journal.state().kv.is_unused()).then_some(Notice { code: NoticeCode::CheckpointIncomplete, message })
}

/// What the caller of a fork should know of keys that it lacks.
fn values_lost(keys: &[String]) -> Option<Notice> {
    let first = keys.first()?;
    let message = format!(
        "{} keys are not in this copy ('{first}' first): their values are damaged or were removed to free space.",
        keys.len()
    );
    Some(Notice { code: NoticeCode::CheckpointIncomplete, message })
}
