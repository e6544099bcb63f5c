# Generated from _async by tools/generate_sync.py; do not edit.
"""The entries of a store of items, in the keyed store of one session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import SessionNotFound, VersionConflict
from ..values import KvEntry, KvOp
from .kv import Kv

if TYPE_CHECKING:
    from .client import Client

#: Changes in one batch; the daemon takes 1000.
BATCH = 500


class Memory:
    """Reads and writes entries. The session is made when something is first written."""

    def __init__(self, client: Client, session: str) -> None:
        self.client = client
        self.session = session
        self.path = ""
        self._kv = Kv(self)

    def read(self, key: str, is_prefix: bool) -> Sequence[KvEntry]:
        """The entry of a key, or all entries below a prefix."""
        if not key:
            return []
        self.path = self.client.path_of(self.session)
        try:
            if is_prefix:
                return [entry for entry in self._kv.list(key, values=True)]
            found = self._kv.get_versioned(key)
        except SessionNotFound:
            return []
        return [] if found is None else [KvEntry(key, found[1], len(found[0]), value=found[0])]

    def read_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The values of those keys that are there."""
        found: dict[str, bytes] = {}
        for key in keys:
            for entry in self.read(key, False):
                found[key] = entry.value or b""
        return found

    def write(self, ops: Sequence[KvOp]) -> None:
        """Changes entries in one step."""
        if not ops:
            return
        self.path = self.client.path_of(self.session)
        try:
            self._kv.batch(ops)
        except SessionNotFound:
            self.client.post("/v1/sessions", {"session_id": self.session}, repeatable=True)
            self._kv.batch(ops)

    def write_if_unchanged(self, ops: Sequence[KvOp]) -> int:
        """Changes the entries that are as they were read, and returns how many. One that changed since then stays."""
        written = 0
        for start in range(0, len(ops), BATCH):
            part = ops[start : start + BATCH]
            try:
                self.write(part)
                written += len(part)
            except VersionConflict:
                written += self._write_each(part)
        return written

    def _write_each(self, ops: Sequence[KvOp]) -> int:
        written = 0
        for op in ops:
            try:
                self.write([op])
                written += 1
            except VersionConflict:
                continue
        return written
