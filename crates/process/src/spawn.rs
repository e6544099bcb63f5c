//! Starting a process: an empty environment, its own session, a few descriptors and no others. Bash is started under the
//! driver; what else we start is in [`crate::service`].

mod children;
mod clone;

pub(crate) use children::{awaited, births};
pub(crate) use clone::Entrance;

use crate::exit::ExitStatus;
use crate::own;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, Mode, SealFlags, fchmod, fcntl_add_seals, memfd_create};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

/// The driver as it was built; see `build.rs`.
const DRIVER: &[u8] = include_bytes!(env!("SHELLKEEP_DRIVER"));
/// The command for bash: load the driver, which then never returns. The number is `OBJECT_AT_START` in `driver.c`.
const LOAD: &str = "enable -f /proc/self/fd/4 shellkeep";
/// Where the control socket and the driver's object must be; the same numbers as in `driver.c`.
const PLACES: [i32; 2] = [3, 4];
/// The embedded file: only we, and those that inherit it, can read and run it.
const EMBEDDED_MODE: u32 = 0o500;
/// Descriptors are first moved above the places, so that putting one in place cannot overwrite another.
const ABOVE_PLACES: i32 = 11;
/// A process of a session has at most this part of our own hard limit of open files. The kernel counts the descriptors that are
/// on their way through sockets for each user, and refuses a sender when they are more than its own limit. So sessions of our
/// user are refused while we can still send as many again.
const PART_OF_OUR_FILES: u64 = 2;
/// But at least as many as most systems give to a process, however few we may open: sessions have work to do.
const USUAL_OPEN_FILES: u64 = 1024;

/// The soft limit of open files before we raised our own; shells get this one.
static DESCRIPTORS_BEFORE: OnceLock<u64> = OnceLock::new();

/// Raises our own soft limit of open files to the hard one. Every live shell takes a few.
pub fn raise_descriptor_limit() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let Some(soft) = limit.current else { return };
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    if limit.current != limit.maximum && rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).is_ok() {
        let _ = DESCRIPTORS_BEFORE.set(soft);
    }
}

/// Puts our soft limit of open files back to what it was, for the program that this process becomes.
pub fn restore_descriptor_limit() {
    if let Some(soft) = DESCRIPTORS_BEFORE.get() {
        let hard = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
        let before = rustix::process::Rlimit { current: Some(*soft), maximum: hard };
        // If it fails, the next program finds the limit that we had.
        let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, before);
    }
}

/// The driver in memory, written once: every bash maps the same pages.
pub(crate) fn driver() -> io::Result<BorrowedFd<'static>> {
    static OBJECT: OnceLock<OwnedFd> = OnceLock::new();
    embedded(&OBJECT, "shellkeep-driver", DRIVER)
}

/// A file in memory with these contents.
pub(crate) fn in_memory(name: &CStr, bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC)?;
    write_all(&file, bytes)?;
    Ok(file)
}

fn write_all(file: &OwnedFd, mut rest: &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        let written = rustix::io::write(file, rest)?;
        rest = &rest[written..];
    }
    Ok(())
}

/// Something that was built with us, in memory and executable, written when it is first asked for and sealed: every shell
/// of every session loads the same one, and can open it again through `/proc`.
pub(crate) fn embedded(slot: &'static OnceLock<OwnedFd>, name: &str, bytes: &[u8]) -> io::Result<BorrowedFd<'static>> {
    if slot.get().is_none() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Kernels before 6.3 do not know that one has to ask.
        let object = memfd_create(name, flags | MemfdFlags::EXEC).or_else(|_| memfd_create(name, flags))?;
        write_all(&object, bytes)?;
        fchmod(&object, Mode::from_raw_mode(EMBEDDED_MODE))?;
        fcntl_add_seals(&object, SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        // Above the places too: a program is named by its number, after the places were filled.
        let _ = slot.set(fcntl_dupfd_cloexec(&object, ABOVE_PLACES)?);
    }
    slot.get().map(rustix::fd::AsFd::as_fd).ok_or_else(|| io::Error::other("what was built in is not there"))
}

/// The soft limit of open files that others should have, if ours is not theirs.
pub(crate) fn descriptor_limit() -> Option<u64> {
    DESCRIPTORS_BEFORE.get().copied()
}

/// Limits the open files of a child that has run nothing yet. One that has ended already needs none.
pub(crate) fn limit_open_files(pid: u32, most: u64) -> io::Result<()> {
    // Without a number it would be our own limit.
    let Some(pid) = crate::handle::number(pid) else { return Ok(()) };
    let own = getrlimit(Resource::Nofile);
    let part = own.maximum.map_or(most, |ours| (ours / PART_OF_OUR_FILES).max(USUAL_OPEN_FILES));
    let most = most.min(part);
    let least = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
    let limit = Rlimit { current: least(descriptor_limit().or(own.current)), maximum: least(own.maximum) };
    match prlimit(Some(pid), Resource::Nofile, limit) {
        Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A process that was started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Born {
    pub(crate) pid: u32,
    /// Whether it is in its groups already.
    pub(crate) is_inside: bool,
}

/// Starts bash. `mark` is the only variable of its environment, if there is one.
pub(crate) fn bash(
    path: &Path,
    control: BorrowedFd<'_>,
    mark: Option<&str>,
    entrance: Option<&Entrance>,
) -> io::Result<Born> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mark = mark.map(CString::new).transpose()?;
    let limit = descriptor_limit().map(|soft| format!("ulimit -S -n {soft}; ")).unwrap_or_default();
    let mask = own::callers_umask().map(|mask| format!("umask {mask:04o}; ")).unwrap_or_default();
    let load = CString::new(format!("{limit}{mask}{LOAD}"))?;
    let arguments = [c"bash", c"--noprofile", c"--norc", c"-c", &*load];
    start(&path, &arguments, mark.as_deref(), &[(control, PLACES[0]), (driver()?, PLACES[1])], entrance)
}

/// Starts a program at the root directory, with the null device on 0, 1 and 2, and `descriptors` at their places; inside
/// its groups if that is possible.
pub(crate) fn start(
    path: &CStr,
    arguments: &[&CStr],
    variable: Option<&CStr>,
    descriptors: &[(BorrowedFd<'_>, i32)],
    entrance: Option<&Entrance>,
) -> io::Result<Born> {
    let null = rustix::fs::open(
        c"/dev/null",
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    let mut moves = Vec::new();
    for (from, to) in [(null.as_fd(), 0), (null.as_fd(), 1), (null.as_fd(), 2)].iter().chain(descriptors) {
        moves.push((fcntl_dupfd_cloexec(from, ABOVE_PLACES)?, *to));
    }
    let mut argv: Vec<*mut libc::c_char> = arguments.iter().map(|text| text.as_ptr().cast_mut()).collect();
    argv.push(std::ptr::null_mut());
    let environment = [variable.map_or(std::ptr::null_mut(), |text| text.as_ptr().cast_mut()), std::ptr::null_mut()];
    let program = clone::Program {
        path: path.as_ptr(),
        arguments: argv.as_ptr(),
        environment: environment.as_ptr(),
        moves: &moves,
    };
    let mut awaited = awaited();
    let born = match entrance.map(|entrance| clone::inside(&program, entrance)) {
        Some(Ok(pid)) => Born { pid, is_inside: true },
        // Containers often forbid it. If there is another reason, it shows again.
        Some(Err(_)) | None => Born { pid: clone::outside(&program)?, is_inside: false },
    };
    awaited.insert(born.pid);
    Ok(born)
}

/// A pair of connected sockets: ours, which never blocks, and bash's, which does.
pub fn channel() -> io::Result<(std::os::unix::net::UnixStream, OwnedFd)> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((ours, theirs.into()))
}

/// A child that is not watched yet. Dropped, it is killed and reaped: without a handle, nothing else could do that.
pub(crate) struct Unwatched(pub(crate) u32);

impl Drop for Unwatched {
    fn drop(&mut self) {
        let Ok(pid) = libc::pid_t::try_from(self.0) else { return };
        // SAFETY: a plain system call. The process is our child and not reaped, so the number is still its own.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        let _ = reap(self.0);
    }
}

/// Reaps a child that has ended: its exit code, or the signal that ended it.
pub fn reap(pid: u32) -> io::Result<ExitStatus> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: the kernel fills in the whole structure; it was zeroed before.
    let info = unsafe {
        if libc::waitid(libc::P_PID, pid, info.as_mut_ptr(), libc::WEXITED) != 0 {
            return Err(io::Error::last_os_error());
        }
        info.assume_init()
    };
    awaited().remove(pid);
    // SAFETY: after a successful waitid for an exited child, si_status is the field in use.
    let status = unsafe { info.si_status() };
    Ok(if info.si_code == libc::CLD_EXITED { ExitStatus::Exited(status) } else { ExitStatus::Signalled(status) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// A session with the daemon's own limit sent descriptors through sockets that nobody read, until the kernel refused more. The
    /// kernel counts them for each user, so it then refused those of the daemon too, and no command of anybody could start.
    #[test]
    fn a_session_cannot_send_as_many_descriptors_as_we_can() {
        let Some(ours) = getrlimit(Resource::Nofile).maximum else { return };
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        let hard = || {
            let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
            let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
            files.split_whitespace().nth(4).unwrap().parse::<u64>().unwrap()
        };
        let limited = limit_open_files(pid, u64::MAX).map(|()| hard());
        let lower = limit_open_files(pid, 16).map(|()| hard());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(
            (limited.unwrap(), lower.unwrap()),
            ((ours / PART_OF_OUR_FILES).max(USUAL_OPEN_FILES).min(ours), 16)
        );
    }
}
