"""One daemon for all tests; each test has sessions of its own."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

import shellkeep

ROOT = Path(__file__).resolve().parents[3]
os.environ.setdefault("SHELLKEEP_BIN", str(ROOT / "target/debug/shellkeep"))
# The tests of frameworks use the fake model of the examples.
sys.path.insert(0, str(ROOT / "sdk/python/examples"))


@pytest.fixture(scope="session")
def daemon() -> Iterator[shellkeep.Client]:
    with shellkeep.Client.local() as client:
        yield client


@pytest.fixture
def client(daemon: shellkeep.Client) -> shellkeep.Client:
    return daemon


@pytest.fixture
def session(client: shellkeep.Client) -> Iterator[shellkeep.Session]:
    with client.session(f"t-{uuid.uuid4().hex[:12]}") as session:
        yield session
        session.delete()


@pytest.fixture
async def aclient(daemon: shellkeep.Client) -> AsyncIterator[shellkeep.AsyncClient]:
    assert daemon.daemon is not None
    async with shellkeep.AsyncClient(socket=daemon.daemon.socket) as client:
        yield client


@pytest.fixture
async def asession(aclient: shellkeep.AsyncClient) -> AsyncIterator[shellkeep.AsyncSession]:
    async with aclient.session(f"t-{uuid.uuid4().hex[:12]}") as session:
        yield session
        await session.delete()


@pytest.fixture
def own_client() -> Iterator[shellkeep.Client]:
    """A daemon for one test, which may kill it."""
    with shellkeep.Client.local() as client:
        yield client


@pytest.fixture
def frozen(own_client: shellkeep.Client) -> Iterator[Callable[[], None]]:
    """Freezes the daemon of `own_client` when it is called. It does not go on after that."""
    daemon = own_client.daemon
    assert daemon is not None
    yield lambda: os.kill(daemon.pid, signal.SIGSTOP)
    daemon.kill()


@pytest.fixture
def thread() -> str:
    """The id of a framework's thread, and of its session."""
    return f"thread-{uuid.uuid4().hex[:12]}"
