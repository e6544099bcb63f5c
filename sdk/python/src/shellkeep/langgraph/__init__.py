"""LangGraph: checkpoints and long-term memory in shellkeep, and a shell that travels with the graph.

    from shellkeep.langgraph import ShellkeepSaver

    graph = builder.compile(checkpointer=ShellkeepSaver())
    graph.invoke({"messages": [("user", "hi")]}, {"configurable": {"thread_id": "demo"}})
"""

from __future__ import annotations

from .._graph import DamagedThread, Stale, ThreadUsage, UnknownType, UnserialisableState, session_id
from .resume import aresume_session, astream_session, resume_session
from .saver import ShellkeepSaver
from .store import ShellkeepStore
from .travel import atravel, travel

__all__ = [
    "DamagedThread",
    "ShellkeepSaver",
    "ShellkeepStore",
    "Stale",
    "ThreadUsage",
    "UnknownType",
    "UnserialisableState",
    "aresume_session",
    "astream_session",
    "atravel",
    "resume_session",
    "session_id",
    "travel",
]
