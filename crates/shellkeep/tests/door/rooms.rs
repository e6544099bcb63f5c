//! Where sessions in rooms work: not in a directory that their room does not have, and never in another one without a word.

use crate::support::daemon::free_port;
use crate::support::{Agent, Daemon, Door, Request, Settings, bash, groups, skip};
use serde_json::{Value, json};
use shellkeep_poll::until;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn daemon() -> Daemon {
    Daemon::with(Settings::default().set("--sandbox-agents", "room"))
}

/// The program with an agent's token, started in a directory that no room has.
fn program(agent: &Agent, directory: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.env_clear().envs(bash::environment()).env("SHELLKEEP_DATA", agent.daemon.data()).current_dir(directory);
    command.env("SHELLKEEP_TOKEN", &agent.token);
    let (name, args) = args.split_first().unwrap();
    let Door::Socket(socket) = agent.daemon.door() else { panic!("a socket") };
    command.arg(name).arg("--socket").arg(socket).arg("--no-start").args(args);
    command
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

fn code(problem: &Value) -> (&str, &str) {
    (problem["code"].as_str().unwrap_or_default(), problem["detail"].as_str().unwrap_or_default())
}

#[test]
fn a_directory_that_the_room_does_not_have_is_refused() {
    let (daemon, elsewhere) = (daemon(), tempfile::tempdir().unwrap());
    let ann = Agent::named(&daemon, "ann");
    let create = |name: &str, cwd: &Path| ann.post("/v1/sessions", &json!({"session_id": name, "cwd": cwd}));
    let answer = create("s", elsewhere.path());
    let problem = answer.json();
    assert_eq!((answer.status, code(&problem).0), (409, "cwd_not_in_room"), "{problem}");
    assert!(code(&problem).1.contains("leave cwd out") && code(&problem).1.contains("sandbox_write"), "{problem}");
    assert_eq!(ann.get("/v1/sessions/s").status, 404, "nothing was created");
    for cwd in ["/", "/usr/bin", "/tmp", "/etc", "/proc"] {
        let answer = create(&format!("in{}", cwd.replace('/', "-")), Path::new(cwd));
        assert_eq!(answer.status, 201, "{cwd}: {}", answer.text());
        let session = answer.json()["session_id"].as_str().unwrap().to_owned();
        assert_eq!(ann.sh(&session, "pwd")["stdout"], format!("{cwd}\n"));
    }
    let own = ann.create("own");
    assert_eq!(ann.sh(&own, "pwd")["stdout"], format!("{}\n", daemon.cwd(&own).display()));
    // For one call alike, and behind a fence it is entered, though nothing can be read there.
    let call = json!({"command": "pwd", "cwd": elsewhere.path()});
    let refused = ann.post(&format!("/v1/sessions/{own}/run"), &call).json();
    assert!(code(&refused).0 == "bad_cwd" && code(&refused).1.contains("not in the session's room"), "{refused}");
    let refused = ann.post(&format!("/v1/sessions/{own}/services"), &call).json();
    assert!(code(&refused).0 == "bad_cwd" && code(&refused).1.contains("not in the session's room"), "{refused}");
    daemon.create_with(json!({"session_id": "fenced", "sandbox": "fence", "cwd": elsewhere.path()}));
    assert_eq!(daemon.sh("fenced", "pwd").out(), format!("{}\n", elsewhere.path().display()));
}

/// Root reads every file, and the fence granted all of `/etc`: its commands read the machine's passwords and private keys.
#[test]
fn settings_that_are_for_root_alone_are_closed_to_sessions() {
    let daemon = Daemon::with(Settings::default());
    let closed = Path::new("/etc/shadow");
    assert!(closed.exists(), "every machine has passwords");
    for sandbox in ["fence", "room"] {
        daemon.create_with(json!({"session_id": sandbox, "sandbox": sandbox}));
        let told =
            daemon.sh(sandbox, "cat /etc/shadow; cat /etc/passwd | head -c 5; ls /etc | grep -cx passwd; pwd -P");
        assert!(told.err().contains("Permission denied"), "{sandbox}: {:?}", told.json);
        assert!(told.out().starts_with("root:1\n"), "{sandbox}: {:?}", told.json);
        let read = daemon.get(&format!("/v1/sessions/{sandbox}/sandbox")).json()["read"].clone();
        assert!(read.as_array().unwrap().contains(&json!("/etc")), "{sandbox}: {read}");
    }
}

/// A URL was requested at the address that it named, if the service listened on the same port at any other: a session, even
/// one without a network, had the daemon send requests to servers of the host.
#[test]
fn a_url_is_not_asked_at_an_address_of_another_program() {
    let Ok(hosts) = TcpListener::bind("[::1]:0") else { return skip("this machine has no IPv6") };
    let port = hosts.local_addr().unwrap().port();
    if TcpListener::bind(("127.0.0.1", port)).is_err() {
        return skip("the port is taken");
    }
    hosts.set_nonblocking(true).unwrap();
    let daemon = Daemon::with(Settings::default().set("--sandbox-network", "none"));
    let command = format!("exec /usr/bin/python3 -m http.server {port} --bind 127.0.0.1");
    for (sandbox, url, status) in [
        ("fence", format!("http://[::1]:{port}/admin"), "starting"),
        ("fence", format!("http://localhost:{port}/"), "running"),
        // The port of a room is asked inside.
        ("room", format!("http://[::1]:{port}/"), "running"),
    ] {
        let created = daemon.create_with(json!({"sandbox": sandbox}));
        let session = created["session_id"].as_str().unwrap();
        let wait = if status == "running" { 30 } else { 3 };
        let service = daemon.start_service(session, json!({"command": command, "ready": {"http": url}, "wait": wait}));
        let id = service["service_id"].as_str().unwrap();
        let seen = until("it listens", || {
            let seen = daemon.service(session, id);
            (seen["ports"] == json!([port])).then_some(seen)
        });
        assert_eq!(seen["status"], status, "{sandbox} {url}: {seen}");
        let asked = hosts.accept().map_err(|error| error.kind());
        assert_eq!(asked.err(), Some(ErrorKind::WouldBlock), "{sandbox} {url}: the host's server was asked");
        daemon.stop_service(session, id);
    }
}

/// What the host's connections to services in rooms took of the daemon's descriptors was in no limit but that of each service.
#[test]
fn connections_to_services_in_rooms_leave_descriptors_to_others() {
    // A quarter of the descriptors for all rooms, a quarter of that for one session, half of that for connections with two.
    const DESCRIPTORS: usize = 800;
    const MOST: usize = 12;
    const ALL: usize = 30;
    const SERVER: &str = "import socket, sys, threading
lock, now, most, served = threading.Lock(), 0, 0, 0
def serve(connection):
    global now, served
    connection.sendall(b'x')
    connection.recv(1)
    with lock:
        now, served = now - 1, served + 1
        print('served', served, 'at most', most, flush=True)
    connection.close()
listener = socket.create_server(('127.0.0.1', int(sys.argv[1])), backlog=100)
while True:
    connection, _ = listener.accept()
    with lock:
        now = now + 1
        most = max(most, now)
        print('now', now, flush=True)
    threading.Thread(target=serve, args=(connection,)).start()";
    let limited = format!("ulimit -n {DESCRIPTORS} && exec \"$0\" \"$@\"");
    let wrapper = ["sh", "-c", &limited].map(str::to_owned).to_vec();
    let daemon = Daemon::with(Settings { wrapper, ..Settings::default() }.set("--sandbox-network", "none"));
    daemon.create_with(json!({"session_id": "s", "sandbox": "room"}));
    let port = free_port().port();
    let command = format!("exec /usr/bin/python3 -c \"$SERVER\" {port}");
    let body = json!({"command": command, "env": {"SERVER": SERVER}, "ready": {"port": port}, "wait": 30});
    let service = daemon.start_service("s", body);
    assert_eq!(service["status"], "running", "{service}");
    let id = service["service_id"].as_str().unwrap();
    let line = |what: &str| {
        let log = daemon.service_log("s", id);
        log.lines().find_map(|line| line.strip_prefix(what).map(str::to_owned))
    };
    let callers: Vec<TcpStream> = (0..ALL).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    until("as many as may be are there", || line(&format!("now {MOST}")));
    for mut caller in callers {
        caller.read_exact(&mut [0]).unwrap();
    }
    let most = until("all had their turn", || line(&format!("served {ALL} at most ")));
    assert!(most.parse::<usize>().unwrap() <= MOST, "{most}");
    daemon.stop_service("s", id);
}

/// Root in a room was the owner of the machine's devices: a `chmod 600 /dev/null` there stopped every other user's programs.
#[test]
fn devices_in_a_room_are_used_and_not_changed() {
    let daemon = Daemon::with(Settings::default().set("--sandbox", "room"));
    daemon.create("s");
    for device in ["null", "zero", "full", "random", "urandom", "tty"] {
        // Neither changes anything where it is not refused.
        let changed =
            daemon.sh("s", &format!("chmod --reference=/dev/{device} /dev/{device}; touch -ca /dev/{device}"));
        assert_eq!(changed.err().matches("Read-only file system").count(), 2, "{device}: {:?}", changed.json);
    }
    let used = "echo a > /dev/null && echo b >> /dev/null && : <> /dev/null && head -c 3 /dev/zero | wc -c; \
                head -c 3 /dev/urandom | wc -c; echo c > /dev/full || echo full";
    let used = daemon.sh("s", used);
    assert_eq!(used.out(), "3\n3\nfull\n", "{:?}", used.json);
}

/// The kernel counts them for each user, and the daemon and all sessions are the same one: a loop in one room left none for
/// anybody else.
#[test]
fn a_room_has_a_part_of_what_watches_files() {
    let daemon = Daemon::with(Settings::default().set("--sandbox", "room"));
    let all = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").unwrap();
    let part = (all.trim().parse::<u64>().unwrap() / 8).max(16);
    // The one in a room is a copy of ours. Containers have one that nobody can write to.
    let settings = rustix::fs::statvfs("/proc/sys").unwrap();
    if settings.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
        skip("a /proc/sys that can be written to");
        return;
    }
    daemon.create("s");
    let watch = "import ctypes; libc = ctypes.CDLL(None); print(sum(libc.inotify_init() >= 0 for _ in range(3000)))";
    let watch = &format!("python3 -c '{watch}'");
    let made: u64 = daemon.sh("s", watch).out().trim().parse().unwrap();
    assert!((1..=part).contains(&made), "{made} of {part}");
    let raised = daemon.sh("s", "echo 100000 > /proc/sys/user/max_inotify_instances");
    assert_ne!(raised.exit_code(), Some(0), "{:?}", raised.json);
}

/// Programs that ask how many processors there are got one, and some none.
#[test]
fn a_room_says_how_many_processors_there_are() {
    let daemon = Daemon::with(Settings::default());
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    for sandbox in ["fence", "room"] {
        daemon.create_with(json!({"session_id": sandbox, "sandbox": sandbox}));
        let told = daemon.sh(sandbox, "cat /sys/devices/system/cpu/online; ls /sys/devices/system/cpu | grep -cx cpu0");
        assert_eq!(told.out(), format!("{online}1\n"), "{sandbox}: {:?}", told.json);
    }
}

/// A session that is tightened later stays where it was, is told why it cannot work there, and how to go on.
#[test]
fn a_session_that_moves_into_a_room_is_told_that_its_directory_is_outside() {
    let (daemon, elsewhere) = (daemon(), tempfile::tempdir().unwrap());
    daemon.create_with(json!({"session_id": "s", "cwd": elsewhere.path()}));
    assert_eq!(daemon.sh("s", "pwd").exit_code(), Some(0));
    daemon.hibernate("s");
    let tighten = Request::new("PUT", "/v1/sessions/s/sandbox").json(json!({"sandbox": "room"}).to_string());
    assert_eq!(daemon.send(&tighten).status, 200);
    let refused = daemon.post("/v1/sessions/s/run", &json!({"command": "pwd"})).json();
    assert!(code(&refused).0 == "bad_cwd" && code(&refused).1.contains("not in the session's room"), "{refused}");
    let workspace = daemon.get("/v1/sessions/s").json()["workspace"].as_str().unwrap().to_owned();
    assert_eq!(daemon.run("s", json!({"command": format!("cd {workspace}"), "cwd": "/usr"})).exit_code(), Some(0));
    assert_eq!(daemon.sh("s", "pwd").out(), format!("{workspace}\n"));
}

/// The directory that the program happens to be started in is not one that somebody asked for: the session starts in its own,
/// and says so, once.
#[test]
fn a_session_that_the_program_creates_starts_in_its_workspace() {
    let (daemon, elsewhere) = (daemon(), tempfile::tempdir().unwrap());
    let ann = Agent::named(&daemon, "ann");
    let run = |args: &[&str]| texts(&program(&ann, elsewhere.path(), args).output().unwrap());
    let (out, err) = run(&["run", "-s", "a", "--", "pwd"]);
    let session = ann.get("/v1/sessions/a").json();
    assert_eq!(out, format!("{}\n", session["workspace"].as_str().unwrap()), "{err}");
    let here = elsewhere.path().to_str().unwrap();
    assert!(err.contains("works in its own directory") && err.contains(here) && err.contains("room"), "{err}");
    assert_eq!(run(&["run", "-s", "a", "--", "pwd"]), (out, String::new()));
    // An asked one is refused.
    let (out, err) = run(&["sessions", "new", "b", "--cwd", here]);
    assert!(out.is_empty() && err.contains("is not in the session's room"), "{out}{err}");
}

#[test]
fn a_model_is_told_where_its_session_works() {
    let (daemon, elsewhere) = (daemon(), tempfile::tempdir().unwrap());
    let ann = Agent::named(&daemon, "ann");
    let mut mcp = program(&ann, elsewhere.path(), &["mcp", "-s", "m"]);
    let mut mcp = mcp.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = mcp.stdin.take().unwrap();
    let about = json!({"name": "t", "version": "1"});
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about});
    let call = json!({"name": "run_command", "arguments": {"command": "pwd"}});
    for line in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}),
    ] {
        writeln!(stdin, "{line}").unwrap();
    }
    let lines = BufReader::new(mcp.stdout.take().unwrap()).lines().map(Result::unwrap);
    let answer = lines.map(|line| line.parse::<Value>().unwrap()).find(|line| line["id"] == 2).unwrap();
    drop(stdin);
    assert!(mcp.wait().unwrap().success());
    let workspace = ann.get("/v1/sessions/m").json()["workspace"].as_str().unwrap().to_owned();
    let parts = answer["result"]["content"].as_array().unwrap();
    let text: String = parts.iter().map(|part| part["text"].as_str().unwrap()).collect();
    assert!(text.starts_with(&workspace), "{answer}");
    let told = format!("in a room that does not have {}. It works in its own directory", elsewhere.path().display());
    assert!(text.contains(&told), "{answer}");
}

/// A shell is prepared with a network of its own. If a service of the session lives, they share that of the service.
#[test]
fn a_shell_that_wakes_beside_a_service_shares_its_network() {
    let daemon = Daemon::with(Settings::default().set("--sandbox", "room"));
    daemon.create("s");
    let network = "readlink /proc/self/ns/net";
    let service = daemon.start_service("s", json!({"command": format!("{network}; sleep 60")}));
    let of_service = shellkeep_poll::until("a line in the log", || {
        let page = daemon.log_page("s", service["service_id"].as_str().unwrap(), "tail=100");
        page["text"].as_str().filter(|text| text.contains('\n')).map(str::to_owned)
    });
    for _ in 0..3 {
        shellkeep_poll::until("prepared shells", || (daemon.get("/readyz").json()["spare_shells"] != 0).then_some(()));
        assert_eq!(daemon.sh("s", network).out(), of_service);
        daemon.hibernate("s");
    }
    let other = daemon.create("other")["session_id"].as_str().unwrap().to_owned();
    assert_ne!(daemon.sh(&other, network).out(), of_service);
}

/// Each wake dropped a prepared room, because the session has to be in that of its service, and had two shells started that
/// are not prepared, though no session wanted one.
#[test]
fn a_shell_that_wakes_beside_a_service_wastes_no_prepared_room() {
    let daemon = Daemon::with(Settings::default().set("--sandbox", "room"));
    daemon.create("s");
    daemon.start_service("s", json!({"command": "sleep 60"}));
    wait_for_prepared_shells(&daemon);
    let prepared = groups::members(&daemon.data(), "shell-");
    for _ in 0..3 {
        assert_eq!(daemon.sh("s", "echo $((6 * 7))").out(), "42\n");
        daemon.hibernate("s");
    }
    shellkeep_poll::until("only the prepared shells are left", || {
        (groups::members(&daemon.data(), "shell-") == prepared).then_some(())
    });
    assert!(!daemon.get("/metrics").text().contains("shellkeep_shells_prepared_total "));
}

/// A fence does not depend on the mounts of the machine, and still nothing was prepared for it where they cannot be watched.
#[test]
fn a_fence_is_prepared_where_mounts_cannot_be_watched() {
    let directory = tempfile::tempdir().unwrap();
    // It cannot be opened as a file.
    let socket = directory.path().join("socket");
    let _socket = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let without = r#"mount --bind "$0" /proc/$$/mountinfo && exec "$@""#;
    let wrapper = ["unshare", "--mount", "sh", "-c", without, socket.to_str().unwrap()].map(str::to_owned);
    let can =
        Command::new(&wrapper[0]).args(&wrapper[1..]).args(["test", "-S", "/proc/self/mountinfo"]).output().unwrap();
    assert!(can.status.success() || std::env::var_os("CI").is_none(), "this test mounts: {can:?}");
    if !can.status.success() {
        return;
    }
    let settings = Settings { wrapper: wrapper.into(), ..Settings::default().set("--sandbox", "fence") };
    let daemon = Daemon::on(directory, settings);
    wait_for_prepared_shells(&daemon);
    daemon.create("s");
    assert_eq!(daemon.sh("s", "echo $((6 * 7))").out(), "42\n");
    assert!(daemon.get("/metrics").text().contains("shellkeep_shells_prepared_total 1\n"));
    // There are no rooms at all here: the kernel lets nobody mount /proc where something is mounted on a part of it.
}

/// A file system in memory at a directory of the machine, until this is dropped.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn new() -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("work")).unwrap();
        std::fs::write(place.path().join("work/file"), "hidden").unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(place.path()).output().unwrap();
        assert!(mount.status.success() || std::env::var_os("CI").is_none(), "this test mounts: {mount:?}");
        mount.status.success().then_some(Self(place))
    }

    fn unmount(&self) {
        assert!(Command::new("umount").arg(self.0.path()).status().unwrap().success());
    }

    /// Whether a process of the machine has it.
    fn is_kept(&self) -> bool {
        let place = self.0.path().to_str().unwrap();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let has = |path: std::path::PathBuf| std::fs::read_to_string(path).is_ok_and(|text| text.contains(place));
        processes.map(|process| process.path().join("mountinfo")).any(has)
    }
}

fn wait_for_prepared_shells(daemon: &Daemon) {
    shellkeep_poll::until("prepared shells", || (daemon.get("/readyz").json()["spare_shells"] == 2).then_some(()));
}

/// A prepared room has the mounts of the machine from before.
#[test]
fn a_session_sees_what_was_mounted_after_its_room_was_prepared() {
    let daemon = Daemon::with(Settings::default().set("--sandbox", "room"));
    wait_for_prepared_shells(&daemon);
    let Some(mounted) = Mounted::new() else { return };
    let work = mounted.0.path().join("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::write(work.join("file"), "mounted").unwrap();
    daemon.create_with(json!({"session_id": "s", "config": {"workspace": work}}));
    assert_eq!(daemon.sh("s", "cat file").out(), "mounted");
    daemon.hibernate("s");
    wait_for_prepared_shells(&daemon);
    mounted.unmount();
    shellkeep_poll::until("nobody keeps it", || (!mounted.is_kept()).then_some(()));
}

/// The session's own `/tmp` contains the place of its workspace here, and the machine's root is left only after its
/// directories are brought in.
#[test]
fn a_link_in_a_session_s_own_directories_leads_nowhere_else() {
    for spares in ["0", "2"] {
        let (daemon, victim) = (
            Daemon::with(Settings::default().set("--sandbox", "room").set("--spare-shells", spares)),
            tempfile::tempdir().unwrap(),
        );
        daemon.create("s");
        let place = daemon.directory().to_str().unwrap().to_owned();
        let swap = format!("mv {place} /tmp/before && ln -s {} {place} && readlink {place}", victim.path().display());
        assert_eq!(daemon.sh("s", &swap).out(), format!("{}\n", victim.path().display()));
        daemon.hibernate("s");
        if spares != "0" {
            wait_for_prepared_shells(&daemon);
        }
        let refused = daemon.post("/v1/sessions/s/run", &json!({"command": "true"})).json();
        assert_eq!(code(&refused).0, "shell_unavailable", "{refused}");
        assert_eq!(std::fs::read_dir(victim.path()).unwrap().count(), 0);
        let link = daemon.data().join("homes/s").join(place.trim_start_matches('/'));
        let said = format!("needs a directory at '{place}', but the session put a symbolic link there (");
        assert!(code(&refused).1.contains(&said) && code(&refused).1.contains("POST …/fork"), "{refused}");
        assert_eq!(refused["outside"], link.to_str().unwrap(), "{refused}");
        let Door::Socket(socket) = daemon.door() else { panic!("a socket") };
        let mut program = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
        program.env_clear().envs(bash::environment()).env("SHELLKEEP_DATA", daemon.data());
        program.args(["run", "--no-start", "-s", "s", "--socket"]).arg(socket).args(["--", "true"]);
        let (_, error) = texts(&program.output().unwrap());
        assert!(error.contains(&format!("`rm {}`", link.display())), "{error}");
        // Either way helps.
        assert_eq!(daemon.post("/v1/sessions/s/fork", &json!({"session_id": "fork"})).status, 201);
        assert_eq!(daemon.sh("fork", "echo $((6 * 7))").out(), "42\n");
        std::fs::remove_file(link).unwrap();
        assert_eq!(daemon.sh("s", "ls /tmp/before").exit_code(), Some(0));
    }
}
