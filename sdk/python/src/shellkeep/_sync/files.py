# Generated from _async by tools/generate_sync.py; do not edit.
"""A session's files, beside whatever runs in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .._http import Request
from ..errors import NotFound
from ..models import FileHistory, HistoryEntry
from ..values import FileInfo, FileWritten

if TYPE_CHECKING:
    from .session import Session

#: How many entries a list fetches at a time.
PAGE = 1000
#: Bytes read at a time.
PIECE = 8 * 1024 * 1024


class Files:
    """Files of the workspace. A path is relative to it, or absolute inside it. Each change is recorded and kept."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def _content(self) -> str:
        return f"{self._session.path}/files/content"

    def read(self, path: str, *, offset: int | None = None, limit: int | None = None) -> bytes:
        """The bytes of a file: all, or `limit` from `offset`."""
        if limit is not None:
            return self._piece(path, offset or 0, limit)
        parts: list[bytes] = []
        position = offset or 0
        while True:
            part = self._piece(path, position, PIECE)
            parts.append(part)
            position += len(part)
            if len(part) < PIECE:
                return b"".join(parts)

    def _piece(self, path: str, offset: int, limit: int) -> bytes:
        query = {"path": path, "offset": offset, "limit": limit}
        request = Request("GET", self._content, query, accept="*/*", repeatable=True)
        return (self._session.client.wire.request(request)).body

    def read_text(self, path: str, encoding: str = "utf-8", errors: str = "strict") -> str:
        """A file as text."""
        return (self.read(path)).decode(encoding, errors)

    def write(
        self,
        path: str,
        data: str | bytes,
        *,
        mode: int | None = None,
        if_sha256: str | None = None,
        create: bool = False,
    ) -> FileWritten:
        """Writes a file in one step, and makes its directories. `create` refuses to replace a file that is there;
        `if_sha256` replaces only the file with this content. `mode` is a number, as in `0o755`."""
        headers = {"if-none-match": "*"} if create else {"if-match": f'"{if_sha256}"'} if if_sha256 else {}
        request = Request(
            "PUT",
            self._content,
            {"path": path, "mode": None if mode is None else f"{mode:o}"},
            body=data.encode() if isinstance(data, str) else data,
            content_type="application/octet-stream",
            headers=headers,
            repeatable=not headers,
        )
        written = FileWritten.from_json((self._session.client.wire.request(request)).json())
        self._session.saw(written.seq)
        return written

    def stat(self, path: str) -> FileInfo:
        """What a path is."""
        answer = self._session.client.get(f"{self._session.path}/files", {"path": path, "limit": 1})
        return FileInfo.from_json(answer["file"])

    def exists(self, path: str) -> bool:
        """Whether there is something at a path."""
        try:
            self.stat(path)
        except NotFound as error:
            if error.code != "file_not_found":
                raise
            return False
        return True

    def list(self, path: str = ".") -> Iterator[FileInfo]:
        """What is in a directory, by name."""
        after: str | None = None
        while True:
            query = {"path": path, "limit": PAGE, "after": after}
            page = self._session.client.get(f"{self._session.path}/files", query)
            for entry in page.get("files") or []:
                yield FileInfo.from_json(entry)
            after = page.get("next")
            if after is None:
                return

    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Removes a file or a directory; one that is not empty with `recursive` only."""
        query = {"path": path, "recursive": recursive or None}
        answer = self._session.client.delete(self._content, query)
        self._session.saw(answer["seq"] if answer else None)

    def history(self, path: str) -> Sequence[HistoryEntry]:
        """The checkpoints in which a file changed."""
        answer = self._session.client.get(f"{self._session.path}/files/history", {"path": path})
        return FileHistory.from_json(answer).changes

    def at(self, checkpoint: str, path: str) -> bytes:
        """The bytes of a file as it was in a checkpoint."""
        target = f"{self._session.path}/checkpoints/{checkpoint}/file"
        request = Request("GET", target, {"path": path}, accept="*/*", repeatable=True)
        return (self._session.client.wire.request(request)).body
