//! Finds out, when the daemon starts, whether this machine can keep the settings of sandboxes. What it cannot keep is an
//! error that says what to start with instead.

use crate::ops::SandboxSupport;
use crate::sandbox_advice::{FOR_AGENTS, FOR_ALL};
use crate::sandboxes::{NodeFacts, SandboxConfig, Sandboxes};
use crate::tasks;
use crate::token_holders::TokenHolders;
use std::path::Path;
use std::sync::Arc;

/// How sessions are confined. What this machine supports is tried out, and a setting that it cannot keep is an error.
pub(crate) async fn try_out(
    config: &SandboxConfig,
    data: &Path,
    environment: &[(Vec<u8>, Vec<u8>)],
    holders: Arc<TokenHolders>,
    node: NodeFacts,
) -> Result<Arc<Sandboxes>, String> {
    let (asked, data, environment) = (config.clone(), data.to_owned(), environment.to_vec());
    let trying = tasks::blocking(move || Sandboxes::new(&asked, &data, &environment, holders, node));
    let sandboxes = trying.await.map_err(|error| error.to_string())?;
    sandboxes.check(config.least).map_err(|error| instead(&sandboxes, &error.to_string(), FOR_ALL))?;
    let SandboxSupport { sandbox, unavailable, .. } = sandboxes.support_of_agents();
    match (unavailable, config.agents) {
        (None, _) => {}
        (Some(reason), Some(_)) => {
            let reason = format!("the sandbox '{sandbox}' of agents with tokens is not available here: {reason}");
            return Err(instead(&sandboxes, &reason, FOR_AGENTS));
        }
        (Some(reason), None) => {
            let instead = sandboxes.supported.instead(FOR_AGENTS);
            tracing::warn!(%sandbox, reason, "agents with tokens cannot run commands; {instead}");
        }
    }
    for support in sandboxes.support() {
        if let Some(reason) = support.unavailable {
            tracing::debug!(sandbox = %support.sandbox, reason, "sandbox not available on this machine");
        }
    }
    Ok(Arc::new(sandboxes))
}

/// Prepares the data directory for the users of sessions.
pub(crate) fn begin(sandboxes: &Sandboxes) -> Result<(), String> {
    sandboxes.begin().map_err(|reason| instead(sandboxes, &reason, FOR_AGENTS))
}

fn instead(sandboxes: &Sandboxes, reason: &str, flag: &str) -> String {
    format!("{reason}; {}", sandboxes.supported.instead(flag))
}
