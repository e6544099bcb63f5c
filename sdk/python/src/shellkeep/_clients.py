"""One daemon, for code that is called with and without `await`."""

from __future__ import annotations

import threading

from ._async.client import AsyncClient
from ._handle import Handle
from ._sync.client import Client


class Clients(Handle):
    """The client that was given, and its twin for the other kind of code. Without one, that of the command line."""

    def __init__(self, client: Client | AsyncClient | None) -> None:
        self._lock = threading.Lock()
        self._sync = client if isinstance(client, Client) else None
        self._async = client if isinstance(client, AsyncClient) else None
        self._given = client

    @property
    def sync(self) -> Client:
        """The client for code without `await`."""
        with self._lock:
            if self._sync is None:
                self._sync = Client() if self._async is None else Client.on(self._async.wire.endpoint)
            return self._sync

    @property
    def awaited(self) -> AsyncClient:
        """The client for code with `await`. It can be used from any event loop."""
        with self._lock:
            if self._async is None:
                self._async = AsyncClient() if self._sync is None else AsyncClient.on(self._sync.wire.endpoint)
            return self._async

    def close(self) -> None:
        """Closes the connections of what was made here; a client that was given stays open."""
        if self._sync is not None and self._sync is not self._given:
            self._sync.close()

    async def aclose(self) -> None:
        """Closes the connections of what was made here; a client that was given stays open."""
        self.close()
        if self._async is not None and self._async is not self._given:
            await self._async.close()
