//! The fence of a node: what every confined session may read and write, and the filter of system calls. With the
//! directories of one session it becomes a confinement.

use super::ahead::{Preparation, Step};
use super::confinement::{Around, Confinement};
use super::filter;
use super::granted::{Grant, Granted, NotOpened, Use};
use super::grants::{DEVICES, SHARED_MEMORY, is_away, is_directory, open_path, open_real, without};
use super::plan::{self, PROCESSORS, Plan, RootLinks};
use super::room::{Namespaces, Room};
use super::settings::Settings;
use crate::sync::lock;
use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _, RulesetError, Scope,
    make_bitflags,
};
use rustix::fd::{AsRawFd as _, OwnedFd};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The newest rights that we use. Later ones are about logs and threads.
const NEWEST: ABI = ABI::V6;
/// Before this version (Linux 6.2) files outside could be truncated.
const OLDEST: i32 = 3;
/// The flag that asks for the version.
const VERSION: libc::c_uint = 1;

/// How many rulesets are begun ahead. Each is a descriptor.
const BEGUN: usize = 4;

/// The least shared memory of a room: as much as containers usually have.
const LEAST_SHARED: u64 = 64 << 20;
/// The part of an agent's memory that the shared memory of each of its rooms may have: one in this many.
const PART_SHARED: u64 = 16;

/// Where programs read which resolver to ask.
const RESOLVER_FILE: &str = "/etc/resolv.conf";

/// What a fence is made from.
#[derive(Debug, Clone, Default)]
pub struct FenceSpec {
    /// The data directory: never granted, whatever else is.
    pub data: PathBuf,
    /// What else is not part of the system: homes, files with secrets.
    pub hidden: Vec<PathBuf>,
    /// What sessions may read in addition to the system.
    pub read: Vec<PathBuf>,
    /// What sessions may read and write in addition to their own directories.
    pub write: Vec<PathBuf>,
    /// How much memory the processes of an agent may use, if that is known.
    pub memory: Option<u64>,
}

/// Why there is no fence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoFence {
    /// The kernel was built without it, it is switched off, or a container forbids it.
    #[error(
        "this kernel has no Landlock, or does not allow it ({0}); Linux 6.2 or newer with `landlock` in its lsm= list is needed"
    )]
    Landlock(String),
    /// The kernel is too old.
    #[error("the Landlock of this kernel is too old (version {0}); Linux 6.2 or newer is needed")]
    Old(i32),
    /// There is no filter for this processor.
    #[error("there is no system call filter for this processor ({})", std::env::consts::ARCH)]
    Processor,
    /// A path that sessions should reach cannot be opened.
    #[error("{path}: {reason}")]
    Path { path: String, reason: String },
    /// It was tried, and something got through or the trial failed.
    #[error("the trial failed: {0}")]
    Broken(String),
}

impl From<NotOpened> for NoFence {
    fn from(NotOpened { path, error }: NotOpened) -> Self {
        Self::Path { path: path.display().to_string(), reason: error.to_string() }
    }
}

/// Why there is no ruleset.
#[derive(Debug, thiserror::Error)]
enum Refused {
    /// A path could not be opened, or the kernel does not take a rule for it.
    #[error(transparent)]
    Rule(#[from] io::Error),
    /// The kernel does not take the ruleset.
    #[error(transparent)]
    Ruleset(#[from] RulesetError),
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        match refused {
            // As it is, so that its number says what was short.
            Refused::Rule(error) => error,
            Refused::Ruleset(error) => Self::other(error),
        }
    }
}

/// What all sessions of a node have in common.
#[derive(Debug)]
pub struct Fence {
    abi: ABI,
    data: PathBuf,
    granted: Granted,
    devices: Vec<OwnedFd>,
    shared_memory: Option<OwnedFd>,
    /// How much of it a room has of its own.
    shared_bytes: u64,
    filter: Arc<[libc::sock_filter]>,
    links: RootLinks,
    /// Rulesets that were begun ahead.
    begun: Mutex<Vec<Begun>>,
}

/// What the rulesets of all sessions have in common.
#[derive(Debug)]
struct Begun {
    ruleset: OwnedFd,
    /// Which settings of the machine it grants.
    settings: u64,
}

/// The directories of one session, by their real paths. Its processes may read and write the first three.
#[derive(Debug, Clone, Copy)]
pub struct Own<'a> {
    pub workspace: &'a Path,
    pub home: &'a Path,
    /// For temporary files.
    pub tmp: &'a Path,
    /// Where its shells leave a result that they cannot send: files may only be made in it.
    pub rescue: &'a Path,
}

/// What a room needs besides the directories of its session.
#[derive(Debug, Clone, Copy)]
pub struct RoomSpec<'a> {
    /// An empty directory, outside of the session's others, on which the room's root is mounted.
    pub root: &'a Path,
    /// What programs inside read to find a resolver, if not what those outside read.
    pub resolver: Option<&'a Path>,
}

impl Fence {
    /// A fence, if this machine can have one. Whether it holds is for [`Fence::prove`] to say.
    pub fn new(spec: &FenceSpec) -> Result<Self, NoFence> {
        let abi = supported()?;
        let filter = filter::compile().ok_or(NoFence::Processor)?;
        let hidden: Vec<PathBuf> = spec.hidden.iter().chain([&spec.data]).map(|path| real(path)).collect();
        let data = real(&spec.data);
        let granted = Granted::open(&hidden, &spec.read, &spec.write, &data)?;
        let devices = DEVICES.iter().filter_map(|path| open_path(Path::new(path)).ok()).collect();
        let shared_memory = open_path(Path::new(SHARED_MEMORY)).ok();
        let (filter, links) = (filter.into(), RootLinks::read());
        let (shared_bytes, begun) = (shared_bytes(spec.memory), Mutex::default());
        Ok(Self { abi, data, granted, devices, shared_memory, shared_bytes, filter, links, begun })
    }

    /// Whether sessions may read what is at a path, because the system or the host's list includes it.
    pub fn reads(&self, path: &Path) -> bool {
        self.granted.reads(&real(path))
    }

    /// The paths that all sessions may read, apart from what is closed to other users, and those that they may write.
    pub fn paths(&self) -> (Vec<&Path>, Vec<&Path>) {
        (self.granted.readable().map(Grant::path).collect(), self.granted.writable().map(Grant::path).collect())
    }

    /// Grows when the settings of the machine change that sessions may read, where they are granted in parts. Shells with
    /// an earlier number cannot read what has taken the place of something since.
    pub fn settings(&self) -> u64 {
        self.granted.settings().map_or(0, Settings::generation)
    }

    /// Makes the confinement of one session. Its directories must exist; one that has become a symbolic link, or is behind one,
    /// is refused as a loop (`ELOOP`).
    pub fn around(&self, own: Own<'_>) -> io::Result<Confinement> {
        Ok(Confinement { user: None, fence: Some(self.make(own, Vec::new())?), filter: None, room: None })
    }

    fn make(&self, own: Own<'_>, inside: Vec<(u64, &'static str)>) -> io::Result<Around> {
        let Begun { ruleset, settings } = self.ruleset(own)?;
        Ok(Around { ruleset, filter: Arc::clone(&self.filter), inside, settings })
    }

    /// Makes the confinement of one session in a room. Its directories must exist.
    pub fn room(&self, own: Own<'_>, with: RoomSpec<'_>, namespaces: Arc<Namespaces>) -> io::Result<Confinement> {
        if self.data.starts_with(own.workspace) {
            return Err(io::Error::other("the workspace contains the data directory, which must not be in a room"));
        }
        let devices = self.full() | self.if_known(AccessFs::IoctlDev);
        let list = BitFlags::from(AccessFs::ReadDir);
        let read = AccessFs::from_read(self.abi);
        // Of `/sys` there is only this part, which is not below what the rule for `/sys` names.
        let processors = Path::new(PROCESSORS).exists().then_some((read, PROCESSORS));
        let inside = [(read, "/proc"), (devices, "/dev"), (list, "/")].into_iter().chain(processors);
        let inside = inside.map(|(access, path)| (access.bits(), path)).collect();
        let room = Room {
            shared: self.shared_plan(with.root).into(),
            own: self.own_plan(own, with.resolver).into(),
            namespaces,
        };
        Ok(Confinement { user: None, fence: Some(self.make(own, inside)?), filter: None, room: Some(room) })
    }

    /// What a shell behind a fence can have before its session is known.
    pub fn ahead(&self) -> Preparation {
        self.begin_ahead();
        Preparation(Step::Filter(Arc::clone(&self.filter)))
    }

    /// What a shell in a room can have before its session is known. `root` is the same as that of the session's room.
    pub fn room_ahead(&self, root: &Path, namespaces: Arc<Namespaces>) -> Preparation {
        self.begin_ahead();
        let (shared, own) = (self.shared_plan(root).into(), Arc::default());
        Preparation(Step::Room(Room { shared, own, namespaces }))
    }

    /// Whether the room of a session has a directory of the machine. It may be on a disk that does not answer.
    pub fn room_has(&self, own: Own<'_>, directory: &Path) -> bool {
        let plan = [self.shared_plan(Path::new("/")), self.own_plan(own, None)].concat();
        plan::has(&plan, &real(directory))
    }

    /// What all rooms have. Not files: programs replace a file by renaming another over it, and a room that was made earlier
    /// would have the old one.
    fn shared_plan(&self, root: &Path) -> Vec<u8> {
        let granted = &self.granted;
        let readable = granted.paths_of(granted.readable(), false);
        let plan = Plan::new(root).readable(readable).system(&self.links, self.shared_bytes);
        plan.writable(granted.paths_of(granted.writable(), false)).finish()
    }

    /// What comes on top for one session.
    fn own_plan(&self, own: Own<'_>, resolver: Option<&Path>) -> Vec<u8> {
        let granted = &self.granted;
        let mut plan = Plan::own(own.tmp).readable(granted.paths_of(granted.readable(), true));
        // Where there is none, programs ask the resolver on loopback.
        if let (Some(file), Ok(path)) = (resolver, Path::new(RESOLVER_FILE).canonicalize()) {
            plan = plan.instead(file, &path);
        }
        let own_paths = [own.workspace, own.home, own.tmp, own.rescue];
        plan.writable(granted.paths_of(granted.writable(), true).chain(own_paths)).finish()
    }

    /// Begins a ruleset for a session that is not known yet. If that fails, the session's confinement says why.
    fn begin_ahead(&self) {
        if lock(&self.begun).len() < BEGUN {
            let begun = self.begin();
            lock(&self.begun).extend(begun);
        }
    }

    /// What the rulesets of all sessions have in common. No file is among it but settings, which have a number: one that is
    /// replaced later would be missing.
    fn begin(&self) -> Result<Begun, Refused> {
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(self.abi))?;
        if self.abi >= ABI::V6 {
            rules = rules.scope(Scope::from_all(self.abi))?;
        }
        let ruleset: Option<OwnedFd> = rules.create()?.into();
        let ruleset = ruleset.ok_or_else(|| io::Error::other("the kernel made no ruleset"))?;
        for (grant, how) in self.granted.all().filter(|(grant, _)| grant.is_held()) {
            self.grant(&ruleset, grant, self.access(how))?;
        }
        let settings = self.granted.settings();
        let parts = settings.map(Settings::parts).transpose()?;
        if let (Some(settings), Some(parts)) = (settings, &parts) {
            add_rule(&ruleset, &open_path(settings.root())?, AccessFs::ReadDir.into())?;
            for part in &parts.granted {
                let access = self.access(Use::Read);
                add_rule(&ruleset, &part.opened, if part.is_directory { access } else { self.of_file(access) })?;
            }
        }
        let device = make_bitflags!(AccessFs::{ReadFile | WriteFile}) | self.if_known(AccessFs::IoctlDev);
        for opened in &self.devices {
            add_rule(&ruleset, opened, device | AccessFs::Truncate)?;
        }
        if let Some(opened) = &self.shared_memory {
            let shared = make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate | MakeReg | RemoveFile});
            add_rule(&ruleset, opened, shared)?;
        }
        Ok(Begun { ruleset, settings: parts.map_or(0, |parts| parts.generation) })
    }

    fn ruleset(&self, own: Own<'_>) -> Result<Begun, Refused> {
        let now = self.granted.settings().map(Settings::parts).transpose()?.map_or(0, |parts| parts.generation);
        let begun = {
            let mut begun = lock(&self.begun);
            begun.retain(|begun| begun.settings == now);
            begun.pop()
        };
        let begun = begun.map_or_else(|| self.begin(), Ok)?;
        for (grant, how) in self.granted.all().filter(|(grant, _)| !grant.is_held()) {
            self.grant(&begun.ruleset, grant, self.access(how))?;
        }
        for path in [own.workspace, own.home, own.tmp].into_iter().flat_map(|path| self.own(path)) {
            self.grant(&begun.ruleset, &Grant::open(path)?, self.full())?;
        }
        let rescue = make_bitflags!(AccessFs::{WriteFile | MakeReg});
        add_rule(&begun.ruleset, &open_real(own.rescue)?, rescue)?;
        Ok(begun)
    }

    fn access(&self, how: Use) -> BitFlags<AccessFs> {
        match how {
            Use::Read => AccessFs::from_read(self.abi),
            Use::Write => self.full(),
        }
    }

    fn grant(&self, ruleset: &OwnedFd, grant: &Grant, access: BitFlags<AccessFs>) -> io::Result<()> {
        match grant {
            Grant::Directory { opened, .. } => add_rule(ruleset, opened, access),
            // What is there now, if there is something, and it is for us.
            Grant::File { path } => match open_real(path) {
                Ok(opened) => {
                    // A directory may have taken its place.
                    add_rule(ruleset, &opened, if is_directory(&opened)? { access } else { self.of_file(access) })
                }
                Err(error) if is_away(&error) => Ok(()),
                Err(error) => Err(error),
            },
        }
    }

    /// What of these rights there is for a file.
    fn of_file(&self, access: BitFlags<AccessFs>) -> BitFlags<AccessFs> {
        access & AccessFs::from_file(self.abi)
    }

    /// A directory of a session. One that the host named may contain the data directory. These paths are opened without
    /// following links, so what is granted is what they say.
    fn own(&self, path: &Path) -> Vec<PathBuf> {
        if path.starts_with(&self.data) {
            vec![path.to_owned()]
        } else {
            without(path, std::slice::from_ref(&self.data))
        }
    }

    /// Everything but devices: those are granted one by one, and no new ones are made.
    fn full(&self) -> BitFlags<AccessFs> {
        AccessFs::from_all(self.abi) & !make_bitflags!(AccessFs::{MakeChar | MakeBlock | IoctlDev})
    }

    fn if_known(&self, access: AccessFs) -> BitFlags<AccessFs> {
        AccessFs::from_all(self.abi) & access
    }
}

/// Adds a rule for what was opened. The crate's call asks the kernel before each rule whether it is for a directory, which
/// takes as long as the rule.
fn add_rule(ruleset: &OwnedFd, opened: &OwnedFd, access: BitFlags<AccessFs>) -> io::Result<()> {
    /// `struct landlock_path_beneath_attr`.
    #[repr(C, packed)]
    struct PathBeneath {
        access: u64,
        parent: i32,
    }
    /// `LANDLOCK_RULE_PATH_BENEATH`.
    const PATH_BENEATH: libc::c_int = 1;
    let rule = PathBeneath { access: access.bits(), parent: opened.as_raw_fd() };
    // SAFETY: the kernel reads the rule, which is valid for the call, and nothing else.
    let added =
        unsafe { libc::syscall(libc::SYS_landlock_add_rule, ruleset.as_raw_fd(), PATH_BENEATH, &raw const rule, 0) };
    if added == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The rights that this kernel knows and we use.
fn supported() -> Result<ABI, NoFence> {
    // SAFETY: a plain system call; with this flag it reads nothing.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0, VERSION) };
    match i32::try_from(version) {
        Ok(version) if version >= OLDEST => Ok(NEWEST.min(ABI::from(version))),
        Ok(version) if version > 0 => Err(NoFence::Old(version)),
        _ => Err(NoFence::Landlock(io::Error::last_os_error().to_string())),
    }
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// How much shared memory a room has, if the processes of its agent may use so much memory.
fn shared_bytes(memory: Option<u64>) -> u64 {
    memory.map_or(LEAST_SHARED, |memory| (memory / PART_SHARED).max(LEAST_SHARED))
}
