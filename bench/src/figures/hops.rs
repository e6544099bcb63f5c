//! What a short command over HTTP costs the daemon in changes of thread, counted instead of timed: noise does not change
//! these. Two waits would do, one for the request and one for bash.

use crate::daemon::Daemon;
use crate::fallible::Fallible;
use crate::http::Client;
use crate::report::{Report, Row};
use crate::setup::Setup;
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Voluntary context switches for a command.
const SWITCHES: f64 = 2.1;
/// Calls of futex for a command.
const FUTEX: f64 = 0.1;
/// Commands before anything is counted: the first ones start a shell.
const SETTLE: usize = 200;
const LIVE_SHELLS: usize = 8;
/// How long strace takes to attach to every thread.
const ATTACH: Duration = Duration::from_secs(1);

pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let daemon = Daemon::start(&setup.program, &setup.bash, LIVE_SHELLS)?;
    let mut client = Client::connect(&daemon.socket())?;
    let session = client.create()?;
    client.times(&session, "true", SETTLE)?;
    client.settle()?;
    let count = setup.effort.commands;
    let before = switches(daemon.pid())?;
    client.times(&session, "true", count)?;
    let switched = (switches(daemon.pid())? - before) as f64 / count as f64;
    let what = "voluntary switches of the daemon for `true`, HTTP".to_owned();
    report.row(Row::limit(what, switched, "switches", SWITCHES));
    let trace = tempfile::NamedTempFile::new()?;
    let Ok(mut strace) = Command::new("strace")
        .args(["-f", "-c", "-e", "trace=futex", "-o"])
        .arg(trace.path())
        .args(["-p", &daemon.pid().to_string()])
        .stderr(Stdio::null())
        .spawn()
    else {
        report.not_measured("futex calls for a command", "strace is not installed");
        return Ok(());
    };
    std::thread::sleep(ATTACH);
    client.times(&session, "true", count)?;
    if let Some(pid) = i32::try_from(strace.id()).ok().and_then(Pid::from_raw) {
        kill_process(pid, Signal::INT)?;
    }
    strace.wait()?;
    let calls = calls(trace.path())? / count as f64;
    report.row(Row::limit("futex calls of the daemon for `true`, HTTP".to_owned(), calls, "calls", FUTEX));
    Ok(())
}

/// How often the threads of a process have waited for something so far.
fn switches(pid: u32) -> Fallible<u64> {
    let mut sum = 0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let status = std::fs::read_to_string(thread?.path().join("status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sum += line.ok_or("no count of switches in /proc")?.trim().parse::<u64>()?;
    }
    Ok(sum)
}

/// The calls that strace counted.
fn calls(summary: &Path) -> Fallible<f64> {
    let text = std::fs::read_to_string(summary)?;
    let row = text.lines().find(|line| line.trim_end().ends_with("futex"));
    // No row at all where nothing was called.
    let calls = row.and_then(|row| row.split_whitespace().nth(3)).map_or(Ok(0.0), str::parse)?;
    Ok(calls)
}
