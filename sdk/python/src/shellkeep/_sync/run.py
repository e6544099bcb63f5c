# Generated from _async by tools/generate_sync.py; do not edit.
"""A command in a session: while it runs, and its output as it comes."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from .._handle import Handle
from .._http import Request, ServerEvent, encode_json, segment
from ..errors import DaemonUnavailable, ShellkeepError
from ..models import OutputResponse
from ..results import Chunk, RunResult, exact, without_cut_character
from .io import sleep, to_the_end
from .wire import PAUSES, EventStream

if TYPE_CHECKING:
    from .session import Session

#: The longest that one request waits for the end of a run; the daemon's own bound.
LONGEST_WAIT = 300.0
#: The pauses in which a request that was sent and abandoned arrives.
ARRIVAL = PAUSES[:3]
#: Seconds in which the daemon answers that it interrupted an abandoned command. A daemon that hangs must not hold a
#: caller who cancels.
FAREWELL = 5.0


class Run(Handle):
    """A command that was started and not waited for. Iterate over it for its output from the beginning."""

    def __init__(self, session: Session, result: RunResult) -> None:
        self._session = session
        #: What was known when it started.
        self.result = result

    @property
    def run_id(self) -> str:
        """Its id."""
        return self.result.run_id

    @property
    def _path(self) -> str:
        return f"{self._session.path}/runs/{segment(self.run_id)}"

    def poll(self, *, max_output: int | None = None) -> RunResult:
        """How it is now, with at most `max_output` bytes of each stream."""
        return self._look(0, max_output)

    def wait(self, timeout: float | None = None) -> RunResult:
        """Waits for its end; after `timeout` seconds the result says `running`."""
        left = timeout
        while True:
            step = LONGEST_WAIT if left is None else min(left, LONGEST_WAIT)
            self.result = self._look(step)
            left = None if left is None else left - step
            if self.result.status != "running" or (left is not None and left <= 0):
                return self.result

    def _look(self, wait: float, max_output: int | None = None) -> RunResult:
        client = self._session.client
        found = RunResult.from_json(client.get(self._path, {"wait": wait, "max_output": max_output}))
        self._session.saw(found.seq)
        return found

    def output(
        self,
        stream: Literal["stdout", "stderr"] = "stdout",
        *,
        offset: int | None = None,
        limit: int | None = None,
        tail: int | None = None,
        grep: str | None = None,
    ) -> OutputResponse:
        """A part of its output: from `offset`, or the last `tail` bytes, or the lines that match `grep`."""
        query = {"stream": stream, "offset": offset, "limit": limit, "tail": tail, "grep": grep}
        return OutputResponse.from_json(self._session.client.get(f"{self._path}/output", query))

    def send(self, data: str | bytes | None = None, *, eof: bool = False) -> None:
        """Sends input to its standard input; `eof` closes it."""
        body: dict[str, Any] = {"eof": eof or None}
        if isinstance(data, bytes):
            body["base64"] = base64.b64encode(data).decode()
        else:
            body["text"] = data
        self._session.client.post(f"{self._path}/input", body)

    def signal(self, name: str = "INT") -> None:
        """Sends a signal to everything that it started in the foreground."""
        self._session.client.post(f"{self._path}/signal", {"signal": name})

    def interrupt(self) -> None:
        """Interrupts it, as Ctrl-C does."""
        self.signal("INT")

    def stream(self) -> RunStream:
        """Its output from the beginning, then as it comes. Closing the stream leaves the command alone."""
        return RunStream(self._session, {}, run_id=self.run_id, interrupt=False)

    def __iter__(self) -> Iterator[Chunk]:
        return self.stream().__iter__()


class RunStream(Handle):
    """The output of a command as it comes; `result` is there after the last piece.

    If the connection breaks, the stream reconnects and continues where it was: the command runs once. A loop over it
    that is left early closes it, unless it was entered with `with`, which closes it at its own end.
    """

    def __init__(
        self, session: Session, body: dict[str, Any], *, interrupt: bool, run_id: str | None = None
    ) -> None:
        self._session = session
        self._body = body
        self._interrupt = interrupt
        #: Whether the run began before this connection, and so may have ended before it too.
        self._is_late = run_id is not None
        #: A run that ended before this connection: the rest of its output is read from what is kept of it.
        self._ended: Run | None = None
        self._events: EventStream | None = None
        self._seen = {"stdout": 0, "stderr": 0}
        self._skip = {"stdout": 0, "stderr": 0}
        self._breaks = 0
        #: Whether it is closed at the end of a `with`, and not of a loop.
        self._is_entered = False
        #: Whether the daemon may have accepted the command.
        self._begun = False
        #: The run's id, once it is known.
        self.run_id = run_id
        self._result: RunResult | None = None

    @property
    def result(self) -> RunResult:
        """What the command did; there once the stream has ended."""
        if self._result is None:
            raise ShellkeepError("still_running", "the command has not ended; read the stream to its end first")
        return self._result

    def __iter__(self) -> Iterator[Chunk]:
        return self if self._is_entered else self._read()

    def _read(self) -> Iterator[Chunk]:
        """All pieces, for a loop: one that is left early closes the stream, since nothing else would."""
        try:
            while (chunk := self._advance()) is not None:
                yield chunk
        finally:
            self.close()

    def __next__(self) -> Chunk:
        chunk = self._advance()
        if chunk is None:
            raise StopIteration
        return chunk

    def _advance(self) -> Chunk | None:
        """The next piece; `None` after the last."""
        while self._result is None:
            try:
                chunk = self._next()
            except DaemonUnavailable:
                self._again()
                continue
            except Exception:
                raise
            except BaseException:
                self.close()
                raise
            if chunk is not None:
                return chunk
        if self._events is not None:
            self._events.close()
            self._events = None
        return None

    def _next(self) -> Chunk | None:
        if self._ended is not None:
            return self._next_kept(self._ended)
        if self._events is None:
            self._events = self._connect()
            self._begun = True
            if self._is_late:
                self._settle(self._events)
                return None
        return self._take(self._next_event(self._events))

    def _connect(self) -> EventStream:
        path = self._session.path
        if self.run_id is None:
            request = Request("POST", f"{path}/run", body=encode_json(self._body), accept="text/event-stream")
        else:
            query = {"max_output": self._body.get("max_output")}
            request = Request("GET", f"{path}/runs/{segment(self.run_id)}", query, accept="text/event-stream")
        try:
            return self._session.client.wire.stream(request)
        except DaemonUnavailable:
            self._begun = self._begun or request.sent
            raise
        except ShellkeepError:
            # The daemon refused it.
            raise
        except BaseException:
            self._begun = self._begun or request.sent
            raise

    def _next_event(self, events: EventStream) -> ServerEvent:
        try:
            return events.__next__()
        except StopIteration:
            raise DaemonUnavailable("connection_broken", "the stream ended before its result") from None

    def _settle(self, events: EventStream) -> None:
        """Checks whether a run from before this connection is still running.

        The stream of one that has ended has only as much output as its result, so the rest is read from what is kept.
        """
        if self.run_id is None:
            # The first event of a stream names the run.
            self._take(self._next_event(events))
        if self.run_id is None:
            return
        run = self._session.get_run(self.run_id)
        if run.result.status != "running":
            self._ended = run
            events.close()
            self._events = None

    def _next_kept(self, run: Run) -> Chunk | None:
        """The next piece of a run that has ended, or its result."""
        names: tuple[Literal["stdout"], Literal["stderr"]] = ("stdout", "stderr")
        for stream in names:
            page = run.output(stream, offset=self._seen[stream])
            found = exact(page.text, page.base64)
            if found:
                # A page may end in the middle of a character, which then begins the next one.
                data = found if page.next_offset >= page.total else without_cut_character(found)
                self._seen[stream] = page.next_offset - (len(found) - len(data))
                return Chunk(stream, data.decode("utf-8", "replace"), data)
        self._finish(run.poll(max_output=self._body.get("max_output")))
        return None

    def _finish(self, result: RunResult) -> None:
        self._result = result
        self.run_id = result.run_id
        self._session.saw(result.seq)

    def _again(self) -> None:
        if self._breaks >= len(PAUSES):
            raise DaemonUnavailable("connection_broken", "the stream broke again and again")
        sleep(PAUSES[self._breaks])
        self._breaks += 1
        self._events = None
        self._is_late = True
        self._skip = dict(self._seen)

    def _take(self, event: ServerEvent) -> Chunk | None:
        data = event.json()
        if event.name == "stdout" or event.name == "stderr":
            self._breaks = 0
            found = exact(data["text"], data.get("base64"))
            skip = min(self._skip[event.name], len(found))
            self._skip[event.name] -= skip
            if skip == len(found):
                return None
            self._seen[event.name] += len(found) - skip
            text = data["text"] if skip == 0 else found[skip:].decode("utf-8", "replace")
            return Chunk("stdout" if event.name == "stdout" else "stderr", text, found[skip:])
        if event.name == "started":
            self.run_id = data["run_id"]
        elif event.name == "result":
            self._finish(RunResult.from_json(data))
        elif event.name == "error" or "code" in data:
            raise ShellkeepError(data.get("code", "stream_failed"), data.get("detail", event.data))
        return None

    def __enter__(self) -> RunStream:
        self._is_entered = True
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops reading. A command that this stream started is interrupted if it still runs."""
        if self._events is not None:
            self._events.close()
            self._events = None
        if self._result is None and self._interrupt and self._begun:
            # Once: a stream that is cancelled is closed, and closed again when it is left.
            self._interrupt = False
            to_the_end(lambda: interrupt_request(self._session, self._body, self.run_id))


def interrupt_request(session: Session, body: dict[str, Any], run_id: str | None = None) -> None:
    """Interrupts the run of an abandoned request; one that waits for its turn is cancelled."""
    # A run whose id is not known yet is found by the request's, also before it has one.
    path = f"{session.path}/runs/{segment(run_id or body['request_id'])}/signal"
    for pause in ARRIVAL:
        sleep(pause)
        try:
            request = Request("POST", path, body=encode_json({"signal": "INT"}), patience=FAREWELL)
            session.client.wire.request(request)
        except ShellkeepError as error:
            if error.code == "run_not_found":
                continue
            # The run has ended in between, or the daemon is gone: there is nothing to interrupt.
        return
