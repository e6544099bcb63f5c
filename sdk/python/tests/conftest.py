"""One daemon for all tests; each test has sessions of its own."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import shellkeep

ROOT = Path(__file__).resolve().parents[3]
os.environ.setdefault("SHELLKEEP_BIN", str(ROOT / "target/debug/shellkeep"))


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
