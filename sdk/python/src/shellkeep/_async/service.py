"""A command that keeps running."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from .._handle import Handle
from .._http import Request, segment
from ..models import LogEvent, LogResponse, ServiceInfo
from .follow import AsyncFollowed

if TYPE_CHECKING:
    from .session import AsyncSession

#: The longest that one request waits for a service; the daemon's own bound.
LONGEST_WAIT = 300.0


class AsyncService(Handle):
    """A service of a session."""

    def __init__(self, session: AsyncSession, info: ServiceInfo) -> None:
        self._session = session
        #: What was known of it when this handle was made; `refresh` reads it again.
        self.info = info

    @classmethod
    def of(cls, session: AsyncSession, answer: Mapping[str, Any]) -> AsyncService:
        """The service that an answer describes."""
        return cls(session, ServiceInfo.from_json(answer))

    @property
    def id(self) -> str:
        """Its id."""
        return self.info.service_id

    @property
    def _path(self) -> str:
        return f"{self._session.path}/services/{segment(self.id)}"

    async def refresh(self) -> ServiceInfo:
        """Reads again what is known of it."""
        self.info = ServiceInfo.from_json(await self._session.client.get(self._path))
        return self.info

    async def wait_ready(self, timeout: float = 30.0) -> ServiceInfo:
        """Waits until it is ready, has ended, or the time is over."""
        query = {"wait": min(timeout, LONGEST_WAIT)}
        self.info = ServiceInfo.from_json(await self._session.client.get(self._path, query))
        return self.info

    async def logs(
        self, *, offset: int | None = None, limit: int | None = None, tail: int | None = None, grep: str | None = None
    ) -> LogResponse:
        """A part of its log."""
        query = {"offset": offset, "limit": limit, "tail": tail, "grep": grep}
        return LogResponse.from_json(await self._session.client.get(f"{self._path}/logs", query))

    async def follow(self, *, offset: int | None = None, tail: int | None = None) -> AsyncIterator[bytes]:
        """Its log as it comes, until the service ends. A broken connection is made again, as in `events.follow`."""
        query = {"offset": offset, "tail": tail}

        def request() -> Request:
            return Request("GET", f"{self._path}/logs", query, accept="text/event-stream")

        events = AsyncFollowed(self._session.client.wire, request)
        try:
            while True:
                event = await events.next()
                if event.name == "end":
                    return
                if event.name == "log":
                    piece = LogEvent.from_json(event.json())
                    query = {"offset": piece.next_offset}
                    yield base64.b64decode(piece.base64) if piece.base64 else piece.text.encode()
        finally:
            await events.close()

    async def stop(self, grace: float | None = None) -> ServiceInfo:
        """Stops it and everything it started."""
        answer = await self._session.client.post(f"{self._path}/stop", {"grace": grace})
        self.info = ServiceInfo.from_json(answer)
        return self.info
