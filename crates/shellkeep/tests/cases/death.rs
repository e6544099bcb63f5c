//! The shell dies in every way it can. The status is the one `bash -c` gives, what was set before is there afterwards
//! where bash gave the chance to read it, and a notice comes only when something was lost.

use crate::case::{Case, case, check, like_bash, step};
use crate::support::procs::unique_sleep;

/// Ends after which bash still runs its exit code, so that nothing is lost.
const ORDERLY: &[&str] = &[
    "exit 3",
    "exit",
    "exit 256",
    "exit -1",
    "false; exit",
    "f() { exit 7; }; f",
    "eval 'exit 4'",
    "{ exit 5; }",
    "if true; then exit 6; fi",
    "for i in 1 2; do exit $i; done",
    "true && exit 8",
    "set -e; false",
    "set -e; (exit 5)",
    "set -e; nosuchcommand",
    "set -eu; echo $nope",
    "set -u; echo $nope",
    "echo ${nope?message}",
    "echo ${nope:?}",
    "exec nosuchcommand",
    "exec /",
    "exec < nofile",
    "trap 'exit 9' ERR; false",
    "readonly r=1; set -e; r=2",
    ". /dev/stdin <<< 'exit 6'",
    "trap 'exit 4' USR1; kill -USR1 $$; :",
    "set -o posix; . nofile",
    "set -o posix; export 1x=2",
    "shopt -s extdebug; exit 3",
];

/// Errors that end a command and not the shell, or the shell where bash says so.
const ERRORS: &[&str] = &[
    "echo $((1/0)); echo no",
    "echo ${x!}; echo no",
    "echo ${x:1:-9}",
    "x=(; echo no",
    "if",
    "echo 'open",
    "echo $(",
    "case x in",
    "[[ a",
    "((",
    "declare -r q=1; q=2; echo no",
    "let 1/0; echo yes",
    "cd nowhere; echo $?",
    "nosuchcommand; echo $?",
    "kill -0 $$; echo $?",
];

#[test]
fn orderly_ends_lose_nothing() {
    let one = |end: &&str| {
        case(
            format!("end by `{end}`"),
            [
                step("before=1; f0() { echo fn; }; cd /usr"),
                like_bash(format!("during=2; {end}")),
                step("echo \"$before $during $PWD\"; f0").out("1 2 /usr\nfn\n"),
            ],
        )
    };
    check(ORDERLY.iter().map(one).collect());
}

#[test]
fn errors_are_those_of_bash() {
    let one = |text: &&str| {
        case(format!("error `{text}`"), [step("before=1"), like_bash(*text), step("echo $before").out("1\n")])
    };
    check(ERRORS.iter().map(one).collect());
}

#[test]
fn violent_ends_keep_what_was_known() {
    let cases: Vec<Case> = [
        ("kill -9 $$", 137),
        ("kill $$", 143),
        ("kill -HUP $$", 129),
        ("kill -INT $$", 130),
        ("kill -ABRT $$", 134),
        ("kill -SEGV $$", 139),
        ("kill -USR1 $$", 138),
        ("kill -PIPE $$", 141),
        ("kill -ALRM $$", 142),
    ]
    .iter()
    .map(|(command, code)| {
        let died = step(*command).code(*code).any_err().any_notice();
        case(
            format!("end by `{command}`"),
            [step("before=1; cd /usr"), died, step("echo \"$before $PWD\"").out("1 /usr\n").any_notice()],
        )
    })
    .collect();
    check(cases);
}

#[test]
fn a_violent_end_says_what_it_lost() {
    check(vec![
        case(
            "changes of a killed command",
            [
                step("a=1"),
                step("a=2; kill -9 $$").code(137).notice(&["changes_lost", "shell_replaced"]),
                step("echo $a").out("1\n").any_notice(),
            ],
        ),
        case(
            "exec of another program",
            [step("a=1"), step("a=2; exec true").any_notice(), step("echo ${a:0:1} | tr 2 1").out("1\n").any_notice()],
        ),
        case(
            "exec of a program with output",
            [step("exec echo replaced").out("replaced\n").any_notice(), step("echo next").out("next\n").any_notice()],
        ),
        case(
            "a subshell's death is none",
            [step("a=1"), step("(kill -9 $BASHPID); echo $?").out("137\n").any_err(), step("echo $a").out("1\n")],
        ),
        case(
            "a child that kills its parent",
            [
                step("a=1"),
                step("bash -c 'kill -9 $PPID'; echo no").code(137).any_notice().any_err(),
                step("echo $a").out("1\n").any_notice(),
            ],
        ),
    ]);
}

#[test]
fn what_cannot_be_data_is_named_when_it_is_lost() {
    let (job, coproc) = (unique_sleep(), unique_sleep());
    check(vec![
        case(
            "a job",
            [
                step(format!("sleep {job} & a=1")),
                step("jobs | wc -l").out("1\n").out_after_sleep("0\n"),
                step("echo $a").out("1\n"),
            ],
        )
        .loses("job"),
        case("a coprocess", [step(format!("coproc W {{ sleep {coproc}; }}; a=1")), step("echo $a").out("1\n")])
            .loses("job"),
        case(
            "an open descriptor",
            [step("echo hi > f; exec 5<f; a=1").any_notice(), step("echo $a").out("1\n").any_notice()],
        )
        .loses("descriptor"),
        case(
            "nothing lost, nothing said",
            [
                step("a=1; b=(1 2); f() { :; }; cd /"),
                step("echo $a").out("1\n"),
                step("exit 3").code(3),
                step("echo $a").out("1\n"),
            ],
        ),
    ]);
}

#[test]
fn jobs_and_substitutions() {
    let (one, two) = (unique_sleep(), unique_sleep());
    check(vec![
        case(
            "jobs, kill, wait",
            [
                step(format!("sleep {one} & sleep {two} & jobs -p | wc -l; kill %1 %2; wait; jobs -r | wc -l"))
                    .out("2\n0\n")
                    .any_err(),
                step("jobs"),
            ],
        ),
        case("wait for a status", [step("(exit 7) & wait $!").code(7), step("wait")]),
        case(
            "coproc",
            [
                step("coproc cat; echo hi >&${COPROC[1]}; read -r x <&${COPROC[0]}; echo $x; kill $COPROC_PID; wait")
                    .out("hi\n")
                    .any_err()
                    .any_code(),
                step("echo $x").out("hi\n"),
            ],
        ),
        case(
            "process substitution",
            [
                step("cat <(echo a) <(echo b); echo c > >(cat); wait $!").out("a\nb\nc\n"),
                step("diff <(seq 2) <(seq 2)"),
            ],
        ),
        case(
            "$! of an earlier command",
            [step("(exit 4) & p=$!"), step("wait $p; echo $?").any_out().any_err().any_code()],
        )
        .may_say_so(),
    ]);
}
