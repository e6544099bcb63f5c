"""What is generated is fresh."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import shellkeep

PACKAGE = Path(__file__).resolve().parent.parent


def test_the_models_are_those_of_the_daemon(client: shellkeep.Client, tmp_path: Path) -> None:
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps(client.get("/openapi.json")), "utf-8")
    tool = PACKAGE / "tools/generate_models.py"
    written = subprocess.run([sys.executable, str(tool), str(document)], capture_output=True, text=True, check=True)
    checked_in = (PACKAGE / "src/shellkeep/models.py").read_text("utf-8")
    assert written.stdout == checked_in, "models.py is stale; run `make python-models` and commit it"


def test_the_sync_client_is_that_of_the_async_one() -> None:
    tool = PACKAGE / "tools/generate_sync.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
