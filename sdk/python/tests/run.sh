#!/usr/bin/env bash
# Runs the tests of the Python package against target/debug/shellkeep, in an environment under target/python. Types are
# checked meanwhile. The tests of the core run again on the oldest Python that is supported, where it is installed. Where the
# tools cannot be had this says so and passes; with CI set it fails.
set -euo pipefail
cd "$(dirname "$0")/../../.."
package=$PWD/sdk/python
export SHELLKEEP_BIN=${SHELLKEEP_BIN:-$PWD/target/debug/shellkeep}
[[ -x $SHELLKEEP_BIN ]] || { echo "$SHELLKEEP_BIN is missing; build it with cargo build" >&2; exit 1; }

UV=uv==0.13.7

missing() {
  echo "$1" >&2
  [[ -z ${CI:-} ]] || exit 1
  exit 0
}

# environment NAME PYTHON REQUIREMENT…: an environment with these requirements, made anew when they change.
environment() {
  local home=target/python/$1 python=$2
  shift 2
  local wanted
  wanted="$("$python" --version) $(printf '%s ' "$@") $(cat "$package"/tests/requirements*.txt)"
  [[ -e $home/installed && $(<"$home/installed") == "$wanted" ]] && return 0
  rm -rf "$home"
  mkdir -p "$(dirname "$home")"
  # uv, because pip takes four minutes for the frameworks where uv takes half a minute.
  "$python" -m venv "$home" && "$home/bin/pip" install --quiet "$UV" &&
    "$home/bin/uv" pip install --quiet --python "$home/bin/python" "$@" || return 1
  printf '%s' "$wanted" >"$home/installed"
}

# The newest Python there is: frameworks ask for new ones.
newest=
for version in 3.14 3.13 3.12 3.11 3.10; do
  for found in "$(command -v "python$version" || true)" "$HOME"/.pyenv/versions/"$version".*/bin/python3; do
    if [[ -z $newest && -x $found ]] && "$found" -c 'import venv, ensurepip' 2>/dev/null; then newest=$found; fi
  done
done
newest=${newest:-$(command -v python3 || true)}
[[ -n $newest ]] || missing "python3 is missing, so the tests of sdk/python are not run"

requirements=()
for file in "$package"/tests/requirements*.txt; do requirements+=(-r "$file"); done
environment main "$newest" "${requirements[@]}" || missing "the packages of sdk/python/tests cannot be installed"

bin=$PWD/target/python/main/bin
# The frameworks are compiled once, and not into the tree.
export PYTHONPATH=$package/src PYTHONPYCACHEPREFIX=$PWD/target/python/pycache
cd "$package"
report=$(mktemp)
{
  "$bin/mypy" --cache-dir ../../target/python/mypy && "$bin/pyright" --pythonpath "$bin/python" --warnings
} >"$report" 2>&1 &
types=$!
trap 'kill "$types" 2>/dev/null || true; rm -f "$report"' EXIT
status=0
"$bin/python" -m pytest -q -p no:cacheprovider "$@" || status=$?
wait "$types" || status=$?
cat "$report"
((status == 0)) || exit "$status"
cd ../..

oldest=
for found in "$(command -v python3.10 || true)" "$HOME"/.pyenv/versions/3.10.*/bin/python3; do
  if [[ -z $oldest && -x $found ]] && "$found" -c 'import venv, ensurepip' 2>/dev/null; then oldest=$found; fi
done
if [[ -z $oldest || $oldest == "$newest" ]]; then exit 0; fi
pins=$(grep -E '^pytest' "$package/tests/requirements.txt")
# shellcheck disable=SC2086
environment oldest "$oldest" $pins || missing "pytest cannot be installed for $oldest"
cd "$package"
../../target/python/oldest/bin/python -m pytest -q -p no:cacheprovider \
  tests/test_client.py tests/test_async.py tests/test_broken.py tests/test_files.py
