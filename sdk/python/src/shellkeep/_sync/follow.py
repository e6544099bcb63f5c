# Generated from _async by tools/generate_sync.py; do not edit.
"""Events that are followed: a stream that goes on where it was after its connection broke."""

from __future__ import annotations

from collections.abc import Callable

from .._http import Request, ServerEvent
from ..errors import DaemonUnavailable, ShellkeepError, from_problem
from .io import sleep
from .wire import LONGEST_PAUSE, PASSING, PAUSES, EventStream, Wire


class Followed:
    """A stream without an end. `request` says from where to go on, and is asked again for each connection."""

    def __init__(self, wire: Wire, request: Callable[[], Request]) -> None:
        self._wire = wire
        self._request = request
        self._events: EventStream | None = None
        #: Whether the daemon has ever answered; one that has may come back.
        self._met = False
        self._breaks = 0

    def next(self) -> ServerEvent:
        """The next event. Raises what the daemon says, and `DaemonUnavailable` if it does not come back."""
        while True:
            try:
                event = self._next()
            except ShellkeepError as error:
                self.close()
                passes = isinstance(error, DaemonUnavailable) or error.code in PASSING
                if not passes or not self._met or self._breaks >= len(PAUSES):
                    raise
                sleep(min(max(PAUSES[self._breaks], error.retry_after or 0.0), LONGEST_PAUSE))
                self._breaks += 1
                continue
            self._breaks = 0
            return event

    def _next(self) -> ServerEvent:
        if self._events is None:
            self._events = self._wire.stream(self._request())
            self._met = True
        try:
            event = self._events.__next__()
        except StopIteration:
            raise DaemonUnavailable("connection_broken", "the daemon ended the stream") from None
        if event.name == "error":
            raise from_problem(event.json().get("status", 0), event.data.encode())
        return event

    def close(self) -> None:
        """Hangs up."""
        if self._events is not None:
            self._events.close()
            self._events = None
