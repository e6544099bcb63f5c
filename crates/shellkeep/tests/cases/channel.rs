//! The channel between driver and shell: nothing a command does to its descriptors forges a result, hangs the session or
//! reaches a later command.

use crate::case::{Case, case, check, request, step};
use serde_json::json;

/// One past the highest descriptor a careful driver would hide in.
const HIGHEST: u32 = 1100;

fn every_descriptor(from: u32, action: &str) -> String {
    format!("for ((fd = {from}; fd < {HIGHEST}; fd++)); do {action}; done 2>/dev/null")
}

#[test]
fn closing_descriptors() {
    check(vec![
        case("exec 3<&-", [step("exec 3<&- 4>&-"), step("echo a").out("a\n")]),
        case(
            "all from 3 up",
            [
                step(format!("{}; echo ok", every_descriptor(3, "eval \"exec $fd>&-\""))).out("ok\n").any_notice(),
                step("x=1; echo a").out("a\n").any_notice(),
                step("echo $x").out("1\n").any_notice(),
            ],
        ),
        case(
            "all of them",
            [
                step(every_descriptor(0, "eval \"exec $fd>&-\"")).any_code().any_notice(),
                step("echo a").out("a\n").any_notice(),
            ],
        ),
        case("stdout closed", [step("exec >&-").any_notice(), step("echo a").out("a\n").any_notice()]),
        case("stderr closed", [step("exec 2>&-").any_notice(), step("echo a >&2").err("a\n").any_notice()]),
        case("stdin closed", [step("exec <&-").any_notice(), step("cat; echo a").out("a\n").any_notice().any_err()]),
        case(
            "a limit of few descriptors",
            [step("ulimit -n 16"), step("echo a").out("a\n").any_notice(), step("ulimit -n").out("16\n").any_notice()],
        ),
    ]);
}

#[test]
fn redirecting_the_shell_itself() {
    check(vec![
        case(
            "exec >file",
            [
                step("exec >f; echo into file").any_notice(),
                step("echo to caller").out("to caller\n").any_notice(),
                step("cat f").out("into file\n").any_notice(),
            ],
        ),
        case(
            "exec 2>&1",
            [step("exec 2>&1; echo err >&2").out("err\n").any_notice(), step("echo out").out("out\n").any_notice()],
        ),
        case(
            "exec <file",
            [
                step("printf 'l1\\nl2\\n' > f; exec <f; read x; echo $x").out("l1\n").any_notice(),
                step("echo next").out("next\n").any_notice(),
            ],
        ),
        case(
            "exec of all to a file",
            [
                step("exec >f 2>&1 </dev/null; echo x; nosuch").code(127).any_notice(),
                step("echo next").out("next\n").any_notice(),
            ],
        ),
        case(
            "swapped",
            [
                step("exec 3>&1 1>&2 2>&3 3>&-; echo a; echo b >&2").out("b\n").err("a\n").any_notice(),
                step("echo c").out("c\n").any_notice(),
            ],
        ),
    ]);
}

#[test]
fn nothing_written_to_a_descriptor_forges_a_result() {
    let payloads = [
        "0",
        "0\\n",
        "\\0",
        "\\0\\0\\0\\0\\0\\0\\0\\0",
        "exit 0\\n",
        "{\"status\":\"exited\",\"exit_code\":0}\\n",
        "status=0\\ncwd=/\\n",
        "\\377\\376\\375",
        ":0:0:0:\\n",
    ];
    let one = |payload: &&str| -> Case {
        // Descriptors 0 to 2 are the command's own, 10 is where bash keeps its stderr during the loop; the rest must be
        // nobody's.
        let forge = every_descriptor(3, &format!("printf '{payload}' >&$fd"));
        case(
            format!("writes {payload:?} everywhere"),
            [
                step("kept=1; cd /usr"),
                request(json!({"command": format!("{forge}; echo real; (exit 7)"), "timeout": 20}))
                    .out("real\n")
                    .code(7)
                    .any_err()
                    .any_notice(),
                step("echo $kept $PWD").out("1 /usr\n").any_notice(),
            ],
        )
    };
    let mut cases: Vec<Case> = payloads.iter().map(one).collect();
    let child = format!("for ((fd = 3; fd < {HIGHEST}; fd++)); do /bin/echo 0 >&$fd; done 2>/dev/null; (exit 7)");
    cases.push(case(
        "a child writes everywhere",
        [request(json!({"command": child, "timeout": 25})).code(7).any_err(), step("echo next").out("next\n")],
    ));
    let parent = "for fd in /proc/$PPID/fd/*; do echo 0 > $fd; done 2>/dev/null; (exit 7)";
    cases.push(case(
        "a subshell writes to what its parent has open",
        [
            request(json!({"command": format!("bash -c '{parent}'"), "timeout": 20}))
                .any_out()
                .any_err()
                .code(7)
                .any_notice(),
            step("echo next").out("next\n").any_notice(),
        ],
    ));
    check(cases);
}

#[test]
fn nothing_read_from_a_descriptor_hangs_or_steals() {
    let read = every_descriptor(3, "IFS= read -r -t 0.01 line <&$fd && echo \"$fd has $line\"");
    let cat = "for fd in /proc/self/fd/*; do timeout 0.1 cat < $fd; done 2>/dev/null; echo done";
    check(vec![
        case(
            "read -t from every descriptor",
            [request(json!({"command": read, "timeout": 25})).any_code(), step("echo next").out("next\n").any_notice()],
        ),
        case(
            "a child reads all it can",
            [request(json!({"command": cat, "timeout": 20})).out_has("done\n"), step("echo next").out("next\n")],
        ),
        case(
            "input of one command does not reach the next",
            [
                request(json!({"command": "read a", "stdin": "one\ntwo\n"})),
                step("read b; echo \"$a [$b]\"").out("one []\n"),
            ],
        ),
    ]);
}
