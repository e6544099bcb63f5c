# Generated from _async by tools/generate_sync.py; do not edit.
"""A graph's checkpoints in the keyed store of a session: one session for each thread, apart from the thread's shell.

Keys, with the namespace escaped:

    h/NS            changes with every checkpoint, and so fences processes from each other
    c/NS/ID         a checkpoint: its record, references to values, and the values that are new with it
    w/NS/ID/TASK    the writes of a task on top of a checkpoint, with their values

A value is named by its hash, and an item of a list is a value of its own. A list is kept as "the first K items of the
list in checkpoint C, then these", so a conversation that grows is stored once and not once for each step.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import random
import time
from collections.abc import Iterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .._graph import Cache, Codec, DamagedThread, Record, Retention, Stale, ThreadUsage, Writes, id_key, is_ref, time_of
from ..errors import SessionNotFound, VersionConflict
from ..values import Delete, KvEntry, KvOp, Put
from .io import sleep
from .kv import Kv

if TYPE_CHECKING:
    from .client import Client

log = logging.getLogger("shellkeep.langgraph")

#: Chooses the checkpoints that stay, from all of a thread, as namespaces and ids.
Keep = Callable[[Sequence[Record]], set[tuple[str, str]]]
#: Changes in one batch. A batch that is fenced has a fence for each of them at most, and the daemon takes 1000.
BATCH = 500
#: How often a change is tried after another process was faster, each time after twice the pause: some 15 s in all.
TRIES = 20
FIRST_PAUSE = 0.002
LONGEST_PAUSE = 2.0


class LateWrite(Exception):
    """The thread was deleted while this was on its way."""


@dataclass(slots=True)
class Thread:
    """The store of one thread."""

    client: Client
    session_id: str
    path: str
    kv: Kv = field(init=False)

    def __post_init__(self) -> None:
        self.kv = Kv(self)


class Checkpoints:
    """Reads and writes checkpoints. It knows keys and references, and nothing of graphs."""

    def __init__(self, client: Client, codec: Codec, cache: Cache, prefix: str, retention: Retention) -> None:
        self.client = client
        self.codec = codec
        self.cache = cache
        self.prefix = prefix
        self.retention = retention

    def thread(self, session_id: str) -> Thread:
        return Thread(self.client, session_id, self.client.path_of(session_id))

    def index(self) -> Thread:
        """The session that lists all threads, the runs in them, and the threads that were deleted."""
        return self.thread(f"{self.prefix}-index")

    # Writing

    def put(self, thread: str, thread_id: str, ns: str, record: Record, values: Mapping[str, Any]) -> None:
        """Stores a checkpoint. `values` are those of all channels; `record.refs` is filled here."""
        place = self.thread(thread)
        try:
            for attempt in range(1, TRIES + 1):
                if self._put_once(place, ns, record, values, is_last=attempt == TRIES):
                    self._index(thread, thread_id, record)
                    self._retain(place)
                    return
                give_way(attempt)
        except LateWrite:
            self.cache.dead.add(record.id)
            log.warning("thread %s was deleted; the late checkpoint %s is not kept", thread_id, record.id)
            return
        raise VersionConflict("version_conflict", "too many processes write to this thread; try again", status=412)

    def _put_once(
        self, place: Thread, ns: str, record: Record, values: Mapping[str, Any], is_last: bool
    ) -> bool:
        """Stores a checkpoint, if no other process has changed the thread since this one looked.

        False if another process was faster. It may have removed what this one takes for stored, so all is done again.
        """
        thread = place.session_id
        epoch = self.cache.epoch(thread)
        head = self.cache.heads.get((thread, ns)) or self._head(place, ns)
        objects: dict[bytes, bytes] = {}
        try:
            parent = None if record.parent is None else self._record(place, ns, record.parent)
            self._refer(place, ns, record, parent, values, objects)
        except DamagedThread:
            # What is missing may just have been removed by another process, which then changed the parent too.
            self.cache.forget(thread)
            if is_last:
                raise
            return False
        # No fence guards a namespace before its first checkpoint: that one relies on nothing that others hold.
        known = self.cache.is_known if head[1] else nothing_known
        record.pack = {digest: data for digest, data in objects.items() if not known(thread, digest)}
        ops: list[KvOp] = [Put(record_key(ns, record.id), self.codec.pack(record.to_plain()))]
        ops.append(Put(f"h/{token(ns)}", b"-", if_version=head[1]))
        try:
            done = self._write(place, ops, record.parent)
        except VersionConflict:
            now = self._head(place, ns)
            if now[0] not in (head[0], record.parent, record.id):
                self._say_stale(place, record, now[0])
            self.cache.forget(thread)
            self.cache.heads[(thread, ns)] = now
            return False
        self.cache.heads[(thread, ns)] = (max(head[0], record.id), done[-1].version)
        self.cache.add_record(thread, ns, record)
        self.cache.know(thread, objects, epoch)
        return True

    def _say_stale(self, place: Thread, record: Record, head: str) -> None:
        message = (
            f"another process added checkpoint {head} to {place.session_id}; {record.id} continues from "
            f"{record.parent} and is kept as a branch"
        )
        log.warning(message)
        self.cache.stale.append(Stale(place.session_id, record.id, record.parent, head))

    def put_writes(
        self, thread: str, ns: str, checkpoint_id: str, task_id: str, path: str, writes: Sequence[tuple[int, str, Any]]
    ) -> None:
        """Stores the writes of a task. Of two at the same index the first counts; below zero, the last."""
        place = self.thread(thread)
        objects: dict[bytes, bytes] = {}
        fresh = {index: (channel, self._encode_write(channel, value, objects)) for index, channel, value in writes}
        key = f"w/{token(ns)}/{id_key(checkpoint_id)}/{task_key(task_id)}"
        stored, version = Writes(task_id, path, {}), 0
        for _ in range(TRIES):
            epoch = self.cache.epoch(thread)
            merged = {**fresh, **{i: w for i, w in stored.writes.items() if i >= 0 or i not in fresh}}
            value = self.codec.pack(Writes(task_id, path, merged, {**stored.pack, **objects}).to_plain())
            try:
                self._write(place, [Put(key, value, if_version=version)], checkpoint_id)
            except LateWrite:
                log.warning("%s was deleted; late writes of task %s are not kept", thread, task_id)
                return
            except VersionConflict:
                found = place.kv.get_versioned(key)
                stored, version = (Writes(task_id, path, {}), 0) if found is None else (self._writes(found[0]), found[1])
                continue
            self.cache.know(thread, objects, epoch)
            return
        raise VersionConflict("version_conflict", f"too many processes write for task {task_id}; try again", status=412)

    def _encode_write(self, channel: str, value: Any, objects: dict[bytes, bytes]) -> Any:
        with self.codec.at(channel):
            return self._encode(value, objects)

    def _batch(self, place: Thread, ops: Sequence[KvOp]) -> Sequence[KvEntry]:
        try:
            return place.kv.batch(ops)
        except SessionNotFound:
            self.cache.forget(place.session_id)
            self.client.post("/v1/sessions", {"session_id": place.session_id}, repeatable=True)
            return place.kv.batch(ops)

    def _write(self, place: Thread, ops: Sequence[KvOp], after: str | None) -> Sequence[KvEntry]:
        """Changes a thread after one of its checkpoints, or makes it. A thread that was deleted stays deleted."""
        if after in self.cache.dead:
            raise LateWrite
        try:
            return place.kv.batch(ops)
        except SessionNotFound:
            if after is not None and not self._may_write(place, after):
                raise LateWrite from None
        return self._batch(place, ops)

    def _may_write(self, place: Thread, after: str) -> bool:
        """Whether a thread that is not there is new. What was on its way when it was deleted does not bring it back."""
        deleted = self._get(self.index(), f"d/{place.session_id}")
        if deleted is None:
            return True
        born = time_of(after)
        return born is None or born > float(deleted)

    def _index(self, thread: str, thread_id: str, record: Record) -> None:
        run_id = record.metadata.get("run_id")
        wanted = {f"t/{thread}": thread_id.encode()}
        if isinstance(run_id, str):
            wanted[f"r/{quote(run_id, safe='')}/{thread}"] = b""
        fresh = {key: value for key, value in wanted.items() if not self.cache.is_indexed(key)}
        if fresh:
            self._batch(self.index(), [Put(key, value or b"-") for key, value in fresh.items()])
            self.cache.add_indexed(fresh)

    # References

    def _refer(
        self,
        place: Thread,
        ns: str,
        record: Record,
        parent: Record | None,
        values: Mapping[str, Any],
        objects: dict[bytes, bytes],
    ) -> None:
        """Fills the references of a record: to its parent where a channel is unchanged, else to values."""
        for channel, version in record.versions.items():
            same = parent is not None and parent.versions.get(channel) == version and channel not in record.changed
            if same and parent is not None and not is_ref(values.get(channel)):
                if channel in parent.refs:
                    record.refs[channel] = inherit(parent, channel)
                continue
            if channel not in values:
                continue
            value = values[channel]
            if type(value) is list and parent is not None and channel in parent.refs:
                record.refs[channel] = self._grow(place, ns, parent, channel, value, objects)
            else:
                with self.codec.at(channel):
                    record.refs[channel] = self._encode(value, objects)
        # A checkpoint whose channels have no versions still has its values.
        for channel, value in values.items():
            if channel not in record.versions:
                with self.codec.at(channel):
                    record.refs[channel] = self._encode(value, objects)

    def _grow(
        self, place: Thread, ns: str, parent: Record, channel: str, value: list[Any], objects: dict[bytes, bytes]
    ) -> Any:
        """A list as the beginning of the parent's list and what is new."""
        with self.codec.at(channel):
            items = [self._item(item, objects, n) for n, item in enumerate(value)]
        before, base, depth = self._items(place, ns, parent, channel)
        keep = 0
        for old, new in zip(before, items):
            if old != new:
                break
            keep += 1
        if keep == 0 or depth >= MAX_DEPTH:
            return ["l", None, 0, items, 0]
        return ["l", base, keep, items[keep:], depth + 1]

    def _items(self, place: Thread, ns: str, record: Record, channel: str) -> tuple[list[Any], str, int]:
        """The item references of a list channel, the checkpoint that defines it, and the length of its chain."""
        parts: list[tuple[int | None, list[Any]]] = []
        definer: str | None = None
        depth: int | None = None
        keep: int | None = None
        while True:
            ref = record.refs.get(channel)
            if ref is not None and ref[0] == "@":
                record = self._needed(place, ns, ref[1])
                continue
            if ref is None or ref[0] != "l":
                break
            definer = definer or record.id
            depth = ref[4] if depth is None else depth
            parts.append((keep, ref[3]))
            keep = ref[2]
            if ref[1] is None:
                break
            record = self._needed(place, ns, ref[1])
        items: list[Any] = []
        for position in range(len(parts) - 1, -1, -1):
            limit, more = parts[position]
            items = items + more
            if limit is not None:
                items = items[:limit]
        return items, definer or record.id, depth or 0

    def _encode(self, value: Any, objects: dict[bytes, bytes]) -> Any:
        """A value as a reference; what is new goes to `objects`."""
        if type(value) is list:
            return ["l", None, 0, [self._item(item, objects, n) for n, item in enumerate(value)], 0]
        if type(value) is dict and value and all(type(key) is str for key in value):
            if any(type(part) is list for part in value.values()):
                parts = {}
                for key, part in value.items():
                    with self.codec.at(key):
                        parts[key] = self._encode(part, objects)
                return ["d", parts]
        return self._item(value, objects)

    def _item(self, value: Any, objects: dict[bytes, bytes], position: int | None = None) -> Any:
        with self.codec.at(position):
            data = self.codec.dump(value)
        if len(data) <= SMALL:
            return ["i", data]
        digest = hashlib.sha256(data).digest()[:20]
        objects[digest] = data
        self.cache.values.put(digest, data)
        return digest

    # Reading

    def head(self, thread: str, ns: str) -> str | None:
        """The newest checkpoint of a namespace."""
        head = self._head(self.thread(thread), ns)
        self.cache.heads[(thread, ns)] = head
        return head[0] or None

    def _head(self, place: Thread, ns: str) -> tuple[str, int]:
        """The newest checkpoint of a namespace, and the version of the fence."""
        try:
            fence = place.kv.get_versioned(f"h/{token(ns)}")
            for entry in place.kv.list(f"c/{token(ns)}/", values=True, limit=1):
                record = self._load(place.session_id, entry)
                return record.id, 0 if fence is None else fence[1]
        except SessionNotFound:
            return "", 0
        return "", 0 if fence is None else fence[1]

    def _load(self, thread: str, entry: KvEntry) -> Record:
        record = Record.from_plain(self.codec.unpack(entry.value or b""))
        self._learn(record.pack)
        self.cache.add_record(thread, record.ns, record)
        return record

    def _learn(self, pack: Mapping[bytes, bytes]) -> None:
        for digest, data in pack.items():
            self.cache.values.put(digest, data)

    def record(self, thread: str, ns: str, checkpoint_id: str) -> Record | None:
        """A checkpoint's record."""
        return self._record(self.thread(thread), ns, checkpoint_id, fresh=True)

    def _record(self, place: Thread, ns: str, checkpoint_id: str, fresh: bool = False) -> Record | None:
        known = None if fresh else self.cache.records.get((place.session_id, ns, checkpoint_id))
        if known is not None:
            return known
        data = self._get(place, record_key(ns, checkpoint_id))
        return None if data is None else self._load(place.session_id, KvEntry(checkpoint_id, 0, value=data))

    def _needed(self, place: Thread, ns: str, checkpoint_id: str) -> Record:
        record = self.cache.records.get((place.session_id, ns, checkpoint_id))
        if record is None:
            # A chain of lists leads here: what is missing of it is fetched at once.
            for _ in self.records(place.session_id, ns):
                pass
            record = self._record(place, ns, checkpoint_id)
        if record is None:
            raise DamagedThread("checkpoint_not_found", f"{checkpoint_id} is missing from {place.session_id}")
        return record

    def records(self, thread: str, ns: str | None) -> Iterator[Record]:
        """The records of a thread, of one namespace or of all."""
        prefix = "c/" if ns is None else f"c/{token(ns)}/"
        for entry in self._scan(self.thread(thread), prefix):
            yield self._load(thread, entry)

    def values(self, thread: str, record: Record) -> dict[str, Any]:
        """The channel values of a checkpoint."""
        for _ in range(TRIES):
            try:
                return self._values(self.thread(thread), record)
            except DamagedThread:
                # Another process may have made the record independent of what is missing, and then removed that.
                self.cache.forget(thread)
                now = self.record(thread, record.ns, record.id)
                if now is None or now.refs == record.refs:
                    raise
                record = now
        raise VersionConflict("version_conflict", "too many processes change this thread; try again", status=412)

    def _values(self, place: Thread, record: Record) -> dict[str, Any]:
        resolved: dict[str, Any] = {}
        for channel, ref in record.refs.items():
            owner = self._needed(place, record.ns, ref[1]) if ref[0] == "@" else record
            ref = owner.refs[channel]
            if ref[0] == "l":
                ref = ["l", None, 0, (self._items(place, record.ns, owner, channel))[0], 0]
            resolved[channel] = ref
        have = self._fetch(place, resolved.values())
        return {channel: self._decode(ref, have) for channel, ref in resolved.items()}

    def _decode(self, ref: Any, have: Mapping[bytes, bytes]) -> Any:
        if isinstance(ref, bytes):
            return self.codec.load(have[ref])
        if ref[0] == "i":
            return self.codec.load(ref[1])
        if ref[0] == "d":
            return {key: self._decode(part, have) for key, part in ref[1].items()}
        return [self._decode(item, have) for item in ref[3]]

    def writes(self, thread: str, ns: str, checkpoint_id: str) -> list[tuple[str, str, str, int, Any]]:
        """The writes on top of a checkpoint: path, task, channel, index, value."""
        place = self.thread(thread)
        stored = [self._writes(e.value or b"") for e in self._scan(place, f"w/{token(ns)}/{id_key(checkpoint_id)}/")]
        return self.decode_writes(thread, stored)

    def decode_writes(self, thread: str, stored: Sequence[Writes]) -> list[tuple[str, str, str, int, Any]]:
        """Writes with their values."""
        refs = [ref for writes in stored for _, ref in writes.writes.values()]
        have = self._fetch(self.thread(thread), refs)
        return [
            (writes.path, writes.task_id, channel, index, self._decode(ref, have))
            for writes in stored
            for index, (channel, ref) in writes.writes.items()
        ]

    def all_writes(self, thread: str, ns: str | None) -> dict[tuple[str, str], list[Writes]]:
        """The writes of a thread, by the keys of namespace and checkpoint."""
        prefix = "w/" if ns is None else f"w/{token(ns)}/"
        found: dict[tuple[str, str], list[Writes]] = {}
        for entry in self._scan(self.thread(thread), prefix):
            _, space, checkpoint_id, _ = entry.key.split("/", 3)
            found.setdefault((space, checkpoint_id), []).append(self._writes(entry.value or b""))
        return found

    def _writes(self, data: bytes) -> Writes:
        writes = Writes.from_plain(self.codec.unpack(data))
        self._learn(writes.pack)
        return writes

    def _fetch(self, place: Thread, refs: Iterable[Any]) -> dict[bytes, bytes]:
        """The values that references name. If some are not at hand, all of the thread are read."""
        have: dict[bytes, bytes] = {}
        missing: set[bytes] = set()
        for digest in digests(refs):
            known = self.cache.values.get(digest)
            if known is None:
                missing.add(digest)
            else:
                have[digest] = known
        if missing:
            packs = [record.pack for record in self.records(place.session_id, None)]
            stored = self.all_writes(place.session_id, None)
            packs += [writes.pack for tasks in stored.values() for writes in tasks]
            have.update((digest, data) for pack in packs for digest, data in pack.items() if digest in missing)
        if any(digest not in have for digest in missing):
            raise DamagedThread("value_not_found", f"{place.session_id} lacks a value that one of its checkpoints has")
        return have

    def _get(self, place: Thread, key: str) -> bytes | None:
        try:
            return place.kv.get(key)
        except SessionNotFound:
            return None

    def _scan(self, place: Thread, prefix: str, values: bool = True) -> Iterator[KvEntry]:
        try:
            for entry in place.kv.list(prefix, values=values):
                yield entry
        except SessionNotFound:
            return

    def threads(self) -> list[tuple[str, str]]:
        """Every thread: its session and its id."""
        return [(e.key[2:], (e.value or b"").decode()) for e in self._scan(self.index(), "t/")]

    def history(
        self, thread: str, ns: str, record: Record, channels: Sequence[str]
    ) -> dict[str, tuple[list[tuple[str, str, Any]], list[Any]]]:
        """For each channel the writes on the way to a checkpoint, oldest first, and the value before them, if any."""
        everything = {r.id: r for r in self.records(thread, ns)}
        stored = self.all_writes(thread, ns)
        found: dict[str, tuple[list[tuple[str, str, Any]], list[Any]]] = {channel: ([], []) for channel in channels}
        remaining = set(channels)
        current, parent = record, record.parent
        while remaining:
            for channel in remaining & set(current.delta):
                writes, seed = current.delta[channel]
                older = self.decode_writes(thread, [Writes.from_plain(w) for w in writes])
                found[channel][0].extend((task, name, value) for _, task, name, _, value in reversed(older))
                if seed is not None:
                    have = self._fetch(self.thread(thread), [seed])
                    found[channel][1].append(self._decode(seed, have))
                remaining.discard(channel)
            if parent is None or parent not in everything or not remaining:
                break
            current, parent = everything[parent], everything[parent].parent
            mine = self.decode_writes(thread, stored.get((token(ns), id_key(current.id)), []))
            for _, task, name, _, value in sorted(mine, key=lambda w: (w[0], w[1], w[3]), reverse=True):
                if name in remaining:
                    found[name][0].append((task, name, value))
            seeded = remaining & set(current.refs)
            if seeded:
                values = self.values(thread, current)
                for channel in seeded:
                    found[channel][1].append(values[channel])
                remaining -= seeded
        for writes, _ in found.values():
            writes.reverse()
        return found

    # Removing

    def delete(self, thread: str) -> None:
        """Removes a thread. What is on its way to it stays out."""
        place = self.thread(thread)
        self.cache.forget(thread)
        deleted: list[KvOp] = [Put(f"d/{thread}", str(time.time()).encode()), Delete(f"t/{thread}")]
        self._batch(self.index(), deleted)
        try:
            self.client.delete(place.path)
        except SessionNotFound:
            return

    def drop(self, thread: str, keep: Keep) -> int:
        """Removes the checkpoints that `keep` does not choose, and what only they used. Returns how many.

        What stays is made independent first: lists are written out, and delta channels keep the writes they need.
        """
        for attempt in range(1, TRIES + 1):
            dropped = self._drop_once(self.thread(thread), keep)
            if dropped is not None:
                return dropped
            give_way(attempt)
        raise VersionConflict("version_conflict", "too many processes write to this thread; try again", status=412)

    def _drop_once(self, place: Thread, keep: Keep) -> int | None:
        """Removes checkpoints, behind a fence; `None` if another process changed the thread meanwhile."""
        thread = place.session_id
        self.cache.forget(thread)
        fences = {entry.key: entry.version for entry in self._scan(place, "h/", values=False)}
        records = [record for record in self.records(thread, None)]
        gone = {(record.ns, record.id) for record in records} - keep(records)
        if not gone:
            return 0
        writes = self.all_writes(thread, None)
        stays = {key_of(record): record for record in records if (record.ns, record.id) not in gone}
        objects = {digest: data for record in records for digest, data in record.pack.items()}
        objects.update((digest, data) for ts in writes.values() for task in ts for digest, data in task.pack.items())
        changed = {key for key, record in stays.items() if self._detach(place, record, gone, objects)}
        changed |= self._repack(stays, writes, objects)
        ops: list[KvOp] = [Put(f"c/{'/'.join(key)}", self.codec.pack(stays[key].to_plain())) for key in sorted(changed)]
        newest = newest_gone(gone)
        for key, tasks in writes.items():
            space, checkpoint = key
            # Writes may be stored before their checkpoint. Those of one that is newer than all that go are such writes.
            if key not in stays and space in newest and checkpoint >= newest[space]:
                ops += [Delete(f"w/{'/'.join(key)}/{task_key(task.task_id)}") for task in tasks]
        # The newest go first: what is still there between two batches lacks nothing, so another process can use it.
        ops += [Delete(record_key(ns, checkpoint_id)) for ns, checkpoint_id in sorted(gone, key=lambda k: k[1], reverse=True)]
        try:
            self._fenced(place, fences, ops)
        except VersionConflict:
            return None
        self.cache.forget(thread)
        return len(gone)

    def _fenced(self, place: Thread, fences: dict[str, int], ops: Sequence[KvOp]) -> None:
        """Makes changes in batches. All fences are passed first, and each batch passes those of what it changes again.

        So every other process reads the thread again before its next checkpoint, and one that comes in between stops
        this.
        """
        names = list(fences)
        for start in range(0, len(names), BATCH):
            self._pass(place, fences, names[start : start + BATCH], [])
        for start in range(0, len(ops), BATCH):
            part = ops[start : start + BATCH]
            touched = sorted({f"h/{op.key.split('/')[1]}" for op in part} & fences.keys())
            self._pass(place, fences, touched, part)

    def _pass(self, place: Thread, fences: dict[str, int], names: list[str], ops: Sequence[KvOp]) -> None:
        passed: list[KvOp] = [Put(fence, b"-", if_version=fences[fence]) for fence in names]
        done = self._batch(place, [*passed, *ops])
        fences.update((fence, entry.version) for fence, entry in zip(names, done))

    def _repack(
        self,
        stays: Mapping[tuple[str, str], Record],
        writes: Mapping[tuple[str, str], Sequence[Writes]],
        objects: Mapping[bytes, bytes],
    ) -> set[tuple[str, str]]:
        """Moves values that stay out of what goes. Returns the records that changed."""
        held = {digest for key, tasks in writes.items() if key in stays for task in tasks for digest in task.pack}
        for record in stays.values():
            held |= record.pack.keys()
        changed: set[tuple[str, str]] = set()
        for key, record in stays.items():
            wanted = digests(record.refs.values()) | digests(kept_refs(record))
            wanted |= digests(ref for task in writes.get(key, ()) for _, ref in task.writes.values())
            for digest in wanted - held:
                if digest not in objects:
                    raise DamagedThread("value_not_found", f"a value of checkpoint {record.id} is missing")
                record.pack[digest] = objects[digest]
                held.add(digest)
                changed.add(key)
        return changed

    def _detach(
        self, place: Thread, record: Record, gone: set[tuple[str, str]], objects: dict[bytes, bytes]
    ) -> bool:
        """Makes a record independent of checkpoints that go. True if it changed."""
        changed = False
        original = dict(record.refs)
        for channel, ref in original.items():
            if ref[0] not in ("@", "l") or ref[1] is None:
                continue
            owner = self._needed(place, record.ns, ref[1]) if ref[0] == "@" else record
            target = owner.refs[channel]
            if target[0] == "l":
                items = (self._items(place, record.ns, owner, channel))[0]
                record.refs = {**record.refs, channel: ["l", None, 0, items, 0]}
                changed = True
            elif (record.ns, owner.id) in gone:
                record.refs = {**record.refs, channel: target}
                changed = True
        if record.parent is not None and (record.ns, record.parent) in gone:
            changed = self._keep_delta(place, record, objects) or changed
        return changed

    def _keep_delta(self, place: Thread, record: Record, objects: dict[bytes, bytes]) -> bool:
        """Puts the history of delta channels into a record whose ancestors go."""
        counters = record.metadata.get("counters_since_delta_snapshot") or {}
        channels = [channel for channel in counters if channel not in record.refs and channel not in record.delta]
        if not channels:
            return False
        for channel, (writes, seed) in (self.history(place.session_id, record.ns, record, channels)).items():
            kept = [
                Writes(task, f"{n:08}", {0: (name, self._encode(value, objects))}).to_plain()
                for n, (task, name, value) in enumerate(writes)
            ]
            record.delta[channel] = (kept, self._encode(seed[0], objects) if seed else None)
        return True

    def delete_runs(self, run_ids: Sequence[str]) -> None:
        """Removes the checkpoints of runs, in every thread."""
        wanted = set(run_ids)
        for run_id in run_ids:
            prefix = f"r/{quote(run_id, safe='')}/"
            threads = [entry.key[len(prefix) :] for entry in self._scan(self.index(), prefix, values=False)]
            for thread in threads:
                self.drop(
                    thread, lambda rs: {(r.ns, r.id) for r in rs if r.metadata.get("run_id") not in wanted}
                )
            if threads:
                self._batch(self.index(), [Delete(prefix + thread) for thread in threads])

    def copy(self, source: str, target: str, target_id: str) -> None:
        """Copies a thread with everything in it."""
        batch: list[KvOp] = []
        found = False
        for entry in self._scan(self.thread(source), ""):
            found = True
            batch.append(Put(entry.key, entry.value or b"", content_type=entry.content_type))
            if len(batch) >= BATCH:
                self._batch(self.thread(target), batch)
                batch = []
        if batch:
            self._batch(self.thread(target), batch)
        if found:
            self.cache.forget(target)
            self._batch(self.index(), [Put(f"t/{target}", target_id.encode())])
            for entry in self._scan(self.index(), "r/", values=False):
                run, thread = entry.key.rsplit("/", 1)
                if thread == source:
                    self._batch(self.index(), [Put(f"{run}/{target}", b"-")])

    def prune(self, thread: str) -> int:
        """Keeps only the newest checkpoint of each namespace."""
        return self.drop(thread, newest_of)

    def _retain(self, place: Thread) -> None:
        if self.retention.is_due(self.cache, place.session_id):
            self.retain(place.session_id)

    def retain(self, thread: str) -> int:
        """Removes what the retention does not keep. The newest checkpoint of each namespace always stays."""
        used = (self.usage(thread)).bytes if self.retention.max_bytes is not None else None
        return self.drop(thread, lambda records: self.retention.choose(records, used, time.time()))

    def usage(self, thread: str) -> ThreadUsage:
        """What a thread takes."""
        usage = ThreadUsage()
        for entry in self._scan(self.thread(thread), "", values=False):
            usage = usage.plus(entry.key, entry.size)
        return usage


#: Values up to this size are part of the record; a key of their own would take more.
SMALL = 96
#: How many checkpoints a list may be spread over before it is written out.
MAX_DEPTH = 200


def give_way(attempt: int) -> None:
    """Pauses after a try, but the last, so that the process that was faster can finish what it does."""
    if attempt < TRIES:
        longest = min(FIRST_PAUSE * 2.0 ** (attempt - 1), LONGEST_PAUSE)
        sleep(random.uniform(longest / 2, longest))


def nothing_known(thread: str, digest: bytes) -> bool:
    return False


def newest_of(records: Sequence[Record]) -> set[tuple[str, str]]:
    """The newest checkpoint of each namespace."""
    newest: dict[str, str] = {}
    for record in records:
        newest[record.ns] = max(newest.get(record.ns, ""), record.id)
    return set(newest.items())


def token(ns: str) -> str:
    """A namespace as a part of a key."""
    plain = "-" + quote(ns, safe=":")
    return plain if len(plain) <= 300 else "~" + hashlib.sha256(ns.encode()).hexdigest()


def task_key(task_id: str) -> str:
    """A task as a part of a key. Its id is in the value."""
    return base64.urlsafe_b64encode(hashlib.sha256(task_id.encode()).digest()[:12]).decode()


def record_key(ns: str, checkpoint_id: str) -> str:
    return f"c/{token(ns)}/{id_key(checkpoint_id)}"


def key_of(record: Record) -> tuple[str, str]:
    """How the writes of a checkpoint are found."""
    return token(record.ns), id_key(record.id)


def newest_gone(gone: Iterable[tuple[str, str]]) -> dict[str, str]:
    """For each namespace, by its key, the key of the newest checkpoint that goes. Keys sort the newest first."""
    newest: dict[str, str] = {}
    for ns, checkpoint_id in gone:
        space, key = token(ns), id_key(checkpoint_id)
        newest[space] = min(newest.get(space, key), key)
    return newest


def kept_refs(record: Record) -> list[Any]:
    """The references in what a record keeps of removed ancestors."""
    refs: list[Any] = []
    for kept, seed in record.delta.values():
        refs += [ref for plain in kept for _, ref in Writes.from_plain(plain).writes.values()]
        if seed is not None:
            refs.append(seed)
    return refs


def inherit(parent: Record, channel: str) -> Any:
    """A reference to what the parent has: copied if it is short, else by the checkpoint that defines it."""
    ref = parent.refs[channel]
    return ref if isinstance(ref, bytes) or ref[0] in ("i", "@") else ["@", parent.id]


def digests(refs: Iterable[Any]) -> set[bytes]:
    """The hashes that references name."""
    found: set[bytes] = set()
    waiting = list(refs)
    while waiting:
        ref = waiting.pop()
        if isinstance(ref, bytes):
            found.add(ref)
        elif ref[0] == "d":
            waiting.extend(ref[1].values())
        elif ref[0] == "l":
            waiting.extend(ref[3])
    return found
