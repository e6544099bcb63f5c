//! Ignore rules without end: they have a budget, and it is said which are not applied. With `SHELLKEEP_SOAK` there are as
//! many as once took 1.4 GB.

use super::support::Daemon;
use super::tools::{Files, seq};
use serde_json::json;

/// Megabytes that the daemon holds.
fn resident(daemon: &Daemon) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

#[test]
fn many_rules_in_many_directories_take_little_memory_and_are_told() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "true");
    let rules: String = (0..1000).map(|n| format!("ignored-{n}.c\n")).collect();
    let soak = std::env::var("SHELLKEEP_SOAK").is_ok_and(|soak| soak != "1");
    let directories = if soak { 2500 } else { 300 };
    for directory in 0..directories {
        let place = daemon.cwd("s").join(format!("d{directory:04}"));
        std::fs::create_dir(&place).unwrap();
        std::fs::write(place.join(".gitignore"), &rules).unwrap();
        std::fs::write(place.join("ignored-1.c"), "x").unwrap();
    }
    daemon.sh("s", "echo one > a");
    let early = seq(&daemon, "s");
    daemon.checkpoints("s");
    let told = daemon.sh("s", "echo two > a");
    let notices = told.json["notices"].to_string();
    assert!(notices.contains("ignore files are not applied") && notices.contains("d0020/.gitignore"), "{notices}");
    // The first ones are applied; what others name is kept.
    let of = |path: &str| daemon.at("s", &format!("checkpoints/latest/file?path={path}")).status;
    daemon.checkpoints("s");
    assert_eq!((of("d0000/ignored-1.c"), of("d0200/ignored-1.c"), of("d0000/.gitignore")), (404, 200, 200));
    daemon.rewind_to("s", json!(early));
    let held = resident(&daemon);
    assert!(held < 256, "{held} MiB");
    assert_eq!(daemon.sh("s", "cat a; ls d*/ignored-1.c | wc -l").out(), format!("one\n{directories}\n"));
}
