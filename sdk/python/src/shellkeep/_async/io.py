"""Reading and writing with asyncio. `_sync/io.py` has the same names for threads.

Sockets are used without streams and transports, which cost more than the daemon's own work. A connection stays
registered with its event loop while it is idle, because registering it for each answer costs as much as reading it. One
that is idle when its loop ends serves the next loop.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from .._endpoint import CONNECT_TIMEOUT, Endpoint
from .._idle import READ_SIZE, Idle

T = TypeVar("T")


class AsyncConnection:
    """One connection to the daemon, used by one event loop."""

    __slots__ = ("_is_watched", "_patience", "_waiter", "loop", "raw")

    def __init__(self, raw: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        self.raw = raw
        self.loop = loop
        #: Whether the loop calls when there is something to read.
        self._is_watched = False
        #: The reader that waits for the next bytes.
        self._waiter: asyncio.Future[bytes] | None = None
        #: Seconds that each step may take.
        self._patience: float | None = None

    @classmethod
    async def open(
        cls, endpoint: Endpoint, loop: asyncio.AbstractEventLoop, patience: float | None = None
    ) -> AsyncConnection:
        if endpoint.socket is not None:
            return cls(await connect(socket.AF_UNIX, endpoint.socket), loop)
        failure: OSError = OSError(f"no address for {endpoint.host}")
        for family, _, _, _, address in await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM):
            try:
                raw = await within(patience or CONNECT_TIMEOUT, connect(family, address))
            except OSError as error:
                failure = error
                continue
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return cls(raw, loop)
        raise failure

    def limit(self, patience: float) -> None:
        """Makes each step raise `TimeoutError` after so many seconds."""
        self._patience = patience

    async def send(self, data: bytes) -> None:
        try:
            sent = self.raw.send(data)
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            await within(self._patience, self.loop.sock_sendall(self.raw, data[sent:]))

    async def receive(self) -> bytes:
        """The next bytes; none at the end."""
        if not self._is_watched:
            self.loop.add_reader(self.raw, self._on_readable)
            self._is_watched = True
        self._waiter = self.loop.create_future()
        try:
            return await (self._waiter if self._patience is None else within(self._patience, self._waiter))
        finally:
            self._waiter = None

    def _on_readable(self) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():
            # Nobody reads: the bytes stay in the kernel, so that a slow reader slows the daemon down.
            self._unwatch()
            return
        try:
            data = self.raw.recv(READ_SIZE)
        except BlockingIOError:
            return
        except OSError as error:
            waiter.set_exception(error)
            return
        waiter.set_result(data)

    def _unwatch(self) -> None:
        if self._is_watched:
            self._is_watched = False
            self.loop.remove_reader(self.raw)

    def close(self) -> None:
        """Ends it, from any thread: a loop must not keep the number of a closed socket."""
        if self.loop.is_closed() or not self._is_watched:
            self.raw.close()
        elif not self.loop.is_running() or is_running_here(self.loop):
            self._unwatch()
            self.raw.close()
        else:
            self.loop.call_soon_threadsafe(self.close)


async def within(seconds: float | None, work: Awaitable[T]) -> T:
    """Waits for something for so many seconds; `None` is for ever."""
    if seconds is None:
        return await work
    try:
        return await asyncio.wait_for(work, seconds)
    except asyncio.TimeoutError:
        # Before Python 3.11 this is another class, and no `OSError`.
        raise TimeoutError("timed out") from None


def is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


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
    """Connections to one daemon, for each event loop its own."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._idle: dict[asyncio.AbstractEventLoop, Idle[AsyncConnection]] = {}
        self._lock = threading.Lock()

    async def take(self, patience: float | None = None) -> AsyncConnection:
        loop = asyncio.get_running_loop()
        idle = self._idle.get(loop) or self._meet(loop)
        return idle.take() or await AsyncConnection.open(self.endpoint, loop, patience)

    def _meet(self, loop: asyncio.AbstractEventLoop) -> Idle[AsyncConnection]:
        """Begins to serve a loop, with the connections of loops that have ended."""
        idle: Idle[AsyncConnection] = Idle()
        with self._lock:
            for other in [other for other in self._idle if other.is_closed()]:
                ended = self._idle.pop(other)
                while (left := ended.take()) is not None:
                    idle.give(AsyncConnection(left.raw, loop))
            self._idle[loop] = idle
        return idle

    def give(self, connection: AsyncConnection) -> None:
        self._idle[connection.loop].give(connection)

    def close(self) -> None:
        with self._lock:
            for idle in self._idle.values():
                idle.close()


async def run_blocking(work: Callable[[], T]) -> T:
    """Does something that blocks, beside the event loop."""
    return await asyncio.to_thread(work)


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def to_the_end(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Does something to its end although this task is being cancelled."""
    await asyncio.shield(asyncio.ensure_future(work()))
