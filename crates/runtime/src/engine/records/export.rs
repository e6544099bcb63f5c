//! An export of a recording, piece by piece, at the pace of its reader.

use crate::engine::parts::Parts;
use crate::ops::{ExportFormat, OpError, Origin, RecordError};
use crate::past_sessions::{PastCopy, PastSession};
use crate::recordings::unreadable;
use crate::tasks;
use crate::work::{Caller, Turn};
use shellkeep_record::export::patch::{self, Patch, Patches};
use shellkeep_record::export::{ExportError, Options, asciicast, html, jsonl};
use shellkeep_record::{Budget, Line, Masker, PublicKey, Recording, SessionKey};
use shellkeep_redact::Redactor;
use shellkeep_session::SessionId;
use shellkeep_workspace::diff::{self, PatchOptions};
use shellkeep_workspace::fault::Faults;
use shellkeep_workspace::repo::{ObjectId, Repo, RepoError};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// How much is written at once.
const PIECE: usize = 64 << 10;
/// Pieces that are written and not yet read.
const BACKLOG: usize = 4;
/// A reader that reads nothing for this long is gone; the thread is needed.
const PATIENCE: Duration = Duration::from_secs(60);

/// An export in progress.
pub struct ExportStream {
    pieces: mpsc::Receiver<Result<Vec<u8>, OpError>>,
    origin: Origin,
    /// Stops reading when the reader is gone.
    _caller: Caller,
}

impl ExportStream {
    pub(super) async fn start(
        parts: &Arc<Parts>,
        id: &SessionId,
        format: ExportFormat,
        redact: bool,
    ) -> Result<Self, OpError> {
        let masker = if redact { Some(parts.ctx.secrets.masker(id).await?) } else { None };
        // The files of the last command belong to its row.
        parts.files.settled(id).await;
        parts.recordings.seal(id).await?;
        let budget = Budget::unlimited();
        let recording = parts.recordings.read(id, |recording| Ok(recording.clone())).await?.within(budget.clone());
        let turn = parts.work.long_turn(parts.ctx.names.agent_of(id).as_deref()).await?;
        let export = Export {
            id: parts.recordings.recorded_as(id).1,
            format,
            recording,
            masker,
            key: Some(parts.recordings.key(id)),
            public_keys: vec![parts.ctx.store.public_key()],
            repository: Some(parts.files.checkpoints.repository(id)),
            mask: parts.ctx.secrets.mask_of(id).await?,
            faults: Arc::clone(parts.files.checkpoints.faults()),
            copy: None,
        };
        Ok(Self::begin(export, turn, &budget))
    }

    /// The export of a session that only history has.
    pub(in crate::engine) async fn of_copy(
        parts: &Arc<Parts>,
        session: &PastSession,
        copy: Arc<PastCopy>,
        format: ExportFormat,
        masker: Option<Masker>,
    ) -> Result<Self, OpError> {
        let (budget, id) = (Budget::unlimited(), session.session_id.clone());
        let opened = Recording::open_export(&copy.path).map_err(|error| unreadable(&id, error))?;
        let turn = parts.work.long_turn(session.agent.as_deref()).await?;
        let own = parts.ctx.store.public_key();
        let export = Export {
            id,
            format,
            recording: opened.within(budget.clone()),
            masker,
            key: None,
            public_keys: if copy.events.keys.iter().all(|key| *key == own) { vec![own] } else { Vec::new() },
            repository: None,
            mask: None,
            faults: Arc::clone(parts.files.checkpoints.faults()),
            copy: Some(copy),
        };
        Ok(Self::begin(export, turn, &budget))
    }

    fn begin(export: Export, turn: Turn, budget: &Budget) -> Self {
        let (sender, pieces) = mpsc::channel(BACKLOG);
        let origin = if export.copy.is_some() { Origin::History } else { Origin::Node };
        let runtime = Handle::current();
        tasks::blocking(move || {
            let _turn = turn;
            export.write(Pieces { sender, runtime, buffer: Vec::with_capacity(PIECE) });
        });
        Self { pieces, origin, _caller: Caller::of(budget) }
    }

    /// Where the recording was read.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The next piece; `None` at the end. After an error there is no more.
    pub async fn next(&mut self) -> Option<Result<Vec<u8>, OpError>> {
        self.pieces.recv().await
    }

    /// The same as a poll function.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, OpError>>> {
        self.pieces.poll_recv(context)
    }
}

struct Export {
    id: SessionId,
    format: ExportFormat,
    recording: Recording,
    masker: Option<Masker>,
    /// Its own files need it; a copy does not.
    key: Option<SessionKey>,
    public_keys: Vec<PublicKey>,
    /// The session's checkpoints, if this node has them.
    repository: Option<PathBuf>,
    /// What masks the contents of its files, which may have what its records never had.
    mask: Option<Redactor>,
    faults: Arc<Faults>,
    /// What is read, if it is a copy.
    copy: Option<Arc<PastCopy>>,
}

impl Export {
    fn write(self, mut pieces: Pieces) {
        // A page without differences is better than no page.
        let repo = self.repository.as_ref().and_then(|path| Repo::open(path, &self.faults).ok().flatten());
        let patches = repo.map(|repo| KeptFiles { repo, mask: self.mask });
        let options = Options {
            key: self.key.as_ref(),
            public_keys: &self.public_keys,
            masker: self.masker.as_ref(),
            patches: patches.as_ref().map(|kept| kept as &dyn Patches),
            ..Options::new(self.id.as_str())
        };
        let written = match self.format {
            ExportFormat::Jsonl => jsonl(&self.recording, &options, &mut pieces),
            ExportFormat::Asciicast => asciicast(&self.recording, &options, &mut pieces),
            ExportFormat::Html => html(&self.recording, &options, &mut pieces),
        };
        match written.and_then(|()| Ok(pieces.flush()?)) {
            Ok(()) => {}
            // The reader is gone.
            Err(ExportError::Write(error)) => tracing::debug!(session = %self.id, %error, "an export was not read"),
            Err(ExportError::Read(error)) => {
                let error = OpError::Record(RecordError::Unreadable {
                    session_id: self.id.to_string(),
                    reason: error.to_string(),
                });
                pieces.send(Err(error));
            }
        }
    }
}

/// The checkpoints of a session, for what a page shows of them.
struct KeptFiles {
    repo: Repo,
    mask: Option<Redactor>,
}

impl Patches for KeptFiles {
    fn of_checkpoint(&self, checkpoint: &Line) -> Option<Patch> {
        self.compare(checkpoint).inspect_err(|error| tracing::debug!(%error, "an export lacks a difference")).ok()?
    }
}

impl KeptFiles {
    /// What a checkpoint changed; none if it was pruned.
    fn compare(&self, checkpoint: &Line) -> Result<Option<Patch>, RepoError> {
        let repo = &self.repo;
        let commit = checkpoint.data.get("commit").and_then(|commit| commit.as_str());
        let commit = commit.and_then(|hex| ObjectId::from_hex(hex.as_bytes()).ok());
        let Some(commit) = commit.filter(|id| repo.objects.contains(*id)) else { return Ok(None) };
        let parent = repo.objects.read_commit(commit)?.parents.first().copied();
        // Without the checkpoint before it, all of its files would look new.
        if parent.is_some_and(|parent| !repo.objects.contains(parent)) {
            return Ok(None);
        }
        let changes = diff::pair_renames(diff::trees(repo, parent, commit)?);
        let options = PatchOptions { max_bytes: patch::MOST_BYTES, ..PatchOptions::default() };
        let patch = diff::patch(repo, &changes, options)?;
        let text = match &self.mask {
            Some(mask) => mask.redact(&patch.text),
            None => patch.text,
        };
        Ok(Some(Patch { text: String::from_utf8_lossy(&text).into_owned(), is_cut: patch.left_out > 0 }))
    }
}

/// Passes the output to the reader.
struct Pieces {
    sender: mpsc::Sender<Result<Vec<u8>, OpError>>,
    runtime: Handle,
    buffer: Vec<u8>,
}

impl Pieces {
    fn send(&self, piece: Result<Vec<u8>, OpError>) -> bool {
        let sending = async { tokio::time::timeout(PATIENCE, self.sender.send(piece)).await };
        matches!(self.runtime.block_on(sending), Ok(Ok(())))
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.buffer, Vec::with_capacity(PIECE));
        if self.send(Ok(piece)) { Ok(()) } else { Err(io::Error::from(io::ErrorKind::BrokenPipe)) }
    }
}
