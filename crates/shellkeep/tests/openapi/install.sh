#!/usr/bin/env bash
# Fetches schemathesis, which calls every route as /openapi.json describes it, for the test in main.rs, into
# target/schemathesis. The version is pinned here. Does nothing when it is there already.
set -euo pipefail
cd "$(dirname "$0")/../../../.."
source crates/shellkeep/tests/support/tools.sh

SCHEMATHESIS=schemathesis==4.32.5

tools schemathesis "schemathesis" "$SCHEMATHESIS"
with_pip "$SCHEMATHESIS"
complete
