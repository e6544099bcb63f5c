#!/usr/bin/env bash
# Fetches what the tests of the console drive a browser with, into target/console-tools: playwright-core, which uses the
# chromium that is installed, and axe-core. Versions are pinned here. Does nothing when they are there already.
set -euo pipefail
cd "$(dirname "$0")/../../../.."

PLAYWRIGHT=playwright-core@1.65.0
AXE=axe-core@4.14.0

home=target/console-tools
wanted="$PLAYWRIGHT $AXE"
if [[ -e $home/installed && $(<"$home/installed") == "$wanted" ]]; then exit 0; fi
mkdir -p "$home"

# The tests say why they were skipped, with these words.
unavailable() {
  echo "$1" >"$home/unavailable"
  echo "the tools that test the console are not available: $1" >&2
  exit 1
}

command -v npm >/dev/null 2>&1 || unavailable "npm is missing"
command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 \
  || unavailable "chromium is missing"
npm install --prefix "$home" --silent --no-audit --no-fund --ignore-scripts "$PLAYWRIGHT" "$AXE" \
  || unavailable "npm could not fetch $PLAYWRIGHT and $AXE"
rm -f "$home/unavailable"
echo "$wanted" >"$home/installed"
