#!/usr/bin/env bash
# Fetches what the tests of the console drive a browser with, into target/console-tools: playwright-core, which uses the
# chromium that is installed, and axe-core. Versions are pinned here. Does nothing when they are there already.
set -euo pipefail
cd "$(dirname "$0")/../../../.."
source crates/shellkeep/tests/support/tools.sh

PLAYWRIGHT=playwright-core@1.65.0
AXE=axe-core@4.14.0

tools console-tools "the tools that test the console" "$PLAYWRIGHT $AXE"
command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 \
  || unavailable "chromium is missing"
with_npm "$PLAYWRIGHT" "$AXE"
complete
