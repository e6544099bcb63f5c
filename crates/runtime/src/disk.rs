//! The disk usage of sessions: measured off every hot path, with old outputs deleted and the files of ended sessions
//! reclaimed. A measurement walks a tree, so only sessions that were used since the last one are measured.

use crate::data_dir::DataDir;
use crate::notices::{self, OverDisk};
use crate::ops::{OpError, QuotaMet};
use crate::quotas::NodeQuotas;
use crate::sync::lock;
use shellkeep_session::{Notice, QuotaName, SessionId, Timestamp};
use shellkeep_store::EndedSessions;
use shellkeep_workspace::{Usage, usage};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

/// A command that writes less than this beyond a quota may be one that cleans up.
const GROWTH: u64 = 1 << 20;
/// The same for new files.
const NEW_FILES: u64 = 1000;

/// The quotas of a session, of bytes and of files.
const OF_SESSION: [QuotaName; 2] = [QuotaName::DiskBytesPerSession, QuotaName::FilesPerSession];
/// The same of all sessions of an agent.
const OF_AGENT: [QuotaName; 2] = [QuotaName::DiskBytesPerAgent, QuotaName::FilesPerAgent];
/// What is written by something of which only the end is measured.
pub(crate) const NOTHING: Usage = Usage { bytes: 0, files: 0 };

/// The disk usage of sessions, and which of them have ended.
pub(crate) struct Disk {
    ended: EndedSessions,
    quotas: Arc<NodeQuotas>,
    used: Mutex<Used>,
}

/// What was measured. The sum of an agent's sessions is kept: a question that adds them up would cost an agent with many
/// sessions, and all others that wait for the lock, the more the more sessions it has.
#[derive(Debug, Default)]
struct Used {
    sessions: HashMap<SessionId, Measured>,
    /// Those into which something was written since: what is known of them is an estimate.
    estimated: HashSet<SessionId>,
    /// The least that the commands of each session had written since it is over a quota, or grew beyond it last. Compared with
    /// the last measurement alone, what writes slowly would never grow.
    least: HashMap<SessionId, Usage>,
    agents: HashMap<Arc<str>, Together>,
}

/// What the sessions of an agent take together.
#[derive(Debug, Default)]
struct Together {
    sessions: usize,
    usage: SessionUsage,
}

/// A session that was measured, and whose it is.
#[derive(Debug, Clone, Default)]
struct Measured {
    agent: Option<Arc<str>>,
    usage: SessionUsage,
}

/// What a session takes of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SessionUsage {
    /// What its commands write: workspace and home.
    pub(crate) own: Usage,
    /// What is kept of it: outputs, logs, keyed values, checkpoints.
    pub(crate) kept: Usage,
}

impl SessionUsage {
    fn plus(self, other: Self) -> Self {
        #[cfg(test)]
        tests::ADDED.with(|added| added.set(added.get() + 1));
        Self { own: self.own + other.own, kept: self.kept + other.kept }
    }

    fn minus(self, other: Self) -> Self {
        let less = |all: Usage, part: Usage| Usage { bytes: all.bytes - part.bytes, files: all.files - part.files };
        Self { own: less(self.own, other.own), kept: less(self.kept, other.kept) }
    }
}

impl Used {
    /// Replaces what is known of a session. Returns what it took before.
    fn insert(&mut self, id: SessionId, now: Measured) -> SessionUsage {
        if let Some(agent) = &now.agent {
            let together = self.agents.entry(Arc::clone(agent)).or_default();
            together.sessions += 1;
            together.usage = together.usage.plus(now.usage);
        }
        let before = self.sessions.insert(id, now);
        self.subtract(before)
    }

    fn remove(&mut self, id: &SessionId) {
        self.estimated.remove(id);
        self.least.remove(id);
        let before = self.sessions.remove(id);
        self.subtract(before);
    }

    fn subtract(&mut self, before: Option<Measured>) -> SessionUsage {
        let Measured { agent, usage } = before.unwrap_or_default();
        if let Some(agent) = agent
            && let Entry::Occupied(mut together) = self.agents.entry(agent)
        {
            let left = together.get_mut();
            left.sessions -= 1;
            left.usage = left.usage.minus(usage);
            if left.sessions == 0 {
                together.remove();
            }
        }
        usage
    }

    fn of_agent(&self, agent: &str) -> SessionUsage {
        self.agents.get(agent).map(|together| together.usage).unwrap_or_default()
    }
}

/// A session's use of the disk, compared with its quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskUse {
    Within,
    Over,
    OverAndGrowing,
}

impl Disk {
    /// The disk that `data_dir` is on.
    pub(crate) fn new(data_dir: &DataDir, quotas: Arc<NodeQuotas>) -> Self {
        Self { ended: EndedSessions::of(data_dir.root()), quotas, used: Mutex::default() }
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        lock(&self.used)
    }

    /// Nothing of a session has run yet: whatever is measured of it was written since.
    pub(crate) fn begins(&self, id: &SessionId, agent: Option<Arc<str>>) {
        let mut used = self.used();
        if !used.sessions.contains_key(id) {
            used.insert(id.clone(), Measured { agent, usage: SessionUsage::default() });
        }
    }

    /// A session of this agent, or of none, uses this much.
    pub(crate) fn measured(&self, id: &SessionId, agent: Option<Arc<str>>, usage: SessionUsage) -> DiskUse {
        let before = {
            let mut used = self.used();
            used.estimated.remove(id);
            // One that an earlier daemon had may be as it has been for long.
            let is_new = !used.sessions.contains_key(id);
            let before = used.insert(id.clone(), Measured { agent, usage });
            if is_new { usage.own } else { before.own }
        };
        // What we keep may grow because a command deletes files: its checkpoint is new.
        let grows =
            |now: Usage, before: Usage| now.bytes > before.bytes + GROWTH || now.files > before.files + NEW_FILES;
        let is_over = self.over_quota(id).is_some();
        let mut used = self.used();
        if !is_over {
            used.least.remove(id);
            return DiskUse::Within;
        }
        let least = used.least.entry(id.clone()).or_insert(before);
        let is_growing = grows(usage.own, *least);
        let (bytes, files) = (usage.own.bytes.min(least.bytes), usage.own.files.min(least.files));
        *least = if is_growing { usage.own } else { Usage { bytes, files } };
        if is_growing { DiskUse::OverAndGrowing } else { DiskUse::Over }
    }

    /// The quota that a session is over: its own, or that of its agent. Of an agent's sessions those count that were used
    /// since the daemon started; nothing has changed in the others.
    pub(crate) fn over_quota(&self, id: &SessionId) -> Option<OverDisk> {
        let used = self.used();
        let Measured { agent, usage } = used.sessions.get(id)?;
        let together = || agent.as_ref().and_then(|agent| self.met(OF_AGENT, used.of_agent(agent), NOTHING));
        self.met(OF_SESSION, *usage, NOTHING).or_else(together)
    }

    /// Refuses what would write this much into a session of this agent, or of none, if a quota has no room for it.
    pub(crate) fn check(&self, id: &SessionId, agent: Option<&str>, more: Usage) -> Result<(), OpError> {
        let used = self.used();
        let of_session = used.sessions.get(id).map(|measured| measured.usage).unwrap_or_default();
        let together = || agent.and_then(|agent| self.met(OF_AGENT, used.of_agent(agent), more));
        let met = self.met(OF_SESSION, of_session, more).or_else(together);
        met.map_or(Ok(()), |met| Err(too_much(met, agent)))
    }

    /// The same for a copy of a session's files, which is another session. Returns how much is copied.
    pub(crate) fn check_copy(&self, id: &SessionId, agent: Option<&str>) -> Result<Usage, OpError> {
        self.check(id, agent, NOTHING)?;
        let used = self.used();
        let copied = used.sessions.get(id).map(|measured| measured.usage.own).unwrap_or_default();
        let met = agent.and_then(|agent| self.met(OF_AGENT, used.of_agent(agent), copied));
        met.map_or(Ok(copied), |met| Err(too_much(met, agent)))
    }

    /// This much was written into a session. It counts at once, until the session is measured.
    pub(crate) fn wrote(&self, id: &SessionId, agent: Option<Arc<str>>, more: Usage) {
        let mut used = self.used();
        let before = used.sessions.get(id).map(|measured| measured.usage).unwrap_or_default();
        let usage = SessionUsage { own: before.own + more, ..before };
        used.estimated.insert(id.clone());
        used.insert(id.clone(), Measured { agent, usage });
    }

    /// The sessions that something was written into since they were measured, awake or not.
    pub(crate) fn estimated(&self) -> Vec<SessionId> {
        self.used().estimated.iter().cloned().collect()
    }

    /// Which of two quotas, of bytes and of files, is less than what is used and this much more.
    fn met(&self, [bytes, files]: [QuotaName; 2], used: SessionUsage, more: Usage) -> Option<OverDisk> {
        let SessionUsage { own, kept } = used;
        let used = [(bytes, own.bytes, kept.bytes, more.bytes), (files, own.files, kept.files, more.files)];
        let over = |(quota, own, kept, more): (QuotaName, u64, u64, u64)| {
            let limit = self.quotas.get(quota);
            (own + kept + more > limit).then_some(OverDisk { quota, limit, own, kept })
        };
        used.into_iter().find_map(over)
    }

    /// What to say if a session uses more than it may.
    pub(crate) fn notice(&self, id: &SessionId) -> Option<Notice> {
        self.over_quota(id).map(notices::over_disk)
    }

    /// A session is gone.
    pub(crate) fn forget(&self, id: &SessionId) {
        self.drop_usage(id);
        self.not_ended(id);
    }

    /// What a session used counts no longer.
    pub(crate) fn drop_usage(&self, id: &SessionId) {
        self.used().remove(id);
    }

    /// A session was ended.
    pub(crate) fn note_ended(&self, id: &SessionId) {
        if let Err(error) = self.ended.add(id) {
            tracing::warn!(session = %id, %error, "cannot note that a session has ended; its files will not be \
                reclaimed");
        }
    }

    /// Sessions that were ended, or had been at some time.
    pub(crate) fn ended(&self) -> Vec<SessionId> {
        self.ended.list().unwrap_or_else(|error| {
            tracing::warn!(%error, "ended sessions could not be listed; no files are reclaimed");
            Vec::new()
        })
    }

    /// A session that was ended is in use again.
    pub(crate) fn not_ended(&self, id: &SessionId) {
        if let Err(error) = self.ended.remove(id) {
            tracing::warn!(session = %id, %error, "cannot remove the note that the session has ended");
        }
    }
}

fn too_much(OverDisk { quota, limit, own, kept }: OverDisk, agent: Option<&str>) -> OpError {
    let agent = agent.map(str::to_owned);
    OpError::QuotaExceeded(Box::new(QuotaMet { agent, ..QuotaMet::new(quota, limit, own + kept) }))
}

/// What some directories take together.
pub(crate) fn measure(directories: &[PathBuf]) -> Usage {
    directories.iter().map(|directory| usage(directory)).sum()
}

/// The version of the agent's state in a file, if it contains one.
fn agent_state_version(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("agent_state.")?.parse().ok()
}

/// The oldest output files of a session to delete so that the others fit. States of the agent from version `in_force`
/// on stay: the current one, and one being saved. A rewind to a record whose state was removed says so.
pub(crate) fn excess_outputs(directory: &Path, limit: u64, in_force: u64) -> Vec<PathBuf> {
    let mut files: Vec<(SystemTime, u64, PathBuf)> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((metadata.modified().ok()?, metadata.len(), entry.path()))
        })
        .collect();
    files.sort();
    let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
    let mut excess = Vec::new();
    for (_, bytes, path) in files {
        if total <= limit {
            break;
        }
        if agent_state_version(&path).is_some_and(|version| version >= in_force) {
            continue;
        }
        total -= bytes;
        excess.push(path);
    }
    excess
}

/// When the files of ended sessions are reclaimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reclaim {
    /// An ended session is deleted after this long.
    pub after: Duration,
    /// All ended sessions together may use this many bytes; the oldest are deleted first.
    pub bytes: u64,
}

impl Default for Reclaim {
    fn default() -> Self {
        Self { after: Duration::from_secs(7 * 24 * 60 * 60), bytes: 10 << 30 }
    }
}

/// An ended session that could be reclaimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) id: SessionId,
    /// When it was ended.
    pub(crate) ended_at: Timestamp,
    /// What it takes.
    pub(crate) bytes: u64,
}

/// Which of the ended sessions to delete: those that are old, and the oldest of the rest until the others fit.
pub(crate) fn to_reclaim(mut ended: Vec<Candidate>, now: Timestamp, rule: Reclaim) -> Vec<Candidate> {
    ended.sort_by_key(|candidate| candidate.ended_at);
    let mut total: u64 = ended.iter().map(|candidate| candidate.bytes).sum();
    let mut going = Vec::new();
    for candidate in ended {
        let age = now.duration_since(candidate.ended_at);
        let is_old = Duration::try_from(age).is_ok_and(|age| age >= rule.after);
        if is_old || total > rule.bytes {
            total -= candidate.bytes;
            going.push(candidate);
        }
    }
    going
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_session::Quotas;
    use std::cell::Cell;

    thread_local! {
        /// How often the usage of a session was added to another.
        pub(super) static ADDED: Cell<usize> = const { Cell::new(0) };
    }

    fn candidate(name: &str, at: i64, bytes: u64) -> Candidate {
        Candidate { id: SessionId::parse(name).unwrap(), ended_at: Timestamp::from_second(at).unwrap(), bytes }
    }

    fn names(going: &[Candidate]) -> Vec<&str> {
        going.iter().map(|candidate| candidate.id.as_str()).collect()
    }

    /// A disk on which no agent may have anything, so that every question is answered with what its agent has.
    fn without_room(root: &Path) -> Disk {
        let mut quotas = Quotas::default();
        quotas.set(QuotaName::DiskBytesPerAgent, 0);
        let quotas = Arc::new(NodeQuotas::load(quotas, root).unwrap());
        Disk { ended: EndedSessions::of(root), quotas, used: Mutex::default() }
    }

    fn session(number: usize) -> SessionId {
        SessionId::parse(&format!("s{number}")).unwrap()
    }

    fn taking(own: u64, kept: u64) -> SessionUsage {
        let usage = |bytes| Usage { bytes, files: 1 };
        SessionUsage { own: usage(own), kept: usage(kept) }
    }

    fn of_agent(disk: &Disk, number: usize) -> Option<(u64, u64)> {
        disk.over_quota(&session(number)).map(|over| (over.own, over.kept))
    }

    /// Every measurement, every command over the quota and every start of a service added up all sessions of the agent,
    /// under the lock that all agents share: a million and a half additions for what is done here.
    #[test]
    fn no_question_adds_up_the_sessions_of_an_agent() {
        const SESSIONS: usize = 1000;
        let home = tempfile::tempdir().unwrap();
        let (disk, agent) = (without_room(home.path()), Arc::<str>::from("ann"));
        let before = ADDED.get();
        for number in 0..SESSIONS {
            disk.measured(&session(number), Some(Arc::clone(&agent)), taking(2, 1));
        }
        for number in 0..SESSIONS {
            assert_eq!(of_agent(&disk, number), Some((2 * SESSIONS as u64, SESSIONS as u64)));
        }
        let added = ADDED.get() - before;
        assert!(added <= SESSIONS, "{added} additions for {SESSIONS} measurements");
    }

    #[test]
    fn an_agent_has_what_its_sessions_have_now() {
        let home = tempfile::tempdir().unwrap();
        let disk = without_room(home.path());
        let measured = |number: usize, agent: Option<&str>, usage: SessionUsage| {
            disk.measured(&session(number), agent.map(Arc::from), usage)
        };
        measured(1, Some("ann"), taking(10, 1));
        measured(2, Some("ann"), taking(20, 2));
        measured(3, Some("bob"), taking(40, 4));
        measured(4, None, taking(80, 8));
        assert_eq!([1, 2, 3, 4].map(|n| of_agent(&disk, n)), [Some((30, 3)), Some((30, 3)), Some((40, 4)), None]);
        measured(2, Some("ann"), taking(5, 3));
        assert_eq!(of_agent(&disk, 1), Some((15, 4)), "it has become smaller");
        measured(3, Some("ann"), taking(41, 4));
        assert_eq!(of_agent(&disk, 1), Some((56, 8)), "it has changed hands");
        disk.forget(&session(1));
        disk.forget(&session(1));
        assert_eq!([1, 2].map(|n| of_agent(&disk, n)), [None, Some((46, 7))]);
        disk.forget(&session(2));
        disk.forget(&session(3));
        assert!(disk.used().agents.is_empty(), "nothing is kept of an agent without sessions");
    }

    fn refused(result: Result<(), OpError>) -> Option<(QuotaName, u64)> {
        match result {
            Ok(()) => None,
            Err(OpError::QuotaExceeded(met)) => Some((met.quota, met.used)),
            Err(other) => panic!("{other:?}"),
        }
    }

    /// Only services were refused: uploads, forks, messages and events went on without an end.
    #[test]
    fn what_has_no_room_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let mut quotas = Quotas::default();
        quotas.set(QuotaName::DiskBytesPerSession, 100);
        quotas.set(QuotaName::DiskBytesPerAgent, 250);
        quotas.set(QuotaName::FilesPerSession, 10);
        let quotas = Arc::new(NodeQuotas::load(quotas, home.path()).unwrap());
        let disk = Disk { ended: EndedSessions::of(home.path()), quotas, used: Mutex::default() };
        let bytes = |bytes| Usage { bytes, files: 1 };
        let check = |number, more| refused(disk.check(&session(number), Some("ann"), more));
        let copy = |number| refused(disk.check_copy(&session(number), Some("ann")).map(drop));
        assert_eq!(check(1, bytes(101)), Some((QuotaName::DiskBytesPerSession, 0)), "it was never measured");
        for number in [1, 2] {
            disk.measured(&session(number), Some("ann".into()), taking(80, 10));
        }
        assert_eq!([check(1, bytes(10)), check(1, NOTHING)], [None, None]);
        assert_eq!(check(1, bytes(11)), Some((QuotaName::DiskBytesPerSession, 90)));
        assert_eq!(check(1, Usage { bytes: 0, files: 9 }), Some((QuotaName::FilesPerSession, 2)));
        assert_eq!(check(3, bytes(71)), Some((QuotaName::DiskBytesPerAgent, 180)));
        assert_eq!(refused(disk.check(&session(3), Some("bob"), bytes(71))), None, "another agent");
        assert_eq!(copy(1), Some((QuotaName::DiskBytesPerAgent, 180)));
        disk.measured(&session(2), Some("ann".into()), taking(60, 10));
        assert_eq!(copy(1), None);
        disk.wrote(&session(1), Some("ann".into()), bytes(15));
        assert_eq!(check(1, NOTHING), Some((QuotaName::DiskBytesPerSession, 105)), "what was written counts at once");
        assert_eq!(copy(1), Some((QuotaName::DiskBytesPerSession, 105)));
        disk.measured(&session(1), Some("ann".into()), taking(80, 10));
        assert_eq!(check(1, NOTHING), None, "until it is measured");
    }

    /// Only what was written between two measurements counted: with 100 KB a second, nobody was ever ended.
    #[test]
    fn who_writes_slowly_beyond_a_quota_grows_too() {
        let home = tempfile::tempdir().unwrap();
        let disk = without_room(home.path());
        let measured = |kib: u64| disk.measured(&session(1), Some("ann".into()), taking(kib << 10, 0));
        disk.begins(&session(1), Some("ann".into()));
        for (kib, disk_use) in [
            (600, DiskUse::Over),
            (1200, DiskUse::OverAndGrowing),
            (1300, DiskUse::Over),
            (200, DiskUse::Over),
            (1100, DiskUse::Over),
            (1300, DiskUse::OverAndGrowing),
        ] {
            assert_eq!(measured(kib), disk_use, "{kib}");
        }
        disk.forget(&session(1));
        assert!(disk.used().least.is_empty());
        // A daemon that has just started does not end what has been there for long.
        assert_eq!(measured(5000), DiskUse::Over);
    }

    #[test]
    fn what_was_written_is_an_estimate_until_it_is_measured() {
        let home = tempfile::tempdir().unwrap();
        let disk = without_room(home.path());
        let wrote = |number| disk.wrote(&session(number), None, Usage { bytes: 1, files: 1 });
        disk.measured(&session(1), None, taking(1, 1));
        assert_eq!(disk.estimated(), []);
        wrote(1);
        wrote(1);
        assert_eq!(disk.estimated(), [session(1)]);
        disk.measured(&session(1), None, taking(1, 1));
        assert_eq!(disk.estimated(), []);
        wrote(2);
        disk.forget(&session(2));
        assert_eq!(disk.estimated(), [], "it is gone");
    }

    #[test]
    fn the_old_go_first_and_only_as_many_as_needed() {
        let rule = Reclaim { after: Duration::from_secs(100), bytes: 25 };
        let ended = vec![candidate("c", 60, 10), candidate("a", 0, 10), candidate("b", 50, 10), candidate("d", 70, 10)];
        let now = Timestamp::from_second(110).unwrap();
        assert_eq!(names(&to_reclaim(ended.clone(), now, rule)), ["a", "b"]);
        let ample = Reclaim { bytes: 100, ..rule };
        assert_eq!(names(&to_reclaim(ended.clone(), now, ample)), ["a"]);
        assert!(to_reclaim(ended, Timestamp::from_second(90).unwrap(), ample).is_empty());
    }

    #[test]
    fn outputs_give_way_oldest_first() {
        let home = tempfile::tempdir().unwrap();
        for (age, name) in [(30, "r1"), (20, "r2"), (10, "r3")] {
            let path = home.path().join(name);
            fs::write(&path, [0; 100]).unwrap();
            let at = SystemTime::now() - Duration::from_secs(age);
            fs::File::options().write(true).open(&path).unwrap().set_modified(at).unwrap();
        }
        assert_eq!(excess_outputs(home.path(), 150, 0), [home.path().join("r1"), home.path().join("r2")]);
        assert!(excess_outputs(home.path(), 300, 0).is_empty());
    }

    #[test]
    fn the_agents_state_is_no_output() {
        let home = tempfile::tempdir().unwrap();
        for (age, name) in [(40, "agent_state.9"), (30, "agent_state.10"), (20, "agent_state.11"), (10, "r1.stdout")] {
            let path = home.path().join(name);
            fs::write(&path, [0; 100]).unwrap();
            let at = SystemTime::now() - Duration::from_secs(age);
            fs::File::options().write(true).open(&path).unwrap().set_modified(at).unwrap();
        }
        // Version 10 is in force: the file of 11 has no record yet.
        assert_eq!(
            excess_outputs(home.path(), 0, 10),
            [home.path().join("agent_state.9"), home.path().join("r1.stdout")]
        );
        let of_outputs = [home.path().join("r1.stdout")];
        assert_eq!(excess_outputs(home.path(), 0, 0), of_outputs, "a session that has not reported what is in force");
    }
}
