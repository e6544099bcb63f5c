//! Tries to break out of a room. A small program tries everything twice: outside, where it should succeed, and in a room.

use crate::confine::{Attempt, Fence, Namespaces, NoFence, Own, Proof, Room, RoomNetwork, RoomSpec, uniquely};
use crate::facts::Bytes;
use crate::program::{self, Inside};
use rustix::fd::AsRawFd;
use std::io;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::sync::Arc;

/// What is tried, in the order of `try_all` in `room/main.c`.
const ATTEMPTS: [&str; 8] = [
    "read a file",
    "write a file",
    "trace a process",
    "signal a process",
    "connect to an abstract socket",
    "connect to a port of the machine",
    "mount a file system",
    "make a namespace",
];
/// The one that a room with the machine's network allows.
const PORT: usize = 5;

/// The program that tries, for itself.
const ITSELF: &str = "/proc/self/exe";

/// Why there are no rooms.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// A room has a fence inside.
    #[error(transparent)]
    Fence(#[from] NoFence),
    /// The kernel, a setting or a container forbids them.
    #[error(
        "user namespaces are not allowed here ({0}); set the sysctls user.max_user_namespaces above 0, \
         kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0, or, in a container, allow \
         unshare and mount in its seccomp profile"
    )]
    Namespaces(String),
    /// It could not be made or entered.
    #[error("{0}")]
    NotMade(String),
    /// It was tried, and something got through.
    #[error("the trial failed: a process in a room could {0}")]
    Broken(&'static str),
}

impl Fence {
    /// Tries to break out of a room. `scratch` is a directory outside, in which files are made and removed again. Blocks for
    /// some milliseconds.
    pub fn prove_room(&self, network: RoomNetwork, scratch: &Path) -> Result<Proof, NoRoom> {
        let namespaces = Namespaces::new(network).map_err(|error| NoRoom::Namespaces(error.to_string()))?;
        let [outside, inside] =
            self.try_room(namespaces, scratch).map_err(|error| NoRoom::NotMade(error.to_string()))?;
        let attempts: Vec<Attempt> = ATTEMPTS
            .iter()
            .zip(outside.into_iter().zip(inside))
            .map(|(what, (outside, inside))| Attempt { what, works_outside: outside == 0, is_refused: inside != 0 })
            .collect();
        let is_allowed = |number: usize| number == PORT && network == RoomNetwork::Host;
        let broken = attempts.iter().enumerate().find(|(number, tried)| !tried.is_refused && !is_allowed(*number));
        match broken {
            Some((_, attempt)) => Err(NoRoom::Broken(attempt.what)),
            None => Ok(Proof { attempts }),
        }
    }

    fn try_room(&self, namespaces: Namespaces, scratch: &Path) -> io::Result<[[i32; ATTEMPTS.len()]; 2]> {
        let name = format!("room-{}", uniquely());
        let place = scratch.join(&name);
        std::fs::create_dir_all(&place)?;
        let place = place.canonicalize()?;
        let at = |name: &str| place.join(name);
        let (workspace, home, tmp, rescue, root) = (at("workspace"), at("home"), at("tmp"), at("rescue"), at("root"));
        for directory in [&workspace, &home, &tmp, &rescue, &root] {
            std::fs::create_dir_all(directory)?;
        }
        let tried = || -> io::Result<_> {
            std::fs::write(at("canary"), b"canary")?;
            let own = Own { workspace: &workspace, home: &home, tmp: &tmp, rescue: &rescue };
            let confinement = self.room(own, RoomSpec { root: &root, resolver: None }, Arc::new(namespaces))?;
            let abstract_socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
            let port = TcpListener::bind("127.0.0.1:0")?;
            let words = [
                "shellkeep-room".to_owned(),
                "try".to_owned(),
                at("canary").to_string_lossy().into_owned(),
                std::process::id().to_string(),
                name.clone(),
                port.local_addr()?.port().to_string(),
            ];
            let words: Vec<Bytes> = words.into_iter().map(String::into_bytes).collect();
            let path = format!("/proc/self/fd/{}", Room::program()?.as_raw_fd());
            let outside = numbers(&program::output_of(&path, &words, None)?)?;
            let inside = Inside::new(&confinement, &workspace, &[])?;
            let inside = numbers(&program::output_of(ITSELF, &words, Some(inside))?)?;
            drop((abstract_socket, port));
            Ok([outside, inside])
        };
        let tried = tried();
        let _ = std::fs::remove_dir_all(&place);
        tried
    }
}

fn numbers(output: &[u8]) -> io::Result<[i32; ATTEMPTS.len()]> {
    let text = String::from_utf8_lossy(output);
    let numbers: Vec<i32> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    numbers.try_into().map_err(|_| io::Error::other("the trial did not end"))
}
