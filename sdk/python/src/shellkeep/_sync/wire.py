# Generated from _async by tools/generate_sync.py; do not edit.
"""Requests over pooled connections: found daemons, retries where they are safe, errors by code."""

from __future__ import annotations

from .._endpoint import Endpoint
from .._endpoint import start as start_daemon
from .._http import EventParser, ProtocolError, Request, Response, ResponseParser, ServerEvent
from ..errors import DaemonUnavailable, ShellkeepError, VersionMismatch, from_problem
from ..models import API_VERSION
from .io import Connection, Pool, run_blocking, sleep

#: How often a request that may be repeated is sent again after a broken connection, with the pause before each.
PAUSES = (0.0, 0.05, 0.2, 0.5, 1.0)
#: A pause after each try; none after the last.
TRIES = (*PAUSES, None)
#: Refusals that pass by themselves soon: the daemon restarts, or another node takes the session over.
PASSING = {"shutting_down", "owner_unreachable"}
#: The longest pause that a refusal may ask for before a request is repeated.
LONGEST_PAUSE = 5.0


class Wire:
    """The way to one daemon."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._pool = Pool(endpoint)
        self._fixed = endpoint.headers()
        self._checked = False
        self._met = False
        self._closed = False

    def close(self) -> None:
        """Closes the idle connections."""
        self._closed = True
        self._pool.close()

    def request(self, request: Request) -> Response:
        """Sends a request and reads the whole answer. Refusals are raised."""
        for pause in TRIES:
            try:
                response = self._once(request)
            except DaemonUnavailable:
                # A daemon that never answered is not there; one that did may come back.
                if pause is None or not request.repeatable or not self._met:
                    raise
                sleep(pause)
                continue
            if response.status < 400:
                return response
            error = from_problem(response.status, response.body, response.headers.get("retry-after"))
            if pause is None or not request.repeatable or error.code not in PASSING:
                raise error
            sleep(min(max(pause, error.retry_after or 0.2), LONGEST_PAUSE))
        raise AssertionError("the last try returns or raises")

    def stream(self, request: Request) -> EventStream:
        """Sends a request and reads the answer as events. Refusals are raised."""
        connection = self._connect()
        parser = ResponseParser()
        try:
            early = self._head(connection, request, parser)
            head = parser.head
            assert head is not None
            if head.status < 400:
                return EventStream(connection, parser, early)
            body = early + self._rest(connection, parser)
        except (OSError, ProtocolError) as error:
            connection.close()
            raise self._broken(error) from error
        except BaseException:
            connection.close()
            raise
        connection.close()
        raise from_problem(head.status, body, head.headers.get("retry-after"))

    def _once(self, request: Request) -> Response:
        connection = self._connect(request.patience)
        parser = ResponseParser()
        try:
            body = self._head(connection, request, parser)
            if not parser.done:
                body += self._rest(connection, parser)
        except (OSError, ProtocolError) as error:
            connection.close()
            raise self._broken(error) from error
        except BaseException:
            # Cancelled in the middle: the rest of the answer must not be taken for another one's.
            connection.close()
            raise
        head = parser.head
        assert head is not None
        self._met = True
        if head.keep_alive and not self._closed and request.patience is None:
            self._pool.give(connection)
        else:
            connection.close()
        return Response(head.status, head.headers, body)

    def _head(self, connection: Connection, request: Request, parser: ResponseParser) -> bytes:
        """Sends, and reads until the head is there. Returns what came of the body with it."""
        request.sent = True
        connection.send(request.encode(self._fixed))
        while True:
            data = connection.receive()
            if not data:
                parser.end()
            parts = parser.feed(data)
            if parser.head is not None:
                return b"".join(parts)

    def _rest(self, connection: Connection, parser: ResponseParser) -> bytes:
        parts: list[bytes] = []
        while not parser.done:
            data = connection.receive()
            if not data:
                parser.end()
                break
            parts += parser.feed(data)
        return b"".join(parts)

    def _connect(self, patience: float | None = None) -> Connection:
        if self._closed:
            raise ShellkeepError("client_closed", "this client was closed; make a new one")
        try:
            connection = self._pool.take(patience)
        except (FileNotFoundError, ConnectionRefusedError) as error:
            self._checked = False
            if self.endpoint.data is None:
                raise self.endpoint.unreachable(error) from error
            run_blocking(lambda: start_daemon(self.endpoint))
            try:
                connection = self._pool.take(patience)
            except OSError as again:
                raise self.endpoint.unreachable(again) from again
        except OSError as error:
            raise self.endpoint.unreachable(error) from error
        if not self._checked:
            self._checked = True
            try:
                self._check_version(patience)
            except BaseException:
                self._checked = False
                connection.close()
                raise
        if patience is not None:
            connection.limit(patience)
        return connection

    def _check_version(self, patience: float | None) -> None:
        response = self._once(Request("GET", "/healthz", patience=patience))
        if response.status != 200:
            raise from_problem(response.status, response.body)
        version = str(response.json().get("version"))
        if version != API_VERSION:
            raise VersionMismatch(
                "version_mismatch",
                f"the daemon on {self.endpoint} has version {version}, this package {API_VERSION}; install "
                f"shellkeep=={version}, or stop that daemon so that one of this version starts",
                data={"daemon": version, "package": API_VERSION},
            )

    def _broken(self, error: BaseException) -> DaemonUnavailable:
        reason = str(error) or type(error).__name__
        return DaemonUnavailable("connection_broken", f"lost the connection to the daemon: {reason}")


class EventStream:
    """Server-sent events of one answer. A stream that breaks raises `DaemonUnavailable`."""

    def __init__(self, connection: Connection, parser: ResponseParser, early: bytes) -> None:
        self._connection = connection
        self._parser = parser
        self._events = EventParser()
        self._ready = list(self._events.feed(early))
        self._ready.reverse()

    def __iter__(self) -> EventStream:
        return self

    def __next__(self) -> ServerEvent:
        while not self._ready:
            if self._parser.done:
                self.close()
                raise StopIteration
            try:
                data = self._connection.receive()
                if not data:
                    self._parser.end()
                parts = self._parser.feed(data)
            except (OSError, ProtocolError) as error:
                self.close()
                reason = str(error) or type(error).__name__
                raise DaemonUnavailable("connection_broken", f"the stream broke: {reason}") from error
            for part in parts:
                self._ready += self._events.feed(part)
            self._ready.reverse()
        return self._ready.pop()

    def close(self) -> None:
        """Hangs up."""
        self._connection.close()
