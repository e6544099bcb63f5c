//! An agent's work on one message, as its watchers see it: its answer in pieces, then its result. A slow watcher reads
//! later from what is kept and never delays the agent.

use crate::ops::{ResumeSession, ResumeView};
use crate::sync::lock;
use shellkeep_redact::Redactor;
use shellkeep_session::unfinished;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// Bytes of an answer that are kept and recorded; an agent writes more into a file.
pub const MAX_ANSWER: usize = 1 << 20;

/// An agent's work on one message.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) resume_id: String,
    /// Number of the event that holds the message.
    pub(crate) seq_from: u64,
    /// The caller's key.
    pub(crate) request_id: Option<String>,
    pub(crate) message: String,
    /// The id of the agent's token that sent it; none if the host did.
    pub(crate) by: Option<String>,
    answer: Mutex<Answer>,
    progress: watch::Sender<Progress>,
    stop: watch::Sender<Option<String>>,
}

/// What the agent has answered so far.
#[derive(Debug, Default)]
struct Answer {
    text: String,
    left_out: usize,
}

/// How far it has come.
#[derive(Debug, Clone, Default)]
struct Progress {
    /// Bytes of the answer that are there.
    length: usize,
    result: Option<Arc<ResumeView>>,
}

impl Work {
    /// New work, with a watcher.
    pub(crate) fn new(
        resume_id: String,
        seq_from: u64,
        request: ResumeSession,
        by: Option<String>,
    ) -> (Arc<Self>, Watch) {
        let ResumeSession { message, request_id, .. } = request;
        let (progress, receiver) = watch::channel(Progress::default());
        let work = Self {
            resume_id,
            seq_from,
            request_id,
            message,
            by,
            answer: Mutex::default(),
            progress,
            stop: watch::Sender::new(None),
        };
        let work = Arc::new(work);
        (Arc::clone(&work), Watch { work, receiver, seen: 0 })
    }

    /// Another watcher, from the beginning.
    pub(crate) fn watch(self: &Arc<Self>) -> Watch {
        Watch { work: Arc::clone(self), receiver: self.progress.subscribe(), seen: 0 }
    }

    /// Waits until no watcher is left. A caller with a key may come back, so then never.
    pub(crate) async fn abandoned(&self) {
        if self.request_id.is_some() {
            std::future::pending::<()>().await;
        }
        self.progress.closed().await;
    }

    /// Requests that it stops, for this reason.
    pub(crate) fn stop(&self, reason: &str) {
        self.stop.send_if_modified(|stop| {
            let is_first = stop.is_none();
            if is_first {
                *stop = Some(reason.to_owned());
            }
            is_first
        });
    }

    /// Waits for a request to stop; returns the reason.
    pub(crate) async fn stopped(&self) -> String {
        let mut stop = self.stop.subscribe();
        let asked = stop.wait_for(Option::is_some).await;
        asked.ok().and_then(|reason| reason.clone()).unwrap_or_default()
    }

    /// A piece of the answer.
    pub(crate) fn push(&self, text: &str) {
        let mut answer = lock(&self.answer);
        let room = MAX_ANSWER.saturating_sub(answer.text.len());
        let kept = if answer.left_out > 0 { 0 } else { floor(text, room) };
        answer.text.push_str(&text[..kept]);
        answer.left_out += text.len() - kept;
        let length = answer.text.len();
        drop(answer);
        self.progress.send_modify(|progress| progress.length = length);
    }

    /// All that was answered so far, and how many bytes are missing in it.
    pub(crate) fn answer(&self) -> (String, usize) {
        let answer = lock(&self.answer);
        (answer.text.clone(), answer.left_out)
    }

    /// It is over.
    pub(crate) fn finish(&self, view: ResumeView) {
        self.progress.send_modify(|progress| progress.result = Some(Arc::new(view)));
    }

    /// Waits for its end.
    pub(crate) async fn finished(&self) {
        let _ = self.progress.subscribe().wait_for(|progress| progress.result.is_some()).await;
    }

    fn piece(&self, from: usize) -> Option<String> {
        lock(&self.answer).text.get(from..).filter(|rest| !rest.is_empty()).map(str::to_owned)
    }
}

/// The largest number of bytes up to `limit` that does not cut a character.
pub(crate) fn floor(text: &str, limit: usize) -> usize {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    end
}

/// An answer that is masked as it comes.
pub(super) struct Masked {
    stream: shellkeep_redact::Stream,
    /// Masked but not returned: an incomplete character.
    held: Vec<u8>,
}

impl Masked {
    /// The beginning of an answer.
    pub(super) fn new(redactor: &Redactor) -> Self {
        Self { stream: redactor.stream(), held: Vec::new() }
    }

    /// Takes a piece and returns what is final.
    pub(super) fn push(&mut self, piece: &str) -> String {
        self.stream.push(piece.as_bytes(), &mut self.held);
        let rest = self.held.split_off(self.held.len() - unfinished(&self.held));
        String::from_utf8_lossy(&std::mem::replace(&mut self.held, rest)).into_owned()
    }

    /// The rest.
    pub(super) fn finish(mut self) -> String {
        self.stream.finish(&mut self.held);
        String::from_utf8_lossy(&self.held).into_owned()
    }
}

/// A watcher.
pub(crate) struct Watch {
    work: Arc<Work>,
    receiver: watch::Receiver<Progress>,
    seen: usize,
}

/// What a watcher sees.
pub(crate) enum Seen {
    /// A piece of the answer.
    Output(String),
    Result(Arc<ResumeView>),
}

impl Watch {
    /// The next piece, and after the last one the result, again and again. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Seen {
        loop {
            let result = self.receiver.borrow_and_update().result.clone();
            if let Some(piece) = self.work.piece(self.seen) {
                self.seen += piece.len();
                return Seen::Output(piece);
            }
            if let Some(result) = result {
                return Seen::Result(result);
            }
            // The work holds the other end.
            let _ = self.receiver.changed().await;
        }
    }

    /// Waits for the result.
    pub(crate) async fn result(&mut self) -> ResumeView {
        let done = self.receiver.wait_for(|progress| progress.result.is_some()).await;
        let result = done.ok().and_then(|progress| progress.result.clone());
        match result {
            Some(view) => (*view).clone(),
            // The work holds the other end, so it has not gone without a result.
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::ResumeStatus;

    fn begun(key: Option<&str>) -> (Arc<Work>, Watch) {
        let request = ResumeSession { request_id: key.map(str::to_owned), ..ResumeSession::new("hi") };
        Work::new("a1".to_owned(), 1, request, None)
    }

    fn view(work: &Work) -> ResumeView {
        ResumeView {
            resume_id: work.resume_id.clone(),
            output: work.answer().0,
            status: ResumeStatus::Done,
            steps: 0,
            agent_state_version: 0,
            seq_from: 1,
            seq_to: 2,
            error: None,
        }
    }

    #[tokio::test]
    async fn whoever_comes_late_hears_all_of_it() {
        let (work, first) = begun(None);
        work.push("one ");
        let mut second = work.watch();
        drop(first);
        work.push("two");
        work.finish(view(&work));
        let Seen::Output(text) = second.next().await else { panic!("the answer comes first") };
        assert_eq!(text, "one two");
        assert!(matches!(second.next().await, Seen::Result(found) if found.output == "one two"));
        assert_eq!(work.watch().result().await.output, "one two");
    }

    #[tokio::test]
    async fn it_is_abandoned_when_nobody_watches_and_nobody_has_a_key() {
        let (work, watch) = begun(None);
        let waits = Arc::clone(&work);
        let abandoned = tokio::spawn(async move { waits.abandoned().await });
        drop(watch);
        abandoned.await.unwrap();
        let (kept, watch) = begun(Some("key"));
        drop(watch);
        let never = tokio::time::timeout(std::time::Duration::from_millis(20), kept.abandoned()).await;
        assert!(never.is_err());
    }

    #[test]
    fn a_masked_answer_is_the_same_however_it_was_cut() {
        let redactor = Redactor::new(&shellkeep_redact::Config::default()).unwrap();
        let redactor = redactor.with_secrets(["horse-battery-staple"]).unwrap();
        let text = "é the key is horse-battery-staple, naïvely 𝄞".repeat(200);
        let expected = redactor.redact_str(&text);
        for size in [1, 3, 7, 1000] {
            let mut masked = Masked::new(&redactor);
            let letters: Vec<char> = text.chars().collect();
            let mut told: String =
                letters.chunks(size).map(|piece| masked.push(&piece.iter().collect::<String>())).collect();
            told.push_str(&masked.finish());
            assert_eq!(told, expected, "{size}");
        }
    }

    #[test]
    fn a_long_answer_is_cut_between_characters() {
        let (work, _watch) = begun(None);
        work.push(&"x".repeat(MAX_ANSWER - 1));
        work.push("é");
        work.push("y");
        let (text, left_out) = work.answer();
        assert_eq!((text.len(), left_out), (MAX_ANSWER - 1, 3));
    }
}
