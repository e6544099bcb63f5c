# Generated from _async by tools/generate_sync.py; do not edit.
"""A session's keyed store: bytes by key, with versions, in forks, rewinds and scrubs like everything of a session."""

from __future__ import annotations

from collections.abc import Iterator, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from .._http import Request, segment, version_of
from ..errors import NotFound
from ..values import KvEntry, KvOp, as_bytes
from .notes import precondition

if TYPE_CHECKING:
    from .client import Client

#: How many entries a list fetches at a time.
PAGE = 1000


class Place(Protocol):
    """What has a store: a session, or its path alone."""

    client: Client
    path: str


class Kv:
    """Keys are text of up to 512 bytes, values are bytes. Text is stored as UTF-8 and comes back as bytes."""

    __slots__ = ("_session",)

    def __init__(self, session: Place) -> None:
        self._session = session

    @property
    def _path(self) -> str:
        return f"{self._session.path}/kv"

    def get(self, key: str) -> bytes | None:
        """The value of a key; `None` if there is none."""
        found = self.get_versioned(key)
        return None if found is None else found[0]

    def get_versioned(self, key: str) -> tuple[bytes, int] | None:
        """The value of a key and its version; `None` if there is none."""
        request = Request("GET", f"{self._path}/{segment(key, slashes=True)}", accept="*/*", repeatable=True)
        try:
            response = self._session.client.wire.request(request)
        except NotFound as error:
            if error.code == "key_not_found":
                return None
            raise
        return response.body, version_of(response)

    def put(
        self,
        key: str,
        value: bytes | str,
        *,
        content_type: str = "application/octet-stream",
        if_version: int | None = None,
    ) -> KvEntry:
        """Sets a key; text is stored as UTF-8.

        `if_version` is the version that must be there, 0 for none; else `VersionConflict` is raised.
        """
        request = Request(
            "PUT",
            f"{self._path}/{segment(key, slashes=True)}",
            body=as_bytes(value),
            content_type=content_type,
            headers=precondition(if_version),
            repeatable=if_version is None,
        )
        return KvEntry.from_json((self._session.client.wire.request(request)).json())

    def delete(self, key: str, *, if_version: int | None = None) -> None:
        """Removes a key. One that does not exist is removed already."""
        target = f"{self._path}/{segment(key, slashes=True)}"
        request = Request("DELETE", target, headers=precondition(if_version), repeatable=if_version is None)
        self._session.client.wire.request(request)

    def list(
        self, prefix: str = "", *, after: str | None = None, values: bool = False, limit: int | None = None
    ) -> Iterator[KvEntry]:
        """The keys that begin with `prefix`, in order; with `values`, what they hold too."""
        left = limit
        while left is None or left > 0:
            page_size = PAGE if left is None else min(PAGE, left)
            query = {"prefix": prefix, "after": after, "limit": page_size, "values": values or None}
            page = self._session.client.get(self._path, query)
            for entry in page["kv"]:
                yield KvEntry.from_json(entry)
            after = page.get("next")
            left = None if left is None else left - len(page["kv"])
            if after is None:
                return

    def batch(self, ops: Iterable[KvOp]) -> Sequence[KvEntry]:
        """Changes several keys in one step: all of them, or none."""
        listed = [op.to_json() for op in ops]
        if not listed:
            return []
        repeatable = all("if_version" not in op for op in listed)
        answer = self._session.client.post(self._path, {"ops": listed}, repeatable=repeatable)
        return [KvEntry.from_json(entry) for entry in answer["kv"]]
