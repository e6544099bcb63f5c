//! How many processes there may be: held by the kernel where it can, by the guard elsewhere.

use crate::fixture::{Fixture, Sleeps, end_of, in_each_mode, no_names, skip, status_of, until};
use rustix::process::Signal;
use shellkeep_process::*;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::timeout;

in_each_mode! {
    a_fork_bomb_is_held: NoLimits, Marks;
    a_fork_bomb_in_a_shell_is_held: NoLimits, Marks;
    one_that_starts_too_many_itself_is_ended_in_the_end: NoLimits, Marks;
    the_largest_pays_for_the_node: NoLimits, Marks;
    those_without_a_first_thread_are_held: NoLimits, Marks;
    a_party_is_limited_and_another_is_not: Auto, NoLimits, Marks;
    a_party_that_uses_too_much_memory_loses_processes: Auto, NoLimits, Marks;
}

/// How long a shell may take to read a command.
const LIMIT: Duration = Duration::from_secs(20);
const PER_CAGE: u64 = 60;
const NODE: u64 = 200;
/// How long a bomb may rage before the test gives up and clears it away.
const BOMB: Duration = Duration::from_secs(30);
const TIGHT: Limits =
    Limits { per_cage: PER_CAGE, per_party: NODE, node: NODE, memory_per_party: 8 << 30, open_files: 4096 };

/// A bomb that the guard does not hold should end the test and not the machine: where the kernel can, it limits all of
/// this process's children, well above what the guard allows, and ends them with the test.
struct Net(Option<PathBuf>);

impl Net {
    fn spread() -> Self {
        let Some(own) = cgroup::Mounts::find().pids_v1 else { return Self(None) };
        let path = own.join(format!("shellkeep-test-net-{}", std::process::id()));
        let spread = || {
            std::fs::create_dir(&path)?;
            std::fs::write(path.join("pids.max"), "2500")?;
            std::fs::write(path.join("cgroup.procs"), std::process::id().to_string())
        };
        Self(spread().is_ok().then_some(path))
    }

    /// Whether nobody ever fell into it.
    fn is_untouched(&self) -> bool {
        let Some(path) = &self.0 else { return true };
        std::fs::read_to_string(path.join("pids.events")).unwrap().trim() == "max 0"
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let Some(path) = &self.0 else { return };
        let own = std::process::id();
        let _ = std::fs::write(path.join("pids.max"), "0");
        let _ = std::fs::write(path.with_file_name("cgroup.procs"), own.to_string());
        let group = cgroup::Group::at(path.clone());
        shellkeep_poll::attempt(BOMB, || {
            for pid in group.members().unwrap_or_default() {
                let handle = shellkeep_process::handle::open(pid);
                if group.members().unwrap_or_default().contains(&pid) {
                    handle.map(|handle| shellkeep_process::handle::send(&handle, Signal::KILL));
                }
            }
            std::fs::remove_dir(path).ok()
        });
    }
}

fn guarded(fixture: &Fixture) -> tokio::task::JoinHandle<()> {
    fixture.factory.set_limits(TIGHT);
    let factory = fixture.factory.clone();
    assert!(!factory.has_limit());
    tokio::spawn(async move { factory.guard().await })
}

/// What a shell prints.
async fn answer(shell: &mut LiveShell, command: &str) -> Vec<u8> {
    let spec = RunSpec { command: command.as_bytes(), cwd: None, env: &[], until: None };
    let ends = shell.prepare(Stdin::Empty, Stderr::Apart).unwrap();
    shell.begin(spec, ends, LIMIT).await.unwrap();
    let mut said = Vec::new();
    let answered = async {
        while let Progress::Output = shell.progress(&mut |_, bytes| said.extend_from_slice(bytes)).await.unwrap() {}
    };
    timeout(BOMB, answered).await.expect("the shell answers");
    said
}

async fn a_fork_bomb_is_held(fixture: Fixture) {
    let (net, fixture) = (Net::spread(), fixture);
    let guard = guarded(&fixture);
    let sleeps = Sleeps::new();
    let mut bystander = fixture.start("service-bystander", &format!("{} & wait", sleeps.command(1))).await;
    let spec = ShellSpec { bash: "/bin/bash".into(), rescue: fixture.scratch.path().join("rescue") };
    let mut shell = LiveShell::start(spec, fixture.factory.cage("shell-1")).await.unwrap();
    shell.restore(&[]).await.unwrap();
    let mut bomb = fixture.start("service-bomb", "bomb() { bomb | bomb & }; bomb").await;
    // Others go on meanwhile.
    assert_eq!(answer(&mut shell, "echo $((1 + 1)) | cat").await, b"2\n");
    // Nobody is left of it: its main process has ended by itself, the rest was cut down.
    let ended = timeout(BOMB, status_of(&mut bomb)).await.expect("it is held");
    assert_eq!(ended, ExitStatus::Exited(0));
    assert!(bomb.limit_hits() > 0);
    assert!(bomb.members().is_empty());
    assert!(!shell.descendants.limits_met().processes, "it was not the shell's doing");
    assert_eq!(sleeps.alive().len(), 1, "the bystander was left alone");
    assert!(net.is_untouched());
    bystander.kill();
    end_of(&mut bystander).await;
    guard.abort();
}

/// What loses its parent in a shell belongs to the system's first process and is known by its mark alone. The limit is
/// one that people have: the bomb is large by the time it is met.
async fn a_fork_bomb_in_a_shell_is_held(fixture: Fixture) {
    let (net, fixture) = (Net::spread(), fixture);
    let guard = guarded(&fixture);
    fixture.factory.set_limits(Limits {
        per_cage: 500,
        per_party: 1000,
        node: 1000,
        memory_per_party: 8 << 30,
        open_files: 4096,
    });
    let spec = ShellSpec { bash: "/bin/bash".into(), rescue: fixture.scratch.path().join("rescue") };
    let mut shell = LiveShell::start(spec, fixture.factory.cage("shell-1")).await.unwrap();
    shell.restore(&[]).await.unwrap();
    assert_eq!(answer(&mut shell, "x=1; bomb() { bomb | bomb & }; bomb").await, b"");
    until("the bomb hits the limit", || shell.descendants.limits_met().processes).await;
    until("nothing of the bomb is left", || shell.descendants.alive().is_empty()).await;
    assert_eq!(answer(&mut shell, "echo $x").await, b"1\n");
    assert!(net.is_untouched());
    guard.abort();
}

/// Makes processes that leave their parent and their session, and whose first threads end while others go on.
const WITHOUT_LEADERS: &str = "
import ctypes, os, platform, sys, threading, time
def leave():
    os.setsid()
    threading.Thread(target=time.sleep, args=(86400,)).start()
    ctypes.CDLL(None).syscall(93 if platform.machine() == 'aarch64' else 60, 0)
for i in range(int(sys.argv[1])):
    if os.fork() == 0:
        if os.fork() == 0:
            leave()
        os._exit(0)
    os.wait()
";

/// The kernel shows a process as a zombie once its first thread has ended. So a session had as many as it liked, and none of
/// them met any signal.
async fn those_without_a_first_thread_are_held(fixture: Fixture) {
    let (net, fixture) = (Net::spread(), fixture);
    let guard = guarded(&fixture);
    let spec = ShellSpec { bash: "/bin/bash".into(), rescue: fixture.scratch.path().join("rescue") };
    let mut shell = LiveShell::start(spec, fixture.factory.cage("shell-1")).await.unwrap();
    shell.restore(&[]).await.unwrap();
    let start = |count: u64| format!("python3 -c \"{WITHOUT_LEADERS}\" {count} > /dev/null 2>&1; echo $?");
    assert_eq!(answer(&mut shell, &start(3)).await, b"0\n");
    until("their first threads have ended", || {
        shell.descendants.alive().iter().filter(|stat| stat.state == b'Z' && stat.threads > 1).count() == 3
    })
    .await;
    // It may be cut back with what it has started.
    answer(&mut shell, &start(PER_CAGE)).await;
    until("they are too many", || shell.descendants.limits_met().processes).await;
    until("none of them is left", || shell.descendants.alive().is_empty()).await;
    assert_eq!(answer(&mut shell, "echo on").await, b"on\n");
    assert!(net.is_untouched());
    guard.abort();
}

/// Cutting back its children does not help; after some patience the whole of it goes.
async fn one_that_starts_too_many_itself_is_ended_in_the_end(fixture: Fixture) {
    let (net, fixture) = (Net::spread(), fixture);
    let guard = guarded(&fixture);
    let sleeps = Sleeps::new();
    let mut service = fixture.start("service-a", &format!("while :; do {} & done", sleeps.command(1))).await;
    let ended = timeout(BOMB, status_of(&mut service)).await.expect("it is held");
    assert_eq!(ended, ExitStatus::Signalled(9));
    assert!(service.limit_hits() > 1, "it was given more than one chance");
    assert_eq!(sleeps.alive(), [0; 0]);
    assert!(net.is_untouched());
    guard.abort();
}

async fn the_largest_pays_for_the_node(fixture: Fixture) {
    let (_net, fixture) = (Net::spread(), fixture);
    let limits = Limits { per_cage: 60, per_party: 60, node: 60, memory_per_party: 8 << 30, open_files: 4096 };
    let guard = guarded(&fixture);
    fixture.factory.set_limits(limits);
    let (many, few) = (Sleeps::new(), Sleeps::new());
    let starts = |sleeps: &Sleeps, count: u32| {
        format!(
            "for i in {{1..{count}}}; do {} & done; while :; do wait; read -t 0.05 <> <(:); done",
            sleeps.command(1)
        )
    };
    let mut small = fixture.start("service-small", &starts(&few, 20)).await;
    few.until(20).await;
    let mut large = fixture.start("service-large", &starts(&many, 50)).await;
    until("the large one was cut back", || large.limit_hits() > 0).await;
    until("all are within the limit again", || fixture.factory.count() <= limits.node).await;
    assert!(many.alive().len() < 40);
    assert_eq!(few.alive().len(), 20);
    assert_eq!(small.limit_hits(), 0);
    for service in [&mut small, &mut large] {
        service.kill();
        end_of(service).await;
    }
    guard.abort();
}

/// Two services of one party start more than it may have; neither is over its own limit.
async fn a_party_is_limited_and_another_is_not(fixture: Fixture) {
    const PARTY: u64 = 40;
    let (_net, fixture) = (Net::spread(), fixture);
    let limits = Limits { per_cage: 60, per_party: PARTY, node: 1000, memory_per_party: 8 << 30, open_files: 4096 };
    fixture.factory.set_limits(limits);
    let factory = fixture.factory.clone();
    let guard = tokio::spawn(async move { factory.guard().await });
    let (many, few) = (Sleeps::new(), Sleeps::new());
    let starts = |sleeps: &Sleeps, count: u32| {
        format!("for i in {{1..{count}}}; do {} 2>/dev/null & done; sleep 86400", sleeps.command(1))
    };
    let mut modest = fixture.start_in("modest", "service-modest", &starts(&few, 20)).await;
    few.until(20).await;
    let mut one = fixture.start_in("greedy", "service-one", &starts(&many, 30)).await;
    let mut two = fixture.start_in("greedy", "service-two", &starts(&many, 30)).await;
    until("the party met its limit", || one.limit_hits() + two.limit_hits() > 0).await;
    until("it is within the limit", || fixture.factory.count_of("greedy") <= PARTY).await;
    assert!(fixture.factory.count_of("greedy") > 0);
    assert_eq!((few.alive().len(), modest.limit_hits()), (20, 0));
    assert!(fixture.factory.count_of("modest") >= 20);
    for service in [&mut modest, &mut one, &mut two] {
        service.kill();
        end_of(service).await;
    }
    assert_eq!(fixture.factory.count_of("greedy"), 0);
    guard.abort();
}

/// By the kernel where there is a controller, by polling elsewhere; what was killed for it is counted for the party.
async fn a_party_that_uses_too_much_memory_loses_processes(fixture: Fixture) {
    fixture.factory.set_limits(Limits { memory_per_party: 64 << 20, ..TIGHT });
    let factory = fixture.factory.clone();
    let guard = tokio::spawn(async move { shellkeep_process::guard_memory(&factory).await });
    let shell = |party: &'static str, name: &'static str| {
        let spec = ShellSpec { bash: "/bin/bash".into(), rescue: fixture.scratch.path().join(name) };
        LiveShell::start(spec, fixture.factory.cage_of(Some(party), name))
    };
    let (mut greedy, mut modest) = (shell("greedy", "a").await.unwrap(), shell("modest", "b").await.unwrap());
    // It keeps everything until a line ends, and goes on until it is killed.
    let eat = "tail -c 1G < <(head -c 512M /dev/zero; sleep 60) | wc -c; echo ${PIPESTATUS[0]}";
    for (shell, expected) in [(&mut greedy, "137\n"), (&mut modest, "")] {
        shell.restore(&[]).await.unwrap();
        let command = if expected.is_empty() { "true" } else { eat };
        assert!(String::from_utf8(answer(shell, command).await).unwrap().ends_with(expected));
    }
    let [first, second] = [(); 2].map(|()| greedy.descendants.limits_met());
    assert_eq!((first.memory, second.memory), (true, false));
    assert_eq!(modest.descendants.limits_met(), LimitsMet::default());
    guard.abort();
}

/// Files in `/dev/shm`, which are removed at the end of a test, whatever that is.
struct InMemory(Vec<PathBuf>);

impl InMemory {
    /// Has a shell of a party write a file, and stops it. Returns whether the file could be written, and removes it if not.
    async fn write(&mut self, fixture: &Fixture, factory: &CageFactory, party: &str) -> bool {
        let name = format!("{}-{}", fixture.instance, self.0.len());
        let path = PathBuf::from("/dev/shm").join(&name);
        self.0.push(path.clone());
        let spec = ShellSpec { bash: "/bin/bash".into(), rescue: fixture.scratch.path().join("rescue") };
        let mut shell = LiveShell::start(spec, factory.cage_of(Some(party), &name)).await.unwrap();
        shell.restore(&[]).await.unwrap();
        let command = format!("head -c 36M /dev/zero > {}; echo $?", path.display());
        let ends = shell.prepare(Stdin::Empty, Stderr::Apart).unwrap();
        shell
            .begin(RunSpec { command: command.as_bytes(), cwd: None, env: &[], until: None }, ends, LIMIT)
            .await
            .unwrap();
        let mut said = Vec::new();
        // It may be the shell itself that the kernel kills.
        while let Ok(Progress::Output) = shell.progress(&mut |_, bytes| said.extend_from_slice(bytes)).await {}
        drop(shell);
        until("its party has ended", || factory.count_of(party) == 0).await;
        let is_written = said == b"0\n";
        if !is_written {
            std::fs::remove_file(path).unwrap();
        }
        is_written
    }

    fn remove(&self) {
        self.0.iter().for_each(|path| drop(std::fs::remove_file(path)));
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        self.remove();
    }
}

/// What an agent wrote to `/dev/shm` was charged to groups that the next agent got when it had no process, and it got others
/// then: it could use all memory of the machine, one limit at a time, and others were killed for it. And a new daemon
/// removed the groups.
#[tokio::test]
async fn files_in_memory_count_for_the_party_that_wrote_them() {
    let fixture = Fixture::with_limits(CageMode::Auto, Limits { memory_per_party: 64 << 20, ..TIGHT });
    let factory = &fixture.factory;
    if !factory.has_memory_limit() {
        return skip("a memory controller");
    }
    let notes = tempfile::tempdir().unwrap();
    factory.note_parties_in(notes.path().to_owned());
    let mut files = InMemory(Vec::new());
    assert!(files.write(&fixture, factory, "greedy").await);
    assert!(files.write(&fixture, factory, "modest").await, "it pays for another");
    assert!(!files.write(&fixture, factory, "greedy").await, "it begins again with nothing");
    factory.remove(&no_names());
    let next = CageFactory::detect(&fixture.instance, CageMode::Auto, factory.limits());
    next.note_parties_in(notes.path().to_owned());
    next.sweep(&no_names());
    assert!(!files.write(&fixture, &next, "greedy").await, "it begins again with nothing under the next daemon");
    files.remove();
    assert!(files.write(&fixture, &next, "greedy").await, "what was removed still counts");
}

/// Where the kernel holds the limits: per cage, for the node, and as they are changed.
#[tokio::test]
async fn the_kernel_holds_limits_that_can_be_changed() {
    let fixture = Fixture::with_limits(
        CageMode::Auto,
        Limits { per_cage: 20, per_party: 1000, node: 1000, memory_per_party: 8 << 30, open_files: 4096 },
    );
    if !fixture.factory.has_limit() {
        // The stories above are the ones for this machine.
        return skip("control groups with limits");
    }
    let sleeps = Sleeps::new();
    let fill = format!("for i in {{1..40}}; do {} 2>/dev/null & done; wait; sleep 86400", sleeps.command(1));
    let mut service = fixture.start("service-a", &fill).await;
    until("it was refused some", || service.limit_hits() > 0).await;
    assert!(sleeps.alive().len() <= 20);
    service.kill();
    end_of(&mut service).await;

    // A cage that is there when the limits are raised may hold more from then on.
    let mut service = fixture.start("service-b", &format!("read -t 0.2 <> <(:); {fill}")).await;
    fixture.factory.set_limits(Limits {
        per_cage: 100,
        per_party: 1000,
        node: 1000,
        memory_per_party: 8 << 30,
        open_files: 4096,
    });
    sleeps.until(40).await;
    assert_eq!(service.limit_hits(), 0);
    assert!(fixture.factory.count() >= 41 && fixture.factory.count() < 60, "{}", fixture.factory.count());
    // The node's limit counts all cages together, but no keepers.
    fixture.factory.set_limits(Limits {
        per_cage: 100,
        per_party: 50,
        node: 50,
        memory_per_party: 8 << 30,
        open_files: 4096,
    });
    let mut other = fixture.start("service-c", &fill).await;
    until("the node refused some", || other.limit_hits() > 0).await;
    assert!(fixture.factory.count() <= 50);
    for service in [&mut service, &mut other] {
        service.kill();
        end_of(service).await;
    }
    assert_eq!(fixture.factory.count(), 0);
}

/// Shells and services could open as many files as the daemon, which raises its own limit as far as it can.
#[tokio::test]
async fn open_files_are_limited() {
    let fixture = Fixture::with_limits(CageMode::Auto, Limits { open_files: 200, ..TIGHT });
    let spec = ShellSpec { bash: "/bin/bash".into(), rescue: fixture.scratch.path().join("rescue") };
    let mut shell = LiveShell::start(spec, fixture.factory.cage("shell-1")).await.unwrap();
    shell.restore(&[]).await.unwrap();
    assert_eq!(answer(&mut shell, "ulimit -H -n; bash -c 'ulimit -S -n'").await, b"200\n200\n");
    let mut service = fixture.start("service-a", "ulimit -H -n; ulimit -S -n").await;
    end_of(&mut service).await;
    assert_eq!(fixture.log("service-a").read(0, 100).unwrap().1, b"200\n200\n");
}

/// The work of one party that had all processors crowded out the daemon, and with it everyone else.
#[tokio::test]
async fn where_groups_have_shares_the_daemon_has_its_own() {
    let fixture = Fixture::new(CageMode::Auto);
    let shares_of = |pid: &str| {
        let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        let of_cpu = groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        of_cpu
            .into_iter()
            .find(|(names, _)| names.split(',').any(|name| name == "cpu"))
            .map(|(_, path)| path.to_owned())
    };
    let before = shares_of("self");
    let Some(before) = before.filter(|_| fixture.factory.has_memory_limit()) else { return skip("cpu shares") };
    let shell = |party: Option<&'static str>, name: &'static str| {
        let spec = ShellSpec { bash: "/bin/bash".into(), rescue: fixture.scratch.path().join(name) };
        LiveShell::start(spec, fixture.factory.cage_of(party, name))
    };
    let _of_party = shell(Some("ann"), "a").await.unwrap();
    let own = shares_of("self").unwrap();
    assert!(own.ends_with(&format!("{}/daemon", fixture.instance)), "{own}");
    let of_nobody = shell(None, "b").await.unwrap();
    assert_eq!(shares_of(&of_nobody.pid().to_string()), Some(before.clone()));
    fixture.factory.remove(&Default::default());
    assert_eq!(shares_of("self"), Some(before));
}
