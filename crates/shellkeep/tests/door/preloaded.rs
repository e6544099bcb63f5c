//! What the loader of programs does because a session's environment says so happens in the session's programs, behind its
//! sandbox, and in no program of ours before that.

use crate::support::{Daemon, Settings};
use crate::users;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Leaves a file in two places, if they can be written to by whoever loads it.
const SOURCE: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void loaded(void) {
    const char *places[] = {getenv("OUTSIDE"), getenv("INSIDE")};
    for (int i = 0; i < 2; i++) {
        int file = places[i] ? open(places[i], O_WRONLY | O_CREAT, 0644) : -1;
        if (file >= 0)
            close(file);
    }
}
"#;

fn compile(directory: &Path) -> PathBuf {
    let (source, library) = (directory.join("preloaded.c"), directory.join("preloaded.so"));
    std::fs::write(&source, SOURCE).unwrap();
    let made = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status().unwrap();
    assert!(made.success(), "the library does not compile");
    library
}

/// Whether an agent's library left a file in the data directory, and in its workspace.
fn left_by_an_agent(settings: Settings) -> [bool; 2] {
    let daemon = Daemon::on(users::reachable(), settings);
    daemon.create_with(json!({"session_id": "s", "config": {"agent": {"command": ["true"]}}}));
    // It has its workspace from then on.
    assert_eq!(daemon.sh("s", ":").exit_code(), Some(0));
    let (outside, inside) = (daemon.data().join("planted"), daemon.cwd("s").join("loaded"));
    let library = compile(&daemon.cwd("s"));
    let [library, place, planted] = [&library, &inside, &outside].map(|path| path.display());
    // Nothing is started that would load it.
    let export = format!("export LD_PRELOAD={library} INSIDE={place} OUTSIDE={planted}");
    assert_eq!(daemon.sh("s", &export).exit_code(), Some(0));
    assert!(!outside.exists() && !inside.exists());
    let answer = daemon.post("/v1/sessions/s/resume", &json!({"message": "go"}));
    println!("{}", answer.text());
    [outside.exists(), inside.exists()]
}

/// Otherwise the other tests could not fail.
#[test]
fn without_a_sandbox_a_library_writes_everywhere() {
    assert_eq!(left_by_an_agent(Settings::default()), [true, true]);
}

/// The program that enters a room had the session's environment and was linked with the loader's help: a library that an
/// agent named in `LD_PRELOAD` ran as the daemon's user, before there was a room or a fence.
#[test]
fn a_room_is_entered_before_a_library_of_the_session_runs() {
    assert_eq!(left_by_an_agent(users::settings("room")), [false, true]);
}

#[test]
fn a_fence_is_there_before_a_library_of_the_session_runs() {
    assert_eq!(left_by_an_agent(users::settings("fence")), [false, true]);
}

#[test]
fn a_library_of_an_agents_session_runs_as_its_user() {
    if users::is_possible() {
        assert_eq!(left_by_an_agent(users::settings("user")), [false, true]);
    }
}
