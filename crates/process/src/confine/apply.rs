//! Confines the calling process, as `room/fence.c` does it for a shell. Makes only system calls, so it may be used
//! between fork and exec.

use rustix::fd::{AsRawFd, BorrowedFd};
use std::io;

/// What root keeps, for its own files: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE. The
/// same set as `kept_capabilities` in `room/fence.c`.
const KEPT_CAPABILITIES: u32 = 1 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 10;
/// Version of the structures below.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Held {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Confines this process and everything that it starts.
pub(super) fn apply(ruleset: BorrowedFd<'_>, filter: &[libc::sock_filter]) -> io::Result<()> {
    no_new_privileges()?;
    drop_capabilities(KEPT_CAPABILITIES)?;
    // SAFETY: a plain system call.
    done(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) })?;
    put_on(filter)
}

/// Puts on a filter of system calls. There must be no new privileges.
pub(super) fn put_on(filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the kernel copies the filter, which is valid for the call.
    done(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) })
}

/// Programs that this process becomes gain no privileges.
pub(super) fn no_new_privileges() -> io::Result<()> {
    // SAFETY: a plain system call.
    done(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())
}

/// Drops all capabilities but these. Without new privileges, what is dropped here does not come back with the next program.
pub(super) fn drop_capabilities(kept: u32) -> io::Result<()> {
    let mut header = Header { version: CAPABILITY_VERSION, pid: 0 };
    let mut held = [Held::default(); 2];
    // SAFETY: the version says that the kernel fills in two structures.
    done(unsafe { libc::syscall(libc::SYS_capget, &raw mut header, &raw mut held) })?;
    for (half, kept) in held.iter_mut().zip([kept, 0]) {
        half.effective &= kept;
        half.permitted &= kept;
        half.inheritable &= kept;
    }
    // SAFETY: the version says that the kernel reads two structures.
    done(unsafe { libc::syscall(libc::SYS_capset, &raw mut header, &raw const held) })
}

pub(super) fn done(result: libc::c_long) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
