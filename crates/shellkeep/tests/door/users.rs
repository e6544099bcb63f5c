//! The sandbox `user`: a user of the machine for each agent, under a daemon that runs as root.

use crate::private::plain_user;
use crate::support::{Agent, Daemon, Request, Settings, skip};
use rustix::process::geteuid;
use serde_json::{Value, json};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use tempfile::TempDir;

/// A directory for a daemon that other users can reach.
pub fn reachable() -> TempDir {
    let directory = tempfile::Builder::new().prefix("shellkeep-test-").tempdir().unwrap();
    open_to_all(directory.path());
    directory
}

/// Lets everybody enter a directory.
pub fn open_to_all(directory: &Path) {
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Whether this test can have users for agents.
pub fn is_possible() -> bool {
    if !geteuid().is_root() {
        skip("only root can run agents as users of their own");
    }
    geteuid().is_root()
}

fn daemon() -> Daemon {
    Daemon::on(reachable(), Settings::default().set("--sandbox", "user").set("--sandbox-agents", "user"))
}

fn owner(path: impl AsRef<Path>) -> u32 {
    path.as_ref().symlink_metadata().unwrap().uid()
}

fn user_of(daemon: &Daemon, session: &str) -> u32 {
    daemon.sh(session, "id -u").out().trim().parse().unwrap()
}

fn tighten(daemon: &Daemon, session: &str, sandbox: &str) {
    let target = format!("/v1/sessions/{session}/sandbox");
    let answer = daemon.send(&Request::new("PUT", &target).json(json!({"sandbox": sandbox}).to_string()));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn each_agent_has_one_user_and_keeps_it() {
    if !is_possible() {
        return;
    }
    let mut daemon = daemon();
    for (session, agent) in [("a", json!("ann")), ("b", json!("ann")), ("c", json!("bob")), ("d", Value::Null)] {
        daemon.create_with(json!({"session_id": session, "agent": agent}));
    }
    let all = |daemon: &Daemon| ["a", "b", "c", "d"].map(|session| user_of(daemon, session));
    let before = all(&daemon);
    let [ann, again, bob, alone] = before;
    assert!(ann == again && ann != bob && bob != alone && ann != alone, "{before:?}");
    assert!(before.iter().all(|user| (1_879_048_192..=1_887_436_799).contains(user)), "{before:?}");
    let told = daemon.sh(
        "a",
        "echo $UID $EUID ${GROUPS[@]}; id -g; id -G; grep -E 'CapEff|CapPrm|CapInh|CapAmb|NoNewPrivs' /proc/self/status; \
         stat -c '%u %a' . ~ \"$TMPDIR\"; echo $USER; test -r /etc/shadow; echo $?; ulimit -c",
    );
    let none = "0000000000000000";
    let head = format!(
        "{ann} {ann} {ann}\n{ann}\n{ann}\nCapInh:\t{none}\nCapPrm:\t{none}\nCapEff:\t{none}\nCapAmb:\t{none}\n\
         NoNewPrivs:\t1\n{ann} 700\n{ann} 700\n{ann} 700\n"
    );
    assert!(told.out().starts_with(&head), "{} {}", told.out(), told.err());
    // Sessions of one agent reach each other, and those of another do not.
    let file = daemon.cwd("a").join("f");
    daemon.sh("a", "echo mine > f");
    let read = format!("cat {}", file.display());
    assert_eq!(daemon.sh("b", &read).out(), "mine\n");
    assert!(daemon.sh("c", &read).err().contains("Permission denied"));
    daemon.restart();
    assert_eq!(all(&daemon), before);
    // A session of the same name that is created later is another one.
    daemon.destroy("d");
    daemon.create("d");
    assert_ne!(user_of(&daemon, "d"), alone);
}

/// What the daemon writes for a session is its user's.
#[test]
fn files_belong_to_the_user_of_their_session() {
    if !is_possible() {
        return;
    }
    let daemon = daemon();
    daemon.create("s");
    let put = |session: &str, path: &str| {
        let target = format!("/v1/sessions/{session}/files/content?path={path}");
        let mut put = Request::new("PUT", &target).header("content-type", "application/octet-stream");
        put.body = b"x\n".to_vec();
        let answer = daemon.send(&put);
        assert!(answer.status < 300, "{}", answer.text());
    };
    put("s", "before/file");
    daemon.sh("s", "mkdir -p d; echo one > d/f; ln -s f d/l; echo same > same");
    let (user, home) = (user_of(&daemon, "s"), daemon.cwd("s"));
    put("s", "new/sub/file");
    for path in ["", "before", "before/file", "new", "new/sub", "new/sub/file", "d/f", "d/l"] {
        assert_eq!(owner(home.join(path)), user, "{path}");
    }
    assert_eq!(
        daemon.sh("s", "echo y >> new/sub/file && echo z >> before/file && touch new/sub/more; echo $?").out(),
        "0\n"
    );
    daemon.sh("s", "rm -r d; echo two > same");
    assert_eq!(daemon.post("/v1/sessions/s/rewind", &json!({"to": "-1"})).status, 200);
    for path in ["d", "d/f", "d/l", "same"] {
        assert_eq!(owner(home.join(path)), user, "{path} after a rewind");
    }
    assert_eq!(daemon.sh("s", "cat same; echo more >> d/f; cat d/l").out(), "same\none\nmore\n");
    // A fork without an agent has a user of its own, and its files are its own.
    assert_eq!(daemon.post("/v1/sessions/s/fork", &json!({"session_id": "t"})).status, 201);
    assert_eq!(
        daemon.sh("t", "cat d/l; echo fork >> d/f; echo new > n; cat d/f").out(),
        "one\nmore\none\nmore\nfork\n"
    );
    let (other, fork) = (user_of(&daemon, "t"), daemon.cwd("t"));
    assert_ne!(user, other);
    for path in ["", "d/f", "d/l", "n", "before/file"] {
        assert_eq!(owner(fork.join(path)), other, "{path} in the fork");
    }
    let merged = daemon.post("/v1/sessions/t/merge_back", &json!({}));
    assert_eq!(merged.status, 200, "{}", merged.text());
    assert_eq!(daemon.sh("s", "cat n d/f; echo again >> n; stat -c %u n d/f").out(), {
        format!("new\none\nmore\nfork\n{user}\n{user}\n")
    });
}

/// Tightened from `none` its files become its user's. Behind a fence it keeps that user; a room has the daemon's.
#[test]
fn a_session_keeps_its_files_when_it_is_tightened() {
    if !is_possible() {
        return;
    }
    let daemon = Daemon::on(reachable(), Settings::default());
    daemon.create("s");
    daemon.sh("s", "mkdir d; echo one > d/f; X=kept");
    let file = daemon.cwd("s").join("d/f");
    assert_eq!((user_of(&daemon, "s"), owner(&file)), (0, 0));
    tighten(&daemon, "s", "user");
    assert_eq!(daemon.sh("s", "echo two >> d/f; cat d/f; echo $X").out(), "one\ntwo\nkept\n");
    let user = user_of(&daemon, "s");
    assert!(user > 1000 && owner(&file) == user && owner(daemon.cwd("s")) == user);
    assert_eq!(daemon.get("/v1/sessions/s/sandbox").json()["sandbox"], "user");
    assert_eq!(daemon.sh("s", "ls / > /dev/null; echo $?").out(), "0\n");
    tighten(&daemon, "s", "fence");
    let told = daemon.sh("s", "id -u; echo three >> d/f; cat d/f; ls / > /dev/null; echo $?");
    assert_eq!(told.out(), format!("{user}\none\ntwo\nthree\n2\n"), "{}", told.err());
    tighten(&daemon, "s", "room");
    let told = daemon.sh("s", "echo $$; echo four >> d/f; cat d/f; echo $X; echo h > ~/h; cat ~/h");
    assert_eq!(told.out(), "2\none\ntwo\nthree\nfour\nkept\nh\n", "{}", told.err());
    assert_eq!((owner(&file), owner(daemon.cwd("s"))), (0, 0));
}

/// A service lives longer than the daemon, and must find its files all the time.
#[test]
fn a_service_of_an_agents_user_is_taken_over() {
    if !is_possible() {
        return;
    }
    let mut daemon = daemon();
    daemon.create("s");
    let go = daemon.directory().join("go");
    let command = format!("until [ -e {} ]; do sleep 0.02; done; id -u > $PWD/said; echo up; sleep 1000", go.display());
    let service = daemon.start_service("s", json!({"command": command}));
    daemon.restart();
    std::fs::write(&go, "").unwrap();
    let said = shellkeep_poll::until("what the service writes", || {
        std::fs::read_to_string(daemon.cwd("s").join("said")).ok().filter(|said| said.ends_with('\n'))
    });
    assert_eq!(said.trim(), user_of(&daemon, "s").to_string());
    assert_eq!(owner(daemon.cwd("s").join("said")), user_of(&daemon, "s"));
    daemon.stop_service("s", service["service_id"].as_str().unwrap());
}

/// Whoever runs as an agent's user is not the host, even where the host opened the socket to everybody.
#[test]
fn a_user_of_agents_is_never_the_host() {
    if !is_possible() {
        return;
    }
    let daemon = daemon();
    daemon.create("s");
    let user = user_of(&daemon, "s").to_string();
    let socket = daemon.directory().join("s.sock");
    let script = daemon.directory().join("ask.py");
    let ask = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ntry:\n  s.connect(sys.argv[1])\nexcept OSError as e:\n  \
               sys.exit(print(e.errno))\ns.sendall(b'GET /v1/tokens HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n')\n\
               print(s.makefile('rb').readline().split()[1].decode())\n";
    std::fs::write(&script, ask).unwrap();
    let outside = || {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "/usr/bin/python3"]);
        let output = command.args([&script, &socket]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let inside = || daemon.sh("s", &format!("python3 {} {}", script.display(), socket.display())).out();
    let refused = rustix::io::Errno::ACCESS.raw_os_error().to_string();
    assert_eq!((outside(), inside().trim().to_owned()), (refused.clone(), refused));
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!((outside().as_str(), inside().trim()), ("403", "403"));
}

#[test]
fn where_agents_cannot_have_users_it_is_refused_and_says_why() {
    let settings = |sandbox: &str| Settings::default().set("--sandbox", sandbox);
    let refuses = |mut daemon: Daemon, with: &dyn Fn(&str) -> Settings, words: &str| {
        let answer = daemon.post("/v1/sessions", &json!({"session_id": "s", "sandbox": "user"}));
        let body = answer.json();
        assert_eq!((answer.status, &body["code"]), (409, &json!("sandbox_unavailable")), "{body}");
        assert!(body["detail"].as_str().unwrap().contains(words), "{body}");
        daemon.create("n");
        assert_eq!(daemon.sh("n", "echo works").out(), "works\n");
        assert!(!daemon.restart_to_die(&with("user")), "it started without its sandbox");
        assert!(daemon.log().contains(words), "{}", daemon.log());
    };
    let not_root = "does not run as root";
    if !geteuid().is_root() {
        return refuses(Daemon::with(settings("none")), &settings, not_root);
    }
    let closed = tempfile::Builder::new().prefix("shellkeep-test-").tempdir().unwrap();
    std::fs::set_permissions(closed.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    refuses(Daemon::on(closed, settings("none")), &settings, "a directory above it is closed to others");
    let directory = reachable();
    let Some(wrapper) = plain_user(&directory) else { return };
    let plain = |sandbox: &str| Settings { wrapper: wrapper.clone(), ..settings(sandbox) };
    refuses(Daemon::on(directory, plain("none")), &plain, not_root);
}

/// Agents with tokens, on a machine that has no Landlock.
#[test]
fn agents_with_tokens_are_kept_apart_without_landlock() {
    if !is_possible() {
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/door/without.py");
    let wrapper = ["/usr/bin/python3", script, "444=38", "--"].map(str::to_owned).into();
    let settings = Settings { wrapper, ..Settings::default().set("--sandbox-agents", "user") };
    let daemon = Daemon::on(reachable(), settings);
    let [ann, bob] = ["ann", "bob"].map(|name| Agent::named(&daemon, name).create("s"));
    daemon.sh(&ann, "echo secret > f");
    let stolen = daemon.sh(&bob, &format!("cat {}/f", daemon.cwd(&ann).display()));
    assert!(stolen.err().contains("Permission denied"), "{:?}", stolen.json);
    assert!(stolen.notice_codes().contains(&"refused"), "{:?}", stolen.json);
}
