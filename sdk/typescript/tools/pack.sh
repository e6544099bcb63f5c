#!/usr/bin/env bash
# Packs the Node client that `make typescript` compiled, and the program for this platform as the package that the client
# names among its optional dependencies, into a directory.
#
# Usage: pack.sh PROGRAM DIRECTORY
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
program=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
compiled=$here/../../target/typescript
[[ -e $compiled/dist/src/index.js ]] || { echo "the client is not compiled; run make typescript" >&2; exit 1; }

room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
platform=$(node -p '`cli-${process.platform}-${process.arch}`')
[[ -d $here/npm/$platform ]] || { echo "there is no package for $platform" >&2; exit 1; }
cp "$here/npm/$platform/package.json" "$room"
strip -o "$room/shellkeep" "$program"
(cd "$room" && npm pack --silent --pack-destination "$out")
(cd "$compiled" && npm pack --silent --ignore-scripts --pack-destination "$out")
