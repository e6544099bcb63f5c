"""Files and keyed values as plain data."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class FileInfo:
    """What is at a path of the workspace."""

    path: str
    name: str
    kind: Literal["file", "directory", "symlink", "other"]
    size: int
    mode: int | None = None
    modified_at: str | None = None
    #: Where a symbolic link leads.
    target: str | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FileInfo:
        mode = data.get("mode")
        return cls(
            path=data["path"],
            name=data["name"],
            kind=data["kind"],
            size=data.get("size") or 0,
            mode=int(mode, 8) if isinstance(mode, str) else mode,
            modified_at=data.get("modified_at"),
            target=data.get("target"),
        )


@dataclass(frozen=True, slots=True)
class FileWritten:
    """Answer to a written file."""

    path: str
    size: int
    sha256: str
    seq: int | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FileWritten:
        return cls(path=data["path"], size=data["size"], sha256=data["sha256"], seq=data.get("seq"))


@dataclass(frozen=True, slots=True)
class KvEntry:
    """A key of a session's store. `value` is there only where values were asked for."""

    key: str
    version: int
    size: int = 0
    sha256: str | None = None
    content_type: str | None = None
    value: bytes | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> KvEntry:
        encoded = data.get("value_base64")
        return cls(
            key=data["key"],
            version=data.get("version") or 0,
            size=data.get("size") or 0,
            sha256=data.get("sha256"),
            content_type=data.get("content_type"),
            value=None if encoded is None else base64.b64decode(encoded),
        )


def as_bytes(value: bytes | str) -> bytes:
    """What a key is set to: bytes as they are, text as UTF-8."""
    if isinstance(value, str):
        return value.encode()
    try:
        return bytes(memoryview(value))
    except TypeError:
        name = type(value).__name__
        raise TypeError(f"a value is bytes or text, not {name}; make text of data with json.dumps") from None


@dataclass(frozen=True, slots=True)
class Put:
    """Sets a key to bytes, to text as UTF-8, or to the value of this hash that the session already has."""

    key: str
    value: bytes | str | None = None
    sha256: str | None = None
    content_type: str | None = None
    #: The version that must be there; 0 for none.
    if_version: int | None = None

    def to_json(self) -> dict[str, Any]:
        op: dict[str, Any] = {"op": "put", "key": self.key}
        if self.value is not None:
            op["value_base64"] = base64.b64encode(as_bytes(self.value)).decode()
        if self.sha256 is not None:
            op["sha256"] = self.sha256
        if self.content_type is not None:
            op["content_type"] = self.content_type
        if self.if_version is not None:
            op["if_version"] = self.if_version
        return op


@dataclass(frozen=True, slots=True)
class Delete:
    """Removes a key."""

    key: str
    if_version: int | None = None

    def to_json(self) -> dict[str, Any]:
        op: dict[str, Any] = {"op": "delete", "key": self.key}
        if self.if_version is not None:
            op["if_version"] = self.if_version
        return op


KvOp = Put | Delete
