//! Which user of the machine runs the processes of which agent, in the sandbox `user`. A user is given once and for all: the
//! next daemon finds it in the data directory.

use crate::machine_users::users_of_machine;
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
/// The rights of everybody but the owner.
const OTHERS: u32 = 0o077;
/// Where sessions have their homes, and their workspaces unless the host named others. Users of agents pass them, and the
/// data directory.
const HOMES: &str = "homes";
const WORKSPACES: &str = "workspaces";
/// Why there are none on a node that was not started for them.
const NOT_HERE: &str = "agents have users of their own only where the host has set `sandbox_agents` to `user`";

/// The users of a node's agents.
#[derive(Debug)]
pub(crate) struct Users {
    /// Whether the host wants them. Otherwise it is only known who had one.
    is_on: bool,
    range: UserRange,
    data: PathBuf,
    file: UserFile,
    given: Mutex<Given>,
    /// Numbers that are not for agents, or of which it is not known for whom they are.
    reserved: HashSet<u32>,
    /// Why there are none.
    unavailable: Option<String>,
}

#[derive(Debug, Default)]
struct Given {
    by_holder: HashMap<UserHolder, u32>,
    taken: HashSet<u32>,
}

impl Users {
    /// Those of a data directory. If the host wants them, tries out whether they are kept apart, and from these secrets.
    /// Blocks for a few milliseconds.
    pub(crate) fn new(range: UserRange, data: &Path, is_on: bool, secrets: &[PathBuf]) -> Self {
        let file = UserFile::of(data);
        let loaded = file.load();
        let given = Given::of(loaded.as_ref().ok().and_then(Option::as_deref).unwrap_or_default());
        let mut users = Self {
            is_on,
            range,
            data: data.to_owned(),
            file,
            given: Mutex::new(given),
            reserved: HashSet::new(),
            unavailable: Some(NOT_HERE.to_owned()),
        };
        if is_on {
            let reserved = loaded
                .map_err(|error| format!("it is not known which agent has which user: {error}"))
                .and_then(|records| users.find_reserved(records.is_some()));
            let (reserved, why) = reserved.map_or_else(|why| (HashSet::new(), Some(why)), |reserved| (reserved, None));
            users.reserved = reserved;
            users.unavailable = why.or_else(|| users.try_out(secrets).err().map(|error| error.to_string()));
        }
        users
    }

    /// Numbers that are not to be given: those of the machine's own users, and those that own something of a session,
    /// whatever the list says.
    fn find_reserved(&self, has_list: bool) -> Result<HashSet<u32>, String> {
        let owners = self.owners().map_err(|error| format!("it is not known which users own sessions: {error}"))?;
        if !has_list && (self.file.was_in_force() || !owners.is_empty()) {
            return Err(format!(
                "{} is missing, so it is not known which users agents had; put it back, or make an empty file there, remove \
                 users.on beside it, and name other users in the setting `sandbox_users`",
                self.file.path().display()
            ));
        }
        let mut reserved = users_of_machine(self.range)?;
        reserved.extend(owners);
        Ok(reserved)
    }

    /// With a user that nobody has: services of another may run, and could stop what is tried.
    fn try_out(&self, secrets: &[PathBuf]) -> Result<(), NoUser> {
        let taken = lock(&self.given).taken.clone();
        let is_free = |user: &u32| !self.reserved.contains(user) && !taken.contains(user);
        let free = (self.range.first()..=self.range.last()).find(is_free);
        let Some(user) = AgentUser::new(free.unwrap_or(self.range.first())) else { return Ok(()) };
        UserTrial { user, data: &self.data, scratch: &self.data.join("scratch"), secrets }.prove().map(drop)
    }

    /// Whether sessions that are confined are another user's here.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Why there are none, if there are none.
    pub(crate) fn unavailable(&self) -> Option<&str> {
        self.unavailable.as_deref()
    }

    /// Whether the last daemon ran confined sessions as other users than this one does. What it left running must not go on
    /// beside what this one starts: root behind a fence and a user without one can do together what neither can alone.
    pub(crate) fn has_changed(&self) -> bool {
        self.is_on != self.file.was_in_force()
    }

    /// Before the first process of a session starts, and after those of the last daemon have ended that must: closes what
    /// root's sessions may have opened to others, and lets users of agents pass to their own directories.
    pub(crate) fn begin(&self) -> io::Result<()> {
        if self.is_on {
            let passed = [HOMES, WORKSPACES].map(|name| self.data.join(name));
            let beside = entries(&self.data)?.into_iter().filter(|path| !passed.contains(path));
            beside.chain(self.directories()?).try_for_each(|path| close_own(&path))?;
            passed.iter().chain([&self.data]).try_for_each(|path| let_pass(path))?;
        }
        self.file.set_in_force(self.is_on)
    }

    /// Whether an agent has one.
    pub(crate) fn has_agent(&self, agent: &str) -> bool {
        let given = lock(&self.given);
        !given.taken.is_empty() && given.by_holder.contains_key(&UserHolder::Agent { agent: agent.to_owned() })
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
                // Whatever comes of it: the record may be in the file after an error, too.
                given.taken.insert(user);
                self.file.add(&UserRecord { user, of: of.clone() })?;
                given.by_holder.insert(of, user);
                user
            }
        };
        AgentUser::new(user).ok_or_else(|| io::Error::other("root is not a user of agents"))
    }

    /// Whether a user is for agents here, or was given to one. The daemon's own never is.
    pub(crate) fn is_of_agent(&self, user: u32) -> bool {
        let is_own = user == rustix::process::geteuid().as_raw();
        !is_own && ((self.is_on && self.range.contains(user)) || lock(&self.given).taken.contains(&user))
    }

    /// Gives a session's directory to its user, with everything in it; without one to the daemon's, if it belongs to a user of
    /// agents.
    pub(crate) fn give(&self, directory: &Path, user: Option<AgentUser>) -> io::Result<()> {
        if user.is_none() && lock(&self.given).taken.is_empty() {
            // Nobody ever had one, so there is nothing to look at.
            return Ok(());
        }
        let now = match owner::user_of(directory) {
            // The call that enters it reports that.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            now => now?,
        };
        let own = rustix::process::geteuid().as_raw();
        match user {
            Some(user) if now == own || now == user.number() => owner::give(directory, user.number()),
            // Left over from somebody who may still have it open.
            Some(_) => Err(io::Error::other(format!(
                "{} belongs to user {now}, which is not this agent's; remove it, or give it to root with `chown -R root`",
                directory.display()
            ))),
            None if now != own && self.is_of_agent(now) => owner::give(directory, own),
            None => Ok(()),
        }
    }

    /// The next number that was never used. Where the search begins depends on the data directory, so that two daemons of a
    /// machine, or one and a copy, are not likely to give the same user to two agents.
    fn choose(&self, taken: &HashSet<u32>) -> io::Result<u32> {
        let (first, count) = (self.range.first(), u64::from(self.range.last() - self.range.first()) + 1);
        let about = std::fs::metadata(&self.data)?;
        let mut hasher = DefaultHasher::new();
        (&self.data, about.dev(), about.ino()).hash(&mut hasher);
        let start = hasher.finish() % count;
        let numbers = (0..count).map(|number| first + u32::try_from((start + number) % count).unwrap_or_default());
        let free = numbers.into_iter().find(|user| !taken.contains(user) && !self.reserved.contains(user));
        free.ok_or_else(|| {
            let range = self.range;
            io::Error::other(format!(
                "all user ids in {range} are taken; the host can name more in the setting `sandbox_users`"
            ))
        })
    }

    /// The directories of sessions: workspaces, and what is in their homes.
    fn directories(&self) -> io::Result<Vec<PathBuf>> {
        let mut found = entries(&self.data.join(WORKSPACES))?;
        for home in entries(&self.data.join(HOMES))? {
            found.extend(entries(&home)?);
        }
        Ok(found)
    }

    /// The users that they belong to, without our own.
    fn owners(&self) -> io::Result<HashSet<u32>> {
        let own = rustix::process::geteuid().as_raw();
        let mut owners = HashSet::new();
        for path in self.directories()? {
            owners.insert(path.symlink_metadata()?.uid());
        }
        owners.remove(&own);
        Ok(owners)
    }
}

/// What is in a directory; nothing if it is none.
fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    match std::fs::read_dir(directory) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        read => read?.map(|entry| entry.map(|entry| entry.path())).collect(),
    }
}

/// Closes a directory or file of the daemon's own user to others. Nobody else can put something in its place.
fn close_own(path: &Path) -> io::Result<()> {
    let closed = path.symlink_metadata().and_then(|found| {
        let is_kept = found.is_dir() || found.is_file();
        let is_own = found.uid() == rustix::process::geteuid().as_raw();
        if is_kept && is_own && found.mode() & OTHERS != 0 {
            std::fs::set_permissions(path, Permissions::from_mode(found.mode() & 0o700))?;
        }
        Ok(())
    });
    match closed {
        // The store has files that come and go.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        closed => closed,
    }
}

/// Lets others pass a directory.
pub(crate) fn let_pass(directory: &Path) -> io::Result<()> {
    std::fs::set_permissions(directory, Permissions::from_mode(PASSABLE))
}

impl Given {
    fn of(records: &[UserRecord]) -> Self {
        let taken = records.iter().map(|record| record.user).collect();
        Self { by_holder: records.iter().map(|record| (record.of.clone(), record.user)).collect(), taken }
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
            user_id: None,
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
        let users = Users::new(range, data.path(), true, &[]);
        let (ann, other) = (session("a", Some("ann")), session("b", Some("ann")));
        let user = users.assign(&ann).unwrap();
        assert_eq!((users.assign(&other).unwrap(), users.find(&other)), (user, Some(user)));
        let alone = session("c", None);
        assert_eq!(users.find(&alone), None);
        let second = users.assign(&alone).unwrap();
        // A session of the same name that was created later is another one.
        let third = users.assign(&session("c", None)).unwrap();
        let users = Users::new(range, data.path(), true, &[]);
        assert_eq!((users.find(&ann), users.find(&alone)), (Some(user), Some(second)));
        let fourth = users.assign(&session("d", Some("dan"))).unwrap();
        let all: HashSet<u32> = [user, second, third, fourth].map(AgentUser::number).into();
        assert_eq!(all, (200_000..=200_003).collect());
        let full = users.assign(&session("e", Some("eve"))).unwrap_err().to_string();
        assert!(full.contains("200000-200003") && full.contains("`sandbox_users`"), "{full}");
        // They stay known when the range changes.
        let users = Users::new("300000-300001".parse().unwrap(), data.path(), true, &[]);
        assert!(users.is_of_agent(user.number()) && users.is_of_agent(300_001) && !users.is_of_agent(0));
        assert_eq!(users.find(&ann), Some(user));
        // Where the host does not want them, they are known too.
        let users = Users::new(range, data.path(), false, &[]);
        assert!(users.find(&ann) == Some(user) && users.is_of_agent(user.number()));
        let own: UserRange = "100000-4000000".parse().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let users = Users::new(own, elsewhere.path(), false, &[]);
        assert!(!users.is_of_agent(1_000_000), "nobody is an agent's user where there are none");
        assert!(users.unavailable().is_some_and(|why| why.contains("`sandbox_agents`")));
    }

    #[test]
    fn others_pass_only_where_agents_have_users_and_reach_nothing_of_root() {
        let data = data();
        let at = |name: &str| data.path().join(name);
        let mode = |name: &str| at(name).metadata().unwrap().mode() & 0o7777;
        for open in ["workspaces/a", "homes/a/home", "homes/a/tmp"] {
            std::fs::create_dir_all(at(open)).unwrap();
            std::fs::set_permissions(at(open), Permissions::from_mode(0o755)).unwrap();
        }
        std::fs::set_permissions(at("homes/a"), Permissions::from_mode(PASSABLE)).unwrap();
        std::fs::write(at("token"), "secret").unwrap();
        std::fs::set_permissions(at("token"), Permissions::from_mode(0o644)).unwrap();
        for passed in ["", "homes", "workspaces"] {
            std::fs::set_permissions(at(passed), Permissions::from_mode(0o700)).unwrap();
        }
        let begin = |is_on: bool| {
            let users = Users::new(UserRange::default(), data.path(), is_on, &[]);
            let has_changed = users.has_changed();
            users.begin().unwrap();
            has_changed
        };
        assert!(!begin(false));
        assert_eq!([mode(""), mode("homes"), mode("workspaces"), mode("workspaces/a")], [0o700, 0o700, 0o700, 0o755]);
        assert!(begin(true) && !begin(true));
        std::fs::remove_file(at("users")).unwrap();
        let lost = Users::new(UserRange::default(), data.path(), true, &[]);
        assert!(lost.unavailable().is_some_and(|why| why.contains("users is missing")), "{:?}", lost.unavailable());
        assert_eq!([mode(""), mode("homes"), mode("workspaces"), mode("homes/a")], [PASSABLE; 4]);
        assert_eq!([mode("workspaces/a"), mode("homes/a/home"), mode("homes/a/tmp")], [0o700; 3]);
        assert_eq!((mode("token"), mode("scratch")), (0o600, 0o700));
        assert!(begin(false) && !begin(false));
    }

    #[test]
    fn a_user_that_owns_a_session_is_not_given_again() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let data = data();
        let range: UserRange = "1900000000-1900000002".parse().unwrap();
        for (place, user) in [("workspaces/a", 1_900_000_000), ("homes/a/tmp", 1_900_000_002)] {
            std::fs::create_dir_all(data.path().join(place)).unwrap();
            std::os::unix::fs::chown(data.path().join(place), Some(user), None).unwrap();
        }
        let lost = Users::new(range, data.path(), true, &[]);
        assert!(lost.unavailable().is_some_and(|why| why.contains("users is missing")), "{:?}", lost.unavailable());
        // A list that was restored from an old copy.
        std::fs::write(data.path().join("users"), "").unwrap();
        let users = Users::new(range, data.path(), true, &[]);
        assert_eq!(users.assign(&session("b", None)).unwrap().number(), 1_900_000_001);
        assert!(users.assign(&session("c", None)).is_err());
    }

    #[test]
    fn what_is_left_of_somebody_elses_is_given_to_nobody() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let data = data();
        let users = Users::new("1900000000-1900000002".parse().unwrap(), data.path(), true, &[]);
        let [ann, bob] = ["ann", "bob"].map(|agent| users.assign(&session(agent, Some(agent))).unwrap());
        let (place, file) = (data.path().join("workspaces/s"), data.path().join("workspaces/s/file"));
        std::fs::create_dir(&place).unwrap();
        std::fs::write(&file, "x").unwrap();
        users.give(&place, Some(ann)).unwrap();
        users.give(&place, Some(ann)).unwrap();
        let why = users.give(&place, Some(bob)).unwrap_err().to_string();
        assert!(why.contains(&ann.number().to_string()) && why.contains("chown"), "{why}");
        let owners = || [&place, &file].map(|path| path.metadata().unwrap().uid());
        assert_eq!(owners(), [ann.number(); 2]);
        // Without users it goes back to root, and from there to anybody.
        users.give(&place, None).unwrap();
        assert_eq!(owners(), [0, 0]);
        users.give(&place, Some(bob)).unwrap();
        assert_eq!(owners(), [bob.number(); 2]);
    }

    #[test]
    fn a_user_that_may_be_on_record_is_not_given_to_the_next() {
        let data = data();
        let users = Users::new("200000-200001".parse().unwrap(), data.path(), true, &[]);
        // It cannot be added to.
        std::fs::create_dir(data.path().join("users")).unwrap();
        let first = session("a", None);
        assert!(users.assign(&first).is_err() && users.find(&first).is_none());
        std::fs::remove_dir(data.path().join("users")).unwrap();
        users.assign(&session("b", None)).unwrap();
        let none_left = users.assign(&session("c", None)).unwrap_err().to_string();
        assert!(none_left.contains("all user ids in 200000-200001"), "{none_left}");
    }

    #[test]
    fn a_list_that_cannot_be_read_is_not_an_empty_one() {
        let data = data();
        std::fs::write(data.path().join("users"), "not a record\n").unwrap();
        let users = Users::new(UserRange::default(), data.path(), true, &[]);
        assert!(users.unavailable().is_some_and(|reason| reason.contains("which agent has which user")));
    }
}
