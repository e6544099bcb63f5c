"""What the tests of frameworks share, and the path to the fake model of the examples."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import shellkeep

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))


@pytest.fixture
def own_client() -> Iterator[shellkeep.Client]:
    """A daemon for one test, which may kill it."""
    with shellkeep.Client.local() as local:
        yield local


@pytest.fixture
def thread() -> str:
    return f"thread-{uuid.uuid4().hex[:12]}"
