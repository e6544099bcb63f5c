//! Who connected to a Unix socket: a handle on the process that called `connect`, so that what is read about its number
//! afterwards is known to be about that process.

use crate::handle;
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::io;

/// The process that connected.
#[derive(Debug)]
pub struct Peer {
    /// `None` if it is in a pid namespace that cannot be seen from ours. Processes can only enter namespaces below their
    /// own, so such a process does not descend from us.
    pub(crate) process: Option<PeerProcess>,
    /// Its user when it connected.
    user: u32,
}

/// A process and its number.
#[derive(Debug)]
pub(crate) struct PeerProcess {
    pub(crate) pid: u32,
    pub(crate) handle: OwnedFd,
}

impl Peer {
    /// Asks the kernel. Fails if the process is gone.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let (pid, user) = peer_numbers(socket)?;
        if pid == 0 {
            return Ok(Self { process: None, user });
        }
        let handle = match peer_handle(socket) {
            // Kernels before 6.5 do not have it. The number could have been given to another process since `connect`;
            // we ask as soon as the connection is accepted, and numbers are not reused that quickly.
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => handle::open(pid).ok_or_else(gone)?,
            other => other?,
        };
        Ok(Self { process: Some(PeerProcess { pid, handle }), user })
    }

    /// The user that it ran as when it connected.
    pub fn user(&self) -> u32 {
        self.user
    }
}

fn gone() -> io::Error {
    io::Error::from_raw_os_error(libc::ESRCH)
}

/// The number of the process, as seen from our pid namespace and 0 if it cannot be seen, and its user.
fn peer_numbers(socket: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let value = std::ptr::from_mut(&mut credentials).cast();
    option(socket, libc::SO_PEERCRED, value, size_of::<libc::ucred>())?;
    Ok((u32::try_from(credentials.pid).map_err(io::Error::other)?, credentials.uid))
}

fn peer_handle(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut raw: libc::c_int = -1;
    option(socket, libc::SO_PEERPIDFD, std::ptr::from_mut(&mut raw).cast(), size_of::<libc::c_int>())?;
    // SAFETY: the kernel has just made this descriptor for us, and no one else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

fn option(socket: BorrowedFd<'_>, name: libc::c_int, value: *mut libc::c_void, size: usize) -> io::Result<()> {
    let mut length = libc::socklen_t::try_from(size).map_err(io::Error::other)?;
    // SAFETY: `value` has room for `length` bytes, which is what the kernel writes at most.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, value, &mut length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;

    #[test]
    fn a_connection_to_ourselves_is_ours() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let peer = Peer::of(ours.as_fd()).unwrap().process.unwrap();
        assert_eq!(peer.pid, std::process::id());
        assert!(handle::is_alive(&peer.handle));
    }
}
