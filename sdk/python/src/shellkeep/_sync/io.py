"""Reading and writing with sockets that block. `_async/io.py` has the same names for asyncio."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from .._endpoint import Endpoint

T = TypeVar("T")

#: Bytes read at a time.
READ_SIZE = 256 * 1024
#: Connections kept open while nobody uses them.
MAX_IDLE = 64


class Connection:
    """One connection to the daemon."""

    __slots__ = ("_poll", "_socket")

    def __init__(self, raw: socket.socket) -> None:
        self._socket = raw
        self._poll = select.poll()
        self._poll.register(raw, select.POLLIN | select.POLLHUP | select.POLLERR)

    @classmethod
    def open(cls, endpoint: Endpoint) -> Connection:
        if endpoint.socket is not None:
            raw = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                raw.connect(endpoint.socket)
            except BaseException:
                raw.close()
                raise
        else:
            raw = socket.create_connection((endpoint.host, endpoint.port))
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return cls(raw)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> bytes:
        """The next bytes; none at the end."""
        return self._socket.recv(READ_SIZE)

    def is_usable(self) -> bool:
        """Whether the daemon has not closed it while it was idle: an idle connection has nothing to read."""
        return not self._poll.poll(0)

    def close(self) -> None:
        self._socket.close()


class Pool:
    """Idle connections, for all threads. A forked process opens its own."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    def take(self) -> Connection:
        while True:
            with self._lock:
                if self._process != os.getpid():
                    # The parent uses these connections.
                    self._idle.clear()
                    self._process = os.getpid()
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return Connection.open(self.endpoint)
            if connection.is_usable():
                return connection
            connection.close()

    def give(self, connection: Connection) -> None:
        with self._lock:
            if len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def run_blocking(work: Callable[[], T]) -> T:
    """Does something that blocks."""
    return work()


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def to_the_end(work: Callable[[], None]) -> None:
    """Does something to its end although this thread is being interrupted."""
    work()
