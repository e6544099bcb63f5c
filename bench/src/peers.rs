//! Other session tools. Each runs in a Python of its own, is installed if it can be, and is left out with the reason if
//! it cannot.

use crate::daemon::Daemon;
use crate::fallible::Fallible;
use crate::floor;
use crate::http::{self, Client};
use crate::report::{Bar, Kind, Report};
use crate::setup::Setup;
use crate::stats::{self, Rounds, Spread};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SCRIPT: &str = "bench/peers.py";
const VENV: &str = ".bench-venv";
/// The longest a peer's figures may take together; each of its commands has a limit of its own.
const LIMIT: Duration = Duration::from_secs(300);
/// The command of the large output; the same as in `peers.py`.
const LARGE: &str = "yes 0123456789abcde | head -c 1048576";
const LARGE_BYTES: u64 = 1 << 20;
/// New sessions timed; the same as in `peers.py`.
const SESSIONS: usize = 5;
const LIVE_SHELLS: usize = 16;

struct Peer {
    name: &'static str,
    label: &'static str,
    package: Option<&'static str>,
}

const PEERS: [Peer; 3] = [
    Peer { name: "langchain", label: "LangChain ShellToolMiddleware", package: Some("langchain") },
    Peer { name: "swe-rex", label: "SWE-ReX BashSession", package: Some("swe-rex") },
    Peer { name: "sentinel", label: "sentinel, 0.2 s poll", package: None },
];

/// A line of `peers.py`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line {
    version: Option<String>,
    figure: String,
    seconds: Vec<f64>,
    kept: Option<u64>,
    failed: Option<String>,
}

pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    if !Path::new(SCRIPT).is_file() {
        return Err(format!("{SCRIPT} is not here; run this from the root of the tree").into());
    }
    ours(setup, report)?;
    for peer in &PEERS {
        eprintln!("  {}", peer.label);
        if let Err(error) = measure_one(setup, report, peer) {
            report.not_measured(peer.label, &error.to_string());
        }
    }
    Ok(())
}

/// The same three figures of ours, over HTTP as a tool in another language would come.
fn ours(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let daemon = Daemon::start(&setup.program, &setup.bash, LIVE_SHELLS)?;
    let mut client = Client::connect(&daemon.socket())?;
    let mut times = Vec::new();
    for _ in 0..=SESSIONS {
        let start = Instant::now();
        let id = client.create()?;
        client.times(&id, "true", 1)?;
        times.push(start.elapsed());
    }
    // The first one is not counted, for the peers as for us.
    let session = spread(times.into_iter().skip(1));
    let id = client.create()?;
    let short = spread(client.times(&id, "true", setup.effort.peer_commands)?.into_iter());
    http::check(client.call(&http::run_request(&id, LARGE))?)?;
    let large = spread(client.times(&id, LARGE, setup.effort.peer_outputs)?.into_iter());
    let times = |base: Option<f64>| base.map_or("–".to_owned(), |base| stats::digits(short.p50 / base));
    report.peers.push([
        "**shellkeep**, HTTP".to_owned(),
        shown(short),
        times(report.ours_by_http),
        times(report.ours_by_library),
        stats::time(large.p50),
        stats::time(session.p50),
    ]);
    Ok(())
}

fn measure_one(setup: &Setup, report: &mut Report, peer: &Peer) -> Fallible<()> {
    let python = install(peer)?;
    let lines = run(setup, peer, &python)?;
    let find = |figure: &str| lines.iter().find(|line| line.figure == figure);
    let spread_of = |figure: &str| -> Result<Spread, String> {
        let line = find(figure).ok_or("not reached")?;
        match &line.failed {
            Some(reason) => Err(reason.clone()),
            None => Ok(spread(line.seconds.iter().copied().map(Duration::from_secs_f64))),
        }
    };
    let version = lines.iter().find_map(|line| line.version.clone()).unwrap_or_default();
    let short = spread_of("true")?;
    let times =
        |base: Option<f64>| base.map_or("–".to_owned(), |base| format!("{}×", stats::digits(short.p50 / base)));
    let kept = find("output").and_then(|line| line.kept).filter(|&kept| kept < LARGE_BYTES);
    let kept = kept.map(|kept| format!(" ({} characters of it kept)", stats::digits(kept as f64))).unwrap_or_default();
    report.peers.push([
        format!("{} {version}", peer.label).trim().to_owned(),
        shown(short),
        times(report.ours_by_http),
        times(report.ours_by_library),
        spread_of("output").map_or_else(|reason| reason, |large| stats::time(large.p50) + &kept),
        spread_of("session").map_or_else(|reason| reason, |session| stats::time(session.p50)),
    ]);
    report.bars.push(Bar { label: peer.label.to_owned(), kind: Kind::Peer, seconds: short.p50 });
    Ok(())
}

fn spread(times: impl Iterator<Item = Duration>) -> Spread {
    let mut rounds = Rounds::default();
    rounds.push(times.collect());
    rounds.middle()
}

fn shown(spread: Spread) -> String {
    format!("{} (p99 {})", stats::time(spread.p50), stats::time(spread.p99))
}

/// A Python that has the peer's package. What is installed already is not fetched again.
fn install(peer: &Peer) -> Fallible<std::path::PathBuf> {
    let Some(package) = peer.package else { return Ok("python3".into()) };
    let python = Path::new(VENV).join("bin/python");
    if !python.is_file() {
        checked(Command::new("python3").args(["-m", "venv", VENV]))?;
    }
    checked(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package]))?;
    Ok(python)
}

fn checked(command: &mut Command) -> Fallible<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("does not install: {}", last_line(&said)).into())
}

fn last_line(text: &str) -> &str {
    text.trim().lines().last().unwrap_or("without a word")
}

/// Runs the script for one peer; what it said before it failed or was stopped counts.
fn run(setup: &Setup, peer: &Peer, python: &Path) -> Fallible<Vec<Line>> {
    let directory = tempfile::tempdir()?;
    let (said, complained) = (directory.path().join("out"), directory.path().join("err"));
    let mut child = Command::new(python)
        .args([SCRIPT, peer.name, &setup.effort.peer_commands.to_string(), &setup.effort.peer_outputs.to_string()])
        .stdin(Stdio::null())
        .stdout(File::create(&said)?)
        .stderr(File::create(&complained)?)
        // A group of its own, so that it can be ended with the shells it started.
        .process_group(0)
        .spawn()?;
    let until = Instant::now() + LIMIT;
    while child.try_wait()?.is_none() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    floor::end(&mut child);
    let text = std::fs::read_to_string(&said)?;
    let lines: Vec<Line> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    if lines.iter().any(|line| line.figure == "true") {
        return Ok(lines);
    }
    let complaint = std::fs::read_to_string(&complained).unwrap_or_default();
    Err(format!("does not run: {}", last_line(&complaint)).into())
}
