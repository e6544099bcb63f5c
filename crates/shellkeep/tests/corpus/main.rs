//! Thousands of ordinary scripts, each run by `bash -c` and in a session of its own: output, error text and status must
//! be the same, except for the scripts in `known.rs`. The scripts are made by combining tables of things that matter in
//! the language. In sandboxes some of them are run, and all with `SHELLKEEP_SOAK`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

mod arithmetic;
mod arrays;
mod builtins;
mod conditions;
mod errors;
mod expansion;
mod files;
mod flow;
mod known;
mod programs;
mod quoting;
#[path = "../support/mod.rs"]
mod support;

use known::Differs;
use serde_json::json;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{Daemon, Reply, Settings, bash, soak};

/// Fewer scripts than this are no corpus.
const AT_LEAST: usize = 3_000;
/// Scripts at once: enough to keep both processors of a small machine busy.
const THREADS: usize = 4;
/// A script that takes this long hangs.
const TIMEOUT_SECONDS: u32 = 20;
/// In a sandbox one script in so many is run: a prime, so that it is not always the same entry of a table.
const EVERY: usize = 23;
/// How often bash is asked when a session differs from it.
const TIMES: usize = 10;

/// A script and where it comes from.
struct Script {
    area: &'static str,
    text: String,
    /// Its EXIT trap fires in `bash -c` and not in a session.
    unfired: bool,
}

/// The scripts, each once.
#[derive(Default)]
pub struct Corpus {
    scripts: Vec<Script>,
    seen: HashSet<String>,
}

impl Corpus {
    fn add(&mut self, area: &'static str, text: impl Into<String>) {
        self.insert(area, text.into(), false);
    }

    fn add_unfired(&mut self, area: &'static str, text: impl Into<String>) {
        self.insert(area, text.into(), true);
    }

    fn insert(&mut self, area: &'static str, text: String, unfired: bool) {
        if self.seen.insert(text.clone()) {
            self.scripts.push(Script { area, text, unfired });
        }
    }

    fn whole() -> Self {
        let mut corpus = Self::default();
        expansion::add(&mut corpus);
        quoting::add(&mut corpus);
        arrays::add(&mut corpus);
        arithmetic::add(&mut corpus);
        conditions::add(&mut corpus);
        builtins::add(&mut corpus);
        flow::add(&mut corpus);
        files::add(&mut corpus);
        errors::add(&mut corpus);
        programs::add(&mut corpus);
        corpus
    }
}

/// How one script came out.
struct Outcome {
    stdout: bool,
    status: bool,
    stderr: bool,
    /// Both sides, for whoever has to look into it.
    text: String,
}

impl Outcome {
    fn agrees(&self) -> bool {
        self.stdout && self.status && self.stderr
    }
}

#[test]
fn sessions_answer_as_bash_does() {
    let corpus = Corpus::whole();
    assert!(corpus.scripts.len() >= AT_LEAST, "only {} scripts", corpus.scripts.len());
    assert_eq!(known::stale(|script| corpus.seen.contains(script)), [""; 0], "listed, but not in the corpus");
    let mut areas = BTreeMap::<&str, usize>::new();
    corpus.scripts.iter().for_each(|script| *areas.entry(script.area).or_default() += 1);
    areas.iter().for_each(|(area, count)| println!("{area:>16}: {count}"));
    agree("none", corpus.scripts);
}

#[test]
fn sessions_behind_a_fence_answer_as_bash_does() {
    agree("fence", some("fence"));
}

#[test]
fn sessions_in_a_room_answer_as_bash_does() {
    agree("room", some("room"));
}

/// Some scripts of every area and all that are known to differ there, or all of them.
fn some(sandbox: &str) -> Vec<Script> {
    let is_taken = |(index, script): &(usize, Script)| {
        soak() > 1 || index.is_multiple_of(EVERY) || known::of(&script.text, sandbox).is_some()
    };
    Corpus::whole().scripts.into_iter().enumerate().filter(is_taken).map(|(_, script)| script).collect()
}

/// That the scripts come out as under bash in sessions with this sandbox.
fn agree(sandbox: &str, scripts: Vec<Script>) {
    let outcomes = judge_all(&scripts, sandbox);
    let judged = scripts.iter().zip(&outcomes);
    let wrong: Vec<String> = judged.filter_map(|(script, outcome)| complaint(script, sandbox, outcome)).collect();
    assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), outcomes.len(), wrong.join("\n"));
}

/// What is wrong with how a script came out. One that is known to differ must differ, or the list is out of date.
fn complaint(script: &Script, sandbox: &str, outcome: &Outcome) -> Option<String> {
    let (expected, why) = match known::of(&script.text, sandbox) {
        // What an EXIT trap prints, and the status it sets, depends on the trap.
        None if script.unfired => {
            let fired = outcome.stdout && outcome.status;
            return fired.then(|| format!("--- this EXIT trap fired in a session ---\n{}", script.text));
        }
        None => ((true, true, true), "must agree"),
        Some(known) => match known.differs {
            Differs::Stdout => ((false, true, true), known.reason),
            Differs::Status => ((true, false, true), known.reason),
            Differs::Stderr => ((true, true, false), known.reason),
            Differs::Races => ((outcome.stdout, true, true), known.reason),
        },
    };
    let found = (outcome.stdout, outcome.status, outcome.stderr);
    let (area, text, both) = (script.area, &script.text, &outcome.text);
    (found != expected)
        .then(|| format!("--- {area} ({why}; same (stdout, status, stderr): {found:?}) ---\n{text}\n{both}"))
}

/// Every script against the oracle, a few at a time, one daemon for all.
fn judge_all(scripts: &[Script], sandbox: &str) -> Vec<Outcome> {
    let daemon = Daemon::with(Settings::default().set("--sandbox", sandbox));
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(script) = scripts.get(index) else { return };
                    let outcome = judge(&daemon, sandbox, index, &script.text);
                    outcomes.lock().expect("no thread panics while it holds the lock").push((index, outcome));
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().expect("all threads have ended");
    outcomes.sort_by_key(|(index, _)| *index);
    assert_eq!(outcomes.len(), scripts.len(), "some scripts were not run");
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Where a session and its oracle work.
struct Places {
    workspace: PathBuf,
    /// What a sandbox gives to its session: a directory of its own, with a home and a place for temporary files.
    own: Option<PathBuf>,
}

impl Places {
    fn of(daemon: &Daemon, sandbox: &str, session: &str) -> Self {
        match sandbox {
            "none" => Self { workspace: daemon.directory().join(session), own: None },
            // A sandbox has only its workspace, which is made and removed with its session.
            _ => Self {
                workspace: daemon.data().join("workspaces").join(session),
                own: Some(daemon.data().join("homes").join(session)),
            },
        }
    }

    fn run(&self, daemon: &Daemon, session: &str, script: &str) -> Reply {
        let in_session = |cwd: Option<&Path>| {
            daemon.create_with(json!({"session_id": session, "cwd": cwd}));
            let reply = daemon.run(session, json!({"command": script, "timeout": TIMEOUT_SECONDS}));
            daemon.destroy(session);
            reply
        };
        match &self.own {
            None => in_fresh_directory(&self.workspace, || in_session(Some(&self.workspace))),
            Some(_) => in_session(None),
        }
    }

    fn ask_bash(&self, script: &str) -> bash::Outcome {
        let Some(own) = &self.own else {
            return in_fresh_directory(&self.workspace, || bash::run(script, &self.workspace));
        };
        let (home, tmp) = (own.join("home"), own.join("tmp"));
        in_fresh_directory(own, || {
            [&home, &tmp].iter().for_each(|path| std::fs::create_dir(path).expect("a directory of the session"));
            let variables: [(&str, &Path); 2] = [("HOME", &home), ("TMPDIR", &tmp)];
            in_fresh_directory(&self.workspace, || bash::run_with(script, &self.workspace, &variables))
        })
    }
}

/// The same directories, emptied in between, serve both, so that paths in messages agree.
fn judge(daemon: &Daemon, sandbox: &str, index: usize, script: &str) -> Outcome {
    let session = format!("c{index}");
    let places = Places::of(daemon, sandbox, &session);
    let reply = places.run(daemon, &session, script);
    let compared = || compare(&places.ask_bash(script), &reply);
    // The parts of a pipeline race, also under bash: an answer that bash gives one time in some is right.
    let first = compared();
    match (first.agrees(), known::of(script, sandbox)) {
        (false, None) => (1..TIMES).map(|_| compared()).find(Outcome::agrees).unwrap_or(first),
        _ => first,
    }
}

fn compare(expected: &bash::Outcome, reply: &Reply) -> Outcome {
    let (wanted, got) = (bash::same_errors(&expected.stderr), bash::same_errors(&reply.stderr()));
    Outcome {
        stdout: without_times(&reply.stdout()) == without_times(&expected.stdout),
        status: reply.exit_code() == Some(expected.exit_code),
        stderr: comparable(&wanted) == comparable(&got),
        text: format!(
            "bash -c: {} {:?} {wanted:?}\nsession: {} {:?} {got:?} {:?} {:?}",
            expected.exit_code,
            String::from_utf8_lossy(&expected.stdout),
            reply.json["exit_code"],
            reply.out(),
            reply.status(),
            reply.notice_text(),
        ),
    }
}

fn in_fresh_directory<T>(home: &Path, work: impl FnOnce() -> T) -> T {
    std::fs::create_dir(home).expect("a fresh directory");
    let result = work();
    std::fs::remove_dir_all(home).expect("the directory can be removed");
    result
}

/// What `time` measures differs from run to run.
fn without_times(bytes: &[u8]) -> Vec<&[u8]> {
    fn without(line: &[u8]) -> &[u8] {
        let names: [&'static [u8]; 3] = [b"real\t0m", b"user\t0m", b"sys\t0m"];
        names.into_iter().find(|name| line.starts_with(name)).unwrap_or(line)
    }
    bytes.split(|byte| *byte == b'\n').map(without).collect()
}

/// Process ids in messages differ from run to run, too, and so does the order in which the parts of a pipeline complain.
fn comparable(text: &str) -> Vec<String> {
    let line_without_pids = |line: &[u8]| without_pids(&String::from_utf8_lossy(line));
    let mut lines: Vec<String> = without_times(text.as_bytes()).into_iter().map(line_without_pids).collect();
    lines.sort();
    lines
}

fn without_pids(line: &str) -> String {
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    // In a room they are small, and padded: `bash: line 1:     3 Killed`.
    let padded = line.strip_prefix("bash: line ").and_then(|rest| {
        let (number, said) = rest.split_once(": ")?;
        let (pid, how) = said.trim_start().split_once(' ')?;
        is_number(pid).then(|| format!("bash: line {number}: PID {how}"))
    });
    let is_pid = |word: &str| word.len() >= 3 && is_number(word);
    let line = padded.as_deref().unwrap_or(line);
    line.split(' ').map(|word| if is_pid(word) { "PID" } else { word }).collect::<Vec<_>>().join(" ")
}
