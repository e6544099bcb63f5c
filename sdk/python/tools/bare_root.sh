#!/usr/bin/env bash
# Installs a wheel into an empty environment inside a root that has Python, bash and coreutils and nothing else, above all
# no compiler, and runs the README's example there.
#
# Usage: bare_root.sh WHEEL
set -euo pipefail
tools=$(cd "$(dirname "$0")" && pwd)
wheel=$(realpath "$1")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

# add FILE…: copies programs or libraries, with the libraries that they load, to the same paths below the root.
add() {
  cp --parents --dereference "$@" "$root"
  ldd "$@" 2>/dev/null | grep -o '/[^ ]*' | grep -v ':$' | sort -u |
    xargs -r cp --parents --dereference -t "$root"
}

mkdir -p "$root"/{bin,usr/bin,proc,dev,tmp,root}
add /bin/bash
# glibc is one package with these; a program may load any of them.
glibc=$(dirname "$(ldd /bin/bash | grep -o '/[^ ]*libc\.so\.6')")
for name in libpthread.so.0 libdl.so.2 librt.so.1 libutil.so.1 libm.so.6; do
  [[ ! -e $glibc/$name ]] || add "$glibc/$name"
done
for name in cat chmod cp date echo env ls mkdir mv pwd rm seq sleep sort true uname wc; do add "/usr/bin/$name"; done
ln -sf bash "$root/bin/sh"
[[ -e $root/usr/bin/env ]] || { echo "coreutils are expected in /usr/bin" >&2; exit 1; }

# Python without its own tests and without what is for building with it.
python=$(python3 -c 'import sys; print(getattr(sys, "_base_executable", sys.executable))')
python=$(realpath "$python")
library=$("$python" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
add "$python"
tar -C / --exclude='*/test' --exclude='*/config-*' --exclude='*/site-packages' --exclude='*/__pycache__' \
  -cf - "${library#/}" | tar -C "$root" -xf -
find "$library/lib-dynload" -name '*.so' -print0 | xargs -0 ldd 2>/dev/null | grep -o '/[^ ]* (' | tr -d ' (' | sort -u |
  xargs -r cp --parents --dereference -t "$root"

cp "$wheel" "$root/tmp"
mkdir -p "$root/package/tools"
cp "$tools/readme_example.py" "$root/package/tools"
cp "$tools/../README.md" "$root/package"
cat >"$root/check.sh" <<'EOF'
set -euo pipefail
for name in cc gcc clang tcc zig ld as cargo rustc make; do
  ! command -v "$name" || { echo "the root has a compiler: $name" >&2; exit 1; }
done
"$1" -m venv /venv
/venv/bin/pip install --quiet --no-deps --no-index /tmp/*.whl
/venv/bin/python /package/tools/readme_example.py
/venv/bin/shellkeep --version
EOF

# A namespace of processes: whatever the example leaves behind ends with it.
is_root=()
[[ $(id -u) == 0 ]] || is_root=(--user --map-root-user)
unshare "${is_root[@]}" --mount --pid --fork bash -euc '
  mount -t proc proc "$1/proc"
  mount --rbind /dev "$1/dev"
  exec chroot "$1" /usr/bin/env -i HOME=/root PATH=/usr/bin:/bin bash /check.sh "$2"
' bare_root "$root" "$python"
