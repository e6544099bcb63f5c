//! Globs and braces, and the text tools that shell scripts are made of.

use super::Corpus;

const TREE: &str = "mkdir -p sub/deep 'sp ace'; touch a.txt b.txt c.md A.TXT .hid x1 x2 x10 'sp ace/in' sub/s.txt sub/deep/d.txt '[b]' 'st*r'";
const PATTERNS: &[&str] = &[
    "*", "*.txt", "?.txt", "[ab].txt", "[!a]*", "[a-c]*", ".*", "*/", "*/*", "**", "**/*.txt", "x[0-9]", "x?", "x*", "nomatch*", "'*'.txt", "\\*", "st\\*r", "[[]b]", "*.{txt,md}", "{a,b,z}.txt", "*' '*", "sub/*", "s*/*.txt", "@(a|b).txt", "!(*.txt)", "+(x)[0-9]", "?(x)1",
    "*(x)*(0-9)", "[[:upper:]]*", "[[:digit:]]", "*[[:space:]]*", "a.txt/", "./*.md", "$PWD/*.md", "~nouser/*", "[", "[a", "a]",
];
const GLOB_OPTIONS: &[&str] = &[":", "shopt -s extglob", "shopt -s nullglob", "shopt -s dotglob globstar", "shopt -s nocaseglob", "shopt -s failglob", "set -f", "GLOBIGNORE='*.txt'", "shopt -s globstar nullglob extglob", "LC_ALL=C"];

const BRACES: &[&str] = &[
    "{a,b,c}", "x{a,b}y", "{1..5}", "{5..1}", "{01..03}", "{a..e..2}", "{1..10..4}", "{-2..2}", "{a,{b,c}}", "{a,b}{1,2}", "{}", "{a}", "{,}", "{a,}", "a{,b}", "{a,b}{,c}", "{1..a}", "{a..C}", "{1..3}{a..b}", "\\{a,b}", "{a\\,b,c}", "'{a,b}'", "{\"a b\",c}", "{$v,w}", "{1..$n}", "{{1..3},x}", "{a,b", "a,b}", "{..}", "{1..}", "pre{fix,post}fix", "{0..100..25}", "{z..w}", "{001..3}", "~/{a,b}", "{a,b}=c", "${v}{1,2}", "{*,?}",
];

const DATA: &str = "printf '%s\\n' 'id,name,age' '1,ann,34' '2,bob,27' '3,cy,51' '4,di,27' > p.csv; printf 'the quick brown fox\\njumps over the lazy dog\\n\\nThe end 42\\n' > t.txt; seq 20 > n.txt";
const TOOLS: &[&str] = &[
    "cut -d, -f2 p.csv", "cut -c1-3 t.txt", "sort -t, -k3n p.csv", "sort -r n.txt | head -3", "sort -n -u n.txt | tail -2", "cut -d, -f3 p.csv | sort | uniq -c | tr -s ' '", "tail -n +2 p.csv | sort -t, -k2r", "wc -l < t.txt", "wc -w t.txt | tr -s ' '", "head -c 9 t.txt", "tail -c 4 t.txt", "tac n.txt | head -2", "nl -ba t.txt", "rev t.txt", "tr a-z A-Z < t.txt", "tr -d aeiou < t.txt", "tr -s ' ' '\\n' < t.txt | sort -f | uniq -ic | tr -s ' '", "tr -cd '[:digit:]' < t.txt", "fold -w 10 t.txt", "paste -sd, n.txt", "paste -d- n.txt n.txt | head -2", "join -t, <(sort p.csv) <(sort p.csv) | wc -l", "comm -12 <(seq 5) <(seq 3 8)", "split -l 5 n.txt part; ls part*", "seq -s+ 5", "seq -w 8 11", "expr 3 + 4; expr length abc; expr abc : 'a\\(.\\)'", "basename /a/b.c .c; dirname /a/b.c", "od -An -tx1 -N4 t.txt", "printf 'a\\tb\\n' | expand -t4", "shuf -n 3 n.txt | wc -l", "tsort <<< 'a b b c'", "cksum < n.txt", "md5sum < n.txt", "base64 <<< hello", "base64 -d <<< aGVsbG8K", "date -u -d @0 +%F", "date -d 2024-02-29 +%j", "numfmt --to=iec 1048576", "factor 84", "truncate -s 10 z; stat -c %s z", "find . -name '*.txt' | sort", "find . -type f -size -1k | wc -l", "find . -maxdepth 1 -type f -exec basename {} \\; | sort", "find . -name n.txt -print0 | xargs -0 wc -l | tr -s ' '", "touch -d @0 old; find . ! -newer old -name old", "mkdir -p x/y; cp n.txt x/y; find x -type f; rm -r x; ls x", "mv t.txt u.txt; ls; ln -s u.txt l; readlink l", "tee copy < n.txt | wc -l; cmp n.txt copy; echo $?", "diff n.txt <(seq 21)", "env -i A=1 env", "timeout 5 true; echo $?", "nohup true 2>/dev/null; echo $?", "xargs -n5 < n.txt", "xargs -P1 -I% echo item% <<< $'a\\nb'", "yes no | head -2", "seq 3 | tee >(cat >/dev/null) | tail -1", "stat -c %F .", "chmod 640 n.txt; stat -c %a n.txt", "test -r n.txt && echo r", "printf '%s\\n' b a c | sort -c; echo $?", "uname -s", "tput cols; echo $?", "awk --version | wc -l | grep -c .", "column -t -s, p.csv 2>/dev/null | head -1 | tr -s ' '",
];
const GREPS: &[&str] = &["the", "-i the", "-c the", "-n the", "-v the", "-o 'o.'", "-w the", "-E '(quick|lazy)'", "-F '.'", "-q fox", "-l fox", "-L fox", "-m1 o", "-A1 quick", "-B1 lazy", "-e fox -e dog", "'^$'", "-x 'The end 42'", "'[0-9]\\+'", "-oE '[0-9]+'", "-iE '^the'", "'o.*o'", "nothing", "-s x nofile", "'\\<l'", "-P '\\d+'"];
const SEDS: &[&str] = &["s/the/THE/", "s/o/0/g", "s/o/0/2", "/the/d", "/^$/d", "2p", "$d", "1,2s/^/> /", "s/\\(q[a-z]*\\) \\([a-z]*\\)/\\2 \\1/", "y/abc/xyz/", "1!G;h;$!d", "/quick/,/lazy/s/ /_/g", "s/[aeiou]//g", "/fox/a\\added", "/fox/i\\before", "/fox/c\\changed", "=", "s/.*/[&]/", "s/\\b\\(.\\)/\\u\\1/g", "n;d", "$!N;s/\\n/ /", "s#/#|#;s/e/E/3", "/end/q", "1~2d", "s/x*/-/g", "s/(/)/;t;s/f/F/"];
const AWKS: &[&str] = &["{print NF}", "NR==2", "END{print NR}", "{s+=NF} END{print s}", "/the/{print $2}", "{print $NF}", "{$1=\"X\"; print}", "length>10", "{for(i=NF;i>0;i--) printf \"%s \", $i; print \"\"}", "{n[length]++} END{for(k in n) print k, n[k] | \"sort\"}", "BEGIN{print 2^10, 7%3, int(3.9)}", "{gsub(/o/,\"0\")} 1", "{print toupper($0)}", "{print substr($0,1,3)}", "!seen[$1]++", "BEGIN{FS=\"o\"} {print $1}", "{print NR\": \"$0}", "BEGIN{printf \"%05.2f|%s\\n\", 3.14159, \"x\"}", "{c=split($0,a,\"e\"); print c}", "match($0,/q[a-z]+/){print RSTART, RLENGTH}", "NF{exit 3}", "BEGIN{while((getline l < \"n.txt\")>0) s+=l; print s}", "BEGIN{if (!(\"x\" in a)) print \"no\"}", "{print index($0,\"o\")}", "function f(x){return x*2} BEGIN{print f(21)}"];

pub fn add(corpus: &mut Corpus) {
    for options in GLOB_OPTIONS {
        for pattern in PATTERNS {
            corpus.add("globs", format!("{TREE}\n{options}\nprintf '%s\\n' {pattern}; echo $?"));
        }
    }
    for brace in BRACES {
        corpus.add("braces", format!("v=q n=3; printf '[%s]' {brace}; echo"));
        corpus.add("braces", format!("set +B; v=q n=3; for w in {brace}; do echo \"$w\"; done; x={brace}; echo \"$x\""));
    }
    for tool in TOOLS {
        corpus.add("tools", format!("{DATA}\n{tool}"));
        corpus.add("tools", format!("{DATA}\nset -o pipefail; x=$({tool}); echo \"$? ${{#x}}\"; echo \"$x\" | head -2"));
    }
    for options in GREPS {
        corpus.add("grep", format!("{DATA}\ngrep {options} t.txt; echo $?"));
        corpus.add("grep", format!("{DATA}\nif cat t.txt | grep {options} > hits; then wc -l < hits; else echo none; fi"));
    }
    for program in SEDS {
        corpus.add("sed", format!("{DATA}\nsed '{program}' t.txt"));
        corpus.add("sed", format!("{DATA}\nsed -n -i.bak '{program};p' t.txt; cat t.txt; ls t.txt.bak"));
    }
    for program in AWKS {
        corpus.add("awk", format!("{DATA}\nawk '{program}' t.txt; echo $?"));
    }
}
