"""Idle connections, to be used again."""

from __future__ import annotations

import os
import select
import socket
import threading
import weakref
from typing import Generic, Protocol, TypeVar

#: Idle connections kept open.
MAX_IDLE = 64
#: Bytes read at a time. Above 128 KiB the allocator asks the kernel for fresh memory each time.
READ_SIZE = 64 * 1024


class Pooled(Protocol):
    """A connection, whichever way it is read."""

    @property
    def raw(self) -> socket.socket:
        """Its socket."""
        ...

    def close(self) -> None:
        """Ends it."""


C = TypeVar("C", bound=Pooled)


class Idle(Generic[C]):
    """Keeps connections until they are needed again. They are closed with it, however it ends."""

    def __init__(self) -> None:
        self._connections: list[C] = []
        self._lock = threading.Lock()
        #: The process that made it.
        self.process = os.getpid()
        weakref.finalize(self, close_all, self._connections, self.process)

    def take(self) -> C | None:
        """A connection that the daemon has not closed: one that is idle has nothing to read."""
        while True:
            with self._lock:
                if self.process != os.getpid():
                    close_all(self._connections, self.process)
                    self.process = os.getpid()
                if not self._connections:
                    return None
                found = self._connections.pop()
            poll = select.poll()
            poll.register(found.raw, select.POLLIN | select.POLLHUP | select.POLLERR)
            if not poll.poll(0):
                return found
            found.close()

    def give(self, connection: C) -> None:
        with self._lock:
            if len(self._connections) < MAX_IDLE:
                self._connections.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            close_all(self._connections, self.process)


def close_all(connections: list[C], process: int) -> None:
    """Closes the connections of a process. A forked one only lets go of them: they are its parent's."""
    while connections:
        connection = connections.pop()
        if process == os.getpid():
            connection.close()
        else:
            connection.raw.close()
