//! Things that go wrong, and the same small commands in every surrounding a shell knows.

use super::Corpus;

/// Commands that fail, each in its own way.
const FAILURES: &[&str] = &[
    "false", "nosuchcommand", "nosuchcommand arg 'two words'", "./nofile", "/nonexistent/x", "touch t; ./t", "mkdir d; ./d", "printf 'no shebang\\necho ran' > s; chmod +x s; ./s", "printf '#!/nonexistent\\n' > s; chmod +x s; ./s", "cd /nonexistent", "cat nofile", "ls --nosuchflag 2>/dev/null", "exit 7", "return 7", "(exit 7)", "echo ${x?unset}", "readonly r=1; r=2", "echo $((1/0))", "set -u; echo $nope", "unset 1bad", "export 1bad=x", "declare -Z x", "x[=1", "${bad}", "${", "echo ${x", "echo $(", "echo `", "echo 'open", "echo \"open", "if", "if true", "if true; then", "fi", "done", "for", "for x", "for x in a; do", "while true; do", "case x in", "esac", "{ echo", "}", "( echo", ")", ";;", ";", "&", "&& x", "| x", "echo |", "echo &&", "< ", "> ", "cat <<", "f(", "f()", "f() {", "function", "[[", "[[ a ==", "((", "((1", "a b c(", "echo a)b", "echo (a)", "x=(", "x=(a b", "!", "! ;", "time", "select", "coproc", "then", "else x", "do", "in", "kill -NOSUCH $$", "kill nopid", "kill %9", "wait %9", "fg", "bg", "disown %9", "shift 99", "trap x NOSUCH", "umask zz", "ulimit -n abc", "read -u 99 x", "echo x >&99", "cat <&99", "exec 99<nofile", ". ./nofile", "source nofile", "eval 'echo ('", "eval \"echo '\"", "test 1 -foo 2", "[ 1 -eq ]", "[ x", "let 'x ='", "let", "getopts", "local x", "break", "continue 2", "break x", "printf", "printf '%d' abc", "printf '%z'", "mapfile -u 99 a", "pushd", "popd", "dirs +9", "hash nosuchcommand", "type nosuchcommand", "command nosuchcommand", "builtin nosuch", "enable nosuch", "alias nosuch", "unalias nosuch", "shopt nosuch", "set -o nosuch", "history -x", "bind -x", "caller 9", "compgen -A nosuch", "complete -A nosuch x", "exec -z", "export -z", "cd a b", "cd -", "logout", "declare -n x=x", "declare -A m=(x)", "a=(1); a[x y]=2", "a[-9]=1", "echo ${a[-9]}", "${x:1:-9}", "x=abc; echo ${x: -1:-9}", "echo ${x@Z}", "echo ${!}", "echo ${!1bad}", "echo ${#x:1}", "PATH=; ls", "PATH=/nonexistent; ls; echo x", "bash -c 'exit 9'", "bash nofile", "bash -c 'kill -TERM $$'", "bash -c 'kill -KILL $$'", "(kill -TERM $BASHPID)", "(ulimit -v 1; ls) 2>/dev/null", "true | nosuchcommand", "nosuchcommand | true", "x=$(nosuchcommand)", "x=$(exit 9)", "echo $(exit 9)", "[[ a =~ ( ]]", "[[ $x -eq 'a b' ]]", "case", "echo > a b > ''", "mkdir /proc/x 2>/dev/null", "env nosuchcommand", "xargs false <<< x", "sh -c 'exit 3'", "timeout 0.01 sleep 5", "set -e; false", "set -e; (false)", "set -e; nosuchcommand", "set -o pipefail; false | true",
];

/// What follows a failure.
const FOLLOWERS: &[&str] = &["", "; echo $?", "\necho \"next $?\"", " || echo \"caught $?\"", " && echo ok", " | cat; echo ${PIPESTATUS[0]}"];

/// Small commands that do something visible.
const SNIPPETS: &[&str] = &[
    "echo plain; echo err >&2", "x=5; echo $x", "cd /; pwd", "export E=1; bash -c 'echo $E'", "false; echo $?", "set -- a b; echo $# $1", "echo 'q u' \"$x\" {1..3}", "read -r l <<< 'in put'; echo $l", "f() { echo f$1; return 3; }; f 9; echo $?", "a=(1 2 3); echo ${a[@]:1}", "declare -A m=([k]=v); echo ${m[k]}", "for i in a b; do echo $i; done", "case abc in a*) echo m;; esac", "cat <<E\ndoc $x\nE", "echo $((2 + 3 * 4))", "[[ abc =~ b ]] && echo ${BASH_REMATCH[0]}", "printf '%s,' a b; echo", "trap 'echo T' USR1; kill -USR1 $BASHPID; echo d", "shopt -s nullglob; echo nothing*", "set -f; echo *", "umask 022; umask", "nosuchcommand; echo $?", "seq 3 | tac", "echo a > file; cat file", "(exit 4); echo $?", "v=outer; (v=inner; echo $v); echo $v", "unset nope; echo ${nope:-def}", "IFS=:; set -- a:b; echo $1; v=a:b; echo $v", "type -t echo; command -v cd", "alias z='echo zed'; alias z", "true & wait; echo $?", "exec 3>f3; echo x >&3; cat f3", "return 5; echo after $?", "break; echo after", "exit 6; echo no", "set -e; false; echo no", "echo ${nope?gone}; echo no", "select x in one; do echo $x; break; done <<< 1", "time true", "local q=1; echo $?", "mapfile -t l < <(seq 2); echo ${l[1]}",
];

/// Surroundings for a command.
const SURROUNDINGS: &[&str] = &[
    "( @\n)\necho \"after $?\"", "{ @\n}\necho \"after $?\"", "x=$(@\n); echo \"[$x] $?\"", "f1() { @\n}; f1 p q; echo \"after $?\"", "for once in 1; do @\ndone; echo \"after $?\"", "if @\nthen echo yes; else echo no $?; fi", "eval '@SQ'\necho \"after $?\"", "{ @\n} | cat; echo \"${PIPESTATUS[0]}\"", "echo input | { @\n}; echo \"after $?\"", "{ @\n} 2>&1 >/dev/null; echo \"after $?\"", "set -u; @\necho \"after $?\"", "set -x; @\necho \"after $?\"", "{ @\n} & wait $!; echo \"after $?\"", "bash -c '@SQ'; echo \"after $?\"", "while :; do @\nbreak; done; echo \"after $?\"", "cat <( @\n); echo \"after $?\"", "trap 'echo E$?' ERR; @\necho \"after $?\"", "set -o posix; @\necho \"after $?\"", "printf '%s' '@SQ' > s.sh; . ./s.sh; echo \"after $?\"", "case x in x) @\n;; esac; echo \"after $?\"", "! { @\n}; echo \"after $?\"", "{ @\n} && echo and || echo or $?", "trap 'echo D >&2' DEBUG; @\necho \"after $?\"", "shopt -s expand_aliases lastpipe; @\necho \"after $?\"", "readonly ro=1; set -a; @\necho \"after $?\"",
];

pub fn add(corpus: &mut Corpus) {
    for failure in FAILURES {
        for follower in FOLLOWERS {
            corpus.add("errors", format!("{failure}{follower}"));
        }
        corpus.add("errors", format!("echo before\n{failure}\necho \"after $?\""));
        corpus.add("errors", format!("( {failure}\n)\necho \"after $?\""));
    }
    for surrounding in SURROUNDINGS {
        for snippet in SNIPPETS {
            let script = match surrounding.split_once("@SQ") {
                Some((before, after)) => format!("{before}{}{after}", snippet.replace('\'', "'\\''")),
                None => surrounding.replace('@', snippet),
            };
            corpus.add("surroundings", script);
        }
    }
}
