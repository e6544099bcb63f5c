//! A daemon that restarts, and waits between its end and its next start until it is told to go on.

use super::daemon::{Daemon, Settings};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// The gap in the middle of a restart.
pub struct Gap {
    program: PathBuf,
    next: PathBuf,
    reached: PathBuf,
    go: PathBuf,
}

impl Gap {
    /// A daemon whose program can be replaced.
    pub fn daemon(settings: Settings) -> (Daemon, Self) {
        let directory = tempfile::tempdir().unwrap();
        let [program, next, reached, go] = ["program", "next", "gap", "go"].map(|name| directory.path().join(name));
        let from_there = r#"ln "$1" "$0" 2>/dev/null || cp "$1" "$0"; shift; exec "$0" "$@""#;
        let wrapper = ["sh", "-c", from_there, program.to_str().unwrap()].map(str::to_owned).to_vec();
        let gap = Self { program, next, reached, go };
        (Daemon::on(directory, Settings { wrapper, ..settings }), gap)
    }

    /// Restarts it; returns when it has ended and not started.
    pub fn restart(&self, daemon: &Daemon) {
        // What is at the daemon's path when it restarts: it waits, then it is the daemon.
        let next = format!(
            "#!/bin/sh\n: >'{}'\nuntil [ -e '{}' ]; do sleep 0.01; done\nexec '{}' \"$@\"\n",
            self.reached.display(),
            self.go.display(),
            env!("CARGO_BIN_EXE_shellkeep"),
        );
        fs::write(&self.next, next).unwrap();
        fs::set_permissions(&self.next, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&self.next, &self.program).unwrap();
        assert_eq!(daemon.post("/v1/daemon/stop", &json!({"restart": true})).status, 202);
        shellkeep_poll::until("the daemon has ended and not started", || self.reached.exists().then_some(()));
    }

    /// Lets it start.
    pub fn go_on(&self) {
        fs::write(&self.go, "").unwrap();
    }
}
