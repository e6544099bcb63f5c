//! Where the events come from: pages of a daemon, or files on this machine.

use super::target::Target;
use crate::cli::DaemonArgs;
use crate::client::{Client, ClientError, escaped};
use crate::failure::Failure;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use shellkeep_protocol::{DiffResponse, OutputResponse, Session, StreamName, text};
use shellkeep_record::export::frames;
use shellkeep_record::export::patch::{self, Patch};
use shellkeep_record::player::{EventSource, Files, Page, Wanted};
use shellkeep_record::{Hash, Key, Line, Recording, SessionKey};
use shellkeep_session::SessionId;
use std::fs::File;
use std::future::Future;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// Most events the daemon gives at a time.
const MOST_ASKED: usize = 1000;

/// A recording, at a daemon or in files.
pub enum Events {
    /// At a daemon.
    Daemon(Box<Remote>),
    /// In files.
    Files(Box<Local>),
}

/// A session of a daemon.
pub struct Remote {
    client: Client,
    session: SessionId,
}

/// Files on this machine.
pub struct Local {
    files: Files,
    path: PathBuf,
}

/// Some of a run's output.
pub struct Piece {
    pub bytes: Vec<u8>,
    /// Where they begin.
    pub offset: u64,
    /// How many there are in all.
    pub total: u64,
}

#[derive(Deserialize)]
struct EventPage {
    events: Vec<Line>,
    #[serde(default)]
    next: Option<u64>,
}

impl Events {
    /// Opens what was named.
    pub async fn open(target: &Target, daemon: &DaemonArgs) -> Result<Self, Failure> {
        match target {
            Target::Session(session) => {
                let mut client = Client::open(daemon).await?;
                // Requested first, so that a wrong name is reported before the screen is drawn.
                client.get::<Session>(&format!("/v1/sessions/{session}")).await?;
                Ok(Self::Daemon(Box::new(Remote { client, session: session.clone() })))
            }
            Target::Path(path) => {
                let files = Files::open(path).map_err(Failure::client)?;
                Ok(Self::Files(Box::new(Local { files, path: path.clone() })))
            }
        }
    }

    /// What it is called.
    pub fn name(&self) -> String {
        match self {
            Self::Daemon(remote) => remote.session.to_string(),
            Self::Files(local) => local.name(),
        }
    }

    /// Some of a run's output that was too large to travel with its event.
    pub fn output(&mut self, run_id: &str, stream: StreamName, offset: u64, limit: u64) -> Result<Piece, String> {
        match self {
            Self::Daemon(remote) => remote.output(run_id, stream, offset, limit),
            Self::Files(local) => local.output(run_id, stream, offset, limit),
        }
    }

    /// What a checkpoint changed. None where there are no files, only a recording.
    pub fn patch(&mut self, checkpoint: &Line, hidden: bool) -> Result<Option<Patch>, String> {
        match self {
            Self::Daemon(remote) => remote.patch(checkpoint, hidden).map(Some),
            Self::Files(_) => Ok(None),
        }
    }
}

impl EventSource for Events {
    type Error = String;

    fn page(&mut self, after: u64, limit: usize, wanted: &Wanted, hidden: bool) -> Result<Page, String> {
        match self {
            Self::Daemon(remote) => remote.page(after, limit, wanted, hidden),
            Self::Files(local) => local.files.page(after, limit, wanted, hidden).map_err(|error| error.to_string()),
        }
    }

    fn last(&mut self) -> Result<u64, String> {
        match self {
            Self::Daemon(remote) => remote.last(),
            Self::Files(local) => local.files.last().map_err(|error| error.to_string()),
        }
    }
}

impl Remote {
    fn page(&mut self, after: u64, limit: usize, wanted: &Wanted, hidden: bool) -> Result<Page, String> {
        let limit = limit.clamp(1, MOST_ASKED);
        let mut path = format!("/v1/sessions/{}/events?after={after}&limit={limit}", self.session);
        if !wanted.types.is_empty() {
            path += &format!("&type={}", escaped(&wanted.types.join(",")));
        }
        if let Some(search) = &wanted.search {
            path += &format!("&search={}", escaped(search));
        }
        if hidden {
            path += "&redact=true";
        }
        let page: EventPage = self.ask(&path)?;
        Ok(Page { lines: page.events, next: page.next })
    }

    fn last(&mut self) -> Result<u64, String> {
        self.ask::<Session>(&format!("/v1/sessions/{}", self.session)).map(|session| session.seq)
    }

    /// Asks the daemon, and once more on a new connection if the old one is gone: the daemon may have been restarted.
    fn ask<R: DeserializeOwned>(&mut self, path: &str) -> Result<R, String> {
        let first = waited(self.client.get(path));
        let Err(ClientError::Broken(reason)) = first else { return first.map_err(|error| error.to_string()) };
        self.client = waited(self.client.another()).map_err(|_| reason)?;
        waited(self.client.get(path)).map_err(|error| error.to_string())
    }

    fn output(&mut self, run_id: &str, stream: StreamName, offset: u64, limit: u64) -> Result<Piece, String> {
        let name = stream_name(stream);
        let path = format!(
            "/v1/sessions/{}/runs/{}/output?stream={name}&offset={offset}&limit={limit}",
            self.session,
            escaped(run_id)
        );
        let page: OutputResponse = self.ask(&path)?;
        let bytes = text::decode(page.text, page.base64.as_deref()).map_err(|error| error.to_string())?;
        Ok(Piece { bytes, offset: page.offset, total: page.total })
    }

    fn patch(&mut self, checkpoint: &Line, hidden: bool) -> Result<Patch, String> {
        let path = format!(
            "/v1/sessions/{}/checkpoints/{}/diff?max_bytes={}&redact={hidden}",
            self.session,
            escaped(&frames::text(checkpoint.data.get("name"))),
            patch::MOST_BYTES
        );
        let diff: DiffResponse = self.ask(&path)?;
        Ok(Patch { text: diff.patch.unwrap_or_default(), is_cut: diff.truncated })
    }
}

impl Local {
    /// A session's directory has the session's name.
    fn name(&self) -> String {
        let path = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
    }

    fn output(&self, run_id: &str, stream: StreamName, offset: u64, limit: u64) -> Result<Piece, String> {
        if self.recording().is_export() {
            return Err("an export has no attached files; open the session itself for the full output".to_owned());
        }
        let file = outputs_beside(&self.path).join(format!("{run_id}.{}", stream_name(stream)));
        let read = || -> std::io::Result<Piece> {
            let mut file = File::open(&file)?;
            let total = file.metadata()?.len();
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(offset))?;
            file.take(limit).read_to_end(&mut bytes)?;
            Ok(Piece { bytes, offset, total })
        };
        read().map_err(|error| format!("{}: {error}", file.display()))
    }

    pub fn recording(&self) -> &Recording {
        self.files.recording()
    }
}

/// A data directory has `sessions/ID` and `outputs/ID`, and for a removed session `deleted/NAME/recording` and
/// `deleted/NAME/outputs`.
pub fn outputs_beside(session: &Path) -> PathBuf {
    let session = session.canonicalize().unwrap_or_else(|_| session.to_owned());
    if removed_as(&session).is_some() {
        return session.with_file_name("outputs");
    }
    let id = session.file_name().unwrap_or_default().to_owned();
    let data = session.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    data.join("outputs").join(id)
}

/// The session whose recording is in `deleted/NAME/recording`.
pub fn removed_as(recording: &Path) -> Option<SessionId> {
    let note = std::fs::read(recording.with_file_name("deleted.json")).ok()?;
    let note: serde_json::Value = serde_json::from_slice(&note).ok()?;
    SessionId::parse(note["session_id"].as_str()?).ok()
}

/// The name of a stream on the wire and in file names.
pub fn stream_name(stream: StreamName) -> &'static str {
    match stream {
        StreamName::Stdout => "stdout",
        StreamName::Stderr => "stderr",
    }
}

/// Waits for the daemon from the player, which is not async. Needs the multi-thread runtime.
pub fn waited<T>(work: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(work))
}

/// A runtime in which [`waited`] works.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().map_err(Failure::client)
}

/// Whose a recording on this machine is.
pub struct LocalSession {
    pub name: String,
    /// If its data directory has one.
    pub key: Option<SessionKey>,
}

/// The session of a directory or a file.
pub fn local_session(path: &Path) -> LocalSession {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !path.is_dir() {
        return LocalSession { name: name.strip_suffix(".jsonl").unwrap_or(&name).to_owned(), key: None };
    }
    let text = std::fs::read_to_string(data_of(&path).join("record.key")).unwrap_or_default();
    let key = Hash::parse(text.trim()).map(|hash| Key(hash.0));
    let id = removed_as(&path).or_else(|| SessionId::parse(&name).ok());
    let name = id.as_ref().map_or(name, SessionId::to_string);
    let key = key.zip(id).map(|(key, id)| key.of(&id));
    LocalSession { name, key }
}

/// The data directory that contains a session's directory.
pub fn data_of(recording: &Path) -> PathBuf {
    let above = if removed_as(recording).is_some() { 3 } else { 2 };
    recording.ancestors().nth(above).unwrap_or(Path::new("/")).to_owned()
}
