#!/usr/bin/env bash
# Builds one wheel into dist/: the program and the Python package, for Linux with glibc 2.28 or newer. A session needs
# bash 5.1 as well, which Debian 11, Ubuntu 22.04 and RHEL 9 have. Then checks it, and runs the README's example where
# there is no compiler. zig is the C compiler and linker, because it links for an older glibc than this machine's.
# WHEEL_PROFILE=dev builds without optimisation.
set -euo pipefail
cd "$(dirname "$0")/../../.."
MATURIN=maturin==1.16.0
ZIG=ziglang==0.17.0
FLOOR=2.28

home=target/python/wheel
if [[ ! -e $home/installed || $(<"$home/installed") != "$MATURIN $ZIG" ]]; then
  rm -rf "$home"
  python3 -m venv "$home"
  "$home/bin/pip" install --quiet "$MATURIN" "$ZIG"
  printf '%s' "$MATURIN $ZIG" >"$home/installed"
fi
bin=$PWD/$home/bin

# In a directory of its own, because zig is another compiler than the one that `make test` builds with.
export CARGO_TARGET_DIR=$PWD/target/wheel
mkdir -p dist
rm -f dist/shellkeep-*.whl
# maturin reads pyproject.toml where it runs, and finds zig as a module of the Python beside it.
(
  cd sdk/python
  PATH=$bin:$PATH "$bin/maturin" build --profile "${WHEEL_PROFILE:-release}" --strip --zig \
    --compatibility "manylinux_${FLOOR/./_}" --out ../../dist --locked
)
wheel=$(echo dist/shellkeep-*.whl)
python3 sdk/python/tools/check_wheel.py "$wheel" "$FLOOR"

sdk/python/tools/bare_root.sh "$wheel"
echo "$wheel"
