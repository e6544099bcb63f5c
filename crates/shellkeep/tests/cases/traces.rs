//! The driver leaves no trace of itself where a user looks. The oracle is `bash -c`; what may differ is named here.

use crate::case::{case, check, like_bash, step};

/// Names that differ by nature: `bash -c` keeps its own command string, and directories and the last word are the run's.
const BY_NATURE: &str = "BASH_EXECUTION_STRING|_|PWD|OLDPWD|SHLVL|PIPESTATUS|PPID|BASHPID|BASH_ARGC|BASH_ARGV|FUNCNAME";

#[test]
fn listings_are_those_of_a_bare_bash() {
    let names = |listing: &str| {
        format!(
            "{listing} | sed -E 's/^declare -[^ ]+ //; s/=.*//' | grep -E '^[A-Za-z_0-9]+$' | grep -vxE '{BY_NATURE}' | sort -u"
        )
    };
    let listings = [
        names("set"),
        names("declare -p"),
        names("compgen -v"),
        names("env"),
        names("export -p"),
        names("( set -o posix; set )"),
        "declare -F".to_owned(),
        "declare -f".to_owned(),
        "compgen -b".to_owned(),
        "enable".to_owned(),
        "enable -n".to_owned(),
        "alias".to_owned(),
        "trap -p".to_owned(),
        "trap".to_owned(),
        "jobs".to_owned(),
        "jobs -p".to_owned(),
        "complete -p".to_owned(),
        "hash".to_owned(),
        "shopt".to_owned(),
        "set -o | grep -v interactive-comments".to_owned(),
        "set +o".to_owned(),
        "umask".to_owned(),
        // Of open files a session has at most half of the daemon's hard limit, which may be less than what the test has.
        "ulimit -S -n 256; ulimit -a".to_owned(),
        "dirs | wc -l".to_owned(),
        "history".to_owned(),
        "compgen -A function".to_owned(),
        "compgen -a".to_owned(),
        "readonly -p | grep -vE 'PPID|SHELLOPTS|BASHOPTS|UID|VERSINFO'".to_owned(),
        "echo \"${-//[cs]/}\"".to_owned(),
        "echo \"$#:$*:$0\"".to_owned(),
        "echo \"$BASH_SUBSHELL ${#FUNCNAME[@]} ${FUNCNAME-none}\"".to_owned(),
        "echo \"${#BASH_SOURCE[@]} ${BASH_SOURCE[0]-none}\"".to_owned(),
        "caller".to_owned(),
        "echo $SHELLOPTS; echo $BASHOPTS".to_owned(),
        "echo $LINENO".to_owned(),
        "times | wc -l".to_owned(),
        "ps -o args= -p $$ | wc -l".to_owned(),
        "type bash | wc -l; type -a set eval exec".to_owned(),
        "locale | head -1".to_owned(),
        "declare -p IFS OPTIND PS4".to_owned(),
        "echo ${!BASH*} | tr ' ' '\\n' | grep -v EXECUTION_STRING | xargs".to_owned(),
    ];
    let one = |listing: &String| case(listing.clone(), [like_bash(listing.clone()), like_bash(listing.clone())]);
    let status = "grep -E 'NoNewPrivs|Seccomp:' /proc/self/status";
    let held = || like_bash(status).out_confined("NoNewPrivs:\t1\nSeccomp:\t2\n");
    // First, so that it always runs in every sandbox.
    let first = case("what a sandbox holds", [held(), held()]);
    check(std::iter::once(first).chain(listings.iter().map(one)).collect());
}

/// The oracle inherits what its own parent ignores; a session begins with every signal at its default, whoever started
/// the daemon. Signals 32 and 33 were once ignored.
#[test]
fn no_signal_is_ignored_or_blocked() {
    let none = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n";
    let look = || step("grep -E 'Sig(Ign|Blk)' /proc/self/status").out(none);
    check(vec![case("signals", [look(), look()])]);
}

#[test]
fn special_parameters_go_on_from_the_last_command() {
    check(vec![
        case(
            "$?",
            [
                step("(exit 7)").code(7),
                step("echo $?").out("7\n"),
                step("echo $?").out("0\n"),
                step("false").code(1),
                step("echo $?").out("1\n"),
            ],
        ),
        case(
            "a text without a command succeeds and leaves $?",
            [
                step("(exit 7)").code(7),
                step("# nothing").code(0),
                step("").code(0),
                step("echo $?").out("7\n"),
                step("exit 5").code(5),
                step(" \n").code(0),
                step("echo $?").out("5\n"),
            ],
        ),
        case("$_", [step("echo one two").out("one two\n"), step("echo $_").out("two\n").out_after_sleep("two\n")]),
        case(
            "$!",
            [step("true & p=$!; wait"), step("[ \"$!\" = \"$p\" ] && echo same; :").out("same\n").out_after_sleep("")],
        )
        .may_say_so(),
        case("PIPESTATUS", [step("true | (exit 3) | (exit 4)").code(4), step("echo ${PIPESTATUS[@]}").out("0 3 4\n")])
            .may_say_so(),
        case(
            "positional parameters",
            [
                step("set -- a 'b c' ''"),
                step("echo $# \"$2\"; shift").out("3 b c\n"),
                step("echo $# \"$1\"").out("2 b c\n"),
            ],
        ),
        case("BASH_REMATCH", [step("[[ abc =~ b(.) ]]"), step("echo ${BASH_REMATCH[1]}").out("c\n")]),
        case(
            "$LINENO begins anew with each command",
            [step("echo $LINENO").out("1\n"), step("\necho $LINENO").out("2\n")],
        ),
        case(
            "SHLVL and $$",
            [step("echo $SHLVL").out("1\n"), step("echo $SHLVL").out("1\n"), step("[ $$ = $BASHPID ]")],
        ),
        case(
            "dirs",
            [
                step("cd /usr; pushd /tmp >/dev/null; pushd / >/dev/null"),
                step("dirs").out("/ /tmp /usr\n"),
                step("popd >/dev/null; pwd").out("/tmp\n"),
                step("cd -").out("/\n").any_out(),
            ],
        ),
        case("cd -", [step("cd /usr; cd /tmp"), step("cd -").out("/usr\n"), step("cd -").out("/tmp\n")]),
        case("umask", [step("umask 027"), step("umask; touch f; stat -c %a f").out("0027\n640\n")]),
        case("ulimit", [step("ulimit -S -n 77"), step("ulimit -S -n").out("77\n")]),
    ]);
}

#[test]
fn errors_name_only_the_users_lines() {
    check(vec![
        case(
            "command not found",
            [
                step("foo").code(127).err("bash: line 1: foo: command not found\n"),
                step("\n\nbar").code(127).err("bash: line 3: bar: command not found\n"),
            ],
        ),
        case(
            "in a function of an earlier command",
            [step("f() {\n  foo\n}"), step("f").code(127).err_has("foo: command not found\n")],
        ),
        case("syntax", [like_bash("echo a\nif"), step("echo ok").out("ok\n")]),
        case(
            "a builtin's complaint",
            [step("cd /nonexistent").code(1).err("bash: line 1: cd: /nonexistent: No such file or directory\n")],
        ),
        case(
            "set -x shows the user's commands only",
            [
                step("set -x; x=1; echo $x").out("1\n").err("+ x=1\n+ echo 1\n"),
                step("true").err("+ true\n"),
                step("f() { :; }; f").err("+ f\n+ :\n"),
            ],
        ),
        case(
            "set -v shows nothing but the text",
            [step("set -v"), step("echo a").out("a\n").any_err(), step("set +v").any_err(), step("echo b").out("b\n")],
        ),
    ]);
}
