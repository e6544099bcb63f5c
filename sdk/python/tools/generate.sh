#!/usr/bin/env bash
# Writes models.py from the /openapi.json of a daemon that is started for it, then the sync client from the async one.
set -euo pipefail
cd "$(dirname "$0")/.."
document=$(mktemp)
trap 'rm -f "$document"' EXIT
PYTHONPATH=src python3 - >"$document" <<'PY'
import json
import shellkeep

with shellkeep.Client.local() as client:
    print(json.dumps(client.get("/openapi.json")))
PY
python3 tools/generate_models.py "$document" >src/shellkeep/models.py.new
mv src/shellkeep/models.py.new src/shellkeep/models.py
python3 tools/generate_sync.py
