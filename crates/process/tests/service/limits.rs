//! How many processes there may be: held by the kernel where it can, by the guard elsewhere.

use crate::fixture::{Fixture, Sleeps, end_of, in_each_mode, skip, status_of, until};
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
}

const PER_CAGE: u64 = 60;
const NODE: u64 = 200;
/// How long a bomb may rage before the test gives up and clears it away.
const BOMB: Duration = Duration::from_secs(30);
const TIGHT: Limits = Limits { per_cage: PER_CAGE, node: NODE };

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
    let spec = RunSpec { command: command.as_bytes(), cwd: None, env: &[] };
    let ends = shell.prepare(Stdin::Empty, Stderr::Apart).unwrap();
    shell.begin(spec, ends).await.unwrap();
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
    assert!(!shell.hit_process_limit(), "it was not the shell's doing");
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
    fixture.factory.set_limits(Limits { per_cage: 500, node: 1000 });
    let spec = ShellSpec { bash: "/bin/bash".into(), rescue: fixture.scratch.path().join("rescue") };
    let mut shell = LiveShell::start(spec, fixture.factory.cage("shell-1")).await.unwrap();
    shell.restore(&[]).await.unwrap();
    assert_eq!(answer(&mut shell, "x=1; bomb() { bomb | bomb & }; bomb").await, b"");
    until("the bomb hits the limit", || shell.hit_process_limit()).await;
    until("nothing of the bomb is left", || shell.others().is_empty()).await;
    assert_eq!(answer(&mut shell, "echo $x").await, b"1\n");
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
    let limits = Limits { per_cage: 60, node: 60 };
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

/// Where the kernel holds the limits: per cage, for the node, and as they are changed.
#[tokio::test]
async fn the_kernel_holds_limits_that_can_be_changed() {
    let fixture = Fixture::with_limits(CageMode::Auto, Limits { per_cage: 20, node: 1000 });
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
    fixture.factory.set_limits(Limits { per_cage: 100, node: 1000 });
    sleeps.until(40).await;
    assert_eq!(service.limit_hits(), 0);
    assert!(fixture.factory.count() >= 41 && fixture.factory.count() < 60, "{}", fixture.factory.count());
    // The node's limit counts all cages together, but no keepers.
    fixture.factory.set_limits(Limits { per_cage: 100, node: 50 });
    let mut other = fixture.start("service-c", &fill).await;
    until("the node refused some", || other.limit_hits() > 0).await;
    assert!(fixture.factory.count() <= 50);
    for service in [&mut service, &mut other] {
        service.kill();
        end_of(service).await;
    }
    assert_eq!(fixture.factory.count(), 0);
}
