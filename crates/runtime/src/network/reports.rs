//! What rooms did not reach, and why: told to the session before the program hears of it, so that the result of its command
//! says so.

use crate::sync::lock;
use shellkeep_session::{Notice, NoticeCode, SessionId};
use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// What is told of one room, and remembered so that it is told once.
const MOST_TOLD: usize = 100;
/// How long a program waits until it is on record.
const RECORD_LIMIT: Duration = Duration::from_secs(1);

/// A host that was not reached.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Unreached {
    /// It is not among the hosts that are allowed.
    NotAllowed { host: String },
    /// It is, and no connection to it could be made.
    Failed { host: String, reason: String },
}

impl Unreached {
    /// What the result of a command says about it.
    pub(crate) fn notice(&self) -> Notice {
        let (code, message) = match self {
            Self::NotAllowed { host } => (
                NoticeCode::NetworkRefused,
                format!(
                    "{host} was not reached: it is not among the hosts that this session may connect to. The operator of \
                     the daemon can add it to sandbox_hosts."
                ),
            ),
            Self::Failed { host, reason } => (
                NoticeCode::NetworkFailed,
                format!(
                    "{host} was not reached, although this session may connect to it: {reason}. If this lasts, ask the \
                     operator of the daemon whether the host can be reached from there."
                ),
            ),
        };
        Notice { code, message }
    }

    /// What makes it another one: a host that is down may be down for many reasons.
    fn key(&self) -> (bool, String) {
        match self {
            Self::NotAllowed { host } => (false, host.clone()),
            Self::Failed { host, .. } => (true, host.clone()),
        }
    }
}

/// What a session did not reach.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) session_id: SessionId,
    pub(crate) unreached: Unreached,
    /// Answered when it is on record.
    pub(crate) recorded: oneshot::Sender<()>,
}

/// Where one room reports.
#[derive(Debug)]
pub(super) struct Reports {
    id: SessionId,
    told: Mutex<HashSet<(bool, String)>>,
    reports: mpsc::Sender<Report>,
}

impl Reports {
    pub(super) fn new(id: SessionId, reports: mpsc::Sender<Report>) -> Self {
        Self { id, told: Mutex::default(), reports }
    }

    /// Reports something once, and waits until it is on record.
    pub(super) async fn tell(&self, unreached: Unreached) {
        if !self.is_new(&unreached) {
            return;
        }
        let (recorded, on_record) = oneshot::channel();
        if self.reports.try_send(Report { session_id: self.id.clone(), unreached, recorded }).is_ok() {
            let _ = tokio::time::timeout(RECORD_LIMIT, on_record).await;
        }
    }

    fn is_new(&self, unreached: &Unreached) -> bool {
        let mut told = lock(&self.told);
        told.len() < MOST_TOLD && told.insert(unreached.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_host_is_told_once_and_why() {
        let (reports, mut told) = mpsc::channel(10);
        let room = Reports::new(SessionId::parse("s").unwrap(), reports);
        let host = "a.test".to_owned();
        let failed = |reason: &str| Unreached::Failed { host: host.clone(), reason: reason.to_owned() };
        let telling = async {
            for unreached in [Unreached::NotAllowed { host: host.clone() }, failed("refused"), failed("timed out")] {
                room.tell(unreached).await;
            }
            drop(room);
        };
        let recording = async {
            let mut codes = Vec::new();
            while let Some(Report { unreached, recorded, .. }) = told.recv().await {
                let Notice { code, message } = unreached.notice();
                assert!(message.starts_with("a.test was not reached"), "{message}");
                codes.push(code);
                recorded.send(()).unwrap();
            }
            codes
        };
        let ((), codes) = tokio::join!(telling, recording);
        assert_eq!(codes, [NoticeCode::NetworkRefused, NoticeCode::NetworkFailed]);
    }
}
