//! Which sandbox is in force: what a session was created with, what the settings say, what agents with tokens get, and
//! machines that lack something. A sandbox is never made looser, and never replaced by a looser one.

use crate::private::plain_user;
use crate::support::{Agent, Daemon, Request, Settings, http::Response};
use crate::users::{for_agents, is_possible, reachable};
use rustix::process::geteuid;
use serde_json::{Value, json};

/// The codes and words around the setting.
#[test]
fn a_sandbox_is_kept_and_only_tightened() {
    let mut daemon = Daemon::start();
    let put = |daemon: &Daemon, session: &str, sandbox: &str| {
        let target = format!("/v1/sessions/{session}/sandbox");
        daemon.send(&Request::new("PUT", &target).json(json!({"sandbox": sandbox}).to_string()))
    };
    let get = |daemon: &Daemon, session: &str| -> Value {
        let view = daemon.get(&format!("/v1/sessions/{session}/sandbox")).json();
        json!([view["sandbox"], view["set_by"]])
    };
    daemon.create("s");
    daemon.create_with(json!({"session_id": "tight", "sandbox": "fence"}));
    assert_eq!(get(&daemon, "s"), json!(["none", "node"]));
    assert_eq!(get(&daemon, "tight"), json!(["fence", "session"]));
    let home = daemon.sh("s", "X=kept; echo $HOME").out();
    assert_eq!(home, "/nonexistent\n");
    let service = daemon.start_service("s", json!({"command": "sleep 60"}));
    let refused = put(&daemon, "s", "fence");
    assert_eq!((refused.status, refused.json()["code"].clone()), (409, json!("sandbox_busy")));
    daemon.stop_service("s", service["service_id"].as_str().unwrap());
    assert_eq!(put(&daemon, "s", "fence").status, 200);
    let refused = put(&daemon, "s", "none");
    assert_eq!((refused.status, refused.json()["code"].clone()), (409, json!("sandbox_not_looser")));
    assert_eq!(put(&daemon, "s", "cell").status, 400);
    let inside = daemon.sh("s", "echo $X $HOME; echo a > ~/f; cat ~/f; grep NoNewPrivs /proc/self/status");
    let own = daemon.data().canonicalize().unwrap().join("homes/s/home");
    assert_eq!(inside.out(), format!("kept {}\na\nNoNewPrivs:\t1\n", own.display()));
    // A rewind to before leaves it, a fork has it, and neither depends on the daemon's settings.
    assert_eq!(daemon.post("/v1/sessions/s/rewind", &json!({"to": 1})).status, 200);
    assert_eq!(daemon.post("/v1/sessions/s/fork", &json!({"session_id": "f"})).status, 201);
    daemon.restart();
    for session in ["s", "f"] {
        assert_eq!(get(&daemon, session), json!(["fence", "session"]), "{session}");
        let told = daemon.sh(session, "echo $HOME; grep NoNewPrivs /proc/self/status").out();
        assert!(told.contains(&format!("homes/{session}/home")) && told.contains("\t1"), "{session}: {told}");
    }
    daemon.create("loose");
    daemon.restart_with(Settings::default().env("SHELLKEEP_SANDBOX", "fence"));
    assert_eq!(get(&daemon, "loose"), json!(["fence", "node"]));
    assert!(daemon.sh("loose", "grep NoNewPrivs /proc/self/status").out().contains('1'));
    assert_eq!(put(&daemon, "f", "room").status, 200);
    assert_eq!(daemon.sh("f", "echo $$ $HOME").out(), format!("2 {}\n", own.to_str().unwrap().replace("/s/", "/f/")));
    assert_eq!(daemon.get("/v1/sessions/f/sandbox").json()["network"], "none");
    assert_eq!(put(&daemon, "f", "fence").status, 409);
    let events = daemon.get("/v1/sessions/s/events?type=sandbox_changed").json();
    assert_eq!(events["events"][0]["data"]["sandbox"], "fence", "{events}");
    daemon.destroy("s");
    assert!(!own.exists());
}

/// System calls that a machine lacks, as `without.py` takes them: the number, and the error that it answers with.
mod lacking {
    pub const NO_LANDLOCK: &str = "444=38";
    pub const FORBIDDEN_LANDLOCK: &str = "444=95";
    /// It accepts the rules, and does nothing.
    pub const PRETENDED_LANDLOCK: &str = "446=0";
    pub const NO_NAMESPACES: &str = if cfg!(target_arch = "x86_64") { "272=1" } else { "97=1" };
}

/// Runs the daemon on a machine that lacks something, as the user that `user` starts programs as.
fn machine(user: &[String], lacks: Option<&str>, settings: Settings) -> Settings {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/door/without.py");
    let without = lacks.map(|lacks| ["/usr/bin/python3", script, lacks, "--"].map(str::to_owned));
    Settings { wrapper: user.iter().cloned().chain(without.into_iter().flatten()).collect(), ..settings }
}

fn refused(answer: &Response, words: &[&str]) {
    let body = answer.json();
    assert_eq!((answer.status, &body["code"]), (409, &json!("sandbox_unavailable")), "{body}");
    let detail = body["detail"].as_str().unwrap();
    assert!(words.iter().all(|words| detail.contains(words)), "{detail}");
}

/// A kernel without Landlock, one that only pretends, and one without user namespaces.
#[test]
fn machines_that_lack_something() {
    let instead = if geteuid().is_root() { "--sandbox user --sandbox-agents user" } else { "--sandbox none" };
    for (lacks, words) in [
        (lacking::NO_LANDLOCK, "no Landlock"),
        (lacking::FORBIDDEN_LANDLOCK, "no Landlock"),
        (lacking::PRETENDED_LANDLOCK, "a confined process could read a file"),
    ] {
        let with = |sandbox: &str| machine(&[], Some(lacks), Settings::default().set("--sandbox", sandbox));
        let mut daemon = Daemon::with(with("none"));
        refused(&daemon.post("/v1/sessions", &json!({"session_id": "s", "sandbox": "fence"})), &[words]);
        daemon.create("s");
        assert_eq!(daemon.sh("s", "echo works").out(), "works\n");
        assert!(!daemon.restart_to_die(&with("fence")), "{lacks}: it started without its sandbox");
        assert!(daemon.log().contains(words) && daemon.log().contains(instead), "{}", daemon.log());
    }
    let with =
        |sandbox: &str| machine(&[], Some(lacking::NO_NAMESPACES), Settings::default().set("--sandbox", sandbox));
    let mut daemon = Daemon::with(with("fence"));
    daemon.create("s");
    assert!(is_confined(&daemon, "s"));
    let words = "user namespaces are not allowed here";
    refused(&daemon.post("/v1/sessions", &json!({"session_id": "r", "sandbox": "room"})), &[words]);
    assert!(!daemon.restart_to_die(&with("room")), "it started without its sandbox");
    assert!(daemon.log().contains(words), "{}", daemon.log());
}

/// Whether the daemon's files cannot be listed from a session.
fn is_confined(daemon: &Daemon, session: &str) -> bool {
    let listed = daemon.sh(session, &format!("ls {} | grep -c '^workspaces$'", daemon.data().display())).out();
    match listed.as_str() {
        "0\n" => true,
        "1\n" => false,
        other => panic!("{other}"),
    }
}

fn in_force(daemon: &Daemon, session: &str) -> Value {
    daemon.get(&format!("/v1/sessions/{session}/sandbox")).json()["sandbox"].clone()
}

/// The default for agents with tokens is a fence, on every machine and for every user; a machine that has none refuses
/// their sessions and says what to do, and the host's run as before.
fn tokens_are_confined_for(user: &[String], directory: impl Fn() -> tempfile::TempDir) {
    let at = |lacks: Option<&str>, settings: Settings| Daemon::on(directory(), machine(user, lacks, settings));
    for lacks in [None, Some(lacking::NO_NAMESPACES)] {
        let mut daemon = at(lacks, Settings::default());
        let session = Agent::named(&daemon, "ann").create("s");
        assert_eq!((in_force(&daemon, &session), is_confined(&daemon, &session)), (json!("fence"), true), "{lacks:?}");
        daemon.create("host");
        assert_eq!((in_force(&daemon, "host"), is_confined(&daemon, "host")), (json!("none"), false), "{lacks:?}");
        let rooms = machine(user, lacks, Settings::default().set("--sandbox-agents", "room"));
        if lacks.is_none() {
            daemon.restart_with(rooms);
            assert_eq!(daemon.sh(&session, "echo $$").out(), "2\n");
        } else {
            assert!(!daemon.restart_to_die(&rooms), "it started without its sandbox");
            let log = daemon.log();
            assert!(log.contains("user namespaces are not allowed") && log.contains("--sandbox-agents fence"), "{log}");
        }
    }
    let lacks = Some(lacking::NO_LANDLOCK);
    let mut daemon = at(lacks, Settings::default());
    assert!(daemon.log().contains("agents with tokens cannot run commands"), "{}", daemon.log());
    // Only root can give agents users of their own.
    let instead =
        if user.is_empty() && geteuid().is_root() { "--sandbox-agents user" } else { "--sandbox-agents none" };
    let words = ["no Landlock", instead];
    refused(&Agent::named(&daemon, "ann").post("/v1/sessions", &json!({"session_id": "s"})), &words);
    daemon.create("host");
    assert_eq!(daemon.sh("host", "echo works").out(), "works\n");
    let with = |sandbox: &str| machine(user, lacks, Settings::default().set("--sandbox-agents", sandbox));
    assert!(!daemon.restart_to_die(&with("fence")), "it started without its sandbox");
    assert!(words.iter().all(|words| daemon.log().contains(words)), "{}", daemon.log());
    daemon.restart_with(with("none"));
    let session = Agent::named(&daemon, "bob").create("s");
    assert_eq!((in_force(&daemon, &session), is_confined(&daemon, &session)), (json!("none"), false));
}

/// Root without Landlock was told to run agents without a sandbox, though each of them can have a user.
#[test]
fn root_is_told_of_users_where_there_is_no_fence() {
    if !is_possible() {
        return;
    }
    let mut daemon = Daemon::on(reachable(), machine(&[], Some(lacking::NO_LANDLOCK), Settings::default()));
    let words = ["no Landlock", "`--sandbox-agents user` runs each agent as a user of its own"];
    assert!(words.iter().all(|words| daemon.log().contains(words)), "{}", daemon.log());
    refused(&Agent::named(&daemon, "ann").post("/v1/sessions", &json!({"session_id": "s"})), &words);
    let fence = machine(&[], Some(lacking::NO_LANDLOCK), Settings::default().set("--sandbox", "fence"));
    assert!(!daemon.restart_to_die(&fence), "it started without its sandbox");
    assert!(daemon.log().contains("`--sandbox user --sandbox-agents user` runs"), "{}", daemon.log());
    daemon.restart_with(machine(&[], Some(lacking::NO_LANDLOCK), for_agents()));
    assert_eq!(in_force(&daemon, &Agent::named(&daemon, "bob").create("s")), json!("user"));
}

fn any_directory() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("shellkeep-test-").tempdir().unwrap()
}

#[test]
fn agents_with_tokens_are_confined_by_default() {
    tokens_are_confined_for(&[], any_directory);
}

#[test]
fn agents_with_tokens_are_confined_by_a_plain_users_daemon_too() {
    if !geteuid().is_root() {
        // The other test was that of a plain user.
        return;
    }
    let Some(wrapper) = plain_user(&any_directory()) else { return };
    tokens_are_confined_for(&wrapper, || {
        let directory = any_directory();
        plain_user(&directory);
        directory
    });
}

/// A session that the host made for an agent is the agent's as soon as it has a token, also while its shell lives, and
/// stays confined when the token is revoked.
#[test]
fn an_agent_that_gets_a_token_is_confined() {
    let mut daemon = Daemon::start();
    daemon.create_with(json!({"session_id": "s", "agent": "ann"}));
    daemon.sh("s", "kept=1");
    assert_eq!((in_force(&daemon, "s"), is_confined(&daemon, "s")), (json!("none"), false));
    let token = Agent::named(&daemon, "ann").id;
    assert_eq!((in_force(&daemon, "s"), is_confined(&daemon, "s")), (json!("fence"), true));
    assert_eq!(daemon.sh("s", "echo $kept").out(), "1\n");
    let listed = daemon.get("/v1/sessions").json();
    assert_eq!(listed["sessions"][0]["sandbox"], "fence", "{listed}");
    assert_eq!(daemon.send(&Request::new("DELETE", &format!("/v1/tokens/{token}"))).status, 204);
    daemon.restart();
    assert_eq!((in_force(&daemon, "s"), is_confined(&daemon, "s")), (json!("fence"), true));
}

/// A model that reads `Permission denied` cannot know that trying again elsewhere helps.
#[test]
fn a_command_that_a_sandbox_may_have_refused_says_so_once() {
    let daemon = Daemon::start();
    for sandbox in ["none", "fence", "room"] {
        daemon.create_with(json!({"session_id": sandbox, "sandbox": sandbox}));
        let notices = |command: &str| -> Vec<String> {
            let run = daemon.sh(sandbox, command).json;
            let refused = run["notices"].as_array().unwrap().iter().filter(|notice| notice["code"] == "refused");
            refused.map(|notice| notice["message"].as_str().unwrap().to_owned()).collect()
        };
        let (denied, offline) = ("echo 'x: Permission denied' >&2", "echo 'Could not resolve host: a.test' >&2");
        assert_eq!(notices(denied), [""; 0], "{sandbox}: it succeeded");
        let said = notices(&format!("{denied}; false"));
        if sandbox == "none" {
            assert!(said.is_empty(), "{said:?}");
            continue;
        }
        let own = daemon.cwd(sandbox);
        assert!(said.len() == 1 && said[0].contains(own.to_str().unwrap()), "{said:?}");
        assert!(said[0].contains("sandbox_write"), "{said:?}");
        assert!(notices(&format!("{denied}; false")).is_empty(), "{sandbox}: it was said twice");
        let network = notices(&format!("{offline}; false"));
        assert_eq!(network.len(), usize::from(sandbox == "room"), "{network:?}");
        assert!(network.iter().all(|said| said.contains("reach no host") && said.contains("sandbox_hosts")));
        // The recording has it too.
        let lines = daemon.get(&format!("/v1/sessions/{sandbox}/events?limit=1000")).json();
        assert!(lines.to_string().contains("sandbox_write"), "{lines}");
    }
    daemon.create_with(json!({"session_id": "real", "sandbox": "fence"}));
    let real = daemon.sh("real", &format!("touch {}/mine", daemon.cwd("none").display()));
    assert!(real.notice_codes().contains(&"refused"), "{:?}", real.json);
}
