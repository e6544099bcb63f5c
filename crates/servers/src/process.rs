//! A server process.

use shellkeep_poll::attempt;
use std::fs::{self, File, Permissions};
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A port that nobody else gets: below those that the kernel gives to connections, and reserved among the tests by a
/// datagram socket that lives as long as this process.
pub fn free_port() -> io::Result<SocketAddr> {
    const PORTS: std::ops::Range<u16> = 10_000..32_000;
    let start = std::process::id() as usize * 89 % PORTS.len();
    let mut ports = PORTS.cycle().skip(start).take(PORTS.len()).map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let free = ports.find(|address| {
        let Ok(reservation) = UdpSocket::bind(address) else { return false };
        let is_free = TcpListener::bind(address).is_ok();
        if is_free {
            std::mem::forget(reservation);
        }
        is_free
    });
    free.ok_or_else(|| io::Error::other("no port is free"))
}

/// User and group.
#[derive(Debug, Clone, Copy)]
struct Ids {
    user: u32,
    group: u32,
}

/// A server process with its files in a temporary directory. Under root it runs as the user that its package makes, because
/// servers refuse to run as root. Dropping it kills it.
#[derive(Debug)]
pub struct ServerProcess {
    directory: TempDir,
    ids: Option<Ids>,
    child: Option<Child>,
}

impl ServerProcess {
    /// Makes the directory; nothing runs yet.
    pub fn new(account: &str) -> io::Result<Self> {
        let is_root = fs::metadata("/proc/self")?.uid() == 0;
        let ids = if is_root { Some(ids(account)?) } else { None };
        let process = Self { directory: TempDir::new()?, ids, child: None };
        fs::set_permissions(process.directory.path(), Permissions::from_mode(0o755))?;
        for directory in [process.home(), process.temporary()] {
            fs::create_dir(&directory)?;
            process.give(&directory)?;
        }
        Ok(process)
    }

    /// The directory for its files.
    pub fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    /// The directory for its temporary files: servers that share one may remove each other's.
    fn temporary(&self) -> PathBuf {
        self.directory.path().join("tmp")
    }

    fn output(&self) -> PathBuf {
        self.directory.path().join("output")
    }

    /// Makes a file or directory the server's own.
    pub fn give(&self, path: &Path) -> io::Result<()> {
        self.ids.map_or(Ok(()), |ids| chown(path, Some(ids.user), Some(ids.group)))
    }

    /// A program as the server's user, in its directory.
    pub fn program(&self, path: &Path) -> Command {
        let mut command = match self.ids {
            None => Command::new(path),
            Some(Ids { user, group }) => {
                let mut command = Command::new("setpriv");
                command.args([format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned()]);
                command.arg(path);
                command
            }
        };
        command.current_dir(self.home()).env("TMPDIR", self.temporary()).stdin(Stdio::null());
        command
    }

    /// Starts the server, after killing it if it runs, and waits until it answers. Processes that a killed server leaves may
    /// hold its files for a moment, so it is started again if it ends.
    pub fn start(
        &mut self,
        limit: Duration,
        mut command: Command,
        mut answers: impl FnMut() -> bool,
    ) -> io::Result<()> {
        self.kill()?;
        let output = File::create(self.output())?;
        command.stdout(output.try_clone()?).stderr(output);
        let started = attempt(limit, || {
            if !self.is_running() {
                match command.spawn() {
                    Ok(child) => self.child = Some(child),
                    Err(error) => return Some(Err(error)),
                }
            }
            answers().then_some(Ok(()))
        });
        started.unwrap_or_else(|| {
            let output = fs::read(self.output()).unwrap_or_default();
            Err(io::Error::other(format!("{command:?} does not answer:\n{}", String::from_utf8_lossy(&output))))
        })
    }

    fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) -> io::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.kill();
    }
}

/// The ids of an account.
fn ids(account: &str) -> io::Result<Ids> {
    let passwd = fs::read_to_string("/etc/passwd")?;
    let of_line = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let is_it = fields.first() == Some(&account);
        Some(Ids { user: fields.get(2)?.parse().ok()?, group: fields.get(3)?.parse().ok()? }).filter(|_| is_it)
    };
    let found = passwd.lines().find_map(of_line);
    found.ok_or_else(|| io::Error::other(format!("there is no user {account}, which the server's package makes")))
}
