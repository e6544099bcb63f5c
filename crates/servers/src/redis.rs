//! Redis.

use crate::process::{ServerProcess, free_port};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, str};

/// How long it may take until it answers.
const STARTED: Duration = Duration::from_secs(20);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running server that keeps everything in memory and nothing on disk.
#[derive(Debug)]
pub struct RedisServer {
    _process: ServerProcess,
    address: SocketAddr,
}

impl RedisServer {
    /// Starts one; nothing if it is not installed.
    pub fn start() -> io::Result<Option<Self>> {
        let Some(program) = program() else { return Ok(None) };
        let (mut process, address) = (ServerProcess::new("redis")?, free_port()?);
        let mut command = process.program(&program);
        command.args(["--port", &address.port().to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]);
        command.arg(process.home());
        process.start(STARTED, command, || ask(address, "PING").is_ok_and(|answer| answer.starts_with("+PONG")))?;
        Ok(Some(Self { _process: process, address }))
    }

    /// Its URL as a shared store.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Bytes that it has allocated.
    pub fn used_memory(&self) -> io::Result<u64> {
        let answer = ask(self.address, "INFO memory")?;
        let used = answer.lines().find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok());
        used.ok_or_else(|| io::Error::other(format!("it does not say what memory it uses: {answer}")))
    }
}

fn program() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).chain([Path::new("/usr/bin").to_owned()]);
    places.map(|place| place.join("redis-server")).find(|program| program.is_file())
}

/// Asks on a connection of its own, which the server closes after the answer.
fn ask(address: SocketAddr, command: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    str::from_utf8(&answer).map(str::to_owned).map_err(io::Error::other)
}
