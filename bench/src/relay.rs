//! The floor of a command that reaches bash through another process: a thread that waits for a request on a Unix socket,
//! passes a line on to a raw shell, and answers with bytes it has ready. It parses nothing and keeps nothing, so what it
//! takes is what the kernel takes to wake three in turn. It can also keep something, as a command's start and its result are
//! kept, before the line is passed on and before the answer.

use crate::fallible::Fallible;
use crate::floor::RawShell;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

/// With these the answer is as long as the daemon's result of `true`, some 220 bytes.
const PADDING: usize = 190;
/// A request is written at once and fits.
const READ_BYTES: usize = 4 << 10;

/// A socket that runs `true` for each request on the one connection that it accepts.
pub struct Relay {
    directory: tempfile::TempDir,
    thread: JoinHandle<()>,
}

impl Relay {
    /// Waits for its connection. `keep` is called before each line is passed on, and again before the answer.
    pub fn start(bash: &Path, mut keep: impl FnMut() -> Fallible<()> + Send + 'static) -> Fallible<Self> {
        let directory = tempfile::tempdir()?;
        let listener = UnixListener::bind(directory.path().join("socket"))?;
        let mut shell = RawShell::start(bash)?;
        let thread = std::thread::spawn(move || {
            // It ends with its connection; the client that is left without an answer reports it.
            if let Err(error) = serve(&listener, &mut shell, &mut keep) {
                eprintln!("the relay of the benchmark failed: {error}");
            }
        });
        Ok(Self { directory, thread })
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// Waits for its end, which comes when the connection is closed.
    pub fn join(self) -> Fallible<()> {
        self.thread.join().map_err(|_| "the relay panicked".into())
    }
}

fn serve(listener: &UnixListener, shell: &mut RawShell, keep: &mut dyn FnMut() -> Fallible<()>) -> Fallible<()> {
    let (mut connection, _) = listener.accept()?;
    let body = format!("{{\"exit_code\":0,\"stdout\":\"{}\"}}", " ".repeat(PADDING));
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let mut request = [0; READ_BYTES];
    while connection.read(&mut request)? > 0 {
        keep()?;
        shell.run("true")?;
        keep()?;
        connection.write_all(answer.as_bytes())?;
    }
    Ok(())
}
