//! What a session does for a living works behind a fence as well.

use crate::support::{Daemon, Settings};
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
    ("cat <(echo in) > >(cat; echo out)", "in\nout\n"),
    ("mkfifo p; echo through > p & cat p", "through\n"),
    ("mkdir -p one two; echo m > one/f; mv one/f two/f; ln two/f one/g; cat one/g", "m\n"),
    ("t=$(mktemp) && echo t > $t && cat $t && [[ $t == $TMPDIR/* ]] && echo own", "t\nown\n"),
    ("echo h > ~/h; cat ~/h; [[ $HOME == */homes/w/home ]] && echo own", "h\nown\n"),
    ("head -c 3 /dev/urandom | wc -c; echo x > /dev/null; echo y > /dev/stdout", "3\ny\n"),
    ("sleep 100 & kill $!; wait $!; echo $?", "143\n"),
    ("ls /usr/bin | grep -c '^env$'; cat /proc/self/comm; getent passwd 0 | cut -d: -f1", "1\ncat\nroot\n"),
    ("ulimit -n 512; ulimit -n", "512\n"),
];

#[test]
fn daily_work_is_possible_behind_a_fence() {
    let daemon = Daemon::with(Settings::default().set("--sandbox", "fence"));
    daemon.create("w");
    for (command, expected) in WORK {
        let reply = daemon.sh("w", command);
        assert_eq!(reply.out(), *expected, "{command}: {}", reply.err());
    }
    // A command that closes the driver's socket leaves its result in a file.
    let closing = daemon.sh("w", "X=rescued; for ((i = 3; i < 1100; i++)); do eval \"exec $i>&-\"; done; (exit 3)");
    assert_eq!(closing.exit_code(), Some(3), "{:?}", closing.json);
    assert_eq!(daemon.sh("w", "echo $X").out(), "rescued\n");
    let port = crate::support::daemon::free_port().port();
    let command = format!("exec /usr/bin/python3 -m http.server {port} --bind 127.0.0.1");
    daemon.start_service("w", json!({"command": command, "ready": {"port": port}, "wait": 20}));
    std::net::TcpStream::connect(("127.0.0.1", port)).expect("its port is reachable for the host");
}

#[test]
fn checkpoints_rewinds_and_forks_work_behind_a_fence() {
    let daemon = Daemon::with(Settings::default().set("--sandbox", "fence"));
    daemon.create("s");
    daemon.sh("s", "echo one > f");
    daemon.sh("s", "echo two > f");
    assert_eq!(daemon.post("/v1/sessions/s/rewind", &json!({"to": "-1"})).status, 200);
    assert_eq!(daemon.sh("s", "cat f").out(), "one\n");
    assert_eq!(daemon.post("/v1/sessions/s/fork", &json!({"session_id": "t"})).status, 201);
    assert_eq!(daemon.sh("t", "cat f; echo three > f; cat f").out(), "one\nthree\n");
    let origin = daemon.cwd("s");
    let peek = daemon.sh("t", &format!("cat {}/f", origin.display()));
    assert!(peek.exit_code() == Some(1) && peek.err().contains("Permission denied"), "{:?}", peek.json);
    assert_eq!(daemon.sh("s", "cat f").out(), "one\n");
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
