//! A program with pipes, in its own cage: a resumed agent. It reads what we write, we read what it writes, and none of
//! its processes outlives this value.

mod inside;
mod outside;

pub(crate) use inside::Inside;

use crate::cage::{Cage, FirstProcesses};
use crate::confine::{Confinement, Entered, Namespaces};
use crate::exit::ExitStatus;
use crate::facts::Bytes;
use crate::outputs::{Outputs, Stream};
use crate::shell::START_LIMIT;
use crate::stdio::{self, InputPipe, OutputPipe, Writer};
use crate::{handle, own, spawn};
use outside::Before;
use rustix::fd::OwnedFd;
use rustix::fs::Mode;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// How long killed processes may take to exit. Longer means that they wait for a disk; do not wait for that.
const GONE_LIMIT: Duration = Duration::from_secs(5);
/// Where programs are looked for when the environment does not say.
const USUAL_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// What to start.
#[derive(Debug, Clone)]
pub struct ProgramSpec {
    /// The program and its arguments; none has a NUL in it. A program without a slash is looked for in `PATH`.
    pub arguments: Vec<Bytes>,
    /// The directory it starts in.
    pub cwd: Bytes,
    /// All of its environment.
    pub environment: Vec<(Bytes, Bytes)>,
}

/// What a program did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// It wrote something, which was handed on; there may be more.
    Output,
    /// It closed its standard output: no more will follow.
    Closed,
    /// It has ended, and all that it wrote was handed on.
    Ended(ExitStatus),
}

/// A running program. Dropping it kills it and everything it started.
#[derive(Debug)]
pub struct Program {
    pid: u32,
    process: AsyncFd<OwnedFd>,
    cage: Cage,
    outputs: Outputs,
    /// Whether the closed output was reported.
    told_closed: bool,
    ended: Option<ExitStatus>,
    /// Kept for the other processes of its session.
    _namespaces: Option<Arc<Namespaces>>,
}

impl Program {
    /// Starts it, and gives what it reads from. Copies our page tables, so a thread that may block should call it; the
    /// thread must know the runtime.
    pub fn start(spec: &ProgramSpec, mut cage: Cage, confinement: Option<Confinement>) -> io::Result<(Self, Writer)> {
        let user = confinement.as_ref().and_then(|confinement| confinement.user);
        let path = match user {
            Some(_) => seen_by_itself(spec)?,
            None => find(spec)?,
        };
        let (stdin, stdout, stderr) = (InputPipe::new()?, OutputPipe::new()?, OutputPipe::new()?);
        user.map_or(Ok(()), |user| user.give([&stdin.theirs, &stdout.theirs, &stderr.theirs]))?;
        let namespaces = confinement.as_ref().and_then(Confinement::namespaces).cloned();
        let mark = cage.mark();
        let inside = match &confinement {
            Some(confinement) if namespaces.is_some() => {
                Some(Inside::new(confinement, cwd(spec), &entries(spec, mark.as_deref())?)?)
            }
            _ => None,
        };
        let mut command = command_of(spec, &path, inside.as_ref(), mark.as_deref())?;
        command.stdin(stdin.theirs).stdout(stdout.theirs).stderr(stderr.theirs);
        let entrances = cage.entrances()?;
        let (soft, mask) = (spawn::descriptor_limit(), own::callers_umask());
        let setting_up = move || prepare(&entrances, soft, mask);
        let FirstProcesses { main: pid, init } = match inside {
            Some(inside) => start_inside(command, inside, setting_up)?,
            None => {
                let directory = Some(CString::new(spec.cwd.as_slice())?);
                let started = outside::start(command, Before { setting_up, confinement, directory }, START_LIMIT);
                let main = started.map_err(|error| if user.is_some() { as_it_saw(spec, &error) } else { error })?;
                FirstProcesses { main, init: None }
            }
        };
        // Where there are groups it is in already; this is for the cage to know from whom the others descend, and one that
        // has ended at once cannot be put anywhere.
        let _ = cage.enclose(pid);
        if let Some(init) = init {
            let _ = cage.enclose_init(init);
        }
        let gone = || io::Error::other("the program has no handle");
        let process = handle::open(pid).ok_or_else(gone).and_then(|handle| stdio::watch(handle, Interest::READABLE));
        let process = match process {
            Ok(process) => process,
            Err(error) => {
                cage.kill_all();
                let _ = spawn::reap(pid);
                return Err(error);
            }
        };
        Ok((
            Self {
                pid,
                process,
                cage,
                outputs: Outputs { stdout: Some(stdout.ours), stderr: Some(stderr.ours) },
                told_closed: false,
                ended: None,
                _namespaces: namespaces,
            },
            stdin.ours,
        ))
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits for output, which goes to `sink`, or for the end. May be dropped and called again at any time without
    /// losing anything.
    pub async fn hear(&mut self, sink: &mut (dyn FnMut(Stream, &[u8]) + Send)) -> Heard {
        std::future::poll_fn(|cx| self.poll_hear(cx, sink)).await
    }

    fn poll_hear(&mut self, cx: &mut Context<'_>, sink: &mut (dyn FnMut(Stream, &[u8]) + Send)) -> Poll<Heard> {
        // Asked before the pipes are read: what it wrote before it ended is then in them.
        let has_ended = self.poll_exit(cx).is_ready();
        let any = self.outputs.poll(cx, sink);
        match self.ended {
            _ if any => Poll::Ready(Heard::Output),
            Some(status) if has_ended => Poll::Ready(Heard::Ended(status)),
            _ if self.outputs.stdout.is_none() && !std::mem::replace(&mut self.told_closed, true) => {
                Poll::Ready(Heard::Closed)
            }
            _ => Poll::Pending,
        }
    }

    /// Ready once the process has ended; it is reaped then.
    fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<ExitStatus> {
        if let Some(ended) = self.ended {
            return Poll::Ready(ended);
        }
        match self.process.poll_read_ready(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(_) => {
                let status = spawn::reap(self.pid).unwrap_or(ExitStatus::Signalled(Signal::KILL.as_raw()));
                self.ended = Some(status);
                Poll::Ready(status)
            }
        }
    }

    /// Waits for its end; what it still writes goes to `sink`.
    pub async fn ended(&mut self, sink: &mut (dyn FnMut(Stream, &[u8]) + Send)) -> ExitStatus {
        loop {
            if let Heard::Ended(status) = self.hear(sink).await {
                return status;
            }
        }
    }

    /// Asks it and everything it has started to end, and after `grace` ends them, whatever they ignore. Its last words go
    /// to `sink`. Gives how it ended.
    pub async fn stop(&mut self, grace: Duration, sink: &mut (dyn FnMut(Stream, &[u8]) + Send)) -> ExitStatus {
        let asked = self.cage.signal_all(Signal::TERM);
        let all_gone = async {
            self.ended(sink).await;
            handle::gone(asked).await;
        };
        let _ = tokio::time::timeout(grace, all_gone).await;
        self.kill().await
    }

    /// Ends it and everything it has started, and waits until they are gone. Gives how it ended.
    pub async fn kill(&mut self) -> ExitStatus {
        self.cage.kill_all();
        if self.ended.is_none() {
            handle::send(self.process.get_ref(), Signal::KILL);
        }
        let rest = self.cage.watch_others(&[]);
        let all_gone = async {
            self.ended(&mut |_, _| {}).await;
            handle::gone(rest).await;
        };
        let _ = tokio::time::timeout(GONE_LIMIT, all_gone).await;
        self.ended.unwrap_or(ExitStatus::Signalled(Signal::KILL.as_raw()))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.cage.kill_all();
        if self.ended.is_some() {
            return;
        }
        handle::send(self.process.get_ref(), Signal::KILL);
        let (pid, cage) = (self.pid, std::mem::replace(&mut self.cage, Cage::empty()));
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            // Killed, so this does not wait long; not reaping would leave a zombie for as long as we live.
            let _ = spawn::reap(pid);
            return;
        };
        let handles = handle::open(pid).into_iter().collect();
        runtime.spawn(async move {
            handle::gone(handles).await;
            let _ = spawn::reap(pid);
            drop(cage);
        });
    }
}

fn cwd(spec: &ProgramSpec) -> &Path {
    Path::new(OsStr::from_bytes(&spec.cwd))
}

/// How to start a program with its arguments and environment. In a room the command also enters its directory, and finds the
/// environment there: until it is inside, it has none but the mark of its cage, which is ours.
fn command_of(spec: &ProgramSpec, path: &Path, inside: Option<&Inside>, mark: Option<&str>) -> io::Result<Command> {
    let name = OsStr::from_bytes(spec.arguments.first().map_or(b"", Vec::as_slice));
    let mut command = match inside {
        Some(inside) => inside.command(path.as_os_str(), name)?,
        None => {
            let mut command = Command::new(path);
            command.arg0(name).env_clear();
            command
                .envs(spec.environment.iter().map(|(name, value)| (OsStr::from_bytes(name), OsStr::from_bytes(value))));
            command
        }
    };
    command.args(spec.arguments.iter().skip(1).map(|word| OsStr::from_bytes(word)));
    if let Some((name, value)) = mark.and_then(|mark| mark.split_once('=')) {
        command.env(name, value);
    }
    Ok(command)
}

/// The environment of a program, with the mark of its cage, as entries that end in NUL. Of two with the same name the last
/// one counts, and the mark before all.
fn entries(spec: &ProgramSpec, mark: Option<&str>) -> io::Result<Vec<u8>> {
    let given = spec.environment.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
    let mark = mark.and_then(|mark| mark.split_once('=')).map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let variables: BTreeMap<&[u8], &[u8]> = given.chain(mark).collect();
    let mut bytes = Vec::new();
    for (name, value) in variables {
        let entry = CString::new([name, b"=".as_slice(), value].concat())?;
        bytes.extend_from_slice(entry.as_bytes_with_nul());
    }
    Ok(bytes)
}

/// The process that is started enters the room in a copy of itself, whose parent we are too, and ends.
fn start_inside(
    mut command: Command,
    inside: Inside,
    setting_up: impl Fn() -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<FirstProcesses> {
    let waiting = inside.waiting()?;
    // SAFETY: between fork and exec only system calls are made: no memory is taken, no lock, and the files are open.
    unsafe {
        command.pre_exec(move || {
            setting_up()?;
            inside.hand_over()
        })
    };
    // Held until the copy is known: it must not be taken for a stray.
    let mut awaited = spawn::awaited();
    let first = command.spawn()?.id();
    // With it goes our end of the pipe that the answer comes through.
    drop(command);
    let entered = waiting.entered();
    if let Ok(Entered { main, .. }) = &entered {
        awaited.insert(*main);
    }
    awaited.insert(first);
    drop(awaited);
    spawn::reap(first)?;
    entered.map(|Entered { main, init }| FirstProcesses { main, init: Some(init) })
}

/// What a program writes, in a room or not. Blocks until it ends.
pub(crate) fn output_of(path: &str, words: &[Bytes], inside: Option<Inside>) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let (reading, writing) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let name = OsStr::from_bytes(words.first().map_or(b"", Vec::as_slice));
    let mut command = match &inside {
        Some(inside) => inside.command(OsStr::new(path), name)?,
        None => {
            let mut command = Command::new(path);
            command.arg0(name);
            command
        }
    };
    command.args(words.iter().skip(1).map(|word| OsStr::from_bytes(word)));
    command.stdin(Stdio::null()).stdout(Stdio::from(writing)).stderr(Stdio::null());
    let born = match inside {
        Some(inside) => start_inside(command, inside, || Ok(()))?,
        None => {
            let before = Before { setting_up: || Ok(()), confinement: None, directory: None };
            FirstProcesses { main: outside::start(command, before, START_LIMIT)?, init: None }
        }
    };
    let mut output = Vec::new();
    File::from(reading).read_to_end(&mut output)?;
    spawn::reap(born.main)?;
    Ok(output)
}

/// Between fork and exec: into the cage, with a session of its own, the usual limit of open files, the umask of our parent,
/// and no descriptors but the standard three.
fn prepare(entrances: &[File], soft_descriptors: Option<u64>, mask: Option<u32>) -> io::Result<()> {
    for entrance in entrances {
        // In a group's list of members, 0 is the writer itself.
        rustix::io::write(entrance, b"0")?;
    }
    rustix::process::setsid()?;
    if let Some(mask) = mask {
        rustix::process::umask(Mode::from_raw_mode(mask));
    }
    // Kernels before 5.11 do not know it; there the descriptors that we opened ourselves are still closed.
    let _ = own::keep_inherited_descriptors();
    if let Some(soft) = soft_descriptors {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let lowered = rustix::process::Rlimit { current: Some(soft), maximum: limit.maximum };
        let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, lowered);
    }
    Ok(())
}

/// Where the program is, looked for as its own environment says and not as ours does.
fn find(spec: &ProgramSpec) -> io::Result<PathBuf> {
    let missing = |what: String| io::Error::new(io::ErrorKind::NotFound, what);
    let name =
        spec.arguments.first().filter(|name| !name.is_empty()).ok_or_else(|| missing("no program".to_owned()))?;
    let cwd = Path::new(OsStr::from_bytes(&spec.cwd));
    if !cwd.is_dir() {
        return Err(missing(format!("there is no directory {}", cwd.display())));
    }
    let shown = String::from_utf8_lossy(name).into_owned();
    if name.contains(&b'/') {
        let path = cwd.join(OsStr::from_bytes(name));
        return if is_program(&path) {
            Ok(path)
        } else {
            Err(missing(format!("{shown} is not a program that can be run")))
        };
    }
    let path = spec.environment.iter().rev().find(|(key, _)| key == b"PATH").map_or(USUAL_PATH, |(_, value)| value);
    let places = path.split(|byte| *byte == b':').map(|place| cwd.join(OsString::from_vec(place.to_vec())));
    let found = places.map(|place| place.join(OsStr::from_bytes(name))).find(|path| is_program(path));
    found.ok_or_else(|| missing(format!("there is no program {shown} in PATH ({})", String::from_utf8_lossy(path))))
}

/// A program of another user's, which finds itself and its directory when it starts: what we can see is not for it to know.
fn seen_by_itself(spec: &ProgramSpec) -> io::Result<PathBuf> {
    let has_path = spec.environment.iter().any(|(key, _)| key == b"PATH");
    match spec.arguments.first().filter(|name| !name.is_empty()) {
        Some(name) if has_path || name.contains(&b'/') => Ok(PathBuf::from(OsString::from_vec(name.clone()))),
        // In the usual places, which everybody can see.
        _ => find(&ProgramSpec { cwd: b"/".to_vec(), ..spec.clone() }),
    }
}

/// Why it could not be started, with what it looked for.
fn as_it_saw(spec: &ProgramSpec, error: &io::Error) -> io::Error {
    let name = String::from_utf8_lossy(spec.arguments.first().map_or(b"", Vec::as_slice)).into_owned();
    io::Error::new(error.kind(), format!("{name} cannot be started in {}: {error}", cwd(spec).display()))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}
