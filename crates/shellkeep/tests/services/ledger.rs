//! What becomes of services and commands when the daemon dies: services are taken over as they are, commands are lost,
//! nothing is left over, and nothing is touched that is not ours.

use crate::support::procs::{self, unique_sleep};
use crate::support::services::{id, in_parallel, pid};
use crate::support::{Daemon, Request, Settings, groups};
use serde_json::{Value, json};
use shellkeep_poll::until;
use std::collections::BTreeMap;
use std::process::{Child, Command};
use std::time::Instant;

const CROWD: usize = 16;
/// Services of one session, as many as it may have.
const EACH: usize = 5;

/// A process that has nothing to do with any daemon. Ended when the test ends.
struct Decoy(Child);

impl Decoy {
    fn start() -> Self {
        Self(Command::new("sleep").arg(unique_sleep()).spawn().expect("sleep starts"))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn lives(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Decoy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Who a service is: session and id, with pid and start time of its process.
type Identities = BTreeMap<(String, String), (u32, u64)>;

fn identities(services: &[Value]) -> Identities {
    let name = |service: &Value| (service["session_id"].as_str().unwrap().to_owned(), id(service).to_owned());
    let stamp = |service: &Value| (pid(service), procs::started_ticks(pid(service)).expect("it lives"));
    services.iter().map(|service| (name(service), stamp(service))).collect()
}

fn log_ends(services: &[Value]) -> BTreeMap<u32, u64> {
    services.iter().map(|service| (pid(service), service["log_bytes"].as_u64().unwrap())).collect()
}

/// Starts services that write to their logs all the time, each with a mark in it.
fn start_writers(daemon: &Daemon, count: usize, mark: &str) {
    let sessions: Vec<String> = (0..count.div_ceil(EACH)).map(|number| format!("writer-{number}")).collect();
    in_parallel(CROWD, &sessions, |session| {
        daemon.create(session);
        for number in 0..EACH {
            let command = format!("echo begun {number}; while :; do echo tick; sleep 0.5; done # {mark}");
            daemon.start_service(session, json!({"command": command}));
        }
    });
}

/// Starts a command in each of the sessions, which does not end; gives session and run.
fn start_commands(daemon: &Daemon, sessions: &[String], mark: &str) -> Vec<(String, String)> {
    in_parallel(CROWD, sessions, |session| {
        let body = json!({"command": format!("sleep {mark}"), "blocking": false, "timeout": 1000});
        let reply = daemon.run(session, body);
        assert_eq!(reply.status(), "running", "{:?}", reply.json);
        (session.clone(), reply.run_id().to_owned())
    })
}

fn killed_again_and_again(settings: Settings, count: usize, rounds: usize) {
    let mut daemon = Daemon::with(settings);
    let mut decoy = Decoy::start();
    start_writers(&daemon, count, &unique_sleep());
    let sessions: Vec<String> = (0..count).map(|number| format!("command-{number}")).collect();
    in_parallel(CROWD, &sessions, |session| drop(daemon.create(session)));
    let first = daemon.all_services();
    assert_eq!(first.len(), count);
    let before = identities(&first);
    let (mut ends, mut slowest) = (log_ends(&first), 0.0_f64);
    for round in 0..rounds {
        let mark = unique_sleep();
        let runs = start_commands(&daemon, &sessions, &mark);
        until("all commands run", || (procs::marked(&mark).len() == count).then_some(()));
        daemon.kill();
        assert_eq!(alive(&before), count, "round {round}: services outlive their daemon");
        let begun = Instant::now();
        daemon.restart();
        slowest = slowest.max(begun.elapsed().as_secs_f64());
        assert!(procs::marked(&mark).is_empty(), "round {round}: commands outlive their daemon");
        let now = daemon.all_services();
        assert_eq!(identities(&now), before, "round {round}: each service is the one it was");
        assert!(now.iter().all(|service| service["status"] == "running" && service["restarts"] == 0), "round {round}");
        in_parallel(CROWD, &runs, |(session, run_id)| {
            let run = daemon.wait_run(session, run_id, 0);
            assert_eq!(run.status(), "lost", "round {round}: {:?}", run.json);
        });
        ends = until("every log grows on", || {
            let later = log_ends(&daemon.all_services());
            later.iter().all(|(pid, end)| *end > ends[pid]).then_some(later)
        });
        assert!(decoy.lives(), "round {round}: a process that is not ours was ended");
    }
    let sample = daemon.service_log("writer-0", id(&daemon.services_of("writer-0")[3]));
    assert!(sample.starts_with("begun 3\ntick\ntick\n"), "one log from the beginning on: {sample:.40}");
    assert_eq!(sample.matches("begun").count(), 1, "nothing was started twice");
    in_parallel(CROWD, &first, |service| {
        daemon.stop_service(service["session_id"].as_str().unwrap(), id(service));
    });
    assert_eq!(alive(&before), 0, "an adopted service can be stopped");
    until("nothing is left", || groups::of_services_alive(&daemon.data()).is_empty().then_some(()));
    until("no group is left", || groups::of_services(&daemon.data()).is_empty().then_some(()));
    println!("{count} services and {count} commands, killed {rounds} times: ready again in {slowest:.2} s at most");
}

fn alive(services: &Identities) -> usize {
    services.values().filter(|(pid, ticks)| procs::alive(*pid) && procs::started_ticks(*pid) == Some(*ticks)).count()
}

#[test]
fn a_hundred_services_and_commands_killed_ten_times() {
    killed_again_and_again(Settings::default(), 100, 10);
}

#[test]
fn forty_services_and_commands_killed_thrice_without_groups() {
    killed_again_and_again(Settings::default().set("--cages", "marks"), 40, 3);
}

#[test]
#[ignore = "takes long: who belongs to whom is found by reading all of /proc"]
fn a_hundred_services_and_commands_killed_ten_times_without_groups() {
    killed_again_and_again(Settings::default().set("--cages", "marks"), 100, 10);
}

/// Changes what the store has of a session while no daemon runs.
fn edit_state(daemon: &Daemon, session: &str, edit: impl FnOnce(&mut Value)) {
    let path = daemon.data().join("files/sessions").join(session).join("state.json");
    let mut state: Value = serde_json::from_slice(&std::fs::read(&path).expect("the store has a file")).unwrap();
    state.as_object_mut().expect("an object").remove("sum");
    edit(&mut state);
    std::fs::write(path, shellkeep_store::sum::seal(serde_json::to_vec(&state).unwrap())).unwrap();
}

/// Finds the place of a service's stamps in a stored state, however deep it lies.
fn stamps_in(value: &mut Value) -> Option<&mut Value> {
    match value {
        Value::Object(map) => map.iter_mut().find_map(|(name, value)| match name.as_str() {
            "stamps" => Some(value),
            _ => stamps_in(value),
        }),
        Value::Array(list) => list.iter_mut().find_map(stamps_in),
        _ => None,
    }
}

/// The numbers in the ledger are given to other processes by the time the next daemon reads it.
fn a_number_that_was_given_away(mode: &str, whose: &[&str]) {
    let mut daemon = Daemon::with(Settings::default().set("--cages", mode).store("file://{data}/files"));
    daemon.create("s");
    let mark = unique_sleep();
    let service = daemon.start_service("s", json!({"command": format!("exec sleep {mark}")}));
    daemon.stop();
    assert!(procs::alive(pid(&service)), "{mode}: it outlives its daemon");
    let mut decoy = Decoy::start();
    let ticks = procs::started_ticks(decoy.pid()).unwrap();
    edit_state(&daemon, "s", |state| {
        let stamps = stamps_in(state).expect("the service is in the ledger");
        for name in whose {
            stamps[name] = json!({"pid": decoy.pid(), "started_ticks": ticks - 1});
        }
    });
    daemon.restart();
    let after = daemon.service("s", id(&service));
    assert!(decoy.lives(), "{mode} {whose:?}: a recycled number was touched");
    if whose.contains(&"keeper") {
        assert_eq!(after["status"], "failed", "{mode}: {after}");
        assert!(after["detail"].as_str().unwrap().contains("exit code is unknown"), "{after}");
        until("what ran under that name is ended", || procs::marked(&mark).is_empty().then_some(()));
    } else {
        assert_eq!(after["status"], "running", "{mode}: its keeper lives: {after}");
        assert_ne!(after["pid"], decoy.pid(), "{mode}: {after}");
    }
    daemon.stop_service("s", id(&service));
    assert!(procs::marked(&mark).is_empty());
    assert!(decoy.lives(), "{mode} {whose:?}: a recycled number was touched by a stop");
}

#[test]
fn a_recycled_number_is_never_touched() {
    for mode in ["auto", "marks"] {
        for whose in [&["keeper", "main"][..], &["keeper"], &["main"]] {
            a_number_that_was_given_away(mode, whose);
        }
    }
}

/// Services that end while nobody looks.
#[test]
fn what_ended_while_no_daemon_ran_is_told_afterwards() {
    for mode in ["auto", "marks"] {
        let mut daemon = Daemon::with(Settings::default().set("--cages", mode));
        daemon.create("s");
        let gate = daemon.directory().join("gate");
        let wait = format!("until [ -e {} ]; do sleep 0.05; done", gate.display());
        let start = |command: &str, restart: &str| {
            let body = json!({"command": format!("{wait}; {command}"), "restart": restart});
            daemon.start_service("s", body)
        };
        let seven = start("echo bye; exit 7", "never");
        let killed = start("kill -9 $$", "never");
        let again = start("[ -e again ] && exec sleep 1000; touch again; exit 3", "always");
        let well = start("exit 0", "on_failure");
        daemon.kill();
        std::fs::write(&gate, "").unwrap();
        until("all have ended", || groups::of_services_alive(&daemon.data()).is_empty().then_some(()));
        daemon.restart();
        let seven = daemon.service("s", id(&seven));
        assert_eq!((&seven["status"], &seven["exit_code"]), (&json!("exited"), &json!(7)), "{seven}");
        assert_eq!(seven["detail"], "it ended with exit code 7");
        assert_eq!(daemon.service_log("s", id(&seven)), "bye\n");
        let killed = daemon.service("s", id(&killed));
        assert_eq!((&killed["status"], &killed["signal"]), (&json!("exited"), &json!("KILL")), "{killed}");
        let well = daemon.service("s", id(&well));
        assert_eq!((&well["status"], &well["exit_code"]), (&json!("exited"), &json!(0)), "{well}");
        // It is running again from the record of its restart on; its process comes a little later.
        let again = until("it is restarted", || {
            let again = daemon.service_until("s", id(&again), "running");
            again["pid"].is_u64().then_some(again)
        });
        assert_eq!(again["restarts"], 1, "{again}");
        assert!(procs::alive(pid(&again)));
        let told = daemon.sh("s", "echo on");
        assert_eq!(told.notice_codes().iter().filter(|code| **code == "service_ended").count(), 3, "{:?}", told.json);
        assert!(told.notice_text().contains("it ended with exit code 7"), "{}", told.notice_text());
    }
}

/// Word of a service's end comes from its keeper; a keeper that was killed leaves none, and nothing of the service is
/// left to run on unseen.
#[test]
fn a_killed_keeper_takes_its_service_with_it() {
    for mode in ["auto", "marks"] {
        let mut daemon = Daemon::with(Settings::default().set("--cages", mode));
        daemon.create("s");
        for is_down in [false, true] {
            let mark = unique_sleep();
            let service =
                daemon.start_service("s", json!({"command": format!("(setsid sleep {mark} &); sleep {mark}")}));
            until("both run", || (procs::marked(&mark).len() >= 2).then_some(()));
            let everyone = groups::of_services_alive(&daemon.data());
            let keeper = everyone.iter().find(|pid| is_keeper(**pid)).expect("a keeper");
            if is_down {
                daemon.kill();
            }
            assert!(Command::new("kill").args(["-9", &keeper.to_string()]).status().unwrap().success());
            if is_down {
                daemon.restart();
            }
            let after = daemon.service_until("s", id(&service), "failed");
            assert!(after["detail"].as_str().unwrap().contains("exit code is unknown"), "{after}");
            until("nothing is left", || groups::of_services_alive(&daemon.data()).is_empty().then_some(()));
            assert!(procs::marked(&mark).is_empty(), "{mode}, daemon down: {is_down}");
        }
    }
}

fn is_keeper(pid: u32) -> bool {
    procs::all().iter().any(|process| process.pid == pid && process.command_line.starts_with("shellkeep-keep"))
}

#[test]
fn a_daemon_that_is_stopped_keeps_or_stops_services_as_its_host_wants() {
    for mode in ["auto", "marks"] {
        let keep = Settings::default().set("--cages", mode);
        let mut daemon = Daemon::with(keep.clone());
        daemon.create("s");
        let mark = unique_sleep();
        let service = daemon.start_service("s", json!({"command": format!("echo out; exec sleep {mark}")}));
        daemon.stop();
        assert!(procs::alive(pid(&service)), "{mode}: kept");
        daemon.restart_with(keep.set("--services-on-stop", "stop"));
        let again = daemon.service("s", id(&service));
        assert_eq!((&again["status"], pid(&again)), (&json!("running"), pid(&service)));
        daemon.stop();
        assert!(procs::marked(&mark).is_empty(), "{mode}: stopped with the daemon");
        daemon.restart();
        let ended = daemon.service("s", id(&service));
        assert_eq!(ended["status"], "stopped", "{ended}");
        assert!(ended["detail"].as_str().unwrap().contains("stopped with the daemon"), "{ended}");
        assert_eq!(daemon.service_log("s", id(&service)), "out\n");
        let told = daemon.sh("s", "echo");
        assert_eq!(told.notice_codes(), ["service_ended"], "{:?}", told.json);
    }
}

/// The daemon dies between a service's start and the record of its processes.
#[test]
fn killed_when_a_service_had_just_started() {
    for mode in ["auto", "marks"] {
        let settings = Settings::default().set("--cages", mode).env("SHELLKEEP_CRASH_AT", "service_started");
        let mut daemon = Daemon::with(settings);
        daemon.create("s");
        let mark = unique_sleep();
        let kept = daemon.start_service("s", json!({"command": "exec sleep 1000"}));
        let body = json!({"command": format!("sleep {mark} & sleep {mark} # crash-here")});
        let target = "/v1/sessions/s/services";
        let answer = Request::new("POST", target).json(body.to_string()).send(&daemon.door());
        assert!(answer.is_err(), "the daemon should have died: {answer:?}");
        daemon.restart();
        let services = daemon.services_of("s");
        assert_eq!(services.len(), 2, "{mode}: {services:?}");
        assert_eq!((&services[0]["status"], pid(&services[0])), (&json!("running"), pid(&kept)), "{mode}");
        assert_eq!(services[1]["status"], "failed", "{mode}: {services:?}");
        assert!(services[1]["detail"].as_str().unwrap().contains("the daemon died"), "{services:?}");
        assert!(procs::marked(&mark).is_empty(), "{mode}: {:?}", procs::marked(&mark));
    }
}
