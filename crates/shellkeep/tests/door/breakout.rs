//! Attempts to leave a session, at every sandbox: other sessions' files and processes, the daemon's, the user's home, and
//! the kernel. Each attempt must succeed without a sandbox, or the test could not fail.

use crate::support::{Daemon, Settings};
use rustix::process::geteuid;
use serde_json::{Value, json};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;

/// What an attempt needs to succeed without a sandbox.
#[derive(Clone, Copy, PartialEq)]
enum Outside {
    /// Nothing: every user can do it.
    Works,
    /// Root, or a machine that allows it.
    Sometimes,
}

/// What a fence does with it.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fence {
    Refuses,
    /// Known, and in docs/security.md.
    Allows,
}

use Fence::{Allows, Refuses};
use Outside::{Sometimes, Works};

/// The attempts. In an argument `{work}` is a file of another session, `{data}` the data directory, `{home}` the user's
/// home, `{shell}` the pid of another session's process, `{daemon}` that of the daemon.
const ATTEMPTS: &[(&str, &str, Outside, Fence)] = &[
    ("read", "{work}", Works, Refuses),
    ("write", "{work}", Works, Refuses),
    ("truncate", "{work}", Works, Refuses),
    ("hard_link", "{work}", Works, Refuses),
    ("symbolic_link", "{work}", Works, Refuses),
    ("list", "{data}/workspaces", Works, Refuses),
    ("list", "{data}/workspaces/b", Works, Refuses),
    ("create", "{data}/workspaces/b/planted", Works, Refuses),
    ("remove", "{data}/workspaces/b/spare", Works, Refuses),
    ("read", "{data}/record.key", Works, Refuses),
    ("write", "{data}/shellkeep.db", Works, Refuses),
    ("list", "{data}", Works, Refuses),
    ("create", "{data}/planted", Works, Refuses),
    ("read", "{home}/.ssh/id", Works, Refuses),
    ("create", "{home}/.bashrc", Works, Refuses),
    ("create", "/tmp/shellkeep-breakout", Works, Refuses),
    ("signal", "{shell}", Works, Refuses),
    ("signal", "{daemon}", Works, Refuses),
    ("environ", "{shell}", Works, Refuses),
    ("memory", "{shell}", Works, Refuses),
    ("root", "{shell}", Works, Refuses),
    ("descriptors", "{shell}", Works, Refuses),
    ("limits", "{daemon}", Sometimes, Refuses),
    ("limits", "{shell}", Works, Refuses),
    ("ptrace", "{shell}", Sometimes, Refuses),
    ("read_memory", "{shell}", Works, Refuses),
    ("setns", "{shell}", Sometimes, Refuses),
    ("unshare", "", Sometimes, Refuses),
    ("mount", "", Sometimes, Refuses),
    ("io_uring", "", Sometimes, Refuses),
    ("bpf", "", Sometimes, Refuses),
    ("userfaultfd", "", Sometimes, Refuses),
    ("keyctl", "", Sometimes, Refuses),
    ("perf", "", Sometimes, Refuses),
    ("chroot", "", Sometimes, Refuses),
    ("raw_socket", "", Sometimes, Refuses),
    ("packet_socket", "", Sometimes, Refuses),
    ("vsock", "", Sometimes, Refuses),
    ("abstract_socket", "{abstract}", Works, Refuses),
    ("device", "", Sometimes, Refuses),
    ("new_privileges", "", Works, Refuses),
    ("system_capability", "", Sometimes, Refuses),
    ("control_group", "", Sometimes, Refuses),
    ("write", "/proc/sys/kernel/core_pattern", Sometimes, Refuses),
    ("path_socket", "{socket}", Works, Allows),
    ("loopback", "{port}", Works, Allows),
    ("stat", "{work}", Works, Allows),
    ("chmod", "{work}", Works, Allows),
];

/// What the attempts are made against.
struct Targets {
    daemon: Daemon,
    abstract_name: String,
    _abstract: UnixListener,
    tcp: std::net::TcpListener,
    shell: u32,
}

impl Targets {
    /// Two sessions: `a` attacks, `b` is attacked.
    fn new(sandbox: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("shellkeep-test-").tempdir().unwrap();
        let home = directory.path().join("home");
        std::fs::create_dir_all(home.join(".ssh")).unwrap();
        std::fs::write(home.join(".ssh/id"), "secret").unwrap();
        let abstract_name = directory.path().file_name().unwrap().to_str().unwrap().to_owned();
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let settings = Settings::default().env("HOME", home.to_str().unwrap()).set("--sandbox", sandbox);
        let daemon = Daemon::on(directory, settings);
        daemon.create("a");
        daemon.create("b");
        daemon.sh("b", "echo canary > work; touch spare");
        let work = daemon.cwd("a").join("breakout.py");
        std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/door/breakout.py"), work).unwrap();
        let shell = daemon.shell_pid("b").expect("it has a shell");
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        Self { daemon, abstract_name, _abstract: listener, tcp, shell }
    }

    fn argument(&self, text: &str) -> String {
        let directory = self.daemon.directory();
        let at = |path: &Path| path.to_str().unwrap().to_owned();
        text.replace("{work}", &at(&self.daemon.data().join("workspaces/b/work")))
            .replace("{data}", &at(&self.daemon.data()))
            .replace("{home}", &at(&directory.join("home")))
            .replace("{socket}", &at(&directory.join("s.sock")))
            .replace("{shell}", &self.shell.to_string())
            .replace("{daemon}", &self.daemon.pid().to_string())
            .replace("{abstract}", &self.abstract_name)
            .replace("{port}", &self.tcp.local_addr().unwrap().port().to_string())
    }

    /// The command of an attempt.
    fn command(&self, attempt: &str, argument: &str) -> String {
        format!("cd; cd ~-; /usr/bin/python3 breakout.py {attempt} {}", self.argument(argument))
    }

    fn attempt(&self, attempt: &str, argument: &str) -> String {
        let reply = self.daemon.sh("a", &self.command(attempt, argument));
        assert_eq!(reply.exit_code(), Some(0), "{attempt} {argument}: {}", reply.err());
        reply.out().trim().to_owned()
    }
}

#[test]
fn every_attempt_succeeds_without_a_sandbox() {
    let targets = Targets::new("none");
    std::fs::write(targets.daemon.data().join("record.key"), "key").unwrap();
    for (attempt, argument, outside, _) in ATTEMPTS {
        let answer = targets.attempt(attempt, argument);
        let works = answer == "reached";
        assert!(works || *outside == Sometimes, "{attempt} {argument}: {answer}");
        if !works {
            eprintln!("{attempt} {argument} cannot be shown here: {answer}");
        }
    }
    let _ = std::fs::remove_file("/tmp/shellkeep-breakout");
}

#[test]
fn a_fence_refuses_them() {
    let targets = Targets::new("fence");
    std::fs::write(targets.daemon.data().join("record.key"), "key").unwrap();
    for (attempt, argument, _, fence) in ATTEMPTS {
        let answer = targets.attempt(attempt, argument);
        let expected = if *fence == Allows { "reached" } else { "refused" };
        assert!(answer.starts_with(expected), "{attempt} {argument}: {answer}, not {expected}");
    }
    assert!(targets.daemon.data().join("workspaces/b/spare").exists());
    assert_eq!(std::fs::read_to_string(targets.daemon.data().join("workspaces/b/work")).unwrap(), "canary\n");
}

/// Shells are not the only processes of a session.
#[test]
fn services_terminals_and_agents_are_confined_too() {
    let targets = Targets::new("fence");
    let (daemon, steal) = (&targets.daemon, targets.command("read", "{work}"));
    let tty = daemon.run("a", json!({"command": steal, "tty": true}));
    assert!(tty.out().contains("refused"), "{}", tty.out());
    let injected = daemon.run("a", json!({"command": targets.command("terminal_input", ""), "tty": true}));
    assert!(injected.out().contains("refused"), "{}", injected.out());
    let background = daemon.run("a", json!({"command": steal, "timeout": 20, "on_timeout": "background"}));
    assert!(background.out().contains("refused"), "{}", background.out());
    let service = daemon.start_service("a", json!({"command": format!("{steal}; sleep 60")}));
    let id = service["service_id"].as_str().unwrap();
    let log = shellkeep_poll::until("a line in the log", || {
        let page = daemon.log_page("a", id, "tail=100");
        page["text"].as_str().filter(|text| text.contains('\n')).map(str::to_owned)
    });
    assert!(log.contains("refused"), "{log}");
    let script = format!("{{ {steal}; }} > said 2>&1");
    let config = json!({"agent": {"command": ["bash", "-c", script], "cwd": daemon.cwd("a")}});
    daemon.create_with(json!({"session_id": "c", "config": config}));
    daemon.post("/v1/sessions/c/resume", &json!({"message": "go"}));
    // It may not write into another session's workspace, where it was started.
    assert!(!daemon.cwd("a").join("said").exists());
}

#[test]
fn what_a_root_daemon_can_do_is_left_behind() {
    if !geteuid().is_root() {
        return;
    }
    let targets = Targets::new("fence");
    let held = targets.daemon.sh("a", "grep CapEff /proc/self/status").out();
    // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE.
    let held = u64::from_str_radix(held.trim().trim_start_matches("CapEff:").trim(), 16).unwrap();
    assert_eq!(held & !0b100_1111_1011, 0, "{held:x}");
}

/// The codes and words around the setting.
#[test]
fn a_sandbox_is_kept_and_only_tightened() {
    let mut daemon = Daemon::start();
    let put = |daemon: &Daemon, session: &str, sandbox: &str| {
        let target = format!("/v1/sessions/{session}/sandbox");
        daemon.send(&crate::support::Request::new("PUT", &target).json(json!({"sandbox": sandbox}).to_string()))
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
    assert_eq!(put(&daemon, "s", "room").status, 400);
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
    let events = daemon.get("/v1/sessions/s/events?type=sandbox_changed").json();
    assert_eq!(events["events"][0]["data"]["sandbox"], "fence", "{events}");
    daemon.destroy("s");
    assert!(!own.exists());
}

/// A kernel without Landlock, one that only pretends, and one without user namespaces.
#[test]
fn machines_that_lack_something() {
    const CREATE_RULESET: u32 = 444;
    const RESTRICT_SELF: u32 = 446;
    let unshare = if cfg!(target_arch = "x86_64") { 272 } else { 97 };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/door/without.py");
    let machine = |lacks: &str, sandbox: &str| Settings {
        wrapper: ["/usr/bin/python3", script.to_str().unwrap(), lacks, "--"].map(str::to_owned).to_vec(),
        ..Settings::default().set("--sandbox", sandbox)
    };
    for (lacks, words) in [
        (format!("{CREATE_RULESET}=38"), "no Landlock"),
        (format!("{CREATE_RULESET}=95"), "no Landlock"),
        (format!("{RESTRICT_SELF}=0"), "a confined process could read a file"),
    ] {
        let mut daemon = Daemon::with(machine(&lacks, "none"));
        let refused = daemon.post("/v1/sessions", &json!({"session_id": "s", "sandbox": "fence"}));
        assert_eq!((refused.status, refused.json()["code"].clone()), (409, json!("sandbox_unavailable")), "{lacks}");
        assert!(refused.json()["detail"].as_str().unwrap().contains(words), "{}", refused.text());
        daemon.create("s");
        assert_eq!(daemon.sh("s", "echo works").out(), "works\n");
        assert!(!daemon.restart_to_die(&machine(&lacks, "fence")), "{lacks}: it started without its sandbox");
        assert!(daemon.log().contains(words) && daemon.log().contains("--sandbox none"), "{}", daemon.log());
    }
    let daemon = Daemon::with(machine(&format!("{unshare}=1"), "fence"));
    daemon.create("s");
    assert!(daemon.sh("s", "grep NoNewPrivs /proc/self/status").out().contains('1'));
}
