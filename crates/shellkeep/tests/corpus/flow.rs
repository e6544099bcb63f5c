//! Loops, functions, scope, redirections, pipelines, here-documents, subshells.

use super::Corpus;

const LOOPS: &[&str] = &[
    "for i in 1 2 3; do @; done",
    "for i in; do @; done",
    "for i; do @; done",
    "for ((i = 1; i <= 3; i++)); do @; done",
    "i=0; while ((i++ < 3)); do @; done",
    "i=0; until ((i++ >= 3)); do @; done",
    "seq 3 | while read -r i; do @; done",
    "while read -r i; do @; done < <(seq 3)",
    "for i in {1..3}; do { @; } done",
    "for i in 1 2; do for j in a b; do @; done; done",
    "select i in a b; do @; break; done <<< 2",
];
const LOOP_BODIES: &[&str] = &[
    "echo $i",
    "[ \"$i\" = 2 ] && continue; echo $i",
    "[ \"$i\" = 2 ] && break; echo $i",
    "((n += 1)); echo $n",
    "[ \"$i\" = 2 ] && break 2; echo $i$j",
    "[ \"$i\" = 1 ] && continue 2; echo $i",
    "x+=$i; echo \"$x\" >&2",
    "echo $i | tr 123 abc",
    "(exit $i); echo $?",
    "false",
    "local q=$i; echo $?",
    "return; echo $?",
    "break 0; echo $?",
    "case $i in 2) continue;; esac; echo $i",
];

const FUNCTIONS: &[&str] = &[
    "f() { echo body; }",
    "function f { echo body; }",
    "function f() { echo body; }",
    "f() (echo body; x=inner)",
    "f() if true; then echo body; fi",
    "f() for a in \"$@\"; do echo $a; done",
    "f() { echo body; } > out",
    "f() { echo \"$# $1\"; return 3; }",
    "f() { local x=local; g; }; g() { echo $x; }",
    "f() { x=changed; }",
    "f() { [ $1 -gt 0 ] && f $(($1 - 1)); echo $1; }",
    "f() { echo in; exit 4; }",
    "f() { cat; }",
    "f() { echo err >&2; false; }",
    "f() { local IFS=,; echo \"$*\"; }",
    "f() { set -- reset; echo $1; }",
    "f() { declare -g y=global; local -r z=ro; echo $z; }",
    "f() { unset x; echo ${x-gone}; }",
    "f() { g() { echo nested $1; }; g $1; }",
    "f() { trap 'echo trapped' RETURN; }",
    "f() { local -; set -f; echo *; }",
    "f() { shift; echo $*; }",
];
const CALLS: &[&str] = &[
    "x=outer; f 2 b; echo \"$? $x\"",
    "x=$(f 1); echo \"[$x] $?\"",
    "f 1 | cat; echo ${PIPESTATUS[0]}",
    "echo in | f 1; cat out 2>/dev/null",
    "(f 1; echo $x); echo ${x-unset} ${y-unset}",
    "f 0 && echo ok || echo failed $?",
    "x=temp f 0; echo ${x-unset}",
    "if f 1; then echo yes; else echo no; fi",
    "f 1 > /dev/null 2>&1; echo $?; declare -F f",
    "export -f f; bash -c 'f 1'; unset -f f; f; echo $?",
];

const REDIRECTIONS: &[&str] = &[
    "> f",
    ">> f",
    "2> f",
    "&> f",
    ">& f",
    "> f 2>&1",
    "2>&1 > f",
    "2>> f",
    "&>> f",
    ">| f",
    "<> f",
    "< /dev/null",
    "> /dev/null",
    "2> /dev/null",
    "> nodir/f",
    "< nofile",
    "3> f",
    "3>&1 >&2 2>&3",
    ">&-",
    "2>&-",
    "<&-",
    "> f > g",
    "{fd}> f",
    "> \"$name\"",
    "> $empty",
    "> a*",
    ">&5",
    "<<< word",
    "1>&2",
    "2>&1 | cat",
];
const REDIRECTED: &[&str] = &[
    "both",
    "{ both; echo more; }",
    "(both)",
    "both | cat",
    "for i in 1 2; do both; done",
    "if both; then echo t; fi",
    "while read l; do echo $l; done",
    "x=$(both)",
    "nosuchcommand",
    "cat",
    "exec",
    ":",
    "[[ a ]]",
    "((1))",
    "f",
];

const DOCUMENTS: &[&str] = &[
    "cat <<E\nplain $v $(echo cmd) $((1 + 1)) \\$v \\\\ `echo old`\nE",
    "cat <<'E'\nquoted $v $(echo cmd) \\$v\nE",
    "cat <<\"E\"\n$v\nE",
    "cat <<\\E\n$v\nE",
    "cat <<-E\n\ttabs\n\t\tmore $v\n\tE",
    "cat <<E | tr a-z A-Z\nupper $v\nE",
    "cat <<E; echo after\nbody\nE",
    "cat <<A; cat <<B\nfirst\nA\nsecond\nB",
    "cat <<A - <<B\nx\nA\ny\nB",
    "cat <<E\nE",
    "cat <<E\nline\\\ncontinued\nE",
    "cat <<E\n\"quotes\" 'single' \\\"\nE",
    "x=$(cat <<E\nin subst $v\nE\n); echo \"[$x]\"",
    "f() { cat <<E\nin function $1\nE\n}; f arg",
    "while read -r l; do echo \"[$l]\"; done <<E\na b\n  c\nE",
    "if cat; then echo yes; fi <<E\ncond\nE",
    "cat <<'end of it'\nodd\nend of it",
    "cat <<E\n${v:-default} ${u:-$(echo nested)} ${#v}\nE",
    "cat 3<<E <&3\nfd three\nE",
    "cat <<E && echo chained\nand\nE",
    "cat <<< one; cat <<< \"two $v\"; cat <<< 'three $v'; cat <<< $v$v; cat <<<''",
    "read -r a b <<< \"x y z\"; echo \"$b\"",
    "bash <<'E'\necho inner $0\nE",
    "bash -s a b <<'E'\necho $1 $2\nE",
    "cat <<E\nno end",
    "cat <<E\nE ",
    "tr a-z A-Z <<E\n$(cat <<I\ninner\nI\n)\nE",
    "sort <<E\nc\na\nb\nE",
    "cat <<E >f; cat f\nto file\nE",
    "(cat; echo sub) <<E\nsubshell\nE",
    "cat <<E;\n\tkept tab\nE",
    "eval 'cat <<E\nevaluated $v\nE'",
    "cat <<'E' | while IFS== read -r k v; do echo \"$k -> $v\"; done\na=1\nb=two words\nE",
];

const SCRIPTS: &[&str] = &[
    "echo a | cat | tr a b | cat; echo ${PIPESTATUS[@]}",
    "true | false | true; echo $? ${PIPESTATUS[@]}",
    "! false | true; echo $?",
    "echo a |& cat; nosuch |& sed 's/.*nosuch/nosuch/'",
    "(echo sub; exit 3); echo $?",
    "{ echo group; false; }; echo $?",
    "x=1; (x=2; echo $x); echo $x",
    "x=1; { x=2; }; echo $x",
    "x=1; echo 5 | read x; echo $x",
    "cd / && (cd /tmp; pwd); pwd",
    "(cd /; umask 077; set -f; alias q=w); umask; pwd | wc -l; echo $-",
    "cat <(echo a) <(echo b); diff <(seq 3) <(seq 4); echo $?",
    "echo out > >(tr a-z A-Z); wait $!",
    "while read l; do echo \"<$l>\"; done < <(printf 'a\\nb'); echo \"$l\"",
    "paste <(seq 3) <(seq 4 6) | tr '\\t' ','",
    "tee >(wc -c > n) <<< hello > /dev/null; wait $!; cat n",
    "seq 10 | { read a; read b; echo $a $b; cat | wc -l; }",
    "yes | head -3; echo ${PIPESTATUS[1]}",
    "seq 1000 | head -1; echo $?",
    "echo a; echo b >&2; { echo c; echo d >&2; } 2>&1 | sort",
    "exec 5>&1; x=$(echo captured; echo direct >&5); echo \"[$x]\"",
    "exec 6<<< 'six'; cat <&6; exec 6<&-",
    "{ echo one; echo two; } > f; { read a; read b; } < f; echo $b $a",
    "echo x > f; cat < f > g; cat g; : > f; wc -c < f | tr -d ' '",
    "echo {1..3} > f; read -r a b < f; echo $b; echo >> f; wc -l < f | tr -d ' '",
    "ls nosuch 2>&1 | grep -c 'No such'; ls nosuch 2>/dev/null || echo $?",
    "{ echo out; echo err >&2; } 2>&1 >/dev/null",
    "(echo a >&2) 2>&1 | tr a b",
    "echo hi 3>&1 >&3 3>&-",
    "cat /dev/fd/3 3<<< three; echo x > /dev/stderr; cat < /dev/stdin <<< y",
    "time_out=$( { time true; } 2>&1 ); echo \"$time_out\" | grep -c real",
    "TIMEFORMAT=%0R; time :",
    "a=1; a=2 env | grep ^a=; echo $a; b=3 :; echo ${b-unset}",
    "x=5 y=6; x=7 y=$x; echo $x $y",
    "A=1 B=2 bash -c 'echo $A$B'; env -i PATH=$PATH X=9 bash -c 'echo $X ${HOME-none}'",
    "true; true && echo a && false && echo b; echo $?",
    "false || false || echo c; true || echo d; echo $?",
    "if (exit 3); then :; else echo $?; fi; while (exit 2); do :; done; echo $?",
    "for i in 1 2 3; do (echo $i; exit $i) || break; done; echo $?",
    "f() { return $1; }; for i in 0 1 255 256 257; do f $i; echo $?; done",
    "outer() { local v=1; inner; echo $v; }; inner() { v=2; local v=3; }; outer; echo ${v-unset}",
    "a() { b \"$@\"; }; b() { c \"$@\"; }; c() { echo $#; return $#; }; a x y z; echo $?",
    "fib() { (($1 < 2)) && { echo $1; return; }; echo $(($(fib $(($1 - 1))) + $(fib $(($1 - 2))))); }; fib 8",
    "hanoi() { (($1)) || return; hanoi $(($1 - 1)) $2 $4 $3; echo $2-$3; hanoi $(($1 - 1)) $4 $3 $2; }; hanoi 3 a b c",
    "depth() { (($1 > 200)) && { echo deep; return; }; depth $(($1 + 1)); }; depth 0",
    "FUNCNEST=5; r() { r; }; r; echo $?",
    "f() { echo first; }; f() { echo second; }; f; unset -f f; f; echo $?",
    "f () { echo \"$FUNCNAME\"; }; f; echo \"[$FUNCNAME]\"; function odd-name.x { echo odd; }; odd-name.x",
    "command_not_found_handle() { echo \"handler: $*\"; return 42; }; nosuch a b; echo $?",
    "exec 3>&1; f() { echo to3 >&3; echo to1; }; x=$(f); echo \"[$x]\"",
    "{ sleep 0; echo bg; } & wait; echo fg",
    "(echo a & wait); (sleep 0; echo b) & wait $!; echo $?",
    "x=$(echo a & wait; echo b); echo $x",
    "coproc { echo c; }; cat <&${COPROC[0]}; wait",
    "seq 3 | xargs -n1 echo n; seq 3 | xargs -I{} echo '<{}>'; echo 'a b' | xargs printf '%s\\n'",
    "while :; do ((++n == 4)) && break; ((n % 2)) && continue; echo $n; done",
    "for x in a b; do echo $x; done | tac; echo ${x-unset}",
    "shopt -s lastpipe; seq 3 | while read x; do ((s += x)); done; echo $s",
    "echo start; if true; then exit 2; fi; echo no",
    "cat < f; echo $?; cat f > f; echo $?",
    "echo a > /nonexistent/x; echo $?; echo b > /; echo $?",
    "if true; then\n  # comment\n  echo yes # trailing\nfi # end",
    "echo a; # c\n\n\necho b\n\n",
    "echo a;echo b;\techo c ;",
    "{ echo a; echo b\n}; (echo c\necho d)",
    "true &&\necho and; false ||\necho or; echo x |\ncat",
    "case x in\n  x)\n    echo case\n    ;;\nesac",
    "f()\n{\n  echo f\n}\nf",
];

pub fn add(corpus: &mut Corpus) {
    for shape in LOOPS {
        for body in LOOP_BODIES {
            corpus.add("loops", format!("set -- p q\n{}; echo \"end $? ${{i-unset}}\"", shape.replace('@', body)));
        }
    }
    for definition in FUNCTIONS {
        for call in CALLS {
            corpus.add("functions", format!("{definition}\n{call}"));
        }
    }
    for command in REDIRECTED {
        for redirection in REDIRECTIONS {
            // The error first: what reads `out` may be gone, and SIGPIPE ends the rest of the function.
            let setup = "both() { echo err >&2; echo out; }; f() { both; }; name='a file'; empty=; touch ax";
            corpus.add(
                "redirections",
                format!("{setup}\n{command} {redirection}; echo \"rc=$?\"; cat f 'a file' 2>/dev/null; ls"),
            );
        }
    }
    for document in DOCUMENTS {
        corpus.add("here-documents", format!("v=value\n{document}"));
        corpus.add("here-documents", format!("set -e; v='two words'\n{document}"));
    }
    for script in SCRIPTS {
        corpus.add("flow", *script);
    }
}
