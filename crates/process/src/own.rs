//! What this process does for its own safety when it is a daemon: what others can learn about it, and what its children
//! inherit. Each of these applies to the whole process, so only the program calls them, before it has other threads.

use rustix::fd::{FromRawFd, OwnedFd};
use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, set_dumpable_behavior, umask};
use std::ffi::CString;
use std::io;
use std::sync::OnceLock;

/// Files that the daemon creates are private to its owner.
const PRIVATE: u32 = 0o077;
/// The first descriptor that is not one of the standard three.
const FIRST_OTHER: libc::c_uint = 3;

/// The umask before ours; shells, services and agents get this one.
static CALLERS_UMASK: OnceLock<u32> = OnceLock::new();

/// From now on files and directories that this process creates are private to its owner. What sessions start has the
/// previous umask.
pub fn make_files_private() {
    let before = umask(Mode::from_raw_mode(PRIVATE)).as_raw_mode();
    let _ = CALLERS_UMASK.set(before);
}

/// The umask that others should have, if ours is not theirs.
pub fn callers_umask() -> Option<u32> {
    CALLERS_UMASK.get().copied()
}

/// Restores the umask from before [`make_files_private`], for the program that this process becomes.
pub fn restore_umask() {
    if let Some(before) = callers_umask() {
        umask(Mode::from_raw_mode(before));
    }
}

/// Prevents other processes of the same user from reading our memory, environment and descriptors and from tracing us.
/// Root still can. Also disables core dumps.
pub fn hide_from_same_user() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Descriptors that our parent left open are not inherited by what we start.
pub fn keep_inherited_descriptors() -> io::Result<()> {
    close_on_exec_from(FIRST_OTHER)
}

/// Takes the descriptor `number` that our parent left open, whatever it is: a pipe, a socket, a file. What is returned is
/// a copy that our children do not inherit. The original is closed, so that a reader at its other end finds the end
/// when the copy is dropped; one of the standard three stays open, because it is used as such. To be called before this
/// process opens descriptors of its own, which could otherwise have that number.
pub fn take_inherited(number: u32) -> io::Result<OwnedFd> {
    let original = libc::c_int::try_from(number).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    // SAFETY: the call takes three numbers; it fails if the first is not an open descriptor.
    let copy = unsafe { libc::fcntl(original, libc::F_DUPFD_CLOEXEC, FIRST_OTHER.cast_signed()) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    if number >= FIRST_OTHER {
        // SAFETY: our parent left it open, and nothing here owns it.
        unsafe { libc::close(original) };
    }
    // SAFETY: it was just opened, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Every descriptor from `first` on is closed when this process becomes another program. One system call, so that it may
/// be made between a fork and an exec.
pub(crate) fn close_on_exec_from(first: libc::c_uint) -> io::Result<()> {
    // SAFETY: the call takes three numbers.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Removes variables from our environment, and their values from the memory in which `/proc/PID/environ` shows it. Fails
/// if there are other threads already, which might be reading it.
pub fn forget_variables(names: &[&str]) -> io::Result<()> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("the environment can be changed only while there are no other threads"));
    }
    for name in names {
        let Ok(name_c) = CString::new(*name) else { continue };
        // SAFETY: the value ends in a NUL and is ours to write to; no one else reads it, as there is no one else.
        unsafe {
            let value = libc::getenv(name_c.as_ptr());
            if !value.is_null() {
                std::ptr::write_bytes(value, 0, libc::strlen(value));
            }
            std::env::remove_var(name);
        }
    }
    Ok(())
}

/// How many descriptors this process may have; `None` if nothing limits them.
pub fn most_descriptors() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// Descriptors that something small needs at the same time, such as a look at another process.
const A_FEW: usize = 8;

/// Whether this process, or the machine, has fewer than a few descriptors left.
pub fn is_short_of_descriptors() -> bool {
    let few: Result<Vec<_>, _> = (0..A_FEW).map(|_| std::fs::File::open("/dev/null")).collect();
    let error = few.err().and_then(|error| rustix::io::Errno::from_io_error(&error));
    matches!(error, Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE))
}
