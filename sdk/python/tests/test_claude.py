"""Claude Agent SDK: its own contracts for session stores, and the options that put our tools in Bash's place."""

from __future__ import annotations

import uuid

from claude_agent_sdk.testing import run_session_store_conformance

import shellkeep
from shellkeep.claude import ShellkeepSessionStore, options


async def test_the_published_contracts(aclient: shellkeep.AsyncClient) -> None:
    await run_session_store_conformance(lambda: ShellkeepSessionStore(aclient, prefix=f"c{uuid.uuid4().hex[:8]}"))


async def test_a_transcript_is_there_for_the_next_process(
    client: shellkeep.Client, aclient: shellkeep.AsyncClient, thread: str
) -> None:
    key = {"project_key": "/home/ann/a b", "session_id": thread}
    await ShellkeepSessionStore(aclient).append(key, [{"type": "user", "uuid": "1"}])  # type: ignore[arg-type]
    other = ShellkeepSessionStore(client)
    await other.append(key, [{"type": "user", "uuid": "1"}, {"type": "title"}])  # type: ignore[arg-type]
    assert await other.load(key) == [{"type": "user", "uuid": "1"}, {"type": "title"}]  # type: ignore[arg-type]
    await other.aclose()


def test_our_tools_take_the_place_of_bash() -> None:
    made = options("demo", disallowed_tools=["WebSearch"], mcp_servers={"other": {"command": "x"}})
    assert made.disallowed_tools == ["WebSearch", "Bash"]
    assert "mcp__shellkeep__run_command" in made.allowed_tools
    assert isinstance(made.mcp_servers, dict)
    assert made.mcp_servers["shellkeep"]["args"] == ["mcp", "-s", "demo"]  # type: ignore[typeddict-item]
    assert "other" in made.mcp_servers
