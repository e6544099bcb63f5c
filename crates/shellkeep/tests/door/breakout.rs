//! Attempts to leave a session, at every sandbox: other sessions' files and processes, the daemon's, the user's home, and
//! the kernel. Each attempt must succeed without a sandbox, or the test could not fail; those on the daemon itself fail
//! there too.

use crate::support::{Agent, Daemon, Door, Settings};
use crate::users;
use rustix::process::geteuid;
use serde_json::json;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What makes the attempts.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/door/breakout.py");

/// What an attempt needs to succeed without a sandbox.
#[derive(Clone, Copy, PartialEq)]
enum Outside {
    /// Nothing: every user can do it.
    Works,
    /// Root, or a machine that allows it.
    Sometimes,
    /// It is refused everywhere.
    Never,
}

/// What a sandbox does with it.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Answer {
    Refuses,
    /// There is nothing to reach.
    Hides,
    /// It reaches something of the session's own in that place.
    Own,
    /// The same as outside; for a user of agents, as for any other user of the machine. Known, and in docs/security.md.
    Allows,
}

use Answer::{Allows, Hides, Own, Refuses};
use Outside::{Never, Sometimes, Works};

/// Where the attempts are made from.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Rung {
    None,
    User,
    Fence,
    /// A fence on a node whose agents have users.
    FenceOfUser,
    Room,
    /// A room that no shell was prepared for.
    NewRoom,
    /// Sessions of two agents with tokens, and a daemon whose settings do not mention sandboxes.
    Tokens,
}

impl Rung {
    fn answer(self, [user, fence, room]: [Answer; 3]) -> Answer {
        match self {
            Self::None => Allows,
            Self::User => user,
            Self::FenceOfUser if fence == Allows => user,
            Self::Fence | Self::FenceOfUser | Self::Tokens => fence,
            Self::Room | Self::NewRoom => room,
        }
    }

    fn has_user(self) -> bool {
        matches!(self, Self::User | Self::FenceOfUser)
    }

    /// Whether shells are prepared for its sessions. Those of agents are born among the agent's processes.
    fn has_prepared_shells(self) -> bool {
        matches!(self, Self::Fence | Self::Room)
    }

    fn settings(self) -> Settings {
        match self {
            Self::None => Settings::default().set("--sandbox", "none"),
            Self::User => users::settings("user"),
            Self::FenceOfUser => users::for_agents().set("--sandbox", "fence"),
            Self::Fence => Settings::default().set("--sandbox", "fence"),
            Self::Room => Settings::default().set("--sandbox", "room"),
            Self::NewRoom => Self::Room.settings().set("--spare-shells", "0"),
            Self::Tokens => Settings::default(),
        }
    }
}

/// The attempts, and the answers to a user of agents, of a fence and of a room; the default for agents with tokens is a fence. In an argument
/// `{other}` is the workspace of another session, `{work}` a file in it, `{data}` the data directory, `{home}` the user's
/// home, `{shell}` the pid of another session's process, `{daemon}` that of the daemon.
const ATTEMPTS: &[(&str, &str, Outside, [Answer; 3])] = &[
    ("read", "{work}", Works, [Refuses, Refuses, Hides]),
    ("write", "{work}", Works, [Refuses, Refuses, Hides]),
    ("truncate", "{work}", Works, [Refuses, Refuses, Hides]),
    ("hard_link", "{work}", Works, [Refuses, Refuses, Hides]),
    ("symbolic_link", "{work}", Works, [Refuses, Refuses, Hides]),
    ("see", "{other}", Works, [Refuses, Refuses, Hides]),
    ("list", "{other}", Works, [Refuses, Refuses, Hides]),
    ("create", "{other}/planted", Works, [Refuses, Refuses, Hides]),
    ("remove", "{other}/spare", Works, [Refuses, Refuses, Hides]),
    ("fifo", "{other}/pipe", Works, [Refuses, Refuses, Hides]),
    ("read", "{data}/record.key", Works, [Refuses, Refuses, Hides]),
    ("read", "{data}/token", Works, [Refuses, Refuses, Hides]),
    ("write", "{data}/shellkeep.db", Works, [Refuses, Refuses, Hides]),
    ("see", "{data}/record.key", Works, [Refuses, Refuses, Hides]),
    ("create", "{data}/planted", Works, [Refuses, Refuses, Own]),
    ("read", "{home}/.ssh/id", Works, [Refuses, Refuses, Hides]),
    ("create", "{home}/.bashrc", Works, [Refuses, Refuses, Hides]),
    ("create", "/tmp/breakout-{abstract}", Works, [Own, Refuses, Own]),
    ("signal", "{shell}", Works, [Refuses, Refuses, Hides]),
    ("signal", "{daemon}", Works, [Refuses, Refuses, Hides]),
    ("environ", "{shell}", Works, [Refuses, Refuses, Hides]),
    ("memory", "{shell}", Works, [Refuses, Refuses, Hides]),
    ("root", "{shell}", Works, [Refuses, Refuses, Hides]),
    ("descriptors", "{shell}", Works, [Refuses, Refuses, Hides]),
    ("limits", "{daemon}", Sometimes, [Refuses, Refuses, Refuses]),
    ("limits", "{shell}", Works, [Refuses, Refuses, Refuses]),
    ("ptrace", "{shell}", Sometimes, [Refuses, Refuses, Refuses]),
    ("read_memory", "{shell}", Works, [Refuses, Refuses, Refuses]),
    ("setns", "{shell}", Sometimes, [Refuses, Refuses, Hides]),
    ("unshare", "", Sometimes, [Refuses, Refuses, Refuses]),
    ("mount", "", Sometimes, [Refuses, Refuses, Refuses]),
    ("io_uring", "", Sometimes, [Allows, Refuses, Refuses]),
    ("bpf", "", Sometimes, [Allows, Refuses, Refuses]),
    ("userfaultfd", "", Sometimes, [Allows, Refuses, Refuses]),
    ("keyctl", "", Sometimes, [Allows, Refuses, Refuses]),
    ("perf", "", Sometimes, [Allows, Refuses, Refuses]),
    ("chroot", "", Sometimes, [Refuses, Refuses, Refuses]),
    ("raw_socket", "", Sometimes, [Refuses, Refuses, Refuses]),
    ("packet_socket", "", Sometimes, [Refuses, Refuses, Refuses]),
    ("vsock", "", Sometimes, [Allows, Refuses, Refuses]),
    ("vsock_pair", "", Sometimes, [Allows, Refuses, Refuses]),
    ("mptcp_socket", "", Sometimes, [Allows, Hides, Hides]),
    ("abstract_socket", "{abstract}", Works, [Allows, Refuses, Hides]),
    ("device", "", Sometimes, [Refuses, Refuses, Refuses]),
    ("new_privileges", "", Works, [Refuses, Refuses, Refuses]),
    ("setuid_program", "", Sometimes, [Refuses, Refuses, Hides]),
    ("system_capability", "", Sometimes, [Refuses, Refuses, Refuses]),
    ("control_group", "", Sometimes, [Refuses, Refuses, Hides]),
    ("lease", "", Sometimes, [Refuses, Refuses, Refuses]),
    ("write", "/proc/sys/kernel/core_pattern", Sometimes, [Refuses, Refuses, Refuses]),
    ("host_by_socket", "{socket}", Never, [Refuses, Refuses, Hides]),
    ("host_by_port", "{daemon_port}", Never, [Refuses, Refuses, Hides]),
    ("path_socket", "{socket}", Works, [Refuses, Allows, Hides]),
    ("loopback", "{port}", Works, [Allows, Allows, Hides]),
    ("datagram", "{udp_port}", Works, [Allows, Allows, Hides]),
    ("route", "169.254.169.254", Sometimes, [Allows, Allows, Hides]),
    ("route", "192.0.2.53", Sometimes, [Allows, Allows, Hides]),
    ("stat", "{work}", Works, [Refuses, Allows, Hides]),
    ("chmod", "{work}", Works, [Refuses, Allows, Hides]),
];

/// What the attempts are made against.
struct Targets {
    daemon: Daemon,
    /// The session that attacks.
    attacker: String,
    other: PathBuf,
    abstract_name: String,
    _abstract: UnixListener,
    tcp: TcpListener,
    udp_port: u16,
    shell: u32,
}

impl Drop for Targets {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.argument("/tmp/breakout-{abstract}"));
    }
}

impl Targets {
    fn new(rung: Rung) -> Self {
        let directory = tempfile::Builder::new().prefix("shellkeep-test-").tempdir().unwrap();
        let home = directory.path().join("home");
        std::fs::create_dir_all(home.join(".ssh")).unwrap();
        std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o700)).unwrap();
        if rung.has_user() {
            users::open_to_all(directory.path());
        }
        std::fs::write(home.join(".ssh/id"), "secret").unwrap();
        let abstract_name = directory.path().file_name().unwrap().to_str().unwrap().to_owned();
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let daemon = Daemon::on(directory, rung.settings().tcp().env("HOME", home.to_str().unwrap()));
        if rung.has_prepared_shells() {
            shellkeep_poll::until("prepared shells", || {
                (daemon.get("/readyz").json()["spare_shells"] == 2).then_some(())
            });
        }
        let [attacker, victim] = ["a", "b"].map(|name| match rung {
            Rung::Tokens => Agent::named(&daemon, name).create("s"),
            _ => daemon.create(name)["session_id"].as_str().unwrap().to_owned(),
        });
        daemon.sh(&victim, "echo canary > work; touch spare; mkfifo pipe");
        let (script, other) = (daemon.cwd(&attacker).join("breakout.py"), daemon.cwd(&victim));
        std::fs::copy(SCRIPT, script).unwrap();
        let key = daemon.data().join("record.key");
        std::fs::write(&key, "key").unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        let shell = daemon.shell_pid(&victim).expect("it has a shell");
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        Self { daemon, attacker, other, abstract_name, _abstract: listener, tcp, udp_port: echo(), shell }
    }

    fn argument(&self, text: &str) -> String {
        let directory = self.daemon.directory();
        let at = |path: &Path| path.to_str().unwrap().to_owned();
        let Door::Tcp(door) = self.daemon.tcp_door() else { panic!("a port") };
        text.replace("{other}", &at(&self.other))
            .replace("{work}", &at(&self.other.join("work")))
            .replace("{data}", &at(&self.daemon.data()))
            .replace("{home}", &at(&directory.join("home")))
            .replace("{socket}", &at(&directory.join("s.sock")))
            .replace("{shell}", &self.shell.to_string())
            .replace("{daemon}", &self.daemon.pid().to_string())
            .replace("{abstract}", &self.abstract_name)
            .replace("{port}", &self.tcp.local_addr().unwrap().port().to_string())
            .replace("{udp_port}", &self.udp_port.to_string())
            .replace("{daemon_port}", &door.port().to_string())
    }

    /// The command of an attempt.
    fn command(&self, attempt: &str, argument: &str) -> String {
        format!("cd; cd ~-; /usr/bin/python3 breakout.py {attempt} {}", self.argument(argument))
    }

    fn attempt(&self, attempt: &str, argument: &str) -> String {
        let reply = self.daemon.sh(&self.attacker, &self.command(attempt, argument));
        assert_eq!(reply.exit_code(), Some(0), "{attempt} {argument}: {}", reply.err());
        reply.out().trim().to_owned()
    }

    /// The same attempt of a process that is in no session.
    fn outside(&self, attempt: &str, argument: &str) -> String {
        let tried =
            Command::new("/usr/bin/python3").args([SCRIPT, attempt, &self.argument(argument)]).output().unwrap();
        String::from_utf8(tried.stdout).unwrap().trim().to_owned()
    }

    /// The same attempt of some other user of the machine.
    fn by_somebody(&self, attempt: &str, argument: &str) -> String {
        let script = self.daemon.directory().join("breakout.py");
        std::fs::copy(SCRIPT, &script).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65533", "--regid=65533", "--clear-groups", "/usr/bin/python3"]).arg(&script);
        let tried = command.args([attempt, &self.argument(argument)]).output().unwrap();
        String::from_utf8(tried.stdout).unwrap().trim().to_owned()
    }

    /// What an attempt should print.
    fn expected(&self, rung: Rung, answer: Answer, attempt: &str, argument: &str) -> String {
        match answer {
            Refuses => "refused".to_owned(),
            Hides => "absent".to_owned(),
            Own => "reached".to_owned(),
            Allows if rung.has_user() => self.by_somebody(attempt, argument),
            Allows => self.outside(attempt, argument),
        }
    }
}

/// A UDP port that sends back what it gets, until the test ends.
fn echo() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut bytes = [0; 16];
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(&bytes[..length], from);
        }
    });
    port
}

#[test]
fn every_attempt_succeeds_without_a_sandbox() {
    let targets = Targets::new(Rung::None);
    for (attempt, argument, outside, ..) in ATTEMPTS {
        let answer = targets.attempt(attempt, argument);
        match outside {
            Works => assert_eq!(answer, "reached", "{attempt} {argument}"),
            Never => assert!(answer.starts_with("refused"), "{attempt} {argument}: {answer}"),
            Sometimes if answer == "reached" => {}
            Sometimes => eprintln!("{attempt} {argument} cannot be shown here: {answer}"),
        }
    }
}

/// Makes every attempt from this rung. Prints the row of each.
fn attempt_all(rung: Rung) -> Targets {
    let targets = Targets::new(rung);
    for (attempt, argument, _, answers) in ATTEMPTS {
        let answer = rung.answer(*answers);
        let (printed, expected) =
            (targets.attempt(attempt, argument), targets.expected(rung, answer, attempt, argument));
        println!("{rung:?}: {attempt} {argument}: {printed}");
        assert!(printed.starts_with(&expected), "{attempt} {argument}: {printed}, not {expected}");
    }
    let other = &targets.other;
    assert!(other.join("spare").exists() && !other.join("planted").exists());
    assert_eq!(std::fs::read_to_string(other.join("work")).unwrap(), "canary\n");
    assert!(!targets.daemon.data().join("planted").exists());
    let is_prepared = targets.daemon.get("/metrics").text().contains("shellkeep_shells_prepared_total ");
    assert_eq!(is_prepared, rung.has_prepared_shells());
    targets
}

#[test]
fn permissions_refuse_them_to_users_of_agents() {
    if users::is_possible() {
        attempt_all(Rung::User);
    }
}

#[test]
fn a_fence_around_users_of_agents_refuses_what_either_does() {
    if users::is_possible() {
        attempt_all(Rung::FenceOfUser);
    }
}

#[test]
fn a_fence_refuses_them() {
    attempt_all(Rung::Fence);
}

#[test]
fn the_default_for_agents_with_tokens_refuses_them() {
    attempt_all(Rung::Tokens);
}

#[test]
fn a_room_refuses_or_hides_them() {
    let targets = attempt_all(Rung::Room);
    // What was made in `/tmp`, where the data directory of this test is too, is in the session's own.
    let made = targets.argument("homes/a/tmp/breakout-{abstract}");
    assert!(targets.daemon.data().join(made).exists());
}

#[test]
fn a_room_that_was_not_prepared_refuses_or_hides_them() {
    attempt_all(Rung::NewRoom);
}

/// Shells are not the only processes of a session.
fn confines_everything(rung: Rung, word: &str) {
    let targets = Targets::new(rung);
    let (daemon, steal) = (&targets.daemon, targets.command("read", "{work}"));
    let tty = daemon.run("a", json!({"command": steal, "tty": true}));
    assert!(tty.out().contains(word), "{}", tty.out());
    let injected = daemon.run("a", json!({"command": targets.command("terminal_input", ""), "tty": true}));
    // Its own terminal is no secret of anybody else's.
    assert!(injected.out().contains("refused") || rung == Rung::User, "{}", injected.out());
    let background = daemon.run("a", json!({"command": steal, "timeout": 20, "on_timeout": "background"}));
    assert!(background.out().contains(word), "{}", background.out());
    let service = daemon.start_service("a", json!({"command": format!("{steal}; sleep 60")}));
    let id = service["service_id"].as_str().unwrap();
    let log = shellkeep_poll::until("a line in the log", || {
        let page = daemon.log_page("a", id, "tail=100");
        page["text"].as_str().filter(|text| text.contains('\n')).map(str::to_owned)
    });
    assert!(log.contains(word), "{log}");
    let script = format!("{{ {steal}; }} > said 2>&1");
    let config = json!({"agent": {"command": ["bash", "-c", script], "cwd": daemon.cwd("a")}});
    daemon.create_with(json!({"session_id": "c", "config": config}));
    daemon.post("/v1/sessions/c/resume", &json!({"message": "go"}));
    // It may not write into another session's workspace, where it was started.
    assert!(!daemon.cwd("a").join("said").exists());
    // In its own it may, and is confined.
    let script = format!("{{ {steal}; echo $$; }} > said 2>&1");
    daemon.create_with(json!({"session_id": "d", "config": {"agent": {"command": ["bash", "-c", script]}}}));
    std::fs::create_dir_all(daemon.cwd("d")).unwrap();
    std::fs::copy(daemon.cwd("a").join("breakout.py"), daemon.cwd("d").join("breakout.py")).unwrap();
    daemon.post("/v1/sessions/d/resume", &json!({"message": "go"}));
    let said = std::fs::read_to_string(daemon.cwd("d").join("said")).unwrap();
    assert!(said.starts_with(word) && (said.ends_with("\n2\n") || rung != Rung::Room), "{said}");
}

#[test]
fn services_terminals_and_agents_are_the_agents_users_too() {
    if users::is_possible() {
        confines_everything(Rung::User, "refused");
    }
}

#[test]
fn a_fence_is_around_services_terminals_and_agents_too() {
    confines_everything(Rung::Fence, "refused");
}

#[test]
fn services_terminals_and_agents_are_in_a_room_too() {
    confines_everything(Rung::Room, "absent");
}

#[test]
fn what_a_root_daemon_can_do_is_left_behind() {
    if !geteuid().is_root() {
        return;
    }
    let targets = Targets::new(Rung::Fence);
    let held = targets.daemon.sh("a", "grep CapEff /proc/self/status").out();
    // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE.
    let held = u64::from_str_radix(held.trim().trim_start_matches("CapEff:").trim(), 16).unwrap();
    assert_eq!(held & !0b100_1111_1011, 0, "{held:x}");
}
