"""Reading and writing with asyncio. `_sync/io.py` has the same names for threads."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from .._endpoint import Endpoint

T = TypeVar("T")

#: Bytes read at a time.
READ_SIZE = 256 * 1024
#: Connections kept open while nobody uses them.
MAX_IDLE = 64


class AsyncConnection:
    """One connection to the daemon."""

    __slots__ = ("_reader", "_writer")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, endpoint: Endpoint) -> AsyncConnection:
        if endpoint.socket is not None:
            reader, writer = await asyncio.open_unix_connection(endpoint.socket, limit=READ_SIZE)
        else:
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port, limit=READ_SIZE)
            raw = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return cls(reader, writer)

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        # Small requests are sent at once; waiting is for those that fill the buffer.
        if len(data) > READ_SIZE:
            await self._writer.drain()

    async def receive(self) -> bytes:
        """The next bytes; none at the end."""
        return await self._reader.read(READ_SIZE)

    def is_usable(self) -> bool:
        """Whether the daemon has not closed it while it was idle."""
        return not self._reader.at_eof() and not self._writer.is_closing() and self._reader.exception() is None

    def close(self) -> None:
        self._writer.transport.abort()


class AsyncPool:
    """Idle connections. An event loop uses only its own."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._idle: WeakKeyDictionary[asyncio.AbstractEventLoop, list[AsyncConnection]] = WeakKeyDictionary()
        self._ends: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncGenerator[None, None]] = WeakKeyDictionary()

    async def take(self) -> AsyncConnection:
        loop = asyncio.get_running_loop()
        idle = self._idle.get(loop)
        if idle is None:
            idle = self._idle[loop] = []
            # A loop that ends closes its generators, and this one closes the loop's connections.
            self._ends[loop] = _until_the_end(idle)
            await self._ends[loop].__anext__()
        while idle:
            connection = idle.pop()
            if connection.is_usable():
                return connection
            connection.close()
        return await AsyncConnection.open(self.endpoint)

    def give(self, connection: AsyncConnection) -> None:
        idle = self._idle.setdefault(asyncio.get_running_loop(), [])
        if len(idle) < MAX_IDLE:
            idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        for loop, idle in self._idle.items():
            for connection in idle:
                if loop is running:
                    connection.close()
                elif not loop.is_closed():
                    loop.call_soon_threadsafe(connection.close)
        self._idle.clear()


async def _until_the_end(idle: list[AsyncConnection]) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        while idle:
            idle.pop().close()


async def run_blocking(work: Callable[[], T]) -> T:
    """Does something that blocks, beside the event loop."""
    return await asyncio.to_thread(work)


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def to_the_end(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Does something to its end although this task is being cancelled."""
    await asyncio.shield(asyncio.ensure_future(work()))
