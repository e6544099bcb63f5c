//! Arithmetic in all the places where bash does it.

use super::Corpus;

const EXPRESSIONS: &[&str] = &[
    "1 + 2", "7 - 10", "6 * 7", "7 / 2", "-7 / 2", "7 % 3", "-7 % 3", "2 ** 10", "2 ** 0", "1 << 4", "256 >> 3", "-1 >> 1",
    "6 & 3", "6 | 3", "6 ^ 3", "~5", "!5", "!0", "-5", "+5", "- -5", "1 < 2", "2 <= 2", "3 > 4", "4 >= 5", "1 == 1", "1 != 1",
    "1 && 0", "1 || 0", "0 || 0", "1 ? 2 : 3", "0 ? 2 : 3", "1, 2, 3", "(1 + 2) * 3", "1 + 2 * 3", "010", "0x1F", "2#1011",
    "36#z", "16#ff", "64#_", "0", "9223372036854775807", "9223372036854775807 + 1", "-9223372036854775808", "x", "x + y",
    "x++", "++x", "x--", "--x", "x += 5", "x -= 5", "x *= 2", "x /= 3", "x %= 4", "x <<= 2", "x >>= 1", "x &= 6", "x |= 8",
    "x ^= 15", "x = y = 3", "unset_name", "unset_name + 1", "name", "1 ? x = 5 : 0", "x > 5 && y < 5", "10 % 4 * 2",
    "2 ** 3 ** 2", "5 - 3 - 1", "100 / 7 / 2", "1 / 0", "5 % 0", "2 ** -1", "1 +", "08", "3 4", "2#3", "1 = 2", "(1", "x y",
    "arr[1]", "arr[1] + arr[2]", "arr[x - 8]++", "1.5", "'a'", "x=='3'", "\"3\" + 4", "$x + 1", "${x}0", "$((2 + 3)) * 2",
];

/// Places for an expression.
const PLACES: &[&str] = &[
    "echo $((@)); echo \"$x $y\"",
    "((@)); echo \"$? $x $y\"",
    "let '@'; echo \"$? $x $y\"",
    "declare -i n='@'; echo \"$n $?\"",
    "if ((@)); then echo true; else echo false; fi; echo $x",
];

const SCRIPTS: &[&str] = &[
    "for ((i = 0; i < 5; i++)); do printf '%d ' $i; done; echo $i",
    "for ((i = 10, j = 0; i > j; i -= 3, j++)); do echo $i $j; done",
    "for ((;;)); do ((++n > 3)) && break; done; echo $n",
    "i=5; while ((i--)); do printf '%d ' $i; done; echo $i",
    "i=0; until ((i >= 3)); do ((i++)); done; echo $i",
    "s=0; for n in {1..100}; do ((s += n)); done; echo $s",
    "a=5; a=$a+1; echo $a $((a))", "a=b b=c c=7; echo $((a + 1))", "x=5; echo $((x++ + ++x)) $x", "echo $((1,2)) $((3,4,5))",
    "echo $(( (1<2) + (2<3) )) $((!0 + !1))", "echo $((RANDOM < 32768)) $((SECONDS < 60))",
    "[[ 5 -gt 3 && 08 -eq 8 ]]; echo $?", "[[ 5+2 -eq 7 ]] && echo sum; [ 5 -eq 5 ] && echo eq", "[ a -eq 1 ]; echo $?", "[[ a -eq 0 ]]; echo $?",
    "printf '%d %x %o %X\\n' $((16#ff)) 255 255 255", "printf '%d\\n' 0x1f 017 \"'A\" -5 +5", "echo $((0x7fffffffffffffff)) $((1 << 63)) $((1 << 64))",
    "let a=1+1 b=a*3; echo $a $b; let 'c = a > b ? a : b'; echo $c; let 0; echo $?",
    "n=0; ((n++)) || echo zero; ((n++)) && echo one; echo $n", "declare -i i=1; i+=1; i+=i; echo $i; i=i*i; echo $i",
    "gcd() { (($2)) && gcd $2 $(($1 % $2)) || echo $1; }; gcd 48 36; gcd 17 5", "fact() { (($1 < 2)) && echo 1 || echo $(($1 * $(fact $(($1 - 1))))); }; fact 10",
    "a=(1 2 3); ((a[1] += 10)); echo ${a[@]} $((a[0] + a[2])); echo $((${#a[@]} * 2))", "x=3; ((x == 3 ? (y = 1) : (y = 2))); echo $y",
    "echo $((-5 / 2)) $((-5 % 2)) $((5 / -2)) $((5 % -2))", "echo $((1 == 1 == 1)) $((3 > 2 > 1)) $((1 + 1 == 2 && 2 + 2 == 4))",
    "unset q; echo $((q)) $((q + 1)); set -u; echo $((q))", "set -e; ((0)); echo unreached", "set -e; ((1)); echo reached; let 0 || echo caught",
    "x=1; f() { local x=5; ((x++)); echo $x; }; f; echo $x", "echo $(( $(echo 3) + `echo 4` )) $((  $((1)) + $((2)) ))",
    "printf '%s\\n' $((10#08 + 10#09)); v=007; echo $((10#$v))", "echo $((2**62)) $((2**63)) $((2**64))", "i=3; echo $((i---1)) $i; i=3; echo $((i- -1))",
];

const BASES: &[&str] = &["2#1010", "8#17", "16#aF", "36#Zz", "37#A", "62#Z", "64#@", "10#099", "3#12", "1#0", "65#1", "2#2"];

pub fn add(corpus: &mut Corpus) {
    for expression in EXPRESSIONS {
        for place in PLACES {
            let script = format!("x=10 y=4 name=x; arr=(1 2 3)\n{}\necho end", place.replace('@', expression));
            corpus.add("arithmetic", script);
        }
    }
    for base in BASES {
        corpus.add("arithmetic", format!("echo $(({base})); v={base}; echo $((v + 1)); declare -i n={base}; echo $n"));
    }
    for script in SCRIPTS {
        corpus.add("arithmetic", *script);
    }
}
