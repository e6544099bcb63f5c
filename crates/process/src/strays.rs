//! Children that nobody waits for. In a container the daemon is often the first process, and whoever loses its parent
//! there becomes a child of ours; when it ends it stays as a zombie until it is reaped.

use crate::{proc, spawn};
use rustix::process::{Pid, WaitOptions, waitpid};

/// Reaps them; gives how many. Does nothing where we are not the first process: there the children we do not know may be
/// those of the program that we are a part of.
pub fn reap_strays() -> usize {
    const FIRST: u32 = 1;
    if std::process::id() != FIRST {
        return 0;
    }
    let awaited = spawn::awaited();
    let strays = proc::zombies_of(FIRST).into_iter().filter(|pid| !awaited.contains(pid));
    let pids = strays.filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    pids.filter(|&pid| matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(Some(_)))).count()
}
