//! Indexed and associative arrays, namerefs, attributes.

use super::Corpus;

const INDEXED: &[&str] = &[
    "a=()",
    "a=(one)",
    "a=(one two three)",
    "a=('a b' '' c)",
    "a=([2]=x [5]=y [0]=z)",
    "a=({1..12})",
    "a[3]=x; a[1]=y",
    "a=(x y z); unset 'a[1]'",
    "a=(x y); a+=(z w)",
    "a=(x); a+=y",
    "declare -a a",
    "declare -ai a=(1+1 2*3)",
    "a=scalar",
    "declare -au a=(lower Mixed)",
    "a=(b d a c b); a[-1]=last",
    "mapfile -t a < <(printf '%s\\n' l1 'l 2' '' l4)",
    "read -ra a <<< 'r1 r2  r3'",
    "IFS=, read -ra a <<< 'c1,c2,,c4'",
    "a=($'n\\nl' $'t\\tb' '*')",
    "a=(-n -e --)",
];

const INDEXED_USES: &[&str] = &[
    "echo ${#a[@]} \"${a[@]}\"",
    "printf '<%s>' \"${a[@]}\"; echo",
    "printf '<%s>' \"${a[*]}\"; echo",
    "echo ${!a[@]}",
    "IFS=,; echo \"${a[*]}\"",
    "for i in \"${!a[@]}\"; do echo \"$i=${a[i]}\"; done",
    "echo \"${a[0]}\" \"${a[-1]}\"",
    "echo \"${a[@]:1}\"; echo \"${a[@]:1:1}\"; echo \"${a[@]: -2}\"",
    "echo \"${a[@]/o/0}\" \"${a[@]#?}\" \"${a[@]^}\"",
    "declare -p a",
    "b=(\"${a[@]}\"); echo ${#b[@]}; b+=(x); echo ${#a[@]} ${#b[@]}",
    "echo \"${a[@]@Q}\"; echo \"${a[*]@A}\"",
    "echo ${#a[0]} ${#a} ${#a[1]}",
    "a[7]=seven; echo ${#a[@]} ${!a[@]}",
    "unset a; echo ${#a[@]} \"${a[@]-none}\"",
    "[[ -v a[1] ]] && echo yes || echo no; [[ -v a[99] ]] || echo no",
    "n=0; for x in \"${a[@]}\"; do ((++n)); done; echo $n",
    "printf '%s\\n' \"${a[@]}\" | sort | tr '\\n' ' '",
    "f() { local -n r=$1; r+=(more); echo ${#r[@]}; }; f a; echo ${#a[@]}",
    "set -- \"${a[@]}\"; echo $# \"$1\"",
    "echo \"${a[@]+set}\" \"${a[@]:+full}\" \"${a-unset}\"",
    "readonly a; (a[0]=x); echo $?",
    "for ((i = ${#a[@]} - 1; i >= 0; i--)); do printf '%s,' \"${a[i]}\"; done; echo",
    "x=${a[@]}; echo \"$x\"; x=$a; echo \"$x\"",
];

const MAPS: &[&str] = &[
    "declare -A m",
    "declare -A m=([a]=1)",
    "declare -A m=([a]=1 [b]=2 [c]=3)",
    "declare -A m=(['two words']='a value' [x]=)",
    "declare -A m; m[k]=v; m[k]+=w",
    "declare -A m; for i in {1..9}; do m[key$i]=$((i * i)); done",
    "declare -A m=(a 1 b 2)",
    "declare -A m=([@]=at ['*']=star [\"]\"]=bracket)",
    "declare -Ai m=([n]=2+3)",
    "declare -A m=([$'n\\nl']=$'t\\tb')",
    "declare -Al m=([K]=UPPER)",
    "declare -A m=([x]=1); unset 'm[x]'; m[y]=2",
];

const MAP_USES: &[&str] = &[
    "echo ${#m[@]}",
    "for k in \"${!m[@]}\"; do echo \"$k=${m[$k]}\"; done | sort",
    "declare -p m",
    "echo \"${m[a]-none}\"",
    "[[ -v m[a] ]] && echo has || echo not",
    "m[new]=x; echo ${#m[@]} ${m[new]}",
    "unset 'm[a]'; echo ${#m[@]}",
    "printf '%s\\n' \"${m[@]}\" | sort",
    "echo \"${m[@]@K}\"",
    "k='two words'; echo \"${m[$k]}\" \"${m['two words']}\"",
    "f() { declare -n r=m; r[inner]=1; }; f; echo ${m[inner]}",
    "(m[sub]=1; echo ${#m[@]}); echo ${#m[@]}",
    "((m[count]++)); ((m[count] += 5)); echo ${m[count]}",
    "eval \"$(declare -p m | sed 's/ m=/ copy=/')\"; echo ${#copy[@]}",
];

const SCRIPTS: &[&str] = &[
    "x=1; declare -n r=x; r=2; echo $x ${!r}; unset -n r; echo ${r-gone} $x",
    "declare -n r=y; r=made; echo $y; declare -p r y",
    "f() { local -n out=$1; out=result; }; f answer; echo $answer",
    "swap() { local -n p=$1 q=$2; local t=$p; p=$q; q=$t; }; a=1 b=2; swap a b; echo $a $b",
    "declare -n r=arr[1]; arr=(a b c); echo $r; r=B; echo ${arr[@]}",
    "declare -n r=r; echo $?",
    "declare -i n=5; n+=3; echo $n; n='2 * 4'; echo $n; n=abc; echo $n",
    "declare -r c=1; c=2; echo $?",
    "declare -r c=1; unset c; echo $? $c",
    "declare -l low=ABC; declare -u up=abc; echo $low $up; low+=DEF; echo $low",
    "declare -x e=1; bash -c 'echo $e'; declare +x e; bash -c 'echo ${e-none}'",
    "export -n e=1; bash -c 'echo ${e-none}'; export e; bash -c 'echo $e'",
    "declare x y=1 z; declare -p x y z; echo ${x-unset}",
    "f() { declare -g g=global; declare l=local; }; f; echo $g ${l-none}",
    "f() { local a=1 b=$a; echo \"[$b]\"; local; }; f",
    "declare -t t=1; declare -p t; typeset -i q=3; echo $q; readonly R=1; readonly -p | grep -c ' R='",
    "a=(1 2 3); echo $((a[0] + a[1] * a[2])) $((a)) $((a[-1]))",
    "a=(c b a); IFS=$'\\n' s=($(sort <<< \"${a[*]}\")); echo ${s[@]}",
    "a=(1 2 3 4 5); echo ${a[@]:1:3} ${a[@]::2}; a=(\"${a[@]:0:2}\" x \"${a[@]:2}\"); echo ${a[@]}",
    "stack=(); stack+=(1); stack+=(2); echo ${stack[-1]}; unset 'stack[-1]'; echo ${#stack[@]}",
    "a=([3]=x); a+=(y); declare -p a; a[${#a[@]}]=z; declare -p a",
    "declare -A a; a[1]=x; a[01]=y; echo ${#a[@]}; declare -a b; b[1]=x; b[01]=y; echo ${#b[@]}",
    "a[1+1]=x; i=2; echo ${a[i]} ${a[i+0]} ${a[$i]}; echo ${a[-5]}; echo $?",
    "a=(x y); a[-3]=z; echo $? ${a[@]}",
    "declare -a a; a=(1 2); declare -A a; echo $?",
    "m=1; declare -A m; m[k]=v; declare -p m",
    "mapfile -t -n 2 a < <(seq 5); echo ${a[@]}; mapfile -t -s 3 a < <(seq 5); echo ${a[@]}",
    "mapfile -t -O 2 a < <(seq 3); echo ${!a[@]}; mapfile a < <(printf 'x\\ny'); echo \"${a[@]@Q}\"",
    "mapfile -d , -t a <<< 'a,b,c'; echo ${#a[@]} \"${a[0]}\"; readarray -t b <<< $'1\\n2'; echo ${b[1]}",
    "cb() { echo \"cb $1 $2\"; }; mapfile -t -C cb -c 2 a < <(seq 5); echo ${#a[@]}",
    "a=(a b c); printf '%s-%s\\n' \"${a[@]}\"; printf '%s\\n' \"${a[@]/%/!}\" \"${a[@]/#/<}\"",
    "words=(apple banana cherry); declare -A len; for w in \"${words[@]}\"; do len[$w]=${#w}; done; for w in \"${words[@]}\"; do echo $w ${len[$w]}; done",
    "matrix=([0]=1 [1]=2 [10]=3 [11]=4); for r in 0 1; do for c in 0 1; do printf '%d ' ${matrix[$r$c]-x}; done; echo; done",
    "shopt -s nullglob; a=(/nonexistent/*); echo ${#a[@]}; shopt -u nullglob; a=(/nonexistent/*); echo ${#a[@]}",
    "f() { local a=(1 2); a+=(3); echo ${a[@]}; }; a=(x); f; echo ${a[@]}",
    "f() { echo ${#1} $#; }; a=(1 2 3); f \"${a[@]}\"; f \"${a[*]}\"; f ${a[@]:1}",
];

pub fn add(corpus: &mut Corpus) {
    for setup in INDEXED {
        for usage in INDEXED_USES {
            corpus.add("arrays", format!("{setup}\n{usage}"));
        }
    }
    for setup in MAPS {
        for usage in MAP_USES {
            corpus.add("maps", format!("{setup}\n{usage}"));
        }
    }
    for script in SCRIPTS {
        corpus.add("variables", *script);
    }
}
