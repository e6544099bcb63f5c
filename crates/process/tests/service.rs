//! Services against a real keeper and a real bash, in every way the machine can hold processes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on should stop")]

use shellkeep_process::*;
use std::path::PathBuf;

struct Fixture {
    factory: CageFactory,
    scratch: tempfile::TempDir,
}

impl Fixture {
    fn new(mode: CageMode) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let name = scratch.path().file_name().unwrap().to_str().unwrap().to_owned();
        let limits = Limits { per_cage: 128, node: 1000 };
        Self { factory: CageFactory::detect(&format!("shellkeep-test{name}"), mode, limits), scratch }
    }

    fn directory(&self, name: &str) -> PathBuf {
        let directory = self.scratch.path().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        directory
    }
    fn spec(&self, name: &str) -> ServiceSpec {
        ServiceSpec { bash: "/bin/bash".into(), directory: self.directory(name), log_bytes: 1 << 20, rescue: self.scratch.path().join("rescue") }
    }
    async fn start(&self, name: &str, command: &str) -> ServiceProcess {
        let run = ServiceCommand { command: command.as_bytes(), cwd: None, env: &[] };
        let (service, problems) = ServiceProcess::start(self.spec(name), self.factory.cage(name), &[], run).await.unwrap();
        assert_eq!(problems, []);
        service
    }
}

#[tokio::test]
async fn first() {
    let f = Fixture::new(CageMode::Auto);
    let mut s = f.start("service-1", "echo hello; echo err >&2; exit 3").await;
    println!("{:?}", s.stamps());
    println!("{:?}", s.ended().await);
    println!("{:?}", ServiceLog::at(f.directory("service-1")).tail(1000).map(|(o, b)| (o, String::from_utf8(b))));
    let mut s = f.start("service-2", "sleep 100").await;
    for m in s.members() { println!("{} {}", m.pid, proc::command_line(m.pid)); }
    println!("{}", proc::command_line(s.stamps().keeper.pid));
    println!("{:?}", std::process::Command::new("sh").arg("-c").arg(format!("cat /proc/{}/comm /proc/{}/cgroup; grep -i 'rss\\|threads' /proc/{}/status; ls -l /proc/{}/fd", s.stamps().keeper.pid,s.stamps().keeper.pid,s.stamps().keeper.pid,s.stamps().keeper.pid)).status());
    s.kill();
    println!("{:?}", s.ended().await);
}
