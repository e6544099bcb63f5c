//! Starting the keeper: the small program, built from `keeper/*.c`, that runs between us and a service.

use super::spec::ServiceSpec;
use crate::cage::Cage;
use crate::{own, spawn};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::pipe::{PipeFlags, pipe_with};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::OnceLock;
use tokio::io::Interest;

/// The keeper as it was built; see `build.rs`.
const KEEPER: &[u8] = include_bytes!(env!("SHELLKEEP_KEEPER"));
/// Where its descriptors must be: the driver's socket and object, the pipe for its answer, the service's output. The same
/// numbers as in `keeper.c`.
const PLACES: [i32; 4] = [3, 4, 5, 6];
/// What it says in a place where it has nothing to say.
const NOTHING: &str = "-";

/// What is there once a keeper was started.
pub(super) struct Started {
    pub(super) pid: u32,
    /// Our end of the driver's socket.
    pub(super) control: UnixStream,
    /// Where the keeper reports the main process.
    pub(super) answer: Answer,
    /// What the service writes to; only the keeper has the other end.
    pub(super) output: OwnedFd,
}

/// Starts one.
pub(super) fn start(spec: &ServiceSpec, cage: &Cage) -> io::Result<Started> {
    let program = program()?;
    let (control, theirs) = spawn::channel()?;
    let (answer, told) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let (read, output) = pipe_with(PipeFlags::CLOEXEC)?;
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes());
    let kill_file = cage.kill_file();
    let arguments = [
        c"shellkeep-keep".to_owned(),
        text(&spec.directory)?,
        CString::new(spec.log_bytes.to_string())?,
        text(&spec.bash)?,
        CString::new(spawn::descriptor_limit().map_or(NOTHING.to_owned(), |soft| soft.to_string()))?,
        text(kill_file.as_deref().unwrap_or(Path::new(NOTHING)))?,
        CString::new(own::callers_umask().map_or(NOTHING.to_owned(), |mask| format!("{mask:o}")))?,
    ];
    let arguments: Vec<_> = arguments.iter().map(CString::as_c_str).collect();
    let mark = CString::new(cage.keeper_mark())?;
    let path = CString::new(format!("/proc/self/fd/{}", program.as_raw_fd()))?;
    let descriptors = [
        (theirs.as_fd(), PLACES[0]),
        (spawn::driver()?, PLACES[1]),
        (told.as_fd(), PLACES[2]),
        (read.as_fd(), PLACES[3]),
    ];
    let pid = spawn::start(&path, &arguments, Some(&mark), &descriptors, None)?.pid;
    Ok(Started { pid, control, answer: Answer(answer), output })
}

fn program() -> io::Result<BorrowedFd<'static>> {
    static PROGRAM: OnceLock<OwnedFd> = OnceLock::new();
    spawn::embedded(&PROGRAM, "shellkeep-keep", KEEPER)
}

/// The end of the pipe on which the keeper answers, once.
pub(super) struct Answer(OwnedFd);

impl Answer {
    /// Who the main process is.
    pub(super) async fn main(self) -> io::Result<u32> {
        let pipe = crate::stdio::watch(self.0, Interest::READABLE)?;
        let mut bytes = [0; 8];
        loop {
            let mut guard = pipe.readable().await?;
            match guard.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut bytes)?)) {
                // The pipe takes eight bytes whole or not at all.
                Ok(Ok(8)) => break,
                Ok(Ok(_)) => return Err(io::Error::other("the keeper ended at once")),
                Ok(Err(error)) => return Err(error),
                Err(_would_block) => {}
            }
        }
        let [a, b, c, d, e, f, g, h] = bytes;
        let (pid, error) = (u32::from_ne_bytes([a, b, c, d]), i32::from_ne_bytes([e, f, g, h]));
        if pid == 0 { Err(io::Error::from_raw_os_error(error)) } else { Ok(pid) }
    }
}
