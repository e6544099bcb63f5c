"""One at a time: the same for threads and for tasks of any event loop."""

from __future__ import annotations

import asyncio
import threading
from weakref import WeakKeyDictionary


class Gate:
    """Lets one thread through at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *exception: object) -> None:
        self._lock.release()


class AsyncGate:
    """Lets one task of an event loop through at a time."""

    def __init__(self) -> None:
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    def _lock(self) -> asyncio.Lock:
        return self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())

    async def __aenter__(self) -> None:
        await self._lock().acquire()

    async def __aexit__(self, *exception: object) -> None:
        self._lock().release()
