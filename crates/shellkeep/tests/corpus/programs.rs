//! Small whole programs, each over inputs that take it down different paths.

use super::Corpus;

/// A program, and lists of arguments for it.
const PROGRAMS: &[(&str, &[&str])] = &[
    (
        "for ((i = 1; i <= $1; i++)); do\n  s=\n  ((i % 3)) || s+=Fizz\n  ((i % 5)) || s+=Buzz\n  echo \"${s:-$i}\"\ndone",
        &["0", "5", "15", "31"],
    ),
    (
        "a=(\"$@\")\nfor ((i = 0; i < ${#a[@]}; i++)); do\n  for ((j = 0; j < ${#a[@]} - i - 1; j++)); do\n    if ((a[j] > a[j + 1])); then t=${a[j]}; a[j]=${a[j + 1]}; a[j + 1]=$t; fi\n  done\ndone\necho \"${a[*]}\"",
        &["", "1", "3 1 2", "9 8 7 6 5 4", "2 2 1 1", "-3 5 0"],
    ),
    (
        "a=(\"$@\")\nfor ((i = 1; i < ${#a[@]}; i++)); do\n  k=${a[i]}\n  for ((j = i - 1; j >= 0 && a[j] > k; j--)); do a[j + 1]=${a[j]}; done\n  a[j + 1]=$k\ndone\nprintf '%s ' \"${a[@]}\"",
        &["", "4", "5 4 3", "1 2 3", "10 9 11 2"],
    ),
    (
        "quick() {\n  (($# < 2)) && { echo \"$@\"; return; }\n  local p=$1 x; local -a l=() r=()\n  shift\n  for x; do if ((x < p)); then l+=(\"$x\"); else r+=(\"$x\"); fi; done\n  echo $(quick \"${l[@]}\") $p $(quick \"${r[@]}\")\n}\nquick \"$@\"",
        &["", "7", "3 1 2", "5 5 1 9 -2", "8 7 6 5"],
    ),
    (
        "merge() {\n  local n=$#\n  if ((n < 2)); then printf '%s\\n' \"$@\"; return; fi\n  sort -m -n <(merge \"${@:1:n/2}\") <(merge \"${@:n/2+1}\")\n}\nmerge \"$@\" | tr '\\n' ' '",
        &["3", "2 1", "9 3 7 1 5"],
    ),
    (
        "s=$1 r=\nfor ((i = ${#s} - 1; i >= 0; i--)); do r+=${s:i:1}; done\necho \"$r\"\n[[ $s == \"$r\" ]] && echo palindrome",
        &["''", "abc", "level", "'never odd'", "a", "\u{e9}t\u{e9}"],
    ),
    (
        "prime() {\n  local n=$1 d\n  ((n > 1)) || return 1\n  for ((d = 2; d * d <= n; d++)); do ((n % d)) || return 1; done\n}\nfor ((i = 0; i <= $1; i++)); do prime $i && printf '%d ' $i; done\necho",
        &["1", "2", "30", "100"],
    ),
    (
        "declare -a s\nfor ((i = 2; i <= $1; i++)); do s[i]=1; done\nfor ((i = 2; i * i <= $1; i++)); do\n  [[ ${s[i]} ]] || continue\n  for ((j = i * i; j <= $1; j += i)); do unset \"s[j]\"; done\ndone\necho ${!s[@]}",
        &["1", "10", "50"],
    ),
    (
        "declare -A c\nfor w in $1; do w=${w,,}; w=${w//[^a-z]/}; [[ $w ]] && ((c[$w]++)); done\nfor w in \"${!c[@]}\"; do echo \"${c[$w]} $w\"; done | sort -k1,1nr -k2",
        &["''", "'the cat and the dog'", "'A a, a. b'", "'one'"],
    ),
    (
        "stack=()\npush() { stack+=(\"$1\"); }\npop() { ((${#stack[@]})) || { echo empty; return 1; }; echo \"${stack[-1]}\"; unset 'stack[-1]'; }\nfor x; do if [[ $x == - ]]; then pop; else push \"$x\"; fi; done\necho \"${#stack[@]}: ${stack[*]}\"",
        &["", "a b -", "- a", "1 2 - - -", "x - y - z"],
    ),
    (
        "q=()\nfor x; do case $x in +*) q+=(\"${x#+}\");; -) echo \"out ${q[0]-none}\"; q=(\"${q[@]:1}\");; *) echo bad >&2; exit 2;; esac; done\necho \"${q[@]}\"",
        &["", "+a +b -", "-", "+a x", "+1 - +2 - -"],
    ),
    (
        "eval_rpn() {\n  local -a s=(); local t a b\n  for t; do case $t in\n    [-+*/]) b=${s[-1]} a=${s[-2]}; unset 's[-1]' 's[-1]'; s+=($((a $t b)));;\n    *) s+=($t);;\n  esac; done\n  echo ${s[@]}\n}\nset -f; eval_rpn \"$@\"",
        &["1 2 +", "3 4 '*' 5 -", "10 2 /", "5 1 2 + 4 '*' + 3 -", "7", "1 0 /"],
    ),
    (
        "n=$1 out=\nfor p in 1000:M 900:CM 500:D 400:CD 100:C 90:XC 50:L 40:XL 10:X 9:IX 5:V 4:IV 1:I; do\n  while ((n >= ${p%:*})); do out+=${p#*:}; ((n -= ${p%:*})); done\ndone\necho \"$out\"",
        &["1", "4", "9", "42", "1994", "3999", "0"],
    ),
    (
        "declare -A v=([I]=1 [V]=5 [X]=10 [L]=50 [C]=100 [D]=500 [M]=1000)\ns=$1 total=0\nfor ((i = 0; i < ${#s}; i++)); do\n  a=${v[${s:i:1}]} b=${v[${s:i+1:1}]:-0}\n  ((total += a < b ? -a : a))\ndone\necho $total",
        &["I", "IV", "MCMXCIV", "XLII"],
    ),
    (
        "shift_by=$1; text=$2; out=\nabc=abcdefghijklmnopqrstuvwxyz\nfor ((i = 0; i < ${#text}; i++)); do\n  c=${text:i:1}; p=${abc%%\"${c,}\"*}\n  if [[ $c == [a-z] ]]; then out+=${abc:(${#p} + shift_by) % 26:1}; else out+=$c; fi\ndone\necho \"$out\"",
        &["3 'abc xyz'", "13 hello", "0 same", "25 'b c'"],
    ),
    (
        "n=$1 steps=0\nwhile ((n != 1)); do ((n = n % 2 ? 3 * n + 1 : n / 2, steps++)); done\necho $steps",
        &["1", "2", "7", "27", "97"],
    ),
    (
        "while IFS='=' read -r key value; do\n  key=${key//[[:space:]]/}\n  [[ $key == \\#* || -z $key ]] && continue\n  value=${value#\"${value%%[! ]*}\"}\n  echo \"[$key]=<$value>\"\ndone <<< \"$1\"",
        &["''", "'a=1'", "$'a = 1\\n# c\\n\\nb= two words '", "$'x=y=z\\nnovalue'", "'=empty'"],
    ),
    (
        "while IFS=, read -r -a row; do\n  printf '%d:' ${#row[@]}; printf ' [%s]' \"${row[@]}\"; echo\ndone < <(printf \"$1\")",
        &["''", "'a,b\\n'", "'1,,3\\n,x\\n'", "'one'", "'a b,c\\n'"],
    ),
    (
        "s=$1 out= i=0\nwhile ((i < ${#s})); do\n  c=${s:i:1} n=1\n  while [[ ${s:i+n:1} == \"$c\" ]]; do ((n++)); done\n  out+=$c$n; ((i += n))\ndone\necho $out",
        &["''", "a", "aaabbc", "abab", "'  x'"],
    ),
    (
        "s=$1; declare -A open=([')']='(' [']']='[' ['}']='{'); st=()\nfor ((i = 0; i < ${#s}; i++)); do\n  c=${s:i:1}\n  case $c in\n    [\\(\\[\\{]) st+=(\"$c\");;\n    [\\)\\]\\}]) [[ ${st[-1]-} == \"${open[$c]}\" ]] || { echo \"bad at $i\"; exit 1; }; unset 'st[-1]';;\n  esac\ndone\n((${#st[@]})) && echo unclosed || echo balanced",
        &["''", "'()[]{}'", "'([)]'", "'((('", "'{[()]}x'"],
    ),
    (
        "lo=0 a=({1..50..3}) hi=${#a[@]} want=$1\nwhile ((lo < hi)); do ((mid = (lo + hi) / 2)); if ((a[mid] < want)); then ((lo = mid + 1)); else ((hi = mid)); fi; done\n((a[lo] == want)) && echo \"found at $lo\" || echo missing",
        &["1", "4", "49", "50", "-1", "25"],
    ),
    (
        "n=$1 b=$2 d=0123456789abcdef out=\nwhile ((n > 0)); do out=${d:n % b:1}$out; ((n /= b)); done\necho ${out:-0}",
        &["0 2", "10 2", "255 16", "64 8", "100 3"],
    ),
    (
        "row=(1)\nfor ((r = 0; r < $1; r++)); do\n  echo \"${row[@]}\"; next=(1)\n  for ((i = 1; i < ${#row[@]}; i++)); do next+=($((row[i - 1] + row[i]))); done\n  row=(\"${next[@]}\" 1)\ndone",
        &["0", "1", "5", "8"],
    ),
    (
        "s=${1//[^0-9]/} sum=0\nfor ((i = ${#s} - 1, k = 0; i >= 0; i--, k++)); do\n  ((d = ${s:i:1}, k % 2 && (d *= 2, d > 9) && (d -= 9), sum += d))\ndone\n((sum % 10)) && echo invalid || echo valid",
        &["0", "18", "4539148803436467", "8273123273520569", "'45 39'"],
    ),
    (
        "declare -A seen\nfor w; do\n  k=$(grep -o . <<< \"$w\" | sort | tr -d '\\n')\n  seen[$k]+=\"$w \"\ndone\nfor k in \"${!seen[@]}\"; do echo \"${seen[$k]}\"; done | sort",
        &["", "tea eat ate", "abc cab x", "a b c"],
    ),
    (
        "usage() { echo \"usage: ${0##*/} [-v] [-n N] file...\" >&2; exit 64; }\nv=0 n=1\nwhile getopts :vn: o; do case $o in v) ((v++));; n) n=$OPTARG;; *) usage;; esac; done\nshift $((OPTIND - 1))\n(($#)) || usage\necho \"v=$v n=$n files=$*\"",
        &["", "a", "-v a b", "-vv -n 5 x", "-n", "-z a", "-- -v"],
    ),
    (
        "g=(\"$@\"); h=${#g[@]} w=${#1}\nfor ((y = 0; y < h; y++)); do\n  line=\n  for ((x = 0; x < w; x++)); do\n    n=0\n    for dy in -1 0 1; do for dx in -1 0 1; do\n      ((dx || dy)) || continue\n      ((y + dy >= 0 && y + dy < h && x + dx >= 0)) && [[ ${g[y + dy]:x + dx:1} == '#' ]] && ((n++))\n    done; done\n    if ((n == 3)) || { ((n == 2)) && [[ ${g[y]:x:1} == '#' ]]; }; then line+='#'; else line+=.; fi\n  done\n  echo \"$line\"\ndone",
        &["'...' '###' '...'", "'##.' '##.' '...'", "'#..' '.#.' '..#'"],
    ),
    (
        "y=$1\nif ((y % 400 == 0 || (y % 4 == 0 && y % 100))); then echo leap; else echo common; fi",
        &["1900", "2000", "2023", "2024"],
    ),
    (
        "declare -A memo=([0]=0 [1]=1)\nfib() { local n=$1; [[ -v memo[$n] ]] || { fib $((n - 1)); fib $((n - 2)); memo[$n]=$((memo[$((n - 1))] + memo[$((n - 2))])); }; }\nfib $1; echo ${memo[$1]}",
        &["0", "1", "10", "60"],
    ),
    (
        "perm() {\n  local prefix=$1 rest=$2 i\n  [[ $rest ]] || { echo $prefix; return; }\n  for ((i = 0; i < ${#rest}; i++)); do perm $prefix${rest:i:1} ${rest:0:i}${rest:i+1}; done\n}\nperm '' $1 | wc -l; perm '' $1 | sort -u | head -3",
        &["a", "ab", "abc", "aab"],
    ),
    (
        "log() { printf '%s: %s\\n' \"$1\" \"${*:2}\" >&2; }\ndie() { log error \"$@\"; exit 1; }\n[[ $1 =~ ^[0-9]+$ ]] || die not a number: \"$1\"\nlog info ok; echo $(($1 * 2))",
        &["5", "abc", "''", "007"],
    ),
    (
        "tmp=$(mktemp -d) && cd \"$tmp\" || exit\ntrap 'rm -rf \"$tmp\"' INT\nfor f in \"$@\"; do mkdir -p \"$(dirname \"$f\")\"; echo \"$f\" > \"$f\"; done\nfind . -type f | sort; find . -type f -exec cat {} + | wc -l; rm -rf \"$tmp\"",
        &["", "a", "d/e 'sp ace'", "x/y/z x/w"],
    ),
    (
        "n=0; while read -r line; do ((n++)); case $line in\n  GET\\ *) set -- $line; echo \"$n path=$2\";;\n  *:*) echo \"$n header ${line%%:*} value${line#*:}\";;\n  '') echo \"$n end\"; break;;\n  *) echo \"$n bad\"; esac; done <<< \"$1\"",
        &["$'GET / x\\nHost: h\\n\\nbody'", "'junk'", "$'A: 1\\nB:2'", "''"],
    ),
    (
        "tokens=(); s=$1\nwhile [[ $s ]]; do\n  if [[ $s =~ ^[[:space:]]+ ]]; then :\n  elif [[ $s =~ ^[0-9]+ ]]; then tokens+=(\"N${BASH_REMATCH[0]}\")\n  elif [[ $s =~ ^[a-z]+ ]]; then tokens+=(\"I${BASH_REMATCH[0]}\")\n  else [[ $s =~ ^. ]]; tokens+=(\"O${BASH_REMATCH[0]}\"); fi\n  s=${s:${#BASH_REMATCH[0]}}\ndone\necho \"${#tokens[@]} ${tokens[*]}\"",
        &["''", "'x = 12+y'", "'a1b2'", "'((3))'"],
    ),
    (
        "n=$1; [[ $n ]] || exit 3\nfor ((r = 1; r <= n; r++)); do printf '%*s' $((n - r)) ''; printf '*%.0s' $(seq $((2 * r - 1))); echo; done",
        &["''", "1", "3", "5"],
    ),
    (
        "a=($1) b=($2)\nfor x in \"${a[@]}\"; do [[ \" ${b[*]} \" == *\" $x \"* ]] && both+=(\"$x\") || only+=(\"$x\"); done\necho \"both: ${both[*]}\"; echo \"only: ${only[*]}\"",
        &["'1 2 3' '2 3 4'", "'' 'a'", "'a b' ''", "'x x' x"],
    ),
];

/// Scripts whose EXIT trap cannot fire, because a session does not end with its command. They are in the corpus to show
/// that nothing else about them differs from what we expect, and they are counted apart.
const UNFIRED: &[&str] = &[
    "trap 'echo bye' EXIT; echo hi",
    "f() { trap 'echo from f' EXIT; }; f; echo end",
    "trap 'rm -f t; echo cleaned' 0; touch t; ls t",
];

pub fn add(corpus: &mut Corpus) {
    for (program, inputs) in PROGRAMS {
        for input in *inputs {
            corpus.add("programs", format!("set -- {input}\n{program}"));
        }
        // As a function with its own scope, and fed through a pipe: the same program in another shape.
        let input = inputs[inputs.len() / 2];
        corpus.add("programs", format!("main() {{\n{program}\n}}\nmain {input}; echo \"status $?\""));
        corpus.add("programs", format!("out=$(set -- {input}\n{program}\n); echo \"$? ${{#out}}\"; echo \"$out\""));
        corpus.add("programs", format!("set -euo pipefail\nset -- {input}\n{program}"));
    }
    for script in UNFIRED {
        corpus.add_unfired("exit traps", *script);
    }
}
