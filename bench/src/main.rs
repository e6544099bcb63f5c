//! Quick figures.
use shellkeep_runtime::*;
use std::io::{BufRead, BufReader, Write};
use std::time::{Duration, Instant};

fn percentile(mut v: Vec<Duration>, p: f64) -> f64 {
    v.sort();
    v[((v.len() - 1) as f64 * p) as usize].as_secs_f64() * 1e6
}

fn raw_loop(n: usize) -> (f64, f64) {
    let mut child = std::process::Command::new("bash")
        .args(["--norc", "--noprofile", "-c", "while IFS= read -r c; do eval \"$c\"; echo $? >&4; done 4>&1 >/dev/null"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    let mut times = Vec::new();
    for _ in 0..n {
        let t = Instant::now();
        stdin.write_all(b"true\n").unwrap();
        line.clear();
        out.read_line(&mut line).unwrap();
        times.push(t.elapsed());
    }
    drop(stdin);
    child.wait().unwrap();
    (percentile(times.clone(), 0.5), percentile(times, 0.99))
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let n = 5000;
    println!("raw {:?}", raw_loop(n));
    for url in ["memory://", "sqlite://db"] {
        let dir = tempfile::tempdir().unwrap();
        let store = shellkeep_store::Store::open(url, dir.path(), shellkeep_store::Durability::Process).unwrap();
        let config = EngineConfig {
            data_dir: dir.path().to_owned(),
            max_shells: 2000,
            spare_shells: 2,
            session_processes: 256,
            output_bytes_per_run: 128 << 20,
            bash: "/bin/bash".into(),
        };
        let engine = Engine::start(config, store).await.unwrap();
        let e = engine.clone();
        let r = tokio::spawn(async move {
            let Created::New(s) = e.create(CreateSession::default()).await.unwrap() else { panic!() };
            let id = s.meta.session_id;
            let r = e.run(&id, RunCommand::new("echo hi; pwd; id -un; ls -la")).await.unwrap();
            println!("{r:?}");
            let mut times = Vec::new();
            for _ in 0..n {
                let t = Instant::now();
                e.run(&id, RunCommand::new("true")).await.unwrap();
                times.push(t.elapsed());
            }
            (percentile(times.clone(), 0.5), percentile(times, 0.99))
        });
        println!("{url} {:?}", r.await.unwrap());
        println!("raw {:?}", raw_loop(n));
        engine.shutdown().await;
    }
}
