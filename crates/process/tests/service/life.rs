//! How a service begins, goes on without us, and ends.

use crate::elsewhere::{play_daemon, start_elsewhere};
use crate::fixture::{Fixture, Sleeps, end_of, in_each_mode, is_alive, status_of, until};
use rustix::process::Signal;
use shellkeep_process::facts::attribute;
use shellkeep_process::proc::{self, Stat};
use shellkeep_process::*;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Instant;

in_each_mode! {
    it_begins_with_the_sessions_state: Auto, Marks;
    it_ends_as_its_command_does: Auto, Marks;
    the_last_command_is_the_process_itself: Auto, Marks;
    it_can_be_taken_over: Auto, NoLimits, Marks;
    it_outlives_a_daemon_that_was_killed: Auto, Marks;
    a_keeper_that_was_killed_leaves_nobody: Auto, Marks;
    a_directory_that_is_not_there_is_refused: Auto, Marks;
    a_start_after_its_deadline_is_refused: Auto, Marks;
    a_start_that_is_given_up_leaves_nobody: Auto, Marks;
}

async fn it_begins_with_the_sessions_state(fixture: Fixture) {
    let home = fixture.directory("home");
    let path = |path: &std::path::Path| path.to_str().unwrap().as_bytes().to_vec();
    let exported = |name: &str, value: &[u8]| Fact::Scalar {
        name: name.into(),
        attributes: attribute::EXPORTED,
        value: value.to_vec(),
    };
    let facts = [
        Fact::Directories(vec![path(&home)]),
        exported("PWD", &path(&home)),
        exported("GREETING", b"good \xff day"),
        exported("PLACE", b"session"),
        Fact::Function {
            name: b"greet".to_vec(),
            attributes: 0,
            source: b"greet () { echo \"$GREETING, $1\"; }".to_vec(),
        },
        Fact::Aliases(vec![(b"hail".to_vec(), b"greet".to_vec())]),
        Fact::ShoptOptions(b"expand_aliases:nullglob".to_vec()),
        Fact::SetOptions(b"braceexpand:hashall:interactive-comments:nounset".to_vec()),
    ];
    let umask = Command::new("/bin/bash")
        .args(["-c", "umask; n=$(ulimit -Sn); echo $((n < 4096 ? n : 4096))"])
        .output()
        .unwrap()
        .stdout;
    let command = b"umask; ulimit -Sn; hail \"$PLACE\"; pwd; env | grep -ac ^GREETING=; echo *.none; shopt -q nullglob && echo $-; echo to stderr >&2";
    let env = [(b"PLACE".to_vec(), b"service".to_vec())];
    let run = RunSpec { command, cwd: None, env: &env, until: None };
    let cage = fixture.factory.cage("service-a");
    let (mut service, problems) =
        ServiceProcess::start(fixture.spec("service-a"), cage, None, &facts, run).await.unwrap();
    assert_eq!(problems, []);
    assert_eq!(status_of(&mut service).await, ExitStatus::Exited(0));
    let (_, bytes) = fixture.log("service-a").tail(1000).unwrap();
    let mut expected = umask;
    expected.extend_from_slice(b"good \xff day, service\n");
    expected.extend_from_slice(format!("{}\n1\n\nhuBc\nto stderr\n", home.display()).as_bytes());
    assert_eq!(String::from_utf8_lossy(&bytes), String::from_utf8_lossy(&expected));

    let away = fixture.directory("away");
    let away_bytes = path(&away);
    let run =
        RunSpec { command: b"pwd; echo $OLDPWD; env | grep ^PWD=", cwd: Some(&away_bytes), env: &[], until: None };
    let cage = fixture.factory.cage("service-b");
    let (mut service, _) = ServiceProcess::start(fixture.spec("service-b"), cage, None, &facts, run).await.unwrap();
    assert_eq!(status_of(&mut service).await, ExitStatus::Exited(0));
    let expected = format!("{}\n{}\nPWD={}\n", away.display(), home.display(), away.display());
    assert_eq!(fixture.text("service-b"), expected);
}

async fn it_ends_as_its_command_does(fixture: Fixture) {
    let table = [
        ("true", ExitStatus::Exited(0)),
        ("exit 3", ExitStatus::Exited(3)),
        ("set -e; false; echo not reached", ExitStatus::Exited(1)),
        ("kill -9 $$", ExitStatus::Signalled(9)),
        ("exec no-such-program", ExitStatus::Exited(127)),
        ("if", ExitStatus::Exited(2)),
        (": ${unset:?}; echo not reached", ExitStatus::Exited(127)),
        ("trap 'echo bye; exit 5' EXIT; false", ExitStatus::Exited(5)),
        ("f() { return 7; }; f", ExitStatus::Exited(7)),
        ("", ExitStatus::Exited(0)),
    ];
    for (number, (command, expected)) in table.into_iter().enumerate() {
        let name = format!("service-{number}");
        let mut service = fixture.start(&name, command).await;
        assert_eq!(status_of(&mut service).await, expected, "{command}: {}", fixture.text(&name));
        assert_eq!(left_exit(&fixture.directory(&name)), Some(end_of(&mut service).await), "and it stays known");
        let reference = Command::new("/bin/bash").args(["--norc", "-c", command]).output().unwrap();
        let status = reference.status;
        let of_bash = status.code().map_or_else(|| ExitStatus::Signalled(status.signal().unwrap()), ExitStatus::Exited);
        assert_eq!(of_bash, expected, "bash -c does not agree on {command}");
        let said = [reference.stdout, reference.stderr].concat();
        assert_eq!(fixture.text(&name), String::from_utf8_lossy(&said).replace("/bin/bash:", "bash:"), "{command}");
        assert!(!is_alive(service.stamps().keeper) && !is_alive(service.stamps().main));
    }
}

async fn the_last_command_is_the_process_itself(fixture: Fixture) {
    let sleeps = Sleeps::new();
    for (name, command) in [("service-a", sleeps.command(1)), ("service-b", format!("x=1; {}", sleeps.command(2)))] {
        let mut service = fixture.start(name, &command).await;
        let main = service.stamps().main;
        until("bash has become sleep", || proc::command_line(main.pid).starts_with("sleep")).await;
        assert_eq!(service.members().iter().map(Stat::stamp).collect::<Vec<_>>(), [main]);
        service.signal(Signal::TERM);
        assert_eq!(status_of(&mut service).await, ExitStatus::Signalled(15));
    }
}

async fn it_can_be_taken_over(fixture: Fixture) {
    let service =
        fixture.start("service-a", "echo begun; while read -t 0.05 <> <(:); [ $? -gt 128 ]; do echo more; done").await;
    let stamps = service.stamps();
    fixture.until_logged("service-a", "begun").await;
    drop(service);
    assert!(is_alive(stamps.main), "dropping it ends nobody");
    let mut service = fixture.adopt("service-a", stamps).unwrap();
    assert_eq!(service.stamps(), stamps);
    assert!(service.members().iter().any(|stat| stat.stamp() == stamps.main));
    let (_, end) = fixture.log("service-a").bounds().unwrap();
    until("it goes on writing", || fixture.log("service-a").bounds().unwrap().1 > end).await;
    service.kill();
    assert_eq!(status_of(&mut service).await, ExitStatus::Signalled(9));
    assert!(fixture.adopt("service-a", stamps).is_none(), "there is nothing to take over any more");
    assert_eq!(left_exit(&fixture.directory("service-a")), Some(end_of(&mut service).await));
}

/// Not a story: what the other process of the next one does.
#[tokio::test]
async fn as_a_daemon() {
    play_daemon().await;
}

async fn it_outlives_a_daemon_that_was_killed(fixture: Fixture) {
    let command = "trap 'echo told to end; exit 4' TERM; echo begun; while :; do sleep 0.05; done";
    let (mut daemon, stamps) = start_elsewhere(&fixture, command, None);
    daemon.kill().unwrap();
    daemon.wait().unwrap();

    fixture.until_logged("service-a", "begun").await;
    let mut service = fixture.adopt("service-a", stamps).expect("it goes on");
    assert!(service.members().iter().any(|stat| stat.stamp() == stamps.main), "the same process");
    fixture.factory.sweep(&["service-a".to_owned()].into());
    assert!(is_alive(stamps.main) && is_alive(stamps.keeper), "a sweep that knows it leaves it alone");
    service.stop(Signal::TERM);
    assert_eq!(status_of(&mut service).await, ExitStatus::Exited(4));
    let text = fixture.text("service-a");
    assert!(text.starts_with("begun\n") && text.ends_with("told to end\n"), "{text}");
}

async fn a_keeper_that_was_killed_leaves_nobody(fixture: Fixture) {
    let sleeps = Sleeps::new();
    let command = format!("setsid {} & {} & wait", sleeps.command(1), sleeps.command(2));
    let mut service = fixture.start("service-a", &command).await;
    sleeps.until(2).await;
    let stamps = service.stamps();
    let keeper = shellkeep_process::handle::open_exact(stamps.keeper).unwrap();
    assert!(shellkeep_process::handle::send(&keeper, Signal::KILL));
    assert_eq!(end_of(&mut service).await, ServiceExit::Unknown);
    until("the main process has gone with it", || !is_alive(stamps.main)).await;
    sleeps.until(0).await;
    assert_eq!(left_exit(&fixture.directory("service-a")), None);
    assert!(fixture.adopt("service-a", stamps).is_none());
}

async fn a_directory_that_is_not_there_is_refused(fixture: Fixture) {
    let run = RunSpec { command: b"echo ran", cwd: Some(b"/no/such/directory"), env: &[], until: None };
    let started =
        ServiceProcess::start(fixture.spec("service-a"), fixture.factory.cage("service-a"), None, &[], run).await;
    match started {
        Err(ServiceStartError::BadCwd(reason)) => assert_eq!(reason, "No such file or directory"),
        other => panic!("{other:?}"),
    }
    until("nobody is left of it", || keepers(&fixture) == 0).await;
    assert_eq!(fixture.text("service-a"), "");
}

async fn a_start_after_its_deadline_is_refused(fixture: Fixture) {
    let until_now = Some(Deadline::at(Instant::now()));
    let run = RunSpec { command: b"echo ran", cwd: None, env: &[], until: until_now };
    let started =
        ServiceProcess::start(fixture.spec("service-a"), fixture.factory.cage("service-a"), None, &[], run).await;
    assert!(matches!(started, Err(ServiceStartError::TooLate)), "{started:?}");
    until("nobody is left of it", || keepers(&fixture) == 0).await;
    assert_eq!(fixture.text("service-a"), "");
}

async fn a_start_that_is_given_up_leaves_nobody(fixture: Fixture) {
    let run = RunSpec { command: b"echo ran", cwd: None, env: &[], until: None };
    let mut starting =
        Box::pin(ServiceProcess::start(fixture.spec("service-a"), fixture.factory.cage("service-a"), None, &[], run));
    let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(starting.as_mut().poll(cx).is_ready())).await;
    assert!(!polled);
    until("it is under way", || keepers(&fixture) > 0).await;
    drop(starting);
    until("nobody is left of it", || keepers(&fixture) == 0 && fixture.factory.count() == 0).await;
}

/// Keepers of this story that are alive.
fn keepers(fixture: &Fixture) -> usize {
    let prefix = format!("{}={}/", cage::KEEPER_MARK, fixture.instance).into_bytes();
    proc::all().unwrap().into_keys().filter(|pid| proc::mark_after(*pid, &prefix).is_some()).count()
}

#[tokio::test]
async fn a_bash_that_is_none_is_named() {
    let fixture = Fixture::new(CageMode::Auto);
    let run = RunSpec { command: b"echo ran", cwd: None, env: &[], until: None };
    for (bash, expected) in [("/no/such/bash", "No such file"), ("/bin/false", "cannot load the driver")] {
        let spec = ServiceSpec { bash: bash.into(), ..fixture.spec("service-a") };
        let error = ServiceProcess::start(spec, fixture.factory.cage("service-a"), None, &[], run).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// A number was given to another process since it was written down. That one must live.
#[tokio::test]
async fn a_recycled_number_is_not_taken_over() {
    for mode in [CageMode::Auto, CageMode::Marks] {
        let fixture = Fixture::new(mode);
        let mut decoy = Command::new("sleep").arg("86400").spawn().unwrap();
        let stamp = Stat::read(decoy.id()).unwrap().stamp();
        let earlier = ProcessStamp { started_ticks: stamp.started_ticks - 1, ..stamp };
        assert!(fixture.adopt("service-a", ServiceStamps { keeper: earlier, main: earlier }).is_none());
        fixture.factory.sweep(&crate::fixture::no_names());
        assert_eq!(decoy.try_wait().unwrap(), None, "it was none of our business");
        decoy.kill().unwrap();
        decoy.wait().unwrap();
    }
}
