//! Output as it arrives, as progress notifications, for a client that requested them. A slow client gets fewer of them
//! and never delays the command.

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use rmcp::{RoleServer, ServiceError};
use shellkeep_runtime::{OpError, RunChunk, RunStream, RunView};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::Instant;

/// Shortest time between two notifications: ten per second are as many as a person can see.
const PAUSE: Duration = Duration::from_millis(100);
/// Most bytes of output in one notification: a screenful. The last ones are kept; all of it is in the result.
const MESSAGE_BYTES: usize = 2000;

/// The progress of one call, and what was not sent yet.
pub struct Progress {
    peer: Peer<RoleServer>,
    token: ProgressToken,
    untold: Vec<u8>,
    bytes: u64,
    not_before: Instant,
    sending: Option<Sending>,
}

type Sending = Pin<Box<dyn Future<Output = Result<(), ServiceError>> + Send>>;

impl Progress {
    /// Progress for a client that requested it.
    pub fn of(context: &RequestContext<RoleServer>) -> Option<Self> {
        let token = context.meta.get_progress_token()?;
        Some(Self {
            peer: context.peer.clone(),
            token,
            untold: Vec::new(),
            bytes: 0,
            not_before: Instant::now(),
            sending: None,
        })
    }

    /// Reports a run until it ends. Cancel-safe: it can be dropped and called again.
    pub async fn follow(&mut self, run: &mut RunStream) -> Option<Result<RunView, OpError>> {
        loop {
            let has_news = self.sending.is_some() || !self.untold.is_empty();
            tokio::select! {
                chunk = run.next() => match chunk? {
                    Ok(RunChunk::Stdout(bytes) | RunChunk::Stderr(bytes)) => self.note(&bytes),
                    Ok(RunChunk::Result(view)) => {
                        // A pending notification must not arrive after the response.
                        if let Some(sending) = self.sending.take() {
                            let _ = sending.await;
                        }
                        return Some(Ok(*view));
                    }
                    Err(error) => return Some(Err(error)),
                },
                () = self.tell(), if has_news => {}
            }
        }
    }

    fn note(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.untold.extend_from_slice(&bytes[bytes.len().saturating_sub(MESSAGE_BYTES)..]);
        let excess = self.untold.len().saturating_sub(MESSAGE_BYTES);
        self.untold.drain(..excess);
    }

    async fn tell(&mut self) {
        if let Some(sending) = &mut self.sending {
            // If the client is gone, its command continues.
            let _ = sending.as_mut().await;
            self.sending = None;
            return;
        }
        tokio::time::sleep_until(self.not_before).await;
        let untold = std::mem::take(&mut self.untold);
        let message = String::from_utf8_lossy(&untold).trim_end_matches('\n').to_owned();
        let param = ProgressNotificationParam::new(self.token.clone(), self.bytes as f64).with_message(message);
        let peer = self.peer.clone();
        self.sending = Some(Box::pin(async move { peer.notify_progress(param).await }));
        self.not_before = Instant::now() + PAUSE;
    }
}
