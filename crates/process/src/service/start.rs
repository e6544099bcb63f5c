//! Starting a service. Everything that was started is ended again if it does not come to an end.

use super::keeper::{self, Started};
use super::log::LogWatch;
use super::spec::{EXIT_FILE, ServiceExit, ServiceSpec, ServiceStamps, ServiceStartError, left_exit};
use crate::cage::{Cage, FirstProcesses};
use crate::channel::Channel;
use crate::confine::{Ahead, Confinement};
use crate::facts::Fact;
use crate::handle;
use crate::proc::{ProcessStamp, Stat};
use crate::run::RunSpec;
use crate::shell::frames::{self, flag, write_command};
use crate::shell::{NotRestored, START_LIMIT, StartError, unsupported};
use crate::wire::{self, kind};
use crate::{spawn, stdio};
use rustix::fd::OwnedFd;
use rustix::process::Signal;
use std::io;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A keeper and what it has started so far.
struct Starting {
    keeper_pid: u32,
    keeper: Option<OwnedFd>,
    cage: Option<Cage>,
}

impl Drop for Starting {
    fn drop(&mut self) {
        let Some(cage) = self.cage.take() else { return };
        cage.kill_all();
        if let Some(keeper) = &self.keeper {
            handle::send(keeper, Signal::KILL);
        }
        // Its exit takes a moment; do not wait for that.
        let (pid, handles) = (self.keeper_pid, self.keeper.take().into_iter().collect());
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move {
                handle::gone(handles).await;
                let _ = spawn::reap(pid);
                drop(cage);
            })),
            Err(_) => drop(spawn::reap(pid)),
        }
    }
}

/// A service that has begun.
pub(super) struct Begun {
    pub(super) stamps: ServiceStamps,
    pub(super) keeper: AsyncFd<OwnedFd>,
    pub(super) cage: Cage,
    /// What of the state could not be restored.
    pub(super) problems: Vec<NotRestored>,
}

pub(super) async fn start(
    spec: ServiceSpec,
    cage: Cage,
    confinement: Option<Confinement>,
    facts: &[Fact],
    run: RunSpec<'_>,
) -> Result<Begun, ServiceStartError> {
    // Word of an earlier life must not be taken for that of this one.
    match std::fs::remove_file(spec.directory.join(EXIT_FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let room = confinement.as_ref().and_then(|confinement| confinement.room.as_ref());
    let Started { pid, control, answer, output } = keeper::start(&spec, &cage, room)?;
    let mut starting = Starting { keeper_pid: pid, keeper: handle::open(pid), cage: Some(cage) };
    let begun = async {
        let processes = answer.processes().await?;
        let stamps = match starting.enclose(processes) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Err(ended_early(&spec).await),
            other => other?,
        };
        let mut channel = Channel::new(control)?;
        greet(&mut channel, &spec).await?;
        let user = confinement.as_ref().and_then(|confinement| confinement.user);
        user.map_or(Ok(()), |user| user.give([&output]))?;
        let confinement = confinement.map(|confinement| (confinement, Ahead::Nothing));
        frames::restore(&mut channel, confinement, &spec.rescue, facts).await?;
        let problems = frames::restored(&mut channel, &[]).await?;
        begin(&mut channel, run, output).await?;
        Ok::<_, ServiceStartError>((stamps, problems))
    };
    let begun = tokio::time::timeout(START_LIMIT, begun).await;
    let (stamps, problems) = begun.map_err(|_| ServiceStartError::Shell(StartError::Stuck))??;
    let (keeper, cage) = starting.finish()?;
    Ok(Begun { stamps, keeper, cage, problems })
}

impl Starting {
    /// Puts all where they belong, before the main process gets its command.
    fn enclose(&mut self, FirstProcesses { main, init }: FirstProcesses) -> io::Result<ServiceStamps> {
        let gone = || io::Error::from_raw_os_error(libc::ESRCH);
        let stamp = |pid: u32| -> io::Result<ProcessStamp> { Ok(Stat::read_any(pid).ok_or_else(gone)?.stamp()) };
        let stamps = ServiceStamps { keeper: stamp(self.keeper_pid)?, main: stamp(main)? };
        let cage = self.cage.as_mut().ok_or_else(gone)?;
        cage.enclose_keeper(stamps.keeper)?;
        cage.enclose(main)?;
        init.map_or(Ok(()), |init| cage.enclose_init(init))?;
        Ok(stamps)
    }

    /// From here on dropping the cage kills nothing.
    fn finish(mut self) -> io::Result<(AsyncFd<OwnedFd>, Cage)> {
        let gone = || io::Error::other("the keeper ended at once");
        let keeper = stdio::watch(self.keeper.take().ok_or_else(gone)?, Interest::READABLE)?;
        let mut cage = self.cage.take().ok_or_else(gone)?;
        cage.release();
        Ok((keeper, cage))
    }
}

async fn greet(channel: &mut Channel, spec: &ServiceSpec) -> Result<(), ServiceStartError> {
    match channel.next().await {
        Some((kind::HELLO, _)) => Ok(()),
        Some(_) => Err(unsupported(&spec.bash, None).into()),
        None => Err(ended_early(spec).await),
    }
}

/// Bash went before it said anything. The keeper will say how.
async fn ended_early(spec: &ServiceSpec) -> ServiceStartError {
    let mut watch = LogWatch::new(&spec.directory);
    let status = loop {
        if let Some(ServiceExit::Ended { status, .. }) = left_exit(&spec.directory) {
            break status;
        }
        watch.changed().await;
    };
    unsupported(&spec.bash, Some(status)).into()
}

async fn begin(channel: &mut Channel, run: RunSpec<'_>, output: OwnedFd) -> Result<(), ServiceStartError> {
    let mut frame = channel.frame(kind::SERVICE);
    write_command(&mut frame, flag::STDOUT | flag::STDERR, run);
    channel.send(frame, &[output.try_clone()?, output], START_LIMIT).await?;
    match channel.next().await {
        Some((kind::SERVICE, _)) => Ok(()),
        Some((kind::BAD_CWD, payload)) => {
            let reason = wire::Reader::new(&payload).bytes().unwrap_or_default();
            Err(ServiceStartError::BadCwd(String::from_utf8_lossy(&reason).into_owned()))
        }
        Some((kind::REFUSED, payload)) => {
            let reason = wire::Reader::new(&payload).bytes().unwrap_or_default();
            Err(io::Error::other(String::from_utf8_lossy(&reason).into_owned()).into())
        }
        Some((kind::TOO_LATE, _)) => Err(ServiceStartError::TooLate),
        _ => Err(io::Error::other("bash ended before it began").into()),
    }
}
