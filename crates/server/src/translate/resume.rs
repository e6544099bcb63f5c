//! A message for an agent and its result: between the wire and the runtime's vocabulary.

use super::check::within;
use crate::refusal::Refusal;
use shellkeep_protocol::{self as wire, BusyChoice};
use shellkeep_runtime::{IfBusy, ResumeSession, ResumeStatus, ResumeView};
use shellkeep_session::id;

/// A request to resume an agent.
pub fn resume(request: wire::ResumeRequest) -> Result<ResumeSession, Refusal> {
    if let Some(request_id) = &request.request_id {
        id::check(request_id).map_err(|error| Refusal::bad_id("request_id", &error))?;
    }
    let timeout = request.timeout.map(|seconds| within(seconds, ""));
    Ok(ResumeSession {
        message: request.message,
        timeout: timeout.transpose()?,
        request_id: request.request_id,
        if_busy: match request.if_busy.unwrap_or_default() {
            BusyChoice::Wait => IfBusy::Wait,
            BusyChoice::Reject => IfBusy::Reject,
        },
    })
}

/// The result, for the caller.
pub fn resumed(view: ResumeView) -> wire::ResumeResponse {
    wire::ResumeResponse {
        resume_id: view.resume_id,
        output: view.output,
        status: match view.status {
            ResumeStatus::Done => wire::ResumeStatus::Done,
            ResumeStatus::Interrupted => wire::ResumeStatus::Interrupted,
            ResumeStatus::Failed => wire::ResumeStatus::Failed,
            ResumeStatus::TimedOut => wire::ResumeStatus::TimedOut,
        },
        steps: view.steps,
        agent_state_version: view.agent_state_version,
        seq_from: view.seq_from,
        seq_to: view.seq_to,
        error: view.error,
    }
}
