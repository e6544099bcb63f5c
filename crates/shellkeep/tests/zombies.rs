//! The daemon as the first process of a container: what loses its parent there becomes its child, and must not stay as a
//! zombie when it ends.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on should say where")]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

/// Prints how many zombies there are when there are none, or after 25 s. The daemon looks for them as often as for idle
/// services, which is every second here.
const UNTIL_NONE_IS_LEFT: &str = r"
zombies() { grep -lE '^State:\s+Z' /proc/[0-9]*/status 2>/dev/null | wc -l; }
while [ $(zombies) != 0 ] && [ $SECONDS -lt 25 ]; do sleep 0.1; done
zombies";

fn run(socket: &std::path::Path, command: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_shellkeep"))
        .args(["run", "--no-start", "--socket"])
        .arg(socket)
        .args(["-s", "z", "--", command])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_first_process_reaps_what_nobody_waits_for() {
    let own_pids = ["--pid", "--fork", "--kill-child", "--mount-proc"];
    let may = Command::new("unshare").args(own_pids).arg("true").stderr(Stdio::null()).status();
    if !may.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("CI").is_none(), "unshare --pid does not work here");
        eprintln!("passed over: this user may not make a pid namespace");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let socket = home.path().join("s.sock");
    let mut daemon = Command::new("unshare")
        .args(own_pids)
        .arg(env!("CARGO_BIN_EXE_shellkeep"))
        .args(["serve", "--listen", "none", "--idle-services", "4s", "--data"])
        .arg(home.path().join("data"))
        .arg("--socket")
        .arg(&socket)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(daemon.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("listening on"));

    run(&socket, "for n in 1 2 3 4 5; do ( sleep 0.2 & ); done; sleep 0.4");
    let left = run(&socket, UNTIL_NONE_IS_LEFT);
    // Ends the namespace, and with it everything in it.
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert_eq!(left.trim(), "0", "zombies were left");
}
