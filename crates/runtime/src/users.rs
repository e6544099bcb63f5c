//! Which user of the machine runs the processes of which agent, in the sandbox `user`. A user is given once and for all: the
//! next daemon finds it in the data directory.

use crate::sync::lock;
use shellkeep_process::{AgentUser, NoUser, UserTrial};
use shellkeep_session::{SessionMeta, UserRange};
use shellkeep_store::{UserFile, UserHolder, UserRecord};
use shellkeep_workspace::owner;
use std::collections::{HashMap, HashSet};
use std::fs::Permissions;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// A directory that others may pass, and not list.
const PASSABLE: u32 = 0o711;
/// What users of agents pass in the data directory, besides the directory itself.
const PASSED: [&str; 2] = ["homes", "workspaces"];

/// The users of a node's agents.
#[derive(Debug)]
pub(crate) struct Users {
    range: UserRange,
    data: PathBuf,
    file: UserFile,
    given: Mutex<Given>,
    /// Why there are none.
    unavailable: Option<String>,
}

#[derive(Debug, Default)]
struct Given {
    by_holder: HashMap<UserHolder, u32>,
    taken: HashSet<u32>,
}

impl Users {
    /// Those of a data directory, in which others can pass if somebody has a user already. Tries out whether they are kept
    /// apart. Blocks for a few milliseconds.
    pub(crate) fn new(range: UserRange, data: &Path) -> Self {
        let file = UserFile::of(data);
        let (given, unreadable) = match file.load() {
            Ok(records) => (Given::of(records), None),
            Err(error) => (Given::default(), Some(format!("it is not known which agent has which user: {error}"))),
        };
        let has_some = !given.by_holder.is_empty();
        let users = Self { range, data: data.to_owned(), file, given: Mutex::new(given), unavailable: unreadable };
        let prepared = if has_some { users.let_pass().map_err(|error| error.to_string()) } else { Ok(()) };
        let unavailable = users.unavailable.clone().or_else(|| users.try_out().err().map(|error| error.to_string()));
        Self { unavailable: unavailable.or(prepared.err()), ..users }
    }

    fn try_out(&self) -> Result<(), NoUser> {
        let Some(user) = AgentUser::new(self.range.first()) else { return Ok(()) };
        UserTrial { user, data: &self.data, scratch: &self.data.join("scratch") }.prove().map(drop)
    }

    /// Why there are none, if there are none.
    pub(crate) fn unavailable(&self) -> Option<&str> {
        self.unavailable.as_deref()
    }

    /// The user of a session's agent, or of a session without one, if it has one.
    pub(crate) fn find(&self, session: &SessionMeta) -> Option<AgentUser> {
        lock(&self.given).by_holder.get(&holder(session)).copied().and_then(AgentUser::new)
    }

    /// The same; it gets one if it has none.
    pub(crate) fn assign(&self, session: &SessionMeta) -> io::Result<AgentUser> {
        let of = holder(session);
        let mut given = lock(&self.given);
        let user = match given.by_holder.get(&of) {
            Some(user) => *user,
            None => {
                let user = self.choose(&given.taken)?;
                self.let_pass()?;
                self.file.add(&UserRecord { user, of: of.clone() })?;
                given.taken.insert(user);
                given.by_holder.insert(of, user);
                user
            }
        };
        AgentUser::new(user).ok_or_else(|| io::Error::other("root is not a user of agents"))
    }

    /// Whether a user is for agents, or was given to one when the range was another.
    pub(crate) fn is_of_agent(&self, user: u32) -> bool {
        self.range.contains(user) || lock(&self.given).taken.contains(&user)
    }

    /// Gives a session's directory to its user, with everything in it; without one to the daemon's, if it belongs to a user of
    /// agents.
    pub(crate) fn give(&self, directory: &Path, user: Option<AgentUser>) -> io::Result<()> {
        if user.is_none() && lock(&self.given).taken.is_empty() {
            // Nobody ever had one, so there is nothing to look at.
            return Ok(());
        }
        let now = match owner::user_of(directory) {
            // Whoever enters it says so.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            now => now?,
        };
        let own = rustix::process::geteuid().as_raw();
        match user {
            Some(user) => owner::give(directory, user.number()),
            None if now != own && self.is_of_agent(now) => owner::give(directory, own),
            None => Ok(()),
        }
    }

    /// The next that nobody had. Where it begins depends on the data directory, so that two daemons of a machine, or one and
    /// a copy, are not likely to give the same user to two agents.
    fn choose(&self, taken: &HashSet<u32>) -> io::Result<u32> {
        let (first, count) = (self.range.first(), u64::from(self.range.last() - self.range.first()) + 1);
        let about = std::fs::metadata(&self.data)?;
        let mut hasher = DefaultHasher::new();
        (&self.data, about.dev(), about.ino()).hash(&mut hasher);
        let start = hasher.finish() % count;
        let numbers = (0..count).map(|number| first + u32::try_from((start + number) % count).unwrap_or_default());
        let free = numbers.into_iter().find(|user| !taken.contains(user));
        free.ok_or_else(|| {
            let range = self.range;
            io::Error::other(format!("all users of {range} were given to agents; name more with --sandbox-users"))
        })
    }

    /// Lets users of agents pass to their own directories. What else is in the data directory stays closed.
    fn let_pass(&self) -> io::Result<()> {
        let passed = PASSED.into_iter().map(|name| self.data.join(name)).chain([self.data.clone()]);
        passed.into_iter().try_for_each(|path| let_pass(&path))
    }
}

/// Lets others pass a directory.
pub(crate) fn let_pass(directory: &Path) -> io::Result<()> {
    std::fs::set_permissions(directory, Permissions::from_mode(PASSABLE))
}

impl Given {
    fn of(records: Vec<UserRecord>) -> Self {
        let taken = records.iter().map(|record| record.user).collect();
        Self { by_holder: records.into_iter().map(|record| (record.of, record.user)).collect(), taken }
    }
}

/// Whose the user of a session is: its agent's, or its own.
fn holder(session: &SessionMeta) -> UserHolder {
    match &session.agent {
        Some(agent) => UserHolder::Agent { agent: agent.clone() },
        None => UserHolder::Session { session: session.session_id.clone(), created_at: session.created_at },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_session::{ByteString, Sandbox, SessionId, Timestamp};

    fn session(id: &str, agent: Option<&str>) -> SessionMeta {
        SessionMeta {
            session_id: SessionId::parse(id).unwrap(),
            agent: agent.map(str::to_owned),
            agent_config: serde_json::Value::Null,
            created_at: Timestamp::now(),
            workspace: ByteString::from("/w"),
            by: None,
            forked_from: None,
            sandbox: Sandbox::User,
            secrets: Vec::new(),
        }
    }

    fn data() -> tempfile::TempDir {
        let data = tempfile::tempdir().unwrap();
        for directory in ["homes", "scratch", "workspaces"] {
            std::fs::create_dir(data.path().join(directory)).unwrap();
        }
        data
    }

    #[test]
    fn an_agent_keeps_its_user_and_nobody_else_gets_it() {
        let data = data();
        let range: UserRange = "200000-200003".parse().unwrap();
        let users = Users::new(range, data.path());
        let (ann, other) = (session("a", Some("ann")), session("b", Some("ann")));
        let user = users.assign(&ann).unwrap();
        assert_eq!((users.assign(&other).unwrap(), users.find(&other)), (user, Some(user)));
        let alone = session("c", None);
        assert_eq!(users.find(&alone), None);
        let second = users.assign(&alone).unwrap();
        // A session of the same name that was created later is another one.
        let third = users.assign(&session("c", None)).unwrap();
        let users = Users::new(range, data.path());
        assert_eq!((users.find(&ann), users.find(&alone)), (Some(user), Some(second)));
        let fourth = users.assign(&session("d", Some("dan"))).unwrap();
        let all: HashSet<u32> = [user, second, third, fourth].map(AgentUser::number).into();
        assert_eq!(all, (200_000..=200_003).collect());
        let full = users.assign(&session("e", Some("eve"))).unwrap_err().to_string();
        assert!(full.contains("200000-200003") && full.contains("--sandbox-users"), "{full}");
        // They stay known when the range changes.
        let users = Users::new("300000-300001".parse().unwrap(), data.path());
        assert!(users.is_of_agent(user.number()) && users.is_of_agent(300_001) && !users.is_of_agent(0));
        assert_eq!(users.find(&ann), Some(user));
        let mode = |name: &str| data.path().join(name).metadata().unwrap().mode() & 0o777;
        assert_eq!([mode(""), mode("homes"), mode("workspaces")], [PASSABLE; 3]);
    }

    #[test]
    fn a_list_that_cannot_be_read_is_not_an_empty_one() {
        let data = data();
        std::fs::write(data.path().join("users"), "not a record\n").unwrap();
        let users = Users::new(UserRange::default(), data.path());
        assert!(users.unavailable().is_some_and(|reason| reason.contains("which agent has which user")));
    }
}
