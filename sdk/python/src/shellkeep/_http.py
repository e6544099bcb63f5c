"""HTTP/1.1 and server-sent events as pure values: bytes in, messages out. The transports do the reading and writing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from .errors import InvalidRequest

#: The largest head of an answer. The daemon's own are below 1 KB.
MAX_HEAD = 64 * 1024


class ProtocolError(Exception):
    """The other side does not speak HTTP/1.1 as expected."""


@dataclass(slots=True)
class Request:
    """One request, before it knows which connection carries it."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    accept: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Whether sending it twice has the effect of sending it once.
    repeatable: bool = False
    #: Seconds that the connection may take for each of its steps; `None` waits for as long as the daemon needs.
    patience: float | None = None
    #: Whether a connection has taken it, so that the daemon may have seen it.
    sent: bool = field(default=False, init=False)

    def encode(self, fixed: bytes) -> bytes:
        """The bytes to send. `fixed` holds the header lines that every request of a connection has."""
        target = self.path + encode_query(self.query) if self.query else self.path
        more = f"accept: {self.accept}\r\n"
        for name, value in self.headers.items():
            if "\r" in value or "\n" in value:
                raise ValueError(f"the header {name} must be one line")
            more += f"{name}: {value}\r\n"
        if self.body is not None:
            more += f"content-type: {self.content_type}\r\ncontent-length: {len(self.body)}\r\n"
        elif self.method in ("POST", "PUT"):
            more += "content-length: 0\r\n"
        first = f"{self.method} {target} HTTP/1.1\r\n".encode("ascii")
        return b"".join((first, fixed, more.encode(), b"\r\n", self.body or b""))


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def encode_json(value: Any) -> bytes:
    """JSON as the daemon reads it."""
    try:
        return _ENCODER.encode(value).encode()
    except UnicodeEncodeError as error:
        wrong = error.object[error.start : error.end]
        detail = f"{wrong!r} is half a character and cannot be sent as text; send bytes, or clean the text first"
        raise InvalidRequest("not_unicode", detail) from None
    except (TypeError, ValueError) as error:
        raise InvalidRequest("not_json", f"{error}; only what JSON has can be sent") from None


def segment(text: str, *, slashes: bool = False) -> str:
    """Text as a part of a path."""
    return quote(text, safe="/" if slashes else "")


def encode_query(query: Mapping[str, Any]) -> str:
    """A query with its question mark. `None` is left out, and truth values are words."""
    parts = []
    for name, value in query.items():
        if value is None:
            continue
        text = ("true" if value else "false") if isinstance(value, bool) else str(value)
        parts.append(f"{name}={quote(text, safe='')}")
    return "?" + "&".join(parts) if parts else ""


class Headers:
    """The header lines of an answer. They are searched and not taken apart: most are never asked for."""

    __slots__ = ("_data", "_lower")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._lower = data.lower()

    def get(self, name: str) -> str | None:
        """The value of a header, by its name in lower case."""
        return self.find(f"\r\n{name}:".encode())

    def find(self, mark: bytes) -> str | None:
        """The value after a mark: a line end, the name in lower case, and a colon."""
        found = self._lower.find(mark)
        if found < 0:
            return None
        start = found + len(mark)
        end = self._data.find(b"\r\n", start)
        return self._data[start : end if end >= 0 else None].decode("latin-1").strip()


@dataclass(slots=True)
class Head:
    """The first part of an answer."""

    status: int
    headers: Headers
    #: The number of bytes that follow; `None` if they come in chunks or until the connection ends.
    length: int | None
    chunked: bool
    keep_alive: bool


class ResponseParser:
    """Reads one answer. Feed it bytes; it gives the head once, then parts of the body."""

    __slots__ = ("_buffer", "_chunk_left", "_left", "done", "head")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.head: Head | None = None
        self.done = False
        self._left = 0
        #: Bytes left of a chunk with the line end after it; -1 before a chunk's size, -2 in the trailer.
        self._chunk_left = -1

    @property
    def started(self) -> bool:
        """Whether any byte of the answer has come."""
        return self.head is not None or len(self._buffer) > 0

    def feed(self, data: bytes) -> list[bytes]:
        """Takes bytes, and returns the parts of the body in them."""
        if self.head is None and not self._buffer:
            # Most answers come in one piece.
            end = data.find(b"\r\n\r\n")
            if end > 0:
                head = parse_head(data[:end])
                if head.length and head.status >= 200 and len(data) == end + 4 + head.length:
                    self.head = head
                    self.done = True
                    return [data[end + 4 :]]
        self._buffer += data
        if self.head is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > MAX_HEAD:
                    raise ProtocolError("the head of the answer is too long")
                return []
            head = parse_head(bytes(self._buffer[:end]))
            del self._buffer[: end + 4]
            if 100 <= head.status < 200:
                return self.feed(b"")
            self.head = head
            if head.status in (204, 304):
                head.length = 0
            self._left = head.length or 0
            if head.length == 0:
                self.done = True
        return self._chunks(self.head) if self.head.chunked else self._plain(self.head)

    def end(self) -> None:
        """The connection ended. That is the end of the answer, or an error."""
        if self.done:
            return
        if self.head is not None and self.head.length is None and not self.head.chunked:
            self.done = True
            return
        raise ProtocolError("the connection ended in the middle of an answer")

    def _plain(self, head: Head) -> list[bytes]:
        if not self._buffer or self.done:
            return []
        if head.length is None:
            part = bytes(self._buffer)
            self._buffer.clear()
            return [part]
        part = bytes(self._buffer[: self._left])
        del self._buffer[: len(part)]
        self._left -= len(part)
        self.done = self._left == 0
        return [part]

    def _chunks(self, head: Head) -> list[bytes]:
        parts: list[bytes] = []
        while not self.done:
            if self._chunk_left >= 0:
                data = self._chunk_left - 2
                if data > 0 and self._buffer:
                    part = bytes(self._buffer[:data])
                    del self._buffer[: len(part)]
                    self._chunk_left -= len(part)
                    parts.append(part)
                if self._chunk_left > 2 or len(self._buffer) < 2:
                    return parts
                if not self._buffer.startswith(b"\r\n"):
                    raise ProtocolError("a chunk of the answer has no end")
                del self._buffer[:2]
                self._chunk_left = -1
            end = self._buffer.find(b"\r\n")
            if end < 0:
                return parts
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 2]
            if self._chunk_left == -2:
                self.done = not line
                continue
            try:
                size = int(line.split(b";", 1)[0], 16)
            except ValueError:
                raise ProtocolError("a chunk of the answer has no size") from None
            self._chunk_left = -2 if size == 0 else size + 2
        return parts


def parse_head(data: bytes) -> Head:
    """Reads a status line and headers."""
    status = data[9:12]
    if data[:7] != b"HTTP/1." or data[8:9] != b" " or not status.isdigit():
        raise ProtocolError("the answer is not HTTP/1.1")
    headers = Headers(data)
    chunked = "chunked" in (headers.find(b"\r\ntransfer-encoding:") or "").lower()
    length = headers.find(b"\r\ncontent-length:")
    if length is not None and not (length.isascii() and length.isdigit()):
        raise ProtocolError("the answer has a wrong length")
    return Head(
        int(status),
        headers,
        None if chunked or length is None else int(length),
        chunked,
        (headers.find(b"\r\nconnection:") or "").lower() != "close" and data[7] != ord("0"),
    )


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One server-sent event."""

    name: str
    data: str

    def json(self) -> Any:
        """The data as JSON."""
        return json.loads(self.data)


class EventParser:
    """Turns bytes into events, however they are split."""

    __slots__ = ("_data", "_name", "_rest")

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[str] = []

    def feed(self, data: bytes) -> Iterator[ServerEvent]:
        """The events that these bytes complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for raw in lines:
            line = raw.decode("utf-8", "replace").removesuffix("\r")
            if not line:
                if self._data:
                    yield ServerEvent(self._name, "\n".join(self._data))
                self._name, self._data = "", []
                continue
            # A line that begins with a colon is a comment that keeps the connection alive.
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                self._name = value
            elif name == "data":
                self._data.append(value)


@dataclass(slots=True)
class Response:
    """A whole answer."""

    status: int
    headers: Headers
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        # Decoded here, because `json.loads` would first guess an encoding.
        return json.loads(self.body.decode())


def version_of(response: Response) -> int:
    """The version of what an answer has, from its `etag`."""
    etag = response.headers.get("etag")
    if etag is None:
        raise ProtocolError("the answer has no version")
    return int(etag.strip('"'))
