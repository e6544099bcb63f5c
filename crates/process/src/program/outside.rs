//! Starting a program that is in no room. Between the fork and the program the new process may be another user's already, and
//! that user's other processes can stop it there. So nothing that others need is held while we wait for the program.

use crate::confine::Confinement;
use crate::{handle, spawn};
use rustix::fd::OwnedFd;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

/// What a new process does before it is the program.
pub(super) struct Before<F> {
    /// What the daemon's user does.
    pub(super) setting_up: F,
    pub(super) confinement: Option<Confinement>,
    /// The directory it then enters, with the rights of whose process it is.
    pub(super) directory: Option<CString>,
}

/// Starts a command, and gives the number of its process. One that is not the program within `limit` is ended.
pub(super) fn start<F>(mut command: Command, before: Before<F>, limit: Duration) -> io::Result<u32>
where
    F: Fn() -> io::Result<()> + Send + Sync + 'static,
{
    let Before { setting_up, confinement, directory } = before;
    let (told, telling) = pipe_with(PipeFlags::CLOEXEC)?;
    // SAFETY: between fork and exec only system calls are made: no memory is taken, no lock, and the files are open.
    unsafe {
        command.pre_exec(move || {
            // While nobody else can stop it.
            rustix::io::write(&telling, &std::process::id().to_ne_bytes())?;
            setting_up()?;
            // Not before: the groups are not writable from inside.
            confinement.as_ref().map_or(Ok(()), Confinement::apply)?;
            // Last, with the rights of whose process it is now: what is below a directory is open to whoever is in it.
            directory.as_deref().map_or(Ok(()), |directory| Ok(rustix::process::chdir(directory)?))
        })
    };
    let (starter, started) = sync_channel(1);
    // Held until its number is known: it must not be taken for a stray.
    let mut awaited = spawn::awaited();
    std::thread::Builder::new().name("start".to_owned()).spawn(move || {
        let spawned = command.spawn().map(|child| child.id());
        // With it goes our end of the pipe that the number comes through.
        drop(command);
        let _ = starter.send(spawned);
    })?;
    let born = number(told);
    if let Some(pid) = born {
        awaited.insert(pid);
    }
    drop(awaited);
    let gone = || io::Error::other("the thread that starts a program is gone");
    match (started.recv_timeout(limit), born) {
        (Ok(Ok(pid)), _) => Ok(pid),
        (Err(RecvTimeoutError::Timeout), Some(pid)) => {
            if let Some(process) = handle::open(pid) {
                handle::send(process, Signal::KILL);
            }
            match started.recv() {
                Ok(Ok(pid)) => drop(spawn::reap(pid)),
                _ => spawn::awaited().remove(pid),
            }
            Err(io::Error::new(io::ErrorKind::TimedOut, format!("it was not running after {} s", limit.as_secs())))
        }
        (failed, born) => {
            // It was reaped by whoever started it.
            born.inspect(|pid| spawn::awaited().remove(*pid));
            Err(failed.map_or_else(|_| gone(), |failed| failed.err().unwrap_or_else(gone)))
        }
    }
}

/// The number that a new process told us; none if there is no such process.
fn number(told: OwnedFd) -> Option<u32> {
    let mut bytes = [0; 4];
    File::from(told).read_exact(&mut bytes).ok().map(|()| u32::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    fn nothing() -> Before<fn() -> io::Result<()>> {
        Before { setting_up: || Ok(()), confinement: None, directory: None }
    }

    /// A process that stops itself before it is a program, as its user's other processes could stop it, and its number.
    fn stopped(limit: Duration) -> (u32, std::thread::JoinHandle<io::Result<u32>>) {
        let (told, telling) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let setting_up = move || {
            rustix::io::write(&telling, &std::process::id().to_ne_bytes())?;
            Ok(rustix::process::kill_process(rustix::process::getpid(), Signal::STOP)?)
        };
        let before = Before { setting_up, confinement: None, directory: None };
        let starting = std::thread::spawn(move || start(Command::new("true"), before, limit));
        (number(told).unwrap(), starting)
    }

    #[test]
    fn one_that_is_stopped_before_it_runs_holds_up_nobody() {
        let (pid, starting) = stopped(LONG);
        let other = start(Command::new("true"), nothing(), LONG).unwrap();
        assert_eq!(spawn::reap(other).unwrap().code(), 0);
        assert!(!starting.is_finished());
        handle::send(handle::open(pid).unwrap(), Signal::CONT);
        assert_eq!(starting.join().unwrap().unwrap(), pid);
        assert_eq!(spawn::reap(pid).unwrap().code(), 0);
    }

    #[test]
    fn one_that_stays_stopped_is_ended() {
        let (pid, starting) = stopped(Duration::from_millis(1));
        assert_eq!(starting.join().unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(!spawn::awaited().contains(pid) && handle::open(pid).is_none());
    }

    #[test]
    fn one_that_cannot_be_started_is_not_awaited() {
        let failed = start(Command::new("/nowhere/program"), nothing(), LONG).unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::NotFound);
        let directory = Some(c"/nowhere".to_owned());
        let failed = start(Command::new("true"), Before { directory, ..nothing() }, LONG).unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::NotFound);
    }
}
