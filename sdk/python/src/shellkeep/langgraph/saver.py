"""The checkpointer."""

from __future__ import annotations

import copy
import random
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from .. import _graph
from .._async.checkpoints import AsyncCheckpoints
from .._async.client import AsyncClient
from .._graph import Cache, Codec, Record, Retention, Stale, ThreadUsage
from .._sync.checkpoints import Checkpoints, key_of
from .._sync.client import Client
from ..errors import InvalidRequest
from ..results import SessionRef
from .travel import atravel, travel


class ShellkeepSaver(BaseCheckpointSaver[str]):
    """Checkpoints of graphs, for sync and async use alike, from any thread and any event loop.

    Each thread has a session of its own for its checkpoints, `graph:THREAD`, apart from the session of its shell, so
    that a rewind of the shell does not remove checkpoints. An item of a list channel is stored once, by its hash.

    `ttl` (seconds), `keep_last` (checkpoints of each namespace) and `max_bytes` (of a thread) limit what is kept; they
    are applied every 16 checkpoints and by `retain`. State is stored as strict msgpack: types of your own
    must be in `allowed_types`, and what cannot be stored or loaded again is refused with its path in the state.

    A run that starts from an old checkpoint takes the session along whose `session.ref` is in that checkpoint's state,
    so that files, working directory and variables are those of that step: `on_time_travel="fork"` gives the run a new
    session and leaves the old one as it is, `"rewind"` takes the session itself back, `"ignore"` does neither.
    """

    def __init__(
        self,
        client: Client | AsyncClient | None = None,
        *,
        serde: SerializerProtocol | None = None,
        allowed_types: Iterable[type] = (),
        ttl: float | None = None,
        keep_last: int | None = None,
        max_bytes: int | None = None,
        on_time_travel: Literal["fork", "rewind", "ignore"] = "ignore",
        prefix: str = "graph",
    ) -> None:
        allowed = [(kind.__module__, kind.__name__) for kind in allowed_types]
        super().__init__(serde=serde or JsonPlusSerializer(allowed_msgpack_modules=allowed or None))
        if on_time_travel not in ("fork", "rewind", "ignore"):
            raise InvalidRequest("invalid_request", "on_time_travel is 'fork', 'rewind' or 'ignore'")
        self._given = client
        self._client = client if isinstance(client, Client) else None
        self._async_client = client if isinstance(client, AsyncClient) else None
        found = client or Client()
        self._client = self._client or (found if isinstance(found, Client) else Client.on(found.wire.endpoint))
        self._async_client = self._async_client or AsyncClient.on(found.wire.endpoint)
        self._prefix = prefix
        self._retention = Retention(ttl, keep_last, max_bytes)
        self._on_time_travel: Literal["fork", "rewind", "ignore"] = on_time_travel
        self._cache = Cache()
        self._connect()

    def _connect(self) -> None:
        codec = Codec(self.serde)
        assert self._client is not None and self._async_client is not None
        self._sync = Checkpoints(self._client, codec, self._cache, self._prefix, self._retention)
        self._async = AsyncCheckpoints(self._async_client, codec, self._cache, self._prefix, self._retention)

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> ShellkeepSaver:
        """The same saver, for a graph whose state has these types."""
        derived = super().with_allowlist(extra_allowlist)
        if derived is self:
            return self
        clone = copy.copy(self)
        clone.serde = derived.serde
        clone._connect()
        return clone

    def __reduce__(self) -> Any:
        raise TypeError("a ShellkeepSaver holds connections and cannot be serialised; make one where it is used")

    def __copy__(self) -> ShellkeepSaver:
        clone = ShellkeepSaver.__new__(ShellkeepSaver)
        clone.__dict__.update(self.__dict__)
        return clone

    def __enter__(self) -> ShellkeepSaver:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections that this saver made."""
        if self._client is not None and self._client is not self._given:
            self._client.close()

    async def __aenter__(self) -> ShellkeepSaver:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections that this saver made."""
        if self._async_client is not None and self._async_client is not self._given:
            await self._async_client.close()
        self.close()

    @property
    def stale(self) -> Sequence[Stale]:
        """Checkpoints of this saver that became branches, because another process had gone on with the thread."""
        return list(self._cache.stale)

    def get_next_version(self, current: str | None, channel: None) -> str:
        """A version that grows, and differs between branches of a thread."""
        number = int(current.split(".")[0]) if isinstance(current, str) else int(current or 0)
        return f"{number + 1:08}.{random.getrandbits(32):08x}"

    # Sync

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread, ns, wanted = self._names(config)
        found = wanted or self._sync.head(thread, ns)
        record = None if found is None else self._sync.record(thread, ns, found)
        if record is None:
            return None
        writes = self._sync.writes(thread, ns, record.id)
        values = self._sync.values(thread, record)
        if self._starts_at(config, record) and self._sync.head(thread, ns) != record.id:
            values = self._bring(record, values)
        return self._tuple(config, record, values, writes)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        query = Query(config, filter, before, limit)
        threads = self._sync.threads() if config is None else [self._thread_of(config)]
        for thread, thread_id in threads:
            records = query.choose(self._sync.records(thread, query.ns))
            writes = self._sync.all_writes(thread, query.ns) if records else {}
            for record in records:
                mine = self._sync.decode_writes(thread, writes.get(key_of(record), []))
                yield self._tuple(thread_config(thread_id), record, self._sync.values(thread, record), mine)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        thread, ns, parent = self._names(config)
        record = record_of(config, checkpoint, metadata, new_versions, ns, parent)
        thread_id = thread_of(config)
        self._sync.put(thread, str(thread_id), ns, record, checkpoint["channel_values"])
        return thread_config(thread_id, ns, record.id)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        thread, ns, checkpoint_id = self._names(config)
        self._sync.put_writes(thread, ns, needed(checkpoint_id), task_id, task_path, numbered(writes))

    def delete_thread(self, thread_id: str) -> None:
        self._sync.delete(_graph.store_id(self._prefix, thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._sync.delete_runs([str(run_id) for run_id in run_ids])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        source, target = (_graph.store_id(self._prefix, name) for name in (source_thread_id, target_thread_id))
        self._sync.copy(source, target, str(target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        for thread_id in thread_ids:
            thread = _graph.store_id(self._prefix, thread_id)
            if checked(strategy) == "delete":
                self._sync.drop(thread, lambda records: set())
            else:
                self._sync.prune(thread)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        thread, ns, wanted = self._names(config)
        found = wanted or self._sync.head(thread, ns)
        record = None if found is None or not channels else self._sync.record(thread, ns, found)
        return histories(channels, {} if record is None else self._sync.history(thread, ns, record, channels))

    def retain(self, thread_id: str) -> int:
        """Applies the retention to a thread now, and says how many checkpoints it removed."""
        return self._sync.retain(_graph.store_id(self._prefix, thread_id))

    def usage(self, thread_id: str) -> ThreadUsage:
        """What a thread takes."""
        return self._sync.usage(_graph.store_id(self._prefix, thread_id))

    def moment(self, config: RunnableConfig) -> SessionRef | None:
        """The session in a checkpoint's state and its last record then: where to rewind or fork to."""
        thread, ns, wanted = self._names(config)
        found = wanted or self._sync.head(thread, ns)
        record = None if found is None else self._sync.record(thread, ns, found)
        return None if record is None else moment_of(record)

    # Async

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread, ns, wanted = self._names(config)
        found = wanted or await self._async.head(thread, ns)
        record = None if found is None else await self._async.record(thread, ns, found)
        if record is None:
            return None
        writes = await self._async.writes(thread, ns, record.id)
        values = await self._async.values(thread, record)
        if self._starts_at(config, record) and await self._async.head(thread, ns) != record.id:
            values = await self._abring(record, values)
        return self._tuple(config, record, values, writes)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        query = Query(config, filter, before, limit)
        threads = await self._async.threads() if config is None else [self._thread_of(config)]
        for thread, thread_id in threads:
            records = query.choose([record async for record in self._async.records(thread, query.ns)])
            writes = await self._async.all_writes(thread, query.ns) if records else {}
            for record in records:
                mine = await self._async.decode_writes(thread, writes.get(key_of(record), []))
                yield self._tuple(thread_config(thread_id), record, await self._async.values(thread, record), mine)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        thread, ns, parent = self._names(config)
        record = record_of(config, checkpoint, metadata, new_versions, ns, parent)
        thread_id = thread_of(config)
        await self._async.put(thread, str(thread_id), ns, record, checkpoint["channel_values"])
        return thread_config(thread_id, ns, record.id)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        thread, ns, checkpoint_id = self._names(config)
        await self._async.put_writes(thread, ns, needed(checkpoint_id), task_id, task_path, numbered(writes))

    async def adelete_thread(self, thread_id: str) -> None:
        await self._async.delete(_graph.store_id(self._prefix, thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._async.delete_runs([str(run_id) for run_id in run_ids])

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        source, target = (_graph.store_id(self._prefix, name) for name in (source_thread_id, target_thread_id))
        await self._async.copy(source, target, str(target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        for thread_id in thread_ids:
            thread = _graph.store_id(self._prefix, thread_id)
            if checked(strategy) == "delete":
                await self._async.drop(thread, lambda records: set())
            else:
                await self._async.prune(thread)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        thread, ns, wanted = self._names(config)
        found = wanted or await self._async.head(thread, ns)
        record = None if found is None or not channels else await self._async.record(thread, ns, found)
        return histories(channels, {} if record is None else await self._async.history(thread, ns, record, channels))

    async def aretain(self, thread_id: str) -> int:
        """Applies the retention to a thread now, and says how many checkpoints it removed."""
        return await self._async.retain(_graph.store_id(self._prefix, thread_id))

    async def ausage(self, thread_id: str) -> ThreadUsage:
        """What a thread takes."""
        return await self._async.usage(_graph.store_id(self._prefix, thread_id))

    async def amoment(self, config: RunnableConfig) -> SessionRef | None:
        """The session in a checkpoint's state and its last record then: where to rewind or fork to."""
        thread, ns, wanted = self._names(config)
        found = wanted or await self._async.head(thread, ns)
        record = None if found is None else await self._async.record(thread, ns, found)
        return None if record is None else moment_of(record)

    # Both

    def _names(self, config: RunnableConfig) -> tuple[str, str, str | None]:
        """The session of a thread's checkpoints, the namespace, and the checkpoint that a config names."""
        configurable = config.get("configurable") or {}
        thread = _graph.store_id(self._prefix, thread_of(config))
        return thread, configurable.get("checkpoint_ns") or "", configurable.get("checkpoint_id")

    def _thread_of(self, config: RunnableConfig) -> tuple[str, str]:
        return self._names(config)[0], thread_of(config)

    def _tuple(
        self,
        config: RunnableConfig,
        record: Record,
        values: dict[str, Any],
        writes: Sequence[tuple[str, str, str, int, Any]],
    ) -> CheckpointTuple:
        thread_id = thread_of(config)
        ordered = sorted(writes, key=lambda write: writes_sort_key(write[0], write[1], write[3]))
        return CheckpointTuple(
            config=thread_config(thread_id, record.ns, record.id),
            checkpoint=Checkpoint(
                v=record.v,
                id=record.id,
                ts=record.ts,
                channel_values=values,
                channel_versions=record.versions,
                versions_seen=record.seen,
                updated_channels=record.updated,
            ),
            metadata=cast(CheckpointMetadata, dict(record.metadata)),
            parent_config=None if record.parent is None else thread_config(thread_id, record.ns, record.parent),
            pending_writes=[(task_id, channel, value) for _, task_id, channel, _, value in ordered],
        )

    def _starts_at(self, config: RunnableConfig, record: Record) -> bool:
        """Whether a run starts from the checkpoint that a config names. A look at a state is not a run."""
        configurable = config.get("configurable") or {}
        is_run = any(key.startswith("__pregel_") for key in configurable)
        return self._on_time_travel != "ignore" and is_run and bool(configurable.get("checkpoint_id")) and not record.ns

    def _bring(self, record: Record, values: dict[str, Any]) -> dict[str, Any]:
        """The state of an old checkpoint, after its session was brought there."""
        old = moment_of(record)
        if old is None or self._client is None or self._on_time_travel == "ignore":
            return values
        return replaced(values, old, travel(self._client, old, self._on_time_travel))

    async def _abring(self, record: Record, values: dict[str, Any]) -> dict[str, Any]:
        """The state of an old checkpoint, after its session was brought there."""
        old = moment_of(record)
        if old is None or self._async_client is None or self._on_time_travel == "ignore":
            return values
        return replaced(values, old, await atravel(self._async_client, old, self._on_time_travel))


class Query:
    """What `list` was asked for."""

    def __init__(
        self,
        config: RunnableConfig | None,
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> None:
        configurable = (config or {}).get("configurable") or {}
        self.ns: str | None = configurable.get("checkpoint_ns")
        self._id: str | None = configurable.get("checkpoint_id")
        self._filter = filter or {}
        self._before: str | None = ((before or {}).get("configurable") or {}).get("checkpoint_id")
        self._left = limit

    def choose(self, records: Any) -> list[Record]:
        """The records of a thread that were asked for, newest first."""
        chosen: list[Record] = []
        for record in sorted(records, key=lambda record: str(record.id), reverse=True):
            if self._left is not None and self._left <= 0:
                break
            if (self._id and record.id != self._id) or (self._before and record.id >= self._before):
                continue
            if any(record.metadata.get(key) != value for key, value in self._filter.items()):
                continue
            chosen.append(record)
            self._left = None if self._left is None else self._left - 1
        return chosen


def record_of(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
    ns: str,
    parent: str | None,
) -> Record:
    """A checkpoint without its values."""
    return Record(
        id=checkpoint["id"],
        ns=ns,
        parent=parent,
        ts=checkpoint["ts"],
        v=checkpoint["v"],
        versions=dict(checkpoint["channel_versions"]),
        seen={node: dict(seen) for node, seen in checkpoint["versions_seen"].items()},
        updated=checkpoint.get("updated_channels"),
        metadata=dict(get_checkpoint_metadata(config, metadata)),
        session=find_ref(checkpoint["channel_values"]),
        changed=set(new_versions),
    )


def thread_of(config: RunnableConfig) -> Any:
    """The thread that a config names."""
    thread_id = (config.get("configurable") or {}).get("thread_id")
    if thread_id is None or thread_id == "":
        raise InvalidRequest(
            "thread_id_missing",
            'the config has no thread_id; pass {"configurable": {"thread_id": "…"}} to the graph',
        )
    return thread_id


def find_ref(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """The `session.ref` in a state, if there is one."""
    return next((dict(value) for value in values.values() if _graph.is_ref(value)), None)


def replaced(values: Mapping[str, Any], old: SessionRef, new: SessionRef) -> dict[str, Any]:
    """A state with another session in it."""
    return {
        channel: {**value, **new} if _graph.is_ref(value) and value["session_id"] == old["session_id"] else value
        for channel, value in values.items()
    }


def moment_of(record: Record) -> SessionRef | None:
    """The session's moment of a checkpoint."""
    if record.session is None:
        return None
    return {"session_id": str(record.session["session_id"]), "seq": int(record.session["seq"])}


def thread_config(thread_id: Any, ns: str = "", checkpoint_id: str | None = None) -> RunnableConfig:
    """The config of a checkpoint."""
    configurable = {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}
    return RunnableConfig(configurable={key: value for key, value in configurable.items() if value is not None})


def numbered(writes: Sequence[tuple[str, Any]]) -> Sequence[tuple[int, str, Any]]:
    """Writes with their index; special channels have one of their own below zero."""
    return [(WRITES_IDX_MAP.get(channel, index), channel, value) for index, (channel, value) in enumerate(writes)]


def needed(checkpoint_id: str | None) -> str:
    """The checkpoint that writes belong to."""
    if checkpoint_id is None:
        raise InvalidRequest("checkpoint_id_missing", "writes belong to a checkpoint; the config must name it")
    return checkpoint_id


def checked(strategy: str) -> str:
    """A strategy of `prune`."""
    if strategy not in ("keep_latest", "delete"):
        raise InvalidRequest("invalid_request", f"no strategy '{strategy}'; use 'keep_latest' or 'delete'")
    return strategy


def histories(
    channels: Sequence[str], found: Mapping[str, tuple[list[tuple[str, str, Any]], list[Any]]]
) -> dict[str, DeltaChannelHistory]:
    """What LangGraph rebuilds delta channels from."""
    result: dict[str, DeltaChannelHistory] = {}
    for channel in channels:
        writes, seed = found.get(channel, ([], []))
        entry = DeltaChannelHistory(writes=writes)
        if seed:
            entry["seed"] = seed[0]
        result[channel] = entry
    return result
