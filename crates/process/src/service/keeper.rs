//! Starting the keeper: the small program, built from `keeper/*.c`, that runs between us and a service.

use super::spec::ServiceSpec;
use crate::cage::{Cage, FirstProcesses};
use crate::confine::{ENTERED_BYTES, Room};
use crate::facts::Bytes;
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
/// Where its descriptors must be: the driver's socket and object, the pipe for its answer, the service's output, for a
/// service in a room the plan and the namespaces, and then what its log must not contain. The same numbers as in `keeper.c`.
const PLACES: [i32; 8] = [3, 4, 5, 6, 7, 8, 9, 10];
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

/// Starts one, for a service in this room, if it is in one.
pub(super) fn start(spec: &ServiceSpec, cage: &Cage, room: Option<&Room>) -> io::Result<Started> {
    let program = program()?;
    let (control, theirs) = spawn::channel()?;
    let (answer, told) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let (read, output) = pipe_with(PipeFlags::CLOEXEC)?;
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes());
    let kill_file = cage.kill_file();
    let room_files = room.map(room_files).transpose()?.unwrap_or_default();
    let masked = if spec.masked.is_empty() { None } else { Some(masked_file(&spec.masked)?) };
    let arguments = [
        c"shellkeep-keep".to_owned(),
        text(&spec.directory)?,
        CString::new(spec.log_bytes.to_string())?,
        text(&spec.bash)?,
        CString::new(spawn::descriptor_limit().map_or(NOTHING.to_owned(), |soft| soft.to_string()))?,
        text(kill_file.as_deref().unwrap_or(Path::new(NOTHING)))?,
        CString::new(own::callers_umask().map_or(NOTHING.to_owned(), |mask| format!("{mask:o}")))?,
        CString::new(room_files.len().to_string())?,
        CString::new(u8::from(masked.is_some()).to_string())?,
    ];
    let arguments: Vec<_> = arguments.iter().map(CString::as_c_str).collect();
    let mark = CString::new(cage.keeper_mark())?;
    let path = CString::new(format!("/proc/self/fd/{}", program.as_raw_fd()))?;
    let always = [theirs.as_fd(), spawn::driver()?, told.as_fd(), read.as_fd()];
    let others = room_files.iter().chain(&masked).map(AsFd::as_fd);
    let descriptors: Vec<_> = always.into_iter().chain(others).zip(PLACES).collect();
    let pid = spawn::start(&path, &arguments, Some(&mark), &descriptors, None)?.pid;
    Ok(Started { pid, control, answer: Answer { pipe: answer, room: room.cloned() }, output })
}

/// What a room is entered with: its plan, then the namespaces to join.
fn room_files(room: &Room) -> io::Result<Vec<OwnedFd>> {
    Ok([room.plan_file()?].into_iter().chain(room.descriptors()?).collect())
}

/// What the log must not contain, for nobody else to read: of each text its length, then the text.
fn masked_file(texts: &[Bytes]) -> io::Result<OwnedFd> {
    let mut bytes = Vec::new();
    for text in texts {
        let length = u32::try_from(text.len()).map_err(io::Error::other)?;
        bytes.extend_from_slice(&length.to_ne_bytes());
        bytes.extend_from_slice(text);
    }
    spawn::in_memory(c"masked", &bytes)
}

fn program() -> io::Result<BorrowedFd<'static>> {
    static PROGRAM: OnceLock<OwnedFd> = OnceLock::new();
    spawn::embedded(&PROGRAM, "shellkeep-keep", KEEPER)
}

/// The end of the pipe on which the keeper answers, once.
pub(super) struct Answer {
    pipe: OwnedFd,
    room: Option<Room>,
}

impl Answer {
    /// Who they are.
    pub(super) async fn processes(self) -> io::Result<FirstProcesses> {
        let pipe = crate::stdio::watch(self.pipe, Interest::READABLE)?;
        let mut bytes = [0; ENTERED_BYTES + 8];
        loop {
            let mut guard = pipe.readable().await?;
            match guard.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut bytes)?)) {
                // The pipe takes so few bytes whole or not at all.
                Ok(Ok(count)) if count == bytes.len() => break,
                Ok(Ok(_)) => return Err(io::Error::other("the keeper ended at once")),
                Ok(Err(error)) => return Err(error),
                Err(_would_block) => {}
            }
        }
        let [entered @ .., a, b, c, d, e, f, g, h] = bytes;
        let (main, error) = (u32::from_ne_bytes([a, b, c, d]), i32::from_ne_bytes([e, f, g, h]));
        let entered = self.room.map(|room| room.entered(&entered)).transpose()?;
        if main == 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        Ok(FirstProcesses { main, init: entered.map(|entered| entered.init) })
    }
}
