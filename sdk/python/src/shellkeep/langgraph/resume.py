"""Going on with a graph: load its state, add a message, continue from the last node."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal, overload

from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from langgraph.types import Command, StateSnapshot

from ..errors import SessionNotFound


@overload
def resume_session(
    graph: Pregel[Any, Any, Any, Any],
    session_id: str,
    new_message: Any,
    *,
    stream: Literal[False] = False,
    key: str = "messages",
    config: RunnableConfig | None = None,
) -> Any: ...


@overload
def resume_session(
    graph: Pregel[Any, Any, Any, Any],
    session_id: str,
    new_message: Any,
    *,
    stream: Literal[True],
    key: str = "messages",
    config: RunnableConfig | None = None,
) -> Iterator[Any]: ...


def resume_session(
    graph: Pregel[Any, Any, Any, Any],
    session_id: str,
    new_message: Any,
    *,
    stream: bool = False,
    key: str = "messages",
    config: RunnableConfig | None = None,
) -> Any:
    """Sends a message to the graph of a session and returns its new state, or with `stream` its updates as they come.

    A graph that waits in an `interrupt` gets the message as its answer. One that was cut off first finishes the step it
    was in. `session_id` is the graph's `thread_id`; `key` is the channel of the messages.
    """
    settled = with_thread(config, session_id)
    snapshot = found(graph.get_state(settled), session_id)
    if snapshot.next and not snapshot.interrupts:
        graph.invoke(None, settled)
        snapshot = graph.get_state(settled)
    update = step(snapshot, new_message, key)
    return graph.stream(update, settled) if stream else graph.invoke(update, settled)


async def aresume_session(
    graph: Pregel[Any, Any, Any, Any],
    session_id: str,
    new_message: Any,
    *,
    key: str = "messages",
    config: RunnableConfig | None = None,
) -> Any:
    """The same as `resume_session`, to be awaited."""
    settled = with_thread(config, session_id)
    snapshot = found(await graph.aget_state(settled), session_id)
    if snapshot.next and not snapshot.interrupts:
        await graph.ainvoke(None, settled)
        snapshot = await graph.aget_state(settled)
    return await graph.ainvoke(step(snapshot, new_message, key), settled)


async def astream_session(
    graph: Pregel[Any, Any, Any, Any],
    session_id: str,
    new_message: Any,
    *,
    key: str = "messages",
    config: RunnableConfig | None = None,
) -> AsyncIterator[Any]:
    """The same as `resume_session` with `stream`, for `async for`."""
    settled = with_thread(config, session_id)
    snapshot = found(await graph.aget_state(settled), session_id)
    if snapshot.next and not snapshot.interrupts:
        await graph.ainvoke(None, settled)
        snapshot = await graph.aget_state(settled)
    async for update in graph.astream(step(snapshot, new_message, key), settled):
        yield update


def with_thread(config: RunnableConfig | None, session_id: str) -> RunnableConfig:
    """The config of a thread, with what the caller gave."""
    merged: RunnableConfig = {**(config or {})}
    merged["configurable"] = {**((config or {}).get("configurable") or {}), "thread_id": session_id}
    return merged


def found(snapshot: StateSnapshot, session_id: str) -> StateSnapshot:
    """The state of a graph that has one."""
    if snapshot.created_at is None:
        raise SessionNotFound(
            "graph_state_not_found",
            f"the graph has no state for session '{session_id}'; start it with graph.invoke, and check that it was "
            "compiled with a checkpointer",
        )
    return snapshot


def step(snapshot: StateSnapshot, new_message: Any, key: str) -> Any:
    """What goes into the graph."""
    if snapshot.interrupts:
        return Command(resume=new_message)
    message = ("user", new_message) if isinstance(new_message, str) else new_message
    return {key: [message]}
