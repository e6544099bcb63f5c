//! Package managers work at every rung: from a registry on this machine, which a room reaches by its name on the list.

use crate::support::{Daemon, Settings};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The name of the registry in rooms.
const NAME: &str = "packages.test";

/// A registry that ends with the test.
struct Registry {
    server: Child,
    base: String,
    port: String,
    _files: tempfile::TempDir,
}

impl Registry {
    /// One that its clients know by this host.
    fn start(host: &str) -> Self {
        let files = tempfile::tempdir().unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/door/registry.py");
        let base = format!("http://{host}:PORT");
        let mut server = Command::new("/usr/bin/python3")
            .args([script, files.path().to_str().unwrap(), &base])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let port = port.trim().to_owned();
        Self { server, base: base.replace("PORT", &port), port, _files: files }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The first line that a program prints.
fn line_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().next().unwrap_or_default().to_owned()
}

fn packages_are_installed(sandbox: &str, host: &str) {
    let registry = Registry::start(host);
    // The toolchain by its own path: its proxy would look for settings in the user's home.
    let toolchain = line_of("rustc", &["--print", "sysroot"]);
    let python = line_of("python3", &["-c", "import sys; print(sys.base_prefix)"]);
    let node = PathBuf::from(line_of("sh", &["-c", "command -v node"]));
    let node = node.parent().unwrap().display();
    let directory = tempfile::Builder::new().prefix("shellkeep-test-").tempdir().unwrap();
    let home = directory.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let settings = Settings::default()
        .set("--sandbox", sandbox)
        .set("--sandbox-hosts", &format!("{NAME}:{}=127.0.0.1", registry.port))
        .set("--sandbox-read", &format!("{python},{toolchain}"))
        .env("HOME", home.to_str().unwrap())
        .env("PATH", &format!("{python}/bin:{toolchain}/bin:{node}:/usr/bin:/bin"));
    let daemon = Daemon::on(directory, settings);
    daemon.create("w");
    let base = &registry.base;
    let trusted = if host == NAME { NAME } else { "127.0.0.1" };
    let config = format!(
        "[source.crates-io]\nreplace-with = \"here\"\n[source.here]\nregistry = \"sparse+{base}/cargo/index/\"\n"
    );
    for (command, expected) in [
        (
            format!(
                "python3 -m pip install -q --disable-pip-version-check --no-input --index-url {base}/pip --trusted-host \
                 {trusted} --target p hello 2> /dev/null && PYTHONPATH=p python3 -m hello"
            ),
            "hello from pip\n",
        ),
        (
            format!(
                "npm install --silent --no-audit --no-fund --registry {base}/npm/ hello > /dev/null && node -e 'require(\"hello\")'"
            ),
            "hello from npm\n",
        ),
        (
            format!(
                "mkdir -p ~/.cargo c/src && printf '%s' '{config}' > ~/.cargo/config.toml && cd c && printf '%s' \
                 'fn main() {{ println!(\"{{}}\", hello::hello()); }}' > src/main.rs && printf '%s' '[package]\nname = \
                 \"c\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nhello = \"1\"\n' > Cargo.toml && \
                 CARGO_HOME=~/.cargo cargo run -q"
            ),
            "hello from cargo\n",
        ),
    ] {
        let run = daemon.run("w", serde_json::json!({"command": command, "timeout": 120}));
        assert_eq!(run.out(), expected, "{sandbox}: {command}: {:?}", run.json);
    }
}

#[test]
fn packages_are_installed_without_a_sandbox() {
    packages_are_installed("none", "127.0.0.1");
}

#[test]
fn packages_are_installed_behind_a_fence() {
    packages_are_installed("fence", "127.0.0.1");
}

#[test]
fn packages_are_installed_in_a_room_from_a_listed_host() {
    packages_are_installed("room", NAME);
}
