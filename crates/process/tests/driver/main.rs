//! The driver against a real bash: one story per promise.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod ahead;
mod call;
mod interruption;
mod zygote;

use shellkeep_process::*;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a shell may take to read a command.
const LIMIT: Duration = Duration::from_secs(20);

struct Fixture {
    factory: CageFactory,
    zygote: Zygote,
    scratch: tempfile::TempDir,
    count: std::cell::Cell<u32>,
}

struct Outcome {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    end: Progress,
}

impl Outcome {
    fn report(self) -> Box<Report> {
        match self.end {
            Progress::Reported(report) => report,
            other => panic!("no report: {other:?}"),
        }
    }
}

/// Another bash can be tried by naming it.
fn bash() -> PathBuf {
    PathBuf::from(std::env::var_os("SHELLKEEP_BASH").unwrap_or_else(|| "/bin/bash".into()))
}

impl Fixture {
    fn new() -> Self {
        Self::with(bash(), CageMode::Auto, Forking::Auto)
    }

    fn with(bash: PathBuf, mode: CageMode, forking: Forking) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let name = scratch.path().file_name().unwrap().to_str().unwrap().to_owned();
        let limits = Limits { per_cage: 128, per_party: 1000, node: 1000, memory_per_party: 8 << 30, open_files: 4096 };
        let factory = CageFactory::detect(&format!("shellkeep-test{name}"), mode, limits);
        let zygote = Zygote::new(bash, scratch.path().to_owned(), factory.clone(), forking);
        // Sessions that do not use it must not notice.
        let zygote = zygote.with_locale_of(&[(b"LANG".to_vec(), b"C.UTF-8".to_vec())]);
        Self { factory, zygote, scratch, count: std::cell::Cell::new(0) }
    }

    fn next_name(&self) -> String {
        self.count.set(self.count.get() + 1);
        format!("s{}", self.count.get())
    }

    async fn shell(&self, facts: &[Fact]) -> LiveShell {
        let name = self.next_name();
        let mut shell = self.zygote.shell(self.scratch.path().join(&name), self.factory.cage(&name)).await.unwrap();
        assert_eq!(shell.restore(facts).await.unwrap(), []);
        shell
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.zygote.close();
        self.factory.remove(&Default::default());
    }
}

async fn run(shell: &mut LiveShell, command: &str) -> Outcome {
    run_in(shell, None, command).await
}

async fn run_in(shell: &mut LiveShell, cwd: Option<&str>, command: &str) -> Outcome {
    run_spec(shell, RunSpec { command: command.as_bytes(), cwd: cwd.map(str::as_bytes), env: &[], until: None }).await
}

async fn run_spec(shell: &mut LiveShell, spec: RunSpec<'_>) -> Outcome {
    let ends = shell.prepare(Stdin::Empty, Stderr::Apart).unwrap();
    shell.begin(spec, ends, LIMIT).await.unwrap();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        let mut sink = |stream: Stream, bytes: &[u8]| match stream {
            Stream::Stdout => stdout.extend_from_slice(bytes),
            Stream::Stderr => stderr.extend_from_slice(bytes),
        };
        match shell.progress(&mut sink).await.unwrap() {
            Progress::Output => {}
            end => {
                shell.descendants.settle();
                return Outcome { stdout, stderr, end };
            }
        }
    }
}

#[tokio::test]
async fn output_and_status_are_exact() {
    let fixture = Fixture::new();
    let mut shell = fixture.shell(&[]).await;
    let outcome = run(&mut shell, r"printf 'a\0b\xff'; printf err >&2; (exit 7)").await;
    assert_eq!(outcome.stdout, b"a\0b\xff");
    assert_eq!(outcome.stderr, b"err");
    assert_eq!(outcome.report().status, 7);
    let outcome = run(&mut shell, "foo").await;
    assert_eq!(outcome.stderr, b"bash: line 1: foo: command not found\n");
}

#[tokio::test]
async fn a_text_without_a_command_succeeds() {
    let fixture = Fixture::new();
    let mut shell = fixture.shell(&[Fact::Status(5)]).await;
    for nothing in ["", "# c", " \n\n", "# a\n# b\n"] {
        assert_eq!(run(&mut shell, nothing).await.report().status, 0, "{nothing:?}");
        let next = run(&mut shell, "echo $?; (exit 5)").await;
        assert_eq!(next.stdout, b"5\n", "`$?` is that of the last command");
        assert_eq!(next.report().status, 5);
    }
    for (text, status) in [("false\n# c", 1), ("(exit 5) # c\n", 5), ("f() { :; }", 0), ("(exit 7) & :", 0), ("if", 2)]
    {
        run(&mut shell, "(exit 5)").await;
        assert_eq!(run(&mut shell, text).await.report().status, status, "{text:?}");
    }
}

#[tokio::test]
async fn the_directory_of_a_call_is_entered_as_cd_does() {
    let fixture = Fixture::new();
    let home = fixture.scratch.path().join("home");
    std::fs::create_dir_all(home.join("a/deep")).unwrap();
    std::os::unix::fs::symlink("a/deep", home.join("link")).unwrap();
    let home = home.to_str().unwrap();
    let mut shell = fixture.shell(&[]).await;
    for (given, entered) in [("/a/..", ""), ("/./a//deep/.", "/a/deep"), ("/link/..", ""), ("/link", "/link")] {
        let there = run_in(&mut shell, Some(&format!("{home}{given}")), "pwd; pwd -P").await.stdout;
        let physical = std::fs::canonicalize(format!("{home}{entered}")).unwrap();
        let expected = format!("{home}{entered}\n{}\n", physical.display());
        assert_eq!(String::from_utf8_lossy(&there), expected, "{given}");
    }
    let refused = run_in(&mut shell, Some(&format!("{home}/none/..")), "pwd").await.end;
    assert!(matches!(refused, Progress::BadCwd(_)), "{refused:?}");
}

/// The bug: a daemon that was stopped after it had decided that a command may begin sent it when it went on, and bash ran it.
#[tokio::test]
async fn a_command_is_not_begun_after_its_deadline() {
    let fixture = Fixture::new();
    let mut shell = fixture.shell(&[]).await;
    let now = Instant::now();
    for (until, begins) in [(now + Duration::from_secs(600), true), (now, false)] {
        let spec = RunSpec {
            command: b"echo ran; n=$((n+1))",
            cwd: Some(b"/usr"),
            env: &[(b"CALL".to_vec(), b"1".to_vec())],
            until: Some(Deadline::at(until)),
        };
        let outcome = run_spec(&mut shell, spec).await;
        assert_eq!(outcome.stdout, if begins { b"ran\n".as_slice() } else { b"" });
        assert_eq!(matches!(outcome.end, Progress::TooLate), !begins, "{:?}", outcome.end);
    }
    // What held for that call alone is undone, and the shell goes on.
    assert_eq!(run(&mut shell, "echo $n ${CALL-unset}; [ \"$PWD\" != /usr ]").await.stdout, b"1 unset\n");
}

#[tokio::test]
async fn a_call_with_a_directory_tells_that_the_session_has_none() {
    let fixture = Fixture::new();
    let mut shell = fixture.shell(&[]).await;
    let root = fixture.scratch.path().to_str().unwrap();
    run(&mut shell, &format!("cd '{root}'; mkdir z; cd z")).await;
    assert!(!run_in(&mut shell, Some("/"), ":").await.report().homeless);
    run(&mut shell, "rmdir ../z").await;
    assert!(run_in(&mut shell, Some("/"), ":").await.report().homeless);
    assert!(run_in(&mut shell, Some("/"), "cd /tmp").await.report().homeless);
    assert!(!run_in(&mut shell, Some("/"), ":").await.report().homeless, "the last command moved the session");
}

#[tokio::test]
async fn exit_tells_its_state_first() {
    let fixture = Fixture::new();
    let mut shell = fixture.shell(&[]).await;
    let outcome = run(&mut shell, "x=1; trap 'echo bye; y=2' EXIT; exit 3").await;
    assert_eq!(outcome.stdout, b"bye\n");
    let report = outcome.report();
    assert_eq!(report.exit, Some(ExitStatus::Exited(3)));
    let facts = report.facts;
    for (name, value) in [("x", "1"), ("y", "2")] {
        assert!(facts.iter().any(|fact| matches!(fact, Fact::Scalar { name: n, value: v, .. } if n == name.as_bytes() && v == value.as_bytes())));
    }
}

#[tokio::test]
async fn a_killed_shell_is_reported_as_killed() {
    let fixture = Fixture::new();
    let mut shell = fixture.shell(&[]).await;
    let outcome = run(&mut shell, "echo before; kill -9 $$").await;
    assert_eq!(outcome.stdout, b"before\n");
    assert!(matches!(outcome.end, Progress::ShellGone { exit: ExitStatus::Signalled(9), .. }), "{:?}", outcome.end);
}

#[tokio::test]
async fn closing_every_descriptor_still_gives_a_result() {
    let fixture = Fixture::new();
    let mut shell = fixture.shell(&[]).await;
    let outcome = run(&mut shell, "x=1; for ((i=3;i<1100;i++)); do eval \"exec $i>&-\"; done; (exit 5)").await;
    let report = outcome.report();
    assert_eq!(report.status, 5);
    assert!(!report.facts.is_empty(), "rescued through a file");
}

#[tokio::test]
async fn interruption_keeps_shell_and_partial_state() {
    let fixture = Fixture::new();
    let mut shell = fixture.shell(&[]).await;
    run(&mut shell, "sleep 300 & echo $! >/dev/null").await;
    let spec = RunSpec {
        command: b"f() { local l=1; x=5; echo ready; while :; do :; done; }; f; y=6",
        cwd: None,
        env: &[],
        until: None,
    };
    let ends = shell.prepare(Stdin::Empty, Stderr::Apart).unwrap();
    shell.begin(spec, ends, LIMIT).await.unwrap();
    let mut sent = false;
    let report = loop {
        match shell.progress(&mut |_, _| {}).await.unwrap() {
            Progress::Output if !sent => {
                sent = true;
                shell.descendants.signal_run(rustix::process::Signal::TERM);
                shell.ask(Ask::Interrupt);
            }
            Progress::Output => {}
            Progress::Reported(report) => break report,
            other => panic!("no report: {other:?}"),
        }
    };
    assert!(report.interrupted && report.exit.is_none());
    let outcome = run(&mut shell, "echo $x $y; jobs -r | wc -l; declare -p l; break").await;
    assert_eq!(outcome.stdout, b"5\n1\n", "{:?}", String::from_utf8_lossy(&outcome.stderr));
    assert!(outcome.stderr.ends_with(b"loop\n"));
}

/// The signal that the driver takes as a request killed a program that had taken the place of the shell: it had no time to
/// end by itself.
#[tokio::test]
async fn a_program_in_the_place_of_the_shell_is_asked_to_end() {
    for (what, text) in [
        (Ask::Interrupt, "TERM"),
        (Ask::Signal(rustix::process::Signal::INT), "INT"),
        (Ask::Trap(rustix::process::Signal::USR1), "USR1"),
    ] {
        let fixture = Fixture::new();
        let mut shell = fixture.shell(&[]).await;
        let command = format!("exec bash -c 'trap \"echo ended; exit 7\" {text}; echo ready; while :; do :; done'");
        let spec = RunSpec { command: command.as_bytes(), cwd: None, env: &[], until: None };
        let ends = shell.prepare(Stdin::Empty, Stderr::Apart).unwrap();
        shell.begin(spec, ends, LIMIT).await.unwrap();
        let (mut stdout, mut sent) = (Vec::new(), false);
        let exit = loop {
            match shell.progress(&mut |_, bytes| stdout.extend_from_slice(bytes)).await.unwrap() {
                Progress::Output if !sent => {
                    sent = true;
                    // It has no handler for this one, which would end it.
                    shell.ask(Ask::Trap(rustix::process::Signal::USR2));
                    shell.ask(what);
                }
                Progress::Output => {}
                Progress::ShellGone { exit, .. } => break exit,
                other => panic!("it is still there: {other:?}"),
            }
        };
        assert_eq!((exit, stdout.as_slice()), (ExitStatus::Exited(7), &b"ready\nended\n"[..]), "{text}");
    }
}

#[tokio::test]
async fn late_output_is_kept_apart() {
    let fixture = Fixture::new();
    let mut shell = fixture.shell(&[]).await;
    let outcome = run(&mut shell, "(read -t 0.3 <> <(:); echo late) & echo now").await;
    assert_eq!(outcome.stdout, b"now\n");
    let mut late = Vec::new();
    let reader = &outcome.report().late[0];
    let next = run(&mut shell, "echo clean").await;
    assert_eq!(next.stdout, b"clean\n");
    while reader.read(|bytes| late.extend_from_slice(bytes)).await != shellkeep_process::stdio::Read::End {}
    assert_eq!(late, b"late\n");
}

#[tokio::test]
async fn a_process_substitution_belongs_to_its_command() {
    let fixture = Fixture::new();
    let mut shell = fixture.shell(&[]).await;
    let outcome = run(&mut shell, "echo hi > >(sleep 0.05; cat)").await;
    assert_eq!(outcome.stdout, b"hi\n");
}

/// Everything a state can hold, built by bash, then put into another bash and told again: nothing may be different.
#[tokio::test]
async fn restore_of_capture_is_identity() {
    let fixture = Fixture::new();
    let mut shell = fixture.shell(&[]).await;
    let script = r#"
        shopt -s extglob; cd /usr; pushd /tmp >/dev/null; pushd / >/dev/null
        plain=1; export E=$'a\nb\xff'; declare -i n=3+4; declare -r ro="x y"; declare -u up=abc; declare -l lo=ABC
        declare -a arr=(a [5]=$'q\'"' [9]=''); declare -A map=([k]=v ["a b"]=$'\x01' [']']='[')
        declare -n ref=plain; declare -a noval; declare -A nomap; declare none; declare -x noexp; unset OPTERR
        f() { echo "$1" | cat <<< "x"; case $1 in a|b) :;; @(c|d)) echo;; esac; }; export -f f
        alias ll='ls -l' q="echo 'x'"; shopt -s expand_aliases extglob nullglob; set -f -u -o pipefail
        trap 'echo int' INT; trap '' USR1; trap 'echo dbg >/dev/null' DEBUG; trap 'echo err' ERR
        umask 027; ulimit -S -n 500; set -- 'p 1' p2 ''; enable -n test; LC_ALL=C; IFS=:; (exit 9)
    "#;
    let first = run(&mut shell, script).await.report().facts;
    let dump = "declare -p | grep -Ev '^declare -[^ ]+ (BASHPID|RANDOM|SRANDOM|SECONDS|EPOCH|PPID|_=|BASH_COMMAND|BASH_LINENO|LINENO)'; declare -f; alias; shopt; set -o; trap -p; umask; ulimit -Sn; dirs -v; echo \"$@\"; enable -n";
    run(&mut shell, "echo $?").await;
    let before = run(&mut shell, dump).await;
    let mut second = fixture.shell(&first).await;
    let status = run(&mut second, "echo $?").await;
    assert_eq!(status.stdout, b"9\n");
    let after = run(&mut second, dump).await;
    let (before, after) =
        (String::from_utf8_lossy(&before.stdout).into_owned(), String::from_utf8_lossy(&after.stdout).into_owned());
    let differences: Vec<_> = before.lines().zip(after.lines()).filter(|(a, b)| a != b).collect();
    assert!(differences.is_empty() && before.len() == after.len(), "{differences:?}\n{before}\n=====\n{after}");
}

/// Options that bash switches without rewriting `$BASHOPTS` and `$SHELLOPTS`.
#[tokio::test]
async fn options_that_a_variable_switched_are_restored() {
    let fixture = Fixture::new();
    let scripts = [
        "GLOBIGNORE='*.o'; shopt -u dotglob",
        "GLOBIGNORE='*.o'",
        "shopt -s dotglob; GLOBIGNORE=x; unset GLOBIGNORE",
        "set -o posix; set +o posix",
        "set -o posix",
        "set -o posix; shopt -u expand_aliases inherit_errexit",
        "POSIXLY_CORRECT=1; unset POSIXLY_CORRECT",
        "shopt -s compat31; BASH_COMPAT=",
        "BASH_COMPAT=4.2",
        "IGNOREEOF=3",
        "shopt -s extdebug; set +T +E",
    ];
    for script in scripts {
        let mut shell = fixture.shell(&[]).await;
        let facts = run(&mut shell, script).await.report().facts;
        let dump = "shopt; set -o; declare -p BASH_COMPAT";
        let before = run(&mut shell, dump).await.stdout;
        let mut second = fixture.shell(&facts).await;
        let after = run(&mut second, dump).await.stdout;
        let (before, after) = (String::from_utf8_lossy(&before), String::from_utf8_lossy(&after));
        let differences: Vec<_> = before.lines().zip(after.lines()).filter(|(a, b)| a != b).collect();
        assert!(before == after, "{script}: {differences:?}");
    }
}

/// A state without options has those that its variables stand for, and keeps the variables.
#[tokio::test]
async fn variables_that_switch_options_are_kept() {
    let fixture = Fixture::new();
    for (script, dump) in [
        ("POSIXLY_CORRECT=1", "declare -p POSIXLY_CORRECT; set -o | grep posix"),
        ("IGNOREEOF=3", "declare -p IGNOREEOF; set -o | grep ignoreeof"),
        ("BASH_COMPAT=4.2", "declare -p BASH_COMPAT"),
    ] {
        let mut shell = fixture.shell(&[]).await;
        let mut facts = run(&mut shell, script).await.report().facts;
        facts.retain(|fact| matches!(fact, Fact::Scalar { .. }));
        let before = run(&mut shell, dump).await.stdout;
        let mut second = fixture.shell(&facts).await;
        let after = run(&mut second, dump).await.stdout;
        assert_eq!(String::from_utf8_lossy(&after), String::from_utf8_lossy(&before), "{script}");
    }
}

#[tokio::test]
async fn a_terminal_is_for_one_command() {
    let fixture = Fixture::new();
    let mut shell = fixture.shell(&[]).await;
    let command =
        "tty; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo terminal; stty size; read -r line; echo \"<$line>\"; x=1";
    let spec = RunSpec { command: command.as_bytes(), cwd: None, env: &[], until: None };
    let ends = shell.prepare(Stdin::Terminal(TerminalSize::default()), Stderr::Apart).unwrap();
    let input = shell.begin(spec, ends, LIMIT).await.unwrap().unwrap();
    input.write_all(b"typed\n").await.unwrap();
    let mut output = Vec::new();
    let report = loop {
        let mut sink = |_: Stream, bytes: &[u8]| output.extend_from_slice(bytes);
        match shell.progress(&mut sink).await.unwrap() {
            Progress::Output => {}
            Progress::Reported(report) => break report,
            other => panic!("no report: {other:?}"),
        }
    };
    let text = String::from_utf8_lossy(&output);
    assert!(text.contains("/dev/pts/"), "{text}");
    assert!(["terminal\r\n", "24 80\r\n", "<typed>"].iter().all(|part| text.contains(part)), "{text}");
    assert_eq!((report.status, report.exit), (0, None));
    let after = run(&mut shell, "[ -t 1 ] || echo \"no terminal $x\"; : < /dev/tty").await;
    assert_eq!(after.stdout, b"no terminal 1\n");
    assert!(!after.stderr.is_empty(), "there is no terminal left to open");
}
