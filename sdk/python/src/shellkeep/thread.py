"""What a framework's state holds of a session: plain data, and how two of it become one."""

from __future__ import annotations

from typing import TypedDict


class ThreadRef(TypedDict):
    """A session, the last record that the thread has seen of it, and the step of the graph that saw it."""

    session_id: str
    seq: int
    step: str


def newer(old: ThreadRef | None, new: ThreadRef | None) -> ThreadRef | None:
    """Which of two counts, where tool calls ran at the same time: of one session the later one, else the new one."""
    if old is None or new is None:
        return new or old
    if old["session_id"] == new["session_id"] and old["seq"] > new["seq"]:
        return old
    return new
