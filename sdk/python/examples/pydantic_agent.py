"""An agent of Pydantic AI whose second run continues in the session of the first.

    python pydantic_agent.py
"""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, WorkspaceRef
from pydantic_ai.models.function import AgentInfo, FunctionModel

import shellkeep
from shellkeep.pydantic_ai import PROVIDER, ShellkeepCapability


def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A model that runs what the user says and answers with what it printed."""
    last: Any = messages[-1].parts[-1]
    if last.part_kind == "tool-return":
        return ModelResponse(parts=[TextPart(last.content)])
    return ModelResponse(parts=[ToolCallPart("sh", {"command": last.content})])


async def main() -> None:
    with shellkeep.Client.local() as client:
        agent = Agent(FunctionModel(reply), capabilities=[ShellkeepCapability(client)])

        @agent.tool
        async def sh(ctx: RunContext[object], command: str) -> str:
            """Runs a command."""
            assert ctx.workspace is not None
            return (await ctx.workspace.run(command, shell=True)).stdout

        first = await agent.run('export NAME=ann; echo kept > note; basename "$PWD"')
        ref = WorkspaceRef(provider=PROVIDER, id=first.output.strip())
        second = await agent.run('echo "$NAME"; cat note', workspace=ref)
        print(f"session {ref.id}\n{second.output}")
        assert second.output == "ann\nkept\n"


if __name__ == "__main__":
    asyncio.run(main())
