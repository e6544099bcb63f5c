#!/usr/bin/env bash
# Generates the types from the program's own /openapi.json, compiles the client, and runs its tests against the built
# program. Then packs client and program, installs both where nothing else is, and runs the README's example there. Where the tools cannot be had this says so and passes; with CI set it fails.
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

# As npm installs them: the program is found through the optional package, and by nothing else.
"$tree/sdk/typescript/tools/pack.sh" "$SHELLKEEP_BIN" "$room/packed" >/dev/null
mkdir "$room/app"
cd "$room/app"
npm init --yes >/dev/null
npm install --silent --offline --no-audit --no-fund "$room"/packed/*.tgz
awk '/^```ts/ { shown = 1; next } /^```/ { shown = 0 } shown' "$tree/sdk/typescript/README.md" >example.mjs
printf 'console.log(stdout.trim(), exit_code);\nclient.close();\n' >>example.mjs
alone() { env -i HOME="$room" PATH="$(dirname "$(command -v node)"):/usr/bin:/bin" SHELLKEEP_DATA="$room/alone" "$@"; }
printed=$(alone node example.mjs 2>/dev/null)
alone node_modules/.bin/shellkeep stop >/dev/null
[[ $printed == "ann in /tmp 3" ]] || { echo "the README's example printed: $printed" >&2; exit 1; }
echo "the packed client and program run the README's example"
