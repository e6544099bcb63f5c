//! The zygote: a bash that has loaded the driver and runs nothing. Shells are forked from it, which costs a fraction of
//! starting one. Where that is not possible, shells are started.

use crate::cage::{Cage, CageFactory};
use crate::channel::Channel;
use crate::locale;
use crate::shell::{LiveShell, ShellOrigin, ShellSpec, StartError};
use crate::spawn::{self, Born};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::Mutex;

/// A zygote that was killed is replaced, and the shell is forked from the new one.
const ATTEMPTS: usize = 2;

/// Whether shells are forked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forking {
    /// Where the machine allows it.
    Auto,
    /// Each shell is started.
    Off,
}

/// Makes shells, all of one bash.
#[derive(Debug)]
pub struct Zygote {
    bash: PathBuf,
    /// An empty directory.
    scratch: PathBuf,
    factory: CageFactory,
    /// What most sessions name; empty for none.
    locale: Vec<u8>,
    live: Mutex<Option<Live>>,
    /// Whether shells are not forked: the host does not want it, or the kernel refused.
    is_off: AtomicBool,
    started: AtomicU64,
}

/// A shell that was forked.
struct Forked {
    born: Born,
    channel: Channel,
    origin: ShellOrigin,
}

/// A zygote that waits for requests.
#[derive(Debug)]
struct Live {
    shell: LiveShell,
    origin: Origin,
}

/// What a bash that is started now would get from the machine. If that has changed, the zygote is out of date.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Origin {
    /// Device, inode, size, and the times of the last change of contents and of status.
    file: [i64; 7],
    host_name: Vec<u8>,
}

impl Origin {
    fn of(bash: &Path) -> io::Result<Self> {
        let file = std::fs::metadata(bash)?;
        let [device, inode, size] = [file.dev(), file.ino(), file.size()].map(|number| number as i64);
        let file = [device, inode, size, file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
        Ok(Self { file, host_name: host_name()? })
    }
}

/// Asked for each shell, so not read from a file, which takes four calls.
fn host_name() -> io::Result<Vec<u8>> {
    let mut name = [0_u8; 256];
    // SAFETY: the kernel writes no more than the length that it is told.
    if unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(name.split(|byte| *byte == 0).next().unwrap_or_default().to_vec())
}

impl Zygote {
    /// Shells of this bash. `scratch` is an empty directory.
    pub fn new(bash: PathBuf, scratch: PathBuf, factory: CageFactory, forking: Forking) -> Self {
        Self {
            bash,
            scratch,
            factory,
            locale: Vec::new(),
            live: Mutex::new(None),
            is_off: AtomicBool::new(forking == Forking::Off),
            started: AtomicU64::new(0),
        }
    }

    /// The same with the locale loaded that these variables name, for sessions that have them too.
    pub fn with_locale_of(self, variables: &[(Vec<u8>, Vec<u8>)]) -> Self {
        let named = locale::named(variables.iter().map(|(name, value)| (name.as_slice(), value.as_slice())));
        Self { locale: named.unwrap_or_default().to_vec(), ..self }
    }

    /// A shell in this cage: forked if possible, else started. `rescue` is where the driver leaves a result when a command
    /// has closed its socket; it must not exist.
    pub async fn shell(&self, rescue: PathBuf, cage: Cage) -> Result<LiveShell, StartError> {
        let spec = ShellSpec { bash: self.bash.clone(), rescue };
        match self.fork(&cage).await {
            Some(Forked { born, channel, origin }) => LiveShell::of(born, spec, cage, channel, origin),
            None => LiveShell::start(spec, cage).await,
        }
    }

    /// Ends it. The next shell would start another.
    pub fn close(&self) {
        self.is_off.store(true, Ordering::SeqCst);
        // Whoever holds it is about to drop it: the caller removes all cages next.
        let _ = self.live.try_lock().map(|mut live| live.take());
    }

    /// Forks a shell. `None` if it has to be started.
    async fn fork(&self, cage: &Cage) -> Option<Forked> {
        if self.is_off.load(Ordering::SeqCst) {
            return None;
        }
        for _ in 0..ATTEMPTS {
            // First of all: those who wait for their turn hold no descriptors.
            let mut live = self.live.lock().await;
            // A new one each time: a child that we did not hear of finds the other end of its own closed, and ends.
            let (ours, theirs) = spawn::channel().ok()?;
            let channel = Channel::new(ours).ok()?;
            let entrance = cage.entrance()?;
            let origin = Origin::of(&self.bash).ok()?;
            live.take_if(|live| live.origin != origin);
            if live.is_none() {
                *live = Some(Live { shell: self.start().await?, origin });
            }
            let zygote = live.as_mut()?;
            match zygote.shell.fork(theirs, entrance, &self.locale).await {
                Ok(Ok(born)) => {
                    let origin = ShellOrigin { is_forked: true, ..zygote.shell.origin().clone() };
                    return Some(Forked { born, channel, origin });
                }
                Ok(Err(refused)) => {
                    self.note(&refused);
                    return None;
                }
                // It is gone.
                Err(_) => drop(live.take()),
            }
        }
        None
    }

    async fn start(&self) -> Option<LiveShell> {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let name = format!("zygote-{}-{number}", std::process::id());
        let spec = ShellSpec { bash: self.bash.clone(), rescue: self.scratch.join(&name) };
        LiveShell::start(spec, self.factory.cage(&name)).await.ok()
    }

    /// Whether the kernel would refuse again. A shortage passes.
    fn note(&self, refused: &io::Error) {
        let lasting = [libc::ENOSYS, libc::EPERM, libc::EACCES, libc::EINVAL, libc::EOPNOTSUPP];
        if refused.raw_os_error().is_some_and(|error| lasting.contains(&error)) {
            self.is_off.store(true, Ordering::SeqCst);
        }
    }
}
