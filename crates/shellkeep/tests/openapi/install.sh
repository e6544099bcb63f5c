#!/usr/bin/env bash
# Fetches schemathesis, which calls every route as /openapi.json describes it, for the test in main.rs, into
# target/schemathesis. The version is pinned here. Does nothing when it is there already.
set -euo pipefail
cd "$(dirname "$0")/../../../.."

SCHEMATHESIS=schemathesis==4.32.5

home=target/schemathesis
if [[ -e $home/installed && $(<"$home/installed") == "$SCHEMATHESIS" ]]; then exit 0; fi
mkdir -p "$home"

# The test says why it was skipped, with these words.
unavailable() {
  echo "$1" >"$home/unavailable"
  echo "schemathesis cannot be had: $1" >&2
  exit 1
}

command -v python3 >/dev/null 2>&1 || unavailable "python3 is missing"
[[ -x $home/venv/bin/pip ]] || python3 -m venv "$home/venv" || unavailable "python3 has no venv"
"$home/venv/bin/pip" install --quiet --disable-pip-version-check "$SCHEMATHESIS" || unavailable "pip could not fetch $SCHEMATHESIS"
rm -f "$home/unavailable"
echo "$SCHEMATHESIS" >"$home/installed"
