"""Each example runs as it is shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py") if path.name != "fake_model.py"))
def test_an_example_runs(name: str) -> None:
    done = subprocess.run([sys.executable, name], cwd=EXAMPLES, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "LOST" not in done.stdout
