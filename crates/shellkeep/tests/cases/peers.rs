//! The twenty-five cases every session tool should pass; no peer passes all of them.

use crate::case::{Case, case, check, request, step};
use crate::support::procs::unique_sleep;
use serde_json::json;

#[test]
fn state_goes_from_command_to_command() {
    check(vec![
        case("1 cd, then pwd", [step("cd /usr/lib"), step("pwd").out("/usr/lib\n")]),
        case("2 export", [step("export K='a b'"), step("bash -c 'echo \"$K\"'").out("a b\n")]),
        case("3 function", [step("greet() { echo \"hi $1\"; }"), step("greet you").out("hi you\n")]),
        case(
            "4 alias",
            [
                step("shopt -s expand_aliases; alias ll='echo listing'"),
                step("ll x").out("listing x\n"),
                step("ll").out("listing\n"),
            ],
        ),
        case(
            "20 loop and function over many lines",
            [
                step("total() {\n  local sum=0\n  for n in \"$@\"; do\n    ((sum += n))\n  done\n  echo \"$sum\"\n}\n"),
                step("for i in 1 2 3; do\n  total $i $i\ndone").out("2\n4\n6\n"),
            ],
        ),
    ]);
}

#[test]
fn the_session_outlives_what_ends_a_shell() {
    check(vec![
        case("5 exit 3", [step("x=kept; cd /; exit 3").code(3), step("echo \"$x $PWD\"").out("kept /\n")]),
        case("12 set -e; false", [step("x=kept; set -e; false; x=never").code(1), step("echo $x").out("kept\n")]),
        case(
            "18 exec 1>/dev/null, then go on",
            [step("x=kept; exec 1>/dev/null; echo hidden").any_notice(), step("echo $x").out("kept\n").any_notice()],
        ),
        case(
            "23 trap EXIT",
            [
                step("trap 'echo bye' EXIT"),
                step("echo still here").out("still here\n"),
                step("exit 4").out("bye\n").code(4),
                step("echo on").out("on\n"),
            ],
        ),
        case(
            "25 kill -9 $$",
            [
                step("x=kept"),
                step("kill -9 $$").code(137).notice(&["changes_lost", "shell_replaced"]),
                step("echo $x").out("kept\n").any_notice(),
            ],
        ),
    ]);
}

#[test]
fn nothing_waits_for_input_that_never_comes() {
    check(vec![
        case("6 cat without input", [step("cat"), step("echo next").out("next\n")]),
        case(
            "21 read gets end of file",
            [step("read x; echo \"$? [$x]\"").out("1 []\n"), step("echo next").out("next\n")],
        ),
        case(
            "stdin is what the caller gives",
            [
                request(json!({"command": "read a; cat", "stdin": "one\ntwo\nthree"})).out("two\nthree"),
                step("echo \"$a\"").out("one\n"),
            ],
        ),
    ]);
}

#[test]
fn text_is_taken_as_it_is() {
    let line = format!("x={}; echo ${{#x}}", "a".repeat(1 << 20));
    check(vec![
        case("7 heredoc at the end", [step("cat <<E\na $((1+1))\nE").out("a 2\n"), step("echo next").out("next\n")]),
        case(
            "8 unbalanced quote, then a good command",
            [step("echo 'abc").code(2).err_has("unexpected EOF"), step("echo 'd'").out("d\n")],
        ),
        case(
            "9 comment at the end",
            [step("echo a # not this"), step("echo b #")]
                .into_iter()
                .zip(["a\n", "b\n"])
                .map(|(step, out)| step.out(out)),
        ),
        case("10 printf abc exact", [step("printf abc").out("abc"), step("printf '\\n\\n'").out("\n\n")]),
        case(
            "16 bytes exact",
            [
                step("printf '\\x00\\xff'").out(b"\x00\xff"),
                step("printf '\\xc3\\x28' >&2; printf ok").out("ok").any_err(),
            ],
        ),
        case("17 stderr apart", [step("echo out; echo err >&2").out("out\n").err("err\n")]),
        case("19 trailing backslash", [crate::case::like_bash("echo a\\"), step("echo b").out("b\n")]),
        case("22 a command of 1 MiB on one line", [step(line).out("1048576\n"), step("echo ${#x}").out("1048576\n")]),
        case("24 CRLF", [crate::case::like_bash("echo a\r\necho b\r\n"), step("echo c").out("c\n")]),
    ]);
}

#[test]
fn time_and_background_work_do_not_disturb() {
    let (late, long) = (unique_sleep(), unique_sleep());
    let mut table = vec![
        case(
            "13 a timeout leaves the state",
            [
                step("cd /usr; export K=before"),
                request(json!({"command": format!("echo begun; sleep {long}"), "timeout": 1}))
                    .out("begun\n")
                    .any_code()
                    .status("timed_out")
                    .any_notice(),
                step("echo \"$PWD $K\"").out("/usr before\n").any_notice(),
            ],
        ),
        case(
            "14 a background job lets go at once",
            [
                request(json!({"command": format!("sleep {late} & echo started"), "timeout": 5})).out("started\n"),
                step("echo next").out("next\n"),
            ],
        )
        .loses("job"),
    ];
    table.push(imitations());
    check(table);
}

/// Whatever a tool could use to mark the end of a command, printed by the command itself.
fn imitations() -> Case {
    let forged = "printf '%s\\n' __END__:0 '<exit>0</exit>' ',,,,bash-command-exit-0-banner,,,,' SHELLKEEP_DONE_0 'EXIT_CODE=0'; \
                  printf '\\001\\002\\0030\\n\\0000\\n\\377'; (exit 9)";
    let shown = b"__END__:0\n<exit>0</exit>\n,,,,bash-command-exit-0-banner,,,,\nSHELLKEEP_DONE_0\nEXIT_CODE=0\n\x01\x02\x030\n\x000\n\xff";
    case("11 output that imitates markers", [step(forged).out(shown).code(9), step("echo next").out("next\n")])
}

/// Case 15. The job is let go by the second command, so nobody has to guess how long "late" is.
#[test]
fn late_output_stays_out_of_later_results() {
    let daemon = crate::support::Daemon::start();
    daemon.create("late");
    let started = daemon.sh("late", "mkfifo gate; (read -r go < gate; echo late; echo late-error >&2) & echo started");
    assert_eq!(started.out(), "started\n");
    let next = daemon.sh("late", "echo go > gate; wait; echo now");
    assert_eq!((next.out().as_str(), next.err().as_str()), ("now\n", ""), "late output was mixed in: {next:?}");
    let mut late = next.background_output();
    // The bytes may reach the daemon after the answer; the next answer is the latest that may carry them.
    late += &daemon.sh("late", ":").background_output();
    assert!(late.contains("late\n") && late.contains("late-error\n"), "late output is lost: {late:?}");
}
