//! An engine, its sessions, and looking at their files from outside.

use shellkeep_runtime::{
    CheckpointView, CreateSession, Engine, EngineConfig, Fork, Moment, Rewind, Rewound, RunCommand, RunView,
    SessionView,
};
use shellkeep_session::SessionId;
use shellkeep_store::{Durability, Store};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub struct Node {
    pub engine: Engine,
    pub directory: TempDir,
}

impl Node {
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub async fn start_with(change: impl FnOnce(&mut EngineConfig)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let engine = Self::engine(&directory, change).await;
        Self { engine, directory }
    }

    async fn engine(directory: &TempDir, change: impl FnOnce(&mut EngineConfig)) -> Engine {
        let bash = PathBuf::from(std::env::var_os("SHELLKEEP_BASH").unwrap_or_else(|| "/bin/bash".into()));
        let store = Store::open("sqlite://s.db", directory.path(), Durability::Process).unwrap();
        let mut config = EngineConfig { spare_shells: 0, ..EngineConfig::new(directory.path().to_owned(), bash) };
        change(&mut config);
        Engine::start(config, store).await.unwrap()
    }

    pub async fn session(&self, name: &str) -> SessionId {
        self.session_in(name, None).await
    }

    /// A session in a directory that the host names.
    pub async fn session_in(&self, name: &str, workspace: Option<&Path>) -> SessionId {
        let id = SessionId::parse(name).unwrap();
        let config = match workspace {
            Some(path) => serde_json::json!({"workspace": path}),
            None => serde_json::Value::Null,
        };
        let request = CreateSession { session_id: Some(id.clone()), config, ..CreateSession::default() };
        self.engine.create(request).await.unwrap();
        id
    }

    pub async fn run(&self, id: &SessionId, command: &str) -> RunView {
        *self.engine.run(id, RunCommand::new(command)).await.unwrap()
    }

    /// Runs a command that must succeed and gives what it printed.
    pub async fn sh(&self, id: &SessionId, command: &str) -> String {
        let view = self.run(id, command).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(view.exit_code, Some(0), "{command}: {} {:?}", text(&view.stderr.bytes), view.notices);
        text(&view.stdout.bytes)
    }

    /// Number of the last record, when everything of it is settled.
    pub async fn seq(&self, id: &SessionId) -> u64 {
        // It waits its turn behind what is kept of the last command's files.
        self.engine.files().checkpoint(id).await.unwrap();
        self.engine.get(id).await.unwrap().seq
    }

    pub async fn checkpoints(&self, id: &SessionId) -> Vec<CheckpointView> {
        self.engine.files().checkpoints(id, 0, 1000).await.unwrap().checkpoints
    }

    pub async fn rewind(&self, id: &SessionId, to: u64) -> Rewound {
        let request = Rewind::to(Moment::Seq(to));
        self.engine.files().rewind(id, request).await.unwrap()
    }

    pub async fn fork(&self, id: &SessionId, name: &str, at: Option<u64>) -> SessionView {
        let session_id = Some(SessionId::parse(name).unwrap());
        self.engine
            .files()
            .fork(id, Fork { at: at.map(Moment::Seq), session_id, ..Fork::default() })
            .await
            .unwrap()
            .session
    }

    pub fn workspace(&self, id: &SessionId) -> PathBuf {
        self.directory.path().join("workspaces").join(id.as_str())
    }
}

/// Everything in a directory: what it is, its permissions, its bytes.
pub fn tree(directory: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    use std::os::unix::fs::MetadataExt as _;
    let mut found = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(at) = waiting.pop() {
        for entry in std::fs::read_dir(&at).unwrap().flatten() {
            let metadata = entry.metadata().unwrap();
            let path = entry.path();
            let bytes = if metadata.is_symlink() {
                std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else if metadata.is_dir() {
                waiting.push(path.clone());
                Vec::new()
            } else {
                std::fs::read(&path).unwrap_or_default()
            };
            found.insert(path.strip_prefix(directory).unwrap().to_owned(), (metadata.mode(), bytes));
        }
    }
    found
}
