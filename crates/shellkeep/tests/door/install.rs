//! What is installed: the program, its completions and man pages, and the systemd unit.

use crate::support::skip;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn works(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn everything_is_put_in_its_place() {
    let room = tempfile::tempdir().unwrap();
    works(Command::new(tree().join("deploy/stage.sh")).arg(env!("CARGO_BIN_EXE_shellkeep")).arg(room.path()));
    let program = room.path().join("bin/shellkeep");
    let version = works(Command::new(&program).arg("--version"));
    assert_eq!(version, format!("shellkeep {}\n", env!("CARGO_PKG_VERSION")));
    let share = room.path().join("share");
    works(Command::new("bash").arg("-n").arg(share.join("bash-completion/completions/shellkeep")));
    for file in [
        "zsh/site-functions/_shellkeep",
        "fish/vendor_completions.d/shellkeep.fish",
        "doc/shellkeep/operate.md",
        "doc/shellkeep/LICENSE-MIT",
        "shellkeep/shellkeep.service",
        "shellkeep/grafana.json",
    ] {
        assert!(fs::metadata(share.join(file)).unwrap().len() > 100, "{file}");
    }
    let page = fs::read_to_string(share.join("man/man1/shellkeep.1")).unwrap();
    assert!(page.contains(".TH shellkeep 1"), "{page}");
    for command in ["run", "status", "stop", "tokens"] {
        assert!(fs::metadata(share.join(format!("man/man1/shellkeep-{command}.1"))).is_ok(), "{command}");
    }
}

/// An instruction of a container file: its name, and the rest with its lines joined.
fn instructions(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#') && !line.trim().is_empty());
    let mut found: Vec<(String, String)> = Vec::new();
    let mut goes_on = false;
    for line in lines {
        let (part, more) = line.strip_suffix('\\').map_or((line, false), |part| (part, true));
        match found.last_mut() {
            Some((_, rest)) if goes_on => *rest += part,
            _ => {
                let (name, rest) = part.split_once(' ').unwrap_or((part, ""));
                found.push((name.to_owned(), rest.to_owned()));
            }
        }
        goes_on = more;
    }
    assert!(!goes_on, "the last line goes on");
    found
}

#[test]
fn the_container_file_is_right() {
    let text = fs::read_to_string(tree().join("deploy/container/Containerfile")).unwrap();
    let instructions = instructions(&text);
    let of = |name: &str| -> Vec<&str> {
        instructions.iter().filter(|(found, _)| found == name).map(|(_, rest)| rest.as_str()).collect()
    };
    for (name, rest) in &instructions {
        match name.as_str() {
            "RUN" => drop(works(Command::new("bash").arg("-nc").arg(rest))),
            "CMD" | "ENTRYPOINT" => drop(serde_json::from_str::<Vec<String>>(rest).unwrap()),
            "HEALTHCHECK" => {
                let (options, command) = rest.split_once(" CMD ").expect("a command");
                assert!(options.split(' ').all(|option| option.starts_with("--")), "{options}");
                serde_json::from_str::<Vec<String>>(command).unwrap();
            }
            "FROM" | "COPY" | "WORKDIR" | "ENV" | "USER" | "VOLUME" | "EXPOSE" | "STOPSIGNAL" => {}
            other => panic!("no instruction: {other} {rest}"),
        }
    }
    let stages = of("FROM");
    assert!(stages.len() == 2 && stages[0].ends_with(" AS build"), "{stages:?}");
    assert!(of("COPY").contains(&"--from=build /stage /usr/local"), "only what is installed goes into the image");
    assert_eq!(of("USER"), ["shellkeep"], "sessions do not run as root");
    let commands = of("RUN").join("\n");
    assert!(commands.contains("useradd --system --uid 10001") && commands.contains("deploy/stage.sh"), "{commands}");
    // What the image runs, the program takes: settings are checked without a daemon.
    let room = tempfile::tempdir().unwrap();
    let mut command: Vec<String> = serde_json::from_str(of("CMD")[0]).unwrap();
    assert_eq!(command.remove(0), "serve");
    let mut check = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    works(check.arg("config").arg("--check").args(command).env("SHELLKEEP_DATA", room.path()));
}

#[test]
fn systemd_takes_the_unit() {
    let unit = fs::read_to_string(tree().join("deploy/systemd/shellkeep.service")).unwrap();
    let unit = unit.replace("/usr/local/bin/shellkeep", env!("CARGO_BIN_EXE_shellkeep"));
    let room = tempfile::tempdir().unwrap();
    let file = room.path().join("shellkeep.service");
    fs::write(&file, unit).unwrap();
    let verified = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output();
    let Ok(verified) = verified else { return skip("systemd-analyze is not installed") };
    assert!(verified.status.success() && verified.stderr.is_empty(), "{verified:?}");
}
