//! The sandbox `user`: a user of the machine for each agent, under a daemon that runs as root.

use crate::private::plain_user;
use crate::support::{Agent, Daemon, Request, Settings, bash, http::Response, skip};
use rustix::process::geteuid;
use serde_json::{Value, json};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;
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

/// Settings for all sessions. Users of agents are had where the settings for agents say so.
pub fn settings(sandbox: &str) -> Settings {
    let settings = Settings::default().set("--sandbox", sandbox);
    if sandbox == "user" { settings.set("--sandbox-agents", "user") } else { settings }
}

/// A node whose agents have users. Sessions of the host are not confined.
pub fn for_agents() -> Settings {
    Settings::default().set("--sandbox-agents", "user")
}

fn daemon() -> Daemon {
    Daemon::on(reachable(), settings("user"))
}

fn mode(path: impl AsRef<Path>) -> u32 {
    path.as_ref().metadata().unwrap().mode() & 0o777
}

/// A sandbox was refused, with these words.
fn refused(answer: &Response, words: &str) {
    let body = answer.json();
    assert_eq!((answer.status, &body["code"]), (409, &json!("sandbox_unavailable")), "{body}");
    assert!(body["detail"].as_str().unwrap().contains(words), "{body}");
}

fn owner(path: impl AsRef<Path>) -> u32 {
    path.as_ref().symlink_metadata().unwrap().uid()
}

fn user_of(daemon: &Daemon, session: &str) -> u32 {
    daemon.sh(session, "id -u").out().trim().parse().unwrap()
}

fn ask_to_tighten(daemon: &Daemon, session: &str, sandbox: &str) -> Response {
    let target = format!("/v1/sessions/{session}/sandbox");
    daemon.send(&Request::new("PUT", &target).json(json!({"sandbox": sandbox}).to_string()))
}

fn tighten(daemon: &Daemon, session: &str, sandbox: &str) {
    let answer = ask_to_tighten(daemon, session, sandbox);
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

/// Tightened from `none` its files become its user's. Behind a fence it keeps that user, and in a room it could not.
#[test]
fn a_session_keeps_its_files_when_it_is_tightened() {
    if !is_possible() {
        return;
    }
    let daemon = Daemon::on(reachable(), for_agents());
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
    refused(&ask_to_tighten(&daemon, "s", "room"), "a room has the daemon's user");
    assert_eq!(daemon.sh("s", "id -u; echo $X").out(), format!("{user}\nkept\n"));
}

/// Root behind a fence can change permissions of every file, and a user without a fence can then use them.
#[test]
fn an_agent_behind_a_fence_is_never_root() {
    if !is_possible() {
        return;
    }
    let daemon = Daemon::on(reachable(), for_agents());
    let (ann, key) = (Agent::named(&daemon, "ann"), daemon.directory().join("key"));
    std::fs::write(&key, "key").unwrap();
    let ask = |sandbox: &str| ann.post("/v1/sessions", &json!({"session_id": sandbox, "sandbox": sandbox}));
    // It has no user before this.
    let fenced = ask("fence").json()["session_id"].as_str().unwrap().to_owned();
    let told = daemon.sh(&fenced, &format!("id -u; ls / > /dev/null; echo $?; chmod 666 {}", key.display()));
    let open = daemon.sh(&ann.create("user"), "id -u; ls / > /dev/null; echo $?").out();
    let user = open.strip_suffix("\n0\n").unwrap();
    assert!(user.parse::<u32>().unwrap() > 1000 && told.out() == format!("{user}\n2\n"), "{} {open}", told.out());
    assert!(told.err().contains("Operation not permitted"), "{}", told.err());
    // The host's sessions are no exception, and nobody is in a room.
    daemon.create_with(json!({"session_id": "own", "sandbox": "fence"}));
    assert!(user_of(&daemon, "own") > 1000);
    refused(&ask("room"), "`sandbox_agents`");
    refused(&daemon.post("/v1/sessions", &json!({"session_id": "r", "sandbox": "room"})), "`sandbox_agents`");
}

/// What root's sessions left running or open must not help users of agents, nor the other way round.
#[test]
fn nothing_goes_on_when_agents_get_users_or_lose_them() {
    if !is_possible() {
        return;
    }
    let mut daemon = Daemon::on(reachable(), Settings::default());
    let mut services = Vec::new();
    for sandbox in ["fence", "room"] {
        daemon.create_with(json!({"session_id": sandbox, "sandbox": sandbox}));
        daemon.sh(sandbox, "X=kept; echo one > f; chmod 755 .");
        services.push((sandbox, daemon.start_service(sandbox, json!({"command": "sleep 1000"}))));
    }
    let places = [daemon.cwd("fence"), daemon.cwd("room")];
    assert_eq!((mode(daemon.data()), mode(&places[0]), mode(&places[1])), (0o700, 0o755, 0o755));
    let has_ended = |daemon: &Daemon, (session, service): &(&str, Value)| {
        let now = daemon.service(session, service["service_id"].as_str().unwrap());
        assert!(now["status"] != "running" && now.to_string().contains("users of their own"), "{now}");
    };
    daemon.restart_with(for_agents());
    services.iter().for_each(|service| has_ended(&daemon, service));
    assert_eq!((mode(daemon.data()), mode(&places[0]), mode(&places[1])), (0o711, 0o700, 0o700));
    let told = daemon.sh("fence", "id -u; cat f; echo $X").out();
    assert!(told.ends_with("\none\nkept\n") && !told.starts_with("0\n"), "{told}");
    let answer = daemon.post("/v1/sessions/room/run", &json!({"command": "true"}));
    refused(&answer, "make a new session with the sandbox 'fence'");
    // Between daemons of the same kind it goes on.
    let service = ("fence", daemon.start_service("fence", json!({"command": "sleep 1000"})));
    daemon.restart();
    assert_eq!(daemon.service("fence", service.1["service_id"].as_str().unwrap())["status"], "running");
    // Nobody forgets them by leaving the setting out, as clients do that start a daemon.
    assert!(!daemon.restart_to_die(&Settings::default()), "it started without the users");
    assert!(daemon.log().contains("start with `--sandbox-agents user`"), "{}", daemon.log());
    assert_eq!(mode(daemon.data()), 0o711);
    daemon.restart_with(Settings::default().set("--sandbox-agents", "fence"));
    has_ended(&daemon, &service);
    assert_eq!(mode(daemon.data()), 0o700);
    for session in ["fence", "room"] {
        assert_eq!(daemon.sh(session, "id -u; cat f; echo $X").out(), "0\none\nkept\n", "{session}");
    }
}

/// A directory that somebody may not enter must not be entered for him: what is below it is open to whoever is there.
#[test]
fn a_resumed_agent_starts_where_its_user_may_be() {
    if !is_possible() {
        return;
    }
    let daemon = daemon();
    daemon.create("b");
    daemon.sh("b", "mkdir sub; echo secret > sub/f; chmod 755 sub; chmod 644 sub/f");
    let steal = ["bash", "-c", "cat f > $HOME/said; echo went >> $HOME/said"];
    let agent = json!({"command": steal, "cwd": daemon.cwd("b").join("sub")});
    daemon.create_with(json!({"session_id": "c", "config": {"agent": agent}}));
    let answer = daemon.post("/v1/sessions/c/resume", &json!({"message": "go"}));
    let said = std::fs::read_to_string(daemon.data().join("homes/c/home/said"));
    assert!(said.is_err() && answer.text().contains("Permission denied"), "{said:?} {}", answer.text());
    // In its own it finds its program, by a name with a slash and by one without.
    for (session, command) in [("d", json!(["./tool"])), ("e", json!(["bash", "-c", "./tool"]))] {
        daemon.create_with(json!({"session_id": session, "config": {"agent": {"command": command}}}));
        daemon.sh(session, "printf '#!/bin/sh\\nid -u > said\\n' > tool; chmod +x tool");
        let answer = daemon.post(&format!("/v1/sessions/{session}/resume"), &json!({"message": "go"}));
        let said = std::fs::read_to_string(daemon.cwd(session).join("said"));
        assert_eq!(said.unwrap_or_default(), format!("{}\n", user_of(&daemon, session)), "{}", answer.text());
    }
}

/// A process made a user namespace, mounted a file system there that it served itself, and never answered a read. A process that waited
/// for the answer could not be killed, and outlived its session, its quotas and the daemon.
#[test]
fn no_process_of_a_user_makes_a_namespace() {
    if !is_possible() {
        return;
    }
    let daemon = daemon();
    // The second is `clone3`, whose flags cannot be looked at: programs then use `clone`.
    let tried = "python3 -c 'import ctypes as c; l = c.CDLL(None, use_errno=True); \
                 print(l.unshare(0x10000000), c.get_errno(), l.syscall(435, 0, 0), c.get_errno())'";
    let refused = "-1 1 -1 38\n";
    let agent = json!({"command": ["bash", "-c", format!("{tried} > said")]});
    daemon.create_with(json!({"session_id": "s", "config": {"agent": agent}}));
    assert_eq!(daemon.sh("s", tried).out(), refused);
    assert_eq!(daemon.run("s", json!({"command": tried, "tty": true})).out().replace('\r', ""), refused);
    let command = format!("{tried}; sleep 1000");
    let service = daemon.start_service("s", json!({"command": command, "ready": {"log": "38"}, "wait": 20}));
    assert_eq!(daemon.service_log("s", service["service_id"].as_str().unwrap()), refused);
    let answer = daemon.post("/v1/sessions/s/resume", &json!({"message": "go"}));
    let said = std::fs::read_to_string(daemon.cwd("s").join("said")).unwrap_or_default();
    assert_eq!(said, refused, "{}", answer.text());
    let working = "bash -c 'exit 3'; echo $?; python3 -c 'import threading, subprocess; \
                   t = threading.Thread(target=subprocess.run, args=([\"true\"],)); t.start(); t.join(); print(1)'";
    assert_eq!(daemon.sh("s", working).out(), "3\n1\n");
}

/// Which directories and programs there are is told by the session's own processes, and not by root.
#[test]
fn the_daemon_does_not_tell_what_only_root_can_see() {
    if !is_possible() {
        return;
    }
    let daemon = daemon();
    let closed = daemon.directory().join("closed");
    std::fs::create_dir_all(closed.join("zq1")).unwrap();
    std::fs::copy("/bin/true", closed.join("zq1/program")).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).unwrap();
    let [there, missing] = ["zq1", "zq2"].map(|name| {
        let (place, own) = (closed.join(name), format!("own-{name}"));
        daemon.create_with(json!({"session_id": name, "cwd": place}));
        let agent = json!({"agent": {"command": [place.join("program")]}});
        daemon.create_with(json!({"session_id": own, "config": agent}));
        let refusal = |target: &str, body: Value| {
            let answer = daemon.post(target, &body);
            let told = answer.json();
            format!("{} {} {} {}", answer.status, told["code"], told["detail"], told["stderr"]).replace(name, "X")
        };
        [
            refusal(&format!("/v1/sessions/{name}/run"), json!({"command": "true"})),
            refusal(&format!("/v1/sessions/{own}/run"), json!({"command": "true", "cwd": place})),
            refusal(&format!("/v1/sessions/{own}/services"), json!({"command": "sleep 1", "cwd": place})),
            refusal(&format!("/v1/sessions/{own}/resume"), json!({"message": "go"})),
        ]
    });
    assert_eq!(there, missing);
    assert!(there.iter().all(|told| told.contains("Permission denied")), "{there:?}");
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
        let mut command = Command::new("setpriv");
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
fn only_a_node_that_was_started_for_it_has_users_of_agents() {
    let words = "`sandbox_agents` to `user`";
    let mut daemon = Daemon::with(Settings::default());
    refused(&daemon.post("/v1/sessions", &json!({"session_id": "s", "sandbox": "user"})), words);
    daemon.create("n");
    refused(&ask_to_tighten(&daemon, "n", "user"), words);
    assert_eq!(daemon.sh("n", "echo works").out(), "works\n");
    assert_eq!(mode(daemon.data()), 0o700);
    assert!(!daemon.restart_to_die(&Settings::default().set("--sandbox", "user")), "it started without its sandbox");
    let log = daemon.log();
    // Not every machine has rooms.
    let is_tightest = ["room", "fence"].iter().any(|rung| log.contains(&format!("`--sandbox {rung}` is the tightest")));
    assert!(log.contains(words) && is_tightest, "{log}");
}

#[test]
fn where_agents_cannot_have_users_the_daemon_says_why() {
    let refuses = |directory: TempDir, settings: Settings, words: &str| {
        let mut daemon = Daemon::on(directory, Settings { wrapper: settings.wrapper.clone(), ..Settings::default() });
        assert!(!daemon.restart_to_die(&settings), "it started without its sandbox");
        assert!(daemon.log().contains(words), "{}", daemon.log());
    };
    let not_root = "does not run as root";
    if !geteuid().is_root() {
        return refuses(reachable(), for_agents(), not_root);
    }
    let closed = tempfile::Builder::new().prefix("shellkeep-test-").tempdir().unwrap();
    std::fs::set_permissions(closed.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    refuses(closed, for_agents(), "a directory above it is closed to others");
    // A fence is around the users, so it does not do either.
    let lost = reachable();
    std::fs::create_dir_all(lost.path().join("data/workspaces/a")).unwrap();
    std::os::unix::fs::chown(lost.path().join("data/workspaces/a"), Some(200_000), None).unwrap();
    refuses(lost, for_agents().set("--sandbox", "fence"), "users is missing");
    let directory = reachable();
    let Some(wrapper) = plain_user(&directory) else { return };
    refuses(directory, Settings { wrapper, ..for_agents() }, not_root);
}

/// What `doctor` says of users of agents, with the settings of a daemon.
fn examined(daemon: &Daemon, settings: &Settings) -> String {
    let mut words = settings.wrapper.clone();
    words.extend([settings.program().display().to_string(), "doctor".to_owned(), "--data".to_owned()]);
    let mut doctor = Command::new(&words[0]);
    doctor
        .args(&words[1..])
        .arg(daemon.data())
        .env_clear()
        .envs(bash::environment())
        .envs(settings.env.iter().cloned());
    String::from_utf8(doctor.output().unwrap().stdout).unwrap()
}

/// What others gave to somebody, or everybody can read, is found before an agent has it.
#[test]
fn what_the_machine_gave_to_others_is_found_at_the_start_and_by_doctor() {
    if !is_possible() {
        return;
    }
    let mut daemon = Daemon::on(reachable(), Settings::default());
    let at = |name: &str| daemon.directory().join(name).display().to_string();
    let (key, containers) = (at("key"), at("subuid"));
    std::fs::write(&key, "a-secret-value").unwrap();
    std::fs::write(&containers, "podman:300000:65536\n").unwrap();
    let set_mode = |mode: u32| std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o644);
    let open = for_agents().env("SHELLKEEP_SECRETS", &format!("KEY={key}"));
    let mount = "mount --bind \"$0\" /etc/subuid && exec \"$@\"";
    let wrapper = ["unshare", "--mount", "sh", "-c", mount, &containers].map(str::to_owned).into();
    let overlapping = Settings { wrapper, ..for_agents().env("SHELLKEEP_SANDBOX_USERS", "365535-400000") };
    let readable = format!("users of agents can read {key}");
    for (settings, words) in
        [(&open, &*readable), (&overlapping, "/etc/subuid gives users of 365535-400000 to 'podman'")]
    {
        assert!(!daemon.restart_to_die(settings), "it started");
        assert!(daemon.log().contains(words), "{}", daemon.log());
        let told = examined(&daemon, settings);
        assert!(told.contains(words), "{told}");
    }
    set_mode(0o600);
    assert!(examined(&daemon, &open).contains("holds against 7 attempts"));
    daemon.restart_with(open);
    daemon.create_with(json!({"session_id": "s", "secrets": ["KEY"]}));
    tighten(&daemon, "s", "user");
    let told = daemon.sh("s", &format!("echo ${{#KEY}}; cat {key}"));
    assert!(told.out() == "14\n" && told.err().contains("Permission denied"), "{} {}", told.out(), told.err());
}

/// What is above the original may have kept others from it, and nothing above the copy does.
#[test]
fn a_fork_is_closed_to_users_of_agents() {
    if !is_possible() {
        return;
    }
    let daemon = Daemon::on(reachable(), for_agents());
    let closed = daemon.directory().join("closed");
    let project = closed.join("project");
    std::fs::create_dir_all(&project).unwrap();
    open_to_all(&project);
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).unwrap();
    daemon.create_with(json!({"session_id": "host", "config": {"workspace": project}}));
    daemon.sh("host", "echo secret > f; chmod 644 f");
    assert_eq!(daemon.post("/v1/sessions/host/fork", &json!({"session_id": "fork"})).status, 201);
    let copy = daemon.cwd("fork").join("f");
    assert_eq!((std::fs::read_to_string(&copy).unwrap().as_str(), mode(&copy)), ("secret\n", 0o644));
    // Nor is one of a moment when the original was open.
    daemon.sh("host", "chmod 700 .; echo more >> f");
    assert_eq!(daemon.post("/v1/sessions/host/fork", &json!({"session_id": "past", "at": "-1"})).status, 201);
    let past = daemon.cwd("past").join("f");
    assert_eq!(std::fs::read_to_string(&past).unwrap(), "secret\n");
    let ann = Agent::named(&daemon, "ann").create("s");
    for file in [project.join("f"), copy, past] {
        let stolen = daemon.sh(&ann, &format!("cat {}", file.display()));
        assert!(stolen.err().contains("Permission denied"), "{} {}", stolen.out(), stolen.err());
    }
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
