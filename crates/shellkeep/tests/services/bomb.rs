//! Fork bombs, in a command and in a service, in every way in which processes are held: the limit holds, others go on, and
//! nothing is left.

use crate::support::procs::unique_sleep;
use crate::support::services::id;
use crate::support::{Daemon, Settings, groups, procs};
use serde_json::json;
use shellkeep_poll::until;
use shellkeep_process::cgroup::Mounts;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const BOMB: &str = ":(){ :|:& };:";
/// One that does not end by itself even when forks fail: what is killed is replaced.
const PERSISTENT: &str = "f() { while :; do f & sleep 0.01; done; }; f";
/// How long it may go on.
const TIMEOUT: f64 = 3.0;

/// A bomb that the daemon does not hold should end the test and not the machine: where the kernel can, it limits the test
/// and all it starts far above what the daemon allows.
struct Net(Option<PathBuf>);

impl Net {
    fn spread() -> Self {
        let Some(own) = Mounts::find().pids_v1 else { return Self(None) };
        let path = own.join(format!("shellkeep-test-net-{}", std::process::id()));
        let spread = || {
            std::fs::create_dir(&path)?;
            std::fs::write(path.join("pids.max"), "6000")?;
            std::fs::write(path.join("cgroup.procs"), std::process::id().to_string())
        };
        Self(spread().is_ok().then_some(path))
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let Some(path) = &self.0 else { return };
        let _ = std::fs::write(path.with_file_name("cgroup.procs"), std::process::id().to_string());
        shellkeep_poll::attempt(Duration::from_secs(10), || std::fs::remove_dir(path).ok());
    }
}

/// What was seen of others while a bomb went off.
#[derive(Debug, Default)]
struct Seen {
    answers: u64,
    slowest: Duration,
    most_processes: usize,
}

/// Does `work` while another session is asked again and again, and processes are counted.
fn beside<T>(daemon: &Daemon, work: impl FnOnce() -> T) -> (T, Seen) {
    let (over, most) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut seen = Seen::default();
            while !over.load(Ordering::SeqCst) {
                let reply = daemon.run("other", json!({"command": "echo $x; /bin/true", "timeout": 20}));
                assert_eq!((reply.out().as_str(), reply.exit_code()), ("1\n", Some(0)), "{:?}", reply.json);
                seen.answers += 1;
                seen.slowest = seen.slowest.max(reply.took);
            }
            seen
        });
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                let count = groups::members(&daemon.data(), "").len() as u64;
                most.fetch_max(count, Ordering::SeqCst);
                shellkeep_poll::pass(Duration::from_millis(20));
            }
        });
        let done = work();
        over.store(true, Ordering::SeqCst);
        let mut seen = asking.join().expect("the other session is answered all the time");
        seen.most_processes = usize::try_from(most.load(Ordering::SeqCst)).unwrap();
        (done, seen)
    })
}

fn settings(mode: &str, limits: Option<(u64, u64)>) -> Settings {
    let settings = Settings::default().set("--cages", mode);
    match limits {
        Some((session, node)) => {
            settings.set("--session-processes", &session.to_string()).set("--processes", &node.to_string())
        }
        None => settings,
    }
}

fn held_in_a_command(mode: &str, limits: Option<(u64, u64)>, bomb: &str) {
    let _net = Net::spread();
    let daemon = Daemon::with(settings(mode, limits));
    daemon.create("other");
    daemon.sh("other", "x=1");
    let home = daemon.create("bomb")["cwd"].as_str().unwrap().to_owned();
    daemon.sh("bomb", "kept=1");
    let (reply, seen) = beside(&daemon, || {
        // The bomb goes on in the background of its shell, which itself waits for what never comes.
        let command = format!("mkfifo p; {bomb}\nread -r line <> p");
        daemon.run("bomb", json!({"command": command, "timeout": TIMEOUT}))
    });
    println!("{mode} {limits:?}: {:?} {seen:?}", reply.status());
    match (mode, reply.status(), reply.exit_code()) {
        (_, "timed_out", _) => {}
        // The guard ends the shell too when it was cut back again and again.
        ("no_limits" | "marks", "exited", Some(137)) => {}
        _ => panic!("{mode}: {:?}", reply.json),
    }
    assert!(reply.notice_codes().contains(&"process_limit"), "{mode}: {:?}", reply.json["notices"]);
    assert!(seen.answers > 0, "{mode}: others were answered: {seen:?}");
    let (_, node) = limits.unwrap_or((256, 1000));
    // What the kernel holds is held to the last one; the guard needs a moment to see it. Groups are read one by one.
    let most = if mode == "auto" { node + 20 } else { 4 * node };
    assert!(seen.most_processes as u64 <= most, "{mode}: {seen:?}");
    let next = daemon.sh("bomb", "echo $kept");
    assert_eq!(next.out(), "1\n", "{mode}: the session goes on");
    daemon.hibernate("bomb");
    until("nothing of it is left", || procs::working_in(home.as_ref()).is_empty().then_some(()));
}

#[test]
fn a_bomb_is_held_by_the_kernel() {
    held_in_a_command("auto", Some((60, 100)), BOMB);
}

#[test]
fn a_bomb_is_held_by_the_kernel_at_the_default_limits() {
    held_in_a_command("auto", None, BOMB);
}

#[test]
fn a_bomb_is_held_by_the_guard() {
    held_in_a_command("no_limits", Some((60, 100)), BOMB);
}

#[test]
fn a_bomb_is_held_by_the_guard_at_the_default_limits() {
    held_in_a_command("no_limits", None, BOMB);
}

#[test]
fn a_bomb_is_held_without_groups() {
    held_in_a_command("marks", Some((60, 100)), BOMB);
}

#[test]
fn a_bomb_is_held_without_groups_at_the_default_limits() {
    held_in_a_command("marks", None, BOMB);
}

#[test]
fn a_bomb_that_begins_again_is_held() {
    for mode in ["auto", "no_limits", "marks"] {
        held_in_a_command(mode, Some((60, 100)), PERSISTENT);
    }
}

/// A bomb in a service, beside a service that has nothing to do with it.
#[test]
fn a_bomb_in_a_service_is_held_and_can_be_stopped() {
    for mode in ["auto", "no_limits", "marks"] {
        let _net = Net::spread();
        let daemon = Daemon::with(settings(mode, Some((60, 100))));
        daemon.create("other");
        daemon.sh("other", "x=1");
        daemon.create("bomb");
        let mark = unique_sleep();
        let calm = daemon.start_service("other", json!({"command": format!("exec sleep {mark}")}));
        let (service, seen) = beside(&daemon, || {
            let service = daemon.start_service("bomb", json!({"command": format!("{PERSISTENT}; wait"), "wait": 2}));
            if service["status"] == "running" {
                let stopped =
                    daemon.post(&format!("/v1/sessions/bomb/services/{}/stop", id(&service)), &json!({"grace": 0.5}));
                assert_eq!(stopped.status, 200, "{}", stopped.text());
            }
            daemon.service("bomb", id(&service))
        });
        println!("{mode}: {} {seen:?}", service["status"]);
        assert!(["stopped", "failed", "exited"].contains(&service["status"].as_str().unwrap()), "{mode}: {service}");
        assert!(seen.answers > 0, "{mode}: {seen:?}");
        assert_eq!(daemon.service("other", id(&calm))["status"], "running", "{mode}: others are spared");
        until("nothing of it is left", || groups::members(&daemon.data(), "service-bomb").is_empty().then_some(()));
        assert_eq!(procs::marked(&mark).len(), 1, "{mode}");
    }
}
