//! The harness of the end-to-end tests: starts the built program, talks to it over its doors, ends it for certain.
#![allow(dead_code, unused_imports, reason = "each test binary compiles this module and uses its own part of it")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

pub mod agent;
pub mod bash;
pub mod daemon;
pub mod gap;
pub mod groups;
pub mod http;
pub mod procs;
pub mod reply;
pub mod services;

pub use agent::Agent;
pub use daemon::{Daemon, Settings};
pub use http::{Door, Request, Response, is};
pub use reply::Reply;

use std::path::{Path, PathBuf};

/// Says that a test cannot run here. In CI that is a failure: what is never run shows nothing.
pub fn skip(reason: &str) {
    assert!(std::env::var_os("CI").is_none(), "this test cannot run: {reason}");
    eprintln!("skipped: {reason}");
}

/// Where the tools are that `make NAME` fetches into `target/NAME`; `None`, with the reason printed, where they cannot be
/// had.
pub fn tools(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a crate is in a workspace");
    let home = root.join("target").join(name);
    if home.join("installed").exists() {
        return Some(home);
    }
    let reason = std::fs::read_to_string(home.join("unavailable")).ok();
    match reason {
        Some(reason) if std::env::var_os("CI").is_none() => {
            eprintln!("skipped: {}", reason.trim());
            None
        }
        reason => panic!(
            "target/{name} is missing ({}); `make {name}` fetches it",
            reason.as_deref().unwrap_or("not fetched yet").trim()
        ),
    }
}

/// Settings with which the kernel lets the daemon's user have no inotify instance, as when sessions have taken all; `None`, with
/// the reason printed, where that cannot be had.
pub fn without_inotify() -> Option<Settings> {
    let none = r#"echo 0 >/proc/sys/user/max_inotify_instances && exec "$0" "$@""#;
    let wrapper = ["unshare", "--user", "--map-root-user", "sh", "-c", none].map(str::to_owned);
    let can = std::process::Command::new(&wrapper[0]).args(&wrapper[1..]).arg("true").output().expect("it runs");
    if !can.status.success() {
        skip("user namespaces cannot be had here");
        return None;
    }
    Some(Settings { wrapper: wrapper.into(), ..Settings::default() })
}

/// How many times as often a test does what it repeats: 1, or what `SHELLKEEP_SOAK` says.
pub fn soak() -> usize {
    std::env::var("SHELLKEEP_SOAK").ok().and_then(|text| text.parse().ok()).unwrap_or(1).max(1)
}
