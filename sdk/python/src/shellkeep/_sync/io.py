"""Reading and writing with sockets that block. `_async/io.py` has the same names for asyncio."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import TypeVar

from .._endpoint import CONNECT_TIMEOUT, Endpoint
from .._idle import READ_SIZE, Idle

T = TypeVar("T")


class Connection:
    """One connection to the daemon."""

    __slots__ = ("raw",)

    def __init__(self, raw: socket.socket) -> None:
        self.raw = raw

    @classmethod
    def open(cls, endpoint: Endpoint, patience: float | None = None) -> Connection:
        if endpoint.socket is None:
            raw = socket.create_connection((endpoint.host, endpoint.port), patience or CONNECT_TIMEOUT)
            raw.settimeout(None)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return cls(raw)
        raw = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            raw.connect(endpoint.socket)
        except BaseException:
            raw.close()
            raise
        return cls(raw)

    def limit(self, patience: float) -> None:
        """Makes each step raise `TimeoutError` after so many seconds."""
        self.raw.settimeout(patience)

    def send(self, data: bytes) -> None:
        self.raw.sendall(data)

    def receive(self) -> bytes:
        """The next bytes; none at the end."""
        return self.raw.recv(READ_SIZE)

    def close(self) -> None:
        self.raw.close()


class Pool:
    """Connections to one daemon."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._idle: Idle[Connection] = Idle()

    def take(self, patience: float | None = None) -> Connection:
        return self._idle.take() or Connection.open(self.endpoint, patience)

    def give(self, connection: Connection) -> None:
        self._idle.give(connection)

    def close(self) -> None:
        self._idle.close()


def run_blocking(work: Callable[[], T]) -> T:
    """Does something that blocks."""
    return work()


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def to_the_end(work: Callable[[], None]) -> None:
    """Does something to its end although this thread is being interrupted."""
    work()
