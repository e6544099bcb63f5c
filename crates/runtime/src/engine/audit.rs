//! The audit trail: operations that cannot be undone or that change permissions, and rejected requests.

use crate::identities::Scope;
use crate::sync::lock;
use shellkeep_session::Timestamp;
use shellkeep_store::AuditTrail;
use shellkeep_store::audit::AuditEntry;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The log target of the audit trail, so that a log filter can select it.
const TARGET: &str = "shellkeep::audit";
/// Operations that are written to the file: they change permissions or limits, or delete something. The rest is in the
/// sessions' recordings and in the log.
const FILED: [&str; 11] = [
    "create_token",
    "revoke_token",
    "destroy",
    "purge",
    "restart",
    "scrub",
    "set_quotas",
    "end_agent",
    "end_session",
    "remove_history",
    "refused",
];
/// Rejections that are logged per [`WINDOW`]; more are counted. An attacker who guesses tokens must not fill the disk
/// or the log.
const MOST_REFUSALS: u32 = 20;
/// See [`MOST_REFUSALS`].
const WINDOW: Duration = Duration::from_secs(1);
/// Characters of a path that are noted.
const MOST_PATH: usize = 200;
/// Maximum number of entries in one response.
pub const MAX_AUDIT: usize = 10_000;

/// Counts refusals, so that they are noted at a bounded rate.
#[derive(Debug, Default)]
struct Refusals {
    window: Mutex<Option<(Instant, u32)>>,
    left_out: AtomicU64,
}

impl Refusals {
    /// How many were left out since the last logged one; `None` if this one is left out too.
    fn note(&self, now: Instant) -> Option<u64> {
        let mut window = lock(&self.window);
        let (began, count) = window.filter(|(began, _)| now.duration_since(*began) < WINDOW).unwrap_or((now, 0));
        *window = Some((began, count + 1));
        if count >= MOST_REFUSALS {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(self.left_out.swap(0, Ordering::Relaxed))
    }
}

/// The audit trail of a node.
pub(super) struct Audit {
    trail: AuditTrail,
    refusals: Refusals,
}

impl Audit {
    /// Writes to `trail`.
    pub(super) fn new(trail: AuditTrail) -> Self {
        Self { trail, refusals: Refusals::default() }
    }

    /// Logs an operation. The host's own are frequent and uninteresting, so they are logged at a level that is off by
    /// default.
    pub(super) fn note(&self, door: &str, scope: &Scope, operation: &'static str, object: &str) {
        match scope.token() {
            Some(token) => tracing::info!(target: TARGET, token, operation, object, "audit"),
            None => tracing::debug!(target: TARGET, token = "host", operation, object, "audit"),
        }
        if FILED.contains(&operation) {
            self.trail.add(AuditEntry { agent: agent(scope), ..entry(door, caller(scope), operation, object) });
        }
    }

    /// Logs a rejected request. `who` is its caller, if it differs from `scope`.
    pub(super) fn refusal(
        &self,
        door: &str,
        scope: &Scope,
        who: Option<String>,
        request: &str,
        code: &str,
        reason: Option<&str>,
    ) {
        let Some(left_out) = self.refusals.note(Instant::now()) else { return };
        let agent = if who.is_none() { agent(scope) } else { None };
        let who = who.unwrap_or_else(|| caller(scope));
        let request: String = request.chars().take(MOST_PATH).collect();
        tracing::warn!(target: TARGET, door, who, request, code, reason, left_out, "refused");
        self.trail.add(AuditEntry {
            agent,
            code: Some(code.to_owned()),
            left_out,
            ..entry(door, who, "refused", &request)
        });
    }

    /// The last entries, the oldest first.
    pub(super) fn last(&self, limit: usize) -> io::Result<Vec<AuditEntry>> {
        self.trail.last(limit.clamp(1, MAX_AUDIT))
    }
}

fn entry(door: &str, who: String, what: &str, object: &str) -> AuditEntry {
    let (door, what, object) = (door.to_owned(), what.to_owned(), object.to_owned());
    AuditEntry { at: Timestamp::now(), door, who, agent: None, what, object, code: None, left_out: 0 }
}

/// The agent of a caller with an agent's token.
fn agent(scope: &Scope) -> Option<String> {
    scope.token().and(scope.agent()).map(str::to_owned)
}

fn caller(scope: &Scope) -> String {
    match (scope.only_session(), scope.token()) {
        (Some(session), _) => format!("session {session}"),
        (None, Some(token)) => token.to_owned(),
        (None, None) => "host".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_is_counted_and_not_noted() {
        let (refusals, start) = (Refusals::default(), Instant::now());
        let noted = (0..100).filter(|_| refusals.note(start).is_some()).count();
        assert_eq!(noted, MOST_REFUSALS as usize);
        assert_eq!(refusals.note(start + WINDOW), Some(100 - u64::from(MOST_REFUSALS)));
        assert_eq!(refusals.note(start + WINDOW), Some(0));
    }
}
