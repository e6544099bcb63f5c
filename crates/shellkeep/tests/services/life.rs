//! The life of a service: what it starts with, when it is ready, what is shown of it, and that all of it ends with it.

use crate::support::daemon::free_port;
use crate::support::procs::{self, unique_sleep};
use crate::support::services::{id, pid};
use crate::support::{Daemon, Settings, groups};
use serde_json::{Value, json};
use shellkeep_poll::until;
use std::net::{TcpListener, TcpStream};

/// What a development server looks like: a shell that starts a program that starts workers, some of which try to get
/// away from their parents. `{mark}` is in the arguments of everyone.
const TREE: &str = r#"cat > tree.py <<'END'
import os, subprocess, sys, time
mark = sys.argv[1]
sleep = ["sleep", mark]
subprocess.Popen(sleep)
subprocess.Popen(["sh", "-c", "sleep %s & sleep %s; true" % (mark, mark)])
subprocess.Popen(sleep, start_new_session=True)
subprocess.Popen(["sh", "-c", "trap '' TERM HUP INT; sleep %s; sleep %s" % (mark, mark)], env={}, cwd="/")
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvpe("sleep", sleep, {})
    os._exit(0)
os.wait()
print("up", flush=True)
time.sleep(1000)
END
"#;
/// How many of them have the mark when all are there.
const TREE_SIZE: usize = 8;

fn tree(daemon: &Daemon, mark: &str) -> Value {
    daemon.sh("s", TREE);
    let command = format!("sh -c 'python3 tree.py {mark}; true'");
    let service = daemon.start_service("s", json!({"command": command, "ready": {"log": "^up"}, "wait": 30}));
    assert_eq!(service["status"], "running", "{service}\n{}", daemon.service_log("s", id(&service)));
    until("everyone is there", || (procs::marked(mark).len() >= TREE_SIZE).then_some(()));
    let service = daemon.service("s", id(&service));
    assert!(service["processes"].as_u64().unwrap() as usize >= TREE_SIZE, "all are counted: {service}");
    service
}

#[test]
fn a_tree_is_stopped_whole() {
    for mode in ["auto", "marks"] {
        let daemon = Daemon::with(Settings::default().set("--cages", mode));
        daemon.create("s");
        let mark = unique_sleep();
        let service = tree(&daemon, &mark);
        let stopped =
            daemon.post(&format!("/v1/sessions/s/services/{}/stop", id(&service)), &json!({"grace": 0.5})).json();
        assert_eq!(stopped["status"], "stopped", "{mode}: {stopped}");
        assert!(stopped["detail"].as_str().unwrap().contains("killed"), "{mode}: one ignores TERM: {stopped}");
        assert!(procs::marked(&mark).is_empty(), "{mode}: left behind {:?}", procs::marked(&mark));
        assert!(groups::of_services_alive(&daemon.data()).is_empty(), "{mode}");
    }
}

/// When the first process dies the rest is of no use; nothing of it runs on unseen.
#[test]
fn the_rest_of_a_tree_ends_with_its_first_process() {
    for mode in ["auto", "marks"] {
        let daemon = Daemon::with(Settings::default().set("--cages", mode));
        daemon.create("s");
        let mark = unique_sleep();
        let service = tree(&daemon, &mark);
        let killed = std::process::Command::new("kill").args(["-9", &pid(&service).to_string()]).status().unwrap();
        assert!(killed.success());
        let ended = daemon.service_until("s", id(&service), "exited");
        assert_eq!((&ended["signal"], &ended["exit_code"]), (&json!("KILL"), &json!(137)), "{mode}: {ended}");
        assert!(procs::marked(&mark).is_empty(), "{mode}: left behind {:?}", procs::marked(&mark));
        let told = daemon.sh("s", "true");
        assert_eq!(told.notice_codes(), ["service_ended"], "{mode}: {:?}", told.json);
    }
}

/// A program that puts itself into the background goes on as the service, under the child's pid.
#[test]
fn a_service_that_goes_to_the_background_goes_on() {
    for mode in ["auto", "marks"] {
        let daemon = Daemon::with(Settings::default().set("--cages", mode));
        daemon.create("s");
        for command in ["sleep {mark} &", "(setsid sleep {mark} &)", "nohup sleep {mark} > /dev/null 2>&1 & disown"] {
            let mark = unique_sleep();
            let service = daemon.start_service("s", json!({"command": command.replace("{mark}", &mark)}));
            let child = until("it sleeps", || {
                procs::marked(&mark).into_iter().find(|process| process.command_line.starts_with("sleep"))
            });
            let service = until("the first process is gone", || {
                let view = daemon.service("s", id(&service));
                (view["processes"] == 1 && pid(&view) == child.pid).then_some(view)
            });
            assert_eq!(service["status"], "running", "{mode} {command}: {service}");
            let stopped = daemon.stop_service("s", id(&service));
            assert_eq!(stopped["status"], "stopped", "{mode} {command}");
            assert!(procs::marked(&mark).is_empty(), "{mode} {command}");
        }
    }
}

#[test]
fn a_service_has_what_its_session_has() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh(
        "s",
        "mkdir -p sub/own; cd sub; export FROM=session; plain=too; f() { echo \"f $1\"; }; alias greet='echo aliased'; \
         shopt -s expand_aliases; declare -A map=([k]=v); set -- one two; umask 027",
    );
    let home = daemon.cwd("s");
    let command = "pwd; echo \"$FROM $plain ${map[k]} $* $(umask)\"; f x\ngreet\necho \"[$OWN]\"; exit 4";
    let service = daemon.start_service("s", json!({"command": command, "wait": 30}));
    assert_eq!((&service["status"], &service["exit_code"]), (&json!("exited"), &json!(4)), "{service}");
    let expected = format!("{}\nsession too v one two 0027\nf x\naliased\n[]\n", home.display());
    assert_eq!(daemon.service_log("s", id(&service)), expected);
    let own = json!({"command": "pwd; echo \"$FROM [$OWN]\"", "cwd": "own", "env": {"OWN": "a b", "FROM": "env"}, "wait": 30});
    let service = daemon.start_service("s", own);
    assert_eq!(daemon.service_log("s", id(&service)), format!("{}/own\nenv [a b]\n", home.display()));
    assert_eq!(service["cwd"], json!(home.join("own").to_str().unwrap()));
    let bad = daemon.ask_service("s", &json!({"command": "true", "cwd": "nowhere"}));
    assert_eq!((bad.status, bad.json()["code"].as_str()), (400, Some("bad_cwd")), "{}", bad.text());
    // What a service does in its shell is not the session's.
    daemon.start_service("s", json!({"command": "cd /; FROM=service; export FROM", "wait": 30}));
    assert_eq!(daemon.sh("s", "echo $FROM $PWD").out(), format!("session {}\n", home.display()));
}

/// It goes on while its session's shell comes and goes.
#[test]
fn a_service_does_not_need_its_sessions_shell() {
    let daemon = Daemon::start();
    daemon.create("s");
    let service = daemon.start_service("s", json!({"command": "exec sleep 1000"}));
    daemon.sh("s", "kill -9 $$");
    daemon.hibernate("s");
    assert_eq!(daemon.service("s", id(&service))["pid"], service["pid"]);
    assert_eq!(daemon.post("/v1/sessions/s/restart", &json!({})).status, 200);
    assert_eq!(daemon.service("s", id(&service))["pid"], service["pid"]);
    assert!(procs::alive(pid(&service)));
}

// ---- ready ----

fn server(port: u16) -> String {
    format!("python3 -u -m http.server {port} --bind 127.0.0.1")
}

#[test]
fn a_service_is_ready_when_its_maker_says() {
    let daemon = Daemon::start();
    daemon.create("s");
    let ways: [&dyn Fn(u16) -> Value; 4] = [
        &|port| json!({"port": port}),
        &|port| json!({"http": format!("http://127.0.0.1:{port}/")}),
        &|_| json!({"log": "Serving HTTP on .* port \\d+"}),
        &|port| json!(port),
    ];
    for ready in ways {
        let port = free_port().port();
        let ready = ready(port);
        let body = json!({"command": format!("sleep 0.3; {}", server(port)), "ready": ready, "wait": 30});
        let service = daemon.start_service("s", body);
        assert_eq!(service["status"], "running", "{ready}: {service}\n{}", daemon.service_log("s", id(&service)));
        let shown = until("the port is shown", || {
            let view = daemon.service("s", id(&service));
            (view["ports"] == json!([port])).then_some(view)
        });
        assert!(shown.get("detail").is_none(), "{shown}");
        assert!(TcpStream::connect(("127.0.0.1", port)).is_ok(), "{ready}");
        daemon.stop_service("s", id(&service));
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "{ready}");
    }
}

#[test]
fn one_that_is_not_ready_says_what_is_missing() {
    let daemon = Daemon::with(Settings::default().set("--services-per-agent", "20"));
    daemon.create("s");
    // Another's server does not make ours ready, nor does one that answers badly.
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let foreign = stranger.local_addr().unwrap().port();
    let own = free_port().port();
    let missing = json!({"http": format!("http://127.0.0.1:{own}/missing")});
    for (command, ready, words) in [
        ("exec sleep 1000".to_owned(), json!({"port": foreign}), "does not listen on port"),
        ("echo nothing; exec sleep 1000".to_owned(), json!({"log": "^ready$"}), "no line of its log matches"),
        (server(own), missing, "does not answer with a status below 400 yet"),
        (
            "exec sleep 1000".to_owned(),
            json!({"http": format!("http://127.0.0.1:{foreign}/")}),
            "does not answer with a status",
        ),
    ] {
        let service = daemon.start_service("s", json!({"command": command, "ready": ready, "wait": 0.5}));
        assert_eq!(service["status"], "starting", "{ready}: {service}");
        assert!(service["detail"].as_str().unwrap().contains(words), "{ready}: {service}");
        assert!(procs::alive(pid(&service)), "it runs nevertheless");
        let stopped = daemon.stop_service("s", id(&service));
        assert_eq!(stopped["status"], "stopped", "{ready}: {stopped}");
    }
    drop(stranger);
    let ended = daemon.start_service("s", json!({"command": "echo oh; exit 3", "ready": {"port": own}, "wait": 30}));
    assert_eq!((&ended["status"], &ended["exit_code"]), (&json!("failed"), &json!(3)), "{ended}");
    assert_eq!(daemon.service_log("s", id(&ended)), "oh\n");
}

/// Whoever ended at once was `failed` or `exited`, as the log was looked at before its end or not.
#[test]
fn one_that_was_ready_and_has_ended_did_not_fail() {
    let daemon = Daemon::start();
    daemon.create("s");
    for number in 0..5 {
        let body =
            json!({"command": "echo up; exit 0", "name": format!("n{number}"), "ready": {"log": "^up"}, "wait": 30});
        let service = daemon.start_service("s", body);
        let ended = daemon.service_until("s", id(&service), "exited");
        assert_eq!(ended["exit_code"], json!(0), "{ended}");
    }
}

/// Who asks about one service does not wait for another that is being probed, and a stop does not wait for a probe.
#[test]
fn a_probe_that_hangs_holds_nobody_up() {
    let daemon = Daemon::start();
    daemon.create("s");
    // It takes the connection and never answers.
    let address = free_port();
    let probed = daemon.directory().join("probed");
    let silent = format!(
        "import socket, time; s = socket.create_server(('127.0.0.1', {})); c = s.accept(); open('{}', 'w'); time.sleep(1000)",
        address.port(),
        probed.display()
    );
    let ready = json!({"http": format!("http://{address}/")});
    let service =
        daemon.start_service("s", json!({"command": format!("exec python3 -c \"{silent}\""), "ready": ready}));
    until("it is being probed", || probed.exists().then_some(()));
    let listed = daemon.all_services();
    assert_eq!((listed.len(), &listed[0]["pid"]), (1, &service["pid"]), "{listed:?}");
    let stopped = daemon.stop_service("s", id(&service));
    assert_eq!(stopped["status"], "stopped", "{stopped}");
    assert!(!stopped["detail"].as_str().unwrap().contains("killed"), "{stopped}");
}

#[test]
fn wrong_wishes_are_refused_with_words() {
    let daemon = Daemon::start();
    daemon.create("s");
    for (body, word) in [
        (json!({}), "command"),
        (json!({"command": ""}), "command"),
        (json!({"command": "a\0b"}), "NUL"),
        (json!({"command": "true", "ready": {"log": "("}}), "regular expression"),
        (json!({"command": "true", "ready": {"http": "http://example.com/"}}), "this machine"),
        // It was said that this is not on this machine.
        (json!({"command": "true", "ready": {"http": "ftp://localhost/"}}), "does not begin with http://"),
        (json!({"command": "true", "ready": {"port": 0}}), "port"),
        (json!({"command": "true", "restart": "sometimes"}), "restart"),
        (json!({"command": "true", "env": {"A=B": "c"}}), "env"),
        (json!({"command": "true", "wait": -1}), "wait"),
        (json!({"command": "true", "wait": 1e9}), "wait"),
        (json!({"command": "true", "name": "x".repeat(1000)}), "name"),
        (json!({"command": "true", "name": "s2"}), "the form of an id"),
        (json!({"command": "true", "unknown": 1}), "unknown"),
    ] {
        let answer = daemon.ask_service("s", &body);
        assert_eq!(
            (answer.status, answer.json()["code"].as_str()),
            (400, Some("invalid_request")),
            "{body}: {}",
            answer.text()
        );
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(word), "{body}: {detail}");
    }
    assert_eq!(daemon.ask_service("nobody", &json!({"command": "true"})).status, 404);
    for target in ["/v1/sessions/s/services/s99", "/v1/sessions/s/services/s99/logs"] {
        let answer = daemon.get(target);
        assert_eq!((answer.status, answer.json()["code"].as_str()), (404, Some("service_not_found")), "{target}");
    }
    assert!(daemon.services_of("s").is_empty(), "nothing was started");
}

/// A name may be any text without a slash, and without one a service is named after its command. In a path, a name with a
/// space or with other letters than those of ids was refused.
#[test]
fn a_service_is_found_by_any_name() {
    let daemon = Daemon::start();
    daemon.create("s");
    let escaped = |name: &str| name.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    for (request, name) in [
        (json!({"command": "echo up; exec sleep 1000", "name": "Ä service (web)"}), "Ä service (web)"),
        (json!({"command": "true /; exec sleep 1001"}), "true /; exec sleep 1001"),
    ] {
        let service = daemon.start_service("s", request);
        assert_eq!(service["name"], name);
        let target = format!("/v1/sessions/s/services/{}", escaped(name));
        assert_eq!(daemon.get(&target).json()["service_id"], service["service_id"]);
        assert_eq!(daemon.get(&format!("{target}/logs")).status, 200, "{name}");
        let stopped = daemon.post(&format!("{target}/stop"), &json!({"grace": 1}));
        assert_eq!(stopped.json()["status"], "stopped", "{}", stopped.text());
        let none = daemon.get(&format!("{target}x"));
        assert_eq!((none.status, &none.json()["code"]), (404, &json!("service_not_found")), "{}", none.text());
    }
}

// ---- starting again ----

#[test]
fn a_service_is_started_again_when_that_is_wanted() {
    let daemon = Daemon::start();
    daemon.create("s");
    let command =
        "n=$(($(cat count 2> /dev/null) + 1)); echo $n > count; echo life $n; [ $n -lt 3 ] && exit 5; exec sleep 1000";
    let service = daemon.start_service("s", json!({"command": command, "restart": "on_failure"}));
    let between = until("it waits for its next life", || {
        let view = daemon.service("s", id(&service));
        (view["status"] == "starting").then_some(view)
    });
    assert!(between["detail"].as_str().unwrap().starts_with("it will be restarted"), "{between}");
    let third = until("its third life", || {
        let view = daemon.service("s", id(&service));
        (view["status"] == "running" && view["restarts"] == 2).then_some(view)
    });
    until("all lives are in one log", || {
        (daemon.service_log("s", id(&service)) == "life 1\nlife 2\nlife 3\n").then_some(())
    });
    let stopped = daemon.stop_service("s", id(&third));
    assert_eq!((&stopped["status"], &stopped["restarts"]), (&json!("stopped"), &json!(2)), "no life after a stop");
    let once = daemon.start_service("s", json!({"command": "exit 0", "restart": "on_failure", "wait": 30}));
    assert_eq!((&once["status"], &once["restarts"]), (&json!("exited"), &json!(0)), "{once}");
    // One that waits for its next life can be stopped too, and stays so.
    let flapping = daemon.start_service("s", json!({"command": "exit 1", "restart": "always"}));
    daemon.service_until("s", id(&flapping), "starting");
    assert_eq!(daemon.stop_service("s", id(&flapping))["status"], "stopped");
    // By the time another that began later has had its second life, this one would have had its own.
    let other = daemon.start_service("s", json!({"command": "exit 1", "restart": "always"}));
    until("the other's second life", || (daemon.service("s", id(&other))["restarts"] == 1).then_some(()));
    let stopped = daemon.service("s", id(&flapping));
    assert_eq!((&stopped["status"], &stopped["restarts"]), (&json!("stopped"), &json!(0)), "it stays so");
}
