//! A shell that was forked is a shell that was started, as far as a command can see; and a zygote that is gone, out of
//! date or impossible is no one's problem.

use super::{Fixture, bash, run};
use rustix::process::{Pid, Signal, kill_process};
use shellkeep_process::*;
use std::collections::HashSet;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a command can find out about its shell. What differs from shell to shell by nature is compared with what it must
/// be, inside the command.
pub(super) const PROBES: &[&str] = &[
    "read -r -a stat < /proc/self/stat; echo $((stat[0] == $$)) ${stat[1]} $((stat[3] == PPID)) $((stat[4] == $$)) \
     $((stat[5] == $$)) ${stat[6]} ${stat[7]} threads ${stat[19]}",
    "echo $(( $$ == BASHPID )); ( echo $(( $$ == BASHPID )) $BASH_SUBSHELL ); echo $BASH_SUBSHELL; sh -c 'echo $PPID' | grep -cx $$",
    "echo $SHLVL $PPID $UID $EUID ${GROUPS[*]} $- $0 $# \"<$*>\" \"<$_>\" \"<$!>\" $? $LINENO $OPTIND $HISTCMD $HOSTNAME $PWD",
    "xargs -0 -n1 < /proc/$$/cmdline; readlink /proc/$$/exe /proc/$$/cwd /proc/$$/root; cat /proc/$$/comm; od -c /proc/$$/environ",
    "cat /proc/$$/limits /proc/$$/oom_score_adj /proc/$$/coredump_filter /proc/$$/personality",
    // By the shell itself: while it waits for another process it handles signals otherwise, from some moment on.
    "kept='^(Umask|Uid|Gid|Groups|NStgid|Threads|Sig(Pnd|Blk|Ign|Cgt)|Shd|Cap|NoNewPrivs|Seccomp|CoreDumping|Cpus|Mems)'; \
     while read -r line; do if [[ $line =~ $kept ]]; then [[ $line == NStgid* ]] && line=${line/$$/PID}; echo \"$line\"; fi; done < /proc/$$/status",
    "stat -c %U /proc/$$/fd; for f in /proc/$$/fd/*; do echo \"${f##*/} $(readlink \"$f\" | sed 's/:.*//')\"; done; ls -l /proc/self/fd | wc -l",
    "ps -o ni=,cls=,stat=,tty=,args= -p $$; tail -c +1 /proc/$$/timerslack_ns; cat /proc/$$/cgroup | grep -c -E 's[0-9]+$'",
    "declare -p | grep -vE '^declare -[^ ]+ (BASHPID|RANDOM|SRANDOM|SECONDS|EPOCH|BASH_COMMAND|stat)'",
    "set | grep -vE '^(BASHPID|RANDOM|SRANDOM|SECONDS|EPOCH|_)=' ; set | grep -cE '^(RANDOM|SECONDS)='",
    "( set -o posix; set ) | cut -d= -f1; env; export -p; readonly -p; compgen -v; declare -F; declare -f",
    "shopt; set -o; shopt -o; trap; trap -p; alias; hash; jobs; jobs -p; history; dirs -v; umask; ulimit -a; ulimit -aH; enable; enable -n; complete -p",
    "locale; printf '%(%Z)T\\n' -1; type bash; caller; times | wc -l; ulimit -n; ulimit -u",
    "exec 2>/dev/null; set -m; sleep 60 & ps -o pgid= -p $! | grep -cw $!; kill %1; wait %1; echo $?; set +m; jobs",
    "exec 2>/dev/null; sleep 60 & kill $!; wait $!; echo $?; cat <(echo substituted) <<< here; coproc cat; kill $COPROC_PID; wait; (exit 3) | true; echo ${PIPESTATUS[*]}",
    "trap 'echo got' TERM USR1; kill $$; kill -USR1 $BASHPID; trap -p; (trap); bash -c 'kill -TERM $PPID'; :",
    "trap 'echo bye' EXIT; exit 5",
];

async fn started(fixture: &Fixture, facts: &[Fact]) -> LiveShell {
    let name = fixture.next_name();
    let spec = ShellSpec { bash: bash(), rescue: fixture.scratch.path().join(&name) };
    let mut shell = LiveShell::start(spec, fixture.factory.cage(&name)).await.unwrap();
    assert_eq!(shell.restore(facts).await.unwrap(), []);
    shell
}

/// What a probe says, with the numbers of processes that differ by nature taken out.
pub(super) async fn answer(shell: &mut LiveShell, probe: &str) -> String {
    let outcome = run(shell, probe).await;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&shell.pid().to_string(), "PID");
    let (stdout, stderr) = (text(&outcome.stdout), text(&outcome.stderr));
    match outcome.end {
        Progress::Reported(report) => format!("{}\n{stdout}\n{stderr}", report.status),
        other => panic!("no report: {other:?}"),
    }
}

pub(super) fn has_groups(fixture: &Fixture) -> bool {
    assert!(fixture.factory.has_groups() || std::env::var_os("CI").is_none(), "this test needs control groups");
    fixture.factory.has_groups()
}

#[tokio::test]
async fn a_forked_shell_looks_like_a_started_one() {
    let fixture = Fixture::new();
    if !has_groups(&fixture) {
        return;
    }
    for probe in PROBES {
        let (mut forked, mut started) = (fixture.shell(&[]).await, started(&fixture, &[]).await);
        assert!(forked.origin().is_forked && !started.origin().is_forked);
        assert_eq!(forked.origin().version, started.origin().version);
        assert_eq!(answer(&mut forked, probe).await, answer(&mut started, probe).await, "{probe}");
    }
}

/// Whoever reads `RANDOM` in two sessions must not get the same numbers.
#[tokio::test]
async fn every_forked_shell_has_its_own_random_numbers() {
    let fixture = Fixture::new();
    let mut seen = HashSet::new();
    for _ in 0..8 {
        let mut shell = fixture.shell(&[]).await;
        seen.insert(run(&mut shell, "echo $RANDOM $RANDOM $RANDOM $RANDOM").await.stdout);
        seen.insert(run(&mut shell, "echo ${SRANDOM-$RANDOM$RANDOM$RANDOM}").await.stdout);
        // A seed gives the same numbers as in any bash.
        let seeded = run(
            &mut shell,
            "RANDOM=7; a=\"$RANDOM $RANDOM\"; [ \"$a\" = \"$(\"$BASH\" -c 'RANDOM=7; echo $RANDOM $RANDOM')\" ]",
        );
        assert_eq!(seeded.await.report().status, 0);
    }
    assert_eq!(seen.len(), 16);
}

#[tokio::test]
async fn seconds_count_from_the_fork() {
    let fixture = Fixture::new();
    drop(fixture.shell(&[]).await);
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let later = now() + 3;
    shellkeep_poll::until("the zygote is older than the next shell", || (now() >= later).then_some(()));
    let mut shell = fixture.shell(&[]).await;
    // However slow the machine is: not older than the process itself.
    let outcome =
        run(&mut shell, "echo $SECONDS $(( $(ps -o etimes= -p $$) + 1 )) $(( EPOCHSECONDS - $(printf '%(%s)T' -2) ))")
            .await;
    let text = String::from_utf8(outcome.stdout).unwrap();
    let [seconds, age, since]: [u64; 3] =
        text.split_whitespace().map(|word| word.parse().unwrap()).collect::<Vec<_>>().try_into().unwrap();
    assert!(seconds <= age && since <= age, "{text}");
}

/// The zygote's process, if there is one.
fn zygote_of(fixture: &Fixture) -> Option<u32> {
    let names: HashSet<String> = (0..4).map(|n| format!("zygote-{}-{n}", std::process::id())).collect();
    let members = fixture.factory.members_of(&names);
    let found: Vec<u32> = members.values().flatten().map(|stat| stat.pid).collect();
    assert!(found.len() <= 1, "{found:?}");
    found.first().copied()
}

#[tokio::test]
async fn a_zygote_that_was_killed_is_replaced() {
    let fixture = Fixture::new();
    if !has_groups(&fixture) {
        return;
    }
    let mut first = fixture.shell(&[]).await;
    run(&mut first, "x=1").await;
    let killed = zygote_of(&fixture).unwrap();
    kill_process(Pid::from_raw(killed as i32).unwrap(), Signal::KILL).unwrap();
    let mut second = fixture.shell(&[]).await;
    assert!(second.origin().is_forked);
    assert_ne!(zygote_of(&fixture), Some(killed));
    assert_eq!(run(&mut first, "echo $x").await.stdout, b"1\n", "shells that were forked do not depend on it");
    assert_eq!(run(&mut second, "echo $x").await.stdout, b"\n");
}

#[tokio::test]
async fn a_new_bash_makes_a_new_zygote() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bash");
    std::fs::copy(bash(), &path).unwrap();
    let fixture = Fixture::with(path.clone(), CageMode::Auto, Forking::Auto);
    if !has_groups(&fixture) {
        return;
    }
    let of = |shell: &LiveShell| std::fs::read_link(format!("/proc/{}/exe", shell.pid())).unwrap();
    let first = fixture.shell(&[]).await;
    assert_eq!((of(&first).as_path(), first.origin().is_forked), (path.as_path(), true));
    // As a package manager does it.
    let newer = directory.path().join("bash.new");
    std::fs::copy(bash(), &newer).unwrap();
    std::fs::rename(&newer, &path).unwrap();
    assert!(of(&first).ends_with("bash (deleted)"));
    let second = fixture.shell(&[]).await;
    assert_eq!((of(&second).as_path(), second.origin().is_forked), (path.as_path(), true));
}

/// The zygote has a locale loaded, which most sessions use.
#[tokio::test]
async fn a_forked_shell_has_the_locale_of_its_variables() {
    let fixture = Fixture::new();
    let probe = "x=é; echo ${#x}; [[ $x == [[:alpha:]] ]]; echo $?; printf '\\u00e9' | od -c; printf '%(%c)T\\n' 0; locale; \
                 unset LC_ALL LC_CTYPE; echo ${#x}; LANG=C; echo ${#x}; unset LANG; echo ${#x}; LC_ALL=C.UTF-8; echo ${#x}";
    let states: [&[(&str, &str)]; 8] = [
        &[],
        &[("LANG", "C.UTF-8")],
        &[("LC_ALL", "C.UTF-8")],
        &[("LANG", "C"), ("LC_ALL", "C.UTF-8")],
        &[("LANG", "C.UTF-8"), ("LC_ALL", "C")],
        &[("LANG", "C.UTF-8"), ("LC_CTYPE", "C")],
        &[("LC_TIME", "C.UTF-8")],
        &[("LANG", "no_SUCH.locale")],
    ];
    let mut answers = HashSet::new();
    for state in states {
        let scalar = |(name, value): &(&str, &str)| Fact::Scalar {
            name: name.as_bytes().to_vec(),
            attributes: facts::attribute::EXPORTED,
            value: value.as_bytes().to_vec(),
        };
        let facts: Vec<Fact> = state.iter().map(scalar).collect();
        let (mut forked, mut other) = (fixture.shell(&facts).await, started(&fixture, &facts).await);
        assert!(forked.origin().is_forked || !has_groups(&fixture));
        let expected = answer(&mut other, probe).await;
        assert_eq!(answer(&mut forked, probe).await, expected, "{state:?}");
        answers.insert(expected);
    }
    assert!(answers.len() > 4, "the probe tells locales apart: {answers:?}");
}

#[tokio::test]
async fn where_there_is_no_zygote_shells_are_started() {
    for (mode, forking) in [(CageMode::Marks, Forking::Auto), (CageMode::Auto, Forking::Off)] {
        let fixture = Fixture::with(bash(), mode, forking);
        let mut shell = fixture.shell(&[]).await;
        assert!(!shell.origin().is_forked);
        assert_eq!(run(&mut shell, "echo $$").await.stdout, format!("{}\n", shell.pid()).into_bytes());
        assert_eq!(zygote_of(&fixture), None);
    }
    let missing = Fixture::with(Path::new("/nonexistent/bash").to_owned(), CageMode::Auto, Forking::Auto);
    let refused = missing.zygote.shell(missing.scratch.path().join("s"), missing.factory.cage("s")).await;
    assert!(matches!(refused, Err(StartError::NotExecutable { .. })), "{refused:?}");
}

/// The process that a fork just made may be gone before anyone has asked for it.
#[tokio::test]
async fn shells_that_die_at_once_are_reaped_by_us() {
    let fixture = Fixture::new();
    for _ in 0..20 {
        let mut shell = fixture.shell(&[]).await;
        shell.kill_all();
        assert_eq!(shell.ended().await, ExitStatus::Signalled(9));
        assert!(proc::Stat::read_any(shell.pid()).is_none());
    }
}

/// Events of processes reach us only when the runtime gets round to them, which it does not while this test looks.
#[tokio::test]
async fn a_shell_that_was_killed_is_known_before_its_event() {
    let fixture = Fixture::new();
    let mut shell = fixture.shell(&[]).await;
    assert!(shell.is_alive());
    shell.kill_all();
    shellkeep_poll::until("it has ended", || (!shell.is_alive()).then_some(()));
    assert_eq!(shell.ended().await, ExitStatus::Signalled(9));
    assert!(!shell.is_alive());
}
