//! A daemon of the built program on a directory of its own. It is killed by its process id when the test ends, however
//! the test ends.

use super::http::{Door, LiveResponse, Request, Response};
use super::reply::Reply;
use super::{bash, groups, procs};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a daemon may take to open its doors, with both processors busy with other tests.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long a daemon may take to end its sessions' processes and itself.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// How a daemon is started.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Whether it opens a TCP door too.
    pub tcp: bool,
    /// `--store`; `{data}` in it stands for the data directory.
    pub store: Option<String>,
    /// More environment.
    pub env: Vec<(String, String)>,
    /// More arguments.
    pub args: Vec<String>,
    /// Another build of the program than the tests', for tests that measure.
    pub program: Option<PathBuf>,
    /// A command that starts the program, in the place of starting it directly; `{data}` as in `store`.
    pub wrapper: Vec<String>,
}

/// A running daemon.
pub struct Daemon {
    directory: TempDir,
    settings: Settings,
    tcp: Option<SocketAddr>,
    child: Child,
}

impl Settings {
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn tcp(mut self) -> Self {
        self.tcp = true;
        self
    }

    /// One more setting of the command line, as in `("--processes", "60")`.
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.args.extend([name.to_owned(), value.to_owned()]);
        self
    }

    pub fn store(mut self, url: &str) -> Self {
        self.store = Some(url.to_owned());
        self
    }

    /// The program that is started.
    pub fn program(&self) -> &Path {
        self.program.as_deref().unwrap_or(Path::new(env!("CARGO_BIN_EXE_shellkeep")))
    }

    /// The command that starts the program on `directory`.
    pub fn command(&self, directory: &Path, tcp: Option<SocketAddr>) -> Command {
        let data = directory.join("data");
        let program = self.program();
        let mut command = match self.wrapper.split_first() {
            None => Command::new(program),
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest.iter().map(|word| word.replace("{data}", &data.to_string_lossy()))).arg(program);
                command
            }
        };
        // A command that a test leaves running must not delay the end of its daemon.
        command
            .env_clear()
            .envs(bash::environment())
            .env("SHELLKEEP_STOP_GRACE", "0s")
            .envs(self.env.iter().cloned())
            .current_dir(directory);
        command.arg("serve").arg("--data").arg(&data).arg("--socket").arg(directory.join("s.sock"));
        match tcp {
            Some(address) => command.arg("--listen").arg(address.to_string()),
            None => command.arg("--no-listen"),
        };
        if let Some(url) = &self.store {
            command.arg("--store").arg(url.replace("{data}", &data.to_string_lossy()));
        }
        command.args(&self.args).stdin(Stdio::null());
        command
    }
}

impl Daemon {
    /// A daemon on the socket alone.
    pub fn start() -> Self {
        Self::with(Settings::default())
    }

    pub fn with(settings: Settings) -> Self {
        let directory = tempfile::Builder::new().prefix("shellkeep-test-").tempdir().expect("a temporary directory");
        Self::on(directory, settings)
    }

    /// A daemon on a directory that a test has prepared.
    pub fn on(directory: TempDir, settings: Settings) -> Self {
        let tcp = settings.tcp.then(free_port);
        let child = launch(&settings, directory.path(), tcp);
        Self { directory, settings, tcp, child }
    }

    /// Ends the daemon as a crash would.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again with other settings.
    pub fn restart_with(&mut self, settings: Settings) {
        self.settings = settings;
        self.restart();
    }

    /// Starts it again on the same directory.
    pub fn restart(&mut self) {
        self.kill();
        self.child = launch(&self.settings, self.directory.path(), self.tcp);
    }

    /// Starts it again with settings that may make it die before its doors are open. Returns whether they opened.
    pub fn restart_to_die(&mut self, settings: &Settings) -> bool {
        self.kill();
        self.child = spawn(settings, self.directory.path(), None);
        let stdout = self.child.stdout.take().expect("its output is piped");
        wait_for_doors(stdout, 1).is_ok()
    }

    /// Ends it as a supervisor would, and waits for that; gives its exit code.
    pub fn stop(&mut self) -> Option<i32> {
        let Ok(None) = self.child.try_wait() else { return None };
        let (pid, child) = (self.child.id(), &mut self.child);
        signal(pid, "TERM");
        let (sender, receiver) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            // A daemon that does not listen is killed, or the test would wait for it forever.
            scope.spawn(move || {
                if receiver.recv_timeout(STOP_LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                    signal(pid, "KILL");
                }
            });
            let status = child.wait();
            drop(sender);
            status.ok().and_then(|status| status.code())
        })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub fn door(&self) -> Door {
        Door::Socket(self.directory.path().join("s.sock"))
    }

    pub fn tcp_door(&self) -> Door {
        Door::Tcp(self.tcp.expect("the settings asked for TCP"))
    }

    /// The TCP port, if it has one, and else the socket.
    pub fn any_door(&self) -> Door {
        self.tcp.map_or_else(|| self.door(), Door::Tcp)
    }

    /// What the daemon wrote to its standard error.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("daemon.log")).unwrap_or_default()
    }

    pub fn send(&self, request: &Request) -> Response {
        request.send(&self.door()).unwrap_or_else(|error| {
            panic!("{} {}: {error}\nthe daemon's log:\n{}", request.method, request.target, self.log());
        })
    }

    pub fn get(&self, target: &str) -> Response {
        self.send(&Request::new("GET", target))
    }

    pub fn post(&self, target: &str, body: &Value) -> Response {
        self.send(&Request::new("POST", target).json(body.to_string()))
    }

    /// Makes a session with this name and returns it.
    pub fn create(&self, session: &str) -> Value {
        self.create_with(json!({"session_id": session}))
    }

    pub fn create_with(&self, body: Value) -> Value {
        let answer = self.post("/v1/sessions", &body);
        assert_eq!(answer.status, 201, "create {body}: {}", answer.text());
        answer.json()
    }

    /// The session's own directory.
    pub fn cwd(&self, session: &str) -> PathBuf {
        let answer = self.get(&format!("/v1/sessions/{session}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        PathBuf::from(answer.json()["cwd"].as_str().expect("a session has a cwd"))
    }

    /// The session's shell, if it has one.
    pub fn shell_pid(&self, session: &str) -> Option<u32> {
        let answer = self.get(&format!("/v1/sessions/{session}")).json();
        answer["shell_pid"].as_u64().and_then(|pid| u32::try_from(pid).ok())
    }

    pub fn hibernate(&self, session: &str) {
        let answer = self.post(&format!("/v1/sessions/{session}/hibernate"), &json!({}));
        assert_eq!(answer.status, 200, "hibernate {session}: {}", answer.text());
        assert_eq!(self.get(&format!("/v1/sessions/{session}")).json()["live"], json!(false), "a shell was kept");
    }

    pub fn destroy(&self, session: &str) {
        let answer = self.send(&Request::new("DELETE", &format!("/v1/sessions/{session}")));
        assert_eq!(answer.status, 204, "destroy {session}: {}", answer.text());
    }

    /// Runs a command with every setting at its default.
    pub fn sh(&self, session: &str, command: &str) -> Reply {
        self.run(session, json!({"command": command}))
    }

    pub fn run(&self, session: &str, body: Value) -> Reply {
        let started = Instant::now();
        let answer = self.post(&format!("/v1/sessions/{session}/run"), &body);
        let took = started.elapsed();
        assert_eq!(answer.status, 200, "run {body}: {}\nthe daemon's log:\n{}", answer.text(), self.log());
        Reply { json: answer.json(), took }
    }

    /// Runs a command and watches it from its first output on.
    pub fn stream(&self, session: &str, body: &Value) -> LiveResponse {
        self.stream_from_start(session, body).0
    }

    /// Runs a command and watches it, with what the first event says.
    pub fn stream_from_start(&self, session: &str, body: &Value) -> (LiveResponse, Value) {
        let target = format!("/v1/sessions/{session}/run");
        let request = Request::new("POST", &target).header("accept", "text/event-stream").json(body.to_string());
        let mut live = request.open(&self.door()).expect("the daemon answers");
        let first = live.next_event().expect("a stream begins with the run's id");
        assert_eq!(first.event, "started", "{}", first.data);
        (live, serde_json::from_str(&first.data).expect("JSON"))
    }

    /// How a run stands, waiting up to `seconds` for its end.
    pub fn wait_run(&self, session: &str, run_id: &str, seconds: u32) -> Reply {
        let started = Instant::now();
        let answer = self.get(&format!("/v1/sessions/{session}/runs/{run_id}?wait={seconds}"));
        let took = started.elapsed();
        assert_eq!(answer.status, 200, "run {run_id}: {}", answer.text());
        Reply { json: answer.json(), took }
    }

    pub fn signal_run(&self, session: &str, run_id: &str, signal: &str) -> Response {
        self.post(&format!("/v1/sessions/{session}/runs/{run_id}/signal"), &json!({"signal": signal}))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The daemon is asked first, so that it can end its sessions' processes; a killed one could not.
        let orphans = procs::descendants(self.child.id());
        self.stop();
        // What a failed test left behind must not disturb the next: by id, and only what still is a child of that time.
        let near = orphans.into_iter().chain(procs::working_in(self.directory.path())).map(|process| process.pid);
        // Services outlive their daemon; they are known by their groups or marks.
        let left: Vec<u32> = near.chain(groups::members(&self.data(), "")).filter(|pid| procs::alive(*pid)).collect();
        left.iter().for_each(|pid| signal(*pid, "KILL"));
        shellkeep_poll::attempt(STOP_LIMIT, || (!left.iter().any(|pid| procs::alive(*pid))).then_some(()));
        groups::remove(&self.data());
    }
}

/// A port that nobody else gets.
pub fn free_port() -> SocketAddr {
    shellkeep_servers::free_port().expect("a free port")
}

/// Sends a signal to one process.
pub fn signal(pid: u32, name: &str) {
    let _ = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).stderr(Stdio::null()).status();
}

/// Starts the program.
fn spawn(settings: &Settings, directory: &Path, tcp: Option<SocketAddr>) -> Child {
    let log = fs::File::options().create(true).append(true).open(directory.join("daemon.log")).expect("a log file");
    settings.command(directory, tcp).stdout(Stdio::piped()).stderr(log).spawn().expect("the program starts")
}

/// Starts the program and waits until it says that every door is open.
fn launch(settings: &Settings, directory: &Path, tcp: Option<SocketAddr>) -> Child {
    let mut child = spawn(settings, directory, tcp);
    let stdout = child.stdout.take().expect("its output is piped");
    let doors = if tcp.is_some() { 2 } else { 1 };
    if let Err(reason) = wait_for_doors(stdout, doors) {
        let _ = child.kill();
        let _ = child.wait();
        let log = fs::read_to_string(directory.join("daemon.log")).unwrap_or_default();
        panic!("the daemon did not open its {doors} doors ({reason}); its log:\n{log}");
    }
    child
}

/// Reads `listening on` lines until there is one per door. A thread goes on reading, so that the daemon never blocks on
/// its own output.
fn wait_for_doors(stdout: ChildStdout, doors: usize) -> Result<(), String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    let deadline = Instant::now() + START_LIMIT;
    let mut open = 0;
    while open < doors {
        let left = deadline.saturating_duration_since(Instant::now());
        let line = receiver.recv_timeout(left).map_err(|error| error.to_string())?;
        open += usize::from(line.starts_with("listening on"));
    }
    Ok(())
}
