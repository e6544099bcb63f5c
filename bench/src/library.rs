//! The engine in this process, as a host embeds it: two workers, the default store in a directory of its own.

use crate::fallible::Fallible;
use shellkeep_process::Forking;
use shellkeep_runtime::{CreateSession, Created, Engine, EngineConfig, RunCommand, RunView};
use shellkeep_session::{QuotaName, Sandbox, SessionId};
use shellkeep_store::{Durability, RecordOptions, Store};
use std::future::Future;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// Workers of the runtime.
const WORKERS: usize = 2;
/// Sessions woken at once when many are made; more would only queue for the processors.
const WOKEN_AT_ONCE: usize = 16;

/// An engine. Dropping it ends its shells and removes its directory.
pub struct Library {
    runtime: Runtime,
    engine: Engine,
    store: Store,
    directory: TempDir,
}

impl Library {
    /// Starts one that may have `max_shells` live shells and starts `spare_shells` ahead.
    pub fn start(bash: &Path, max_shells: usize, spare_shells: usize) -> Fallible<Self> {
        Self::start_with(bash, max_shells, spare_shells, RecordOptions::default())
    }

    /// The same with another way to record sessions.
    pub fn start_with(bash: &Path, max_shells: usize, spare_shells: usize, options: RecordOptions) -> Fallible<Self> {
        Self::start_as(bash, max_shells, spare_shells, options, Forking::Auto)
    }

    /// One whose shells are made in this way.
    pub fn start_forking(bash: &Path, max_shells: usize, forking: Forking) -> Fallible<Self> {
        Self::start_as(bash, max_shells, 0, RecordOptions::default(), forking)
    }

    fn start_as(
        bash: &Path,
        max_shells: usize,
        spare_shells: usize,
        options: RecordOptions,
        forking: Forking,
    ) -> Fallible<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
        let directory = tempfile::tempdir()?;
        let store = Store::open_with("sqlite://shellkeep.db", directory.path(), Durability::Process, options)?;
        let mut config = EngineConfig::new(directory.path().to_owned(), bash.to_owned());
        config.spare_shells = spare_shells;
        config.forking = forking;
        config.quotas.set(QuotaName::LiveShells, max_shells as u64);
        // Each shell is a process, and has some more while it works.
        config.quotas.set(QuotaName::Processes, max_shells as u64 * 4 + 1000);
        let engine = runtime.block_on(Engine::start(config, store.clone()))?;
        Ok(Self { runtime, engine, store, directory })
    }

    /// Waits until everything is recorded, which goes on beside the commands otherwise.
    pub fn settle(&self) -> Fallible<()> {
        Ok(self.runtime.block_on(self.store.flush())?)
    }

    /// Where it keeps everything.
    pub fn data(&self) -> &Path {
        self.directory.path()
    }

    /// Does something with the engine, in a task: as a host's handlers do, and not on the thread that waits.
    pub fn with<T, F>(&self, work: impl FnOnce(Engine) -> F) -> Fallible<T>
    where
        T: Send + 'static,
        F: Future<Output = Fallible<T>> + Send + 'static,
    {
        let task = self.runtime.spawn(work(self.engine.clone()));
        self.runtime.block_on(task)?
    }

    /// Makes a session.
    pub fn create(&self) -> Fallible<SessionId> {
        self.with(|engine| async move { create(&engine).await })
    }

    /// Makes a session that works in a directory that is there already.
    pub fn create_in(&self, workspace: &Path) -> Fallible<SessionId> {
        let config = serde_json::json!({ "workspace": workspace });
        self.with(|engine| async move {
            match engine.create(CreateSession { config, ..CreateSession::default() }).await? {
                Created::New(view) | Created::Existing(view) => Ok(view.meta.session_id),
            }
        })
    }

    /// Makes a session in a sandbox.
    pub fn create_confined(&self, sandbox: Sandbox) -> Fallible<SessionId> {
        self.with(move |engine| async move { create_confined(&engine, sandbox).await })
    }

    /// Ends a session.
    pub fn destroy(&self, id: &SessionId) -> Fallible<()> {
        let id = id.clone();
        self.with(|engine| async move { Ok(engine.destroy(&id).await?) })
    }

    /// Runs a command that must go well.
    pub fn run(&self, id: &SessionId, command: &str) -> Fallible<RunView> {
        let (id, command) = (id.clone(), command.to_owned());
        self.with(|engine| async move { run(&engine, &id, &command).await })
    }

    /// Runs a command `count` times; `output` is what it writes each time.
    pub fn times(&self, id: &SessionId, command: &str, output: &str, count: usize) -> Fallible<Vec<Duration>> {
        let (id, command, output) = (id.clone(), command.to_owned(), output.to_owned());
        self.with(move |engine| async move {
            let mut times = Vec::with_capacity(count);
            for _ in 0..count {
                let start = Instant::now();
                let view = run(&engine, &id, &command).await?;
                times.push(start.elapsed());
                if view.stdout.bytes != output.as_bytes() {
                    return Err("the session wrote something else".into());
                }
            }
            Ok(times)
        })
    }

    /// Makes `count` sessions, each with a live shell.
    pub fn crowd(&self, count: usize) -> Fallible<Vec<SessionId>> {
        self.with(move |engine| async move {
            let mut ids = Vec::with_capacity(count);
            while ids.len() < count {
                let mut waking = JoinSet::new();
                for _ in 0..WOKEN_AT_ONCE.min(count - ids.len()) {
                    let engine = engine.clone();
                    waking.spawn(async move {
                        let id = create(&engine).await?;
                        run(&engine, &id, "true").await.map(|_| id)
                    });
                }
                while let Some(woken) = waking.join_next().await {
                    ids.push(woken??);
                }
            }
            Ok(ids)
        })
    }

    /// Keeps every session busy with `true` for a while, a task each; gives commands per second.
    pub fn drive(&self, ids: &[SessionId], window: Duration) -> Fallible<f64> {
        let ids = ids.to_vec();
        self.with(move |engine| async move {
            let start = Instant::now();
            let mut tasks: JoinSet<Fallible<u64>> = JoinSet::new();
            for id in ids {
                let engine = engine.clone();
                tasks.spawn(async move {
                    let mut answers = 0;
                    while answers == 0 || start.elapsed() < window {
                        run(&engine, &id, "true").await?;
                        answers += 1;
                    }
                    Ok(answers)
                });
            }
            let mut answers = 0;
            while let Some(answered) = tasks.join_next().await {
                answers += answered??;
            }
            Ok(answers as f64 / start.elapsed().as_secs_f64())
        })
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        let engine = self.engine.clone();
        self.runtime.block_on(async move { engine.shutdown().await });
    }
}

/// Makes a session.
pub async fn create(engine: &Engine) -> Fallible<SessionId> {
    create_confined(engine, Sandbox::None).await
}

/// Makes a session in a sandbox.
pub async fn create_confined(engine: &Engine, sandbox: Sandbox) -> Fallible<SessionId> {
    match engine.create(CreateSession { sandbox, ..CreateSession::default() }).await? {
        Created::New(view) | Created::Existing(view) => Ok(view.meta.session_id),
    }
}

/// Runs a command that must go well.
pub async fn run(engine: &Engine, id: &SessionId, command: &str) -> Fallible<RunView> {
    let view = engine.run(id, RunCommand::new(command)).await?;
    match view.exit_code {
        Some(0) => Ok(*view),
        other => Err(format!("a command did not go well: {other:?} {:?}", view.notices).into()),
    }
}
