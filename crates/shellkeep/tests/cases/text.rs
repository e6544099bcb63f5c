//! Commands as text: whatever bytes but NUL, as `bash -c` takes them.

use crate::case::{Case, case, check, like_bash, step};

const TEXTS: &[&str] = &[
    "",
    " ",
    "\n",
    "\t\n  \n",
    "#",
    "# only a comment",
    "echo a # comment",
    "echo a #\n",
    "echo a\\",
    "echo a\\\n",
    "echo a \\\n b",
    "echo 'a\\\nb'",
    "echo a;",
    "echo a; ; echo b",
    "echo a; : &",
    "echo a &&",
    "echo a |",
    "echo a &&\n",
    "\n\necho a\n\n",
    "echo a\r\necho b\r\n",
    "echo a\r",
    "if true\r\nthen echo a\r\nfi\r\n",
    "cat <<E\nx\nE",
    "cat <<E\nx\nE\n",
    "cat <<E\nx",
    "cat <<E\nx\n",
    "cat <<E",
    "cat <<-E\n\tx\n\tE",
    "cat <<'E'\n$x\nE\necho after",
    "cat <<A <<B\na\nA\nb\nB",
    "cat <<E\r\nx\r\nE\r\n",
    "cat <<E\nE\\\n",
    "echo 'open",
    "echo \"open",
    "echo `open",
    "echo $(open",
    "echo ${open",
    "echo $((open",
    "echo 'a\nb'",
    "echo \"a\nb\"",
    "{ echo a",
    "( echo a",
    "echo a )",
    "}",
    ")",
    "echo )",
    ";",
    ";;",
    "&",
    "|",
    "||",
    "<",
    ">",
    "<<",
    "<<<",
    "!",
    "! true",
    "((",
    "))",
    "[[",
    "]]",
    "[",
    "if",
    "fi",
    "then",
    "done",
    "do",
    "esac",
    "case",
    "for",
    "while",
    "function",
    "f()",
    "f() {",
    "select",
    "coproc",
    "in",
    "{",
    "a=(",
    "a=(1 2",
    "a[",
    "echo {",
    "echo }",
    "$",
    "echo $",
    "echo \\",
    "'",
    "\"",
    "`",
    "\\",
    "\\\n",
    "echo \u{e9} \u{1F980}",
    "echo '\u{1b}[31m'",
    "\u{feff}echo bom",
    "echo a\u{0b}b\u{0c}c\u{7f}",
    "printf '%s' \"$(printf '\\001\\002')\" | od -An -tx1",
    "echo a\u{a0}b",
    "exit\r",
    "echo $LINENO",
    "\n\necho $LINENO",
    "echo a\necho $LINENO\n\nnosuch",
    "f() {\n  nosuch\n}\nf",
    "echo -n",
    "-n",
    "--help",
    "-c echo",
    "--",
    "- x",
    "+x",
    "alias x='echo y'\nx",
    "shopt -s expand_aliases\nalias x='echo y'\nx",
    "shopt -s expand_aliases; alias x='echo y'; x",
    "eval 'echo a",
    "set -- a b; echo $0 $# $@",
    "echo $0",
    "x=1 y=2",
    "echo ${x-unset}${y-unset}",
    "> created; ls",
    "< nofile",
    "2>&1",
    "echo a 2>&1 1>&2 | cat",
];

#[test]
fn any_text_is_taken_as_bash_takes_it() {
    let one = |text: &&str| {
        let taken = like_bash(*text);
        // An alias that the next command did not find was kept without a word.
        let taken = if text.starts_with("alias ") { taken.notice(&["aliases_off"]) } else { taken };
        let next = step("echo next").out("next\n");
        // What it leaves in the background may still be there when the session is put to sleep, and is named then.
        let next = if text.ends_with(": &") { next.any_notice() } else { next };
        case(format!("{text:?}"), [taken, next])
    };
    check(TEXTS.iter().map(one).collect());
}

/// After an unfinished quote bash leaves a status that is not 0 as it was, so it was that of the command before.
#[test]
fn a_text_that_cannot_be_parsed_has_a_status_of_its_own() {
    let one = |text: &&str| {
        let failed = step("(exit 42)").code(42);
        case(format!("{text:?} after a failure"), [failed, like_bash(*text), step("echo $?").out("2\n")])
    };
    check(["echo \"b", "echo 'b", "echo $((1+", "echo `b", "if"].iter().map(one).collect());
}

#[test]
fn long_texts() {
    let many_lines: String = (0..20_000).map(|n| format!("x{n}={n}\n")).collect();
    let deep = format!("{}echo deep{}", "( ".repeat(40), " )".repeat(40));
    let arguments = format!("set -- {}; echo $#", "word ".repeat(100_000));
    let here = format!("wc -c <<E\n{}\nE", "h".repeat(300_000));
    let quoted = format!("x='{}'; echo ${{#x}}", "line\n".repeat(100_000));
    let cases: Vec<Case> = vec![
        case(
            "20,000 lines",
            [step(format!("{many_lines}echo $x19999")).out("19999\n"), step("echo $x12345").out("12345\n")],
        ),
        case("forty subshells deep", [step(deep).out("deep\n")]),
        case("100,000 words", [step(arguments).out("100000\n"), step("echo $#").out("100000\n")]),
        case("a long here-document", [step(here).out("300001\n")]),
        case("a quote over 100,000 lines", [step(quoted).out("500000\n"), step("echo ${#x}").out("500000\n")]),
    ];
    check(cases);
}
