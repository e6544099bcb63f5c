"""Claude Agent SDK: shellkeep's tools in place of Bash, and transcripts in durable sessions.

    from claude_agent_sdk import ClaudeSDKClient
    from shellkeep.claude import ShellkeepSessionStore, options

    ClaudeSDKClient(options("demo", session_store=ShellkeepSessionStore()))

Needs `shellkeep[claude]`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, cast

from claude_agent_sdk import ClaudeAgentOptions, fold_session_summary
from claude_agent_sdk.types import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
)

from ._async.client import AsyncClient
from ._async.session import AsyncSession
from ._binary import find_bin
from ._clients import Clients
from ._gate import AsyncGate
from ._sync.client import Client
from .errors import SessionNotFound
from .models import SessionInfo

__all__ = ["TOOLS", "ShellkeepSessionStore", "options"]

#: The tools of `shellkeep mcp` that a model may use without asking.
TOOLS = ("run_command", "start_service", "stop_service", "list_services", "read_output", "send_input")
ENTRY = "x_claude.entry"


def options(session: str, **more: Any) -> ClaudeAgentOptions:
    """Options in which shellkeep's tools take the place of Bash; `more` are options of your own."""
    server = {"command": str(find_bin()), "args": ["mcp", "-s", session]}
    more["mcp_servers"] = {**more.get("mcp_servers", {}), "shellkeep": server}
    more["disallowed_tools"] = [*more.get("disallowed_tools", []), "Bash"]
    more["allowed_tools"] = [*more.get("allowed_tools", []), *(f"mcp__shellkeep__{name}" for name in TOOLS)]
    return ClaudeAgentOptions(**more)


class ShellkeepSessionStore(SessionStore):
    """Transcripts as events of sessions, one session for each transcript, listed by the agent of their project."""

    def __init__(self, client: Client | AsyncClient | None = None, *, prefix: str = "claude") -> None:
        self._clients = Clients(client)
        self._prefix = prefix
        self._gate = AsyncGate()

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        if not entries:
            return
        # One at a time, so that neither an entry nor the summary is folded twice.
        async with self._gate:
            session = await self._clients.awaited.session(self._name(key), agent=self._agent(key["project_key"]), config=dict(key))
            known = {entry["uuid"] for entry in await self._entries(session) if "uuid" in entry}
            fresh: list[SessionStoreEntry] = []
            for entry in entries:
                if entry.get("uuid") not in known:
                    fresh.append(entry)
                    known.add(entry.get("uuid", ""))
                known.discard("")
            if not fresh:
                return
            await session.events.post_all([{"event_type": ENTRY, "data": {"entry": entry}} for entry in fresh])
            if "subpath" not in key:
                await self._fold(session, key, fresh)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        try:
            session = await self._clients.awaited.attach(self._name(key))
        except SessionNotFound:
            return None
        return await self._entries(session)

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        return [
            SessionStoreListEntry(session_id=info.agent_config["session_id"], mtime=_mtime(info))
            async for info in self._sessions(project_key)
            if "subpath" not in info.agent_config
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        found: list[SessionSummaryEntry] = []
        async for info in self._sessions(project_key):
            if "subpath" in info.agent_config:
                continue
            summary = await self._summary(await self._clients.awaited.attach(info.session_id))
            if summary is not None:
                found.append({**summary, "mtime": _mtime(info)})
        return found

    async def delete(self, key: SessionKey) -> None:
        names = [self._name(key)]
        if "subpath" not in key:
            names += [info.session_id async for info in self._parts(key["project_key"], key["session_id"])]
        for name in names:
            try:
                await (await self._clients.awaited.attach(name)).delete()
            except SessionNotFound:
                continue

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        parts = self._parts(key["project_key"], key["session_id"])
        return [str(info.agent_config["subpath"]) async for info in parts]

    async def aclose(self) -> None:
        """Closes idle connections. Transcripts stay."""
        await self._clients.aclose()

    def _name(self, key: SessionKey) -> str:
        text = json.dumps([key["project_key"], key["session_id"], key.get("subpath")])
        return f"{self._prefix}-{hashlib.sha256(text.encode()).hexdigest()[:40]}"

    def _agent(self, project_key: str) -> str:
        return f"{self._prefix}-{hashlib.sha256(project_key.encode()).hexdigest()[:40]}"

    def _sessions(self, project_key: str) -> AsyncIterator[SessionInfo]:
        return self._clients.awaited.sessions(agent=self._agent(project_key))

    async def _parts(self, project_key: str, session_id: str) -> AsyncIterator[SessionInfo]:
        async for info in self._sessions(project_key):
            if info.agent_config["session_id"] == session_id and "subpath" in info.agent_config:
                yield info

    async def _entries(self, session: AsyncSession) -> list[SessionStoreEntry]:
        return [cast(SessionStoreEntry, event.data["entry"]) async for event in session.events.list(type=ENTRY)]

    async def _summary(self, session: AsyncSession) -> SessionSummaryEntry | None:
        found = await session.agent_state.get()
        return None if found is None else cast(SessionSummaryEntry, json.loads(found[0]))

    async def _fold(self, session: AsyncSession, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        folded = fold_session_summary(await self._summary(session), key, entries)
        await session.agent_state.put(json.dumps(folded).encode(), content_type="application/json")


def _mtime(info: SessionInfo) -> int:
    moment = datetime.fromisoformat(info.last_active_at[:26].rstrip("Z") + "+00:00")
    return int(moment.timestamp() * 1000)
