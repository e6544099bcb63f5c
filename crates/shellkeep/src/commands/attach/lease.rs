//! Our hold on the session. It is extended while we are there, and ends by itself when we are killed.

use crate::client::{Client, ClientError, Endpoint};
use shellkeep_protocol::{HoldRequest, HoldResponse, ReleaseResponse, RunningNow};
use std::time::Duration;
use tokio::task::JoinHandle;

/// How long the agent waits for a viewer that was killed.
const TTL: Duration = Duration::from_secs(120);
/// How often the hold is extended.
const EXTEND_EVERY: Duration = Duration::from_secs(50);

/// Our hold. Dropping it stops extending it.
pub struct Lease {
    path: String,
    request: HoldRequest,
    hold_id: String,
    running: Option<RunningNow>,
    extending: JoinHandle<()>,
}

impl Lease {
    /// Takes a hold.
    pub async fn take(client: &mut Client, session: &str, reason: Option<&str>) -> Result<Self, ClientError> {
        let path = format!("/v1/sessions/{session}/hold");
        let mut request = HoldRequest {
            reason: reason.map(str::to_owned),
            ttl: Some(TTL.as_secs_f64()),
            holder: Some(our_name()),
            hold_id: None,
        };
        let held: HoldResponse = client.post(&path, &request).await?;
        request.hold_id = Some(held.hold_id.clone());
        let extending = tokio::spawn(extend_forever(client.endpoint().clone(), path.clone(), request.clone()));
        Ok(Self { path, request, hold_id: held.hold_id, running: held.running, extending })
    }

    /// What our commands carry.
    pub fn hold_id(&self) -> &str {
        &self.hold_id
    }

    /// The command that ran when we came.
    pub fn running(&self) -> Option<&RunningNow> {
        self.running.as_ref()
    }

    /// Makes sure that we still have it.
    pub async fn extend(&self, client: &mut Client) -> Result<(), ClientError> {
        client.post::<_, HoldResponse>(&self.path, &self.request).await.map(|_| ())
    }

    /// Ends it. Returns what the agent will read.
    pub async fn release(self, client: &mut Client) -> Result<Option<String>, ClientError> {
        self.extending.abort();
        let path = format!("{}?hold_id={}", self.path, self.hold_id);
        client.delete::<ReleaseResponse>(&path).await.map(|done| done.notice)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.extending.abort();
    }
}

/// A daemon that is gone may be back the next time.
async fn extend_forever(endpoint: Endpoint, path: String, request: HoldRequest) {
    loop {
        tokio::time::sleep(EXTEND_EVERY).await;
        if let Ok(mut client) = Client::connect(&endpoint).await {
            let _ = client.post::<_, HoldResponse>(&path, &request).await;
        }
    }
}

/// Who we are, for those who wait.
fn our_name() -> String {
    let user = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    let name = user.unwrap_or_default().chars().filter(|c| !c.is_control()).take(100).collect::<String>();
    if name.is_empty() { "a person".to_owned() } else { name }
}
