//! Quoting, escapes, splitting and the order of expansions.

use super::Corpus;

/// Words, each quoted in its own way.
const WORDS: &[&str] = &[
    r#"a\ b"#,
    r#"'a b'"#,
    r#""a b""#,
    r#"$'a\tb'"#,
    r#"$"a b""#,
    r#""a\"b""#,
    r#"'a'"'"'b'"#,
    r#"a""b''c"#,
    r#"\$HOME"#,
    r#""\$HOME \`x\` \\ \z""#,
    r#"'\$HOME'"#,
    r#"$'\x41\u00e9\n\101\e[0m'"#,
    r#"$'it\'s'"#,
    r#""$(echo "in "ner"")""#,
    r#"$(echo 'a   b')"#,
    r#""$(echo 'a   b')""#,
    r#"`echo \`echo x\``"#,
    r#""`echo "x y"`""#,
    r#"~"#,
    r#""~""#,
    r#"~/x"#,
    r#"a~"#,
    r#"x=~"#,
    r#"\~"#,
    r#"{a,b}c"#,
    r#""{a,b}c""#,
    r#"{a,'b c'}"#,
    r#"\{a,b}"#,
    r#"*"#,
    r#"'*'"#,
    r#"\*"#,
    r#"[a]"#,
    r#"#a"#,
    r#"a#b"#,
    r#"'#'"#,
    r#"!"#,
    r#"a!b"#,
    r#""a!b""#,
    r#"$'\cA' "#,
    r#"$'\?\a\b\v\f'"#,
    r#"\a\b\n"#,
    r#"a\
b"#,
    r#""a\
b""#,
    r#"'a\
b'"#,
    r#"''"#,
    r#""""#,
    r#""" ''"#,
    r#"$''"#,
    r#""$@""#,
    r#""$*""#,
    r#"$@"#,
    r#"\$\$"#,
    r#""$""#,
    r#""a$""#,
    r#"$"#,
    r#""${undefined}""#,
    r#"${undefined}"#,
    r#"x${undefined}y"#,
    r#""'""#,
    r#"'"'"#,
    r#""${undefined:-'q'}""#,
    r#"${undefined:-'q r'}"#,
    r#"${undefined:-"q r"}"#,
    r#"${undefined:-a\ b}"#,
    r#""${undefined:-a\ b}""#,
    r#"a$'\n'b"#,
    r#"$((1 + 2))"#,
    r#""$((1 + 2))x""#,
    r#"$[1 + 2]"#,
    r#"<(:)x"#,
    r#"a=b"#,
    r#"-n"#,
    r#"--"#,
    r#"\;"#,
    r#"'a;b'"#,
    r#"a\&b"#,
];

/// What is done with a word.
const USES: &[&str] = &["printf '<%s>' @; echo", "x=@; printf '%s' \"$x\" | od -An -c", "echo @", "cat <<E\n@\nE"];

/// Values for splitting, and separators.
const SPLIT_VALUES: &[&str] = &[
    "a:b:c",
    ":a::b:",
    " a  b ",
    "a, b , c",
    "a\tb\nc",
    "::",
    "",
    "x",
    "a:b c:d",
    "1-2_3",
    ",,a",
    "a,,",
    "\u{e9},\u{fc}",
];
const SEPARATORS: &[&str] = &["':'", "','", "' '", "$' \\t\\n'", "', '", "''", "$'\\n'", "':-_'", "$'\\t,'"];

/// Whole scripts.
const SCRIPTS: &[&str] = &[
    "x='a b'; y=$x; echo \"$y\"; z=$x$x; echo $z",
    "x='echo hi'; $x; 'echo hi'; echo $?",
    "x='\"a b\"'; set -- $x; echo $#; eval \"set -- $x\"; echo $#",
    "a=1 b=$a; echo \"[$b]\"; a=2 eval 'echo $a'; echo $a",
    "echo a\\\nb; echo 'c\\\nd'; echo \"e\\\nf\"",
    "echo one # two\necho three#four\n# five\necho '#six'",
    "echo {1..5} {a..e} {1..10..3} {e..a} {01..10} {x,y{1,2}z} {a,b}{c,d} {} {a} {a,} {,a}",
    "x=3; echo {1..$x} {a,$x}; eval echo {1..$x}",
    "echo \"$(echo \"$(echo \"deep\")\")\" `echo \\`echo old\\``",
    "echo $(printf 'a\\n\\n\\n'); echo \"$(printf 'a\\n\\n\\n')\" | wc -l",
    "x=$(printf 'a\\0b' 2>/dev/null); echo ${#x}",
    "printf '%s\\n' \"${BASH_VERSINFO[0]}\" | grep -cE '^[0-9]+$'",
    "v='a  b'; echo ${v} \"${v}\" '${v}' \\${v}",
    "v='x;y'; eval \"echo ${v@Q}\"; eval echo $v",
    "IFS=-; v=a-b; echo $v \"$v\" ${v}; set -- a b; echo \"$*\" $*",
    "unset IFS; v='a  b'; set -- $v; echo $#",
    "echo \"a\"'b'c\"d\"'e'; echo a'\\'b; echo \"a'b\"",
    "printf '%s\\n' a{b,c{d,e}}f {a..c}{1..2}",
    "echo '~' ~root | cut -c1; HOME=/h; echo ~ ~/a a:~ x=~; y=~/b; echo $y; z=a:~/c:~; echo $z",
    "set -- 'a b' c; for x in \"$@\"; do echo \"$x\"; done; for x in $*; do echo \"$x\"; done",
    "x=$'tab\\there'; echo \"$x\" | od -c | head -2; echo $x",
    "printf '%b\\n' 'a\\tb\\x41\\0101' 'c\\cd' ignored",
    "echo -e 'a\\tb\\n\\x41\\u00e9'; echo -n x; echo; echo -E 'a\\tb'; echo -ne 'y\\n'; echo -nn; echo -q",
    "shopt -s xpg_echo; echo 'a\\tb'; shopt -u xpg_echo; echo 'a\\tb'",
];

pub fn add(corpus: &mut Corpus) {
    for word in WORDS {
        for usage in USES {
            corpus.add("quoting", usage.replace('@', word));
        }
    }
    for value in SPLIT_VALUES {
        for separator in SEPARATORS {
            let quoted = value.replace('\'', "");
            corpus.add(
                "splitting",
                format!("IFS={separator}; v='{quoted}'\nset -- $v; echo $#; printf '<%s>' \"$@\"; echo \"$*\""),
            );
            corpus.add("splitting", format!("IFS={separator} read -r a b <<< '{quoted}'; echo \"[$a][$b]\"; IFS={separator} read -ra l <<< '{quoted}'; echo ${{#l[@]}}"));
        }
    }
    for script in SCRIPTS {
        corpus.add("quoting", *script);
    }
}
