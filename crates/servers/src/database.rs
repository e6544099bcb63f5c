//! PostgreSQL and MariaDB.

use crate::process::{ServerProcess, free_port};
use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs, io};

/// How long a server may take until it accepts connections, with its files to be recovered.
const STARTED: Duration = Duration::from_secs(60);

/// What a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    Mariadb,
}

impl Kind {
    /// The user that its package makes.
    fn account(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mariadb => "mysql",
        }
    }

    /// The server itself, and the program that makes its files.
    fn programs(self) -> Option<Programs> {
        let (usual, server, maker) = match self {
            Self::Postgres => {
                let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
                (versions.map(|version| version.path().join("bin")).max(), "postgres", "initdb")
            }
            Self::Mariadb => (Some(PathBuf::from("/usr/sbin")), "mariadbd", "mariadb-install-db"),
        };
        let path = env::var_os("PATH").unwrap_or_default();
        let places: Vec<PathBuf> = usual.into_iter().chain(env::split_paths(&path)).collect();
        let find = |name: &str| places.iter().map(|place| place.join(name)).find(|program| program.is_file());
        Some(Programs { server: find(server)?, maker: find(maker)? })
    }
}

#[derive(Debug)]
struct Programs {
    server: PathBuf,
    maker: PathBuf,
}

/// A running server with an empty database of its own. It does not wait for the disk: a kill loses nothing, a power failure
/// would.
#[derive(Debug)]
pub struct DatabaseServer {
    kind: Kind,
    server: PathBuf,
    process: ServerProcess,
    address: SocketAddr,
}

impl DatabaseServer {
    /// Starts one; nothing if it is not installed.
    pub fn start(kind: Kind) -> io::Result<Option<Self>> {
        let Some(Programs { server, maker }) = kind.programs() else { return Ok(None) };
        let process = ServerProcess::new(kind.account())?;
        let mut server = Self { kind, server, process, address: free_port()? };
        server.make(&maker)?;
        server.restart()?;
        if kind == Kind::Mariadb {
            let mut all = shellkeep_history::open(&server.url_of("mysql")).map_err(io::Error::other)?;
            all.run("CREATE DATABASE history CHARACTER SET utf8mb4").map_err(io::Error::other)?;
        }
        Ok(Some(server))
    }

    /// The URL of its database.
    pub fn url(&self) -> String {
        self.url_of(match self.kind {
            Kind::Postgres => "postgres",
            Kind::Mariadb => "history",
        })
    }

    fn url_of(&self, database: &str) -> String {
        let port = self.address.port();
        match self.kind {
            Kind::Postgres => format!("postgres://postgres:not-checked@127.0.0.1:{port}/{database}"),
            Kind::Mariadb => format!("mysql://root@127.0.0.1:{port}/{database}"),
        }
    }

    /// Takes connections with TLS too, from its next start on; PostgreSQL only. `certificate` and `key` are PEM files.
    pub fn use_tls(&self, certificate: &Path, key: &Path) -> io::Result<()> {
        for (from, name) in [(certificate, "server.crt"), (key, "server.key")] {
            let to = self.data().join(name);
            fs::copy(from, &to)?;
            fs::set_permissions(&to, Permissions::from_mode(0o600))?;
            self.process.give(&to)?;
        }
        let settings = self.data().join("postgresql.auto.conf");
        fs::write(&settings, "ssl = on\n")?;
        self.process.give(&settings)
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.kill()
    }

    /// Starts it again, after killing it if it runs.
    pub fn restart(&mut self) -> io::Result<()> {
        let any = self.url_of(match self.kind {
            Kind::Postgres => "postgres",
            Kind::Mariadb => "mysql",
        });
        self.process.start(STARTED, self.command(), || shellkeep_history::open(&any).is_ok())
    }

    fn data(&self) -> PathBuf {
        self.process.home().join("data")
    }

    /// Makes its files.
    fn make(&self, maker: &Path) -> io::Result<()> {
        let mut command = self.process.program(maker);
        match self.kind {
            Kind::Postgres => command.args(["-A", "trust", "-U", "postgres", "--no-sync", "-D"]).arg(self.data()),
            Kind::Mariadb => command
                .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"])
                .arg(format!("--datadir={}", self.data().display())),
        };
        let made = command.output()?;
        match made.status.success() {
            true => Ok(()),
            false => Err(io::Error::other(format!("{command:?}: {}", String::from_utf8_lossy(&made.stderr)))),
        }
    }

    fn command(&self) -> Command {
        let (data, port) = (self.data(), self.address.port().to_string());
        let mut command = self.process.program(&self.server);
        match self.kind {
            Kind::Postgres => command
                .args(["-p", &port, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-k"])
                .arg(self.process.home())
                .arg("-D")
                .arg(&data),
            Kind::Mariadb => command
                .args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-grant-tables", "--max-allowed-packet=2M"])
                .args(["--innodb-flush-log-at-trx-commit=2", &format!("--port={port}")])
                .arg(format!("--datadir={}", data.display()))
                .arg(format!("--socket={}", self.process.home().join("s.sock").display())),
        };
        command
    }
}
