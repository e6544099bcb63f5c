//! Owners that leave while somebody asks: whoever asks is answered, and what an owner left is what the next one begins with.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

use shellkeep_runtime::{CreateSession, Engine, EngineConfig, RunCommand};
use shellkeep_session::{QuotaName, SessionId};
use shellkeep_store::{Durability, Store};
use std::path::PathBuf;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Far more than anything here takes.
const LONG: Duration = Duration::from_secs(60);
const SESSIONS: usize = 4;
const ROUNDS: usize = 60;
/// Those who count in a session, at the same time.
const COUNTERS: usize = 2;

/// Two shells for four sessions: each command takes a shell from a session that has one, whose owner leaves.
async fn crowded(directory: PathBuf) -> Engine {
    let bash = PathBuf::from(std::env::var_os("SHELLKEEP_BASH").unwrap_or_else(|| "/bin/bash".into()));
    let store = Store::open("memory://", &directory, Durability::Process).unwrap();
    let mut config = EngineConfig::new(directory, bash);
    config.spare_shells = 0;
    config.quotas.set(QuotaName::LiveShells, 2);
    Engine::start(config, store).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_asks_an_owner_that_leaves_is_answered_and_nothing_is_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let engine = crowded(directory.path().to_owned()).await;
    let mut tasks = JoinSet::new();
    for number in 0..SESSIONS {
        let id = SessionId::parse(&format!("s{number}")).unwrap();
        let request = CreateSession { session_id: Some(id.clone()), ..CreateSession::default() };
        engine.create(request).await.unwrap();
        for _ in 0..COUNTERS {
            let (engine, id) = (engine.clone(), id.clone());
            tasks.spawn(async move {
                for _ in 0..ROUNDS {
                    let run = engine.run(&id, RunCommand::new("n=$((n + 1)); echo $n"));
                    let view = timeout(LONG, run).await.expect("a command is answered").unwrap();
                    assert_eq!(view.exit_code, Some(0), "{view:?}");
                }
            });
        }
        let (engine, id) = (engine.clone(), id.clone());
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                timeout(LONG, engine.hibernate(&id)).await.expect("one that is put to sleep says so").unwrap();
                timeout(LONG, engine.get(&id)).await.expect("one that sleeps is shown").unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    for number in 0..SESSIONS {
        let id = SessionId::parse(&format!("s{number}")).unwrap();
        let view = engine.run(&id, RunCommand::new("echo $n")).await.unwrap();
        let said = String::from_utf8_lossy(&view.stdout.bytes).into_owned();
        assert_eq!(said, format!("{}\n", ROUNDS * COUNTERS), "{id}");
    }
    engine.shutdown().await;
}
