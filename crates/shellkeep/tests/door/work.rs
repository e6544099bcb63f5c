//! What a session does for a living works at every sandbox.

use crate::support::{Daemon, Settings};
use crate::users;
use serde_json::json;

/// A command, and what it prints.
const WORK: &[(&str, &str)] = &[
    (
        "git init -q r && cd r && git config user.name n && git config user.email e && echo x > f && git add f \
         && git commit -qm m && git log --oneline | wc -l; cd ..",
        "1\n",
    ),
    ("/usr/bin/python3 -m venv --without-pip v && v/bin/python -c 'print(6 * 7)'", "42\n"),
    ("echo 'int main() { return 42; }' > a.c && gcc a.c -o a && ./a; echo $?", "42\n"),
    (
        "printf 'from multiprocessing import Pool\\nif __name__ == \"__main__\":\\n  print(sum(Pool(2).map(abs, \
         [-1, -2])))\\n' > m.py; /usr/bin/python3 m.py",
        "3\n",
    ),
    ("cat <<END\nhere\nEND", "here\n"),
    ("exec 5> >(cat; echo out); p=$!; cat <(echo in) >&5; exec 5>&-; wait $p", "in\nout\n"),
    ("mkfifo p; echo through > p & cat p", "through\n"),
    ("mkdir -p one two; echo m > one/f; mv one/f two/f; ln two/f one/g; cat one/g", "m\n"),
    ("t=$(mktemp) && echo t > $t && cat $t && [[ $t == $TMPDIR/* ]] && echo own", "t\nown\n"),
    ("echo h > ~/h; cat ~/h; [[ $HOME == */homes/w/home ]] && echo own", "h\nown\n"),
    ("head -c 3 /dev/urandom | wc -c; echo x > /dev/null; echo y > /dev/stdout", "3\ny\n"),
    ("sleep 100 & kill $!; wait $!; echo $?", "143\n"),
    ("ls /usr/bin | grep -c '^env$'; cat /proc/self/comm; getent passwd 0 | cut -d: -f1", "1\ncat\nroot\n"),
    ("ulimit -n 512; ulimit -n", "512\n"),
];

/// What only a room does.
const IN_A_ROOM: &[(&str, &str)] = &[
    ("echo $$ $PPID; ps -e -o pid= | wc -l", "2 0\n4\n"),
    ("kill -9 $$; echo not here", ""),
    ("(setsid sleep 0.01 &); sleep 0.1; ps -e -o stat= | grep -c Z", "0\n"),
    ("ls /home /root 2>&1 | grep -c 'No such file'", "2\n"),
    ("echo t > /tmp/t; cat $TMPDIR/t; touch /new; echo $?", "t\n1\n"),
    ("echo s > /dev/shm/s; cat /dev/shm/s", "s\n"),
    // It was half of the machine's memory, for each shell; now it is at most a sixteenth.
    ("echo $(($(stat -f -c '%b * %S' /dev/shm) <= $(awk '/MemTotal/ { print $2 * 64 }' /proc/meminfo)))", "1\n"),
    ("/usr/bin/python3 -c 'import pty; pty.spawn([\"echo\", \"in a terminal\"])'", "in a terminal\r\n"),
];

fn is_possible_in(sandbox: &str, more: &[(&str, &str)]) {
    let daemon = Daemon::on(users::reachable(), users::settings(sandbox));
    daemon.create("w");
    for (command, expected) in WORK.iter().chain(more) {
        let reply = daemon.sh("w", command);
        assert_eq!(reply.out(), *expected, "{command}: {}", reply.err());
    }
    // A command that closes the driver's socket leaves its result in a file.
    let closing = daemon.sh("w", "X=rescued; for ((i = 3; i < 1100; i++)); do eval \"exec $i>&-\"; done; (exit 3)");
    assert_eq!(closing.exit_code(), Some(3), "{:?}", closing.json);
    assert_eq!(daemon.sh("w", "echo $X").out(), "rescued\n");
    // Processes that a command leaves behind end with the session's shell, and are listed by the pids that it knew.
    let leave = "sleep 1000 & (setsid bash -c 'echo $BASHPID > late; exec sleep 1001' &); for p in $! late; do \
                 until grep -q sleep \"/proc/$([[ $p == late ]] && cat late || echo $p)/comm\"; do command sleep 0.01; \
                 done 2> /dev/null; done; echo $!";
    let pid = daemon.sh("w", leave).out().trim().to_owned();
    assert_eq!(daemon.post("/v1/sessions/w/hibernate", &json!({})).status, 200);
    let notices = daemon.sh("w", "true").json["notices"].to_string();
    assert!(notices.contains(&format!("{pid} `sleep 1000`")) && notices.contains("sleep 1001"), "{notices}");
    assert_eq!(notices.matches(" `").count(), 2, "{notices}");
    let port = crate::support::daemon::free_port().port();
    let command = format!("exec /usr/bin/python3 -m http.server {port} --bind 127.0.0.1");
    let url = format!("http://127.0.0.1:{port}/");
    let service = daemon.start_service("w", json!({"command": command, "ready": {"http": url}, "wait": 20}));
    assert_eq!((&service["status"], &service["ports"]), (&json!("running"), &json!([port])), "{service}");
    let host = crate::support::Request::new("GET", "/").send(&crate::support::Door::Tcp(([127, 0, 0, 1], port).into()));
    assert_eq!(host.unwrap().status, 200, "its port is reachable for the host");
    let ask = format!("exec 9<>/dev/tcp/127.0.0.1/{port}; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&9; head -n 1 <&9");
    assert!(daemon.sh("w", &ask).out().contains("200"), "its session reaches it");
    daemon.stop_service("w", service["service_id"].as_str().unwrap());
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err(), "nobody listens once it has ended");
}

#[test]
fn daily_work_is_possible_for_a_user_of_agents() {
    if users::is_possible() {
        is_possible_in("user", &[]);
    }
}

#[test]
fn daily_work_is_possible_behind_a_fence() {
    is_possible_in("fence", &[]);
}

#[test]
fn daily_work_is_possible_in_a_room() {
    is_possible_in("room", IN_A_ROOM);
}

fn files_are_kept_in(sandbox: &str, hidden: &str) {
    let daemon = Daemon::on(users::reachable(), users::settings(sandbox));
    daemon.create("s");
    daemon.sh("s", "echo one > f");
    daemon.sh("s", "echo two > f");
    assert_eq!(daemon.post("/v1/sessions/s/rewind", &json!({"to": "-1"})).status, 200);
    assert_eq!(daemon.sh("s", "cat f").out(), "one\n");
    assert_eq!(daemon.post("/v1/sessions/s/fork", &json!({"session_id": "t"})).status, 201);
    assert_eq!(daemon.sh("t", "cat f; echo three > f; cat f").out(), "one\nthree\n");
    let origin = daemon.cwd("s");
    let peek = daemon.sh("t", &format!("cat {}/f", origin.display()));
    assert!(peek.exit_code() == Some(1) && peek.err().contains(hidden), "{:?}", peek.json);
    assert_eq!(daemon.sh("s", "cat f").out(), "one\n");
}

#[test]
fn checkpoints_rewinds_and_forks_work_for_a_user_of_agents() {
    if users::is_possible() {
        files_are_kept_in("user", "Permission denied");
    }
}

#[test]
fn checkpoints_rewinds_and_forks_work_behind_a_fence() {
    files_are_kept_in("fence", "Permission denied");
}

#[test]
fn checkpoints_rewinds_and_forks_work_in_a_room() {
    files_are_kept_in("room", "No such file or directory");
}

/// A service in a room outlives the daemon, and the next one finds its network again.
#[test]
fn a_service_in_a_room_is_taken_over() {
    let mut daemon = Daemon::with(Settings::default().set("--sandbox", "room"));
    daemon.create("w");
    let port = crate::support::daemon::free_port().port();
    let command = format!("exec /usr/bin/python3 -m http.server {port} --bind 127.0.0.1");
    let service = daemon.start_service("w", json!({"command": command, "ready": {"port": port}, "wait": 20}));
    daemon.restart();
    let seen = daemon.service("w", service["service_id"].as_str().unwrap());
    assert_eq!((&seen["status"], &seen["processes"]), (&json!("running"), &json!(1)), "{seen}");
    assert!(daemon.sh("w", &format!("exec 9<>/dev/tcp/127.0.0.1/{port} && echo open")).out().contains("open"));
    std::net::TcpStream::connect(("127.0.0.1", port)).expect("its port is reachable for the host");
}

/// With the machine's network a room reaches what a fence reaches.
#[test]
fn a_room_may_have_the_network_of_the_machine() {
    let settings = Settings::default().set("--sandbox", "room").set("--sandbox-network", "full");
    let daemon = Daemon::with(settings);
    daemon.create("w");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let open = format!("exec 9<>/dev/tcp/127.0.0.1/{} && echo open", listener.local_addr().unwrap().port());
    assert_eq!(daemon.sh("w", &open).out(), "open\n");
    assert_eq!(daemon.get("/v1/sessions/w/sandbox").json()["network"], "full");
}

/// By name, whatever the program is, and nothing else.
#[test]
fn a_room_reaches_the_hosts_that_are_allowed() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::io::Write::write_all(&mut stream.unwrap(), b"from outside\n").unwrap();
        }
    });
    let hosts = format!("allowed.test:{port}=127.0.0.1,*.private.test:{port},down.test:1=127.0.0.1");
    let daemon = Daemon::with(Settings::default().set("--sandbox", "room").set("--sandbox-hosts", &hosts));
    daemon.create("w");
    let open = |name: &str, port: u16| daemon.sh("w", &format!("exec 9<>/dev/tcp/{name}/{port} && cat <&9"));
    for _ in 0..2 {
        assert_eq!(open("Allowed.test", port).out(), "from outside\n");
    }
    let refused = open("evil.test", port);
    let notices = refused.json["notices"].to_string();
    assert!(refused.exit_code() == Some(1) && notices.contains("network_refused"), "{:?}", refused.json);
    assert!(notices.contains("evil.test"), "{notices}");
    // It is reported once.
    assert_eq!(open("evil.test", port).json["notices"], json!([]));
    let events = daemon.get("/v1/sessions/w/events?type=network_refused").json();
    assert_eq!(events["events"][0]["data"]["host"], "evil.test", "{events}");
    // Whether a host is not allowed or does not answer are two things.
    let down = open("down.test", 1).json["notices"].to_string();
    assert!(down.contains("network_failed") && down.contains("down.test:1 was not reached, although"), "{down}");
    // Neither another port of an allowed host, nor an address.
    assert!(open("allowed.test", 1).err().contains("refused"));
    assert!(open("1.1.1.1", 443).err().contains("unreachable"));
    assert!(open("127.0.0.1", port).err().contains("refused"));
    let view = daemon.get("/v1/sessions/w/sandbox").json();
    let allowed = [format!("allowed.test:{port}=127.0.0.1"), format!("*.private.test:{port}")];
    assert_eq!(view["hosts"], json!([&allowed[0], &allowed[1], "down.test:1=127.0.0.1"]));
}

/// What the host shares is reachable, and the data directory stays out of reach even if it is inside.
#[test]
fn paths_that_the_host_shares() {
    let directory = tempfile::Builder::new().prefix("shellkeep-test-").tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir_all(at("tools/bin")).unwrap();
    std::fs::create_dir_all(at("cache")).unwrap();
    std::fs::write(at("tools/file"), "shared\n").unwrap();
    let (tools, cache, whole) = (at("tools"), at("cache"), at("."));
    let settings = Settings::default()
        .set("--sandbox", "fence")
        .set("--sandbox-read", &format!("{tools},{whole}"))
        .set("--sandbox-write", &cache)
        .env("PATH", &format!("/nonexistent/bin:{tools}/bin:/usr/bin:/bin"));
    let daemon = Daemon::on(directory, settings);
    daemon.create("s");
    let told = daemon.sh("s", &format!("cat {tools}/file; echo c > {cache}/c; cat {cache}/c; echo $PATH"));
    assert_eq!(told.out(), format!("shared\nc\n{tools}/bin:/usr/bin:/bin\n"), "{}", told.err());
    for command in [format!("echo x > {tools}/file"), format!("ls {}", daemon.data().display())] {
        let refused = daemon.sh("s", &command);
        assert!(refused.err().contains("Permission denied"), "{command}: {:?}", refused.json);
    }
}
