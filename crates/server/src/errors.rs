//! Errors of the runtime as refusals: which HTTP status each has, and its data.

use crate::refusal::{RETRY_AFTER, Refusal};
use crate::translate;
use axum::http::StatusCode;
use shellkeep_runtime::{
    CheckpointError, ClusterError, Conflict, FileError, KvError, OpError, QuotaMet, RecordError, RunError, SearchNext,
    ServiceError, SessionError, TokenError, whole_seconds,
};
use shellkeep_session::{ServiceId, SessionId};
use std::time::Duration;

/// When a stopping daemon may be back, if it restarts: the time that commands usually need to finish.
const BACK_AFTER: Duration = Duration::from_secs(5);

impl From<OpError> for Refusal {
    fn from(error: OpError) -> Self {
        let refusal = Self::new(status(&error), error.code(), error.to_string()).with_hint(error.hint());
        match error {
            OpError::QuotaExceeded(met) => over_quota(refusal, *met),
            OpError::NoShare(full) => refusal.with("limit", full.limit),
            OpError::Session(error) => with_session(refusal, error),
            OpError::Run(error) => with_run(refusal, error),
            OpError::Checkpoint(error) => with_checkpoint(refusal, error),
            OpError::File(error) => refused_file(refusal, &error),
            OpError::Kv(error) => refused_key(refusal, error),
            OpError::Service(ServiceError::NotFound { session_id, service_id }) => {
                refusal.with("session_id", session_id).with("service_id", service_id)
            }
            OpError::Service(ServiceError::NameTaken { session_id, name, service_id }) => {
                refusal.with("session_id", session_id).with("name", name).with("service_id", service_id)
            }
            OpError::Service(ServiceError::NotStarted { .. }) => refusal,
            OpError::Record(error) => with_record(refusal, error),
            OpError::Token(TokenError::NotFound { token_id }) => refusal.with("token_id", token_id),
            OpError::Token(TokenError::Unavailable { .. }) => refusal,
            OpError::Resume(error) => refusal.with("session_id", error.session_id()),
            OpError::ShuttingDown => refusal.with(RETRY_AFTER, BACK_AFTER.as_secs()),
            OpError::Invalid { .. }
            | OpError::NotAllowed { .. }
            | OpError::StoreUnavailable { .. }
            | OpError::StoreFull { .. }
            | OpError::Internal { .. } => refusal,
            OpError::Cluster(error) => with_cluster(refusal, &error),
        }
    }
}

fn with_session(refusal: Refusal, error: SessionError) -> Refusal {
    match error {
        SessionError::NotFound { session_id }
        | SessionError::Exists { session_id }
        | SessionError::OfOtherUser { session_id, .. }
        | SessionError::Damaged { session_id, .. } => refusal.with("session_id", session_id),
        SessionError::BadWorkspace { path, .. } => refusal.with("workspace", path),
        SessionError::BadCwd { path, .. } | SessionError::CwdNotInRoom { path } => refusal.with("cwd", path),
        SessionError::WorkspaceNotTaken { session_id, path, .. } => {
            refusal.with("session_id", session_id).with("workspace", path)
        }
        SessionError::SandboxUnavailable { sandbox, .. } => refusal.with("sandbox", sandbox.as_str()),
        SessionError::SandboxNotLooser { session_id, sandbox, .. } => {
            refusal.with("session_id", session_id).with("sandbox", sandbox.as_str())
        }
        SessionError::SandboxBusy { session_id } => refusal.with("session_id", session_id),
        SessionError::SecretUnavailable { session_id, name, .. } => {
            refusal.with("session_id", session_id).with("secret", name)
        }
    }
}

fn with_run(refusal: Refusal, error: RunError) -> Refusal {
    match error {
        RunError::Restarted { session_id } | RunError::Cancelled { session_id } | RunError::HoldOver { session_id } => {
            refusal.with("session_id", session_id)
        }
        RunError::NotFound { session_id, run_id } => refusal.with("session_id", session_id).with("run_id", run_id),
        RunError::Busy { session_id, run_id, command, running_for, asked: _ } => {
            let refusal = refusal.with("session_id", session_id).with("run_id", run_id);
            refusal.with("command", command).with("running_seconds", running_for.as_secs())
        }
        RunError::Ended { run_id }
        | RunError::NoInput { run_id }
        | RunError::InputClosed { run_id }
        | RunError::InputFull { run_id }
        | RunError::NoTerminal { run_id }
        | RunError::ScreensLost { run_id }
        | RunError::OutputReclaimed { run_id, .. } => refusal.with("run_id", run_id),
        RunError::Held { session_id, holder, reason, until } => {
            let refusal = refusal.with("session_id", session_id).with("holder", holder);
            refusal.with("reason", reason).with("until", until.to_string())
        }
        RunError::QueueFull { session_id, waiting } => refusal.with("session_id", session_id).with("waiting", waiting),
        RunError::RequestIdReused { request_id } => refusal.with("request_id", request_id),
        RunError::BadCwd { path, .. } => refusal.with("cwd", path),
        RunError::CwdGone { session_id, path, .. } => refusal.with("session_id", session_id).with("cwd", path),
        RunError::Overloaded { waiting, limit, retry_after, .. } => {
            let seconds = whole_seconds(retry_after);
            refusal.with("waiting", waiting).with("limit", limit).with(RETRY_AFTER, seconds)
        }
        RunError::TmpBlocked { session_id, path, outside, .. } => {
            refusal.with("session_id", session_id).with("path", path).with("outside", outside)
        }
        RunError::ShuttingDown => refusal.with(RETRY_AFTER, BACK_AFTER.as_secs()),
        RunError::ShellUnavailable { .. } => refusal,
    }
}

fn with_checkpoint(refusal: Refusal, error: CheckpointError) -> Refusal {
    match error {
        CheckpointError::NotFound { session_id, checkpoint, .. } => {
            refusal.with("session_id", session_id).with("checkpoint", checkpoint)
        }
        CheckpointError::FileNotFound { checkpoint, path } => refusal.with("checkpoint", checkpoint).with("path", path),
        CheckpointError::Failed { session_id, .. } => refusal.with("session_id", session_id),
        CheckpointError::NotApart { session_id, path, .. } => refusal.with("session_id", session_id).with("cwd", path),
        CheckpointError::MergeConflict { conflicts, .. } => {
            refusal.with("conflicts", conflicts.into_iter().map(conflict).collect::<Vec<_>>())
        }
        CheckpointError::OfOthers { of_others, .. } => {
            refusal.with("of_others", of_others.into_iter().map(conflict).collect::<Vec<_>>())
        }
        CheckpointError::NoSuchMoment { .. }
        | CheckpointError::NothingToUndo { .. }
        | CheckpointError::NoOrigin { .. } => refusal,
    }
}

fn conflict(Conflict { path, reason }: Conflict) -> serde_json::Value {
    serde_json::json!({"path": path, "reason": reason})
}

fn with_cluster(refusal: Refusal, error: &ClusterError) -> Refusal {
    let refusal = match error.session_id() {
        Some(session_id) => refusal.with("session_id", session_id),
        None => refusal,
    };
    match error.retry_after() {
        Some(after) => refusal.with(RETRY_AFTER, after.as_secs()),
        None => refusal,
    }
}

fn with_record(refusal: Refusal, error: RecordError) -> Refusal {
    match error {
        RecordError::VersionConflict { current } => refusal.with("version", current),
        RecordError::AgentStateReclaimed { version, .. } | RecordError::AgentStateDamaged { version, .. } => {
            refusal.with("version", version)
        }
        RecordError::FileChanged { session_id, file } => refusal.with("session_id", session_id).with("file", file),
        RecordError::AgentStateNotFound { session_id }
        | RecordError::OnlyInHistory { session_id }
        | RecordError::ScrubIncomplete { session_id, .. }
        | RecordError::Unreadable { session_id, .. } => refusal.with("session_id", session_id),
        RecordError::TooManySecrets { session_id, bytes, most } => {
            refusal.with("session_id", session_id).with("bytes", bytes).with("limit", most)
        }
        RecordError::SearchSpent { next: SearchNext::Offset(offset), .. } => refusal.with("next_offset", offset),
        RecordError::SearchSpent { next: SearchNext::After(seq), .. } => refusal.with("after", seq),
        RecordError::EventsCutOff { taken, first_seq, .. } => refusal.with("taken", taken).with("first_seq", first_seq),
        RecordError::InvalidEventType { .. } => refusal,
    }
}

/// The HTTP status of an error.
fn status(error: &OpError) -> StatusCode {
    match error {
        OpError::Invalid { .. } => StatusCode::BAD_REQUEST,
        OpError::NotAllowed { .. } => StatusCode::FORBIDDEN,
        OpError::Service(ServiceError::NotFound { .. })
        | OpError::Token(TokenError::NotFound { .. })
        | OpError::Cluster(ClusterError::NoSuchNode { .. }) => StatusCode::NOT_FOUND,
        OpError::Service(ServiceError::NameTaken { .. }) => StatusCode::CONFLICT,
        OpError::Session(error) => session_status(error),
        OpError::Run(error) => run_status(error),
        OpError::Checkpoint(error) => checkpoint_status(error),
        OpError::File(error) => file_status(error),
        OpError::Kv(error) => kv_status(error),
        OpError::Record(error) => record_status(error),
        OpError::Resume(error) if error.is_for_now() => StatusCode::SERVICE_UNAVAILABLE,
        OpError::Resume(_) => StatusCode::CONFLICT,
        OpError::NoShare(full) if full.by_all => StatusCode::SERVICE_UNAVAILABLE,
        OpError::NoShare(_) | OpError::QuotaExceeded(_) => StatusCode::TOO_MANY_REQUESTS,
        OpError::Internal { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        OpError::StoreFull { .. } => StatusCode::INSUFFICIENT_STORAGE,
        OpError::Token(TokenError::Unavailable { reason, .. }) if reason.is_full() => StatusCode::INSUFFICIENT_STORAGE,
        OpError::Service(ServiceError::NotStarted { .. })
        | OpError::Token(TokenError::Unavailable { .. })
        | OpError::StoreUnavailable { .. }
        | OpError::Cluster(_)
        | OpError::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn session_status(error: &SessionError) -> StatusCode {
    match error {
        SessionError::BadWorkspace { .. } | SessionError::BadCwd { .. } => StatusCode::BAD_REQUEST,
        SessionError::NotFound { .. } => StatusCode::NOT_FOUND,
        SessionError::Exists { .. }
        | SessionError::OfOtherUser { .. }
        | SessionError::WorkspaceNotTaken { .. }
        | SessionError::SandboxUnavailable { .. }
        | SessionError::CwdNotInRoom { .. }
        | SessionError::SandboxNotLooser { .. }
        | SessionError::SandboxBusy { .. }
        | SessionError::SecretUnavailable { .. } => StatusCode::CONFLICT,
        SessionError::Damaged { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn run_status(error: &RunError) -> StatusCode {
    match error {
        RunError::BadCwd { .. } => StatusCode::BAD_REQUEST,
        RunError::NotFound { .. } => StatusCode::NOT_FOUND,
        RunError::Restarted { .. }
        | RunError::Cancelled { .. }
        | RunError::CwdGone { .. }
        | RunError::Ended { .. }
        | RunError::NoInput { .. }
        | RunError::InputClosed { .. }
        | RunError::InputFull { .. }
        | RunError::NoTerminal { .. }
        | RunError::Busy { .. }
        | RunError::Held { .. }
        | RunError::HoldOver { .. }
        | RunError::RequestIdReused { .. } => StatusCode::CONFLICT,
        RunError::OutputReclaimed { .. } | RunError::ScreensLost { .. } => StatusCode::GONE,
        RunError::QueueFull { .. } => StatusCode::TOO_MANY_REQUESTS,
        RunError::ShellUnavailable { .. }
        | RunError::TmpBlocked { .. }
        | RunError::Overloaded { .. }
        | RunError::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn checkpoint_status(error: &CheckpointError) -> StatusCode {
    match error {
        CheckpointError::NotFound { .. }
        | CheckpointError::NoSuchMoment { .. }
        | CheckpointError::NothingToUndo { .. }
        | CheckpointError::FileNotFound { .. } => StatusCode::NOT_FOUND,
        CheckpointError::NotApart { .. }
        | CheckpointError::OfOthers { .. }
        | CheckpointError::NoOrigin { .. }
        | CheckpointError::MergeConflict { .. } => StatusCode::CONFLICT,
        CheckpointError::Failed { reason, .. } if reason.is_full() => StatusCode::INSUFFICIENT_STORAGE,
        CheckpointError::Failed { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn record_status(error: &RecordError) -> StatusCode {
    match error {
        RecordError::InvalidEventType { .. } => StatusCode::BAD_REQUEST,
        RecordError::AgentStateNotFound { .. } => StatusCode::NOT_FOUND,
        RecordError::AgentStateReclaimed { .. } => StatusCode::GONE,
        RecordError::OnlyInHistory { .. } => StatusCode::CONFLICT,
        RecordError::VersionConflict { .. } => StatusCode::PRECONDITION_FAILED,
        RecordError::SearchSpent { .. } | RecordError::TooManySecrets { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        RecordError::EventsCutOff { reason, .. } if reason.is_full() => StatusCode::INSUFFICIENT_STORAGE,
        RecordError::EventsCutOff { .. } => StatusCode::SERVICE_UNAVAILABLE,
        RecordError::AgentStateDamaged { .. }
        | RecordError::FileChanged { .. }
        | RecordError::ScrubIncomplete { .. }
        | RecordError::Unreadable { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn file_status(error: &FileError) -> StatusCode {
    match error {
        FileError::Outside { .. } => StatusCode::FORBIDDEN,
        FileError::NotFound { .. } | FileError::Dangling { .. } => StatusCode::NOT_FOUND,
        FileError::IsDirectory { .. }
        | FileError::NotAFile { .. }
        | FileError::NotADirectory { .. }
        | FileError::LinkLoop { .. }
        | FileError::Unsteady { .. }
        | FileError::NotEmpty { .. } => StatusCode::CONFLICT,
        FileError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        FileError::Unexpected { .. } => StatusCode::PRECONDITION_FAILED,
    }
}

fn refused_file(refusal: Refusal, error: &FileError) -> Refusal {
    let refusal = refusal.with("path", error.path());
    match error {
        FileError::TooLarge { size, limit, .. } => refusal.with("size", *size).with("limit", *limit),
        FileError::Unexpected { current, .. } => refusal.with("sha256", current.clone()),
        _ => refusal,
    }
}

fn kv_status(error: &KvError) -> StatusCode {
    match error {
        KvError::NotFound { .. } | KvError::ValueNotFound { .. } => StatusCode::NOT_FOUND,
        KvError::Conflict { .. } => StatusCode::PRECONDITION_FAILED,
        KvError::Damaged { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        KvError::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn refused_key(refusal: Refusal, error: KvError) -> Refusal {
    match error {
        KvError::NotFound { key, .. } => refusal.with("key", key),
        KvError::Conflict { key, current } => refusal.with("key", key).with("version", current),
        KvError::ValueNotFound { sha256 } => refusal.with("sha256", sha256),
        KvError::Damaged { .. } | KvError::Unavailable { .. } => refusal,
    }
}

fn over_quota(refusal: Refusal, met: QuotaMet) -> Refusal {
    let services: Vec<_> = met.services.into_iter().map(translate::service).collect();
    let services = serde_json::to_value(services).unwrap_or_default();
    let refusal = refusal.with("quota", met.quota.as_str()).with("limit", met.limit).with("used", met.used);
    let refusal = refusal.with("services", services);
    if met.elsewhere.is_empty() {
        return refusal;
    }
    let named = |(session_id, service_id): (SessionId, ServiceId)| serde_json::json!({"session_id": session_id.as_str(), "service_id": service_id.as_str()});
    refusal.with("services_elsewhere", met.elsewhere.into_iter().map(named).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::service_text::tests::view;
    use shellkeep_runtime::{Hint, WhileBusy};

    fn quota_met() -> OpError {
        let quota = shellkeep_session::QuotaName::LiveShells;
        OpError::QuotaExceeded(Box::new(QuotaMet::new(quota, 1, 1)))
    }

    fn overloaded() -> OpError {
        let (waited, retry_after) = (Duration::from_secs(30), Duration::from_millis(1200));
        OpError::Run(RunError::Overloaded { waiting: 10, limit: 10, waited, retry_after })
    }

    fn not_saved(error: &(dyn std::error::Error + 'static)) -> OpError {
        let reason = error.into();
        OpError::Checkpoint(CheckpointError::Failed {
            session_id: "s".into(),
            what: "could not be saved",
            reason,
            state: "nothing was changed",
        })
    }

    #[test]
    fn the_host_is_told_of_all_services_and_of_the_limit() {
        let met = |agent: Option<&str>| QuotaMet {
            agent: agent.map(str::to_owned),
            services: vec![view(); 22],
            ..QuotaMet::new(shellkeep_session::QuotaName::Services, 22, 22)
        };
        let none = QuotaMet { services: Vec::new(), ..met(None) };
        let hint = |met: &QuotaMet| OpError::QuotaExceeded(Box::new(met.clone())).hint();
        let hints = [met(None), met(Some("a")), none.clone()].map(|met| hint(&met));
        assert_eq!(hints, [Hint::MakeRoom, Hint::StopService, Hint::RaiseQuota].map(Some));
        let (host, agent, none) = (met(None).to_string(), met(Some("a")).to_string(), none.to_string());
        assert!(host.contains("All that run, the most idle first: s12 ") && host.ends_with("; and 2 more"), "{host}");
        assert!(agent.contains("Yours, the most idle first"), "{agent}");
        assert!(!none.contains("Yours") && none.ends_with("There is no service to stop"), "{none}");
        // How to raise a limit differs from door to door.
        assert!([host, agent, none].iter().all(|fact| !fact.contains("quotas")));
    }

    /// An error whose message omits its cause.
    #[derive(Debug)]
    struct Wrapped(std::io::Error);

    impl std::fmt::Display for Wrapped {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("the repository failed")
        }
    }

    impl std::error::Error for Wrapped {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    fn os(number: i32) -> std::io::Error {
        std::io::Error::from_raw_os_error(number)
    }

    fn no_token(number: i32) -> OpError {
        let reason = (&os(number)).into();
        OpError::Token(TokenError::Unavailable { detail: "no token was created", reason })
    }

    fn cut_off(number: i32) -> OpError {
        let reason = (&os(number)).into();
        OpError::Record(RecordError::EventsCutOff { reason, taken: 1, total: 2, first_seq: 1 })
    }

    fn busy(run_id: &str) -> OpError {
        let (command, running_for) = ("sleep 60".to_owned(), Duration::from_secs(5));
        let (session_id, run_id, asked) = ("s".to_owned(), run_id.to_owned(), WhileBusy::NotToWait);
        OpError::Run(RunError::Busy { session_id, run_id, command, running_for, asked })
    }

    fn of(error: OpError) -> (u16, String) {
        let refusal = Refusal::from(error);
        (refusal.problem().status, refusal.problem().code.clone())
    }

    #[test]
    fn statuses_and_codes_are_those_of_the_contract() {
        let session_id = "s".to_owned();
        let run_id = "r1".to_owned();
        let table = [
            (OpError::Invalid { detail: String::new() }, 400, "invalid_request"),
            (OpError::NotAllowed { detail: String::new() }, 403, "not_allowed"),
            (OpError::Token(TokenError::NotFound { token_id: "t".into() }), 404, "token_not_found"),
            (no_token(5), 503, "store_unavailable"),
            (no_token(28), 507, "store_unavailable"),
            (cut_off(5), 503, "store_unavailable"),
            (cut_off(28), 507, "store_unavailable"),
            (OpError::Session(SessionError::NotFound { session_id: session_id.clone() }), 404, "session_not_found"),
            (
                OpError::Run(RunError::NotFound { session_id: session_id.clone(), run_id: run_id.clone() }),
                404,
                "run_not_found",
            ),
            (busy(&run_id), 409, "session_busy"),
            (OpError::Run(RunError::RequestIdReused { request_id: "q".into() }), 409, "request_id_reused"),
            (OpError::Run(RunError::QueueFull { session_id: session_id.clone(), waiting: 9 }), 429, "queue_full"),
            (quota_met(), 429, "quota_exceeded"),
            (OpError::Session(SessionError::Damaged { session_id, reason: String::new() }), 500, "session_damaged"),
            (OpError::Run(RunError::ShellUnavailable { reason: String::new() }), 503, "shell_unavailable"),
            (
                OpError::Service(ServiceError::NotFound { session_id: "s".into(), service_id: "s1".into() }),
                404,
                "service_not_found",
            ),
            (OpError::Service(ServiceError::NotStarted { reason: String::new() }), 503, "service_not_started"),
            (overloaded(), 503, "overloaded"),
            (not_saved(&os(28)), 507, "files_failed"),
            (not_saved(&Wrapped(os(122))), 507, "files_failed"),
            (not_saved(&os(13)), 500, "files_failed"),
            (OpError::Internal { detail: String::new() }, 500, "internal_error"),
            (OpError::Checkpoint(CheckpointError::NoSuchMoment { detail: String::new() }), 404, "no_such_moment"),
            (
                OpError::Checkpoint(CheckpointError::FileNotFound { checkpoint: "c".into(), path: "p".into() }),
                404,
                "file_not_found",
            ),
            (OpError::Session(SessionError::Exists { session_id: "s".into() }), 409, "session_exists"),
            (
                OpError::Session(SessionError::OfOtherUser { session_id: "s".into(), user_id: "u".into() }),
                409,
                "session_exists",
            ),
            (OpError::Checkpoint(CheckpointError::NoOrigin { detail: String::new() }), 409, "no_origin"),
            (OpError::StoreUnavailable { reason: String::new() }, 503, "store_unavailable"),
            (OpError::StoreFull { reason: String::new() }, 507, "store_unavailable"),
            (OpError::ShuttingDown, 503, "shutting_down"),
            (OpError::Run(RunError::ShuttingDown), 503, "shutting_down"),
        ];
        for (error, status, code) in table {
            assert_eq!(of(error), (status, code.to_owned()));
        }
    }

    #[test]
    fn a_busy_session_names_its_run() {
        let refusal = Refusal::from(busy("r7"));
        assert_eq!(serde_json::to_value(refusal.problem()).unwrap()["run_id"], "r7");
    }

    #[test]
    fn a_refused_merge_names_what_does_not_fit() {
        let conflicts = vec![Conflict { path: "a.txt".to_owned(), reason: "both changed it".to_owned() }];
        let refusal =
            Refusal::from(OpError::Checkpoint(CheckpointError::MergeConflict { first: "a.txt".into(), conflicts }));
        let data = serde_json::to_value(refusal.problem()).unwrap();
        assert_eq!((&data["status"], &data["code"]), (&409.into(), &"merge_conflict".into()));
        assert_eq!(data["conflicts"][0], serde_json::json!({"path": "a.txt", "reason": "both changed it"}));
    }

    #[test]
    fn a_met_quota_names_the_services_that_could_go() {
        let quota = shellkeep_session::QuotaName::ServicesPerAgent;
        let met = QuotaMet { agent: Some("ann".into()), services: vec![view()], ..QuotaMet::new(quota, 1, 1) };
        let refusal = Refusal::from(OpError::QuotaExceeded(Box::new(met)));
        let data = serde_json::to_value(refusal.problem()).unwrap();
        assert_eq!(
            (&data["quota"], &data["limit"], &data["used"]),
            (&"services_per_agent".into(), &1.into(), &1.into())
        );
        assert_eq!(
            (&data["services"][0]["service_id"], &data["services"][0]["ports"][0]),
            (&"s12".into(), &5173.into())
        );
        assert_eq!(refusal.hint(), Some(Hint::StopService));
    }
}
