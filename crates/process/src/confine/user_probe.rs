//! Tries what a process of an agent's user must not be able to do. A child tries everything twice: as root, where it should
//! succeed, and as that user.

use super::confinement::Confinement;
use super::probe::{Attempt, Proof, error_of, in_child, opened, uniquely};
use super::user::AgentUser;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use std::ffi::{CStr, CString};
use std::fs::Permissions;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

/// What is tried, in this order.
const ATTEMPTS: [&str; 7] = [
    "read a file of the daemon",
    "write to a file of the daemon",
    "read a file of another agent's user",
    "link a file of the daemon into its own directory (the sysctl fs.protected_hardlinks must be 1)",
    "signal the daemon",
    "read the memory of the daemon",
    "become root again",
];
/// What must succeed after them: to write to its own directory, and to find the data directory.
const NEEDED: usize = 2;
/// All of them.
const ALL: usize = ATTEMPTS.len() + NEEDED;
/// A directory that others may pass, and not list.
const PASSABLE: u32 = 0o711;

const DAEMONS: &CStr = c"daemons";
const ANOTHERS: &CStr = c"anothers";
const OWN: &CStr = c"own";
const LINKED: &CStr = c"own/linked";
const MADE: &CStr = c"own/made";

/// Why agents cannot have users of their own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoUser {
    /// Only root can start processes as other users.
    #[error("the daemon does not run as root, so it cannot run each agent as its own user")]
    NotRoot,
    /// Root may be confined itself: by a container without these users, or without the right to change to them.
    #[error(
        "a process cannot become the user {user}: {reason}; in a container, name users that exist there in the setting \
         `sandbox_users`, and let it keep CAP_SETUID, CAP_SETGID and CAP_CHOWN"
    )]
    NotMade { user: u32, reason: String },
    /// The way to the data directory is closed.
    #[error(
        "users of agents cannot reach {path}, because a directory above it is closed to others; choose another data \
         directory with --data, such as /var/lib/shellkeep"
    )]
    Closed { path: String },
    /// The host's secrets are open to everybody.
    #[error(
        "users of agents can read {path}, which holds secrets of the daemon or of agents; close it to others (chmod o= {path})"
    )]
    Readable { path: String },
    /// It was tried, and something got through.
    #[error("the trial failed: a process of an agent's user could {0}")]
    Broken(&'static str),
}

/// What is tried out.
#[derive(Debug, Clone, Copy)]
pub struct UserTrial<'a> {
    /// A user that is nobody's. Its number and the next one are used.
    pub user: AgentUser,
    /// The data directory. That the way to it is open is tried, and not whether it is open itself.
    pub data: &'a Path,
    /// A directory in which files are made and removed again.
    pub scratch: &'a Path,
    /// Files that such a user must not be able to read, wherever they are. They need not exist.
    pub secrets: &'a [PathBuf],
}

impl<'a> UserTrial<'a> {
    /// Tries it. Blocks for a few milliseconds.
    pub fn prove(self) -> Result<Proof, NoUser> {
        if !rustix::process::geteuid().is_root() {
            return Err(NoUser::NotRoot);
        }
        let not_made = |error: io::Error| NoUser::NotMade { user: self.user.number(), reason: error.to_string() };
        let tried = self.try_all().map_err(not_made)?;
        let (tried, needed) = tried.split_at(ATTEMPTS.len());
        let is_refused = |error: i32| error == libc::EPERM || error == libc::EACCES;
        let attempts: Vec<Attempt> = ATTEMPTS
            .iter()
            .zip(tried)
            .map(|(what, [before, after])| Attempt {
                what,
                works_outside: *before == 0,
                is_refused: is_refused(*after),
            })
            .collect();
        if let Some(attempt) = attempts.iter().find(|attempt| !attempt.is_refused) {
            return Err(NoUser::Broken(attempt.what));
        }
        if let Some(path) = self.readable_secret().map_err(not_made)? {
            return Err(NoUser::Readable { path: path.display().to_string() });
        }
        match needed {
            [[_, 0], [_, 0]] => Ok(Proof { attempts }),
            [[_, 0], _] => Err(NoUser::Closed { path: self.data.display().to_string() }),
            _ => Err(not_made(io::Error::other("it cannot write to a directory of its own"))),
        }
    }

    fn try_all(self) -> io::Result<[[i32; 2]; ALL]> {
        let place = self.scratch.join(format!("user-{}", uniquely()));
        std::fs::create_dir(&place)?;
        let tried = self.prepare(&place).and_then(|attempts| {
            let user = self.user;
            let confinement = Confinement::of_user(user);
            in_child(move || attempts.run(), move || confinement.apply())
        });
        let _ = std::fs::remove_dir_all(&place);
        tried
    }

    /// The first secret that such a user can read.
    fn readable_secret(self) -> io::Result<Option<&'a Path>> {
        let name = |path: &PathBuf| CString::new(path.as_os_str().as_bytes());
        let names = self.secrets.iter().map(name).collect::<Result<Vec<_>, _>>()?;
        let (user, none) = (self.user, i32::try_from(names.len()).map_err(io::Error::other)?);
        let read = move || {
            let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
            // SAFETY: a plain system call with a name that is valid for it.
            let is_open = |name: &CString| opened(unsafe { libc::open(name.as_ptr(), flags) }) == 0;
            [(0..none).zip(&names).find(|(_, name)| is_open(name)).map_or(none, |(number, _)| number)]
        };
        let [[_, first]] = in_child(read, move || user.become_it())?;
        Ok(usize::try_from(first).ok().and_then(|first| self.secrets.get(first)).map(PathBuf::as_path))
    }

    /// Makes the files. The directory they are in can be passed by everybody, so that only their own permissions count.
    fn prepare(self, place: &Path) -> io::Result<Attempts> {
        let at = |name: &CStr| place.join(std::ffi::OsStr::from_bytes(name.to_bytes()));
        let number = self.user.number();
        std::fs::set_permissions(place, Permissions::from_mode(PASSABLE))?;
        for (name, owner) in [(DAEMONS, None), (ANOTHERS, Some(number + 1))] {
            std::fs::write(at(name), b"canary")?;
            std::fs::set_permissions(at(name), Permissions::from_mode(0o600))?;
            chown(at(name), owner, owner)?;
        }
        std::fs::create_dir(at(OWN))?;
        std::fs::set_permissions(at(OWN), Permissions::from_mode(0o700))?;
        chown(at(OWN), Some(number), Some(number))?;
        let daemon = std::process::id();
        Ok(Attempts {
            place: open(place, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?,
            daemon: libc::pid_t::try_from(daemon).map_err(io::Error::other)?,
            memory: CString::new(format!("/proc/{daemon}/mem"))?,
            data: CString::new(self.data.as_os_str().as_bytes())?,
        })
    }
}

/// Everything that the attempts need, made before the fork.
struct Attempts {
    place: OwnedFd,
    daemon: libc::pid_t,
    memory: CString,
    data: CString,
}

impl Attempts {
    /// Tries everything. Makes only system calls.
    fn run(&self) -> [i32; ALL] {
        let place = self.place.as_raw_fd();
        let open_at = |name: &CStr, flags: libc::c_int| {
            // SAFETY: a plain system call with a name that is valid for it.
            opened(unsafe { libc::openat(place, name.as_ptr(), flags | libc::O_CLOEXEC, 0o600) })
        };
        // SAFETY: plain system calls with names that are valid for them; the buffer has room for what is written.
        unsafe {
            let linked = error_of(libc::linkat(place, DAEMONS.as_ptr(), place, LINKED.as_ptr(), 0).into());
            libc::unlinkat(place, LINKED.as_ptr(), 0);
            let mut about: libc::stat = std::mem::zeroed();
            [
                open_at(DAEMONS, libc::O_RDONLY),
                open_at(DAEMONS, libc::O_WRONLY),
                open_at(ANOTHERS, libc::O_RDONLY),
                linked,
                error_of(libc::kill(self.daemon, 0).into()),
                opened(libc::open(self.memory.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC)),
                error_of(libc::setresuid(0, 0, 0).into()),
                {
                    let made = open_at(MADE, libc::O_WRONLY | libc::O_CREAT);
                    libc::unlinkat(place, MADE.as_ptr(), 0);
                    made
                },
                error_of(libc::stat(self.data.as_ptr(), &raw mut about).into()),
            ]
        }
    }
}
