//! Real Redis servers for tests: one alone, and a primary with a replica and a Sentinel.

use crate::proxy::Proxy;
use crate::support::daemon::{free_port, signal};
use crate::support::{Daemon, Door, Settings};
use shellkeep_poll::{until, until_within};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// The host's token, the same on all nodes.
pub const TOKEN: &str = "the-same-on-all-nodes";

/// A server with its data in a temporary directory.
pub struct Redis {
    child: Child,
    pub address: SocketAddr,
    directory: TempDir,
    arguments: Vec<String>,
}

impl Redis {
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// A server with more settings.
    fn with(arguments: &[&str]) -> Self {
        let (directory, address) = (TempDir::new().expect("a temporary directory"), free_port());
        let arguments = arguments.iter().map(|&word| word.to_owned()).collect();
        let child = Self::spawn(address, &directory, &arguments);
        let redis = Self { child, address, directory, arguments };
        redis.wait();
        redis
    }

    fn spawn(address: SocketAddr, directory: &TempDir, arguments: &Vec<String>) -> Child {
        Command::new("redis-server")
            .args(["--port", &address.port().to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
            .arg(directory.path())
            .args(arguments)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed (Debian: redis-server)")
    }

    fn wait(&self) {
        until("redis-server answers", || (self.cli(&["PING"]).trim() == "PONG").then_some(()));
    }

    pub fn cli(&self, words: &[&str]) -> String {
        cli(self.address, words)
    }

    /// How often a command was called, by its name in small letters.
    pub fn calls(&self, command: &str) -> u64 {
        let (statistics, name) = (self.cli(&["INFO", "commandstats"]), format!("cmdstat_{command}:calls="));
        let calls = statistics.lines().find_map(|line| line.strip_prefix(&name)?.split(',').next());
        calls.map_or(0, |calls| calls.parse().expect("a number"))
    }

    /// Everything that is kept of a session, unpacked.
    pub fn records(&self, session: &str) -> String {
        let read = |key: &str| self.cli(&["--raw", "GET", &format!("sk:{{{session}}}:{key}")]);
        let log = self.cli(&["--raw", "LRANGE", &format!("sk:{{{session}}}:log"), "0", "-1"]);
        [read("base"), self.unpacked(&format!("sk:{{{session}}}:packed")), log, read("next")].concat()
    }

    /// How many records are packed at a key.
    pub fn packed(&self, key: &str) -> u64 {
        self.unpacked(key).lines().count() as u64
    }

    fn unpacked(&self, key: &str) -> String {
        let script = r#"redis-cli -p "$0" --raw GET "$1" | zcat 2>/dev/null"#;
        let port = self.address.port().to_string();
        let answer = Command::new("sh").args(["-c", script, &port, key]).output();
        String::from_utf8_lossy(&answer.expect("sh, redis-cli and zcat are installed").stdout).into_owned()
    }

    pub fn stop(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Starts it again, empty.
    pub fn restart(&mut self) {
        self.child = Self::spawn(self.address, &self.directory, &self.arguments);
        self.wait();
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn node(&self, name: &str) -> Daemon {
        node(name, &format!("redis://{}", self.address))
    }

    pub fn settings(&self, name: &str) -> Settings {
        settings(name, &format!("redis://{}", self.address))
    }

    /// A node that others reach through a proxy.
    pub fn node_behind(&self, proxy: &Proxy, name: &str) -> Daemon {
        let advertised = format!("http://{}", proxy.address);
        let daemon = Daemon::with(self.settings(name).env("SHELLKEEP_ADVERTISE", &advertised));
        if let Door::Tcp(address) = daemon.tcp_door() {
            proxy.lead_to(address);
        }
        daemon
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A node that shares a store.
pub fn node(name: &str, store: &str) -> Daemon {
    Daemon::with(settings(name, store))
}

pub fn settings(name: &str, store: &str) -> Settings {
    Settings::default().tcp().store(store).env("SHELLKEEP_NODE", name).env("SHELLKEEP_TOKEN", TOKEN)
}

fn cli(address: SocketAddr, words: &[&str]) -> String {
    let port = address.port().to_string();
    let answer = Command::new("redis-cli").args(["-p", &port]).args(words).output().expect("redis-cli is installed");
    String::from_utf8_lossy(&answer.stdout).into_owned()
}

/// A primary with a replica, and a Sentinel that promotes the replica when the primary is gone.
pub struct Failover {
    pub primary: Redis,
    pub replica: Redis,
    sentinel: Child,
    address: SocketAddr,
    _directory: TempDir,
}

impl Failover {
    pub fn start() -> Self {
        let primary = Redis::start();
        let port = primary.address.port().to_string();
        let replica = Redis::with(&["--replicaof", "127.0.0.1", &port]);
        let (directory, address) = (TempDir::new().expect("a temporary directory"), free_port());
        let file = directory.path().join("sentinel.conf");
        let settings = format!(
            "port {}\nbind 127.0.0.1\ndir {}\nsentinel monitor shared 127.0.0.1 {port} 1\n\
             sentinel down-after-milliseconds shared 1000\nsentinel failover-timeout shared 2000\n",
            address.port(),
            directory.path().display()
        );
        std::fs::write(&file, settings).expect("a file");
        let sentinel = Command::new("redis-sentinel").arg(&file).stdout(Stdio::null()).spawn();
        let sentinel = sentinel.expect("redis-sentinel is installed (Debian: redis-sentinel)");
        let failover = Self { primary, replica, sentinel, address, _directory: directory };
        until("the replica is in sync", || {
            failover.replica.cli(&["INFO", "replication"]).contains("master_link_status:up").then_some(())
        });
        until_within(Duration::from_secs(20), "the Sentinel knows the replica", || {
            let known = cli(failover.address, &["SENTINEL", "REPLICAS", "shared"]);
            known.contains(&failover.replica.address.port().to_string()).then_some(())
        });
        failover
    }

    /// The URL by which nodes find the primary, whichever server that is.
    pub fn url(&self) -> String {
        format!("redis+sentinel://{}/shared", self.address)
    }

    /// From now on the replica gets nothing of what the primary acknowledges.
    pub fn cut_replica(&self) {
        signal(self.replica.child.id(), "STOP");
        self.primary.cli(&["CLIENT", "KILL", "TYPE", "replica"]);
    }

    /// The primary dies, and the Sentinel promotes the replica.
    pub fn promote(&mut self) {
        self.primary.stop();
        signal(self.replica.child.id(), "CONT");
        until_within(Duration::from_secs(30), "the replica is the primary", || {
            self.replica.cli(&["ROLE"]).starts_with("master").then_some(())
        });
    }
}

impl Drop for Failover {
    fn drop(&mut self) {
        let _ = self.sentinel.kill();
        let _ = self.sentinel.wait();
    }
}
