//! `git clone` by SSH at every rung: from a server on this machine, which a room reaches by its name on the list, with the
//! true key of the host.

use crate::support::{Daemon, Settings, daemon::free_port};
use rustix::process::geteuid;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const SSHD: &str = "/usr/sbin/sshd";
/// The name of the server in rooms.
const NAME: &str = "git.test";
/// A server of root needs a directory that only root makes. Nothing of it is seen outside.
const AS_ROOT: &str = "mount -t tmpfs none /run && mkdir /run/sshd && exec \"$0\" \"$@\"";

/// A server with a repository that ends with the test.
struct Server {
    server: Child,
    files: TempDir,
    port: u16,
}

impl Server {
    /// None if this machine has no such program.
    fn start() -> Option<Self> {
        if !Path::new(SSHD).exists() {
            crate::support::skip("there is no sshd; install openssh-server");
            return None;
        }
        let (files, port) = (tempfile::tempdir().unwrap(), free_port().port());
        let at = |name: &str| files.path().join(name).display().to_string();
        for key in ["host", "user"] {
            done(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &at(key)]));
        }
        let mut config = String::new();
        for (name, value) in [
            ("Port", port.to_string()),
            ("ListenAddress", "127.0.0.1".to_owned()),
            ("HostKey", at("host")),
            ("AuthorizedKeysFile", at("user.pub")),
            ("PidFile", "none".to_owned()),
            ("StrictModes", "no".to_owned()),
            ("UsePAM", "no".to_owned()),
            ("PasswordAuthentication", "no".to_owned()),
        ] {
            writeln!(config, "{name} {value}").unwrap();
        }
        std::fs::write(at("config"), config).unwrap();
        let make = "git init -q --bare repo.git && git clone -q repo.git w 2> /dev/null && cd w && git config user.email e && \
                    git config user.name n && echo cloned > f && git add f && git commit -qm m && git push -q origin HEAD";
        done(Command::new("bash").args(["-c", make]).current_dir(files.path()));
        let mut command = if geteuid().is_root() {
            let mut command = Command::new("unshare");
            command.args(["-m", "sh", "-c", AS_ROOT, SSHD]);
            command
        } else {
            Command::new(SSHD)
        };
        let command = command.args(["-D", "-e", "-f", &at("config")]).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut server = command.spawn().unwrap();
        let mut log = BufReader::new(server.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("Server listening") {
            line.clear();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "the server did not start");
        }
        // Whatever it says later must not stop it.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Some(Self { server, files, port })
    }

    /// Gives a session the key, and what the server's own key is for a host.
    fn introduce(&self, host: &str, workspace: &Path) {
        let read = |name: &str| std::fs::read_to_string(self.files.path().join(name)).unwrap();
        std::fs::copy(self.files.path().join("user"), workspace.join("key")).unwrap();
        let key = read("host.pub");
        let key: Vec<&str> = key.split(' ').take(2).collect();
        std::fs::write(workspace.join("known"), format!("[{host}]:{} {}\n", self.port, key.join(" "))).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn done(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

fn a_repository_is_cloned(sandbox: &str, host: &str) {
    let Some(server) = Server::start() else { return };
    let hosts = format!("{NAME}:{}=127.0.0.1", server.port);
    let daemon = Daemon::with(Settings::default().set("--sandbox", sandbox).set("--sandbox-hosts", &hosts));
    daemon.create("w");
    server.introduce(host, &daemon.cwd("w"));
    let ssh = "export GIT_SSH_COMMAND=\"ssh -F none -i $PWD/key -o UserKnownHostsFile=$PWD/known -o BatchMode=yes -o \
               StrictHostKeyChecking=yes\"";
    assert_eq!(daemon.sh("w", ssh).exit_code(), Some(0));
    let user = Command::new("id").arg("-un").output().unwrap().stdout;
    let user = String::from_utf8(user).unwrap().trim().to_owned();
    let clone = |host: &str, into: &str| {
        let url = format!("ssh://{user}@{host}:{}{}/repo.git", server.port, server.files.path().display());
        daemon.sh("w", &format!("git clone -q {url} {into} && cat {into}/f"))
    };
    let cloned = clone(host, "a");
    assert_eq!(cloned.out(), "cloned\n", "{sandbox}: {:?}", cloned.json);
    if sandbox == "room" {
        let refused = clone("other.test", "b");
        assert_eq!((refused.out().as_str(), refused.exit_code()), ("", Some(128)), "{:?}", refused.json);
        assert!(refused.json["notices"].to_string().contains("other.test"), "{:?}", refused.json);
    }
}

#[test]
fn a_repository_is_cloned_without_a_sandbox() {
    a_repository_is_cloned("none", "127.0.0.1");
}

#[test]
fn a_repository_is_cloned_behind_a_fence() {
    a_repository_is_cloned("fence", "127.0.0.1");
}

#[test]
fn a_repository_is_cloned_in_a_room() {
    a_repository_is_cloned("room", NAME);
}
