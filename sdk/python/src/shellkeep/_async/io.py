"""Reading and writing with asyncio. `_sync/io.py` has the same names for threads.

Sockets are used without streams and transports, which belong to one event loop: an idle connection serves the next loop,
and nothing is left to be closed when a loop ends.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from .._endpoint import Endpoint
from .._idle import READ_SIZE, Idle

T = TypeVar("T")


class AsyncConnection:
    """One connection to the daemon."""

    __slots__ = ("_is_asked", "raw")

    def __init__(self, raw: socket.socket) -> None:
        self.raw = raw
        #: Whether something was sent since the last bytes came.
        self._is_asked = False

    @classmethod
    async def open(cls, endpoint: Endpoint) -> AsyncConnection:
        if endpoint.socket is not None:
            return cls(await connect(socket.AF_UNIX, endpoint.socket))
        loop = asyncio.get_running_loop()
        failure: OSError = OSError(f"no address for {endpoint.host}")
        for family, _, _, _, address in await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM):
            try:
                raw = await connect(family, address)
            except OSError as error:
                failure = error
                continue
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return cls(raw)
        raise failure

    async def send(self, data: bytes) -> None:
        try:
            sent = self.raw.send(data)
        except BlockingIOError:
            sent = 0
        self._is_asked = True
        if sent < len(data):
            await asyncio.get_running_loop().sock_sendall(self.raw, data[sent:])

    async def receive(self) -> bytes:
        """The next bytes; none at the end."""
        loop = asyncio.get_running_loop()
        if self._is_asked:
            # The answer takes a while, so trying to read at once would be in vain.
            self._is_asked = False
            ready: asyncio.Future[None] = loop.create_future()
            loop.add_reader(self.raw, settle, ready)
            try:
                await ready
            finally:
                loop.remove_reader(self.raw)
        return await loop.sock_recv(self.raw, READ_SIZE)

    def close(self) -> None:
        self.raw.close()


def settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


async def connect(family: int, address: Any) -> socket.socket:
    raw = socket.socket(family, socket.SOCK_STREAM)
    raw.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(raw, address)
    except BaseException:
        raw.close()
        raise
    return raw


class AsyncPool:
    """Connections to one daemon."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._idle = Idle()

    async def take(self) -> AsyncConnection:
        raw = self._idle.take()
        return AsyncConnection(raw) if raw is not None else await AsyncConnection.open(self.endpoint)

    def give(self, connection: AsyncConnection) -> None:
        self._idle.give(connection.raw)

    def close(self) -> None:
        self._idle.close()


async def run_blocking(work: Callable[[], T]) -> T:
    """Does something that blocks, beside the event loop."""
    return await asyncio.to_thread(work)


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def to_the_end(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Does something to its end although this task is being cancelled."""
    await asyncio.shield(asyncio.ensure_future(work()))
