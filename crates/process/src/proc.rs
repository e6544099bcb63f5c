//! Reading `/proc`: who a process is, who its parent is, what it runs.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// More than `/proc/PID/stat` ever has.
const STAT_BYTES: usize = 2048;

/// How a process is remembered when nothing may be held: its number alone can be given to another process, its number
/// and its start time within one boot cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProcessStamp {
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub started_ticks: u64,
}

/// What `/proc/PID/stat` says, as far as we need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    pub pid: u32,
    pub parent: u32,
    /// `R`, `S`, `Z`, …
    pub state: u8,
    /// Start time in clock ticks since boot.
    pub started_ticks: u64,
    /// Processor time it has used, its own and the kernel's for it, in clock ticks.
    pub cpu_ticks: u64,
    /// How many threads it has.
    pub threads: u64,
    /// Its process group.
    pub group: u32,
    /// Its session. No process can join one; its leader has the same number.
    pub session: u32,
}

impl Stat {
    /// Reads one process. A zombie counts as gone: it keeps its number and start time, and does nothing. One whose first thread
    /// has ended looks the same and does not count as gone while others go on.
    pub fn read(pid: u32) -> Option<Self> {
        Self::read_any(pid).filter(|stat| !stat.is_zombie() || stat.has_zombie_leader())
    }

    /// Reads one process, even if it is a zombie.
    pub fn read_any(pid: u32) -> Option<Self> {
        // One read into memory that is there: of all that is done here, this is done most.
        let mut line = [0; STAT_BYTES];
        let length = fs::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut line).ok()?;
        parse_stat(&line[..length])
    }

    fn is_zombie(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    /// Whether its first thread has ended and others go on. What `/proc/PID` says of its files, memory and environment is then
    /// what that thread has, which is nothing.
    pub(crate) fn has_zombie_leader(&self) -> bool {
        self.is_zombie() && self.threads > 1
    }

    /// The directory that says what it has: its own, or that of a thread that goes on.
    pub(crate) fn place(&self) -> PathBuf {
        let own = PathBuf::from(format!("/proc/{}", self.pid));
        match self.has_zombie_leader() {
            true => live_thread(&own).unwrap_or(own),
            false => own,
        }
    }

    /// How to remember it.
    pub fn stamp(&self) -> ProcessStamp {
        ProcessStamp { pid: self.pid, started_ticks: self.started_ticks }
    }
}

/// The directory of a thread that goes on, of a process with this directory.
fn live_thread(process: &Path) -> Option<PathBuf> {
    let mut threads = fs::read_dir(process.join("task")).ok()?.flatten().map(|thread| thread.path());
    threads.find(|thread| {
        let stat = fs::read(thread.join("stat")).ok().and_then(|line| parse_stat(&line));
        stat.is_some_and(|stat| !stat.is_zombie())
    })
}

/// The directory that says what a process has, if only its number is known.
pub(crate) fn place_of(pid: u32) -> PathBuf {
    Stat::read(pid).map_or_else(|| PathBuf::from(format!("/proc/{pid}")), |stat| stat.place())
}

/// The command's name is in parentheses and may itself hold any byte, so fields are counted from the last one.
fn parse_stat(text: &[u8]) -> Option<Stat> {
    let open = text.iter().position(|&b| b == b'(')?;
    let close = text.iter().rposition(|&b| b == b')')?;
    let pid = std::str::from_utf8(text.get(..open)?).ok()?.trim().parse().ok()?;
    let rest = std::str::from_utf8(text.get(close + 2..)?).ok()?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Stat {
        pid,
        state: *fields.first()?.as_bytes().first()?,
        parent: fields.get(1)?.parse().ok()?,
        started_ticks: number(19)?,
        cpu_ticks: number(11)? + number(12)?,
        threads: number(17)?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
    })
}

/// The user that a process has now. Who owns its files in `/proc` may be another.
pub fn user_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().nth(1)?.parse().ok()
}

/// The signals for which a process has a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaughtSignals(u64);

impl CaughtSignals {
    /// Whether there is a handler for this one.
    pub fn contains(self, signal: i32) -> bool {
        (1..=64).contains(&signal) && self.0 & (1 << (signal - 1)) != 0
    }

    fn parse(status: &str) -> Option<Self> {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        u64::from_str_radix(mask.trim(), 16).ok().map(Self)
    }
}

/// The signals for which a process has a handler now. A program that takes its place begins with none.
pub fn caught_signals(pid: u32) -> Option<CaughtSignals> {
    CaughtSignals::parse(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

/// Whether a process is the first of a pid namespace below ours.
pub fn is_first_of_room(pid: u32) -> bool {
    inner_numbers(pid).is_some_and(|numbers| numbers.len() > 1 && numbers.last() == Some(&1))
}

/// The number by which a process knows itself: another one than ours if it is in a room.
pub fn own_number(pid: u32) -> u32 {
    inner_numbers(pid).and_then(|numbers| numbers.last().copied()).unwrap_or(pid)
}

/// The numbers of a process in our pid namespace and in those below it that it is in.
fn inner_numbers(pid: u32) -> Option<Vec<u32>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().map(|number| number.parse().ok()).collect()
}

/// What a process runs, as one would type it; its name in brackets if it has no arguments.
pub fn command_line(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<String> = bytes
        .split(|&b| b == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    if words.is_empty() { format!("[process {pid}]") } else { words.join(" ") }
}

/// What every shell has open: the three standard descriptors and the driver's socket.
const OWN_DESCRIPTORS: u64 = 4;

/// Most descriptors that are looked at.
const MOST_DESCRIPTORS: usize = 5;

/// Descriptors above standard error that a shell holds open, apart from sockets, and how many more there are.
pub fn open_descriptors(pid: u32) -> (Vec<(u32, String)>, usize) {
    let path = format!("/proc/{pid}/fd");
    // Since Linux 6.2 the size of this directory is how many there are; before, it is 0. Most shells have no others.
    if fs::metadata(&path).is_ok_and(|found| (1..=OWN_DESCRIPTORS).contains(&found.len())) {
        return (Vec::new(), 0);
    }
    let Ok(entries) = fs::read_dir(&path) else { return (Vec::new(), 0) };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut numbers: Vec<u32> = numbers.filter(|number| *number > 2).collect();
    numbers.sort_unstable();
    let target = |number: u32| {
        let target = fs::read_link(format!("{path}/{number}")).ok()?;
        Some((number, String::from_utf8_lossy(target.as_os_str().as_bytes()).into_owned()))
    };
    let looked_at = numbers.iter().take(MOST_DESCRIPTORS).filter_map(|number| target(*number));
    let (sockets, open): (Vec<_>, Vec<_>) = looked_at.partition(|(_, target)| target.starts_with("socket:"));
    // The driver's socket is one of them.
    let driver = usize::from(sockets.is_empty());
    (open, numbers.len().saturating_sub(MOST_DESCRIPTORS + driver))
}

/// A link to the directory that a process is in, even if that was removed or moved. Reading the link gives the path as
/// the kernel knows it now, without touching the directory's file system.
pub fn directory(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/cwd"))
}

/// Bytes of memory that a process has in use; 0 if it is gone.
pub fn resident(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|field| field.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// The bytes of memory that a process has and does not share as files or shared memory; `None` if it is gone.
pub(crate) fn own_memory(stat: &Stat) -> Option<u64> {
    let text = fs::read_to_string(stat.place().join("statm")).ok()?;
    let mut pages = text.split(' ').skip(1).map(str::parse::<u64>);
    let (resident, shared) = (pages.next()?.ok()?, pages.next()?.ok()?);
    Some(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
}

/// Which boot this is; the same numbers mean other processes after the next one.
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Every process of the machine.
pub fn all() -> io::Result<HashMap<u32, Stat>> {
    let pids = fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(pids.filter_map(Stat::read).map(|stat| (stat.pid, stat)).collect())
}

/// Children of a process that have ended and were not reaped.
pub fn zombies_of(parent: u32) -> Vec<u32> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(|pid| parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?))
        .filter(|stat| stat.is_zombie() && !stat.has_zombie_leader() && stat.parent == parent)
        .map(|stat| stat.pid)
        .collect()
}

/// Whether a process was started with this `NAME=value` in its environment.
pub fn has_mark(stat: &Stat, mark: &[u8]) -> bool {
    environment(&stat.place()).split(|&b| b == 0).any(|entry| entry == mark)
}

/// The value of this `NAME=…` in the environment a process was started with.
pub fn mark_after(pid: u32, prefix: &[u8]) -> Option<String> {
    let [found] = values_after(&environment(&place_of(pid)), [prefix]);
    found
}

/// The values of these `NAME=…` in the environment a process was started with.
pub fn marks_after<const COUNT: usize>(stat: &Stat, prefixes: [&[u8]; COUNT]) -> [Option<String>; COUNT] {
    values_after(&environment(&stat.place()), prefixes)
}

fn values_after<const COUNT: usize>(environment: &[u8], prefixes: [&[u8]; COUNT]) -> [Option<String>; COUNT] {
    let text = |found: &[u8]| String::from_utf8_lossy(found).into_owned();
    prefixes.map(|prefix| environment.split(|&b| b == 0).find_map(|entry| entry.strip_prefix(prefix)).map(text))
}

fn environment(place: &Path) -> Vec<u8> {
    fs::read(place.join("environ")).unwrap_or_default()
}

/// Parents, grandparents, …, as far as they are known. Bounded, in case the table changed under us and has a circle.
pub fn ancestors(all: &HashMap<u32, Stat>, pid: u32) -> impl Iterator<Item = u32> {
    let mut at = pid;
    (0..all.len()).map_while(move |_| {
        at = all.get(&at)?.parent;
        Some(at)
    })
}

/// Most ancestors that are looked at: far more than a process has, unless it was made to have them.
const DEEPEST: usize = 1000;

/// A process and its ancestors, up to and including `last` or to the first whose parent cannot be seen from here. `None`
/// if that cannot be found out. Each step is certain: a child that has the same parent before and after the parent was
/// read had that parent all the while, so the number was not another's. `None` too for a process whose first thread has ended:
/// this is asked to decide about rights, and `/proc/PID` does not say everything of such a process.
pub fn lineage(pid: u32, last: u32) -> Option<Vec<Stat>> {
    let mut at = Stat::read(pid).filter(|stat| !stat.has_zombie_leader())?;
    let mut lineage = vec![at];
    for _ in 0..DEEPEST {
        if at.pid == last || at.parent == 0 {
            return Some(lineage);
        }
        let parent = Stat::read_any(at.parent);
        let again = Stat::read_any(at.pid).filter(|again| again.stamp() == at.stamp())?;
        match parent {
            Some(parent) if again.parent == at.parent => {
                lineage.push(parent);
                at = parent;
            }
            // The parent has ended meanwhile, and there is another.
            _ if again.parent != at.parent => at = again,
            _ => return None,
        }
    }
    None
}

/// What is known of all processes together by one short read, so that it can be asked often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Glance {
    /// Threads of the whole machine. Zombies count until they are reaped.
    pub threads: u64,
    /// The number that was given out last.
    pub newest: u32,
}

impl Glance {
    /// Looks.
    pub fn take() -> Option<Self> {
        let text = fs::read_to_string("/proc/loadavg").ok()?;
        let mut words = text.split_whitespace().skip(3);
        Some(Self { threads: words.next()?.split_once('/')?.1.parse().ok()?, newest: words.next()?.parse().ok()? })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::BufRead as _;
    use std::process::{Child, Command, Stdio};

    /// A process whose first thread has ended while another goes on. It has a mark in its environment, listens on a port and
    /// watches that with epoll.
    pub(crate) struct WithoutLeader {
        child: Child,
        pub(crate) port: u16,
    }

    impl WithoutLeader {
        /// The thread speaks once the kernel shows the first one as ended.
        const SCRIPT: &str = "
import ctypes, os, platform, select, socket, threading, time
server = socket.create_server(('127.0.0.1', 0))
watcher = select.epoll()
watcher.register(server)
def go_on():
    while open(f'/proc/{os.getpid()}/stat').read().rsplit(') ', 1)[1][0] != 'Z':
        time.sleep(0.001)
    print(server.getsockname()[1], flush=True)
    time.sleep(86400)
threading.Thread(target=go_on).start()
ctypes.CDLL(None).syscall(93 if platform.machine() == 'aarch64' else 60, 0)
";

        pub(crate) fn start() -> Self {
            let mut command = Command::new("python3");
            command.args(["-c", Self::SCRIPT]).env("SHELLKEEP_TEST_MARK", "marked").stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let mut line = String::new();
            io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            Self { port: line.trim().parse().unwrap(), child }
        }

        pub(crate) fn pid(&self) -> u32 {
            self.child.id()
        }
    }

    impl Drop for WithoutLeader {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    /// A session's processes ended their first threads and were seen by nobody: no limit counted them, no signal met them, and
    /// they outlived the session and the daemon.
    #[test]
    fn a_process_goes_on_without_its_first_thread() {
        let mut process = WithoutLeader::start();
        let stat = Stat::read(process.pid()).expect("it is alive");
        assert!(stat.has_zombie_leader() && stat.threads == 2, "{stat:?}");
        assert!(all().unwrap().contains_key(&stat.pid));
        assert!(!zombies_of(std::process::id()).contains(&stat.pid), "it cannot be reaped");
        assert!(has_mark(&stat, b"SHELLKEEP_TEST_MARK=marked"));
        assert_eq!(marks_after(&stat, [b"SHELLKEEP_TEST_MARK="]), [Some("marked".to_owned())]);
        assert_eq!(mark_after(stat.pid, b"SHELLKEEP_TEST_MARK="), Some("marked".to_owned()));
        assert!(own_memory(&stat).unwrap() > 0);
        assert_eq!(lineage(stat.pid, 0), None, "whose it is does not become clear");
        let handle = crate::handle::open_exact(stat.stamp()).expect("it can be reached");
        assert!(crate::handle::send(&handle, rustix::process::Signal::KILL));
        assert!(!process.child.wait().unwrap().success());
        assert_eq!(Stat::read(stat.pid).filter(|other| other.stamp() == stat.stamp()), None);
    }

    #[test]
    fn a_process_that_has_ended_is_gone_before_it_is_reaped() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), options).unwrap();
        assert_eq!(Stat::read(child.id()), None);
        assert!(Stat::read_any(child.id()).is_some() && zombies_of(std::process::id()).contains(&child.id()));
        child.wait().unwrap();
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_confuse() {
        let mut text = b"42 (a) b (c) S 7 41 40 0 -1 0 0 0 0 0 30 12 0 0 20 0 5 0 ".to_vec();
        text.extend_from_slice(b"98765 1 2 3");
        let stat = parse_stat(&text).unwrap();
        assert_eq!(
            stat,
            Stat {
                pid: 42,
                parent: 7,
                state: b'S',
                started_ticks: 98765,
                cpu_ticks: 42,
                threads: 5,
                group: 41,
                session: 40
            }
        );
    }

    #[test]
    fn caught_signals_are_read_as_the_kernel_writes_them() {
        let caught = CaughtSignals::parse("SigIgn:\t0000000000000004\nSigCgt:\t0800000000014002\n").unwrap();
        let all: Vec<i32> = (-1..70).filter(|signal| caught.contains(*signal)).collect();
        assert_eq!(all, [2, 15, 17, 60]);
        assert_eq!(CaughtSignals::parse("Name:\ta\n"), None);
        assert!(caught_signals(std::process::id()).is_some());
    }

    #[test]
    fn a_glance_sees_the_machine() {
        let glance = Glance::take().unwrap();
        assert!(glance.threads > 0 && glance.newest > 0);
    }

    #[test]
    fn a_lineage_ends_where_it_is_told_to_or_at_the_first_process() {
        let own = std::process::id();
        assert_eq!(lineage(own, own).unwrap().len(), 1);
        let all = lineage(own, 0).unwrap();
        assert!(all.len() > 1 && all.last().unwrap().parent == 0, "{all:?}");
        assert_eq!(lineage(u32::MAX, own), None);
    }

    #[test]
    fn we_can_read_ourselves() {
        let stat = Stat::read(std::process::id()).unwrap();
        assert_eq!(stat.pid, std::process::id());
        assert!(!command_line(stat.pid).is_empty());
    }
}
