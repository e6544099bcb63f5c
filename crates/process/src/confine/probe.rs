//! Tries to break out of a fence. A child tries everything twice: before it is confined, where it should succeed, and
//! after. So the answer does not depend on what the kernel says about itself.

use super::fence::{Fence, NoFence, Own};
use rustix::fd::AsRawFd;
use std::ffi::CString;
use std::io::{self, Read as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// What is tried, in this order.
const ATTEMPTS: [&str; 5] =
    ["read a file", "write a file", "trace a process", "signal a process", "connect to an abstract socket"];
/// How many of the first ones must fail, or there is no fence. The others need Linux 6.12.
const REQUIRED: usize = 3;

/// One attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// What was tried.
    pub what: &'static str,
    /// Whether it succeeded without the fence.
    pub works_outside: bool,
    /// Whether it was refused by the fence.
    pub is_refused: bool,
}

/// What a fence does not stop on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// Signals to processes of the same user that are not the session's.
    Signals,
    /// Abstract sockets of other processes.
    AbstractSockets,
}

impl Gap {
    /// Its stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Signals => "signals",
            Self::AbstractSockets => "abstract_sockets",
        }
    }
}

/// What was tried against a fence that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// All attempts.
    pub attempts: Vec<Attempt>,
}

impl Proof {
    /// What the fence does not stop here.
    pub fn gaps(&self) -> Vec<Gap> {
        let is_open = |number: usize| self.attempts.get(number).is_some_and(|attempt| !attempt.is_refused);
        [(3, Gap::Signals), (4, Gap::AbstractSockets)]
            .into_iter()
            .filter(|(number, _)| is_open(*number))
            .map(|(_, gap)| gap)
            .collect()
    }
}

impl Fence {
    /// Tries to break out. `scratch` is a directory outside the fence, in which a file is made and removed again. Blocks
    /// for a few milliseconds.
    pub fn prove(&self, scratch: &Path) -> Result<Proof, NoFence> {
        let tried = self.try_all(scratch).map_err(|error| NoFence::Broken(error.to_string()))?;
        let attempts: Vec<Attempt> = ATTEMPTS
            .iter()
            .zip(tried)
            .map(|(what, [before, after])| Attempt {
                what,
                works_outside: before == 0,
                is_refused: after == libc::EPERM || after == libc::EACCES,
            })
            .collect();
        match attempts.iter().take(REQUIRED).find(|attempt| !attempt.is_refused) {
            Some(attempt) => Err(NoFence::Broken(format!("a confined process could {}", attempt.what))),
            None => Ok(Proof { attempts }),
        }
    }

    /// The error numbers of all attempts, before and after.
    fn try_all(&self, scratch: &Path) -> io::Result<[[i32; 2]; ATTEMPTS.len()]> {
        let name = format!("fence-{}", uniquely());
        let scratch = scratch.canonicalize()?;
        let (canary, own) = (scratch.join(&name), scratch.join(format!("{name}.own")));
        std::fs::write(&canary, b"canary")?;
        std::fs::create_dir(&own)?;
        let tried = self.around(Own { workspace: &own, home: &own, tmp: &own, rescue: &own }).and_then(|confinement| {
            let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
            let trial = Trial::new(&canary, &name)?;
            let tried = in_child(move || trial.run(), move || confinement.apply());
            drop(listener);
            tried
        });
        let _ = std::fs::remove_dir(&own);
        let _ = std::fs::remove_file(&canary);
        tried
    }
}

/// Everything that the attempts need, made before the fork.
struct Trial {
    canary: CString,
    parent: libc::pid_t,
    address: libc::sockaddr_un,
    address_bytes: libc::socklen_t,
}

impl Trial {
    fn new(canary: &Path, socket: &str) -> io::Result<Self> {
        // SAFETY: all zeros is a valid address.
        let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        // An abstract name begins with a zero byte.
        for (to, from) in address.sun_path.iter_mut().skip(1).zip(socket.as_bytes()) {
            *to = *from as libc::c_char;
        }
        let address_bytes = std::mem::size_of::<libc::sa_family_t>() + 1 + socket.len();
        Ok(Self {
            canary: CString::new(canary.as_os_str().as_bytes())?,
            parent: libc::pid_t::try_from(std::process::id()).map_err(io::Error::other)?,
            address,
            address_bytes: address_bytes as libc::socklen_t,
        })
    }

    /// Tries everything. Makes only system calls.
    fn run(&self) -> [i32; ATTEMPTS.len()] {
        // SAFETY: plain system calls with pointers that are valid for them.
        unsafe {
            [
                opened(libc::open(self.canary.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC)),
                opened(libc::open(self.canary.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC)),
                // No process has this number, so without a filter the answer is that there is none.
                match error_of(libc::ptrace(libc::PTRACE_ATTACH, i32::MAX, 0, 0)) {
                    libc::ESRCH => 0,
                    other => other,
                },
                error_of(libc::kill(self.parent, 0).into()),
                self.connect(),
            ]
        }
    }

    fn connect(&self) -> i32 {
        // SAFETY: plain system calls; the address is as long as we say.
        unsafe {
            let socket = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
            if socket < 0 {
                return last_error();
            }
            let address = (&raw const self.address).cast();
            let error = error_of(libc::connect(socket, address, self.address_bytes).into());
            libc::close(socket);
            error
        }
    }
}

/// Runs a trial in a child, before and after it confined itself, and gives both error numbers of each attempt. Both make
/// only system calls. The child never becomes another program.
pub(super) fn in_child<const COUNT: usize>(
    trial: impl Fn() -> [i32; COUNT] + Send + Sync + 'static,
    confine: impl Fn() -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<[[i32; 2]; COUNT]> {
    let (reading, writing) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let mut command = Command::new("/proc/self/exe");
    let answer = writing.as_raw_fd();
    let try_out = move || -> io::Result<()> {
        let before = trial();
        confine()?;
        let tried = [before, trial()];
        // SAFETY: a plain system call; the array is as long as we say, and the pipe takes it whole.
        let written = unsafe { libc::write(answer, tried.as_ptr().cast(), std::mem::size_of_val(&tried)) };
        let _ = written;
        Err(io::Error::from_raw_os_error(libc::ECANCELED))
    };
    // SAFETY: between fork and exec only system calls are made, with what was prepared before.
    unsafe { command.pre_exec(try_out) };
    let failed = {
        // `reap_strays` must not take this child.
        let _awaited = crate::spawn::awaited();
        command.spawn().err()
    };
    drop(writing);
    let mut bytes = Vec::new();
    std::fs::File::from(reading).read_to_end(&mut bytes)?;
    let numbers: Vec<i32> =
        bytes.chunks_exact(4).filter_map(|number| number.try_into().ok().map(i32::from_ne_bytes)).collect();
    if numbers.len() != 2 * COUNT {
        return Err(failed.unwrap_or_else(|| io::Error::other("the trial did not end")));
    }
    Ok(std::array::from_fn(|number| [numbers[number], numbers[COUNT + number]]))
}

pub(super) fn opened(result: libc::c_int) -> i32 {
    let error = error_of(result.into());
    if result >= 0 {
        // SAFETY: a descriptor that was just opened and that nothing else knows.
        unsafe { libc::close(result) };
    }
    error
}

pub(super) fn error_of(result: libc::c_long) -> i32 {
    if result >= 0 { 0 } else { last_error() }
}

fn last_error() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// A name that no other trial of this machine has.
pub(crate) fn uniquely() -> String {
    use std::hash::BuildHasher as _;
    format!("{}-{:016x}", std::process::id(), std::hash::RandomState::new().hash_one(0))
}
