//! What a daemon needs to write history.

use crate::config::Settings;
use crate::failure::Failure;
use shellkeep_history::{DatabaseError, JournalSource, Outbox, OutboxOptions, Reader, Removed, url};
use shellkeep_record::Masker;
use shellkeep_runtime::{Engine, PastEvents, PastPart, PastSession, PastSessions, RecordConfig};
use shellkeep_session::{Message, RunId, SessionId, StoredRun};
use shellkeep_store::{FeedControl, FeedOptions, Store};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Whether the journal is read for history. Where nodes share a store, only what that store has becomes history.
pub(super) fn feed(settings: &Settings) -> Option<FeedOptions> {
    let gated = shellkeep_shared::is_shared(&settings.store.value);
    let most_bytes = settings.history_limits.behind_bytes.value;
    (!settings.history.value.is_empty()).then_some(FeedOptions { gated, most_bytes })
}

/// Up to which place a broker has confirmed the journal.
const PLACE_FILE: &str = "history-place.json";

/// How far recordings were sent to a broker, in a file for each session.
const SENT_FILES: &str = "history-sent";

/// Reports of removals that wait for the audit trail: there is one per pass.
const WAITING_REPORTS: usize = 4;

/// How long a stop waits until the recordings are signed. The next daemon signs and copies the rest.
const LAST_SIGNATURES: Duration = Duration::from_secs(5);

/// History that is written.
pub(super) struct Written {
    pub outbox: Outbox,
    removed: mpsc::Receiver<Removed>,
}

/// Starts to write history, if there is a database or a broker for it.
pub(super) fn start(settings: &Settings, record: &RecordConfig, store: &Store) -> Result<Option<Written>, Failure> {
    let Some(control) = FeedControl::of(store) else { return Ok(None) };
    let source = JournalSource { id: store.home().id().to_owned(), node: settings.node.value.clone() };
    let [place_file, sent_files] = [PLACE_FILE, SENT_FILES].map(|name| settings.data.value.join(name));
    let (report, removed) = mpsc::channel(WAITING_REPORTS);
    let (url, retention) = (settings.history.value.clone(), settings.history_limits.retention());
    let masker = record.writing_redactor().map_err(Failure::start)?.map(Masker::new);
    let options = OutboxOptions { url, source, place_file, sent_files, retention, masker, removed: report };
    let outbox = Outbox::start(control, options).map_err(Failure::start)?;
    Ok(Some(Written { outbox, removed }))
}

/// Puts what is removed from history into the audit trail. Ends with the thread that writes history.
pub(super) fn audit(written: Option<Written>, engine: Engine) -> Option<Outbox> {
    let Written { outbox, mut removed } = written?;
    tokio::spawn(async move {
        while let Some(removed) = removed.recv().await {
            if let Err(error) = engine.node().removed_history(&removed.to_string()) {
                tracing::error!(%error, %removed, "a removal is not in the audit trail");
            }
        }
    });
    Some(outbox)
}

/// Reads sessions back that this node does not have, if there is a database for history.
pub(super) fn past(settings: &Settings) -> Option<Arc<dyn PastSessions>> {
    let url = &settings.history.value;
    (url::kind(url) == Ok(url::Kind::Database)).then(|| Arc::new(ReadBack(Reader::new(url))) as Arc<dyn PastSessions>)
}

/// History as the runtime sees it.
#[derive(Debug)]
struct ReadBack(Reader);

impl PastSessions for ReadBack {
    fn find(&self, ids: &[SessionId], agent: Option<&str>) -> Result<Option<PastSession>, String> {
        let found = self.0.find(ids, agent).map_err(sentence)?;
        Ok(found.map(|known| PastSession {
            session_id: known.session_id,
            agent: known.agent,
            seq: known.seq,
            signed: known.signed,
        }))
    }

    fn messages(&self, id: &SessionId, after: u64, limit: usize) -> Result<Vec<Message>, String> {
        self.0.messages(id, after, limit).map_err(sentence)
    }

    fn runs(&self, id: &SessionId, before: u64, limit: usize) -> Result<Vec<StoredRun>, String> {
        self.0.runs(id, before, limit).map_err(sentence)
    }

    fn run(&self, id: &SessionId, run_id: &RunId) -> Result<Option<StoredRun>, String> {
        self.0.run(id, run_id).map_err(sentence)
    }

    fn copy(&self, id: &SessionId, part: PastPart, to: &Path) -> Result<PastEvents, String> {
        let path = to.to_owned();
        let make = move || Ok(Box::new(BufWriter::new(File::create(&path)?)) as Box<dyn std::io::Write>);
        let copy = self.0.copy(id, part == PastPart::All, make).map_err(sentence)?;
        let keys = copy.signed.iter().map(|signed| signed.key).collect();
        Ok(PastEvents { proven: copy.proven, last: copy.last, keys, unproven: copy.unproven, bad: copy.bad })
    }
}

fn sentence(error: DatabaseError) -> String {
    error.to_string()
}

/// Writes what is left. With its proof: a node that was stopped in order must not look like one that was lost.
pub(super) async fn close(outbox: Option<Outbox>, engine: &Engine) {
    if let Some(outbox) = outbox {
        engine.node().sign_recordings(LAST_SIGNATURES).await;
        // A panic of the thread is in the log.
        let _ = tokio::task::spawn_blocking(move || outbox.close()).await;
    }
}
