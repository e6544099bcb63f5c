//! The user owns the shell: whatever they redefine, disable, freeze or trap, the next command is answered, the state is
//! kept, and what they did is still there. Probes use `/bin/echo` and assignments, which nobody can shadow.

use crate::case::{Case, Step, case, check, like_bash, step};

/// What a driver written in bash could lean on.
const LEANED_ON: &[&str] = &[
    "builtin", "printf", "read", "eval", "declare", "unset", "set", "trap", "exit", "return", "local", "export",
    "command", "test", "[", "echo", "typeset", "readonly", "shopt", "source", ".", "exec", "cd", "pwd", "wait", "kill",
    "umask", "alias", "unalias", "type", "enable", "mapfile", "shift", "let", ":", "true", "false", "break",
    "continue", "times", "ulimit", "hash", "getopts", "dirs", "caller",
];

/// State is set, and found again, without any builtin.
fn alive() -> [Step; 2] {
    [step("probe=alive; probes=(1 2)"), step("/bin/echo \"$probe ${#probes[@]}\"").out("alive 2\n")]
}

fn with_probes(name: String, first: Step, last: Vec<Step>) -> Case {
    case(name, [first].into_iter().chain(alive()).chain(last))
}

#[test]
fn builtins_redefined_as_functions() {
    let one = |name: &&str| {
        let probe =
            if *name == "type" { Vec::new() } else { vec![step(format!("type -t '{name}'")).out("function\n")] };
        with_probes(
            format!("function {name}"),
            step(format!("function {name} {{ /bin/echo \"fake {name}\" \"$@\"; return 77; }}")),
            probe,
        )
    };
    // A name that bash does not take as a function's is not this table's business.
    let definable = LEANED_ON.iter().filter(|name| !matches!(**name, "." | ":"));
    let mut cases: Vec<Case> = definable.map(one).collect();
    let all: Vec<String> = LEANED_ON
        .iter()
        .filter(|name| !matches!(**name, "." | ":" | "type"))
        .map(|name| format!("function {name} {{ false; }}"))
        .collect();
    cases.push(with_probes(
        "all of them at once".to_owned(),
        step(all.join("\n")),
        vec![step("type -t printf").out("function\n")],
    ));
    check(cases);
}

#[test]
fn builtins_hidden_by_aliases() {
    let one = |name: &&str| {
        let hidden = format!("shopt -s expand_aliases\nalias -- '{name}=/bin/echo hidden {name}'");
        with_probes(format!("alias {name}"), step(hidden), Vec::new())
    };
    let mut cases: Vec<Case> = LEANED_ON.iter().map(one).collect();
    let all: Vec<String> =
        LEANED_ON.iter().filter(|name| **name != "alias").map(|name| format!("'{name}=/bin/false'")).collect();
    cases.push(with_probes(
        "all of them at once".to_owned(),
        step(format!("shopt -s expand_aliases\nalias -- {}", all.join(" "))),
        Vec::new(),
    ));
    let keywords = "shopt -s expand_aliases\nalias -- 'if=/bin/false' 'while=/bin/false' 'case=/bin/false' '{=/bin/false' '[[=/bin/false' 'for=/bin/false' 'function=/bin/false' '!=/bin/false'";
    cases.push(with_probes("reserved words".to_owned(), step(keywords), Vec::new()));
    check(cases);
}

#[test]
fn builtins_disabled() {
    let one = |name: &&str| {
        let probe = if matches!(*name, "type" | "enable") {
            Vec::new()
        } else {
            vec![step(format!("type -t '{name}' | /bin/grep -c builtin")).out("0\n").code(1)]
        };
        with_probes(format!("enable -n {name}"), step(format!("enable -n '{name}'")), probe)
    };
    let mut cases: Vec<Case> = LEANED_ON.iter().map(one).collect();
    let names: Vec<String> = LEANED_ON.iter().map(|name| format!("'{name}'")).collect();
    cases.push(with_probes(
        "all of them at once".to_owned(),
        step(format!("enable -n {}", names.join(" "))),
        Vec::new(),
    ));
    cases.push(with_probes("every builtin there is".to_owned(), step("enable -n $(compgen -b)"), Vec::new()));
    check(cases);
}

#[test]
fn options() {
    let on = |letter: &str| format!("case $- in *{letter}*) /bin/echo on;; *) /bin/echo off;; esac");
    let mut cases = vec![
        case("set -e", [step("set -e"), step("echo a; false; echo b").out("a\n").code(1), step(on("e")).out("on\n")]),
        case(
            "set -u",
            [
                step("set -u"),
                step("echo ${nope-unset}").out("unset\n"),
                step("echo $nope; echo b").code(127).err("bash: line 1: nope: unbound variable\n"),
                step(on("u")).out("on\n"),
            ],
        ),
        case(
            "set -x",
            [
                step("set -x"),
                step("echo a").out("a\n").err("+ echo a\n"),
                step("set +x").err("+ set +x\n"),
                step("echo b").out("b\n"),
            ],
        ),
        case(
            "set -n lasts no longer than its command",
            [step("set -n; echo hidden").any_notice(), step("echo shown").out("shown\n")],
        ),
        case(
            "set -f",
            [step("set -f"), step("echo /*").out("/*\n"), step("set +f; echo /usr/bi[n]").out("/usr/bin\n")],
        ),
        case("set -o noglob", [step("set -o noglob"), step("echo [a-z]*").out("[a-z]*\n")]),
        case(
            "set -v",
            [
                step("set -v").any_err(),
                step("echo a").out("a\n").any_err(),
                step("set +v; echo b").out("b\n").any_err(),
            ],
        ),
        case(
            "set -C",
            [
                step("set -o noclobber; echo a > f"),
                step("echo b > f").code(1).err("bash: line 1: f: cannot overwrite existing file\n"),
                step("cat f").out("a\n"),
            ],
        ),
        case(
            "set -a",
            [step("set -a; v=1"), step("bash -c 'echo $v'").out("1\n"), step("w=2; bash -c 'echo $w'").out("2\n")],
        ),
        case("set -o pipefail", [step("set -o pipefail"), step("false | true").code(1)]),
        case("set -m", [step("set -m"), step("echo a | cat").out("a\n"), step("set +m")]),
        case("set -B off", [step("set +B"), step("echo {a,b}").out("{a,b}\n")]),
        case("set -h off", [step("set +h"), step(on("h")).out("off\n")]),
        case("set -k", [step("set -k"), step("/bin/echo a b=c").out("a\n")]),
        case(
            "set -o posix",
            [
                step("set -o posix"),
                step("shopt -qo posix && echo posix").out("posix\n"),
                step("set +o posix; shopt -qo posix").code(1),
            ],
        ),
        case(
            "POSIXLY_CORRECT",
            [
                step("POSIXLY_CORRECT=1"),
                step("shopt -qo posix && echo posix").out("posix\n"),
                step("unset POSIXLY_CORRECT; shopt -qo posix").code(1),
            ],
        ),
        case("set -eu with functions", [step("set -eu; f() { echo f; }"), step("f; f").out("f\nf\n")]),
        case("set -T and set -E", [step("set -ET"), step(on("E")).out("on\n"), step(on("T")).out("on\n")]),
    ];
    for option in [
        "extdebug",
        "extglob",
        "nullglob",
        "globstar",
        "nocasematch",
        "nocaseglob",
        "dotglob",
        "failglob",
        "lastpipe",
        "inherit_errexit",
        "xpg_echo",
        "execfail",
        "expand_aliases",
        "localvar_inherit",
        "autocd",
        "gnu_errfmt",
        "shift_verbose",
        "compat44",
    ] {
        cases.push(case(
            format!("shopt {option}"),
            [
                step(format!("shopt -s {option}")),
                step("x=1; /bin/echo $x").out("1\n"),
                step(format!("shopt -q {option} && /bin/echo on; /bin/echo $x")).out("on\n1\n"),
            ],
        ));
    }
    check(cases);
}

#[test]
fn variables_that_split_and_find() {
    check(vec![
        case(
            "IFS",
            [
                step("IFS=0123456789:abcdef"),
                step("v=x:y; set -- $v; /bin/echo \"$#\" \"42\"").out("2 42\n"),
                step("printf '%q\\n' \"$IFS\"").out("0123456789:abcdef\n"),
            ],
        ),
        case(
            "IFS empty",
            [step("IFS="), step("v='a b'; set -- $v; echo $#").out("1\n"), step("echo \"[$IFS]\"").out("[]\n")],
        ),
        case("IFS unset", [step("unset IFS"), step("v='a b'; set -- $v; echo $# ${IFS-unset}").out("2 unset\n")]),
        case(
            "PATH empty",
            [
                step("PATH="),
                step("echo \"[$PATH]\"").out("[]\n"),
                step("ls").code(127).err("bash: line 1: ls: No such file or directory\n"),
            ],
        ),
        case("PATH unset", [step("unset PATH"), step("echo \"${PATH-unset}\"").out("unset\n")]),
        case(
            "LC_ALL=C and back",
            [
                step("LC_ALL=C; x=é; echo ${#x}").out("2\n"),
                step("echo ${#x}").out("2\n"),
                step("LC_ALL=C.UTF-8; echo ${#x}").out("1\n"),
                step("y=ü; echo ${#y}").out("1\n"),
            ],
        ),
        case("LANG", [step("unset LC_ALL; LANG=C; x=é; echo ${#x}").out("2\n"), step("echo ${#x} $LANG").out("2 C\n")]),
        case("HOME and PWD changed by hand", [step("HOME=/h; PWD=/wrong"), step("echo ~").out("/h\n")]),
    ]);
}

#[test]
fn variables_that_bash_obeys() {
    check(vec![
        case(
            "PS4 that prints",
            [step("PS4='$(echo ps4 >&2)+ '; set -x").any_err(), step("set +x").any_err(), step("echo a").out("a\n")],
        ),
        case(
            "BASH_ENV and ENV",
            [
                step("echo 'echo from env' > e; export BASH_ENV=$PWD/e ENV=$PWD/e"),
                step("bash -c 'echo child'").out("from env\nchild\n"),
                step("echo me").out("me\n"),
            ],
        ),
        case(
            "PROMPT_COMMAND and PS1",
            [
                step("PROMPT_COMMAND='echo prompt'; PS1='$(echo ps1) '"),
                step("echo a").out("a\n"),
                step("echo \"$PROMPT_COMMAND\"").out("echo prompt\n"),
            ],
        ),
        case("TMOUT", [step("TMOUT=1"), step("echo $TMOUT").out("1\n")]),
        case(
            "FUNCNEST",
            [step("FUNCNEST=1"), step("f() { echo f; }; f").out("f\n"), step("echo $FUNCNEST").out("1\n")],
        ),
        case("HISTFILE and friends", [step("set -o history; HISTFILE=$PWD/h; HISTSIZE=5"), step("echo a").out("a\n")]),
        case("GLOBIGNORE", [step("touch a.o b.c; GLOBIGNORE='*.o'"), step("echo *").out("b.c\n")]),
        case(
            "OPTIND in the middle",
            [
                step("set -- -a -b; getopts ab o; echo $o$OPTIND").out("a2\n"),
                step("getopts ab o; echo $o").out("b\n").out_after_sleep("b\n"),
            ],
        ),
        case("RANDOM and SECONDS stay alive", [step("unset RANDOM; RANDOM=5"), step("echo $RANDOM").out("5\n")]),
        case(
            "BASH_XTRACEFD",
            [
                step("exec 7>trace; BASH_XTRACEFD=7; set -x; echo a; set +x").out("a\n").any_notice(),
                step("echo b").out("b\n").any_err().any_notice(),
            ],
        ),
        case(
            "arithmetic attribute on names a driver may use",
            [step("declare -i x y status line cmd REPLY ret rc code i n"), step("x=1+1; echo $x").out("2\n")],
        ),
        case("a nameref to nowhere", [step("declare -n ref=target"), step("ref=1; echo $target").out("1\n")]),
    ]);
}

#[test]
fn variables_frozen() {
    let mut cases = Vec::new();
    for names in [
        "IFS PATH",
        "_x __ ___ _a _b",
        "POSIXLY_CORRECT",
        "REPLY line cmd status ret rc code",
        "BASH_ENV ENV PS4 HOME OLDPWD",
        "OPTIND OPTARG OPTERR COLUMNS LINES RANDOM",
    ] {
        let probe =
            names.split(' ').map(|name| format!("readonly -p | grep -cE ' {name}(=|$)'")).next().unwrap_or_default();
        cases.push(case(
            format!("readonly {names}"),
            [
                step(format!("readonly {names}")),
                step("probe=1"),
                step("/bin/echo $probe").out("1\n"),
                step(probe).out("1\n"),
            ],
        ));
    }
    cases.push(case(
        "readonly everything",
        [
            step("for v in $(compgen -v); do readonly \"$v\"; done 2>/dev/null; probe=1").any_err(),
            step("/bin/echo alive $probe").out("alive 1\n").any_err(),
            step("new=2").any_err(),
            step("/bin/echo $new").out("2\n").any_err(),
        ],
    ));
    cases.push(case(
        "readonly functions",
        [
            step("f() { echo f; }; readonly -f f"),
            step("f").out("f\n"),
            step("f() { :; }").code(1).err("bash: line 1: f: readonly function\n"),
        ],
    ));
    check(cases);
}

#[test]
fn traps_on_events_of_the_shell() {
    check(vec![
        case(
            "DEBUG",
            [
                step("trap 'echo D' DEBUG"),
                step("echo one").out("D\none\n"),
                step("echo two; echo three").out("D\ntwo\nD\nthree\n"),
                step("trap - DEBUG").out("D\n"),
                step("echo four").out("four\n"),
            ],
        ),
        case(
            "DEBUG sees the user's commands only",
            [step("trap 'echo \"<$BASH_COMMAND>\"' DEBUG"), step("x=1").out("<x=1>\n"), step(":").out("<:>\n")],
        ),
        case(
            "ERR",
            [
                step("trap 'echo E$?' ERR"),
                step("false; true").out("E1\n"),
                step("true"),
                step("(exit 3)").out("E3\n").code(3),
                step("true && false").out("E1\n").code(1),
            ],
        ),
        case(
            "RETURN",
            [
                step("trap 'echo R' RETURN"),
                step("echo one").out("one\n"),
                step("echo 'echo in' > s; . ./s").out("in\nR\n"),
                step("trap - RETURN; . ./s").out("in\n"),
            ],
        ),
        case(
            "RETURN with functrace",
            [step("set -T; trap 'echo R' RETURN"), step("f() { :; }; f").out("R\n"), step("echo one").out("one\n")],
        ),
        case(
            "EXIT is not run by a mere end of a command",
            [
                step("trap 'echo bye' EXIT; echo hi").out("hi\n"),
                step("trap -p EXIT").out("trap -- 'echo bye' EXIT\n"),
                step("(echo sub)").out("sub\n"),
            ],
        ),
        case(
            "EXIT that fails or exits itself",
            [step("trap 'exit 9' EXIT"), step("exit 1").code(9), step("echo on").out("on\n").any_notice()],
        ),
    ]);
}

#[test]
fn traps_on_signals() {
    check(vec![
        case(
            "signals ignored",
            [
                step("trap '' TERM INT HUP QUIT USR1"),
                step("kill -TERM $$; kill -HUP $$; echo alive").out("alive\n"),
                step("trap -p TERM").out("trap -- '' SIGTERM\n"),
            ],
        ),
        case(
            "signals caught",
            [
                step("trap 'echo caught' USR1 TERM"),
                step("kill -USR1 $$; kill -TERM $$; :").out("caught\ncaught\n"),
                step("bash -c 'kill -USR2 $PPID'; echo dead").any_out().any_code().any_err().any_notice(),
                step("trap -p USR1").out("trap -- 'echo caught' SIGUSR1\n").any_notice(),
            ],
        ),
        case("CHLD", [step("trap 'c=1' CHLD"), step("/bin/true; echo a").out("a\n"), step("echo b").out("b\n")]),
        case(
            "extdebug with a DEBUG trap that skips everything",
            [
                step("shopt -s extdebug; trap 'false' DEBUG"),
                step("echo skipped").any_out().any_code().any_notice(),
                step("y=2").any_out().any_code().any_notice(),
            ],
        ),
        case(
            "extdebug",
            [
                step("shopt -s extdebug; f() { echo f; }"),
                step("f").out("f\n"),
                step("declare -F f | cut -d' ' -f1").out("f\n"),
            ],
        ),
        case(
            "a trap with quotes and newlines",
            [step("trap $'echo \"it\\'s\"\\n:' USR2"), step("kill -USR2 $$; :").out("it's\n")],
        ),
        case(
            "all traps of a shell in order",
            [step("trap 'echo a' USR1; trap '' HUP; trap 'echo d' ERR"), step("trap -p | wc -l").out("3\n")],
        ),
    ]);
}

#[test]
fn control_flow_at_top_level() {
    let mut cases = Vec::new();
    for word in ["break", "continue", "return"] {
        for count in ["", " 1", " 2", " 99", " 0", " -1", " x"] {
            cases.push(case(
                format!("{word}{count}"),
                [like_bash(format!("{word}{count}; echo after $?")), step("echo next").out("next\n").any_notice()],
            ));
        }
        cases.push(case(
            format!("{word} in a function"),
            [
                like_bash(format!("f() {{ {word}; echo in; }}; f; echo after")),
                step("f; echo again").any_out().any_err(),
                step("echo next").out("next\n"),
            ],
        ));
        cases.push(case(
            format!("{word} in eval"),
            [like_bash(format!("eval '{word}; echo in'; echo after")), step("echo next").out("next\n")],
        ));
        cases.push(case(
            format!("{word} in a subshell"),
            [like_bash(format!("({word}; echo in); echo after")), step("echo next").out("next\n")],
        ));
        cases.push(case(
            format!("{word} in a trap"),
            [
                step(format!("trap '{word}' USR1")),
                step("kill -USR1 $$; echo x").any_out().any_err().any_code(),
                step("echo next").out("next\n"),
            ],
        ));
    }
    check(cases);
}
