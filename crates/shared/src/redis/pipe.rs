//! A connection on which a task appends: the bytes of `EVALSHA append.lua`, written and read without a thread of its own.

use super::address::Address;
use super::answers::appended;
use super::calls::{PATIENCE, append_call};
use crate::tier::{Append, Appended, Appending, Down, Pipe, PipeError};
use redis::{Client, ConnectionAddr, ErrorKind, Parser, RedisResult, Value, pipe};
use std::io::{self, Write};
use std::net::{TcpStream as Socket, ToSocketAddrs};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes that are read at once: answers are short.
const READ_BYTES: usize = 16 * 1024;

/// A connection to a server.
pub(super) struct RedisPipe {
    stream: TcpStream,
    /// Hash of the script.
    append: String,
    /// The server, for people.
    address: Address,
    output: Vec<u8>,
    input: Vec<u8>,
}

impl RedisPipe {
    /// Connects to the server at a URL, which must be the one that calls itself `run_id`: an address may lead to another by now,
    /// and one of them knows nothing of what the other confirms. `None` if it is reached with TLS: then the ship's thread sends.
    pub(super) fn connect(url: &str, address: &Address, run_id: &str, script: &str) -> RedisResult<Option<Self>> {
        let client = Client::open(url)?;
        let (place, login) = (client.get_connection_info().addr(), client.get_connection_info().redis_settings());
        let ConnectionAddr::Tcp(host, port) = place else { return Ok(None) };
        let mut hello = pipe();
        if let Some(password) = login.password() {
            hello.cmd("AUTH").arg(login.username()).arg(password);
        }
        hello.cmd("SELECT").arg(login.db()).cmd("SCRIPT").arg("LOAD").arg(script).cmd("INFO").arg("server");
        let mut socket = open(host, *port)?;
        socket.write_all(&hello.get_packed_pipeline())?;
        let mut parser = Parser::new();
        let answers = hello.cmd_iter().map(|_| parser.parse_value(&mut socket)?.extract_error());
        let mut answers: Vec<Value> = answers.collect::<RedisResult<_>>()?;
        let info: String = redis::from_redis_value(answers.pop().unwrap_or(Value::Nil))?;
        let append = redis::from_redis_value(answers.pop().unwrap_or(Value::Nil))?;
        if run_id_in(&info) != Some(run_id) {
            return Err((ErrorKind::Client, "another server answers at this address").into());
        }
        socket.set_nonblocking(true)?;
        let (stream, address) = (TcpStream::from_std(socket)?, address.clone());
        Ok(Some(Self { stream, append, address, output: Vec::new(), input: Vec::new() }))
    }

    async fn send(&mut self, appends: &[Append], lease: Duration) -> Result<Vec<Appended>, PipeError> {
        self.output.clear();
        self.input.clear();
        for append in appends {
            append_call(&self.append, append, lease).write_packed_command(&mut self.output);
        }
        self.write().await?;
        let (mut answers, mut read) = (Vec::with_capacity(appends.len()), 0);
        while answers.len() < appends.len() {
            match answer(&self.input[read..]) {
                Ok(Some((texts, length))) => {
                    answers.push(appended(&texts).map_err(|what| broken(&self.address, &what.to_string()))?);
                    read += length;
                }
                Ok(None) => self.read().await?,
                Err(said) => return Err(broken(&self.address, &said)),
            }
        }
        Ok(answers)
    }

    async fn write(&mut self) -> Result<(), PipeError> {
        let mut written = 0;
        while written < self.output.len() {
            let write = self.stream.write(&self.output[written..]);
            written += in_time(&self.address, tokio::time::timeout(PATIENCE, write).await)?;
        }
        Ok(())
    }

    async fn read(&mut self) -> Result<(), PipeError> {
        self.input.reserve(READ_BYTES);
        let read = self.stream.read_buf(&mut self.input);
        in_time(&self.address, tokio::time::timeout(PATIENCE, read).await).map(|_| ())
    }
}

impl Pipe for RedisPipe {
    fn append<'a>(&'a mut self, appends: &'a [Append], lease: Duration) -> Appending<'a> {
        Box::pin(self.send(appends, lease))
    }
}

/// How many bytes were written or read within our patience.
fn in_time(
    address: &Address,
    done: Result<io::Result<usize>, tokio::time::error::Elapsed>,
) -> Result<usize, PipeError> {
    match done {
        Ok(Ok(0)) => Err(broken(address, "the connection was closed")),
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => Err(broken(address, &error.to_string())),
        Err(_) => Err(PipeError::Silent(Down::new(format!("{address}: no answer within {} ms", PATIENCE.as_millis())))),
    }
}

fn broken(address: &Address, reason: &str) -> PipeError {
    PipeError::Broken { reason: format!("{address}: {reason}") }
}

fn open(host: &str, port: u16) -> io::Result<Socket> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for place in (host, port).to_socket_addrs()? {
        match Socket::connect_timeout(&place, PATIENCE) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                socket.set_read_timeout(Some(PATIENCE))?;
                socket.set_write_timeout(Some(PATIENCE))?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// What a server calls itself, until it is started anew.
pub(super) fn run_id_in(info: &str) -> Option<&str> {
    info.lines().find_map(|line| line.strip_prefix("run_id:")).map(str::trim)
}

/// The next answer of `append.lua`, an array of strings, and how many bytes it has; `None` if it is not complete. An error if
/// the server says something else.
fn answer(bytes: &[u8]) -> Result<Option<(Vec<String>, usize)>, String> {
    let mut at = 0;
    let Some(count) = header(bytes, &mut at, b'*')? else { return Ok(None) };
    let mut texts = Vec::with_capacity(count.min(8));
    for _ in 0..count {
        let Some(length) = header(bytes, &mut at, b'$')? else { return Ok(None) };
        let Some(text) = bytes.get(at..at + length) else { return Ok(None) };
        if bytes.len() < at + length + 2 {
            return Ok(None);
        }
        texts.push(String::from_utf8_lossy(text).into_owned());
        at += length + 2;
    }
    Ok(Some((texts, at)))
}

/// A line with a kind and a number. Moves behind it.
fn header(bytes: &[u8], at: &mut usize, kind: u8) -> Result<Option<usize>, String> {
    let rest = bytes.get(*at..).unwrap_or_default();
    let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
    let line = String::from_utf8_lossy(&rest[..end]);
    *at += end + 2;
    let number = rest.first().filter(|first| **first == kind).and_then(|_| line.get(1..)?.parse().ok());
    number.map(Some).ok_or_else(|| line.trim_start_matches('-').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_when_they_are_complete() {
        let two = b"*2\r\n$2\r\nok\r\n$0\r\n\r\n*5\r\n$5\r\napart\r\n$6\r\n1.n1.x\r\n$1\r\n7\r\n$0\r\n\r\n$0\r\n\r\n";
        let (texts, length) = answer(two).unwrap().unwrap();
        assert_eq!((texts, length), (vec!["ok".to_owned(), String::new()], 18));
        let (texts, rest) = answer(&two[length..]).unwrap().unwrap();
        assert_eq!(texts, ["apart", "1.n1.x", "7", "", ""]);
        assert_eq!(length + rest, two.len());
        for cut in 0..length {
            assert_eq!(answer(&two[..cut]), Ok(None), "{cut} bytes");
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        let said = answer(b"-NOSCRIPT No matching script.\r\n").unwrap_err();
        assert_eq!(said, "NOSCRIPT No matching script.");
        for wrong in [&b":1\r\n"[..], b"*1\r\n:1\r\n", b"*1\r\n$-1\r\n", b"*x\r\n"] {
            assert!(answer(wrong).is_err(), "{wrong:?}");
        }
    }
}
