//! Services that write as fast as they can: the log keeps its bounds, the daemon its memory, and others their answers.

use crate::support::procs;
use crate::support::services::id;
use crate::support::{Daemon, Settings};
use serde_json::{Value, json};
use shellkeep_poll::until;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a log may take here: small, so that it is rotated all the time.
const LOG_BYTES: u64 = 4 << 20;
/// How much the daemon may grow while logs of gigabytes are written beside it. They do not go through it.
const GROWTH_KIB: u64 = 16 << 10;
/// Names and the like: the log itself is bounded to the byte.
const SLACK: u64 = 4096;

/// What a directory takes, as its files say it. While they are counted a file may go and the next one grow, and then the
/// sum is one that never was; so it counts only if the files are the same afterwards.
fn bytes_in(directory: &Path) -> u64 {
    let files = || -> BTreeMap<OsString, u64> {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.filter_map(|entry| Some((entry.file_name(), entry.metadata().ok()?.len()))).collect()
    };
    let mut before = files();
    loop {
        let after = files();
        if before.keys().eq(after.keys()) {
            return before.values().sum();
        }
        before = after;
    }
}

struct Flood {
    session: String,
    service: Value,
    directory: PathBuf,
}

impl Flood {
    fn start(daemon: &Daemon, number: usize, command: &str) -> Self {
        let session = format!("flood-{number}");
        daemon.create(&session);
        let service = daemon.start_service(&session, json!({"command": command}));
        let directory = daemon.data().join("services").join(&session).join(id(&service));
        Self { session, service, directory }
    }

    fn written(&self, daemon: &Daemon) -> u64 {
        daemon.service(&self.session, id(&self.service))["log_bytes"].as_u64().unwrap()
    }
}

/// Floods for so long, looks all the time, and gives bytes per second of all together.
fn flood(settings: Settings, commands: &[&str], time: Duration) -> f64 {
    let daemon = Daemon::with(settings.set("--service-log-bytes", &LOG_BYTES.to_string()));
    daemon.create("other");
    daemon.sh("other", "x=1");
    let floods: Vec<Flood> =
        commands.iter().enumerate().map(|(number, command)| Flood::start(&daemon, number, command)).collect();
    // The log turns over before memory is measured, so that everything that is ever needed is there.
    until("the logs turn over", || floods.iter().all(|flood| flood.written(&daemon) > 2 * LOG_BYTES).then_some(()));
    let (memory, begun) = (procs::resident_kib(daemon.pid()), Instant::now());
    let before: u64 = floods.iter().map(|flood| flood.written(&daemon)).sum();
    let (mut largest, mut most_memory, mut slowest, mut answers) = (0, memory, Duration::ZERO, 0);
    while begun.elapsed() < time {
        for flood in &floods {
            largest = largest.max(bytes_in(&flood.directory));
        }
        most_memory = most_memory.max(procs::resident_kib(daemon.pid()));
        let reply = daemon.run("other", json!({"command": "echo $x; /bin/true", "timeout": 20}));
        assert_eq!((reply.out().as_str(), reply.exit_code()), ("1\n", Some(0)), "{:?}", reply.json);
        slowest = slowest.max(reply.took);
        answers += 1;
    }
    let took = begun.elapsed().as_secs_f64();
    let written = floods.iter().map(|flood| flood.written(&daemon)).sum::<u64>() - before;
    assert!(largest <= LOG_BYTES + SLACK, "a log took {largest} bytes, {LOG_BYTES} are allowed");
    assert!(most_memory <= memory + GROWTH_KIB, "the daemon grew from {memory} to {most_memory} KiB");
    assert!(answers > 0);
    for flood in &floods {
        readable(&daemon, flood);
        let stopped = daemon.stop_service(&flood.session, id(&flood.service));
        assert_eq!(stopped["status"], "stopped", "{stopped}");
        readable(&daemon, flood);
    }
    let rate = written as f64 / took;
    println!(
        "{} services wrote {:.2} GB in {took:.1} s, {:.2} GB/s; largest log {largest} bytes; daemon {memory} to {most_memory} \
         KiB; {answers} answers beside it, the slowest after {slowest:?}",
        floods.len(),
        written as f64 / 1e9,
        rate / 1e9,
    );
    rate
}

/// The end of a log that turns over all the time can be read, in one piece and in order.
fn readable(daemon: &Daemon, flood: &Flood) {
    let page = daemon.log_page(&flood.session, id(&flood.service), "tail=1000&limit=1000");
    let (offset, next, first) = (&page["offset"], &page["next_offset"], &page["first"]);
    assert!(offset.as_u64() >= first.as_u64() && next.as_u64() > offset.as_u64(), "{page}");
    let text = page["text"].as_str().unwrap();
    assert!(text.len() > 100, "{page}");
}

const LINES: &str = "exec yes a line of a server that says too much";
const BLOCKS: &str = "exec dd if=/dev/zero bs=1M status=none";

#[test]
fn a_flood_of_output_is_bounded() {
    let rate = flood(Settings::default(), &[LINES, BLOCKS], Duration::from_secs(4));
    assert!(rate > 10e6, "that is no flood: {rate} bytes a second");
}

#[test]
fn a_flood_of_output_is_bounded_without_groups() {
    flood(Settings::default().set("--cages", "marks"), &[LINES], Duration::from_secs(2));
}

#[test]
#[ignore = "takes a minute"]
fn a_minute_of_flood() {
    flood(Settings::default(), &[BLOCKS], Duration::from_secs(60));
}
