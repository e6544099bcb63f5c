//! temp
#![allow(clippy::unwrap_used)]
use shellkeep_process::*;
use std::time::Instant;
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mode = if std::env::args().nth(1).as_deref() == Some("marks") { CageMode::Marks } else { CageMode::Auto };
    spawn::raise_descriptor_limit();
    let f = CageFactory::detect("shellkeep-many", mode, Limits { per_cage: 100, node: 2000 });
    let root = std::env::temp_dir().join("shellkeep-many");
    let t = Instant::now();
    let mut all = Vec::new();
    let mut set = tokio::task::JoinSet::new();
    let mut next = 0;
    while all.len() < 500 {
        while next < 500 && set.len() < 16 {
            let n = next; next += 1;
            let (f, root) = (f.clone(), root.clone());
            set.spawn(async move {
                let dir = root.join(format!("{n}"));
                std::fs::create_dir_all(&dir).unwrap();
                let spec = ServiceSpec { bash: "/bin/bash".into(), directory: dir, log_bytes: 16 << 20, rescue: root.join(format!("r{n}")) };
                let run = ServiceCommand { command: b"echo hi; sleep 86400", cwd: None, env: &[] };
                ServiceProcess::start(spec, f.cage(&format!("service-{n}")), &[], run).await.unwrap().0
            });
        }
        all.push(set.join_next().await.unwrap().unwrap());
    }
    println!("500 started in {:?}", t.elapsed());
    let names = (0..500).map(|n| format!("service-{n}")).collect();
    let t = Instant::now();
    let m = f.members_of(&names);
    println!("members of {} in {:?}", m.len(), t.elapsed());
    let t = Instant::now();
    for s in &all { s.stop(rustix::process::Signal::TERM); }
    println!("told in {:?}", t.elapsed());
    for s in &mut all { s.ended().await; }
    println!("ended in {:?}", t.elapsed());
    drop(all);
    f.remove(&Default::default());
    std::fs::remove_dir_all(root).unwrap();
}
