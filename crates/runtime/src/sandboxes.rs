//! How sessions are confined: which of them, to what, and with which home.
//!
//! The stored state of a session does not depend on it. What confinement changes in a shell, its home, its directory for
//! temporary files and its `PATH`, is filled in whenever a shell, a service or an agent starts, so a session can be
//! tightened, forked, rewound or moved to another node without changing its variables.

use crate::ops::{OpError, SandboxPlaces, SandboxSource, SandboxSupport, SandboxView, SessionError};
use shellkeep_process::{Confinement, Fence, FenceSpec, Gap, NoFence, Own, Proof};
use shellkeep_session::shell::{ShellState, Value, Variable};
use shellkeep_session::{ByteString, Sandbox, SessionId, SessionState};
use std::borrow::Cow;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// Directories of users, which are not part of the system wherever they are.
const HOMES: [&str; 2] = ["/home", "/root"];

/// How sessions are confined.
#[derive(Debug, Clone, Default)]
pub struct SandboxConfig {
    /// How far, at least; a session may be confined more tightly.
    pub least: Sandbox,
    /// What confined sessions may read in addition to the system.
    pub read: Vec<PathBuf>,
    /// What they may read and write in addition to their own directories.
    pub write: Vec<PathBuf>,
    /// Files with secrets of the daemon, which they may not read wherever they are.
    pub hidden: Vec<PathBuf>,
}

/// How the sessions of a node are confined.
#[derive(Debug)]
pub(crate) struct Sandboxes {
    least: Sandbox,
    /// Where confined sessions have their homes.
    root: PathBuf,
    /// Variables of the daemon that do not make sense inside.
    given: Given,
    fence: Result<Held, NoFence>,
}

/// A fence that was tried.
#[derive(Debug)]
struct Held {
    fence: Fence,
    missing: Vec<&'static str>,
}

/// What the daemon gives to every session.
#[derive(Debug, Default)]
struct Given {
    home: Option<Vec<u8>>,
    tmp: Option<Vec<u8>>,
    path: Option<Vec<u8>>,
    /// `path` without the directories that confined sessions cannot read. Bash would find a program in such a directory,
    /// fail to run it, and not look further.
    readable_path: Option<Vec<u8>>,
}

/// What a confined session has to itself, besides its workspace.
#[derive(Debug, Clone)]
struct Home {
    home: PathBuf,
    tmp: PathBuf,
    rescue: PathBuf,
}

/// What confines one shell, service or agent.
#[derive(Debug)]
pub(crate) struct Confined {
    pub(crate) confinement: Confinement,
    /// Where a shell leaves a result that it cannot send.
    pub(crate) rescue: PathBuf,
}

impl Sandboxes {
    /// Tries out what this machine supports. Blocks for a few milliseconds.
    pub(crate) fn new(config: &SandboxConfig, data: &Path, environment: &[(Vec<u8>, Vec<u8>)]) -> Self {
        let value = |name: &[u8]| environment.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        let mut given =
            Given { home: value(b"HOME"), tmp: value(b"TMPDIR"), path: value(b"PATH"), readable_path: None };
        let own_home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        let hidden =
            HOMES.into_iter().map(PathBuf::from).chain(own_home).chain(config.hidden.iter().cloned()).collect();
        let spec = FenceSpec { data: data.to_owned(), hidden, read: config.read.clone(), write: config.write.clone() };
        let fence = Fence::new(&spec).and_then(|fence| {
            let proof: Proof = fence.prove(&data.join("scratch"))?;
            Ok(Held { fence, missing: proof.gaps().into_iter().map(Gap::as_str).collect() })
        });
        if let Ok(held) = &fence {
            given.readable_path = given.path.as_ref().map(|path| readable(path, &held.fence));
        }
        Self { least: config.least, root: data.join("homes"), given, fence }
    }

    /// How far every session is confined at least.
    pub(crate) fn least(&self) -> Sandbox {
        self.least
    }

    /// How far a session is confined.
    pub(crate) fn of(&self, state: &SessionState) -> Sandbox {
        self.least.max(state.sandbox)
    }

    /// Whether this machine can confine a session so far; otherwise why not.
    pub(crate) fn check(&self, sandbox: Sandbox) -> Result<(), OpError> {
        match (sandbox, &self.fence) {
            (Sandbox::None, _) | (_, Ok(_)) => Ok(()),
            (sandbox, Err(why)) => Err(unavailable(sandbox, why)),
        }
    }

    /// What this machine supports.
    pub(crate) fn support(&self) -> Vec<SandboxSupport> {
        Sandbox::ALL.into_iter().map(|sandbox| self.support_of(sandbox)).collect()
    }

    fn support_of(&self, sandbox: Sandbox) -> SandboxSupport {
        match (sandbox, &self.fence) {
            (Sandbox::None, _) => SandboxSupport { sandbox, unavailable: None, missing: Vec::new() },
            (_, Ok(held)) => SandboxSupport { sandbox, unavailable: None, missing: held.missing.clone() },
            (_, Err(why)) => SandboxSupport { sandbox, unavailable: Some(why.to_string()), missing: Vec::new() },
        }
    }

    /// What confines a process of a session that is about to start; none if nothing does. Makes its directories. Looks at
    /// its workspace, which may be on a disk that does not answer.
    pub(crate) fn confine(
        &self,
        id: &SessionId,
        sandbox: Sandbox,
        workspace: &Path,
    ) -> Result<Option<Confined>, OpError> {
        if sandbox.is_none() {
            return Ok(None);
        }
        let held = self.fence.as_ref().map_err(|why| unavailable(sandbox, why))?;
        let own = self.home(id);
        let confinement = own
            .make()
            .and_then(|()| held.fence.around(Own { writable: &[workspace, &own.home, &own.tmp], rescue: &own.rescue }));
        match confinement {
            Ok(confinement) => Ok(Some(Confined { confinement, rescue: own.rescue })),
            Err(error) => Err(unavailable(sandbox, &error)),
        }
    }

    /// A session's shell as it is inside its sandbox.
    pub(crate) fn placed<'a>(&self, state: &'a SessionState) -> Cow<'a, ShellState> {
        if self.of(state).is_none() {
            return Cow::Borrowed(&state.shell);
        }
        let (own, mut shell) = (self.home(&state.meta.session_id), state.shell.clone());
        for (name, given, place) in [("HOME", &self.given.home, &own.home), ("TMPDIR", &self.given.tmp, &own.tmp)] {
            if self.is_given(&shell, name, given.as_deref()) {
                let place = ByteString(place.as_os_str().as_bytes().to_vec());
                shell.variables.insert(name.into(), Variable::scalar("x", place));
            }
        }
        if let (Some(path), Some(readable)) = (&self.given.path, &self.given.readable_path)
            && scalar(&shell, "PATH") == Some(path)
        {
            shell.variables.insert("PATH".into(), Variable::scalar("x", ByteString(readable.clone())));
        }
        Cow::Owned(shell)
    }

    /// Whether a variable still has the daemon's value, or that of a session from which this one was forked.
    fn is_given(&self, shell: &ShellState, name: &str, given: Option<&[u8]>) -> bool {
        match (shell.variables.get(&ByteString::from(name)), scalar(shell, name)) {
            (None, _) => true,
            (Some(_), Some(value)) => {
                Some(value.as_slice()) == given || Path::new(std::ffi::OsStr::from_bytes(value)).starts_with(&self.root)
            }
            (Some(_), None) => false,
        }
    }

    /// How a session is confined, for its callers.
    pub(crate) fn view(&self, state: &SessionState) -> SandboxView {
        let (sandbox, session_id) = (self.of(state), state.meta.session_id.clone());
        let SandboxSupport { unavailable, missing, .. } = self.support_of(sandbox);
        let set_by =
            if state.sandbox < sandbox || sandbox.is_none() { SandboxSource::Node } else { SandboxSource::Session };
        let places = self.fence.as_ref().ok().filter(|_| !sandbox.is_none()).map(|held| {
            let own = self.home(&session_id);
            let (read, write) = held.fence.paths();
            let workspace = state.meta.workspace.as_path().to_owned();
            let write =
                [workspace, own.home.clone(), own.tmp.clone()].into_iter().chain(write.into_iter().map(Path::to_owned));
            SandboxPlaces {
                home: own.home.clone(),
                tmp: own.tmp.clone(),
                read: read.into_iter().map(Path::to_owned).collect(),
                write: write.collect(),
            }
        });
        SandboxView { session_id, sandbox, set_by, unavailable, missing, places }
    }

    fn home(&self, id: &SessionId) -> Home {
        let own = self.root.join(id.as_str());
        Home { home: own.join("home"), tmp: own.join("tmp"), rescue: own.join("rescue") }
    }
}

impl Home {
    fn make(&self) -> io::Result<()> {
        [&self.home, &self.tmp, &self.rescue].into_iter().try_for_each(std::fs::create_dir_all)
    }
}

fn unavailable(sandbox: Sandbox, reason: &dyn std::fmt::Display) -> OpError {
    OpError::Session(SessionError::SandboxUnavailable { sandbox, reason: reason.to_string() })
}

fn scalar<'a>(shell: &'a ShellState, name: &str) -> Option<&'a Vec<u8>> {
    match &shell.variables.get(&ByteString::from(name))?.value {
        Value::Value(value) => Some(&value.0),
        _ => None,
    }
}

/// A list of directories without those that cannot be read.
fn readable(path: &[u8], fence: &Fence) -> Vec<u8> {
    let place = |place: &&[u8]| PathBuf::from(std::ffi::OsString::from_vec(place.to_vec()));
    let kept: Vec<&[u8]> = path.split(|byte| *byte == b':').filter(|entry| fence.reads(&place(entry))).collect();
    kept.join(&b':')
}
