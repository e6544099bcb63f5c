//! How sessions are confined: which of them, to what, and with which home.
//!
//! The stored state of a session does not depend on it. What confinement changes in a shell, its home, its directory for
//! temporary files and its `PATH`, is filled in whenever a shell, a service or an agent starts, so a session can be
//! tightened, forked, rewound or moved to another node without changing its variables.

use crate::network::Gate;
use crate::ops::{OpError, RunError, SandboxPlaces, SandboxSource, SandboxSupport, SandboxView, SessionError};
use crate::own_tmp::{self, InTheWay};
use crate::rooms::{Ahead, Rooms};
use crate::sandbox_advice::{FOR_AGENTS, Supported};
use crate::token_holders::TokenHolders;
use crate::users::{self, Users};
use rustix::io::Errno;
use shellkeep_process::{
    AgentUser, Confinement, Fence, FenceSpec, Gap, Namespaces, NoFence, NoRoom, Own, Proof, RoomSpec, StartError,
};
use shellkeep_session::shell::{ShellState, Value, Variable};
use shellkeep_session::{AllowedHost, ByteString, Network, Sandbox, SessionId, SessionMeta, SessionState, UserRange};
use std::borrow::Cow;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How far sessions of agents with tokens are confined at least, unless the host says otherwise.
pub const AGENTS_DEFAULT: Sandbox = Sandbox::Fence;
/// Why there are no rooms where agents have users of their own. Root in a room can change any file of which it is passed a
/// descriptor, and a process of an agent's user outside the room could pass it one.
const NO_ROOMS: &str = "a room has the daemon's user, and cannot be on a node whose agents have users of their own \
     (`sandbox_agents` is `user`); make a new session with the sandbox 'fence' and copy what it needs there, or use a node \
     without such users";
/// Variables with the name of the user.
const NAMES: [&str; 2] = ["USER", "LOGNAME"];
/// What is said of a workspace that has become a link.
const LINKED: &str = "it, or a directory above it, was replaced by a symbolic link, which is not followed";
/// Directories of users, which are not part of the system wherever they are.
const HOMES: [&str; 2] = ["/home", "/root"];

/// How sessions are confined.
#[derive(Debug, Clone, Default)]
pub struct SandboxConfig {
    /// How far, at least; a session may be confined more tightly.
    pub least: Sandbox,
    /// How far sessions of agents with tokens, at least. With none it is [`AGENTS_DEFAULT`], and a machine that does not
    /// support that refuses their commands; a machine that does not support what is set here refuses to start.
    pub agents: Option<Sandbox>,
    /// The users of the machine that are for agents.
    pub users: UserRange,
    /// The network of sessions in rooms.
    pub network: Network,
    /// What rooms without the machine's network may connect to.
    pub hosts: Vec<AllowedHost>,
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
    /// How far sessions of these agents are confined at least.
    agents: Sandbox,
    holders: Arc<TokenHolders>,
    /// Where confined sessions have their homes.
    root: PathBuf,
    /// Variables of the daemon that do not make sense inside.
    given: Given,
    users: Users,
    pub(crate) fence: Result<Held, NoFence>,
    rooms: Rooms,
    /// What there is instead of what there is not.
    pub(crate) supported: Supported,
}

/// A fence that was tried.
#[derive(Debug)]
pub(crate) struct Held {
    fence: Fence,
    missing: Vec<&'static str>,
}

impl Held {
    /// Whether the settings of the machine have changed, so that a new shell can read what one with these cannot.
    pub(crate) fn has_settings_after(&self, settings: u64) -> bool {
        settings > 0 && self.fence.settings() > settings
    }
}

/// What the daemon gives to every session.
#[derive(Debug, Default)]
struct Given {
    home: Option<Vec<u8>>,
    tmp: Option<Vec<u8>>,
    path: Option<Vec<u8>>,
    /// The name of the daemon's user, as these two have it.
    names: [Option<Vec<u8>>; 2],
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
    pub(crate) sandbox: Sandbox,
    /// Where a shell leaves a result that it cannot send.
    pub(crate) rescue: PathBuf,
}

/// What sandboxes depend on besides their settings.
pub(crate) struct NodeFacts {
    /// Whether no other nodes share its store.
    pub is_alone: bool,
    /// Bytes of memory that an agent may use.
    pub memory: u64,
}

impl Sandboxes {
    /// Tries out what this machine supports. Blocks for a few milliseconds.
    pub(crate) fn new(
        config: &SandboxConfig,
        data: &Path,
        environment: &[(Vec<u8>, Vec<u8>)],
        holders: Arc<TokenHolders>,
        node: NodeFacts,
    ) -> Self {
        let value = |name: &[u8]| environment.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        let mut given = Given { home: value(b"HOME"), tmp: value(b"TMPDIR"), path: value(b"PATH"), ..Given::default() };
        given.names = NAMES.map(|name| value(name.as_bytes()));
        let own_home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        let hidden =
            HOMES.into_iter().map(PathBuf::from).chain(own_home).chain(config.hidden.iter().cloned()).collect();
        let (read, write) = (config.read.clone(), config.write.clone());
        let spec = FenceSpec { data: data.to_owned(), hidden, read, write, memory: Some(node.memory) };
        let fence = Fence::new(&spec).and_then(|fence| {
            let proof: Proof = fence.prove(&data.join("scratch"))?;
            Ok(Held { fence, missing: proof.gaps().into_iter().map(Gap::as_str).collect() })
        });
        if let Ok(held) = &fence {
            given.readable_path = given.path.as_ref().map(|path| readable(path, &held.fence));
        }
        let rooms = Rooms::new(config.network, &config.hosts, fence.as_ref().map(|held| &held.fence), data);
        let agents = config.least.max(config.agents.unwrap_or(AGENTS_DEFAULT));
        let users_if = |is_on: bool| Users::new(config.users, data, is_on, &config.hidden);
        let users = users_if(config.agents == Some(Sandbox::User));
        let supported = Supported {
            fence: fence.is_ok(),
            room: rooms.unavailable.is_none() && !users.is_on(),
            has_users: users.is_on(),
            // Tried only where somebody will ask for it.
            could_have_users: fence.is_err()
                && node.is_alone
                && !users.is_on()
                && users_if(true).unavailable().is_none(),
        };
        Self { least: config.least, agents, holders, root: data.join("homes"), given, users, fence, rooms, supported }
    }

    /// How far every session of an agent, or of none, is confined at least. One that has a user stays confined, whatever is
    /// still known of its tokens.
    pub(crate) fn least_of(&self, agent: Option<&str>) -> Sandbox {
        let is_confined = |agent: &str| self.holders.contains(agent) || self.users.has_agent(agent);
        if agent.is_some_and(is_confined) { self.agents } else { self.least }
    }

    /// How far a session is confined.
    pub(crate) fn of(&self, state: &SessionState) -> Sandbox {
        self.least_of(state.meta.agent.as_deref()).max(state.sandbox)
    }

    /// How far sessions of agents with tokens are confined at least, and whether this machine supports that.
    pub(crate) fn support_of_agents(&self) -> SandboxSupport {
        self.support_of(self.agents)
    }

    /// Whether this machine can confine a session so far; otherwise why not.
    pub(crate) fn check(&self, sandbox: Sandbox) -> Result<(), OpError> {
        match self.support_of(sandbox).unavailable {
            Some(reason) => Err(self.unavailable(sandbox, &reason)),
            None => Ok(()),
        }
    }

    /// What this machine supports.
    pub(crate) fn support(&self) -> Vec<SandboxSupport> {
        Sandbox::ALL.into_iter().map(|sandbox| self.support_of(sandbox)).collect()
    }

    fn support_of(&self, sandbox: Sandbox) -> SandboxSupport {
        let no_users = self.users.unavailable().map(str::to_owned);
        let (unavailable, missing) = match (sandbox, &self.fence) {
            (Sandbox::None, _) => (None, Vec::new()),
            (Sandbox::User, _) => (no_users, Vec::new()),
            (Sandbox::Room, _) if self.users.is_on() => (Some(NO_ROOMS.to_owned()), Vec::new()),
            // Here it is around the agent's user.
            (Sandbox::Fence, Ok(_)) if self.users.is_on() && no_users.is_some() => (no_users, Vec::new()),
            (Sandbox::Fence, Ok(held)) => (None, held.missing.clone()),
            // A room that holds has none of the gaps of a fence.
            (Sandbox::Room, Ok(_)) => (self.rooms.unavailable.as_ref().map(NoRoom::to_string), Vec::new()),
            (_, Err(why)) => (Some(why.to_string()), Vec::new()),
        };
        SandboxSupport { sandbox, unavailable, missing }
    }

    /// What a shell for sessions with this sandbox can have before its session is known, if anything. For a room it may start
    /// a small program and wait for it.
    pub(crate) fn ahead(&self, sandbox: Sandbox) -> io::Result<Option<Ahead>> {
        self.check(sandbox).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(match sandbox {
            Sandbox::None | Sandbox::User => None,
            Sandbox::Fence => Some(Ahead { preparation: self.held()?.fence.ahead(), room: None }),
            Sandbox::Room => Some(self.rooms.ahead(&self.held()?.fence)?),
        })
    }

    /// What confines a process of a session that is about to start; none if nothing does. Makes its directories, and gives
    /// them to its user. Looks at its workspace, which may be on a disk that does not answer, and for a room may start a small
    /// program and wait for it. `is_own` says whether the workspace is one of ours. If no process of the session is in a room
    /// yet, they will share `offered`.
    pub(crate) fn confine(
        &self,
        session: &SessionMeta,
        sandbox: Sandbox,
        is_own: bool,
        offered: Option<Arc<Namespaces>>,
    ) -> Result<Option<Confined>, OpError> {
        self.check(sandbox)?;
        let refused = |error| {
            let error = shortage(error).or_else(|error| linked(session, error));
            error.unwrap_or_else(|error| self.unavailable(sandbox, &error))
        };
        let user = self.has_user(sandbox).then(|| self.users.assign(session)).transpose();
        let user = user.map_err(refused)?;
        let own = self.home(&session.session_id);
        let confinement = self.prepare(session, (sandbox, user), is_own, &own, offered).map_err(refused)?;
        Ok(confinement.map(|confinement| Confined { confinement, sandbox, rescue: own.rescue }))
    }

    /// Makes and gives the directories, and makes the confinement.
    fn prepare(
        &self,
        session: &SessionMeta,
        (sandbox, user): (Sandbox, Option<AgentUser>),
        is_own: bool,
        own: &Home,
        offered: Option<Arc<Namespaces>>,
    ) -> io::Result<Option<Confinement>> {
        let workspace = session.workspace.as_path();
        if is_own {
            self.users.give(workspace, user)?;
        }
        if sandbox.is_none() {
            return Ok(None);
        }
        own.make(user.is_some())?;
        [&own.home, &own.tmp, &own.rescue].into_iter().try_for_each(|path| self.users.give(path, user))?;
        let paths = Own { workspace, home: &own.home, tmp: &own.tmp, rescue: &own.rescue };
        let confinement = match (sandbox, user) {
            (Sandbox::User, Some(user)) => Confinement::of_user(user),
            (Sandbox::Room, _) => {
                let with = RoomSpec { root: &self.rooms.root, resolver: self.rooms.resolver() };
                let agent = session.agent.as_deref();
                let namespaces = self.rooms.namespaces(&session.session_id, agent, offered)?;
                self.held()?.fence.room(paths, with, namespaces)?
            }
            _ => self.held()?.fence.around(paths)?.of(user),
        };
        Ok(Some(confinement))
    }

    fn held(&self) -> io::Result<&Held> {
        self.fence.as_ref().map_err(|why| io::Error::other(why.to_string()))
    }

    /// Whether sessions that are confined so far are another user's than the daemon's: on a node whose agents have users,
    /// all that are confined. Root behind a fence could open files of others to whoever is not behind one.
    pub(crate) fn has_user(&self, sandbox: Sandbox) -> bool {
        self.users.is_on() && !sandbox.is_none()
    }

    /// Whether the agent of a session, or a session without one, ever had a user of its own, to which its files may belong.
    pub(crate) fn had_user(&self, session: &SessionMeta) -> bool {
        self.users.find(session).is_some()
    }

    /// Whether a session's processes are this user's, if they have to be its agent's.
    pub(crate) fn is_user_of(&self, state: &SessionState, user: Option<u32>) -> bool {
        let own = self.users.find(&state.meta).map(AgentUser::number);
        !self.has_user(self.of(state)) || (own.is_some() && own == user)
    }

    /// Whether what the last daemon left running must end, because sessions are other users' now.
    pub(crate) fn has_changed_users(&self) -> bool {
        self.users.has_changed()
    }

    /// Prepares the data directory for the users of sessions, after that.
    pub(crate) fn begin(&self) -> Result<(), String> {
        self.users.begin().map_err(|error| format!("the directories of sessions cannot be prepared: {error}"))
    }

    /// Whether a user of the machine is one that agents have.
    pub(crate) fn is_of_agent(&self, user: u32) -> bool {
        self.users.is_of_agent(user)
    }

    /// Whether a session that is confined so far can be in a directory of the machine. Looks at the directory, which may be on
    /// a disk that does not answer.
    pub(crate) fn has_directory(&self, id: &SessionId, sandbox: Sandbox, workspace: &Path, directory: &Path) -> bool {
        let (Ok(held), Sandbox::Room) = (&self.fence, sandbox) else { return true };
        let own = self.home(id);
        let paths = Own { workspace, home: &own.home, tmp: &own.tmp, rescue: &own.rescue };
        held.fence.room_has(paths, directory)
    }

    /// A service of this session was taken over, and is in a room that shares these.
    pub(crate) fn take_over(&self, id: &SessionId, agent: Option<&str>, namespaces: &Arc<Namespaces>) {
        let namespaces = self.rooms.keep(id, Arc::clone(namespaces));
        if let Some(Err(error)) = self.rooms.gate.as_ref().map(|gate| gate.open(id, agent, &namespaces)) {
            tracing::warn!(session = %id, %error, "a service that was taken over reaches no hosts");
        }
    }

    pub(crate) fn rooms(&self) -> &Rooms {
        &self.rooms
    }

    /// A session's shell as it is inside its sandbox.
    pub(crate) fn placed<'a>(&self, state: &'a SessionState) -> Cow<'a, ShellState> {
        let sandbox = self.of(state);
        if sandbox.is_none() {
            return Cow::Borrowed(&state.shell);
        }
        let (own, mut shell) = (self.home(&state.meta.session_id), state.shell.clone());
        for (name, given, place) in [("HOME", &self.given.home, &own.home), ("TMPDIR", &self.given.tmp, &own.tmp)] {
            if self.is_given(&shell, name, given.as_deref()) {
                let place = ByteString(place.as_os_str().as_bytes().to_vec());
                shell.variables.insert(name.into(), Variable::scalar("x", place));
            }
        }
        if let Some(user) = self.users.find(&state.meta).filter(|_| self.has_user(sandbox)) {
            for (name, given) in NAMES.into_iter().zip(&self.given.names) {
                if given.as_ref().is_some_and(|given| scalar(&shell, name) == Some(given)) {
                    let own = ByteString::from(format!("u{}", user.number()).as_str());
                    shell.variables.insert(name.into(), Variable::scalar("x", own));
                }
            }
        }
        if let (Some(path), Some(readable)) = (&self.given.path, &self.given.readable_path)
            && sandbox >= Sandbox::Fence
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
        let shared = match (sandbox, &self.fence) {
            (Sandbox::User, _) => Some(Default::default()),
            (Sandbox::Fence | Sandbox::Room, Ok(held)) => Some(held.fence.paths()),
            _ => None,
        };
        let places = shared.map(|(read, write)| {
            let own = self.home(&session_id);
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
        let is_room = sandbox == Sandbox::Room;
        let network = is_room.then_some(self.rooms.network);
        let hosts = self.rooms.gate.as_ref().filter(|_| is_room).map(Gate::hosts).unwrap_or_default().to_vec();
        SandboxView { session_id, sandbox, set_by, unavailable, missing, network, hosts, places }
    }

    /// This machine does not support a sandbox.
    fn unavailable(&self, sandbox: Sandbox, reason: &dyn std::fmt::Display) -> OpError {
        let is_of_agents = sandbox > self.least && sandbox == self.agents;
        let reason = match is_of_agents {
            true => format!("{reason}. Agents with tokens need it; {}", self.supported.instead(FOR_AGENTS)),
            false => reason.to_string(),
        };
        OpError::Session(SessionError::SandboxUnavailable { sandbox, reason })
    }

    fn home(&self, id: &SessionId) -> Home {
        let own = self.root.join(id.as_str());
        Home { home: own.join("home"), tmp: own.join("tmp"), rescue: own.join("rescue") }
    }
}

impl Home {
    /// Makes the directories. For another user, what they are in can be passed; it stays ours, so that nobody can put
    /// something else in their place.
    fn make(&self, is_passed: bool) -> io::Result<()> {
        let missing = [&self.home, &self.tmp, &self.rescue].into_iter().filter(|path| !path.is_dir());
        missing.into_iter().try_for_each(std::fs::create_dir_all)?;
        match self.home.parent().filter(|_| is_passed) {
            Some(above) => users::let_pass(above),
            None => Ok(()),
        }
    }
}

/// What the session itself has put in the way of its room, if that is why it cannot be entered.
pub(crate) fn in_the_way(sandboxes: &Sandboxes, session: &SessionMeta) -> Option<InTheWay> {
    let (own, held) = (sandboxes.home(&session.session_id), sandboxes.fence.as_ref().ok()?);
    let (read, write) = held.fence.paths();
    let directories = [session.workspace.as_path(), &own.home, &own.tmp, &own.rescue];
    own_tmp::find(&own.tmp, directories.into_iter().chain(write).chain(read))
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

/// What cannot be made because descriptors, processes or memory are short, which is not for long and not because of the
/// sandbox. Gives back any other error.
fn shortage(error: io::Error) -> Result<OpError, io::Error> {
    match StartError::from(error) {
        short if short.is_shortage() => {
            let reason = format!("{short}; {}", short.advice());
            Ok(OpError::Run(RunError::ShellUnavailable { reason }))
        }
        StartError::System(error) => Err(error),
        other => Err(io::Error::other(other)),
    }
}

/// A workspace that has become a symbolic link, which no sandbox follows: that is not for want of a sandbox. Gives back any other
/// error.
fn linked(session: &SessionMeta, error: io::Error) -> Result<OpError, io::Error> {
    if error.raw_os_error() != Some(Errno::LOOP.raw_os_error()) {
        return Err(error);
    }
    let (session_id, path) = (session.session_id.to_string(), session.workspace.to_text().into_owned());
    Ok(OpError::Run(RunError::CwdGone { session_id, path, reason: LINKED.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a descriptor for its room, a session was told for good that the machine has no rooms.
    #[test]
    fn a_shortage_is_no_missing_sandbox() {
        let code = |errno: Errno| shortage(errno.into()).map(|error| error.code()).ok();
        assert_eq!([Errno::MFILE, Errno::NFILE].map(code), [Some("shell_unavailable"); 2]);
        assert_eq!(code(Errno::PERM), None);
    }
}
