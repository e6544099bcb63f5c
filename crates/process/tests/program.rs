//! A program with pipes: what it starts with, what is heard of it, and that nothing of it is left.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on should stop")]

use shellkeep_process::handle;
use shellkeep_process::proc::{self, Stat};
use shellkeep_process::{CageFactory, CageMode, ExitStatus, Heard, Limits, Program, ProgramSpec, Stream};
use std::time::Duration;
use tokio::time::timeout;

/// Far longer than anything here takes; a test that waits this long has failed.
const LONG: Duration = Duration::from_secs(60);
const MODES: [CageMode; 3] = [CageMode::Auto, CageMode::NoLimits, CageMode::Marks];

struct Place {
    factory: CageFactory,
    scratch: tempfile::TempDir,
}

impl Place {
    fn new(mode: CageMode) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let name = scratch.path().file_name().unwrap().to_str().unwrap();
        let factory = CageFactory::detect(
            &format!("shellkeep-test{name}"),
            mode,
            Limits { per_cage: 64, per_party: 1000, node: 1000, memory_per_party: 8 << 30, open_files: 4096 },
        );
        Self { factory, scratch }
    }

    fn spec(&self, words: &[&str]) -> ProgramSpec {
        ProgramSpec {
            arguments: words.iter().map(|word| word.as_bytes().to_vec()).collect(),
            cwd: self.scratch.path().to_str().unwrap().as_bytes().to_vec(),
            environment: vec![(b"PATH".to_vec(), b"/usr/bin:/bin".to_vec()), (b"A".to_vec(), b"1".to_vec())],
        }
    }

    fn script(&self, script: &str) -> (Program, shellkeep_process::stdio::Writer) {
        Program::start(&self.spec(&["bash", "-c", script]), self.factory.cage("agent-1"), None).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.factory.remove(&Default::default());
    }
}

/// Everything it writes until its end, and how it ended.
async fn all(program: &mut Program) -> (String, String, ExitStatus) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let hearing = async {
        loop {
            let mut sink = |stream: Stream, bytes: &[u8]| match stream {
                Stream::Stdout => out.extend_from_slice(bytes),
                Stream::Stderr => err.extend_from_slice(bytes),
            };
            if let Heard::Ended(status) = program.hear(&mut sink).await {
                return status;
            }
        }
    };
    let status = timeout(LONG, hearing).await.expect("it ends");
    (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap(), status)
}

/// Processes with this mark in their arguments.
fn marked(mark: &str) -> Vec<u32> {
    let all = proc::all().unwrap();
    let has_it = |pid: &u32| {
        std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(mark))
    };
    all.keys().copied().filter(has_it).filter(|pid| Stat::read(*pid).is_some()).collect()
}

fn mark(number: u32) -> String {
    format!("2718.{:07}{number:02}", std::process::id())
}

#[tokio::test]
async fn it_reads_and_writes_and_has_its_own_directory_and_environment() {
    for mode in MODES {
        let place = Place::new(mode);
        let (mut program, stdin) =
            place.script("read -r line; echo \"$line $A $PWD $(ulimit -Sn)\"; echo no >&2; exit 7");
        stdin.write_all(b"hello\n").await.unwrap();
        let (out, err, status) = all(&mut program).await;
        let expected = format!("hello 1 {}", place.scratch.path().display());
        assert!(out.starts_with(&expected), "{mode:?}: {out}");
        assert_eq!((err.as_str(), status), ("no\n", ExitStatus::Exited(7)));
        let (mut program, stdin) = place.script("env | cut -d= -f1 | sort | tr '\\n' ' '; read -r line || echo end");
        drop(stdin);
        let (out, ..) = all(&mut program).await;
        let names = out.replace("SHELLKEEP_CAGE ", "").replace("_ ", "");
        assert_eq!(names, "A PATH PWD SHLVL end\n", "{mode:?}: nothing of ours is in its environment");
    }
}

#[tokio::test]
async fn one_that_is_not_there_is_named() {
    let place = Place::new(CageMode::Auto);
    let start = |spec: &ProgramSpec| {
        Program::start(spec, place.factory.cage("agent-1"), None).map(drop).unwrap_err().to_string()
    };
    assert!(start(&place.spec(&["no-such-program"])).contains("no program no-such-program in PATH (/usr/bin:/bin)"));
    assert!(start(&place.spec(&["./no"])).contains("./no is not a program"));
    assert!(start(&place.spec(&["/etc/passwd"])).contains("not a program that can be run"));
    assert!(start(&place.spec(&[])).contains("no program"));
    let elsewhere = ProgramSpec { cwd: b"/no/where".to_vec(), ..place.spec(&["true"]) };
    assert!(start(&elsewhere).contains("there is no directory /no/where"));
    std::fs::write(place.scratch.path().join("bad"), "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(place.scratch.path().join("bad"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    assert!(!start(&place.spec(&["./bad"])).is_empty(), "the system's own reason");
    let (mut program, _stdin) = Program::start(&place.spec(&["true"]), place.factory.cage("agent-2"), None).unwrap();
    assert_eq!(timeout(LONG, program.ended(&mut |_, _| {})).await.unwrap(), ExitStatus::Exited(0));
}

#[tokio::test]
async fn one_that_closes_its_output_is_heard_to_do_so() {
    let place = Place::new(CageMode::Auto);
    let (mut program, _stdin) = place.script("echo last; exec >&-; sleep 1000");
    let mut out = Vec::new();
    let closed = async {
        loop {
            match program.hear(&mut |_, bytes| out.extend_from_slice(bytes)).await {
                Heard::Output => {}
                other => return other,
            }
        }
    };
    assert_eq!(timeout(LONG, closed).await.unwrap(), Heard::Closed);
    assert_eq!(out, b"last\n");
    assert_eq!(program.kill().await, ExitStatus::Signalled(9));
}

/// What it starts may do what it likes to get away: when the program is stopped, killed or dropped, it is gone.
#[tokio::test]
async fn everything_it_started_ends_with_it() {
    for mode in MODES {
        for (number, way) in ["stop", "kill", "drop"].into_iter().enumerate() {
            let place = Place::new(mode);
            let mark = mark(number as u32);
            let script = format!(
                "sleep {mark} & setsid sleep {mark} & (setsid sh -c 'trap \"\" TERM; sleep {mark}; true' &)
                 (nohup sleep {mark} >/dev/null 2>&1 &) ; echo up; trap '' TERM; while :; do sleep 0.05; done"
            );
            let (mut program, _stdin) = place.script(&script);
            let mut out = Vec::new();
            while !out.ends_with(b"up\n") {
                assert_eq!(
                    timeout(LONG, program.hear(&mut |_, bytes| out.extend_from_slice(bytes))).await.unwrap(),
                    Heard::Output
                );
            }
            let pid = program.pid();
            let handles = marked(&mark).into_iter().chain([pid]).filter_map(handle::open).collect();
            match way {
                "stop" => drop(timeout(LONG, program.stop(Duration::from_millis(200), &mut |_, _| {})).await.unwrap()),
                "kill" => drop(timeout(LONG, program.kill()).await.unwrap()),
                _ => drop(program),
            }
            assert!(timeout(LONG, handle::gone(handles)).await.is_ok(), "{mode:?} {way}: it never ends");
            assert!(marked(&mark).is_empty(), "{mode:?} {way}: {:?}", marked(&mark));
            if way != "drop" {
                assert!(Stat::read_any(pid).is_none(), "{mode:?} {way}: it was not reaped");
            }
        }
    }
}
