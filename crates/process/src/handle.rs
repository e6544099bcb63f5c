//! Handles on processes. A process is signalled through one, never by a number that may have been given away since.

use crate::proc::{ProcessStamp, Stat};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::os::fd::{AsFd, OwnedFd};

/// A handle on whoever has this number now.
pub fn open(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::NONBLOCK).ok()
}

/// A handle on exactly this process, if it is alive. The number is looked at after the handle is there: from then on it
/// cannot be given to another without the handle knowing.
pub fn open_exact(stamp: ProcessStamp) -> Option<OwnedFd> {
    let handle = open(stamp.pid)?;
    Stat::read(stamp.pid).filter(|stat| stat.stamp() == stamp).map(|_| handle)
}

/// Sends a signal through a handle. False if the process has ended.
pub fn send(handle: impl AsFd, signal: Signal) -> bool {
    pidfd_send_signal(handle, signal).is_ok()
}

/// Waits until the processes behind these handles have ended.
pub async fn gone(handles: Vec<OwnedFd>) {
    for handle in handles {
        if let Ok(handle) = crate::stdio::watch(handle, tokio::io::Interest::READABLE) {
            let _ = handle.readable().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_of_another_start_is_not_this_process() {
        let own = Stat::read(std::process::id()).unwrap().stamp();
        assert!(open_exact(own).is_some());
        assert!(open_exact(ProcessStamp { started_ticks: own.started_ticks + 1, ..own }).is_none());
    }
}
