"""Idle connections, for all threads and event loops of a process."""

from __future__ import annotations

import os
import select
import socket
import threading
import weakref

#: Idle connections kept open.
MAX_IDLE = 64
#: Bytes read at a time. Above 128 KiB the allocator asks the kernel for fresh memory each time.
READ_SIZE = 64 * 1024


class Idle:
    """Keeps sockets until they are needed again. They are closed with it, however it ends."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._process = os.getpid()
        weakref.finalize(self, close_all, self._sockets)

    def take(self) -> socket.socket | None:
        """A socket that the daemon has not closed: one that is idle has nothing to read."""
        while True:
            with self._lock:
                if self._process != os.getpid():
                    # A forked process leaves the sockets to its parent and opens its own.
                    self._process = os.getpid()
                    close_all(self._sockets)
                if not self._sockets:
                    return None
                found = self._sockets.pop()
            poll = select.poll()
            poll.register(found, select.POLLIN | select.POLLHUP | select.POLLERR)
            if not poll.poll(0):
                return found
            found.close()

    def give(self, connection: socket.socket) -> None:
        with self._lock:
            if len(self._sockets) < MAX_IDLE:
                self._sockets.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            close_all(self._sockets)


def close_all(sockets: list[socket.socket]) -> None:
    while sockets:
        sockets.pop().close()
