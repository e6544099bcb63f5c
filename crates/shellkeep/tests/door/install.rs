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
