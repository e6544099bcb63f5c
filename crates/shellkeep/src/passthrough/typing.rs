//! Sends keys and sizes to a run, in order. Keys that arrive while others are on their way are sent together.

use crate::client::{Client, ClientError, Endpoint};
use shellkeep_protocol::{InputAccepted, InputRequest, ResizeRequest, TerminalResized, TerminalSize, text};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// What goes to the run.
enum Deed {
    Keys(Vec<u8>),
    Resize(TerminalSize),
}

/// What goes to a run.
pub struct Typing {
    endpoint: Endpoint,
    session: String,
    hold: Option<String>,
    run: Option<Begun>,
    /// Typed before the run began.
    early: Vec<u8>,
}

/// A run that takes keys.
struct Begun {
    run_id: String,
    deeds: mpsc::UnboundedSender<Deed>,
    /// Returns the keys that came too late for the run.
    sending: JoinHandle<Vec<u8>>,
}

impl Typing {
    /// For a run that has not begun.
    pub fn new(endpoint: Endpoint, session: &str, hold: Option<String>) -> Self {
        Self { endpoint, session: session.to_owned(), hold, run: None, early: Vec::new() }
    }

    /// The run, once it has begun.
    pub fn run_id(&self) -> Option<String> {
        self.run.as_ref().map(|begun| begun.run_id.clone())
    }

    /// The run has begun.
    pub fn begin(&mut self, run_id: String) {
        let (deeds, receiver) = mpsc::unbounded_channel();
        let path = format!("/v1/sessions/{}/runs/{run_id}", self.session);
        let sending = tokio::spawn(send(self.endpoint.clone(), path, self.hold.clone(), receiver));
        self.run = Some(Begun { run_id, deeds, sending });
        let early = std::mem::take(&mut self.early);
        self.keys(early);
    }

    /// Types.
    pub fn keys(&mut self, keys: Vec<u8>) {
        match &self.run {
            None => self.early.extend(keys),
            Some(_) if keys.is_empty() => {}
            // Nobody takes them if the daemon is gone.
            Some(Begun { deeds, .. }) => drop(deeds.send(Deed::Keys(keys))),
        }
    }

    /// The run has ended. Returns the keys that came too late for it.
    pub async fn end(self) -> Vec<u8> {
        match self.run {
            None => self.early,
            Some(Begun { deeds, sending, .. }) => {
                drop(deeds);
                sending.await.unwrap_or_default()
            }
        }
    }

    /// Changes the size.
    pub fn resize(&self, size: Option<TerminalSize>) {
        if let (Some(Begun { deeds, .. }), Some(size)) = (&self.run, size) {
            let _ = deeds.send(Deed::Resize(size));
        }
    }
}

/// Sends everything, and returns the keys that were refused because the run had ended.
async fn send(
    endpoint: Endpoint,
    path: String,
    hold: Option<String>,
    mut deeds: mpsc::UnboundedReceiver<Deed>,
) -> Vec<u8> {
    let mut late = Vec::new();
    let Ok(mut client) = Client::connect(&endpoint).await else { return late };
    let mut next = deeds.recv().await;
    while let Some(deed) = next.take() {
        match deed {
            Deed::Resize(TerminalSize { rows, cols }) => {
                let size = ResizeRequest { rows, cols, hold: hold.clone() };
                let _ = client.post::<_, TerminalResized>(&format!("{path}/resize"), &size).await;
            }
            Deed::Keys(mut keys) => {
                while let Ok(more) = deeds.try_recv() {
                    match more {
                        Deed::Keys(more) => keys.extend(more),
                        resize => {
                            next = Some(resize);
                            break;
                        }
                    }
                }
                let (text, base64) = text::encode(keys.clone());
                let text = base64.is_none().then_some(text);
                let request = InputRequest { text, base64, hold: hold.clone(), ..InputRequest::default() };
                let sent = client.post::<_, InputAccepted>(&format!("{path}/input"), &request).await;
                if matches!(sent, Err(ClientError::Refused(refused)) if refused.problem.code == "run_ended") {
                    late.extend(keys);
                }
            }
        }
        if next.is_none() {
            next = deeds.recv().await;
        }
    }
    late
}
