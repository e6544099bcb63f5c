//! A room: namespaces of a session's own, with a root directory that has only what the session may see, and the fence
//! inside. A shell enters it by itself, in `room/room.c`; a service through its keeper; other programs through the small
//! program in `room/main.c`.
//!
//! All processes of a session share a user and a network namespace, so that they reach each other's ports. Each shell,
//! service and agent has mounts, processes and shared memory of its own.

use super::plan::entry_at;
use crate::spawn;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::ffi::CString;
use std::fmt;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddrV4;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The program as it was built; see `build.rs`.
const PROGRAM: &[u8] = include_bytes!(env!("SHELLKEEP_ROOM"));
/// Where the program answers, and where it finds namespaces; the same numbers as in `room/main.c`.
const PLACES: [i32; 3] = [3, 4, 5];
/// How long the program may take before it counts as stuck.
const LIMIT: Duration = Duration::from_secs(20);
/// The most descriptors in an answer; `MOST` in `room/main.c`.
const MOST_DESCRIPTORS: usize = 16;
/// The steps of `room/room.c`, in their order from 1.
const STEPS: [&str; 9] = [
    "the plan",
    "joining its namespaces",
    "new namespaces",
    "a root directory",
    "an entry of its root directory",
    "its first process",
    "mounting /proc",
    "leaving the old root directory",
    "its main process",
];

/// Which network a room has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoomNetwork {
    /// One of its own, with a loopback device and nothing else.
    Own,
    /// The daemon's.
    Host,
}

/// What the processes of one session share.
pub struct Namespaces {
    user: OwnedFd,
    net: Option<OwnedFd>,
    /// Dropped with them.
    attached: OnceLock<Box<dyn Send + Sync>>,
}

impl fmt::Debug for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Namespaces").field("user", &self.user).field("net", &self.net).finish_non_exhaustive()
    }
}

/// A socket inside that others connect or send to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Socket {
    Tcp(SocketAddrV4),
    Udp(SocketAddrV4),
}

/// A room that can be entered.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    /// What all rooms of a node are made of; a shell may have it before its session is known.
    pub(super) shared: Arc<[u8]>,
    /// What comes on top: the session's own.
    pub(super) own: Arc<[u8]>,
    pub(super) namespaces: Arc<Namespaces>,
}

/// Who is in a room that was entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entered {
    /// The process that continues inside.
    pub(crate) main: u32,
    /// The first process of the room.
    pub(crate) init: u32,
}

impl Namespaces {
    /// Makes them. Starts a small program and waits for it.
    pub fn new(network: RoomNetwork) -> io::Result<Self> {
        let kind = match network {
            RoomNetwork::Own => c"own",
            RoomNetwork::Host => c"host",
        };
        let mut made = ask(&[c"namespaces", kind], &[])?.into_iter();
        let missing = || io::Error::other("no namespace was made");
        let user = made.next().ok_or_else(missing)?;
        let net = match network {
            RoomNetwork::Own => Some(made.next().ok_or_else(missing)?),
            RoomNetwork::Host => None,
        };
        Ok(Self { user, net, attached: OnceLock::new() })
    }

    /// Those of a process that is in a room: of a service that an earlier daemon started. `None` if it is in none.
    pub fn of_process(pid: u32) -> io::Result<Option<Self>> {
        let open = |name: &str| std::fs::File::open(format!("/proc/{pid}/ns/{name}")).map(OwnedFd::from);
        let is_ours = |name: &str| -> io::Result<bool> {
            let link = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/{name}"));
            Ok(link("self")? == link(&pid.to_string())?)
        };
        if is_ours("user")? {
            return Ok(None);
        }
        let net = if is_ours("net")? { None } else { Some(open("net")?) };
        Ok(Some(Self { user: open("user")?, net, attached: OnceLock::new() }))
    }

    /// TCP sockets that connect inside, at most sixteen; `None` if the network is the daemon's. Starts a small program and
    /// waits for it.
    pub fn sockets(&self, count: usize) -> io::Result<Option<Vec<OwnedFd>>> {
        let Some(net) = &self.net else { return Ok(None) };
        let count = CString::new(count.min(MOST_DESCRIPTORS).to_string())?;
        ask(&[c"sockets", &count], &[self.user.as_fd(), net.as_fd()]).map(Some)
    }

    /// Sockets inside that others connect or send to, at most sixteen, in this order. Starts a small program and waits for
    /// it.
    pub fn listen(&self, sockets: &[Socket]) -> io::Result<Vec<OwnedFd>> {
        let net = self.net.as_ref().ok_or_else(|| io::Error::other("the room has no network of its own"))?;
        let word = |socket: &Socket| match socket {
            Socket::Tcp(address) => CString::new(format!("tcp:{}:{}", address.ip(), address.port())),
            Socket::Udp(address) => CString::new(format!("udp:{}:{}", address.ip(), address.port())),
        };
        let words: Vec<CString> = sockets.iter().map(word).collect::<Result<_, _>>()?;
        let words: Vec<&std::ffi::CStr> = [c"listen"].into_iter().chain(words.iter().map(CString::as_c_str)).collect();
        ask(&words, &[self.user.as_fd(), net.as_fd()])
    }

    /// The number of the user namespace, which no other one has while it exists.
    pub fn number(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&self.user)?.st_ino)
    }

    /// Keeps something for as long as they are used. Once.
    pub fn attach(&self, kept: Box<dyn Send + Sync>) {
        let _ = self.attached.set(kept);
    }

    /// Whether their network is not the daemon's.
    pub fn has_network(&self) -> bool {
        self.net.is_some()
    }
}

impl Room {
    /// What its root directory is made of.
    pub(crate) fn plan(&self) -> Vec<u8> {
        [&self.shared[..], &self.own[..]].concat()
    }

    /// What is left to bring in by a shell that has the rest.
    pub(crate) fn own_plan(&self) -> &[u8] {
        &self.own
    }

    pub(crate) fn namespaces(&self) -> &Arc<Namespaces> {
        &self.namespaces
    }

    /// What to send along to whoever enters: the namespaces to join.
    pub(crate) fn descriptors(&self) -> io::Result<Vec<OwnedFd>> {
        [Some(&self.namespaces.user), self.namespaces.net.as_ref()]
            .into_iter()
            .flatten()
            .map(OwnedFd::try_clone)
            .collect()
    }

    /// The plan as a file, for a program that has no frame to read it from.
    pub(crate) fn plan_file(&self) -> io::Result<OwnedFd> {
        spawn::in_memory(c"shellkeep-plan", &self.plan())
    }

    /// The program that enters rooms.
    pub(crate) fn program() -> io::Result<BorrowedFd<'static>> {
        static FILE: OnceLock<OwnedFd> = OnceLock::new();
        spawn::embedded(&FILE, "shellkeep-room", PROGRAM)
    }

    /// Who is inside, from an `ENTERED` in `room/room.h`.
    pub(crate) fn entered(&self, bytes: &[u8; ENTERED_BYTES]) -> io::Result<Entered> {
        let [main, init, step, at, why] = numbers(bytes);
        match step {
            0 => Ok(Entered { main, init }),
            _ => Err(not_entered(&self.plan(), FailedStep { step, at, why })),
        }
    }
}

/// What failed while a room was entered, as an `ENTERED` in `room/room.h` says it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FailedStep {
    /// The step of `room/room.c`, from 1.
    pub(crate) step: u32,
    /// Where in the plan it was.
    pub(crate) at: u32,
    /// The number of the error.
    pub(crate) why: u32,
}

/// Why a room with this plan could not be entered.
pub(crate) fn not_entered(plan: &[u8], FailedStep { step, at, why }: FailedStep) -> io::Error {
    let error = io::Error::from_raw_os_error(why as i32);
    let name = (step as usize).checked_sub(1).and_then(|step| STEPS.get(step)).copied().unwrap_or("an unknown step");
    let entry = if name == STEPS[4] { format!(" ({})", entry_at(plan, at as usize)) } else { String::new() };
    io::Error::new(error.kind(), format!("the room could not be entered: {name}{entry}: {error}"))
}

/// The numbers of an `ENTERED`.
fn numbers(bytes: &[u8; ENTERED_BYTES]) -> [u32; 5] {
    let mut numbers = bytes.chunks_exact(4).map(|number| number.try_into().map_or(0, u32::from_ne_bytes));
    std::array::from_fn(|_| numbers.next().unwrap_or_default())
}

/// Size of an `ENTERED`.
pub(crate) const ENTERED_BYTES: usize = 20;

/// Has the program make something, and gives the descriptors that it sends.
fn ask(words: &[&std::ffi::CStr], given: &[BorrowedFd<'_>]) -> io::Result<Vec<OwnedFd>> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_read_timeout(Some(LIMIT))?;
    let path = CString::new(format!("/proc/self/fd/{}", Room::program()?.as_raw_fd()))?;
    let arguments: Vec<&std::ffi::CStr> = [c"shellkeep-room"].into_iter().chain(words.iter().copied()).collect();
    let descriptors: Vec<_> = [theirs.as_fd()].into_iter().chain(given.iter().copied()).zip(PLACES).collect();
    let born = spawn::start(&path, &arguments, None, &descriptors, None)?;
    drop(descriptors);
    drop(theirs);
    let answer = receive(&ours);
    // It ends once it has answered, and a stuck one is killed.
    drop(spawn::Unwatched(born.pid));
    answer
}

fn receive(socket: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let mut bytes = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut extra = RecvAncillaryBuffer::new(&mut space);
    // A child that ends, this one or another, interrupts the wait.
    let got = rustix::io::retry_on_intr(|| {
        recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut extra, RecvFlags::CMSG_CLOEXEC)
    })?;
    let descriptors = extra.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    let descriptors: Vec<OwnedFd> = descriptors.collect();
    match (got.bytes, i32::from_ne_bytes(bytes)) {
        (4, 0) => Ok(descriptors),
        (4, error) => Err(io::Error::from_raw_os_error(error)),
        _ => Err(io::Error::other("the program that makes namespaces ended at once")),
    }
}
