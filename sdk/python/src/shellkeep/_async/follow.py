"""Events that are followed: a stream that goes on where it was after its connection broke."""

from __future__ import annotations

from collections.abc import Callable

from .._http import Request, ServerEvent
from ..errors import DaemonUnavailable, ShellkeepError, from_problem
from .io import sleep
from .wire import LONGEST_PAUSE, PASSING, PAUSES, AsyncEventStream, AsyncWire


class AsyncFollowed:
    """A stream without an end. `request` says from where to go on, and is asked again for each connection."""

    def __init__(self, wire: AsyncWire, request: Callable[[], Request]) -> None:
        self._wire = wire
        self._request = request
        self._events: AsyncEventStream | None = None
        #: Whether the daemon has ever answered; one that has may come back.
        self._met = False
        self._breaks = 0

    async def next(self) -> ServerEvent:
        """The next event. Raises what the daemon says, and `DaemonUnavailable` if it does not come back."""
        while True:
            try:
                event = await self._next()
            except ShellkeepError as error:
                await self.close()
                passes = isinstance(error, DaemonUnavailable) or error.code in PASSING
                if not passes or not self._met or self._breaks >= len(PAUSES):
                    raise
                await sleep(min(max(PAUSES[self._breaks], error.retry_after or 0.0), LONGEST_PAUSE))
                self._breaks += 1
                continue
            self._breaks = 0
            return event

    async def _next(self) -> ServerEvent:
        if self._events is None:
            self._events = await self._wire.stream(self._request())
            self._met = True
        try:
            event = await self._events.__anext__()
        except StopAsyncIteration:
            raise DaemonUnavailable("connection_broken", "the daemon ended the stream") from None
        if event.name == "error":
            raise from_problem(event.json().get("status", 0), event.data.encode())
        return event

    async def close(self) -> None:
        """Hangs up."""
        if self._events is not None:
            await self._events.close()
            self._events = None
