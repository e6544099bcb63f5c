#!/usr/bin/env bash
# Builds one wheel into dist/: the program and the Python package, for Linux with glibc 2.31 or newer (Debian 11, RHEL 9,
# Ubuntu 20.04; the spawning of shells uses calls of glibc 2.29 and 2.30), then checks it and installs it into an empty
# environment. zig is the C compiler and linker, because it links for an older glibc than this machine's.
# WHEEL_PROFILE=dev builds without optimisation.
set -euo pipefail
cd "$(dirname "$0")/../../.."
MATURIN=maturin==1.16.0
ZIG=ziglang==0.17.0
FLOOR=2.31

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

empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT
python3 -m venv "$empty/venv"
"$empty/venv/bin/pip" install --quiet --no-deps --no-index "$wheel"
# The example of the README, with nothing but the environment: no compiler, no shellkeep in PATH.
env -i HOME="$empty" PATH=/usr/bin:/bin "$empty/venv/bin/python" sdk/python/tools/readme_example.py
env -i HOME="$empty" PATH=/usr/bin:/bin "$empty/venv/bin/shellkeep" --version
echo "$wheel"
