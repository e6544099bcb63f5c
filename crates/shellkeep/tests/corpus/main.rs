//! Thousands of ordinary scripts, each run by `bash -c` and through a session of its own: the same bytes and the same
//! status must come out. The scripts are made here, by combining tables of things that matter in the language.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

mod arithmetic;
mod arrays;
mod builtins;
mod conditions;
mod errors;
mod expansion;
mod files;
mod flow;
mod programs;
mod quoting;
#[path = "../support/mod.rs"]
mod support;

use serde_json::json;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{Daemon, bash};

/// Fewer scripts than this are no corpus.
const AT_LEAST: usize = 3_000;
/// Of a thousand scripts, so many must give the same output and status.
const SAME_PER_MILLE: usize = 995;
/// Scripts at once: enough to keep both processors of a small machine busy.
const THREADS: usize = 4;
/// A script that takes this long hangs.
const TIMEOUT_SECONDS: u32 = 20;

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
enum Verdict {
    Same,
    /// Output and status are the same, the error text is not.
    OtherErrors(String),
    Different(String),
}

#[test]
fn sessions_answer_as_bash_does() {
    let corpus = Corpus::whole();
    assert!(corpus.scripts.len() >= AT_LEAST, "only {} scripts", corpus.scripts.len());
    let verdicts = judge_all(&corpus.scripts);

    let (mut same, mut same_errors, mut counted, mut areas) = (0, 0, 0, BTreeMap::<&str, (usize, usize)>::new());
    for (script, verdict) in corpus.scripts.iter().zip(&verdicts) {
        if script.unfired {
            assert!(matches!(verdict, Verdict::Different(_)), "this EXIT trap fired in a session:\n{}", script.text);
            continue;
        }
        let area = areas.entry(script.area).or_default();
        counted += 1;
        area.1 += 1;
        match verdict {
            Verdict::Different(how) => println!("--- {} ---\n{}\n{how}", script.area, script.text),
            Verdict::OtherErrors(how) => {
                println!("--- {} (stderr only) ---\n{}\n{how}", script.area, script.text);
                same += 1;
                area.0 += 1;
            }
            Verdict::Same => {
                same += 1;
                same_errors += 1;
                area.0 += 1;
            }
        }
    }
    for (area, (same, all)) in areas {
        println!("{area:>16}: same {same} of {all}");
    }
    println!("same {same} of {counted} (stdout and status); stderr too: {same_errors}");
    assert!(same * 1000 >= counted * SAME_PER_MILLE, "same {same} of {counted}: under {SAME_PER_MILLE} per mille");
}

/// Every script against the oracle, a few at a time, one daemon for all.
fn judge_all(scripts: &[Script]) -> Vec<Verdict> {
    let daemon = Daemon::start();
    let (next, verdicts) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(script) = scripts.get(index) else { return };
                    let verdict = judge(&daemon, index, &script.text);
                    verdicts.lock().expect("no thread panics while it holds the lock").push((index, verdict));
                }
            });
        }
    });
    let mut verdicts = verdicts.into_inner().expect("all threads have ended");
    verdicts.sort_by_key(|(index, _)| *index);
    assert_eq!(verdicts.len(), scripts.len(), "some scripts have no verdict");
    verdicts.into_iter().map(|(_, verdict)| verdict).collect()
}

/// The same directory, emptied in between, serves both, so that paths in messages agree.
fn judge(daemon: &Daemon, index: usize, script: &str) -> Verdict {
    let home = daemon.directory().join(format!("c{index}"));
    let expected = in_fresh_directory(&home, || bash::run(script, &home));
    let session = format!("c{index}");
    let reply = in_fresh_directory(&home, || {
        daemon.create_with(json!({"session_id": session, "cwd": home}));
        let reply = daemon.run(&session, json!({"command": script, "timeout": TIMEOUT_SECONDS}));
        daemon.destroy(&session);
        reply
    });
    if reply.stdout() != expected.stdout || reply.exit_code() != Some(expected.exit_code) {
        let wanted = String::from_utf8_lossy(&expected.stdout).into_owned();
        return Verdict::Different(format!(
            "bash -c: {} {wanted:?} {:?}\nsession: {} {:?} {:?} {:?} {:?}",
            expected.exit_code,
            String::from_utf8_lossy(&expected.stderr),
            reply.json["exit_code"],
            reply.out(),
            reply.err(),
            reply.status(),
            reply.notice_text(),
        ));
    }
    let (wanted, got) = (bash::same_errors(&expected.stderr), bash::same_errors(&reply.stderr()));
    if comparable(&wanted) == comparable(&got) {
        return Verdict::Same;
    }
    Verdict::OtherErrors(format!("bash -c: {wanted:?}\nsession: {got:?}"))
}

fn in_fresh_directory<T>(home: &Path, work: impl FnOnce() -> T) -> T {
    std::fs::create_dir(home).expect("a fresh directory");
    let result = work();
    std::fs::remove_dir_all(home).expect("the directory can be removed");
    result
}

/// Process ids in messages differ from run to run, and so does the order in which the parts of a pipeline complain.
fn comparable(text: &str) -> Vec<String> {
    let is_pid = |word: &&str| word.len() >= 3 && word.bytes().all(|byte| byte.is_ascii_digit());
    let without_pids = |line: &str| {
        let words = line.split(' ').map(|word| if is_pid(&word) { "PID" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    let mut lines: Vec<String> = text.lines().map(without_pids).collect();
    lines.sort();
    lines
}
