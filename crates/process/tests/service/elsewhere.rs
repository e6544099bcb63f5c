//! A second process that plays the daemon: it can be killed, or be given less than we have.

use crate::fixture::{Fixture, LOG_BYTES};
use rustix::process::{Resource, Rlimit, setrlimit};
use shellkeep_process::*;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What the other process is told: mode, instance, directory, command, largest file.
const TOLD: [&str; 5] = ["MODE", "INSTANCE", "DIRECTORY", "COMMAND", "LARGEST_FILE"];

fn variable(name: &str) -> String {
    format!("SERVICE_TEST_{name}")
}

/// Starts a service `service-a` from another process. That process and the service go on.
pub fn start_elsewhere(fixture: &Fixture, command: &str, largest_file: Option<u64>) -> (Child, ServiceStamps) {
    let values = [
        format!("{:?}", fixture.mode),
        fixture.instance.clone(),
        fixture.directory("service-a").to_str().unwrap().to_owned(),
        command.to_owned(),
        largest_file.map_or_else(String::new, |bytes| bytes.to_string()),
    ];
    let mut daemon = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "life::as_a_daemon", "--nocapture"])
        .envs(TOLD.map(variable).into_iter().zip(values))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(daemon.stdout.take().unwrap()).lines();
    let line = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("stamps ").map(str::to_owned)).unwrap();
    let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
    let stamp = |at: usize| ProcessStamp { pid: numbers[at] as u32, started_ticks: numbers[at + 1] };
    (daemon, ServiceStamps { keeper: stamp(0), main: stamp(2) })
}

/// What the other process does; nothing if we are not it.
pub async fn play_daemon() {
    let [Ok(mode), Ok(instance), Ok(directory), Ok(command), Ok(largest_file)] =
        TOLD.map(|name| std::env::var(variable(name)))
    else {
        return;
    };
    let mode = if mode == "Marks" { CageMode::Marks } else { CageMode::Auto };
    let factory = CageFactory::detect(
        &instance,
        mode,
        Limits { per_cage: 128, per_party: 1000, node: 1000, memory_per_party: 8 << 30, open_files: 4096 },
    );
    let rescue = Path::new(&directory).join("rescue");
    let spec = ServiceSpec {
        bash: "/bin/bash".into(),
        directory: directory.into(),
        log_bytes: LOG_BYTES,
        rescue,
        masked: Vec::new(),
    };
    if let Ok(most) = largest_file.parse() {
        setrlimit(Resource::Fsize, Rlimit { current: Some(most), maximum: Some(most) }).unwrap();
    }
    let run = RunSpec { command: command.as_bytes(), cwd: None, env: &[], until: None };
    let (service, _) = ServiceProcess::start(spec, factory.cage("service-a"), None, &[], run).await.unwrap();
    let ServiceStamps { keeper, main } = service.stamps();
    println!("\nstamps {} {} {} {}", keeper.pid, keeper.started_ticks, main.pid, main.started_ticks);
    std::future::pending::<()>().await;
}
