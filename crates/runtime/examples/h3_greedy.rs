//! temporary measurement
use shellkeep_runtime::*;
use shellkeep_session::*;
use shellkeep_store::*;
use std::time::*;
async fn session(engine: &Engine, agent: &str) -> SessionId {
    match engine.create(CreateSession { agent: Some(agent.into()), ..Default::default() }).await.unwrap() {
        Created::New(v) | Created::Existing(v) => v.meta.session_id,
    }
}
async fn lat(engine: &Engine, id: &SessionId, n: usize, cmd: &str) -> Vec<Duration> {
    let mut v = vec![];
    for _ in 0..n {
        let t = Instant::now();
        engine.run(id, RunCommand::new(cmd)).await.unwrap();
        v.push(t.elapsed());
    }
    v.sort();
    v
}
fn p(what: &str, v: &[Duration]) {
    println!("{what}: p50 {:?} p90 {:?} p99 {:?}", v[v.len() / 2], v[v.len() * 9 / 10], v[v.len() * 99 / 100]);
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let young: usize = a[1].parse().unwrap();
    let sessions: usize = a[2].parse().unwrap();
    let each: usize = a[3].parse().unwrap();
    let cmd = a[4].clone();
    let own = a.get(5).cloned().unwrap_or("true".into());
    let rt = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path().to_owned();
    rt.block_on(async move { tokio::spawn(async move {
        let store = Store::open("sqlite://shellkeep.db", &d, Durability::Process).unwrap();
        let mut c = EngineConfig::new(d.clone(), "/bin/bash".into());
        if young > 0 { c.admission.young = young; } if let Ok(v) = std::env::var("ONE") { c.admission.young_of_one = v.parse().unwrap(); }
        c.admission.queue_wait = Duration::from_secs(600);
        let engine = Engine::start(c, store).await.unwrap();
        let b = session(&engine, "b").await;
        lat(&engine, &b, 3000, &own).await;
        p("alone ", &lat(&engine, &b, 3000, &own).await);
        let mut ids = vec![];
        for _ in 0..sessions { let id = session(&engine, "greedy").await; engine.run(&id, RunCommand::new("true")).await.unwrap(); ids.push(id); }
        let t = Instant::now();
        let mut set = tokio::task::JoinSet::new();
        for id in &ids { for _ in 0..each { let (e, id, cmd) = (engine.clone(), id.clone(), cmd.clone());
            set.spawn(async move { e.run(&id, RunCommand { timeout: Duration::from_secs(600), ..RunCommand::new(cmd.as_str()) }).await.unwrap(); }); } }
        while engine.node().await.unwrap().waiting < sessions.saturating_sub(10) { tokio::task::yield_now().await; }
        let mut v = vec![];
        while set.try_join_next().is_some() {}
        while set.len() > sessions * 2 {
            let t = Instant::now();
            engine.run(&b, RunCommand::new(own.as_str())).await.unwrap();
            v.push(t.elapsed());
            while set.try_join_next().is_some() {}
        }
        v.sort();
        println!("n {}", v.len());
        p("beside", &v);
        while set.join_next().await.is_some() {}
        println!("greedy {:?} {:.0}/s", t.elapsed(), (sessions * each) as f64 / t.elapsed().as_secs_f64());
        engine.shutdown().await;
    }).await.unwrap() });
}
