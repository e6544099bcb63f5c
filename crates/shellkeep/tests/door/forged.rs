//! A command can take the control socket from its own bash, and with it speak in the driver's name. What it says is
//! believed about itself; it must not cost the daemon its memory.

use crate::support::{Daemon, procs};
use serde_json::json;
use std::path::Path;

/// The length of a frame was believed: 4 GiB would have been held in memory.
#[test]
fn a_forged_answer_that_is_too_long_ends_the_shell_and_is_answered() {
    let daemon = Daemon::start();
    daemon.create("a");
    let forge = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/door/forge.py");
    let before = procs::resident_kib(daemon.pid());
    let command = format!("python3 {} $$; sleep 1000", forge.display());
    let run = daemon.run("a", json!({"command": command, "timeout": 60}));
    let after = procs::resident_kib(daemon.pid());
    assert_eq!((run.status(), run.exit_code()), ("exited", Some(137)), "{:?}", run.json);
    assert!(after < before + (64 << 10), "{before} KiB before, {after} KiB after");
    assert_eq!(daemon.sh("a", "echo on").out(), "on\n");
}
