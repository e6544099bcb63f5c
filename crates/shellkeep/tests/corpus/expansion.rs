//! Parameter expansion of every kind, over values that make a difference.

use super::Corpus;

/// How the parameter `v` comes to its value.
const VALUES: &[(&str, &str)] = &[
    ("unset", "unset v"),
    ("empty", "v="),
    ("word", "v=banana"),
    ("blanks", "v='  two  words '"),
    ("path", "v=/usr/lib/x86/file.tar.gz"),
    ("star", "v='*[a]?'"),
    ("lines", "v=$'one\\ntwo\\n'"),
    ("utf8", "v='héllo wörld'"),
    ("dash", "v=-n"),
    ("digits", "v=0123456789"),
    ("mixed", "v='MiXeD Case'"),
    ("quotes", "v=\"it's \\\"quoted\\\"\""),
    ("backslash", "v='a\\b\\\\c'"),
    ("dollar", "v='$HOME `x` $(y)'"),
];

/// Expansions of `v`.
const OPERATORS: &[&str] = &[
    "${v}",
    "${#v}",
    "${v-default}",
    "${v:-default}",
    "${v:-two words}",
    "${v+alternate}",
    "${v:+alternate}",
    "${v:0:3}",
    "${v:2}",
    "${v: -3}",
    "${v: -4:2}",
    "${v:1:-1}",
    "${v#*a}",
    "${v##*a}",
    "${v%a*}",
    "${v%%a*}",
    "${v##*/}",
    "${v%/*}",
    "${v%%.*}",
    "${v#[0-9b/]}",
    "${v/a/X}",
    "${v//a/X}",
    "${v//[aeiou]/_}",
    "${v/#b/X}",
    "${v/%a/X}",
    "${v//a}",
    "${v//\\//:}",
    "${v^}",
    "${v^^}",
    "${v,}",
    "${v,,}",
    "${v^^[a-m]}",
    "${v~~}",
    "${v@Q}",
    "${v@U}",
    "${v@u}",
    "${v@L}",
    "${v@E}",
    "${v@A}",
    "${v@a}",
    "${v@K}",
    "${!v*}",
];

/// Expansions that assign, fail or refer.
const SPECIAL: &[&str] = &[
    "echo \"${v=assigned}\"; echo \"$v\"",
    "echo \"${v:=assigned}\"; echo \"$v\"",
    "echo \"${v?is not set}\"; echo after",
    "echo \"${v:?is empty or unset}\"; echo after",
    "w=v; echo \"${!w}\"",
    "w=v; echo \"${!w-none}\" \"${!w:0:2}\"",
    "set -u; echo \"$v\"; echo after",
    "set -u; echo \"${v-safe}\"; echo after",
    "set -- $v; echo $#; printf '<%s>' \"$@\"; echo",
    "set -f; set -- $v; echo $#; printf '<%s>' \"$@\"; echo",
    "set -- \"$v\" \"$v\"; echo \"$*\" \"${#*}\" \"${@:2}\"",
    "IFS=/; set -- $v; printf '<%s>' \"$@\"; echo; echo \"$*\"",
    "IFS=; set -- $v; printf '<%s>' \"$@\"; echo",
    "IFS=' a'; for w in $v; do echo \"[$w]\"; done",
    "for ((i = 0; i < ${#v}; i++)); do printf '%s.' \"${v:i:1}\"; done; echo",
    "case $v in *[0-9]*) echo digits;; *' '*) echo blank;; '') echo empty;; *) echo other;; esac",
    "x=${v}y; echo \"$x\"; x=\"$v\"$v'$v'; echo \"$x\"",
    "printf '%q\\n' \"$v\"",
    "printf '%s|%10s|%-10s|%.3s|\\n' \"$v\" \"$v\" \"$v\" \"$v\"",
    "cat <<END\n$v\n${v:-none} ${#v}\nEND",
    "cat <<< \"$v\"; cat <<< $v",
    "echo \"$(printf '%s' \"$v\" | wc -c)\" \"`echo \"$v\"`\"",
    "declare -u up=$v; declare -l low=$v; echo \"$up $low\"",
    "export v; bash -c 'echo \"[${v-unset}]\"'",
    "v=\"$v\" bash -c 'echo \"[$v]\"'; echo \"[${v-unset}]\"",
    "f() { local v=inner; echo \"$v\"; }; f; echo \"${v-unset}\"",
    "eval \"w=\\${v@Q}\"; echo \"$w\"; eval \"w=${v@Q}\"; echo \"$w\"",
    "[[ -v v ]] && echo set || echo unset; [[ -z $v ]] && echo empty || echo full",
    "read -r a b <<< \"$v\"; echo \"[$a] [$b]\"",
    "a=($v); echo ${#a[@]} \"${a[@]@Q}\"",
    "a=(\"$v\" \"$v\"); echo ${#a[@]} \"${a[*]}\" \"${a[@]#?}\"",
    "v+=more; echo \"$v\"; v+=\"$v\"; echo \"${#v}\"",
];

/// Positional and special parameters.
const PARAMETERS: &[&str] = &[
    "$#",
    "$*",
    "$@",
    "\"$*\"",
    "\"$@\"",
    "$1",
    "${2}",
    "${10}",
    "$10",
    "${@:2}",
    "${@:2:2}",
    "${@: -1}",
    "${*:0:2}",
    "${#}",
    "${#@}",
    "${!#}",
    "${@^}",
    "${@%?}",
    "${@/e/E}",
    "\"${@@Q}\"",
    "\"${*@U}\"",
    "$0",
    "$?",
    "$-x",
    "${@+set}",
];

/// Lists of arguments.
const ARGUMENTS: &[&str] =
    &["", "one", "one two three", "'a b' c ''", "'' ''", "{1..12}", "-- -e x", "$'a\\nb' 'c  d'", "'*' '?'"];

pub fn add(corpus: &mut Corpus) {
    for (name, setup) in VALUES {
        for operator in OPERATORS {
            corpus.add("expansion", format!("{setup}\nprintf '<%s>\\n' \"{operator}\" {operator}"));
        }
        for special in SPECIAL {
            corpus.add("expansion", format!("{setup} # {name}\n{special}"));
        }
    }
    for arguments in ARGUMENTS {
        for parameter in PARAMETERS {
            corpus.add("parameters", format!("set -- {arguments}\nprintf '[%s]' {parameter}; echo"));
        }
        corpus.add(
            "parameters",
            format!("set -- {arguments}\nwhile (($#)); do echo \"$#:$1\"; shift; done; shift; echo $?"),
        );
        corpus.add(
            "parameters",
            format!("f() {{ echo \"$# $*\"; set -- x y; echo \"$@\"; }}\nset -- {arguments}\nf \"$@\"; echo \"$#\""),
        );
        corpus.add(
            "parameters",
            format!("set -- {arguments}\nfor a; do printf '(%s)' \"$a\"; done; echo; IFS=,; echo \"$*\" $*"),
        );
        corpus.add(
            "parameters",
            format!("set -- {arguments}\nshift 2; echo \"$? $#\"; set --; echo $#; set -- \"$@\" z; echo $1"),
        );
    }
}
