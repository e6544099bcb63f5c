//! Sends keys and sizes to a run, in order. Keys that arrive while others are on their way are sent together.

use crate::client::{Client, Endpoint};
use shellkeep_protocol::{InputAccepted, InputRequest, TerminalResized, TerminalSize, text};
use tokio::sync::mpsc;

/// What goes to the run.
enum Deed {
    Keys(Vec<u8>),
    Resize(TerminalSize),
}

/// What goes to a run.
pub struct Typing {
    endpoint: Endpoint,
    session: String,
    run: Option<(String, mpsc::UnboundedSender<Deed>)>,
    /// Typed before the run began.
    early: Vec<u8>,
}

impl Typing {
    /// For a run that has not begun.
    pub fn new(endpoint: Endpoint, session: &str) -> Self {
        Self { endpoint, session: session.to_owned(), run: None, early: Vec::new() }
    }

    /// The run, once it has begun.
    pub fn run_id(&self) -> Option<String> {
        self.run.as_ref().map(|(run_id, _)| run_id.clone())
    }

    /// The run has begun.
    pub fn begin(&mut self, run_id: String) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let path = format!("/v1/sessions/{}/runs/{run_id}", self.session);
        tokio::spawn(send(self.endpoint.clone(), path, receiver));
        self.run = Some((run_id, sender));
        let early = std::mem::take(&mut self.early);
        self.keys(early);
    }

    /// Types.
    pub fn keys(&mut self, keys: Vec<u8>) {
        match &self.run {
            None => self.early.extend(keys),
            Some(_) if keys.is_empty() => {}
            // A run that has ended takes nothing.
            Some((_, sender)) => drop(sender.send(Deed::Keys(keys))),
        }
    }

    /// Changes the size.
    pub fn resize(&self, size: Option<TerminalSize>) {
        if let (Some((_, sender)), Some(size)) = (&self.run, size) {
            let _ = sender.send(Deed::Resize(size));
        }
    }
}

/// Refusals mean that the run has ended, which its viewer learns from its result.
async fn send(endpoint: Endpoint, path: String, mut deeds: mpsc::UnboundedReceiver<Deed>) {
    let Ok(mut client) = Client::connect(&endpoint).await else { return };
    let mut next = deeds.recv().await;
    while let Some(deed) = next.take() {
        match deed {
            Deed::Resize(size) => {
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
                let (text, base64) = text::encode(keys);
                let request = InputRequest { text: base64.is_none().then_some(text), base64, eof: false };
                let _ = client.post::<_, InputAccepted>(&format!("{path}/input"), &request).await;
            }
        }
        if next.is_none() {
            next = deeds.recv().await;
        }
    }
}
