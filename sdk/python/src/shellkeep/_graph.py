"""Plain values behind a graph's checkpoints: records, writes, caches, retention, names."""

from __future__ import annotations

import threading
import uuid
import zlib
from collections import OrderedDict
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from ._threads import session_id_for
from .errors import InvalidRequest, ShellkeepError, pickled

#: Bytes of values that a saver remembers.
CACHED_BYTES = 64 * 1024 * 1024
#: Records that a saver remembers.
CACHED_RECORDS = 10_000
#: Names of values that a saver remembers to be stored.
KNOWN_VALUES = 100_000
#: Checkpoints between two looks at the retention of a thread.
RETAIN_EVERY = 16
#: The Gregorian epoch of a UUID's time, in its unit of 100 ns before 1970.
UUID_EPOCH = 0x01B21DD213814000

#: Types that every serializer has.
PLAIN = (type(None), bool, int, float, str, bytes)
CONTAINERS = (dict, list, tuple, set, frozenset)

#: 64 characters that sort as they count.
ORDERED = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"


class DamagedThread(ShellkeepError):
    """Something that a checkpoint needs is missing from the store."""


class UnserialisableState(TypeError):
    """A value in a graph's state cannot be stored. `path` says where it is."""

    def __init__(self, path: str, value: object) -> None:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        super().__init__(
            f"{path} is a {kind}, which cannot be stored in a checkpoint; put plain data into the state in its place, "
            "for a handle its id (for a shellkeep session, session.ref), and look the object up when it is used"
        )
        self.path = path
        self.kind = kind

    def __reduce__(self) -> tuple[Any, ...]:
        return pickled(self)


class UnknownType(UnserialisableState):
    """A value in a graph's state has a type that would not be loaded again."""

    def __init__(self, path: str, value: object) -> None:
        kind = type(value)
        TypeError.__init__(
            self,
            f"{path} is a {kind.__module__}.{kind.__qualname__}, which strict msgpack would not load again; pass "
            f"ShellkeepSaver(allowed_types=[{kind.__qualname__}]), or put plain data into the state",
        )
        self.path = path
        self.kind = f"{kind.__module__}.{kind.__qualname__}"


class Serde(Protocol):
    """LangGraph's serializers."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]: ...

    def loads_typed(self, data: tuple[str, bytes]) -> Any: ...


class Codec:
    """Values as bytes, with the path of what cannot be stored."""

    def __init__(self, serde: Serde) -> None:
        self.serde = serde
        self._local = threading.local()
        #: Types that were seen to come back as they were.
        self._loadable: set[type] = set(PLAIN)

    @contextmanager
    def at(self, step: str | int | None) -> Generator[None, None, None]:
        """Names the place in the state that is being stored."""
        path: list[str | int] = self._path()
        if step is None:
            yield
            return
        path.append(step)
        try:
            yield
        finally:
            path.pop()

    def _path(self) -> list[str | int]:
        if not hasattr(self._local, "path"):
            self._local.path = []
        found: list[str | int] = self._local.path
        return found

    def dump(self, value: Any) -> bytes:
        try:
            kind, data = self.serde.dumps_typed(value)
        except Exception as error:
            culprit = self._culprit(value, "state" + "".join(f"[{step!r}]" for step in self._path()), 0)
            if culprit is None:
                raise
            raise UnserialisableState(*culprit) from error
        self._check_types(value)
        return kind.encode() + b":" + data

    def _check_types(self, value: Any) -> None:
        """Refuses a type that would come back as something else. Each type is tried once."""
        waiting = [(value, "")]
        while waiting:
            part, path = waiting.pop()
            kind = type(part)
            if kind in CONTAINERS:
                waiting.extend((inner, path + step) for step, inner in _parts(part))
            elif kind not in self._loadable:
                if type(self.serde.loads_typed(self.serde.dumps_typed(part))) is not kind:
                    raise UnknownType("state" + "".join(f"[{step!r}]" for step in self._path()) + path, part)
                self._loadable.add(kind)

    def load(self, data: bytes) -> Any:
        kind, _, body = data.partition(b":")
        return self.serde.loads_typed((kind.decode(), body))

    def _culprit(self, value: Any, path: str, depth: int) -> tuple[str, Any] | None:
        """The innermost value that cannot be stored."""
        try:
            self.serde.dumps_typed(value)
        except Exception:
            pass
        else:
            return None
        for step, part in _parts(value) if depth < 12 else []:
            found = self._culprit(part, path + step, depth + 1)
            if found is not None:
                return found
        return path, value

    def pack(self, value: Any) -> bytes:
        """A record as it is stored."""
        data = self.dump(value)
        small = zlib.compress(data, 6)
        return b"z" + small if len(small) < len(data) else b"-" + data

    def unpack(self, data: bytes) -> Any:
        return self.load(zlib.decompress(data[1:]) if data[:1] == b"z" else data[1:])


def _parts(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [(f"[{key!r}]", part) for key, part in value.items()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [(f"[{position}]", part) for position, part in enumerate(value)]
    fields = getattr(value, "__dict__", None)
    return [(f".{name}", part) for name, part in fields.items()] if isinstance(fields, dict) else []


@dataclass(slots=True)
class Record:
    """A checkpoint without its values; `refs` says where they are."""

    id: str
    ns: str
    parent: str | None
    ts: str
    v: int
    versions: dict[str, Any]
    seen: dict[str, Any]
    updated: list[str] | None
    metadata: dict[str, Any]
    refs: dict[str, Any] = field(default_factory=dict)
    #: Writes and the value before them, of delta channels whose ancestors were removed.
    delta: dict[str, tuple[list[Any], Any]] = field(default_factory=dict)
    #: The session that the state named, and its last record: where shell and files were.
    session: dict[str, Any] | None = None
    #: Values by their hash, of this checkpoint and of later ones that have them too.
    pack: dict[bytes, bytes] = field(default_factory=dict)
    #: The channels that this step changed. Not stored.
    changed: Collection[str] = ()

    def to_plain(self) -> dict[str, Any]:
        """As it is stored, without what is empty."""
        plain = {
            "i": self.id,
            "n": self.ns,
            "p": self.parent,
            "t": self.ts,
            "v": self.v,
            "c": self.versions,
            "s": self.seen,
            "u": self.updated,
            "m": self.metadata,
            "r": self.refs,
            "d": {channel: list(kept) for channel, kept in self.delta.items()},
            "x": self.session,
            "o": list(self.pack.items()),
        }
        return {key: value for key, value in plain.items() if value not in (None, "", {}, [])}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Record:
        return cls(
            id=plain["i"],
            ns=plain.get("n", ""),
            parent=plain.get("p"),
            ts=plain.get("t", ""),
            v=plain.get("v", 1),
            versions=plain.get("c", {}),
            seen=plain.get("s", {}),
            updated=plain.get("u"),
            metadata=plain.get("m", {}),
            refs=plain.get("r", {}),
            delta={channel: (kept[0], kept[1]) for channel, kept in plain.get("d", {}).items()},
            session=plain.get("x"),
            pack=dict(plain.get("o", ())),
        )


@dataclass(slots=True)
class Writes:
    """What a task wrote: for each index the channel and a reference to the value."""

    task_id: str
    path: str
    writes: dict[int, tuple[str, Any]]
    #: Values by their hash.
    pack: dict[bytes, bytes] = field(default_factory=dict)

    def to_plain(self) -> list[Any]:
        listed = [[index, *write] for index, write in self.writes.items()]
        return [self.task_id, self.path, listed, list(self.pack.items())]

    @classmethod
    def from_plain(cls, plain: Sequence[Any]) -> Writes:
        writes = {index: (channel, ref) for index, channel, ref in plain[2]}
        return cls(plain[0], plain[1], writes, dict(plain[3]))


@dataclass(frozen=True, slots=True)
class Stale:
    """A checkpoint that continued from an old parent, because another process had gone on."""

    thread: str
    checkpoint_id: str
    parent: str | None
    newest: str


@dataclass(frozen=True, slots=True)
class ThreadUsage:
    """What a thread takes in the store."""

    checkpoints: int = 0
    writes: int = 0
    bytes: int = 0

    def plus(self, key: str, size: int) -> ThreadUsage:
        """With one more key."""
        return ThreadUsage(
            self.checkpoints + key.startswith("c/"),
            self.writes + key.startswith("w/"),
            self.bytes + len(key) + size,
        )


class Bounded:
    """The values used last, up to a number of bytes."""

    def __init__(self, limit: int = CACHED_BYTES) -> None:
        self._limit = limit
        self._size = 0
        self._values: OrderedDict[bytes, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: bytes) -> bytes | None:
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: bytes, value: bytes) -> None:
        with self._lock:
            if key in self._values:
                return
            self._values[key] = value
            self._size += len(value)
            while self._size > self._limit:
                _, old = self._values.popitem(last=False)
                self._size -= len(old)


class Cache:
    """What a saver remembers, shared by its sync and async side. All of it can be read again from the store."""

    def __init__(self) -> None:
        self.values = Bounded()
        self.records: dict[tuple[str, str, str], Record] = {}
        self.heads: dict[tuple[str, str], tuple[str, int]] = {}
        self.dead: set[str | None] = set()
        self.stale: list[Stale] = []
        self.puts: dict[str, int] = {}
        self._known: set[tuple[str, bytes]] = set()
        self._indexed: set[str] = set()
        self._forgotten: dict[str, int] = {}
        #: Threads share a saver: while one goes through what is known, no other may add to it.
        self._lock = threading.Lock()

    def add_record(self, thread: str, ns: str, record: Record) -> None:
        with self._lock:
            if len(self.records) >= CACHED_RECORDS:
                self.records.clear()
            self.records[(thread, ns, record.id)] = record

    def is_indexed(self, key: str) -> bool:
        return key in self._indexed

    def add_indexed(self, keys: Iterable[str]) -> None:
        """Notes that the index has these keys."""
        with self._lock:
            self._indexed.update(keys)

    def epoch(self, thread: str) -> int:
        """Changes whenever the thread is forgotten. Taken before values are written, for `know`."""
        return self._forgotten.get(thread, 0)

    def know(self, thread: str, keys: Collection[bytes], epoch: int) -> None:
        """Notes that values are stored, unless the thread was forgotten since: they may have been removed again."""
        with self._lock:
            if epoch != self.epoch(thread):
                return
            if len(self._known) >= KNOWN_VALUES:
                self._known.clear()
            self._known.update((thread, key) for key in keys)

    def is_known(self, thread: str, key: bytes) -> bool:
        return (thread, key) in self._known

    def forget(self, thread: str) -> None:
        """Forgets what is known of a thread, except what its values are: their names are their hashes."""
        with self._lock:
            self._forgotten[thread] = self.epoch(thread) + 1
            for key in [key for key in list(self.records) if key[0] == thread]:
                self.records.pop(key, None)
            for head in [head for head in list(self.heads) if head[0] == thread]:
                self.heads.pop(head, None)
            self._known = {entry for entry in self._known if entry[0] != thread}
            self._indexed = {key for key in self._indexed if not key.endswith(f"/{thread}")}


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of a thread is kept. The newest checkpoint of each namespace always is."""

    #: Seconds.
    ttl: float | None = None
    keep_last: int | None = None
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.keep_last is not None and self.keep_last < 1:
            raise InvalidRequest("invalid_request", "keep_last must be at least 1; the newest checkpoint always stays")
        if (self.ttl is not None and self.ttl <= 0) or (self.max_bytes is not None and self.max_bytes <= 0):
            raise InvalidRequest("invalid_request", "ttl and max_bytes must be above 0")

    def is_due(self, cache: Cache, thread: str) -> bool:
        """Whether it is time to look at a thread again."""
        if self.ttl is None and self.keep_last is None and self.max_bytes is None:
            return False
        count = cache.puts.get(thread, 0) + 1
        cache.puts[thread] = count % RETAIN_EVERY
        return count >= RETAIN_EVERY

    def choose(self, records: Sequence[Record], used: int | None, now: float) -> set[tuple[str, str]]:
        """The checkpoints to keep."""
        spaces: dict[str, list[Record]] = {}
        for record in sorted(records, key=lambda record: record.id, reverse=True):
            spaces.setdefault(record.ns, []).append(record)
        newest = {(ns, found[0].id) for ns, found in spaces.items()}
        keep = set(newest)
        for ns, found in spaces.items():
            for record in found[: self.keep_last]:
                if self.ttl is None or now - _seconds(record.ts, now) <= self.ttl:
                    keep.add((ns, record.id))
        if self.max_bytes is not None and used is not None and used > self.max_bytes:
            # Values are shared, so what a checkpoint takes is not known before it is gone: each counts its share.
            fits = int(len(records) * self.max_bytes / used)
            ordered = sorted(keep, key=lambda entry: entry[1], reverse=True)
            keep = newest | set(ordered[:fits])
        return keep


def _seconds(ts: str, now: float) -> float:
    try:
        return datetime.fromisoformat(ts).timestamp()
    except ValueError:
        return now


def id_key(checkpoint_id: str) -> str:
    """A checkpoint's id as a part of a key, short, and so that the newest comes first."""
    try:
        number = uuid.UUID(checkpoint_id).int
    except ValueError:
        number = -1
    if number >= 0 and str(uuid.UUID(int=number)) == checkpoint_id:
        number = (1 << 128) - 1 - number
        return "".join(ORDERED[(number >> shift) & 63] for shift in range(126, -1, -6))
    return "~" + "".join(f"{255 - byte:02x}" for byte in checkpoint_id.encode()) + "~"


def time_of(checkpoint_id: str) -> float | None:
    """When a checkpoint was made, if its id says so (UUID version 6)."""
    try:
        parsed = uuid.UUID(checkpoint_id)
    except ValueError:
        return None
    if parsed.version != 6:
        return None
    ticks = ((parsed.int >> 80) << 12) | ((parsed.int >> 64) & 0xFFF)
    return (ticks - UUID_EPOCH) / 1e7


def is_ref(value: object) -> bool:
    """Whether a value in a state is a `session.ref`. The middleware's has a `step` too."""
    if not isinstance(value, dict) or value.keys() - {"step"} != {"session_id", "seq"}:
        return False
    return isinstance(value["session_id"], str) and isinstance(value["seq"], int)


def session_id(thread_id: object) -> str:
    """The session of a thread: its own id where that is a session's id, else `lg-` and a hash of it."""
    return session_id_for(thread_id)


def store_id(prefix: str, thread_id: object) -> str:
    """The session that holds the checkpoints of a thread."""
    plain = f"{prefix}:{session_id(thread_id)}"
    return plain if len(plain) <= 128 else f"{prefix}:{session_id(plain + '/')}"
