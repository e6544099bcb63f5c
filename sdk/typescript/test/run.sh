#!/usr/bin/env bash
# Generates the types from the program's own /openapi.json, compiles the client, and runs its tests against the built
# program. Where the tools cannot be had this says so and passes; with CI set it fails.
set -euo pipefail
cd "$(dirname "$0")/.."
tree=$(cd ../.. && pwd)
export SHELLKEEP_BIN=${SHELLKEEP_BIN:-$tree/target/debug/shellkeep}

unavailable() {
  echo "the TypeScript client cannot be tested: $1" >&2
  if [[ -n ${CI:-} ]]; then exit 1; fi
  exit 0
}
command -v npm >/dev/null 2>&1 || unavailable "npm is missing"

# Compiled beside the tree, so that the tree stays as it was cloned.
home=$tree/target/typescript
mkdir -p "$home"
cp -r bin package.json src test tsconfig.json "$home"
cd "$home"
if ! cmp -s package.json installed; then
  npm install --silent --no-audit --no-fund --no-package-lock --ignore-scripts --omit=optional \
    || unavailable "npm could not fetch $(node -p 'Object.keys(require("./package.json").devDependencies).join(", ")')"
  cp package.json installed
fi

room=$(mktemp -d "${TMPDIR:-/tmp}/shellkeep-ts-XXXXXX")
daemon=
end() {
  if [[ -n $daemon ]]; then kill "$daemon" 2>/dev/null || true; wait "$daemon" 2>/dev/null || true; fi
  rm -rf "$room"
}
trap end EXIT
export OPENAPI=$room/openapi.json
mkfifo "$room/out"
"$SHELLKEEP_BIN" serve --data "$room/data" --socket "$room/s.sock" --listen 127.0.0.1:0 >"$room/out" 2>"$room/log" &
daemon=$!
read -r _ <"$room/out" || { cat "$room/log" >&2; exit 1; }
node -e 'require("http").get({ socketPath: process.argv[1], path: "/openapi.json" }, (answer) => answer.pipe(process.stdout))' \
  "$room/s.sock" >"$OPENAPI"
npm run --silent generate >"$room/generated" 2>&1 || { cat "$room/generated" >&2; exit 1; }
npm run --silent build
node --test --test-reporter=spec --test-concurrency=1 dist/test/*.test.js
