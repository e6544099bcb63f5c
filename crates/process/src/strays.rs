//! Orphaned children. What a session started and what then lost its parent becomes a child of ours, because
//! we are its subreaper or the first process of a container; when it ends it stays as a zombie until it is reaped.

use crate::{proc, spawn};
use rustix::process::{Pid, WaitOptions, getpid, waitpid};
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether orphans below us become our children.
static IS_SUBREAPER: AtomicBool = AtomicBool::new(false);

/// Makes this process the parent of every process below it that loses its own. From then on [`reap_strays`] must be
/// called when a child has ended. For a program that is a daemon and nothing else: it would take away the children of
/// another.
pub fn become_subreaper() -> io::Result<()> {
    rustix::process::set_child_subreaper(Some(getpid()))?;
    IS_SUBREAPER.store(true, Ordering::SeqCst);
    Ok(())
}

/// Reaps them; gives how many. One that may be a child that is being made for us right now is left for later: we hear again
/// that a child has ended. Does nothing where strays are not ours: there the children we do not know may be those of the
/// program that we are a part of.
pub fn reap_strays() -> usize {
    const FIRST: u32 = 1;
    if std::process::id() != FIRST && !IS_SUBREAPER.load(Ordering::SeqCst) {
        return 0;
    }
    let mut awaited = spawn::awaited();
    let reap = |pid: u32| {
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        waitpid(Some(pid), WaitOptions::NOHANG).ok().flatten()
    };
    let mut reaped = 0;
    while let Some(pid) = first_ended() {
        if awaited.contains(pid) {
            // The kernel reports only this one until it is reaped. That happens soon, and we are called again then; only
            // one that no one reaps makes us look at all processes of the machine, which takes milliseconds.
            if awaited.is_newly_in_the_way(pid) {
                return reaped;
            }
            let strays = proc::zombies_of(std::process::id()).into_iter().filter(|pid| awaited.is_stray(*pid));
            return reaped + strays.filter_map(reap).count();
        }
        if !awaited.is_stray(pid) {
            break;
        }
        if reap(pid).is_none() {
            break;
        }
        reaped += 1;
    }
    reaped
}

/// A child that has ended and was not reaped, if there is one. It stays as it is.
fn first_ended() -> Option<u32> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the kernel fills in the whole structure, or leaves it zeroed if no one has ended; it was zeroed before.
    let info = unsafe {
        if libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options) != 0 {
            return None;
        }
        info.assume_init()
    };
    // SAFETY: after a successful waitid, si_pid is a field in use; it is 0 if no one has ended.
    u32::try_from(unsafe { info.si_pid() }).ok().filter(|&pid| pid != 0)
}
