//! What of the daemon a process of a session can see or change, and with what it is started.

use crate::support::{Agent, Daemon, Settings, bash, skip};
use serde_json::json;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Somebody who is not root and owns nothing.
const NOBODY: u32 = 65534;

/// Opens every sealed object of the daemon through `/proc` and tries to change it. Prints how many were found and how
/// many could be changed.
const CHANGE_OBJECTS: &str = r#"python3 - $PPID <<'EOF'
import fcntl, mmap, os, sys
found, changed = 0, []
fds = f"/proc/{sys.argv[1]}/fd"
for name in os.listdir(fds):
    link = os.readlink(f"{fds}/{name}")
    if "memfd:shellkeep" not in link:
        continue
    found += 1
    for attempt in ("write", "truncate", "map"):
        try:
            fd = os.open(f"{fds}/{name}", os.O_RDWR)
            if attempt == "write":
                os.write(fd, b"x")
            elif attempt == "truncate":
                os.ftruncate(fd, 0)
            else:
                mmap.mmap(fd, 4096, mmap.MAP_SHARED, mmap.PROT_WRITE)
            changed.append(attempt)
        except OSError:
            pass
    if os.stat(f"{fds}/{name}").st_mode & 0o077:
        changed.append("mode")
print(found, changed)
EOF"#;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).mode() & 0o777
}

/// The driver was one unsealed file for all shells: what one agent wrote into it ran in the next agent's shell.
#[test]
fn what_all_shells_load_cannot_be_changed_from_one() {
    let daemon = Daemon::start();
    daemon.create("a");
    // The driver and the program of rooms are there from the start; the first service has the keeper written.
    daemon.start_service("a", json!({"command": "sleep 1000"}));
    let tried = daemon.sh("a", CHANGE_OBJECTS);
    assert_eq!(tried.out(), "3 []\n", "{:?}", tried.json);
    daemon.create("b");
    assert_eq!(daemon.sh("b", "echo well").out(), "well\n");
}

/// As root it could be read whatever the daemon did, so it must not be there; others cannot read it at all.
#[test]
fn the_hosts_token_is_not_in_the_daemons_environment() {
    let secret = "a-token-that-nobody-else-has";
    let daemon = Daemon::with(Settings::default().tcp().env("SHELLKEEP_TOKEN", secret));
    daemon.create("a");
    let seen = daemon.sh("a", "env; tr '\\0' '\\n' < /proc/$PPID/environ");
    assert!(seen.out().contains("SHELLKEEP_TOKEN=\n") && !seen.out().contains(secret), "{}", seen.out());
    let request =
        crate::support::Request::new("GET", "/v1/sessions").header("authorization", &format!("Bearer {secret}"));
    assert_eq!(request.send(&daemon.tcp_door()).unwrap().status, 200);
}

/// What starts a program as a plain user who owns this directory, if this test may do that.
pub fn plain_user(directory: &TempDir) -> Option<Vec<String>> {
    let wrapper: Vec<String> =
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"].map(str::to_owned).into();
    let mut may = Command::new(&wrapper[0]);
    may.args(&wrapper[1..]).arg(env!("CARGO_BIN_EXE_shellkeep")).arg("--version");
    let may = may.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if !may || std::os::unix::fs::chown(directory.path(), Some(NOBODY), Some(NOBODY)).is_err() {
        skip("this user may not start a daemon as another");
        return None;
    }
    Some(wrapper)
}

/// A plain user's daemon, if this test may start one.
fn plain_daemon() -> Option<Daemon> {
    let directory = tempfile::Builder::new().prefix("shellkeep-test-").tempdir().unwrap();
    let wrapper = plain_user(&directory)?;
    let settings = Settings { wrapper, ..Settings::default() };
    Some(Daemon::on(directory, settings.env("SHELLKEEP_TOKEN", "a-token-of-a-plain-user")))
}

/// Its memory, environment and descriptors were open to every process of the same user.
#[test]
fn a_plain_users_daemon_cannot_be_read_from_its_sessions() {
    let Some(daemon) = plain_daemon() else { return };
    daemon.create("a");
    for file in ["environ", "mem", "maps"] {
        let read = daemon.sh("a", &format!("id -u; head -c 1 /proc/$PPID/{file}"));
        assert!(read.out().starts_with("65534\n") && read.exit_code() != Some(0), "{file}: {:?}", read.json);
    }
    assert_ne!(daemon.sh("a", "ls /proc/$PPID/fd").exit_code(), Some(0));
    // What the daemon does for sessions needs nothing of that.
    daemon.start_service("a", json!({"command": "echo up; sleep 1000"}));
    assert_eq!(
        daemon.sh("a", "cat <(echo one) < /dev/null; readlink /proc/$$/exe > /dev/null && echo two").out(),
        "one\ntwo\n"
    );
    let checkpoint = daemon.post("/v1/sessions/a/checkpoints", &json!({}));
    assert!(checkpoint.status < 300, "{}", checkpoint.text());
}

/// A daemon started with another umask made its database for everybody to read.
#[test]
fn what_the_daemon_makes_is_private_and_what_sessions_make_is_as_they_say() {
    let wrapper = ["sh", "-c", "umask 022; exec \"$@\"", "sh"].map(str::to_owned).into();
    let daemon = Daemon::with(Settings { wrapper, ..Settings::default() });
    daemon.create("a");
    let made = daemon.sh("a", "umask; touch file; mkdir directory; stat -c %a file directory; seq 200000");
    assert!(made.out().starts_with("0022\n644\n755\n1\n"), "{}", &made.out()[..40]);
    let service = daemon.start_service("a", json!({"command": "umask", "ready": {"log": "0022"}, "wait": 20}));
    assert!(service["service_id"].is_string(), "{service}");
    let data = daemon.data();
    for entry in fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path) & 0o077, 0, "{} is open to others", path.display());
    }
    for entry in fs::read_dir(data.join("outputs/a")).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()) & 0o077, 0);
    }
    // A rewind brings files back as they were, not as the daemon would make them.
    let seq = daemon.get("/v1/sessions/a").json()["seq"].clone();
    daemon.sh("a", "rm -r file directory");
    let rewound = daemon.post("/v1/sessions/a/rewind", &json!({"to": seq, "services": "stop"}));
    assert_eq!(rewound.status, 200, "{}", rewound.text());
    assert_eq!(daemon.sh("a", "stat -c %a file").out(), "644\n");
}

#[test]
fn a_directory_that_was_open_is_closed_and_one_of_others_is_refused() {
    let directory = tempfile::Builder::new().prefix("shellkeep-test-").tempdir().unwrap();
    let data = directory.path().join("data");
    fs::create_dir_all(data.join("workspaces")).unwrap();
    fs::write(data.join("quotas.json"), "{}").unwrap();
    for path in [data.clone(), data.join("workspaces")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::set_permissions(data.join("quotas.json"), fs::Permissions::from_mode(0o644)).unwrap();
    let daemon = Daemon::on(directory, Settings::default());
    assert_eq!((mode(&data), mode(&data.join("workspaces")), mode(&data.join("quotas.json"))), (0o700, 0o700, 0o600));
    assert!(daemon.log().contains("was open to other users"), "{}", daemon.log());
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("thesis.tex"), "").unwrap();
    fs::set_permissions(elsewhere.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let refused = serve(elsewhere.path(), &[]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("chmod 700"), "{said}");
    assert_eq!(mode(elsewhere.path()), 0o755);
}

/// Tries to start a daemon that should refuse to.
fn serve(data: &Path, env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.env_clear().envs(bash::environment()).envs(env.iter().copied()).args(["serve", "--no-listen", "--data"]);
    command.arg(data).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_token_that_can_be_guessed_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let refused = serve(&data, &[("SHELLKEEP_TOKEN", "x")]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("at least 16 characters"), "{said}");
    assert!(!said.contains("'x'"), "{said}");
    fs::write(data.join("token"), "abc\n").unwrap();
    let refused = serve(&data, &[]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("delete the file"), "{said}");
}

/// Descriptors that a supervisor left open in the daemon were open in resumed agents.
#[test]
fn nothing_that_the_daemon_inherited_is_open_in_what_it_starts() {
    let wrapper = ["bash", "-c", "exec 9</etc/passwd; exec \"$@\"", "bash"].map(str::to_owned).into();
    let daemon = Daemon::with(Settings { wrapper, ..Settings::default() });
    let listing = daemon.directory().join("listing");
    let program = format!("ls -l /proc/self/fd > {}; exit 1", listing.display());
    daemon.create_with(json!({"session_id": "a", "config": {"agent": {"command": ["sh", "-c", program]}}}));
    daemon.post("/v1/sessions/a/resume", &json!({"message": "hello", "timeout": 20}));
    let agent = fs::read_to_string(&listing).unwrap();
    let shell = daemon.sh("a", "ls -l /proc/self/fd /proc/$$/fd").out();
    let service = daemon.start_service(
        "a",
        json!({"command": "ls -l /proc/self/fd; echo listed", "ready": {"log": "listed"}, "wait": 20}),
    );
    let service = daemon.service_log("a", service["service_id"].as_str().unwrap());
    for (who, open) in [("agent", agent), ("shell", shell), ("service", service)] {
        assert!(open.contains(" 0 -> ") && !open.contains("passwd"), "{who}: {open}");
    }
}

/// Whether another agent has a session of some name could be asked with a `cwd` in its workspace.
#[test]
fn no_agent_is_told_what_is_in_the_data_directory() {
    let daemon = Daemon::start();
    daemon.create("victim");
    let agent = Agent::named(&daemon, "ann");
    let own = agent.create("own");
    let workspaces = daemon.data().join("workspaces");
    let place = tempfile::tempdir().unwrap();
    let link = place.path().join("link");
    std::os::unix::fs::symlink(&workspaces, &link).unwrap();
    let ask = |name: &str, cwd: &Path| agent.post("/v1/sessions", &json!({"session_id": name, "cwd": cwd}));
    let mut told = Vec::new();
    for directory in [&workspaces, &link] {
        for name in ["victim", "nosuch", "../records", "../nosuch", "../token"] {
            let cwd = directory.join(name);
            let answer = ask("new", &cwd);
            assert_eq!(answer.status, 400, "{}", answer.text());
            let answer = answer.json();
            assert_eq!(answer["code"], "bad_cwd", "{answer}");
            // The path is the caller's own, in the form that a shell gives it.
            let text = answer["detail"].as_str().unwrap();
            told.push(text.split_once("': ").unwrap().1.to_owned());
        }
    }
    told.dedup();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(ask("beside", &workspaces.join(&own)).status, 201, "the agent's own");
    assert_eq!(ask("elsewhere", place.path()).status, 201);
    assert_eq!(daemon.post("/v1/sessions", &json!({"cwd": workspaces.join("victim")})).status, 201, "the host may");
}
