//! A user of its own for the processes of an agent. Files, processes and sockets of others are then kept from them by
//! ordinary permissions.

use super::apply;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::fchown;
use rustix::process::{Gid, Uid};
use std::io;

/// Leaves the keyring that was inherited, for a new one.
const KEYCTL_JOIN_SESSION_KEYRING: libc::c_int = 1;

/// The user of an agent, and its only group, which has the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AgentUser(u32);

impl AgentUser {
    /// The user with this number; none for root.
    pub fn new(number: u32) -> Option<Self> {
        (number != 0 && number != u32::MAX).then_some(Self(number))
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.0
    }

    /// Makes the calling process this user's, as `room/user.c` does it for a shell. Makes only system calls, for use
    /// between fork and exec.
    pub(super) fn become_it(self) -> io::Result<()> {
        let Self(number) = self;
        leave_keys()?;
        // SAFETY: plain system calls. The process has no other threads.
        unsafe {
            apply::done(libc::setgroups(0, std::ptr::null()).into())?;
            apply::done(libc::setresgid(number, number, number).into())?;
            apply::done(libc::setresuid(number, number, number).into())?;
        }
        apply::drop_capabilities(0)?;
        apply::no_new_privileges()
    }

    /// Gives it a pipe or terminal, so that its processes can open that again by a name such as `/dev/stdout`.
    pub(crate) fn give<'a>(self, descriptors: impl IntoIterator<Item = &'a OwnedFd>) -> io::Result<()> {
        let (user, group) = (Uid::from_raw(self.0), Gid::from_raw(self.0));
        descriptors
            .into_iter()
            .try_for_each(|descriptor| fchown(descriptor.as_fd(), Some(user), Some(group)).map_err(io::Error::from))
    }
}

/// Keys of whoever started the daemon stay with him. Where keys are not to be had, there are none to leave.
fn leave_keys() -> io::Result<()> {
    // SAFETY: a plain system call; without a name the new keyring has none.
    let joined = unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, std::ptr::null::<u8>()) };
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        _ if joined >= 0 => Ok(()),
        Some(libc::ENOSYS | libc::EPERM | libc::EOPNOTSUPP) => Ok(()),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe::in_child;
    use super::*;

    /// Without this capability no groups can be given up, though the user could still be changed.
    const SETGID: u32 = 1 << 6;

    #[test]
    fn a_change_of_user_stops_at_the_first_call_that_fails() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let user = AgentUser::new(200_000).unwrap();
        let who = || [rustix::process::geteuid().as_raw().cast_signed()];
        let changed = in_child(who, move || user.become_it()).unwrap();
        assert_eq!(changed, [[0, 200_000]]);
        let failed = in_child(who, move || {
            apply::drop_capabilities(!SETGID)?;
            let failed = user.become_it().is_err_and(|error| error.raw_os_error() == Some(libc::EPERM));
            if failed { Ok(()) } else { Err(io::ErrorKind::Other.into()) }
        });
        assert_eq!(failed.unwrap(), [[0, 0]]);
    }
}
