//! Watching a session that somebody else drives: what its commands draw is drawn here, and nothing is sent.

use crate::client::events::EventReader;
use crate::client::{Client, ClientError};
use crate::failure::Failure;
use crate::passthrough::{End, Keys, Role, ShownRun, write};
use crate::terminal;
use serde_json::Value;
use shellkeep_protocol::{RunList, RunStatus, Session};
use shellkeep_record::Line;
use shellkeep_terminal::Signals;
use shellkeep_terminal::modes::Modes;

/// Who watches what.
pub struct Watcher<'a> {
    pub client: Client,
    pub session: &'a str,
    pub modes: &'a Modes,
}

/// What happens next.
enum News {
    /// A command starts.
    Started {
        run_id: String,
        command: String,
    },
    /// The holder has left, and the agent will read this.
    Released {
        holder: String,
    },
    /// We leave.
    Left,
    Signalled(u8),
}

impl Watcher<'_> {
    /// Shows commands until the holder leaves or we do. Returns our exit code.
    pub async fn watch(mut self) -> Result<u8, Failure> {
        let path = format!("/v1/sessions/{}", self.session);
        let session: Session = self.client.get(&path).await?;
        let types = "run_started,session_released";
        let following = format!("{path}/events?after={}&type={types}", session.seq);
        let mut events = self.client.another().await.map_err(Failure::client)?.get_events(&following).await?;
        let newest = self.client.get::<RunList>(&format!("{path}/runs?limit=1")).await?.runs.pop();
        let mut shown = None;
        if let Some(run) = newest.filter(|run| run.status == RunStatus::Running) {
            shown = Some(run.run_id.clone());
            if let Some(code) = self.show(&run.run_id, &run.command).await? {
                return Ok(code);
            }
        }
        loop {
            match self.next(&mut events).await? {
                // It may have started just before we looked.
                News::Started { run_id, .. } if shown.as_ref() == Some(&run_id) => {}
                News::Started { run_id, command } => {
                    if let Some(code) = self.show(&run_id, &command).await? {
                        return Ok(code);
                    }
                }
                News::Released { holder } => {
                    let (session, flags) = (self.session, self.client.flags());
                    terminal::notice(&format!(
                        "{} has left; take over with `shellkeep attach {session}{flags}`",
                        terminal::harmless(&holder)
                    ));
                    return Ok(0);
                }
                News::Left => return Ok(0),
                News::Signalled(number) => return Ok(128 + number),
            }
        }
    }

    /// Shows one command. Returns our exit code if we leave meanwhile.
    async fn show(&mut self, run_id: &str, command: &str) -> Result<Option<u8>, Failure> {
        write(format!("{} $ {}\r\n", self.session, terminal::harmless(command)).as_bytes());
        let mut client = self.client.another().await.map_err(Failure::client)?;
        let path = format!("/v1/sessions/{}/runs/{run_id}", self.session);
        let (keys, events) = (Keys::of_terminal()?, client.get_events(&path).await?);
        let endpoint = client.endpoint().clone();
        let shown = ShownRun { endpoint: &endpoint, session: self.session, modes: self.modes, role: Role::Watches };
        Ok(match shown.drive(&keys, events).await? {
            End::Result { .. } => None,
            End::Left { .. } => Some(0),
            End::Signalled(number) => Some(128 + number),
            End::Broken { .. } => return Err(Failure::client("the daemon is gone; attach again")),
        })
    }

    async fn next(&self, events: &mut EventReader) -> Result<News, Failure> {
        let _raw = self.modes.raw().map_err(Failure::client)?;
        let keys = Keys::of_terminal()?;
        let mut signals = Signals::listen().map_err(Failure::client)?;
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Ok(Some(event)) => {
                        if let Some(news) = serde_json::from_str(&event.data).ok().and_then(news) {
                            return Ok(news);
                        }
                    }
                    Ok(None) | Err(ClientError::Broken(_)) => {
                        return Err(Failure::client("the daemon is gone; attach again"));
                    }
                    Err(refused) => return Err(refused.into()),
                },
                typed = keys.typed() => {
                    if typed.leave_watching() {
                        return Ok(News::Left);
                    }
                }
                number = signals.next() => return Ok(News::Signalled(number)),
            }
        }
    }
}

fn news(line: Line) -> Option<News> {
    let text = |name: &str| line.data.get(name).and_then(Value::as_str).map(str::to_owned);
    match line.event_type.as_str() {
        "run_started" => Some(News::Started { run_id: text("run_id")?, command: text("command").unwrap_or_default() }),
        "session_released" => Some(News::Released { holder: text("holder")? }),
        _ => None,
    }
}
