//! Real database servers for tests: PostgreSQL and MariaDB, with their data in a temporary directory.

use crate::support::daemon::free_port;
use crate::support::skip;
use shellkeep_history::{Database, Value};
use shellkeep_poll::{attempt, until};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// How long a server may take until it accepts connections, with its files to be recovered.
const STARTED: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Postgres,
    Mariadb,
}

/// A running server with a database of its own.
pub struct Server {
    kind: Kind,
    programs: PathBuf,
    directory: TempDir,
    address: SocketAddr,
    child: Option<Child>,
}

impl Server {
    /// Starts one with an empty database; nothing if it is not installed, which is a failure in CI.
    pub fn start(kind: Kind) -> Option<Self> {
        let Some(programs) = programs(kind) else {
            skip(&format!("{kind:?} is not installed (Debian: postgresql, mariadb-server)"));
            return None;
        };
        let directory = TempDir::new().expect("a temporary directory");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        let data = directory.path().join("data");
        fs::create_dir(&data).expect("a directory");
        if let Some((user, group)) = owner(kind) {
            chown(&data, Some(user), Some(group)).expect("we are root");
        }
        let mut server = Self { kind, programs, directory, address: free_port(), child: None };
        server.make();
        server.restart();
        if kind == Kind::Mariadb {
            let mut all = shellkeep_history::open(&server.url_of("mysql")).expect("it answers");
            all.run("CREATE DATABASE history CHARACTER SET utf8mb4").expect("a database");
        }
        Some(server)
    }

    pub fn url(&self) -> String {
        self.url_of(if self.kind == Kind::Mariadb { "history" } else { "postgres" })
    }

    fn url_of(&self, database: &str) -> String {
        let port = self.address.port();
        match self.kind {
            Kind::Postgres => format!("postgres://postgres:not-checked@127.0.0.1:{port}/{database}"),
            Kind::Mariadb => format!("mysql://root@127.0.0.1:{port}/{database}"),
        }
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it runs");
            child.wait().expect("it ends");
        }
    }

    /// Starts it again. Processes that a killed server leaves may hold its files for a moment, so it is tried again.
    pub fn restart(&mut self) {
        self.kill();
        until("the server accepts connections", || {
            self.child = Some(self.command().spawn().expect("it is installed"));
            let answers = attempt(STARTED, || {
                let has_ended =
                    self.child.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|end| end.is_some()));
                if has_ended { Some(false) } else { shellkeep_history::open(&self.any_url()).ok().map(|_| true) }
            });
            (answers == Some(true)).then_some(())
        });
    }

    fn any_url(&self) -> String {
        self.url_of(if self.kind == Kind::Mariadb { "mysql" } else { "postgres" })
    }

    /// Asks for rows. A new connection each time: the server may have been killed.
    pub fn ask(&self, sql: &str) -> Vec<Vec<Value>> {
        self.connect().query(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}")).rows
    }

    /// The same, if the server answers and the tables are there.
    pub fn try_ask(&self, sql: &str) -> Option<Vec<Vec<Value>>> {
        Some(shellkeep_history::open(&self.url()).ok()?.query(sql, &[]).ok()?.rows)
    }

    pub fn connect(&self) -> Box<dyn Database> {
        shellkeep_history::open(&self.url()).expect("it answers")
    }

    /// The first value of the first row, as text.
    pub fn text(&self, sql: &str) -> String {
        match &self.ask(sql)[0][0] {
            Value::Int(number) => number.to_string(),
            value => value.as_str().map(str::to_owned).unwrap_or_else(|| format!("{value:?}")),
        }
    }

    /// Makes its files.
    fn make(&self) {
        let data = self.data();
        let mut command = self.program(if self.kind == Kind::Postgres { "initdb" } else { "mariadb-install-db" });
        match self.kind {
            Kind::Postgres => command.args(["-A", "trust", "-U", "postgres", "--no-sync", "-D"]).arg(&data),
            Kind::Mariadb => command
                .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"])
                .arg(format!("--datadir={}", data.display())),
        };
        let made = command.stdin(Stdio::null()).output().expect("it is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn command(&self) -> Command {
        let (data, port) = (self.data(), self.address.port().to_string());
        let mut command = self.program(if self.kind == Kind::Postgres { "postgres" } else { "mariadbd" });
        match self.kind {
            Kind::Postgres => command.args(["-p", &port, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]),
            Kind::Mariadb => command.args([
                "--no-defaults",
                "--bind-address=127.0.0.1",
                "--skip-grant-tables",
                "--max-allowed-packet=2M",
            ]),
        };
        match self.kind {
            Kind::Postgres => command.arg("-k").arg(&data).arg("-D").arg(&data),
            Kind::Mariadb => command
                .arg(format!("--port={port}"))
                .arg(format!("--datadir={}", data.display()))
                .arg(format!("--socket={}", data.join("s.sock").display()))
                .arg("--innodb-flush-log-at-trx-commit=2"),
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// A program of the server, as its own user if this is root.
    fn program(&self, name: &str) -> Command {
        let path = self.programs.join(name);
        let path = if path.exists() { path } else { PathBuf::from(name) };
        match owner(self.kind) {
            None => Command::new(path),
            Some((user, group)) => {
                let mut command = Command::new("setpriv");
                let ids = [format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned()];
                command.args(ids).arg(path).current_dir(self.directory.path());
                command
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Where a server's programs are.
fn programs(kind: Kind) -> Option<PathBuf> {
    let usual = match kind {
        Kind::Postgres => {
            let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
            versions.map(|version| version.path().join("bin")).max()
        }
        Kind::Mariadb => Some(PathBuf::from("/usr/sbin")),
    };
    let name = if kind == Kind::Postgres { "postgres" } else { "mariadbd" };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = usual.into_iter().chain(std::env::split_paths(&path));
    places.into_iter().find(|place| place.join(name).is_file())
}

/// The user and group that a server runs as, if this is root: servers refuse to run as root.
fn owner(kind: Kind) -> Option<(u32, u32)> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let name = if kind == Kind::Postgres { "postgres" } else { "mysql" };
    is_root.then(|| account(Path::new("/etc/passwd"), name).expect("its package makes a user"))
}

fn account(passwd: &Path, name: &str) -> Option<(u32, u32)> {
    let text = fs::read_to_string(passwd).ok()?;
    let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
    let line = text.lines().map(fields).find(|fields| fields.first().is_some_and(|first| first == name))?;
    Some((line.get(2)?.parse().ok()?, line.get(3)?.parse().ok()?))
}
