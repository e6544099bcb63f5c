//! A power cut: the data directory is on a file system of its own in an image, and the image is copied at a random moment.
//! What the daemon on the copy has is what the disk had then. With `durability=power`, nothing that was answered is lost.
//!
//! It needs the right to mount; without it, it is skipped, and fails in CI.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

mod support;

use serde_json::{Value, json};
use shellkeep_poll::until;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use support::daemon::signal;
use support::{Daemon, Request, Settings};
use tempfile::TempDir;

/// Power cuts; the long form multiplies them.
const CUTS: usize = 2;
const SESSIONS: usize = 3;
/// At least and at most so many answers come before the power is cut.
const ANSWERS: (usize, usize) = (12, 60);
/// Size of the image: small, so that copying it takes a moment only.
const IMAGE_MIB: usize = 48;
/// A state that is kept in a file of its own. Some values of the keyed store are as large.
const LARGE: usize = 70 << 10;
/// Keys of the keyed store that are set in turn.
const KEYS: usize = 5;

/// What was answered in one session.
#[derive(Debug, Clone, Default)]
struct Answered {
    /// Each run's id and the number that it set.
    runs: Vec<(String, usize)>,
    events: Vec<usize>,
    /// The version and the number of the agent's state.
    state: Option<(u64, usize)>,
    /// The keys of the keyed store, each with its number.
    keys: BTreeMap<String, usize>,
}

/// An image that is mounted over a directory. Unmounted when it is dropped, after the daemon has gone.
struct Mounted(PathBuf);

impl Mounted {
    fn new(image: &Path, directory: &Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        // Without a periodic commit: the image must not change while it is copied.
        mount.args(["-o", "loop,commit=300"]).arg(image).arg(directory).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then(|| Self(directory.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l"]).arg(&self.0).stderr(Stdio::null()).status();
        let _ = fs::remove_dir(&self.0);
    }
}

fn directory() -> TempDir {
    tempfile::Builder::new().prefix("shellkeep-test-").tempdir().expect("a temporary directory")
}

/// An empty file system in an image; nothing where there is no tool for it.
fn image(at: &Path) -> Option<()> {
    let file = fs::File::create(at).expect("a file");
    file.set_len((IMAGE_MIB << 20) as u64).expect("room for the image");
    let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(at).stderr(Stdio::null()).status();
    made.is_ok_and(|status| status.success()).then_some(())
}

fn post(daemon: &Daemon, target: &str, body: &Value) -> Option<Value> {
    let answer = Request::new("POST", target).json(body.to_string()).send(&daemon.door()).ok()?;
    let good = matches!(answer.status, 200 | 201);
    good.then(|| answer.json()).filter(|answer| answer["notices"].as_array().is_none_or(Vec::is_empty))
}

fn put(daemon: &Daemon, target: &str, body: &str) -> Option<Value> {
    let answer = Request::new("PUT", target).json(body.to_owned()).send(&daemon.door()).ok()?;
    matches!(answer.status, 200 | 201).then(|| answer.json())
}

/// Works in a session until the daemon does not answer any more.
fn work(daemon: &Daemon, session: &str, noted: &Mutex<Answered>, count: &AtomicUsize, over: &AtomicBool) {
    let base = format!("/v1/sessions/{session}");
    for number in 1.. {
        if over.load(Ordering::SeqCst) {
            return;
        }
        let Some(run) = post(daemon, &format!("{base}/run"), &json!({"command": format!("x={number}")})) else {
            continue;
        };
        let run_id = run["run_id"].as_str().expect("an id").to_owned();
        noted.lock().unwrap().runs.push((run_id, number));
        let event = json!({"event_type": "x_step", "data": {"number": number}});
        if post(daemon, &format!("{base}/events"), &event).is_some() {
            noted.lock().unwrap().events.push(number);
        }
        let is_large = number % 4 == 0;
        let value = json!({"number": number, "fill": "f".repeat(if is_large { LARGE } else { 0 })}).to_string();
        let key = format!("k{}", number % KEYS);
        if put(daemon, &format!("{base}/kv/{key}"), &value).is_some() {
            noted.lock().unwrap().keys.insert(key, number);
        }
        if is_large && let Some(saved) = put(daemon, &format!("{base}/agent_state"), &value) {
            let version = saved["version"].as_u64().expect("a version");
            noted.lock().unwrap().state = Some((version, number));
        }
        count.fetch_add(1, Ordering::SeqCst);
    }
}

/// Runs until the power is cut; gives what was answered before. The copy of the image is at `copy`.
fn until_the_cut(image: &Path, copy: &Path, answers: usize) -> Option<Vec<Answered>> {
    let place = directory();
    let mounted = Mounted::new(image, place.path())?;
    let daemon = Daemon::on(place, Settings::default().env("SHELLKEEP_DURABILITY", "power"));
    let names: Vec<String> = (0..SESSIONS).map(|number| format!("s{number}")).collect();
    names.iter().for_each(|name| drop(daemon.create(name)));
    let noted: Vec<Mutex<Answered>> = names.iter().map(|_| Mutex::default()).collect();
    let (count, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let answered = std::thread::scope(|scope| {
        for (name, noted) in names.iter().zip(&noted) {
            let (daemon, count, over) = (&daemon, &count, &over);
            scope.spawn(move || work(daemon, name, noted, count, over));
        }
        until("enough was answered", || (count.load(Ordering::SeqCst) >= answers).then_some(()));
        // Nothing is asked of the disk while it is copied; what was not written by now is lost. A thread stops only at
        // the end of the fsync that it is in.
        signal(daemon.pid(), "STOP");
        until("every thread has stopped", || all_stopped(daemon.pid()).then_some(()));
        let answered = noted.iter().map(|noted| noted.lock().unwrap().clone()).collect();
        let copied = Command::new("cp").arg("--sparse=always").arg(image).arg(copy).status();
        over.store(true, Ordering::SeqCst);
        signal(daemon.pid(), "KILL");
        assert!(copied.expect("cp runs").success());
        answered
    });
    drop(daemon);
    drop(mounted);
    Some(answered)
}

/// Whether no thread of a process runs or waits for the disk.
fn all_stopped(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    })
}

/// Whether a session on the copy has everything that was answered.
fn nothing_is_lost(daemon: &Daemon, session: &str, answered: &Answered) {
    let base = format!("/v1/sessions/{session}");
    for (run_id, number) in &answered.runs {
        let run = daemon.get(&format!("{base}/runs/{run_id}"));
        assert_eq!(run.status, 200, "{session} {run_id} x={number}: {}", run.text());
        assert_eq!(run.json()["status"], "exited", "{session} {run_id}: {}", run.text());
    }
    let last = answered.runs.last().map_or(0, |(_, number)| *number);
    let shown = daemon.sh(session, "echo ${x-0}").out();
    let value: usize = shown.trim().parse().expect("a number");
    assert!(value == last || value == last + 1, "{session}: x={value} after x={last} was answered");
    let events = daemon.get(&format!("{base}/events?type=x_step&limit=1000")).json();
    let seen: Vec<u64> = events["events"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|event| event["data"]["number"].as_u64())
        .collect();
    for number in &answered.events {
        assert!(seen.contains(&(*number as u64)), "{session}: event {number} is lost of {seen:?}");
    }
    if let Some((version, number)) = answered.state {
        let state = daemon.get(&format!("{base}/agent_state"));
        assert_eq!(state.status, 200, "{session}: {}", state.text());
        let found = state.json()["number"].as_u64().expect("a number") as usize;
        assert!(found >= number, "{session}: state {found}, version {version} with {number} was answered");
    }
    for (key, number) in &answered.keys {
        let value = daemon.get(&format!("{base}/kv/{key}"));
        assert_eq!(value.status, 200, "{session} {key}: {}", value.text());
        let found = value.json()["number"].as_u64().expect("a number") as usize;
        assert!(found >= *number, "{session}: {key} is {found}, {number} was answered");
    }
    let verdict = daemon.post(&format!("{base}/verify"), &json!({})).json();
    assert!(verdict["intact"] == true, "{session}: {verdict}");
}

#[test]
fn nothing_answered_is_lost_in_a_power_cut() {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").subsec_nanos() as usize;
    for cut in 0..CUTS * support::soak() {
        let images = directory();
        let (first, copy) = (images.path().join("image"), images.path().join("copy"));
        // Not random enough for a cipher, but for a moment.
        let answers = ANSWERS.0 + (seed ^ (cut * 7919)) % (ANSWERS.1 - ANSWERS.0);
        let Some(answered) = image(&first).and_then(|()| until_the_cut(&first, &copy, answers)) else {
            return support::skip("a power cut needs mkfs.ext4 and the right to mount");
        };
        let place = directory();
        let mounted = Mounted::new(&copy, place.path()).expect("the copy can be mounted");
        let daemon = Daemon::on(place, Settings::default().env("SHELLKEEP_DURABILITY", "power"));
        for (number, answered) in answered.iter().enumerate() {
            nothing_is_lost(&daemon, &format!("s{number}"), answered);
        }
        println!("cut {cut}: {} runs", answered.iter().map(|answered| answered.runs.len()).sum::<usize>());
        drop(daemon);
        drop(mounted);
    }
}
