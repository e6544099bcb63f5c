"""Long-term memory: LangGraph's `BaseStore` in the keyed store of one session."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote, unquote

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
)

from .._async.client import AsyncClient
from .._async.memory import AsyncMemory
from .._sync.client import Client
from .._sync.memory import Memory
from ..errors import InvalidRequest
from ..values import Delete, KvEntry, KvOp, Put

__all__ = ["ShellkeepStore"]


class ShellkeepStore(BaseStore):
    """Items by namespace and key, for sync and async use alike. All of them are in the session `session`.

    `ttl` works in minutes since the last access, as LangGraph has it: a read starts an item's time again, unless it
    says `refresh_ttl=False`. An item past its time is not returned, and it is removed when a read meets it; `sweep_ttl`
    removes all of them, and so does a write once in `sweep_interval_minutes`, if that is set.
    There is no search by meaning: `query` is refused.
    """

    __slots__ = ("_async", "_swept", "_sync", "ttl_config")

    supports_ttl = True

    def __init__(
        self,
        client: Client | AsyncClient | None = None,
        *,
        session: str = "graph-store",
        ttl: TTLConfig | None = None,
    ) -> None:
        found = client or Client()
        sync = found if isinstance(found, Client) else Client.on(found.wire.endpoint)
        self._sync = Memory(sync, session)
        self._async = AsyncMemory(
            found if isinstance(found, AsyncClient) else AsyncClient.on(found.wire.endpoint), session
        )
        self.ttl_config = ttl
        self._swept = time.monotonic()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Reads first, then writes in one atomic step."""
        listed = list(ops)
        met = [self._sync.read(*wanted(op)) for op in listed]
        results = [self._read(op, entries) for op, entries in zip(listed, met)]
        self._sync.write_if_unchanged(upkeep(listed, met, results))
        changes = self._changes(listed, self._sync.read_many(keys(listed)))
        self._sync.write(changes)
        if changes and self._is_sweep_due():
            self.sweep_ttl()
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Reads first, then writes in one atomic step."""
        listed = list(ops)
        met = [await self._async.read(*wanted(op)) for op in listed]
        results = [self._read(op, entries) for op, entries in zip(listed, met)]
        await self._async.write_if_unchanged(upkeep(listed, met, results))
        changes = self._changes(listed, await self._async.read_many(keys(listed)))
        await self._async.write(changes)
        if changes and self._is_sweep_due():
            await self.asweep_ttl()
        return results

    def sweep_ttl(self) -> int:
        """Removes every item past its time, and returns how many there were."""
        return self._sync.write_if_unchanged(past(self._sync.read("s/", True)))

    async def asweep_ttl(self) -> int:
        """Removes every item past its time, and returns how many there were."""
        return await self._async.write_if_unchanged(past(await self._async.read("s/", True)))

    def _is_sweep_due(self) -> bool:
        minutes = (self.ttl_config or {}).get("sweep_interval_minutes")
        now = time.monotonic()
        if minutes is None or now < self._swept + minutes * 60:
            return False
        self._swept = now
        return True

    def _read(self, op: Op, entries: Sequence[KvEntry]) -> Result:
        now = time.time()
        items = [item for entry in entries if (item := load(entry, now)) is not None]
        if isinstance(op, GetOp):
            return items[0] if items else None
        if isinstance(op, SearchOp):
            if op.query:
                raise InvalidRequest("query_not_supported", "this store does not search by meaning; use filter=")
            chosen = [item for item in items if matches(item.value, op.filter or {})]
            return chosen[op.offset : op.offset + op.limit]
        if isinstance(op, ListNamespacesOp):
            return namespaces(op, items)
        return None

    def _changes(self, ops: Sequence[Op], before: Mapping[str, bytes]) -> list[KvOp]:
        """The writes of a batch; of two for one key the last counts."""
        changes: dict[str, KvOp] = {}
        for op in ops:
            if isinstance(op, PutOp):
                key = key_of(op.namespace, op.key)
                if op.value is None:
                    changes[key] = Delete(key)
                    continue
                old = before.get(key)
                created = json.loads(old)["c"] if old is not None else stamp()
                changes[key] = put(key, {"v": dict(op.value), "c": created, "u": stamp()}, op.ttl)
        return list(changes.values())


def wanted(op: Op) -> tuple[str, bool]:
    """The key or prefix that an operation reads, and whether it is a prefix. A write reads nothing."""
    if isinstance(op, GetOp):
        return key_of(op.namespace, op.key), False
    if isinstance(op, SearchOp):
        return space_of(op.namespace_prefix), True
    if isinstance(op, ListNamespacesOp):
        return "s/", True
    return "", False


def keys(ops: Sequence[Op]) -> list[str]:
    """The keys that a batch sets."""
    return [key_of(op.namespace, op.key) for op in ops if isinstance(op, PutOp) and op.value is not None]


def space_of(namespace: Sequence[str]) -> str:
    """The prefix of the keys of a namespace and those below it."""
    return "s/" + "".join(quote(part, safe="") + "/" for part in namespace)


def key_of(namespace: Sequence[str], key: str) -> str:
    """The key of an item. The equals sign cannot be in a part of a namespace, because it is escaped there."""
    return f"{space_of(namespace)}={quote(key, safe='')}"


def names_of(key: str) -> tuple[tuple[str, ...], str]:
    """The namespace and the key of an item."""
    *parts, last = key.removeprefix("s/").split("/")
    return tuple(unquote(part) for part in parts), unquote(last.removeprefix("="))


def stamp() -> str:
    return datetime.now(timezone.utc).isoformat()


def put(key: str, plain: Mapping[str, Any], ttl: float | None, *, if_version: int | None = None) -> Put:
    """Stores an item: its value, when it was made and last written, its minutes to live and when they end."""
    timed = plain if ttl is None else {**plain, "t": ttl, "x": time.time() + ttl * 60}
    value = json.dumps(timed, ensure_ascii=False, separators=(",", ":")).encode()
    return Put(key, value, content_type="application/json", if_version=if_version)


def is_past(plain: Mapping[str, Any], now: float) -> bool:
    return bool(plain.get("x", now) < now)


def past(entries: Iterable[KvEntry]) -> list[KvOp]:
    """Removes the items that are past their time, unless they are written again meanwhile."""
    now = time.time()
    found = {entry.key: entry.version for entry in entries if is_past(json.loads(entry.value or b"{}"), now)}
    return [Delete(key, if_version=version) for key, version in found.items()]


def upkeep(ops: Sequence[Op], met: Sequence[Sequence[KvEntry]], results: Sequence[Result]) -> list[KvOp]:
    """What reading changes: items past their time are removed, and those that were returned get their time again."""
    changes = {change.key: change for change in past(entry for entries in met for entry in entries)}
    for op, entries, result in zip(ops, met, results):
        if isinstance(op, (GetOp, SearchOp)) and op.refresh_ttl:
            items: list[Any] = result if isinstance(result, list) else [result] if result is not None else []
            returned = {key_of(item.namespace, item.key) for item in items}
            changes |= {change.key: change for change in renewed(entry for entry in entries if entry.key in returned)}
    return list(changes.values())


def renewed(entries: Iterable[KvEntry]) -> Iterator[KvOp]:
    """Starts the time of items again, unless they are written meanwhile."""
    for entry in entries:
        plain = json.loads(entry.value or b"{}")
        if "t" in plain:
            yield put(entry.key, plain, plain["t"], if_version=entry.version)


def load(entry: KvEntry, now: float) -> SearchItem | None:
    """An item, unless it is past its time."""
    plain = json.loads(entry.value or b"{}")
    if is_past(plain, now):
        return None
    namespace, key = names_of(entry.key)
    return SearchItem(
        namespace=namespace,
        key=key,
        value=plain["v"],
        created_at=datetime.fromisoformat(plain["c"]),
        updated_at=datetime.fromisoformat(plain["u"]),
    )


def matches(value: Mapping[str, Any], filter: Mapping[str, Any]) -> bool:
    """Whether a value has what a filter asks for."""
    return all(compare(value.get(key), wanted) for key, wanted in filter.items())


def compare(value: Any, wanted: Any) -> bool:
    """As LangGraph's own stores: of a mapping the keys that are named, of a list every item."""
    if isinstance(wanted, dict):
        if any(str(key).startswith("$") for key in wanted):
            return all(operate(value, name, operand) for name, operand in wanted.items())
        return isinstance(value, dict) and matches(value, wanted)
    if isinstance(wanted, (list, tuple)):
        return isinstance(value, list) and len(value) == len(wanted) and all(map(compare, value, wanted))
    return bool(value == wanted)


def operate(value: Any, name: str, operand: Any) -> bool:
    if name == "$eq":
        return bool(value == operand)
    if name == "$ne":
        return bool(value != operand)
    if value is None:
        return False
    if name == "$gt":
        return bool(value > operand)
    if name == "$gte":
        return bool(value >= operand)
    if name == "$lt":
        return bool(value < operand)
    if name == "$lte":
        return bool(value <= operand)
    raise InvalidRequest("invalid_request", f"no operator '{name}'; use $eq, $ne, $gt, $gte, $lt or $lte")


def namespaces(op: ListNamespacesOp, items: Sequence[Item]) -> list[tuple[str, ...]]:
    """The namespaces that have items and match."""
    found = {item.namespace for item in items}
    found = {name for name in found if all(fits(c, name) for c in op.match_conditions or ())}
    cut = sorted({name[: op.max_depth] for name in found})
    return cut[op.offset : op.offset + op.limit]


def fits(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = tuple(condition.path)
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wish in ("*", name) for wish, name in zip(path, part))
