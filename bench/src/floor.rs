//! The floor: what bash itself costs when nothing but pipes is between it and us. No state is kept, no output is
//! bounded, no descendant is watched, nothing is written down; it is what any tool on top of bash can at best reach.

use crate::fallible::Fallible;
use crate::lanes::Lane;
use rustix::fd::{AsFd, BorrowedFd};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Commands come on 3 and statuses go on 4; 1 is left to what the command writes.
const LOOP: &str = "exec 3<&0 4>&2 0</dev/null 2>/dev/null
while IFS= read -r -u 3 c; do eval \"$c\"; echo $? >&4; done";
/// What `cat` reads at once, more or less; the default pipe holds no more.
const READ_BYTES: usize = 64 << 10;

/// A live bash that evaluates one line after the other. Dropping it ends it.
pub struct RawShell {
    child: Child,
    commands: ChildStdin,
    output: ChildStdout,
    status: ChildStderr,
}

impl RawShell {
    /// Starts one.
    pub fn start(bash: &Path) -> Fallible<Self> {
        let mut command = Command::new(bash);
        command.args(["--norc", "--noprofile", "-c", LOOP]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
            (Some(commands), Some(output), Some(status)) => Ok(Self { child, commands, output, status }),
            _ => Err("a pipe to bash is missing".into()),
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Runs a line `count` times; `output` is what it writes each time.
    pub fn times(&mut self, line: &str, output: &str, count: usize) -> Fallible<Vec<Duration>> {
        let line = format!("{line}\n");
        let mut written = vec![0; output.len()];
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let start = Instant::now();
            self.commands.write_all(line.as_bytes())?;
            self.read_status()?;
            if !written.is_empty() {
                self.output.read_exact(&mut written)?;
            }
            times.push(start.elapsed());
            if written != output.as_bytes() {
                return Err("the raw loop wrote something else".into());
            }
        }
        Ok(times)
    }

    /// Runs a line that writes nothing.
    pub fn run(&mut self, line: &str) -> io::Result<()> {
        self.commands.write_all(format!("{line}\n").as_bytes())?;
        self.read_status()
    }

    fn read_status(&mut self) -> io::Result<()> {
        // A builtin writes its line with one write, and a pipe hands that over whole.
        let mut status = [0; 8];
        let count = self.status.read(&mut status)?;
        if &status[..count] == b"0\n" { Ok(()) } else { Err(io::Error::other("the raw loop failed")) }
    }
}

impl Lane for RawShell {
    fn watch(&self) -> BorrowedFd<'_> {
        self.status.as_fd()
    }

    fn ask(&mut self) -> io::Result<bool> {
        self.commands.write_all(b"true\n").map(|()| true)
    }

    fn hear(&mut self) -> io::Result<bool> {
        self.read_status().map(|()| true)
    }
}

impl Drop for RawShell {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Kills a child and waits for it.
pub fn end(child: &mut Child) {
    // Both fail only for a child that has already been waited for.
    let _ = child.kill();
    let _ = child.wait();
}

/// A bash for one command, from its start to its end.
pub fn spawn(bash: &Path, arguments: &[&str]) -> Fallible<Duration> {
    let start = Instant::now();
    let mut command = Command::new(bash);
    let status = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    let elapsed = start.elapsed();
    if status.success() { Ok(elapsed) } else { Err(format!("bash {arguments:?} failed: {status}").into()) }
}

/// As many starts of `bash -c true` as `threads` threads get done in a while; gives starts per second.
pub fn spawns(bash: &Path, threads: usize, window: Duration) -> Fallible<f64> {
    let start = Instant::now();
    let count = std::thread::scope(|scope| -> Fallible<u64> {
        let one = || -> Fallible<u64> {
            let mut count = 0;
            while start.elapsed() < window {
                spawn(bash, &["--norc", "--noprofile", "-c", "true"])?;
                count += 1;
            }
            Ok(count)
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        workers.into_iter().map(|worker| worker.join().map_err(|_| "a spawner panicked")?).sum()
    })?;
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

/// `bash -c COMMAND | a reader that counts`: how long it takes until everything is read.
pub fn output(bash: &Path, command: &str, expected: u64) -> Fallible<Duration> {
    let start = Instant::now();
    let mut child = Command::new(bash)
        .args(["--norc", "--noprofile", "-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut buffer = vec![0; READ_BYTES];
    let mut total = 0;
    if let Some(stdout) = &mut child.stdout {
        loop {
            match stdout.read(&mut buffer)? {
                0 => break,
                count => total += count as u64,
            }
        }
    }
    child.wait()?;
    let elapsed = start.elapsed();
    if total == expected { Ok(elapsed) } else { Err(format!("{total} bytes came, not {expected}").into()) }
}
