"""The examples of the README and of docs/python run, and print what they say."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import shellkeep

ROOT = Path(__file__).resolve().parents[3]
PAGES = ["sdk/python/README.md", "docs/python/client.md", "docs/python/langgraph.md"]


def stop(data: Path) -> None:
    """Stops the daemon that an example started."""
    with shellkeep.Client(data=data, start=False) as client:
        pid = client.ready().pid
    descriptor = os.pidfd_open(pid)
    os.kill(pid, signal.SIGTERM)
    select.select([descriptor], [], [], 30)
    os.close(descriptor)


@pytest.mark.parametrize("page", PAGES)
def test_examples(page: str, tmp_path: Path) -> None:
    text = (ROOT / page).read_text("utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    data = tmp_path / "data"
    environment = {**os.environ, "SHELLKEEP_DATA": str(data)}
    for name in ("SHELLKEEP_URL", "SHELLKEEP_SOCKET", "SHELLKEEP_TOKEN"):
        environment.pop(name, None)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    stop(data)
    assert done.returncode == 0, done.stderr
    printed = [line for line in done.stdout.splitlines() if line]
    for wanted in re.findall(r"# prints: (.*)", code):
        assert wanted in printed, (wanted, printed)
