//! Runs that a caller's key started and that the backend may not have yet. So a lookup of such a run needs no flush:
//! what is not here is in the backend, where an index finds it however long the session's history is, even while a full
//! disk blocks the backend.

use crate::backend::{Entry, carried_runs, started_run};
use crate::lock::hold;
use shellkeep_session::{Event, Record, RunId, RunResult, SessionId, StoredRun};
use std::collections::HashMap;
use std::sync::Mutex;

/// Maximum number of runs kept here. The backend is updated ten times a second, so more than this means that it is
/// stuck; from then on a lookup waits for it like any other.
const MOST_RUNS: usize = 10_000;
/// Maximum number of bytes of texts and outputs kept here, for the same reason.
const MOST_BYTES: usize = 32 << 20;

/// What is known about a key.
#[derive(Debug, PartialEq)]
pub(crate) enum Lookup {
    /// Its run.
    Here(Box<StoredRun>),
    /// If there is one, the backend has it.
    InBackend,
    /// The backend must be brought up to date first.
    Unknown,
}

/// Runs with keys that the backend may not have yet.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Whether the backend has everything that an earlier daemon left in the journal.
    caught_up: bool,
    /// How many were not kept because there were too many.
    refused: u64,
    /// Of those, how many the backend has: all that were refused before it was last asked to catch up.
    refused_and_applied: u64,
    bytes: usize,
    runs: HashMap<(SessionId, RunId), StoredRun>,
    keys: HashMap<(SessionId, String), RunId>,
}

/// A moment before the backend began to catch up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beginning {
    refused: u64,
}

impl Requests {
    /// A record was appended. Called after it is in the journal: a run that is refused here is then in what the backend
    /// catches up with, if it begins to do so later.
    pub(crate) fn appended(&self, record: &Record) {
        match &record.event {
            Event::RunStarted { request_id: Some(_), .. } => {
                if let Some(run) = started_run(record) {
                    hold(&self.inner).insert(&record.session_id, run);
                }
            }
            Event::RecordsLost { .. } | Event::Owned { .. } => {
                let keyed = carried_runs(record).into_iter().filter(|run| run.request_id.is_some());
                for run in keyed {
                    hold(&self.inner).insert_unknown(&record.session_id, run);
                }
            }
            Event::RunFinished { run_id, result, .. } => {
                let mut inner = hold(&self.inner);
                if inner.runs.is_empty() {
                    return;
                }
                let Some(run) = inner.runs.get_mut(&(record.session_id.clone(), run_id.clone())) else { return };
                (run.result, run.ended_seq) = (Some((**result).clone()), Some(record.seq));
                inner.bytes += weight_of_result(result);
            }
            event if event.destroys() => hold(&self.inner).forget(&record.session_id),
            _ => {}
        }
    }

    /// The backend has these.
    pub(crate) fn applied(&self, entries: &[Entry]) {
        let mut inner = hold(&self.inner);
        if inner.runs.is_empty() {
            return;
        }
        for entry in entries {
            if let Entry::Record(Record { session_id, event: Event::RunFinished { run_id, .. }, .. }) = entry {
                inner.remove(session_id, run_id);
            }
        }
    }

    /// To be called before the backend begins to catch up with what is in the journal.
    pub(crate) fn before_catching_up(&self) -> Beginning {
        Beginning { refused: hold(&self.inner).refused }
    }

    /// The backend has everything that was appended before that moment.
    pub(crate) fn caught_up(&self, since: Beginning) {
        let mut inner = hold(&self.inner);
        inner.caught_up = true;
        // What did not fit here before is in the backend now; running commands are known to their sessions.
        inner.refused_and_applied = since.refused;
    }

    /// The keys of a session's runs that the backend may not have yet. `None` if the backend must be brought up to date first.
    pub(crate) fn ids_of(&self, session_id: &SessionId) -> Option<Vec<String>> {
        let inner = hold(&self.inner);
        let mine = inner.keys.keys().filter(|(session, _)| session == session_id);
        inner.is_whole().then(|| mine.map(|(_, key)| key.clone()).collect())
    }

    /// The run with a key.
    pub(crate) fn find(&self, session_id: &SessionId, request_id: &str) -> Lookup {
        let inner = hold(&self.inner);
        if !inner.is_whole() {
            return Lookup::Unknown;
        }
        let Some(run_id) = inner.keys.get(&(session_id.clone(), request_id.to_owned())) else {
            return Lookup::InBackend;
        };
        match inner.runs.get(&(session_id.clone(), run_id.clone())) {
            Some(run) => Lookup::Here(Box::new(run.clone())),
            None => Lookup::InBackend,
        }
    }
}

impl Inner {
    /// Whether what is not here is in the backend.
    fn is_whole(&self) -> bool {
        self.caught_up && self.refused == self.refused_and_applied
    }

    fn insert(&mut self, session_id: &SessionId, run: StoredRun) {
        if self.runs.len() >= MOST_RUNS || self.bytes >= MOST_BYTES {
            self.refused += 1;
            return;
        }
        let Some(request_id) = run.request_id.clone() else { return };
        self.bytes += weight(&run);
        self.keys.insert((session_id.clone(), request_id), run.run_id.clone());
        self.runs.insert((session_id.clone(), run.run_id.clone()), run);
    }

    fn insert_unknown(&mut self, session_id: &SessionId, run: StoredRun) {
        if !self.runs.contains_key(&(session_id.clone(), run.run_id.clone())) {
            self.insert(session_id, run);
        }
    }

    fn remove(&mut self, session_id: &SessionId, run_id: &RunId) {
        let Some(run) = self.runs.remove(&(session_id.clone(), run_id.clone())) else { return };
        self.bytes -= weight(&run);
        let key = (session_id.clone(), run.request_id.unwrap_or_default());
        if self.keys.get(&key) == Some(run_id) {
            self.keys.remove(&key);
        }
    }

    fn forget(&mut self, session_id: &SessionId) {
        self.runs.retain(|(session, _), _| session != session_id);
        self.keys.retain(|(session, _), _| session != session_id);
        self.bytes = self.runs.values().map(weight).sum();
    }
}

/// Bytes of a run's text and output.
fn weight(run: &StoredRun) -> usize {
    run.command.as_bytes().len() + run.result.as_ref().map_or(0, weight_of_result)
}

fn weight_of_result(result: &RunResult) -> usize {
    let inline = [&result.stdout.inline, &result.stderr.inline];
    inline.into_iter().flatten().map(|bytes| bytes.as_bytes().len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::result;
    use shellkeep_session::{Output, Timestamp};

    fn started(session: &str, seq: u64, key: &str) -> Record {
        let event = Event::RunStarted {
            run_id: RunId::from_seq(seq),
            request_id: Some(key.to_owned()),
            command: "true".into(),
            call: None,
            by: None,
            files_unkept: false,
        };
        Record { session_id: SessionId::parse(session).unwrap(), seq, at: Timestamp::UNIX_EPOCH, event }
    }

    #[test]
    fn what_the_backend_may_not_have_is_found_here_and_nothing_else() {
        let (requests, id) = (Requests::default(), SessionId::parse("s").unwrap());
        assert_eq!(requests.find(&id, "k"), Lookup::Unknown);
        requests.caught_up(requests.before_catching_up());
        assert_eq!(requests.find(&id, "k"), Lookup::InBackend);
        requests.appended(&started("s", 3, "k"));
        assert!(matches!(requests.find(&id, "k"), Lookup::Here(run) if run.seq == 3 && run.result.is_none()));
        // Its start is not enough.
        requests.applied(&[Entry::Record(started("s", 3, "k"))]);
        assert!(matches!(requests.find(&id, "k"), Lookup::Here(_)));
        assert_eq!(requests.find(&SessionId::parse("t").unwrap(), "k"), Lookup::InBackend);
        let destroyed = Record { event: Event::SessionDestroyed, ..started("s", 4, "k") };
        requests.appended(&destroyed);
        assert_eq!(requests.find(&id, "k"), Lookup::InBackend);
        for seq in 0..=MOST_RUNS as u64 {
            requests.appended(&started("s", seq, &format!("k{seq}")));
        }
        assert_eq!(requests.find(&id, "k1"), Lookup::Unknown);
    }

    /// A run of a session that is kept under another name stayed here. A retry in the next session of the name was answered with
    /// it, without a result, and it took room until the daemon ended.
    #[test]
    fn a_session_that_ends_takes_its_runs_along() {
        let (requests, id) = (Requests::default(), SessionId::parse("s").unwrap());
        requests.caught_up(requests.before_catching_up());
        let kept_as = SessionId::parse("s.deleted.1").unwrap();
        for end in [Event::SessionDestroyed, Event::SessionDeleted { by: None, kept_as }] {
            requests.appended(&started("s", 3, "k"));
            requests.appended(&started("t", 3, "k"));
            requests.appended(&Record { event: end.clone(), ..started("s", 4, "") });
            assert_eq!(requests.find(&id, "k"), Lookup::InBackend, "{end:?}");
            assert!(matches!(requests.find(&SessionId::parse("t").unwrap(), "k"), Lookup::Here(_)));
            assert_eq!(hold(&requests.inner).runs.len(), 1);
        }
    }

    fn ended(seq: u64, run: u64, output: usize) -> Record {
        let stdout = Output { inline: Some(vec![b'x'; output].into()), ..Output::default() };
        let result = Box::new(RunResult { stdout, ..result() });
        let event = Event::RunFinished { run_id: RunId::from_seq(run), result, delta: Box::default() };
        Record { event, ..started("s", seq, "") }
    }

    /// A run that did not fit while the backend was catching up with what came before it was taken for one that the backend
    /// has, so a retry ran it again.
    #[test]
    fn what_did_not_fit_is_unknown_until_the_backend_has_caught_up_with_it() {
        let (requests, id) = (Requests::default(), SessionId::parse("s").unwrap());
        requests.caught_up(requests.before_catching_up());
        for seq in 0..MOST_RUNS as u64 {
            requests.appended(&started("s", seq, &format!("k{seq}")));
        }
        let before = requests.before_catching_up();
        requests.appended(&started("s", MOST_RUNS as u64, "late"));
        requests.caught_up(before);
        assert_eq!(requests.find(&id, "late"), Lookup::Unknown);
        requests.caught_up(requests.before_catching_up());
        assert_eq!(requests.find(&id, "late"), Lookup::InBackend);
    }

    /// The bytes were counted anew only when nothing ran with a key, so one run that never ended (`tail -f`) closed this for
    /// good after 32 MiB of other runs.
    #[test]
    fn what_the_backend_has_takes_no_room() {
        let (requests, id) = (Requests::default(), SessionId::parse("s").unwrap());
        requests.caught_up(requests.before_catching_up());
        requests.appended(&started("s", 1, "forever"));
        for seq in (2..100).step_by(2) {
            let end = ended(seq + 1, seq, 1 << 20);
            requests.appended(&started("s", seq, "again"));
            requests.appended(&end);
            requests.applied(&[Entry::Record(end)]);
        }
        requests.appended(&started("s", 200, "last"));
        assert!(matches!(requests.find(&id, "last"), Lookup::Here(_)));
        requests.appended(&Record { event: Event::SessionDestroyed, ..started("s", 201, "") });
        assert_eq!(hold(&requests.inner).bytes, 0);
    }
}
