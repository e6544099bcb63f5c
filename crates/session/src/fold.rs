//! A session's state as the fold of its records: what each record changes.

use crate::agent::{FINAL_OUTPUT, USER_INPUT};
use crate::hold::{SESSION_HELD, SESSION_RELEASED};
use crate::state::{ActiveRun, SessionState};
use crate::{
    Event, KvRewound, KvState, Notice, NoticeCode, Record, RunStatus, Service, ServiceStatus, SessionHold, Source,
    Unkept, service,
};
use serde::Deserialize as _;
use serde_json::Value;

/// A record that does not follow from the state it is applied to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The numbers do not follow each other.
    #[error("record {found} does not follow record {after}")]
    OutOfOrder {
        /// Last applied.
        after: u64,
        /// Given.
        found: u64,
    },
    /// The first record must create the session.
    #[error("a session begins with its creation, not with record {found}")]
    NotCreated {
        /// Given.
        found: u64,
    },
}

impl SessionState {
    /// The state after a session's first record.
    pub fn create(record: &Record) -> Result<Self, ApplyError> {
        match &record.event {
            Event::SessionCreated { meta, shell } if record.seq == 1 => {
                Ok(Self { seq: 1, ..Self::blank((**meta).clone(), record.at, (**shell).clone()) })
            }
            _ => Err(ApplyError::NotCreated { found: record.seq }),
        }
    }

    /// Applies one record.
    pub fn apply(&mut self, record: &Record) -> Result<(), ApplyError> {
        if let Event::RecordsLost { from, state, .. } = &record.event
            && (*from..=record.seq).contains(&(self.seq + 1))
        {
            *self = Self { seq: record.seq, last_active_at: record.at, ..(**state).clone() };
            return Ok(());
        }
        if record.seq != self.seq + 1 {
            return Err(ApplyError::OutOfOrder { after: self.seq, found: record.seq });
        }
        self.seq = record.seq;
        self.last_active_at = record.at;
        match &record.event {
            Event::SessionCreated { .. }
            | Event::SessionDestroyed
            | Event::SessionDeleted { .. }
            | Event::RunInput { .. }
            | Event::NetworkRefused { .. }
            | Event::RecordsLost { .. } => {}
            Event::Forked { notices, .. } => self.pending_notices.extend(notices.iter().cloned()),
            Event::RunStarted { .. } | Event::RunFinished { .. } | Event::RunDetached { .. } => {
                self.apply_to_runs(record)
            }
            Event::ShellStarted { generation } => self.generation = *generation,
            Event::ProcessesLeft { processes, unkept } => {
                self.processes = processes.clone();
                self.unkept = unkept.clone();
            }
            Event::ShellStopped { notices, .. } => {
                self.shell_is_gone();
                self.pending_notices.extend(notices.iter().cloned());
            }
            Event::Restarted { shell } => {
                self.shell_is_gone();
                self.shell = (**shell).clone();
                self.pending_notices.clear();
            }
            Event::Scrubbed { shell, agent_state, .. } => {
                self.shell = (**shell).clone();
                self.agent_state = agent_state.clone();
            }
            Event::Owned { claim, state, .. } => {
                if let Some(state) = state {
                    *self = Self { seq: record.seq, last_active_at: record.at, ..(**state).clone() };
                }
                self.claims.begin(record.seq, claim);
            }
            Event::Checkpointed { .. } | Event::Rewound { .. } => self.apply_to_files(record),
            Event::SandboxChanged { sandbox, .. } => self.sandbox = self.sandbox.max(*sandbox),
            Event::SessionEnded { .. } => self.ended_at = Some(record.at),
            Event::KvChanged { version, .. } => self.kv.version = self.kv.version.max(*version),
            Event::Noted { .. } | Event::AgentStateSaved { .. } | Event::MessageAdded { .. } => {
                self.apply_to_agent(record);
            }
            Event::ServiceStarted { .. }
            | Event::ServiceLive { .. }
            | Event::ServiceReady { .. }
            | Event::ServiceEnded { .. } => self.apply_to_service(record),
        }
        Ok(())
    }

    fn apply_to_runs(&mut self, record: &Record) {
        match &record.event {
            Event::RunStarted { run_id, request_id, command, .. } => {
                self.ended_at = None;
                let run = ActiveRun {
                    request_id: request_id.clone(),
                    command: command.clone(),
                    started_at: record.at,
                    detached: false,
                };
                self.active_runs.insert(run_id.clone(), run);
            }
            Event::RunFinished { run_id, delta, result } => {
                if let Some(hold) = &mut self.hold {
                    hold.ran(run_id, &result.changes);
                }
                let detached = self.active_runs.remove(run_id).is_some_and(|run| run.detached);
                if !detached && result.status != RunStatus::Lost {
                    // The result has carried them to the caller; that of a lost run is made when nobody waits for it.
                    self.pending_notices.clear();
                }
                self.shell.apply(delta);
            }
            Event::RunDetached { run_id } => {
                if let Some(run) = self.active_runs.get_mut(run_id) {
                    run.detached = true;
                }
                self.unkept = Unkept::default();
                self.pending_notices.clear();
            }
            _ => {}
        }
    }

    /// Events from its agent.
    fn apply_to_agent(&mut self, record: &Record) {
        match &record.event {
            Event::Noted { event_type, .. } if event_type == FINAL_OUTPUT => self.agent_step = record.seq,
            // A message for its agent: it is in use again.
            Event::Noted { event_type, .. } if event_type == USER_INPUT => self.ended_at = None,
            Event::Noted { event_type, data, author } if author.source == Source::Runtime => {
                match event_type.as_str() {
                    SESSION_HELD => self.held(record.seq, data),
                    SESSION_RELEASED => self.released(data),
                    _ => {}
                }
            }
            Event::AgentStateSaved { state, .. } => {
                self.agent_versions = self.last_agent_version().max(state.version);
                self.agent_state = Some(state.clone());
                self.agent_step = record.seq;
            }
            Event::MessageAdded { message, .. } => self.messages = message.seq_id,
            _ => {}
        }
    }

    /// A hold begins, or the current one is extended.
    fn held(&mut self, seq: u64, data: &Value) {
        let Ok(new) = SessionHold::deserialize(data) else { return };
        let hold = match self.hold.take() {
            Some(before) if before.hold == new.hold => SessionHold { reason: new.reason, until: new.until, ..*before },
            _ => {
                // The agent has not seen these, and the holder's commands must not take them away.
                let (untold, rest) = std::mem::take(&mut self.pending_notices)
                    .into_iter()
                    .partition(|told| told.code == NoticeCode::Held);
                self.pending_notices = rest;
                SessionHold { since: seq, files: self.files.clone(), untold, ..new }
            }
        };
        self.hold = Some(Box::new(hold));
    }

    /// The hold ends. The next result says what the holder changed.
    fn released(&mut self, data: &Value) {
        let untold = self.hold.take().map(|hold| hold.untold).unwrap_or_default();
        self.pending_notices.extend(untold);
        if let Some(message) = data.get("notice").and_then(Value::as_str) {
            self.pending_notices.push(Notice { code: NoticeCode::Held, message: message.to_owned() });
        }
    }

    fn shell_is_gone(&mut self) {
        self.processes.clear();
        self.unkept = Unkept::default();
    }

    fn apply_to_files(&mut self, record: &Record) {
        match &record.event {
            Event::Checkpointed { checkpoint } => {
                self.files = Some(checkpoint.at.clone());
                if let Some(hold) = &mut self.hold {
                    hold.saved(checkpoint);
                }
            }
            Event::Rewound { files, shell, agent_state, kv, notices, .. } => {
                self.shell_is_gone();
                self.shell = (**shell).clone();
                let restored = agent_state.as_ref().map_or(0, |state| state.version);
                self.agent_versions = self.last_agent_version().max(restored);
                self.agent_state = agent_state.clone();
                // A rewind starts a new step of the agent.
                self.agent_step = record.seq;
                self.files = files.clone();
                if let Some(KvRewound { restored, .. }) = kv {
                    self.kv = KvState { version: self.kv.version.max(restored.version), restored: Some(*restored) };
                }
                // Of several rewinds in a row only the last one matters.
                let is_of_rewind = |code| matches!(code, NoticeCode::Rewound | NoticeCode::FilesUncertain);
                if notices.iter().any(|notice| is_of_rewind(notice.code)) {
                    self.pending_notices.retain(|notice| !is_of_rewind(notice.code));
                }
                self.pending_notices.extend(notices.iter().cloned());
            }
            _ => {}
        }
    }

    fn apply_to_service(&mut self, record: &Record) {
        match &record.event {
            Event::ServiceStarted { service_id, spec } => {
                self.ended_at = None;
                let service = Service {
                    spec: (**spec).clone(),
                    status: ServiceStatus::Starting,
                    started_at: record.at,
                    stamps: None,
                    restarts: 0,
                    end: None,
                };
                self.services.insert(service_id.clone(), service);
                service::forget_old(&mut self.services);
            }
            Event::ServiceLive { service_id, stamps, restarts } => {
                if let Some(service) = self.services.get_mut(service_id) {
                    let at_once = service.spec.ready.is_none();
                    service.status = if at_once { ServiceStatus::Running } else { ServiceStatus::Starting };
                    service.stamps = Some(stamps.clone());
                    service.restarts = *restarts;
                }
            }
            Event::ServiceReady { service_id } => {
                if let Some(service) = self.services.get_mut(service_id) {
                    service.status = ServiceStatus::Running;
                }
            }
            Event::ServiceEnded { service_id, status, end, notices } => {
                if let Some(service) = self.services.get_mut(service_id) {
                    service.status = *status;
                    service.stamps = None;
                    service.end = Some(end.clone());
                }
                self.pending_notices.extend(notices.iter().cloned());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Crash, after_crash};
    use crate::{AgentState, Author, Content, Message, RunId, SessionId, SessionMeta, Timestamp};
    use serde_json::{Value, json};

    fn created() -> SessionState {
        let session_id = SessionId::parse("s").unwrap();
        let meta = SessionMeta { workspace: "/w".into(), ..SessionMeta::of_name(session_id.clone()) };
        let event = Event::SessionCreated { meta: Box::new(meta), shell: Box::default() };
        SessionState::create(&Record { session_id, seq: 1, at: Timestamp::UNIX_EPOCH, event }).unwrap()
    }

    fn after(state: &mut SessionState, event: Event) {
        let (session_id, seq) = (state.meta.session_id.clone(), state.seq + 1);
        state.apply(&Record { session_id, seq, at: Timestamp::UNIX_EPOCH, event }).unwrap();
    }

    fn noted(event_type: &str) -> Event {
        Event::Noted { event_type: event_type.to_owned(), data: json!({}), author: Author::default() }
    }

    #[test]
    fn what_only_the_shell_had_is_named_after_a_crash() {
        let crashed = |state: &SessionState| after_crash(state, Crash::Daemon, Timestamp::UNIX_EPOCH, |_| true);
        let mut state = created();
        assert_eq!(crashed(&state), []);
        let unkept = Unkept { descriptors: vec!["5 (/etc/passwd)".to_owned()], variables: Vec::new() };
        after(&mut state, Event::ProcessesLeft { processes: Vec::new(), unkept });
        assert!(!state.is_at_rest());
        let events = crashed(&state);
        let [Event::ShellStopped { notices, .. }] = events.as_slice() else { panic!("{events:?}") };
        let message = &notices[0].message;
        assert!(message.ends_with("; open descriptors were closed: 5 (/etc/passwd)."), "{message}");
        after(&mut state, events[0].clone());
        assert_eq!(crashed(&state), []);
    }

    #[test]
    fn a_step_ends_with_a_saved_state_or_a_final_output_and_with_nothing_else() {
        let mut state = created();
        after(&mut state, noted(USER_INPUT));
        after(&mut state, noted("tool_call"));
        assert_eq!(state.agent_step, 0);
        let content = Content::Inline("{}".into());
        let saved = AgentState { version: 1, media_type: "application/json".to_owned(), content };
        after(&mut state, Event::AgentStateSaved { state: Box::new(saved), author: Author::default() });
        assert_eq!(state.agent_step, 4);
        let (role, content, at) = ("user".to_owned(), json!("x"), Timestamp::UNIX_EPOCH);
        let message = Box::new(Message { seq_id: 1, role, content, at });
        after(&mut state, Event::MessageAdded { message, author: Author::default() });
        after(&mut state, noted("resume_ended"));
        assert_eq!(state.agent_step, 4);
        after(&mut state, noted(FINAL_OUTPUT));
        assert_eq!(state.agent_step, 7);
    }

    #[test]
    fn a_version_of_the_agents_state_is_never_used_twice() {
        let save = |state: &mut SessionState| {
            let version = state.last_agent_version() + 1;
            let content = Content::Inline("{}".into());
            let saved = AgentState { version, media_type: "application/json".to_owned(), content };
            after(state, Event::AgentStateSaved { state: Box::new(saved), author: Author::default() });
            version
        };
        let mut state = created();
        let first = save(&mut state);
        let rewound = Event::Rewound {
            to: 1,
            step: None,
            by: None,
            files: None,
            kept_back: Vec::new(),
            shell: Box::default(),
            agent_state: None,
            kv: None,
            notices: Vec::new(),
        };
        after(&mut state, rewound);
        assert_eq!((first, state.agent_state.is_none()), (1, true));
        assert_eq!(save(&mut state), 2);
        // A session from before versions were counted continues from the current state.
        state.agent_versions = 0;
        assert_eq!(save(&mut state), 3);
    }

    #[test]
    fn a_lost_run_carries_no_notice_to_anybody() {
        let mut state = created();
        let (request_id, command, started_at) = (None, "sleep 30".into(), Timestamp::UNIX_EPOCH);
        let run = ActiveRun { request_id, command, started_at, detached: false };
        state.active_runs.insert(RunId::from_seq(2), run);
        state.pending_notices.push(Notice { code: NoticeCode::SessionMoved, message: "it is here now".to_owned() });
        let lost = after_crash(&state, Crash::Daemon, Timestamp::UNIX_EPOCH, |_| true);
        lost.into_iter().for_each(|event| after(&mut state, event));
        let codes: Vec<NoticeCode> = state.pending_notices.iter().map(|notice| notice.code).collect();
        assert_eq!(codes, [NoticeCode::SessionMoved, NoticeCode::ShellReplaced]);
    }

    #[test]
    fn a_session_is_in_use_again_when_somebody_speaks_to_its_agent() {
        let mut state = created();
        after(&mut state, Event::SessionEnded { reason: "done".to_owned() });
        after(&mut state, noted("x_afterwards"));
        assert!(state.ended_at.is_some());
        after(&mut state, noted(USER_INPUT));
        assert_eq!(state.ended_at, None);
    }

    #[test]
    fn the_agent_learns_what_the_holder_changed_and_only_the_agent() {
        let runtime = |event_type: &str, data: Value| Event::Noted {
            event_type: event_type.to_owned(),
            data,
            author: Author::runtime(None),
        };
        let held =
            |hold: &str, until: &str| runtime(SESSION_HELD, json!({"hold": hold, "holder": "ann", "until": until}));
        let mut state = created();
        // Events of others do not hold it.
        let forged = json!({"hold": "x", "holder": "x", "until": "2026-11-17T00:00:00Z"});
        after(
            &mut state,
            Event::Noted { event_type: SESSION_HELD.to_owned(), data: forged, author: Author::default() },
        );
        assert_eq!(state.hold, None);
        after(&mut state, held("a", "2026-11-17T00:00:00Z"));
        after(&mut state, held("a", "2026-11-17T00:10:00Z"));
        let hold = state.hold.as_deref().unwrap();
        assert_eq!((hold.since, hold.until.to_string().as_str()), (3, "2026-11-17T00:10:00Z"));
        after(&mut state, runtime(SESSION_RELEASED, json!({"notice": "ann changed A"})));
        assert_eq!((state.hold.is_none(), state.pending_notices.len()), (true, 1));
        after(&mut state, held("b", "2026-11-17T00:20:00Z"));
        assert!(state.pending_notices.is_empty(), "the next holder's command does not get it");
        after(&mut state, runtime(SESSION_RELEASED, json!({"notice": "ann changed B"})));
        let told: Vec<&str> = state.pending_notices.iter().map(|notice| notice.message.as_str()).collect();
        assert_eq!(told, ["ann changed A", "ann changed B"]);
    }
}
