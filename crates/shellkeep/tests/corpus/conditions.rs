//! `[[ ]]`, `[ ]`, `case`, and what tests say of files.

use super::Corpus;

/// Conditions that `[[ ]]` understands; `a`, `b`, `e` and `n` are set before.
const DOUBLE: &[&str] = &[
    "$a == abc",
    "$a == a*",
    "$a == 'a*'",
    "$a == \"$b\"",
    "$a != x*",
    "$a = [a-c]*",
    "$a < $b",
    "$a > $b",
    "-z $e",
    "-n $e",
    "-z $undefined",
    "$n -eq 42",
    "$n -ne 42",
    "$n -lt 50",
    "$n -le 42",
    "$n -gt 50",
    "$n -ge 43",
    "$a =~ ^a",
    "$a =~ b.$",
    "$a =~ ^(.)(.)(.)$",
    "$a =~ 'b.'",
    "$n =~ ^[0-9]+$",
    "$a =~ [",
    "! $a == abc",
    "$a == abc && $n == 42",
    "$a == x || $n == 42",
    "($a == x || $n == 42) && -n $b",
    "-v a",
    "-v undefined",
    "-o errexit",
    "-o braceexpand",
    "$a",
    "$e",
    "! $e",
    "$a == ?(a)b*",
    "$a == @(abc|xyz)",
    "$a == *(a|b|c)",
    "$a == !(abc)",
    "$a == +([a-z])",
    "$a -ef $a",
    "-R a",
    "$a == $'abc'",
    "\"$a\" == *b*",
    "$b =~ $a",
    "$n -eq n",
];

/// Conditions for `[ ]` and `test`.
const SINGLE: &[&str] = &[
    "\"$a\" = abc",
    "\"$a\" != abc",
    "\"$a\" == abc",
    "-z \"$e\"",
    "-n \"$e\"",
    "-n \"$a\"",
    "\"$a\"",
    "\"$e\"",
    "",
    "$e",
    "$n -eq 42",
    "$n -lt 42",
    "$n -gt abc",
    "\"$a\" = abc -a $n = 42",
    "\"$a\" = x -o $n = 42",
    "! \"$a\" = x",
    "\\( \"$a\" = abc \\)",
    "\"$a\" \\< \"$b\"",
    "\"$a\" \\> \"$b\"",
    "-t 0",
    "-v a",
    "a b",
    "a b c d e",
    "! \"\"",
    "-n",
    "= =",
    "-a = -a",
    "! !",
    "\"$n\" -ge 42 -a ! -z x",
    "1 -eq 1.0",
    "-o errexit",
    "x = x -a y = z -o 1 = 1",
];

/// Files a test can ask about.
const FILES: &[&str] =
    &["file", "empty", "dir", "link", "broken", "fifo", "script", "missing", "dir/inner", ".hidden", "/dev/null", "."];
const FILE_TESTS: &[&str] =
    &["-e", "-f", "-d", "-s", "-L", "-h", "-p", "-x", "-r", "-c", "-b", "-S", "-u", "-k", "-g", "-O"];
const FILE_SETUP: &str = "echo x > file; : > empty; mkdir dir; echo y > dir/inner; ln -s file link; ln -s nowhere broken; mkfifo fifo; printf '#!/bin/sh\\n' > script; chmod +x script; : > .hidden";

/// Subjects and clauses of `case`.
const SUBJECTS: &[&str] =
    &["", "abc", "a b", "*", "file.txt", "-v", "--long=3", "42", "A", "[x]", "a/b", "\\\\", "yes", "\u{e9}"];
const CASES: &[&str] = &[
    "abc) echo literal;; *) echo other;;",
    "a*) echo a;; [0-9]*) echo digit;; '') echo empty;; *) echo rest;;",
    "*.txt|*.md) echo text;; -*) echo option;; */*) echo path;; *) echo none;;",
    "[[:upper:]]) echo upper;; [[:lower:]]*) echo lower;; [!a-z]) echo not;; *) echo long;;",
    "'*') echo star;; \\[*) echo bracket;; ?) echo one;; ??) echo two;; ???*) echo more;;",
    "a*) echo first;& b*) echo fallen;; *) echo last;;",
    "a*) echo first;;& *c) echo also;;& *) echo always;;",
    "y|yes|Y) echo yes;; n|no) echo no;;",
    "--*=*) v=${x#*=}; echo \"value $v\";; --*) echo long;; -?) echo short;; *) false;;",
];

const SCRIPTS: &[&str] = &[
    "[[ 'key = value' =~ ^([a-z]+)\\ *=\\ *(.*)$ ]]; echo \"${BASH_REMATCH[0]}|${BASH_REMATCH[1]}|${BASH_REMATCH[2]}\"",
    "re='([0-9]+)-([0-9]+)'; [[ tel-555-1234 =~ $re ]] && echo ${BASH_REMATCH[@]}; [[ x =~ $re ]]; echo $? ${#BASH_REMATCH[@]}",
    "[[ a.b =~ a\\.b ]]; echo $?; [[ axb =~ a\\.b ]]; echo $?; [[ axb =~ a.b ]]; echo $?",
    "shopt -s nocasematch; [[ ABC == abc ]]; echo $?; case X in x) echo same;; esac",
    "[[ -f /etc/passwd && ! -d /etc/passwd ]]; echo $?",
    "[ -d / -a -r / ] && echo dir",
    "[[ a < B ]]; echo $?; LC_ALL=C; [[ a < B ]]; echo $?",
    "if [ 1 = 1 ]; then echo a; elif [ 1 = 2 ]; then echo b; else echo c; fi",
    "if false; then echo a; elif true; then echo b; else echo c; fi; if false; then :; fi; echo $?",
    "true && false || echo fallback; false && true || echo other; ! true; echo $?; ! false; echo $?",
    "! ! true; echo $?; true && ! false && echo yes",
    "case a in (a) echo parens;; esac; case x in esac; echo $?; case a in a);; esac; echo $?",
    "case $(echo sub) in sub) echo matched;; esac; case \"$((1+1))\" in 2) echo two;; esac",
    "touch -d '2001-01-01' old; touch new; [[ new -nt old ]] && echo newer; [[ old -ot new ]] && echo older; [ new -nt missing ]; echo $?",
    "touch f; ln f g; [[ f -ef g ]] && echo same; [ f -ef /dev/null ]; echo $?",
    "x=; [ -n $x ]; echo $?; [ -n \"$x\" ]; echo $?; [[ -n $x ]]; echo $?",
    "[ ]; echo $?; [ '' ]; echo $?; [ x ]; echo $?; test; echo $?; [ x",
    "[[ x; echo $?",
    "[[ -z ]]; echo $?",
    "[[ a = ]]; echo $?",
    "[[ '' ]]; echo $?; [[ ' ' ]]; echo $?; [[ 0 ]]; echo $?",
    "a='x y'; [[ $a == 'x y' ]]; echo $?; [ $a = 'x y' ]; echo $?",
    "p='a*'; [[ abc == $p ]]; echo $?; [[ abc == \"$p\" ]]; echo $?",
];

pub fn add(corpus: &mut Corpus) {
    let setup = "a=abc b=bcd e= n=42";
    for condition in DOUBLE {
        corpus.add("conditions", format!("{setup}\n[[ {condition} ]]; echo $? \"${{BASH_REMATCH[@]}}\""));
        corpus.add("conditions", format!("{setup}\nif [[ {condition} ]]; then echo then; else echo else; fi"));
    }
    for condition in SINGLE {
        corpus.add("conditions", format!("{setup}\n[ {condition} ]; echo $?"));
        corpus.add("conditions", format!("{setup}\ntest {condition} && echo yes || echo no"));
    }
    for file in FILES {
        for test in FILE_TESTS {
            corpus.add(
                "file tests",
                format!("{FILE_SETUP}\n[[ {test} {file} ]]; echo $?; [ {test} {file} ] && echo yes || echo no"),
            );
        }
    }
    for subject in SUBJECTS {
        for clauses in CASES {
            corpus.add("case", format!("x='{subject}'\ncase \"$x\" in {clauses} esac; echo $?"));
        }
    }
    for script in SCRIPTS {
        corpus.add("conditions", *script);
    }
}
