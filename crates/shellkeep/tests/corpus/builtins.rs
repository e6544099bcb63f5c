//! `printf`, `read`, options, traps, aliases and the other builtins.

use super::Corpus;

const FORMATS: &[&str] = &[
    "%s",
    "%10s",
    "%-10s|",
    "%.2s",
    "%d",
    "%5d",
    "%-5d|",
    "%05d",
    "%+d",
    "% d",
    "%x",
    "%X",
    "%#x",
    "%o",
    "%#o",
    "%u",
    "%i",
    "%c",
    "%f",
    "%.2f",
    "%8.3f",
    "%e",
    "%g",
    "%q",
    "%b",
    "%%",
    "%s-%s",
    "%d%%",
    "%*d",
    "%-*s|",
    "%.*f",
    "a\\tb\\n%s",
    "\\x41\\101",
    "%3c|",
    "%(%Y)T",
    "%z",
    "%",
    "%s\\n",
    "%5.1s|",
    "%'d",
];
const FORMAT_ARGUMENTS: &[&str] =
    &["", "42", "abc", "-7 x", "3 4 5", "'a b' ''", "3.14159", "0x1f 010", "\"'A\"", "'*' '\\n'"];

const READS: &[&str] = &[
    "read x",
    "read -r x",
    "read x y",
    "read -r x y z",
    "read",
    "read -n 3 x",
    "read -N 3 x",
    "read -d : x",
    "read -d '' x",
    "read -a x",
    "read -t 1 x",
    "read -s x",
    "IFS= read -r x",
    "IFS=: read -r x y",
    "read -u 0 x",
    "read -n 0 x",
    "read -p prompt x",
    "read -r -d $'\\n' x",
    "read -e x",
    "read 1x",
];
const INPUTS: &[&str] = &[
    "one two three\\n",
    "no newline",
    "",
    "\\n",
    "  lead and trail  \\n",
    "a\\\\tb\\\\\\nc\\n",
    "a:b:c\\nd:e\\n",
    "\\u00e9\\u00fc\\n",
];

const SET_OPTIONS: &[&str] = &[
    "allexport",
    "braceexpand",
    "errexit",
    "errtrace",
    "functrace",
    "hashall",
    "ignoreeof",
    "keyword",
    "noclobber",
    "noglob",
    "nounset",
    "physical",
    "pipefail",
    "posix",
    "xtrace",
    "verbose",
    "monitor",
];
const OPTION_PROBES: &[&str] = &[
    "echo {a,b} *; [[ $SHELLOPTS == *NAME* ]] && echo on",
    "v=1; bash -c 'echo ${v-unset}'; false | true; echo $?",
    "echo x > f; echo y > f; echo $?; cat f",
    "f() { false; echo in; }; f; echo ${undefined}out",
    "set -o | grep -w NAME | tr -s ' \\t' ' '; set +o NAME; echo back",
];

const SHOPTS: &[&str] = &[
    "autocd",
    "cdspell",
    "dotglob",
    "execfail",
    "expand_aliases",
    "extdebug",
    "extglob",
    "failglob",
    "globstar",
    "gnu_errfmt",
    "huponexit",
    "inherit_errexit",
    "lastpipe",
    "localvar_inherit",
    "localvar_unset",
    "nocaseglob",
    "nocasematch",
    "nullglob",
    "patsub_replacement",
    "shift_verbose",
    "sourcepath",
    "varredir_close",
    "xpg_echo",
    "globskipdots",
    "no_such_option",
];
const SHOPT_PROBES: &[&str] = &[
    "shopt NAME; echo $?; shopt -q NAME; echo $?; shopt -u NAME; shopt -p NAME",
    "touch a.x A.y .h; mkdir -p d/e; touch d/e/f; echo * **/f a* nothing*; echo $?",
    "echo 1 | read v; echo \"${v-unset}\"; alias q='echo aliased'\nq; shift 5; echo $?; echo 'a\\tb'",
    "v=abc; echo ${v/b/[&]}; [[ ABC == abc ]]; echo $?; f() { local v; echo \"${v-unset}\"; }; f; x=$(false; echo sub); echo $x",
];

const SIGNALS: &[&str] = &[
    "EXIT", "ERR", "DEBUG", "RETURN", "INT", "TERM", "HUP", "USR1", "USR2", "QUIT", "0", "SIGALRM", "15", "WINCH",
    "CHLD", "NOSUCH",
];

const SCRIPTS: &[&str] = &[
    "type cd if echo ls nothing 2>&1 | sed 's/is hashed.*/is file/;s/ls is .*/ls file/'; type -t cd if f ls; f() { :; }; type -t f; type f",
    "command -v cd; command -v nothing; echo $?; command -V if; command echo x; command -p echo y",
    "builtin echo hi; builtin nothing; echo $?; echo() { builtin echo \"mine: $*\"; }; echo x; unset -f echo; echo y",
    "enable -n echo; type -t echo; enable echo; type -t echo; enable nosuch; echo $?",
    "alias ll='echo long'; alias; alias ll; unalias ll; alias ll; echo $?",
    "shopt -s expand_aliases\nalias hi='echo hello'\nhi there\nunalias hi\nhi; echo $?",
    "shopt -s expand_aliases\nalias e='echo ' w='world'\ne w\nalias -p | wc -l; unalias -a; alias | wc -l",
    "pushd /tmp >/dev/null; pushd / ; dirs; popd; dirs -v; dirs -c; popd; echo $?",
    "mkdir -p a/b; cd a; cd b; cd ..; pwd | sed 's|.*/||'; cd - >/dev/null; basename \"$PWD\"; cd nonexistent; echo $?",
    "mkdir d; ln -s d l; cd l; basename \"$(pwd)\"; basename \"$(pwd -P)\"; cd -P .; basename \"$PWD\"",
    "CDPATH=/usr; cd lib >/dev/null; basename $PWD; cd; echo $?",
    "umask; umask 027; umask; umask -S; umask u=rwx,g=,o=; umask; touch f; stat -c %a f; umask 999; echo $?",
    "ulimit -n 64; ulimit -n; ulimit -S -n 32; ulimit -Sn; ulimit -Hn; ulimit -c 0; ulimit -c",
    "times | wc -l; hash -r; hash; echo $?; hash nothing; echo $?",
    "eval 'x=5; echo $x'; eval echo a '\";\"' b; eval; echo $?; eval 'exit 3'; echo no",
    "eval 'echo $((1+1))' '; echo two'; x='y=3'; eval \"$x\"; echo $y; eval 'if'; echo $?",
    "echo 'x=1; echo sourced $1 $#; return 4; echo no' > s.sh; . ./s.sh arg; echo $? $x; source s.sh; echo $#",
    ". nosuchfile; echo after",
    "source; echo $?",
    "set -- -a -b val -c; while getopts ab:c o; do echo \"$o ${OPTARG-}\"; done; echo $OPTIND",
    "while getopts :x:y o -x 1 -y -z -x; do case $o in x) echo x$OPTARG;; y) echo y;; '?') echo bad $OPTARG;; :) echo needs $OPTARG;; esac; done",
    "f() { local OPTIND o; while getopts n: o; do echo $o=$OPTARG; done; shift $((OPTIND-1)); echo rest $*; }; f -n 3 a b; f -n5 -- -c",
    "getopts a o -b; echo $? $o; getopts a:; echo $?",
    "let x=5; declare -f nosuch; echo $?; declare -F; f() { echo a | b; if x; then y; fi; }; declare -f f; declare -F f",
    "unset -v x; unset nosuch; echo $?; readonly r=1; unset r; echo $?; x=1; unset x; echo ${x-gone}",
    "local x; echo $?; return; echo $?; f() { return 7; }; f; echo $?; f() { return 256; }; f; echo $?; f() { return -1; }; f; echo $?",
    "f() { return x; }; f; echo $?; f() { (exit 9); return; }; f; echo $?",
    "exit 5",
    "exit 256",
    "exit -1",
    "exit x; echo no",
    "(exit 4); echo $?; exit",
    "false; exit",
    "f() { exit 6; }; f; echo no",
    "(exit 1) || exit 8; echo no",
    "echo $(exit 3)$?; x=$(exit 4); echo $?; local y=$(exit 5); echo $?",
    "exit 1 2; echo $?",
    ": ${x:=5}; echo $x; : nothing; echo $?; true x; false; echo $?",
    "sleep 0 & wait; echo $?; (exit 3) & wait $!; echo $?; wait 99999; echo $?",
    "(exit 2) & p=$!; (exit 4) & q=$!; wait $p; echo $?; wait $q; echo $?; wait -n; echo $?",
    "{ sleep 0; exit 5; } & wait -n; echo $?; jobs; jobs -p | wc -l",
    "set -m; sleep 0 & wait %1; echo $?; fg; echo $?",
    "kill -l 15; kill -l TERM; kill -l 143; kill -0 $$; echo $?; kill -l | head -1 | wc -w; kill -0 999999; echo $?",
    "trap 'echo usr' USR1; kill -USR1 $$; echo after",
    "trap 'echo term; exit 9' TERM; kill $$; echo no",
    "trap '' TERM; kill $$; echo survived",
    "trap 'echo $LINENO err' ERR; false; echo x | false; true || false; if false; then :; fi; echo end",
    "trap 'echo \"[$BASH_COMMAND]\"' DEBUG; x=1; echo $x; for i in 1 2; do :; done",
    "f() { trap 'echo returned' RETURN; echo body; }; f; f2() { echo two; }; f2",
    "trap 'echo in sub' EXIT; trap - EXIT; (trap 'echo subexit' EXIT; echo x); echo y",
    "x=$(trap 'echo cleanup' EXIT; echo work); echo \"$x\"",
    "(trap 'echo a' EXIT; exit 3); echo $?; bash -c 'trap \"echo inner\" EXIT; exit 4'; echo $?",
    "set -E; trap 'echo err' ERR; f() { false; }; f; echo end",
    "set -T; trap 'echo ret' RETURN; f() { :; }; f; . /dev/null",
    "set -e; f() { false; echo no; }; f || echo caught; f; echo unreached",
    "set -e; if false; then :; fi; false || true; ! true; echo alive; false; echo dead",
    "set -e; x=$(false); echo no",
    "set -e; local_test() { local x=$(false); echo yes; }; local_test; (false; echo sub); echo no",
    "set -e; false | true; echo piped; set -o pipefail; false | true; echo no",
    "set -o pipefail; false | true; echo $? ${PIPESTATUS[@]}; true | exit 3 | true; echo $? ${PIPESTATUS[*]}",
    "set -eu; echo ${x:-d}; echo $x; echo no",
    "set -x; echo a 'b c'; x=1; f() { :; }; f q; set +x; echo quiet",
    "PS4='> '; set -x; for i in 1 2; do echo $i; done; { set +x; } 2>/dev/null; echo z",
    "set -v; echo v\necho w",
    "set -f; echo *; set +f; touch q; echo *",
    "set -k; f() { echo ${v-unset} $*; }; f a v=1 b",
    "set -a; v=1; bash -c 'echo $v'; set +a; w=2; bash -c 'echo ${w-unset}'",
    "set -C; echo a > f; echo b > f; echo $?; echo c >| f; cat f; echo d >> f; cat f",
    "set -o posix; echo ${BASH_VERSION:+yes}; f() { echo f; }; f; set +o posix",
    "set -o nosuch; echo $?; set -q; echo $?; set -; echo $?; set -- -a; echo $1",
    "set -o | wc -l; set +o | head -1; shopt | wc -l; shopt -s | wc -l; shopt -o noglob; echo $-",
    "bind -l | wc -l; complete -p | wc -l; complete -W 'a b' cmd; complete -p; compgen -W 'foo bar fob' fo",
    "compgen -b | head -3; compgen -k | head -3; compgen -A function; f() { :; }; compgen -A function",
    "history | wc -l; fc -l; echo $?",
    "printf -v x '%03d' 7; echo $x; printf -v a[2] y; echo ${a[2]}; printf -v 1bad z; echo $?",
    "logout; echo $?",
    "suspend; echo $?",
    "caller; echo $?; f() { caller 0 | cut -d' ' -f1,2; }; f",
    "echo $BASH_SUBSHELL; (echo $BASH_SUBSHELL; (echo $BASH_SUBSHELL)); echo $(echo $BASH_SUBSHELL)",
    "f() { echo ${FUNCNAME[0]} ${FUNCNAME[1]} ${#FUNCNAME[@]}; g; }; g() { echo ${FUNCNAME[@]:0:2}; }; f",
    "echo $LINENO\necho $LINENO\nf() {\necho $LINENO\n}\nf\necho $LINENO",
    "echo one two; echo $_; : a b c; echo $_; x=5; echo \"$_\"",
    "echo $SHLVL; bash -c 'echo $SHLVL'; echo $BASH | sed 's|.*/||'; echo $0 $#; echo ${BASH_VERSION%%.*}",
    "echo $((PPID > 0)) $((BASHPID == $$)) $(( $(echo $BASHPID) == $$ )) ${EUID:+id} ${#GROUPS[@]}",
    "echo \"${BASH_EXECUTION_STRING+set}\" | wc -l; echo ${#DIRSTACK[@]} $OPTIND $OPTERR; echo \"$IFS\" | od -c | head -1",
    "test 1 -eq 1; echo $?; true; echo $?; false; echo $?; :; echo $?",
    "shift; echo $?; set -- a b; shift 3; echo $? $#; shift -1; echo $?",
    "exec 3>f; echo x >&3; exec 3>&-; cat f; exec 4<f; read -u 4 v; echo $v; exec 4<&-; echo y >&4; echo $?",
    "exec echo replaced; echo no",
    "exec nosuchcommand; echo no",
    "(exec echo sub); echo after; (exec nosuchcommand); echo $?",
    "shopt -s execfail; exec nosuchcommand; echo $?",
    "exec > f; echo to file; cat f >&2",
    "exec 2>&1; echo out; echo err >&2; nosuchcommand",
    "coproc cat; echo hi >&${COPROC[1]}; read -r x <&${COPROC[0]}; echo $x; kill $COPROC_PID",
    "coproc W { read l; echo \"got $l\"; }; echo q >&${W[1]}; read -r y <&${W[0]}; echo $y; wait",
];

pub fn add(corpus: &mut Corpus) {
    for format in FORMATS {
        for arguments in FORMAT_ARGUMENTS {
            corpus.add("printf", format!("printf '{}' {arguments}; echo \" $?\"", format.replace('\'', "'\\''")));
        }
    }
    for read in READS {
        for input in INPUTS {
            corpus.add("read", format!("printf '{input}' > in\n{read} < in; echo \"$? [${{x-unset}}] [${{y-unset}}] [${{REPLY-unset}}] ${{#x[@]}}\""));
        }
    }
    for option in SET_OPTIONS {
        for probe in OPTION_PROBES {
            corpus.add("set", format!("touch g\nset -o {option}; {}", probe.replace("NAME", option)));
        }
    }
    for option in SHOPTS {
        for probe in SHOPT_PROBES {
            corpus.add("shopt", format!("shopt -s {option}\n{}", probe.replace("NAME", option)));
        }
    }
    for signal in SIGNALS {
        corpus.add(
            "traps",
            format!("trap 'echo caught' {signal}; echo $?; trap -p {signal}; trap - {signal}; trap -p; echo end"),
        );
        corpus.add("traps", format!("trap '' {signal}; trap -p; (trap -p); trap - {signal}; echo $?"));
        corpus.add("traps", format!("f() {{ trap 'echo in f' {signal}; :; }}; f; trap - {signal}; false; echo $?"));
    }
    for script in SCRIPTS {
        corpus.add("builtins", *script);
    }
}
