"""An agent of the OpenAI Agents SDK: its shell and its memory in one session.

    python openai_agent.py
"""

from __future__ import annotations

import asyncio
from typing import Any

from agents import Agent, Runner, ShellTool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message
from openai.types.responses.response_function_shell_tool_call import Action, ResponseFunctionShellToolCall

import shellkeep
from shellkeep.openai import ShellkeepMemory, shell_executor


def call(call_id: str, *commands: str) -> Any:
    """What a model answers that wants to run commands."""
    return ResponseFunctionShellToolCall(
        id=f"sh_{call_id}",
        call_id=call_id,
        type="shell_call",
        status="completed",
        action=Action(commands=list(commands), timeout_ms=None, max_output_length=None),
        environment=None,
    )


async def main() -> None:
    set_tracing_disabled(True)
    async with shellkeep.AsyncClient.local() as client:
        session = await client.session("demo")
        steps = [[call("1", "cd /usr/share", "export NAME=ann")], [assistant_message("done")]]
        steps += [[call("2", 'echo "$NAME in $PWD"')], [assistant_message("done")]]
        agent = Agent(
            name="demo", model=ScriptedModel(steps), tools=[ShellTool(executor=shell_executor(session))]
        )
        memory = ShellkeepMemory(session)
        await Runner.run(agent, "remember my name", session=memory)
        await Runner.run(agent, "what is it?", session=memory)
        items: list[Any] = list(await ShellkeepMemory(session).get_items())
        for item in items:
            print(item.get("role") or item.get("type"), str(item.get("content") or item.get("output") or item.get("action")))
        assert "ann in /usr/share" in str(items)


if __name__ == "__main__":
    asyncio.run(main())
